"""The remote behind an address, whatever it turns out to speak and to offer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from kingly_memory.adapters.remote.dialect import GREETING, Dialect, JsonCall, Offer, Tools
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.hub import HubRemote
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.adapters.remote.outcomes import Foreign, NotThere
from kingly_memory.adapters.remote.together import Together
from kingly_memory.errors import NotConnectedYet, RemoteUnavailable
from kingly_memory.ports import UNKNOWN, Clock, Remote, RemoteInfo

_VERBS = {name for name in vars(Remote) if name[0] != "_"}
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_TOOLS_NAMED = 6
_OLD_SSE = "the old SSE transport of MCP is not spoken here; name the server's Streamable HTTP address, usually /mcp"


def dialects(setting: str, transport: Transport, *, space: str, call_timeout_s: float) -> list[Dialect]:
    """Those that are tried at an address, one after the other."""
    classes: dict[str, type[JsonCall] | type[McpCall]] = {"json-call": JsonCall, "mcp": McpCall}
    names = ["mcp", "json-call"] if transport.endpoint.path.endswith("/mcp") else ["json-call", "mcp"]
    chosen = names if setting == "auto" else [setting]
    return [classes[name](transport, space=space, call_timeout_s=call_timeout_s) for name in chosen]


class ChosenRemote:
    """A remote that finds out at each `connect` what is spoken at its address, and by its tools what kind of server it
    is. Calls before that connect first, all of them together and within their own deadlines."""

    def __init__(
        self, dialects: Sequence[Dialect], clock: Clock, *, space: str, connect_within_s: float = 5.0, home: str = ""
    ) -> None:
        """`connect_within_s` is for all that connecting takes, however many dialects are tried. `home` is what a hub
        of ours is told of whose calls they are."""
        self._dialects = dialects
        self._clock = clock
        self._space = space
        self._connect_within_s = connect_within_s
        self._home = home
        self._spoken: Dialect | None = None
        self._server: HubRemote | None = None
        self._known: dict[tuple[str, bool], HubRemote] = {}
        self._choosing = Together(self._choose)

    def __repr__(self) -> str:
        return f"<ChosenRemote {self._server or self._dialects[0].address}>"

    async def connect(self) -> RemoteInfo:
        return await self._choosing.done(anew=True)

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Every other verb of `Remote` is done by the server that was found."""
        if verb not in _VERBS:
            raise AttributeError(verb)

        async def done(*what: Any, timeout_s: float | None = None, **how: Any) -> Any:
            if timeout_s is not None:
                return await self._within(timeout_s, verb, *what, **how)
            return await getattr(await self._ready(), verb)(*what, **how)

        return done

    async def aclose(self) -> None:
        await self._choosing.aclose()
        for server in self._known.values():
            await server.aclose()
        for dialect in self._dialects:
            await dialect.aclose()

    async def _ready(self) -> HubRemote:
        if self._server is None:
            await self._choosing.done()
        if self._server is None:
            raise RemoteUnavailable("the connection is being closed")
        return self._server

    async def _within(self, timeout_s: float, verb: str, *what: Any, **how: Any) -> Any:
        """An answer in that time, connecting included."""
        if self._server is not None:
            return await getattr(self._server, verb)(*what, timeout_s=timeout_s, **how)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(end_s):
                server = await self._ready()
        except TimeoutError:
            reason = f"{self._dialects[0].address}: not connected within {timeout_s * 1000:.0f} ms"
            raise NotConnectedYet(reason) from None
        try:
            return await getattr(server, verb)(*what, timeout_s=end_s - loop.time(), **how)
        except RemoteUnavailable as error:
            if error.timed_out:
                raise NotConnectedYet(error.reason) from None
            raise

    async def _choose(self) -> RemoteInfo:
        try:
            async with asyncio.timeout(self._connect_within_s):
                dialect, offer = await self._greeted()
                self._spoken = dialect
                server = self._server_for(dialect, offer)
                info = await server.greeted(offer)
        except TimeoutError:
            old = f"; {_OLD_SSE}" if self._is_old_sse() else ""
            reason = f"{self._dialects[0].address}: not connected within {self._connect_within_s:g} s{old}"
            raise RemoteUnavailable(reason, timed_out=True) from None
        self._server = server
        name = offer.server or info.server if info.server == UNKNOWN else info.server
        return info._replace(server=name, dialect=offer.dialect, protocol=offer.protocol)

    async def _greeted(self) -> tuple[Dialect, Offer]:
        """The first dialect that is spoken there. When none is, raises what the one came to that was spoken last, else
        the first that was answered at all."""
        elsewhere: list[tuple[Dialect, NotThere | Foreign]] = []
        for dialect in self._dialects:
            try:
                return dialect, await dialect.connect()
            except (NotThere, Foreign) as error:
                elsewhere.append((dialect, error))
        if self._is_old_sse():
            raise RemoteUnavailable(f"{self._dialects[0].address}: {_OLD_SSE}", reached=True)
        raise min(elsewhere, key=lambda one: (one[0] is not self._spoken, isinstance(one[1], NotThere)))[1]

    def _is_old_sse(self) -> bool:
        """Asked where nobody answered in a dialect that we speak."""
        return self._dialects[0].address.endswith("/sse")

    def _server_for(self, dialect: Dialect, offer: Offer) -> HubRemote:
        """By the tools that it lists. One that was chosen before is kept: what it has learnt of its server outlives a
        lost connection."""
        tools = offer.tools
        is_ultimate = tools is not None and tools.keys() >= {"store_memory", "create_workflow"}
        is_hub = tools is None or tools.keys() >= {"store_memory", "search_semantic_memories"} or GREETING in tools
        if not is_ultimate and not is_hub:
            self._server = None
            raise RemoteUnavailable(f"{dialect.address}: {_no_memory_tools(tools or {})}", reached=True)
        known = self._known.get((offer.dialect, is_ultimate))
        if known is not None:
            return known
        server = HubRemote(dialect, self._home)
        if is_ultimate:
            from kingly_memory.adapters.remote.ultimate import UltimateRemote  # most servers are not of this kind

            server = UltimateRemote(dialect, self._clock, space=self._space)
        self._known[offer.dialect, is_ultimate] = server
        return server


def _no_memory_tools(tools: Tools) -> str:
    """Names what was found where these are names, and no more of them than a line holds."""
    named = sorted(filter(_TOOL_NAME.fullmatch, tools))[:_TOOLS_NAMED]
    others = f" and {len(tools) - len(named)} more" if len(tools) > len(named) else ""
    has = f"{', '.join(named)}{others}" if named else "none that can be named" if tools else "no tools"
    return (
        "the server offers no memory tools that are known here: store_memory with search_semantic_memories or "
        f"create_workflow; it has {has}; name another address"
    )
