"""Which memories may be put before somebody: what a search finds or a list holds, what is in focus, and their threads.

Hooks and routers share this: synchronous, and nothing of focuses or threads is loaded where there are none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory import intake
from kingly_memory.attention.injection import Candidate
from kingly_memory.attention.pertinence import asked, pertinence_to
from kingly_memory.attention.priority import priority
from kingly_memory.cognition.owners import current_owner, owner
from kingly_memory.models import Memory, Query
from kingly_memory.retrieval.blending import VECTORS
from kingly_memory.router.attending.surroundings import Page, Surroundings
from kingly_memory.router.searching.local_search import LEAST_BUDGET_S, LocalHit
from kingly_memory.router.searching.wording import spelt

if TYPE_CHECKING:
    from kingly_memory.attention.focus import Focus
    from kingly_memory.attention.threads import Thread

LOOKED_AT = 20
"""Memories that are looked at for one prompt."""
FOCUSED = 30
"""The same where something is in focus; of what comes after the first 20, what that lifts. 40 put hardly any more
evidence into 1,000 tokens, and cost a millisecond."""
APART = {"attention": "weight", "ratings": "ratings", "injected": "unused", "thread": "into"}
"""Facets, and the fields of them, that set a thread apart from all others."""


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
    query = intake.query(
        prompt,
        project=around.project,
        limit=LOOKED_AT,
        without_tags=intake.unsought(None),
    )

    def left_s() -> float:
        return max(deadline_s - time.monotonic(), LEAST_BUDGET_S)

    wording = around.layer.word(query, budget_s=budget_s)

    def look(narrowed: Query, most: int | None = None) -> Sequence[LocalHit]:
        return around.layer.search(narrowed, now_s=around.now_s, budget_s=left_s(), wording=wording, most=most).hits

    hits = look(query, FOCUSED if focuses else LOOKED_AT)
    found = {hit.memory.id: (hit.memory, hit.relevance) for hit in hits}
    if focuses:
        from kingly_memory.router.attending.focused import Beyond

        by_meaning = any(VECTORS in hit.scores for hit in hits)
        beyond = Beyond(query, wording, around, look, deadline_s, by_meaning, page)
        others = beyond.of(focuses, [hit.memory for hit in hits])
        found = {memory.id: (memory, similarity) for memory, similarity in others} | found
    first = {hit.memory.id for hit in hits[:LOOKED_AT]}
    ranked = sorted(found.values(), key=lambda one: one[1], reverse=True)
    threads = threads_of(around, [memory for memory, _ in ranked], focuses)
    meant = asked(spelt(query, wording.repaired).text)
    candidates = [
        Candidate(memory, pertinence_to(meant, wording_of(memory)), similarity, threads.get(memory.id))
        for memory, similarity in ranked
        if memory.id in first or priority(similarity, threads.get(memory.id), focuses).boost
    ]
    return Gathered(candidates, focuses, query.asked)


def for_start(memories: Iterable[Memory], around: Surroundings) -> Gathered:
    """Memories that nothing was asked of, in their order, and the threads that are in focus."""
    focuses = in_focus(around)
    listed = {memory.id: memory for memory in memories}
    if focuses:
        from kingly_memory.router.attending.focused import of_threads

        listed |= {memory.id: memory for memory in of_threads(focuses, around, Page()) if memory.id not in listed}
    threads = threads_of(around, list(listed.values()), focuses)
    return Gathered([Candidate(one, thread=threads.get(one.id)) for one in listed.values()], focuses)


def in_focus(around: Surroundings) -> Sequence[Focus]:
    """What the agent has in focus, and what nobody in particular has: a server that was not told for whom it speaks
    guides the hooks of all."""
    names = list(dict.fromkeys(current_owner(around.project, agent) for agent in (None, around.agent)))
    facets = around.reader.facets("focus", names)
    if not any(facet.get("active_focus") for facet in facets.values()):
        return ()
    from kingly_memory.router.attending import focuses

    return focuses.of_facets(facets, around.reader, around.project, around.agent)


def threads_of(around: Surroundings, memories: Sequence[Memory], focuses: Sequence[Focus]) -> Mapping[str, Thread]:
    """By the id of a memory; empty where every thread is as any other."""
    if not focuses and not _are_set_apart(around, memories):
        return MappingProxyType({})
    from kingly_memory.router.threads.views import threads_of as seen

    about = [one.topic for one in focuses]
    return seen(around.reader, around.project, memories, around.now_s, about=about)


def wording_of(memory: Memory) -> str:
    """What of a memory is held against a prompt."""
    return f"{memory.title} {memory.content}" if memory.title else memory.content


def _are_set_apart(around: Surroundings, memories: Sequence[Memory]) -> bool:
    contexts = {memory.scope.context_id for memory in memories}
    owners: list[str] = [memory.id for memory in memories]
    owners += [owner(around.project, one) for one in contexts if one is not None]
    return any(
        _tells(facet.get(field), field)
        for name, field in APART.items()
        for facet in around.reader.facets(name, owners).values()
    )


def _tells(value: object, field: str) -> bool:
    """A weight of 0 does, no session that left it unused does not."""
    return value is not None if field == "weight" else bool(value)
