"""Threads as injection sees them: read quickly, for the memories that may be put into a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kingly_memory.attention.focus import Thread, fold
from kingly_memory.attention.pins import title
from kingly_memory.attention.ratings import Ratings, relevance
from kingly_memory.cognition.owners import owner
from kingly_memory.models import Memory
from kingly_memory.ports import StoreReader
from kingly_memory.router import thread_lookup
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS, THREAD, combined, text, texts, weighed

_READ_MOST = 16
"""Memories of a thread that tell what it is about while somebody waits with a prompt, the latest."""


def threads_of(
    reader: StoreReader, space: str, memories: Sequence[Memory], now_s: float, *, about: Sequence[str] = ()
) -> Mapping[str, Thread]:
    """The thread of each memory, by the memory's id.

    Where nobody has said what a thread is called and about, its latest memories tell. They are read only for `about`,
    topics that somebody has in focus. A thread that speaks of none of them has no topics then but the memory's tags.
    """
    facets = thread_lookup.threads(reader, space, {one.scope.context_id for one in memories if one.scope.context_id})
    ids = {memory.id: thread_lookup.root(memory.scope.context_id or memory.id, facets) for memory in memories}
    members = {  # most threads have one context, and nothing is read for these
        ids[memory.id]: thread_lookup.members(reader, space, ids[memory.id])
        if texts(facets.get(ids[memory.id], {}), "holds")
        else {ids[memory.id]: facets.get(ids[memory.id], {})}
        for memory in memories
    }
    owners = {
        memory.id: [owner(space, name) for name in members[ids[memory.id]]] if memory.scope.context_id else [memory.id]
        for memory in memories
    }
    everybody = list(dict.fromkeys(whose for one, names in owners.items() for whose in (*names, one)))
    beside = reader.facets_of(dict.fromkeys((ATTENTION, RATINGS, THREAD), everybody))
    summaries = _summaries(reader, space, members, now_s, about)
    threads: dict[str, Thread] = {}
    for memory in memories:
        thread_id, own = ids[memory.id], owners[memory.id]
        facet = combined(members[thread_id]) if memory.scope.context_id else beside[THREAD].get(memory.id, {})
        heading, topics = summaries.get(thread_id, ("", ()))
        called = memory.title or (title(memory.content) if about else None) or ""
        weight, pinned = weighed(beside[ATTENTION].get(one, {}) for one in (own[0], memory.id))
        threads[memory.id] = Thread(
            thread_id,
            title=text(facet, "title") or "\n".join(dict.fromkeys(filter(None, (heading, called)))),
            topics=tuple(dict.fromkeys((*(texts(facet, "topics") or topics), *memory.tags))),
            weight=weight,
            relevance=relevance(Ratings.together(beside[RATINGS].get(one) for one in dict.fromkeys((*own, memory.id)))),
            pinned=pinned,
        )
    return threads


def _summaries(
    reader: StoreReader, space: str, threads: Mapping[str, Mapping[str, object]], now_s: float, about: Sequence[str]
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The title and topics that the latest memories of those threads tell; topics only of those that speak of one of
    `about`."""
    if not about:
        return {}
    from kingly_memory.router.threads import reading  # loaded where something is in focus

    wanted, summaries = [fold(one) for one in about], dict[str, tuple[str, tuple[str, ...]]]()
    for name, lines in reading.lines(reader, space, threads, now_s, _READ_MOST).items():
        spoken = fold("\n".join(text for line in lines for text in (line.title, line.text, *line.tags)))
        topics = reading.topics_of(lines) if any(one in spoken for one in wanted) else ()
        summaries[name] = reading.title(name, lines), topics
    return summaries
