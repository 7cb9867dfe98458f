"""The summaries behind which a sweep puts memories away, as changes: written first, then used, perhaps taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from kingly_memory.cognition import links
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, derived_id, new_id
from kingly_memory.intake import Imported
from kingly_memory.lifecycle.steward import Decision
from kingly_memory.lifecycle.tiers import of_summary
from kingly_memory.lifecycle.verdicts import Summarise
from kingly_memory.models import JsonObject, Standing
from kingly_memory.ports import MemoryReader, Transaction
from kingly_memory.router import linking, write
from kingly_memory.router.write import WriteContext

if TYPE_CHECKING:
    from kingly_memory.lifecycle.summaries import Gist, Group

MOST_LINKED = 8
"""Memories that are linked to their summary, while the writer is held. Of more, it lists the ids."""
_SAID = links.draft("references", 1.0, "what it sums up")


@dataclass(frozen=True, slots=True)
class Behind:
    """What memories are put away behind, and whether it is linked to them."""

    summary_id: MemoryId
    desk: WriteContext
    is_linked: bool


def group(decisions: Sequence[Decision]) -> Group | None:
    """Those that go behind the same summary; None when they go behind none."""
    verdicts = [one.verdict for one in decisions if isinstance(one.verdict, Summarise)]
    if not verdicts:
        return None
    from kingly_memory.lifecycle.summaries import Group  # few sweeps need it, and every router would load it

    significances = tuple(one.figures["significance"] for one in verdicts)
    return Group(verdicts[0].agent, verdicts[0].topic, tuple(one.memory_id for one in decisions), significances)


def gists(reader: MemoryReader, decisions: Iterable[Decision]) -> list[Gist]:
    """Of the most important of them that are as the plan saw them."""
    from kingly_memory.lifecycle.summaries import MOST_TOLD, gist

    chosen = nlargest(MOST_TOLD, decisions, key=lambda one: (one.verdict.figures["importance"], one.memory_id))
    rows = ((one, reader.row(one.memory_id)) for one in chosen)
    return [
        gist(row.memory)
        for one, row in rows
        if row is not None and row.standing is Standing.LIVE and row.memory.revision == one.revision
    ]


def keep(group: Group, told: Sequence[Gist], desk: WriteContext) -> Callable[[Transaction], JsonObject | None]:
    """Store the summary, and say so for the sweep's page; None when nothing that it would tell is as it was."""
    from kingly_memory.lifecycle.summaries import summary

    def change(transaction: Transaction) -> JsonObject | None:
        left = [one for one in told if _is_as_told(transaction, one)]
        if not left:
            return None
        draft = summary(group, left)
        summary_id = _id(transaction, group, draft.content, desk)
        write.import_all([Imported(draft, id=summary_id)], replace(desk, agent=None))(transaction)
        placement = of_summary(desk.now_s).to_json()
        transaction.set_facet("tier", summary_id, placement)
        return {"id": summary_id, "tier": placement}

    return change


def refer(transaction: Transaction, behind: Behind, memory_ids: Iterable[MemoryId]) -> None:
    """Link the summary to what went behind it. A memory that has no room for another link goes without."""
    for memory_id in memory_ids if behind.is_linked else ():
        try:
            linking.link(behind.summary_id, memory_id, _SAID, behind.desk)(transaction)
        except InvalidInput:
            continue


def unsay(transaction: Transaction, entry: Mapping[str, Any], desk: WriteContext) -> None:
    """Forget a summary, unless somebody has made it his own since: revised, judged, reinforced, pinned, rated or linked
    it. To have found it is not enough, nor is to have forgotten some of what it told."""
    from kingly_memory.lifecycle.summaries import times_retold

    memory_id = MemoryId(entry["id"])
    row = transaction.row(memory_id)
    if row is None or row.standing is not Standing.LIVE or row.memory.revision != 1 + times_retold(row.memory):
        return
    beside = transaction.facets(("tier", "strength", "attention"), memory_id)
    if beside != {"tier": entry["tier"]}:
        return
    ours = (memory_id, _SAID.link_type, _SAID.description)
    if all((one.source, one.link_type, one.description) == ours for one in links.of(transaction, memory_id)):
        links.sever(transaction, memory_id)
        write.forget(memory_id, desk)(transaction)


def _is_as_told(transaction: Transaction, one: Gist) -> bool:
    row = transaction.row(one.memory_id)
    return row is not None and row.standing is Standing.LIVE and row.memory.revision == one.revision


def _id(transaction: Transaction, group: Group, content: str, desk: WriteContext) -> MemoryId:
    """That of the same summary of the same memories, if a sweep was killed before it put them away behind it; else a
    new one."""
    digest = sha256("\n".join(group.ids).encode()).hexdigest()
    derived = derived_id(group.ids[0], digest)
    row = transaction.row(derived)
    if row is None:
        return derived
    is_the_same = row.standing is Standing.LIVE and (row.memory.revision, row.memory.content) == (1, content)
    return derived if is_the_same else new_id(desk.now)
