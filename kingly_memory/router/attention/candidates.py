"""Which memories may be put before somebody: what a search finds or a list holds, what is in focus, and their threads.

Hooks and routers share this. It is synchronous, and loads nothing of focuses or threads where there are none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import local
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kingly_memory import validation
from kingly_memory.attention.injection import Candidate, priority
from kingly_memory.attention.pertinence import asked, pertinence
from kingly_memory.cognition.owners import current_owner, owner
from kingly_memory.dataclass import replace
from kingly_memory.models import Memory, Query, Standing
from kingly_memory.router.search.local import LEAST_BUDGET_S, LocalHit, spelt

if TYPE_CHECKING:
    from kingly_memory.attention.focus import Focus, Thread
    from kingly_memory.ports import Row, StoreReader
    from kingly_memory.router.search.local import LocalLayer, Wording

LOOKED_AT = 20
"""Memories that are looked at for one prompt."""
_FOCUSED = 30
"""The same where something is in focus; beyond the first 20 only what that lifts. 40 put hardly any more evidence into
1,000 tokens, and cost a millisecond."""
_STRONGEST, _EACH = 3, 10
"""For so many focuses, the strongest, so many more memories are looked for."""
_RAREST = 4
"""Words of the prompt, and of a topic, by which memories are looked up."""
_SPEAKING, _ABOUT = 20, 3
"""Threads about a topic are looked for among so many latest memories with a word of it, and so many are read."""
_MOST_CONTEXTS = 10
"""Of a thread into which others were merged."""
_SET_APART = {"attention": ["weight"], "ratings": ["ratings"], "injected": ["unused"], "thread": ["into", "holds"]}
"""Facets, and fields of them, that give a thread figures of its own."""
_LIVE = (Standing.LIVE,)

T = TypeVar("T")


class Page:
    """What was read of one version of the store."""

    def __init__(self, version: tuple[int, int] | None = None) -> None:
        self.version = version
        self._read: dict[Hashable, Any] = {}

    def of(self, which: Hashable, read: Callable[[], T], *, until_s: float | None = None) -> T:
        """What `read` finds, the first time. It is not kept when `until_s` (monotonic) has passed: it may be cut."""
        if which in self._read:
            found: T = self._read[which]
            return found
        found = read()
        if until_s is None or time.monotonic() < until_s:
            self._read[which] = found
        return found


class Pages:
    """What prompts need whatever they say, kept until anybody writes to the store: with a topic in focus it takes as
    long as the rest. Safe from any thread: each has a page of its own, since each has a connection of its own."""

    def __init__(self) -> None:
        self._own = local()

    def now(self, reader: StoreReader) -> Page:
        version = reader.threads.version()
        page: Page | None = getattr(self._own, "page", None)
        if page is None or version is None or page.version != version:
            page = self._own.page = Page(version)
        return page


class Surroundings(NamedTuple):
    """Where candidates are looked for, for whom, and when (Unix seconds). `pages`: what was read for other prompts."""

    reader: StoreReader
    layer: LocalLayer
    project: str
    agent: str | None
    now_s: float
    pages: Pages | None = None


class Gathered(NamedTuple):
    """The candidates, best first, and what is in focus. `asked` is what was looked up, where that was taken out of a
    longer prompt."""

    candidates: Sequence[Candidate]
    focuses: Sequence[Focus] = ()
    asked: str | None = None


def for_prompt(prompt: str, around: Surroundings, budget_s: float) -> Gathered:
    """What the prompt is about, within `budget_s`. Raises StoreError."""
    deadline_s = time.monotonic() + budget_s
    page = Page() if around.pages is None else around.pages.now(around.reader)
    focuses = page.of(("focus", around.agent), lambda: in_focus(around))
    query = validation.query(prompt, project=around.project, limit=LOOKED_AT, without_tags=validation.unsought(None))
    wording = around.layer.word(query, budget_s=budget_s)

    def look(narrowed: Query, most: int | None = None) -> Sequence[LocalHit]:
        left_s = max(deadline_s - time.monotonic(), LEAST_BUDGET_S)
        return around.layer.search(narrowed, now_s=around.now_s, budget_s=left_s, wording=wording, most=most).hits

    hits = look(query, _FOCUSED if focuses else LOOKED_AT)
    found = {hit.memory.id: (hit.memory, hit.relevance) for hit in hits}
    if focuses:
        from kingly_memory.retrieval.fusion import VECTORS

        by_meaning = any(VECTORS in hit.scores for hit in hits)
        beyond = _Beyond(query, wording, around, look=look, deadline_s=deadline_s, by_meaning=by_meaning, page=page)
        others = beyond.of(focuses, [hit.memory for hit in hits])
        found = {memory.id: (memory, similarity) for memory, similarity in others} | found
    first = {hit.memory.id for hit in hits[:LOOKED_AT]}
    ranked = sorted(found.values(), key=lambda one: one[1], reverse=True)
    threads = _threads_of(around, [memory for memory, _ in ranked], focuses)
    meant = asked(spelt(query, wording.repaired).text)
    candidates = [
        Candidate(memory, pertinence(meant, wording_of(memory)), similarity, threads.get(memory.id))
        for memory, similarity in ranked
        if memory.id in first or priority(similarity, threads.get(memory.id), focuses).boost
    ]
    return Gathered(candidates, focuses, query.asked)


def for_start(memories: Iterable[Memory], around: Surroundings) -> Gathered:
    """Memories that nothing was asked of, in their order, and the threads that are in focus."""
    focuses = in_focus(around)
    listed = {memory.id: memory for memory in memories}
    for memory in _of_named_threads(focuses, around, Page()):
        listed.setdefault(memory.id, memory)
    threads = _threads_of(around, list(listed.values()), focuses)
    return Gathered([Candidate(one, thread=threads.get(one.id)) for one in listed.values()], focuses)


def in_focus(around: Surroundings) -> Sequence[Focus]:
    """What the agent has in focus, and what nobody in particular has: a server that was not told for whom it speaks
    guides the hooks of all."""
    names = list(dict.fromkeys(current_owner(around.project, agent) for agent in (None, around.agent)))
    facets = around.reader.facets("focus", names)
    if not any(facet.get("active_focus") for facet in facets.values()):
        return ()
    from kingly_memory.router.attention.focus import applying

    return applying(around.reader, around.project, around.agent)


def wording_of(memory: Memory) -> str:
    """What of a memory is compared with a prompt."""
    return f"{memory.title} {memory.content}" if memory.title else memory.content


def _threads_of(around: Surroundings, memories: Sequence[Memory], focuses: Sequence[Focus]) -> Mapping[str, Thread]:
    """By the id of a memory; empty where every thread is like any other."""
    contexts = {memory.scope.context_id for memory in memories}
    owners: list[str] = [memory.id for memory in memories]
    owners += [owner(around.project, one) for one in contexts if one is not None]
    # A weight of 0 sets a thread apart; no session that left it unused does not.
    is_apart = any(
        facet.get(field) is not None if field == "weight" else facet.get(field)
        for name, fields in ({} if focuses else _SET_APART).items()
        for facet in around.reader.facets(name, owners).values()
        for field in fields
    )
    if not focuses and not is_apart:
        return MappingProxyType({})
    from kingly_memory.router.threads.seen import threads_of

    return threads_of(around.reader, around.project, memories, around.now_s, about=[focus.topic for focus in focuses])


# --- what is in focus -------------------------------------------------------------------------------------------------


class _Beyond:
    """What the prompt's own search has passed over."""

    def __init__(
        self,
        query: Query,
        wording: Wording,
        around: Surroundings,
        *,
        look: Callable[[Query], Sequence[LocalHit]],
        deadline_s: float,
        by_meaning: bool,
        page: Page,
    ) -> None:
        """`look` is the prompt's own search; `by_meaning`: it has vectors. `page` keeps what was read for others."""
        self.query, self.wording, self.around, self.look = query, wording, around, look
        self.deadline_s, self.by_meaning, self.page = deadline_s, by_meaning, page

    def of(self, focuses: Sequence[Focus], known: Sequence[Memory]) -> Iterator[tuple[Memory, float]]:
        """Memories with their similarities. Of a thread that is named, which need not be about the prompt, the latest;
        of a topic those that bear it as a tag or whose thread is about it, and that are about the prompt, unless many
        with that tag are `known`."""
        from unicodedata import normalize

        from kingly_memory.attention.focus import folded

        for memory in _of_named_threads(focuses, self.around, self.page):
            yield memory, 0.0
        topics = [focus.topic for focus in _strongest(focuses)]
        in_threads_about = partial(self._in_threads_about, topics)
        for topic in topics:
            if sum(folded(topic) in map(folded, memory.tags) for memory in known) >= _EACH:
                continue
            for tag in dict.fromkeys((topic, topic.casefold(), normalize("NFC", topic), normalize("NFD", topic))):
                yield from self._tagged(tag) if time.monotonic() < self.deadline_s else ()
            if time.monotonic() < self.deadline_s:
                about = self.page.of(("about", *topics), in_threads_about, until_s=self.deadline_s)
                yield from self._about_the_prompt(about[topic])

    def _tagged(self, tag: str) -> Iterator[tuple[Memory, float]]:
        from kingly_memory.writing import has_unbroken

        reader = self.around.reader
        tagged = replace(self.query, tags=(tag,), limit=_EACH, neighbours=False)
        if not self.page.of(("tag", tag), lambda: bool(reader.page(tagged, _LIVE, 1, None))):
            return
        if self.by_meaning or has_unbroken(self.query.text):
            yield from ((hit.memory, hit.relevance) for hit in self.look(tagged))
            return
        # A search would weigh all that hold any word, tagged or not: so the latest with each of the rarest words.
        rarest = sorted((term for term in self.wording.terms if term.rows), key=lambda term: term.rows)[:_RAREST]
        found = [row for term in rarest for row in reader.holding(tagged, term.word, _EACH, self.deadline_s)]
        admitted = {row.position: row for row in found if row.standing is Standing.LIVE and tagged.admits(row.memory)}
        yield from self._about_the_prompt(list(admitted.values()))

    def _in_threads_about(self, topics: Sequence[str]) -> Mapping[str, list[Row]]:
        """By topic, the latest memories of threads that are about it. Such threads are looked for among the latest
        memories that speak of it."""
        from kingly_memory.attention.focus import folded
        from kingly_memory.router.threads.seen import threads_of
        from kingly_memory.writing import words

        reader, project = self.around.reader, self.around.project
        anything = Query("", project, without_tags=self.query.without_tags)
        speaking: dict[str, dict[str, Memory]] = {}
        for topic in topics:
            said = words(topic)[:_RAREST]
            rows = [row for word in said for row in reader.holding(anything, word, _SPEAKING, self.deadline_s)]
            live = [row.memory for row in rows if row.standing is Standing.LIVE and anything.admits(row.memory)]
            speaking[topic] = {one.scope.context_id: one for one in live if one.scope.context_id is not None}
        everybody = {one.id: one for contexts in speaking.values() for one in contexts.values()}
        threads = threads_of(reader, project, list(everybody.values()), self.around.now_s, about=topics)
        found: dict[str, list[Row]] = {}
        for topic, contexts in speaking.items():
            about = [name for name, one in contexts.items() if folded(topic) in map(folded, threads[one.id].topics)]
            narrowed = [replace(anything, context_id=one) for one in about[:_ABOUT]]
            read = [row for one in narrowed for row in reader.page(one, _LIVE, _EACH, None)]
            found[topic] = [row for row in read if anything.admits(row.memory)]
        return found

    def _about_the_prompt(self, rows: Sequence[Row]) -> Iterator[tuple[Memory, float]]:
        if not rows:
            return
        from kingly_memory.retrieval.lexical import Question

        question = Question(self.wording.terms, self.page.of("corpus", self.around.reader.corpus))
        held = [(sum(question.own(row.memory).held.values()), row) for row in rows]
        best = sorted(held, key=lambda one: (one[0], one[1].position), reverse=True)[:_EACH]
        for share, row in best:
            if share and self.around.layer.is_alive(row, self.around.now_s):
                yield row.memory, min(share / len(question.terms), 1.0)


def _strongest(focuses: Sequence[Focus]) -> Sequence[Focus]:
    """The latest first among equals."""
    weighty = [focus for focus in focuses if focus.weight > 0]
    return sorted(weighty, key=lambda one: (one.weight, one.set_at), reverse=True)[:_STRONGEST]


def _of_named_threads(focuses: Sequence[Focus], around: Surroundings, page: Page) -> Iterator[Memory]:
    """The latest memories of the threads that a focus names."""
    for focus in _strongest(focuses):
        name = focus.thread or focus.topic
        rows = page.of(("thread", name), partial(_latest_of, name, around)) if focus.is_name else ()
        for row in rows:
            if row.standing is Standing.LIVE and around.layer.is_alive(row, around.now_s):
                yield row.memory


def _latest_of(name: str, around: Surroundings) -> list[Row]:
    """The latest rows of the thread of that name; the memory with that id, where it belongs to no context."""
    from kingly_memory.router.thread_lookup import members

    reader = around.reader
    anything = Query("", around.project, without_tags=validation.unsought(None))
    row = reader.row(name)
    if row is not None and anything.admits(row.memory):
        return [row]
    contexts = list(members(reader, around.project, name))[:_MOST_CONTEXTS]
    rows = [row for one in contexts for row in reader.page(replace(anything, context_id=one), _LIVE, _EACH, None)]
    return sorted(rows, key=lambda row: row.position, reverse=True)[:_EACH]
