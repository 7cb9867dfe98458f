"""Which tools there are, in which sets, and what a host is told of their effects."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel

from kingly_memory.errors import InvalidInput
from kingly_memory.hub.json_rpc import mended_tree
from kingly_memory.models import JsonObject
from kingly_memory.server.alma_tools import AlmaTools
from kingly_memory.server.attention_tools import AttentionTools
from kingly_memory.server.cognition_tools import CognitionTools
from kingly_memory.server.injection_tools import InjectionTools
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.legacy_tools import LegacyTools
from kingly_memory.server.memory_tools import MemoryTools
from kingly_memory.server.suggestion_tools import SuggestionTools
from kingly_memory.server.task_tools import TaskTools
from kingly_memory.server.thought_tools import ThoughtTools
from kingly_memory.server.thread_view_tools import ThreadViewTools
from kingly_memory.server.upkeep_tools import AiTools, AlmaUpkeepTools, LifecycleTools


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool. `destroys`: it may take away or replace what was there. `repeatable`: calling it again with the same
    arguments changes nothing more."""

    toolset: str
    name: str
    title: str
    act: Callable[..., Awaitable[Any]]
    reads: bool = False
    destroys: bool = False
    repeatable: bool = False


TOOLSETS: Mapping[str, str] = {
    "memory": "store, search, read and forget memories; the working context; tasks and their outcomes",
    "thoughts": "chains of thought, links between memories",
    "alma": "searches in a mode or verified, reinforcing, learning a long text",
    "lifecycle": "sweeps, restoring, status and statistics",
    "ai": "focus, pins, threads, notes for a prompt",
    "cognition": "what an agent experienced",
    "legacy": "keys and values: remember, recall, list",
}
"""Every toolset and what is in it."""
DEFAULT = ("memory",)
ALL = "all"


def entries(memory: LazyRouter) -> tuple[Entry, ...]:
    """Every tool, in the order in which they are listed."""
    memories, tasks, thoughts = MemoryTools(memory), TaskTools(memory), ThoughtTools(memory)
    alma, upkeep, lifecycle = AlmaTools(memory), AlmaUpkeepTools(memory), LifecycleTools(memory)
    ai, attention, injection = AiTools(memory), AttentionTools(memory), InjectionTools(memory)
    threads, suggestions = ThreadViewTools(memory), SuggestionTools(memory)
    cognition, legacy = CognitionTools(memory), LegacyTools(memory)
    return (
        Entry("memory", "memory_intelligent_store", "Store a memory", memories.memory_intelligent_store, destroys=True),
        Entry("memory", "memory_hybrid_search", "Search memories", memories.memory_hybrid_search, reads=True),
        Entry("memory", "memory_get", "Read a memory", memories.memory_get, reads=True),
        Entry("memory", "memory_forget", "Forget a memory", memories.memory_forget, destroys=True),
        Entry(
            "memory",
            "memory_get_working_context",
            "Read the working context",
            memories.memory_get_working_context,
            reads=True,
        ),
        Entry("memory", "record_task_outcome", "Record how a task ended", tasks.record_task_outcome),
        Entry("memory", "assess_task_confidence", "Assess a task", tasks.assess_task_confidence),
        Entry("thoughts", "record_thought", "Record a thought", thoughts.record_thought),
        Entry("thoughts", "memory_link", "Link two memories", thoughts.memory_link, repeatable=True),
        Entry("alma", "alma_retrieve_for_mode", "Search in a mode", alma.alma_retrieve_for_mode, reads=True),
        Entry("alma", "alma_retrieve_verified", "Search and verify", alma.alma_retrieve_verified, reads=True),
        Entry("alma", "alma_reinforce", "Hold against fading", upkeep.alma_reinforce),
        Entry("alma", "alma_get_weak_memories", "See what has faded", upkeep.alma_get_weak_memories, reads=True),
        Entry("alma", "alma_compress_and_learn", "Learn a long text", upkeep.alma_compress_and_learn),
        Entry("lifecycle", "memory_sweep", "Sweep", lifecycle.memory_sweep, destroys=True, repeatable=True),
        Entry("lifecycle", "memory_restore", "Restore a memory", lifecycle.memory_restore, repeatable=True),
        Entry("lifecycle", "memory_status", "See the memory's status", lifecycle.memory_status, reads=True),
        Entry("lifecycle", "get_memory_stats", "See how memories do", lifecycle.get_memory_stats, reads=True),
        Entry("ai", "ai_focus", "Focus on a topic", attention.ai_focus, repeatable=True),
        Entry("ai", "ai_unfocus", "Take focus off", attention.ai_unfocus, destroys=True, repeatable=True),
        Entry("ai", "ai_pin", "Pin a text", attention.ai_pin),
        Entry("ai", "ai_unpin", "Take a pin off", attention.ai_unpin, destroys=True),
        Entry("ai", "ai_rate_context", "Rate what was injected", attention.ai_rate_context),
        Entry("ai", "ai_status", "See how the threads are", threads.ai_status, reads=True),
        Entry("ai", "ai_recall", "Recall threads", threads.ai_recall),
        Entry("ai", "ai_merge", "Merge two threads", threads.ai_merge),
        Entry("ai", "ai_split", "Split a thread", threads.ai_split),
        Entry("ai", "ai_rename", "Name a thread", threads.ai_rename, destroys=True, repeatable=True),
        Entry("ai", "ai_suggestions", "See what might be done", suggestions.ai_suggestions, reads=True),
        Entry("ai", "memory_inject", "Take notes for a prompt", injection.memory_inject, reads=True),
        Entry("ai", "ai_compact", "Compact the threads", ai.ai_compact, destroys=True),
        Entry("cognition", "retrieve_memory", "Retrieve experiences", cognition.retrieve_memory, reads=True),
        Entry("legacy", "remember", "Keep a value", legacy.remember, destroys=True),
        Entry("legacy", "recall", "Read a value", legacy.recall, reads=True),
        Entry("legacy", "list", "List the keys", legacy.list_keys, reads=True),
    )


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


def tools(memory: LazyRouter, toolsets: Collection[str]) -> list[Tool]:
    """The tools of these sets, in their order."""
    return [_tool(entry) for entry in entries(memory) if entry.toolset in toolsets]


def spellings(tool: Tool) -> dict[str, list[str]]:
    """The other names of the arguments that have some."""
    choices = [
        getattr(field.validation_alias, "choices", ()) for field in tool.fn_metadata.arg_model.model_fields.values()
    ]
    return {names[0]: list(names[1:]) for names in choices if names}


def argument_names(tool: Tool) -> Iterator[str]:
    """Every name under which the tool takes an argument, other spellings included."""
    for name, field in tool.fn_metadata.arg_model.model_fields.items():
        yield name
        choices: Sequence[Any] = getattr(field.validation_alias, "choices", ())
        yield from (choice for choice in choices if isinstance(choice, str))


class _Faithful(FuncMetadata):
    """How a call's arguments and its answer are read and written."""

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """As they were sent: the SDK would read JSON out of texts that happen to be JSON."""
        return data

    def convert_result(self, result: BaseModel) -> CallToolResult:
        """The answer, and the same as compact JSON, which is what a model reads. Without lone surrogates, over which
        the SDK's transports stumble."""
        data = result.model_dump()
        text = _compact(data)
        try:
            text.encode()
        except UnicodeEncodeError:
            data = mended_tree(data)
            text = _compact(data)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)


def _tool(entry: Entry) -> Tool:
    annotations = ToolAnnotations(
        read_only_hint=entry.reads or None,
        destructive_hint=None if entry.reads else entry.destroys,
        idempotent_hint=entry.repeatable or None,
        open_world_hint=False,
    )
    tool = Tool.from_function(
        entry.act,
        name=entry.name,
        title=entry.title,
        description=_described(entry.act),
        annotations=annotations,
        # Answers are structured all the same. Their schemas would be twice as long as all the rest, for every model.
        structured_output=False,
    )
    tool.fn_metadata = _Faithful(arg_model=tool.fn_metadata.arg_model)
    tool.parameters = _terse(tool.parameters)
    return tool


def _compact(data: JsonObject) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _described(act: Callable[..., Any]) -> str:
    """The docstring without its example, which is for the docs."""
    return " ".join((act.__doc__ or "").partition("Example:")[0].split())


def example(tool: Tool) -> str:
    """Arguments that show how the tool is called, as JSON."""
    return " ".join((tool.fn.__doc__ or "").partition("Example:")[2].split())


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
