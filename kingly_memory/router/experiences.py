"""Which memories an agent holds: one facet for each agent."""

from __future__ import annotations

from kingly_memory.cognition.owners import current_owner
from kingly_memory.models import EXPERIENCE, Memory
from kingly_memory.ports import Transaction

FACET = "agent_memory"
PLACES = ("working", "episodic")
"""In the facet: pairs of an id and the order in which the memory was experienced."""


def let_go(transaction: Transaction, memory: Memory) -> None:
    """Somebody took that memory away: the agent that holds it, if one does, is without it."""
    scope = memory.scope
    if memory.metadata.get("record") != EXPERIENCE or scope.agent is None:
        return
    name = current_owner(scope.space, scope.agent)
    facet = transaction.facet(FACET, name)
    if facet is not None and all(isinstance(facet.get(place), list) for place in PLACES):
        left = {place: [one for one in facet[place] if one[0] != memory.id] for place in PLACES}
        transaction.set_facet(FACET, name, {**facet, **left})
