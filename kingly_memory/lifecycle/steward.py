"""The steward plans a sweep, then carries out exactly that plan. Nothing else forgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.lifecycle.policies import Archive, Expire, Keep, Subject, Verdict, decide
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.ports import Transaction

BATCH = 500
"""Memories per transaction, so that a sweep never holds the writer for long."""

AWAITED = ("pending", "leased", "dead")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did, or with `dry_run` would do. `waiting` are expired ones a remote has yet to acknowledge."""

    archived: int = 0
    erased: int = 0
    waiting: int = 0
    dry_run: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        return {
            "archived": self.archived,
            "erased": self.erased,
            "waiting": self.waiting,
            "dry_run": self.dry_run,
            "reasons": dict(self.reasons),
        }


Plan = dict[MemoryId, Verdict]


def plan(now_s: float, limit: int, offset: int) -> Callable[[Transaction], tuple[Plan, int]]:
    """A change that decides on a page of what has expired, and says how many it looked at. Writes nothing."""

    def change(transaction: Transaction) -> tuple[Plan, int]:
        remotes = transaction.owners("remote")
        expired = transaction.expired(now_s, limit, offset)
        verdicts = {
            memory_id: decide(subject, now_s)
            for memory_id in expired
            if (subject := _subject(transaction, memory_id, remotes)) is not None
        }
        return verdicts, len(expired)

    return change


def carry_out(planned: Plan, now_s: float) -> Callable[[Transaction], None]:
    """A change that executes the plan, leaving alone what another process has touched since."""

    def change(transaction: Transaction) -> None:
        remotes = transaction.owners("remote")
        for memory_id, verdict in planned.items():
            subject = _subject(transaction, memory_id, remotes)
            if subject is None or decide(subject, now_s) != verdict:
                continue
            if isinstance(verdict, Archive):
                _archive(transaction, subject.memory)
            elif isinstance(verdict, Expire):
                _erase(transaction, subject, remotes)

    return change


def report(planned: Plan, *, dry_run: bool) -> SweepReport:
    """Counts of a plan. Memories that are at rest already are not counted."""
    reasons: dict[str, int] = {}
    counts = {Archive: 0, Expire: 0, Keep: 0}
    for verdict in planned.values():
        counts[type(verdict)] += 1
        reasons[verdict.reason] = reasons.get(verdict.reason, 0) + 1
    return SweepReport(counts[Archive], counts[Expire], counts[Keep], dry_run, reasons)


def _subject(transaction: Transaction, memory_id: str, remotes: Sequence[str]) -> Subject | None:
    row = transaction.row(memory_id)
    if row is None or row.standing in (Standing.ARCHIVED, Standing.FORGOTTEN):
        return None
    lifetime = transaction.facet("lifetime", memory_id)
    deliveries = (transaction.facet("delivery", f"{remote}:{memory_id}") for remote in remotes)
    return Subject(
        memory=row.memory,
        standing=row.standing,
        lifetime=None if lifetime is None else Lifetime.from_json(lifetime),
        awaited=any(_is_awaited(delivery) for delivery in deliveries),
    )


def _is_awaited(delivery: Mapping[str, Any] | None) -> bool:
    return delivery is not None and delivery["state"] in AWAITED


def _archive(transaction: Transaction, memory: Memory) -> None:
    transaction.save(memory, Standing.ARCHIVED)
    transaction.set_facet("lifetime", memory.id, None)


def _erase(transaction: Transaction, subject: Subject, remotes: Sequence[str]) -> None:
    """Of a memory of ours, what each remote calls it stays: else its own answer would be taken for news from there."""
    memory_id = subject.memory.id
    transaction.erase(memory_id)
    for facet in ("lifetime", "usage", "links"):
        transaction.set_facet(facet, memory_id, None)
    for remote in remotes:
        owner = f"{remote}:{memory_id}"
        delivery = None if subject.standing is Standing.CACHED else transaction.facet("delivery", owner)
        transaction.set_facet("delivery", owner, None if delivery is None else _left_behind(delivery))


def _left_behind(delivery: JsonObject) -> JsonObject | None:
    if delivery["remote_id"] is None:
        return None
    rest = {"state": "delivered", "acknowledged": delivery["wanted"], "due": None, "owner": None, "last_error": None}
    return {**delivery, **rest}
