"""The list of tools in docs/mcp.md, written from the tools themselves.

`python -m kingly_memory.server.reference docs/mcp.md` brings the page up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_types import Tool

from kingly_memory.declare import answered
from kingly_memory.server.tools import TOOLSETS, tool_verbs, tools

BEGIN = "<!-- tools: written by `python -m kingly_memory.server.reference docs/mcp.md` -->"
END = "<!-- end of tools -->"


def tools_reference() -> str:
    """Every tool with its arguments and the fields of its answer, as Markdown."""
    return "\n".join(line for toolset in TOOLSETS for line in _toolset(toolset))


def page(text: str) -> str:
    """The page with its list of tools as they are now. Raises ValueError when it has no place for one."""
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise ValueError("the page has no place for the tools")
    return f"{before}{BEGIN}\n\n{tools_reference()}\n{END}{after}"


def _toolset(toolset: str) -> Iterator[str]:
    yield f"### Toolset `{toolset}`"
    yield ""
    yield f"{TOOLSETS[toolset][0].upper()}{TOOLSETS[toolset][1:]}."
    yield ""
    for tool in tools([toolset]):
        yield from _section(tool)


def _section(tool: Tool) -> Iterator[str]:
    verb = tool_verbs()[tool.name]
    yield f"#### {tool.name}"
    yield ""
    fields = ", ".join(f"`{name}`" for name, _ in map(answered, verb.answers) if name != "…")
    yield f"{tool.description} {_effect(tool)} Answers {fields}."
    yield ""
    yield f"    {tool.name} {verb.example}"
    yield ""
    spellings = {one.tool_name: [name for name in one.arg.also if name != one.tool_name] for one in verb.of("tool")}
    rows = [_row(name, one, tool, spellings[name]) for name, one in tool.input_schema["properties"].items()]
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
    kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    return " or ".join(_kind(one) for one in kinds)


def _kind(schema: dict[str, Any]) -> str:
    name = str(schema.get("type", "any"))
    if name == "array":
        return f"list of {_type(schema.get('items', {}))}s"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{name}, {low:,} to {high:,}"
    return name if low is None else f"{name}, {low} or more"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
