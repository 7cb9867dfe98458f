"""The tools of the reference memory server (@modelcontextprotocol/server-memory) over our store: the same names,
arguments, answers and hints, so that a host swaps servers by changing one command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from kingly_memory.adapters.files import jsonl
from kingly_memory.adapters.files.reading import Entry, Problem
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.graph import Entity, Relation, part
from kingly_memory.models import JsonObject
from kingly_memory.observe import log
from kingly_memory.plain import plain
from kingly_memory.server.tools import call_result, compact, parsed
from kingly_memory.validation import Imported, mended

if TYPE_CHECKING:
    from kingly_memory.api.graph import Graph
    from kingly_memory.app.opening import MemoryRouter

FILE = "MEMORY_FILE_PATH"
"""The variable in which the reference server is told its file."""
_READ_IN = "server-memory"
"""The namespace of documents that say which files were read."""


def _object(**fields: JsonObject) -> JsonObject:
    return {"type": "object", "properties": fields, "required": [*fields]}


def _list(items: JsonObject, words: str) -> JsonObject:
    return {"type": "array", "items": items, "description": words}


def _text(words: str) -> JsonObject:
    return {"type": "string", "description": words}


_NAMES = _list(_text("the name of an entity"), "names of entities")
_OF_AN_ENTITY = _text("the name of the entity")
_TEXTS = _list(_text("one fact"), "facts about the entity, one each")
_ENTITIES = _list(
    _object(name=_text("what it is known by"), entityType=_text("what kind of thing it is"), observations=_TEXTS),
    "entities, each with `name`, `entityType` and `observations`",
)
_ENDS = {"from": _text("the entity where it begins"), "to": _text("the entity where it ends")}
_RELATIONS = _list(
    _object(**_ENDS, relationType=_text("what the one is to the other, in the active voice")),
    "relations, each with `from`, `to` and `relationType`",
)
_ADDED = _list(_object(entityName=_OF_AN_ENTITY, addedObservations=_TEXTS), "what is new of each entity")
_GRAPH = _object(entities=_ENTITIES, relations=_RELATIONS)
_DONE = _object(success={"type": "boolean"}, message=_text("what was done"))


def _tool(name: str, says: str, answers: JsonObject, /, **takes: JsonObject) -> Tool:
    reads, destroys = name.startswith(("read", "search", "open")), name.startswith("delete")
    return Tool(
        name=name,
        title=name.replace("_", " ").title(),
        description=says,
        input_schema=_object(**takes),
        output_schema=answers,
        annotations=ToolAnnotations(
            read_only_hint=reads, destructive_hint=destroys, idempotent_hint=reads or destroys, open_world_hint=False
        ),
    )


_OBSERVED = _list(
    _object(entityName=_OF_AN_ENTITY, contents=_TEXTS), "what to add, each with `entityName` and `contents`"
)
_UNSAID = _list(
    _object(entityName=_OF_AN_ENTITY, observations=_TEXTS),
    "what to take away, each with `entityName` and `observations`",
)
_ANSWERED = _object(entities=_ENTITIES)
TOOLS = {
    tool.name: tool
    for tool in (
        _tool("create_entities", "Add entities to the knowledge graph.", _ANSWERED, entities=_ENTITIES),
        _tool("create_relations", "Relate entities.", _object(relations=_RELATIONS), relations=_RELATIONS),
        _tool("add_observations", "Add facts to entities.", _object(results=_ADDED), observations=_OBSERVED),
        _tool("delete_entities", "Delete entities with their relations.", _DONE, entityNames=_NAMES),
        _tool("delete_observations", "Delete facts about entities.", _DONE, deletions=_UNSAID),
        _tool("delete_relations", "Delete relations between entities.", _DONE, relations=_RELATIONS),
        _tool("read_graph", "Read the whole knowledge graph.", _GRAPH),
        _tool("search_nodes", "Find entities by a text in them, or by words.", _GRAPH, query=_text("what to look for")),
        _tool("open_nodes", "Read entities by name.", _GRAPH, names=_NAMES),
    )
}


_contents, _observations = itemgetter("entityName", "contents"), itemgetter("entityName", "observations")
_CALLS: Mapping[str, Callable[[Graph, JsonObject], Awaitable[Any]]] = {
    "create_entities": lambda graph, given: graph.create_entities(map(_entity, given["entities"])),
    "create_relations": lambda graph, given: graph.create_relations(map(_relation, given["relations"])),
    "add_observations": lambda graph, given: graph.add_observations(map(_contents, given["observations"])),
    "delete_entities": lambda graph, given: graph.delete_entities(given["entityNames"]),
    "delete_observations": lambda graph, given: graph.delete_observations(map(_observations, given["deletions"])),
    "delete_relations": lambda graph, given: graph.delete_relations(map(_relation, given["relations"])),
    "read_graph": lambda graph, _: graph.read(),
    "search_nodes": lambda graph, given: graph.search_nodes(given["query"]),
    "open_nodes": lambda graph, given: graph.open_nodes(given["names"]),
}


async def call(memory: MemoryRouter, name: str, given: Mapping[str, Any]) -> CallToolResult:
    """Raises InvalidInput, which names the argument by its path, and StoreError."""
    arguments = _read(TOOLS[name].input_schema, given, "")
    answer = plain(await _CALLS[name](memory.graph, arguments))
    if isinstance(answer, dict):
        return call_result(answer)
    if answer is None:
        message = f"{name.partition('_')[2].capitalize()} deleted successfully"
        return _answered(message, {"success": True, "message": message})
    if name == "add_observations":
        named = zip(arguments["observations"], answer, strict=True)
        answer = [{"entityName": asked["entityName"], "addedObservations": texts} for asked, texts in named]
    [field] = (TOOLS[name].output_schema or {})["properties"]
    return _answered(compact(answer), {field: answer})  # as in the reference server, the text has the list alone


async def read_in(memory: MemoryRouter) -> None:
    """Add what is in the file of the reference server, where one is named that was not read before. Whatever is the
    matter with it is logged: the memory works without."""
    path = os.environ.get(FILE)
    if not path:
        return
    try:
        entries = await asyncio.to_thread(_entries, path)
        key = sha256(path.encode()).hexdigest()
        if not entries or await memory.documents.get(_READ_IN, key) is not None:
            return
        parts = [
            part(entry.draft.key, entry.draft.content, entry.draft.metadata)
            for entry in entries
            if isinstance(entry, Imported)
        ]
        entities = [one for one in parts if isinstance(one, Entity)]
        await memory.graph.create_entities(entities)
        await memory.graph.add_observations((one.name, one.observations) for one in entities)
        await memory.graph.create_relations(one for one in parts if isinstance(one, Relation))
        problems = [one for one in entries if isinstance(one, Problem)]
        for problem in problems:
            log.warning("%s; it is not in the graph", problem)
        if not problems:
            await memory.documents.put(_READ_IN, key, {"file": path})
    except KinglyMemoryError as error:
        log.warning("%s was not read: %s", FILE, error)


def _entries(path: str) -> list[Entry]:
    """Those of the file; none where it is still to be written."""
    return [*jsonl.read(Path(path))] if Path(path).exists() else []


def _entity(fields: JsonObject) -> Entity:
    return Entity(fields["name"], fields["entityType"], tuple(fields["observations"]))


def _relation(fields: JsonObject) -> Relation:
    return Relation(fields["from"], fields["to"], fields["relationType"])


def _answered(text: str, answer: JsonObject) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=call_result(answer).structured_content
    )


def _read(schema: JsonObject, value: Any, place: str) -> Any:
    """The value as the schema wants it, without what it does not know."""
    kind, value = schema["type"], value if schema["type"] == "string" else parsed(value)
    wanted: dict[str, tuple[Any, str]] = {"object": (Mapping, "an object"), "array": (list, "a list")}
    cls, called = wanted.get(kind, (str, "text"))
    if not isinstance(value, cls):
        raise InvalidInput(place, f"expected {called}")
    if kind == "string":
        return mended(value)
    if kind == "array":
        return [_read(schema["items"], one, f"{place}[{number}]") for number, one in enumerate(value)]
    within: Callable[[str], str] = lambda name: f"{place}.{name}" if place else name  # noqa: E731
    if missing := next((name for name in schema["required"] if name not in value), None):
        raise InvalidInput(within(missing), "is missing")
    return {name: _read(one, value[name], within(name)) for name, one in schema["properties"].items()}
