"""What a sender wrapped around a memory, opened: from the parameters of a call to a validated draft."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import Draft
from kingly_memory.models import JsonObject, Memory

CONTENT_LIMIT_BYTES = 4 * 1024 * 1024
"""No smaller than a call may be: what passes the door of the server is not refused behind it."""

SENT = "sent"
"""The facet that keeps content, type and metadata as they were sent, for answers to echo."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A memory as it was sent (`content` and `metadata` are echoed unchanged) and as it is understood (`draft`)."""

    content: str
    memory_type: str
    metadata: JsonObject
    draft: Draft

    def memory(self, memory_id: MemoryId, project: str, created_at: datetime, now: datetime, revision: int) -> Memory:
        """The record that the hub keeps. Its text is the human part of what was sent."""
        return self.draft.memory(memory_id, project, created_at=created_at, updated_at=now, revision=revision)

    def sent(self) -> JsonObject:
        """The value of the facet `SENT`."""
        return {"content": self.content, "memory_type": self.memory_type, "metadata": self.metadata}


def opened(content: str, memory_type: str, metadata: JsonObject | None, key: str | None) -> Envelope:
    """Check what was sent. Raises InvalidInput; a record inside the content that makes no sense is passed over."""
    outer = metadata or {}
    text, record = _unwrapped(content)
    scope = record.get("scope")
    draft = intake.draft(
        text,
        content_limit_bytes=CONTENT_LIMIT_BYTES,
        key=intake.label("idempotency_key", key),
        type=intake.memory_type("memory_type", memory_type),
        significance=_or_default(outer.get("significance"), 0.5),
        confidence=_or_default(outer.get("confidence"), 0.5),
        tags=_tags(record.get("tags")),
        title=_label(record.get("title")),
        context_id=outer.get("context_id"),
        agent=_label(scope.get("agent")) if isinstance(scope, dict) else None,
        origin="remote",
        metadata=outer,
    )
    return Envelope(content, memory_type, draft.metadata, replace(draft, metadata={}))


def wrapped(content: str, record: JsonObject) -> str:
    """The content and its record as `store_memory` has them in one."""
    return json.dumps({"key": record.get("key"), "content": content, "metadata": record}, ensure_ascii=False)


def _unwrapped(content: str) -> tuple[str, Mapping[str, Any]]:
    """The human text and the record around it. Content that is no such JSON object is the text itself."""
    try:
        wrapped = json.loads(content)
    except (ValueError, RecursionError):
        return content, {}
    if not isinstance(wrapped, dict) or not isinstance(wrapped.get("content"), str):
        return content, {}
    record = wrapped.get("metadata")
    return wrapped["content"], record if isinstance(record, dict) else {}


def _or_default(value: object, default: float) -> object:
    return default if value is None else value


def _label(value: object) -> str | None:
    try:
        return intake.label("record", value)
    except InvalidInput:
        return None


def _tags(value: object) -> tuple[str, ...]:
    try:
        return intake.tag_list("record", value) if isinstance(value, list) else ()
    except InvalidInput:
        return ()
