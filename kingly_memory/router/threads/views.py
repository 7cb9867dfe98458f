"""Threads as they are seen: lightly, by what puts memories into a prompt, and whole, by whoever asks for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory.attention.threads import Thread
from kingly_memory.cognition.owners import owner
from kingly_memory.models import JsonObject, Memory
from kingly_memory.ports import StoreReader
from kingly_memory.router.threads import roots

if TYPE_CHECKING:  # read where something is in focus
    from kingly_memory.router.threads.summaries import Summary

RATINGS, INJECTED = "ratings", "injected"
ACTIVE, ARCHIVED, MERGED = "active", "archived", "merged-into"
STATUSES = (ACTIVE, ARCHIVED, MERGED)
READ_MOST = 16
"""Memories of a thread that tell what it is about while somebody waits with a prompt, the latest."""
_Facets = Mapping[str, JsonObject]
_Contexts = Mapping[str, Sequence[str]]


def threads_of(
    reader: StoreReader, project: str, memories: Sequence[Memory], now_s: float, *, about: Sequence[str] = ()
) -> Mapping[str, Thread]:
    """The thread of each memory, by the memory's id; a thread counts as used when one of these memories was.

    Where nobody has said what a thread is called and about, its latest memories tell. They are read for `about` alone:
    topics that somebody has in focus. A thread that speaks of none of them has no topics then but the memory's tags.
    """
    ids, known = _roots_of(reader, project, memories)
    strays = [one.id for one in memories if one.scope.context_id is None]
    named = {root: owner(project, root) for root in dict.fromkeys(ids.values())}
    owners: dict[str, str] = {
        one.id: one.id if one.scope.context_id is None else named[ids[one.id]] for one in memories
    }
    everybody = [*dict.fromkeys([*owners.values(), *owners])]
    wanted: dict[str, Sequence[str]] = {roots.ATTENTION: everybody, RATINGS: everybody, INJECTED: list(owners)}
    wanted[roots.THREAD] = strays
    beside = reader.facets_of(wanted) if memories else {name: {} for name in wanted}
    attention, ratings, injected = beside[roots.ATTENTION], beside[RATINGS], beside[INJECTED]
    facets = {**{owners[one]: known.get(root, {}) for one, root in ids.items()}, **beside[roots.THREAD]}
    relevance = _relevance(owners, ratings, injected) if ratings or injected else {}
    in_contexts = [ids[one.id] for one in memories if one.scope.context_id is not None and about]
    told = _told(reader, _contexts_of(reader, project, in_contexts, known), project, now_s, about)

    def seen(memory: Memory) -> Thread:
        name = owners[memory.id]
        facet, summary = facets.get(name, {}), told.get(ids[memory.id])
        heavy = weighed([attention.get(name, {}), attention.get(memory.id, {})])
        given = roots.text(facet, "title")
        topics = roots.texts(facet, "topics") or (() if summary is None else summary.topics)
        return Thread(
            ids[memory.id],
            title=given or (memory.title if summary is None else summary.title) or "",
            topics=tuple(dict.fromkeys((*topics, *memory.tags))),
            weight=heavy.weight,
            relevance=relevance.get(memory.id, 1.0),
            pinned=heavy.pinned,
            heading=_heading(memory, is_told=summary is not None) if about and given is None else "",
        )

    return {one.id: seen(one) for one in memories}


def topics_of(
    reader: StoreReader, project: str, memories: Sequence[Memory], now_s: float, about: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """What the threads of memories that were said in contexts are about, by the memory's id, as `threads_of` has it."""
    ids, known = _roots_of(reader, project, memories)
    told = _told(reader, _contexts_of(reader, project, ids.values(), known), project, now_s, about)

    def topics(memory: Memory) -> tuple[str, ...]:
        root = ids[memory.id]
        said = roots.texts(known.get(root, {}), "topics")
        return (*(said or (told[root].topics if root in told else ())), *memory.tags)

    return {one.id: topics(one) for one in memories}


def _told(
    reader: StoreReader, contexts: _Contexts, project: str, now_s: float, about: Sequence[str]
) -> dict[str, Summary]:
    """What the latest memories of those threads tell of them; the topics only of those that speak of one of these."""
    if not contexts:
        return {}
    from kingly_memory.attention.focus import fold
    from kingly_memory.router.threads import summaries

    wanted, found = [fold(one) for one in about], dict[str, summaries.Summary]()
    for name, said in summaries.lines(reader, project, contexts, now_s, READ_MOST).items():
        spoken = fold("\n".join(text for one in said for text in (one.title, one.text, *one.tags)))
        topics = summaries.about(said) if any(one in spoken for one in wanted) else ()
        found[name] = summaries.Summary(summaries.title(name, said), topics)
    return found


def _contexts_of(reader: StoreReader, project: str, threads: Iterable[str], known: _Facets) -> _Contexts:
    return {
        one: list(roots.members(reader, project, one)) if roots.holds(known.get(one, {})) else [one]
        for one in dict.fromkeys(threads)
    }


def _roots_of(
    reader: StoreReader, project: str, memories: Sequence[Memory]
) -> tuple[Mapping[str, str], Mapping[str, JsonObject]]:
    """The thread of each memory, by the memory's id, and what is said of their contexts."""
    contexts: dict[str, str | None] = {one.id: one.scope.context_id for one in memories}
    said_in = {context_id for context_id in contexts.values() if context_id is not None}
    known = roots.threads(reader, project, said_in) if said_in else {}
    return {one: one if said is None else roots.root(said, known) for one, said in contexts.items()}, known


def _heading(memory: Memory, *, is_told: bool) -> str:
    if memory.title or is_told:
        return memory.title or ""
    from kingly_memory.attention.pins import title

    return title(memory.content) or ""


class Rated(NamedTuple):
    """How useful a thread was. `raw` is the mean of the latest ratings as the seed has it."""

    relevance: float = 1.0
    raw: float = 1.0
    ratings: tuple[JsonObject, ...] = ()


class Weighed(NamedTuple):
    weight: float = 1.0
    pinned: bool = False


UNRATED, USUAL = Rated(), Weighed()


@dataclass(frozen=True, slots=True)
class Message:
    """One memory of a thread; `archived` ones are shown where the thread itself is, and answer no search."""

    memory: Memory
    archived: bool = False

    def to_json(self) -> JsonObject:
        return {**self.memory.to_json(), "archived": self.archived}


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread with all that is known of it. `status` is `active`, `archived` or `merged-into`, and then `into` says
    what it goes on as; what is told is that one.

    `messages` is a page of them, in the order in which they were stored, from number `first` on; `message_count` is
    of all, archived ones too. `drift_history` says what it was about, in order, where that was more than one topic.
    Weights and relevance are those that injection goes by; `raw` is the mean of the latest ratings as the seed has it.
    """

    id: str
    title: str
    topics: tuple[str, ...]
    message_count: int
    created_at: datetime
    last_active: datetime
    status: str = ACTIVE
    into: str | None = None
    weighed: Weighed = USUAL
    rated: Rated = UNRATED
    drift_history: tuple[str, ...] = ()
    recalls: int = 0
    recalled_at: datetime | None = None
    tags: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    archived_count: int = 0
    messages: tuple[Message, ...] = ()
    first: int = 0

    @property
    def weight(self) -> float:
        return self.weighed.weight

    @property
    def pinned(self) -> bool:
        return self.weighed.pinned

    @property
    def relevance(self) -> float:
        return self.rated.relevance

    @property
    def next_first(self) -> int | None:
        """Where the next page of messages begins; None after the last one."""
        end = self.first + len(self.messages)
        return end if self.messages and end < self.message_count else None

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "title": self.title,
            "topics": list(self.topics),
            "status": self.status,
            **({} if self.into is None else {"into": self.into}),
            "weight": round(self.weight, 4),
            "pinned": self.pinned,
            "relevance": round(self.relevance, 4),
            "relevance_raw": round(self.rated.raw, 4),
            "ratings": list(self.rated.ratings),
            "drift_history": list(self.drift_history),
            "created_at": self.created_at.isoformat(),
            "last_active": self.last_active.isoformat(),
            "recalls": self.recalls,
            "recalled_at": None if self.recalled_at is None else self.recalled_at.isoformat(),
            "tags": list(self.tags),
            "merged": list(self.merged),
            "message_count": self.message_count,
            "archived_count": self.archived_count,
            "messages": [one.to_json() for one in self.messages],
            "next_first": self.next_first,
        }


def moment(seconds: float | None) -> datetime | None:
    """A time in a facet; None for one that cannot be."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def weighed(facets: Iterable[JsonObject]) -> Weighed:
    """By the facets `attention` of a thread and of a memory, whichever there are: the first that says a weight counts,
    and where something is pinned the largest."""
    found = [facet for facet in facets if facet]
    if not found:
        return USUAL
    pinned = any(facet.get("pinned") is True for facet in found)
    numbers = [value for facet in found if (value := roots.number(facet, "weight")) is not None and value >= 0]
    if not numbers:
        return Weighed(1.0, pinned)
    return Weighed(max(numbers) if pinned else numbers[0], pinned)


def _relevance(
    owners: Mapping[str, str], ratings: Mapping[str, JsonObject], injected: Mapping[str, JsonObject]
) -> dict[str, float]:
    """By memory, of those that were rated or left unused."""
    from kingly_memory.attention.ratings import Ratings, relevance, unused_together

    unused: dict[str, list[int]] = {}
    for memory_id, name in owners.items():
        count = roots.number(injected.get(memory_id, {}), "unused")
        if count is not None:
            unused.setdefault(name, []).append(int(count))
    found: dict[str, float] = {}
    for memory_id, name in owners.items():
        if name not in ratings and memory_id not in ratings and name not in unused:
            continue
        several = [Ratings.from_json(ratings.get(one)) for one in dict.fromkeys((name, memory_id))]
        given = sorted((rating for one in several for rating in one.latest), key=lambda rating: rating.at)
        found[memory_id] = relevance(Ratings(tuple(given)), unused_together(unused.get(name, ())))
    return found
