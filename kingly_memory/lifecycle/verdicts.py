"""What a policy can decide about a memory, with the reason and the figures it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kingly_memory.ids import MemoryId
from kingly_memory.models import Tier

SUMMARY = "summary"
"""What `metadata.record` of a summary says, behind which others were put away."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave it as it is."""

    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Promote:
    """Move it one tier up."""

    to: Tier
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Demote:
    """Move it one tier down."""

    to: Tier
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Archive:
    """Take it out of sight; `restore` brings it back."""

    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Merge:
    """Join it to a memory that says the same; its own text is kept in the archive. `revision` is that of the other one
    when the two were compared."""

    into: MemoryId
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)
    revision: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Summarise:
    """Archive it behind a summary that is linked to it. Those with the same `topic` and `agent` share one."""

    topic: str
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Expire:
    """Erase it: only for working memories and copies of what the remote holds."""

    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


Verdict = Keep | Promote | Demote | Archive | Merge | Summarise | Expire
