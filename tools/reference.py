"""The parts of docs/cli.md, docs/settings.md and docs/mcp.md that are made of the declarations and of the settings.

`python -m tools.reference` brings the pages up to date; what stands outside of the marks is written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_types import Tool

from kingly_memory.cli.commands import COMMON, Command, commands, parameters_of
from kingly_memory.cli.parser import described, positional, spelled
from kingly_memory.dataclass import fields
from kingly_memory.declare import Parameter, answered
from kingly_memory.server import graph
from kingly_memory.server.tools import TOOLSETS, tool_verbs, tools
from kingly_memory.settings import PUBLIC, TABLES, written

DOCS = Path(__file__).parents[1] / "docs"


def page(name: str, text: str) -> str:
    """The page with its parts as they are now. Raises ValueError for one that lacks the marks of a part."""
    for part, made in PARTS[name].items():
        begin, end = f"<!-- {part}: written by `python -m tools.reference` -->", f"<!-- end of {part} -->"
        before, begun, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not (begun and ended):
            raise ValueError(f"{name} has no place for its {part}; it stood between {begin} and {end}")
        lines = "\n".join(made()).strip("\n")
        text = f"{before}{begin}\n\n{lines}\n\n{end}{after}"
    return text


# --- settings ---------------------------------------------------------------------------------------------------------


def settings_reference() -> Iterator[str]:
    yield from ["| field | variable | default | meaning |", "|---|---|---|---|"]
    for setting in PUBLIC:
        if setting.name not in TABLES:
            variable, default = f"KINGLY_{setting.name.upper()}", written(setting.default)
            yield f"| `{setting.name}` | `{variable}` | {default} | {setting.metadata['meaning']} |"


def tables_reference() -> Iterator[str]:
    for name in TABLES:
        yield from _table(name)


def _table(name: str) -> Iterator[str]:
    kind = type(TABLES[name])
    yield from ["", f"### {name}", "", kind.__doc__ or "", ""]
    yield from [f"`{kind.__name__}` in Python, `KINGLY_{name.upper()}` in the environment.", ""]
    yield from ["| key | default | meaning |", "|---|---|---|"]
    for setting in fields(kind):
        yield f"| `{setting.name}` | {written(setting.default)} | {setting.metadata['meaning']} |"


# --- the command line -------------------------------------------------------------------------------------------------


def cli_reference() -> Iterator[str]:
    yield from [*_options(COMMON), ""]
    for command in commands():
        yield from _section(command)


def _section(command: Command) -> Iterator[str]:
    parameters = parameters_of(command)
    yield f"## {command.name}"
    yield ""
    yield f"    kingly-memory {' '.join([command.name, *map(_usage, parameters)])}"
    yield ""
    yield command.says
    yield ""
    if parameters:
        yield from [*_options(parameters), ""]


def _options(parameters: Iterable[Parameter]) -> list[str]:
    rows = (f"| `{spelled(one)}` | {_cell(described(one))} |" for one in parameters)
    return ["| argument | meaning |", "|---|---|", *rows]


def _usage(parameter: Parameter) -> str:
    return f"[{spelled(parameter)}]" if parameter.is_option else positional(parameter)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# --- the tools --------------------------------------------------------------------------------------------------------


def tools_reference() -> Iterator[str]:
    for toolset in TOOLSETS:
        yield from _toolset(toolset)


def _toolset(toolset: str) -> Iterator[str]:
    yield f"### Toolset `{toolset}`"
    yield ""
    yield f"{TOOLSETS[toolset][0].upper()}{TOOLSETS[toolset][1:]}."
    yield ""
    for tool in graph.TOOLS.values() if toolset == "graph" else tools([toolset]):
        yield from _tool(tool)


def _tool(tool: Tool) -> Iterator[str]:
    verb = tool_verbs().get(tool.name)
    answers = [name for name, _ in map(answered, verb.answers)] if verb else (tool.output_schema or {})["properties"]
    yield f"#### {tool.name}"
    yield ""
    fields = ", ".join(f"`{name}`" for name in answers if name != "…")
    yield f"{tool.description} {_effect(tool)} Answers {fields}."
    yield ""
    if verb is not None:
        yield f"    {tool.name} {verb.example}"
        yield ""
    takes = [] if verb is None else verb.of("tool")
    spellings = {
        parameter.tool_name: [name for name in parameter.arg.also if name != parameter.tool_name] for parameter in takes
    }
    rows = [
        _row(name, schema, tool, spellings.get(name, [])) for name, schema in tool.input_schema["properties"].items()
    ]
    if rows:
        yield from ["| argument | type | default | meaning |", "|---|---|---|---|", *rows, ""]


def _effect(tool: Tool) -> str:
    hints = tool.annotations
    if hints is None or hints.read_only_hint:
        return "*Reads only.*"
    return "*Replaces or takes away.*" if hints.destructive_hint else "*Adds.*"


def _row(name: str, schema: dict[str, Any], tool: Tool, spellings: list[str]) -> str:
    required = name in tool.input_schema.get("required", ())
    default = "required" if required else _literal(schema.get("default"))
    others = ", ".join(f"`{other}`" for other in spellings)
    meaning = schema.get("description", "") + (f"; also accepted as {others}" if others else "")
    return f"| `{name}` | {_type(schema)} | {default} | {meaning} |"


def _literal(value: object) -> str:
    if value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _type(schema: dict[str, Any]) -> str:
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    return " or ".join(_kind(one) for one in kinds)


def _kind(schema: dict[str, Any]) -> str:
    name = str(schema.get("type", "any"))
    if name == "array":
        return f"list of {_type(schema.get('items', {}))}s"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{name}, {low:,} to {high:,}"
    return name if low is None else f"{name}, {low} or more"


PARTS: Mapping[str, Mapping[str, Callable[[], Iterable[str]]]] = {
    "cli.md": {"commands": cli_reference},
    "settings.md": {"settings": settings_reference, "tables": tables_reference},
    "mcp.md": {"tools": tools_reference},
}


if __name__ == "__main__":
    for name in PARTS:
        path = DOCS / name
        path.write_text(page(name, path.read_text(encoding="utf-8")), encoding="utf-8")
