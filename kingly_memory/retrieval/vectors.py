"""Vectors of memories: what they are made from and how they are kept. Loads no numpy."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kingly_memory.models import Memory
from kingly_memory.text.passages import MEANT, searchable_passages

if TYPE_CHECKING:
    from kingly_memory.validation import Draft

LEVELS = 127
MOST_PASSAGES = 384
"""Vectors of one memory: of some 130,000 characters. What follows is found by its words."""


def searchable(memory: Draft | Memory, *, speaks: bool = False) -> str:
    """The text that a memory is found by. What somebody said is `Speaker: content` where the embedder `speaks`."""
    if speaks and isinstance(speaker := memory.metadata.get("speaker"), str):
        return f"{speaker}: {memory.content}"
    return "\n".join(filter(None, (memory.title, memory.content, " ".join(memory.tags))))


def parts(memory: Memory, *, speaks: bool) -> list[str]:
    """The text of each vector of a memory: one, or one a passage, which its title and headings introduce."""
    passages = searchable_passages(memory.content, MEANT)[:MOST_PASSAGES]
    title = f"{memory.title}\n" if memory.title else ""
    return [title + passage for _, passage in passages] or [searchable(memory, speaks=speaks)]


def levels(vector: Sequence[float]) -> bytes:
    """A vector in one signed byte a dimension. Only its direction is kept, so the scale is the largest value's."""
    scale = LEVELS / (max(map(abs, vector), default=0.0) or 1.0)
    return array("b", [round(value * scale) for value in vector]).tobytes()
