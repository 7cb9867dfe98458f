"""`memory.inject` and the tool `memory_inject`: the agent guides, the injection follows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.attention.injection import Injection
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.ports import InjectedPrompt
from kingly_memory.settings import Settings
from kingly_memory.testing import FakeRemote, ManualClock
from tests.mcp_sessions import session
from tests.router_bench import PromptStore, router_over

QUICK = Settings(durability="process", local_search_s=30.0, embedder="none")
"""What is put in is asked, not whether a loaded machine finds it in time."""
PROMPT = "who has to review a deploy?"
RULE = "Deploys need two reviews"


def opened(home: Path, **how: Any) -> MemoryRouter:
    return MemoryRouter.open(home, False, settings=QUICK, **{"project": "app", **how})


async def said(memory: MemoryRouter, *contents: str, **facts: Any) -> None:
    for content in contents:
        await memory.store(content, **{"origin": "user", **facts})


def notes(found: Injection) -> list[str]:
    """The texts in the block, in order."""
    quoted = [line.removeprefix("| ") for line in found.text.split("\n") if line.startswith("| ")]
    return [line for line in quoted if not line.startswith("[")]


@pytest.mark.requirement("SMT-011", "SMT-052")
async def test_a_focus_brings_its_threads_first_and_unfocus_returns_to_similarity(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await said(memory, "A review of a deploy takes a day", context_id="ops")
        await said(memory, "The review of a deploy of the billing service is done by finance", tags=["billing"])
        before = notes(await memory.inject(PROMPT))
        await memory.attention.focus("Billing", 1.0)
        focused = notes(await memory.inject(PROMPT))
        await memory.attention.unfocus()
        after = notes(await memory.inject(PROMPT))
    assert before == after
    assert before[0] == "A review of a deploy takes a day"
    assert focused == before[::-1]


@pytest.mark.requirement("SMT-052")
async def test_a_focus_alone_says_nothing_when_a_prompt_is_about_something_else(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await said(memory, RULE, tags=["deploying"])
        await memory.attention.focus("deploying")
        assert (await memory.inject("write a haiku about winter mornings")).text == ""


async def test_a_focus_on_a_thread_brings_its_latest_memories_whatever_the_prompt(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await said(memory, *(f"step {n} is done" for n in range(12)), context_id="release-42")
        await said(memory, "the gate is green", context_id="another")
        await memory.attention.focus("release-42")
        found = notes(await memory.inject("write a haiku about winter mornings"))
    assert found == [f"step {n} is done" for n in range(11, 1, -1)]


@pytest.mark.parametrize(("pages", "tokens"), [(400, 1_000), (40, 500)])
async def test_of_a_long_note_the_passage_that_answers_is_put_in(tmp_path: Path, pages: int, tokens: int) -> None:
    filler = " ".join(f"The {n}th page tells of gardens and bridges." for n in range(pages))
    async with opened(tmp_path) as memory:
        await said(memory, f"{filler}\n\n{RULE} in Lisbon.\n\n{filler}", title="Archive")
        found = await memory.inject("who has to review a deploy in Lisbon?", tokens)
    assert f"{RULE} in Lisbon." in found.text
    assert len(found.text) <= 4 * tokens


@pytest.mark.requirement("SMT-032")
async def test_ratings_pins_and_weights_change_the_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await said(memory, "A review of a deploy takes a day", context_id="first")
        await said(memory, "The review of a deploy of the billing service is done by finance", context_id="second")
        assert notes(await memory.inject(PROMPT))[0].startswith("A review")
        await memory.attention.rate("first", useful=False)
        assert notes(await memory.inject(PROMPT))[0].startswith("The review")


class Listener:
    """An injection log in memory."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, tuple[str, ...], float]] = []
        self.accounts: list[JsonObject] = []

    def note(self, session: str, memory_ids: Sequence[str], at_s: float, account: JsonObject | None = None) -> None:
        self.noted.append((session, tuple(memory_ids), at_s))
        self.accounts.append(account or {})

    def of(self, session: str) -> Mapping[str, float]:
        return {one: at_s for name, ids, at_s in self.noted if name == session for one in ids}

    ever = of

    def clear(self, session: str, at_s: float) -> None:
        raise AssertionError(session)

    def latest(self, most: int) -> Sequence[InjectedPrompt]:
        raise AssertionError(most)

    def purge(self, memory_ids: Collection[str], contexts: Collection[str], *, whole: bool) -> None:
        raise AssertionError(memory_ids)


async def test_what_was_put_in_is_noted_by_the_routers_clock_and_no_remote_is_asked(tmp_path: Path) -> None:
    clock, log = ManualClock(), Listener()
    remote = FakeRemote(clock=clock)
    memory = router_over(PromptStore(tmp_path), remote, clock)
    memory._engine.injections = log
    async with memory:
        receipt = await memory.store(RULE, origin="user", significance=0.2)
        await memory.inject("haiku", session="s1")
        await memory.inject(PROMPT, session="s1")
        now_s = clock.now().timestamp()
        assert log.noted == [("s1", (), now_s), ("s1", (receipt.id,), now_s)]
        account = log.accounts[1]
        assert (account["occasion"], account["left"], len(account["why"])) == ("prompt", {}, 1)
        assert account["tokens"] > 20 < account["bytes"]
        assert remote.named("search") == []


async def test_being_put_in_is_no_use_of_a_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        receipt = await memory.store(RULE, origin="user")
        await memory.inject(PROMPT)
        told = await memory.explain(receipt.id)
    assert told is not None
    assert told["strength"]["accesses"] == 0


async def test_only_the_user_the_own_agent_and_the_own_project_are_quoted(tmp_path: Path) -> None:
    async with opened(tmp_path, project="other") as foreign:
        await said(foreign, "Deploys elsewhere need a review")
    async with opened(tmp_path, agent="cursor") as other:
        await said(other, "Deploys by another need a review", origin="agent")
    async with opened(tmp_path, agent="claude-code") as memory:
        await said(memory, "Deploys by this agent need a review", origin="agent")
        await said(memory, "Deploys from the web need a review", origin="web")
        found = await memory.inject(PROMPT)
    assert notes(found) == ["Deploys by this agent need a review"]
    assert len(found.left_out) == 2


async def test_a_paste_is_asked_for_its_question(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await said(memory, RULE, "The kernel logs are rotated at midnight")
        log = "\n".join(f"2026-03-01T10:00:{n:02} kernel: rotated logs at midnight, unit {n}" for n in range(40))
        found = await memory.inject(f"{log}\n\nwho has to review a deploy?")
    assert found.asked == PROMPT
    assert notes(found) == [RULE]


async def test_typing_errors_do_not_keep_a_memory_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await said(memory, "The staging database moved to Frankfurt")
        assert notes(await memory.inject("where did the stagign databsae go?")) != []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((" \n",), "prompt: is empty"),
        ((7,), "prompt: expected text"),
        ((PROMPT, 0), "budget_tokens: 0 is no room: the frame alone takes 66 tokens"),
        ((PROMPT, 66), "budget_tokens: 66 is no room: the frame alone takes 66 tokens"),
        ((PROMPT, 10**9), "budget_tokens: 1000000000 is outside"),
        ((PROMPT, float("nan")), "budget_tokens: expected a whole number"),
        ((PROMPT, True), "budget_tokens: expected a whole number"),
    ],
)
async def test_what_makes_no_sense_is_refused(tmp_path: Path, arguments: tuple[Any, ...], problem: str) -> None:
    async with opened(tmp_path) as memory:
        with pytest.raises(InvalidInput, match=problem):
            await memory.inject(*arguments)


# --- the tool ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-052")
async def test_the_tool_says_what_is_in_and_under_which_thread(tmp_path: Path) -> None:
    async with session(tmp_path, agent="cursor", settings=QUICK) as client:
        stored = await client.ok("memory_intelligent_store", key="rule", content=RULE, context_id="release-42")
        found = await client.ok("memory_inject", prompt=PROMPT, session="s1")
        again = await client.ok("memory_inject", prompt=PROMPT, session="s1")
        rated = await client.ok("ai_rate_context", thread_id=found["put_in"][0]["thread_id"], useful=False)
    assert f"| {RULE}" in found["text"]
    assert found["put_in"] == [{"id": stored["local_id"], "thread_id": "release-42"}]
    assert found["message"] == f"Put in 1 of 1 memories looked at, about {found['tokens']} tokens."
    assert (again["text"], again["left_out"]) == ("", {"this session has seen it": 1})
    assert rated["relevance_score"] < 1


@pytest.mark.requirement("N14", "N27")
async def test_a_fact_that_has_changed_since_stands_behind_the_newer_one_and_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await said(memory, "Deploys need two reviews", "The api listens on port 9091", "The api listens on port 9191")
        found = await memory.inject("which port does the api listen on?")
        assert [note[-4:] for note in notes(found)] == ["9191", "9091"]
        heads = [line for line in found.text.split("\n") if line.startswith("| [")]
        assert ["superseded by [1]" in head for head in heads] == [False, True]


@pytest.mark.requirement("N27")
async def test_a_memory_that_answers_a_prompt_well_needs_but_one_of_its_words(tmp_path: Path) -> None:
    about = "Olga was born in May, in a small town by the sea, and likes long walks in the rain"
    async with opened(tmp_path) as memory:
        await said(memory, about, *(f"The party number {number} was held in the hall" for number in range(5)))
        assert notes(await memory.inject("may Olga sign a contract?")) == [about]
        assert (await memory.inject("who is Olga in the billing department?")).text == ""
