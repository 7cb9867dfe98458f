"""Memories that come into view because something is in focus: of the threads it names, and of the topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from unicodedata import normalize

from kingly_memory import intake
from kingly_memory.attention.focus import folded
from kingly_memory.models import Memory, Query, Standing
from kingly_memory.retrieval.bm25 import Question
from kingly_memory.router.threads.roots import members
from kingly_memory.router.threads.views import topics_of
from kingly_memory.writing import has_unbroken, words

if TYPE_CHECKING:
    from kingly_memory.attention.focus import Focus
    from kingly_memory.ports import Row
    from kingly_memory.router.attending.surroundings import Page, Surroundings
    from kingly_memory.router.searching.local_search import LocalHit
    from kingly_memory.router.searching.wording import Wording

STRONGEST = 3
"""Focuses that memories are looked for besides."""
EACH = 10
"""Memories that are looked for because of each of them."""
RAREST = 4
"""Words of the prompt, and of a topic, by which memories are looked up."""
SPEAKING = 20
"""The latest memories with a word of a topic, among which threads about it are looked for."""
ABOUT = 3
"""Of these threads."""
MOST_CONTEXTS = 10
"""Of a thread that took others in."""
_LIVE = (Standing.LIVE,)


@dataclass(frozen=True, slots=True)
class Beyond:
    """What the prompt's own search has passed over. `look` is that search; `by_meaning`: it has vectors. `page` has
    what other prompts have brought to light."""

    query: Query
    wording: Wording
    around: Surroundings
    look: Callable[[Query], Sequence[LocalHit]]
    deadline_s: float
    by_meaning: bool
    page: Page

    def of(self, focuses: Sequence[Focus], known: Sequence[Memory]) -> Iterator[tuple[Memory, float]]:
        """With how similar each is: of a thread that is named, which need not be about the prompt, the latest memories;
        of a topic, those that bear it as a tag or whose thread is about it, and that are about the prompt, unless
        many with the tag are `known`."""
        for memory in of_threads(focuses, self.around, self.page):
            yield memory, 0.0
        strong = strongest(focuses)
        for focus in strong:
            topic = folded(focus.topic)
            if sum(topic in map(folded, memory.tags) for memory in known) >= EACH:
                continue
            for tag in _spellings(focus.topic):
                yield from self._tagged(tag) if time.monotonic() < self.deadline_s else ()
            if time.monotonic() < self.deadline_s:
                yield from self._about_the_prompt(self._of_threads_about(strong)[focus.topic])

    def _tagged(self, tag: str) -> Iterator[tuple[Memory, float]]:
        tagged = replace(self.query, tags=(tag,), limit=EACH, neighbours=False)
        if not self.page.of(("tag", tag), lambda: bool(self.around.reader.page(tagged, _LIVE, 1, None))):
            return
        if self.by_meaning or has_unbroken(self.query.text):
            yield from ((hit.memory, hit.relevance) for hit in self.look(tagged))
            return
        yield from self._about_the_prompt(self._holding(tagged))

    def _of_threads_about(self, focuses: Sequence[Focus]) -> Mapping[str, list[Row]]:
        """By topic, the latest of threads that are about it. Such threads are looked for among the latest memories that
        speak of it."""
        which = ("about", *(focus.topic for focus in focuses))
        return self.page.of(which, lambda: self._looked_about(focuses), until_s=self.deadline_s)

    def _looked_about(self, focuses: Sequence[Focus]) -> Mapping[str, list[Row]]:
        reader, anything = self.around.reader, Query("", self.around.project, without_tags=self.query.without_tags)
        speaking = {focus.topic: self._speaking(focus, anything) for focus in focuses}
        everybody = {one.id: one for contexts in speaking.values() for one in contexts.values()}
        project, now_s = self.around.project, self.around.now_s
        topics = topics_of(reader, project, list(everybody.values()), now_s, [focus.topic for focus in focuses])
        found: dict[str, list[Row]] = {}
        for topic, contexts in speaking.items():
            about = [name for name, one in contexts.items() if folded(topic) in map(folded, topics[one.id])]
            narrowed = [replace(anything, context_id=one) for one in about[:ABOUT]]
            rows = [row for one in narrowed for row in reader.page(one, _LIVE, EACH, None) if one.admits(row.memory)]
            found[topic] = rows
        return found

    def _speaking(self, focus: Focus, anything: Query) -> dict[str, Memory]:
        """A memory of each context in which the topic was spoken of last."""
        said = words(focus.topic)[:RAREST]
        rows = [row for word in said for row in self.around.reader.holding(anything, word, SPEAKING, self.deadline_s)]
        live = [row.memory for row in rows if row.standing is Standing.LIVE and anything.admits(row.memory)]
        return {one.scope.context_id: one for one in live if one.scope.context_id is not None}

    def _about_the_prompt(self, rows: Sequence[Row]) -> Iterator[tuple[Memory, float]]:
        if not rows:
            return
        question = Question(self.wording.terms, self.page.of("corpus", self.around.reader.corpus))
        held = [(sum(question.own(row.memory).held.values()), row) for row in rows]
        best = sorted(held, key=lambda one: (one[0], one[1].position), reverse=True)[:EACH]
        for share, row in best:
            if share and self.around.layer.is_alive(row, self.around.now_s):
                yield row.memory, min(share / len(question.terms), 1.0)

    def _holding(self, tagged: Query) -> list[Row]:
        """The latest with each of the rarest words: a search would weigh all that hold any word, tagged or not."""
        rarest = sorted((term for term in self.wording.terms if term.rows), key=lambda term: term.rows)[:RAREST]
        read = self.around.reader.holding
        found = [row for term in rarest for row in read(tagged, term.word, EACH, self.deadline_s)]
        admitted = {row.position: row for row in found if row.standing is Standing.LIVE and tagged.admits(row.memory)}
        return list(admitted.values())


def of_threads(focuses: Sequence[Focus], around: Surroundings, page: Page) -> Iterator[Memory]:
    """The latest memories of the threads that a focus names."""
    for focus in strongest(focuses):
        name = focus.thread or focus.topic
        for row in page.of(("thread", name), partial(_rows, name, around)) if focus.is_name else ():
            if row.standing is Standing.LIVE and around.layer.is_alive(row, around.now_s):
                yield row.memory


def _spellings(topic: str) -> Iterator[str]:
    """The ways in which a tag is likely to be written."""
    yield from dict.fromkeys((topic, topic.casefold(), normalize("NFC", topic), normalize("NFD", topic)))


def strongest(focuses: Sequence[Focus]) -> Sequence[Focus]:
    """The latest first among equals."""
    weighty = [focus for focus in focuses if focus.weight > 0]
    return sorted(weighty, key=lambda one: (one.weight, one.set_at), reverse=True)[:STRONGEST]


def _rows(name: str, around: Surroundings) -> list[Row]:
    """The latest of the contexts that are the thread of that name; the memory with that id, where it was said in
    none."""
    reader = around.reader
    anything = Query("", around.project, without_tags=intake.unsought(None))
    row = reader.row(name)
    if row is not None and anything.admits(row.memory):
        return [row]
    contexts = list(members(reader, around.project, name))[:MOST_CONTEXTS]
    rows = [row for one in contexts for row in reader.page(replace(anything, context_id=one), _LIVE, EACH, None)]
    return sorted(rows, key=lambda row: row.position, reverse=True)[:EACH]
