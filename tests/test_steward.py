"""The steward carries out its plan and nothing else; the outbox trusts no facet more than the memory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import steward
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.lifecycle.policies import Archive, Expire, Keep
from kingly_memory.models import Memory, MemoryType, Origin, Scope, Standing
from kingly_memory.router import delivery, outbox

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_S = NOON.timestamp()
REMOTE = "feedfacefeedface"


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "home", durability="process")


def put(store: DiskStore, number: int, *, ends_s: float, **said: object) -> MemoryId:
    memory_id = MemoryId(f"019b0000-0000-7000-8000-{number:012x}")
    fields: dict[str, object] = {
        "id": memory_id,
        "key": None,
        "content": f"note {number}",
        "type": MemoryType.EPISODIC,
        "significance": 0.5,
        "confidence": 0.5,
        "tags": (),
        "title": None,
        "scope": Scope("app"),
        "origin": Origin.AGENT,
        "created_at": NOON,
        "updated_at": NOON,
        "revision": 1,
    }
    memory = Memory(**{**fields, **said})  # type: ignore[arg-type]
    store.write(lambda tx: tx.save(memory, Standing.LIVE)).result()
    store.write(lambda tx: tx.set_facet("lifetime", memory_id, Lifetime(ends_s).to_json())).result()
    return memory_id


def standing(store: DiskStore, memory_id: MemoryId) -> Standing | None:
    row = store.reader.row(memory_id)
    return None if row is None else row.standing


@pytest.mark.requirement("KNG-084")
def test_plan_names_what_will_happen_and_why(store: DiskStore) -> None:
    old = put(store, 1, ends_s=NOON_S - 1)
    scratch = put(store, 2, ends_s=NOON_S - 1, type=MemoryType.WORKING)
    put(store, 3, ends_s=NOON_S + 1)
    planned, looked_at = store.write(steward.plan(NOON_S, 10, 0)).result()
    assert looked_at == 2
    assert isinstance(planned[old], Archive)
    assert isinstance(planned[scratch], Expire)
    report = steward.report(planned, dry_run=True)
    assert (report.archived, report.erased, sum(report.reasons.values())) == (1, 1, 2)


def test_what_was_used_after_the_plan_is_left_alone(store: DiskStore) -> None:
    old = put(store, 1, ends_s=NOON_S - 1)
    planned, _ = store.write(steward.plan(NOON_S, 10, 0)).result()
    store.write(lambda tx: tx.set_facet("lifetime", old, Lifetime(NOON_S + 60).to_json())).result()
    store.write(steward.carry_out(planned, NOON_S)).result()
    assert standing(store, old) is Standing.LIVE


def test_plan_goes_page_by_page(store: DiskStore) -> None:
    ids = [put(store, number, ends_s=NOON_S - number) for number in range(1, 6)]
    pages = [store.write(steward.plan(NOON_S, 2, offset)).result() for offset in (0, 2, 4)]
    assert [looked_at for _, looked_at in pages] == [2, 2, 1]
    assert {memory_id for planned, _ in pages for memory_id in planned} == set(ids)


def test_working_memory_stays_while_a_remote_waits_for_it(store: DiskStore) -> None:
    scratch = put(store, 1, ends_s=NOON_S - 1, type=MemoryType.WORKING)
    store.write(outbox.enrol(REMOTE, "http://fake", "app")).result()
    due = delivery.wanted(None, 1, NOON_S)
    store.write(lambda tx: outbox.set_delivery(tx, REMOTE, scratch, due)).result()
    planned, _ = store.write(steward.plan(NOON_S, 10, 0)).result()
    assert isinstance(planned[scratch], Keep)


@pytest.mark.requirement("KNG-002")
def test_facet_that_says_due_sends_nothing_that_is_not_significant(store: DiskStore) -> None:
    quiet = put(store, 1, ends_s=NOON_S + 60, significance=0.3)
    due = delivery.wanted(None, 1, NOON_S)
    store.write(lambda tx: outbox.set_delivery(tx, REMOTE, quiet, due)).result()
    claim = outbox.claim(REMOTE, "me", NOON_S, limit=10, lease_s=60, early=False)
    assert store.write(claim).result() == []
    assert store.reader.outbox_counts(REMOTE)["pending"] == 0
