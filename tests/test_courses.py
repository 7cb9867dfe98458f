"""The briefs of threads: whatever happened to memories, and whoever wrote briefs when, nobody reads an untrue one."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kingly_memory import Settings, topics
from kingly_memory.adapters.local.thread_rows import ThreadRows
from kingly_memory.app.parts import Leadership
from kingly_memory.attention.suggestions import ALIKE, Suggestions
from kingly_memory.cognition.working import owner
from kingly_memory.errors import RouterClosed
from kingly_memory.intake import draft
from kingly_memory.lifecycle.lifetimes import Lifetimes
from kingly_memory.models import JsonObject, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import archive, records, usage
from kingly_memory.router.archive import Archived
from kingly_memory.router.lock import Lock
from kingly_memory.router.records import Desk
from kingly_memory.router.right_of_way import RightOfWay
from kingly_memory.router.threads import courses, keeper, pairs, roots, suggesting
from kingly_memory.router.threads.briefs import Briefs, Survey
from kingly_memory.router.threads.courses import COURSE, TOPIC, Course, Read
from kingly_memory.router.threads.keeper import COLLECT_S, Keeper, Keeping
from kingly_memory.router.threads.pairs import Comparing, WorkedOut
from kingly_memory.router.threads.suggesting import Suggesting
from kingly_memory.router.usage import Used
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, memory_over

PROJECT = "app"
LASTING = Settings(durability="process", closing_s=0.0, usage_flush_s=1e9, semantic_lifetime_s=1e9)
TEXTS = (
    "the deploy waits for two reviews in the release channel",
    "deploys wait for reviews in the release channel",
    "the database schema has tables for invoices and customers",
    "invoices and customers have tables in the database schema",
    "garden tomatoes need water every second evening",
)
CONTEXT_IDS = ("alpha", "beta", "gamma")
CONTEXTS = st.sampled_from(CONTEXT_IDS)
KEYS = st.sampled_from(["k1", "k2", "k3", "k4"])
TYPES = st.sampled_from(["working", "semantic"])


def plain(told: Mapping[str, Course]) -> dict[str, Course]:
    """Without what rests on other threads, and on when they were worked out."""
    return {name: course._replace(alike=(), ends_s=None) for name, course in told.items()}


def keep(store: PromptStore, now_s: float, project: str = PROJECT) -> None:
    """What a keeper does in one round."""
    keeping = Keeping(store, project, Briefs(store.reader, project).survey(now_s), now_s)
    while keeping.some():
        pass


class Machine(RuleBasedStateMachine):
    """Four memories in three contexts that go on as each other, two keepers that may stop and go on at any time, and
    two readers of which one has been there from the start, beside one that never has time."""

    @initialize()
    def open(self) -> None:
        self._folder = TemporaryDirectory()
        self._store = PromptStore(Path(self._folder.name) / "home")
        self._clock = ManualClock()
        self._reading = Briefs(self._store.reader, PROJECT)
        self._suggesting = Suggesting(Briefs(self._store.reader, PROJECT), self._store.reader)
        self._hurried = Suggesting(Briefs(self._store.reader, PROJECT), self._store.reader)
        self._few = pytest.MonkeyPatch()
        self._few.setattr(pairs, "LEAST_READ", 1)
        self._few.setattr(suggesting, "MOST_NEW", 1)
        self._keepers: dict[int, Keeping] = {}

    def teardown(self) -> None:
        self._few.undo()
        self._store.close()
        self._folder.cleanup()

    @property
    def _now_s(self) -> float:
        return self._clock.now().timestamp()

    def _desk(self) -> Desk:
        return Desk(PROJECT, None, None, Lifetimes.of(LASTING), self._clock.now())

    @rule(key=KEYS, context=CONTEXTS, text=st.sampled_from(TEXTS), kind=TYPES)
    def store(self, key: str, context: str, text: str, kind: str) -> None:
        """New, or revised, maybe in another context."""
        one = draft(text, content_limit_bytes=10_000, key=key, context_id=context, type=kind)
        self._store.write(records.store(one, self._desk())).result()

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self._store.write(records.forget(key, self._desk())).result()

    @rule(key=KEYS)
    def restore(self, key: str) -> None:
        self._store.write(records.restore(key, self._desk())).result()

    @rule(key=KEYS)
    def put_away(self, key: str) -> None:
        def change(transaction: Transaction) -> None:
            row = records.find(transaction, PROJECT, key)
            if row is not None and row.standing is Standing.LIVE:
                archive.shelve(transaction, {row.memory.id: Archived(self._now_s, "test", "to see")})

        self._store.write(change).result()

    @rule(key=KEYS)
    def erase(self, key: str) -> None:
        def change(transaction: Transaction) -> None:
            row = records.find(transaction, PROJECT, key)
            if row is not None:
                transaction.erase(row.memory.id)

        self._store.write(change).result()

    @rule(key=KEYS)
    def use(self, key: str) -> None:
        def change(transaction: Transaction) -> None:
            row = records.find(transaction, PROJECT, key)
            facet = {} if row is None else transaction.facet("lifetime", row.memory.id) or {}
            if row is not None and facet.get("expires_at", 0.0) > self._now_s:
                usage.note(transaction, row.memory.id, Used(1, self._now_s))

        self._store.write(change).result()

    @rule(gone=CONTEXTS, kept=CONTEXTS)
    def merge(self, gone: str, kept: str) -> None:
        self._go_on(gone, {"context_id": gone, "into": kept} if gone != kept else {"context_id": gone})

    @rule(context=CONTEXTS)
    def part(self, context: str) -> None:
        self._go_on(context, None)

    def _go_on(self, context: str, facet: JsonObject | None) -> None:
        whose = owner(PROJECT, context)
        self._store.write(lambda transaction: transaction.set_facet("thread", whose, facet)).result()

    @rule()
    def let_a_quarter_of_an_hour_pass(self) -> None:
        self._clock.jump(1_000.0)

    @rule()
    def keep(self) -> None:
        keep(self._store, self._now_s)

    @rule(key=KEYS, context=CONTEXTS, text=st.sampled_from(TEXTS[:2]))
    def say_the_like_and_keep(self, key: str, context: str, text: str) -> None:
        self.store(key, context, text, "semantic")
        self.keep()

    @rule(who=st.sampled_from([0, 1]))
    def look_over(self, who: int) -> None:
        """A keeper begins anew, whatever it was at before."""
        found = Briefs(self._store.reader, PROJECT).survey(self._now_s)
        self._keepers[who] = Keeping(self._store, PROJECT, found, self._now_s)

    @rule(who=st.sampled_from([0, 1]))
    def keep_some(self, who: int) -> None:
        """By what it saw when it looked, which may be long ago."""
        if who in self._keepers:
            self._keepers[who].some()

    @invariant()
    def briefs_are_true(self) -> None:
        if not hasattr(self, "_store"):
            return
        fresh = Briefs(self._store.reader, PROJECT)
        anew = self._worked_out()
        for briefs in (self._reading, fresh):
            found = briefs.survey(self._now_s)
            comparing = Comparing(self._store.reader, PROJECT, found, self._now_s)
            known = briefs.worked_out(found, self._now_s)
            missing = [one for name, one in found.waiting.items() if name not in known]
            briefs.hold(known | comparing.compared(missing), {})
            told = {**found.current, **known, **briefs.worked_out(found, self._now_s)}
            assert plain(told) == plain({name: one.course for name, one in anew.items()})
            assert comparing.pairs(told).keys() == alike(anew)

    @invariant()
    def what_is_remembered_is_as_it_is_read(self) -> None:
        if not hasattr(self, "_store"):
            return
        reader = self._store.reader
        anew = ThreadRows(reader._connections)
        assert set(reader.threads.talks(PROJECT)) == set(anew.talks(PROJECT))
        suggested = self._suggesting.suggest(None, self._now_s)
        assert suggested == Suggesting(Briefs(reader, PROJECT), reader).suggest(None, self._now_s)
        assert suggested == self._suggesting.suggest(None, self._now_s)
        assert suggested == self._by_and_by()

    def _by_and_by(self) -> Suggestions:
        """What is suggested in the end to somebody who reads next to nothing each time."""
        suggested = self._hurried.suggest(None, self._now_s, 0.0)
        for _ in CONTEXT_IDS:
            is_over = not suggested.unread
            suggested = self._hurried.suggest(None, self._now_s, 0.0)
            if is_over:
                return suggested
        assert suggested.unread == 0
        return suggested

    def _worked_out(self) -> dict[str, Read]:
        """All briefs, as if nobody had ever written one."""
        found = Briefs(Bare(self._store.reader), PROJECT).survey(self._now_s)  # type: ignore[arg-type]
        assert found.current == {}
        return self._read(found)

    def _read(self, found: Survey) -> dict[str, Read]:
        reader = self._store.reader
        told = {name: courses.read(reader, PROJECT, one, self._now_s) for name, one in found.waiting.items()}
        return {name: one for name, one in told.items() if one is not None}


class Bare:
    """A reader of a store in which there are no briefs."""

    def __init__(self, reader: object) -> None:
        self._reader = reader
        self.threads = self

    def __getattr__(self, name: str) -> object:
        return getattr(self._reader, name)

    def version(self) -> None:
        return None

    def talks(self, project: str) -> object:
        return self._reader.threads.talks(project)  # type: ignore[attr-defined]

    def together(self, facet: str, beginning: str, limit: int) -> object:
        return iter(())

    def named(self, facet: str, limit: int, after: str = "") -> object:
        return [] if facet == COURSE else self._reader.threads.named(facet, limit, after)  # type: ignore[attr-defined]


def alike(read: Mapping[str, Read]) -> set[tuple[str, str]]:
    """Every pair above the threshold, each held against each."""
    pairs = combinations(sorted(read), 2)
    return {(a, b) for a, b in pairs if round(topics.cosine(read[a].topic, read[b].topic), 4) > ALIKE}


TestBriefs = Machine.TestCase
TestBriefs.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


def briefs(store: PromptStore) -> dict[str, JsonObject]:
    """As they lie in the store, by owner."""
    return dict(store.reader.threads.named(COURSE, 1_000))


async def test_briefs_are_written_behind_stores(store: PromptStore) -> None:
    clock = ManualClock()
    async with memory_over(store, None, clock, settings=LASTING) as memory:
        await memory.store(TEXTS[0], context_id="alpha")
        await memory.store(TEXTS[1], context_id="beta")
        assert briefs(store) == {}
        await clock.advance(COLLECT_S)
        await memory._keeper.complete()  # type: ignore[union-attr]
    kept = {courses.from_json(facet, PROJECT) for facet in briefs(store).values()}
    assert {one.context_id for one in kept if one is not None} == {"alpha", "beta"}
    assert any(one.alike for one in kept if one is not None)


async def test_what_was_forgotten_is_read_in_no_brief(store: PromptStore) -> None:
    clock = ManualClock()
    async with memory_over(store, None, clock, settings=LASTING) as memory:
        stored = await memory.store(TEXTS[4], context_id="alpha")
        keep(store, clock.now().timestamp())
        assert "tomatoes" in str(briefs(store))
        await memory.forget(stored.id)
        assert (await memory.threads.suggestions()).health["active_threads"] == 0
        keep(store, clock.now().timestamp())
    assert briefs(store) == {}
    assert store.reader.threads.named(TOPIC, 10) == []


async def test_what_another_process_wrote_of_a_thread_that_is_no_more_is_tidied_away(store: PromptStore) -> None:
    clock = ManualClock()
    async with memory_over(store, None, clock, settings=LASTING) as memory:
        await memory.store(TEXTS[0], context_id="alpha")
        own = Keeper(PROJECT, memory._briefs, store=store, clock=clock)
        await own.complete()
        for name in ("beta", "gamma"):
            await memory.store(TEXTS[2], context_id=name)
        keep(store, clock.now().timestamp())  # as another process does
        await memory.threads.merge("beta", "gamma")
        for _ in range(2 * keeper.TIDIED):
            await own.complete()
        own.stop()
    kept = [courses.from_json(facet, PROJECT) for facet in briefs(store).values()]
    assert {one.context_id for one in kept if one is not None} == {"alpha", "beta"}


async def test_one_keeper_at_a_time_writes_briefs_and_the_next_takes_over(store: PromptStore, tmp_path: Path) -> None:
    clock = ManualClock()
    briefs_of = Briefs(store.reader, PROJECT)
    path = tmp_path / "threads.lock"
    first, second = (
        Keeper(PROJECT, briefs_of, store=store, clock=clock, lock=Lock(lead.take, lead.give_up))
        for lead in (Leadership(path), Leadership(path))
    )
    assert await first._lead()
    assert not await second._lead()
    first.stop()
    assert await second._lead()
    second.stop()


async def test_who_does_not_hold_the_lock_writes_no_brief(store: PromptStore) -> None:
    clock = ManualClock()
    async with memory_over(store, None, clock, settings=LASTING) as memory:
        await memory.store(TEXTS[0], context_id="alpha")
        free = [False]
        own = Keeper(PROJECT, memory._briefs, store=store, clock=clock, lock=Lock(lambda: free[0]))
        await own._catch_up_if_possible()
        assert briefs(store) == {}
        free[0] = True
        await own._catch_up_if_possible()
        assert len(briefs(store)) == 1
        own.stop()


def test_what_is_forgotten_while_it_is_read_is_not_written_down(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = ManualClock().now().timestamp()
    desk = Desk(PROJECT, None, None, Lifetimes.of(LASTING), ManualClock().now())
    one = draft(TEXTS[4], content_limit_bytes=10_000, context_id="alpha")
    stored = store.write(records.store(one, desk)).result()
    read = courses.read

    def then_forget(*given: Any) -> Read | None:
        found = read(*given)
        store.write(records.forget(stored.receipt.id, desk)).result()
        return found

    monkeypatch.setattr(courses, "read", then_forget)
    keep(store, now_s)
    assert briefs(store) == {}
    assert store.reader.threads.named(TOPIC, 10) == []


def test_what_somebody_else_has_written_down_meanwhile_is_not_worked_out_again(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = ManualClock().now().timestamp()
    desk = Desk(PROJECT, None, None, Lifetimes.of(LASTING), ManualClock().now())
    one = draft(TEXTS[0], content_limit_bytes=10_000, context_id="alpha")
    store.write(records.store(one, desk)).result()
    late = Keeping(store, PROJECT, Briefs(store.reader, PROJECT).survey(now_s), now_s)
    keep(store, now_s)
    monkeypatch.setattr(courses, "read", lambda *_: pytest.fail("it is known"))
    assert not late.some()


def test_two_who_write_like_threads_at_once_find_each_other(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second looks and writes after the first has looked and before that one writes."""
    now_s = ManualClock().now().timestamp()
    desk = Desk(PROJECT, None, None, Lifetimes.of(LASTING), ManualClock().now())
    for context in ("alpha", "beta"):
        one = draft(TEXTS[0], content_limit_bytes=10_000, context_id=context)
        store.write(records.store(one, desk)).result()
    found = Briefs(store.reader, PROJECT).survey(now_s)
    first, second = Keeping(store, PROJECT, found, now_s), Keeping(store, PROJECT, found, now_s)
    first._waiting, second._waiting = [found.waiting["alpha"]], [found.waiting["beta"]]
    write = Keeping._write

    def late(self: Keeping, read: Mapping[str, Read]) -> None:
        monkeypatch.setattr(Keeping, "_write", write)
        second.some()
        write(self, read)

    monkeypatch.setattr(Keeping, "_write", late)
    first.some()
    kept = courses.kept(store.reader, PROJECT, ["alpha", "beta"])
    assert {name: len(course.alike) for name, course in kept.items()} == {"alpha": 1, "beta": 0}


@pytest.mark.parametrize("said", ["alpha", "beta", "gamma", "outside"])
def test_threads_that_go_on_as_each_other_are_one(said: str) -> None:
    """Whoever wrote that."""
    into = {"alpha": "gamma", "gamma": "beta", "beta": "alpha", "outside": "gamma"}
    assert roots.root(said, {name: {"into": target} for name, target in into.items()}) == "alpha"


def test_a_thread_of_another_project_is_nobody_elses(store: PromptStore) -> None:
    now_s = ManualClock().now().timestamp()
    for project in ("app", "other"):
        desk = Desk(project, None, None, Lifetimes.of(LASTING), ManualClock().now())
        one = draft(TEXTS[0], content_limit_bytes=10_000, context_id="alpha")
        store.write(records.store(one, desk)).result()
        keep(store, now_s, project)
    found = Briefs(store.reader, "app").survey(now_s)
    assert list(found.current) == ["alpha"]
    assert found.current["alpha"].alike == ()
    assert len(briefs(store)) == 2


@pytest.mark.parametrize(
    "facet",
    [
        {},
        {"project": PROJECT, "form": 99, "course": []},
        {"project": PROJECT, "form": 1, "course": ["alpha"]},
        {"project": PROJECT, "form": 1, "course": [1, [], "", 0, 0, None, False, True, 0, "", [], [], []]},
        {"project": PROJECT, "form": 1, "course": ["a", [["x"]], "", 0, 0, None, False, True, 0, "", [], [], []]},
        {"project": PROJECT, "form": 1, "course": ["a", [], "", 0, 0, None, False, True, 0, "", [7], [], []]},
        {"project": PROJECT, "form": 1, "course": ["a", [], "", 0, 0, None, False, True, 0, "", [], [], [["b", 1]]]},
        {"project": PROJECT, "form": 1, "course": "alpha"},
    ],
)
def test_what_is_no_brief_is_worked_out_anew(store: PromptStore, facet: JsonObject) -> None:
    assert courses.from_json(facet, PROJECT) is None
    now_s = ManualClock().now().timestamp()
    desk = Desk(PROJECT, None, None, Lifetimes.of(LASTING), ManualClock().now())
    one = draft(TEXTS[0], content_limit_bytes=10_000, context_id="alpha")
    store.write(records.store(one, desk)).result()
    store.write(lambda transaction: transaction.set_facet(COURSE, owner(PROJECT, "alpha"), facet)).result()
    assert list(Briefs(store.reader, PROJECT).survey(now_s).waiting) == ["alpha"]
    keep(store, now_s)
    assert list(Briefs(store.reader, PROJECT).survey(now_s).current) == ["alpha"]


async def test_a_long_thread_is_read_in_part(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its latest memories say what it is about, its first what it is called."""
    monkeypatch.setattr(courses, "READ_MOST", 4)
    clock = ManualClock()
    async with memory_over(store, None, clock, settings=LASTING) as memory:
        await memory.store("Notes on the garden", context_id="alpha", title="Garden")
        for number in range(6):
            await memory.store(f"database schema of table {number}", context_id="alpha")
    [outline] = Briefs(store.reader, PROJECT).survey(0.0).waiting.values()
    read = courses.read(store.reader, PROJECT, outline, clock.now().timestamp())
    assert read is not None
    assert read.course.title == "Garden"
    assert read.words["schema"] == 3
    assert outline.made_of.startswith("7.")


async def test_a_store_that_fails_is_said_once_and_tried_again(
    store: PromptStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    broken = True
    survey = Briefs.survey

    def look(self: Briefs, *how: object) -> Survey:
        if broken:
            raise OSError("no room")
        return survey(self, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(Briefs, "survey", look)
    one = keeper.Keeper(PROJECT, Briefs(store.reader, PROJECT), store=store, clock=clock)
    await one._catch_up_if_possible()
    await one._catch_up_if_possible()
    assert [record.message for record in caplog.records] == ["threads are not kept in brief for now: OSError: no room"]
    broken = False
    await one._catch_up_if_possible()
    assert one._complaint is None
    one.stop()


def test_whoever_stores_goes_first(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    one = keeper.Keeper(PROJECT, Briefs(store.reader, PROJECT), store=store, clock=ManualClock())
    one._pause()
    one.wake()
    one._pause()
    one._pause()
    assert slept == [keeper.PAUSE_S, keeper.GIVE_WAY_S, keeper.PAUSE_S]
    one.stop()
    with pytest.raises(RouterClosed):
        one._pause()


def test_whoever_searches_goes_first(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[float | str] = []
    monkeypatch.setattr("time.sleep", happened.append)
    way = RightOfWay()
    monkeypatch.setattr(way, "give", lambda: happened.append("gives way"))
    briefs_of = Briefs(store.reader, PROJECT)
    one = keeper.Keeper(PROJECT, briefs_of, store=store, clock=ManualClock(), right_of_way=way)
    with way.search():
        one._pause()
        one._pause()
    one._pause()
    one._pause()
    assert happened[1::2] == ["gives way"] * 4
    assert happened[::2] == [keeper.GIVE_WAY_S] * 3 + [keeper.PAUSE_S]
    one.stop()


def test_a_home_without_a_store_has_no_threads(tmp_path: Path) -> None:
    store = PromptStore(tmp_path / "home")
    assert Briefs(store.reader, PROJECT).survey(0.0) == Survey()
    store.close()


async def test_what_took_long_to_work_out_is_there_for_the_next_process(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggesting, "WORTH_S", -1.0)
    monkeypatch.setattr(keeper, "SHARE", 1e9)
    clock = ManualClock()
    async with memory_over(store, None, clock, settings=LASTING) as memory:
        for at, text in enumerate(TEXTS):
            await memory.store(text, context_id=f"t{at}")
        await memory.store(TEXTS[0], context_id="t9")
        memory._keeper = Keeper(PROJECT, memory._briefs, store=store, clock=clock)
        first = await memory.threads.suggestions(within=math.inf)
    found = Briefs(store.reader, PROJECT).survey(clock.now().timestamp())
    assert (set(found.current), found.waiting) == ({"t0", "t1", "t2", "t3", "t4", "t9"}, {})
    fresh = Suggesting(Briefs(store.reader, PROJECT), store.reader)
    assert fresh.suggest(None, clock.now().timestamp()) == first
    assert first.merge_candidates


async def test_what_was_worked_out_is_not_written_once_memories_have_come(store: PromptStore) -> None:
    clock = ManualClock()
    async with memory_over(store, None, clock, settings=LASTING) as memory:
        await memory.store(TEXTS[0], context_id="alpha")
        now_s = clock.now().timestamp()
        found = memory._briefs.survey(now_s)
        comparing = Comparing(store.reader, PROJECT, found, now_s)
        read = comparing.read(comparing.compared(list(found.waiting.values())))
        own = Keeper(PROJECT, memory._briefs, store=store, clock=clock)
        await memory.store(TEXTS[1], context_id="beta")
        assert await own.take_over(WorkedOut(found, read, 1e9)) == 0
        assert briefs(store) == {}
        own.stop()
        assert await own.take_over(WorkedOut(memory._briefs.survey(now_s), read, 1e9)) == 0


def test_talks_go_on_from_what_is_known_whatever_the_clock_of_another_writer_says(store: PromptStore) -> None:
    desk = Desk(PROJECT, None, None, Lifetimes.of(LASTING), ManualClock().now())
    for context in ("alpha", "beta"):
        store.write(records.store(draft(context, content_limit_bytes=100, context_id=context), desk)).result()
    known = {talk.context: talk for talk in store.reader.threads.talks(PROJECT)}
    connection = sqlite3.connect(store.home / "store" / "cache.db")
    with closing(connection), connection:
        [(last,)] = connection.execute("SELECT max(key) FROM Cache WHERE key < 'm;'")
        connection.execute("UPDATE Cache SET store_time = 1000.5, value = value WHERE key = ?", (last,))
    now = {talk.context: talk for talk in store.reader.threads.talks(PROJECT)}
    assert (now.keys(), len(set(now.values()) - set(known.values()))) == (known.keys(), 1)


def test_a_version_of_the_store_holds_until_somebody_writes(store: PromptStore) -> None:
    desk = Desk(PROJECT, None, None, Lifetimes.of(LASTING), ManualClock().now())
    threads = store.reader.threads
    assert threads.version() is None
    store.write(records.store(draft("a", content_limit_bytes=100), desk)).result()
    first = threads.version()
    assert first is not None
    assert first == threads.version()
    store.write(records.store(draft("b", content_limit_bytes=100), desk)).result()
    assert threads.version() not in (first, None)
