"""The working context: what is at hand in one piece of work, and whispers of what was noted there. Pure.

A whisper is made of every full 1,000 tokens noted in a context, and says what they were about (seed 004, AC-003).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.ids import MemoryId
from kingly_memory.models import LEAST_TRUSTED_LAST, JsonObject, Memory, Origin, Source
from kingly_memory.text.writing import shortened, token_count, token_spans
from kingly_memory.validation import Draft

CURRENT = "current"
"""Names the last context that was worked in, wherever a context id is expected: by this process, else by this agent,
else by anybody of the project."""

MOST_PENDING = 100
"""Notes that a whisper can rest on; of more, the latest."""


@dataclass(frozen=True, slots=True)
class ContextRules:
    """How much a context holds (`capacity` items), how long after its last use (`lifetime_s`), and after how many
    tokens it whispers (0: never)."""

    capacity: int = 20
    lifetime_s: float = 1_800.0
    whisper_tokens: int = 1_000


@dataclass(frozen=True, slots=True)
class Context:
    """The facet `context:<owner>`: which memories are at hand, oldest first, and what has been noted so far.

    `tokens` counts everything noted, `whispers` what was distilled. `pending` are the memories of the tokens that no
    whisper covers yet, and `skipped` how many tokens of the first of them one does cover. `used_s` is the last
    use (a note or a reading), `noted_s` the last note, in Unix seconds. `has_gaps`: some of the items were forgotten.
    """

    context_id: str
    items: tuple[MemoryId, ...] = ()
    used_s: float = 0.0
    noted_s: float = 0.0
    tokens: int = 0
    whispers: int = 0
    pending: tuple[MemoryId, ...] = ()
    skipped: int = 0
    has_gaps: bool = False

    def to_json(self) -> JsonObject:
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Context:
        return cls(**{**data, "items": tuple(data["items"]), "pending": tuple(data["pending"])})

    def is_over(self, now_s: float, lifetime_s: float) -> bool:
        """At the very instant the lifetime after the last use ends."""
        return self.used_s + lifetime_s <= now_s

    def used(self, at_s: float) -> Context:
        return replace(self, used_s=max(self.used_s, at_s))

    def due(self, whisper_tokens: int) -> int:
        """How many whispers are due."""
        return (self.tokens - self.whispers * whisper_tokens) // whisper_tokens if whisper_tokens else 0


@dataclass(frozen=True, slots=True)
class Noted:
    """A context after a note, and the items that no longer fit, oldest first."""

    context: Context
    overflow: tuple[MemoryId, ...]


def noted(before: Context, memory_id: MemoryId, tokens: int, now_s: float, rules: ContextRules) -> Noted:
    """The memory is at hand as the latest item. A context that was over begins anew.

    What was noted before under the same id is replaced: its text is gone, and so is what had been skipped of it.
    """
    if before.is_over(now_s, rules.lifetime_s):
        before = Context(before.context_id)
    items = (*(one for one in before.items if one != memory_id), memory_id)
    kept = items[-rules.capacity :]
    pending = (*(one for one in before.pending if one != memory_id), memory_id)[-MOST_PENDING:]
    context = replace(
        before,
        items=kept,
        used_s=max(before.used_s, now_s),
        noted_s=now_s,
        skipped=0 if before.pending[:1] == (memory_id,) else before.skipped,
        tokens=before.tokens + tokens,
        pending=pending if rules.whisper_tokens else (),
    )
    return Noted(context, items[: len(items) - len(kept)])


@dataclass(frozen=True, slots=True)
class WorkingContext:
    """What is at hand. `items` are this machine's, latest first; `remote` what the remote holds for the context.

    `related` are memories linked to those, None when they were not asked for; `reason` says why the remote did not
    answer. `last_updated` is when something was last noted here, None when nothing was.
    """

    context_id: str
    items: tuple[Memory, ...] = ()
    remote: tuple[Memory, ...] = ()
    related: tuple[JsonObject, ...] | None = None
    source: Source = Source.LOCAL
    last_updated: datetime | None = None
    tokens: int = 0
    whispers: int = 0
    reason: str | None = None

    def __len__(self) -> int:
        return len({memory.id for memory in (*self.items, *self.remote)})

    def to_json(self) -> JsonObject:
        """In the names of seed 004, with more beside; `last_updated` in milliseconds since 1970."""
        updated = None if self.last_updated is None else round(self.last_updated.timestamp() * 1000)
        related = {} if self.related is None else {"related_memories": list(self.related)}
        return {
            "context_id": self.context_id,
            "working_memory": [memory.to_json() for memory in self.remote],
            "local_state": [memory.to_json() for memory in self.items],
            "memory_count": len(self),
            "last_updated": updated,
            **related,
            "source": self.source.value,
            "tokens": self.tokens,
            "whispers": self.whispers,
            "reason": self.reason,
        }


# --- whispers ---------------------------------------------------------------------------------------------------------

RECORD = "whisper"
"""What `metadata.record` of a whisper says."""
SIGNIFICANCE = 0.5
TITLE_CHARACTERS = 80


def portions(
    context: Context, texts: Mapping[MemoryId, str], size: int, count: int
) -> list[tuple[str, tuple[MemoryId, ...]]]:
    """The text that each of the next `count` whispers covers, and the memories it comes from: the noted tokens in their
    order, `size` at a time.

    What was forgotten since is missing from the texts, and so from the portions.
    """
    tokens = [(one, span) for one in context.pending for span in token_spans(texts.get(one, ""))][context.skipped :]
    parts = []
    for start in range(0, count * size, size):
        pieces = {}
        for source, group in groupby(tokens[start : start + size], key=lambda token: token[0]):
            spans = [span for _, span in group]
            pieces[source] = texts[source][spans[0][0] : spans[-1][1]]
        parts.append(("\n".join(pieces.values()), tuple(pieces)))
    return parts


def covered(context: Context, texts: Mapping[MemoryId, str], size: int, count: int) -> Context:
    """The context once so many whispers have been made: the rest of the tokens waits for the next ones."""
    rest = context.tokens - (context.whispers + count) * size
    pending: list[MemoryId] = []
    held = 0
    for memory_id in reversed(context.pending):
        if held >= rest:
            break
        pending.insert(0, memory_id)
        held += token_count(texts.get(memory_id, ""))
    return replace(context, whispers=context.whispers + count, pending=tuple(pending), skipped=max(held - rest, 0))


def drafted(insight: str, sources: Sequence[Memory], *, context_id: str, number: int, size: int) -> Draft:
    """The insight into those memories that is stored. It is no more significant and no better trusted than the least of
    them: what must stay on this machine, or came from a stranger, does so in a whisper too. What several agents have
    said is no agent's own."""
    least = min((memory.significance for memory in sources), default=SIGNIFICANCE)
    agents = {memory.scope.agent for memory in sources}
    origins = [memory.origin for memory in sources] or [Origin.AGENT]
    return validation.draft(
        insight,
        significance=min(SIGNIFICANCE, least),
        tags=(RECORD,),
        title=f"Whisper {number} of {shortened(context_id, TITLE_CHARACTERS)}",
        context_id=context_id,
        agent=agents.pop() if len(agents) == 1 else None,
        origin=max(origins, key=LEAST_TRUSTED_LAST.index),
        metadata={
            "record": RECORD,
            "number": number,
            "tokens": [(number - 1) * size, number * size],
            "sources": [memory.id for memory in sources],
        },
    )
