"""The three files that seed 004 names, as views of the store: quick_cache, session_state and task_history.

Nothing reads them to answer; they are for people and programs that expect them. `quick_cache.json` can be imported.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files.atomic import made_folder, replacing
from kingly_memory.adapters.files.jsonl import imported
from kingly_memory.adapters.files.reading import Entry, Problem, attempt
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.validation import Imported

FORMAT = "kingly"
QUICK_CACHE = "quick_cache.json"
SESSION_STATE = "session_state.json"
TASK_HISTORY = "task_history.json"
HISTORY_LIMIT = 1_000
"""Completions in task_history.json, the latest ones."""
CURRENT_CONTEXT = "current"
"""The context of working memories that name none (seed 004, memory_get_working_context)."""
_STATUSES = ("completed", "failed")
_SEED_METADATA = ("memory_type", "significance", "context_id", "timestamp")


def looks_like(content: Any) -> bool:
    """True for the value of a quick_cache.json that this module wrote."""
    return isinstance(content, Mapping) and content.get("layout") == FORMAT


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
    """The memories of a quick_cache.json: ours, or one written to the seed (entries by key, without `record`)."""
    held = content.get("memories", content) if isinstance(content, Mapping) else content
    if isinstance(held, Mapping):
        held = [{"key": key, **item} if isinstance(item, Mapping) else item for key, item in held.items()]
    if not isinstance(held, list):
        yield Problem(path, "", "is not a list or object of {key, content, metadata}")
        return
    for number, item in enumerate(held, start=1):
        yield attempt(path, f"item {number}", partial(_imported, item, content_limit_bytes))


def _view(memory: Memory, remote_id: str | None) -> JsonObject:
    """A memory as the seed's local entry, and under `record` what that has no word for."""
    record = memory.to_json()
    return {
        "id": record.pop("id"),
        "key": record.pop("key"),
        "content": record.pop("content"),
        "mcp_id": remote_id,
        "metadata": {
            "memory_type": memory.type.value,
            "significance": memory.significance,
            "context_id": memory.scope.context_id,
            "timestamp": int(memory.updated_at.timestamp() * 1000),
        },
        "record": record,
    }


def _imported(item: Any, content_limit_bytes: int) -> Imported:
    """Without a `record` it is an entry as seed 004 writes it (memory_intelligent_store)."""
    if not isinstance(item, Mapping):
        raise InvalidInput("item", "is not an object with key, content and metadata")
    record, said = item.get("record"), item.get("metadata")
    data = {name: value for name, value in item.items() if name != "record"}
    if isinstance(record, Mapping):
        data.pop("mcp_id", None)  # of no use to another home
        data |= record
    elif isinstance(said, Mapping):
        data |= {
            "type": said.get("memory_type"),
            "significance": said.get("significance"),
            "context_id": said.get("context_id"),
            "created_at": said.get("timestamp"),
            "metadata": {name: value for name, value in said.items() if name not in _SEED_METADATA},
        }
    return imported(data, content_limit_bytes=content_limit_bytes, format_name=FORMAT)
