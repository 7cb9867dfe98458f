"""CrewAI: `Crew(…, memory=KinglyMemory(memory))`, which needs no model."""

from __future__ import annotations

from typing import Any, Literal

from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.integrations.crewai_scopes import fitting
from kingly_memory.integrations.crewai_storage import KinglyStorage
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import is_blank

with needed("the memory for CrewAI", "crewai"):
    from crewai.memory.types import MemoryMatch, MemoryRecord, compute_composite_score
    from crewai.memory.unified_memory import Memory
    from crewai.memory.utils import join_scope_paths


class KinglyMemory(Memory):
    """CrewAI's memory without a model: what a crew does is kept whole, and found by words and their relevance, recency
    and importance. `how` is what Memory takes. Raises as KinglyStorage does."""

    def __init__(self, memory: SyncMemoryRouter, *, root: str = "crewai", **how: Any) -> None:
        super().__init__(storage=KinglyStorage(memory, root=root), embedder=lambda texts: [[] for _ in texts], **how)

    def remember(self, content: str, *arguments: Any, **how: Any) -> MemoryRecord | None:
        kept = self._kept([content], *arguments, **how)
        return kept[0] if kept else None

    def remember_many(self, contents: list[str], *arguments: Any, **how: Any) -> list[MemoryRecord]:
        """They are kept when this returns."""
        return self._kept(contents, *arguments, **how)

    def extract_memories(self, content: str) -> list[str]:
        """The whole text: a search finds the place in it."""
        return [content] if content.strip() else []

    def recall(
        self,
        query: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        limit: int = 10,
        depth: Literal["shallow", "deep"] = "deep",
        source: str | None = None,
        include_private: bool = False,
    ) -> list[MemoryMatch]:
        """The same at either depth. Nothing is written: `last_accessed` stays as it was."""
        fits = fitting(join_scope_paths(self.root_scope, scope), categories)

        def match(record: MemoryRecord, relevance: float) -> MemoryMatch | None:
            is_seen = include_private or not record.private or (source is not None and record.source == source)
            if not is_seen or not fits(record):
                return None
            score, reasons = compute_composite_score(record, relevance, self)  # it has the weights
            return MemoryMatch(record=record, score=score, match_reasons=["words", *reasons[1:]])

        matches = [] if is_blank(query) else self.storage.find(query, match, limit)
        return sorted(matches, key=lambda one: -one.score)

    def _kept(
        self,
        contents: list[str],
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> list[MemoryRecord]:
        if self.read_only:
            return []
        records = [
            MemoryRecord(
                content=content,
                scope=join_scope_paths(self.root_scope if root_scope is None else root_scope, scope),
                categories=categories or [],
                metadata=metadata or {},
                importance=self.default_importance if importance is None else importance,
                source=source,
                private=private,
            )
            for content in contents
            if str(content).strip()  # MemoryRecord says what is wrong with what is no text
        ]
        self.storage.save(records)
        return records
