"""Which tools there are, in which sets, and what a host is told of their effects."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
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


TOOLSETS = ("memory", "tasks", "thoughts", "alma", "lifecycle", "ai", "cognition", "legacy")


def entries(memory: LazyRouter) -> tuple[Entry, ...]:
    """Every tool, in the order in which they are listed."""
    memories, tasks, thoughts, alma, legacy = (
        MemoryTools(memory),
        TaskTools(memory),
        ThoughtTools(memory),
        AlmaTools(memory),
        LegacyTools(memory),
    )
    upkeep, lifecycle, ai = AlmaUpkeepTools(memory), LifecycleTools(memory), AiTools(memory)
    attention, injection = AttentionTools(memory), InjectionTools(memory)
    threads, suggestions = ThreadViewTools(memory), SuggestionTools(memory)
    return (
        Entry("memory", "memory_intelligent_store", "Store a memory", memories.memory_intelligent_store, destroys=True),
        Entry("memory", "memory_hybrid_search", "Search memories", memories.memory_hybrid_search, reads=True),
        Entry(
            "memory",
            "memory_get_working_context",
            "Read the working context",
            memories.memory_get_working_context,
            reads=True,
        ),
        Entry("memory", "memory_get", "Read a memory", memories.memory_get, reads=True),
        Entry("memory", "memory_forget", "Forget a memory", memories.memory_forget, destroys=True),
        Entry("memory", "memory_link", "Link two memories", memories.memory_link, repeatable=True),
        Entry("memory", "memory_status", "See the memory's status", memories.memory_status, reads=True),
        Entry("tasks", "assess_task_confidence", "Assess a task", tasks.assess_task_confidence),
        Entry("tasks", "record_task_outcome", "Record how a task ended", tasks.record_task_outcome),
        Entry("thoughts", "record_thought", "Record a thought", thoughts.record_thought),
        Entry("alma", "alma_retrieve_for_mode", "Search in a mode", alma.alma_retrieve_for_mode, reads=True),
        Entry("alma", "alma_retrieve_verified", "Search and verify", alma.alma_retrieve_verified, reads=True),
        Entry("alma", "alma_reinforce", "Hold against fading", upkeep.alma_reinforce),
        Entry("alma", "alma_get_weak_memories", "See what has faded", upkeep.alma_get_weak_memories, reads=True),
        Entry("alma", "alma_compress_and_learn", "Learn a long text", upkeep.alma_compress_and_learn),
        Entry("lifecycle", "memory_sweep", "Sweep", lifecycle.memory_sweep, destroys=True, repeatable=True),
        Entry("lifecycle", "memory_restore", "Restore a memory", lifecycle.memory_restore, repeatable=True),
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
        Entry(
            "cognition", "retrieve_memory", "Retrieve experiences", CognitionTools(memory).retrieve_memory, reads=True
        ),
        Entry("legacy", "remember", "Keep a value", legacy.remember, destroys=True),
        Entry("legacy", "recall", "Read a value", legacy.recall, reads=True),
        Entry("legacy", "list", "List the keys", legacy.list_keys, reads=True),
    )


def chosen(text: str | None) -> tuple[str, ...]:
    """The toolsets that a text with commas names; all of them when there is none. Raises InvalidInput."""
    if text is None:
        return TOOLSETS
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TOOLSETS:
            raise InvalidInput("tools", f"{name[:40]!r} is unknown; choose from {', '.join(TOOLSETS)}")
    if not names:
        raise InvalidInput("tools", f"names no toolset; choose from {', '.join(TOOLSETS)}")
    return tuple(name for name in TOOLSETS if name in names)


def tools(memory: LazyRouter, toolsets: Collection[str]) -> list[Tool]:
    """The tools of these sets, in their order."""
    return [_tool(entry) for entry in entries(memory) if entry.toolset in toolsets]


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
        title=entry.title,
        read_only_hint=entry.reads,
        destructive_hint=entry.destroys,
        idempotent_hint=entry.reads or entry.repeatable,
        open_world_hint=False,
    )
    tool = Tool.from_function(
        entry.act,
        name=entry.name,
        title=entry.title,
        description=_described(entry.act),
        annotations=annotations,
        structured_output=True,
    )
    told = tool.fn_metadata
    tool.fn_metadata = _Faithful(
        arg_model=told.arg_model,
        output_schema=told.output_schema,
        output_model=told.output_model,
        wrap_output=told.wrap_output,
    )
    tool.parameters = _terse(tool)
    return tool


def _compact(data: JsonObject) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _described(act: Callable[..., Any]) -> str:
    lines = (act.__doc__ or "").strip().splitlines()
    return "\n".join(line.strip() for line in lines if line.strip())


def _terse(tool: Tool) -> dict[str, Any]:
    """The arguments without titles that only repeat the names, closed to those that are not there. Other spellings are
    said in words: a schema that lists them would offer each argument twice."""
    properties = {
        name: {key: value for key, value in one.items() if key != "title"}
        for name, one in tool.parameters.get("properties", {}).items()
    }
    for name, others in _spellings(tool).items():
        properties[name]["description"] += f" (also accepted as {', '.join(others)})"
    return {
        "type": "object",
        "properties": properties,
        "required": tool.parameters.get("required", []),
        "additionalProperties": False,
    }


def _spellings(tool: Tool) -> dict[str, list[str]]:
    """The other names of the arguments that have some."""
    shown = tool.parameters.get("properties", {})
    choices = [
        getattr(field.validation_alias, "choices", ()) for field in tool.fn_metadata.arg_model.model_fields.values()
    ]
    return {names[0]: list(names[1:]) for names in choices if names and names[0] in shown}
