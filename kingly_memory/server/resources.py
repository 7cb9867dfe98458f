"""The resources: status, working context and thought chains, for hosts that attach rather than call."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.resources import ResourceSecurity

from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.server.answers import context_shown
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.wording import NOBODYS, resource_error
from kingly_memory.validation import mended

STATUS = "kingly://status"
CONTEXT = "kingly://context/{context_id}"
THOUGHTS = "kingly://thoughts/{chain_id}"

_JSON = "application/json"
_NEVER_PATHS = ResourceSecurity(exempt_params={"context_id", "chain_id"})
"""Ids are looked up in the store, so that `..` in them leads nowhere."""


def add_resources(server: MCPServer[Any], memory: LazyRouter, *, shared: bool) -> None:
    """`shared`: several clients speak to the server."""

    @server.resource(
        STATUS,
        name="status",
        title="Memory status",
        description="How many memories there are, how the remote is, and what waits for it",
        mime_type=_JSON,
    )
    async def status() -> str:
        async def read() -> JsonObject:
            return await (await memory.get()).status()

        return await _told(STATUS, read)

    @server.resource(
        CONTEXT,
        name="working_context",
        title="Working context",
        description="What is at hand in one conversation or task; 'current' is the one last worked in",
        mime_type=_JSON,
        security=_NEVER_PATHS,
    )
    async def working_context(context_id: str) -> str:
        async def read() -> JsonObject:
            if shared and context_id == "current":
                raise InvalidInput("context_id", NOBODYS)
            found = await (await memory.get()).working_context(context_id)
            return context_shown(found, {"context_id": context_id})

        return await _told(CONTEXT, read)

    @server.resource(
        THOUGHTS,
        name="thoughts",
        title="Thought chain",
        description="The thoughts of one chain, in order",
        mime_type=_JSON,
        security=_NEVER_PATHS,
    )
    async def thoughts(chain_id: str) -> str:
        async def read() -> JsonObject:
            router = await memory.get()
            chain = await router.thoughts(chain_id)
            return {"chain_id": chain_id, "thoughts": [thought.to_json() for thought in chain]}

        return await _told(THOUGHTS, read)


async def _told(name: str, read: Callable[[], Awaitable[JsonObject]]) -> str:
    try:
        found = await read()
    except Exception as error:  # noqa: BLE001  # the SDK's last stop would show nothing of what a person can mend
        raise resource_error(name, error) from None
    return mended(json.dumps(found, ensure_ascii=False))
