"""Threads as injection sees them: read quickly, for the memories that may be put into a prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kingly_memory.attention.focus import Thread, fold
from kingly_memory.cognition.owners import owner
from kingly_memory.models import JsonObject, Memory
from kingly_memory.ports import StoreReader
from kingly_memory.router import thread_lookup
from kingly_memory.router.thread_lookup import ATTENTION, INJECTED, RATINGS, THREAD, combined, text, texts, weighed

if TYPE_CHECKING:  # loaded where something is in focus
    from kingly_memory.router.threads.reading import Summary

_READ_MOST = 16
"""Memories of a thread that tell what it is about while somebody waits with a prompt, the latest."""


def threads_of(
    reader: StoreReader, project: str, memories: Sequence[Memory], now_s: float, *, about: Sequence[str] = ()
) -> Mapping[str, Thread]:
    """The thread of each memory, by the memory's id. A thread counts as used when one of these memories was.

    Where nobody has said what a thread is called and about, its latest memories tell. They are read only for `about`,
    topics that somebody has in focus. A thread that speaks of none of them has no topics then but the memory's tags.
    """
    said_in = {one.scope.context_id for one in memories if one.scope.context_id is not None}
    known = thread_lookup.threads(reader, project, said_in) if said_in else {}
    ids: dict[str, str] = {one.id: thread_lookup.root(one.scope.context_id or one.id, known) for one in memories}
    members = {  # most threads have one context, and nothing is read for these
        one: thread_lookup.members(reader, project, one)
        if texts(known.get(one, {}), "holds")
        else {one: known.get(one, {})}
        for one in dict.fromkeys(ids.values())
    }
    alone = [one.id for one in memories if one.scope.context_id is None]
    owners: dict[str, list[str]] = {one: [owner(project, name) for name in members[ids[one]]] for one in ids}
    owners |= {one: [one] for one in alone}
    everybody = list(dict.fromkeys(name for one, several in owners.items() for name in (*several, one)))
    wanted: dict[str, Sequence[str]] = {ATTENTION: everybody, RATINGS: everybody, INJECTED: list(ids), THREAD: alone}
    beside = reader.facets_of(wanted) if memories else {}
    facets = {one: combined(contexts) for one, contexts in members.items()} | dict(beside.get(THREAD, {}))
    relevance = _relevance(owners, beside[RATINGS], beside[INJECTED]) if memories else {}
    in_contexts = {one: members[one] for one in members if about and one not in alone}
    summaries = _summaries(reader, project, in_contexts, now_s, about)
    found: dict[str, Thread] = {}
    for memory in memories:
        facet, summary = facets.get(ids[memory.id], {}), summaries.get(ids[memory.id])
        weight, pinned = weighed(beside[ATTENTION].get(one, {}) for one in (owners[memory.id][0], memory.id))
        given, heading, topics = text(facet, "title"), memory.title, () if summary is None else summary.topics
        if about and given is None and heading is None and summary is None:
            from kingly_memory.attention.pins import title

            heading = title(memory.content)
        found[memory.id] = Thread(
            ids[memory.id],
            title=given or (memory.title if summary is None else summary.title) or "",
            topics=tuple(dict.fromkeys((*(texts(facet, "topics") or topics), *memory.tags))),
            weight=weight,
            relevance=relevance.get(memory.id, 1.0),
            pinned=pinned,
            heading=(heading or "") if about and given is None else "",
        )
    return found


def _summaries(
    reader: StoreReader, project: str, members: Mapping[str, Iterable[str]], now_s: float, about: Sequence[str]
) -> dict[str, Summary]:
    """What the latest memories of those threads tell of them; topics only of those that speak of one of `about`."""
    if not members:
        return {}
    from kingly_memory.router.threads import reading

    wanted, found = [fold(one) for one in about], dict[str, reading.Summary]()
    for name, said in reading.lines(reader, project, members, now_s, _READ_MOST).items():
        spoken = fold("\n".join(text for one in said for text in (one.title, one.text, *one.tags)))
        topics = reading.topics_of(said) if any(one in spoken for one in wanted) else ()
        found[name] = reading.Summary(reading.title(name, said), topics)
    return found


def _relevance(
    owners: Mapping[str, Sequence[str]], ratings: Mapping[str, JsonObject], injected: Mapping[str, JsonObject]
) -> dict[str, float]:
    """By memory, of those that were rated, or shown and not used."""
    if not ratings and not injected:
        return {}
    from kingly_memory.attention.ratings import Ratings, relevance, unused_together

    shown: dict[str, list[JsonObject]] = {}
    for memory_id, several in owners.items():
        if memory_id in injected:
            shown.setdefault(several[0], []).append(injected[memory_id])
    found: dict[str, float] = {}
    for memory_id, several in owners.items():
        given = [ratings[one] for one in dict.fromkeys((*several, memory_id)) if one in ratings]
        if given or several[0] in shown:
            found[memory_id] = relevance(Ratings.together(given), unused_together(shown.get(several[0], ())))
    return found
