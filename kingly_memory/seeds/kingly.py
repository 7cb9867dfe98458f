"""The names of seed 004 (Kingly) as it writes them: the adapter to a remote that answers at `/mcp/call`.

`MemoryRouter` is what the seed's tool handlers became: it calls a remote for you, and goes on without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.remote.dialect import GREETING, JsonCall
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.home.place import DEFAULT_ENDPOINT
from kingly_memory.models import JsonObject

__all__ = ["UltimateMCPMemoryAdapter"]


class UltimateMCPMemoryAdapter:
    """Calls the memory tools of a remote. `config`: `endpoint`, `timeout` in milliseconds, `retryAttempts`.

    Nothing is sent before the first call, which greets the server; `connected` says whether that has answered.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        options = config or {}
        self.endpoint = str(options.get("endpoint", DEFAULT_ENDPOINT))
        self.timeout = float(options.get("timeout", 5000))
        self.retry_attempts = int(options.get("retryAttempts", 3))
        self.connected = False
        self._remote = JsonCall(
            Transport(endpoint(self.endpoint), clock=SystemClock()),
            space=str(options.get("project", "default")),
            call_timeout_s=self.timeout / 1000,
        )

    async def initialize_connection(self) -> bool:
        """Greet the server. Says whether it answered; raises nothing for a server that is not there."""
        try:
            await self._called(GREETING, {})
        except RemoteUnavailable:
            self.connected = False
        else:
            self.connected = True
        return self.connected

    async def call(self, method: str, params: JsonObject | None = None) -> Any:
        """What the server answers, after up to `retryAttempts` tries, 1 s, 2 s and so on apart.

        Raises RemoteUnavailable, RemoteRefused.
        """
        if not self.connected and method != GREETING and not await self.initialize_connection():
            raise RemoteUnavailable(f"{self.endpoint} does not answer")
        for attempt in range(1, self.retry_attempts):
            try:
                return await self._called(method, params or {})
            except RemoteUnavailable:
                await asyncio.sleep(attempt)
        return await self._called(method, params or {})

    async def store_memory(self, args: JsonObject) -> Any:
        return await self.call("store_memory", args)

    async def search_semantic_memories(self, args: JsonObject) -> Any:
        return await self.call("search_semantic_memories", args)

    async def get_working_memory(self, args: JsonObject | None = None) -> Any:
        return await self.call("get_working_memory", args)

    async def get_linked_memories(self, args: JsonObject) -> Any:
        return await self.call("get_linked_memories", args)

    async def record_thought(self, args: JsonObject) -> Any:
        return await self.call("record_thought", args)

    async def aclose(self) -> None:
        """End the connections."""
        await self._remote.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _called(self, method: str, params: JsonObject) -> Any:
        return await self._remote.call(method, params, reads=method.startswith(("get_", "search_")))
