"""How useful a thread was when it was put into prompts (seed 002, feature 4). Pure.

The seed's mean alone would silence a thread for ever after one bad rating. So what counts is the mean together with one
useful rating that nobody gave, and never less than 0.1 (decision S1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kingly_memory.attention.focus import moment
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.validation import label

KEPT = 100
"""Ratings that are kept, the latest."""
FLOOR = 0.1
_COUNTED, _STEP = 10, 0.1
"""The last ten ratings count: with weights 1.0, 1.1 and so on, the last one the heaviest."""
_PRIOR = 1.0
"""The weight of the useful rating that nobody gave."""
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

    def rated(self, rating: Rating) -> Ratings:
        return Ratings((*self.latest, rating)[-KEPT:])

    @classmethod
    def heard(cls, entries: object, latest: datetime) -> Ratings:
        """The ratings that another machine sent. None is dated after `latest`, and invalid reasons are left out."""
        ratings = cls.from_json({"ratings": entries}).latest
        return cls(
            tuple(replace(rating, at=min(rating.at, latest), reason=_given(rating.reason)) for rating in ratings)
        )

    def united(self, theirs: Ratings) -> Ratings:
        """With those that another machine has, each once, in the order of their times."""
        both = sorted({*self.latest, *theirs.latest}, key=lambda one: (one.at, one.useful, one.reason or ""))
        return Ratings(tuple(both)[-KEPT:])

    @property
    def raw(self) -> float:
        """The seed's weighted mean, from 0 to 1; 1 without any rating."""
        useful, total = self.weights()
        return useful / total if total else 1.0

    def weights(self) -> tuple[float, float]:
        """Of the useful ratings, and of all that count."""
        weights = [(1.0 + _STEP * index, one.useful) for index, one in enumerate(self.latest[-_COUNTED:])]
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

    @classmethod
    def together(cls, facets: Iterable[object]) -> Ratings:
        """The ratings of several threads, in the order of their times."""
        by_thread = [cls.from_json(facet).latest for facet in facets]
        if len(by_thread) == 1:
            return cls(by_thread[0])
        return cls(tuple(sorted((one for latest in by_thread for one in latest), key=lambda one: one.at))[-KEPT:])


def relevance(ratings: Ratings) -> float:
    """The factor of a thread's priority, from 0.1 to 1; 1 for one that nobody rated."""
    useful, total = ratings.weights()
    return max(FLOOR, (_PRIOR + useful) / (_PRIOR + total))


def _given(reason: str | None) -> str | None:
    try:
        return label("reason", reason or None)
    except InvalidInput:
        return None


def _rating(entry: Any) -> Rating | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("useful"), bool):
        return None
    at, reason = moment(entry.get("timestamp")), entry.get("reason")
    return Rating(entry["useful"], at or _LONG_AGO, reason if isinstance(reason, str) else None)
