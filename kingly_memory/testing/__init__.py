"""The public test kit: a clock and a model that obey, a remote that fails on command, and one without a network."""

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
