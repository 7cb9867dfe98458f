"""The mcp dialect: the tools of a server behind Streamable HTTP, by `tools/call`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx

from kingly_memory.adapters.remote.dialect import GREETING, Arguments, Dialect, Offer, Tools
from kingly_memory.adapters.remote.http import Exchange, Reply, Transport, encoded, read_aside, twice_where_kept
from kingly_memory.adapters.remote.mcp_messages import (
    EVENT_STREAM,
    INTRODUCED,
    INTRODUCTION,
    STATELESS_VERSION,
    Misunderstood,
    Party,
    answer,
    called,
    discovered,
    headers,
    introduced,
    request,
    result,
    tools,
    turned_away,
)
from kingly_memory.adapters.remote.outcomes import Foreign, NotThere, succeeded
from kingly_memory.adapters.remote.together import Together
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject

_USUAL_PATHS = ("/mcp", "/mcp/mcp")
"""Where servers are found when only their origin is known."""
_DISCOVERY_SHARE = 0.4
"""Of the time for meeting a server: an older one may leave a question that it does not know unanswered."""
_FAREWELL_S = 0.2
_LINGER_S = 0.02
"""How long a stream gets to end after our answer, so that its connection can be used again."""
_MOST_PAGES = 20
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_PIECE_BYTES = 4_096
"""How much is parsed in one turn of the event loop: a stream of empty lines is slow to read."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A CR at the end of what has arrived is not cut yet: an LF may follow in the next piece."""


class _Answered(NamedTuple):
    """The result of a request, and the session that the server named beside it."""

    result: JsonObject
    session: str | None


class McpCall(Dialect):
    """Calls by mcp: without sessions where the server can do that, else in one, which is opened anew when the server
    has lost it."""

    def __init__(self, transport: Transport, *, space: str, call_timeout_s: float = 5.0) -> None:
        super().__init__(transport, space=space, call_timeout_s=call_timeout_s)
        self._numbers = count(1)
        self._streams_end = True
        self._party: Party | None = None
        self._listed: Tools | None = None
        self._meeting = Together(self._meet)

    async def connect(self) -> Offer:
        async with self._transport.within(self._call_timeout_s) as exchange:
            self._listed = None
            listed = await self._list(exchange)
            reply = {}
            if GREETING in listed:
                greeting = {"name": GREETING, "arguments": {}}
                reply = called(await self._ask(exchange, "tools/call", greeting, reads=True, anew=True))
            self._listed = listed
        party = self._party or Party("")
        return Offer("mcp", listed, reply, party.protocol, party.server)

    async def _result(
        self, exchange: Exchange, tool: str, params: JsonObject, extra: Mapping[str, str], *, reads: bool
    ) -> Any:
        if self._listed is not None and tool not in self._listed:
            raise RemoteRefused("unknown method", clear=True, unknown_method=True)
        taken, arguments = None if self._listed is None else self._listed[tool], params
        if taken is not None:  # the type of an optional argument need not allow nulls
            given = {name for name, value in params.items() if value is not None} | taken.required
            arguments = {name: value for name, value in params.items() if name in taken.names & given}
        body = {"name": tool, "arguments": arguments}
        return called(await self._ask(exchange, "tools/call", body, extra, reads=reads))

    async def aclose(self) -> None:
        await self._meeting.aclose()
        party, self._party = self._party, None
        if party is not None and party.session is not None:

            async def ignore(_: Reply) -> None:
                """The answer to a farewell is of no interest."""

            with suppress(RemoteError):
                async with self._transport.within(_FAREWELL_S) as exchange:
                    await exchange.send(party.path, b"", headers(party), ignore, verb="DELETE")
        await super().aclose()

    # --- meeting the server -----------------------------------------------------------------------------------------

    async def _meet(self) -> Party:
        """Meet the server at the address that was given, or where servers usually are when that is an origin only."""
        nowhere: RemoteError | None = None
        async with self._transport.within(self._call_timeout_s) as exchange:
            for path in ("",) if self._transport.endpoint.path else _USUAL_PATHS:
                try:
                    self._party = await self._offered(exchange, path) or await self._introduced(exchange, path)
                except (NotThere, Foreign) as error:
                    nowhere = nowhere or error
                except Misunderstood as error:
                    if not isinstance(error.meaning, NotThere):
                        raise error.meaning from None
                    nowhere = nowhere or error.meaning
                else:
                    return self._party
        raise nowhere or RemoteUnavailable("the server was not found")

    async def _offered(self, exchange: Exchange, path: str) -> Party | None:
        """The party that needs no introduction, where the server knows of such; whatever else it says is no answer."""
        party = Party(path, STATELESS_VERSION)
        try:
            async with asyncio.timeout(self._call_timeout_s * _DISCOVERY_SHARE):
                answered = await self._ask_once(exchange, party, "server/discover", {}, repeatable=True)
        except (TimeoutError, Misunderstood, RemoteRefused, RemoteUnavailable):
            return None
        return discovered(answered.result, path)

    async def _introduced(self, exchange: Exchange, path: str) -> Party:
        answered = await self._ask_once(exchange, Party(path), "initialize", INTRODUCTION, repeatable=True)
        party = introduced(answered.result, path, answered.session)

        async def taken(reply: Reply) -> None:
            await self._check(reply)
            await reply.body()  # read to its end, so that the connection can be used again

        await exchange.send(party.path, encoded(INTRODUCED), headers(party, INTRODUCED), taken)
        return party

    async def _list(self, exchange: Exchange) -> Tools:
        """What the tools are called and take, over as many pages as a server may reasonably need."""
        listed: dict[str, Arguments | None] = {}
        params: JsonObject = {}
        for _ in range(_MOST_PAGES):
            page, cursor = tools(await self._ask(exchange, "tools/list", params, reads=True, anew=True))
            listed |= page
            if cursor is None or cursor == params.get("cursor"):
                break
            params = {"cursor": cursor}
        return listed

    # --- one request ------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        exchange: Exchange,
        method: str,
        params: JsonObject,
        extra: Mapping[str, str] = _NO_HEADERS,
        *,
        reads: bool,
        anew: bool = False,
    ) -> JsonObject:
        """The result of a request, asked once more where the server did not know us (any more): all who lost it meet it
        together. `anew`: a meeting that was under way already is no reason to fail."""
        for is_last in (False, True):
            party = self._party or await self._meeting.done(anew=anew)
            try:
                return (await self._ask_once(exchange, party, method, params, extra, repeatable=reads)).result
            except Misunderstood as error:
                if is_last:
                    raise error.meaning from None
                if self._party is party:
                    self._party = None
        raise AssertionError(method)

    async def _ask_once(
        self,
        exchange: Exchange,
        party: Party,
        method: str,
        params: JsonObject,
        extra: Mapping[str, str] = _NO_HEADERS,
        *,
        repeatable: bool,
    ) -> _Answered:
        """Raises Misunderstood, or a RemoteError by the tables in `outcomes`. `repeatable`: it may be asked twice, each
        time under a number of its own: servers take one that comes twice for the same request."""

        async def ask() -> _Answered:
            number = next(self._numbers)
            message = request(party, number, method, params)
            sent_headers = {**extra, **headers(party, message)}
            return await exchange.send(party.path, encoded(message), sent_headers, partial(self._read, number))

        return await (twice_where_kept(ask) if repeatable else ask())

    async def _check(self, reply: Reply) -> None:
        """Raises what a status other than 2xx comes to."""
        if not succeeded(reply.status):
            body, now = await reply.body(), self._transport.clock.now()
            raise turned_away(reply.status, body, reply.header("retry-after"), now)

    async def _read(self, number: int, reply: Reply) -> _Answered:
        await self._check(reply)
        if reply.media == EVENT_STREAM:
            found = await self._in_events(reply, number)
        else:
            body = await reply.body()
            found = await read_aside(len(body), answer, body, number)
        if found is None:
            raise RemoteUnavailable("the reply does not answer what was asked", reached=True)
        return _Answered(result(found), reply.header("mcp-session-id"))

    async def _in_events(self, reply: Reply, number: int) -> JsonObject | None:
        """Our answer, whatever else the server says in the stream."""
        async with aclosing(reply.pieces()) as pieces, aclosing(messages(pieces)) as stream:
            async for text in stream:
                found = await read_aside(len(text), answer, text, number)
                if found is not None:
                    await self._let_end(pieces)
                    return found
        return None

    async def _let_end(self, pieces: AsyncGenerator[bytes]) -> None:
        """A connection can be used again when its reply was read to the end: not worth waiting for where streams are
        kept open, which shows at the first."""
        if not self._streams_end:
            return
        try:
            async with asyncio.timeout(_LINGER_S):
                with suppress(RemoteUnavailable, httpx.HTTPError, httpx.StreamError, OSError):
                    async for _ in pieces:
                        pass
        except TimeoutError:
            self._streams_end = False


async def messages(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The data of each whole server-sent event (WHATWG HTML, section 9.2) of type `message` or of no type, in order.
    Comments, other events, events without data and an event that the stream breaks off in are left out. Bytes are
    passed on as they came, bad UTF-8 too. Callers bound them."""
    event = b""
    data: list[bytes] = []
    async for line in _lines(pieces):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            event = value
        elif not line:
            text = b"\n".join(data)
            if text and event in (b"", b"message"):
                yield text
            event, data = b"", []


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    rest = bytearray()
    async for piece in pieces:
        for part in _parts(piece):
            rest += part
            if b"\n" in part or b"\r" in rest:
                *lines, last = _LINE_END.split(bytes(rest))
                rest = bytearray(last)
                for line in lines:
                    yield line
            await asyncio.sleep(0)
    if rest.endswith(b"\r"):
        yield bytes(rest[:-1])


def _parts(piece: bytes) -> Iterable[bytes]:
    return (piece[start : start + _PIECE_BYTES] for start in range(0, len(piece), _PIECE_BYTES))
