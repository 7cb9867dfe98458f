"""What an agent wants kept in view: its weight, its title, and the id of its thread (seed 002, feature 2). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kingly_memory.attention.fence import MARKS
from kingly_memory.attention.focus import Weight, clamped
from kingly_memory.models import JsonObject

TAG = "pinned"
SOURCE = "agent_pin"
BOOST = 0.3
"""What a pin weighs above 1, unless the caller says something else."""
_MOST_BOOST = 0.5
_TITLE_LENGTH = 60
_LOOKED_AT = 4_096
"""Characters of a text in which its first sentence is looked for."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])(?:\s|(?<=[。！？]))")


def thread_id(now: datetime, chance: bytes) -> str:
    """The id of a thread that we begin, as in the seed: `thread_20260201_083000_abc123`, UTC and three random bytes."""
    return f"thread_{now.astimezone(UTC):%Y%m%d_%H%M%S}_{chance[:3].hex():0>6}"


def weight(boost: object) -> Weight:
    """What a thread weighs that is pinned with that boost, which is brought into 0 to 0.5. Raises InvalidInput."""
    said = clamped("weight_boost", boost, _MOST_BOOST)
    return said._replace(value=1.0 + said.value)


def title(content: str) -> str | None:
    """The first sentence of a text, at most 60 characters of it; None when there is nothing to read in it."""
    line = ""
    for raw in content[:_LOOKED_AT].splitlines():
        visible = "".join(one if one >= " " and one != "\x7f" else " " for one in raw)
        if line := " ".join(visible.split()).lstrip(MARKS):
            break
    first = _SENTENCE.split(line, maxsplit=1)[0].strip()
    if len(first) <= _TITLE_LENGTH:
        return first.removesuffix(".").rstrip() or None
    cut = first[: _TITLE_LENGTH - 1]  # and an ellipsis
    words = cut if first[_TITLE_LENGTH - 1] == " " else cut.rpartition(" ")[0]
    return f"{(words or cut).rstrip(' ,;:')}…"


def unpinned(before: Mapping[str, Any]) -> JsonObject | None:
    """The facet `attention` without the pin; None when nothing is left to say."""
    rest = {name: value for name, value in before.items() if name not in ("weight", "pinned")}
    return rest or None


def is_pinned(facet: Mapping[str, Any] | None) -> bool:
    return facet is not None and facet.get("pinned") is True
