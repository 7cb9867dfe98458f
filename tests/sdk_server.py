"""A server made with the official SDK, of the line 1.x or 2.x, whichever is installed: the seed's tools over mcp.

Runs as a process, in an environment that need not hold this project's dependencies. Prints its port when it listens.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from kingly_memory.testing.semantic import SemanticServer, Unable


def seed_tools(semantic: SemanticServer) -> list[Callable[..., Any]]:
    """The seed's tools with their arguments spelt out, as a server's author would."""

    def answered(method: str, **params: Any) -> dict[str, Any]:
        try:
            return semantic.call(method, params)[0]
        except Unable as problem:
            return {"success": False, "error": str(problem), "error_code": problem.code}

    def initialize_memory_system() -> dict[str, Any]:
        return answered("initialize_memory_system")

    def store_memory(content: str, memory_type: str, metadata: dict[str, Any], idempotency_key: str) -> dict[str, Any]:
        return answered(
            "store_memory",
            content=content,
            memory_type=memory_type,
            metadata=metadata,
            idempotency_key=idempotency_key,
        )

    def update_memory(
        memory_id: str, content: str, memory_type: str, metadata: dict[str, Any], idempotency_key: str
    ) -> dict[str, Any]:
        return answered(
            "update_memory",
            memory_id=memory_id,
            content=content,
            memory_type=memory_type,
            metadata=metadata,
            idempotency_key=idempotency_key,
        )

    def forget_memory(memory_id: str | None, store_key: str, idempotency_key: str) -> dict[str, Any]:
        return answered("forget_memory", memory_id=memory_id, store_key=store_key, idempotency_key=idempotency_key)

    def search_semantic_memories(query: str, limit: int = 10, memory_types: list[str] | None = None) -> dict[str, Any]:
        return answered("search_semantic_memories", query=query, limit=limit, memory_types=memory_types)

    def get_working_memory(context_filter: str | None = None) -> dict[str, Any]:
        return answered("get_working_memory", context_filter=context_filter)

    def get_linked_memories(memory_ids: list[str]) -> dict[str, Any]:
        return answered("get_linked_memories", memory_ids=memory_ids)

    def create_memory_link(  # noqa: PLR0917  # they all have names on the wire
        link_type: str,
        source_memory_id: str,
        target_memory_id: str,
        strength: float,
        description: str | None,
        idempotency_key: str,
    ) -> dict[str, Any]:
        return answered(
            "create_memory_link",
            link_type=link_type,
            source_memory_id=source_memory_id,
            target_memory_id=target_memory_id,
            strength=strength,
            description=description,
            idempotency_key=idempotency_key,
        )

    def record_thought(  # noqa: PLR0917  # the same
        content: str,
        thought_type: str,
        chain_id: str,
        parent_thought_id: str | None,
        context_id: str | None,
        metadata: dict[str, Any],
        record: dict[str, Any],
        idempotency_key: str,
    ) -> dict[str, Any]:
        return answered(
            "record_thought",
            content=content,
            thought_type=thought_type,
            chain_id=chain_id,
            parent_thought_id=parent_thought_id,
            context_id=context_id,
            metadata=metadata,
            record=record,
            idempotency_key=idempotency_key,
        )

    return [
        initialize_memory_system,
        store_memory,
        update_memory,
        forget_memory,
        search_semantic_memories,
        get_working_memory,
        get_linked_memories,
        create_memory_link,
        record_thought,
    ]


def echo(message: str) -> str:
    """What a stock server offers."""
    return message


def broken() -> str:
    """Fails, and says more than it should."""
    raise RuntimeError("canary-of-a-server-side-secret")


def without_new_protocols(served: Any) -> Any:
    """As a server of this line that is told to speak what the line before it spoke."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if (b"mcp-protocol-version", b"2026-07-28") in scope.get("headers", ()):
            await send({"type": "http.response.start", "status": 400, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"Bad Request: Unsupported protocol version"})
        else:
            await served(scope, receive, send)

    return serve


def application(options: argparse.Namespace) -> Any:
    semantic = SemanticServer()
    tools: list[Callable[..., Any]] = [*([] if options.stock else seed_tools(semantic)), echo, broken]
    structured = False if options.text else None
    try:
        from mcp.server import MCPServer
    except ImportError:
        from mcp.server.fastmcp import FastMCP  # type: ignore[attr-defined]  # the line 1.x

        old = FastMCP("sdk", json_response=options.json, stateless_http=options.stateless, log_level="CRITICAL")
        for tool in tools:
            old.add_tool(tool, structured_output=structured)
        return old.streamable_http_app()
    server = MCPServer("sdk", log_level="CRITICAL")
    for tool in tools:
        server.add_tool(tool, structured_output=structured)
    served = server.streamable_http_app(json_response=options.json, stateless_http=options.stateless)
    return without_new_protocols(served) if options.older else served


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="replies as JSON rather than as event streams")
    parser.add_argument("--older", action="store_true", help="only protocols until 2025-11-25")
    parser.add_argument("--stateless", action="store_true", help="older protocols without sessions, too")
    parser.add_argument("--stock", action="store_true", help="no memory tools")
    parser.add_argument("--text", action="store_true", help="results as JSON in a text")
    options = parser.parse_args()
    # With the protocol named, asyncio sends small pieces at once; without, replies wait 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", options.port))
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(application(options), log_level="critical", access_log=False))
    print(listening.getsockname()[1], flush=True)  # noqa: T201  # what whoever started it waits for
    asyncio.run(server.serve(sockets=[listening]))


if __name__ == "__main__":
    main()
