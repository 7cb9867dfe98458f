"""The promises of ports.LocalStore, kept by DiskStore."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.dataclass import replace
from kingly_memory.errors import RouterClosed
from kingly_memory.ids import MemoryId
from kingly_memory.models import DeliveryState, Memory, MemoryType, Standing
from kingly_memory.ports import Delivery, Transaction
from tests.store_samples import (
    NOON,
    NOON_S,
    REMOTE,
    ask,
    behind,
    check_integrity,
    memory,
    put,
    saving,
    set_facet,
    stored_contents,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[DiskStore]:
    store = DiskStore(home, durability="process")
    yield store
    store.close()
    if home.exists():
        check_integrity(home)


def full() -> Memory:
    return memory(
        "the whole record",
        key="a key",
        type=MemoryType.EPISODIC,
        significance=0.25,
        confidence=0.75,
        tags=("one", "zwei drei"),
        title="a title",
        agent="an agent",
        context_id="a context",
        revision=3,
        updated_at=NOON + timedelta(microseconds=1),
        metadata={"deep": [1, 2.5, None, {"true": True}]},
    )


# --- memories -----------------------------------------------------------------------------------------------------


def test_memory_reads_back_as_it_was_written(store: DiskStore) -> None:
    one = full()
    put(store, one)
    found = store.reader.row(one.id)
    assert found is not None
    assert (found.memory, found.standing) == (one, Standing.LIVE)


@pytest.mark.requirement("UNI-009")
def test_times_read_back_as_aware_utc(store: DiskStore) -> None:
    one = memory(created_at=NOON.astimezone(timezone(timedelta(hours=9))).astimezone(UTC))
    put(store, one)
    found = store.reader.row(one.id)
    assert found is not None
    assert found.memory.created_at == NOON
    assert found.memory.created_at.utcoffset() == timedelta(0)


def test_unknown_ids_keys_and_facets_are_none(store: DiskStore) -> None:
    put(store, memory())
    assert store.reader.row("nowhere") is None
    assert store.reader.id_of_key("alpha", "nothing") is None
    assert store.reader.facets("lifetime", ["nowhere"]) == {}


def test_store_that_was_never_written_to_reads_as_empty_and_creates_nothing(store: DiskStore, home: Path) -> None:
    reader = store.reader
    assert reader.row("x") is None
    assert reader.page(ask(), (Standing.LIVE,), 10, None) == []
    assert reader.matches(ask(), ["word"], 10, 0, 0.0).found == ()
    assert set(reader.counts("alpha").values()) == {0}
    assert reader.next_due_s(REMOTE) is None
    assert not home.exists()


def test_later_revision_replaces_the_earlier_one_and_keeps_its_place(store: DiskStore) -> None:
    first, second = memory("first", key="k"), memory("second")
    put(store, first, second)
    put(store, replace(first, content="first again", revision=2))
    assert stored_contents(store) == ["first again", "second"]


def test_key_is_bound_within_its_project(store: DiskStore) -> None:
    here, there = memory(key="k"), memory(project="beta", key="k")
    put(store, here, there)
    assert store.reader.id_of_key("alpha", "k") == here.id
    assert store.reader.id_of_key("beta", "k") == there.id


def test_project_and_key_cannot_be_confused_with_another_pair(store: DiskStore) -> None:
    one, other = memory(project="ab", key="c"), memory(project="a", key="bc")
    put(store, one, other)
    assert store.reader.id_of_key("ab", "c") == one.id
    assert store.reader.id_of_key("a", "bc") == other.id


def test_memory_that_gets_another_key_lets_go_of_its_old_one(store: DiskStore) -> None:
    one = memory(key="old")
    put(store, one)
    put(store, replace(one, key="new", revision=2))
    assert store.reader.id_of_key("alpha", "old") is None
    assert store.reader.id_of_key("alpha", "new") == one.id


def test_erased_memory_is_gone_with_its_key_and_leaves_its_facets(store: DiskStore) -> None:
    one = memory(key="k")
    put(store, one)
    set_facet(store, "usage", one.id, {"accesses": 1})
    store.write(lambda tx: tx.erase(one.id)).result()
    assert store.reader.row(one.id) is None
    assert store.reader.id_of_key("alpha", "k") is None
    assert store.reader.facets("usage", [one.id]) == {one.id: {"accesses": 1}}


def test_erasing_a_memory_leaves_a_key_that_another_one_has_taken(store: DiskStore) -> None:
    loser, winner = memory(key="k"), memory(key="k")
    put(store, loser, winner)
    store.write(lambda tx: tx.erase(loser.id)).result()
    assert store.reader.id_of_key("alpha", "k") == winner.id


def test_erasing_nothing_is_no_error(store: DiskStore) -> None:
    put(store, memory("what stays", key="k"))
    store.write(lambda tx: tx.erase("nowhere")).result()
    assert stored_contents(store) == ["what stays"]
    assert store.reader.id_of_key("alpha", "k") is not None


# --- changes ------------------------------------------------------------------------------------------------------


def test_change_sees_its_own_writes(store: DiskStore) -> None:
    one = memory(key="k")

    def change(tx: Transaction) -> tuple[bool, bool]:
        tx.save(one, Standing.LIVE)
        tx.set_facet("usage", one.id, {"accesses": 2})
        return tx.id_of_key("alpha", "k") == one.id, tx.facet("usage", one.id) == {"accesses": 2}

    assert store.write(change).result() == (True, True)


@pytest.mark.requirement("UNI-010")
def test_failing_change_is_undone_alone_and_the_others_of_its_batch_stay(store: DiskStore) -> None:
    kept = [memory(f"kept {number}", key=str(number)) for number in range(6)]

    def failing(tx: Transaction) -> None:
        tx.save(memory("half written", key="half"), Standing.LIVE)
        tx.save(replace(kept[0], content="overwritten", revision=2), Standing.LIVE)
        raise LookupError("changed my mind")

    put(store, kept[0])
    futures = [store.write(saving(one)) for one in kept[1:3]]
    failed = store.write(failing)
    futures += [store.write(saving(one)) for one in kept[3:]]
    assert [future.result() for future in futures] == [None] * 5
    with pytest.raises(LookupError, match="changed my mind"):
        failed.result()
    assert stored_contents(store) == [one.content for one in kept]
    assert store.reader.id_of_key("alpha", "half") is None


def test_value_that_json_cannot_hold_fails_its_own_change_only(store: DiskStore) -> None:
    bad = store.write(lambda tx: tx.set_facet("usage", "x", {"accesses": float("nan")}))
    good = store.write(lambda tx: tx.set_facet("usage", "y", {"accesses": 1}))
    with pytest.raises(ValueError, match="JSON"):
        bad.result()
    good.result()
    assert store.reader.facets("usage", ["x", "y"]) == {"y": {"accesses": 1}}


def test_cancelled_change_is_not_run(store: DiskStore) -> None:
    go_on, ran = Event(), list[str]()
    held = store.write(lambda _: go_on.wait(10))
    cancelled = store.write(lambda _: ran.append("cancelled"))
    last = store.write(lambda _: ran.append("last"))
    assert cancelled.cancel()
    go_on.set()
    assert (held.result(), last.result(), ran) == (True, None, ["last"])


def test_closing_commits_what_was_accepted_and_refuses_more(home: Path) -> None:
    store = DiskStore(home, durability="process")
    futures = [store.write(saving(memory(str(n)))) for n in range(20)]
    store.close()
    store.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(RouterClosed):
        store.write(lambda _: None)
    assert len(stored_contents(store)) == 20
    store.close()


# --- facets -------------------------------------------------------------------------------------------------------


def test_facets_are_written_replaced_and_removed(store: DiskStore) -> None:
    set_facet(store, "usage", "a", {"accesses": 1})
    set_facet(store, "usage", "b", {"accesses": 1})
    set_facet(store, "usage", "a", {"accesses": 2})
    set_facet(store, "usage", "b", None)
    assert store.reader.facets("usage", ["a", "b", "c"]) == {"a": {"accesses": 2}}


def test_owners_of_one_facet_are_not_those_of_another(store: DiskStore) -> None:
    set_facet(store, "remote", "r1:alpha", {})
    set_facet(store, "remotes", "other", {})
    set_facet(store, "remot", "other", {})
    assert store.write(lambda tx: tx.owners("remote")).result() == ["r1:alpha"]


# --- outbox -------------------------------------------------------------------------------------------------------


def deliver(store: DiskStore, owner: str, state: str, due: float | None, remote: str = REMOTE, **more: Any) -> None:
    there = replace(Delivery(1, due, DeliveryState(state)), **more)
    store.write(lambda tx: tx.set_delivery(remote, owner, there)).result()


def due(store: DiskStore, limit: int = 10, now_s: float = NOON_S, *, early: bool = False) -> list[str]:
    return [*store.write(lambda tx: tx.due_deliveries(REMOTE, now_s, limit, early=early)).result()]


def test_due_deliveries_come_earliest_first_from_pending_and_lapsed_leases(store: DiskStore) -> None:
    deliver(store, "m3", "pending", NOON_S - 1)
    deliver(store, "m1", "leased", NOON_S - 2)
    deliver(store, "m2", "pending", NOON_S - 3)
    deliver(store, "later", "pending", NOON_S + 1)
    deliver(store, "held", "leased", NOON_S + 1)
    deliver(store, "dead", "dead", None)
    deliver(store, "done", "delivered", None)
    deliver(store, "elsewhere", "pending", NOON_S - 9, remote="f" * 16)
    assert due(store) == ["m2", "m1", "m3"]
    assert due(store, limit=2) == ["m2", "m1"]


def test_delivery_is_due_at_its_very_instant(store: DiskStore) -> None:
    deliver(store, "m1", "pending", NOON_S)
    assert due(store) == ["m1"]


def test_due_time_too_far_ahead_was_written_before_the_clock_went_back(store: DiskStore) -> None:
    deliver(store, "waits", "pending", NOON_S + 300)
    deliver(store, "stuck", "pending", NOON_S + 3_600)
    deliver(store, "stuck lease", "leased", NOON_S + 3_600)
    assert due(store) == ["stuck", "stuck lease"]


def test_early_takes_pending_ones_too_oldest_memory_first_but_no_held_lease(store: DiskStore) -> None:
    deliver(store, "m2", "pending", NOON_S + 10)
    deliver(store, "m1", "pending", NOON_S + 20)
    deliver(store, "m3", "pending", NOON_S - 10)
    deliver(store, "held", "leased", NOON_S + 10)
    assert due(store, early=True) == ["m1", "m2", "m3"]
    assert due(store, limit=1, early=True) == ["m1"]


def test_early_takes_what_failed_more_than_once_last_and_in_turn(store: DiskStore) -> None:
    deliver(store, "m1", "pending", NOON_S, attempts=5)
    deliver(store, "m2", "leased", NOON_S - 1, attempts=2)
    deliver(store, "m3", "pending", NOON_S, attempts=2)
    deliver(store, "m4", "pending", NOON_S, attempts=0)
    deliver(store, "m5", "pending", NOON_S, attempts=1)
    deliver(store, "m6", "pending", NOON_S + 20, attempts=0)
    deliver(store, "stuck lease", "leased", NOON_S + 3_600, attempts=0)
    assert due(store, early=True) == ["m4", "m5", "m6", "stuck lease", "m2", "m3", "m1"]
    assert due(store, limit=2, early=True) == ["m4", "m5"]


def test_outbox_view_counts_and_pages_what_is_not_at_rest(store: DiskStore) -> None:
    deliver(store, "m2", "pending", NOON_S + 5)
    deliver(store, "m1", "dead", None)
    deliver(store, "m3", "leased", NOON_S + 3)
    deliver(store, "m4", "delivered", None)
    assert store.reader.outbox_counts(REMOTE) == {"pending": 1, "leased": 1, "dead": 1}
    entries = store.reader.outbox_page(REMOTE, ["pending", "dead"], 10)
    assert [(owner, one.state) for owner, one in entries] == [("m1", "dead"), ("m2", "pending")]
    assert len(store.reader.outbox_page(REMOTE, ["pending", "dead", "leased"], 2)) == 2
    assert store.reader.next_due_s(REMOTE) == NOON_S + 3
    assert store.reader.next_due_s("f" * 16) is None


def test_memories_are_found_by_their_remote_ids(store: DiskStore) -> None:
    deliver(store, "m1", "delivered", None, remote_id="r1")
    deliver(store, "m2", "pending", NOON_S, remote_id="r2")
    deliver(store, "m3", "delivered", None, remote="f" * 16, remote_id="r1")
    assert store.reader.by_remote_id(REMOTE, ["r1", "r2", "r3"]) == {"r1": "m1", "r2": "m2"}
    assert store.reader.by_remote_id(REMOTE, []) == {}


def test_undelivered_are_live_or_archived_ones_above_the_bound_without_a_facet(store: DiskStore) -> None:
    wanted, known, light = memory("wanted"), memory("known"), memory("light", significance=0.3)
    put(store, wanted, known, light, memory("foreign", project="beta"))
    archived, forgotten = memory("archived"), memory("forgotten")
    put(store, archived, standing=Standing.ARCHIVED)
    put(store, forgotten, standing=Standing.FORGOTTEN)
    put(store, memory("a remote's copy"), standing=Standing.CACHED)
    deliver(store, known.id, "delivered", None)
    found = store.write(lambda tx: tx.undelivered(REMOTE, "alpha", 0.3, 10)).result()
    assert [one.content for one in found] == ["wanted", "archived"]
    assert len(store.write(lambda tx: tx.undelivered(REMOTE, "alpha", 0.3, 1)).result()) == 1
    beyond = store.write(lambda tx: tx.undelivered(REMOTE, "alpha", 0.3, 10, after=wanted.id)).result()
    assert [one.content for one in beyond] == ["archived"]


# --- lifetimes, pages, counts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("now_s", [10.0, 10.5])
def test_expired_are_named_longest_ended_first(store: DiskStore, now_s: float) -> None:
    for owner, ends in (("b", 10.0), ("a", 5.0), ("never", 11.0)):
        put(store, memory(id=MemoryId(owner)))
        set_facet(store, "lifetime", owner, {"expires_at": ends, "sliding_s": None})
    assert store.reader.expired(now_s, 10) == ["a", "b"]
    assert store.reader.expired(now_s, 1) == ["a"]
    assert store.reader.expired(now_s, -1) == ["a", "b"]


def test_pages_go_on_where_the_last_one_ended_even_while_memories_are_stored(store: DiskStore) -> None:
    put(store, *(memory(str(number)) for number in range(7)))
    first = store.reader.page(ask(), (Standing.LIVE,), 3, None)
    put(store, memory("news"))
    second = store.reader.page(ask(), (Standing.LIVE,), 3, first[-1].position)
    rest = store.reader.page(ask(), (Standing.LIVE,), 3, second[-1].position)
    assert [row.memory.content for row in (*first, *second, *rest)] == list("6543210")


def test_facets_of_several_names_are_found_by_their_owners_and_every_name_is_answered_for(store: DiskStore) -> None:
    owners = [f"owner {number}" for number in range(40)]
    for owner in owners[::2]:
        set_facet(store, "weight", owner, {"of": owner})
    set_facet(store, "weighty", "owner 0", {"of": "another's"})
    found = store.reader.facets_of({"weight": owners, "weighty": ["owner 0"], "none": owners})
    expected = {owner: {"of": owner} for owner in owners[::2]}
    assert found == {"weight": expected, "weighty": {"owner 0": {"of": "another's"}}, "none": {}}


def test_page_is_filled_although_the_index_cannot_check_every_filter(store: DiskStore) -> None:
    moments = (NOON + timedelta(minutes=minute) for minute in range(40))
    put(store, *(memory(str(at.minute), created_at=at) for at in moments))
    query = ask(until=NOON + timedelta(minutes=4))
    rows = store.reader.page(query, (Standing.LIVE,), 4, None)
    assert [row.memory.content for row in rows] == list("4321")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"types": (MemoryType.WORKING,)}, ["typed"]),
        ({"tags": ("red",)}, ["red and blue", "red"]),
        ({"tags": ("red", "blue")}, ["red and blue"]),
        ({"agent": "fox"}, ["by fox"]),
        ({"context_id": "c1"}, ["in c1"]),
        ({"since": datetime(2027, 1, 1, tzinfo=UTC)}, []),
    ],
)
def test_pages_pass_every_filter(store: DiskStore, filters: dict[str, Any], expected: list[str]) -> None:
    put(store, memory("typed", type=MemoryType.WORKING), memory("red", tags=("red",)))
    put(store, memory("red and blue", tags=("blue", "red")), memory("by fox", agent="fox"))
    put(store, memory("in c1", context_id="c1"), memory("foreign", project="beta", tags=("red",), agent="fox"))
    rows = store.reader.page(ask(**filters), (Standing.LIVE,), 10, None)
    assert [row.memory.content for row in rows] == expected


def test_counts_are_of_live_memories_by_type_and_of_archived_ones(store: DiskStore) -> None:
    put(store, memory(), memory(), memory(type=MemoryType.WORKING), memory(project="beta"))
    put(store, memory(), standing=Standing.ARCHIVED)
    put(store, memory(), standing=Standing.FORGOTTEN)
    counts = {"working": 1, "episodic": 0, "semantic": 2, "procedural": 0, "archived": 1}
    assert store.reader.counts("alpha") == counts


# --- what lies on the disk ----------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-048")
def test_everything_lies_in_files_under_the_home(store: DiskStore, home: Path) -> None:
    put(store, memory())
    assert {path.name for path in home.iterdir()} == {"store", "write.lock", "sentinel", ".gitignore"}
    assert {path.name for path in (home / "store").iterdir()} == {"cache.db", "cache.db-wal", "cache.db-shm"}


def test_nothing_is_evicted_or_expired_by_diskcache(store: DiskStore, home: Path) -> None:
    put(store, memory(tags=("kept",)))
    with behind(home) as connection:
        rows = connection.execute("SELECT expire_time, filename, mode, raw FROM Cache").fetchall()
        settings = dict(connection.execute("SELECT key, value FROM Settings"))
    assert set(rows) == {(None, None, 1, 1)}
    assert (settings["eviction_policy"], settings["cull_limit"], settings["size_limit"]) == ("none", 0, 2**50)


def test_versions_name_the_layout_and_the_library(store: DiskStore) -> None:
    assert set(store.versions()) >= {"layout", "sqlite"}
    assert store.recovered() is None


def test_memory_of_ours_hides_the_copy_under_the_same_remote_id(store: DiskStore) -> None:
    own, copy = memory(), memory()
    for one, standing in ((own, Standing.LIVE), (copy, Standing.CACHED)):
        store.write(lambda tx, one=one, standing=standing: tx.save(one, standing)).result()  # type: ignore[misc]
        deliver(store, one.id, "delivered", None, remote_id="r1")
    assert store.reader.by_remote_id(REMOTE, ["r1", "r2"]) == {"r1": own.id}


def test_a_store_that_is_closed_after_reading_leaves_no_log_behind(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "home")
    put(store, memory("fog at sea"))
    assert stored_contents(store) == ["fog at sea"]
    store.close()
    assert sorted(path.name for path in (tmp_path / "home" / "store").iterdir()) == ["cache.db"]
