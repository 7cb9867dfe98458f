"""Files of other programs, and standard input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kingly_memory.adapters.files import programs
from tests.cli_runner import Run

MEM0 = {
    "id": "8a6f1c0e-1111-4222-8333-444455556666",
    "memory": "Ann likes tea",
    "hash": "5d41402abc4b2a76b9719d911017c592",
    "metadata": {"source": "chat"},
    "categories": ["food"],
    "created_at": "2024-07-20T01:30:36.275141-07:00",
    "updated_at": None,
    "user_id": "ann",
    "agent_id": "waiter",
    "run_id": "lunch",
}


@pytest.mark.requirement("N20")
@pytest.mark.parametrize("told", [[MEM0], {"results": [MEM0]}, {"memories": [MEM0]}])
def test_memories_of_mem0_keep_time_scope_and_categories(run: Run, tmp_path: Path, told: object) -> None:
    (tmp_path / "all.json").write_text(json.dumps(told, indent=1))
    taken = run("import", str(tmp_path / "all.json"), "--json").json
    assert (taken["format"], taken["stored"]) == ("mem0", 1)
    assert taken["users"] == ["ann"]
    memory = run("get", str(MEM0["id"]), "--user", "ann", "--json").json
    assert (memory["content"], memory["tags"]) == ("Ann likes tea", ["food"])
    assert (memory["scope"]["agent"], memory["scope"]["context_id"]) == ("waiter", "lunch")
    assert memory["created_at"].startswith("2024-07-20T08:30:36")
    assert {"source": "chat", "user_id": "ann"}.items() <= memory["metadata"].items()
    assert run("import", str(tmp_path / "all.json"), "--json").json["unchanged"] == 1


def test_keys_and_values_are_none_of_mem0s() -> None:
    assert programs.mem0([{"key": "a", "value": "b"}, {"key": "c", "value": "d", "memory": "e"}]) is None


@pytest.mark.requirement("N20")
def test_entities_and_relations_of_the_reference_server_are_memories(run: Run, tmp_path: Path) -> None:
    lines = [
        {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["likes tea", "lives in Oslo"]},
        {"type": "entity", "name": "Kingly", "entityType": "project", "observations": []},
        {"type": "relation", "from": "Ann", "to": "Kingly", "relationType": "maintains"},
        {"type": "relation", "from": "Ann", "to": "nobody", "relationType": "knows"},
    ]
    (tmp_path / "memory.json").write_text("\n".join(map(json.dumps, lines)))
    for stored in (4, 0):
        ran = run("import", str(tmp_path / "memory.json"), "--json")
        assert (ran.json["stored"], ran.json["problems"]) == (stored, [])
    ann = run("get", "Ann", "--json").json
    assert (ann["content"], ann["tags"]) == ("Ann (person)\n- likes tea\n- lives in Oslo", ["graph", "person"])
    texts = {one["content"] for one in run("list", "--tag", "graph", "--json").json["memories"]}
    assert {"Ann maintains Kingly", "Ann knows nobody"} < texts


@pytest.mark.requirement("N20")
@pytest.mark.parametrize(
    ("name", "text", "bad"),
    [
        (
            "all.json",
            json.dumps([{**MEM0, "memory": None}, MEM0, {"user_id": "ann"}, None]),
            ["item 1", "item 3", "item 4"],
        ),
        ("memory.json", '{"type": "entity", "name": "Ann", "entityType": "person"}', ["line 1"]),
        (
            "memory.json",
            '[]\n{"type": "relation", "from": "Ann", "to": "tea", "relationType": "likes tea"}',
            ["line 1"],
        ),
    ],
)
def test_what_is_odd_in_a_file_of_another_program_is_named(
    run: Run, tmp_path: Path, name: str, text: str, bad: list[str]
) -> None:
    (tmp_path / name).write_text(text)
    taken = run("import", str(tmp_path / name), "--json").json
    assert (taken["stored"], [one["place"] for one in taken["problems"]]) == (text.count("likes tea"), bad)


def test_standard_input_is_jsonl_whose_bad_lines_are_numbered_or_one_text(run: Run) -> None:
    ran = run("import", "-", stdin=b'{"content": "one"}\nno json\n{"content": "two"}\n')
    assert (ran.code, "2 new" in ran.out) == (1, True)
    assert "standard input, line 2: json: cannot be read" in ran.err
    for stored in (1, 0):
        assert run("import", "-", "--json", stdin="# Größe\r\n\nmatters".encode()).json["stored"] == stored
    [note] = [one for one in run("list", "--json").json["memories"] if one["title"]]
    assert (note["content"], note["title"]) == ("# Größe\r\n\nmatters", "Größe")
    assert run("import", "-", stdin=b"").err == "kingly-memory: json: standard input is empty\n"


def test_a_dry_run_of_a_file_counts_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_text('{"content": "one"}\n{"link": {"source": "a", "target": "b"}}\n')
    ran = run("import", str(tmp_path / "some.jsonl"), "--dry-run", "--json")
    assert (ran.json["dry_run"], ran.json["stored"]) == (True, 1)
    run("import", str(tmp_path / "some.jsonl"), "--dry-run", "--home", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    assert run("status", "--json").json["memories"]["total"] == 0
