"""A sweep's plan carried out, and taken back, as changes on the store: few memories each, so that nobody waits long."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import ending
from kingly_memory.lifecycle.lifetimes import LIFETIMES, Lifetimes
from kingly_memory.lifecycle.steward import MERGING as POLICY
from kingly_memory.lifecycle.steward import Decision, Policies
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.verdicts import Archive, Demote, Expire, Merge, Promote, Summarise
from kingly_memory.models import JsonObject, Memory, MemoryType, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import write
from kingly_memory.router.archive import FACET as ARCHIVED
from kingly_memory.router.archive import Archived, shelve
from kingly_memory.router.searching.vector_search import FACETS as VECTORS
from kingly_memory.router.subjects import AWAITED, FACETS, subject
from kingly_memory.router.sweeping import activity, merges, retelling, summaries
from kingly_memory.router.sweeping.compacting import Note
from kingly_memory.router.sweeping.summaries import MOST_LINKED, Behind
from kingly_memory.router.threads.cleanup import clean_up
from kingly_memory.router.threads.lookup import THREAD
from kingly_memory.router.write import WriteContext

if TYPE_CHECKING:
    from kingly_memory.lifecycle.summaries import Gist, Group

HOLD_S = 0.002
"""How long one change may keep the writer before it leaves the rest to the next."""
TOGETHER, TEXT_TOGETHER = 16, 16_384
"""Memories, and characters of their texts, after which a change looks at the time. What changes its standing together
is indexed together, at less than half the cost."""
FACET = "sweep"
"""The facet `sweep:last.<digest of the project>` says what the project's last sweep was, `sweep:<its id>.<number>` what
it did."""
BESIDE = ("lifetime", "usage", "links", "strength", "tier", "attention", "ratings", "injected", retelling.FACET)

ARCHIVING, ERASING, PROMOTING, DEMOTING, SKIPPED = "archived", "erased", "promoted", "demoted", "skipped"
MERGING = "merged"
"""Archived, and joined to another memory."""
NOTING = "noted"
"""Beside a thread."""
SUMMARISING = "summarised"
"""Archived behind a summary."""
WRITING = "written"
"""What a sweep did with the summary itself."""


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


class Undone(int):
    """How many came back or were put back: `memories` and `threads`, as a number both together."""

    memories: int
    threads: int

    def __new__(cls, memories: int = 0, threads: int = 0) -> Self:
        both = super().__new__(cls, memories + threads)
        both.memories, both.threads = memories, threads
        return both

    def and_(self, other: Undone) -> Undone:
        return Undone(self.memories + other.memories, self.threads + other.threads)


def last(project: str) -> str:
    """Whose facet says what that project's last sweep was."""
    return f"last.{activity.owner(project)}"


def begin(sweep: Sweep) -> Callable[[Transaction], JsonObject | None]:
    """Note that a sweep is under way, and say what the one before it was: only the last one can be taken back."""

    def change(transaction: Transaction) -> JsonObject | None:
        before = transaction.facet(FACET, last(sweep.project))
        is_due_later = bool(sweep.policies.names)  # a compaction that somebody asks for puts off no sweep
        at_s = sweep.at_s if is_due_later or before is None else before["at"]
        transaction.set_facet(FACET, last(sweep.project), {"id": sweep.id, "at": at_s, "pages": 0})
        return before

    return change


def note_time(sweep: Sweep) -> Callable[[Transaction], None]:
    """Note that there was a sweep and nothing for it to do: the one before it can still be taken back."""

    def change(transaction: Transaction) -> None:
        before = transaction.facet(FACET, last(sweep.project)) or {"id": sweep.id, "pages": 0}
        transaction.set_facet(FACET, last(sweep.project), {**before, "at": sweep.at_s})

    return change


def drop_pages(sweep_id: str, first: int, end: int) -> Callable[[Transaction], None]:
    """Forget what an earlier sweep did, some pages at a time."""

    def change(transaction: Transaction) -> None:
        for number in range(first, end):
            transaction.set_facet(FACET, page_of(sweep_id, number), None)

    return change


def write_summary(
    sweep: Sweep, group: Group, told: Sequence[Gist], page: int, desk: WriteContext
) -> Callable[[Transaction], Behind | None]:
    """Store what a group is to be put away behind; None when nothing is left that it could tell."""

    def change(transaction: Transaction) -> Behind | None:
        entry = summaries.keep(group, told, desk)(transaction)
        if entry is None:
            return None
        _write_down(transaction, sweep, [{**entry, "did": WRITING}], page)
        return Behind(entry["id"], desk, is_linked=len(group.ids) <= MOST_LINKED)

    return change


def drop_summary(sweep: Sweep, page: int, desk: WriteContext) -> Callable[[Transaction], None]:
    """Forget the summary of that page: nothing went behind it."""

    def change(transaction: Transaction) -> None:
        for entry in (transaction.facet(FACET, page_of(sweep.id, page)) or {"entries": []})["entries"]:
            summaries.unsay(transaction, entry, desk)

    return change


def write_notes(sweep: Sweep, notes: Sequence[Note], page: int) -> Callable[[Transaction], int]:
    """Write facets that are as they were read, and say how many were not."""

    def change(transaction: Transaction) -> int:
        entries: list[JsonObject] = [
            {"did": NOTING, "name": one.name, "owner": one.owner, "before": one.was, "after": one.becomes}
            for one in notes
            if transaction.facet(one.name, one.owner) == one.was
        ]
        for entry in entries:
            transaction.set_facet(entry["name"], entry["owner"], entry["after"])
        _write_down(transaction, sweep, entries, page)
        return len(notes) - len(entries)

    return change


def carry_out(
    sweep: Sweep, decisions: Sequence[Decision], page: int, behind: Behind | None = None
) -> Callable[[Transaction], Done]:
    """Carry out the first of the decisions, as many as the time allows. What was touched since the plan was made is
    left alone. `behind` is the summary that has been written for all of them."""

    def change(transaction: Transaction) -> Done:
        began = time.monotonic()
        outcomes: list[str] = []
        entries: list[JsonObject] = []
        remotes = transaction.owners("remote")
        seen = ((decision, _as_planned(transaction, sweep, decision, remotes)) for decision in decisions)
        for some in _together(seen):
            done = _carry_out(transaction, sweep, some, remotes, behind)
            outcomes += [SKIPPED if entry is None else entry["did"] for entry in done]
            entries += [entry for entry in done if entry is not None]
            if time.monotonic() - began > HOLD_S:
                break
        if MERGING in outcomes:
            shelve(transaction, _merged(sweep, decisions, outcomes))
        if entries:
            _write_down(transaction, sweep, entries, page)
        return Done(tuple(outcomes))

    return change


def take_back(sweep_id: str, page: int, desk: WriteContext) -> Callable[[Transaction], Undone]:
    """Undo one page of a sweep, but for what has been touched since, and forget the page. Says how many came back."""

    def change(transaction: Transaction) -> Undone:
        threads = 0
        entries = (transaction.facet(FACET, page_of(sweep_id, page)) or {"entries": []})["entries"]
        away = [entry["id"] for entry in entries if entry["did"] in (ARCHIVING, SUMMARISING, MERGING)]
        back = [_archived_by(transaction, sweep_id, memory_id) for memory_id in away]
        returned = {memory.id for memory in back if memory is not None}
        count = _revive(transaction, [memory for memory in back if memory is not None], desk)
        count += sum(_move_back(transaction, entry) for entry in entries if entry["did"] in (PROMOTING, DEMOTING))
        for entry in reversed(entries):
            if entry["did"] == MERGING and entry["id"] in returned:
                merges.take_apart(transaction, entry, desk)
            if entry["did"] == NOTING and transaction.facet(entry["name"], entry["owner"]) == entry["after"]:
                transaction.set_facet(entry["name"], entry["owner"], entry["before"])
                threads += entry["name"] == THREAD
            if entry["did"] == WRITING:
                summaries.unsay(transaction, entry, desk)
        transaction.set_facet(FACET, page_of(sweep_id, page), None)
        _set_pages(transaction, desk.project, sweep_id, page, desk.now_s)
        return Undone(count, threads)

    return change


def page_of(sweep_id: str, number: int) -> str:
    """Beside what a page of what a sweep did lies."""
    return f"{sweep_id}.{number}"


_Seen = tuple[Decision, Subject | None]


def _together(seen: Iterator[_Seen]) -> Iterator[list[_Seen]]:
    some: list[_Seen] = []
    text = 0
    for decision, one in seen:
        some.append((decision, one))
        text += 0 if one is None else len(one.memory.content)
        # What comes behind a merge may be about that which it changes.
        if len(some) >= TOGETHER or text >= TEXT_TOGETHER or isinstance(decision.verdict, Merge):
            yield some
            some, text = [], 0
    if some:
        yield some


def _as_planned(transaction: Transaction, sweep: Sweep, decision: Decision, remotes: Sequence[str]) -> Subject | None:
    """The memory; None when it is not as the plan saw it."""
    one = _subject(transaction, decision.memory_id, remotes)
    if one is None or one.memory.revision != decision.revision or not _still_holds(one, decision, sweep):
        return None
    return one


def _carry_out(
    transaction: Transaction, sweep: Sweep, some: Sequence[_Seen], remotes: Sequence[str], behind: Behind | None
) -> list[JsonObject | None]:
    """What was done with each, for the sweep's page; None for what is not as the plan saw it. Those that were merged
    have yet to be put away."""
    summary_id = None if behind is None else behind.summary_id
    leaving = {
        one.memory.id: Archived(
            sweep.at_s,
            decision.policy,
            decision.verdict.reason,
            decision.verdict.figures,
            sweep=sweep.id,
            summary=summary_id,
        )
        for decision, one in some
        if one is not None and isinstance(decision.verdict, Archive | Summarise)
    }
    if leaving:
        shelve(transaction, leaving)
    if behind is not None:
        summaries.refer(transaction, behind, leaving)
    put_away = ARCHIVING if behind is None else SUMMARISING
    done = [
        {"id": decision.memory_id, "did": put_away}
        if decision.memory_id in leaving
        else _done(transaction, sweep, decision, one, remotes)
        for decision, one in some
    ]
    clean_up(transaction, [one.memory for one in _erased(some, done)], erased=True)
    return done


def _erased(some: Sequence[_Seen], done: Sequence[JsonObject | None]) -> Iterator[Subject]:
    for (_, one), what in zip(some, done, strict=True):
        if one is not None and what is not None and what["did"] == ERASING:
            yield one


def _done(
    transaction: Transaction, sweep: Sweep, decision: Decision, one: Subject | None, remotes: Sequence[str]
) -> JsonObject | None:
    verdict = decision.verdict
    if one is None:
        return None
    if isinstance(verdict, Merge):
        return _merge(transaction, sweep, one, verdict, remotes)
    if isinstance(verdict, Expire):
        _erase(transaction, one, remotes)
        return {"id": one.memory.id, "did": ERASING}
    if isinstance(verdict, Promote | Demote) and sweep.policies.tiers is not None:
        before = transaction.facet("tier", one.memory.id)
        after = sweep.policies.tiers.after(one, verdict, sweep.at_s).to_json()
        transaction.set_facet("tier", one.memory.id, after)
        did = PROMOTING if isinstance(verdict, Promote) else DEMOTING
        return {"id": one.memory.id, "did": did, "before": before, "after": after}
    return None


def _merge(
    transaction: Transaction, sweep: Sweep, one: Subject, verdict: Merge, remotes: Sequence[str]
) -> JsonObject | None:
    stands, how = _subject(transaction, verdict.into, remotes), sweep.policies.merging
    if stands is None or how is None or not merges.holds(transaction, one, stands, verdict, how, at_s=sweep.at_s):
        return None
    at = datetime.fromtimestamp(sweep.at_s, UTC)
    desk = WriteContext(sweep.project, None, None, Lifetimes({}), at)
    return {**merges.join(transaction, one, stands, desk), "did": MERGING}


def _merged(sweep: Sweep, decisions: Sequence[Decision], outcomes: Sequence[str]) -> dict[MemoryId, Archived]:
    """Why those rest that were joined to others. `outcomes` are those of the first decisions."""
    return {
        one.memory_id: Archived(
            sweep.at_s,
            POLICY,
            one.verdict.reason,
            one.verdict.figures,
            sweep=sweep.id,
            merged_into=one.verdict.into,
        )
        for one, outcome in zip(decisions, outcomes, strict=False)
        if outcome == MERGING and isinstance(one.verdict, Merge)
    }


def _write_down(transaction: Transaction, sweep: Sweep, entries: Sequence[JsonObject], page: int) -> None:
    moves = Counter(entry["did"] for entry in entries)
    if moves[PROMOTING] or moves[DEMOTING]:
        activity.add(
            transaction,
            sweep.project,
            lambda now: now.moved(sweep.at_s, promotions=moves[PROMOTING], demotions=moves[DEMOTING]),
        )
    transaction.set_facet(FACET, page_of(sweep.id, page), {"entries": list(entries)})
    _set_pages(transaction, sweep.project, sweep.id, page + 1, sweep.at_s)


def _set_pages(transaction: Transaction, project: str, sweep_id: str, pages: int, at_s: float) -> None:
    """Note up to which page there is something to take back."""
    before = transaction.facet(FACET, last(project)) or {"at": at_s}
    transaction.set_facet(FACET, last(project), {"id": sweep_id, "at": before["at"], "pages": pages})


def _still_holds(one: Subject, decision: Decision, sweep: Sweep) -> bool:
    if decision.policy == LIFETIMES:
        return type(ending.decide(one, sweep.at_s)) is type(decision.verdict)
    return one.standing is Standing.LIVE and one.mark == decision.mark


def _subject(transaction: Transaction, memory_id: MemoryId, remotes: Sequence[str]) -> Subject | None:
    row = transaction.row(memory_id)
    if row is None or row.standing in (Standing.ARCHIVED, Standing.FORGOTTEN):
        return None
    is_awaited = row.memory.type is MemoryType.WORKING and any(
        _is_awaited(transaction.facet("delivery", f"{remote}:{memory_id}")) for remote in remotes
    )
    return subject(row, transaction.facets(FACETS, memory_id).get, awaited=is_awaited)


def _is_awaited(delivery: Mapping[str, Any] | None) -> bool:
    return delivery is not None and delivery["state"] in AWAITED


def _erase(transaction: Transaction, one: Subject, remotes: Sequence[str]) -> None:
    """Of a memory of ours, what each remote calls it stays: else its own answer would be taken for news from there."""
    memory_id = one.memory.id
    transaction.erase(memory_id)
    for facet in (*BESIDE, *transaction.facet_names(VECTORS)):
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


def _archived_by(transaction: Transaction, sweep_id: str, memory_id: str) -> Memory | None:
    """The memory, if it still lies in the archive where that sweep put it."""
    row = transaction.row(memory_id)
    why = transaction.facet(ARCHIVED, memory_id) or {}
    return row.memory if row and row.standing is Standing.ARCHIVED and why.get("sweep") == sweep_id else None


def _revive(transaction: Transaction, memories: Sequence[Memory], desk: WriteContext) -> int:
    """Whoever takes a sweep back has used none of them: they begin to fade anew, and what they gained by uses stays."""
    uses = {memory.id: transaction.facet("usage", memory.id) or {"accesses": 0} for memory in memories}
    if memories:
        write.revive(transaction, memories, desk)
    for memory_id, before in uses.items():
        used = transaction.facet("usage", memory_id)
        if used is not None:
            transaction.set_facet("usage", memory_id, {**used, "accesses": before["accesses"]})
    return len(memories)


def _move_back(transaction: Transaction, entry: JsonObject) -> bool:
    row = transaction.row(entry["id"])
    if row is None or row.standing is not Standing.LIVE or transaction.facet("tier", row.memory.id) != entry["after"]:
        return False
    transaction.set_facet("tier", row.memory.id, entry["before"])
    return True
