"""A machine that stores, revises, forgets, uses, links, sweeps, undoes, restores, crashes and lets time jump, from two
processes on one home, in any order, and in the middle of sweeps.

Whatever was acknowledged is live or in the archive and can be brought back as it was, unless its owner forgot it or it
was a working memory of no great significance whose time was over. What is protected is never taken, and no sweep brings
back what was forgotten. What went behind a summary names it, and an undo takes back the summary too. The tiers have
room for two memories each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import InvalidInput, StoreUnwritable
from kingly_memory.lifecycle.plan import POLICIES, Plan
from kingly_memory.models import JsonObject, Memory, MemoryStatus, MemoryType, Query
from kingly_memory.ports import Row, Transaction
from kingly_memory.router import write
from kingly_memory.router.lifecycle import alive
from kingly_memory.router.sweep import steward as sweep
from kingly_memory.router.write import WriteContext
from kingly_memory.settings import Pace, Tiers
from kingly_memory.testing import ManualClock
from kingly_memory.validation import draft
from tests.router_bench import PromptStore, router_over
from tests.store_samples import check_integrity

T = TypeVar("T")
DAY_S = 86_400.0
LASTING = Settings(durability="process", pace=Pace(closing_s=0.0, usage_flush_s=1e9))
ENDING = replace(
    LASTING, lifetimes=replace(LASTING.lifetimes, episodic=7 * DAY_S, semantic=30 * DAY_S, procedural=90 * DAY_S)
)
KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
WHO = st.sampled_from([0, 1])
CHOSEN = st.lists(st.sampled_from(POLICIES), min_size=1, unique=True)
KEPT = ("usage", "strength", "tier", "attention", "links")
"""Facets that go to the archive with their memory."""
ROOM = Tiers({tier: replace(config, max_items=2) for tier, config in Tiers().configs.items()})


@dataclass
class Expected:
    """What the owner of one key did with it."""

    content: str
    type: MemoryType
    significance: float
    category: str
    forgotten: bool = False


class Interrupted(PromptStore):
    """Before the write that it counts down to, it does something else, as another process might."""

    before: Callable[[], object] | None = None
    left = 0

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        if self.before is not None:
            self.left -= 1
            if self.left <= 0:
                happens, self.before = self.before, None
                happens()
        return super().write(change)


class Sweepings(RuleBasedStateMachine):
    """Two routers over one home. Every change of a sweep carries out one decision, so that there is much between."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(sweep, "AT_ONCE", 1)
        self.folder = TemporaryDirectory()
        self.home = Path(self.folder.name) / "home"
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.expected: dict[str, Expected] = {}
        self.pinned: set[str] = set()
        self.count = 0
        self.elsewhere = DiskStore(self.home, durability="process")
        self.disks: list[Interrupted] = []
        self.routers: list[MemoryRouter] = []
        for lifetimes in (ENDING, LASTING):
            self.open(lifetimes)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def open(self, how: Settings, at: int | None = None) -> None:
        disk = Interrupted(self.home)
        router = router_over(disk, None, self.clock, settings=replace(how, tiers=ROOM))
        self.run(router.__aenter__())
        if at is None:
            self.disks.append(disk)
            self.routers.append(router)
        else:
            self.disks[at], self.routers[at] = disk, router

    # --- looking ------------------------------------------------------------------------------------------------------

    def row(self, key: str) -> Row | None:
        memory_id = self.elsewhere.reader.id_of_key("app", key)
        return None if memory_id is None else self.elsewhere.reader.row(memory_id)

    def facets(self, memory_id: str, names: tuple[str, ...]) -> dict[str, JsonObject | None]:
        return {name: self.elsewhere.reader.facets(name, [memory_id]).get(memory_id) for name in names}

    def seen(self) -> dict[str, tuple[Row, Mapping[str, JsonObject | None]]]:
        rows = {key: self.row(key) for key in self.expected}
        return {key: (row, self.facets(row.memory.id, KEPT)) for key, row in rows.items() if row is not None}

    def own(self, beside: Mapping[str, JsonObject | None]) -> Mapping[str, JsonObject | None]:
        """What lies beside a memory, but for its links to summaries."""
        summaries = {row.memory.id for row in self.summaries(*MemoryStatus)}
        told = [one for one in (beside["links"] or {"links": []})["links"] if one["source"] not in summaries]
        return {**beside, "links": {"links": told} if told else None}

    def summaries(self, *statuses: MemoryStatus) -> list[Row]:
        rows = self.elsewhere.reader.page(Query("", "app"), statuses, 1_000, None)
        return [row for row in rows if row.memory.metadata.get("record") == "summary"]

    def has_ended(self, row: Row) -> bool:
        lifetime = self.facets(row.memory.id, ("lifetime",))["lifetime"]
        return lifetime is not None and (lifetime["expires_at"] or self.now_s + 1) <= self.now_s

    @property
    def now_s(self) -> float:
        return self.clock.now().timestamp()

    @property
    def desk(self) -> WriteContext:
        return self.routers[0]._engine.write_context()  # what a change of another process needs to know

    def swept_up(self) -> set[str]:
        """Working memories that may be gone after a sweep now."""
        rows = {key: self.row(key) for key in self.expected}
        return {
            key
            for key, row in rows.items()
            if row is not None
            and row.status is MemoryStatus.LIVE
            and row.memory.type is MemoryType.WORKING
            and row.memory.significance < 0.8
            and self.has_ended(row)
        }

    # --- doing --------------------------------------------------------------------------------------------------------

    @initialize()
    def begin_with_something(self) -> None:
        for key in "abcd":
            self.store(key, 0, MemoryType.SEMANTIC, 0.5, "x")

    @rule(
        key=KEYS,
        who=WHO,
        kind=st.sampled_from(MemoryType),
        significance=st.sampled_from([0.2, 0.5, 0.9]),
        category=st.sampled_from("xy"),
    )
    def store(self, key: str, who: int, kind: MemoryType, significance: float, category: str) -> None:
        said = self.said(key, kind, significance, category)
        self.run(
            self.routers[who].store(
                said.content, key=key, type=kind, significance=significance, metadata={"category": category}
            )
        )

    def said(self, key: str, kind: MemoryType, significance: float, category: str) -> Expected:
        self.count += 1
        self.expected[key] = said = Expected(f"{key} says word{self.count}", kind, significance, category)
        return said

    @rule(key=KEYS, who=WHO)
    def forget(self, key: str, who: int) -> None:
        if self.run(self.routers[who].forget(key)) is not None:
            self.expected[key].forgotten = True

    @rule(key=KEYS, who=WHO)
    def restore(self, key: str, who: int) -> None:
        if self.run(self.routers[who].restore(key)) is not None:
            self.expected[key].forgotten = False

    @rule(key=KEYS, who=WHO)
    def use(self, key: str, who: int) -> None:
        self.run(self.routers[who].get(key))

    @rule(key=KEYS, who=WHO, verb=st.sampled_from(["reinforce", "outcome", "surprise"]))
    def praise(self, key: str, who: int, verb: str) -> None:
        router = self.routers[who]
        praises: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "reinforce": lambda: router.reinforce(key),
            "outcome": lambda: router.continuum.update_outcome([key], success=True),
            "surprise": lambda: router.continuum.update_surprise_score(
                key, {"actual_usefulness": 1.0, "predicted_relevance": 0.0}
            ),
        }
        row = self.row(key)
        try:
            self.run(praises[verb]())
        except InvalidInput:
            assert row is None or row.status is not MemoryStatus.LIVE or self.has_ended(row)

    @rule(key=KEYS, pinned=st.booleans())
    def pin(self, key: str, pinned: bool) -> None:
        row = self.row(key)
        if row is not None:
            facet = {"pinned": True} if pinned else None
            self.elsewhere.write(lambda tx: tx.set_facet("attention", row.memory.id, facet)).result()

    @rule(one=KEYS, other=KEYS)
    def link(self, one: str, other: str) -> None:
        try:
            self.run(self.routers[0].link_memories(one, other))
        except InvalidInput:
            assert one == other or not all(self.is_at_hand(key) for key in (one, other))

    def is_at_hand(self, key: str) -> bool:
        row = self.row(key)
        return row is not None and row.status is MemoryStatus.LIVE and not self.has_ended(row)

    @rule(days=st.sampled_from([0.05, 1.0, 8.0, 40.0, 100.0, 400.0, -0.05, -8.0]))
    def let_time_jump(self, days: float) -> None:
        self.clock.jump(days * DAY_S)

    @rule(who=WHO, crashing=st.booleans())
    def reopen(self, who: int, crashing: bool) -> None:
        if crashing:
            self.disks[who].die()
        self.run(self.routers[who].close())
        self.open((ENDING, LASTING)[who], who)

    # --- sweeping -----------------------------------------------------------------------------------------------------

    @rule(who=WHO, names=CHOSEN)
    def sweep(self, who: int, names: list[str]) -> None:
        """What was planned is done, what is done again does nothing."""
        dry = self.run(self.routers[who].sweep(names, dry_run=True))
        before, ended = self.seen(), self.swept_up()
        wet = self.run(self.routers[who].sweep(names))
        assert {**dry.to_json(), "dry_run": False} == wet.to_json()
        self.check_left(before, ended)
        again = self.run(self.routers[who].sweep(names))
        assert (again.actions, again.skipped) == ((), 0)

    def check_left(self, before: Mapping[str, tuple[Row, Mapping[str, JsonObject | None]]], ended: set[str]) -> None:
        for key, (was, beside) in before.items():
            row = self.row(key)
            if row is None:
                assert key in ended
                assert beside["attention"] is None
            elif row.status is not was.status:
                assert (was.status, row.status) == (MemoryStatus.LIVE, MemoryStatus.ARCHIVED)
                assert was.memory.significance < 0.8 or was.memory.type is MemoryType.WORKING
                assert beside["attention"] is None
                assert self.own(self.facets(row.memory.id, KEPT)) == self.own(beside)
            assert row is None or row.memory == was.memory

    @rule(who=WHO)
    def undo(self, who: int) -> None:
        archived = {key for key, (row, _) in self.seen().items() if row.status is MemoryStatus.ARCHIVED}
        self.run(self.routers[who].undo_sweep())
        assert {key for key, (row, _) in self.seen().items() if row.status is MemoryStatus.ARCHIVED} <= archived
        assert not any(self.run(self.routers[who].undo_sweep()))

    @rule(
        who=WHO,
        names=CHOSEN,
        key=KEYS,
        does=st.lists(st.sampled_from(["store", "forget", "restore", "archive"]), max_size=2),
        crowded=st.booleans(),
    )
    def sweep_and_undo(self, who: int, names: list[str], key: str, does: list[str], *, crowded: bool) -> None:
        """What was touched in between stays as it was left, all else is as before the sweep. One that does nothing
        leaves the one before it to be taken back."""
        self.wait(who, crowded=crowded)
        before, beside = self.statuses(), self.seen()
        written = {row.memory.id for row in self.summaries(MemoryStatus.LIVE)}
        if not self.run(self.routers[who].sweep(names)).actions:
            self.run(self.routers[who].undo_sweep())
            return
        swept = self.statuses()
        taken = {one: why for one, (now, why) in swept.items() if now is not before[one][0]}
        for one in does:
            self.meanwhile(key, one)
        left = self.statuses()
        self.run(self.routers[1 - who].undo_sweep())
        for one, (now, _) in self.statuses().items():
            was, why = left[one]
            comes_back = was is MemoryStatus.ARCHIVED and one in taken and why == taken[one]
            assert now is (MemoryStatus.LIVE if comes_back else was)
        if not does:
            assert {row.memory.id for row in self.summaries(MemoryStatus.LIVE)} == written
            assert {one: facets["links"] for one, (_, facets) in self.seen().items()} == {
                one: beside[one][1]["links"] for one in self.seen()
            }

    def statuses(self) -> dict[str, tuple[MemoryStatus, JsonObject | None]]:
        """Where each memory is, and why it is in the archive."""
        return {
            key: (row.status, self.facets(row.memory.id, ("archived",))["archived"])
            for key, (row, _) in self.seen().items()
        }

    def wait(self, who: int, *, crowded: bool) -> None:
        """Until much has faded, or until more that is new has been said than a tier has room for."""
        if not crowded:
            self.clock.jump(100 * DAY_S)
            return
        self.clock.jump(2 * DAY_S)
        for key in "abcde":
            self.store(key, who, MemoryType.SEMANTIC, 0.5, "x")

    @rule(who=WHO, names=CHOSEN, after=st.integers(1, 8), undoing=st.booleans(), crowded=st.booleans())
    def die_while_sweeping(self, who: int, names: list[str], after: int, undoing: bool, crowded: bool) -> None:
        """Killed between two changes: the next one to sweep goes on where this one was."""
        self.wait(who, crowded=crowded)
        disk, router = self.disks[who], self.routers[who]
        self.run(router._engine.flush())  # a sweep begins with that, and it changes what lies beside
        disk.before, disk.left = disk.die, after
        ended = self.swept_up()
        before = self.seen()
        try:
            self.run(router.undo_sweep() if undoing else router.sweep(names))
        except StoreUnwritable:
            disk.die()
        disk.before = None
        if not undoing:
            self.check_left(before, ended)
        self.reopen(who, crashing=True)

    @rule(
        who=WHO,
        names=CHOSEN,
        after=st.integers(1, 8),
        key=KEYS,
        does=st.sampled_from(["store", "forget", "restore", "use", "archive", "pin", "jump"]),
        crowded=st.booleans(),
    )
    def sweep_while_another_process(
        self, who: int, names: list[str], after: int, key: str, does: str, *, crowded: bool
    ) -> None:
        """Between the plan and a change, or between two changes, somebody else has his way with one memory."""
        self.wait(who, crowded=crowded)
        disk = self.disks[who]
        happened: list[tuple[Row | None, Mapping[str, JsonObject | None]]] = []

        touched: list[str] = []

        def happens() -> None:
            was_live = self.is_at_hand(key)
            is_planned = bool(planned)
            self.meanwhile(key, does)
            row = self.row(key)
            happened.append((row, {} if row is None else self.facets(row.memory.id, KEPT)))
            if does == "store" or (does == "restore" and not was_live) or (does == "use" and was_live):
                touched.extend([key] if is_planned and self.is_at_hand(key) else [])

        sweeper, planned = self.routers[who]._engine.sweeper, list[Plan]()
        plan = sweeper._plan

        async def noted(*what: Any) -> Plan:
            planned.append(await plan(*what))
            return planned[0]

        disk.before, disk.left = happens, after
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sweeper, "_plan", noted)
            self.run(self.routers[who].sweep(names))
        disk.before = None
        for touched_key in touched:
            row = self.row(touched_key)
            assert row is not None
            assert row.status is MemoryStatus.LIVE
        for was, beside in happened:
            row = self.row(key)
            if was is not None and was.status is MemoryStatus.FORGOTTEN:
                assert row is not None
                assert row.status is MemoryStatus.FORGOTTEN
            if was is not None and was.status is MemoryStatus.LIVE and beside["attention"] is not None:
                assert row is not None
                assert row.status is MemoryStatus.LIVE

    def meanwhile(self, key: str, does: str) -> None:
        memory_id = self.elsewhere.reader.id_of_key("app", key)
        if does == "jump":
            self.clock.jump(-DAY_S)
        elif does == "store":
            said = self.said(key, MemoryType.SEMANTIC, 0.5, "x")
            words = draft(said.content, key=key, metadata={"category": "x"})
            self.write(write.store(words, self.desk))
            row = self.row(key)
            assert row is not None
            said.type, said.significance = row.memory.type, row.memory.significance
        elif does == "forget" and self.write(write.forget(key, self.desk)) is not None:
            self.expected[key].forgotten = True
        elif does == "restore" and self.write(write.restore(key, self.desk)) is not None:
            self.expected[key].forgotten = False
        elif memory_id is not None and does == "use":
            self.write(lambda tx: alive.note(tx, memory_id, self.now_s))
        elif memory_id is not None and does == "pin":
            self.write(lambda tx: tx.set_facet("attention", memory_id, {"pinned": True}))
        elif does == "archive" and self.is_at_hand(key):
            assert memory_id is not None
            self.write(lambda tx: tx.set_status([memory_id], MemoryStatus.ARCHIVED))

    def write(self, change: Callable[[Transaction], T]) -> T:
        return self.elsewhere.write(change).result()

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def all_that_was_acknowledged_is_there(self) -> None:
        for key, expected in self.expected.items():
            row = self.row(key)
            if row is None:
                assert (expected.type, expected.significance < 0.8) == (MemoryType.WORKING, True)
                assert not expected.forgotten
                continue
            assert row.memory.content == expected.content
            assert (row.memory.type, row.memory.significance) == (expected.type, expected.significance)
            assert row.memory.metadata == {"category": expected.category}
            assert (row.status is MemoryStatus.FORGOTTEN) == expected.forgotten
            why = self.facets(row.memory.id, ("archived",))["archived"]
            assert why is None or row.status is not MemoryStatus.LIVE
            if why is not None and "summary" in why:
                assert row.status is not MemoryStatus.ARCHIVED or why["summary"] in {
                    one.memory.id for one in self.summaries(MemoryStatus.LIVE, MemoryStatus.ARCHIVED)
                }

    def teardown(self) -> None:
        try:
            for key, (row, beside) in self.seen().items():
                was_at_hand = self.is_at_hand(key)
                assert self.run(self.routers[0].restore(key)) is not None
                self.check_back(key, row, beside, was_at_hand=was_at_hand)
        finally:
            for router in self.routers:
                self.run(router.close())
            self.elsewhere.close()
            self.loop.close()
            check_integrity(self.home)
            self.folder.cleanup()
            self.patch.undo()

    def check_back(self, key: str, was: Row, beside: Mapping[str, JsonObject | None], *, was_at_hand: bool) -> None:
        """Live, found by its own word, and with all that lay beside it."""
        row = self.row(key)
        assert row is not None
        said_at = was.memory.updated_at  # bringing it back is later than forgetting it
        assert (row.status, replace(row.memory, updated_at=said_at)) == (MemoryStatus.LIVE, was.memory)
        words = row.memory.content.split()[-1]
        assert not self.has_ended(row)
        assert key in [hit.memory.key for hit in self.run(self.routers[0].search(words))]
        after = self.facets(row.memory.id, KEPT)
        moving = {"usage": None} if was_at_hand else {"usage": None, "tier": None}
        assert {**after, **moving} == {**beside, **moving}
        if "tier" in moving:
            tier = after["tier"]
            assert tier is not None
            assert tier["moved_at"] == self.now_s
            assert beside["tier"] is None or {**tier, "moved_at": None} == {**beside["tier"], "moved_at": None}


Sweepings.TestCase.settings = settings(stateful_step_count=30)
TestSweepings = Sweepings.TestCase
