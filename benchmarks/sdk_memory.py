"""A memory server as somebody else would write it, with the official SDK and a dictionary: `python -m
benchmarks.sdk_memory PORT`. It says once which keys it has seen, and keeps nothing when it ends."""

from __future__ import annotations

import sys
from typing import Any

from mcp.server import MCPServer

server = MCPServer("sdk-memory", log_level="ERROR")
held: dict[str, dict[str, Any]] = {}


@server.tool()
async def initialize_memory_system() -> dict[str, Any]:
    return {"success": True, "server": "sdk-memory", "features": ["idempotency_keys"]}


@server.tool()
async def store_memory(
    content: str,
    memory_type: str = "semantic",
    metadata: dict[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> dict[str, Any]:
    name = idempotency_key or f"memory-{len(held)}"
    is_repeated = name in held
    held.setdefault(name, {"content": content, "memory_type": memory_type, "metadata": metadata or {}})
    return {"memory_id": name, "idempotency_hit": is_repeated}


@server.tool()
async def search_semantic_memories(query: str, limit: int = 10) -> dict[str, Any]:
    return {"memories": []}


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
