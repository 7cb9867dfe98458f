"""Between our values and the remote's JSON. Nothing here waits; what comes in is believed only as far as its shape
goes."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from kingly_memory.adapters.remote.strict_json import NotJson, read
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.models import KINDS, JsonObject, Memory, MemoryType
from kingly_memory.ports import UNKNOWN, RemoteHit, RemoteInfo, RemoteLink

log = logging.getLogger("kingly_memory.remote")
T = TypeVar("T")

SOURCE = "kingly_agent"
MOST_ENTRIES = 200
DEFAULT_LINK_TYPE = "related"

_ID_LIMIT = 512
_SERVER_NAME = re.compile(r"\w[\w .:/+-]{0,49}")
_ENTRY_LISTS = ("memories", "results", "working_memories", "working_memory", "items")
_LINK_LISTS = ("links", "linked_memories", "related_memories", "memories", "results")
_RELEVANCE_NAMES = ("relevance", "similarity", "score")
_TYPES = frozenset[str]({*MemoryType, *KINDS})
_ID_NAMES = ("memory_id", "thought_id", "id")
_SOURCE_NAMES = ("source_memory_id", "source_id", "source")
_TARGET_NAMES = ("target_memory_id", "target_id", "target")


def store_params(memory: Memory, idempotency_key: str, supersedes: str | None = None) -> JsonObject:
    """What `store_memory` is told (seed 004). `supersedes` is the remote id of the revision this one replaces."""
    metadata = _metadata(memory)
    if supersedes is not None:
        metadata["supersedes"] = supersedes
    return {
        "content": _envelope(memory),
        "memory_type": memory.type.value,
        "metadata": metadata,
        "idempotency_key": idempotency_key,
    }


def update_params(memory: Memory, remote_id: str, idempotency_key: str) -> JsonObject:
    """What `update_memory` is told: the store's words, and which memory they replace."""
    return {"memory_id": remote_id, **store_params(memory, idempotency_key)}


def thought_params(memory: Memory, idempotency_key: str, parent_remote_id: str | None) -> JsonObject:
    """What `record_thought` is told. The record goes along, so that an echo of it can be joined; the parent is named
    by the remote's id, or by ours, which was the idempotency key of its own delivery."""
    said = memory.metadata
    return {
        "content": memory.content,
        "thought_type": said.get("thought_type"),
        "chain_id": said.get("chain_id"),
        "parent_thought_id": parent_remote_id or said.get("parent_id"),
        "context_id": memory.scope.context_id,
        "metadata": _metadata(memory),
        "record": _record(memory),
        "idempotency_key": idempotency_key,
    }


def link_params(link: RemoteLink, idempotency_key: str) -> JsonObject:
    """What `create_memory_link` is told."""
    return {**link_words(link), "description": link.description, "idempotency_key": idempotency_key}


def link_words(link: RemoteLink) -> JsonObject:
    """A link as `links` words it."""
    return {
        "link_type": link.link_type,
        "source_memory_id": link.source_id,
        "target_memory_id": link.target_id,
        "strength": link.strength,
    }


def search_params(text: str, limit: int, types: Iterable[MemoryType] | None) -> JsonObject:
    return {
        "query": text,
        "limit": limit,
        "memory_types": None if types is None else [one.value for one in types],
    }


def server_info(reply: Any) -> RemoteInfo:
    """What a server said of itself; one that says nothing is called `unknown` and honours no keys."""
    told = _unwrapped(reply)
    if not isinstance(told, Mapping):
        return RemoteInfo(server=UNKNOWN, honours_keys=False)
    features = told.get("features")
    return RemoteInfo(
        server=server_name(told.get("server")) or UNKNOWN,
        honours_keys=isinstance(features, list) and "idempotency_keys" in features,
    )


def server_name(said: Any) -> str:
    """What a server is called, where that is a name and no more: people and models are shown it. Empty otherwise."""
    return said if isinstance(said, str) and _SERVER_NAME.fullmatch(said) else ""


def stored_id(reply: Any) -> str:
    """The remote's id for what it was given. Raises RemoteUnavailable when there is none: the outcome is unknown."""
    told = _unwrapped(reply)
    remote_id = _entry_id(told) if isinstance(told, Mapping) else None
    if remote_id is None:
        raise RemoteUnavailable("the reply names no memory_id", reached=True)
    return remote_id


def hits(reply: Any) -> list[RemoteHit]:
    """The memories in a reply, best first, one per remote id. Entries of an unknown shape are left out."""
    return _ranked(hit for entry in _entries(reply, _ENTRY_LISTS) if (hit := _hit(entry)) is not None)


def answers(reply: Any) -> list[RemoteHit]:
    """`hits` of a reply that must hold a list of memories; an empty list is one, and a memory alone is a list of one.

    Raises RemoteUnavailable when the reply holds no list, or nothing in it can be read as a memory: that is no answer.
    """
    told = _unwrapped(reply)
    if isinstance(told, Mapping):
        lists = [told[name] for name in _ENTRY_LISTS if name in told]
        told = [told] if not lists else [] if lists[0] is None else lists[0]  # some servers write an empty list as null
    if not isinstance(told, list | Mapping):
        raise RemoteUnavailable("the reply holds no list of memories", reached=True)
    return _ranked(readable(_flat(told), lambda entry: _hit(entry) if isinstance(entry, Mapping) else None))


def readable(entries: Sequence[Any], read: Callable[[Any], T | None]) -> list[T]:
    """What `read` makes of the entries of a list, without those that it cannot read; their number is logged.

    Raises RemoteUnavailable when it can read none although there are some.
    """
    looked_at = entries[:MOST_ENTRIES]
    found = [one for entry in looked_at if (one := read(entry)) is not None]
    left_out = len(looked_at) - len(found)
    if left_out and not found:
        raise RemoteUnavailable("nothing in the reply can be read as a memory", reached=True)
    if left_out:
        log.warning("%d of %d entries in a reply are no memories and are left out", left_out, len(looked_at))
    return found


def forgotten_id(reply: Any) -> str | None:
    """The remote's id of what it forgot, if it says. Raises RemoteUnavailable for what cannot be an answer: then the
    outcome is unknown."""
    told = _unwrapped(reply)
    if not isinstance(told, Mapping):
        raise RemoteUnavailable("the reply to a forgetting is no object", reached=True)
    return _entry_id(told)


def links(reply: Any) -> list[JsonObject]:
    """The links in a reply, each once, whether it gave a list, or lists by direction or by memory. Entries that do not
    name both ends are left out."""
    found: dict[tuple[str, str, str], JsonObject] = {}
    for entry in _entries(reply, _LINK_LISTS):
        source, target = (_first_id(entry, names) for names in (_SOURCE_NAMES, _TARGET_NAMES))
        if source is not None and target is not None:
            kind = _id_text(entry.get("link_type")) or DEFAULT_LINK_TYPE
            words = RemoteLink(source, target, kind, _figure(entry, ("strength",), 1.0), None, "")
            found[source, target, kind] = link_words(words)
    return list(found.values())


def _envelope(memory: Memory) -> str:
    """`{key, content, metadata}` as JSON text; metadata is the whole record, so that an echo of it can be joined."""
    envelope = {"key": memory.key, "content": memory.content, "metadata": _record(memory)}
    return json.dumps(envelope, ensure_ascii=False)


def _record(memory: Memory) -> JsonObject:
    """Everything but the content."""
    record = memory.to_json()
    del record["content"]
    return record


def _metadata(memory: Memory) -> JsonObject:
    """Seed 004 sends the significance as confidence too; the true confidence travels in the envelope."""
    return {
        "confidence": memory.significance,
        "significance": memory.significance,
        "context_id": memory.scope.context_id,
        "source": SOURCE,
        "timestamp": round(memory.updated_at.timestamp() * 1000),
    }


def _unwrapped(reply: Any) -> Any:
    """Some servers put the result of a successful call under `data`."""
    if isinstance(reply, Mapping) and isinstance(reply.get("data"), dict | list):
        return reply["data"]
    return reply


def _entries(reply: Any, names: tuple[str, ...]) -> list[Mapping[str, Any]]:
    told = _unwrapped(reply)
    if isinstance(told, Mapping):
        told = next((told[name] for name in names if name in told), None)
    return [entry for entry in _flat(told) if isinstance(entry, Mapping)][:MOST_ENTRIES]


def _ranked(found: Iterable[RemoteHit]) -> list[RemoteHit]:
    """Best first, one per remote id."""
    once: dict[str, RemoteHit] = {}
    for hit in found:
        once.setdefault(hit.remote_id, hit)
    return sorted(once.values(), key=lambda hit: -hit.relevance)


def _flat(value: Any) -> list[Any]:
    """One list from a list, from lists by name, or from entries by id. What is neither stays as it is."""
    if isinstance(value, list):
        return value
    flat: list[Any] = []
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, list):
                flat.extend(inner)
            else:
                flat.append({"memory_id": name, **inner} if isinstance(inner, Mapping) else inner)
    return flat


def _hit(entry: Mapping[str, Any]) -> RemoteHit | None:
    remote_id, content = _entry_id(entry), entry.get("content")
    envelope, told = _opened(content), entry.get("record")
    if envelope is not None:
        content, memory_id = envelope["content"], _id_text(envelope["metadata"].get("id"))
        record = {**envelope["metadata"], "key": envelope["key"]}
    elif isinstance(told, Mapping) and _id_text(told.get("id")) is not None:
        memory_id, record = _id_text(told["id"]), dict(told)
    else:
        memory_id = _memory_of_key(entry.get("idempotency_key"))
        record = {name: value for name, value in entry.items() if name != "content"}
    if remote_id is None or not is_content(content):
        return None
    return RemoteHit(remote_id, content, _relevance(entry), memory_id, _with_place(record, entry))


def _with_place(record: JsonObject, entry: Mapping[str, Any]) -> JsonObject:
    """The record with the type and the context in our words, wherever the server says them (seed 004)."""
    said = (record, record.get("metadata"), entry, entry.get("metadata"))
    sources = [one for one in said if isinstance(one, Mapping)]
    kinds = (_id_text(one.get("memory_type")) for one in sources)
    kind = next((one for one in kinds if one in _TYPES), None)
    contexts = (_id_text(one.get("context_id")) for one in sources)
    context_id = next((one for one in contexts if one is not None), None)
    scope = record.get("scope")
    scope = scope if isinstance(scope, dict) else {}
    placed = {**record} if kind is None else {"type": kind, **record}
    if context_id is not None and scope.get("context_id") is None:
        placed["scope"] = {**scope, "context_id": context_id}
    return placed


def _opened(content: Any) -> JsonObject | None:
    """Our own envelope, when that is what comes back."""
    if isinstance(content, str) and content.startswith("{"):
        try:
            content = read(content)
        except NotJson:
            return None
    return content if isinstance(content, dict) and _is_envelope(content) else None


def is_content(value: Any) -> TypeGuard[str]:
    """How long it may be is for the setting to say, where it becomes a memory; the reply's own limit holds here."""
    return isinstance(value, str) and bool(value.strip())


def _is_envelope(value: JsonObject) -> bool:
    """Strict, for a memory's own content may be JSON too."""
    return (
        value.keys() == {"key", "content", "metadata"}
        and isinstance(value["content"], str)
        and isinstance(value["metadata"], dict)
    )


def _entry_id(entry: Mapping[str, Any]) -> str | None:
    return _first_id(entry, _ID_NAMES)


def _first_id(entry: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    ids = (_id_text(entry.get(name)) for name in names)
    return next((one for one in ids if one is not None), None)


def _memory_of_key(idempotency_key: Any) -> str | None:
    """Our id, from `<id>` or `<id>.<revision>`."""
    key = _id_text(idempotency_key)
    return key.partition(".")[0] if key else None


def _id_text(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and 0 < len(value) <= _ID_LIMIT and value.isprintable():
        return value
    return None


def _relevance(entry: Mapping[str, Any]) -> float:
    return _figure(entry, _RELEVANCE_NAMES, 0.0)


def _figure(entry: Mapping[str, Any], names: tuple[str, ...], default: float) -> float:
    """The first of those that is a number, clamped to [0, 1]."""
    for name in names:
        value = entry.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return min(max(float(value), 0.0), 1.0)
    return default
