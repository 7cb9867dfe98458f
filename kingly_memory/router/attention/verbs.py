"""`memory.attention`: what an agent says of what should be in view."""

from __future__ import annotations

from collections.abc import Sequence
from os import urandom
from typing import Annotated

from kingly_memory import validation
from kingly_memory.attention import pins
from kingly_memory.attention.focus import WEIGHT, Focus, focus
from kingly_memory.attention.pins import BOOST
from kingly_memory.attention.ratings import Rating, Ratings, relevance
from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.declare import THREAD_ID, Arg, example, verb
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import REMOTE_ABOVE, JsonObject, MemoryStatus, Receipt
from kingly_memory.plain import Plain
from kingly_memory.ports import InjectedPrompt, Transaction
from kingly_memory.router import thread_lookup, write
from kingly_memory.router.attention import focus as focused
from kingly_memory.router.attention.focus import Unfocused
from kingly_memory.router.delivery.known_remotes import remotes_for_links
from kingly_memory.router.delivery.outbox import want_marks
from kingly_memory.router.engine import Engine
from kingly_memory.router.lifecycle import lifetimes
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS, Named
from kingly_memory.router.write import Stored, WriteContext
from kingly_memory.text.writing import counted


@dataclass(frozen=True, slots=True)
class Focused(Plain):
    """A topic that is in focus now, how many of the project's threads that lifts, and how many memories that were said
    in none. `more`: there may be more than were counted."""

    topic: str
    weight: float
    affected_threads: int
    affected_memories: int = 0
    more: bool = False

    @property
    def message(self) -> str:
        message = f'Focus set on "{self.topic}" (weight={self.weight:g}).'
        if not self.weight:
            return f"{message} With a weight of 0 it lifts nothing."
        threads, alone = self.affected_threads, self.affected_memories
        counts = [counted(threads, "thread")] if threads or not alone else []
        if alone:
            counts.append(f"{counted(alone, 'memory')} outside of threads")
        message += f" {'At least ' if self.more else ''}{' and '.join(counts)} will be prioritized."
        if threads or alone or self.more:
            return message
        return f"{message} So far nothing is about that: say a topic or tag, words of a title, or the id of a thread."


@dataclass(frozen=True, slots=True)
class Pinned:
    """A new memory in a thread of its own, both pinned."""

    thread_id: str
    title: str | None
    weight: float
    receipt: Receipt

    @property
    def message(self) -> str:
        return f"Pinned as {self.thread_id} (weight={self.weight:.2f})"

    def to_json(self) -> JsonObject:
        return {
            "message": self.message,
            "thread_id": self.thread_id,
            "memory_id": self.receipt.id,
            "title": self.title,
            "weight": self.weight,
            "storage_layers": list(self.receipt.layers),
        }


@dataclass(frozen=True, slots=True)
class Unpinned(Plain):
    """A thread that is like any other again, and how many memories of it were pinned."""

    thread_id: str
    memories: int

    @property
    def message(self) -> str:
        return f"Unpinned {self.thread_id}: it weighs 1.00 again"


@dataclass(frozen=True, slots=True)
class Rated(Plain):
    """A thread's relevance before and after a rating, the seed's mean (`raw_score`), and how many ratings there are."""

    thread_id: str
    useful: bool
    relevance_before: float
    relevance_score: float
    raw_score: float
    ratings: int
    reason: str | None = None

    @property
    def message(self) -> str:
        """In the words of the seed."""
        how = "useful" if self.useful else "not useful"
        score = f"Relevance score: {self.relevance_before:.2f} → {self.relevance_score:.2f}"
        return f"Rated {self.thread_id} as {how}. {score}"


MOST_PROMPTS = 1_000


class Attention:
    """The verbs of focus, pins and ratings."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @verb("focus", "ai_focus", "ai", "Focus on a topic", repeatable=True)
    @example(
        '{"topic": "authentication", "weight": 0.8}',
        "success message topic weight affected_threads affected_memories more",
    )
    async def focus(
        self,
        topic: Annotated[str, Arg("a topic in a word or two, or the id of a thread")],
        weight: Annotated[float, Arg("how strongly, from 0 to 1")] = WEIGHT,
    ) -> Focused:
        """Say what you work on: threads about it are put into prompts first, until the focus is taken off. Again
        updates the weight.

        `weight` is brought into 0 to 1. Holds for everybody in this project until `unfocus`. Raises InvalidInput.
        """
        context, reader = self._engine.write_context(), self._engine.reader
        entry = focus(topic, weight, context.now)
        await self._engine.write(focused.put(entry, context))

        def look() -> Focused:
            [named] = focused.as_merged(reader, context.space, [entry])
            lifted = focused.affected(reader, context.space, named, context.now_s) if entry.weight else (0, 0, False)
            return Focused(entry.topic, entry.weight, *lifted)

        return await self._engine.read(look)

    @verb("unfocus", "ai_unfocus", "ai", "Take focus off", destroys=True, repeatable=True)
    @example('{"topic": "authentication"}', "success message cleared active_focus")
    async def unfocus(
        self, topic: Annotated[str | None, Arg("left out, all focus is cleared", is_positional=True)] = None
    ) -> Unfocused:
        """Take the focus off a topic, or off everything.

        Raises InvalidInput.
        """
        advice = "say which, or leave it out to clear all focus"
        cleared = None if topic is None else validation.required("topic", topic, advice).strip()
        return await self._engine.write(focused.clear(cleared, self._engine.write_context()))

    async def focused(self) -> tuple[Focus, ...]:
        """What the project has in focus, in the order in which it was set first."""
        return await self._engine.read(lambda: focused.applying(self._engine.reader, self._engine.space))

    async def prompts(self, limit: int = 100) -> tuple[InjectedPrompt, ...]:
        """What was put beside the last prompts of this project, by hooks and by `inject` with a session: the ids, why,
        and the tokens, bytes and milliseconds that it took; the latest first. No prompt is kept.

        Raises InvalidInput.
        """
        most, log = validation.count("limit", limit, least=1, most=MOST_PROMPTS), self._engine.injections
        return tuple(await self._engine.read(lambda: log.latest(most)))

    @verb("pin", "ai_pin", "ai", "Pin a text")
    @example(
        '{"content": "User prefers dark mode", "title": "User preferences", "topics": ["preferences", "ui"]}',
        "success message thread_id memory_id title weight storage_layers",
    )
    async def pin(
        self,
        content: Annotated[
            str, Arg("what to keep in view; stored as it is", "TEXT", is_sentence=True, reads_input=True)
        ],
        title: Annotated[str | None, Arg("left out, its first sentence", "TEXT")] = None,
        topics: Annotated[Sequence[str] | None, Arg("words to find it by", "TOPIC", option="topic")] = None,
        weight_boost: Annotated[float, Arg("weight beyond that of others, from 0 to 0.5", option="boost")] = BOOST,
        *,
        key: Annotated[str | None, Arg("its name, which must be a new one", only="command")] = None,
        significance: float | None = None,
        origin: str = "agent",
    ) -> Pinned:
        """Keep something important: a new thread that weighs more, and that nothing takes away until it is unpinned.
        Sessions that begin with a hook of the same agent begin with it; beside a prompt it must fit like anything else.

        It weighs 1 + `weight_boost` (brought into 0 to 0.5). The topics become tags. Raises InvalidInput, StoreError.
        """
        weight, context = pins.weight(weight_boost), self._engine.write_context()
        tags = validation.tag_list("topics", topics or ())
        draft = validation.draft(
            content,
            key=key,
            significance=significance,
            tags=validation.tag_list("topics", (*tags, pins.TAG)),
            title=title,
            origin=origin,
            metadata={"source": pins.SOURCE},
        )
        draft = replace(draft, title=draft.title or pins.title(draft.content))
        thread_id = ""

        def change(transaction: Transaction) -> Stored:
            nonlocal thread_id
            if draft.key is not None and transaction.id_of_key(context.space, draft.key) is not None:
                problem = "is taken, and a pin is always a new memory; choose another one or leave it out"
                raise InvalidInput("key", problem)
            if transaction.id_of_key(context.space, draft.content) is not None:
                problem = "is the key of a memory, and a pin keeps a text of its own; write the text to keep in view"
                raise InvalidInput("content", problem)
            thread_id = pins.thread_id(context.now, urandom(3))
            while transaction.facet(ATTENTION, owner(context.space, thread_id)) is not None:
                thread_id = pins.thread_id(context.now, urandom(3))
            receipt = write.store(replace(draft, context_id=thread_id), context, noted=False)(transaction).receipt
            for whose in (owner(context.space, thread_id), receipt.id):
                transaction.set_facet(ATTENTION, whose, pins.pinned(weight, context.now_s))
            lifetimes.stop(transaction, receipt.id)
            return Stored(replace(receipt, ends_at=None), None)

        receipt = await self._engine.keep(change)
        return Pinned(thread_id, draft.title, weight, receipt)

    @verb("unpin", "ai_unpin", "ai", "Take a pin off", destroys=True)
    @example('{"thread_id": "thread_20260201_083000_abc123"}', "success message thread_id memories")
    async def unpin(self, thread_id: Annotated[str, THREAD_ID]) -> Unpinned:
        """Let a pinned thread be as any other. Nothing that was said in it is lost.

        Lifetimes begin now. Raises InvalidInput.
        """
        name = validation.required("thread_id", thread_id)
        context = self._engine.write_context()
        thread, contexts, ids = await self._engine.read(lambda: self._thread(name, context.space))
        everybody = [thread.owner, *(owner(context.space, one) for one in contexts if one != thread.id), *ids]

        def change(transaction: Transaction) -> int:
            pinned = [one for one in everybody if pins.is_pinned(transaction.facet(ATTENTION, one))]
            if not pinned:
                raise InvalidInput("thread_id", f"{thread.id!r} is not pinned")
            for whose in pinned:
                before = transaction.facet(ATTENTION, whose) or {}
                transaction.set_facet(ATTENTION, whose, pins.unpinned(before, context.now_s))
            freed = [one for one in ids if one in pinned]
            _tell(transaction, freed, context)
            rows = [
                row for one in freed if (row := transaction.row(one)) is not None and row.status is MemoryStatus.LIVE
            ]
            for row in rows:
                lifetimes.begin_again(transaction, row.memory, context.now_s)
            return len(freed)

        return Unpinned(thread.id, await self._engine.write(change))

    @verb("rate", "ai_rate_context", "ai", "Rate what was injected")
    @example(
        '{"thread_id": "thread_20260201_083000_abc123", "useful": false, "reason": "API was redesigned"}',
        "success message thread_id useful relevance_before relevance_score raw_score ratings reason",
    )
    async def rate(
        self,
        thread_id: Annotated[str, THREAD_ID],
        useful: Annotated[
            bool,
            Arg(
                "true: it helped; false: it was noise",
                "useful|noise",
                option="rating",
                command_words="useful: it helped; noise: it did not",
            ),
        ],
        reason: Annotated[str | None, Arg("why, in a sentence; it is kept", "TEXT")] = None,
    ) -> Rated:
        """Say whether a note that was put into a prompt helped: later prompts get more or less of its thread.

        The last ten ratings count, the latest most. Raises InvalidInput.
        """
        name = validation.required("thread_id", thread_id)
        if not isinstance(useful, bool):
            raise InvalidInput("useful", f"expected true or false, not {validation.shown(useful)!r}")
        from kingly_memory.text.redaction import redact

        why = redact(" ".join(reason.split())).text if isinstance(reason, str) else reason
        context = self._engine.write_context()
        rating = Rating(useful, context.now, validation.label("reason", why or None))

        thread, contexts, ids = await self._engine.read(lambda: self._thread(name, context.space))
        owners = [owner(context.space, one) for one in contexts] or [thread.owner]

        def change(transaction: Transaction) -> Rated:
            before = Ratings.together(transaction.facet(RATINGS, one) for one in owners)
            rated = Ratings.from_json(transaction.facet(RATINGS, thread.owner)).rated(rating)
            transaction.set_facet(RATINGS, thread.owner, rated.to_json())
            # Remotes may hear of it with a memory that is theirs, and of the thread itself.
            rows = [row for one in ids if (row := transaction.row(one)) is not None]
            theirs = [row.memory for row in rows if row.memory.significance > REMOTE_ABOVE]
            own = [one.id for one in theirs if thread.is_alone or one.scope.context_id == thread.id]
            _tell(transaction, own[-1:], context)
            after = Ratings.together(transaction.facet(RATINGS, one) for one in owners)
            scores = relevance(before), relevance(after), after.raw
            return Rated(thread.id, useful, *scores, len(after.latest), rating.reason)

        return await self._engine.write(change)

    def _thread(self, name: str, space: str) -> tuple[Named, list[str], list[MemoryId]]:
        """The thread of that name, its contexts, and its memories. Raises InvalidInput."""
        reader = self._engine.reader
        thread = thread_lookup.named(reader, space, name)
        contexts = list(thread_lookup.contexts_of(reader, space, thread))
        return thread, contexts, [row.memory.id for row in thread_lookup.rows(reader, space, thread, contexts)]


def _tell(transaction: Transaction, memory_ids: Sequence[MemoryId], context: WriteContext) -> None:
    for remote in remotes_for_links(transaction, context.space, context.routes):
        for memory_id in memory_ids:
            want_marks(transaction, remote, memory_id, context.now_s)
