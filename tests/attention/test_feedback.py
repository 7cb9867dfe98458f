"""What was put into prompts and not used counts against it, each session once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.local.injections import InjectionFiles
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.cognition.owners import owner
from kingly_memory.router.attention import feedback
from kingly_memory.router.attention.feedback import EVERY_S, KEPT_S, QUIET_S, Quiet, showings
from kingly_memory.router.engine import Engine
from kingly_memory.router.view import Station
from kingly_memory.testing import ManualClock
from tests.router_bench import CALM, PromptStore

HOUR_S = 3_600.0


class Bench:
    """A router over a real disk and a real log, with time standing still."""

    def __init__(self, home: Path) -> None:
        self.clock = ManualClock()
        self.store = PromptStore(home)
        self.log = InjectionFiles(home, "app")
        self.memory = self.router()

    def router(self, project: str = "app", log: InjectionFiles | None = None) -> MemoryRouter:
        return MemoryRouter(
            Engine(
                Station(home="here", project=project, durability="process"),
                store=self.store,
                settings=CALM,
                clock=self.clock,
                injections=log or self.log,
            )
        )

    @property
    def now_s(self) -> float:
        return self.clock.now().timestamp()

    async def stored(self, content: str = "Deploys need two reviews", **facts: Any) -> str:
        return (await self.memory.store(content, **facts)).id

    async def shown(self, session: str, *memory_ids: str) -> None:
        self.log.note(session, memory_ids, self.now_s)

    def heard(self) -> None:
        for name in self.log.sessions():
            self.log.hear(name, self.now_s)

    async def passes(self, seconds: float, *, heard: bool = True) -> None:
        """Time, and whatever the router does meanwhile on its threads. Until now the sessions were listened to."""
        if heard:
            self.heard()
        await self.clock.advance(seconds)
        await self.memory.sweep(["tiers"])

    def facet(self, memory_id: str) -> dict[str, Any] | None:
        return self.store.reader.facets("injected", [memory_id]).get(memory_id)

    def unused(self, *memory_ids: str) -> dict[str, int]:
        return unused_in(self.store, *memory_ids)

    def folded(self) -> list[str]:
        return self.store.write(lambda transaction: transaction.owners("folded")).result()


def unused_in(store: PromptStore, *memory_ids: str) -> dict[str, int]:
    """In how many sessions in a row each was not used: of those where that has happened."""
    counts = {name: facet.get("unused") for name, facet in store.reader.facets("injected", memory_ids).items()}
    return {name: times for name, times in counts.items() if isinstance(times, int) and times > 0}


@asynccontextmanager
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    (tmp_path / "home").mkdir(mode=0o700)
    one = Bench(tmp_path / "home")
    async with one.memory:
        yield one


async def test_each_session_that_was_shown_a_memory_and_did_not_use_it_counts(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        for index in range(3):
            await one.shown(f"s{index}", memory_id)
            await one.passes(QUIET_S)
            assert one.unused(memory_id) == {memory_id: index + 1}
        facet = one.facet(memory_id)
        assert facet is not None
        assert facet["times"] == 3


async def test_a_session_that_goes_on_is_not_judged_yet(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        await one.passes(QUIET_S - 1)
        assert one.unused(memory_id) == {}
        await one.shown("s1", memory_id)
        await one.passes(QUIET_S - 1)
        assert one.facet(memory_id) is None


async def test_a_session_is_counted_once_however_often_it_is_looked_at(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        for _ in range(4):
            await one.passes(HOUR_S)
        assert one.unused(memory_id) == {memory_id: 1}


async def test_two_routers_that_fold_the_same_session_count_it_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        one.heard()
        await one.clock.advance(QUIET_S - 1)
        one.clock.jump(2)
        found = feedback.quiet(one.log, one.store.reader, "app", one.now_s)
        counts = [one.store.write(feedback.fold(found, "app")).result() for _ in range(2)]
        assert counts == [1, 0]
        assert one.unused(memory_id) == {memory_id: 1}


async def test_a_memory_that_was_found_since_was_of_use(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        used, left = await one.stored(), await one.stored("The cafeteria opens at noon")
        await one.shown("s0", used, left)
        await one.passes(QUIET_S)
        await one.shown("s1", used, left)
        await one.clock.advance(60)
        assert len(await one.memory.search("deploys")) == 1
        await one.passes(QUIET_S)
        assert one.unused(used, left) == {left: 2}


async def test_a_use_before_it_was_shown_is_none(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.memory.mark_used([memory_id])
        await one.clock.advance(60)
        await one.shown("s1", memory_id)
        await one.passes(QUIET_S)
        assert one.unused(memory_id) == {memory_id: 1}


@pytest.mark.parametrize(("useful", "context"), [(True, None), (True, "talk"), (False, None)])
async def test_a_useful_rating_since_says_that_it_was_of_use(useful: bool, context: str | None, tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored(context_id=context)
        await one.shown("s1", memory_id)
        await one.clock.advance(60)
        await one.memory.attention.rate(context or memory_id, useful)
        await one.passes(QUIET_S)
        assert one.unused(memory_id) == ({} if useful else {memory_id: 1})


async def test_a_session_that_comes_back_knows_what_it_was_shown_and_only_the_new_is_counted(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        first, second = await one.stored(), await one.stored("The cafeteria opens at noon")
        await one.shown("s1", first)
        await one.passes(HOUR_S)
        assert one.log.of("s1").keys() == {first}
        await one.shown("s1", second)
        await one.passes(HOUR_S)
        assert one.unused(first, second) == {first: 1, second: 1}


async def test_what_a_session_has_lost_counts_all_the_same(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        one.log.clear("s1", one.now_s)
        await one.passes(QUIET_S)
        assert one.unused(memory_id) == {memory_id: 1}


async def test_a_session_of_last_week_is_counted_and_dropped(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        one.heard()
        one.clock.jump(KEPT_S)
        await one.passes(1, heard=False)
        assert one.log.sessions() == {}
        assert one.unused(memory_id) == {memory_id: 1}
        assert one.folded() == []


async def test_a_log_from_next_month_is_dropped_and_judges_nothing_for_long(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        one.log.note("s1", [memory_id], one.now_s + 30 * 86_400)
        one.log.note("s2", [memory_id], one.now_s + HOUR_S)  # the clock may have been set back by an hour
        await one.passes(1, heard=False)
        assert one.log.sessions().keys() == {"s2"}


async def test_an_open_router_looks_by_itself(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        one.heard()
        one.clock.jump(QUIET_S)
        await one.clock.advance(EVERY_S)
        async with asyncio.timeout(20):  # the look is on another thread
            while not one.unused(memory_id):  # noqa: ASYNC110  # nothing says when it has looked
                await asyncio.sleep(0)


async def test_closing_looks_for_those_that_are_never_open_for_long(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        one.heard()
        one.clock.jump(QUIET_S)
    assert unused_in(PromptStore(tmp_path / "home"), memory_id) == {memory_id: 1}


@pytest.mark.parametrize("heard_before", [False, True])
async def test_where_nobody_has_listened_since_nothing_counts_as_unused(tmp_path: Path, *, heard_before: bool) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        await one.passes(60, heard=heard_before)
        await one.shown("s1", memory_id)
        await one.passes(QUIET_S, heard=False)
        facet = one.facet(memory_id)
        assert facet is not None
        assert (facet["times"], facet["unused"]) == (1, 0)


async def test_what_is_counted_once_is_not_counted_again_because_somebody_listened_later(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        await one.shown("s1", memory_id)
        await one.passes(QUIET_S)
        await one.shown("s2", memory_id)
        await one.passes(QUIET_S, heard=False)
        for _ in range(3):
            await one.passes(HOUR_S)
        facet = one.facet(memory_id)
        assert facet is not None
        assert (facet["times"], facet["unused"]) == (2, 1)


@pytest.mark.parametrize("pinned", ["memory", "thread", "the thread that this goes on as"])
async def test_what_is_pinned_is_never_unused(pinned: str, tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        alone = await one.memory.attention.pin("Never push on Fridays")
        memory_id: str = alone.receipt.id
        if pinned == "thread":
            memory_id = await one.stored(context_id=alone.thread_id)
        elif pinned != "memory":
            memory_id = await one.stored(context_id="other")
            await one.memory.threads.merge(alone.thread_id, "other")
        for index in range(5):
            await one.shown(f"s{index}", memory_id)
            await one.passes(QUIET_S)
        facet = one.facet(memory_id)
        assert facet is not None
        assert (facet["times"], facet["unused"]) == (5, 0)
        assert (await one.memory.threads.get(memory_id)).relevance == 1


async def test_a_session_whose_log_has_made_room_for_others_is_forgotten(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        for name in ("gone", "kept"):
            await one.shown(name, memory_id)
        await one.passes(QUIET_S)
        one.log.drop("gone")  # as a log does with the oldest when there are too many
        assert len(one.folded()) == 2
        one.clock.jump(KEPT_S)
        await one.shown("kept", memory_id)
        await one.passes(QUIET_S)
        assert one.folded() == [owner("app", "kept")]


async def test_a_session_that_comes_back_while_it_is_dropped_is_kept(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id, other = await one.stored(), await one.stored("The cafeteria opens at noon")
        at_s = one.now_s
        for name in ("gone", "told anew", "told the same"):
            one.log.note(name, [memory_id], at_s)
        one.log.note("told anew", [other], at_s + 1)
        one.log.note("told the same", [memory_id], at_s + 1)
        sessions = [Quiet(name, {memory_id: at_s}, at_s, is_over=True) for name in one.log.sessions()]
        assert feedback.drop_over(one.log, sessions) == ["gone"]
        assert one.log.sessions().keys() == {"told anew", "told the same"}


async def test_what_is_gone_or_another_projects_is_not_counted(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        other_log = InjectionFiles(tmp_path / "home", "other")
        async with one.router("other", other_log) as other:
            foreign = (await other.store("Their deploys need no review")).id
            await one.shown("s1", foreign, "no such memory", "delivery:x")
            await one.passes(QUIET_S)
            assert one.facet(foreign) is None
            assert not showings(one.store.reader, other_log, "other", [foreign])


async def test_what_was_shown_just_now_is_known_before_it_is_counted(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        shown, counted, never = [await one.stored(f"note {index}") for index in range(3)]
        await one.shown("s0", counted)
        await one.passes(QUIET_S)
        await one.shown("s1", shown)
        reader = one.store.reader
        known = [bool(showings(reader, one.log, "app", [each])) for each in (shown, counted, never)]
        assert known == [True, True, False]
        assert showings(reader, None, "app", [counted, never])
        assert not showings(reader, None, "app", [shown])


@pytest.mark.parametrize(
    "facet", [{}, {"unused": "many", "times": None}, {"unused": -3, "times": 1e300}, {"last_s": [1]}], ids=str
)
async def test_a_facet_that_makes_no_sense_counts_as_none(facet: dict[str, Any], tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        one.store.write(lambda transaction: transaction.set_facet("injected", memory_id, facet)).result()
        assert one.unused(memory_id) == {}
        await one.shown("s1", memory_id)
        await one.passes(QUIET_S)
        assert one.unused(memory_id) == {memory_id: 1}


async def test_many_quiet_sessions_are_folded_a_few_at_a_time(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        memory_id = await one.stored()
        for index in range(feedback.AT_ONCE + 5):
            await one.shown(f"s{index}", memory_id)
            one.heard()
            one.clock.jump(1)
        await one.passes(QUIET_S)
        once = one.unused(memory_id)[memory_id]
        assert once >= feedback.AT_ONCE
        await one.passes(EVERY_S)
        assert one.unused(memory_id) == {memory_id: feedback.AT_ONCE + 5}
