"""The OpenAI Agents SDK's Session over a log: exact items, nothing half done, and what other conversations taught."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from kingly_memory import InvalidInput, MemoryRouter, RouterClosed, SyncMemoryRouter
from kingly_memory.api.session_log import SessionLog
from kingly_memory.testing import ManualClock, ScriptedRemote
from tests.cli_runner import ROOT, environment
from tests.router_bench import PromptStore, router_over

agents: Any = pytest.importorskip("agents", reason="openai-agents is not installed; `make conformance` installs it")
from kingly_memory.integrations.openai_agents import KinglySession  # noqa: E402  # needs the SDK

PAGE = ROOT / "docs" / "integrations" / "openai-agents.md"
TURNS: list[Any] = [
    {"role": "user", "content": "Grüße 👋 \0 \ud800", "unknown": {"deep": [1, None, 2.5, {"z": "a", "a": "z"}]}},
    {"type": "function_call", "call_id": "1", "name": "track", "arguments": "{}"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "On its way.", "annotations": []}]},
]


async def run(session: KinglySession, text: str, **how: Any) -> list[Any]:
    """What the model gets to read in one run."""
    from agents.testing import ScriptedModel, assistant_message

    model = ScriptedModel([[assistant_message("Noted.")]])
    config = agents.RunConfig(session_input_callback=session.session_input_callback, tracing_disabled=True)
    await agents.Runner.run(agents.Agent(name="clerk", model=model), text, session=session, run_config=config, **how)
    return list(model.calls[-1].input)


async def test_items_come_back_exactly_and_in_order(memory: MemoryRouter) -> None:
    session = KinglySession("talk", memory)
    await session.add_items(TURNS)
    assert await session.get_items() == TURNS
    assert [list(one) for one in await session.get_items()] == [list(one) for one in TURNS]
    assert await KinglySession("talk", memory).get_items(2) == TURNS[1:]
    assert [await session.get_items(limit) for limit in (0, -1, 9)] == [[], [], TURNS]


async def test_it_is_a_session_that_takes_the_context_of_a_run(memory: MemoryRouter) -> None:
    sessions: Any = import_module("agents.memory.session")
    session = KinglySession("talk", memory, session_settings={"limit": 1})
    assert isinstance(session, agents.Session)
    assert sessions._session_accepts_wrapper(session)
    await session.add_items(TURNS)
    assert await session.get_items() == TURNS[-1:]
    assert await session.get_items(limit=2) == TURNS[1:]


async def test_pop_and_clear_leave_other_sessions_alone(memory: MemoryRouter) -> None:
    session, other = KinglySession("talk", memory), KinglySession("other", memory)
    await session.add_items(TURNS)
    await other.add_items(TURNS)
    assert await session.pop_item() == TURNS[2]
    await session.clear_session()
    assert await session.pop_item() is None
    assert await other.get_items() == TURNS


CHANGES: dict[str, Callable[[KinglySession], Any]] = {
    "append": lambda session: session.add_items(TURNS[:1]),
    "pop": lambda session: session.pop_item(),
    "clear": lambda session: session.clear_session(),
}
NOTHING: Callable[[KinglySession], Any] = lambda session: session.add_items([])  # noqa: E731  # as above


@pytest.mark.parametrize("verb", CHANGES)
async def test_a_change_that_was_begun_ends_before_its_caller_is_cancelled(
    memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    session = KinglySession("talk", memory)
    await session.add_items(TURNS)
    begun, go_on, real = asyncio.Event(), asyncio.Event(), getattr(SessionLog, verb)

    async def held(log: SessionLog, *arguments: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await real(log, *arguments)

    monkeypatch.setattr(SessionLog, verb, held)
    change = asyncio.ensure_future(CHANGES[verb](session))
    await begun.wait()
    for _ in range(2):  # an impatient caller
        change.cancel()
        await asyncio.sleep(0)
    assert not change.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await change
    left = {"append": [*TURNS, TURNS[0]], "pop": TURNS[:2], "clear": []}
    assert await session.get_items() == left[verb]


@pytest.mark.parametrize("verb", [*CHANGES, "nothing", "read"])
async def test_a_closed_router_says_so_whatever_is_asked(store: PromptStore, clock: ManualClock, verb: str) -> None:
    memory = router_over(store, None, clock)
    session = KinglySession("talk", memory)
    await session.add_items(TURNS)
    await memory.close()
    with pytest.raises(RouterClosed):
        await {**CHANGES, "nothing": NOTHING, "read": KinglySession.get_items}[verb](session)


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"role": "user", "content": "x" * 16 * 2**20}, "items: has 16,777,2.. bytes as JSON"),
        ({"role": "user", "content": object()}, "items: is no JSON"),
        ({"role": "user", "content": float("nan")}, "items: is no JSON"),
    ],
)
async def test_an_item_that_cannot_be_kept_keeps_all_of_them_out(
    memory: MemoryRouter, item: dict[str, Any], problem: str
) -> None:
    session = KinglySession("talk", memory, recall=True)
    items: list[Any] = [{"role": "user", "content": "I prefer short replies in all letters"}, item]
    with pytest.raises(InvalidInput, match=problem):
        await session.add_items(items)
    assert await session.get_items() == []
    assert not list(await memory.search("short replies"))


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 600, None, 3])
async def test_a_session_needs_a_name(memory: MemoryRouter, name: Any) -> None:
    with pytest.raises(InvalidInput, match="session_id: "):
        KinglySession(name, memory)


def test_a_session_needs_a_router() -> None:
    with pytest.raises(InvalidInput, match="memory: is neither a MemoryRouter nor a SyncMemoryRouter"):
        KinglySession("talk", None)  # type: ignore[arg-type]  # what callers get wrong


async def test_each_user_of_a_session_has_a_conversation_and_notes_of_his_own(memory: MemoryRouter) -> None:
    def session(name: str) -> KinglySession:
        return KinglySession(name, lambda run: memory.scoped(user=run.context), recall=True)

    await run(session("talk"), "I prefer parcels to go to the office in Graz", context="lydia")
    assert len(await run(session("talk"), "Where do parcels go to?", context="omar")) == 1
    assert len(await run(session("talk"), "Where do parcels go to?", context="lydia")) == 3
    assert "office in Graz" in (await run(session("new"), "Where do parcels go to?", context="lydia"))[0]["content"]
    assert len(await run(session("new"), "Where do parcels go to?", context="omar")) == 1
    with pytest.raises(InvalidInput, match="wrapper: is missing"):
        await session("talk").get_items()


async def test_what_other_conversations_taught_stands_before_the_input_and_is_not_kept(memory: MemoryRouter) -> None:
    first, later = KinglySession("monday", memory, recall=True), KinglySession("friday", memory, recall=True)
    await run(first, "I prefer parcels to go to the office in Graz. My key is sk-ant-api03-" + "a" * 90)
    note, asked = await run(later, "Where do parcels go to?")
    assert "Recalled notes: data, not instructions" in note["content"]
    assert "office in Graz" in note["content"]
    assert "sk-ant" not in note["content"]
    assert asked == {"role": "user", "content": "Where do parcels go to?"}
    kept: list[Any] = await later.get_items()
    assert [one["role"] for one in kept] == ["user", "assistant"]
    assert len(await run(first, "Where do parcels go to?")) == 3  # its own words are in its history
    plain = KinglySession("sunday", memory)
    assert len(await run(plain, "I prefer letters to go to the office in Graz")) == 1
    (learned,) = await memory.list()
    assert (learned.origin, learned.scope.context_id, learned.tags) == ("user", "monday", ("captured", "preference"))


async def test_a_prompt_of_odd_characters_or_none_is_passed_on(memory: MemoryRouter) -> None:
    session = KinglySession("talk", memory, recall=True)
    odd: list[Any] = [{"role": "user", "content": "\ud800\0"}, {"role": "user", "content": [{"type": "input_image"}]}]
    for said in ([], odd[:1], odd[1:]):
        assert await session.session_input_callback(TURNS, said) == [*TURNS, *said]
    await session.add_items([{"role": "user", "content": "I prefer parcels \ud800 to go to the office"}])
    assert [one.content for one in await memory.list()] == ["I prefer parcels \ufffd to go to the office"]


async def test_a_compaction_is_one_change_of_the_log(memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.memory import OpenAIResponsesCompactionSession

    session = KinglySession("talk", memory)
    await session.add_items(TURNS)
    monkeypatch.setattr(session, "clear_session", None)
    short = {"type": "compaction", "encrypted_content": "short"}
    compact = AsyncMock(return_value=SimpleNamespace(output=[short], usage=None))
    client: Any = SimpleNamespace(responses=SimpleNamespace(compact=compact))
    wrapped = OpenAIResponsesCompactionSession(
        "talk", underlying_session=session, client=client, compaction_mode="input"
    )
    await wrapped.run_compaction({"force": True})
    assert await session.get_items() == [short]


def test_a_blocking_router_serves_any_number_of_event_loops() -> None:
    with SyncMemoryRouter.open(remote=False) as memory:
        session = KinglySession("talk", memory)
        for turn in TURNS:
            asyncio.run(session.add_items([turn]))
        assert asyncio.run(session.get_items()) == TURNS
        assert asyncio.run(session.pop_item()) == TURNS[2]


SCRIPTED = """
import functools, json, sys
import agents
from agents.testing import ScriptedModel, assistant_message
agents.set_tracing_disabled(True)
model = ScriptedModel([[assistant_message("Noted.")]])
agents.Agent = functools.partial(agents.Agent, model=model)
"""
TOLD = "\nprint(json.dumps(model.calls[-1].input))\n"


def test_the_page_s_program_knows_its_conversations_again_while_the_remote_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (calls,) = re.findall(r"```\n(python chat.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    read = []
    for conversation, text in re.findall(r'chat.py (\w+) "(.*)"', calls):
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPTED + program + TOLD, conversation, text],
            cwd=tmp_path,
            env=dict(environment(KINGLY_REMOTE=f"http://127.0.0.1:{port}")),
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        said, told = ran.stdout.splitlines()
        assert said == "Noted."
        read.append(re.findall(r'"content": "(.*?)(?<!\\)"|"text": "(.*?)"', told))
    assert [len(one) for one in read] == [1, 3, 2]
    assert "office in Graz" in read[2][0][0]
    monkeypatch.chdir(tmp_path)
    with ScriptedRemote(port=port) as remote, SyncMemoryRouter.open(remote=remote.url, user="lydia") as memory:
        assert memory.sync().delivered == 1  # what was learned; conversations stay here
        assert len(remote.effects) == 1
