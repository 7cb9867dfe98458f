"""The json-call dialect: `POST {endpoint}/mcp/call` with `{"method", "params"}` (seed 004)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from kingly_memory.adapters.remote.dialect import Offer
from kingly_memory.adapters.remote.outcomes import NotThere
from kingly_memory.adapters.remote.transport import Transport
from kingly_memory.errors import RemoteRefused
from kingly_memory.models import JsonObject

CALL_PATH = "/mcp/call"
GREETING = "initialize_memory_system"


class JsonCall:
    """Calls by json-call. The project and the idempotency key travel as headers too."""

    def __init__(self, transport: Transport, *, project: str, call_timeout_s: float = 5.0) -> None:
        self._transport = transport
        self._project = project
        self._call_timeout_s = call_timeout_s

    @property
    def address(self) -> str:
        return str(self._transport.endpoint)

    async def connect(self) -> Offer:
        try:
            told = await self.call(GREETING, {}, reads=True)
        except RemoteRefused as refused:
            if not refused.clear or refused.unknown_method:
                raise
            # A greeting has no arguments that could be wrong: a server of mcp was mounted above this path.
            raise NotThere(refused.reason, clear=False) from None
        return Offer("json-call", None, told)

    async def call(
        self,
        tool: str,
        params: JsonObject,
        *,
        project: str | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
        reads: bool = False,
    ) -> Any:
        headers = {"Kingly-Project": quote(project or self._project, safe="")}
        if key is not None:
            headers["Idempotency-Key"] = quote(key, safe="")
        payload = {"method": tool, "params": params}
        deadline_s = self._call_timeout_s if timeout_s is None else timeout_s
        return await self._transport.post(CALL_PATH, payload, headers=headers, timeout_s=deadline_s, reads=reads)

    async def aclose(self) -> None:
        await self._transport.aclose()
