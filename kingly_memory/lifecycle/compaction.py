"""Compaction on demand: threads are merged, laid in the archive, and weigh less (seed 002, feature 5). Pure.

In this order, each step on what the one before has left (decisions S2, S3 and S8):

1. Threads whose topics are alike are merged in pairs, the most alike first, and no thread twice.
2. Threads that have been idle for longer than the limit are archived.
3. The weights of those that remain are multiplied by the decay.
4. Of those that are too many the ones with the least weight are archived.

Pinned threads take others in, and nothing else happens to them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.lifecycle.decay import DAY_S
from kingly_memory.models import JsonObject
from kingly_memory.plain import Plain
from kingly_memory.text.topics import Topic, alike, merged
from kingly_memory.validation import one_of

NORMAL = "normal"


class CompactionStrategy(NamedTuple):
    """How hard to compact. Threads with a similarity above `merge_threshold` are merged."""

    name: str
    merge_threshold: float
    archive_age_days: float
    max_active_threads: int
    weight_decay: float


COMPACTION_STRATEGIES: Mapping[str, CompactionStrategy] = MappingProxyType(
    {
        "gentle": CompactionStrategy("gentle", 0.95, 30, 50, 0.95),
        NORMAL: CompactionStrategy(NORMAL, 0.85, 14, 30, 0.90),
        "aggressive": CompactionStrategy("aggressive", 0.75, 7, 15, 0.80),
    }
)


def strategy(name: object) -> CompactionStrategy:
    """The strategy of that name. Raises InvalidInput."""
    return COMPACTION_STRATEGIES[one_of("strategy", name, COMPACTION_STRATEGIES)]


@dataclass(frozen=True, slots=True)
class ActiveThread:
    """An active thread. Times in Unix seconds; `topic` weighs the words that it is about."""

    id: str
    last_active: float
    weight: float = 1.0
    pinned: bool = False
    topic: Topic = field(default_factory=dict)


class Reason(StrEnum):
    """Why a thread is archived."""

    AGE = "age"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class MergeThreads(Plain):
    """The second of the threads goes on as the first."""

    threads: tuple[str, str]
    similarity: float
    action: str = "merge"


@dataclass(frozen=True, slots=True)
class ArchiveThread(Plain):
    thread: str
    reason: Reason
    action: str = "archive"


Action = MergeThreads | ArchiveThread


@dataclass(frozen=True, slots=True)
class Tally(Plain):
    """How many threads are active, and what they weigh together."""

    active_threads: int = 0
    total_weight: float = 0.0

    @classmethod
    def of(cls, threads: Collection[ActiveThread]) -> Tally:
        return cls(len(threads), math.fsum(thread.weight for thread in threads))


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction does. `left` are the threads that remain active, as it leaves them."""

    strategy: CompactionStrategy
    at_s: float
    actions: tuple[Action, ...]
    before: Tally
    left: tuple[ActiveThread, ...]

    @property
    def after(self) -> Tally:
        return Tally.of(self.left)

    def to_json(self, *, dry_run: bool, after: Tally | None = None) -> JsonObject:
        """The report. `after` is what came of it, where that is not as it was planned."""
        return {
            "strategy": self.strategy.name,
            "dry_run": dry_run,
            "actions": [action.to_json() for action in self.actions],
            "before": self.before.to_json(),
            "after": (after or self.after).to_json(),
        }


def compact(threads: Iterable[ActiveThread], how: CompactionStrategy, now_s: float) -> Compaction:
    """What that strategy does with the active threads, whose order makes no difference."""
    active = {thread.id: thread for thread in sorted(threads, key=lambda one: one.id)}
    before = Tally.of(active.values())
    actions: list[Action] = []
    for merge in tuple(_merges(active, how)):
        kept, gone = active[merge.threads[0]], active.pop(merge.threads[1])
        active[kept.id] = replace(  # not lighter than either, and active when either was
            kept,
            last_active=max(kept.last_active, gone.last_active),
            weight=max(kept.weight, gone.weight),
            topic=merged(kept.topic, gone.topic),
        )
        actions.append(merge)
    for thread in tuple(active.values()):
        if not thread.pinned and now_s - thread.last_active > how.archive_age_days * DAY_S:
            del active[thread.id]
            actions.append(ArchiveThread(thread.id, Reason.AGE))
        elif not thread.pinned:
            active[thread.id] = replace(thread, weight=thread.weight * how.weight_decay)
    # Of equal weights the one that was idle the longest goes first.
    lightest = sorted(active.values(), key=lambda one: (one.pinned, one.weight, one.last_active, one.id))
    for thread in lightest[: max(len(active) - how.max_active_threads, 0)]:
        if not thread.pinned:
            del active[thread.id]
            actions.append(ArchiveThread(thread.id, Reason.CAPACITY))
    return Compaction(how, now_s, tuple(actions), before, tuple(active.values()))


def _merges(active: Mapping[str, ActiveThread], how: CompactionStrategy) -> Iterator[MergeThreads]:
    """The most alike first, and no thread twice. The older one goes on, unless only the younger one is pinned."""
    taken: set[str] = set()
    pairs = alike(((one.id, one.topic) for one in active.values()), how.merge_threshold)
    for similarity, *ends in sorted(pairs, key=lambda pair: (-pair[0], pair[1:])):
        kept, gone = sorted((active[end] for end in ends), key=lambda one: (not one.pinned, one.last_active, one.id))
        if not gone.pinned and taken.isdisjoint(ends):
            taken.update(ends)
            yield MergeThreads((kept.id, gone.id), similarity)
