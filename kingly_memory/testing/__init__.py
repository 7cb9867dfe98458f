"""The public test kit: a clock and a model that obey, a remote that fails on command, and one without a network."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kingly_memory.testing.clock import ManualClock
    from kingly_memory.testing.fakes import FakeRemote, Lost
    from kingly_memory.testing.models import ScriptedLanguageModel
    from kingly_memory.testing.remote import ScriptedRemote

__all__ = [
    "FakeRemote",
    "Lost",
    "ManualClock",
    "ScriptedLanguageModel",
    "ScriptedRemote",
]

_HOMES = {
    "FakeRemote": "fakes",
    "Lost": "fakes",
    "ManualClock": "clock",
    "ScriptedLanguageModel": "models",
    "ScriptedRemote": "remote",
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for, so that a clock costs no server."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
