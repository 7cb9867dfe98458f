"""The resources: status, working context and thought chains, for hosts that attach rather than call."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec

from mcp.server import MCPServer
from mcp.server.mcpserver.resources import ResourceSecurity

from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.server.answers import context_shown
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.wording import NOBODYS, resource_error
from kingly_memory.validation import mended

P = ParamSpec("P")
_NEVER_PATHS = ResourceSecurity(exempt_params={"context_id", "chain_id"})
"""Ids are looked up in the store, so that `..` in them leads nowhere."""


def add_resources(server: MCPServer[Any], memory: LazyRouter, *, shared: bool) -> None:
    """`shared`: several clients speak to the server."""

    def resource(place: str, name: str, title: str, says: str) -> Callable[[Callable[P, Awaitable[JsonObject]]], None]:
        """The function below reads it: as JSON, or a sentence that says why not."""

        def add(read: Callable[P, Awaitable[JsonObject]]) -> None:
            @wraps(read)
            async def told(*given: P.args, **named: P.kwargs) -> str:
                try:
                    found = await read(*given, **named)
                except Exception as error:  # noqa: BLE001  # the SDK would show nothing of what a person can mend
                    raise resource_error(place, error) from None
                return mended(json.dumps(found, ensure_ascii=False))

            facts: Any = {"name": name, "title": title, "description": says, "security": _NEVER_PATHS}
            server.resource(f"kingly://{place}", mime_type="application/json", **facts)(told)

        return add

    @resource("status", "status", "Memory status", "How many memories there are, how the remote is, what waits for it")
    async def status() -> JsonObject:
        return await (await memory.get()).status()

    @resource(
        "context/{context_id}",
        "working_context",
        "Working context",
        "What is at hand in one conversation or task; 'current' is the one last worked in",
    )
    async def working_context(context_id: str) -> JsonObject:
        if shared and context_id == "current":
            raise InvalidInput("context_id", NOBODYS)
        found = await (await memory.get()).working_context(context_id)
        return context_shown(found, {"context_id": context_id})

    @resource("thoughts/{chain_id}", "thoughts", "Thought chain", "The thoughts of one chain, in order")
    async def thoughts(chain_id: str) -> JsonObject:
        chain = await (await memory.get()).thoughts(chain_id)
        return {"chain_id": chain_id, "thoughts": [thought.to_json() for thought in chain]}
