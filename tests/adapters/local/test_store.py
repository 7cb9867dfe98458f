"""The promises of ports.LocalStore, kept by DiskStore."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.local import rows
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.dataclass import replace
from kingly_memory.errors import RouterClosed
from kingly_memory.models import OUTBOX_STATES, DeliveryState, Memory, MemoryStatus, MemoryType, Origin, Scope
from kingly_memory.ports import Delivery, Transaction
from tests.store_samples import (
    NOON,
    NOON_S,
    REMOTE,
    ask,
    behind,
    memory,
    put,
    saving,
    stored_contents,
)

# --- memories -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("UNI-009")
def test_times_read_back_as_aware_utc(store: DiskStore) -> None:
    one = memory(created_at=NOON.astimezone(timezone(timedelta(hours=9))).astimezone(UTC))
    put(store, one)
    found = store.reader.row(one.id)
    assert found is not None
    assert found.memory.created_at == NOON
    assert found.memory.created_at.utcoffset() == timedelta(0)


def test_store_that_was_never_written_to_reads_as_empty_and_creates_nothing(store: DiskStore, home: Path) -> None:
    reader = store.reader
    assert reader.row("x") is None
    assert reader.page(ask(), (MemoryStatus.LIVE,), 10, None) == []
    assert reader.matches(ask(), ["word"], 10, 0, 0.0).found == ()
    assert set(reader.counts("alpha").values()) == {0}
    assert reader.next_due_s(REMOTE) is None
    assert not home.exists()


def test_project_and_key_cannot_be_confused_with_another_pair(store: DiskStore) -> None:
    one, other = memory(project="ab", key="c"), memory(project="a", key="bc")
    put(store, one, other)
    assert store.reader.id_of_key("ab", "c") == one.id
    assert store.reader.id_of_key("a", "bc") == other.id


_names = st.none() | st.text(max_size=8)
_shares = st.sampled_from([0, 0.0, 1, 1.0]) | st.floats(0, 1)
_times = st.sampled_from([NOON, NOON.replace(microsecond=1), NOON.replace(microsecond=120_000)])


@given(
    one=st.builds(
        Memory,
        id=st.text(max_size=40),
        key=_names,
        content=st.text(),
        type=st.sampled_from(MemoryType),
        significance=_shares,
        confidence=_shares,
        tags=st.lists(st.text(max_size=8), max_size=3).map(tuple),
        title=_names,
        scope=st.builds(Scope, _names, _names, _names, _names),
        origin=st.sampled_from(Origin),
        created_at=_times,
        updated_at=_times,
        revision=st.integers(0, 2**53),
        metadata=st.dictionaries(st.text(max_size=4), st.none() | st.booleans() | st.text(max_size=4), max_size=2),
    )
)
def test_a_record_is_the_memorys_json_and_a_digest(one: Memory) -> None:
    record = rows.record(one)
    assert rows.is_whole(record)
    assert record.rpartition(',"digest":')[0] + "}" == rows.dump(one.to_json())


# --- changes ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("UNI-010")
def test_failing_change_is_undone_alone_and_the_others_of_its_batch_stay(store: DiskStore) -> None:
    kept = [memory(f"kept {number}", key=str(number)) for number in range(6)]

    def failing(tx: Transaction) -> None:
        tx.save(memory("half written", key="half"), MemoryStatus.LIVE)
        tx.save(replace(kept[0], content="overwritten", revision=2), MemoryStatus.LIVE)
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


def test_a_change_that_nobody_waits_for_any_more_is_run_all_the_same(store: DiskStore) -> None:
    go_on, ran = Event(), list[str]()
    held = store.write(lambda _: go_on.wait(60))
    cancelled = store.write(lambda _: ran.append("cancelled"))
    last = store.write(lambda _: ran.append("last"))
    assert cancelled.cancel()
    go_on.set()
    assert (held.result(), last.result(), ran) == (True, None, ["cancelled", "last"])


def test_closing_commits_what_was_accepted_and_refuses_more(home: Path) -> None:
    store = DiskStore(home, durability="process")
    futures = [store.write(saving(memory(str(n)))) for n in range(20)]
    store.close()
    store.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(RouterClosed):
        store.write(lambda _: None)
    assert len(stored_contents(store)) == 20


# --- facets -------------------------------------------------------------------------------------------------------


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


def test_a_delivery_that_is_claimed_while_the_outbox_is_read_stands_there_once(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(store, "m1", "pending", NOON_S)
    asked = Connections.rows

    def claimed_behind(self: Connections, *said: Any, **more: Any) -> list[tuple[Any, ...]]:
        found = asked(self, *said, **more)
        deliver(store, "m1", "leased", NOON_S + 60)
        return found

    monkeypatch.setattr(Connections, "rows", claimed_behind)
    assert [one for one, _ in store.reader.outbox_page(REMOTE, OUTBOX_STATES, 10)] == ["m1"]


# --- lifetimes, pages, counts -------------------------------------------------------------------------------------


def test_page_is_filled_although_the_index_cannot_check_every_filter(store: DiskStore) -> None:
    moments = (NOON + timedelta(minutes=minute) for minute in range(40))
    put(store, *(memory(str(at.minute), created_at=at) for at in moments))
    query = ask(until=NOON + timedelta(minutes=4))
    rows = store.reader.page(query, (MemoryStatus.LIVE,), 4, None)
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
    rows = store.reader.page(ask(**filters), (MemoryStatus.LIVE,), 10, None)
    assert [row.memory.content for row in rows] == expected


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
    for one, status in ((own, MemoryStatus.LIVE), (copy, MemoryStatus.CACHED)):
        store.write(lambda tx, one=one, status=status: tx.save(one, status)).result()  # type: ignore[misc]
        deliver(store, one.id, "delivered", None, remote_id="r1")
    assert store.reader.by_remote_id(REMOTE, ["r1", "r2"]) == {"r1": own.id}
