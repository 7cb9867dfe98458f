"""A sweep's plan carried out, and taken back, as changes on the store: few memories each, so that nobody waits long."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import ending
from kingly_memory.lifecycle.steward import LIFETIMES, Decision, Policies
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.verdicts import Archive, Demote, Expire, Promote, Summarise
from kingly_memory.models import JsonObject, MemoryType, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import activity, records
from kingly_memory.router.archive import FACET as ARCHIVED
from kingly_memory.router.archive import Archived, shelve
from kingly_memory.router.records import Desk
from kingly_memory.router.subjects import AWAITED, subject

HOLD_S = 0.003
"""How long one change may keep the writer before it leaves the rest to the next."""
FACET = "sweep"
LAST = "last"
"""The facet `sweep:last` says what the last sweep was, `sweep:<its id>.<number>` what it did."""

ARCHIVING, ERASING, PROMOTING, DEMOTING, SKIPPED = "archived", "erased", "promoted", "demoted", "skipped"


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep under way: what is written down beside whatever it does."""

    id: str
    project: str
    at_s: float
    policies: Policies


@dataclass(frozen=True, slots=True)
class Done:
    """What one change did with the first decisions it was given, in their order."""

    outcomes: tuple[str, ...]


def begin(sweep: Sweep) -> Callable[[Transaction], JsonObject | None]:
    """Note that a sweep is under way, and say what the one before it was: only the last one can be taken back."""

    def change(transaction: Transaction) -> JsonObject | None:
        before = transaction.facet(FACET, LAST)
        transaction.set_facet(FACET, LAST, {"id": sweep.id, "at": sweep.at_s, "pages": 0})
        return before

    return change


def drop_pages(sweep_id: str, first: int, end: int) -> Callable[[Transaction], None]:
    """Forget what an earlier sweep did, some pages at a time."""

    def change(transaction: Transaction) -> None:
        for number in range(first, end):
            transaction.set_facet(FACET, _page(sweep_id, number), None)

    return change


def carry_out(sweep: Sweep, decisions: Sequence[Decision], page: int) -> Callable[[Transaction], Done]:
    """Carry out the first of the decisions, as many as the time allows. What was touched since the plan was made is
    left alone."""

    def change(transaction: Transaction) -> Done:
        began = time.monotonic()
        outcomes: list[str] = []
        entries: list[JsonObject] = []
        remotes = transaction.owners("remote")
        for decision in decisions:
            entry = _carry_out(transaction, sweep, decision, remotes)
            outcomes.append(SKIPPED if entry is None else entry["did"])
            entries += [] if entry is None else [entry]
            if time.monotonic() - began > HOLD_S:
                break
        if entries:
            moves = Counter(entry["did"] for entry in entries)
            if moves[PROMOTING] or moves[DEMOTING]:
                activity.add(
                    transaction,
                    sweep.project,
                    lambda now: now.moved(sweep.at_s, promotions=moves[PROMOTING], demotions=moves[DEMOTING]),
                )
            transaction.set_facet(FACET, _page(sweep.id, page), {"entries": entries})
            transaction.set_facet(FACET, LAST, {"id": sweep.id, "at": sweep.at_s, "pages": page + 1})
        return Done(tuple(outcomes))

    return change


def take_back(sweep_id: str, page: int, desk: Desk) -> Callable[[Transaction], int]:
    """Undo one page of a sweep, but for what has been touched since, and forget the page. Says how many came back."""

    def change(transaction: Transaction) -> int:
        facet = transaction.facet(FACET, _page(sweep_id, page)) or {"entries": []}
        count = sum(_take_back(transaction, sweep_id, entry, desk) for entry in facet["entries"])
        transaction.set_facet(FACET, _page(sweep_id, page), None)
        transaction.set_facet(FACET, LAST, {"id": sweep_id, "at": desk.now_s, "pages": page} if page else None)
        return count

    return change


def _page(sweep_id: str, number: int) -> str:
    return f"{sweep_id}.{number}"


def _carry_out(transaction: Transaction, sweep: Sweep, decision: Decision, remotes: Sequence[str]) -> JsonObject | None:
    """What was done, for the sweep's page; None when the memory is not as the plan saw it."""
    one = _subject(transaction, decision.memory_id, remotes)
    if one is None or one.memory.revision != decision.revision or not _still_holds(one, decision, sweep):
        return None
    verdict = decision.verdict
    if isinstance(verdict, Archive | Summarise):
        shelve(
            transaction,
            one.memory,
            Archived(sweep.at_s, decision.policy, verdict.reason, verdict.figures, sweep=sweep.id),
        )
        return {"id": one.memory.id, "did": ARCHIVING}
    if isinstance(verdict, Expire):
        _erase(transaction, one, remotes)
        return {"id": one.memory.id, "did": ERASING}
    if isinstance(verdict, Promote | Demote) and sweep.policies.tiers is not None:
        before = transaction.facet("tier", one.memory.id)
        after = sweep.policies.tiers.after(one, verdict, sweep.at_s)
        transaction.set_facet("tier", one.memory.id, after.to_json())
        did = PROMOTING if isinstance(verdict, Promote) else DEMOTING
        return {"id": one.memory.id, "did": did, "before": before}
    return None


def _still_holds(one: Subject, decision: Decision, sweep: Sweep) -> bool:
    if decision.policy == LIFETIMES:
        return type(ending.decide(one, sweep.at_s)) is type(decision.verdict)
    moved = (None, None) if one.placement is None else (one.placement.moved_at, one.placement.reinforced_at)
    touched = (one.usage.last_used, *one.strength.reinforced[-1:], *moved)
    return one.standing is Standing.LIVE and all(at is None or at <= sweep.at_s for at in touched)


def _subject(transaction: Transaction, memory_id: MemoryId, remotes: Sequence[str]) -> Subject | None:
    row = transaction.row(memory_id)
    if row is None or row.standing in (Standing.ARCHIVED, Standing.FORGOTTEN):
        return None
    is_awaited = row.memory.type is MemoryType.WORKING and any(
        _is_awaited(transaction.facet("delivery", f"{remote}:{memory_id}")) for remote in remotes
    )
    return subject(row, lambda name: transaction.facet(name, memory_id), awaited=is_awaited)


def _is_awaited(delivery: Mapping[str, Any] | None) -> bool:
    return delivery is not None and delivery["state"] in AWAITED


def _erase(transaction: Transaction, one: Subject, remotes: Sequence[str]) -> None:
    """Of a memory of ours, what each remote calls it stays: else its own answer would be taken for news from there."""
    memory_id = one.memory.id
    transaction.erase(memory_id)
    for facet in ("lifetime", "usage", "links", "strength", "tier", "attention"):
        transaction.set_facet(facet, memory_id, None)
    for remote in remotes:
        owner = f"{remote}:{memory_id}"
        delivery = None if one.standing is Standing.CACHED else transaction.facet("delivery", owner)
        transaction.set_facet("delivery", owner, None if delivery is None else _left_behind(delivery))


def _left_behind(delivery: JsonObject) -> JsonObject | None:
    if delivery["remote_id"] is None:
        return None
    rest = {"state": "delivered", "acknowledged": delivery["wanted"], "due": None, "owner": None, "last_error": None}
    return {**delivery, **rest}


def _take_back(transaction: Transaction, sweep_id: str, entry: JsonObject, desk: Desk) -> bool:
    memory_id = MemoryId(entry["id"])
    row = transaction.row(memory_id)
    if row is None:
        return False
    if entry["did"] == ARCHIVING:
        why = transaction.facet(ARCHIVED, memory_id)
        if row.standing is not Standing.ARCHIVED or why is None or why.get("sweep") != sweep_id:
            return False
        records.revive(transaction, row.memory, replace(desk, project=row.memory.scope.project))
        return True
    if entry["did"] in (PROMOTING, DEMOTING):
        transaction.set_facet("tier", memory_id, entry["before"])
        return True
    return False
