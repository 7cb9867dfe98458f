"""What a sender wraps around a memory: the text, the record that a router has of it, and what else was said.

The hub keeps what was sent as it is, in the metadata of a memory, and echoes that. So the text lies there alone: it is
in no index of words, since a hub searches by vectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.digests import content_digest
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory
from kingly_memory.retrieval.vectors import searchable
from kingly_memory.validation import Draft

T = TypeVar("T")

CLOCKS_APART = timedelta(days=1)
"""How far ahead of the hub's clock a sender's may be."""
CONTENT_LIMIT_BYTES = 4 * 1024 * 1024
"""No smaller than a call may be: what passes the door of the server is not refused behind it."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A memory as it is understood; the metadata of `draft` are what was sent, and `found_by` is the text that it is
    found by. `key` is the one that people gave it, and `said_at` when they said this, where the sender is a router and
    says so."""

    draft: Draft
    found_by: str
    key: str | None
    said_at: datetime | None

    @property
    def digest(self) -> str:
        return content_digest(self.draft.metadata["content"])

    def said_before(self, now: datetime) -> datetime:
        """When it was said, as far as that can be: a wrong clock must not make a text the last one for ever."""
        return self.said_at if self.said_at is not None and self.said_at <= now + CLOCKS_APART else now


def opened(content: str, memory_type: str, metadata: JsonObject | None, key: str | None) -> Envelope:
    """Check what was sent. Raises InvalidInput; a record inside the content that makes no sense is passed over."""
    outer = metadata or {}
    text, record = unwrapped(content)
    scope, thought = record.get("scope"), outer.get("thought_type")
    tags = ["reasoning", thought] if thought else record.get("tags")
    draft = validation.draft(
        text,
        content_limit_bytes=CONTENT_LIMIT_BYTES,
        key=validation.label("idempotency_key", key),
        type=validation.memory_type("memory_type", memory_type),
        significance=0.5 if outer.get("significance") is None else outer["significance"],
        confidence=0.5 if outer.get("confidence") is None else outer["confidence"],
        tags=_sound(validation.tag_list, tags) or () if isinstance(tags, list) else (),
        title=label(record.get("title")),
        context_id=outer.get("context_id"),
        agent=label(scope.get("agent")) if isinstance(scope, dict) else None,
        origin="remote",
        metadata=outer,
    )
    sent = {"content": content, "memory_type": memory_type, "metadata": draft.metadata}
    said_at = _sound(validation.moment, record.get("updated_at"))
    bare = replace(draft, content="", title=None, tags=(), metadata=sent)
    return Envelope(bare, searchable(draft), label(record.get("key")), said_at)


def found_by(memory: Memory) -> str:
    """The text that a memory of the hub is found by."""
    sent = memory.metadata
    return opened(sent["content"], sent["memory_type"], sent["metadata"], None).found_by if sent else ""


def wrapped(content: str, record: JsonObject) -> str:
    """The content and its record as `store_memory` has them in one."""
    return json.dumps({"key": record.get("key"), "content": content, "metadata": record}, ensure_ascii=False)


def unwrapped(content: str) -> tuple[str, Mapping[str, Any]]:
    """The human text and the record around it. Content that is no such JSON object is the text itself."""
    try:
        wrapped = json.loads(content)
    except (ValueError, RecursionError):
        return content, {}
    if not isinstance(wrapped, dict) or not isinstance(wrapped.get("content"), str):
        return content, {}
    record = wrapped.get("metadata")
    return wrapped["content"], record if isinstance(record, dict) else {}


def label(value: object) -> str | None:
    return _sound(validation.label, value)


def _sound(check: Callable[[str, Any], T], value: object) -> T | None:
    """What the check makes of a part of a record; None of what makes no sense."""
    try:
        return check("record", value)
    except InvalidInput:
        return None
