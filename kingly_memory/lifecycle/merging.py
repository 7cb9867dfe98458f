"""Near-duplicates become one: which of several stands for the others, and what is joined to it. Pure.

What is pinned, of a significance of 0.8 and more, or has a key stands for others and is never joined to one. A key is
part of what is said: `staging-port` and `production-port` may both say "The port is 6432", until one of them changes.
Of the rest that which was said last stands: its words are the latest. Nothing is joined to what is joined itself: of
A ~ B ~ C, where A and C are too different, A or C stays by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kingly_memory.ids import MemoryId
from kingly_memory.intake import TAGS_LIMIT
from kingly_memory.lifecycle import checks
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.lifecycle.restating import Saying, similarity
from kingly_memory.lifecycle.strength import KEPT_REINFORCEMENTS, Strength
from kingly_memory.lifecycle.subject import Subject, Usage
from kingly_memory.lifecycle.verdicts import Merge
from kingly_memory.models import Memory, Standing
from kingly_memory.settings import Range

REASON = "another memory says the same"
_ALIKE = Range(above=True, most=1)


@dataclass(frozen=True, slots=True)
class Merging:
    """The policy. `threshold` (above 0, to 1): how alike two memories are at least. Raises InvalidSetting."""

    threshold: float = 0.85

    def __post_init__(self) -> None:
        checks.number("threshold", self.threshold, _ALIKE)

    def share(self, one: Saying | None, other: Saying | None) -> float:
        """How alike they are; 0 when that is not enough."""
        found = 0.0 if one is None or other is None else similarity(one, other)
        return found if found >= self.threshold else 0.0


@dataclass(frozen=True, slots=True)
class Group:
    """One that stands for others: as it was, and with what is joined to it; and those others with the verdict on
    each. `twin` is what it would have been joined to if it had no key."""

    was: Subject
    stands: Subject
    joined: tuple[tuple[Subject, Merge], ...] = ()
    twin: MemoryId | None = None


def may_be_joined(subject: Subject) -> bool:
    """To another one, which then stands for it."""
    return _may_be_but_for_a_key(subject) and subject.memory.key is None


def _may_be_but_for_a_key(subject: Subject) -> bool:
    return subject.standing is Standing.LIVE and not subject.is_protected


def groups(subjects: Iterable[Subject], sayings: Mapping[MemoryId, Saying], merging: Merging) -> Iterator[Group]:
    """Every subject in exactly one group; most stand for themselves. Their order makes no difference."""
    alike: defaultdict[Hashable, list[Subject]] = defaultdict(list)
    for subject in subjects:
        alike[sayings[subject.memory.id].gist].append(subject)
    for several in alike.values():
        yield from _grouped(sorted(several, key=_rank, reverse=True), sayings, merging)


def _grouped(ranked: list[Subject], sayings: Mapping[MemoryId, Saying], merging: Merging) -> Iterator[Group]:
    standing: dict[tuple[str, ...], MemoryId] = {}
    joined: defaultdict[MemoryId, list[tuple[Subject, Merge]]] = defaultdict(list)
    first: dict[MemoryId, Subject] = {}
    twins: dict[MemoryId, MemoryId] = {}
    for subject in ranked:
        mine = sayings[subject.memory.id]
        found = _nearest(mine, standing, sayings, merging) if _may_be_but_for_a_key(subject) else None
        if found is not None and may_be_joined(subject):
            into, share = found
            verdict = Merge(into, REASON, {"similarity": share}, first[into].memory.revision)
            joined[into].append((subject, verdict))
            continue
        if found is not None:
            twins[subject.memory.id] = found[0]
        standing.setdefault(mine.fillers, subject.memory.id)
        first[subject.memory.id] = subject
    for memory_id, subject in first.items():
        stands = subject
        for other, _ in joined[memory_id]:
            stands = join(stands, other)
        yield Group(subject, stands, tuple(joined[memory_id]), twins.get(memory_id))


def _nearest(
    mine: Saying,
    standing: Mapping[tuple[str, ...], MemoryId],
    sayings: Mapping[MemoryId, Saying],
    merging: Merging,
) -> tuple[MemoryId, float] | None:
    """The most alike of those that stand, of equals the first. `standing` has the first of those with the same fillers,
    which are equally alike."""
    best: tuple[MemoryId, float] | None = None
    for into in standing.values():
        share = merging.share(mine, sayings[into])
        if share and (best is None or share > best[1]):
            best = into, share
    return best


def _rank(subject: Subject) -> tuple[bool, bool, float, str]:
    has_key = subject.memory.key is not None
    return not _may_be_but_for_a_key(subject), has_key, subject.memory.updated_at.timestamp(), subject.memory.id


def join(stands: Subject, other: Subject) -> Subject:
    """What stands, with what lies beside the other one joined to it; its words stay as they are."""
    return replace(
        stands,
        memory=_memory(stands.memory, other.memory),
        lifetime=_later(stands.lifetime, other.lifetime),
        usage=_usage(stands.usage, other.usage),
        strength=_strength(stands.strength, other.strength),
    )


def _memory(stands: Memory, other: Memory) -> Memory:
    """A new revision where anything is gained. The time is that of the latest who said it: merging says nothing new."""
    gained = replace(
        stands,
        tags=tuple(dict.fromkeys((*stands.tags, *other.tags)))[: max(TAGS_LIMIT, len(stands.tags))],
        significance=max(stands.significance, other.significance),
        confidence=max(stands.confidence, other.confidence),
    )
    if gained == stands:
        return stands
    return replace(gained, updated_at=max(stands.updated_at, other.updated_at), revision=stands.revision + 1)


def _later(one: Lifetime | None, other: Lifetime | None) -> Lifetime | None:
    """The lifetime that ends later; None never does, nor does one that does not count."""
    if one is None or other is None:
        return None
    if one.expires_at is None or other.expires_at is None:
        return one._replace(expires_at=None)
    return one._replace(expires_at=max(one.expires_at, other.expires_at))


def _usage(one: Usage, other: Usage) -> Usage:
    times = [at for at in (one.last_used, other.last_used) if at is not None]
    return Usage(one.accesses + other.accesses, max(times, default=None))


def _strength(one: Strength, other: Strength) -> Strength:
    half_lives = (one.half_life_days, other.half_life_days)
    longest = max((days for days in half_lives if days is not None), default=None)
    return Strength(
        half_life_days=one.half_life_days if one.half_life_days is None else longest,
        initial=max(one.initial, other.initial),
        reinforced=tuple(sorted((*one.reinforced, *other.reinforced))[-KEPT_REINFORCEMENTS:]),
    )
