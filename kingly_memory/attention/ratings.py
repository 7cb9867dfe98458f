"""How useful a thread was when it was put into prompts (seed 002, feature 4). Pure.

The seed's mean alone would silence a thread for ever after one bad rating, so that what counts is the mean together
with one useful rating that nobody gave, and never less than 0.1 (decision S1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kingly_memory.attention.focus import moment
from kingly_memory.models import JsonObject

COUNTED = 10
"""Ratings that count, the latest: of weight 1.0, 1.1, and so on, the last one the heaviest."""
STEP = 0.1
PRIOR = 1.0
"""The weight of the useful rating that nobody gave."""
FLOOR = 0.1
UNUSED = 0.9
"""By which relevance is multiplied for each session in a row that was shown the thread and did not use it."""
KEPT = 100
"""Ratings that are kept, the latest."""
_LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Rating:
    useful: bool
    at: datetime = _LONG_AGO
    reason: str | None = None

    def to_json(self) -> JsonObject:
        return {"useful": self.useful, "timestamp": self.at.isoformat(), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Ratings:
    """The latest ratings of a thread, oldest first."""

    latest: tuple[Rating, ...] = ()

    def __len__(self) -> int:
        return len(self.latest)

    def rated(self, one: Rating) -> Ratings:
        return Ratings((*self.latest, one)[-KEPT:])

    def without_last(self) -> Ratings:
        return Ratings(self.latest[:-1])

    def are_of_all(self, showings: Iterable[float]) -> bool:
        """Whether each of these times (Unix seconds) at which the thread was shown has been rated since. A rating
        is of one of them."""
        left = sorted(showings)
        for given in sorted(one.at.timestamp() for one in self.latest):
            if left and left[0] <= given:
                left.pop(0)
        return not left

    @property
    def raw(self) -> float:
        """The seed's weighted mean of the last ten, from 0 to 1; 1 without any."""
        useful, total = self._weights()
        return useful / total if total else 1.0

    @property
    def blended(self) -> float:
        """The same mean with the rating that nobody gave, above 0."""
        useful, total = self._weights()
        return (PRIOR + useful) / (PRIOR + total)

    def _weights(self) -> tuple[float, float]:
        """Of the useful ones, and of all that count."""
        weights = [(1.0 + STEP * place, one.useful) for place, one in enumerate(self.latest[-COUNTED:])]
        return math.fsum(weight for weight, useful in weights if useful), math.fsum(weight for weight, _ in weights)

    def to_json(self) -> JsonObject:
        """As in the seed's thread files."""
        return {"ratings": [one.to_json() for one in self.latest]}

    @classmethod
    def from_json(cls, data: object) -> Ratings:
        """What of it can be read. Never raises."""
        entries = data.get("ratings") if isinstance(data, Mapping) else None
        read = [_rating(entry) for entry in entries] if isinstance(entries, list) else []
        return cls(tuple(one for one in read if one is not None)[-KEPT:])


def relevance(ratings: Ratings, unused: int = 0) -> float:
    """By which a thread's priority is multiplied, from 0.1 to 1; 1 for one that nobody rated or left unused.

    `unused`: sessions in a row whose prompts it was put into without being used.
    """
    return max(FLOOR, min(ratings.blended * UNUSED ** max(unused, 0), 1.0))


def unused_together(counts: Iterable[int]) -> int:
    """Of the memories of a thread, each with its own count: what one of them was used for, all were."""
    return max(min(counts, default=0), 0)


def _rating(entry: Any) -> Rating | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("useful"), bool):
        return None
    at, reason = moment(entry.get("timestamp")), entry.get("reason")
    return Rating(entry["useful"], at or _LONG_AGO, reason if isinstance(reason, str) else None)
