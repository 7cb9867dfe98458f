"""The three files that seed 004 names, as views of the store: quick_cache, session_state and task_history.

Nothing reads them to answer: they are for people and programs that expect them. `import` reads quick_cache.json, which
holds what is in the other two as well.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files import jsonl
from kingly_memory.adapters.files.atomic import made_folder, replacing
from kingly_memory.adapters.files.reading import Entry
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory, MemoryType

FORMAT = "kingly"
QUICK_CACHE = "quick_cache.json"
SESSION_STATE = "session_state.json"
TASK_HISTORY = "task_history.json"
FILES = (QUICK_CACHE, SESSION_STATE, TASK_HISTORY)
HISTORY_LIMIT = 1_000
"""Completions in task_history.json, the latest ones."""
CURRENT_CONTEXT = "current"
"""The context of working memories that name none (seed 004, memory_get_working_context)."""
_STATUSES = ("completed", "failed")
_CALLED = {"type": "memory_type", "created_at": "timestamp", "updated_at": "timestamp"}
_SAID = ("memory_type", "significance", "context_id", "timestamp")


def looks_like(content: Any) -> bool:
    """True for the value of a quick_cache.json that this module wrote, whatever the file is called by now."""
    return isinstance(content, Mapping) and content.get("layout") == FORMAT and "memories" in content


def write(
    folder: Path,
    memories: Iterable[Memory],
    *,
    project: str | None,
    now: datetime,
    remote_id: Callable[[Memory], str | None] = lambda memory: None,
) -> dict[str, int]:
    """Write the three views of these memories, with what a remote calls each (`mcp_id`), and return how many went into
    each file. Raises InvalidInput."""
    made_folder(folder)
    header = {"layout": FORMAT, "project": project, "written_at": now.isoformat()}
    working: dict[str, list[JsonObject]] = {}
    completions: deque[JsonObject] = deque(maxlen=HISTORY_LIMIT)
    with replacing(folder / QUICK_CACHE) as file:
        # One by one, so that a large store does not have to fit into memory twice.
        file.write(f'{json.dumps(header, ensure_ascii=False)[:-1]}, "memories": [')
        written = 0
        for written, memory in enumerate(memories, start=1):
            view = _view(memory, remote_id(memory))
            file.write(("\n" if written == 1 else ",\n") + json.dumps(view, ensure_ascii=False))
            if memory.type is MemoryType.WORKING:
                working.setdefault(memory.scope.context_id or CURRENT_CONTEXT, []).append(view)
            if memory.metadata.get("status") in _STATUSES:
                completions.append(view)
        file.write("\n]}\n")
    views: dict[str, JsonObject] = {SESSION_STATE: {"contexts": working}, TASK_HISTORY: {"completions": [*completions]}}
    for name, content in views.items():
        with replacing(folder / name) as file:
            json.dump({**header, **content}, file, ensure_ascii=False)
            file.write("\n")
    held = sum(len(entries) for entries in working.values())
    return {QUICK_CACHE: written, SESSION_STATE: held, TASK_HISTORY: len(completions)}


def entries(content: Any, path: Path, *, content_limit_bytes: int) -> Iterator[Entry]:
    """The memories of a quick_cache.json: ours, or one written to the seed, which has them by their keys."""
    held = content.get("memories", content) if isinstance(content, Mapping) else content
    if isinstance(held, Mapping):
        held = [{"key": key, **one} if isinstance(one, Mapping) else one for key, one in held.items()]
    return jsonl.entries(
        held, path, content_limit_bytes=content_limit_bytes, format_name=FORMAT, as_line=_as_line, called=_CALLED
    )


def _as_line(item: Any) -> JsonObject:
    if not isinstance(item, Mapping) or not isinstance(said := item.get("metadata", {}), Mapping):
        raise InvalidInput("item", "is not an object with key, content and metadata")
    return {
        **{name: item.get(name) for name in ("id", "key", "content")},
        "type": said.get("memory_type"),
        "significance": said.get("significance"),
        "context_id": said.get("context_id"),
        "created_at": said.get("timestamp"),
        "updated_at": said.get("timestamp"),
        "metadata": {name: one for name, one in said.items() if name not in _SAID},
    }


def _view(memory: Memory, remote_id: str | None) -> JsonObject:
    """A memory as the seed's local entry (memory_intelligent_store)."""
    return {
        "id": memory.id,
        "key": memory.key,
        "content": memory.content,
        "mcp_id": remote_id,
        "metadata": {
            "memory_type": memory.type.value,
            "significance": memory.significance,
            "context_id": memory.scope.context_id,
            "timestamp": int(memory.updated_at.timestamp() * 1000),
        },
    }
