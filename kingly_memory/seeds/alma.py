"""The names of seed 000 (ALMA) as it writes them: modes, decay, verified retrieval and compression, without `await`.

`RetrievalEngine` searches a `SyncMemoryRouter`; an `llm_client` is any object with `complete(prompt) -> str`. Where the
results differ from the seed's sample code, docs/deviations.md says why.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from kingly_memory import validation
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.dataclass import asdict, dataclass, field
from kingly_memory.errors import InvalidInput, StoreError
from kingly_memory.lifecycle import compression, decay
from kingly_memory.lifecycle.compression import CompressedMemory, CompressionLevel
from kingly_memory.lifecycle.lifetimes import PROTECTED_FROM
from kingly_memory.models import JsonObject, Memory, RetrievalMode
from kingly_memory.observe import log
from kingly_memory.retrieval import modes
from kingly_memory.retrieval.modes import ModeConfig
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
    "MemoryFacts",
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

FORGET_BELOW, WEAK_BELOW = decay.SEEDS_RULES.forget_threshold, decay.SEEDS_RULES.weak_below


class LlmClient(Protocol):
    """What the seed calls `llm_client`."""

    def complete(self, prompt: str) -> str: ...


# --- priority 1: modes ------------------------------------------------------------------------------------------------


MODE_CONFIGS: dict[RetrievalMode, ModeConfig] = {
    mode: config for mode, config in modes.MODES.items() if mode is not RetrievalMode.SIMILARITY
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


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class MemoryStrength:
    """How alive one memory is. Raises InvalidInput on figures that make no sense; naive times are taken as UTC.

    `initial_strength` (0 to 1) is what fading begins from. The seed stores it and never reads it; at 1.0, its default,
    there is no difference. Wherever `now` is left out, it is the present.
    """

    memory_id: str
    initial_strength: float = 1.0
    decay_half_life_days: float = 30
    created_at: datetime = field(default_factory=utc_now)
    last_accessed: datetime = field(default_factory=utc_now)
    access_count: int = 0
    reinforcement_events: list[datetime] = field(default_factory=list)
    explicit_importance: float = 0.5

    def __post_init__(self) -> None:
        self.created_at = _moment("created_at", self.created_at)
        self.last_accessed = _moment("last_accessed", self.last_accessed)
        self.reinforcement_events = [_moment("reinforcement_events", one) for one in self.reinforcement_events]
        self.current_strength(self.last_accessed)

    def current_strength(self, now: datetime | None = None) -> float:
        """0 to 1, at that time. The fields are anybody's to change, so they are checked at every use."""
        vitals = decay.Vitals(
            self.last_accessed.timestamp(),
            validation.share("explicit_importance", self.explicit_importance),
            validation.count("access_count", self.access_count, least=0, most=2**63 - 1),
            decay.Strength(tuple(one.timestamp() for one in self.reinforcement_events)),
            validation.share("initial_strength", self.initial_strength),
            decay.half_life("decay_half_life_days", self.decay_half_life_days),
        )
        return decay.current(vitals, _or_now(now).timestamp())

    def access(self, now: datetime | None = None) -> None:
        """Note that the memory was found and used. A clock that was set back does not take a use back."""
        self.last_accessed = max(self.last_accessed, _or_now(now))
        self.access_count += 1

    def reinforce(self, now: datetime | None = None) -> None:
        """Note that the memory proved useful. The latest ten such events are kept."""
        at = _or_now(now)
        self.last_accessed = max(self.last_accessed, at)
        self.reinforcement_events = sorted([*self.reinforcement_events, at])[-decay.KEPT_REINFORCEMENTS :]

    def should_forget(self, threshold: float = FORGET_BELOW, *, now: datetime | None = None) -> bool:
        """True below the threshold, not at it."""
        return self.current_strength(now) < threshold

    def recoverable(
        self, least: float = FORGET_BELOW, below: float = WEAK_BELOW, *, now: datetime | None = None
    ) -> bool:
        """True for what is weak but not forgettable: from `least` to just below `below`. The seed begins at 0.05, where
        a memory would be both."""
        return least <= self.current_strength(now) < below

    def to_json(self) -> JsonObject:
        """Its fields; times as ISO 8601, which the constructor takes too."""
        times = {"created_at": self.created_at.isoformat(), "last_accessed": self.last_accessed.isoformat()}
        return {**asdict(self), **times, "reinforcement_events": [at.isoformat() for at in self.reinforcement_events]}


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What a storage knows of a memory whose strength nobody has kept yet, and what protects it.

    `category` is whatever of which one memory has to stay, such as its type.
    """

    created_at: datetime
    last_used: datetime | None = None
    importance: float = 0.5
    category: str = ""
    pinned: bool = False


class Storage(Protocol):
    """The five methods that the seed asks of a storage. Each raises StoreError or OSError when it cannot do its part.

    One that has `get_memory_facts(memory_id) -> MemoryFacts | None` too says when a memory was last used, and what
    protects it; without it, a memory whose strength nobody has kept begins to fade when it is first looked at.
    """

    def get_memory_strength(self, memory_id: str) -> MemoryStrength | None:
        """What was last handed to `update_memory_strength`, None when nothing was."""

    def update_memory_strength(self, strength: MemoryStrength) -> None:
        """Keep it. When this returns, it is there for every other process and after a crash."""

    def get_all_memory_ids(self, project_id: str | None, agent: str | None) -> list[str]:
        """The ids of the memories of that project and agent that are neither archived nor deleted, each once. None
        means every project, or every agent."""

    def archive_memory(self, memory_id: str) -> None:
        """Copy memory and strength to where they can be restored from. To return is to say that the copy is durable; a
        second time changes nothing."""

    def delete_memory(self, memory_id: str) -> None:
        """Take the memory away from those that are searched. Its copy in the archive stays."""


class DecayManager:
    """Strengths of the memories in a storage: noting uses, finding what has faded, forgetting it. Raises InvalidInput
    for an id that the storage does not know, and for a half-life that is not above 0."""

    def __init__(
        self, storage: Storage, default_half_life: float = 30, *, now: Callable[[], datetime] = utc_now
    ) -> None:
        self.storage = storage
        self._default_half_life = decay.half_life("default_half_life", default_half_life)
        self._now = now
        self._first_seen: dict[str, datetime] = {}

    def get_strength(self, memory_id: str) -> MemoryStrength:
        """The strength that is kept. When there is none, one that fades from the memory's own last use is begun and
        kept: what was never looked at is not young."""
        strength = self._known(memory_id)
        if strength is None:
            raise InvalidInput("memory_id", f"no memory has the id {memory_id!r}; list those there are")
        if self.storage.get_memory_strength(memory_id) is None:
            self.storage.update_memory_strength(strength)
        return strength

    def record_access(self, memory_id: str) -> None:
        strength = self.get_strength(memory_id)
        strength.access(self._now())
        self.storage.update_memory_strength(strength)

    def reinforce_memory(self, memory_id: str) -> None:
        strength = self.get_strength(memory_id)
        strength.reinforce(self._now())
        self.storage.update_memory_strength(strength)

    def get_forgettable_memories(
        self, project_id: str | None, agent: str | None, threshold: float = FORGET_BELOW
    ) -> list[str]:
        """The ids of those below the threshold, weakest first, protected ones among them. Writes nothing."""
        least = validation.share("threshold", threshold)
        return [memory_id for memory_id, strength in self._weakest_first(project_id, agent) if strength < least]

    def get_recoverable_memories(self, project_id: str | None, agent: str | None) -> list[tuple[str, float]]:
        """The weak ones that a use brings back, with their strengths, weakest first. Writes nothing."""
        return [one for one in self._weakest_first(project_id, agent) if FORGET_BELOW <= one[1] < WEAK_BELOW]

    def smart_forget(
        self,
        project_id: str | None,
        agent: str | None,
        target_count: int | None = None,
        *,
        threshold: float = FORGET_BELOW,
        dry_run: bool = False,
    ) -> list[str]:
        """Archive, then delete, what has faded: the weakest first, at most `target_count` (None for all). Returns the
        ids of those that went; with `dry_run` of those that would, and then nothing is written.

        Importance of 0.8 or more and pins protect a memory, and of each category in the scope one stays, the strongest.
        One whose archiving fails is kept and logged, and no other is taken in its place; one that was used meanwhile is
        kept too.
        """
        everything = self.storage.get_all_memory_ids(project_id, agent)
        facts = {one: fact for one in everything if (fact := self._facts(one)) is not None}
        by_category = Counter(fact.category for fact in facts.values())
        planned = []
        for memory_id in self.get_forgettable_memories(project_id, agent, threshold):
            fact, strength = facts.get(memory_id), self._known(memory_id)
            if fact is None or strength is None or fact.pinned or by_category[fact.category] == 1:
                continue
            if max(fact.importance, strength.explicit_importance) < PROTECTED_FROM:
                by_category[fact.category] -= 1
                planned.append(memory_id)
        if target_count is not None:
            planned = planned[: validation.count("target_count", target_count, least=0, most=2**62)]
        return planned if dry_run else [memory_id for memory_id in planned if self._forgotten(memory_id, threshold)]

    def _forgotten(self, memory_id: str, threshold: float) -> bool:
        strength = self._known(memory_id)
        if strength is None or not strength.should_forget(threshold, now=self._now()):
            return False  # another process has taken it away or used it since
        try:
            self.storage.archive_memory(memory_id)
            self.storage.delete_memory(memory_id)
        except (StoreError, OSError) as error:
            log.warning("memory %s is kept, for it could not be archived and deleted: %s", memory_id, error)
            return False
        return True

    def _weakest_first(self, project_id: str | None, agent: str | None) -> list[tuple[str, float]]:
        """One that another process has taken away meanwhile is left out."""
        now = self._now()
        strengths = (self._known(memory_id) for memory_id in self.storage.get_all_memory_ids(project_id, agent))
        faded = [(strength.memory_id, strength.current_strength(now)) for strength in strengths if strength is not None]
        return sorted(faded, key=lambda one: (one[1], one[0]))

    def _known(self, memory_id: str) -> MemoryStrength | None:
        """The strength that is kept, else one that fades from the memory's own last use; None for no memory."""
        stored = self.storage.get_memory_strength(memory_id)
        facts = self._facts(memory_id) if stored is None else None
        if facts is None:
            return stored
        return MemoryStrength(
            memory_id,
            decay_half_life_days=self._default_half_life,
            created_at=facts.created_at,
            last_accessed=facts.created_at if facts.last_used is None else facts.last_used,
            explicit_importance=facts.importance,
        )

    def _facts(self, memory_id: str) -> MemoryFacts | None:
        facts_of: Callable[[str], MemoryFacts | None] | None = getattr(self.storage, "get_memory_facts", None)
        if facts_of is not None:
            return facts_of(memory_id)
        return MemoryFacts(self._first_seen.setdefault(memory_id, self._now()))


def _moment(name: str, value: object) -> datetime:
    checked = validation.moment(name, value)
    if checked is None:
        raise InvalidInput(name, "is missing")
    return checked


def _or_now(now: datetime | None) -> datetime:
    return utc_now() if now is None else _moment("now", now)


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
        results = memory.search(query, limit=wanted * verified.POOL, **retrieval_kwargs)
        checker = verified.VerifiedRetriever(memory, _model(self.llm), self.verification_threshold)  # type: ignore[arg-type]  # searched already
        return _waited(checker.verify(results, query, wanted, ground_truth_sources, cross_verify))


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
