"""What an agent wants kept in view: its weight, its title, and the id of its thread (seed 002, feature 2). Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kingly_memory.attention.fence import MARKS
from kingly_memory.attention.focus import clamped
from kingly_memory.models import WEIGHT_LIMIT, JsonObject

TAG = "pinned"
SOURCE = "agent_pin"
BOOST = 0.3
"""What a pin weighs above 1, unless the caller says something else."""
_MOST_BOOST = 0.5
_TICK_S = 1e-6
_TITLE_LENGTH = 60
_LOOKED_AT = 4_096
"""Characters of a text in which its first sentence is looked for."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])(?:\s|(?<=[。！？]))")


def thread_id(now: datetime, chance: bytes) -> str:
    """The id of a thread that we begin, as in the seed: `thread_20260201_083000_abc123`, UTC and three random bytes."""
    return f"thread_{now.astimezone(UTC):%Y%m%d_%H%M%S}_{chance[:3].hex():0>6}"


def weight(boost: object) -> float:
    """What a thread weighs that is pinned with that boost, which is brought into 0 to 0.5. Raises InvalidInput."""
    return 1.0 + clamped("weight_boost", boost, _MOST_BOOST)


def title(content: str) -> str | None:
    """The first sentence of a text, at most 60 characters of it; None when there is nothing to read in it."""
    line = ""
    for raw in content[:_LOOKED_AT].splitlines():
        visible = "".join(character if character >= " " and character != "\x7f" else " " for character in raw)
        if line := " ".join(visible.split()).lstrip(MARKS):
            break
    first = _SENTENCE.split(line, maxsplit=1)[0].strip()
    if len(first) <= _TITLE_LENGTH:
        return first.removesuffix(".").rstrip() or None
    cut = first[: _TITLE_LENGTH - 1]  # and an ellipsis
    words = cut if first[_TITLE_LENGTH - 1] == " " else cut.rpartition(" ")[0]
    return f"{(words or cut).rstrip(' ,;:')}…"


def pinned(weight: float, at_s: float) -> JsonObject:
    """The facet `attention` of what is pinned. By its time (Unix seconds) machines agree on what was said last."""
    return {"weight": weight, "pinned": True, "at": at_s}


def unpinned(before: Mapping[str, Any], at_s: float) -> JsonObject:
    """The facet without the pin, as of now or just after the pin, which a machine whose clock is ahead may have set."""
    return {"pinned": False, "at": max(at_s, _set_s(before) + _TICK_S)}


def is_pinned(facet: Mapping[str, Any] | None) -> bool:
    return facet is not None and facet.get("pinned") is True


def received(value: object, latest_s: float) -> JsonObject | None:
    """The facet that another machine sent, dated `latest_s` at the latest; None for what makes no sense."""
    if not isinstance(value, Mapping) or not isinstance(value.get("pinned"), bool):
        return None
    at_s = min(_set_s(value), latest_s)
    if not value["pinned"]:
        return {"pinned": False, "at": at_s}
    weighs = _number(value.get("weight"), 1.0)
    return pinned(min(max(weighs, 0.0), WEIGHT_LIMIT), at_s)


def is_later(facet: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    """Whether the first facet was said after the second. Of two of one moment every machine chooses the same."""
    return other is None or _order(facet) > _order(other)


def _order(facet: Mapping[str, Any]) -> tuple[float, bool, float]:
    return _set_s(facet), is_pinned(facet), _number(facet.get("weight"), 1.0)


def _set_s(facet: Mapping[str, Any]) -> float:
    return max(_number(facet.get("at"), 0.0), 0.0)


def _number(value: object, usual: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else usual  # type: ignore[arg-type]  # a number, as was just looked at
