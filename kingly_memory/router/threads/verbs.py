"""`memory.threads`: the verbs on threads, which are what was said in one context."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kingly_memory import intake
from kingly_memory.attention.focus import Focus, folded
from kingly_memory.attention.ratings import Ratings, relevance
from kingly_memory.attention.suggestions import Suggestions
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import shown
from kingly_memory.lifecycle.compaction import COMPACTION_STRATEGIES, NORMAL
from kingly_memory.models import JsonObject, Memory, Query, Standing
from kingly_memory.ports import Row, Searcher, StoreReader
from kingly_memory.router.access import Access
from kingly_memory.router.threads import changes, dividing, ratings, roots, telling
from kingly_memory.router.threads.changes import MOST_MOVED, Share
from kingly_memory.router.threads.listing import Glance, Listing, Overview
from kingly_memory.router.threads.named import Named, named, titled
from kingly_memory.router.threads.suggesting import RELATED, Suggesting
from kingly_memory.router.threads.telling import Part
from kingly_memory.router.threads.views import ACTIVE, MERGED, STATUSES, ThreadView
from kingly_memory.router.write import WriteContext

MOST_LISTED = 1_000
MESSAGES = 20
"""That are shown of a thread unless somebody says how many."""
WITHIN_S = 0.1
RECALLED = 5
EACH = 3
"""Messages that are shown of each thread found."""
LOOKED_AT = 50
"""Memories among which the threads on a topic are looked for."""
RESTORED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Merged:
    """Two threads that go on as one: `thread`, with all that was said in either. `relevance_before`: of the one that
    goes on, by its own ratings."""

    thread: ThreadView
    gone: str
    relevance_before: float = 1.0

    @property
    def message(self) -> str:
        one = self.thread
        merged = f"Merged {self.gone} into {one.id}: {_counted(one.message_count)} (weight={one.weight:.2f})"
        now = relevance(Ratings.from_json({"ratings": list(one.rated.ratings)}))
        if now >= self.relevance_before:
            return merged
        return f"{merged}. Its ratings count for both: relevance {self.relevance_before:.2f} → {now:.2f}"

    def to_json(self) -> JsonObject:
        return {"message": self.message, "merged": self.gone, "thread": self.thread.to_json()}


@dataclass(frozen=True, slots=True)
class Split:
    """What became of a thread, itself first; it is not among them when nothing is left of it but what it took in."""

    threads: tuple[ThreadView, ...]
    thread_id: str

    @property
    def is_left(self) -> bool:
        return any(one.id == self.thread_id for one in self.threads)

    @property
    def message(self) -> str:
        parts = ", ".join(f"{one.id} ({_counted(one.message_count)})" for one in self.threads)
        if not self.is_left:
            return f"Parted {parts} from {self.thread_id}, of which nothing else is left"
        return f"Split {self.thread_id} into {len(self.threads)}: {parts}"

    def to_json(self) -> JsonObject:
        return {"message": self.message, "threads": [one.to_json() for one in self.threads]}


@dataclass(frozen=True, slots=True)
class Recalled:
    """The threads on a topic, the best first, each with those of its messages that are about it. `restored` says how
    many memories were brought back from the archive, `left` how many lie there for a reason of their own."""

    topic: str
    threads: tuple[ThreadView, ...]
    restored: int = 0
    left: int = 0

    @property
    def message(self) -> str:
        if not self.threads:
            return f'No thread is about "{self.topic}".'
        recalled = f'Recalled {len(self.threads)} thread{"s" * (len(self.threads) != 1)} for "{self.topic}".'
        return " ".join([recalled, *self._remarks()])

    def _remarks(self) -> Iterator[str]:
        if self.restored:
            yield f"{_memories(self.restored)} restored."
        if self.left:
            yield f"{_memories(self.left)} left in the archive, not because of the thread: restore them one by one."

    def to_json(self) -> JsonObject:
        return {
            "message": self.message,
            "topic": self.topic,
            "restored": self.restored,
            "left": self.left,
            "threads": [one.to_json() for one in self.threads],
        }


@dataclass(frozen=True, slots=True)
class Held:
    """The threads that were merged into one, and of which of them anything is `left`. `is_own_left`: besides them, of
    what was said in it itself; `is_erased`: of that nothing can come back."""

    children: tuple[str, ...]
    left: tuple[str, ...]
    is_own_left: bool
    is_erased: bool

    def is_all(self, parted: Sequence[str]) -> bool:
        """Whether nothing is left once those are parted."""
        return not self.is_own_left and set(self.left) <= set(parted)


InFocus = Callable[[StoreReader, str, str | None], Sequence[Focus]]
"""What an agent of a project has in focus."""


class Threads:
    """The verbs on threads. A thread is named by its id, or by the key or id of a memory in it."""

    def __init__(
        self,
        access: Access,
        searcher: Searcher,
        *,
        project: str,
        in_focus: InFocus,
        flush: Callable[[], Any] | None = None,
    ) -> None:
        """`flush` writes down the uses of memories that are not in the store yet."""
        self._access = access
        self._suggesting = Suggesting(access.reader, project)
        self._in_focus = in_focus
        self._searcher = searcher
        self._flush = flush

    async def list(self, limit: int = 50, status: str = ACTIVE) -> tuple[Glance, ...]:
        """The threads of the project, the latest first; `status` is active, archived, merged-into or all. A memory
        that belongs to no context is a thread too, but in no list. Raises InvalidInput, StoreError."""
        most = intake.count("limit", limit, most=MOST_LISTED)
        if status not in (*STATUSES, "all"):
            known = ", ".join((*STATUSES, "all"))
            raise InvalidInput("status", f"{shown(status)!r} is unknown; choose one of {known}")
        desk, reader = await self._write_context(), self._access.reader
        wanted = None if status == "all" else status

        def look() -> Sequence[Glance]:
            return Listing(reader, desk.project, desk.now_s).of_status(wanted, most)

        return tuple(await self._access.read(look))

    async def get(self, thread_id: str, first: int = 0, limit: int = MESSAGES) -> ThreadView:
        """A thread with its messages from number `first` on. One that was merged into another is shown as that one,
        with `status` merged-into. No use of the memories. Raises InvalidInput, StoreError."""
        said = intake.required("thread_id", thread_id)
        start = intake.count("first", first, least=0, most=2**62)
        most = intake.count("limit", limit, least=0, most=MOST_LISTED)
        desk = await self._write_context()
        return await self._access.read(lambda: self._told(said, desk, start, most))

    async def merge(self, thread_a: str, thread_b: str) -> Merged:
        """Have the second thread go on as the first. All that was said stays where it is, the larger weight counts, and
        ratings and topics come together. `split` takes it back. Raises InvalidInput, StoreError."""
        names = {field: intake.required(field, one) for field, one in (("thread_a", thread_a), ("thread_b", thread_b))}
        desk = await self._write_context()
        kept, gone = await self._access.read(lambda: self._mergeable(names, desk))
        own = await self._access.read(lambda: ratings.read(self._access.reader, [kept.owner]))
        revised = await self._access.write(changes.merge(kept, gone, desk))
        self._access.wake(*revised)
        return Merged(await self.get(kept.id, limit=0), gone.id, relevance(own.get(kept.owner, Ratings())))

    async def split(self, thread_id: str, topics: Sequence[str] | None = None) -> Split:
        """Part the threads that were merged into one, or those of them that `topics` name by id or title. Else divide
        its messages by topic, or take out those about the `topics`: each part gets an id of its own, and the largest
        keeps this one. Raises InvalidInput, also when there is nothing to divide; StoreError."""
        said = intake.required("thread_id", thread_id)
        wanted = intake.tag_list("topics", topics or ())
        desk = await self._write_context()
        reader = self._access.reader
        name = await self._access.read(lambda: self._left(said, desk))
        whole = await self._access.read(lambda: telling.part(reader, desk.project, name))
        held = await self._access.read(lambda: self._held(whole, desk))
        chosen = await self._access.read(lambda: self._chosen(held.left, wanted, desk))
        parted = chosen or (() if wanted else held.left)
        if parted:
            leaving = held.children if held.is_all(parted) else parted
            part = changes.part(name.id, leaving, desk, is_erased=held.is_erased)
            await self._access.write(part)
        else:
            shares = await self._access.read(lambda: self._shares(whole, wanted, desk))
            emptied = await self._access.read(lambda: self._emptied(held.children, shares, desk))
            split = changes.split(name, shares, whole.contexts, desk, emptied=emptied)
            parted = await self._access.write(split)
            self._access.wake(*(one for share in shares for one in share.memory_ids))
        views = await self._access.read(lambda: [self._view(one, desk) for one in (name.id, *parted)])
        return Split(tuple(view for view in views if view is not None), name.id)

    async def rename(self, thread_id: str, title: str) -> ThreadView:
        """Call a thread something else. Raises InvalidInput, StoreError."""
        said = intake.required("thread_id", thread_id)
        called = intake.required("title", title, "say what to call the thread")
        desk = await self._write_context()
        name = await self._access.read(lambda: self._left(said, desk))
        await self._access.write(changes.rename(name, called))
        return await self.get(name.id, limit=0)

    async def recall(self, topic: str, limit: int = RECALLED, *, restore: bool = False) -> Recalled:
        """The threads on a topic, those first to which somebody has given such a title, or the one of that id; archived
        ones too. Each counts as recalled. `restore` brings back what compaction or an import has archived of a thread
        that is named by its id. Raises InvalidInput, StoreError."""
        said = intake.required("topic", topic, "say what to recall")
        most = intake.count("limit", limit, most=LOOKED_AT)
        desk = await self._write_context()
        name = await self._access.read(lambda: self._if_thread(said, desk))
        if name is None and restore:
            raise InvalidInput("topic", f"there is no thread {shown(said)!r}; restore takes the id of one")
        back, left = await self._bring_back(name, desk) if name is not None and restore else (0, 0)
        found = {name: ()} if name is not None else await self._found(said, most, desk)
        await self._access.write(changes.recalled(list(found), desk.now_s))
        unsearched = MESSAGES if len(found) == 1 else EACH
        views = [await self._recalled(one, about, unsearched, desk) for one, about in found.items()]
        return Recalled(said, tuple(one for one in views if one is not None), back, left)

    async def status(self) -> Overview:
        """How many threads are active, what they weigh, what is in focus. Raises StoreError."""
        desk, reader = await self._write_context(), self._access.reader
        most = COMPACTION_STRATEGIES[NORMAL].max_active_threads

        def look() -> Overview:
            active = self._in_focus(reader, desk.project, desk.agent)
            told = tuple(one.told() for one in active)
            return replace(Listing(reader, desk.project, desk.now_s).overview(most), focus=told)

        return await self._access.read(look)

    async def suggestions(self, context: str | None = None, within: float = WITHIN_S) -> Suggestions:
        """Which threads might be merged, split and recalled, and whether there are too many; each suggestion has the
        command that does it. Hints to recall are for a `context`: what is being worked on, in a few words.

        At most 1,000 threads are looked at, the latest. Those that have changed since the last call are read for about
        `within` seconds (`math.inf`: all of them), the others with the next call; `unread` says how many of all active
        threads were not looked at. Changes nothing, and nothing counts as used. Raises InvalidInput, StoreError."""
        desk = self._access.write_context()
        within_s = _seconds(within)
        said: object = context
        if said is not None and not (isinstance(said, str) and said.strip()):
            raise InvalidInput("context", "is empty or no text; say what you are working on, or leave it out")
        asked = None if context is None else intake.query(context, project=desk.project, limit=RELATED)
        return await self._access.read(lambda: self._suggesting.suggest(asked, desk.now_s, within_s))

    # --- looking ------------------------------------------------------------------------------------------------------

    async def _write_context(self) -> WriteContext:
        if self._flush is not None:
            await self._flush()
        return self._access.write_context()

    def _told(self, said: str, desk: WriteContext, first: int, limit: int) -> ThreadView:
        reader = self._access.reader
        name = named(reader, desk.project, said)
        whole = telling.part(reader, desk.project, name)
        view = telling.tell(reader, desk.project, whole, desk.now_s, first=first, limit=limit)
        if view is None:
            raise InvalidInput("thread_id", f"of {shown(said)!r} nothing is left")
        is_merged = said != name.id and said in whole.contexts
        return replace(view, id=said, status=MERGED, into=name.id) if is_merged else view

    def _left(self, said: str, desk: WriteContext, field: str = "thread_id") -> Named:
        """The thread of that name. Raises InvalidInput when there is none, or nothing is left of it."""
        reader = self._access.reader
        try:
            name = named(reader, desk.project, said)
        except InvalidInput as error:
            raise InvalidInput(field, error.problem) from None
        if not self._is_left(telling.part(reader, desk.project, name), desk):
            raise InvalidInput(field, f"of {shown(said)!r} nothing is left")
        return name

    def _is_left(self, whole: Part, desk: WriteContext) -> bool:
        return any(True for _ in telling.left(self._access.reader, desk.project, whole, desk.now_s))

    def _view(self, thread_id: str, desk: WriteContext) -> ThreadView | None:
        """None when nothing is left of it."""
        reader = self._access.reader
        return telling.tell(reader, desk.project, self._part(thread_id, desk), desk.now_s)

    def _part(self, thread_id: str, desk: WriteContext) -> Part:
        return telling.part(self._access.reader, desk.project, Named(thread_id, owner(desk.project, thread_id)))

    def _held(self, whole: Part, desk: WriteContext) -> Held:
        children = tuple(one for one, facet in whole.contexts.items() if roots.into(facet) == whole.id)
        left = tuple(one for one in children if self._is_left(self._part(one, desk), desk))
        own = replace(whole, contexts={whole.id: {}})
        known = self._access.reader.page(Query("", desk.project, context_id=whole.id), tuple(Standing), 1, None)
        return Held(children, left, is_own_left=self._is_left(own, desk), is_erased=not known)

    def _chosen(self, children: Sequence[str], topics: Sequence[str], desk: WriteContext) -> tuple[str, ...]:
        """The threads that were merged into another one and that the topics name. Raises InvalidInput when only some of
        the topics do."""
        names = {folded(one): one for one in children}
        for one in children if topics else ():
            view = self._view(one, desk)
            if view is not None:
                names.setdefault(folded(view.title), one)
        chosen = tuple(dict.fromkeys(names[folded(one)] for one in topics if folded(one) in names))
        if chosen and any(folded(one) not in names for one in topics):
            others = ", ".join(one for one in topics if folded(one) not in names)
            raise InvalidInput("topics", f"{chosen[0]!r} is a thread that was merged and {others} none; part it first")
        return chosen

    def _emptied(self, children: Sequence[str], shares: Sequence[Share], desk: WriteContext) -> tuple[str, ...]:
        """The merged threads all of whose memories are taken out."""
        reader = self._access.reader
        taken = {one for share in shares for one in share.memory_ids}

        def is_taken(child: str) -> bool:
            there = telling.left(reader, desk.project, self._part(child, desk), desk.now_s)
            return all(memory.id in taken for memory in there)

        return tuple(one for one in children if is_taken(one))

    def _shares(self, whole: Part, topics: Sequence[str], desk: WriteContext) -> tuple[Share, ...]:
        """The parts of a thread that get another id. Raises InvalidInput when it is not to be divided."""
        there = telling.left(self._access.reader, desk.project, whole, desk.now_s)
        memories = list(islice(there, MOST_MOVED + 1))
        if len(memories) > MOST_MOVED:
            problem = f"{shown(whole.id)!r} has more than {MOST_MOVED:,} messages, too many to be divided at once"
            raise InvalidInput("thread_id", problem)
        if len(memories) <= 1:
            raise InvalidInput("thread_id", f"{shown(whole.id)!r} has one message, so there is nothing to split")
        said = [telling.saying(one) for one in memories]
        facet = whole.contexts.get(whole.id, {})
        earlier = roots.texts(facet, "drift_history")
        shares = dividing.by_topics(said, topics) if topics else dividing.by_drift(said, earlier)
        if len(shares) == 1 and topics:
            about = "everything" if shares[0].topic else "nothing"
            raise InvalidInput("topics", f"{about} in {shown(whole.id)!r} is about {', '.join(topics)}; name others")
        if len(shares) == 1:
            problem = f"{shown(whole.id)!r} stays with one topic, as far as its words tell; name the topics to take out"
            raise InvalidInput("thread_id", problem)
        stays = shares[0] if topics and shares[0].topic is None else max(shares, key=lambda one: len(one.messages))
        return tuple(
            Share(tuple(memories[at].id for at in one.messages), one.topic) for one in shares if one is not stays
        )

    def _mergeable(self, names: dict[str, str], desk: WriteContext) -> tuple[Named, Named]:
        if len(set(names.values())) == 1:
            raise InvalidInput("thread_b", f"{shown(names['thread_b'])!r} cannot be merged with itself")
        kept, gone = (self._whole(field, said, desk) for field, said in names.items())
        if kept.id == gone.id:
            raise _same(names, kept.id)
        return kept, gone

    def _whole(self, field: str, said: str, desk: WriteContext) -> Named:
        """A thread that goes on as itself."""
        one = self._left(said, desk, field)
        if roots.into(roots.threads(self._access.reader, desk.project, [said])[said]) is not None:
            raise InvalidInput(field, f"{shown(said)!r} was merged into {shown(one.id)!r} already; name that one")
        return one

    # --- recalling ----------------------------------------------------------------------------------------------------

    def _if_thread(self, said: str, desk: WriteContext) -> Named | None:
        """None for a topic, even where a memory has it as its key."""
        reader = self._access.reader
        is_key = reader.row(said) is None and reader.id_of_key(desk.project, said) is not None
        try:
            name = named(reader, desk.project, said)
        except InvalidInput:
            return None
        return None if is_key and not roots.is_thread(reader, desk.project, said) else name

    async def _found(self, topic: str, most: int, desk: WriteContext) -> dict[Named, tuple[Memory, ...]]:
        """The threads that are called so, then those of the memories that answer, the best answer's first; each with
        its best ones."""
        called = await self._access.read(lambda: titled(self._access.reader, desk.project, topic))
        query = Query(topic, desk.project, limit=LOOKED_AT, include_archived=True, without_tags=intake.unsought(None))
        hits = [hit.memory for hit in await self._searcher.find(query)]
        names = await self._access.read(lambda: self._names(hits, desk.project))
        found: dict[Named, list[Memory]] = {one: [] for one in called[:most]}
        for memory, name in zip(hits, names, strict=True):
            if name in found or (name is not None and len(found) < most):
                found.setdefault(name, []).append(memory)
        return {name: tuple(several[:EACH]) for name, several in found.items()}

    def _names(self, memories: Sequence[Memory], project: str) -> tuple[Named | None, ...]:
        """None for what only the remote has."""
        reader = self._access.reader
        contexts = {one.scope.context_id for one in memories if one.scope.context_id is not None}
        facets = roots.threads(reader, project, contexts)
        return tuple(_name(reader.row(one.id), project, facets) for one in memories)

    async def _recalled(
        self, name: Named, about: Sequence[Memory], unsearched: int, desk: WriteContext
    ) -> ThreadView | None:
        """With the messages that are about the topic, or else the first ones."""
        reader = self._access.reader

        def look() -> ThreadView | None:
            whole = telling.part(reader, desk.project, name)
            limit = 0 if about else unsearched
            view = telling.tell(reader, desk.project, whole, desk.now_s, limit=limit)
            return view if view is None or not about else replace(view, messages=telling.messages(reader, about))

        return await self._access.read(look)

    async def _bring_back(self, name: Named, desk: WriteContext) -> tuple[int, int]:
        """How many were restored, and how many were not."""
        reader = self._access.reader

        def look() -> list[MemoryId]:
            found = telling.rows(reader, desk.project, telling.part(reader, desk.project, name))
            return [row.memory.id for row in found if row.standing is Standing.ARCHIVED]

        ids = await self._access.read(look)
        count = 0
        for at in range(0, len(ids), RESTORED_AT_ONCE):
            count += await self._access.write(changes.bring_back(name, ids[at : at + RESTORED_AT_ONCE], desk))
        self._access.wake(*ids)
        return count, len(ids) - count


def _seconds(within: float) -> float:
    return within if within == math.inf else intake.seconds("within", within)


def _same(names: Mapping[str, str], thread_id: str) -> InvalidInput:
    """Two names of one thread, one of them at least that of a memory in it."""
    others = {field: said for field, said in names.items() if said != thread_id}
    if len(others) > 1:
        problem = f"{' and '.join(repr(shown(one)) for one in others.values())} are memories of one thread, "
        return InvalidInput("thread_b", f"{problem}{shown(thread_id)!r}; name two threads")
    [(field, said)] = others.items()
    problem = f"{shown(said)!r} names the thread {shown(thread_id)!r} itself, through a memory of it; name two threads"
    return InvalidInput(field, problem)


def _name(row: Row | None, project: str, facets: Mapping[str, JsonObject]) -> Named | None:
    """The thread of a memory; None for what is not this project's own."""
    if row is None or row.standing not in roots.THERE:
        return None
    context_id = row.memory.scope.context_id
    if context_id is None:
        return Named(row.memory.id, row.memory.id, is_alone=True)
    thread_id = roots.root(context_id, facets)
    return Named(thread_id, owner(project, thread_id))


def _memories(count: int) -> str:
    return "1 memory was" if count == 1 else f"{count:,} memories were"


def _counted(messages: int) -> str:
    return f"{messages:,} message{'' if messages == 1 else 's'}"
