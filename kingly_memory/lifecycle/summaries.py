"""What stays at hand of memories that leave a tier together: by rules, a sentence of each (seed 003, R5). Pure.

A summary says nothing of its own, so it is no better trusted and no surer than the least of those it is made of, and
what must stay on this machine stays there in a summary too. `metadata.tells` names, line by line, who said it, so that
what is forgotten can be taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.compression import CompressionLevel, compress, shortened
from kingly_memory.models import LEAST_TRUSTED_LAST, REMOTE_ABOVE, SUMMARY, Memory, MemoryType
from kingly_memory.validation import Draft

MOST_SENTENCES = 40
"""A summary has a sentence of so many memories at most: the most important of those that leave."""
SENTENCE_CHARACTERS = 200
READ_CHARACTERS = 4_000
"""Of a text, in which its sentence is looked for."""
TOPIC_CHARACTERS = 80
MOST_NAMED = 200
"""Ids that `metadata.summarises` lists; in the archive, each memory names its summary."""


@dataclass(frozen=True, slots=True)
class Summarised:
    """The memories that leave behind one summary. `significances` are those of all of them."""

    agent: str | None
    topic: str
    ids: tuple[MemoryId, ...]
    significances: tuple[float, ...]


def gist(memory: Memory) -> Memory:
    """The memory with nothing but the one sentence that a summary holds of it."""
    essence = compress(memory.content[:READ_CHARACTERS], CompressionLevel.AGGRESSIVE).summary
    return replace(memory, content=shortened(" ".join(essence.split()), SENTENCE_CHARACTERS))


def summary(of: Summarised, gists: Sequence[Memory]) -> Draft:
    """The memory to store, of at least one gist: their sentences in the order in which they were said, each once. It is
    never longer than the texts themselves, one below the other."""
    tells: dict[str, list[str]] = {}
    for entry in sorted(gists, key=lambda entry: (entry.created_at, entry.id)):
        if entry.content:
            tells.setdefault(entry.content, []).append(entry.id)
    # On one line, short enough for a tag.
    shown = "".join(one if one.isprintable() else " " for one in of.topic[:READ_CHARACTERS])
    topic = shortened(" ".join(shown.split()), TOPIC_CHARACTERS) or SUMMARY
    title = _title(len(of.ids), topic)
    greatest = max(of.significances)
    return validation.draft(
        "\n".join(tells) or title,
        type=MemoryType.SEMANTIC,
        significance=min(greatest, REMOTE_ABOVE) if min(of.significances) <= REMOTE_ABOVE else greatest,
        confidence=min(one.confidence for one in gists),
        tags=tuple(dict.fromkeys((SUMMARY, topic))),
        title=title,
        agent=of.agent,
        origin=max((one.origin for one in gists), key=LEAST_TRUSTED_LAST.index),
        metadata={
            "record": SUMMARY,
            "category": SUMMARY,  # so that it stands for no other memory
            "topic": topic,
            "count": len(of.ids),
            "summarises": list(of.ids[:MOST_NAMED]),
            "tells": list(tells.values()),
        },
    )


def originals(memory: Memory) -> list[MemoryId]:
    """The memories of which a summary holds a sentence; none for what is no summary."""
    return [MemoryId(one) for _, ids in _lines_of(memory) for one in ids if isinstance(one, str)]


def redacted(memory: Memory, without: MemoryId) -> Memory:
    """The summary without that memory; the same summary if that memory is not in it. A sentence that another memory
    said too stays. Where no sentence is left, the content is the title."""
    lines = _lines_of(memory)
    named = memory.metadata["summarises"] if _is_ours(memory) else []
    if without not in named and not any(without in ids for _, ids in lines):
        return memory
    left = [(sentence, [one for one in ids if one != without]) for sentence, ids in lines]
    left = [(sentence, ids) for sentence, ids in left if ids]
    count = max(memory.metadata["count"] - 1, 0)
    title = _title(count, memory.metadata["topic"])
    metadata = {
        **memory.metadata,
        "tells": [ids for _, ids in left],
        "summarises": [one for one in named if one != without],
        "count": count,
        "redactions": times_redacted(memory) + 1,
    }
    content = "\n".join(sentence for sentence, _ in left) or title
    return replace(memory, content=content, title=title, metadata=metadata, revision=memory.revision + 1)


def times_redacted(memory: Memory) -> int:
    """How many of its revisions removed a forgotten memory."""
    times = memory.metadata.get("redactions")
    return times if isinstance(times, int) else 0


def _lines_of(memory: Memory) -> list[tuple[str, list[Any]]]:
    """Each sentence with those who said it."""
    tells = memory.metadata.get("tells")
    return list(zip(memory.content.split("\n"), tells, strict=True)) if _is_ours(memory) and tells else []


def _is_ours(memory: Memory) -> bool:
    """Whether a summary is as `summary` made it: anything may come from a file."""
    fields = memory.metadata
    tells, named, count = fields.get("tells"), fields.get("summarises"), fields.get("count")
    if fields.get("record") != SUMMARY or not isinstance(fields.get("topic"), str):
        return False
    if not isinstance(tells, list) or not isinstance(named, list) or not isinstance(count, int):
        return False
    return all(isinstance(ids, list) for ids in tells) and len(tells) in (0, memory.content.count("\n") + 1)


def _title(count: int, topic: str) -> str:
    return f"Summary of {count:,} " + (f"{topic} memories" if topic in tuple(MemoryType) else f"memories about {topic}")
