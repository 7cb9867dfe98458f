"""Memories by tier: placed where they are asked to be, retrieved from the tiers that are asked (seed 003).

Tiers are facets beside memories of the one store, and the one search knows nothing of them: what it finds is sorted out
by tier here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from kingly_memory import validation
from kingly_memory.cognition import continuum
from kingly_memory.cognition.continuum import (
    LEAST_SIMILARITY,
    SOURCE,
    TOPIC,
    ConsolidationResult,
    MemoryEntry,
    RetrievalStrategy,
    TieredHit,
)
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.plan import TIERS
from kingly_memory.lifecycle.tiers import USUAL_RELEVANCE, Placement, kept_placement
from kingly_memory.models import Hit, JsonObject, Memory, MemoryStatus, MemoryType, Results, Tier
from kingly_memory.ports import Transaction
from kingly_memory.retrieval.fusion import NAMED, VECTORS
from kingly_memory.router import feedback, write
from kingly_memory.router.activity import Activity, memory_stats
from kingly_memory.router.engine import Engine
from kingly_memory.router.sweep import changes as sweep_changes
from kingly_memory.router.sweep.steward import SweepReport
from kingly_memory.router.write import Stored
from kingly_memory.validation import RESULTS_LIMIT

FROM_REMOTES = 64
"""Hits that a remote is asked for."""
FOUND_BY_WORDS = {"bm25", NAMED}
"""The scores of a hit that holds words of the query. What was said beside one has a relevance of its own alone."""
STATS = tuple(memory_stats({}, 0.0, Activity(), 0.0))
"""What the seed's `get_memory_stats` answers."""


class Verbs(Protocol):
    """The router's verbs that this stands on."""

    async def sweep(self, policies: Sequence[str] | None = None, dry_run: bool = False) -> SweepReport: ...

    async def stats(self) -> JsonObject: ...

    @property
    def search(self) -> Callable[..., Awaitable[Results]]: ...


class ContinuumMemory:
    """The memories of a project by tier. Whatever was stored otherwise is in them too, where its significance places
    it."""

    def __init__(self, engine: Engine, verbs: Verbs) -> None:
        self._engine = engine
        self._verbs = verbs
        self._rules = engine.settings.tiers

    async def store(  # noqa: PLR0917  # the seed's signature
        self,
        content: str,
        tier: Tier = Tier.SLOW,
        importance: float = 0.5,
        source: str = "",
        topic: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryEntry:
        """Store a semantic memory of that significance in that tier, whatever tier its significance would give it.
        Raises InvalidInput, StoreError."""
        chosen, significance = validation.choice("tier", tier, Tier), validation.share("importance", importance)
        draft = validation.draft(
            content,
            type=MemoryType.SEMANTIC.value,
            significance=significance,
            metadata=continuum.metadata(metadata, source, topic),
        )
        context = self._engine.write_context()

        def change(transaction: Transaction) -> Stored:
            stored = write.store(draft, context)(transaction)
            transaction.set_facet("tier", stored.receipt.id, Placement(chosen).to_json())
            return stored

        receipt = await self._engine.keep(change)
        memory = draft.memory(receipt.id, context.space, created_at=context.now, updated_at=context.now)
        [entry] = await self._engine.read(lambda: self._entries([(memory, None)]))
        return entry

    async def retrieve(
        self,
        query: str,
        tiers: Sequence[Tier] | None = None,
        limit: int = 5,
        min_similarity: float = LEAST_SIMILARITY,
        strategy: str = RetrievalStrategy.WEIGHTED,
    ) -> list[MemoryEntry]:
        """The memories of those tiers (of all for None) that answer the query, best first; each is used by this.

        `fast_first` takes from the nearest tier first and from the next ones while short of `limit`; `weighted` holds
        relevance times the weight of the tier against each other, `comprehensive` relevance alone. What no word of the
        query points to must be `min_similarity` near in meaning. Chosen from the best 1,000 hits. Raises InvalidInput.
        """
        how, wanted = validation.choice("strategy", strategy, RetrievalStrategy), continuum.tiers(tiers)
        least = validation.share("min_similarity", min_similarity)
        request = validation.query(query, space=self._engine.space, limit=limit, without_tags=validation.unsought(None))
        await self._engine.opened()
        # A remote need not send a thousand because a tier is far down here.
        results = await self._engine.searching.find(replace(request, limit=RESULTS_LIMIT, remote_limit=FROM_REMOTES))
        candidates = await self._engine.read(partial(self._candidates, tuple(results)))
        chosen = continuum.retrieved((one for one in candidates if one.tier in wanted), how, request.limit, least)
        self._engine.note_found([one.memory.id for one in chosen])
        return await self._engine.read(lambda: self._entries([(one.memory, one.similarity) for one in chosen]))

    async def entry(self, memory_id: str) -> MemoryEntry | None:
        """A memory of the project by its id or key, also one that rests in the archive, without using it; None for what
        is not there or was forgotten. Raises InvalidInput."""
        name = validation.required("memory_id", memory_id)

        def look() -> MemoryEntry | None:
            reader, space = self._engine.reader, self._engine.space
            row = reader.row(reader.id_of_key(space, name) or name)
            if row is None or row.status is MemoryStatus.FORGOTTEN or row.memory.scope.space != space:
                return None
            return self._entries([(row.memory, None)])[0]

        return await self._engine.read(look)

    async def update_outcome(self, memory_ids: Iterable[str | MemoryEntry] | MemoryEntry, success: bool) -> int:
        """Note that memories were referred to in something that was a success or not: all of them or none. Says how
        many. Raises InvalidInput, StoreError."""
        referred: Any = [memory_ids] if isinstance(memory_ids, str | MemoryEntry) else memory_ids
        if not isinstance(referred, Iterable) or isinstance(referred, Mapping | bytes):
            raise InvalidInput("memory_ids", f"expected a list of ids or entries, not {type(referred).__name__}")
        names = [_named("memory_ids", one) for one in referred]
        if not isinstance(success, bool):
            raise InvalidInput("success", f"expected true or false, not {validation.shown(success)!r}")
        used = feedback.used(names, self._engine.write_context(), succeeded=success)
        return await self._engine.write(used)

    async def update_surprise_score(
        self, memory_id: str | MemoryEntry, retrieval_context: Mapping[str, float] | None = None
    ) -> float:
        """Note how useful a memory was (`actual_usefulness`) against what had been predicted (`predicted_relevance`),
        each 0.5 unless said. Answers with its surprise, a moving average. Raises InvalidInput, StoreError."""
        figures = {} if retrieval_context is None else retrieval_context
        if not isinstance(figures, Mapping):
            raise InvalidInput("retrieval_context", f"expected a mapping, not {type(figures).__name__}")
        predicted, actual = (
            validation.share(name, figures.get(name, USUAL_RELEVANCE))
            for name in ("predicted_relevance", "actual_usefulness")
        )
        name = _named("memory_id", memory_id)
        judged = feedback.judged(name, self._engine.write_context(), predicted=predicted, actual=actual)
        return (await self._engine.write(judged)).surprise

    async def needs_consolidation(self) -> bool:
        """Whether a tier holds more memories than it has room for."""
        counts = (await self._verbs.stats())["tier_counts"]
        return any(counts[tier.value] > self._rules.configs[tier].max_items for tier in Tier)

    async def consolidate_memories(self) -> ConsolidationResult:
        """A sweep by the tiers alone: up with what has proved itself, down with what has faded, to the archive with
        what has no room. `undo_sweep` takes it back. Raises SweepUnderWay, StoreError."""
        report = await self._verbs.sweep([TIERS])
        done = await self._engine.read(lambda: self._done(report.id))

        def those(*kinds: str) -> tuple[MemoryId, ...]:
            return tuple(MemoryId(one["id"]) for one in done if one["did"] in kinds)

        return ConsolidationResult(
            promoted=report.promoted,
            demoted=report.demoted,
            archived=report.archived,
            summarised=report.summarised,
            summaries=report.summaries,
            skipped=report.skipped,
            promoted_ids=those(sweep_changes.PROMOTED),
            demoted_ids=those(sweep_changes.DEMOTED),
            archived_ids=those(sweep_changes.ARCHIVED, sweep_changes.SUMMARISED),
            summary_ids=those(sweep_changes.WRITTEN),
        )

    async def get_memory_stats(self) -> JsonObject:
        """Memories in each tier, moves of the last hour, the share of searches that found something, and the average
        surprise. `MemoryRouter.stats` has more."""
        stats = await self._verbs.stats()
        return {name: stats[name] for name in STATS}

    async def search(self, query: str, limit: int = 10, **how: Any) -> Results:
        """The memories that answer the query, best first; `how` is what `MemoryRouter.search` takes besides."""
        return await self._verbs.search(query, limit=limit, **how)

    def _candidates(self, hits: Sequence[Hit]) -> list[TieredHit]:
        places = self._placements([hit.memory for hit in hits])
        return [
            TieredHit(
                hit.memory,
                places[hit.memory.id].tier,
                hit.relevance,
                similarity=max(hit.relevance, hit.scores.get(VECTORS, 0.0)),
                is_worded="local" in hit.layers and not FOUND_BY_WORDS.isdisjoint(hit.scores),
            )
            for hit in hits
        ]

    def _entries(self, memories_found: Sequence[tuple[Memory, float | None]]) -> list[MemoryEntry]:
        """With how they stand now: some uses may not be in the store yet."""
        memories, pending = [memory for memory, _ in memories_found], self._engine.usage
        places = self._placements(memories)
        usages = self._engine.reader.facets("usage", [one.id for one in memories])
        entries = []
        for memory, similarity in memories_found:
            placement, used = places[memory.id], usages.get(memory.id, {})
            uses = [one for one in (used.get("last_used"), pending.last_use(memory.id)) if isinstance(one, int | float)]
            own = {name: value for name in (SOURCE, TOPIC) if isinstance(value := memory.metadata.get(name), str)}
            entry = MemoryEntry(
                id=memory.id,
                content=memory.content,
                tier=placement.tier,
                importance=memory.significance,
                source=own.get(SOURCE, ""),
                topic=own.get(TOPIC, ""),
                metadata={name: value for name, value in memory.metadata.items() if name not in own},
                access_count=int(used.get("accesses", 0)) + pending.times(memory.id),
                surprise_score=placement.surprise,
                success_references=placement.successes,
                created_at=memory.created_at,
                last_access=datetime.fromtimestamp(max(uses), UTC) if uses else None,
                similarity=similarity,
            )
            entries.append(entry)
        return entries

    def _placements(self, memories: Sequence[Memory]) -> dict[MemoryId, Placement]:
        facets = self._engine.reader.facets("tier", [one.id for one in memories])
        return {memory.id: kept_placement(facets.get(memory.id), memory, self._rules) for memory in memories}

    def _done(self, sweep_id: str) -> list[JsonObject]:
        """What a sweep wrote down of what it did, in its order."""
        entries: list[JsonObject] = []
        page = 0
        while facets := self._engine.reader.facets(sweep_changes.FACET, [sweep_changes.page_of(sweep_id, page)]):
            entries += [one for facet in facets.values() for one in facet["entries"]]
            page += 1
        # A summary that nothing went behind is taken back.
        rows = {
            entry["id"]: self._engine.reader.row(entry["id"])
            for entry in entries
            if entry["did"] == sweep_changes.WRITTEN
        }
        gone = {memory_id for memory_id, row in rows.items() if row is None or row.status is not MemoryStatus.LIVE}
        return [one for one in entries if one["id"] not in gone]


def _named(field: str, value: object) -> str:
    return value.id if isinstance(value, MemoryEntry) else validation.required(field, value)
