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
from typing import Any, TextIO

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.adapters.files.jsonl import imported
from kingly_memory.adapters.files.reading import Entry, Problem, attempt
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import Imported
from kingly_memory.models import JsonObject, Memory, MemoryType

FORMAT = "kingly"
QUICK_CACHE = "quick_cache.json"
SESSION_STATE = "session_state.json"
TASK_HISTORY = "task_history.json"

HISTORY_LIMIT = 1_000
"""Completions kept in task_history.json, the latest ones."""

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
    project: str,
    now: datetime,
    remote_id: Callable[[Memory], str | None] = lambda memory: None,
) -> dict[str, int]:
    """Write the three views of these memories, with what a remote calls each (`mcp_id`), and return how many went into
    each file. Raises InvalidInput."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("folder", f"{folder} cannot be used ({error.strerror})") from None
    header = {"layout": FORMAT, "project": project, "written_at": now.isoformat()}
    working: dict[str, list[JsonObject]] = {}
    completions: deque[JsonObject] = deque(maxlen=HISTORY_LIMIT)
    with replacing(folder / QUICK_CACHE) as file:
        written = _write_memories(file, header, _watched(memories, working, completions, remote_id))
    _write_view(folder / SESSION_STATE, header | {"contexts": working})
    _write_view(folder / TASK_HISTORY, header | {"completions": list(completions)})
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


def _watched(
    memories: Iterable[Memory],
    working: dict[str, list[JsonObject]],
    completions: deque[JsonObject],
    remote_id: Callable[[Memory], str | None],
) -> Iterator[JsonObject]:
    """Pass the views on, and note the ones that the other two files hold as well."""
    for memory in memories:
        view = _view(memory, remote_id(memory))
        if memory.type is MemoryType.WORKING:
            working.setdefault(memory.scope.context_id or CURRENT_CONTEXT, []).append(view)
        if memory.metadata.get("status") in _STATUSES:
            completions.append(view)
        yield view


def _write_memories(file: TextIO, header: JsonObject, views: Iterator[JsonObject]) -> int:
    """Write the views one by one, so that a large store does not have to fit into memory twice."""
    opening = json.dumps(header, ensure_ascii=False)
    file.write(f'{opening[:-1]}, "memories": [')
    written = 0
    for written, view in enumerate(views, start=1):
        file.write(("\n" if written == 1 else ",\n") + json.dumps(view, ensure_ascii=False))
    file.write("\n]}\n")
    return written


def _write_view(path: Path, content: JsonObject) -> None:
    with replacing(path) as file:
        json.dump(content, file, ensure_ascii=False)
        file.write("\n")


def _imported(item: Any, content_limit_bytes: int) -> Imported:
    if not isinstance(item, Mapping):
        raise InvalidInput("item", "is not an object with key, content and metadata")
    record = item.get("record")
    plain = {name: value for name, value in item.items() if name != "record"}
    if isinstance(record, Mapping):
        plain.pop("mcp_id", None)  # of no use to another home
        data = plain | dict(record)
    else:
        data = _from_seed(plain)
    return imported(data, content_limit_bytes=content_limit_bytes, format_name=FORMAT)


def _from_seed(item: JsonObject) -> JsonObject:
    """A local entry as seed 004 writes it (memory_intelligent_store), in our words."""
    said = item.get("metadata")
    if not isinstance(said, Mapping):
        return item
    own = {
        "type": said.get("memory_type"),
        "significance": said.get("significance"),
        "context_id": said.get("context_id"),
        "created_at": said.get("timestamp"),
        "metadata": {name: value for name, value in said.items() if name not in _SEED_METADATA},
    }
    return item | own
