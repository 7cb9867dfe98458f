"""What the verbs take where one of a few names is meant: an editor offers them, and a type checker finds a slip."""

from __future__ import annotations

from typing import Literal

from kingly_memory.models import Assist, MemoryType, RetrievalMode

TypeName = (
    MemoryType
    | Literal["semantic", "episodic", "procedural", "working"]
    | Literal["task_cache", "conversation_context", "pattern_learning", "skill_development"]
    | Literal["task_status", "current_context", "quick_lookups"]
    | Literal["historical_patterns", "deep_insights", "relationship_maps"]
)
"""The type of a memory, or a kind, which is a type with a lifetime or with a way to be searched for."""

ModeName = RetrievalMode | Literal["similarity", "broad", "precise", "diagnostic", "learning", "recall", "auto"]
AssistName = Assist | Literal["none", "rewrite", "rerank", "both"]
DetailName = Literal["titles", "passages", "full"]
