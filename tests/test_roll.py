"""The roll of a project's threads: it comes back as it was written, is never believed, and keeps nothing forgotten."""

from __future__ import annotations

import gc
import math
import shutil
import sqlite3
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from kingly_memory import Settings
from kingly_memory.adapters.local import parsing, rows, sql, thread_rows
from kingly_memory.adapters.local.reader import Reader
from kingly_memory.adapters.local.thread_rows import ThreadRows
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.ids import MemoryId
from kingly_memory.intake import draft
from kingly_memory.lifecycle.lifetimes import Lifetimes
from kingly_memory.models import JsonObject, Standing
from kingly_memory.ports import Seen, Talk, Transaction
from kingly_memory.router import archive, records
from kingly_memory.router.archive import Archived
from kingly_memory.router.lock import Lock
from kingly_memory.router.records import Desk
from kingly_memory.router.right_of_way import no_pause
from kingly_memory.router.threads import keeper, leaving, roll, rolling, suggesting, told
from kingly_memory.router.threads.briefs import Briefs
from kingly_memory.router.threads.courses import Course
from kingly_memory.router.threads.keeper import Keeper
from kingly_memory.router.threads.roll import ROLL, Rolled
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, memory_over
from tests.test_courses import CONTEXTS, KEYS, Machine, plain
from tests.test_courses import TEXTS as SAYINGS

PROJECT = "app"
LASTING = Settings(durability="process", closing_s=0.0, usage_flush_s=1e9, semantic_lifetime_s=1e9)
SEEN = Seen((Talk("0" * 20, 2, 7, 3),), 5.5)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["", "\x7f", "a\x7fb", "\x7f[]"]
)
TIMES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**62), 2**62)
PAIRS = st.tuples(TEXTS, TEXTS)
COURSES = st.builds(
    Course,
    TEXTS,
    st.lists(PAIRS, max_size=2).map(tuple),
    TEXTS,
    TIMES,
    TIMES,
    st.none() | TIMES,
    st.booleans(),
    st.booleans(),
    TIMES,
    TEXTS,
    st.lists(TEXTS, max_size=3).map(tuple),
    st.lists(TEXTS, max_size=3).map(tuple),
    st.lists(st.tuples(TEXTS, TIMES, TEXTS), max_size=2).map(tuple),
)
ALONE = st.builds(lambda one, token: one._replace(contexts=((one.context_id, token),)), COURSES, TEXTS)
NUMBERS = st.integers(-(2**40), 2**62)
TALKS = st.lists(st.builds(Talk, TEXTS, NUMBERS, NUMBERS, NUMBERS), max_size=5, unique_by=lambda talk: talk.context)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PromptStore]:
    store = PromptStore(tmp_path / "home")
    yield store
    store.close()


def many(count: int, title: str = "Deploys", made_of: str = "1.1") -> list[Course]:
    names = [f"t{number}" for number in range(count)]
    return [Course(one, ((one, f"{one}-token"),), made_of, title=f"{title} {one}") for one in names]


def written(store: PromptStore, courses: list[Course], seen: Seen = SEEN, project: str = PROJECT) -> Rolled | None:
    store.write(roll.write(project, courses, seen)).result()
    return roll.read(store.reader, project)


def pages(store: PromptStore, project: str = PROJECT) -> dict[str, JsonObject]:
    """As they lie in the store, by owner."""
    owners = roll.pages(store.reader.threads, project)
    return store.reader.facets(ROLL, [one for one in owners if one[-4:].isdigit()])


def _removed(transaction: Transaction, owner: str) -> None:
    transaction.set_facet(ROLL, owner, None)


def everything(store: PromptStore) -> str:
    """All that lies in the store beside memories."""
    with closing(sqlite3.connect(store.home / "store" / "cache.db")) as connection:
        return str(connection.execute("SELECT value FROM Cache WHERE key NOT LIKE 'm:%'").fetchall())


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_only_for_who_waits_for_a_first_look_the_collector_is_put_off(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch, is_waited_for: bool
) -> None:
    was_on: list[bool] = []
    read = roll.read

    def noted(*how: Any) -> Rolled | None:
        was_on.append(gc.isenabled())
        return read(*how)

    monkeypatch.setattr(roll, "read", noted)
    Briefs(store.reader, PROJECT).survey(0.0, no_pause if is_waited_for else lambda: None)
    assert was_on == [not is_waited_for]
    assert gc.isenabled()


# --- what is written is read ------------------------------------------------------------------------------------------


class Shelf:
    """A store of facets in memory, as they would lie on a disk: its own transaction, reader and rows of threads."""

    def __init__(self) -> None:
        self.facets: dict[str, str] = {}
        self.threads = self

    def set_facet(self, name: str, owner: str, value: JsonObject) -> None:
        self.facets[f"{name}:{owner}"] = rows.dump(value).encode().decode()

    def owners(self, facet: str, beginning: str) -> list[str]:
        return sorted(self.facets)

    def together(self, facet: str, beginning: str, limit: int) -> Iterator[JsonObject | None]:
        return (parsing.facet(one, self.facets[one]) for one in sorted(self.facets)[:limit])


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(COURSES | ALONE, max_size=6, unique_by=lambda one: one.context_id), TALKS, st.floats(-1e12, 1e12))
@example([Course("a", (("b", "c"),), "", topics=("\x7f",), drift=("", "x"), alike=(("\x7f", 0.1, ""),))], [], 0.0)
def test_what_is_written_is_read(courses: list[Course], talks: list[Talk], since_s: float) -> None:
    seen, shelf = Seen(tuple(talks), since_s), Shelf()
    roll.write(PROJECT, courses, seen)(shelf)  # type: ignore[arg-type]  # as much of one as is asked for
    found = roll.read(shelf, PROJECT)  # type: ignore[arg-type]  # the same
    assert found == Rolled({one.context_id: one for one in courses}, seen)
    assert repr(found) == repr(Rolled({one.context_id: one for one in courses}, seen))


def test_a_roll_has_as_many_pages_as_it_needs_and_leaves_none_behind(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roll, "PAGE_THREADS", 2)
    talks = tuple(Talk(f"c{number}", 1, number, number) for number in range(7))
    found = written(store, many(5), Seen(talks, 1.0))
    assert found == Rolled({one.context_id: one for one in many(5)}, Seen(talks, 1.0))
    assert len(pages(store)) == 3
    written(store, many(9), project="other")
    assert written(store, many(1)) == Rolled({"t0": many(1)[0]}, SEEN)
    assert (len(pages(store)), len(pages(store, "other"))) == (1, 5)
    store.write(lambda transaction: roll.drop(transaction, PROJECT)).result()
    assert (pages(store), roll.read(store.reader, PROJECT)) == ({}, None)
    assert len(pages(store, "other")) == 5


def test_a_roll_that_is_dropped_where_it_is_written_is_gone(store: PromptStore) -> None:
    def change(transaction: Transaction) -> None:
        roll.drop(transaction, PROJECT)
        roll.write(PROJECT, many(2), SEEN)(transaction)
        roll.note(transaction, PROJECT, ["t0"])
        roll.drop(transaction, PROJECT)

    store.write(change).result()
    assert roll.pages(store.reader.threads, PROJECT) == []


def test_threads_with_much_to_say_make_a_page_of_few(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "PAGE_CHARACTERS", 1_000)
    found = written(store, many(4, title="deploys " * 100))
    assert found is not None
    assert (list(found.courses.values()), len(pages(store))) == (many(4, title="deploys " * 100), 2)


def test_talks_of_many_contexts_take_pages_of_their_own(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "PAGE_TALKS", 3)
    seen = Seen(tuple(Talk(f"c{number}", 1, number, number) for number in range(7)), 1.0)
    assert written(store, many(1), seen) == Rolled({"t0": many(1)[0]}, seen)
    assert len(pages(store)) == 3


def test_a_project_with_too_many_threads_has_no_roll(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    written(store, many(2))
    monkeypatch.setattr(roll, "PAGE_THREADS", 1)
    monkeypatch.setattr(roll, "MOST_PAGES", 3)
    assert written(store, many(4)) is None
    assert pages(store) == {}


@pytest.mark.parametrize(
    "bad",
    [
        {"ends_s": math.inf},
        {"first_s": math.nan},
        {"held_s": 10**400},
        {"title": "\ud800"},
        {"topics": ("fine", "\udfff")},
        {"alike": (("t1", math.nan, "1.1/None"),)},
    ],
)
def test_a_brief_that_cannot_be_written_is_left_out(store: PromptStore, bad: dict[str, Any]) -> None:
    first, second = many(2)
    assert written(store, [first._replace(**bad), second]) == Rolled({"t1": second}, SEEN)


def test_the_pages_are_made_in_small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "BITE", 10)
    pauses: list[None] = []
    roll.write(PROJECT, many(100), SEEN, lambda: pauses.append(None))
    assert len(pauses) >= 10


# --- what nobody wrote is not believed --------------------------------------------------------------------------------

Spoil = Callable[[JsonObject], object]
ZEROS = b64encode(bytes(16)).decode()
"""Two numbers, as they are packed."""


def test_packed_numbers_are_numbers(store: PromptStore) -> None:
    assert written(store, many(2)) is not None
    [(owner, page)] = pages(store).items()
    page["courses"][4] = {"q": ZEROS}
    store.write(lambda transaction: transaction.set_facet(ROLL, owner, page)).result()
    found = roll.read(store.reader, PROJECT)
    assert found is not None
    assert [one.first_s for one in found.courses.values()] == [0, 0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda page: page.clear(),
        lambda page: page.pop("talks"),
        lambda page: page.update(project="other"),
        lambda page: page.update(form=99),
        lambda page: (page.update(form=1), page.pop("state")),
        lambda page: page.update(briefs=99),
        lambda page: page.update(page=5),
        lambda page: page.update(pages=3),
        lambda page: page.update(pages="many"),
        lambda page: page.update(since_s=6.5),
        lambda page: page.update(since_s=None),
        lambda page: page.update(since_s="5.5"),
        lambda page: page.update(state="another"),
        lambda page: page.update(state=None),
        lambda page: page.update(courses={}),
        lambda page: page.update(courses=7),
        lambda page: page["courses"].pop(),
        lambda page: page["courses"].append([]),
        lambda page: page.update(talks=[["c"], [1], [1]]),
        lambda page: page.update(talks=[["c"], [1], [1], ["1"]]),
        lambda page: page.update(talks=[["c"], [1], [1], [True]]),
        lambda page: page.update(talks=[["c"], [1], [1], [1, 2]]),
        lambda page: page.update(talks=[["c", "c"], [1, 1], [1, 1], [1, 1]]),
        *(
            lambda page, at=at, value=value: page["courses"].__setitem__(at, value)
            for at, value in [
                (0, ["t0", "t0"]),
                (0, ["t0", 7]),
                (0, ["t0"]),
                (0, "tt"),
                (0, {"t0": 0, "t1": 1}),
                (1, ["\x7f", ""]),
                (1, ["[[1, 2]]", ""]),
                (1, ['[["a"]]', ""]),
                (1, ["[7]", ""]),
                (1, ["7", ""]),
                (3, {"d": ZEROS}),
                (4, {}),
                (4, {"d": ZEROS, "q": ZEROS}),
                (4, {"Q": ZEROS}),
                (4, {"d": 7}),
                (4, {"d": ZEROS[:12]}),
                (4, {"d": ZEROS[:20] + "!" + ZEROS[20:]}),
                (4, {"d": "AAAAAAAAAAA="}),
                (4, [None, 1.0]),
                (6, ["never", 1.0]),
                (7, [0, False]),
                (10, [None, ""]),
                (11, ["\x7f[", ""]),
                (11, ["\x7f[1]", ""]),
                (11, ["\x7f7", ""]),
                (11, ["\x7f" + "[" * 100_000, ""]),
                (13, ["a\x7fb\x7fc", ""]),
                (13, ["a\x7f0.5", ""]),
                (13, ["\x7f[[1]]", ""]),
                (13, ["\x7f[[[], 1, 2]]", ""]),
                (13, ["\x7f", ""]),
            ]
        ),
    ],
)
@pytest.mark.parametrize("at", [0, 1])
def test_a_roll_with_a_page_that_is_none_counts_as_missing(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch, spoil: Spoil, at: int
) -> None:
    monkeypatch.setattr(roll, "PAGE_THREADS", 2)
    assert written(store, many(4)) is not None
    owner, page = sorted(pages(store).items())[at]
    spoil(page)
    store.write(lambda transaction: transaction.set_facet(ROLL, owner, page)).result()
    assert roll.read(store.reader, PROJECT) is None


def test_a_roll_with_a_page_that_is_missing_or_cannot_be_read_counts_as_missing(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roll, "PAGE_THREADS", 2)
    assert written(store, many(6)) is not None
    for owner in pages(store):
        store.write(partial(_removed, owner=owner)).result()
        assert roll.read(store.reader, PROJECT) is None
        assert written(store, many(6)) is not None
    with closing(sqlite3.connect(store.home / "store" / "cache.db")) as connection, connection:
        connection.execute("UPDATE Cache SET value = substr(value, 9) WHERE key LIKE 'roll:%0001'")
    assert roll.read(store.reader, PROJECT) is None
    assert written(store, many(1)) is not None


def test_a_roll_of_briefs_that_were_worked_out_in_another_way_counts_as_missing(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert written(store, many(1)) is not None
    monkeypatch.setattr(told, "FORM", told.FORM + 1)
    assert roll.read(store.reader, PROJECT) is None


def test_a_home_without_a_store_has_no_roll(store: PromptStore) -> None:
    assert roll.read(store.reader, PROJECT) is None


def behind(store: PromptStore, *names: str) -> None:
    store.write(lambda transaction: roll.note(transaction, PROJECT, names)).result()


def test_a_brief_that_was_written_since_is_not_read_from_the_roll(store: PromptStore) -> None:
    written(store, many(4))
    behind(store, "t1")
    behind(store, "t2", "t1", "t9")
    known = roll.read(store.reader, PROJECT)
    assert known is not None
    assert known.courses.keys() == {"t0", "t3"}
    assert written(store, many(4)) == Rolled({one.context_id: one for one in many(4)}, SEEN)


def test_a_roll_goes_when_too_much_was_written_since(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "MOST_BEHIND", 2)
    written(store, many(4))
    behind(store, "t0", "t1")
    assert roll.read(store.reader, PROJECT) is not None
    behind(store, "t2")
    assert roll.read(store.reader, PROJECT) is None
    assert "t0" not in everything(store)
    assert not store.write(roll.announce(PROJECT)).result()


def test_where_there_is_no_roll_nothing_is_noted(store: PromptStore) -> None:
    behind(store, "t0")
    assert roll.pages(store.reader.threads, PROJECT) == []
    assert store.write(roll.announce(PROJECT)).result()
    behind(store, "t0")
    assert len(roll.pages(store.reader.threads, PROJECT)) == 1
    assert not store.write(roll.announce(PROJECT)).result()


@pytest.mark.parametrize("facet", [{}, {"behind": 7}, {"behind": [["t0"]]}, {"behind": ["t0", 1]}])
def test_a_roll_beside_which_nobody_can_tell_what_was_written_since_counts_as_missing(
    store: PromptStore, facet: JsonObject
) -> None:
    written(store, many(2))
    behind(store, "t0")
    [owner] = [one for one in roll.pages(store.reader.threads, PROJECT) if not one[-4:].isdigit()]
    store.write(lambda transaction: transaction.set_facet(ROLL, owner, facet)).result()
    assert roll.read(store.reader, PROJECT) is None
    behind(store, "t1")
    assert roll.read(store.reader, PROJECT) is None
    assert pages(store) == {}


# --- what was seen of the contexts, from another process --------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from(["store", "forget", "restore", "put away", "erase", "late"]), KEYS, CONTEXTS), max_size=6
)


def desk() -> Desk:
    return Desk(PROJECT, None, None, Lifetimes.of(LASTING), ManualClock().now())


def said(store: PromptStore, key: str, context: str) -> str:
    """New, or revised, maybe in another context."""
    one = draft(f"{key} in {context}", content_limit_bytes=10_000, key=key, context_id=context, type="semantic")
    return store.write(records.store(one, desk())).result().receipt.id


def do(store: PromptStore, step: str, key: str, context: str) -> None:
    if step == "store":
        said(store, key, context)
    elif step == "forget":
        store.write(records.forget(key, desk())).result()
    elif step == "restore":
        store.write(records.restore(key, desk())).result()
    elif step == "late":
        whose = said(store, key, context)
        with closing(sqlite3.connect(store.home / "store" / "cache.db")) as connection, connection:
            connection.execute("UPDATE Cache SET store_time = store_time - 1000 WHERE key = ?", (f"m:{whose}",))
    else:
        store.write(lambda transaction: _put_out(transaction, key, erased=step == "erase")).result()


def _put_out(transaction: Transaction, key: str, *, erased: bool) -> None:
    row = records.find(transaction, PROJECT, key)
    if row is not None and erased:
        transaction.erase(row.memory.id)
    elif row is not None and row.standing is Standing.LIVE:
        archive.shelve(transaction, {row.memory.id: Archived(1.0, "test", "to see")})


def statements(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fills up with what the store is asked from now on."""
    asked: list[str] = []
    rows = store.reader._connections.rows

    def noted(statement: str, *how: Any) -> list[Any]:
        asked.append(statement)
        return rows(statement, *how)

    monkeypatch.setattr(store.reader._connections, "rows", noted)
    return asked


def fresh(store: PromptStore) -> ThreadRows:
    """What another process has to look with."""
    return ThreadRows(store.reader._connections)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS, STEPS, st.sampled_from([-1e9, -20.0, 0.0, 20.0, 1e9]), st.sampled_from([1, 100]), st.booleans())
def test_talks_go_on_rightly_from_what_was_seen_whatever_happened_and_whatever_the_clock_said(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]], wrong_s: float, most: int, is_told: bool
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(thread_rows, "_MOST_WRITTEN", most)
        store = PromptStore(Path(folder) / "home")
        for key, context in (("k1", "alpha"), ("k2", "alpha"), ("k3", "beta")):
            said(store, key, context)
        for step in before:
            do(store, *step)
        first = fresh(store)
        first.talks(PROJECT)
        seen = first.seen(PROJECT)
        assert seen is not None
        for step in after:
            do(store, *step)
        another = fresh(store)
        another.go_on(PROJECT, Seen(seen.talks, seen.since_s + wrong_s, seen.state if is_told else ""))
        assert set(another.talks(PROJECT)) == set(fresh(store).talks(PROJECT))
        store.close()


def test_as_long_as_nothing_was_done_to_a_memory_no_row_is_looked_at(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(store, "k0", "c0")
    first = fresh(store)
    talks = first.talks(PROJECT)
    seen = first.seen(PROJECT)
    assert seen is not None
    store.write(lambda transaction: transaction.set_facet("focus", "whoever", {"is": "no memory"})).result()
    asked = statements(store, monkeypatch)
    another = fresh(store)
    another.go_on(PROJECT, seen)
    assert another.talks(PROJECT) == talks
    assert asked == [sql.STATE]
    do(store, "put away", "k0", "c0")
    assert another.talks(PROJECT) == []


def test_a_page_that_was_damaged_is_not_believed_for_its_state(store: PromptStore) -> None:
    for number in range(3):
        said(store, f"k{number}", f"c{number}")
    first = fresh(store)
    talks = first.talks(PROJECT)
    seen = first.seen(PROJECT)
    assert seen is not None
    for wrong in ((talks[0]._replace(memories=9), *talks[1:]), (talks[0]._replace(mark=9), *talks[1:]), talks[1:]):
        another = fresh(store)
        another.go_on(PROJECT, Seen(tuple(wrong), seen.since_s, seen.state))
        assert set(another.talks(PROJECT)) == set(talks)


def test_what_was_seen_in_another_file_is_looked_at_anew(store: PromptStore, tmp_path: Path) -> None:
    """Put back from a copy, with as much done to it as to the one before."""
    for number in range(4):
        said(store, f"k{number}", f"c{number}")
    home = store.home
    store.close()
    shutil.copytree(home, tmp_path / "copy")
    reopened = PromptStore(home)
    do(reopened, "put away", "k0", "c0")
    known = fresh(reopened)
    first = {talk.context for talk in known.talks(PROJECT)}
    reopened.close()
    home.rename(tmp_path / "aside")
    shutil.copytree(tmp_path / "copy", home)
    again = PromptStore(home)
    do(again, "put away", "k1", "c1")
    second = {talk.context for talk in known.talks(PROJECT)}
    assert (len(first), len(second), len(first & second)) == (3, 3, 2)
    assert set(known.talks(PROJECT)) == set(fresh(again).talks(PROJECT))
    again.close()


def test_rows_that_wait_to_be_indexed_are_looked_for(store: PromptStore) -> None:
    said(store, "k0", "c0")
    first = fresh(store)
    first.talks(PROJECT)
    with closing(sqlite3.connect(store.home / "store" / "cache.db")) as connection, connection:
        connection.execute(sql.BEGIN_BATCH)
        connection.execute(
            "INSERT INTO Cache(key, raw, store_time, tag, mode, value) "
            "SELECT key || '0', raw, store_time, tag, mode, value FROM Cache WHERE key >= 'm:' AND key < 'm;'"
        )
    assert [talk.memories for talk in first.talks(PROJECT)] == [2]


def test_talks_that_go_on_do_not_group_every_row(store: PromptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        said(store, f"k{number}", f"c{number}")
    first = fresh(store)
    first.talks(PROJECT)
    seen = first.seen(PROJECT)
    assert seen is not None
    said(store, "k9", "c9")
    asked = statements(store, monkeypatch)
    another = fresh(store)
    another.go_on(PROJECT, seen)
    assert len(another.talks(PROJECT)) == 5
    assert sql.TALKED in asked
    assert sql.TALKS not in asked


def test_what_was_seen_here_is_not_forgotten_for_what_somebody_saw(store: PromptStore) -> None:
    said(store, "k0", "alpha")
    rows = fresh(store)
    assert rows.seen(PROJECT) is None
    talks = rows.talks(PROJECT)
    rows.go_on(PROJECT, SEEN)
    seen = rows.seen(PROJECT)
    assert seen is not None
    assert list(seen.talks) == talks


def test_what_was_seen_of_another_store_does_not_add_up(store: PromptStore, tmp_path: Path) -> None:
    """As when a store was put back as it was, or saved row by row out of a damaged one."""
    said(store, "k0", "alpha")
    rows = fresh(store)
    earlier = rows.talks(PROJECT)
    store.close()
    shutil.copytree(store.home, tmp_path / "earlier")
    later = PromptStore(store.home)
    for number in range(3):
        said(later, f"k{number}", "beta")
    rows = fresh(later)
    rows.talks(PROJECT)
    seen = rows.seen(PROJECT)
    assert seen is not None
    later.close()
    back = PromptStore(tmp_path / "earlier")
    another = fresh(back)
    another.go_on(PROJECT, seen)
    assert another.talks(PROJECT) == earlier
    back.close()


# --- whatever roll is there, nobody reads an untrue brief -------------------------------------------------------------


class RolledMachine(Machine):
    """The same with rolls that are written now and then."""

    @rule(key=KEYS, context=CONTEXTS, text=st.sampled_from(SAYINGS))
    def say_and_roll(self, key: str, context: str, text: str) -> None:
        self.store(key, context, text, "semantic")
        self.keep()
        self.roll()

    @rule()
    def roll(self) -> None:
        found, seen = self._reading.survey(self._now_s), self._store.reader.threads.seen(PROJECT)
        assert seen is not None
        self._store.write(roll.write(PROJECT, found.current.values(), seen)).result()

    @invariant()
    def who_comes_new_reads_nothing_untrue(self) -> None:
        if not hasattr(self, "_store"):
            return
        reader = Reader(self._store.reader._connections)
        found, anew = Briefs(reader, PROJECT).survey(self._now_s), self._worked_out()
        assert {*found.current, *found.waiting} == anew.keys()
        assert plain(found.current) == plain({name: anew[name].course for name in found.current})
        assert set(reader.threads.talks(PROJECT)) == set(fresh(self._store).talks(PROJECT))


TestRolls = RolledMachine.TestCase
TestRolls.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


# --- when it is written, and when it goes -----------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads have a roll, and two that are not as it says are many."""
    monkeypatch.setattr(rolling, "LEAST", 3)
    monkeypatch.setattr(rolling, "FEW", 2)
    monkeypatch.setattr(rolling, "REST_S", 0.0)
    monkeypatch.setattr(keeper, "PAUSE_S", 0.0)
    monkeypatch.setattr(keeper, "GIVE_WAY_S", 0.0)


class Kept:
    """A project whose threads are kept by hand."""

    def __init__(self, store: PromptStore, memory: MemoryRouter, lock: Lock | None = None) -> None:
        self.store, self.memory = store, memory
        self.keeper = Keeper(PROJECT, memory._briefs, store=store, clock=memory._clock, lock=lock)

    async def say(self, *names: str, text: str = "deploys wait for two reviews") -> list[str]:
        stored = [await self.memory.store(f"{text} in {name}", context_id=name) for name in names]
        return [one.id for one in stored]

    async def round(self) -> set[str]:
        """The threads of which the roll has what is true now."""
        await self.keeper._catch_up_if_possible()
        assert self.keeper._complaint is None
        return self.rolled()

    def rolled(self) -> set[str]:
        found, known = self.memory._briefs.survey(0.0), roll.read(self.store.reader, PROJECT)
        return set() if known is None else {one for one, _ in known.courses.items() & found.current.items()}

    def another(self) -> Keeper:
        """The keeper of a process that comes later."""
        briefs = Briefs(self.store.reader, PROJECT)
        return Keeper(PROJECT, briefs, store=self.store, clock=self.memory._clock)


@pytest.fixture
async def kept(store: PromptStore, small: None) -> AsyncIterator[Kept]:
    async with memory_over(store, None, ManualClock(), settings=LASTING) as memory:
        kept = Kept(store, memory)
        yield kept
        kept.keeper.stop()


async def test_a_project_with_many_threads_gets_a_roll(kept: Kept) -> None:
    await kept.say("a", "b")
    assert await kept.round() == set()
    assert pages(kept.store) == {}
    await kept.say("c")
    assert await kept.round() == {"a", "b", "c"}
    known = roll.read(kept.store.reader, PROJECT)
    assert known is not None
    assert set(known.seen.talks) == set(fresh(kept.store).talks(PROJECT))


async def test_the_roll_is_written_anew_when_many_threads_are_not_as_it_says(kept: Kept) -> None:
    await kept.say("a", "b", "c")
    await kept.round()
    await kept.say("a")
    assert await kept.round() == {"b", "c"}
    await kept.say("d")
    assert await kept.round() == {"a", "b", "c", "d"}


async def test_a_thread_that_is_again_as_it_was_is_not_read_from_the_roll(kept: Kept) -> None:
    """Its brief has been another one meanwhile, and has to be written once more."""
    await kept.say("a", "b", "c")
    await kept.round()
    [more] = await kept.say("a", text="zebrafish swim at night")
    await kept.round()
    await kept.memory.forget(more)
    assert list(Briefs(Reader(kept.store.reader._connections), PROJECT).survey(0.0).waiting) == ["a"]


async def test_an_old_roll_is_written_anew_once_anything_differs(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.say("a", "b", "c")
    await kept.round()
    before = pages(kept.store)
    monkeypatch.setattr(rolling, "OLD_S", 0.0)
    await kept.round()
    assert pages(kept.store) == before
    await kept.say("a")
    assert await kept.round() == {"a", "b", "c"}


async def test_the_roll_is_not_written_again_at_once(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "REST_S", 1e6)
    await kept.say("a", "b", "c")
    assert await kept.round() == {"a", "b", "c"}
    await kept.say("a", "b", "c")
    assert await kept.round() == set()
    monkeypatch.setattr(rolling, "REST_S", 0.0)
    assert await kept.round() == {"a", "b", "c"}


async def test_who_keeps_threads_reads_the_roll_once(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.say("a", "b", "c")
    await kept.round()
    before = pages(kept.store)
    later = kept.another()
    await later.complete()
    await kept.say("a")
    with monkeypatch.context() as patch:
        patch.delattr(roll, "read")
        await later.complete()
        await kept.keeper.complete()
    later.stop()
    assert pages(kept.store) == before


async def test_a_roll_that_cannot_be_read_is_written_anew(kept: Kept) -> None:
    await kept.say("a", "b", "c")
    await kept.round()
    [owner] = pages(kept.store)
    kept.store.write(lambda transaction: transaction.set_facet(ROLL, owner, {"project": PROJECT})).result()
    later = kept.another()
    await later.complete()
    later.stop()
    assert kept.rolled() == {"a", "b", "c"}


async def test_who_does_not_hold_the_lock_writes_no_roll(kept: Kept) -> None:
    await kept.say("a", "b", "c")
    briefs = Briefs(kept.store.reader, PROJECT)
    other = Keeper(PROJECT, briefs, store=kept.store, clock=kept.memory._clock, lock=Lock(lambda: False))
    await other.complete()
    other.stop()
    assert pages(kept.store) == {}
    assert await kept.round() == {"a", "b", "c"}


async def test_forgetting_the_last_memory_of_a_thread_leaves_no_word_of_it_in_the_roll(kept: Kept) -> None:
    await kept.say("a", "b", "c")
    [gone] = await kept.say("d", text="zebrafish swim at night")
    assert await kept.round() == {"a", "b", "c", "d"}
    assert "zebrafish" in str(pages(kept.store))
    await kept.memory.forget(gone)
    assert "zebrafish" not in everything(kept.store)
    assert await kept.round() == {"a", "b", "c"}
    assert "zebrafish" not in str(pages(kept.store))


async def test_a_thread_that_is_forgotten_while_the_roll_is_made_is_not_in_it(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept.say("a", "b", "c")
    [gone] = await kept.say("d", text="zebrafish swim at night")
    write = roll.write

    def then_forget(*how: Any) -> Callable[[Transaction], None]:
        made = write(*how)
        kept.store.write(records.forget(gone, desk())).result()
        return made

    with monkeypatch.context() as patch:
        patch.setattr(roll, "write", then_forget)
        await kept.round()
    assert pages(kept.store) == {}
    assert "zebrafish" not in everything(kept.store)
    assert await kept.round() == {"a", "b", "c"}


async def test_a_roll_that_was_begun_and_not_written_is_written_later(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept.say("a", "b", "c")
    await kept.round()
    kept.store.write(lambda transaction: roll.drop(transaction, PROJECT)).result()
    with monkeypatch.context() as patch:
        patch.setattr(rolling.Rolling, "_write", lambda *how: False)
        assert await kept.round() == set()
    assert len(roll.pages(kept.store.reader.threads, PROJECT)) == 1
    assert await kept.round() == {"a", "b", "c"}


async def test_a_roll_that_went_while_all_threads_stayed_as_they_were_is_written_anew(kept: Kept) -> None:
    await kept.say("a", "b", "c")
    await kept.round()
    behind(kept.store, "a")
    [owner] = [one for one in roll.pages(kept.store.reader.threads, PROJECT) if not one[-4:].isdigit()]
    kept.store.write(lambda transaction: transaction.set_facet(ROLL, owner, {"behind": 7})).result()
    behind(kept.store, "a")
    assert pages(kept.store) == {}
    assert await kept.round() == {"a", "b", "c"}


async def test_no_roll_is_written_while_many_threads_come(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.say("a", "b", "c")
    begin = rolling.Rolling._begin

    def then_hear_more(self: rolling.Rolling) -> None:
        begin(self)
        for context in ("d", "e"):
            said(kept.store, context, context)

    with monkeypatch.context() as patch:
        patch.setattr(rolling.Rolling, "_begin", then_hear_more)
        assert await kept.round() == set()
    assert await kept.round() == {"a", "b", "c", "d", "e"}


async def test_what_is_tidied_away_goes_from_the_roll_too(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.say("a", "b", "c", "d")
    await kept.round()
    await kept.memory.threads.merge("a", "b")
    with monkeypatch.context() as patch:
        patch.setattr(rolling, "REST_S", 1e6)
        await kept.round()
    assert pages(kept.store) == {}
    assert await kept.round() == {"a", "c", "d"}
    known = roll.read(kept.store.reader, PROJECT)
    assert known is not None
    assert "b" not in known.courses


async def test_what_was_tidied_away_is_not_tidied_away_again(kept: Kept) -> None:
    await kept.say("a", "b", "c")
    [resting] = await kept.say("d")
    await kept.round()
    kept.store.write(
        lambda transaction: archive.shelve(transaction, {MemoryId(resting): Archived(1.0, "test", "to see")})
    ).result()
    assert await kept.round() == {"a", "b", "c"}
    version = kept.store.reader.threads.version()
    await kept.round()
    assert kept.store.reader.threads.version() == version


@pytest.mark.parametrize("erased", [False, True])
async def test_only_what_is_erased_takes_the_roll_along_while_its_thread_goes_on(kept: Kept, *, erased: bool) -> None:
    first, *_ = await kept.say("a", "a", "b", "c")
    await kept.round()

    def change(transaction: Transaction) -> None:
        row = transaction.row(first)
        assert row is not None
        transaction.erase(first)
        leaving.leave(transaction, [row.memory], erased=erased)

    kept.store.write(change).result()
    assert (pages(kept.store) == {}) is erased


def test_a_context_of_which_all_has_gone_elsewhere_takes_the_roll_along(store: PromptStore) -> None:
    written(store, many(3))
    store.write(lambda transaction: leaving.clear(transaction, PROJECT, "t1")).result()
    assert pages(store) == {}


async def test_what_was_worked_out_for_somebody_is_written_as_a_roll_too(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggesting, "WORTH_S", -1.0)
    monkeypatch.setattr(keeper, "SHARE", 1e9)
    await kept.say("a", "b", "c")
    kept.memory._keeper = kept.keeper
    await kept.memory.threads.suggestions(within=math.inf)
    assert kept.rolled() == {"a", "b", "c"}
    before = pages(kept.store)
    await kept.say("d")
    await kept.memory.threads.suggestions(within=math.inf)
    assert (kept.rolled(), pages(kept.store)) == ({"a", "b", "c"}, before)
    await kept.say("a", "b")
    await kept.memory.threads.suggestions(within=math.inf)
    assert kept.rolled() == {"a", "b", "c", "d"}


async def test_what_was_worked_out_is_no_roll_when_it_would_take_too_long(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggesting, "WORTH_S", -1.0)
    monkeypatch.setattr(keeper, "SHARE", 1e9)
    monkeypatch.setattr(rolling, "COST_S", 1e12)
    await kept.say("a", "b", "c")
    kept.memory._keeper = kept.keeper
    await kept.memory.threads.suggestions(within=math.inf)
    assert kept.rolled() == set()
    assert await kept.round() == {"a", "b", "c"}
