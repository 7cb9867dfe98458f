"""How well a candidate serves a mode: four figures, their weighted sum, and what lifts it (seed 000, priority 1)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kingly_memory.models import Memory
from kingly_memory.retrieval.modes import ModeConfig, Weights
from kingly_memory.writing import words

RECENCY_HALF_LIFE = timedelta(days=30)
NEUTRAL = 0.5
"""The success of what nobody has recorded an outcome of."""
SAME = 0.95
"""Cosine above which two texts count as the same."""
READ_CHARACTERS = 10_000
"""How much of a text is looked through for the question's words."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The four figures of a candidate, each in [0, 1]."""

    similarity: float
    recency: float
    success: float
    confidence: float


def weighted(weights: Weights, figures: Figures) -> float:
    """Σ weight × figure, in [0, 1]."""
    return (
        weights.similarity * figures.similarity
        + weights.recency * figures.recency
        + weights.success * figures.success
        + weights.confidence * figures.confidence
    )


def recency(changed_at: datetime, now: datetime) -> float:
    """½ to the power of (age ÷ 30 days): 1 now, 0.5 a month after the memory was last changed. The future counts as
    now."""
    age = max(now - changed_at, timedelta())
    return float(0.5 ** (age / RECENCY_HALF_LIFE))


def success(succeeded: bool | None, rate: object = None) -> float:
    """1 for a task that was completed and 0 for one that failed; else the success rate that was recorded, if that is a
    number from 0 to 1; else 0.5."""
    if succeeded is not None:
        return float(succeeded)
    is_share = isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate <= 1
    return float(rate) if is_share else NEUTRAL  # type: ignore[arg-type]  # is_share has looked


def boost(config: ModeConfig, *, exact: bool) -> float:
    """What a score is multiplied by."""
    return config.exact_match_boost if exact and config.exact_match_boost > 1 else 1.0


def is_exact(query: str, memory: Memory, cosine: float | None = None) -> bool:
    """True when the question is the memory's key, stands word for word in its title or text, names its whole title, or
    is the same by its vector."""
    asked, title = _plain(query), _plain(memory.title or "")
    if query.strip() == memory.key or (cosine is not None and cosine > SAME):
        return True
    if not asked.strip():
        return False
    names_title = title in asked and len(title.split()) > 1
    return names_title or asked in title or asked in _plain(memory.content[:READ_CHARACTERS])


def _plain(text: str) -> str:
    """The words alone, each between spaces, so that no word is found inside another."""
    return f" {' '.join(words(text))} "
