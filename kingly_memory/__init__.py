"""Kingly Memory: memory for agents that keeps working when the network doesn't.

The public names, loaded when they are first used: importing the package itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kingly_memory.app.hybrid_search import get_hybrid_memory_search
    from kingly_memory.app.opening import MemoryRouter
    from kingly_memory.blocking import SyncMemoryRouter
    from kingly_memory.cognition.agent_memory import CognitiveMemory, MemoryItem
    from kingly_memory.cognition.confidence import Assessment
    from kingly_memory.cognition.context import WorkingContext
    from kingly_memory.cognition.links import Link
    from kingly_memory.cognition.thoughts import Thought
    from kingly_memory.documents import Document, Put, Remove, VersionConflict
    from kingly_memory.errors import (
        InvalidInput,
        InvalidSetting,
        KinglyMemoryError,
        RemoteError,
        RemoteUnavailable,
        RevisionConflict,
        RouterClosed,
        StoreError,
    )
    from kingly_memory.models import (
        DeliveryState,
        Hit,
        LinkState,
        Memory,
        MemoryType,
        Origin,
        Receipt,
        Results,
        Scope,
        Source,
    )
    from kingly_memory.router.agents.tasks import Task
    from kingly_memory.settings import Settings

__all__ = [
    "Assessment",
    "CognitiveMemory",
    "DeliveryState",
    "Document",
    "Hit",
    "InvalidInput",
    "InvalidSetting",
    "KinglyMemoryError",
    "Link",
    "LinkState",
    "Memory",
    "MemoryItem",
    "MemoryRouter",
    "MemoryType",
    "Origin",
    "Put",
    "Receipt",
    "RemoteError",
    "RemoteUnavailable",
    "Remove",
    "Results",
    "RevisionConflict",
    "RouterClosed",
    "Scope",
    "Settings",
    "Source",
    "StoreError",
    "SyncMemoryRouter",
    "Task",
    "Thought",
    "VersionConflict",
    "WorkingContext",
    "get_hybrid_memory_search",
]

_NAMES = {
    "app.opening": "MemoryRouter",
    "app.hybrid_search": "get_hybrid_memory_search",
    "blocking": "SyncMemoryRouter",
    "cognition.agent_memory": "CognitiveMemory MemoryItem",
    "cognition.confidence": "Assessment",
    "cognition.context": "WorkingContext",
    "cognition.links": "Link",
    "cognition.thoughts": "Thought",
    "documents": "Document Put Remove VersionConflict",
    "models": "DeliveryState Hit LinkState Memory MemoryType Origin Receipt Results Scope Source",
    "router.agents.tasks": "Task",
    "settings": "Settings",
}
"""By the modules that they come from; all others are errors."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'kingly_memory' has no attribute {name!r}")
    return getattr(import_module(f"kingly_memory.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return __all__
