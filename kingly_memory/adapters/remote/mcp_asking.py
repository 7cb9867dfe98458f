"""One message of mcp to a server, and the answer to it, over Streamable HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import NamedTuple

import httpx

from kingly_memory.adapters.remote.mcp_messages import (
    EVENT_STREAM,
    Party,
    answer,
    headers,
    notification,
    request,
    result,
    turned_away,
)
from kingly_memory.adapters.remote.outcomes import succeeded
from kingly_memory.adapters.remote.replies import Reply
from kingly_memory.adapters.remote.sse import messages
from kingly_memory.adapters.remote.transport import Exchange, Letter, encoded, read_aside, twice_if_worn
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.models import JsonObject

_LINGER_S = 0.02
"""How long a stream gets to end after our answer, so that its connection can be used again."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Said(NamedTuple):
    """The result of a request, and the session that the server named beside it."""

    result: JsonObject
    session: str | None


class Asking:
    """Numbers requests and finds their answers, whatever else the server says meanwhile."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._streams_end = True

    async def ask(
        self,
        exchange: Exchange,
        party: Party,
        method: str,
        params: JsonObject,
        *,
        beside: Mapping[str, str] = NO_HEADERS,
        repeatable: bool,
    ) -> Said:
        """Raises Misunderstood, or a RemoteError by the tables in `outcomes`. `repeatable`: it may be asked twice."""
        ask = partial(self._ask, exchange, party, method, params, beside)
        return await (twice_if_worn(ask) if repeatable else ask())

    async def _ask(
        self, exchange: Exchange, party: Party, method: str, params: JsonObject, beside: Mapping[str, str]
    ) -> Said:
        """Each time under a number of its own: servers take one that comes twice for the same request."""
        number = next(self._numbers)
        message = request(party, number, method, params)
        letter = Letter(party.path, encoded(message), {**beside, **headers(party, message)})
        return await exchange.send(letter, partial(self._said, exchange, number))

    async def tell(self, exchange: Exchange, party: Party, method: str) -> None:
        """Say something that has no answer. Raises as `ask` does."""
        message = notification(method)
        letter = Letter(party.path, encoded(message), headers(party, message))
        await exchange.send(letter, partial(_taken, exchange))

    async def _said(self, exchange: Exchange, number: int, reply: Reply) -> Said:
        if not succeeded(reply.status):
            raise await _turned_away(exchange, reply)
        read = self._from_events if reply.media == EVENT_STREAM else _from_body
        found = await read(reply, number)
        if found is None:
            raise RemoteUnavailable("the reply does not answer what was asked", reached=True)
        return Said(result(found), reply.header("mcp-session-id"))

    async def _from_events(self, reply: Reply, number: int) -> JsonObject | None:
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


async def _from_body(reply: Reply, number: int) -> JsonObject | None:
    body = await reply.body()
    return await read_aside(len(body), answer, body, number)


async def _taken(exchange: Exchange, reply: Reply) -> None:
    if not succeeded(reply.status):
        raise await _turned_away(exchange, reply)
    await reply.body()


async def _turned_away(exchange: Exchange, reply: Reply) -> Exception:
    return turned_away(reply.status, await reply.body(), reply.header("retry-after"), exchange.now())
