"""What stays at hand of memories that leave a tier together: by rules, a sentence of each (seed 003, R5). Pure.

A summary says nothing of its own, so it is no better trusted and no surer than the least of those it tells of, and what
must stay on this machine does so in a summary too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kingly_memory import intake
from kingly_memory.ids import MemoryId
from kingly_memory.intake import Draft
from kingly_memory.lifecycle.compression import rules
from kingly_memory.lifecycle.compression.levels import CompressionLevel
from kingly_memory.models import LEAST_TRUSTED_LAST, REMOTE_ABOVE, Memory, MemoryType, Origin

RECORD = "summary"
"""What `metadata.record` of such a memory says; `metadata.category` too, so that it stands for no other memory."""

MOST_TOLD = 40
"""Memories of which a sentence is told: the most important of those that leave."""
SENTENCE_CHARACTERS = 200
READ_CHARACTERS = 4_000
"""Of a text, in which its sentence is looked for."""
TOPIC_CHARACTERS = 80
MOST_NAMED = 200
"""Ids that `metadata.summarises` lists; in the archive, each memory names its summary."""


@dataclass(frozen=True, slots=True)
class Gist:
    """The one sentence that is told of a memory, as it was at that revision."""

    memory_id: MemoryId
    revision: int
    sentence: str
    origin: Origin
    confidence: float
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Group:
    """The memories that leave behind one summary. `significances` are those of all of them."""

    agent: str | None
    topic: str
    ids: tuple[MemoryId, ...]
    significances: tuple[float, ...]


def gist(memory: Memory) -> Gist:
    said = rules.compress(memory.content[:READ_CHARACTERS], CompressionLevel.AGGRESSIVE).summary
    sentence = rules.shortened(" ".join(said.split()), SENTENCE_CHARACTERS)
    return Gist(memory.id, memory.revision, sentence, memory.origin, memory.confidence, memory.created_at)


def summary(group: Group, gists: Sequence[Gist]) -> Draft:
    """The memory to store, of at least one gist: their sentences in the order in which they were said, each once. It is
    never longer than the texts themselves, one below the other."""
    in_order = sorted(gists, key=lambda one: (one.created_at, one.memory_id))
    topic = _topic(group.topic)
    title = _title(len(group.ids), topic)
    return intake.draft(
        "\n".join(dict.fromkeys(one.sentence for one in in_order if one.sentence)) or title,
        content_limit_bytes=1_000_000,
        type=MemoryType.SEMANTIC,
        significance=_significance(group.significances),
        confidence=min(one.confidence for one in gists),
        tags=tuple(dict.fromkeys((RECORD, topic))),
        title=title,
        agent=group.agent,
        origin=max((one.origin for one in gists), key=LEAST_TRUSTED_LAST.index),
        metadata={
            "record": RECORD,
            "category": RECORD,
            "topic": topic,
            "count": len(group.ids),
            "summarises": list(group.ids[:MOST_NAMED]),
        },
    )


def _significance(those: Sequence[float]) -> float:
    greatest = max(those)
    return min(greatest, REMOTE_ABOVE) if min(those) <= REMOTE_ABOVE else greatest


def _topic(said: str) -> str:
    """On one line, short enough for a tag."""
    shown = "".join(one if one.isprintable() else " " for one in said[:READ_CHARACTERS])
    return rules.shortened(" ".join(shown.split()), TOPIC_CHARACTERS) or RECORD


def _title(count: int, topic: str) -> str:
    return f"Summary of {count:,} " + (f"{topic} memories" if topic in tuple(MemoryType) else f"memories about {topic}")
