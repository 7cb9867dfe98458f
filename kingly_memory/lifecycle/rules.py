"""The figures of every policy as the settings say them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kingly_memory.lifecycle.merging import Merging
from kingly_memory.lifecycle.strength import SEEDS_RULES, StrengthRules
from kingly_memory.lifecycle.tiers import TIER_CONFIGS, TierConfig, TierRules
from kingly_memory.models import MemoryType, Tier
from kingly_memory.settings import Settings


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """What the policies go by."""

    strength: StrengthRules
    tiers: TierRules
    merging: Merging

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Whatever settings allow makes rules: a threshold above where weak or strong begins moves that along."""
        return cls(_strength(settings), _tiers(settings), Merging(settings.merging_threshold))


def _strength(settings: Settings) -> StrengthRules:
    own_days = {kind: getattr(settings, f"{kind.value}_half_life_days") for kind in MemoryType}
    threshold = settings.forget_threshold
    return StrengthRules(
        default_half_life_days=settings.half_life_days,
        half_life_days={kind: days for kind, days in own_days.items() if days},
        forget_threshold=threshold,
        weak_below=max(SEEDS_RULES.weak_below, threshold),
        strong_from=max(SEEDS_RULES.strong_from, threshold),
        decaying_accesses=settings.decaying_accesses,
        fades=settings.decay_enabled,
    )


def _tiers(settings: Settings) -> TierRules:
    """`slow` is left for `glacial` below the threshold from which memories are placed there."""
    return TierRules(
        configs={tier: _config(settings, tier) for tier in Tier},
        half_lives={tier: getattr(settings, f"{tier.value}_half_life_hours") for tier in Tier},
        promotion_accesses=settings.promotion_accesses,
        surprise_threshold=settings.surprise_threshold,
        success_references=settings.success_references,
        glacial_entry=settings.slow_threshold,
    )


def _config(settings: Settings, tier: Tier) -> TierConfig:
    seeds = TIER_CONFIGS[tier]
    return TierConfig(
        ttl_seconds=getattr(settings, f"{tier.value}_ttl_s"),
        max_items=getattr(settings, f"{tier.value}_max_items"),
        importance_threshold=getattr(settings, f"{tier.value}_threshold", seeds.importance_threshold),
        update_frequency=seeds.update_frequency,
    )
