"""Anthropic's memory tool over documents: the words models know, paths that stay inside, what is kept of edits."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kingly_memory import InvalidInput, MemoryRouter, SyncMemoryRouter
from kingly_memory.api.documents import Documents
from kingly_memory.documents import Put
from tests.chat_server import chatting, reply
from tests.cli_runner import ROOT, environment

anthropic: Any = pytest.importorskip("anthropic", reason="anthropic is not installed; `make conformance` installs it")
from kingly_memory.integrations.anthropic import AsyncKinglyMemoryTool, KinglyMemoryTool  # noqa: E402  # needs the SDK

PAGE = ROOT / "docs" / "integrations" / "anthropic.md"
ToolError: Any = anthropic.tools.ToolError
NOTES = "/memories/notes.md"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SyncMemoryRouter]:
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, project="shop") as opened:
        yield opened


@pytest.fixture
def tool(memory: SyncMemoryRouter) -> KinglyMemoryTool:
    return KinglyMemoryTool(memory)


def told(tool: Any, command: str, **how: Any) -> Any:
    """As the SDK's runner calls it: nothing has checked what the model said."""
    return tool.call({"command": command, **how})


def lines(tool: Any, path: str = NOTES) -> list[str]:
    return [line.split("\t")[1] for line in told(tool, "view", path=path).splitlines()[1:]]


def test_a_file_is_written_edited_and_viewed_in_the_words_of_the_sdk(tool: KinglyMemoryTool) -> None:
    assert told(tool, "create", path=NOTES, file_text="one\ntwo \0 😀\n") == f"File created successfully at: {NOTES}"
    edited = told(tool, "str_replace", path=NOTES, old_str="one", new_str="1\n1½")
    assert edited.endswith("(with line numbers):\n     1\t1\n     2\t1½\n     3\ttwo \0 😀")
    assert (
        told(tool, "insert", path=NOTES, insert_line=3, insert_text="three\n") == f"The file {NOTES} has been edited."
    )
    assert lines(tool) == ["1", "1½", "two \0 😀", "three", ""]
    assert told(tool, "view", path=NOTES, view_range=[3, 4]).splitlines()[1:] == ["     3\ttwo \0 😀", "     4\tthree"]
    assert told(tool, "view", path=NOTES, view_range=[4, -1]).splitlines()[1:] == ["     4\tthree", "     5\t"]
    assert tool.to_dict()["type"] == "memory_20250818"


def test_a_directory_shows_two_levels_with_sizes_and_nothing_hidden(tool: KinglyMemoryTool) -> None:
    assert told(tool, "view", path="/memories").endswith("excluding hidden items:\n0B\t/memories")
    for path, size in {
        "a.md": 1536,
        "trips/oslo.md": 3,
        "trips/far/away/rio.md": 2,
        ".seen": 9,
        "trips/.x/y": 9,
    }.items():
        told(tool, "create", path=f"/memories/{path}", file_text="x" * size)
    assert told(tool, "view", path="/memories/").splitlines()[1:] == [
        "1.5K\t/memories",
        "1.5K\t/memories/a.md",
        "5B\t/memories/trips/",
        "2B\t/memories/trips/far/",
        "3B\t/memories/trips/oslo.md",
    ]


def test_files_are_found_by_words_and_belong_to_their_user(memory: SyncMemoryRouter, tool: KinglyMemoryTool) -> None:
    told(tool, "create", path="/memories/trips/oslo.md", file_text="The ferry leaves at noon")
    (found,) = memory.documents.search("memories", "ferry")
    assert (found.document.namespace, found.document.key) == (("memories", "trips"), "oslo.md")
    other = KinglyMemoryTool(memory.scoped(user="omar"))
    assert lines(other, "/memories") == ["/memories"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/memories2/x", "must start with /memories"),
        ("memories/x", "must start with /memories"),
        ("", "must start with /memories"),
        ("/memories/../etc/passwd", "would escape"),
        ("/memories/a/../../b", "would escape"),
        ("/memories/%2e%2e/b", "would escape"),
        ("/memories/a%2Fb", "would escape"),
        ("/memories/..\\b", "would escape"),
        ("/memories/a\0b", "would escape"),
        ("/memories/a\u200bb", "cannot be seen"),
        ("/memories/a\nb", "cannot be seen"),
        ("/memories/\ud800", "half of a surrogate pair"),
        ("/memories/" + "x" * 600, "at most 512"),
        ("/memories/" + "x/" * 40, "at most 32"),
        (None, "`path` parameter"),
        (7, "`path` parameter"),
    ],
)
def test_no_path_leads_out_of_the_memory(
    tool: KinglyMemoryTool, memory: SyncMemoryRouter, path: Any, problem: str
) -> None:
    with pytest.raises(ToolError, match=problem):
        told(tool, "create", path=path, file_text="x")
    assert memory.documents.list() == ()


@pytest.mark.parametrize("path", ["/memories/é/./b", "/memories//é/c/../b/", "/memories/e\u0301/b"])
def test_a_path_has_one_form(tool: KinglyMemoryTool, path: str) -> None:
    told(tool, "create", path=path, file_text="x")
    assert lines(tool, "/memories/é") == ["/memories/é", "/memories/é/b"]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("create", {"path": NOTES, "file_text": "x"}, f"File {NOTES} already exists"),
    ("create", {"path": "/memories/trips", "file_text": "x"}, "File /memories/trips already exists"),
    ("create", {"path": f"{NOTES}/below", "file_text": "x"}, f"{NOTES} is not a directory"),
    ("create", {"path": "/memories/new", "file_text": "\udfff"}, "half of a surrogate pair"),
    ("create", {"path": "/memories/new", "file_text": "x" * 16 * 2**20}, "at most 16,777,216"),
    ("create", {"path": "/memories/new"}, "`file_text` parameter"),
    ("view", {"path": "/memories/new"}, "does not exist. Please provide a valid path."),
    ("view", {"path": NOTES, "view_range": [1]}, "two line numbers"),
    ("view", {"path": NOTES, "view_range": ["a", "b"]}, "two line numbers"),
    ("str_replace", {"path": NOTES, "old_str": "a", "new_str": "b"}, "lines: 1, 2. Please ensure it is unique"),
    ("str_replace", {"path": NOTES, "old_str": "", "new_str": "b"}, "did not appear verbatim"),
    ("str_replace", {"path": NOTES, "old_str": "z"}, "`new_str` parameter"),
    ("str_replace", {"path": "/memories/trips", "old_str": "a", "new_str": "b"}, "/memories/trips is not a file"),
    ("insert", {"path": NOTES, "insert_line": 3, "insert_text": "x"}, r"within the range \[0, 2\]"),
    ("insert", {"path": NOTES, "insert_line": "x", "insert_text": "x"}, "`insert_line` parameter"),
    ("delete", {"path": "/memories/"}, "Cannot delete the /memories directory itself"),
    ("delete", {"path": "/memories/new"}, "does not exist"),
    ("rename", {"old_path": "/memories", "new_path": "/memories/x"}, "Cannot rename the /memories directory itself"),
    ("rename", {"old_path": "/memories/new", "new_path": "/memories/x"}, "does not exist"),
    ("rename", {"old_path": NOTES, "new_path": "/memories"}, "destination /memories already exists"),
    ("rename", {"old_path": NOTES, "new_path": "/memories/trips"}, "destination /memories/trips already exists"),
    ("rename", {"old_path": "/memories/trips", "new_path": "/memories/trips/x"}, "lies inside"),
]


@pytest.mark.parametrize(("command", "how", "problem"), WRONG)
def test_what_cannot_be_done_is_an_error_for_the_model_and_changes_nothing(
    memory: SyncMemoryRouter, tool: KinglyMemoryTool, command: str, how: dict[str, Any], problem: str
) -> None:
    told(tool, "create", path=NOTES, file_text="a\na\n")
    told(tool, "create", path="/memories/trips/oslo.md", file_text="b")
    before = memory.documents.list()
    with pytest.raises(ToolError, match=problem):
        told(tool, command, **how)
    assert memory.documents.list() == before


def test_what_an_edit_or_a_deletion_takes_away_can_be_had_back(
    memory: SyncMemoryRouter, tool: KinglyMemoryTool
) -> None:
    told(tool, "create", path=NOTES, file_text="parcels")
    told(tool, "str_replace", path=NOTES, old_str="parcels", new_str="letters")
    told(tool, "insert", path=NOTES, insert_line=0, insert_text="Post")
    told(tool, "delete", path=NOTES)
    assert [one.value for one in tool.history(NOTES)] == ["Post\nletters\n", "letters", "parcels"]
    assert {one.expires_at - one.created_at for one in tool.history(NOTES)} == {timedelta(days=30)}
    assert tool.history("/memories") == ()
    assert not memory.documents.search("", "parcels")
    assert not memory.documents.search("memories", "letters")
    assert tool.restore(NOTES, int(tool.history(NOTES)[2].key)) == f"The file {NOTES} has been edited."
    assert lines(tool) == ["parcels"]
    tool.restore(NOTES, tool.history(NOTES)[0].key)
    assert tool.history(NOTES)[0].value == "parcels"
    with pytest.raises(ToolError, match="No version 99 of"):
        tool.restore(NOTES, 99)
    assert tool.clear_all_memory() == "All memory cleared"
    assert (memory.documents.list(), tool.history(NOTES)) == ((), ())


def test_a_folder_is_moved_and_deleted_with_all_that_is_in_it(memory: SyncMemoryRouter, tool: KinglyMemoryTool) -> None:
    memory.documents.write([Put("memories/trips/far", f"{number:03}", "x") for number in range(250)])
    told(tool, "rename", old_path="/memories/trips", new_path="/memories/old/trips")
    assert len(lines(tool, "/memories/old/trips/far")) == 251
    with pytest.raises(ToolError, match="does not exist"):
        told(tool, "view", path="/memories/trips")
    told(tool, "delete", path="/memories/old")
    assert lines(tool, "/memories") == ["/memories"]
    assert len(memory.documents.list("memories-earlier", limit=1000)) == 250


async def test_edits_that_come_at_once_are_all_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with MemoryRouter.open(tmp_path / "home", remote=False) as memory:
        tool = AsyncKinglyMemoryTool(memory)
        await told(tool, "create", path=NOTES, file_text="")
        both_have_read, real = asyncio.Barrier(2), Documents.get

        async def read(documents: Documents, *place: Any) -> Any:
            found = await real(documents, *place)
            monkeypatch.setattr(Documents, "get", real if both_have_read.n_waiting else read)
            await both_have_read.wait()
            return found

        monkeypatch.setattr(Documents, "get", read)
        await asyncio.gather(
            *(told(tool, "insert", path=NOTES, insert_line=0, insert_text=word) for word in ("one", "two"))
        )
        assert {"one", "two"} < set((await told(tool, "view", path=NOTES)).split())


async def test_the_awaiting_tool_takes_either_router_and_the_blocking_one_says_which(tool: KinglyMemoryTool) -> None:
    awaiting = AsyncKinglyMemoryTool(tool._memory)
    await told(awaiting, "create", path=NOTES, file_text="x")
    assert lines(tool) == ["x"]
    with pytest.raises(InvalidInput, match="AsyncKinglyMemoryTool takes a MemoryRouter"):
        KinglyMemoryTool(SimpleNamespace())  # type: ignore[arg-type]


def test_json_that_somebody_put_there_is_shown(memory: SyncMemoryRouter, tool: KinglyMemoryTool) -> None:
    memory.documents.put("memories", "notes.md", {"city": "Oslo"})
    assert lines(tool) == ['{"city":"Oslo"}']


def test_a_closed_memory_is_an_error_for_the_model(memory: SyncMemoryRouter, tool: KinglyMemoryTool) -> None:
    memory.close()
    with pytest.raises(ToolError, match="closed"):
        told(tool, "view", path="/memories")


def message(*content: dict[str, Any]) -> Any:
    """A reply of the messages endpoint."""
    stop = "tool_use" if content[0]["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    return reply(
        {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content,
         "stop_reason": stop, "stop_sequence": None, "usage": usage}
    )  # fmt: skip


def use(**command: Any) -> Any:
    return message({"type": "tool_use", "id": "toolu_1", "name": "memory", "input": command})


def test_the_page_s_program_finds_its_files_again_while_the_remote_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, history = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    calls = re.findall(r'assistant.py "(.*)"', PAGE.read_text(encoding="utf-8"))
    path = "/memories/parcels.md"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        remote = f"http://127.0.0.1:{taken.getsockname()[1]}"
    script = [
        [
            use(command="create", path=path, file_text=calls[0]),
            use(command="insert", path=path, insert_line=0, insert_text="#"),
        ],
        [use(command="view", path=path)],
    ]
    seen = ""
    for asked, steps in zip(calls, script, strict=True):
        with chatting(*steps, always=message({"type": "text", "text": "Noted."})) as server:
            keys = {"ANTHROPIC_BASE_URL": server.url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "none"}
            ran = subprocess.run(
                [sys.executable, "-c", program, asked],
                cwd=tmp_path, env=dict(environment(KINGLY_REMOTE=remote, **keys)),
                capture_output=True, text=True, timeout=120, check=True,
            )  # fmt: skip
        assert ran.stdout == f"Noted.\nparcels.md - #\n{calls[0]}\n\n"
        seen = json.dumps(server.asked[-1].payload["messages"])
    assert calls[0] in seen
    monkeypatch.chdir(tmp_path)
    with SyncMemoryRouter.open(remote=False, user="lydia") as memory:
        tool = KinglyMemoryTool(memory)
        exec(history.replace("version=3", "version=1"), {"tool": tool})  # noqa: S102  # our own page
        assert lines(tool, path) == [calls[0]]
