"""The fields of files, checked: each function raises an InvalidInput that names the place in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kingly_memory.adapters.files.reading import point_in_time
from kingly_memory.errors import InvalidInput
from kingly_memory.models import WEIGHT_LIMIT, JsonObject
from kingly_memory.validation import KEY_LIMIT, mended, shown

_MOST_RATINGS, _MOST_TEXTS = 1_000, 10_000
_RATINGS_KEPT = 100
"""The latest ones count; a thread's file may hold more."""


def time_of(where: str, value: Any, now: datetime) -> datetime | None:
    at = point_in_time(where, value)
    return None if at is None else min(at, now)


def mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(where, "is not an object")
    return value


def listed(where: str, value: Any, most: int) -> Sequence[Any]:
    """A list; a missing one is empty."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidInput(where, "is not a list")
    if len(value) > most:
        raise InvalidInput(where, f"has {len(value):,} entries, at most {most:,} are read")
    return value


def text(where: str, value: Any) -> str:
    """A text; a missing one is empty."""
    if value is not None and not isinstance(value, str):
        raise InvalidInput(where, "is not a text")
    return mended(value or "")


def texts(where: str, value: Any, most: int) -> list[str]:
    """Short texts, without empty ones."""
    strings = [text(f"{where}[{index}]", entry) for index, entry in enumerate(listed(where, value, most))]
    for index, entry in enumerate(strings):
        if len(entry) > KEY_LIMIT:
            raise InvalidInput(f"{where}[{index}]", f"has {len(entry):,} characters, at most {KEY_LIMIT} are allowed")
    return [one for one in strings if one.strip()]


def number(where: str, value: Any, default: float, most: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(where, "is not a number")
    if not 0 <= value <= most:
        raise InvalidInput(where, f"{shown(value)} is outside 0 to {most:g}")
    return value


def whole(where: str, value: Any) -> int:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53):
        raise InvalidInput(where, f"{shown(value)!r} is not a whole number from 0 on")
    return value or 0


def title(value: Any) -> str | None:
    """On one line, and no longer than a title of ours."""
    printable = "".join(character if character.isprintable() else " " for character in text("title", value))
    return " ".join(printable.split())[:KEY_LIMIT].strip() or None


def ratings(where: str, value: Any, now: datetime) -> list[JsonObject]:
    """The latest ratings as {useful, timestamp, reason}, the time a datetime; a plain true or false was given without
    the other two."""
    rated: list[JsonObject] = []
    for index, entry in enumerate(listed(where, value, _MOST_RATINGS)):
        of = f"{where}[{index}]"
        data = {"useful": entry} if isinstance(entry, bool) else mapping(of, entry)
        if not isinstance(data.get("useful"), bool):
            raise InvalidInput(f"{of}.useful", "is neither true nor false")
        timestamp = time_of(f"{of}.timestamp", data.get("timestamp"), now)
        reason = text(f"{of}.reason", data.get("reason")) or None
        rated.append({"useful": data["useful"], "timestamp": timestamp, "reason": reason})
    return rated[-_RATINGS_KEPT:]


# --- what lies beside a memory or a context ---------------------------------------------------------------------------

_THREAD: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("context_id", "title", "into"), str),
    **dict.fromkeys(("topics", "holds"), list),
    **dict.fromkeys(("archived_at", "recalls", "recalled_at"), (int, float)),
}
_NOTE = ("folder", "path", "heading", "text", "said")


def beside(value: Any, now: datetime) -> dict[str, JsonObject]:
    """The facets of an export that are carried into another home: uses, weight and pin, ratings, what was said of a
    thread, and which note of a folder a memory is. Others are left out."""
    values = mapping("beside", {} if value is None else value)
    facets: dict[str, JsonObject] = {}
    if "attention" in values:
        facets["attention"] = _attention("beside.attention", values["attention"])
    if "ratings" in values:
        given = mapping("beside.ratings", values["ratings"]).get("ratings")
        checked = ratings("beside.ratings.ratings", given, now)
        raw = [rating.get("timestamp") if isinstance(rating, Mapping) else None for rating in given or ()]
        # Their times stay as they are written, so that an export of the import is the same.
        kept = [{**rating, "timestamp": at} for rating, at in zip(checked, raw[-len(checked) :], strict=False)]
        facets["ratings"] = {"ratings": kept} if kept else {}
    if "usage" in values:
        usage = mapping("beside.usage", values["usage"])
        times = whole("beside.usage.accesses", usage.get("accesses"))
        facets["usage"] = {"accesses": times, "last_used": _seconds("beside.usage.last_used", usage.get("last_used"))}
        if "sightings" in usage:
            facets["usage"]["sightings"] = max(whole("beside.usage.sightings", usage["sightings"]), 1)
    if "thread" in values:
        facets["thread"] = _thread("beside.thread", values["thread"])
    if "note" in values:
        note = mapping("beside.note", values["note"])
        facets["note"] = {name: text(f"beside.note.{name}", note.get(name)) for name in _NOTE}
    return {name: facet for name, facet in facets.items() if facet}


def _attention(where: str, value: Any) -> JsonObject:
    values = mapping(where, value)
    weight = {"weight": number(f"{where}.weight", values["weight"], 1.0, WEIGHT_LIMIT)} if "weight" in values else {}
    at = {"at": _seconds(f"{where}.at", values["at"])} if "at" in values else {}
    return {**weight, **({"pinned": values["pinned"] is True} if "pinned" in values else {}), **at}


def _thread(where: str, value: Any) -> JsonObject:
    kept = {name: item for name, item in mapping(where, value).items() if name in _THREAD}
    for name, item in kept.items():
        if not isinstance(item, _THREAD[name]):
            raise InvalidInput(f"{where}.{name}", f"{shown(item)!r} is not what a thread has there")
    for name in ("topics", "holds"):
        texts(f"{where}.{name}", kept.get(name), _MOST_TEXTS)
    return kept


def _seconds(where: str, value: Any) -> float:
    """A time in Unix seconds."""
    at = point_in_time(where, value)
    if at is None or isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(where, "is no time in Unix seconds")
    return value
