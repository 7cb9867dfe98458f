"""An MCP client: what a host does with the memory server, in one session and in the next.

    python examples/mcp_session.py [HOME]

The client is the official SDK's, and the server a process that it starts, as a host would by its configuration file.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from typing import Any

from mcp import Client, StdioServerParameters


def server(home: str) -> StdioServerParameters:
    """In a configuration file: {"command": "kingly-memory", "args": ["mcp"]}."""
    command = ["-m", "kingly_memory", "mcp", "--home", home, "--project", "shop", "--agent", "planner"]
    return StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(f"{tool}: {result.content}")
    return result.structured_content or {}


async def first_session(home: str) -> None:
    async with Client(server(home)) as client:
        tools = await client.list_tools()
        print(f"{len(tools.tools)} tools, {tools.tools[0].name} first")
        stored = await call(
            client,
            "memory_intelligent_store",
            key="deploy",
            content="Deploys need two reviews",
            significance=0.8,
            context_id="release-7",
        )
        print(f"stored in {stored['storage_layers']}, delivery {stored['delivery']}")
        for _ in range(2):
            await call(client, "record_task_outcome", task="deploy the shop", context_id="release-7")
        await call(
            client, "record_task_outcome", task="deploy the shop", status="failed", reason="one review was missing"
        )


async def next_session(home: str) -> None:
    """Another process, another day."""
    async with Client(server(home)) as client:
        context = await call(client, "memory_get_working_context")
        print(f"current context: {context['context_id']} with {context['memory_count']} memories at hand")
        found = await call(client, "memory_hybrid_search", query="who reviews a deploy", memory_types=["semantic"])
        for hit in found["results"]:
            print(f"found {hit['key']}: {hit['content']} ({hit['relevance']:.2f}, {found['source']})")
        assessed = await call(client, "assess_task_confidence", task_description="deploy the shop again")
        print(f"confidence {assessed['confidence']:.2f} from {assessed['similar_tasks_count']} similar tasks")


async def main(home: str) -> None:
    await first_session(home)
    await next_session(home)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(folder))
