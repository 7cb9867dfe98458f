"""How much events matter, as the design of cognitive memory suggests it (seed 001, §5.2): data to go by, not rules.

What the helpers do differs in one line: a minor flood becomes an episode, as the seed's own code has it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

MAX_RETRIEVE = 5
"""Memories that a tool gives at most, unless it says less (seed 001, §8.1)."""

Destination = Literal["working", "episodic"]


class Suggestion(NamedTuple):
    """What an event of this kind is worth, and which memory it is for."""

    event: str
    description: str
    importance: float
    destination: Destination


GUIDELINE: tuple[Suggestion, ...] = (
    Suggestion("major_flood", "Major flood (damage > $50k)", 0.9, "episodic"),
    Suggestion("minor_flood", "Minor flood (damage < $10k)", 0.6, "working"),
    Suggestion("elevation", "Elevation decision", 0.8, "episodic"),
    Suggestion("insurance", "Insurance decision", 0.7, "episodic"),
    Suggestion("do_nothing", "Do nothing", 0.3, "working"),
    Suggestion("policy_change", "Policy change observation", 0.5, "working"),
    Suggestion("neighbor_adaptation", "Neighbor adaptation", 0.4, "working"),
)
