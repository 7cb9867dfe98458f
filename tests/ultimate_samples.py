"""Remotes over the fake Ultimate server, as the composition root makes them."""

from __future__ import annotations

from typing import Any

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.adapters.remote.retrying import Persistence
from kingly_memory.adapters.remote.ultimate import UltimateRemote
from kingly_memory.models import Memory
from tests.remote_samples import LIGHTHOUSE


def ultimate_at(url: str, *, project: str = "Küste", tries: int = 3, **options: Any) -> UltimateRemote:
    """Pauses between tries are left out."""
    clock = SystemClock()
    dialect = McpCall(Transport(endpoint(url), clock=clock), project=project, **_taken(options, "call_timeout_s"))
    return UltimateRemote(dialect, Persistence(clock, tries=tries, pause_s=0.0), project=project, **options)


async def brought(remote: UltimateRemote, memory: Memory = LIGHTHOUSE, **changes: Any) -> str:
    """Deliver a memory as the outbox does the first time."""
    how: dict[str, Any] = {"idempotency_key": memory.id, "remote_id": None, "repeated": False, **changes}
    return await remote.store(memory, **how)


def _taken(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: options.pop(name) for name in names if name in options}
