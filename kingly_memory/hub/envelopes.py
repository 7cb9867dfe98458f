"""What a sender wraps around a memory: the text, the record that a router has of it, and what else was said.

A memory of the hub has the text, title, tags and scope that it is found by, as that of a home has. Its metadata are the
rest of what was sent, which `sent` puts together again: the text lies in the store once.
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
from kingly_memory.validation import Draft

T = TypeVar("T")

CLOCKS_APART = timedelta(days=1)
"""How far ahead of the hub's clock a sender's may be."""
SENT_LIMIT_BYTES = 4 * 1024 * 1024
"""No smaller than a call may be: what passes the door of the server is not refused behind it."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A memory as it is understood, and the digest of its content as it was sent. `key` is the one that people gave it,
    and `said_at` when they said this, where the sender is a router and says so."""

    draft: Draft
    digest: str
    key: str | None
    said_at: datetime | None

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
        content_limit_bytes=SENT_LIMIT_BYTES,
        key=validation.label("idempotency_key", key),
        type=validation.memory_type("memory_type", memory_type),
        significance=0.5 if outer.get("significance") is None else outer["significance"],
        confidence=0.5 if outer.get("confidence") is None else outer["confidence"],
        tags=_sound(validation.tag_list, tags) or () if isinstance(tags, list) else (),
        title=label(record.get("title")),
        context_id=outer.get("context_id"),
        agent=label(scope.get("agent")) if isinstance(scope, dict) else None,
        origin="remote",
        metadata=metadata,
    )
    text = draft.content.replace("\0", " ")  # which no text of PostgreSQL holds
    around = [] if content == text else content.split(_written(text), 1)
    rest = {"around": around, "memory_type": memory_type, "metadata": draft.metadata}
    said_at = _sound(validation.moment, record.get("updated_at"))
    found_by = replace(draft, content=text, metadata=rest)
    return Envelope(found_by, content_digest(content), label(record.get("key")), said_at)


def sent(memory: Memory) -> JsonObject:
    """The content, type and metadata of a memory of the hub as they were sent; empty where it was forgotten."""
    if "around" not in memory.metadata:
        return {}
    around, rest = memory.metadata["around"], {name: memory.metadata[name] for name in ("memory_type", "metadata")}
    return {"content": _written(memory.content).join(around) if around else memory.content, **rest}


def _written(text: str) -> str:
    """As a router writes it into an envelope."""
    return json.dumps(text, ensure_ascii=False)


def wrapped(content: str, record: JsonObject) -> str:
    """The content and its record as `store_memory` has them in one."""
    return json.dumps({"key": record.get("key"), "content": content, "metadata": record}, ensure_ascii=False)


def unwrapped(content: str) -> tuple[str, Mapping[str, Any]]:
    """The human text and the record around it. Content that is no such JSON object is the text itself."""
    if not content.lstrip().startswith("{"):
        return content, {}
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
