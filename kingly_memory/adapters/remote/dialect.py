"""How calls lie on the wire. `Dialect` is the port; json-call (seed 004) is the smaller of the two, mcp the other.

What the calls are named is the server's matter (`hub`, `ultimate`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from kingly_memory.adapters.remote.http import Exchange, Transport
from kingly_memory.adapters.remote.outcomes import NotThere
from kingly_memory.errors import RemoteRefused
from kingly_memory.models import JsonObject, project_and_user

GREETING = "initialize_memory_system"


class Arguments(NamedTuple):
    """What a tool takes, and which of these are required."""

    names: frozenset[str]
    required: frozenset[str] = frozenset()


Tools = Mapping[str, Arguments | None]
"""What a server can be asked for, and what each of them takes: None where that may be anything."""


class Offer(NamedTuple):
    """What a server said of itself when it was connected to.

    `tools` is None where the dialect has no list of them; `reply` is its reply to the greeting, as JSON. `protocol` is
    the version that was agreed on, `server` what the server calls itself, where the dialect has such things.
    """

    dialect: str
    tools: Tools | None
    reply: Any
    protocol: str = ""
    server: str = ""

    def offers(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools

    def takes(self, tool: str, argument: str) -> bool:
        """Whether a tool takes an argument, as far as is known."""
        known = None if self.tools is None else self.tools.get(tool)
        return known is None or argument in known.names


class Dialect(ABC):
    """One way to call the tools of one server. Every call raises RemoteUnavailable, RemoteRefused or
    RemoteUnauthorised, nothing else, and ends at its deadline whatever the server does.

    `home` is whose calls these are, said with each where it is not empty.
    """

    def __init__(self, transport: Transport, *, space: str, call_timeout_s: float = 5.0) -> None:
        self._transport = transport
        self._space = space
        self._call_timeout_s = call_timeout_s
        self.home = ""

    @property
    def address(self) -> str:
        """Where the calls go, without secrets."""
        return str(self._transport.endpoint)

    @abstractmethod
    async def connect(self) -> Offer:
        """Greet the server and learn what it offers. One try. Calls may be made without it."""

    async def call(
        self,
        tool: str,
        params: JsonObject,
        *,
        space: str | None = None,
        timeout_s: float | None = None,
        reads: bool = False,
    ) -> Any:
        """The tool's own result, as JSON. One try; where it only `reads`, one more when its connection may have been a
        kept one that had ended. Parameters that the tool is not listed to take are left out: strict servers refuse a
        call with one more.

        `space` is the one the call is for, the router's own where it is None; `timeout_s` is the deadline of the whole,
        None for the usual.
        """
        extra = beside(space or self._space, params, self.home)
        async with self._transport.within(self._call_timeout_s if timeout_s is None else timeout_s) as exchange:
            return await self._result(exchange, tool, params, extra, reads=reads)

    @abstractmethod
    async def _result(
        self, exchange: Exchange, tool: str, params: JsonObject, extra: Mapping[str, str], *, reads: bool
    ) -> Any:
        """As `call`, within its deadline; `extra` are the headers that say for whom."""

    async def aclose(self) -> None:
        await self._transport.aclose()


def beside(space: str, params: JsonObject, home: str) -> dict[str, str]:
    """The headers in which project, user, idempotency key and home travel too. Of the quoted ones none is `*`, which
    stands for every project."""
    project, user = project_and_user(space)
    headers = {"Kingly-User": user, "Idempotency-Key": params.get("idempotency_key"), "Kingly-Home": home or None}
    quoted = {name: quote(value, safe="") for name, value in headers.items() if value is not None}
    return {"Kingly-Project": "*" if project is None else quote(project, safe=""), **quoted}


class JsonCall(Dialect):
    """`POST {endpoint}/mcp/call` with `{"method", "params"}`; the reply is the result as JSON."""

    async def connect(self) -> Offer:
        try:
            reply = await self.call(GREETING, {}, reads=True)
        except RemoteRefused as refused:
            if not refused.clear or refused.unknown_method:
                raise
            # A greeting has no arguments that could be wrong: a server of mcp was mounted above this path.
            raise NotThere(refused.reason, clear=False) from None
        return Offer("json-call", None, reply)

    async def _result(
        self, exchange: Exchange, tool: str, params: JsonObject, extra: Mapping[str, str], *, reads: bool
    ) -> Any:
        return await exchange.post("/mcp/call", {"method": tool, "params": params}, extra, reads=reads)
