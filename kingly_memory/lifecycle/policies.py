"""What each policy decides about one memory, with the reason and the figures it rests on. Pure.

`ended` is the end of a lifetime (seed 004) or of a `ttl`, `faded` too little strength (seed 000), `tiered` the tiers
(seed 003). None looks at another memory: `plan` asks them all and adds what depends on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kingly_memory.dataclass import dataclass, field
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import decay, tiers
from kingly_memory.lifecycle.decay import DAY_S, Strength, StrengthRules, StrengthState, Vitals
from kingly_memory.lifecycle.lifetimes import PROTECTED_FROM, Lifetime, is_expired
from kingly_memory.lifecycle.tiers import Placement, above, below, placed
from kingly_memory.models import EXPERIENCE, JsonObject, Memory, MemoryStatus, MemoryType, Tier
from kingly_memory.plain import Plain
from kingly_memory.settings import Tiers

# --- what a policy sees ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """The facet `usage:<id>`: how often a memory was used, and when last (Unix seconds, None for never); how often it
    was stored."""

    accesses: int = 0
    last_used: float | None = None
    sightings: int = 1

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        return cls(int(data["accesses"]), float(data["last_used"]), int(data.get("sightings", 1)))


@dataclass(frozen=True, slots=True)
class Subject:
    """A memory and the facets that lie beside it. `awaited`: a remote that should have it has not acknowledged it."""

    memory: Memory
    status: MemoryStatus
    lifetime: Lifetime | None = None
    usage: Usage = field(default_factory=Usage)
    strength: Strength = field(default_factory=Strength)
    placement: Placement | None = None
    weight: float = 1.0
    pinned: bool = False
    awaited: bool = False

    @property
    def mark(self) -> int:
        """Another number after any use, reinforcement, judgement, move or pin, whatever the clock said then. Holds
        within one process."""
        return hash((self.usage, self.strength, self.placement, self.weight, self.pinned))

    @property
    def is_protected(self) -> bool:
        is_held = self.memory.metadata.get("record") == EXPERIENCE
        return self.pinned or is_held or self.memory.significance >= PROTECTED_FROM

    @property
    def vitals(self) -> Vitals:
        usage = self.usage
        return Vitals.of(self.memory, self.strength, accesses=usage.accesses, last_used=usage.last_used)

    @property
    def faded_since_s(self) -> float:
        """When its importance began to fade: the latest of creation, revision and reinforcement, in Unix seconds."""
        memory, reinforced_at = self.memory, None if self.placement is None else self.placement.reinforced_at
        written_s = max(memory.created_at.timestamp(), memory.updated_at.timestamp())
        return max(written_s, reinforced_at or written_s, *self.strength.reinforced)

    def placed(self, rules: Tiers) -> Placement:
        """Its own placement, or the one that its significance gives it."""
        return placed(self.memory, rules) if self.placement is None else self.placement

    def importance(self, now_s: float, rules: Tiers, tier: Tier | None = None) -> float:
        """The decayed importance in the tier where it is, or in another one."""
        level = tier or self.placed(rules).tier
        return tiers.decayed_importance(self.memory.significance, now_s - self.faded_since_s, level, rules)


# --- what a policy can decide ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a policy wants, why, and by which figures. It leaves a memory as it is where there is none."""

    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


class Archive(Verdict):
    """Take it out of sight; `restore` brings it back."""


class Expire(Verdict):
    """Erase it: only for working memories and copies of what the remote holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Verdict):
    """Move it to the next tier."""

    to: Tier


class Promote(Move):
    """One tier up."""


class Demote(Move):
    """One tier down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarise(Verdict):
    """Archive it behind a summary that is linked to it. Those with the same `topic` and `agent` share one."""

    topic: str
    agent: str | None = None


# --- the policies ---------------------------------------------------------------------------------------------------


def ended(subject: Subject, now_s: float) -> Archive | Expire | None:
    """What has ended goes to the archive, but for working memories and copies, which are erased.

    A working memory of a significance of 0.8 and more is archived too: what matters that much is never lost. The others
    are erased only when every remote that should have them does.
    """
    lifetime = subject.lifetime
    if lifetime is None or lifetime.expires_at is None or not is_expired(lifetime, now_s):
        return None
    figures = {"ended_s_ago": now_s - lifetime.expires_at}
    if subject.status is MemoryStatus.CACHED:
        return Expire("a copy of what the remote holds, past its lifetime", figures)
    if subject.status is not MemoryStatus.LIVE or subject.pinned:
        return None
    if subject.memory.type is not MemoryType.WORKING or subject.memory.significance >= PROTECTED_FROM:
        if lifetime.sliding_s is None:
            return Archive("its ttl has ended", figures)
        return Archive(f"nobody has used it for {lifetime.sliding_s / DAY_S:g} days", figures)
    return None if subject.awaited else Expire("a working memory past its lifetime", figures)


def faded(subject: Subject, now_s: float, rules: StrengthRules = decay.SEEDS_RULES) -> Archive | None:
    """What has too little strength goes to the archive; `plan` spares the last of each category (A7, A10)."""
    if not rules.fades or subject.status is not MemoryStatus.LIVE or subject.is_protected:
        return None
    vitals = subject.vitals
    if decay.state(decay.current(vitals, now_s, rules), rules) is not StrengthState.FORGETTABLE:
        return None
    return Archive(f"its strength is below {rules.forget_threshold:g}", decay.figures(vitals, now_s, rules))


def tiered(subject: Subject, now_s: float, rules: Tiers = tiers.SEEDS_TIERS) -> Promote | Demote | Archive | None:
    """Up when it proves useful, down when it fades (decisions R1 to R5).

    By one tier at most, and after a move it stays for the cooldown. What has earned a promotion is not demoted.
    GLACIAL is entered by fading below 0.3, not by idleness, and left downward by idleness only, to the archive; but
    not by working memories, which end by themselves.
    """
    placement = subject.placed(rules)
    if subject.status is not MemoryStatus.LIVE or placement.is_cooling(now_s):
        return None
    tier, merit = placement.tier, _merit(subject, placement, rules)
    higher, lower = above(tier), below(tier)
    if merit is not None and higher is not None:
        return None if placement.is_held(now_s, upward=True) else Promote(*merit, to=higher)
    ttl_s = rules.configs[tier].ttl_seconds
    settled_s = max(subject.faded_since_s, placement.moved_at or subject.faded_since_s)
    idle_s = max(now_s - max(settled_s, subject.usage.last_used or settled_s), 0.0)
    importance = subject.importance(now_s, rules)
    figures = {"importance": importance, "idle_s": idle_s}
    # Merit in FAST outweighs fading, and whatever has just come or was revised has the time of its tier.
    may_fade = tier is not Tier.GLACIAL and merit is None and now_s - settled_s > ttl_s
    if tier is not Tier.SLOW and idle_s > ttl_s:
        reason = f"idle for longer than the {tier.value} tier allows"
    elif may_fade and importance < rules.configs[tier].importance_threshold:
        reason = f"its importance has faded below that of the {tier.value} tier"
    else:
        return None
    if lower is not None:
        return None if placement.is_held(now_s, upward=False) else Demote(reason, figures, to=lower)
    stays = subject.is_protected or subject.memory.type is MemoryType.WORKING  # which ends by itself
    return None if stays else Archive(reason, figures)


def _merit(subject: Subject, placement: Placement, rules: Tiers) -> tuple[str, dict[str, float]] | None:
    """Why the memory should rise, from what has happened since it last moved."""
    accesses = subject.usage.accesses - placement.accesses_at_move
    surprises = placement.surprises - placement.surprises_at_move
    successes = placement.successes - placement.successes_at_move
    if accesses >= rules.promotion_accesses:
        return "it was used often since it last moved", {"accesses": accesses}
    if surprises > 0 and placement.surprise >= rules.surprise_threshold:
        return "it proved more useful than predicted", {"surprise": placement.surprise}
    if successes >= rules.success_references:
        return "successes since it last moved refer to it", {"successes": successes}
    return None


def moved(subject: Subject, verdict: Move, now_s: float, rules: Tiers) -> Placement:
    """The facet once the verdict is carried out."""
    return tiers.moved(subject.placed(rules), verdict.to, now_s, accesses=subject.usage.accesses)


# --- what has faded -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Faded(Plain):
    """A memory and its strength."""

    memory_id: MemoryId
    strength: float


@dataclass(frozen=True, slots=True)
class WeakMemories:
    """What has faded, each list weakest first. `forgettable` may go with the next sweep, unless one is the last of its
    category; `recoverable` are weak and a use brings them back; `protected` would be forgettable and are not."""

    forgettable: tuple[Faded, ...] = ()
    recoverable: tuple[Faded, ...] = ()
    protected: tuple[Faded, ...] = ()

    def to_json(self) -> JsonObject:
        """In the seed's names, with `protected` beside."""
        return {
            "forgettable": [one.memory_id for one in self.forgettable],
            "protected": [one.memory_id for one in self.protected],
            "recoverable": [one.to_json() for one in self.recoverable],
        }


def weak(subjects: Iterable[Subject], now_s: float, rules: StrengthRules = decay.SEEDS_RULES) -> WeakMemories:
    """The live memories that are weak or forgettable."""
    forgettable: list[Faded] = []
    recoverable: list[Faded] = []
    protected: list[Faded] = []
    for subject in subjects:
        entry = Faded(subject.memory.id, decay.current(subject.vitals, now_s, rules))
        reached = decay.state(entry.strength, rules)
        if reached is StrengthState.WEAK:
            recoverable.append(entry)
        elif reached is StrengthState.FORGETTABLE:
            (protected if subject.is_protected else forgettable).append(entry)
    lists = (forgettable, recoverable, protected)
    return WeakMemories(*(tuple(sorted(some, key=lambda one: (one.strength, one.memory_id))) for some in lists))
