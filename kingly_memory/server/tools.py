"""The MCP tools, derived from the declarations in `api/`: their arguments, what a host is told, and each call."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import AliasChoices, BeforeValidator, Field

from kingly_memory.api.declared import VERBS
from kingly_memory.declare import Parameter, Verb
from kingly_memory.errors import InvalidInput
from kingly_memory.hub.bodies import mended_tree
from kingly_memory.models import JsonObject
from kingly_memory.server.answers import answer
from kingly_memory.server.lazy_router import LazyRouter

TOOLSETS = {
    "memory": "store, search, read and forget memories; the working context; tasks and their outcomes",
    "thoughts": "chains of thought, links between memories",
    "alma": "searches in a mode or verified, reinforcing, learning a long text",
    "lifecycle": "sweeps, restoring, status and statistics",
    "ai": "focus, pins, threads, notes for a prompt",
    "cognition": "what an agent experienced",
    "documents": "JSON or text under a namespace and a key",
    "legacy": "keys and values: remember, recall, list",
}
"""Every toolset and what is in it."""
_TYPES: Mapping[str, Any] = {
    "text": str,
    "integer": int,
    "number": float,
    "flag": bool,
    "texts": list[str],
    "object": dict[str, Any],
    "text or texts": str | list[str],
    "number or text": float | str,
}
DEFAULT = ("memory",)
ALL = "all"


def chosen(text: str | None) -> tuple[str, ...]:
    """The toolsets that a text with commas names; the default ones when there is none. Raises InvalidInput."""
    if text is None:
        return DEFAULT
    names = [name.strip() for name in text.split(",") if name.strip()]
    choices = f"choose from {', '.join(TOOLSETS)}, or {ALL}"
    for name in names:
        if name not in TOOLSETS and name != ALL:
            raise InvalidInput("tools", f"{name[:40]!r} is unknown; {choices}")
    if not names:
        raise InvalidInput("tools", f"names no toolset; {choices}")
    return tuple(name for name in TOOLSETS if name in names or ALL in names)


def tool_verbs() -> dict[str, Verb]:
    """Every verb that is a tool, by the tool's name, one toolset after the other."""
    return {str(one.tool): one for toolset in TOOLSETS for one in VERBS if one.tool and one.toolset == toolset}


def tools(memory: LazyRouter, toolsets: Collection[str]) -> list[Tool]:
    """The tools of these sets, in their order."""
    return [_tool(verb, memory) for verb in tool_verbs().values() if verb.toolset in toolsets]


def argument_names(verb: Verb) -> Iterator[str]:
    """Every name under which the tool takes an argument, other spellings included."""
    for one in verb.of("tool"):
        yield from (one.tool_name, *one.arg.also)


class _Faithful(FuncMetadata):
    """How a call's arguments and its answer are read and written."""

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """As they were sent: the SDK would read JSON out of texts that happen to be JSON."""
        return data

    def convert_result(self, result: JsonObject) -> CallToolResult:
        """The answer, and the same as compact JSON, which is what a model reads. Without lone surrogates, over which
        the SDK's transports stumble."""
        text = _compact(result)
        try:
            text.encode()
        except UnicodeEncodeError:
            result = mended_tree(result)
            text = _compact(result)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=result)


def _tool(verb: Verb, memory: LazyRouter) -> Tool:
    names = {one.tool_name: one.name for one in verb.of("tool")}

    async def act(**given: Any) -> JsonObject:
        return await answer(verb, await memory.get(), {names[name]: value for name, value in given.items()})

    parameters = [
        inspect.Parameter(
            one.tool_name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=_annotation(one)
        )
        for one in verb.of("tool")
    ]
    act.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what the SDK reads
    act.__annotations__ = {one.name: one.annotation for one in parameters}
    tool = Tool.from_function(
        act,
        name=verb.tool,
        title=verb.title,
        description=verb.says,
        annotations=ToolAnnotations(
            read_only_hint=verb.reads is True or None,
            destructive_hint=None if verb.reads is True else verb.destroys,
            idempotent_hint=verb.repeatable or None,
            open_world_hint=False,
        ),
        # Answers are structured all the same. Their schemas would be twice as long as all the rest, for every model.
        structured_output=False,
    )
    tool.fn_metadata = _Faithful(arg_model=tool.fn_metadata.arg_model)
    tool.parameters = _terse(tool.parameters)
    for one in verb.of("tool"):
        if one.arg.usual is not None:
            tool.parameters["properties"][one.tool_name]["default"] = one.arg.usual
    return tool


def _annotation(one: Parameter) -> Any:
    """The type as pydantic reads it: with bounds and choices, and with what hosts send instead."""
    arg, default = one.arg, one.default
    outer: dict[str, Any] = {"description": arg.words}
    if arg.also:
        outer["validation_alias"] = AliasChoices(*dict.fromkeys((one.tool_name, *arg.also)))
    inner: dict[str, Any] = {}
    accepted: Any = _TYPES[one.type]
    if one.type in ("integer", "number"):
        inner = {name: limit for name, limit in (("ge", arg.least), ("le", arg.most)) if limit is not None}
    elif arg.choices and arg.is_closed:
        accepted = Literal[arg.choices]
    elif arg.choices and one.type == "texts":
        accepted = list[Annotated[str, Field(json_schema_extra={"enum": [*arg.choices]})]]
    elif arg.choices:
        inner = {"json_schema_extra": {"enum": [*arg.choices]}}
    elif one.type == "text or texts":
        accepted = str | Annotated[list[str], Field(min_length=1, max_length=int(arg.most or 1))]
    accepted = Annotated[accepted, Field(**inner), BeforeValidator(_reader(one))]
    return Annotated[accepted | None if default is None else accepted, Field(**outer)]


def _reader(one: Parameter) -> Any:
    """What stands before the type's own check."""
    if one.type in ("integer", "number"):
        return _number
    if one.arg.takes_anything:
        return lambda value: value if isinstance(value, str) else _compact(value)
    if one.type == "texts":
        return _listed
    if one.type == "text or texts":
        return lambda value: _names(value, int(one.arg.most or 1))
    return _parsed if one.type == "object" else lambda value: value


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


def _parsed(value: object) -> object:
    """Some hosts send lists and objects as JSON in a text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _listed(value: object) -> object:
    """A text is one element, also where it begins like JSON; a list in a text is a list."""
    found = _parsed(value)
    return found if isinstance(found, list) else [value] if isinstance(value, str) else value


def _names(value: object, most: int) -> object:
    """Wrong ones are refused here: of two forms that are accepted, each would have something to say."""
    found = _parsed(value)
    several = found if isinstance(found, list) else [found]
    if not 1 <= len(several) <= most or not all(isinstance(one, str) for one in several):
        raise ValueError(f"expected a key or id, or a list of 1 to {most} of them")
    return found


def _compact(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _terse(schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments in few words, since every host sends them to its model: without titles that repeat the names,
    without null where an argument may be left out, closed to arguments that are not there. Other spellings are
    accepted and not listed: a schema that lists them would offer each argument twice."""
    properties = {name: _plain(one) for name, one in schema.get("properties", {}).items()}
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    plain = dict(schema)
    if plain.get("default", ...) is None:
        del plain["default"]
        others = [one for one in plain.pop("anyOf", []) if one != {"type": "null"}]
        plain |= others[0] if len(others) == 1 else {"anyOf": others} if others else {}
    if plain.get("additionalProperties") is True:
        del plain["additionalProperties"]
    plain.pop("title", None)
    return plain
