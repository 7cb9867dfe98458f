"""The memory of an agent in a store: it behaves as one in memory, and nothing that was saved is ever lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kingly_memory import MemoryRouter, Settings, SyncMemoryRouter
from kingly_memory.adapters.local import backup
from kingly_memory.cognition.agent_memory import CognitiveMemory, ExperienceRules
from kingly_memory.cognition.owners import current_owner
from kingly_memory.errors import InvalidInput, RouterClosed, StoreUnwritable
from kingly_memory.models import Memory, MemoryStatus, MemoryType
from kingly_memory.ports import Transaction
from kingly_memory.testing import FakeRemote, ManualClock
from tests.cognition.agent_process import RULES, live
from tests.cognition.samples import ADDS, CONSOLIDATION, SMALL, YEARS, do
from tests.router_bench import PromptStore, held, router_over

ROOT = Path(__file__).parents[2]
T = TypeVar("T")
FAST = Settings(durability="process", embedder="none")
DAY = 86_400.0


def router(
    home: Path, *, project: str = "town", agent: str | None = None, clock: ManualClock | None = None
) -> MemoryRouter:
    return MemoryRouter.open(home, remote=False, project=project, agent=agent, settings=FAST, clock=clock)


class MoodyStore(PromptStore):
    """Fails as many of the next writes as it is told to."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.failures = 0
        self.error: Exception = StoreUnwritable("here", "disk full")

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        if not self.failures:
            return super().write(change)
        self.failures -= 1
        failed: Future[T] = Future()
        failed.set_exception(self.error)
        return failed


# --- what lies in the store -------------------------------------------------------------------------------------------


async def test_an_experience_is_a_memory_that_a_search_finds(tmp_path: Path) -> None:
    async with router(tmp_path) as memory:
        agent_memory = await memory.cognitive("H001")
        flood = agent_memory.update_after_flood(50_000, 3)
        decision = agent_memory.update_after_decision("do_nothing", 4)
        [hit] = await memory.search("flood damages", agent="H001")
        found = hit.memory
        assert found.id == flood.id
        assert (found.type, found.significance, found.tags) == (MemoryType.EPISODIC, 0.9, ("flood", "damage"))
        assert found.metadata == {"record": "experience", "year": 3}
        assert found.created_at == flood.timestamp
        stored = await memory.get(decision.id or "")
        assert stored is not None
        assert (stored.type, stored.scope.agent) == (MemoryType.WORKING, "H001")


async def test_what_leaves_the_agent_goes_to_the_archive_and_says_why(tmp_path: Path) -> None:
    async with router(tmp_path) as memory:
        agent_memory = await memory.cognitive("H001", rules=ExperienceRules(2, 1))
        for number in range(3):
            agent_memory.add_working(f"Event {number}", 0.2)
        agent_memory.add_episodic("great", 0.9)
        agent_memory.add_episodic("greater", 1.0)
        agent_memory.add_episodic("too small", 0.1)
        told = {entry.memory.content: entry.why.reason for entry in (await memory.archived()).entries if entry.why}
        assert told == {
            "Event 0": "it left the working memory of its agent",
            "great": "it left the episodes of its agent",
            "too small": "it left the episodes of its agent",
        }
        assert await memory.restore(next(e.memory.id for e in (await memory.archived()).entries)) is not None


async def test_agents_and_projects_do_not_see_each_others_memories(tmp_path: Path) -> None:
    async with router(tmp_path) as memory:
        for agent in ("H001", "H002"):
            agent_memory = await memory.cognitive(agent)
            agent_memory.add_working(f"I am {agent}")
        assert (await memory.cognitive("H002")).retrieve() == ["I am H002"]
    async with router(tmp_path, project="city") as memory:
        assert (await memory.cognitive("H001")).retrieve() == []


async def test_what_matters_goes_to_the_remote_and_what_does_not_stays(tmp_path: Path) -> None:
    clock, remote = ManualClock(), FakeRemote(clock=ManualClock())
    store = PromptStore(tmp_path)
    async with router_over(store, remote, clock) as memory:
        agent_memory = await memory.cognitive("H001")
        agent_memory.add_episodic("great", 0.9)
        agent_memory.add_working("small", 0.3)
        await memory.sync()
        assert held(remote) == ["great"]


# --- sweeps and people ------------------------------------------------------------------------------------------------


async def test_neither_time_nor_sweeps_take_away_what_an_agent_holds(tmp_path: Path) -> None:
    clock = ManualClock()
    async with router(tmp_path, clock=clock) as memory:
        agent_memory = await memory.cognitive("H001")
        for _ in range(3):
            agent_memory.add_working("the same again", 0.1)
        agent_memory.add_episodic("the same again", 0.35)
        await memory.reinforce(agent_memory.holdings.working[0].id or "")
        clock.jump(400 * DAY)
        await memory.sweep(["lifetimes", "strength", "tiers"])
        again = await memory.cognitive("H001")
        assert again.holdings == agent_memory.holdings
        assert len(again.holdings.working) == 3
        assert [hit.memory.scope.agent for hit in await memory.search("same again", fold=False)] == ["H001"] * 4


@pytest.mark.parametrize("taken_away", [MemoryRouter.forget, MemoryRouter.archive])
async def test_an_open_memory_is_without_what_is_forgotten_or_put_away_at_once(
    tmp_path: Path, taken_away: Callable[[MemoryRouter, str], Coroutine[Any, Any, object]]
) -> None:
    async with router(tmp_path) as memory:
        agent_memory = await memory.cognitive("H001")
        for name in ("a", "b"):
            agent_memory.add_working(name, 0.9)
        agent_memory.consolidate()
        await taken_away(memory, agent_memory.holdings.working[0].id or "")
        assert agent_memory.retrieve() == ["b"]
        assert [len(place) for place in agent_memory.holdings[:2]] == [1, 1]
        assert "'a'" not in str(agent_memory.serialize())
        agent_memory.add_working("c")
        assert (await memory.cognitive("H001")).holdings == agent_memory.holdings


async def test_an_open_memory_says_what_an_update_has_made_of_it(tmp_path: Path) -> None:
    async with router(tmp_path, agent="H001") as memory:
        agent_memory = await memory.cognitive("H001")
        item = agent_memory.add_working("The lamp is loose")
        agent_memory.add_working("The gate is green")
        assert len(agent_memory.holdings.working) == 2
        await memory.update(item.id or "", "The lamp is fixed")
        assert [one.content for one in agent_memory.holdings.working] == ["The lamp is fixed", "The gate is green"]


async def test_an_open_memory_says_what_a_backup_has_that_took_the_place_of_its_store(tmp_path: Path) -> None:
    async with router(tmp_path, agent="H001") as memory:
        agent_memory = await memory.cognitive("H001")
        item = agent_memory.add_working("The lamp is loose")
        backup.create(tmp_path, file := tmp_path / "one.backup")
        await memory.update(item.id or "", "The lamp is fixed")
        assert [one.content for one in agent_memory.holdings.working] == ["The lamp is fixed"]
        backup.restore(tmp_path, file, replace=True, lock_wait_s=5)
        assert [one.content for one in agent_memory.holdings.working] == ["The lamp is loose"]


async def test_a_facet_that_cannot_be_read_costs_no_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = PromptStore(tmp_path)
    async with router_over(store, None, ManualClock()) as memory:
        agent_memory = await memory.cognitive("H001")
        agent_memory.add_working("rain")
        name = current_owner("app", "H001")
        damaged = {"working": 5}
        store.write(lambda transaction: transaction.set_facet("agent_memory", name, damaged)).result()
        again = await memory.cognitive("H001")
        assert again.retrieve() == []
        assert "begins empty" in caplog.text
        again.add_working("sun")
        assert (await memory.cognitive("H001")).retrieve() == ["sun"]
        assert len(await memory.list()) == 2


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_a_write_that_failed_is_told_and_not_remembered(tmp_path: Path) -> None:
    store = MoodyStore(tmp_path)
    async with router_over(store, None, ManualClock()) as memory:
        agent_memory = await memory.cognitive("H001")
        agent_memory.add_working("first")
        store.failures = 1
        with pytest.raises(StoreUnwritable, match="disk full"):
            agent_memory.add_working("second")
        assert agent_memory.retrieve() == ["first"]
        agent_memory.add_working("third")
        assert (await memory.cognitive("H001")).retrieve() == agent_memory.retrieve() == ["third", "first"]


async def test_a_change_that_is_stored_raises_nothing_when_the_event_loop_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.new_event_loop()
    ended.close()
    async with router(tmp_path) as memory:
        agent_memory = await memory.cognitive("H001")
        monkeypatch.setattr(agent_memory, "_loop", ended)
        agent_memory.add_working("first")
        assert (await memory.cognitive("H001")).retrieve() == ["first"]


@pytest.mark.parametrize("content", ["", "x" * 1_048_577])
async def test_what_the_store_would_refuse_is_refused_before_anything_changes(tmp_path: Path, content: str) -> None:
    async with router(tmp_path) as memory:
        agent_memory = await memory.cognitive("H001")
        with pytest.raises(InvalidInput, match="content"):
            agent_memory.add_working(content)
        assert agent_memory.retrieve() == []
        assert len(await memory.list()) == 0


# --- several at once --------------------------------------------------------------------------------------------------


async def test_two_who_are_the_same_agent_have_one_memory_between_them(tmp_path: Path) -> None:
    async with router(tmp_path) as here, router(tmp_path) as there:
        mine, yours = await here.cognitive("H001", rules=RULES), await there.cognitive("H001", rules=RULES)
        for number in range(6):
            mine.add_working(f"mine {number}", 0.9)
            yours.add_episodic(f"yours {number}", 0.8)
            yours.consolidate()
        mine.add_working("mine 6")
        third = await here.cognitive("H001", rules=RULES)
        assert mine.holdings == third.holdings
        everything = [*await here.list(limit=50), *(e.memory for e in (await here.archived()).entries)]
        assert sorted({one.content for one in everything}) == sorted(
            [f"mine {n}" for n in range(7)] + [f"yours {n}" for n in range(6)]
        )
        assert len(everything) == 13


def test_processes_that_are_the_same_agent_lose_nothing(tmp_path: Path) -> None:
    lives = [start(tmp_path, "H001", first, 30) for first in (0, 100)]
    for life in lives:
        output, _ = life.communicate()
        assert life.returncode == 0, output
    with SyncMemoryRouter.open(tmp_path, remote=False, project="town", settings=FAST) as memory:
        live_ones = {one.content for one in memory.list(limit=200)}
        archived = {entry.memory.content for entry in memory.archived(200).entries}
        assert live_ones | archived == {f"Event {n}" for n in (*range(30), *range(100, 130))}
        agent_memory = memory.cognitive("H001", rules=RULES)
        assert {item.content for item in (*agent_memory.holdings.working, *agent_memory.holdings.episodic)} == live_ones


def test_an_agent_whose_process_is_killed_remembers_at_least_what_was_saved(tmp_path: Path) -> None:
    for turn, lines in enumerate((1, 2, 4, 7)):
        home = tmp_path / str(turn)
        life = start(home, "H001", 0, 10_000)
        assert life.stdout is not None
        said = [int(life.stdout.readline()) for _ in range(lines)][-1]
        os.kill(life.pid, signal.SIGKILL)
        life.communicate()
        after = start(home, "H001", 0, 0)
        retrieved = json.loads(after.communicate()[0].splitlines()[-1])
        expected = CognitiveMemory("H001", rules=RULES)
        states = [(number, state.retrieve(100)) for number in range(said + 2_000) for state in live(expected, number)]
        assert retrieved in [state for number, state in states if number >= said]


def start(home: Path, agent: str, first: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.cognition.agent_process", str(home), agent, str(first), str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_an_agent_that_two_routers_have_open_has_one_memory_until_its_router_is_closed(tmp_path: Path) -> None:
    with (
        SyncMemoryRouter.open(tmp_path, remote=False, project="town", settings=FAST) as here,
        SyncMemoryRouter.open(tmp_path, remote=False, project="town", settings=FAST) as there,
    ):
        mine, yours = here.cognitive("H001"), there.cognitive("H001")
        mine.add_working("first")
        yours.add_working("second")
        mine.add_working("third")
        assert mine.retrieve() == yours.retrieve() == ["third", "second", "first"]
        assert mine.consolidate() == 0
    with pytest.raises(RouterClosed):
        mine.add_working("too late")
    with pytest.raises(RouterClosed):
        mine.retrieve()


# --- one behaviour ----------------------------------------------------------------------------------------------------


class OneBehaviour(RuleBasedStateMachine):
    """A memory in a store and one in the process live the same life."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="kingly-agent-")
        self._loop = asyncio.new_event_loop()
        self._clock = ManualClock()
        self._experienced: set[str] = set()

    @initialize(rules=SMALL)
    def begin(self, rules: ExperienceRules) -> None:
        self._rules = rules
        self._plain = CognitiveMemory("H001", rules=rules, now=self._clock.now)
        self._open()

    def _open(self) -> None:
        store = PromptStore(Path(self._folder.name))
        self._router = router_over(store, None, self._clock)
        self._run(self._router.__aenter__())
        self._stored = self._run(self._router.cognitive("H001", rules=self._rules))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    @rule(step=ADDS | CONSOLIDATION, tick=st.sampled_from([0.0, 1.0, -1.0]))
    def live(self, step: tuple[str, str, float, int], tick: float) -> None:
        self._clock.jump(tick)
        told, plain = do(self._stored, step), do(self._plain, step)
        assert told == plain
        if step[0] != "consolidate":
            self._experienced.add(told.id)

    @rule(top_k=st.integers(0, 12), year=YEARS, reserved=st.integers(0, 3))
    def look(self, top_k: int, year: int, reserved: int) -> None:
        assert self._stored.recall(top_k, year, reserve_episodic=reserved) == self._plain.recall(
            top_k, year, reserve_episodic=reserved
        )

    @rule()
    def reopen(self) -> None:
        self._run(self._router.close())
        self._open()
        assert self._stored.holdings == self._plain.holdings
        assert self._stored.latest_year == self._plain.latest_year

    @rule()
    def nothing_is_lost(self) -> None:
        rows = {one: self._router._engine.store.reader.row(one) for one in self._experienced}
        live_ones = {one for one, row in rows.items() if row is not None and row.status is MemoryStatus.LIVE}
        assert live_ones == {item.id for item in (*self._stored.holdings.working, *self._stored.holdings.episodic)}
        assert all(
            row is not None and row.status in (MemoryStatus.LIVE, MemoryStatus.ARCHIVED) for row in rows.values()
        )
        types = {
            row.memory.id: row.memory.type for row in rows.values() if row is not None and row.memory.id in live_ones
        }
        episodes = {item.id for item in self._stored.holdings.episodic}
        assert {one for one, kind in types.items() if kind is MemoryType.EPISODIC} == episodes

    def teardown(self) -> None:
        if hasattr(self, "_router"):
            self._run(self._router.close())
        self._loop.close()
        self._folder.cleanup()


TestOneBehaviour = OneBehaviour.TestCase
TestOneBehaviour.settings = hypothesis_settings(
    stateful_step_count=25,
)
