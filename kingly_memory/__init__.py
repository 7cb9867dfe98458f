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

_HOMES = {
    "MemoryRouter": "kingly_memory.app.opening",
    "SyncMemoryRouter": "kingly_memory.blocking",
    "get_hybrid_memory_search": "kingly_memory.app.hybrid_search",
    "Settings": "kingly_memory.settings",
    "Assessment": "kingly_memory.cognition.confidence",
    "CognitiveMemory": "kingly_memory.cognition.agent_memory",
    "MemoryItem": "kingly_memory.cognition.agent_memory",
    "Link": "kingly_memory.cognition.links",
    "Task": "kingly_memory.router.agents.tasks",
    "Thought": "kingly_memory.cognition.thoughts",
    "WorkingContext": "kingly_memory.cognition.context",
    **dict.fromkeys(("Document", "Put", "Remove", "VersionConflict"), "kingly_memory.documents"),
    **dict.fromkeys(
        (
            "DeliveryState",
            "Hit",
            "LinkState",
            "Memory",
            "MemoryType",
            "Origin",
            "Receipt",
            "Results",
            "Scope",
            "Source",
        ),
        "kingly_memory.models",
    ),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'kingly_memory' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "kingly_memory.errors")), name)


def __dir__() -> list[str]:
    return __all__
