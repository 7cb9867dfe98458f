"""Memories of other programs: exports of mem0, the file of the reference memory server, and plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kingly_memory import graph
from kingly_memory.adapters.files import fields
from kingly_memory.adapters.files.notes import sections
from kingly_memory.adapters.files.reading import Problem, attempt, opened, text_of
from kingly_memory.ids import named_id
from kingly_memory.models import JsonObject
from kingly_memory.validation import Imported, draft

MEM0, TEXT = "mem0", "text"
_MEM0_FIELDS = ("created_at", "updated_at", "metadata")
OF_JSON = (b"{", b"[")
_SERVER = "server-memory"
"""@modelcontextprotocol/server-memory: a line for each entity and relation."""


def mem0_items(content: Any) -> list[Any] | None:
    """The memories of what mem0 answers to `get_all` and writes as an export; None for another value."""
    held = content.get("results", content.get("memories")) if isinstance(content, Mapping) else content
    is_mem0 = isinstance(held, list) and held and all(_is_mem0(one) for one in held)
    return held if is_mem0 else None


def as_line(data: Mapping[str, Any]) -> JsonObject | None:
    """A line of another program as a line of ours; None for one that we do not know. Raises InvalidInput."""
    if _is_mem0(data):
        said = {name: data[name] for name in _MEM0_FIELDS if data.get(name) is not None}
        kept = {name: data[name] for name in ("user_id", "actor_id", "role") if data.get(name) is not None}
        metadata = {**fields.mapping("metadata", said.get("metadata") or {}), **kept}
        scope = {"user": data.get("user_id"), "agent": data.get("agent_id"), "context_id": data.get("run_id")}
        tags = fields.texts("categories", data.get("categories"), most=64)
        return {
            **said,
            "id": data.get("id"),
            "content": data["memory"],
            "metadata": metadata,
            "tags": tags,
            "scope": scope,
        }
    part = graph.from_json(data)
    if part is None:
        return None
    called = (part.name,) if isinstance(part, graph.Entity) else part
    return {"id": named_id(_SERVER, *called), **part.to_store()}  # the same one on every import


def _is_mem0(data: Any) -> bool:
    return isinstance(data, Mapping) and isinstance(data.get("memory"), str) and "content" not in data


def beginning(path: Path) -> bytes:
    """The first byte of a file that says anything; empty where none does."""
    with opened(path) as file:
        return file.read(4_096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]


def text(path: Path, *, content_limit_bytes: int) -> Iterator[Imported | Problem]:
    """The whole file as one memory, nothing of an empty one: the same text is the same one."""

    def imported() -> Imported:
        content, _ = text_of(path, content_limit_bytes)
        found = sections(content)
        title = fields.title(found[0].heading) if found else None
        made = draft(content, content_limit_bytes=content_limit_bytes, title=title, origin="import")
        return Imported(made, named_id(TEXT, content))

    if beginning(path):
        yield attempt(path, "", imported)
