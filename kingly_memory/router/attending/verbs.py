"""`memory.attention`: what an agent says of what should be in view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kingly_memory import intake
from kingly_memory.attention import pins as pinning
from kingly_memory.attention.focus import WEIGHT, Focus, focus
from kingly_memory.attention.pins import BOOST
from kingly_memory.attention.ratings import Rating
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import SIGNIFICANCE
from kingly_memory.models import JsonObject, Receipt
from kingly_memory.router.access import Access
from kingly_memory.router.attending import affected, focuses, pins
from kingly_memory.router.threads import ratings
from kingly_memory.router.threads.named import Named, memories, named
from kingly_memory.router.threads.ratings import INJECTED, Rated
from kingly_memory.router.threads.roots import ATTENTION, members
from kingly_memory.router.write import Stored

_WHICH = "say which, or leave it out to clear all focus"


@dataclass(frozen=True, slots=True)
class Focused:
    """A topic that is in focus now, and how many of the project's threads that lifts. `more`: there may be more than
    were counted. `clamped`: the weight that was asked for lies outside 0 to 1. `thread_id`: the thread that the topic
    names, by its id or in another way."""

    topic: str
    weight: float
    threads: int
    more: bool = False
    clamped: bool = False
    thread_id: str | None = None

    @property
    def message(self) -> str:
        return " ".join([f'Focus set on "{self.topic}" (weight={self.weight:g}).', *self._remarks()])

    def _remarks(self) -> Iterator[str]:
        if not self.weight:
            yield "With a weight of 0 it lifts nothing."
        else:
            threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
            yield f"{'At least ' if self.more else ''}{threads} will be prioritized."
        is_nothing = self.weight and not self.threads and not self.more
        if self.thread_id is not None:
            beside = ", whose latest memories stand beside every prompt" if self.weight and not is_nothing else ""
            gone = ", of which nothing is in view: it is archived, or has ended" if is_nothing else ""
            yield f"It names the thread {self.thread_id}{beside}{gone}."
        elif is_nothing:
            yield (
                "So far nothing is about that: say a topic or tag of a thread, words of a title, the id of a thread or "
                "the key of a memory."
            )
        if self.clamped:
            yield f"The weight was brought to {self.weight:g}: it goes from 0 to 1."

    def to_json(self) -> JsonObject:
        return {
            "message": self.message,
            "topic": self.topic,
            "weight": self.weight,
            "affected_threads": self.threads,
            "more": self.more,
            "clamped": self.clamped,
            **({} if self.thread_id is None else {"thread_id": self.thread_id}),
        }


@dataclass(frozen=True, slots=True)
class Unfocused:
    """The topics that the focus was taken off, and those that are left in it. `for_everyone`: those of the former that
    held for every agent."""

    topics: tuple[str, ...]
    left: tuple[str, ...] = ()
    asked: str | None = None
    for_everyone: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        if not self.topics:
            return "Nothing was in focus." if self.asked is None else f'"{self.asked}" was not in focus.'
        what = "All focus" if self.asked is None else f'Focus on "{self.topics[0]}"'
        after = f"Still in focus: {', '.join(self.left)}." if self.left else "Returning to similarity-based injection."
        shared = f" For every agent that was {', '.join(self.for_everyone)}." if self.for_everyone else ""
        return f"{what} cleared. {after}{shared}"

    def to_json(self) -> JsonObject:
        told = {"message": self.message, "cleared": list(self.topics), "active_focus": list(self.left)}
        return {**told, **({"for_everyone": list(self.for_everyone)} if self.for_everyone else {})}


@dataclass(frozen=True, slots=True)
class Pinned:
    """A new memory in a thread of its own, both pinned. `clamped`: the boost that was asked for lies outside 0 to
    0.5."""

    thread_id: str
    title: str | None
    weight: float
    receipt: Receipt
    clamped: bool = False

    @property
    def message(self) -> str:
        limits = "; the boost was brought into 0 to 0.5" if self.clamped else ""
        return f"Pinned as {self.thread_id} (weight={self.weight:.2f}){limits}"

    def to_json(self) -> JsonObject:
        return {
            "message": self.message,
            "thread_id": self.thread_id,
            "memory_id": self.receipt.id,
            "title": self.title,
            "weight": self.weight,
            "clamped": self.clamped,
            "storage_layers": list(self.receipt.layers),
        }


@dataclass(frozen=True, slots=True)
class Unpinned:
    """A thread that is as any other again, and how many memories of it were pinned."""

    thread_id: str
    memories: int

    @property
    def message(self) -> str:
        return f"Unpinned {self.thread_id}: it weighs 1.00 again"

    def to_json(self) -> JsonObject:
        return {"message": self.message, "thread_id": self.thread_id, "memories": self.memories}


class Attention:
    """The verbs of focus, pins and ratings."""

    def __init__(
        self,
        access: Access,
        *,
        follow: Callable[[Stored], Awaitable[None]],
        showings: Callable[[Sequence[MemoryId]], Sequence[float]],
        content_limit_bytes: int,
    ) -> None:
        """`follow` is told what was stored; `showings` says when each session was last shown any of the memories."""
        self._access = access
        self._follow = follow
        self._showings = showings
        self._content_limit_bytes = content_limit_bytes

    async def focus(self, topic: str, weight: float = WEIGHT) -> Focused:
        """Have threads about a topic, or the thread that it names, injected first. The same topic again is updated.

        `weight` is brought into 0 to 1. Holds for this agent in this project until `unfocus`. Raises InvalidInput.
        """
        desk, reader = self._access.write_context(), self._access.reader
        one, heavy = focus(topic, weight, desk.now)
        threads = await self._access.write(focuses.put(one, desk))
        found = affected.Affected(0)
        if one.weight:
            found = await self._access.read(lambda: affected.count(reader, desk.project, one, threads, desk.now_s))
        named_now = await self._access.read(lambda: focuses.naming(reader, desk.project, one))
        thread_id = named_now.thread or (one.topic if named_now.is_name else None)
        return Focused(one.topic, one.weight, found.threads, found.more, heavy.clamped, thread_id)

    async def unfocus(self, topic: str | None = None) -> Unfocused:
        """Take the focus off a topic, or off everything that holds for this agent, also where it holds for others too.
        Raises InvalidInput."""
        asked = None if topic is None else intake.required("topic", topic, _WHICH).strip()
        cleared = await self._access.write(focuses.clear(asked, self._access.write_context()))
        return Unfocused(cleared.gone, cleared.left, asked, cleared.for_everyone)

    async def focused(self) -> tuple[Focus, ...]:
        """What holds for this agent: first what nobody in particular has in focus, which is for everyone, then its own,
        in the order in which it was set first."""
        desk, reader = self._access.write_context(), self._access.reader
        return await self._access.read(lambda: focuses.applying(reader, desk.project, desk.agent))

    async def pin(
        self,
        content: str,
        title: str | None = None,
        topics: Sequence[str] | None = None,
        weight_boost: float = BOOST,
        *,
        key: str | None = None,
        significance: float = SIGNIFICANCE,
        origin: str = "agent",
    ) -> Pinned:
        """Keep something in view: a new memory in a thread of its own, which weighs 1 + `weight_boost` (brought into
        0 to 0.5) and which nothing takes away until `unpin`. The text is kept as it is, the topics become tags, and
        without a title its first sentence is one. Raises InvalidInput, StoreError.
        """
        weight = pinning.weight(weight_boost)
        tags = intake.tag_list("topics", topics or ())
        draft = intake.draft(
            content,
            content_limit_bytes=self._content_limit_bytes,
            key=key,
            significance=significance,
            tags=intake.tag_list("topics", (*tags, pinning.TAG)),
            title=title,
            origin=origin,
            metadata={"source": pinning.SOURCE},
        )
        titled = replace(draft, title=draft.title or pinning.title(draft.content))
        stored = await self._access.write(pins.pin(titled, weight.value, self._access.write_context()))
        await self._follow(Stored(stored.receipt, None))
        return Pinned(stored.thread_id, titled.title, weight.value, stored.receipt, weight.clamped)

    async def unpin(self, thread_id: str) -> Unpinned:
        """Let a thread, named by its id or by the key or id of a memory of it, be as any other. What was said in it
        stays. Raises InvalidInput."""
        said = intake.required("thread_id", thread_id)
        desk = self._access.write_context()
        thread, children, pinned = await self._access.read(lambda: self._pinned(desk.project, said))
        return Unpinned(thread.id, await self._access.write(pins.unpin(thread, children, pinned, desk)))

    async def rate(self, thread_id: str, useful: bool, reason: str | None = None) -> Rated:
        """Say whether a thread was useful when it was put into a prompt: later injections heed that.

        Names the thread by its id, or by the key or id of a memory of it. Each session that it was put into can be
        rated once; again takes the place of that. Raises InvalidInput, also for what was never put into a prompt.
        """
        said = intake.required("thread_id", thread_id)
        if not isinstance(useful, bool):
            raise InvalidInput("useful", f"expected true or false, not {intake.shown(useful)!r}")
        why = " ".join(reason.split()) if isinstance(reason, str) else reason
        desk = self._access.write_context()
        rating = Rating(useful, desk.now, intake.label("reason", why or None))
        thread, injected, showings = await self._access.read(lambda: self._injected(desk.project, said))
        return await self._access.write(ratings.rate(thread.id, thread.owner, rating, injected, showings))

    def _pinned(self, project: str, said: str) -> tuple[Named, list[str], list[MemoryId]]:
        """The thread, those that were merged into it, and its memories that are pinned themselves."""
        reader = self._access.reader
        thread = named(reader, project, said)
        children = [] if thread.is_alone else list(members(reader, project, thread.id))[1:]
        pages = ((ids, reader.facets(ATTENTION, ids)) for ids in memories(reader, project, thread))
        return thread, children, [one for ids, facets in pages for one in ids if pinning.is_pinned(facets.get(one))]

    def _injected(self, project: str, said: str) -> tuple[Named, list[MemoryId], Sequence[float]]:
        """The thread, which of its memories are known to have been injected, and when. Raises InvalidInput for
        never."""
        reader = self._access.reader
        thread = named(reader, project, said)
        pages = list(memories(reader, project, thread))
        known = [one for ids in pages for one in self._known(ids)]
        showings = self._showings([one for ids in pages for one in ids])
        if not showings:
            problem = "was never put into a prompt, by a hook or by inject, so there is nothing to rate yet"
            raise InvalidInput("thread_id", f"{intake.shown(said)!r} {problem}")
        return thread, known, showings

    def _known(self, ids: Sequence[MemoryId]) -> Iterator[MemoryId]:
        facets = self._access.reader.facets(INJECTED, ids)
        return (one for one in ids if one in facets)
