"""The MCP server: the SDK's, with our tools, errors that say what to do, and a transport that outlives them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server import CacheHint, MCPServer, ServerRequestContext
from mcp.server.caching import CacheableMethod
from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult, TextContent, Tool
from pydantic import Field

from kingly_memory.errors import InvalidInput
from kingly_memory.place import Place
from kingly_memory.server import guide
from kingly_memory.server.answers import answer
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.resources import add_resources
from kingly_memory.server.stdio import stdio_streams
from kingly_memory.server.tools import DEFAULT, argument_names, read, told, tool_verbs, tools
from kingly_memory.server.wording import NOBODYS, tool_sentence, unknown_arguments, unknown_prompt, unknown_tool
from kingly_memory.settings import Settings
from kingly_memory.version import __version__

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter

LONGEST_MESSAGE_BYTES = 8 * 1024 * 1024
_JSON_GROWTH = 6
"""How many times as long a text may become in JSON."""

_OPENINGS = frozenset({"initialize", "server/discover", "ping"})
_UNCHANGING = CacheHint(ttl_ms=300_000)
_CACHE_HINTS: Mapping[CacheableMethod, CacheHint] = {
    "tools/list": _UNCHANGING,
    "prompts/list": _UNCHANGING,
    "resources/list": _UNCHANGING,
    "resources/templates/list": _UNCHANGING,
}


class MemoryServer(MCPServer[None]):
    """The tools of the chosen sets over one router, which is opened after the handshake and closed at the end."""

    def __init__(
        self,
        memory: LazyRouter,
        toolsets: Collection[str] = DEFAULT,
        *,
        shared: bool = False,
        longest_message_bytes: int = LONGEST_MESSAGE_BYTES,
    ) -> None:
        """`shared`: several clients speak to it, so that the context last worked in may be anybody's."""
        super().__init__(
            "kingly-memory",
            title="Kingly Memory",
            description="Memory for agents that keeps working when the network doesn't",
            instructions=guide.INSTRUCTIONS,
            version=__version__,
            log_level="WARNING",
            lifespan=self._lifespan,
            cache_hints=_CACHE_HINTS,
            subscriptions=False,
            middleware=[self._warm_up],
        )
        self.longest_message_bytes = longest_message_bytes
        self._memory = memory
        self._tools = {tool.name: tool for tool in tools(toolsets)}
        self._shared = shared
        add_resources(self, memory, shared=shared)
        if "memory" in toolsets:  # whose tools the prompt names
            self._add_prompt()

    async def list_tools(self) -> list[Tool]:
        return list(self._tools.values())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult:
        """Every failure is a tool error in one sentence. An unknown tool is a protocol error, as the protocol wants."""
        verb = tool_verbs().get(name)
        if verb is None or name not in self._tools:
            raise MCPError(INVALID_PARAMS, unknown_tool(name, self._tools, verb and verb.toolset))
        if strange := arguments.keys() - set(argument_names(verb)):
            return _failed(unknown_arguments(name, strange, [one.tool_name for one in verb.of("tool")]))
        try:
            said = read(verb, arguments)
            if self._shared and said.get("context_id") == "current":
                raise InvalidInput("context_id", NOBODYS)
            return told(await answer(verb, await self._memory.get(), said))
        except Exception as error:  # noqa: BLE001  # the last stop before the host, which gets a sentence
            return _failed(tool_sentence(verb, error, arguments.keys()))

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """The SDK would answer an unknown name or argument with an internal error."""
        known = {one.name: [argument.name for argument in one.arguments or ()] for one in await self.list_prompts()}
        if name not in known:
            raise MCPError(INVALID_PARAMS, unknown_prompt(name, known))
        if strange := (arguments or {}).keys() - set(known[name]):
            raise MCPError(INVALID_PARAMS, unknown_arguments(name, strange, known[name]))
        return await super().get_prompt(name, arguments, context)

    async def run_stdio_async(self) -> None:
        """The SDK's own, over streams that no line can break."""
        server = self._lowlevel_server
        async with stdio_streams(self.longest_message_bytes) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    @asynccontextmanager
    async def _lifespan(self, _: MCPServer[None]) -> AsyncIterator[None]:
        async with self._memory:
            yield

    async def _warm_up(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Once the handshake is over the router is opened, so that neither it nor the first call waits for the disk."""
        if ctx.method not in _OPENINGS:
            self._memory.warm_up()
        return await call_next(ctx)

    def _add_prompt(self) -> None:
        @self.prompt(
            name="use_memory", title="Use memory well", description="When to store, recall and record outcomes"
        )
        def use_memory(
            context_id: Annotated[str | None, Field(description="The task or conversation it is for")] = None,
        ) -> str:
            return guide.use_memory(context_id)


def server_of(place: Place, settings: Settings, toolsets: Collection[str], *, shared: bool = False) -> MemoryServer:
    """A server over that place. Nothing is opened before a client has shaken hands."""

    def begin() -> MemoryRouter:
        from kingly_memory.app.opening import MemoryRouter  # after the handshake, which would wait for it

        return MemoryRouter.at(place, settings=settings)

    longest = max(LONGEST_MESSAGE_BYTES, _JSON_GROWTH * settings.content_limit_bytes)
    return MemoryServer(LazyRouter(begin), toolsets, shared=shared, longest_message_bytes=longest)


def run(serving: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, and leave the loop as it is then: the process ends next, and closing the loop would wait for
    threads that may wait for a store which another process holds."""
    asyncio.Runner().run(serving)


def _failed(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)
