"""What an agent wants kept in view: its weight, its title, and the name of its thread (seed 002, feature 2). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kingly_memory.attention.clamping import Weight, clamped
from kingly_memory.attention.fence import MARKS
from kingly_memory.models import JsonObject

TAG = "pinned"
SOURCE = "agent_pin"
BOOST = 0.3
"""What a pin weighs above 1, unless somebody says something else."""
MOST_BOOST = 0.5
TITLE_LENGTH = 60
_LOOKED_AT = 4_096
"""Characters of a text in which its first sentence is looked for."""

_SENTENCE = re.compile(r"(?<=[.!?。！？])(?:\s|(?<=[。！？]))")


def thread_id(now: datetime, chance: bytes) -> str:
    """The name of a thread that we begin, as in the seed: `thread_20260201_083000_abc123`, UTC and three random
    bytes."""
    return f"thread_{now.astimezone(UTC):%Y%m%d_%H%M%S}_{chance[:3].hex():0>6}"


def weight(boost: object) -> Weight:
    """What a thread weighs that is pinned with that boost, which is brought into 0 to 0.5. Raises InvalidInput."""
    said = clamped("weight_boost", boost, MOST_BOOST)
    return said._replace(value=1.0 + said.value)


def title(content: str) -> str | None:
    """The first sentence of a text, at most 60 characters of it; None when there is nothing to read in it."""
    lines = (_readable(line).lstrip(MARKS) for line in content[:_LOOKED_AT].splitlines())
    line = next((line for line in lines if line), "")
    first = _SENTENCE.split(line, maxsplit=1)[0].strip()
    if len(first) <= TITLE_LENGTH:
        return first.removesuffix(".").rstrip() or None
    cut = first[: TITLE_LENGTH - 1]  # and an ellipsis
    words = cut if first[TITLE_LENGTH - 1] == " " else cut.rpartition(" ")[0]
    return f"{(words or cut).rstrip(' ,;:')}…"


def pinned(weight: float) -> JsonObject:
    """The facet `attention` of what is pinned."""
    return {"weight": weight, "pinned": True}


def unpinned(before: Mapping[str, Any]) -> JsonObject | None:
    """The facet without the pin; None when nothing is left to say."""
    rest = {name: value for name, value in before.items() if name not in ("weight", "pinned")}
    return rest or None


def is_pinned(facet: Mapping[str, Any] | None) -> bool:
    return facet is not None and facet.get("pinned") is True


def _readable(line: str) -> str:
    """On one line, without control characters."""
    return " ".join("".join(one if one >= " " and one != "\x7f" else " " for one in line).split())
