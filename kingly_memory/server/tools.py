"""The MCP tools, derived from the declarations in `api/`: what a host is told of each, and how its calls are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from kingly_memory.api.declared import VERBS
from kingly_memory.declare import NOT_GIVEN, Parameter, Verb
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.settings import FLAGS
from kingly_memory.validation import mended_tree

TOOLSETS = {
    "memory": "store, search, read and forget memories; the working context; tasks and their outcomes",
    "thoughts": "chains of thought, links between memories",
    "alma": "searches in a mode or verified, reinforcing, learning a long text",
    "lifecycle": "sweeps, restoring, status and statistics",
    "ai": "focus, pins, threads, notes for a prompt",
    "cognition": "what an agent experienced",
    "documents": "JSON or text under a namespace and a key",
    "legacy": "keys and values: remember, recall, list",
    "graph": "entities, observations and relations: the tools of the reference memory server",
}
"""Every toolset and what is in it."""
_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_TYPES: Mapping[str, JsonObject] = {
    "text": _TEXT,
    "integer": {"type": "integer"},
    "number": _NUMBER,
    "flag": {"type": "boolean"},
    "texts": {"type": "array", "items": _TEXT},
    "object": {"type": "object"},
    "number or text": {"anyOf": [_NUMBER, _TEXT]},
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
    return {str(verb.tool): verb for toolset in TOOLSETS for verb in VERBS if verb.tool and verb.toolset == toolset}


# --- what a host is told ----------------------------------------------------------------------------------------------


def tools(toolsets: Collection[str]) -> list[Tool]:
    """The tools of these sets, in their order."""
    return [_tool(name, verb) for name, verb in tool_verbs().items() if verb.toolset in toolsets]


def _tool(name: str, verb: Verb) -> Tool:
    """Short, since every host sends its tools to its model. Answers are structured, but their schemas are left out:
    they would be twice as long as all the rest."""
    takes = verb.of("tool")
    required = [one.tool_name for one in takes if one.default is NOT_GIVEN]
    schema = {
        "type": "object",
        "properties": {one.tool_name: _schema(one) for one in takes},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }
    annotations = ToolAnnotations(
        read_only_hint=verb.reads is True or None,
        destructive_hint=None if verb.reads is True else verb.destroys,
        idempotent_hint=verb.repeatable or None,
        open_world_hint=False,
    )
    return Tool(name=name, title=verb.title, description=verb.says, input_schema=schema, annotations=annotations)


def _schema(parameter: Parameter) -> JsonObject:
    """The schema of an argument. Other spellings are accepted but not listed: each argument would be offered twice."""
    arg, default = parameter.arg, parameter.usual
    schema: JsonObject = {"description": arg.words}
    if parameter.type == "text or texts":
        schema["anyOf"] = [_TEXT, {**_TYPES["texts"], "minItems": 1, "maxItems": int(arg.most or 1)}]
    else:
        schema |= _TYPES[parameter.type]
    if parameter.type in ("integer", "number"):
        bounds = (("minimum", arg.least), ("maximum", arg.most))
        schema |= {name: limit for name, limit in bounds if limit is not None}
    if arg.choices and parameter.type == "texts":
        schema["items"] = {**_TEXT, "enum": [*arg.choices]}
    elif arg.choices:
        schema["enum"] = [*arg.choices]
    return schema if default in (NOT_GIVEN, None) else {**schema, "default": default}


# --- a call -----------------------------------------------------------------------------------------------------------


def argument_names(verb: Verb) -> Iterator[str]:
    """Every name under which the tool takes an argument, other spellings included."""
    for parameter in verb.of("tool"):
        yield from (parameter.tool_name, *parameter.arg.also)


def read(verb: Verb, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, by the names of the verb's parameters. Raises InvalidInput, which never repeats what may
    be a memory's text."""
    values = {}
    for parameter in verb.of("tool"):
        name = next((name for name in (parameter.tool_name, *parameter.arg.also) if name in given), None)
        if name is None and parameter.default is NOT_GIVEN:
            raise InvalidInput(parameter.tool_name, "is missing")
        values[parameter.name] = parameter.default if name is None else given[name]
        if name is not None and not (given[name] is None and parameter.default is None):
            try:
                values[parameter.name] = _READERS[parameter.type](parameter, given[name])
            except _Wrong as wrong:
                raise InvalidInput(name, str(wrong)) from None
    return values


def call_result(answer: JsonObject) -> CallToolResult:
    """The answer, and the same as compact JSON, which is what a model reads. Without lone surrogates, over which the
    SDK's transports stumble."""
    text = compact(answer)
    try:
        text.encode()
    except UnicodeEncodeError:
        answer = mended_tree(answer)
        text = compact(answer)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


class _Wrong(Exception):
    """What is the matter with an argument."""


def _text(parameter: Parameter, value: Any) -> str:
    if parameter.arg.takes_anything and not isinstance(value, str):
        return compact(value)
    if not isinstance(value, str):
        raise _Wrong("expected text")
    if parameter.arg.is_closed and value not in parameter.arg.choices:
        *first, last = map(repr, parameter.arg.choices)
        raise _Wrong(f"should be {', '.join(first)} or {last}")
    return value


def _number(parameter: Parameter, value: Any) -> int | float:
    """Some hosts send numbers as texts."""
    if isinstance(value, bool):
        raise _Wrong("expected a number")
    kind, what = (int, "a whole number") if parameter.type == "integer" else (float, "a number")
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        raise _Wrong(f"should be {what}") from None
    if not isinstance(value, str) and number != value:
        raise _Wrong(f"should be {what}")
    least, most = parameter.arg.least, parameter.arg.most
    if least is not None and not number >= least:
        raise _Wrong(f"should be greater than or equal to {least:,}")
    if most is not None and not number <= most:
        raise _Wrong(f"should be less than or equal to {most:,}")
    return number


def _flag(_: Parameter, value: Any) -> bool:
    try:
        return FLAGS[str(value).casefold()]
    except KeyError:
        raise _Wrong("should be true or false") from None


def _number_or_text(_: Parameter, value: Any) -> float | str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _Wrong("expected a number or text")
    return value


def _object(_: Parameter, value: Any) -> JsonObject:
    value_read = parsed(value)
    if not isinstance(value_read, dict):
        raise _Wrong("should be an object")
    return value_read


def _texts(_: Parameter, value: Any) -> list[str]:
    """A text is one element, also where it begins like JSON; a list in a text is a list."""
    value_read = parsed(value)
    texts = value_read if isinstance(value_read, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise _Wrong("should be a list of texts")
    return texts


def _text_or_texts(parameter: Parameter, value: Any) -> str | list[str]:
    names: str | list[str] = parsed(value)
    several, most = names if isinstance(names, list) else [names], int(parameter.arg.most or 1)
    if not 1 <= len(several) <= most or not all(isinstance(text, str) for text in several):
        raise _Wrong(f"expected a key or id, or a list of 1 to {most} of them")
    return names


def parsed(value: Any) -> Any:
    """Some hosts send lists and objects as JSON in a text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def compact(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


_READERS: Mapping[str, Callable[[Parameter, Any], Any]] = {
    "text": _text,
    "integer": _number,
    "number": _number,
    "flag": _flag,
    "texts": _texts,
    "object": _object,
    "text or texts": _text_or_texts,
    "number or text": _number_or_text,
}
