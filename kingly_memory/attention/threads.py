"""A thread as attention sees it: what was said in one context, or a single memory that was said in none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thread:
    """`id` is the context's, or the memory's own. `weight` is set by pins and compaction, 1 for most; `relevance`, from
    0.1 to 1, by ratings and by whether what was injected was used. `heading` is that of the memory it is seen by, where
    nobody has called the thread anything."""

    id: str
    title: str = ""
    topics: tuple[str, ...] = ()
    weight: float = 1.0
    relevance: float = 1.0
    pinned: bool = False
    heading: str = ""
