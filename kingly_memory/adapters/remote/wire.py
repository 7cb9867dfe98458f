"""Between our values and the JSON of a server with the seed's tools (seed 004). Pure; what comes in is believed only as
far as its shape goes."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeGuard, TypeVar

from kingly_memory.adapters.remote.outcomes import failure
from kingly_memory.adapters.remote.strict_json import NotJson, read
from kingly_memory.digests import content_digest
from kingly_memory.documents import (
    ITEM_ID,
    LOG,
    MOST_BYTES,
    PART_CHARACTERS,
    Document,
    json_text,
    name_of,
    session_of,
    texts_in,
)
from kingly_memory.errors import OVERTAKEN, InvalidInput, RemoteRefused, RemoteUnavailable
from kingly_memory.models import KINDS, JsonObject, Memory, MemoryType, moment_text
from kingly_memory.ports import (
    UNKNOWN,
    Changed,
    Changes,
    HubText,
    RemoteDocument,
    RemoteHit,
    RemoteInfo,
    RemoteLink,
)
from kingly_memory.validation import LARGEST_REVISION, mended, moment, required

log = logging.getLogger("kingly_memory.remote")
T = TypeVar("T")

SOURCE = "kingly_agent"
MOST_ENTRIES = 200
MOST_EARLIER = 20
"""Earlier revisions of an entry of a feed, as many as our hub lists."""
ID_LIMIT = 512
MOST_PARTS = 512
LONGEST_CONTENT = 3 * MOST_BYTES
"""A document's value and its search text, which may repeat the whole value."""

_ENTRY_LISTS = ("memories", "results", "working_memories", "working_memory", "items")
_LINK_LISTS = ("links", "linked_memories", "related_memories", "memories", "results")
_TYPES = frozenset[str]({*MemoryType, *KINDS})


# --- what we send -----------------------------------------------------------------------------------------------------


def store_params(memory: Memory, idempotency_key: str, supersedes: str | None = None) -> JsonObject:
    """The parameters of `store_memory`. `supersedes` is the remote id of the revision this one replaces. The content is
    `{key, content, metadata}` as JSON text; metadata is the whole record, so that an echo of it is recognised."""
    envelope = {"key": memory.key, "content": memory.content, "metadata": record_of(memory)}
    superseded = {} if supersedes is None else {"supersedes": supersedes}
    return {
        "content": json.dumps(envelope, ensure_ascii=False),
        "memory_type": memory.type.value,
        "metadata": {**_metadata(memory), **superseded},
        "idempotency_key": idempotency_key,
    }


def thought_params(memory: Memory, idempotency_key: str, parent_remote_id: str | None) -> JsonObject:
    """The parameters of `record_thought`. The record goes along, so that an echo of it is recognised; the parent is
    named by the remote's id, or by ours, which was the idempotency key of its own delivery."""
    metadata = memory.metadata
    return {
        "content": memory.content,
        "thought_type": metadata.get("thought_type"),
        "chain_id": metadata.get("chain_id"),
        "parent_thought_id": parent_remote_id or metadata.get("parent_id"),
        "context_id": memory.scope.context_id,
        "metadata": _metadata(memory),
        "record": record_of(memory),
        "idempotency_key": idempotency_key,
    }


def document_params(document: RemoteDocument) -> Iterator[JsonObject]:
    """The parameters of `put_document`, one call after the other."""
    fields: JsonObject = {"name": document.name, "at": document.at.isoformat(), "based_on": document.based_on}
    body, content = document.document, document.content
    if body is None:
        yield {**fields, "purge": document.purged, "ended": document.ended}
        return
    times = {
        "created_at": moment_text(body.created_at),
        "expires_at": moment_text(body.expires_at),
        "ttl_s": body.ttl_s,
    }
    fields |= {"document": {"place": [*body.namespace, body.key], **times}, "digest": document.digest}
    parts = -(-len(content) // PART_CHARACTERS)
    for part in range(parts):
        begin = part * PART_CHARACTERS
        yield {**fields, "content": content[begin : begin + PART_CHARACTERS], "part": part, "parts": parts}


def link_words(link: RemoteLink) -> JsonObject:
    """A link as `links` words it."""
    return {
        "link_type": link.link_type,
        "source_memory_id": link.source_id,
        "target_memory_id": link.target_id,
        "strength": link.strength,
    }


def record_of(memory: Memory) -> JsonObject:
    """The memory as JSON, without its content."""
    record = memory.to_json()
    del record["content"]
    return record


def timestamp_of(memory: Memory) -> int:
    """When the memory last changed, in Unix milliseconds (seed 004)."""
    return round(memory.updated_at.timestamp() * 1000)


def _metadata(memory: Memory) -> JsonObject:
    """Seed 004 sends the significance as confidence too; the true confidence travels in the record."""
    return {
        "confidence": memory.significance,
        "significance": memory.significance,
        "context_id": memory.scope.context_id,
        "source": SOURCE,
        "timestamp": timestamp_of(memory),
    }


# --- what a server answers --------------------------------------------------------------------------------------------


def server_info(reply: Any) -> RemoteInfo:
    """What a server said of itself; one that says nothing is called `unknown` and honours no keys."""
    fields = body_of(reply)
    incarnation = fields.get("incarnation")
    return RemoteInfo(
        server=server_name(fields.get("server")) or UNKNOWN,
        honours_keys="idempotency_keys" in features(reply),
        incarnation=incarnation if isinstance(incarnation, str) else "",
    )


def features(reply: Any) -> list[Any]:
    """The features that a server lists of itself."""
    named = body_of(reply).get("features")
    return named if isinstance(named, list) else []


def server_name(name: Any) -> str:
    """What a server is called, where that is a name and no more: people and models are shown it. Empty otherwise."""
    return name if isinstance(name, str) and re.fullmatch(r"\w[\w .:/+-]{0,49}", name) else ""


def stored_id(reply: Any) -> str:
    """The remote's id for what it was given. Raises RemoteUnavailable when there is none: the outcome is unknown."""
    remote_id = _entry_id(body_of(reply))
    if remote_id is None:
        raise RemoteUnavailable("the reply names no memory_id", reached=True)
    return remote_id


def stored_many(reply: Any, contents: Sequence[str]) -> list[str | RemoteRefused]:
    """The remote's id of each memory that it was given, in their order, or why it refused that one. Raises
    RemoteUnavailable when the reply does not say that of each."""
    return [_stored(result, content) for result, content in zip(results(reply, len(contents)), contents, strict=True)]


def _stored(result: Any, content: str) -> str | RemoteRefused:
    try:
        if failed := failure(result):
            raise failed
        check_held(result, content)
    except RemoteRefused as refused:
        return refused
    return stored_id(result)


def results(reply: Any, count: int) -> list[Any]:
    """What became of each of so many memories or documents. Raises RemoteUnavailable where the reply does not say
    that."""
    found = body_of(reply).get("results")
    if not isinstance(found, list) or len(found) != count:
        raise RemoteUnavailable("the reply does not tell what became of each", reached=True)
    return found


def done(reply: Any) -> Mapping[str, Any]:
    """What a remote says of what it has done. Raises RemoteUnavailable for what cannot be an answer: then the outcome
    is unknown."""
    if not isinstance(reply, Mapping):
        raise RemoteUnavailable("the reply is no object", reached=True)
    return body_of(reply)


def check_held(reply: Any, content: str) -> None:
    """Raise RemoteRefused when the remote says that it holds another text under that id than it was sent: it answered
    from an earlier or later change. Raises RemoteUnavailable as `done` does."""
    fields = done(reply)
    held = fields.get("digest")
    if held not in (None, content_digest(content)):
        raise RemoteRefused(OVERTAKEN, clear=False, code=OVERTAKEN, remote_id=_entry_id(fields))


def forgotten_id(reply: Any) -> str | None:
    """The remote's id of what it forgot, if it says. Raises RemoteUnavailable as `done` does, and RemoteRefused when it
    is there still, after a later change."""
    answer = done(reply)
    if answer.get("idempotency_hit") is True and answer.get("forgotten") is False:
        raise RemoteRefused(OVERTAKEN, clear=False, code=OVERTAKEN, remote_id=_entry_id(answer))
    return _entry_id(answer)


def changes(reply: Any) -> Changes:
    """A page of a hub's feed. Raises RemoteUnavailable for what cannot be an answer; entries that make no sense, and
    those that no reply has room for, are left out."""
    entries, until, is_more = _page(reply)
    found = [change for entry in entries if isinstance(entry, Mapping) and (change := _changed(entry)) is not None]
    if len(found) < len(entries):
        log.warning("%d of %d changes cannot be read here and are left out", len(entries) - len(found), len(entries))
    return Changes(tuple(found), until, is_more, len(entries) - len(found))


def _changed(entry: Mapping[str, Any]) -> Changed | None:
    remote_id, at = text_of(entry.get("memory_id")), _moment(entry.get("at"))
    current = None if entry.get("forgotten") is True else _revision(entry, entry)
    if remote_id is None or at is None or (current is None and entry.get("forgotten") is not True):
        return None
    earlier = (_revision(entry, revision) for revision in _listed(entry.get("revisions"))[:MOST_EARLIER])
    names = [text_of(name) for name in met[:MOST_ENTRIES]] if isinstance(met := entry.get("met"), list) else []
    return Changed(
        remote_id,
        at,
        text_of(entry.get("name")),
        current,
        tuple(revision for revision in earlier if revision is not None),
        tuple(link for row in _listed(entry.get("links"))[:MOST_ENTRIES] if (link := _link(row)) is not None),
        tuple(name for name in names if name is not None),
        entry.get("purged") is True,
        entry.get("pin"),
        entry.get("ratings"),
    )


def check_put(reply: Any) -> None:
    """Raise RemoteUnavailable as `done` does, and where the remote has not all parts of a document: another one came
    between."""
    if done(reply).get("missing") is True:
        raise RemoteUnavailable("the remote has not all parts of a document", reached=True)


class ListedDocument(NamedTuple):
    """An entry of a feed of documents, whose content has as many parts; that of a short one came with it."""

    remote_id: str
    digest: str
    parts: int
    entry: Mapping[str, Any]


def listed_documents(reply: Any) -> tuple[list[ListedDocument | None], str, bool]:
    """The entries of a page, None for what makes no sense, where to go on, and whether there is more. Raises
    RemoteUnavailable for what cannot be an answer."""
    entries, until, is_more = _page(reply)
    return [_listed_document(entry) for entry in entries], until, is_more


def _listed_document(entry: Any) -> ListedDocument | None:
    remote_id = text_of(entry.get("memory_id")) if isinstance(entry, Mapping) else None
    if remote_id is None or not re.fullmatch("[0-9a-f]{32}", str(entry.get("name"))):
        return None
    if entry.get("removed") is True:
        return ListedDocument(remote_id, "", 0, entry)
    parts, digest = entry.get("parts"), text_of(entry.get("digest"))
    is_known = isinstance(parts, int) and 1 <= parts <= MOST_PARTS and digest is not None
    return ListedDocument(remote_id, digest or "", parts, entry) if is_known else None


def document_part(reply: Any) -> str | None:
    text = body_of(reply).get("text")
    return text if isinstance(text, str) else None


def remote_document(listed: ListedDocument, content: str, space: str) -> RemoteDocument | None:
    """A document as it stands there; None for what makes none. Reads as much as 16 MiB of JSON."""
    entry = listed.entry
    at, name = _moment(entry.get("at")), entry["name"]
    if at is None:
        return None
    if not listed.parts:
        return RemoteDocument(name, space, at, purged=entry.get("purged") is True)
    try:
        fields = dict(entry["document"])
        *labels, key = list(fields["place"])
        is_item = bool(labels) and labels[0] == LOG and ITEM_ID.match(key)
        for label in [session_of(labels), key] if is_item else [*labels, key]:
            required("place", label)
        body = json.loads(content)
        json_text("value", body["value"])
        created_at, expires_at = (
            moment("created_at", fields.get("created_at")),
            moment("expires_at", fields["expires_at"]),
        )
    except (InvalidInput, ValueError, KeyError, TypeError, RecursionError):
        return None
    text = body.get("text")
    document = Document(
        tuple(labels), key, body["value"], 0, created_at or at, at, expires_at, figure(fields.get("ttl_s"))
    )
    found_by = mended(texts_in(document.value)) if not isinstance(text, str) else text
    found = RemoteDocument(name, space, at, document, content, found_by)
    is_whole = found.digest == listed.digest and labels and name_of(labels, key) == name
    return found if is_whole else None


def _page(reply: Any) -> tuple[list[Any], str, bool]:
    fields = body_of(reply)
    entries, until = fields.get("changes"), text_of(fields.get("until"))
    if not isinstance(entries, list) or until is None:
        raise RemoteUnavailable("the reply lists no changes; the hub may be of a newer version", reached=True)
    return entries, until, fields.get("more") is True


def _revision(entry: Mapping[str, Any], revision: Mapping[str, Any]) -> HubText | None:
    hit = _hit({"memory_id": entry["memory_id"], **revision})
    at, number = _moment(revision.get("at")), figure(revision.get("revision"))
    if hit is None or at is None or number is None or not 1 <= number <= LARGEST_REVISION:
        return None
    return HubText(hit, at, int(number))


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _moment(value: Any) -> datetime | None:
    try:
        return moment("at", value)
    except InvalidInput:
        return None


def hits(reply: Any) -> list[RemoteHit]:
    """The memories of a reply, best first, one per remote id; an empty list is an answer, and a memory alone a list of
    one. Entries of an unknown shape are left out.

    Raises RemoteUnavailable when the reply holds no list, or nothing in it can be read as a memory: that is no answer.
    """
    body = _unwrapped(reply)
    if isinstance(body, Mapping):
        lists = [body[name] for name in _ENTRY_LISTS if name in body]
        body = [body] if not lists else [] if lists[0] is None else lists[0]  # some servers write an empty list as null
    if not isinstance(body, list | Mapping):
        raise RemoteUnavailable("the reply holds no list of memories", reached=True)
    return ranked(readable(_flat(body), lambda entry: _hit(entry) if isinstance(entry, Mapping) else None))


def readable(entries: Sequence[Any], read: Callable[[Any], T | None]) -> list[T]:
    """What `read` makes of the entries of a list, without those that it cannot read; their number is logged.

    Raises RemoteUnavailable when it can read none although there are some.
    """
    looked_at = entries[:MOST_ENTRIES]
    found = [value for entry in looked_at if (value := read(entry)) is not None]
    left_out = len(looked_at) - len(found)
    if left_out and not found:
        raise RemoteUnavailable("nothing in the reply can be read as a memory", reached=True)
    if left_out:
        log.warning("%d of %d entries in a reply are no memories and are left out", left_out, len(looked_at))
    return found


def ranked(found: Iterable[RemoteHit | None]) -> list[RemoteHit]:
    """Best first, one per remote id."""
    once: dict[str, RemoteHit] = {}
    for hit in sorted((one for one in found if one is not None), key=lambda one: -one.relevance):
        once.setdefault(hit.remote_id, hit)
    return list(once.values())


def links(reply: Any) -> list[JsonObject]:
    """The links in a reply, each once, whether it gave a list, or lists by direction or by memory. Entries that do not
    name both ends are left out."""
    body = _unwrapped(reply)
    if isinstance(body, Mapping):
        body = next((body[name] for name in _LINK_LISTS if name in body), None)
    found: dict[tuple[str, str, str], JsonObject] = {}
    for entry in [one for one in _flat(body) if isinstance(one, Mapping)][:MOST_ENTRIES]:
        link = _link(entry)
        if link is not None:
            found[link.source_id, link.target_id, link.link_type] = link_words(link)
    return list(found.values())


def _link(entry: Mapping[str, Any]) -> RemoteLink | None:
    source = _first_id(entry, "source_memory_id", "source_id", "source")
    target = _first_id(entry, "target_memory_id", "target_id", "target")
    if source is None or target is None:
        return None
    kind, strength = text_of(entry.get("link_type")) or "related", share(first_figure(entry, ("strength",), 1.0))
    return RemoteLink(source, target, kind, strength, text_of(entry.get("description")), "")


def is_content(value: Any) -> TypeGuard[str]:
    """How long it may be is for the setting to say, where it becomes a memory; the reply's own limit holds here."""
    return isinstance(value, str) and bool(value.strip())


def text_of(value: Any) -> str | None:
    """A text fit to be an id, a tag or a title: printable, and not long."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= ID_LIMIT and value.isprintable() else None


def figure(value: Any) -> float | None:
    """The value as a float; None where it is no finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def first_figure(entry: Mapping[str, Any], names: Iterable[str], default: float) -> float:
    return next((number for name in names if (number := figure(entry.get(name))) is not None), default)


def share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _hit(entry: Mapping[str, Any]) -> RemoteHit | None:
    """Our own record may come back in an envelope, or beside the content; else the idempotency key tells our id."""
    content, echo = entry.get("content"), entry.get("record")
    envelope = _opened(content)
    if envelope is not None:
        content, memory_id = envelope["content"], text_of(envelope["metadata"].get("id"))
        record = {**envelope["metadata"], "key": envelope["key"]}
    elif isinstance(echo, Mapping) and text_of(echo.get("id")) is not None:
        memory_id, record = text_of(echo["id"]), dict(echo)
    else:
        memory_id = (text_of(entry.get("idempotency_key")) or "").partition(".")[0] or None
        record = {name: value for name, value in entry.items() if name != "content"}
    remote_id = _entry_id(entry)
    if remote_id is None or not is_content(content):
        return None
    relevance = share(first_figure(entry, ("relevance", "similarity", "score"), 0.0))
    return RemoteHit(remote_id, content, relevance, memory_id, _with_place(record, entry))


def _with_place(record: JsonObject, entry: Mapping[str, Any]) -> JsonObject:
    """The record with the type and the context in our words, wherever the server says them (seed 004)."""
    places = (record, record.get("metadata"), entry, entry.get("metadata"))
    sources = [place for place in places if isinstance(place, Mapping)]
    kinds = (text_of(source.get("memory_type")) for source in sources)
    kind = next((name for name in kinds if name in _TYPES), None)
    context_id = next((name for source in sources if (name := text_of(source.get("context_id"))) is not None), None)
    scope = record["scope"] if isinstance(record.get("scope"), dict) else {}
    placed = {**record} if kind is None else {"type": kind, **record}
    if context_id is not None and scope.get("context_id") is None:
        placed["scope"] = {**scope, "context_id": context_id}
    return placed


def _opened(content: Any) -> JsonObject | None:
    """Our own envelope, when that is what comes back. Strict, for a memory's own content may be JSON too."""
    if isinstance(content, str) and content.startswith("{"):
        try:
            content = read(content)
        except NotJson:
            return None
    if not isinstance(content, dict) or content.keys() != {"key", "content", "metadata"}:
        return None
    return content if isinstance(content["content"], str) and isinstance(content["metadata"], dict) else None


def _unwrapped(reply: Any) -> Any:
    """Some servers put the result of a successful call under `data`."""
    if isinstance(reply, Mapping) and isinstance(reply.get("data"), dict | list):
        return reply["data"]
    return reply


def body_of(reply: Any) -> Mapping[str, Any]:
    """The fields of a reply; none where it is no object."""
    body = _unwrapped(reply)
    return body if isinstance(body, Mapping) else {}


def _flat(value: Any) -> list[Any]:
    """One list from a list, from lists by name, or from entries by id. What is neither stays as it is."""
    if isinstance(value, list):
        return value
    flat: list[Any] = []
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        if isinstance(inner, list):
            flat.extend(inner)
        else:
            flat.append({"memory_id": name, **inner} if isinstance(inner, Mapping) else inner)
    return flat


def _entry_id(entry: Mapping[str, Any]) -> str | None:
    return _first_id(entry, "memory_id", "thought_id", "id")


def _first_id(entry: Mapping[str, Any], *names: str) -> str | None:
    return next((text for name in names if (text := text_of(entry.get(name))) is not None), None)
