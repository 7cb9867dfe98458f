"""What a project has in focus: the facet `focus:<owner>`, in the form of the seed's focus.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kingly_memory.attention.focus import Focus, Focuses, Thread
from kingly_memory.cognition.owners import owner, whose_focus
from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.models import JsonObject, MemoryStatus, Query
from kingly_memory.plain import Plain
from kingly_memory.ports import Row, StoreReader, Transaction, in_transaction
from kingly_memory.router import thread_lookup
from kingly_memory.router.thread_lookup import THREAD, text, texts

if TYPE_CHECKING:  # a hook with a focus changes nothing
    from kingly_memory.router.write import WriteContext

_FACET = "focus"
_MOST_COUNTED, _LOOK_S = 100, 0.1
"""Memories whose threads are counted, and for how long they are looked for."""


@dataclass(frozen=True, slots=True)
class Unfocused(Plain):
    """The topics that the focus was taken off, and those that are left in it."""

    cleared: tuple[str, ...]
    active_focus: tuple[str, ...] = ()
    asked: str | None = field(default=None, repr=False)

    @property
    def message(self) -> str:
        if not self.cleared:
            return "Nothing was in focus." if self.asked is None else f'"{self.asked}" was not in focus.'
        subject = "All focus" if self.asked is None else f'Focus on "{self.cleared[0]}"'
        after = (
            f"Still in focus: {', '.join(self.active_focus)}."
            if self.active_focus
            else "Returning to similarity-based injection."
        )
        return f"{subject} cleared. {after}"


def applying(reader: StoreReader, space: str) -> tuple[Focus, ...]:
    """What is in focus."""
    return Focuses.from_json(reader.facet(_FACET, whose_focus(space))).active


def as_merged(reader: StoreReader, space: str, focuses: Sequence[Focus]) -> tuple[Focus, ...]:
    """Where a topic is the id of a thread that was merged, it stands for the one that this goes on as."""
    facets = thread_lookup.threads(reader, space, [one.topic for one in focuses])
    return tuple(replace(one, topic=thread_lookup.root(one.topic, facets)) for one in focuses)


def status(reader: StoreReader, space: str) -> JsonObject:
    """For a status: `focus`, when anything is in it."""
    entries = [{"topic": one.topic, "weight": one.weight} for one in applying(reader, space)]
    return {"focus": entries} if entries else {}


@in_transaction
def put(transaction: Transaction, focus: Focus, context: WriteContext) -> None:
    """Put it into focus. Raises InvalidInput."""
    whose = whose_focus(context.space)
    active = Focuses.from_json(transaction.facet(_FACET, whose)).with_one(focus)
    transaction.set_facet(_FACET, whose, active.to_json())


@in_transaction
def clear(transaction: Transaction, topic: str | None, context: WriteContext) -> Unfocused:
    """Take the focus off a topic, or off all of them for None."""
    whose = whose_focus(context.space)
    before = Focuses.from_json(transaction.facet(_FACET, whose))
    after = before.without(topic, context.now)
    if after is not before:
        transaction.set_facet(_FACET, whose, after.to_json())
    cleared = tuple(one.topic for one in before if one not in after.active)
    return Unfocused(cleared, tuple(one.topic for one in after), topic)


def affected(reader: StoreReader, space: str, focus: Focus, now_s: float) -> tuple[int, int, bool]:
    """How many of the project's threads the focus (as `as_merged` gives it) lifts, and how many memories that were said
    in none, among those that it names, those that are called so and those of a hundred memories that speak of it; and
    whether there may be more. A search is asked, never every thread."""
    from kingly_memory.router.search.local import LocalSearch
    from kingly_memory.router.threads.seen import threads_of

    def latest_in(context_id: str) -> list[Row]:
        return reader.page(Query("", space, context_id=context_id), [MemoryStatus.LIVE], 1, None)

    rows = [reader.row(focus.topic)]
    rows += (row for one in thread_lookup.members(reader, space, focus.topic) for row in latest_in(one))
    for whose, facet in thread_lookup.all_facets(reader, THREAD):
        context_id, thread = text(facet, "context_id"), Thread("", text(facet, "title") or "", texts(facet, "topics"))
        if thread_lookup.into(facet) is None and focus.lifts(thread):
            is_ours = context_id is not None and owner(space, context_id) == whose
            rows += latest_in(context_id or "") if is_ours else [reader.row(whose)]
    layer, about = LocalSearch(reader), Query(focus.topic, space, limit=_MOST_COUNTED)
    spoken = layer.search(about, now_s=now_s, budget_s=_LOOK_S).hits
    live = [row for row in rows if row is not None and row.status is MemoryStatus.LIVE]
    memories = [row.memory for row in layer.shown(live, Query("", space), now_s)] + [hit.memory for hit in spoken]
    threads = threads_of(reader, space, memories, now_s, about=[focus.topic])
    lifted = {
        (threads[memory.id].id == memory.id, threads[memory.id].id)
        for memory in memories
        if focus.lifts(threads[memory.id])
    }
    alone = sum(is_alone for is_alone, _ in lifted)
    return len(lifted) - alone, alone, len(spoken) >= _MOST_COUNTED
