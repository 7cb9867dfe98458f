"""Where memories are looked for that may be put before somebody."""

from __future__ import annotations

from typing import NamedTuple

from kingly_memory.ports import StoreReader
from kingly_memory.router.searching.local_search import LocalLayer


class Surroundings(NamedTuple):
    """Where candidates are looked for, for whom, and when (Unix seconds)."""

    reader: StoreReader
    layer: LocalLayer
    project: str
    agent: str | None
    now_s: float
