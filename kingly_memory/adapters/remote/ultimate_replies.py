"""What an Ultimate MCP server says, in our words. Pure; it is believed only as far as its shape goes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kingly_memory.adapters.remote import wire
from kingly_memory.adapters.remote.strict_json import NotJson, read
from kingly_memory.adapters.remote.ultimate_wire import (
    CONTEXT_TAG,
    FORGOTTEN,
    KINDS_THERE,
    MEMORY_TAG,
    OUR_TAGS,
    PLAIN_KIND,
    PROJECT_TAG,
    REVISION_TAG,
    memory_tag,
    project_tag,
)
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.ports import RemoteHit

_REVISION = re.compile(r"[1-9][0-9]{0,8}")
_SCORES = ("hybrid_score", "similarity", "semantic_score", "keyword_relevance_score")
_LATEST = 253_402_300_799
"""The last second of the year 9999."""
_MOST_TAGS = 64
_TITLE_LIMIT = 512


def body_of(reply: Any) -> Mapping[str, Any]:
    """What a successful call says, in either form: under `data`, or flat. Empty for what is neither."""
    if isinstance(reply, Mapping):
        data = reply.get("data")
        return data if isinstance(data, Mapping) else reply
    return {}


def named(reply: Any, field: str) -> str:
    """An id that a reply must name. Raises RemoteUnavailable without one: the outcome is unknown."""
    found = _text(body_of(reply).get(field))
    if found is None:
        raise RemoteUnavailable(f"the reply names no {field}", reached=True)
    return found


def entries(reply: Any, field: str = "memories") -> list[Mapping[str, Any]]:
    """The memories of a reply; an empty list is an answer. Raises RemoteUnavailable when it holds no list of them, or
    nothing in the list can be read as a memory: that is none."""
    found = body_of(reply).get(field)
    if not isinstance(found, list):
        raise RemoteUnavailable(f"the reply holds no list of {field}", reached=True)
    return wire.readable(found, lambda entry: entry if _is_memory(entry) else None)


def hit(entry: Mapping[str, Any], project: str, level: MemoryType | None = None) -> RemoteHit | None:
    """A found memory in our words; None for one of another project, or without id or words, or that was dropped.

    Filters reach only half of a search there, so that each hit is looked at again. `level` is the one asked for.
    """
    remote_id, content = _text(entry.get("memory_id")), entry.get("content")
    if remote_id is None or not isinstance(content, str) or not content.strip() or is_dropped(entry):
        return None
    tags = tags_there(entry)
    projects = _after(tags, PROJECT_TAG)
    if projects and project_tag(project).removeprefix(PROJECT_TAG) not in projects:
        return None
    memory_ids = _after(tags, MEMORY_TAG)
    return RemoteHit(
        remote_id, content, relevance_of(entry), next(iter(memory_ids), None), _record(entry, tags, project, level)
    )


def merged(hits: Iterable[RemoteHit | None], types: frozenset[MemoryType] | None) -> list[RemoteHit]:
    """Best first, once each, of those types only."""
    found: dict[str, RemoteHit] = {}
    for one in hits:
        if one is None or (types is not None and one.record.get("type") not in types):
            continue
        known = found.get(one.remote_id)
        if known is None or known.relevance < one.relevance:
            found[one.remote_id] = one
    return sorted(found.values(), key=lambda one: -one.relevance)


def is_of(entry: Mapping[str, Any], memory: Memory, *, any_revision: bool) -> bool:
    """Whether an entry is a copy of that memory, of its revision where that matters."""
    tags = tags_there(entry)
    is_it = memory_tag(memory).lower() in tags
    return is_it and (any_revision or f"{REVISION_TAG}{memory.revision}" in tags)


def is_dropped(entry: Mapping[str, Any]) -> bool:
    """Whether an entry is what is left of a memory that was forgotten."""
    return entry.get("content") == FORGOTTEN


def tags_there(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The tags of an entry, in lower case; some replies hold them as JSON text."""
    tags = entry.get("tags")
    if isinstance(tags, str):
        try:
            tags = read(tags)
        except NotJson:
            return ()
    texts = (_text(tag) for tag in tags) if isinstance(tags, list) else ()
    return tuple(text.strip().lower() for text in texts if text is not None)


def relevance_of(entry: Mapping[str, Any]) -> float:
    """The first score that is one, in [0, 1]."""
    figures = (_figure(entry.get(name)) for name in _SCORES)
    return next((min(max(one, 0.0), 1.0) for one in figures if one is not None), 0.0)


def significance_of(importance: Any) -> float | None:
    """From 1-10 to 0-1; None for what is no figure."""
    figure = _figure(importance)
    return None if figure is None else min(max(round((figure - 1.0) / 9.0, 9), 0.0), 1.0)


def links(reply: Any, asked_id: str) -> list[JsonObject]:
    """The links of one memory, in our words. The end that is not named is the memory that was asked for."""
    told = body_of(reply).get("links")
    found: list[JsonObject] = []
    for direction, ours in (("outgoing", "source_memory_id"), ("incoming", "target_memory_id")):
        several = told.get(direction) if isinstance(told, Mapping) else None
        for entry in several if isinstance(several, list) else ():
            if isinstance(entry, Mapping):
                found.extend(wire.links([{**entry, ours: entry.get(ours) or asked_id}]))
    return found


def joined_links(several: Iterable[Sequence[JsonObject]]) -> list[JsonObject]:
    """Each link once, however many of its ends were asked for."""
    return wire.links([one for links_of_one in several for one in links_of_one])


def _record(
    entry: Mapping[str, Any], tags: tuple[str, ...], project: str, level: MemoryType | None
) -> Mapping[str, Any]:
    """What is known of a memory that only the server holds. What it does not say is left out."""
    contexts, revisions = _after(tags, CONTEXT_TAG), _after(tags, REVISION_TAG)
    kind = entry.get("memory_type")
    said = {
        "type": _level(entry.get("memory_level"), level),
        "significance": significance_of(entry.get("importance")),
        "confidence": _share(entry.get("confidence")),
        "tags": [tag for tag in tags if not tag.startswith(OUR_TAGS)][:_MOST_TAGS],
        "title": _title(entry.get("description")),
        "created_at": _moment(entry.get("created_at")),
        "scope": {"project": project, "context_id": next(iter(contexts), None)},
        "revision": next((int(one) for one in revisions if _REVISION.fullmatch(one)), None),
        "metadata": {"kind": kind} if isinstance(kind, str) and kind in KINDS_THERE - {PLAIN_KIND} else None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _is_memory(entry: Any) -> bool:
    """Whether an entry has an id and words, whosever memory it is."""
    if not isinstance(entry, Mapping) or _text(entry.get("memory_id")) is None:
        return False
    content = entry.get("content")
    return isinstance(content, str) and bool(content.strip())


def _level(said: Any, asked_for: MemoryType | None) -> MemoryType | None:
    return MemoryType(said) if isinstance(said, str) and said in set[str](MemoryType) else asked_for


def _after(tags: Iterable[str], prefix: str) -> list[str]:
    return [tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix) and len(tag) > len(prefix)]


def _title(value: Any) -> str | None:
    text = _text(value)
    return None if text is None or not text.strip() or len(text) > _TITLE_LIMIT else text


def _moment(value: Any) -> str | None:
    """A time as ISO text: the server says it so, or in Unix seconds."""
    if isinstance(value, str):
        return _text(value)
    seconds = _figure(value)
    if seconds is None or not 0 <= seconds <= _LATEST:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _share(value: Any) -> float | None:
    figure = _figure(value)
    return None if figure is None else min(max(figure, 0.0), 1.0)


def _figure(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _text(value: Any) -> str | None:
    """A text fit to be an id, a tag or a title: printable, and not long."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= _TITLE_LIMIT + 32 and value.isprintable() else None
