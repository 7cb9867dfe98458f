"""The reference memory server and ours in its place, on the same calls."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.cli_runner import environment
from tests.conformance.node import npm

PACKAGE = "@modelcontextprotocol/server-memory"
VERSION = "2026.8.31"
WRITES = 100
ANN = {"name": "Ann", "entityType": "person", "observations": ["likes tea", "two\n- lines\n  here", ""]}
KINGLY = {"name": "Kingly", "entityType": "", "observations": []}
BOB = {"name": "Bob", "entityType": "person", "observations": ["Straße"]}
RELATED = [
    {"from": "Ann", "to": to, "relationType": kind}
    for to, kind in (("Kingly", "maintains"), ("Kingly", "founded"), ("nobody", "knows"), ("Ann", "likes"))
]
GONE = [{"entityName": "Ann", "observations": ["likes tea", "x"]}, {"entityName": "nobody", "observations": ["x"]}]
MORE = [{"entityName": "Ann", "contents": ["likes tea", "in Oslo"]}, {"entityName": "Bob", "contents": []}]
FAILING = [{"entityName": "Ann", "contents": ["lost"]}, {"entityName": "Zed", "contents": ["x"]}]
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read_graph", {}),
    ("create_entities", {"entities": [ANN, KINGLY]}),
    ("create_entities", {"entities": [{**ANN, "observations": ["other"]}, {**BOB, "unknown": 1}]}),
    ("create_relations", {"relations": RELATED}),
    ("create_relations", {"relations": RELATED[:1]}),
    ("add_observations", {"observations": MORE}),
    ("read_graph", {}),
    ("search_nodes", {"query": "OSLO"}),
    ("search_nodes", {"query": ""}),
    ("open_nodes", {"names": ["Kingly", "nobody"]}),
    ("delete_observations", {"deletions": GONE}),
    ("delete_relations", {"relations": [RELATED[1], {"from": "a", "to": "b", "relationType": "c"}]}),
    ("read_graph", {}),
    ("delete_entities", {"entityNames": ["Ann", "nobody"]}),
    ("read_graph", {}),
)
FAILS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("add_observations", {"observations": FAILING}),
    ("create_entities", {"entities": [{**BOB, "name": 3}]}),
    ("create_entities", {}),
)
OWN_WORDS = {"description", "$schema", "additionalProperties", "execution"}

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StdioServerParameters]:
    folder = tmp_path_factory.mktemp("reference")
    script = npm(folder / "npm", f"{PACKAGE}@{VERSION}") / PACKAGE / "dist" / "index.js"
    changed = dict(environment(MEMORY_FILE_PATH=str(folder / "theirs.jsonl")))
    ours = ["-m", "kingly_memory", "mcp", "--tools", "graph", "--home", str(folder / "home")]
    return {
        "reference": StdioServerParameters(command=shutil.which("node") or "node", args=[str(script)], env=changed),
        "ours": StdioServerParameters(command=sys.executable, args=ours, env=dict(environment(MEMORY_FILE_PATH=""))),
    }


def shape(told: Any) -> Any:
    """What a program goes by: all but the words."""
    if isinstance(told, dict):
        return {name: shape(one) for name, one in told.items() if name not in OWN_WORDS and one != []}
    return [shape(one) for one in told] if isinstance(told, list) else told


def said(result: CallToolResult) -> Any:
    [content] = result.content
    assert isinstance(content, TextContent)
    try:
        text = json.loads(content.text)
    except ValueError:
        text = content.text
    return bool(result.is_error), text, result.structured_content


@pytest.mark.requirement("N20")
async def test_the_same_calls_have_the_same_answers(servers: dict[str, StdioServerParameters]) -> None:
    told: dict[str, Any] = {}
    for name, parameters in servers.items():
        async with Client(parameters, mode="legacy") as client:
            tools = [
                shape(one.model_dump(by_alias=True, exclude_none=True)) for one in (await client.list_tools()).tools
            ]
            answers = [said(await client.call_tool(*one)) for one in CALLS]
            told[name] = tools, answers
            for one in FAILS:
                assert said(await client.call_tool(*one))[0], one
            assert said(await client.call_tool("read_graph")) == answers[-1]
    theirs, ours = told["reference"], told["ours"]
    assert ours[0] == theirs[0]
    for call, answer, expected in zip(CALLS, ours[1], theirs[1], strict=True):
        assert answer == expected, call


async def test_two_processes_that_write_at_once_lose_nothing_where_the_reference_loses_writes(
    servers: dict[str, StdioServerParameters],
) -> None:
    kept = {}
    for name, parameters in servers.items():
        async with Client(parameters, mode="legacy") as one, Client(parameters, mode="legacy") as other:
            await one.call_tool("create_entities", {"entities": [{**KINGLY, "name": "log"}]})

            async def write(client: Client, who: str) -> None:
                for number in range(WRITES):
                    added = [{"entityName": "log", "contents": [f"{who} {number}"]}]
                    assert not (await client.call_tool("add_observations", {"observations": added})).is_error

            await asyncio.gather(write(one, "one"), write(other, "other"))
            opened = (await one.call_tool("open_nodes", {"names": ["log"]})).structured_content or {}
            kept[name] = len(opened["entities"][0]["observations"])
    print(f"of {2 * WRITES} observations: {kept}")  # noqa: T201  # docs/mcp.md says it
    assert kept["ours"] == 2 * WRITES
    assert kept["reference"] < 2 * WRITES
