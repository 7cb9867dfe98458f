"""`memory.attention`: what an agent says of what should be in view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from os import urandom
from typing import NamedTuple

from kingly_memory import validation
from kingly_memory.attention import pins
from kingly_memory.attention.focus import WEIGHT, Focus, focus
from kingly_memory.attention.pins import BOOST
from kingly_memory.attention.ratings import Rating, Ratings, relevance, unused_together
from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Receipt, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import lifetimes, thread_lookup, write
from kingly_memory.router.access import Access
from kingly_memory.router.attention import focus as focused
from kingly_memory.router.thread_lookup import ATTENTION, INJECTED, RATINGS, THREAD, Named
from kingly_memory.router.threads.changes import WEIGHTS
from kingly_memory.router.write import Stored, WriteContext
from kingly_memory.validation import Draft

_PLACES = 4


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
        is_nothing = self.weight and not self.threads and not self.more
        said = [f'Focus set on "{self.topic}" (weight={self.weight:g}).']
        if not self.weight:
            said.append("With a weight of 0 it lifts nothing.")
        else:
            threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
            said.append(f"{'At least ' if self.more else ''}{threads} will be prioritized.")
        if self.thread_id is not None:
            beside = ", whose latest memories stand beside every prompt" if self.weight and not is_nothing else ""
            gone = ", of which nothing is in view: it is archived, or has ended" if is_nothing else ""
            said.append(f"It names the thread {self.thread_id}{beside}{gone}.")
        elif is_nothing:
            said.append(
                "So far nothing is about that: say a topic or tag of a thread, words of a title, the id of a thread or "
                "the key of a memory."
            )
        if self.clamped:
            said.append(f"The weight was brought to {self.weight:g}: it goes from 0 to 1.")
        return " ".join(said)

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
    """A thread that is like any other again, and how many memories of it were pinned."""

    thread_id: str
    memories: int

    @property
    def message(self) -> str:
        return f"Unpinned {self.thread_id}: it weighs 1.00 again"

    def to_json(self) -> JsonObject:
        return {"message": self.message, "thread_id": self.thread_id, "memories": self.memories}


class Rated(NamedTuple):
    """A thread's relevance before and after a rating, the seed's mean (`raw`), and how many ratings there are.
    `replaced`: it took the place of the one before, since nothing has been put in that was not rated."""

    thread_id: str
    useful: bool
    before: float
    after: float
    raw: float
    ratings: int
    reason: str | None = None
    replaced: bool = False

    @property
    def message(self) -> str:
        """In the words of the seed."""
        how = "useful" if self.useful else "not useful"
        instead = " (in place of the last rating: nothing was put in since)" if self.replaced else ""
        return f"Rated {self.thread_id} as {how}. Relevance score: {self.before:.2f} → {self.after:.2f}{instead}"

    def to_json(self) -> JsonObject:
        return {
            "message": self.message,
            "thread_id": self.thread_id,
            "useful": self.useful,
            "relevance_before": round(self.before, _PLACES),
            "relevance_score": round(self.after, _PLACES),
            "raw_score": round(self.raw, _PLACES),
            "ratings": self.ratings,
            "reason": self.reason,
            "replaced": self.replaced,
        }


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
        context, reader = self._access.write_context(), self._access.reader
        one, heavy = focus(topic, weight, context.now)
        await self._access.write(focused.put(one, context))

        def look() -> Focused:
            count, more = focused.affected(reader, context.project, one, context.now_s) if one.weight else (0, False)
            named = focused.naming(reader, context.project, one)
            thread_id = named.thread or (one.topic if named.is_name else None)
            return Focused(one.topic, one.weight, count, more, heavy.clamped, thread_id)

        return await self._access.read(look)

    async def unfocus(self, topic: str | None = None) -> Unfocused:
        """Take the focus off a topic, or off everything that holds for this agent, also where it holds for others too.
        Raises InvalidInput."""
        which = "say which, or leave it out to clear all focus"
        asked = None if topic is None else validation.required("topic", topic, which).strip()
        cleared = await self._access.write(focused.clear(asked, self._access.write_context()))
        return Unfocused(cleared.gone, cleared.left, asked, cleared.for_everyone)

    async def focused(self) -> tuple[Focus, ...]:
        """What holds for this agent: first what nobody in particular has in focus, which is for everyone, then its own,
        in the order in which it was set first."""
        context, reader = self._access.write_context(), self._access.reader
        return await self._access.read(lambda: focused.applying(reader, context.project, context.agent))

    async def pin(
        self,
        content: str,
        title: str | None = None,
        topics: Sequence[str] | None = None,
        weight_boost: float = BOOST,
        *,
        key: str | None = None,
        significance: float | None = None,
        origin: str = "agent",
    ) -> Pinned:
        """Keep something in view: a new memory in a thread of its own, which weighs 1 + `weight_boost` (brought into
        0 to 0.5) and which nothing takes away until `unpin`. The text is kept as it is, the topics become tags, and
        without a title its first sentence is one. Raises InvalidInput, StoreError.
        """
        weight = pins.weight(weight_boost)
        tags = validation.tag_list("topics", topics or ())
        draft = validation.draft(
            content,
            content_limit_bytes=self._content_limit_bytes,
            key=key,
            significance=significance,
            tags=validation.tag_list("topics", (*tags, pins.TAG)),
            title=title,
            origin=origin,
            metadata={"source": pins.SOURCE},
        )
        titled = replace(draft, title=draft.title or pins.title(draft.content))
        thread_id, receipt = await self._access.write(_pin(titled, weight.value, self._access.write_context()))
        await self._follow(Stored(receipt, None))
        return Pinned(thread_id, titled.title, weight.value, receipt, weight.clamped)

    async def unpin(self, thread_id: str) -> Unpinned:
        """Let a thread, named by its id or by the key or id of a memory of it, be as any other. What was said in it
        stays. Raises InvalidInput."""
        said = validation.required("thread_id", thread_id)
        context, reader = self._access.write_context(), self._access.reader

        def look() -> tuple[Named, list[str], list[MemoryId]]:
            thread, contexts, ids = self._thread(said, context.project)
            facets = reader.facets(ATTENTION, ids)
            return thread, contexts, [one for one in ids if pins.is_pinned(facets.get(one))]

        thread, contexts, pinned = await self._access.read(look)
        merged = [owner(context.project, one) for one in contexts if one != thread.id]
        return Unpinned(thread.id, await self._access.write(_unpin(thread, merged, pinned, context)))

    async def rate(self, thread_id: str, useful: bool, reason: str | None = None) -> Rated:
        """Say whether a thread was useful when it was put into a prompt: later injections heed that.

        Names the thread by its id, or by the key or id of a memory of it. Each session that it was put into can be
        rated once; again takes the place of that. Raises InvalidInput, also for what was never put into a prompt.
        """
        said = validation.required("thread_id", thread_id)
        if not isinstance(useful, bool):
            raise InvalidInput("useful", f"expected true or false, not {validation.shown(useful)!r}")
        why = " ".join(reason.split()) if isinstance(reason, str) else reason
        context = self._access.write_context()
        rating = Rating(useful, context.now, validation.label("reason", why or None))

        def look() -> tuple[Named, list[str], list[MemoryId], Sequence[float]]:
            thread, contexts, ids = self._thread(said, context.project)
            showings = self._showings(ids)
            if not showings:
                problem = "was never put into a prompt, by a hook or by inject, so there is nothing to rate yet"
                raise InvalidInput("thread_id", f"{validation.shown(said)!r} {problem}")
            owners = [owner(context.project, one) for one in contexts] or [thread.owner]
            known = self._access.reader.facets(INJECTED, ids)
            return thread, owners, [one for one in ids if one in known], showings

        thread, owners, injected, showings = await self._access.read(look)
        return await self._access.write(_rate(thread, owners, rating, injected, showings))

    def _thread(self, said: str, project: str) -> tuple[Named, list[str], list[MemoryId]]:
        """The thread of that name, its contexts, and its memories. Raises InvalidInput."""
        reader = self._access.reader
        thread = thread_lookup.named(reader, project, said)
        contexts = list(thread_lookup.contexts_of(reader, project, thread))
        return thread, contexts, [row.memory.id for row in thread_lookup.rows(reader, project, thread, contexts)]


# --- changes ----------------------------------------------------------------------------------------------------------


def _pin(draft: Draft, weight: float, context: WriteContext) -> Callable[[Transaction], tuple[str, Receipt]]:
    """Store the draft as the first memory of a new thread; both are pinned. Raises InvalidInput when the project has
    its key already."""

    def change(transaction: Transaction) -> tuple[str, Receipt]:
        if draft.key is not None and transaction.id_of_key(context.project, draft.key) is not None:
            raise InvalidInput("key", "is taken, and a pin is always a new memory; choose another one or leave it out")
        thread_id = pins.thread_id(context.now, urandom(3))
        while transaction.facet(ATTENTION, owner(context.project, thread_id)) is not None:
            thread_id = pins.thread_id(context.now, urandom(3))
        receipt = write.store(replace(draft, context_id=thread_id), context, noted=False)(transaction).receipt
        for whose in (owner(context.project, thread_id), receipt.id):
            transaction.set_facet(ATTENTION, whose, {"weight": weight, "pinned": True})
        lifetimes.stop(transaction, receipt.id)
        return thread_id, replace(receipt, ends_at=None)

    return change


def _unpin(
    thread: Named, merged: Sequence[str], memory_ids: Sequence[MemoryId], context: WriteContext
) -> Callable[[Transaction], int]:
    """Take the pins off a thread, off those merged into it (owners), and off those memories, whose lifetimes begin now.
    Answers how many memories that were. Raises InvalidInput when nothing was pinned."""

    def take_off(transaction: Transaction, whose: str) -> bool:
        facet = transaction.facet(ATTENTION, whose)
        if facet is None or not pins.is_pinned(facet):
            return False
        transaction.set_facet(ATTENTION, whose, pins.unpinned(facet))
        return True

    def change(transaction: Transaction) -> int:
        was_pinned = take_off(transaction, thread.owner)
        for whose in merged if was_pinned else ():
            # A split would give the thread back what it weighed before the merge, which may have been a pin.
            facet = transaction.facet(THREAD, whose) or {}
            transaction.set_facet(THREAD, whose, {name: one for name, one in facet.items() if name != WEIGHTS})
        for whose in merged:
            was_pinned |= take_off(transaction, whose)
        freed = [one for one in memory_ids if take_off(transaction, one) or (was_pinned and one == thread.owner)]
        if not was_pinned and not freed:
            raise InvalidInput("thread_id", f"{thread.id!r} is not pinned")
        rows = [row for one in freed if (row := transaction.row(one)) is not None]
        live = [row.memory for row in rows if row.standing is Standing.LIVE]
        for memory in live:
            lifetimes.begin_again(transaction, memory, context.now_s)
        for first in range(0, len(live), write.TOGETHER):  # so that suggestions read their threads again
            transaction.restand([one.id for one in live[first : first + write.TOGETHER]], Standing.LIVE)
        return len(freed)

    return change


def _rate(
    thread: Named, owners: Sequence[str], one: Rating, injected: Sequence[str], showings: Sequence[float]
) -> Callable[[Transaction], Rated]:
    """Rate what was shown at those times. `owners` are the thread's own and those of threads merged into it: a rating
    that takes the place of the last one may replace one of theirs. What was useful was used, so that no session counts
    against its memories any more."""

    def change(transaction: Transaction) -> Rated:
        facets = {whose: transaction.facet(RATINGS, whose) for whose in owners}
        before = Ratings.together(facets.values())
        replaced = bool(before.latest) and before.are_of_all(showings)
        several = {whose: Ratings.from_json(facet) for whose, facet in facets.items()}
        if replaced:
            whose = next(whose for whose in owners if before.latest[-1] in several[whose].latest[-1:])
            several[whose] = Ratings(several[whose].latest[:-1])
            transaction.set_facet(RATINGS, whose, several[whose].to_json() if several[whose].latest else None)
        several[thread.owner] = several[thread.owner].rated(one)
        transaction.set_facet(RATINGS, thread.owner, several[thread.owner].to_json())
        shown = {memory_id: transaction.facet(INJECTED, memory_id) or {} for memory_id in injected}
        for memory_id, facet in shown.items() if one.useful else ():
            if facet.get("unused"):
                transaction.set_facet(INJECTED, memory_id, {**facet, "unused": 0})
        unused, after = unused_together(shown.values()), Ratings.together(each.to_json() for each in several.values())
        return Rated(
            thread.id,
            one.useful,
            relevance(before, unused),
            relevance(after, 0 if one.useful else unused),
            after.raw,
            len(after.latest),
            one.reason,
            replaced,
        )

    return change
