"""A sweep carries out its plan and nothing else; the outbox trusts no facet more than the memory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.lifecycle.plan import Plan, Policies, plan
from kingly_memory.lifecycle.policies import Archive, Expire
from kingly_memory.models import Memory, MemoryStatus, MemoryType, Origin, Scope
from kingly_memory.router.delivery import known_remotes, outbox
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.subjects import Subjects

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_S = NOON.timestamp()
REMOTE = "feedfacefeedface"
LIFETIMES_ONLY = Policies()


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
    store.write(lambda tx: tx.save(memory, MemoryStatus.LIVE)).result()
    store.write(lambda tx: tx.set_facet("lifetime", memory_id, Lifetime(ends_s).to_json())).result()
    return memory_id


def planned(store: DiskStore, *remotes: str) -> Plan:
    ended = Subjects(store.reader, "app", remotes).ended(NOON_S)
    return plan(LIFETIMES_ONLY, NOON_S, "app", ended=ended)


@pytest.mark.requirement("KNG-084")
def test_plan_names_what_will_happen_and_why(store: DiskStore) -> None:
    old = put(store, 1, ends_s=NOON_S - 1)
    scratch = put(store, 2, ends_s=NOON_S - 1, type=MemoryType.WORKING)
    put(store, 3, ends_s=NOON_S + 1)
    found = planned(store)
    verdicts = {one.memory_id: one.verdict for one in found.decisions}
    assert isinstance(verdicts[old], Archive)
    assert verdicts[old].reason == "its ttl has ended"
    assert isinstance(verdicts[scratch], Expire)
    assert len(verdicts) == 2


def test_working_memory_stays_while_a_remote_waits_for_it(store: DiskStore) -> None:
    scratch = put(store, 1, ends_s=NOON_S - 1, type=MemoryType.WORKING)
    store.write(known_remotes.add(REMOTE, "http://fake", "app", NOON_S)).result()
    due = delivery.wanted(None, 1, NOON_S)
    store.write(lambda tx: tx.set_delivery(REMOTE, scratch, due)).result()
    found = planned(store, REMOTE)
    assert (found.decisions, found.waiting) == ((), 1)


@pytest.mark.requirement("KNG-002")
def test_facet_that_says_due_sends_nothing_that_is_not_significant(store: DiskStore) -> None:
    quiet = put(store, 1, ends_s=NOON_S + 60, significance=0.3)
    due = delivery.wanted(None, 1, NOON_S)
    store.write(lambda tx: tx.set_delivery(REMOTE, quiet, due)).result()
    claim = outbox.Claim(REMOTE, "me", NOON_S, 60).lease(REMOTE, 10)
    assert store.write(claim).result() == []
    assert store.reader.outbox_counts(REMOTE)["pending"] == 0
