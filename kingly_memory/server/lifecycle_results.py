"""What the tools of the lifecycle answer, as models: their JSON schemas are the tools' output schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, Field

from kingly_memory.models import JsonObject, Memory

if TYPE_CHECKING:  # read after the handshake
    from kingly_memory.lifecycle.forgetting import Faded, WeakMemories
    from kingly_memory.router.sweeping.lessons import Lesson
    from kingly_memory.router.sweeping.sweeper import SweepReport

MOST_WEAK = 100
"""Memories that each list of weak ones shows; the counts are of all."""
MOST_ACTIONS = 50


class Reinforced(BaseModel):
    """How strong the memory is now, and how long that will last."""

    success: bool = True
    memory_id: str
    new_strength: Annotated[float, Field(description="0 to 1")]
    access_count: int
    state: Annotated[str, Field(description="strong, normal, weak or forgettable")]
    reinforcements: Annotated[int, Field(description="Those of the last 7 days")]
    days_until_forgettable: Annotated[float | None, Field(description="If nobody uses it; null for never")]

    @classmethod
    def of(cls, told: JsonObject) -> Self:
        return cls.model_validate({**told, "new_strength": told["strength"], "access_count": told["accesses"]})


class FadedShown(BaseModel):
    memory_id: str
    strength: float


class Weak(BaseModel):
    """What has faded, each list weakest first and cut after 100."""

    success: bool = True
    forgettable: Annotated[list[str], Field(description="Ids that the next sweep by strength may archive")]
    recoverable: Annotated[
        list[FadedShown] | None, Field(description="Weak ones: using or reinforcing them brings them back")
    ] = None
    protected: Annotated[list[str], Field(description="Ids that have faded and stay, as they matter too much")]
    counts: Annotated[dict[str, int], Field(description="How many there are of each, shown or not")]

    @classmethod
    def of(cls, found: WeakMemories, *, include_recoverable: bool) -> Self:
        lists: dict[str, Sequence[Faded]] = {
            "forgettable": found.forgettable,
            "recoverable": found.recoverable,
            "protected": found.protected,
        }
        recoverable = [
            FadedShown(memory_id=one.memory_id, strength=round(one.strength, 4))
            for one in found.recoverable[:MOST_WEAK]
        ]
        return cls(
            forgettable=[one.memory_id for one in found.forgettable[:MOST_WEAK]],
            recoverable=recoverable if include_recoverable else None,
            protected=[one.memory_id for one in found.protected[:MOST_WEAK]],
            counts={name: len(several) for name, several in lists.items()},
        )


class LessonShown(BaseModel):
    """Where the summary is, and what is left of the text."""

    success: bool = True
    memory_id: str
    compression_ratio: Annotated[float, Field(description="Summary ÷ text in characters: less is shorter")]
    key_facts: list[str]
    compression_factor: Annotated[float, Field(description="How many times shorter it became")]
    summary: str
    summary_by: Annotated[str, Field(description="model, rules or nobody: then it is the text itself")]
    level: str
    original_id: Annotated[str | None, Field(description="Where the whole text rests; null when nothing was left out")]
    delivery: str
    reason: Annotated[str | None, Field(description="Why the summary is not a model's")]

    @classmethod
    def of(cls, lesson: Lesson) -> Self:
        return cls.model_validate(lesson.to_json())


class Swept(BaseModel):
    """What a sweep did, or would do."""

    success: bool = True
    dry_run: Annotated[bool, Field(description="True: nothing was changed")]
    policies: list[str]
    archived: int
    erased: Annotated[int, Field(description="Ended working memories and copies of what the remote holds")]
    promoted: int
    demoted: int
    summarised: Annotated[int, Field(description="Those of the archived that a summary stands for")]
    summaries: int
    merged: Annotated[int, Field(description="Those archived because another one says the same")]
    waiting: Annotated[int, Field(description="Ended ones that the remote has yet to acknowledge")]
    spared: Annotated[int, Field(description="Those that stay as the last of their category")]
    skipped: Annotated[int, Field(description="Those that somebody used meanwhile")]
    kept_for_keys: Annotated[
        int, Field(description="Those that say the same as another one and are not merged, as they have keys")
    ]
    elsewhere: Annotated[int, Field(description="Ended ones of other projects that went too")]
    reasons: dict[str, int]
    before: JsonObject
    after: JsonObject
    actions: Annotated[list[JsonObject], Field(description="The first 50, each with its reason and figures")]
    twins: Annotated[list[JsonObject], Field(description="The first 50 that were kept for their keys, and like whom")]
    undo: Annotated[str | None, Field(description="The command that takes it back")]

    @classmethod
    def of(cls, report: SweepReport) -> Self:
        told = report.to_json()
        undo = "kingly-memory sweep --undo" if report.can_be_undone else None
        shown = {name: told[name][:MOST_ACTIONS] for name in ("actions", "twins")}
        return cls.model_validate({**told, **shown, "undo": undo})


class ThreadTally(BaseModel):
    active_threads: int
    total_weight: float


class Compacted(BaseModel):
    """What a compaction did, or would do."""

    strategy: str
    dry_run: Annotated[bool, Field(description="True: nothing was changed")]
    actions: Annotated[
        list[JsonObject],
        Field(description="merge with threads and similarity, archive with thread and reason (age or capacity)"),
    ]
    before: ThreadTally
    after: ThreadTally


class Restored(BaseModel):
    """The memory that is back."""

    success: bool = True
    id: str
    key: str | None
    memory_type: str

    @classmethod
    def of(cls, memory: Memory) -> Self:
        return cls(id=memory.id, key=memory.key, memory_type=memory.type.value)


class MemoryStats(BaseModel):
    """How the memories of the project are doing."""

    success: bool = True
    tier_counts: dict[str, int]
    promotions_last_hour: int
    demotions_last_hour: int
    hit_rate: Annotated[float, Field(description="Share of the searches that found something; 0 before the first")]
    searches: Annotated[int, Field(description="How many searches hit_rate is of")]
    avg_surprise_score: float
    strength: Annotated[dict[str, int], Field(description="How many are strong, normal, weak or forgettable")]
    archived: int
