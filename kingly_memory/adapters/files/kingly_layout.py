"""The three files that seed 004 names, as views of the store: quick_cache, session_state and task_history.

Nothing reads them: they are for people and programs that expect them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from kingly_memory.adapters.files.atomic import made_folder, replacing
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
