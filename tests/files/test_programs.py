"""Exports of other programs become memories: what is seen there is here, once, and says where it came from."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runner import Run

pytestmark = pytest.mark.requirement("N20")


def _node(name: str, parent: str | None, role: str, *parts: Any, **facts: Any) -> dict[str, Any]:
    message = {"id": f"m-{name}", "author": {"role": role}, "create_time": 1700000000.5, "content": {"parts": parts}}
    return {"id": name, "parent": parent, "children": [], "message": {**message, "metadata": facts}}


CHATGPT: list[dict[str, Any]] = [
    {
        "title": "Tea in Oslo",
        "create_time": 1700000000.0,
        "conversation_id": "c-1",
        "current_node": "d",
        "mapping": {
            "root": {"id": "root", "parent": None, "message": None},
            "a": _node("a", "root", "system", "Be kind", is_visually_hidden_from_conversation=True),
            "b": _node("b", "a", "user", {"asset_pointer": "file://cup.png"}, "Where is good tea in Oslo?"),
            "c": _node("c", "b", "assistant", "An answer that was regenerated"),
            "d": _node("d", "b", "assistant", "At the harbour."),
        },
    },
    {"title": "A circle", "id": "c-2", "current_node": "x", "mapping": {"x": _node("x", "x", "user", "round")}},
]
CLAUDE: dict[str, Any] = {
    "conversations.json": [
        {
            "uuid": "k-1",
            "name": "Parcels",
            "created_at": "2025-01-01T10:00:00Z",
            "chat_messages": [
                {"uuid": "u1", "sender": "human", "text": "Parcels go to Graz", "created_at": "2025-01-01T10:00:01Z"},
                {
                    "uuid": "u2",
                    "sender": "assistant",
                    "text": "",
                    "content": [{"type": "text", "text": "Noted."}, {"type": "tool_use", "name": "x"}],
                },
            ],
        }
    ],
    "memories.json": [{"account_uuid": "me", "conversations_memory": "Works in logistics", "project_memories": {}}],
    "projects.json": [
        {
            "uuid": "p",
            "name": "Depot",
            "prompt_template": "Be brief",
            "docs": [{"filename": "a.md", "content": "Doors"}],
        }
    ],
    "users.json": [{"uuid": "me"}],
}
LETTA: dict[str, Any] = {
    "agents": [
        {
            "name": "clerk",
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "You are"}]},
                {"role": "user", "content": '{"type": "user_message", "message": "Hello clerk"}'},
                {"role": "user", "content": '{"type": "heartbeat", "reason": "x"}'},
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "a thought"}],
                    "tool_calls": [{"function": {"name": "send_message", "arguments": '{"message": "Hello you"}'}}],
                },
            ],
        }
    ],
    "blocks": [{"label": "human", "value": "The user is called Ann", "description": "about the user"}],
}
OBSERVED = {
    "id": 7,
    "memory_session_id": "s-1",
    "project": "shop",
    "type": "bugfix",
    "title": "Lock file",
    "narrative": "The lock file was stale.",
    "facts": '["Deploys remove it"]',
    "concepts": '["deploy"]',
    "created_at_epoch": 1700000000000,
}
CLAUDE_MEM = {
    "observations": [OBSERVED],
    "summaries": [{"id": 1, "memory_session_id": "s-1", "request": "Fix the deploy", "learned": "Locks go stale"}],
    "prompts": [],
}


def _imported(run: Run, path: Path, name: str, stored: int) -> dict[str, dict[str, Any]]:
    """The memories by their text. A dry run says as much, and a second import changes nothing."""
    planned = run("import", str(path), "--dry-run", "--json").json
    assert (planned["format"], planned["stored"], run("list", "--json").json["memories"]) == (name, stored, [])
    taken = run("import", str(path), "--json").json
    assert (taken["stored"], taken["problems"]) == (stored, [])
    again = run("import", str(path), "--json").json
    assert (again["stored"], again["revised"], again["unchanged"]) == (0, 0, stored)
    found = {one["content"]: one for one in run("list", "--json").json["memories"]}
    assert {one["origin"] for one in found.values()} == {"import"}
    return found


def test_the_branch_of_a_chatgpt_conversation_that_is_seen_is_a_thread(run: Run, tmp_path: Path) -> None:
    (tmp_path / "conversations.json").write_text(json.dumps(CHATGPT))
    found = _imported(run, tmp_path / "conversations.json", "chatgpt", 3)
    assert set(found) == {"Where is good tea in Oslo?", "At the harbour.", "round"}
    said = found["At the harbour."]
    assert (said["scope"]["context_id"], said["significance"], said["tags"]) == ("c-1", 0.3, ["chatgpt", "assistant"])
    assert said["created_at"].startswith("2023-11-14T22:13:20")
    assert "Tea in Oslo" in {one["title"] for one in run("threads", "list", "--json").json["threads"]}


def test_all_files_of_a_claude_export_are_read_from_its_archive(run: Run, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in CLAUDE.items():
            archive.writestr(name, json.dumps(content))
    found = _imported(run, tmp_path / "data.zip", "claude", 5)
    assert set(found) == {"Parcels go to Graz", "Noted.", "Works in logistics", "Be brief", "Doors"}
    assert (found["Works in logistics"]["title"], found["Doors"]["title"]) == ("What Claude remembers", "Depot › a.md")


def test_core_memory_and_messages_of_a_letta_agent_are_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "clerk.af").write_text(json.dumps(LETTA))
    found = _imported(run, tmp_path / "clerk.af", "letta", 3)
    assert set(found) == {"The user is called Ann", "Hello clerk", "Hello you"}
    assert found["The user is called Ann"]["key"] == "letta.clerk.human"


def test_claude_mem_is_read_from_its_export_and_from_its_database(run: Run, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(json.dumps(CLAUDE_MEM))
    found = _imported(run, tmp_path / "export.json", "claude-mem", 2)
    text = "The lock file was stale.\n\n- Deploys remove it"
    assert (found[text]["title"], found[text]["tags"]) == ("Lock file", ["bugfix", "deploy"])
    assert (found[text]["scope"]["context_id"], found[text]["metadata"]["project"]) == ("s-1", "shop")
    with closing(sqlite3.connect(tmp_path / "claude-mem.db")) as database:
        database.execute(f"CREATE TABLE observations ({', '.join(OBSERVED)})")
        database.execute(f"INSERT INTO observations VALUES ({', '.join('?' * len(OBSERVED))})", [*OBSERVED.values()])  # noqa: S608
        database.commit()
    taken = run("import", str(tmp_path / "claude-mem.db"), "--json").json
    assert (taken["format"], taken["stored"], taken["unchanged"]) == ("claude-mem", 0, 1)


LANGGRAPH = """
    CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key));
    INSERT INTO store (prefix, key, value, ttl_minutes)
        VALUES ('users.ann', 'profile', CAST('{"city": "Oslo"}' AS BLOB), NULL);
"""


def test_the_items_of_a_langgraph_store_are_documents_where_our_store_looks(run: Run, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as database:
        database.executescript(LANGGRAPH)
    for documents in (1, 0):
        taken = run("import", str(tmp_path / "store.db"), "--json").json
        assert (taken["format"], taken.get("documents", 0), taken["problems"]) == ("langgraph", documents, [])
    assert run("documents", "get", "langgraph/users/ann", "profile", "--json").json["value"] == {"city": "Oslo"}


def test_archives_and_databases_that_hold_nothing_known_are_refused_in_a_sentence(run: Run, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("a.json", "[1]")
        archive.writestr("../../b.json", "{")
    assert "archive without an export that is known" in run("import", str(tmp_path / "photos.zip")).err
    (tmp_path / "cut.zip").write_bytes((tmp_path / "photos.zip").read_bytes()[:60])
    assert "no archive that can be read" in run("import", str(tmp_path / "cut.zip")).err
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        database.executescript(
            "CREATE VIEW store AS SELECT 1 AS prefix, 2 AS key, 3 AS value, 4 AS created_at, 5 AS updated_at"
        )
    assert "is a database" in run("import", str(tmp_path / "views.db")).err
    (tmp_path / "views.db").write_bytes(b"SQLite format 3\x00" + b"x" * 500)
    assert "cannot be read as a database" in run("import", str(tmp_path / "views.db")).err
