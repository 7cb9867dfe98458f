"""The mcp dialect: the tools of a server behind Streamable HTTP, by `tools/call`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from kingly_memory.adapters.remote.dialect import Offer
from kingly_memory.adapters.remote.json_call import GREETING
from kingly_memory.adapters.remote.mcp_asking import NO_HEADERS, Asking
from kingly_memory.adapters.remote.mcp_messages import (
    STATELESS_VERSION,
    Arguments,
    Misunderstood,
    Party,
    called,
    discovered,
    headers,
    introduced,
    introduction,
    tools,
)
from kingly_memory.adapters.remote.outcomes import Foreign, NotThere
from kingly_memory.adapters.remote.replies import Reply
from kingly_memory.adapters.remote.together import Together
from kingly_memory.adapters.remote.transport import Exchange, Letter, Transport
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject

_USUAL_PATHS = ("/mcp", "/mcp/mcp")
"""Where servers are found when only their origin is known."""
_DISCOVERY_SHARE = 0.4
"""Of the time for meeting a server: an older one may leave a question that it does not know unanswered."""
_FAREWELL_S = 0.2
_MOST_PAGES = 20


class McpCall:
    """Calls by mcp: without sessions where the server can do that, else in one, which is opened anew when the server
    has lost it. The project and the idempotency key travel as headers too."""

    def __init__(self, transport: Transport, *, project: str, call_timeout_s: float = 5.0) -> None:
        self._transport = transport
        self._project = project
        self._call_timeout_s = call_timeout_s
        self._asking = Asking()
        self._party: Party | None = None
        self._listed: Mapping[str, Arguments | None] | None = None
        self._meeting = Together(self._meet)

    @property
    def address(self) -> str:
        return str(self._transport.endpoint)

    async def connect(self) -> Offer:
        async with self._transport.within(self._call_timeout_s) as exchange:
            self._listed = None
            listed = await self._list(exchange)
            told = {}
            if GREETING in listed:
                greeting = {"name": GREETING, "arguments": {}}
                told = called(await self._ask(exchange, "tools/call", greeting, reads=True, anew=True))
            self._listed = listed
        party = self._party or Party("")
        known = {tool: taken.names for tool, taken in listed.items() if taken is not None}
        return Offer("mcp", frozenset(listed), told, known, party.protocol, party.server)

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
        if self._listed is not None and tool not in self._listed:
            raise RemoteRefused("unknown method", clear=True, unknown_method=True)
        beside = {"Kingly-Project": quote(project or self._project, safe="")}
        if key is not None:
            beside["Idempotency-Key"] = quote(key, safe="")
        async with self._transport.within(self._call_timeout_s if timeout_s is None else timeout_s) as exchange:
            told = {"name": tool, "arguments": self._given(tool, params)}
            return called(await self._ask(exchange, "tools/call", told, beside, reads=reads))

    def _given(self, tool: str, params: JsonObject) -> JsonObject:
        """Without the nulls that may be left out: the type of an optional argument need not allow them."""
        taken = None if self._listed is None else self._listed.get(tool)
        if taken is None:
            return params
        return {name: value for name, value in params.items() if value is not None or name in taken.required}

    async def aclose(self) -> None:
        await self._meeting.aclose()
        party, self._party = self._party, None
        if party is not None and party.session is not None:
            with suppress(RemoteError):
                async with self._transport.within(_FAREWELL_S) as exchange:
                    await exchange.send(Letter(party.path, b"", headers(party), "DELETE"), _nothing)
        await self._transport.aclose()

    async def _ask(
        self,
        exchange: Exchange,
        method: str,
        params: JsonObject,
        beside: Mapping[str, str] = NO_HEADERS,
        *,
        reads: bool,
        anew: bool = False,
    ) -> JsonObject:
        """The result of a request, asked once more where the server did not know us (any more). `anew`: a meeting that
        was under way already is no reason to fail."""
        party = self._party or await self._meeting.done(anew=anew)
        try:
            return (await self._asking.ask(exchange, party, method, params, beside=beside, repeatable=reads)).result
        except Misunderstood:
            party = await self._met_again(party, anew)
        try:
            return (await self._asking.ask(exchange, party, method, params, beside=beside, repeatable=reads)).result
        except Misunderstood as still:
            raise still.meaning from None

    async def _met_again(self, lost: Party, anew: bool) -> Party:
        """The next party after that one; all who lost it meet the server together."""
        if self._party is lost:
            self._party = None
        return self._party or await self._meeting.done(anew=anew)

    async def _meet(self) -> Party:
        async with self._transport.within(self._call_timeout_s) as exchange:
            self._party = await self._found(exchange)
        return self._party

    async def _found(self, exchange: Exchange) -> Party:
        """Meet the server at the address that was given, or where servers usually are when that is an origin only."""
        nowhere: RemoteError | None = None
        for path in ("",) if self._transport.endpoint.path else _USUAL_PATHS:
            try:
                return await self._offered(exchange, path) or await self._introduced(exchange, path)
            except (NotThere, Foreign) as error:
                nowhere = nowhere or error
            except Misunderstood as error:
                if not isinstance(error.meaning, NotThere):
                    raise error.meaning from None
                nowhere = nowhere or error.meaning
        raise nowhere or RemoteUnavailable("the server was not found")

    async def _offered(self, exchange: Exchange, path: str) -> Party | None:
        """The party that needs no introduction, where the server knows of such; whatever else it says is no answer."""
        try:
            async with asyncio.timeout(self._call_timeout_s * _DISCOVERY_SHARE):
                said = await self._asking.ask(
                    exchange, Party(path, STATELESS_VERSION), "server/discover", {}, repeatable=True
                )
        except (TimeoutError, Misunderstood, RemoteRefused, RemoteUnavailable):
            return None
        return discovered(said.result, path)

    async def _introduced(self, exchange: Exchange, path: str) -> Party:
        said = await self._asking.ask(exchange, Party(path), "initialize", introduction(), repeatable=True)
        party = introduced(said.result, path, said.session)
        await self._asking.tell(exchange, party, "notifications/initialized")
        return party

    async def _list(self, exchange: Exchange) -> dict[str, Arguments | None]:
        """What the tools are called and take, over as many pages as a server may reasonably need."""
        listed: dict[str, Arguments | None] = {}
        params: JsonObject = {}
        for _ in range(_MOST_PAGES):
            page = tools(await self._ask(exchange, "tools/list", params, reads=True, anew=True))
            listed |= page.arguments
            if page.cursor is None or page.cursor == params.get("cursor"):
                break
            params = {"cursor": page.cursor}
        return listed


async def _nothing(_reply: Reply) -> None:
    """The reply is of no interest."""
