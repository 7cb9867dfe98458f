"""Verified retrieval: what a search finds is checked before it is answered (seed 000, priority 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kingly_memory import validation
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput, LanguageModelError
from kingly_memory.model_calls import TIMEOUT_S, answer
from kingly_memory.models import REMOTE_ABOVE, Hit, Memory, Query, Results
from kingly_memory.ports import Clock, LanguageModel, Searcher
from kingly_memory.retrieval.claims import CLAIM_READ, Sources, cross_verify, most_similar
from kingly_memory.retrieval.repeats import groups
from kingly_memory.retrieval.verification import (
    Basis,
    Judge,
    Verification,
    VerificationStatus,
    VerifiedMemory,
    VerifiedResults,
    question,
    retrieval_score,
    undecided,
    verdict,
)
from kingly_memory.text.writing import stems

POOL = 4
"""How many times as many candidates are checked as are answered (seed 000)."""
MOST_OTHERS = 5
"""Other memories that one is held against (seed 000)."""
SOURCES_LIMIT = 64
SOURCES_CHARACTERS = 262_144
GIVE_UP_AFTER = 3
"""Questions in a row without an answer, after which a model is not asked again in this search."""


class VerifiedRetriever:
    """Searches for four times as many memories as are wanted, and says of each whether it holds.

    A memory is judged by the language model when there is one, else by its words, numbers and negations; and where
    those say nothing about it, by its own confidence. Memories that may not leave this machine (significance 0.3 and
    less) are shown to a model only if `model_is_here`.
    """

    def __init__(
        self,
        searcher: Searcher,
        language_model: LanguageModel | None = None,
        verification_threshold: float = 0.7,
        *,
        clock: Clock | None = None,
        verification_s: float = 30.0,
        llm_at_once: int = 4,
        model_is_here: bool = False,
    ) -> None:
        self._searcher = searcher
        self._model = language_model
        self._threshold = validation.share("verification_threshold", verification_threshold)
        if clock is None:
            from kingly_memory.adapters.clock import SystemClock

            clock = SystemClock()
        self._clock = clock
        self._verification_s = verification_s
        self._llm_at_once = llm_at_once
        self._model_is_here = model_is_here

    async def retrieve_verified(
        self,
        query: Query,
        top_k: int = 5,
        ground_truth_sources: Sequence[str] | None = None,
        cross_verify: bool = True,
        *,
        fold: bool = True,
    ) -> VerifiedResults:
        """At most `top_k` memories, by status. They are held against the sources, if any are given, else against the
        memories most like them, else against nothing. Of several that say the same the surest is checked for all,
        unless `fold` is off. Raises InvalidInput; never because of the model or the remote.
        """
        wanted = validation.count("top_k", top_k, most=validation.MOST_VERIFIED)
        sources = _texts(ground_truth_sources)
        began = self._clock.monotonic()
        found = await self._searcher.find(replace(query, limit=wanted * POOL))
        if fold:
            found = await asyncio.to_thread(_folded, found)
        results = await self.verify(found, query.text, wanted, sources, cross_verify)
        took_ms = round((self._clock.monotonic() - began) * 1000, 2)
        return replace(results, metadata={**results.metadata, "took_ms": took_ms})

    async def verify(
        self,
        found: Results,
        query: str,
        top_k: int = 5,
        ground_truth_sources: Sequence[str] | None = None,
        cross_verify: bool = True,
    ) -> VerifiedResults:
        """The same for what a search has found already, however it was found; nothing else is looked at."""
        sources = _texts(ground_truth_sources)
        basis = Basis.GROUND_TRUTH if sources else Basis.CROSS_VERIFY if cross_verify else Basis.NONE
        began = self._clock.monotonic()
        memories = [hit.memory for hit in found]
        deadline_s = began + self._verification_s
        prepared = await asyncio.to_thread(self._prepared, memories, basis, sources, deadline_s)
        checked = await self._checked(prepared, deadline_s)
        of_mode: dict[str, Any] = {"mode": found.mode and str(found.mode), "mode_reason": found.mode_reason}
        of_mode = {} if found.mode is None else {**of_mode, "excluded": dict(found.excluded)}
        return VerifiedResults.of(
            [
                VerifiedMemory(hit.memory, verification, retrieval_score(hit))
                for hit, verification in zip(found, checked, strict=True)
            ],
            top_k=top_k,
            query=query,
            basis=basis,
            source=found.source.value,
            failures=dict(found.failures),
            asked=found.asked,
            repaired=dict(found.repaired),
            folded={memory_id: list(others) for memory_id, others in found.folded.items()},
            took_ms=round(found.took_ms + (self._clock.monotonic() - began) * 1000, 2),
            **of_mode,
        )

    def _prepared(
        self, memories: Sequence[Memory], basis: Basis, sources: Sequence[str], deadline_s: float
    ) -> list[Verification | str]:
        """For each memory the verdict, or the question that a model is to answer."""
        checker = Sources(sources)
        of_id: dict[str, Memory] = {memory.id: memory for memory in memories}
        about: dict[str, set[str]] = {memory.id: stems(memory.content[:CLAIM_READ]) for memory in memories}
        prepared: list[Verification | str] = []
        for memory in memories:
            may_be_shown = self._may_be_shown(memory)
            if self._clock.monotonic() >= deadline_s:
                prepared.append(undecided("it was not checked, since the time was over", Judge.NONE))
            elif basis is Basis.NONE:
                reason = "there was nothing to hold it against"
                prepared.append(Verification(VerificationStatus.UNVERIFIABLE, memory.confidence, reason))
            elif basis is Basis.GROUND_TRUTH and may_be_shown:
                prepared.append(question(_statement(memory), checker.passages(memory.content), basis))
            elif basis is Basis.GROUND_TRUTH:
                prepared.append(checker.verify(memory.content, self._threshold))
            else:
                others = [of_id[memory_id] for memory_id in most_similar(memory.id, about, MOST_OTHERS)]
                shown = [_statement(other) for other in others if may_be_shown and self._may_be_shown(other)]
                if shown:
                    prepared.append(question(_statement(memory), shown, basis))
                else:
                    prepared.append(cross_verify(memory, others, self._threshold))
        return prepared

    def _may_be_shown(self, memory: Memory) -> bool:
        return self._model is not None and (self._model_is_here or memory.significance > REMOTE_ABOVE)

    async def _checked(self, prepared: Sequence[Verification | str], deadline_s: float) -> list[Verification]:
        """The verdicts that are there already, and the model's: so many questions at once, each with its time, all
        within one deadline. What it leaves open is uncertain."""
        turns, unanswered = asyncio.Semaphore(self._llm_at_once), 0

        async def verdict_on(item: Verification | str) -> Verification:
            nonlocal unanswered
            if isinstance(item, Verification) or self._model is None:
                return item if isinstance(item, Verification) else undecided("there is no model")
            async with turns:
                left_s = deadline_s - self._clock.monotonic()
                if unanswered >= GIVE_UP_AFTER:
                    return undecided("the model was not asked, since it left others unanswered")
                if left_s <= 0:
                    return undecided("the model was not asked, since the time was over")
                try:
                    reply = await answer(self._model, item, min(TIMEOUT_S, left_s), self._clock)
                except LanguageModelError as error:
                    unanswered += 1
                    return undecided(f"the model gave no answer: {error.reason}")
                unanswered = 0
                return verdict(reply)

        return list(await asyncio.gather(*map(verdict_on, prepared)))


def _folded(results: Results) -> Results:
    """Each statement once, in the place of its first hit: the surest memory that makes it, of equals the latest."""
    hits: list[Hit] = []
    folded: dict[str, tuple[str, ...]] = {}
    for group in groups([hit.memory for hit in results]):
        repeated = [results[index] for index in group]
        surest = max(repeated, key=lambda hit: (hit.memory.confidence, hit.memory.updated_at))
        hits.append(replace(surest, relevance=max(hit.relevance for hit in repeated)))
        if len(repeated) > 1:
            folded[surest.memory.id] = tuple(hit.memory.id for hit in repeated if hit is not surest)
    return replace(results, hits=tuple(hits), folded={**results.folded, **folded})


def _statement(memory: Memory) -> str:
    return f"{memory.title}: {memory.content}" if memory.title else memory.content


def _texts(sources: object) -> tuple[str, ...]:
    """The sources that say anything. Raises InvalidInput when some are given and none does, or too much of them."""
    if sources is None:
        return ()
    given = validation.listed("ground_truth", sources, str)
    texts = tuple(validation.mended(text) for text in given if text.strip())
    if given and not texts:
        raise InvalidInput("ground_truth", "holds no text; give the sources, or leave it out")
    size = sum(map(len, texts))
    if len(texts) > SOURCES_LIMIT or size > SOURCES_CHARACTERS:
        problem = f"{len(texts)} sources with {size:,} characters are too many"
        raise InvalidInput(
            "ground_truth", f"{problem}; give the passages that matter, {SOURCES_CHARACTERS:,} characters at most"
        )
    return texts
