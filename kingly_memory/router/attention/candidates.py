"""Which memories may be put before somebody: what a search finds or a list holds, what is in focus, and their threads;
and putting them there, so that a session sees each of them once.

Hooks and routers share this. It is synchronous, and loads nothing of focuses or threads where there are none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from kingly_memory import validation
from kingly_memory.attention.injection import FRAME_TOKENS, Budget, Injection, NoteCandidate, inject, priority
from kingly_memory.attention.pertinence import LEAST, common, pertinence, prompt_words
from kingly_memory.cognition.owners import owner, whose_focus
from kingly_memory.dataclass import NamedTuple, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, Memory, MemoryStatus, Origin, Query
from kingly_memory.router.search.local import HERE, LEAST_BUDGET_S, spelt
from kingly_memory.text.passages import LONGEST, PASSAGE
from kingly_memory.text.writing import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    from kingly_memory.attention.focus import Focus, Thread
    from kingly_memory.ports import InjectionLog, Row, StoreReader
    from kingly_memory.router.search.local import LocalSearch

LOOKED_AT = 20
"""Memories that are looked at for one prompt."""
_FOCUSED = 30
"""The same where something is in focus; beyond the first 20 only what that lifts. 40 put hardly any more evidence into
1,000 tokens, and cost a millisecond."""
_SURE = 0.4
"""Relevance from which one telling word that a memory shares with the prompt is enough to put it in."""
_STRONGEST, _EACH = 3, 10
"""Of the threads that so many focuses name, the strongest, so many of the latest memories come beside a prompt."""
_MOST_CONTEXTS = 10
"""Of a thread into which others were merged."""
_SET_APART = {"attention": ["weight"], "ratings": ["ratings"], "thread": ["into", "holds"]}
"""Facets, and fields of them, that give a thread figures of its own."""
_LIVE = (MemoryStatus.LIVE,)


class Surroundings(NamedTuple):
    """Where candidates are looked for, for whom, and when (Unix seconds)."""

    reader: StoreReader
    layer: LocalSearch
    space: str
    agent: str | None
    now_s: float


class Gathered(NamedTuple):
    """The candidates, best first, and what is in focus. `asked` is what was looked up, where that was taken out of a
    longer prompt."""

    candidates: Sequence[NoteCandidate]
    focuses: Sequence[Focus] = ()
    asked: str | None = None


def for_prompt(prompt: str, around: Surroundings, budget_s: float) -> Gathered:
    """What the prompt is about, within `budget_s`. Raises StoreError."""
    began_s = time.monotonic()
    focuses = in_focus(around)
    query = validation.query(prompt, space=around.space, wide=True, limit=LOOKED_AT)
    wording = around.layer.word(query, budget_s=budget_s)
    left_s, most = max(began_s + budget_s - time.monotonic(), LEAST_BUDGET_S), _FOCUSED if focuses else LOOKED_AT
    hits = around.layer.search(query, now_s=around.now_s, budget_s=left_s, wording=wording, most=most).hits
    by_id = {hit.memory.id: hit for hit in hits}
    for memory in _of_named_threads(_strongest(focuses), around):
        by_id.setdefault(memory.id, Hit(memory, 0.0, HERE))
    first = {hit.memory.id for hit in hits[:LOOKED_AT]}
    ranked = _newer_first(sorted(by_id.values(), key=lambda hit: hit.relevance, reverse=True))
    threads = _threads_of(around, [hit.memory for hit in ranked], focuses)
    meant = prompt_words(spelt(query, wording.repaired).text)
    fits: dict[str, float] = {}
    for hit in reversed(ranked):  # what says a fact anew fits as well as what it takes the place of, which is behind it
        title, content = hit.memory.title, hit.memory.content
        texts = [text for text in (f"{title} {content}" if title else content, _passage(hit)) if text]
        own = max(pertinence(meant, text) for text in texts)
        if own < LEAST and hit.relevance >= _SURE and any(common(meant, text)[0] for text in texts):
            own = LEAST
        fits[hit.memory.id] = max(own, fits.get(hit.memory.id, 0.0))
        if hit.superseded_by is not None:
            fits[hit.superseded_by] = max(fits[hit.memory.id], fits.get(hit.superseded_by, 0.0))
    candidates = [
        NoteCandidate(
            hit.memory,
            fits[hit.memory.id],
            hit.relevance,
            threads.get(hit.memory.id),
            _passage(hit),
            _is_synced(hit.memory, around),
            hit.superseded_by,
        )
        for hit in ranked
        if hit.memory.id in first or priority(hit.relevance, threads.get(hit.memory.id), focuses).boost
    ]
    return Gathered(candidates, focuses, query.asked)


def for_start(memories: Iterable[Memory], around: Surroundings) -> Gathered:
    """Memories that nothing was asked of, in their order, and the threads that are in focus."""
    focuses = in_focus(around)
    listed = {memory.id: memory for memory in memories}
    for memory in _of_named_threads(_strongest(focuses), around):
        listed.setdefault(memory.id, memory)
    threads = _threads_of(around, list(listed.values()), focuses)
    candidates = [
        NoteCandidate(
            hit.memory,
            thread=threads.get(hit.memory.id),
            is_synced=_is_synced(hit.memory, around),
            superseded_by=hit.superseded_by,
        )
        for hit in _newer_first([Hit(memory, 0.0, HERE) for memory in listed.values()])
    ]
    return Gathered(candidates, focuses)


def _newer_first(hits: Sequence[Hit]) -> Sequence[Hit]:
    if len(hits) < 2:  # noqa: PLR2004  # a pair
        return hits
    from kingly_memory.retrieval.repeats import newer_first

    return newer_first(hits)


def _is_synced(memory: Memory, around: Surroundings) -> bool:
    """Copies of what a remote answered to searches are not."""
    if memory.origin is not Origin.REMOTE:
        return False
    row = around.reader.row(memory.id)
    return row is not None and row.status is MemoryStatus.LIVE


def in_focus(around: Surroundings) -> Sequence[Focus]:
    if not (around.reader.facet("focus", whose_focus(around.space)) or {}).get("active_focus"):
        return ()
    from kingly_memory.router.attention.focus import applying, as_merged

    return as_merged(around.reader, around.space, applying(around.reader, around.space))


def _passage(hit: Hit) -> str | None:
    """The part of a long text that it was found by; None for one that is its own passage."""
    if PASSAGE not in hit.scores:
        return None
    text, begin = hit.memory.content, int(hit.scores[PASSAGE])
    end = begin + LONGEST
    return f"{'…' if begin else ''}{text[begin:end].strip()}{'…' if end < len(text) else ''}"


def _threads_of(around: Surroundings, memories: Sequence[Memory], focuses: Sequence[Focus]) -> Mapping[str, Thread]:
    """By the id of a memory; empty where every thread is like any other."""
    contexts = {memory.scope.context_id for memory in memories}
    owners: list[str] = [memory.id for memory in memories]
    owners += [owner(around.space, one) for one in contexts if one is not None]
    is_apart = any(
        facet.get(field) is not None if field == "weight" else facet.get(field)  # a weight of 0 sets a thread apart
        for name, fields in ({} if focuses else _SET_APART).items()
        for facet in around.reader.facets(name, owners).values()
        for field in fields
    )
    if not focuses and not is_apart:
        return MappingProxyType({})
    from kingly_memory.router.threads.seen import threads_of

    return threads_of(around.reader, around.space, memories, around.now_s, about=[focus.topic for focus in focuses])


# --- what is in focus -------------------------------------------------------------------------------------------------


def _strongest(focuses: Sequence[Focus]) -> Sequence[Focus]:
    """The latest first among equals."""
    weighty = [focus for focus in focuses if focus.weight > 0]
    return sorted(weighty, key=lambda one: (one.weight, one.set_at), reverse=True)[:_STRONGEST]


def _of_named_threads(focuses: Sequence[Focus], around: Surroundings) -> Iterator[Memory]:
    """The latest memories of the threads that a focus names."""
    for focus in focuses:
        for row in _latest_of(focus.topic, around):
            if row.status is MemoryStatus.LIVE and around.layer.is_alive(row, around.now_s):
                yield row.memory


def _latest_of(name: str, around: Surroundings) -> list[Row]:
    """The latest rows of the thread of that name; the memory with that id, where it belongs to no context."""
    from kingly_memory.router.thread_lookup import members

    reader = around.reader
    anything = Query("", around.space, wide=True, without_tags=validation.unsought(None))
    row = reader.row(name)
    if row is not None and anything.admits(row.memory):
        return [row]
    contexts = list(members(reader, around.space, name))[:_MOST_CONTEXTS]
    rows = [row for one in contexts for row in reader.page(replace(anything, context_id=one), _LIVE, _EACH, None)]
    return sorted(rows, key=lambda row: row.position, reverse=True)[:_EACH]


# --- putting them in --------------------------------------------------------------------------------------------------


def injected(
    prompt: str,
    around: Surroundings,
    *,
    budget: Budget,
    budget_s: float,
    session: str | None,
    log: InjectionLog,
) -> Injection:
    """What fits the prompt and the session has not seen yet. Takes about `budget_s`. Raises StoreError."""
    began_s = time.perf_counter()
    gathered = for_prompt(prompt, around, budget_s)
    injection = inject(
        gathered.candidates,
        agent=around.agent,
        budget=budget,
        least_pertinence=LEAST,
        focuses=gathered.focuses,
        seen={} if session is None else log.of(session),
    )
    if session is not None:
        account = injection.account("prompt", (time.perf_counter() - began_s) * 1000)
        log.note(session, injection.put_in, around.now_s, account)
    return injection._replace(asked=gathered.asked)


def checked(prompt: object, budget_tokens: object, session: object) -> tuple[str, Budget, str | None]:
    """What a caller asks for. Raises InvalidInput."""
    if not isinstance(prompt, str):
        raise InvalidInput("prompt", f"expected text, not {type(prompt).__name__}")
    if not prompt.strip():
        raise InvalidInput("prompt", "is empty; say what is about to be asked")
    tokens = room("budget_tokens", budget_tokens)
    usual = Budget()
    budget = usual._replace(tokens=tokens, characters=max(usual.characters, tokens * CHARACTERS_PER_TOKEN))
    return prompt, budget, validation.label("session", session)


def room(field: str, tokens: object) -> int:
    """A budget in which a note may find room. Raises InvalidInput."""
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens <= FRAME_TOKENS:
        raise InvalidInput(field, f"{validation.shown(tokens)} is no room: the frame alone takes {FRAME_TOKENS} tokens")
    return validation.count(field, tokens, least=FRAME_TOKENS + 1, most=validation.MOST_TOKENS)
