"""The names of seed 000 (ALMA) as it writes them: modes, decay, verified retrieval and compression, without `await`.

`RetrievalEngine` searches a `SyncMemoryRouter`; an `llm_client` is any object with `complete(prompt) -> str`. Where the
results differ from the seed's sample code, docs/deviations.md says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Protocol, TypeVar

from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.dataclass import dataclass
from kingly_memory.lifecycle import compression, decay_manager
from kingly_memory.lifecycle.compression import CompressedMemory, CompressionLevel
from kingly_memory.lifecycle.decay_manager import MemoryFacts, MemoryStrength, utc_now
from kingly_memory.models import Memory, RetrievalMode
from kingly_memory.retrieval import modes
from kingly_memory.retrieval.verification import (
    Verification,
    VerificationStatus,
    VerifiedMemory,
    VerifiedResults,
)
from kingly_memory.router.search import verified

__all__ = [
    "MODE_CONFIGS",
    "CompressedMemory",
    "CompressionLevel",
    "DecayManager",
    "MemoryCompressor",
    "MemoryStrength",
    "ModeConfig",
    "RetrievalEngine",
    "RetrievalMode",
    "Verification",
    "VerificationStatus",
    "VerifiedMemory",
    "VerifiedResults",
    "VerifiedRetriever",
    "infer_mode_from_query",
]

T = TypeVar("T")


class LlmClient(Protocol):
    """What the seed calls `llm_client`."""

    def complete(self, prompt: str) -> str: ...


# --- priority 1: modes ------------------------------------------------------------------------------------------------


@dataclass
class ModeConfig:
    """What a mode means; `weights` are the shares of similarity, recency, success and confidence, 1 in all."""

    top_k: int
    min_confidence: float
    weights: dict[str, float]
    include_anti_patterns: bool
    diversity_factor: float
    prioritize_failures: bool = False
    cluster_similar: bool = False
    exact_match_boost: float = 1.0


def _config(mode: RetrievalMode) -> ModeConfig:
    known = modes.MODES[mode]
    return ModeConfig(
        known.top_k,
        known.min_confidence,
        known.weights._asdict(),
        known.include_anti_patterns,
        known.diversity_factor,
        known.prioritize_failures,
        known.cluster_similar,
        known.exact_match_boost,
    )


MODE_CONFIGS: dict[RetrievalMode, ModeConfig] = {
    mode: _config(mode) for mode in RetrievalMode if mode is not RetrievalMode.SIMILARITY
}
"""A copy: changing it changes no search."""


def infer_mode_from_query(query: str) -> RetrievalMode:
    """The mode that the question's words ask for, `precise` when none does."""
    return modes.inferred(query).mode


class RetrievalEngine:
    """Retrieval of seed 000 over a memory of ours. Keyword arguments are those of `SyncMemoryRouter.search`, but that
    `top_k` is how many memories are wanted."""

    def __init__(self, memory: SyncMemoryRouter) -> None:
        self.memory = memory

    def retrieve(self, query: str, top_k: int = 5, **kwargs: Any) -> list[Memory]:
        """The memories that answer a query, best first."""
        return [hit.memory for hit in self.memory.search(query, limit=top_k, **kwargs)]

    def retrieve_with_mode(self, query: str, mode: RetrievalMode | None = None, **kwargs: Any) -> list[Memory]:
        """The same for a purpose, which the question tells when no mode is named."""
        chosen = infer_mode_from_query(query) if mode is None else mode
        return self.retrieve(query, kwargs.pop("top_k", modes.MODES[chosen].top_k), mode=chosen, **kwargs)


# --- priority 2: decay ------------------------------------------------------------------------------------------------


class Storage(Protocol):
    """The five methods that the seed asks of a storage."""

    def get_memory_strength(self, memory_id: str) -> MemoryStrength | None: ...
    def update_memory_strength(self, strength: MemoryStrength) -> None: ...
    def get_all_memory_ids(self, project_id: str | None, agent: str | None) -> list[str]: ...
    def archive_memory(self, memory_id: str) -> None: ...
    def delete_memory(self, memory_id: str) -> None: ...


class DecayManager(decay_manager.DecayManager):
    """Decay over a storage with the seed's five methods. One that has `get_memory_facts` too says when a memory was
    last used; without it, a memory whose strength nobody has kept begins to fade when it is first looked at."""

    def __init__(self, storage: Storage, default_half_life: int = 30) -> None:
        super().__init__(_Known(storage), default_half_life)
        self.storage = storage


class _Known:
    """A storage of the seed's, with the method that ours needs besides."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._first_seen: dict[str, datetime] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get_memory_facts(self, memory_id: str) -> MemoryFacts | None:
        known = getattr(self._storage, "get_memory_facts", None)
        if known is not None:
            found: MemoryFacts | None = known(memory_id)
            return found
        # Each memory is a category of its own: the seed names no categories, so none can be the last of one.
        return MemoryFacts(self._first_seen.setdefault(memory_id, utc_now()))


# --- priority 3: verified retrieval -----------------------------------------------------------------------------------


class VerifiedRetriever:
    """Two-stage retrieval over a `RetrievalEngine`."""

    def __init__(
        self,
        retrieval_engine: RetrievalEngine,
        llm_client: LlmClient | None = None,
        verification_threshold: float = 0.7,
    ) -> None:
        self.retrieval_engine = retrieval_engine
        self.llm = llm_client
        self.verification_threshold = verification_threshold

    def retrieve_verified(
        self,
        query: str,
        ground_truth_sources: Sequence[str] | None = None,
        cross_verify: bool = True,
        **retrieval_kwargs: Any,
    ) -> VerifiedResults:
        """Memories by what came of checking them against the sources, or against each other."""
        wanted = int(retrieval_kwargs.pop("top_k", 5))
        memory = self.retrieval_engine.memory
        found = memory.search(query, limit=wanted * verified.POOL, **retrieval_kwargs)
        checker = verified.VerifiedRetriever(memory, _model(self.llm), self.verification_threshold)  # type: ignore[arg-type]  # searched already
        return _waited(checker.verify(found, query, wanted, ground_truth_sources, cross_verify))


# --- priority 4: compression ------------------------------------------------------------------------------------------


class MemoryCompressor:
    """Compression by an `llm_client`, else by rules."""

    def __init__(self, llm_client: LlmClient | None = None) -> None:
        self.llm = llm_client
        self._compressor = compression.MemoryCompressor(_model(llm_client))

    def compress_outcome(
        self, verbose_outcome: str, level: CompressionLevel = CompressionLevel.MEDIUM
    ) -> CompressedMemory:
        return _waited(self._compressor.compress_outcome(verbose_outcome, level))

    def compress_conversation(self, conversation: str, focus: str | None = None) -> CompressedMemory:
        return _waited(self._compressor.compress_conversation(conversation, focus))

    def extract_heuristic(self, experiences: Sequence[str]) -> str | None:
        return _waited(self._compressor.extract_heuristic(experiences))

    def deduplicate_knowledge(self, new_knowledge: str, existing_knowledge: Sequence[str]) -> str | None:
        return _waited(self._compressor.deduplicate_knowledge(new_knowledge, existing_knowledge))


class _Model:
    """An `llm_client` as a language model of ours."""

    def __init__(self, client: LlmClient) -> None:
        self._client = client

    async def complete(self, prompt: str, *, timeout_s: float) -> str:
        """The caller ends the wait at its deadline; a client that blocks goes on in its thread until then."""
        return await asyncio.to_thread(self._client.complete, prompt)


def _model(client: LlmClient | None) -> _Model | None:
    return None if client is None else _Model(client)


def _waited(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where an event loop runs already: on a thread of its own."""
    with ThreadPoolExecutor(max_workers=1) as alone:
        return alone.submit(asyncio.run, work).result()
