"""Threads as a client of the server meets them, and as somebody at a terminal does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kingly_memory.models import JsonObject
from tests.cli_runner import Run
from tests.mcp_sessions import Session, session
from tests.threads.samples import TOPICS


async def fill(client: Session, *names: str, context_id: str | None = None) -> None:
    for name in names:
        for number, text in enumerate(TOPICS[name]):
            said = {"key": f"{name} {number}", "content": text, "context_id": context_id or name}
            await client.ok("memory_intelligent_store", **said)


async def command(client: Session, printed: str) -> JsonObject:
    """Call what a suggestion prints: `ai_merge('a', 'b')`."""
    tool, given = re.fullmatch(r"(\w+)\((.*)\)", printed).groups()  # type: ignore[union-attr]  # else the test fails
    names = re.findall(r"'([^']*)'", given)
    [listed] = [one for one in (await client.client.list_tools()).tools if one.name == tool]
    return await client.ok(tool, **dict(zip(listed.input_schema["properties"], names, strict=False)))


@pytest.mark.requirement("SMT-021", "SMT-022", "SMT-024")
async def test_every_command_that_a_suggestion_prints_can_be_called(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await fill(client, "deploys", "garden", "orders")
        await fill(client, "travel", "printer", context_id="mixed")
        merged = await command(client, "ai_merge('deploys', 'garden')")
        assert merged["message"] == "Merged garden into deploys: 11 messages (weight=1.00)"
        split = await command(client, "ai_split('mixed')")
        assert [one["message_count"] for one in split["threads"]] == [6, 5]
        recalled = await command(client, "ai_recall('tomatoes')")
        assert [(one["thread_id"], one["recalls"]) for one in recalled["threads"]] == [("deploys", 1)]
        assert recalled["message"] == 'Recalled 1 thread for "tomatoes".'


async def test_a_name_is_told(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await fill(client, "garden")
        named = await client.ok("ai_rename", thread_id="garden", title="Under glass")
        assert (named["thread_id"], named["title"]) == ("garden", "Under glass")


async def test_a_long_message_is_cut_and_named(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await client.ok("memory_intelligent_store", content="tomatoes " * 100, key="long", context_id="t")
        [thread] = (await client.ok("ai_recall", topic="t"))["threads"]
        [message] = thread["messages"]
        assert (message["key"], len(message["content"]), message["content"][-1]) == ("long", 600, "…")


def test_threads_are_listed_shown_merged_split_recalled_and_renamed_at_a_terminal(run: Run) -> None:
    for name in ("deploys", "garden"):
        for text in TOPICS[name]:
            assert run("store", text, "--context", name).code == 0
    listed = run("threads", "list").out.splitlines()
    assert [line.split()[0] for line in listed[1:]] == ["garden", "deploys"]
    merged = run("threads", "merge", "deploys", "garden")
    assert merged.out.splitlines()[0] == "Merged garden into deploys: 11 messages (weight=1.00)"
    shown = run("threads", "show", "garden", "--limit", "2")
    assert "merged into deploys, which is shown here" in shown.out
    assert shown.out.splitlines()[-1] == "more: the same with --first 2"
    assert "\nmore:" not in run("threads", "show", "garden", "--first", "9").out
    assert run("threads", "split", "deploys").out.splitlines()[0] == "split deploys into 2"
    recalled = run("threads", "recall", "tomatoes", "in", "the", "greenhouse").out
    name, _, rest = recalled.splitlines()[1].partition("  ")
    assert rest == "Tomatoes go into the greenhouse in April (5 messages)"
    assert run("threads", "rename", name, "Under glass").out == f"{name} is called Under glass\n"
    assert run("threads", "show", name, "--json").json["recalls"] == 1
    refused = run("threads", "merge", name, name)
    assert (refused.code != 0, "cannot be merged with itself" in refused.err) == (True, True)
    assert "stored with --context" in run("threads", "list", "--project", "elsewhere").out


def test_a_list_of_threads_says_when_there_are_more(run: Run) -> None:
    for number in range(3):
        run("store", f"about number{number}", "--context", f"t{number}")
    cut = run("threads", "list", "--limit", "2").out.splitlines()
    assert [line.split()[0] for line in cut[1:3]] == ["t2", "t1"]
    assert cut[3:] == ["there may be more: --limit shows them"]
    assert len(run("threads", "list", "--limit", "2", "--json").json["threads"]) == 2
    assert "there may be more" not in run("threads", "list", "--limit", "4").out
    for wrong in ("0", "1001"):
        assert (run("threads", "list", "--limit", wrong).code, run("threads", "list", "--limit", wrong).out) == (2, "")
