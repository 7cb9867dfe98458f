"""A sweep's plan carried out, and taken back, as changes on the store: few memories each, so that nobody waits long.

The facet `sweep:last.<digest of the project>` says what the project's last sweep was, and `sweep:<its id>.<page>` what
each change of it did, so that `take_back` can read it backwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory.cognition import links
from kingly_memory.cognition.owners import latest_owner
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.lifecycle import policies
from kingly_memory.lifecycle.lifetimes import LIFETIMES
from kingly_memory.lifecycle.plan import Decision, Policies
from kingly_memory.lifecycle.policies import Expire, Move, Promote, Subject, Verdict
from kingly_memory.lifecycle.tiers import Placement
from kingly_memory.models import JsonObject, Memory, MemoryStatus, MemoryType, Tier
from kingly_memory.ports import Transaction
from kingly_memory.router import activity, linking, write
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.erasing import erase
from kingly_memory.router.lifecycle import archive
from kingly_memory.router.lifecycle.archive import Archived, move_to_archive
from kingly_memory.router.subjects import AWAITED, FACETS, subject
from kingly_memory.router.sweep.compaction import FacetChange
from kingly_memory.router.thread_cleanup import clean_up
from kingly_memory.router.write import WriteContext
from kingly_memory.validation import Imported

if TYPE_CHECKING:  # few sweeps write a summary
    from kingly_memory.lifecycle.summaries import Summarised

FACET = "sweep"
MOST_LINKED = 8
"""Memories that are linked to their summary, while the writer is held. Of more, it lists the ids."""
_SUMMED_UP = links.draft("references", 1.0, "what it sums up")

ARCHIVED, SUMMARISED, ERASED = "archived", "summarised", "erased"
"""Summarised: archived behind a summary."""
PROMOTED, DEMOTED, SKIPPED = "promoted", "demoted", "skipped"
NOTED, WRITTEN = "noted", "written"
"""What was done beside a thread, and with a summary itself."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep under way: what is written down beside whatever it does."""

    id: str
    policies: Policies
    context: WriteContext


class Undone(NamedTuple):
    """How many memories came back or were put back, and how many threads."""

    memories: int = 0
    threads: int = 0


class Behind(NamedTuple):
    """What memories are put away behind: a summary of them all, which is written with the first that leave."""

    of: Summarised
    gists: Sequence[Memory]
    summary_id: MemoryId | None = None


def last(space: str) -> str:
    """Whose facet says what that project's last sweep was."""
    return f"last.{latest_owner(space)}"


def page_of(sweep_id: str, number: int) -> str:
    """Beside what a page of what a sweep did lies."""
    return f"{sweep_id}.{number}"


def begin(transaction: Transaction, sweep: Sweep) -> JsonObject:
    """Note that a sweep is under way, and say what the one before it was: only the last one can be taken back."""
    owner = last(sweep.context.space)
    before = transaction.facet(FACET, owner)
    # A compaction, which asks no policies, puts off no sweep.
    at_s = sweep.context.now_s if sweep.policies.names or before is None else before["at"]
    transaction.set_facet(FACET, owner, {"id": sweep.id, "at": at_s, "pages": 0})
    return before or {"id": "", "pages": 0}


def drop_pages(transaction: Transaction, sweep_id: str, pages: Sequence[int]) -> None:
    """Forget what an earlier sweep did, some pages at a time."""
    for number in pages:
        transaction.set_facet(FACET, page_of(sweep_id, number), None)


def note_time(transaction: Transaction, sweep: Sweep) -> None:
    """Note that there was a sweep and nothing for it to do: the one before it can still be taken back."""
    owner = last(sweep.context.space)
    before = transaction.facet(FACET, owner) or {"id": sweep.id, "pages": 0}
    transaction.set_facet(FACET, owner, {**before, "at": sweep.context.now_s})


def _write_down(transaction: Transaction, sweep: Sweep, entries: Sequence[JsonObject], page: int) -> None:
    if not entries:
        return
    space, did = sweep.context.space, Counter(entry["did"] for entry in entries)
    if did[PROMOTED] or did[DEMOTED]:
        moves = {"promotions": did[PROMOTED], "demotions": did[DEMOTED]}
        activity.add(transaction, space, lambda before: before.moved(sweep.context.now_s, **moves))
    transaction.set_facet(FACET, page_of(sweep.id, page), {"entries": list(entries)})
    _set_pages(transaction, sweep.id, sweep.context, page + 1)


def _set_pages(transaction: Transaction, sweep_id: str, context: WriteContext, pages: int) -> None:
    """Note up to which page there is something to take back."""
    before = transaction.facet(FACET, last(context.space)) or {"at": context.now_s}
    transaction.set_facet(FACET, last(context.space), {"id": sweep_id, "at": before["at"], "pages": pages})


# --- carrying out ---------------------------------------------------------------------------------------------------


def carry_out(
    transaction: Transaction, sweep: Sweep, decisions: Sequence[Decision], page: int, behind: Behind | None
) -> tuple[list[str], Behind | None]:
    """Carry out some decisions, and say what became of each and behind what. What was touched since the plan was made
    is left alone. `behind` is what all of them are to be put away behind."""
    remotes = transaction.owners("remote")
    entries: list[JsonObject] = []
    outcomes: list[str] = []
    to_archive: dict[MemoryId, Archived] = {}
    erased: list[Memory] = []
    for decision in decisions:
        planned = _as_planned(transaction, sweep, decision, remotes)
        if planned is None:
            outcomes.append(SKIPPED)
            continue
        if behind is not None and behind.summary_id is None:
            behind = _write_summary(transaction, sweep, behind, entries)
        entry = _carried_out(transaction, sweep, decision.verdict, planned, remotes)
        if entry["did"] == ARCHIVED:
            to_archive[planned.memory.id] = Archived(
                at=sweep.context.now_s,
                policy=decision.policy,
                reason=decision.verdict.reason,
                figures=decision.verdict.figures,
                sweep=sweep.id,
                summary=behind and behind.summary_id,
            )
        elif entry["did"] == ERASED:
            erased.append(planned.memory)
        entries.append({**entry, "did": SUMMARISED} if behind else entry)
        outcomes.append(entries[-1]["did"])
    _put_away(transaction, sweep, to_archive, behind)
    clean_up(transaction, erased, erased=True)
    _write_down(transaction, sweep, entries, page)
    return outcomes, behind


def _as_planned(transaction: Transaction, sweep: Sweep, decision: Decision, remotes: Sequence[str]) -> Subject | None:
    """The memory; None when it is not as the plan saw it."""
    planned = _subject(transaction, decision.memory_id, remotes)
    if planned is None or planned.memory.revision != decision.revision:
        return None
    if decision.policy == LIFETIMES:
        still_holds = type(policies.ended(planned, sweep.context.now_s)) is type(decision.verdict)
    else:
        still_holds = planned.status is MemoryStatus.LIVE and planned.mark == decision.mark
    return planned if still_holds else None


def _carried_out(
    transaction: Transaction, sweep: Sweep, verdict: Verdict, planned: Subject, remotes: Sequence[str]
) -> JsonObject:
    """What was done, for the sweep's page. What leaves has yet to be put away."""
    memory_id = planned.memory.id
    if isinstance(verdict, Expire):
        _erase(transaction, planned, remotes)
        return {"id": memory_id, "did": ERASED}
    if isinstance(verdict, Move):
        before = transaction.facet("tier", memory_id)
        after = policies.moved(planned, verdict, sweep.context.now_s, sweep.policies.tiers).to_json()
        transaction.set_facet("tier", memory_id, after)
        did = PROMOTED if isinstance(verdict, Promote) else DEMOTED
        return {"id": memory_id, "did": did, "before": before, "after": after}
    return {"id": memory_id, "did": ARCHIVED}


def _put_away(
    transaction: Transaction, sweep: Sweep, to_archive: dict[MemoryId, Archived], behind: Behind | None
) -> None:
    if to_archive:
        move_to_archive(transaction, to_archive)
    if behind is None or behind.summary_id is None or len(behind.of.ids) > MOST_LINKED:
        return
    for memory_id in to_archive:
        try:
            linking.link(behind.summary_id, memory_id, _SUMMED_UP, sweep.context)(transaction)
        except InvalidInput:  # a memory that has no room for another link goes without
            continue


def _subject(transaction: Transaction, memory_id: MemoryId, remotes: Sequence[str]) -> Subject | None:
    row = transaction.row(memory_id)
    if row is None or row.status in (MemoryStatus.ARCHIVED, MemoryStatus.FORGOTTEN):
        return None
    waited_for = remotes if row.memory.type is MemoryType.WORKING else ()
    deliveries = (transaction.delivery(remote, memory_id) for remote in waited_for)
    is_awaited = any(one is not None and one.state in AWAITED for one in deliveries)
    beside = transaction.facets_of({name: [memory_id] for name in FACETS})
    return subject(row, lambda name: beside[name].get(memory_id), awaited=is_awaited)


def _erase(transaction: Transaction, erased: Subject, remotes: Sequence[str]) -> None:
    """Of a memory of ours, what each remote calls it stays: else its own answer would be taken for news from there."""
    memory_id = erased.memory.id
    erase(transaction, memory_id)
    for remote in remotes:
        before = None if erased.status is MemoryStatus.CACHED else transaction.delivery(remote, memory_id)
        is_there = before is not None and before.remote_id is not None
        transaction.set_delivery(remote, memory_id, delivery.at_rest(before) if before and is_there else None)


# --- summaries and threads ------------------------------------------------------------------------------------------


def _write_summary(transaction: Transaction, sweep: Sweep, behind: Behind, entries: list[JsonObject]) -> Behind | None:
    """Store what a group is to be put away behind; None when nothing is left that it could tell."""
    from kingly_memory.lifecycle.summaries import summary

    rows = ((one, transaction.row(one.id)) for one in behind.gists)
    gists = [
        one for one, row in rows if row and row.status is MemoryStatus.LIVE and row.memory.revision == one.revision
    ]
    if not gists:
        return None
    summary_id = MemoryId(new_id(sweep.context.now))
    items = [Imported(summary(behind.of, gists), id=summary_id)]
    write.import_all(items, replace(sweep.context, agent=None))(transaction)
    # At rest, and left alone by the run that made it.
    placement = Placement(Tier.GLACIAL, moved_at=sweep.context.now_s).to_json()
    transaction.set_facet("tier", summary_id, placement)
    entries.append({"id": summary_id, "tier": placement, "did": WRITTEN})
    return behind._replace(summary_id=summary_id)


def write_notes(transaction: Transaction, sweep: Sweep, notes: Sequence[FacetChange], page: int) -> int:
    """Write facets that are as they were read, and say how many were not."""
    held = [note for note in notes if transaction.facet(note.name, note.owner) == note.was]
    entries: list[JsonObject] = []
    for note in held:
        transaction.set_facet(note.name, note.owner, note.becomes)
        fields = {"did": NOTED, "name": note.name, "owner": note.owner}
        entries.append({**fields, "before": note.was, "after": note.becomes})
    _write_down(transaction, sweep, entries, page)
    return len(notes) - len(held)


# --- taking back ----------------------------------------------------------------------------------------------------


def take_back(transaction: Transaction, sweep_id: str, page: int, context: WriteContext) -> tuple[int, set[str]]:
    """Undo one page of a sweep, but for what has been touched since, and forget the page. Says how many memories came
    back or were put back, and the owners of the facets of threads that were."""
    entries = (transaction.facet(FACET, page_of(sweep_id, page)) or {"entries": []})["entries"]
    away = [entry["id"] for entry in entries if entry["did"] in (ARCHIVED, SUMMARISED)]
    memories, threads = _revive(transaction, sweep_id, away, context), set[str]()
    for entry in reversed(entries):
        if entry["did"] in (PROMOTED, DEMOTED):
            row = transaction.row(entry["id"])
            is_live = row is not None and row.status is MemoryStatus.LIVE
            memories += is_live and _put_back(transaction, "tier", entry["id"], entry)
        elif entry["did"] == NOTED:
            threads |= {entry["owner"]} if _put_back(transaction, entry["name"], entry["owner"], entry) else set()
        elif entry["did"] == WRITTEN:
            _forget_summary(transaction, entry, context)
    transaction.set_facet(FACET, page_of(sweep_id, page), None)
    _set_pages(transaction, sweep_id, context, page)
    return memories, threads


def _put_back(transaction: Transaction, name: str, owner: str, entry: JsonObject) -> bool:
    """Whether the facet was as the sweep left it, and is now as it was before."""
    if transaction.facet(name, owner) != entry["after"]:
        return False
    transaction.set_facet(name, owner, entry["before"])
    return True


def _revive(transaction: Transaction, sweep_id: str, ids: Sequence[str], context: WriteContext) -> int:
    """Bring back those that still lie in the archive where the sweep put them, and say how many. Whoever takes a sweep
    back has used none of them: they begin to fade anew, and what they gained by uses stays."""
    memories = []
    uses: dict[str, int] = {}
    for memory_id in ids:
        row = transaction.row(memory_id)
        why = transaction.facet(archive.FACET, memory_id) or {}
        if row is not None and row.status is MemoryStatus.ARCHIVED and why.get("sweep") == sweep_id:
            memories.append(row.memory)
            uses[memory_id] = (transaction.facet("usage", memory_id) or {"accesses": 0})["accesses"]
    if memories:
        write.revive(transaction, memories, context)
    for memory_id, accesses in uses.items():
        used = transaction.facet("usage", memory_id) or {}
        transaction.set_facet("usage", memory_id, {**used, "accesses": accesses})
    return len(uses)


def _forget_summary(transaction: Transaction, entry: JsonObject, context: WriteContext) -> None:
    """Forget a summary, unless somebody has made it their own since: revised, judged, reinforced, pinned, rated or
    linked it. A search that found it does not count, and neither does forgetting a memory that it summed up."""
    from kingly_memory.lifecycle.summaries import times_redacted

    memory_id = MemoryId(entry["id"])
    row = transaction.row(memory_id)
    if row is None or row.status is not MemoryStatus.LIVE or row.memory.revision != 1 + times_redacted(row.memory):
        return
    is_judged = any(transaction.facet(name, memory_id) for name in ("strength", "attention"))
    if is_judged or transaction.facet("tier", memory_id) != entry["tier"]:
        return
    ours = (memory_id, _SUMMED_UP.link_type, _SUMMED_UP.description)
    if all((link.source, link.link_type, link.description) == ours for link in links.of(transaction, memory_id)):
        links.sever(transaction, memory_id)
        write.forget(memory_id, context)(transaction)
