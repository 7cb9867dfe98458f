"""What a project has in focus: the facet `focus:<owner>`, in the form of the seed's focus.json."""

from __future__ import annotations

import time
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
_LONGER, _PER_LENGTH, _MOST_WORDS = 12, 4, 24
"""The last word of a topic is part of longer words: of each of so many lengths so many are looked up."""


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
    whether there may be more. The index is asked, never every thread."""
    from kingly_memory.router.lifecycle.alive import Visible
    from kingly_memory.router.threads.seen import threads_of
    from kingly_memory.text.writing import has_unbroken

    def latest_in(context_id: str) -> list[Row]:
        return reader.page(Query("", space, context_id=context_id), [MemoryStatus.LIVE], 1, None)

    rows = [reader.row(focus.topic)]
    rows += (row for one in thread_lookup.members(reader, space, focus.topic) for row in latest_in(one))
    for whose, facet in thread_lookup.all_facets(reader, THREAD):
        context_id, thread = text(facet, "context_id"), Thread("", text(facet, "title") or "", texts(facet, "topics"))
        if thread_lookup.into(facet) is None and focus.lifts(thread):
            is_ours = context_id is not None and owner(space, context_id) == whose
            rows += latest_in(context_id or "") if is_ours else [reader.row(whose)]
    about, deadline_s = Query(focus.topic, space), time.monotonic() + _LOOK_S
    terms = _terms(reader, focus.topic)
    spoken = reader.matches(about, terms, _MOST_COUNTED, 0, deadline_s).found if terms else []
    if has_unbroken(focus.topic):
        spoken = [*spoken, *reader.containing(about, [focus.topic], _MOST_COUNTED, deadline_s).found]
    live = [row for row in (*rows, *(one.row for one in spoken)) if row is not None and row.status is MemoryStatus.LIVE]
    memories = [row.memory for row in Visible(reader).shown(live, Query("", space), now_s)]
    threads = threads_of(reader, space, memories, now_s, about=[focus.topic])
    lifted = {
        (threads[memory.id].id == memory.id, threads[memory.id].id)
        for memory in memories
        if focus.lifts(threads[memory.id])
    }
    alone = sum(is_alone for is_alone, _ in lifted)
    return len(lifted) - alone, alone, len(spoken) >= _MOST_COUNTED


def _terms(reader: StoreReader, topic: str) -> list[str]:
    """The words of a topic, and longer words that begin with its last one."""
    from kingly_memory.text.writing import words

    spoken = words(topic)
    terms = list(dict.fromkeys(spoken[:_MOST_WORDS]))
    for length in range(len(spoken[-1]) + 1, len(spoken[-1]) + _LONGER + 1) if spoken else ():
        terms += reader.vocabulary(length, _PER_LENGTH, spoken[-1])
    return terms
