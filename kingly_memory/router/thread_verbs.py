"""`memory.threads`: the verbs on threads, which are what was said in one context."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Annotated

from kingly_memory import validation
from kingly_memory.attention import drift
from kingly_memory.attention.suggestions import Suggestions
from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import replace
from kingly_memory.declare import LIMIT, THREAD_ID, Arg, example, verb
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, Query
from kingly_memory.router import thread_lookup
from kingly_memory.router.engine import Engine
from kingly_memory.router.thread_lookup import Named, contexts_of, named
from kingly_memory.router.threads import changes, reading
from kingly_memory.router.threads.changes import MOST_MOVED
from kingly_memory.router.threads.suggesting import RELATED, Suggesting
from kingly_memory.router.threads.views import (
    MERGED,
    Glance,
    Merged,
    Recalled,
    Split,
    ThreadView,
)
from kingly_memory.router.write import WriteContext
from kingly_memory.validation import shown

MOST_LISTED = 1_000
MESSAGES = 20
"""Messages that are shown of a thread unless the caller says how many."""
WITHIN_S = 2.0
"""At its first call a process reads some hundred threads in that time."""
RECALLED = 5
EACH = 3
"""Messages that are shown of each of several threads."""
LOOKED_AT = 50
"""Memories among which the threads on a topic are looked for."""


class Threads:
    """The verbs on threads. A thread is named by its id, or by the key or id of a memory in it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reader = engine.reader
        self._space = engine.space
        self._suggesting = Suggesting(engine.reader, engine.space)

    @verb("threads list", reads=True)
    async def list(
        self,
        limit: Annotated[int, LIMIT] = 50,
    ) -> tuple[Glance, ...]:
        """List the active threads (contexts), the latest first.

        A memory that belongs to no context is a thread too, but in no list. Raises InvalidInput, StoreError.
        """
        most = validation.count("limit", limit, most=MOST_LISTED)
        now_s = (await self._context()).now_s
        return tuple(await self._engine.read(lambda: reading.listed(self._reader, self._space, now_s, most)))

    @verb("threads show", reads=True)
    async def get(
        self,
        thread_id: Annotated[str, THREAD_ID],
        first: Annotated[int, Arg("number of the first message shown", "N")] = 0,
        limit: Annotated[int, LIMIT] = MESSAGES,
    ) -> ThreadView:
        """Show all that is known of a thread, with its messages.

        One that was merged into another is shown as that one, with `status` merged-into. No use of the memories. Raises
        InvalidInput, StoreError.
        """
        name = validation.required("thread_id", thread_id)
        start = validation.count("first", first, least=0, most=2**62)
        most = validation.count("limit", limit, least=0, most=MOST_LISTED)
        now_s = (await self._context()).now_s

        def look() -> ThreadView:
            thread = named(self._reader, self._space, name)
            view = self._view(thread, now_s, first=start, limit=most)
            if view is None:
                raise InvalidInput("thread_id", f"of {shown(name)!r} nothing is left")
            return replace(view, id=name, status=MERGED, into=thread.id) if name in view.merged else view

        return await self._engine.read(look)

    @verb("threads merge", "ai_merge", "ai", "Merge two threads")
    @example('{"thread_a": "login", "thread_b": "authentication"}', "success message merged thread")
    async def merge(
        self,
        thread_a: Annotated[str, Arg("id of the thread that goes on", "THREAD")],
        thread_b: Annotated[str, Arg("id of the thread that goes on as the first one", "OTHER")],
    ) -> Merged:
        """Have two threads go on as one. All that was said is kept.

        The larger weight counts, and ratings and topics count together. Raises InvalidInput, StoreError.
        """
        names = {
            field: validation.required(field, value)
            for field, value in (("thread_a", thread_a), ("thread_b", thread_b))
        }
        context = await self._context()

        kept, gone = await self._engine.read(lambda: self._mergeable(names, context.now_s))
        await self._engine.write(changes.merge(kept, gone))
        return Merged(await self.get(kept.id, limit=0), gone.id)

    @verb("threads split", "ai_split", "ai", "Split a thread")
    @example('{"thread_id": "api-design"}', "success message threads")
    async def split(self, thread_id: Annotated[str, THREAD_ID]) -> Split:
        """Divide a thread where its topic changes. All that was said is kept.

        The largest part keeps the id, each other one gets an id of its own. Raises InvalidInput, also where nothing is
        to divide; StoreError.
        """
        name = validation.required("thread_id", thread_id)
        context = await self._context()
        thread, contexts, shares = await self._engine.read(lambda: self._division(name, context.now_s))
        done = await self._engine.write(changes.split(thread, shares, contexts, context))
        self._engine.wake()

        def look() -> tuple[ThreadView, ...]:
            named = (Named(one, owner(self._space, one)) for one in (thread.id, *done))
            views = (self._view(one, context.now_s) for one in named)
            return tuple(view for view in views if view is not None)

        return Split(await self._engine.read(look))

    @verb("threads rename", "ai_rename", "ai", "Name a thread", destroys=True, repeatable=True)
    @example(
        '{"thread_id": "thread_20260201_083000_abc123", "title": "User preferences"}',
        "success thread_id=id title",
    )
    async def rename(
        self, thread_id: Annotated[str, THREAD_ID], title: Annotated[str, Arg("a short title")]
    ) -> ThreadView:
        """Call a thread something else. Its id stays.

        Raises InvalidInput, StoreError.
        """
        name = validation.required("thread_id", thread_id)
        called = validation.required("title", title, "say what to call the thread")
        now_s = (await self._context()).now_s
        thread = await self._engine.read(lambda: self._present(name, now_s))
        await self._engine.write(changes.rename(thread, called))
        return await self.get(thread.id, limit=0)

    @verb("threads recall", "ai_recall", "ai", "Recall threads", reads=True)
    @example('{"topic": "solana"}', "success message threads")
    async def recall(
        self,
        topic: Annotated[str, Arg("a topic in a few words, or the id of a thread", is_sentence=True)],
        limit: Annotated[int, Arg("how many threads at most", "N", least=1, most=20)] = RECALLED,
    ) -> Recalled:
        """Bring back to mind what was said about a topic, thread by thread, archived ones too.

        First come those to which somebody has given such a title. Each counts as recalled. Raises InvalidInput,
        StoreError.
        """
        wanted = validation.required("topic", topic, "say what to recall")
        most = validation.count("limit", limit, most=LOOKED_AT)
        context = await self._context()
        by_name = await self._engine.read(lambda: self._if_thread(wanted))
        threads = {by_name: ()} if by_name is not None else await self._on(wanted, most)
        await self._engine.write(changes.recalled(list(threads), context.now_s))

        def look() -> Sequence[ThreadView]:
            views = []
            for thread, about in threads.items():
                limit = 0 if about else MESSAGES if len(threads) == 1 else EACH
                view = self._view(thread, context.now_s, limit=limit)
                if view is not None and about:
                    view = replace(view, messages=reading.messages(self._reader, about))
                views += [] if view is None else [view]
            return views

        return Recalled(wanted, tuple(await self._engine.read(look)))

    @verb("suggestions", "ai_suggestions", "ai", "See what might be done", reads=True)
    @example(
        '{"context": "working on authentication"}',
        "merge_candidates split_candidates recall_hints health more unread",
    )
    async def suggestions(
        self,
        context: Annotated[
            str | None,
            Arg("what is being worked on, in a few words: hints what to recall for it", is_positional=True),
        ] = None,
        within: float = WITHIN_S,
    ) -> Suggestions:
        """See which threads to merge, split or recall, and whether there are too many. Changes nothing. The latest
        1,000 threads are looked at.

        Each suggestion has the command that does it. Those threads that have changed since the last call are read for
        about `within` seconds (`math.inf`: all of them), the others with the next call; `unread` says how many of all
        active threads were not looked at. Nothing counts as used. Raises InvalidInput, StoreError.
        """
        now_s = self._engine.write_context().now_s
        within_s = within if within == math.inf else validation.seconds("within", within)
        text: object = context
        if text is not None and not (isinstance(text, str) and text.strip()):
            raise InvalidInput("context", "is empty or no text; say what you are working on, or leave it out")
        query = None if context is None else validation.query(context, space=self._space, limit=RELATED)
        return await self._engine.read(lambda: self._suggesting.suggest(query, now_s, within_s))

    async def _context(self) -> WriteContext:
        await self._engine.flush()
        return self._engine.write_context()

    # --- looking ------------------------------------------------------------------------------------------------------

    def _view(self, thread: Named, now_s: float, first: int = 0, limit: int = 0) -> ThreadView | None:
        return reading.read(self._reader, self._space, thread, now_s, first=first, limit=limit)

    def _present(self, name: str, now_s: float, field: str = "thread_id") -> Named:
        """The thread of that name. Raises InvalidInput when there is none, or nothing is left of it."""
        thread = named(self._reader, self._space, name, field)
        contexts = contexts_of(self._reader, self._space, thread)
        if next(reading.left(self._reader, self._space, thread, contexts, now_s), None) is None:
            raise InvalidInput(field, f"of {shown(name)!r} nothing is left")
        return thread

    def _mergeable(self, names: Mapping[str, str], now_s: float) -> Sequence[Named]:
        if len(set(names.values())) == 1:
            raise InvalidInput("thread_b", f"{shown(names['thread_b'])!r} cannot be merged with itself")
        threads = []
        for field, name in names.items():
            thread = self._present(name, now_s, field)
            threads.append(thread)
            if thread_lookup.into(thread_lookup.threads(self._reader, self._space, [name])[name]) is not None:
                raise InvalidInput(
                    field, f"{shown(name)!r} was merged into {shown(thread.id)!r} already; name that one"
                )
            if thread.is_alone:
                raise InvalidInput(field, f"{shown(name)!r} was said in no context; merge threads of contexts")
        if threads[0].id == threads[1].id:
            names_of_one = " and ".join(repr(shown(one)) for one in names.values())
            raise InvalidInput("thread_b", f"{names_of_one} name one thread, {shown(threads[0].id)!r}; name two")
        return threads

    # --- splitting ----------------------------------------------------------------------------------------------------

    def _division(self, name: str, now_s: float) -> tuple[Named, Collection[str], Sequence[Sequence[MemoryId]]]:
        """A thread, its contexts, and the parts of it that get another id. Raises InvalidInput when there is nothing to
        divide."""
        thread = self._present(name, now_s)
        contexts = contexts_of(self._reader, self._space, thread)
        subjects = reading.left(self._reader, self._space, thread, contexts, now_s)
        memories = [subject.memory for subject in islice(subjects, MOST_MOVED + 1)]
        if len(memories) > MOST_MOVED:
            problem = f"{shown(thread.id)!r} has more than {MOST_MOVED:,} messages, too many to be divided at once"
            raise InvalidInput("thread_id", problem)
        if len(memories) <= 1:
            raise InvalidInput("thread_id", f"{shown(thread.id)!r} has one message, so there is nothing to split")
        parts = drift.by_drift([reading.line(one, thread.id) for one in memories])
        if len(parts) == 1:
            raise InvalidInput("thread_id", f"{shown(thread.id)!r} stays with one topic, as far as its words tell")
        parts.remove(max(parts, key=len))
        return thread, contexts, [[memories[at].id for at in places] for places in parts]

    # --- recalling ----------------------------------------------------------------------------------------------------

    def _if_thread(self, topic: str) -> Named | None:
        """None for a topic, even where a memory has it as its key."""
        reader, space = self._reader, self._space
        is_key = reader.row(topic) is None and reader.id_of_key(space, topic) is not None
        if is_key and not thread_lookup.is_thread(reader, space, topic):
            return None
        try:
            return named(reader, space, topic)
        except InvalidInput:
            return None

    async def _on(self, topic: str, most: int) -> dict[Named, Sequence[Memory]]:
        """The threads that are called so, then those of the memories that answer, the best answer's first; each with
        the memories that answer best."""
        query = Query(
            topic, self._space, limit=LOOKED_AT, include_archived=True, without_tags=validation.unsought(None)
        )
        hits = [hit.memory for hit in await self._engine.find(query)]

        def look() -> dict[Named, Sequence[Memory]]:
            reader, space = self._reader, self._space
            threads: dict[Named, list[Memory]] = {one: [] for one in thread_lookup.titled(reader, space, topic)[:most]}
            for memory in hits:
                thread = thread_lookup.of_row(reader, space, reader.row(memory.id))  # None for what only a remote has
                if thread in threads or (thread is not None and len(threads) < most):
                    threads.setdefault(thread, []).append(memory)
            return {thread: memories[:EACH] for thread, memories in threads.items()}

        return await self._engine.read(look)
