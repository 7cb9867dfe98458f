"""Which edition of an agent's memory the store has: whoever goes by another one reads it anew before changing it."""

from __future__ import annotations

from kingly_memory.cognition.owners import digest
from kingly_memory.models import EXPERIENCE, Memory
from kingly_memory.ports import Transaction

FACET = "agent_memory"


def owner(project: str, agent_id: str) -> str:
    """Which facet the memory of an agent has."""
    return digest(project, agent_id)


def renew(transaction: Transaction, memory: Memory, edition: str) -> None:
    """Somebody took that memory away: the agent that holds it, if one does, no longer has what its holders know. The
    facet still names the memory, which comes back to the agent if it is restored in time."""
    scope = memory.scope
    if memory.metadata.get("record") != EXPERIENCE or scope.agent is None:
        return
    name = owner(scope.project, scope.agent)
    facet = transaction.facet(FACET, name)
    if facet is not None:
        transaction.set_facet(FACET, name, {**facet, "edition": edition})
