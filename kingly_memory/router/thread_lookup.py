"""Which contexts are one thread, and which thread somebody means.

A thread is what was said in one context; its id is the context's. A memory that belongs to no context is a thread of
its own. What was said of a thread lies in facets under its `owner`: `thread` (title, topics, merges), `attention`
(weight, pin) and `ratings`. In the facet `thread`, `into` names the thread that this one was merged into, and `holds`
the ones that were merged into it. `into` decides; `holds` only says where to look.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kingly_memory.attention.focus import folded
from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import NamedTuple
from kingly_memory.errors import InvalidInput
from kingly_memory.models import KEPT, JsonObject, Query
from kingly_memory.ports import Lookups, Row, StoreReader
from kingly_memory.validation import shown

THREAD, ATTENTION, RATINGS = "thread", "attention", "ratings"
_PAGE, _FACET_PAGE = 64, 1_000


class Named(NamedTuple):
    """A thread, and the `owner` of its facets. `is_alone`: it is one memory that belongs to no context."""

    id: str
    owner: str
    is_alone: bool = False


# --- what a facet says ------------------------------------------------------------------------------------------------


def text(facet: Mapping[str, Any], name: str) -> str | None:
    value = facet.get(name)
    return value if isinstance(value, str) and value else None


def texts(facet: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = facet.get(name)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def number(facet: Mapping[str, Any], name: str) -> float | None:
    value = facet.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def into(facet: Mapping[str, Any]) -> str | None:
    return text(facet, "into")


def combined(contexts: Mapping[str, JsonObject]) -> JsonObject:
    """What was said of a thread and of those merged into it, from their facets `thread`, its own first: its own title,
    the topics of all, and how often any was recalled."""
    own, *others = contexts.values()
    if not others:
        return own
    together: dict[str, Any] = {
        "topics": list(dict.fromkeys(one for facet in contexts.values() for one in texts(facet, "topics"))),
        "recalls": sum(number(facet, "recalls") or 0 for facet in contexts.values()),
        "recalled_at": max((number(facet, "recalled_at") or 0 for facet in contexts.values()), default=0),
    }
    return {**own, **{name: value for name, value in together.items() if value}}


class Weighed(NamedTuple):
    weight: float = 1.0
    pinned: bool = False


def weighed(facets: Iterable[JsonObject]) -> Weighed:
    """The weight that facets `attention` of a thread and of its memories give it: the first that names one counts, or
    the largest where anything is pinned."""
    found = [facet for facet in facets if facet]
    pinned = any(facet.get("pinned") is True for facet in found)
    numbers = [value for facet in found if (value := number(facet, "weight")) is not None and value >= 0]
    weight = (max(numbers) if pinned else numbers[0]) if numbers else 1.0
    return Weighed(weight, pinned)


def facets(reader: Lookups, name: str, space: str, context_ids: Iterable[str]) -> dict[str, JsonObject]:
    """The facets of that name, by context."""
    owners = {owner(space, context_id): context_id for context_id in context_ids}
    return {owners[whose]: facet for whose, facet in reader.facets(name, list(owners)).items()}


def all_facets(reader: StoreReader, name: str) -> Iterator[tuple[str, JsonObject]]:
    """Every facet of that name in the store, whichever project it belongs to, with its owner."""
    after = ""
    while page := reader.facets_named(name, _FACET_PAGE, after):
        yield from page
        after = page[-1][0]


# --- which contexts are one thread ------------------------------------------------------------------------------------


def threads(reader: Lookups, space: str, context_ids: Iterable[str]) -> dict[str, JsonObject]:
    """The facet `thread` of each context and of every thread it was merged into; empty where there is none."""
    wanted = set(context_ids)
    found: dict[str, JsonObject] = {}
    while wanted:
        found |= {one: {} for one in wanted} | facets(reader, THREAD, space, wanted)
        wanted = {target for facet in found.values() if (target := into(facet)) is not None} - found.keys()
    return found


def root(context_id: str, known: Mapping[str, JsonObject]) -> str:
    """The thread that a context belongs to now. A circle of merges, which we never write, counts as one thread."""
    passed = [context_id]
    while (target := into(known.get(passed[-1], {}))) is not None:
        if target in passed:
            return min(passed[passed.index(target) :])
        passed.append(target)
    return passed[-1]


def members(reader: Lookups, space: str, thread_id: str) -> dict[str, JsonObject]:
    """The contexts that are this thread now, its own first, each with its facet `thread`."""
    found = {thread_id: facets(reader, THREAD, space, [thread_id]).get(thread_id, {})}
    waiting = [thread_id]
    while waiting:
        parents = {child: parent for parent in waiting for child in texts(found[parent], "holds") if child not in found}
        read = facets(reader, THREAD, space, parents)
        waiting = [child for child, parent in parents.items() if into(read.get(child, {})) == parent]
        found |= {child: read[child] for child in waiting}
    return found


def contexts_of(reader: StoreReader, space: str, thread: Named) -> dict[str, JsonObject]:
    """As `members`; none for a memory that belongs to no context."""
    return {} if thread.is_alone else members(reader, space, thread.id)


def rows(reader: StoreReader, space: str, thread: Named, context_ids: Iterable[str]) -> Iterator[Row]:
    """The memories of a thread, live and archived, in the order in which they were stored."""

    def rows_in(context_id: str) -> Iterator[Row]:
        query, start = Query("", space, context_id=context_id), None
        while found := reader.page(query, KEPT, _PAGE, start, oldest_first=True):
            yield from found
            start = found[-1].position

    if thread.is_alone:
        row = reader.row(thread.id)
        return iter(() if row is None else (row,))
    return heapq.merge(*map(rows_in, context_ids), key=lambda row: row.position)


# --- which thread somebody means --------------------------------------------------------------------------------------


def named(reader: StoreReader, space: str, name: str, field: str = "thread_id") -> Named:
    """The thread with that id, or the one it was merged into; else the thread of the memory with that key or id. Raises
    InvalidInput."""
    if is_thread(reader, space, name):
        return of_context(reader, space, name)
    thread = of_row(reader, space, reader.row(reader.id_of_key(space, name) or name))
    if thread is None:
        raise InvalidInput(field, f"there is no thread {shown(name)!r} in this project, and no such memory")
    return thread


def is_thread(reader: StoreReader, space: str, name: str) -> bool:
    """Whether it is the id of a thread that still has a memory."""
    known = threads(reader, space, [name])
    names = members(reader, space, root(name, known)) if any(known.values()) else ()
    return any(reader.page(Query("", space, context_id=one), KEPT, 1, None) for one in dict.fromkeys((name, *names)))


def of_context(reader: StoreReader, space: str, context_id: str) -> Named:
    thread_id = root(context_id, threads(reader, space, [context_id]))
    return Named(thread_id, owner(space, thread_id))


def of_row(reader: StoreReader, space: str, row: Row | None) -> Named | None:
    """The thread of a memory; None where it is gone or belongs to another project."""
    if row is None or row.status not in KEPT or row.memory.scope.space != space:
        return None
    if (context_id := row.memory.scope.context_id) is not None:
        return of_context(reader, space, context_id)
    return Named(row.memory.id, row.memory.id, is_alone=True)


def titled(reader: StoreReader, space: str, topic: str) -> list[Named]:
    """Threads whose given title is the topic, then those whose title speaks of it; the latest first."""
    wanted = folded(topic)
    ranks: dict[Named, tuple[bool, int]] = {}
    for whose, facet in all_facets(reader, THREAD):
        title, context_id = folded(text(facet, "title") or ""), text(facet, "context_id")
        if wanted not in title or (context_id is not None and owner(space, context_id) != whose):
            continue
        row = reader.row(whose) if context_id is None else None
        thread = of_row(reader, space, row) if context_id is None else of_context(reader, space, context_id)
        if thread is not None and (context_id is not None or thread.is_alone):
            queries = [Query("", space, context_id=one) for one in contexts_of(reader, space, thread)]
            latest = [row] if row else [one for query in queries for one in reader.page(query, KEPT, 1, None)]
            if latest:
                rank = title != wanted, -max(one.position for one in latest)
                ranks[thread] = min(rank, ranks.get(thread, rank))
    return sorted(ranks, key=ranks.__getitem__)
