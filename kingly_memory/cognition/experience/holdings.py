"""All that an agent's memory holds, as a value and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kingly_memory import intake
from kingly_memory.cognition.experience.episodes import Kept
from kingly_memory.cognition.experience.items import LATEST_YEAR, MemoryItem
from kingly_memory.cognition.experience.rules import ExperienceRules
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

FORMAT, VERSION = "kingly-memory/cognitive", 1
MOST = 2**62


class Holdings(NamedTuple):
    """Working memory, oldest first, and episodes, in the order in which they came in. What is in both is the same
    item, of the same order. `experienced` counts all there ever were, as far as that is known."""

    latest_year: int = 0
    working: tuple[Kept, ...] = ()
    episodic: tuple[Kept, ...] = ()
    experienced: int = 0


class Saved(NamedTuple):
    agent_id: str
    rules: ExperienceRules
    holdings: Holdings


def to_json(agent_id: str, rules: ExperienceRules, held: Holdings) -> JsonObject:
    """Items in the seed's names. `order` says when each was experienced; the same one twice is one item."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "agent_id": agent_id,
        "rules": rules.to_json(),
        "latest_year": held.latest_year,
        "experienced": held.experienced,
        "working": [{**item.to_json(), "order": order} for order, item in held.working],
        "episodic": [{**item.to_json(), "order": order} for order, item in held.episodic],
    }


def from_json(data: Any) -> Saved:
    """What `to_json` gave. Raises InvalidInput."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise InvalidInput("data", f"is no memory of an agent: its `format` is not {FORMAT!r}")
    if data.get("version") != VERSION:
        raise InvalidInput("data", f"has version {intake.shown(data.get('version'))}, and {VERSION} can be read here")
    known: dict[int, MemoryItem] = {}
    try:
        held = Holdings(
            intake.count("latest_year", data["latest_year"], least=0, most=LATEST_YEAR),
            _kept(data["working"], known),
            _kept(data["episodic"], known),
            intake.count("experienced", data["experienced"], least=0, most=MOST),
        )
        return Saved(data["agent_id"], ExperienceRules.from_json(data["rules"]), held)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput("data", f"is damaged ({type(error).__name__}: {error})") from None


def _kept(data: Any, known: dict[int, MemoryItem]) -> tuple[Kept, ...]:
    kept = []
    here = set()
    for one in data:
        item = MemoryItem.from_json(one)
        order = intake.count("order", one["order"], least=0, most=MOST)
        if order in here or known.setdefault(order, item) != item:
            raise InvalidInput("data", f"is damaged: two items are number {order}")
        here.add(order)
        kept.append(Kept(order, known[order]))
    return tuple(kept)
