"""The fields of a thread's file: what is missing gets a default, and what is wrong an InvalidInput that names it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kingly_memory.adapters.files.reading import point_in_time
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import KEY_LIMIT, METADATA_DEPTH, label, mended, shown
from kingly_memory.models import JsonObject

WEIGHT_LIMIT = 10.0
"""A file is not to drown out everything else: pins weigh 1.5 at most, and all other threads no more than 1."""
COUNT_LIMIT = 2**53
MOST_TOPICS, MOST_DRIFTS, MOST_RATINGS, MOST_FOCUSES = 100, 1_000, 1_000, 50
RATINGS_KEPT = 100
"""The latest ones count; a thread's file may hold more."""


@dataclass(slots=True)
class Times:
    """The times of one file, of which none can be later than `now`; without a `now` all are believed. `ahead` names the
    fields that lie in the future."""

    now: datetime | None = None
    ahead: set[str] = field(default_factory=set)

    def at(self, where: str, value: Any) -> datetime | None:
        """A time; one in the future is taken as now."""
        at = point_in_time(where, value)
        if at is None or self.now is None or at <= self.now:
            return at
        self.ahead.add(where)
        return self.now

    def written(self, where: str, value: Any) -> str | None:
        """The same, as it was written if it was in ISO 8601; else in that form."""
        at = self.at(where, value)
        is_iso = isinstance(value, str) and not value.isdecimal() and where not in self.ahead
        return None if at is None else value if is_iso else seed_time(at)


def plain(value: Any, where: str = "", depth: int = METADATA_DEPTH) -> Any:
    """A copy without what the store cannot hold: lone surrogates are mended, the rest is refused."""
    if isinstance(value, str):
        return mended(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidInput(where, "is a whole number beyond 64 bits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(where, "is a number that is too large")
        return value
    if depth == 0:
        raise InvalidInput(where, f"is nested deeper than {METADATA_DEPTH} levels")
    if isinstance(value, list):
        return [plain(one, f"{where}[{place}]", depth - 1) for place, one in enumerate(value)]
    return {mended(name): plain(one, _below(where, name), depth - 1) for name, one in value.items()}


def mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(where, "is not an object")
    return value


def listed(where: str, value: Any, most: int) -> list[Any]:
    """A list; a missing one is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(where, "is not a list")
    if len(value) > most:
        raise InvalidInput(where, f"has {len(value):,} entries, at most {most:,} are read")
    return value


def text(where: str, value: Any) -> str:
    """A text; a missing one is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(where, "is not a text")
    return value


def texts(where: str, value: Any, most: int) -> list[str]:
    """Short texts, without empty ones."""
    found = [text(f"{where}[{place}]", one) for place, one in enumerate(listed(where, value, most))]
    for place, one in enumerate(found):
        if len(one) > KEY_LIMIT:
            raise InvalidInput(f"{where}[{place}]", f"has {len(one):,} characters, at most {KEY_LIMIT} are allowed")
    return [one for one in found if one.strip()]


def number(where: str, value: Any, default: float, most: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(where, "is not a number")
    if not 0 <= value <= most:
        raise InvalidInput(where, f"{shown(value)} is outside 0 to {most:g}")
    return value


def count(where: str, value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_LIMIT:
        raise InvalidInput(where, f"{shown(value)!r} is not a whole number from 0 on")
    return value


def title(value: Any) -> str | None:
    """On one line, and no longer than a title of ours."""
    printable = "".join(one if one.isprintable() else " " for one in text("title", value))
    return " ".join(printable.split())[:KEY_LIMIT].strip() or None


def ratings(value: Any, times: Times) -> list[JsonObject]:
    """The latest ratings as {useful, timestamp, reason}; a plain true or false was given without the other two."""
    given = enumerate(listed("ratings", value, MOST_RATINGS))
    return [_rating(f"ratings[{place}]", one, times) for place, one in given][-RATINGS_KEPT:]


def focus(value: Any, times: Times) -> JsonObject:
    """A focus.json in its own form. Of a topic that is there twice, what was said last. Raises InvalidInput."""
    data = mapping("focus", value)
    found = (
        _focus(f"active_focus[{place}]", one, times)
        for place, one in enumerate(listed("active_focus", data.get("active_focus"), MOST_FOCUSES))
    )
    by_topic = {one["topic"].casefold(): one for one in found}
    updated = data.get("last_updated")
    return {"active_focus": list(by_topic.values()), "last_updated": times.written("last_updated", updated)}


def latest(moments: Iterable[datetime | None]) -> datetime | None:
    return max((one for one in moments if one is not None), default=None)


def seed_time(at: datetime) -> str:
    """A time as the seed's files write it: ISO 8601 without a zone. Ours are UTC."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat()


def _rating(where: str, value: Any, times: Times) -> JsonObject:
    if isinstance(value, bool):
        return {"useful": value, "timestamp": None, "reason": None}
    data = mapping(where, value)
    if not isinstance(data.get("useful"), bool):
        raise InvalidInput(f"{where}.useful", "is neither true nor false")
    timestamp = times.written(f"{where}.timestamp", data.get("timestamp"))
    return {
        "useful": data["useful"],
        "timestamp": timestamp,
        "reason": text(f"{where}.reason", data.get("reason")) or None,
    }


def _focus(where: str, value: Any, times: Times) -> JsonObject:
    data = mapping(where, value)
    try:
        topic = label("topic", data.get("topic"))
    except InvalidInput as error:
        raise InvalidInput(f"{where}.topic", error.problem) from None
    if topic is None:
        raise InvalidInput(f"{where}.topic", "is missing")
    weight = number(f"{where}.weight", data.get("weight"), 0.8, 1.0)
    set_at = times.written(f"{where}.set_at", data.get("set_at"))
    return {**data, "topic": topic, "weight": weight, "set_at": set_at}


def _below(where: str, name: str) -> str:
    return f"{where}.{shown(name)}" if where else shown(name)
