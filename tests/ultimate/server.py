"""A server on the loopback interface with the tools and the oddities of an Ultimate MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kingly_memory.models import JsonObject
from kingly_memory.testing.remote import Call
from tests.scripted.mcp_frames import McpDesk, McpStyle
from tests.scripted.remote import Misused, ScriptedRemote
from tests.scripted.script import Weather, takes_effect
from tests.ultimate.engine import Manners, UltimateEngine

MCP_PATH = "/mcp/mcp"
CURRENT_TOOLS = (
    "create_workflow",
    "store_memory",
    "update_memory",
    "hybrid_search_memories",
    "query_memories",
    "create_memory_link",
    "get_linked_memories",
)
OLDER_TOOLS = (
    *CURRENT_TOOLS,
    "search_semantic_memories",
    "initialize_memory_system",
)


class UltimateServer(ScriptedRemote):
    """The server on a thread of its own. Its memories outlive `stop` and `start`; its sessions do not.

    `older` has the tools of 2025 and drops arguments that it does not know, which the current one refuses; `flat`
    replies without `data` around them; `structured=False` replies in text alone. `lost_session` is as in `McpStyle`.
    """

    def __init__(
        self,
        *,
        manners: Manners | None = None,
        older: bool = False,
        flat: bool = False,
        structured: bool = True,
        json_replies: bool = False,
        stateless: bool = False,
        lost_session: str = "400",
        without: Sequence[str] = (),
        weather: Weather | None = None,
    ) -> None:
        style = McpStyle(
            stateless=stateless,
            events=not json_replies,
            lost=lost_session,
            path=MCP_PATH,
            name="Ultimate MCP Server",
            structured=structured,
        )
        super().__init__(mcp=style, weather=weather)
        self.engine = UltimateEngine(manners)
        self._older = older
        self._flat = flat
        names = [tool for tool in (OLDER_TOOLS if older else CURRENT_TOOLS) if tool not in without]
        self._schemas = {name: self._schema(name) for name in names}
        self._desk = McpDesk(style, tuple({"name": one, "inputSchema": told} for one, told in self._schemas.items()))

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.engine.data.index.close()

    @property
    def url(self) -> str:
        return f"{self.origin}{MCP_PATH}"

    @property
    def origin(self) -> str:
        return super().url

    @property
    def manners(self) -> Manners:
        return self.engine.manners

    def named(self, tool: str) -> list[Call]:
        """The calls of one tool that reached it, in order."""
        return [call for call in self.requests if call.method == tool and takes_effect(call.fault)]

    def _knows(self, method: str) -> bool:
        return method in self._schemas

    @property
    def _in_turn(self) -> AbstractContextManager[Any]:
        return nullcontext()  # its calls meet each other, as those of the real one do

    def _done(self, method: str, params: JsonObject) -> tuple[JsonObject, bool]:
        known = self._schemas[method]["properties"]
        if self._older:
            params = {name: value for name, value in params.items() if name in known}
        try:
            reply, changed = self.engine.call(method, params)
        except ValidationError as problem:
            raise Misused(str(problem)) from None
        return {"success": True, **reply} if self._flat else {"success": True, "data": reply}, changed

    def _schema(self, tool: str) -> dict[str, Any]:
        """What a tool takes, by the signature of the method behind it."""
        work: Any = self.engine.tool(tool)
        schema = TypeAdapter(work).json_schema()
        if self._older and not self.manners.honours_keys:
            schema["properties"].pop("idempotency_key", None)
        return schema
