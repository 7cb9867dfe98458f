"""What one process at a time does for a home: sweeping it."""

from __future__ import annotations

from collections.abc import Callable

from kingly_memory.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Lock:
    """What one process at a time holds: `take` says whether it is ours now."""

    take: Callable[[], bool] = lambda: True
    give_up: Callable[[], None] = lambda: None
