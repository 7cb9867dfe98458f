"""Memories and remotes that the tests of the remote adapter share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.remote.chosen import ChosenRemote, dialects
from kingly_memory.adapters.remote.dialect import JsonCall
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.hub import HubRemote
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.adapters.remote.ultimate import UltimateRemote
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryType, Origin, Scope
from kingly_memory.ports import Clock, Remote

MOMENT = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)

LIGHTHOUSE = Memory(
    id=MemoryId("0195f0a0-0000-7000-8000-000000000001"),
    key="lighthouse",
    content="The lighthouse keeper writes “fog” 🌫 in the log.",
    type=MemoryType.EPISODIC,
    significance=0.8,
    confidence=0.25,
    tags=("sea", "night"),
    title="Fog",
    scope=Scope("Küste", None, "keeper", "watch-1"),
    origin=Origin.USER,
    created_at=MOMENT,
    updated_at=MOMENT,
    revision=1,
    metadata={"wind": 7},
)


def json_values(*names: str) -> st.SearchStrategy[Any]:
    """Any JSON, among whose names are these."""
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        leaves | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(names) | st.text(max_size=3), inner, max_size=6)
        ),
        max_leaves=25,
    )


def revised(memory: Memory = LIGHTHOUSE) -> Memory:
    """The next revision of a memory, with other words."""
    return replace(memory, content=f"{memory.content} Still.", revision=memory.revision + 1)


def remote_at(
    url: str,
    *,
    speaks: type[JsonCall] | type[McpCall] = JsonCall,
    clock: Clock | None = None,
    token: str | None = None,
    project: str = "Küste",
    **options: Any,
) -> HubRemote:
    """A server with the seed's tools, in that dialect."""
    transport = _transport(url, clock or SystemClock(), token, options)
    return HubRemote(speaks(transport, space=project, **options))


def chosen_at(
    url: str, *, dialect: str = "auto", clock: Clock | None = None, project: str = "Küste", **options: Any
) -> ChosenRemote:
    """A remote as the composition root makes one."""
    clock = clock or SystemClock()
    transport = _transport(url, clock, None, options)
    call_timeout_s = options.pop("call_timeout_s", 5.0)
    spoken = dialects(dialect, transport, space=project, call_timeout_s=call_timeout_s)
    return ChosenRemote(spoken, clock, space=project, connect_within_s=call_timeout_s)


def ultimate_at(url: str, *, project: str = "Küste", **options: Any) -> UltimateRemote:
    clock = SystemClock()
    dialect = McpCall(_transport(url, clock, None, options), space=project, **options)
    return UltimateRemote(dialect, clock, space=project)


def _transport(url: str, clock: Clock, token: str | None, options: dict[str, Any]) -> Transport:
    """Takes what is its own out of the options."""
    limits = {name: options.pop(name) for name in ["reply_limit_bytes"] if name in options}
    return Transport(endpoint(url), clock=clock, token=token, **limits)


async def brought(remote: Remote, memory: Memory = LIGHTHOUSE, **changes: Any) -> str:
    """Deliver a memory as the sender does, which tries again what may have had its effect."""
    repeated = False
    while True:
        try:
            return await stored(remote, memory, repeated=repeated, **changes)
        except RemoteUnavailable:
            repeated = True


async def stored(remote: Remote, memory: Memory = LIGHTHOUSE, **changes: Any) -> str:
    """Deliver a memory as the outbox does the first time."""
    arguments: dict[str, Any] = {"idempotency_key": memory.id, "remote_id": None, "repeated": False, **changes}
    return await remote.store(memory, **arguments)
