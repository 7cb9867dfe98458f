"""Which tier a memory belongs to: up when it proves useful, down when it fades (seed 003, decisions R1 to R5). Pure.

A run moves a memory by one tier at most, and after a move leaves it alone for the cooldown. What has earned a promotion
is not demoted by the same run. GLACIAL is entered by fading below 0.3, not by idleness, and left downward by
idleness only, to the archive; but not by working memories, which end by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.tiers import (
    SEEDS_TIERS,
    Placement,
    TierRules,
    above,
    below,
    decayed_importance,
    moved,
    placed,
)
from kingly_memory.lifecycle.verdicts import Archive, Demote, Keep, Promote, Verdict
from kingly_memory.models import MemoryType, Standing, Tier

_AT_HOME = {tier: f"it belongs to the {tier.value} tier" for tier in Tier}
_IDLE = {tier: f"idle for longer than the {tier.value} tier allows" for tier in Tier}
_FADED = {tier: f"its importance has faded below that of the {tier.value} tier" for tier in Tier}

Move = Keep | Promote | Demote | Archive


@dataclass(frozen=True, slots=True)
class Tiering:
    """The policy. What it says of one memory looks at no other; `consolidation` adds what the tiers' sizes demand."""

    rules: TierRules = SEEDS_TIERS
    enabled: bool = True

    def decide(self, subject: Subject, now_s: float) -> Move:
        if not self.enabled:
            return Keep("the tiers are switched off")
        if subject.standing is not Standing.LIVE:
            return Keep(f"it is {subject.standing.value} already")
        placement = self.placement(subject)
        if self.is_cooling(placement, now_s):
            return Keep("it has moved within the cooldown")
        merit = self._merit(subject, placement)
        higher = above(placement.tier)
        if merit is None or higher is None:
            return self._descent(subject, now_s, has_merit=merit is not None)
        if self.is_held(placement, now_s, upward=True):
            return Keep("it has earned a promotion, and has changed direction lately", merit.figures)
        return Promote(higher, merit.reason, merit.figures)

    def placement(self, subject: Subject) -> Placement:
        """The subject's own placement, or the one that its significance gives it."""
        return placed(subject.memory, self.rules) if subject.placement is None else subject.placement

    def after(self, subject: Subject, verdict: Verdict, now_s: float) -> Placement:
        """The facet once the verdict is carried out: where the memory stands changes, and nothing else."""
        placement = self.placement(subject)
        if not isinstance(verdict, Promote | Demote):
            return placement
        return moved(placement, verdict.to, now_s, accesses=subject.usage.accesses, reason=verdict.reason)

    def importance(self, subject: Subject, now_s: float) -> float:
        """The decayed importance in the tier where the memory is."""
        age_s = now_s - faded_since_s(subject)
        return decayed_importance(subject.memory.significance, age_s, self.placement(subject).tier, self.rules)

    def is_cooling(self, placement: Placement, now_s: float) -> bool:
        """A move that lies far in the future, because a clock was set back, cools nothing."""
        return placement.moved_at is not None and abs(now_s - placement.moved_at) < self.rules.cooldown_s

    def is_held(self, placement: Placement, now_s: float, *, upward: bool) -> bool:
        """True when a move that way would change direction for the second time in too short a time."""
        turned_at = placement.turned_at(upward=upward)
        return turned_at is not None and abs(now_s - turned_at) < self.rules.turn_cooldown_s

    def _merit(self, subject: Subject, placement: Placement) -> _Merit | None:
        """Why the memory should rise, from what has happened since it last moved."""
        rules = self.rules
        accesses = subject.usage.accesses - placement.accesses_at_move
        surprises = placement.surprises - placement.surprises_at_move
        successes = placement.successes - placement.successes_at_move
        if accesses >= rules.promotion_accesses:
            return _Merit("it was used often since it last moved", {"accesses": accesses})
        if surprises > 0 and placement.surprise >= rules.surprise_threshold:
            return _Merit("it proved more useful than predicted", {"surprise": placement.surprise})
        if successes >= rules.success_references:
            return _Merit("successes since it last moved refer to it", {"successes": successes})
        return None

    def _descent(self, subject: Subject, now_s: float, *, has_merit: bool) -> Move:
        """Down or not. Merit in the highest tier outweighs fading; only idleness leads down from there."""
        placement = self.placement(subject)
        lower = below(placement.tier)
        decline = self._decline(subject, placement, now_s, has_merit=has_merit)
        if decline.reason is None:
            return Keep(_AT_HOME[placement.tier], decline.figures)
        if lower is None and subject.is_protected:
            return Keep("it is protected from the archive", decline.figures)
        if lower is None and subject.memory.type is MemoryType.WORKING:
            return Keep("it is a working memory, which ends by itself", decline.figures)
        if lower is None:
            return Archive(decline.reason, decline.figures)
        if self.is_held(placement, now_s, upward=False):
            return Keep("it should step down, and has changed direction lately", decline.figures)
        return Demote(lower, decline.reason, decline.figures)

    def _decline(self, subject: Subject, placement: Placement, now_s: float, *, has_merit: bool) -> _Decline:
        tier = placement.tier
        ttl_s = self.rules.configs[tier].ttl_seconds
        settled_s = latest_s(faded_since_s(subject), placement.moved_at)
        idle_s = max(now_s - latest_s(settled_s, subject.usage.last_used), 0.0)
        importance = self.importance(subject, now_s)
        figures = {"importance": importance, "idle_s": idle_s}
        if tier is not Tier.SLOW and idle_s > ttl_s:
            return _Decline(_IDLE[tier], figures)
        has_grace = now_s - settled_s <= ttl_s
        if tier is Tier.GLACIAL or has_merit or has_grace or importance >= self._floor(tier):
            return _Decline(None, figures)
        return _Decline(_FADED[tier], figures)

    def _floor(self, tier: Tier) -> float:
        return self.rules.glacial_entry if tier is Tier.SLOW else self.rules.configs[tier].importance_threshold


@dataclass(frozen=True, slots=True)
class _Merit:
    reason: str
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Decline:
    """Why a memory should step down; None when it should not."""

    reason: str | None
    figures: Mapping[str, float] = field(default_factory=dict)


def faded_since_s(subject: Subject) -> float:
    """When the importance began to fade: the latest of creation, revision and reinforcement, in Unix seconds."""
    placement = subject.placement
    memory = subject.memory
    written_s = max(memory.created_at.timestamp(), memory.updated_at.timestamp())
    reinforced_s = None if placement is None else placement.reinforced_at
    return latest_s(written_s, reinforced_s, *subject.strength.reinforced)


def latest_s(one: float, *others: float | None) -> float:
    return max([one, *(other for other in others if other is not None)])
