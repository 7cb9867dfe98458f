"""The hub's memory: every method of the wire, done once per idempotency key, over a router's own local layer.

Every call in every dialect ends in `answered`, and what goes wrong with it is worded by `refusal`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from kingly_memory import validation
from kingly_memory.cognition import links
from kingly_memory.cognition.links import Link
from kingly_memory.cognition.owners import digest
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.digests import content_digest
from kingly_memory.errors import InvalidInput, KinglyMemoryError, StoreError
from kingly_memory.hub.access import Caller, Refusal
from kingly_memory.hub.methods import (
    CreateMemoryLink,
    ForgetMemory,
    GetLinkedMemories,
    GetWorkingMemory,
    InitializeMemorySystem,
    ListForgotten,
    RecordThought,
    Request,
    SearchSemanticMemories,
    StoreMany,
    StoreMemory,
    UnknownMethod,
    UpdateMemory,
    checked,
    parsed,
)
from kingly_memory.hub.recall import SENT, Recall, worded
from kingly_memory.hub.vectors import Vectors
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.models import JsonObject, Memory, MemoryType, Standing, space_of
from kingly_memory.observe import log
from kingly_memory.ports import HOME, INCARNATION, Clock, Embedder, LocalStore, Row, Transaction
from kingly_memory.retrieval.vectors import searchable
from kingly_memory.validation import Draft

FEATURES = ("idempotency_keys", "update_memory", "forget_memory", "list_forgotten", "create_memory_link", "store_many")

_FORGOTTEN, _LAST_FORGOTTEN = "forgotten", "forgotten_last"
"""The facets `forgotten:<digest of the scope>.<number>` name what was forgotten, in that order."""
_LISTED = 500
_APPLIED = "applied"
_APPLIED_KEPT = 16
"""Idempotency keys of changes that a memory remembers; a sender repeats its last one, not its seventeenth."""


CONTENT_LIMIT_BYTES = 4 * 1024 * 1024
"""No smaller than a call may be: what passes the door of the server is not refused behind it."""


class UnknownMemory(KinglyMemoryError):
    """Nothing is stored under that id in the caller's project."""

    def __init__(self, field: str, memory_id: str) -> None:
        super().__init__(f"{field}: nothing is stored under {memory_id[:80]!r} in this project")
        self.field = field


def scope_name(namespace: str, project: str, user: str | None = None) -> str:
    """The space of the local layer that a namespace's project lies in, or that of one of its users. Escaped, so that no
    two meet; the project is empty where it is every project."""
    own = f"{quote(namespace, safe='')}/{quote(project, safe='')}"
    return space_of(own, None if user is None else quote(user, safe=""))


class Engine:
    """Answers requests. Blocks while the disk works; safe from any thread.

    A key and the memory it stands for are written in one transaction on the store's only writer thread, so of many
    concurrent calls with one key exactly one has an effect and the others are told of it.
    """

    def __init__(self, store: LocalStore, embedder: Embedder, clock: Clock, version: str) -> None:
        self._store = store
        self._clock = clock
        self._version = version
        self._vectors = Vectors(store, embedder)
        self._recall = Recall(store.reader, self._vectors)
        self._answers: Mapping[type[Request], Callable[[str, Any], JsonObject]] = {
            InitializeMemorySystem: self._introduce,
            StoreMemory: self._store_memory,
            StoreMany: self._store_many,
            UpdateMemory: self._update_memory,
            ForgetMemory: self._forget_memory,
            ListForgotten: self._list_forgotten,
            SearchSemanticMemories: self._recall.search,
            GetWorkingMemory: self._recall.working,
            GetLinkedMemories: self._recall.linked,
            RecordThought: self._record_thought,
            CreateMemoryLink: self._create_link,
        }

    def answer(self, scope: str, request: Request) -> JsonObject:
        """What the request asks for, within a scope made by `scope_name`. Returns after the commit.

        Raises InvalidInput, UnknownMemory or StoreError; then nothing was changed.
        """
        return self._answers[type(request)](scope, request)

    def _introduce(self, scope: str, request: InitializeMemorySystem) -> JsonObject:
        """Who says hello will soon search, so the scope's vectors begin to load."""
        self._vectors.scope(scope)
        home = self._store.write(lambda tx: tx.facet(HOME, INCARNATION)).result() or {}  # who writes looks for copies
        server = {"server": "kingly-hub", "version": self._version, "incarnation": home.get("id")}
        return {"success": True, **server, "features": list(FEATURES)}

    def _store_memory(self, scope: str, request: StoreMemory) -> JsonObject:
        return self._stored(scope, [_sent(request)])[0]

    def _store_many(self, scope: str, request: StoreMany) -> JsonObject:
        """One commit for all. What makes no sense is refused in its place, and the others are stored."""
        results: list[JsonObject] = []
        envelopes: dict[int, Envelope] = {}
        for place, params in enumerate(request.memories):
            results.append({})
            try:
                envelopes[place] = _sent(checked(StoreMemory, params))
            except InvalidInput as error:
                told = refusal(error)
                facts = {"error": told.reason, "error_code": "INVALID_PARAMETER", "field": told.field}
                results[place] = {"success": False, **facts}
        for place, reply in zip(envelopes, self._stored(scope, list(envelopes.values())), strict=True):
            results[place] = reply
        return {"results": results}

    def _record_thought(self, scope: str, request: RecordThought) -> JsonObject:
        """A thought is a memory; one that came with its record is echoed like a stored one."""
        names = {"thought_type", "chain_id", "parent_thought_id", "context_id"}
        content = request.content if request.record is None else wrapped(request.content, request.record)
        metadata = {**(request.metadata or {}), **request.model_dump(include=names, exclude_none=True)}
        envelope = opened(content, MemoryType.SEMANTIC.value, metadata, request.idempotency_key)
        tags = validation.tag_list("thought_type", ("reasoning", request.thought_type))
        (reply,) = self._stored(scope, [replace(envelope, draft=replace(envelope.draft, tags=tags))])
        return {"thought_id": reply["memory_id"], **reply}

    def _stored(self, scope: str, envelopes: Sequence[Envelope]) -> list[JsonObject]:
        """Store each, unless its key was used before: then nothing is written, and a sender whose memory was forgotten
        meanwhile is told so."""
        now = self._clock.now()
        memories = [
            one.draft.memory(new_id(now), scope, created_at=now, updated_at=now, revision=1) for one in envelopes
        ]
        vectors = [self._vectors.of(searchable(memory)) for memory in memories]

        def store(tx: Transaction, memory: Memory, sent: JsonObject, vector: Sequence[float]) -> JsonObject:
            known = None if memory.key is None else tx.id_of_key(scope, memory.key)
            if known is None:
                self._put(tx, memory, sent, vector)
                return {"memory_id": memory.id, "idempotency_hit": False, "digest": content_digest(sent["content"])}
            row = tx.row(known)
            forgotten = row is not None and row.standing is Standing.FORGOTTEN
            told = {"forgotten": True} if forgotten else _held(tx, known)
            return {"memory_id": known, "idempotency_hit": True, **told}

        def change(tx: Transaction) -> list[JsonObject]:
            each = zip(memories, envelopes, vectors, strict=True)
            return [store(tx, memory, envelope.sent(), vector) for memory, envelope, vector in each]

        replies = self._store.write(change).result()
        self._vectors.follow(scope, *(reply["memory_id"] for reply in replies))
        return replies

    def _update_memory(self, scope: str, request: UpdateMemory) -> JsonObject:
        """Also how a forgotten memory comes back. What the request leaves out stays as it was sent before."""
        memory_id = MemoryId(request.memory_id)
        row = self._known("memory_id", scope, memory_id)
        earlier = self._store.reader.facets(SENT, [memory_id]).get(memory_id, {})
        kind = request.memory_type or earlier.get("memory_type", row.memory.type.value)
        metadata = earlier.get("metadata") if request.metadata is None else request.metadata
        envelope = opened(request.content, kind, metadata, row.memory.key)
        vector = self._vectors.of(searchable(envelope.draft))
        now = self._clock.now()

        def change(tx: Transaction) -> JsonObject:
            row = tx.row(memory_id)
            if row is None:  # it was there a moment ago, and the hub never erases one
                raise UnknownMemory("memory_id", memory_id)
            current = row.memory
            if not _first_time(tx, memory_id, request.idempotency_key):
                return {"revision": current.revision, "idempotency_hit": True, **_held(tx, memory_id)}
            memory = envelope.draft.memory(
                memory_id, scope, created_at=current.created_at, updated_at=now, revision=current.revision + 1
            )
            self._put(tx, memory, envelope.sent(), vector)
            return {"revision": memory.revision, "idempotency_hit": False, **_held(tx, memory_id)}

        told = self._store.write(change).result()
        self._vectors.follow(scope, memory_id)
        return {"memory_id": memory_id, **told}

    def _forget_memory(self, scope: str, request: ForgetMemory) -> JsonObject:
        """Drop text and vector, keep id and key: neither a late store nor a repeat brings the memory back. A purge
        leaves nothing of it in the files either."""
        if request.memory_id is None and request.store_key is None:
            raise InvalidInput("memory_id", "is missing, and store_key is too; one of them names the memory")
        key = validation.label("store_key", request.store_key)
        now = self._clock.now()

        def change(tx: Transaction) -> tuple[MemoryId | None, bool, bool]:
            memory = _named(tx, scope, request.memory_id, key)
            if memory is None and key is None:
                return None, False, False
            if memory is None:  # its store may still be on its way, and must find it forgotten
                unseen = opened("unseen", MemoryType.SEMANTIC.value, None, key).draft
                memory = unseen.memory(new_id(now), scope, created_at=now, updated_at=now, revision=0)
            elif not _first_time(tx, memory.id, request.idempotency_key):
                row = tx.row(memory.id)
                return memory.id, row is not None and row.standing is Standing.FORGOTTEN, True
            if request.purge:
                links.sever(tx, memory.id)
            tx.erase(memory.id)
            tx.unlearn(memory)
            emptied = replace(memory, content="", title=None, tags=(), metadata={})
            tx.save(replace(emptied, updated_at=now, revision=memory.revision + 1), Standing.FORGOTTEN)
            tx.set_facet(SENT, memory.id, None)
            self._vectors.write(tx, memory.id, None)
            _note_forgotten(tx, scope, memory.id)
            return memory.id, True, False

        memory_id, is_forgotten, hit = self._store.write(change).result()
        if memory_id is not None:
            self._vectors.follow(scope, memory_id)
            if request.purge:
                self._store.scrub([memory_id])
        return {"memory_id": memory_id, "forgotten": is_forgotten, "idempotency_hit": hit}

    def _list_forgotten(self, scope: str, request: ListForgotten) -> JsonObject:
        """What is forgotten still. A cursor that this hub never gave out, as after a restored backup, begins anew."""
        whose, since = digest(scope), request.since or ""
        is_cursor = re.fullmatch("[0-9]{1,12}", since) is not None
        last = self._store.reader.facets(_LAST_FORGOTTEN, [whose]).get(whose, {"number": 0})["number"]
        start = int(since) if is_cursor and int(since) <= last else 0
        found = self._store.reader.threads.named(_FORGOTTEN, _LISTED, after=_place(whose, start))
        listed = {owner.rpartition(".")[2]: facet["id"] for owner, facet in found if owner.startswith(f"{whose}.")}
        rows = {memory_id: self._store.reader.row(memory_id) for memory_id in listed.values()}
        gone = [memory_id for memory_id, row in rows.items() if row and row.standing is Standing.FORGOTTEN]
        until = max(map(int, listed), default=start)
        return {"memory_ids": gone, "until": str(until), "more": bool(listed) and until < last}

    def _create_link(self, scope: str, request: CreateMemoryLink) -> JsonObject:
        """The same ends and type again are the same link. A change that was overtaken by a later one has no effect."""
        source = self._known("source_memory_id", scope, request.source_memory_id).memory.id
        target = self._known("target_memory_id", scope, request.target_memory_id).memory.id
        said = links.draft(request.link_type, request.strength, request.description)
        now = self._clock.now()

        def change(tx: Transaction) -> Link:
            before = links.between(tx, source, target, said.link_type)
            if before is not None and not _first_time(tx, before.id, request.idempotency_key):
                return before
            link, _ = links.write(tx, source, target, said, now)
            if before is None:
                _first_time(tx, link.id, request.idempotency_key)
            return link

        return worded(self._store.write(change).result())

    def _known(self, field: str, scope: str, memory_id: str) -> Row:
        """The row of a memory that was ever stored in the scope. Raises UnknownMemory."""
        row = self._store.reader.row(memory_id)
        if row is None or row.memory.scope.space != scope:
            raise UnknownMemory(field, memory_id)
        return row

    def _put(self, tx: Transaction, memory: Memory, sent: JsonObject, vector: Sequence[float]) -> None:
        tx.save(memory, Standing.LIVE)
        tx.set_facet(SENT, memory.id, sent)
        self._vectors.write(tx, memory.id, vector)


def answered(engine: Engine, caller: Caller, method: object, params: object) -> JsonObject:
    """Blocks while the disk works; safe from any thread. Raises what `refusal` words."""
    request = parsed(method, params, caller.key)
    project = "" if caller.for_all else validation.label("Kingly-Project", caller.project) or "default"
    user = validation.label("Kingly-User", caller.user)
    return engine.answer(scope_name(caller.namespace, project, user), request)


def refusal(error: Exception) -> Refusal:
    """What a caller is told of a call that failed, without any detail that nobody foresaw."""
    match error:
        case UnknownMethod() | UnknownMemory():
            return Refusal(404, str(error))
        case InvalidInput():
            return Refusal(422, str(error), error.field)
        case StoreError():
            log.error("HubStoreFailed %s", type(error).__name__)
            return Refusal(503, "the hub's store cannot be used at the moment; nothing was changed")
    log.error("HubCallFailed %s", type(error).__name__)
    return Refusal(500, "internal error")


def _named(tx: Transaction, scope: str, memory_id: str | None, key: str | None) -> Memory | None:
    """The memory of the scope with that id, else the one stored under that key."""
    by_key = None if key is None else tx.id_of_key(scope, key)
    for one in (memory_id, by_key):
        row = None if one is None else tx.row(one)
        if row is not None and row.memory.scope.space == scope:
            return row.memory
    return None


def _held(tx: Transaction, memory_id: str) -> JsonObject:
    """What a sender tells by whether the hub holds its words: a repeat may be answered from another change."""
    sent = tx.facet(SENT, memory_id)
    return {} if sent is None else {"digest": content_digest(sent["content"])}


def _note_forgotten(tx: Transaction, scope: str, memory_id: MemoryId) -> None:
    """Write down what was forgotten in a scope, numbered from 1 on without gaps."""
    whose = digest(scope)
    number = (tx.facet(_LAST_FORGOTTEN, whose) or {"number": 0})["number"] + 1
    tx.set_facet(_LAST_FORGOTTEN, whose, {"number": number})
    tx.set_facet(_FORGOTTEN, _place(whose, number), {"id": memory_id})


def _place(whose: str, number: int) -> str:
    """Padded, so that owners stand in the order of their numbers."""
    return f"{whose}.{number:012d}"


def _first_time(tx: Transaction, owner: str, key: str | None) -> bool:
    """Remember that a change of a memory or a link was applied; False when it had been, or a later one of the same
    sender. A change without a key is always new."""
    if key is None:
        return True
    applied = tx.facet(_APPLIED, owner) or {"keys": []}
    if any(_covers(one, key) for one in applied["keys"]):
        return False
    tx.set_facet(_APPLIED, owner, {"keys": [*applied["keys"], key][-_APPLIED_KEPT:]})
    return True


def _covers(applied: str, key: str) -> bool:
    """True for the same change and for a later one: the keys `<id>.<n>` of one sender number its changes, and one that
    was held up on its way must not undo what came after it."""
    (base, _, number), (applied_base, _, applied_number) = key.rpartition("."), applied.rpartition(".")
    are_numbered = all(one.isascii() and one.isdecimal() for one in (number, applied_number))
    return applied == key or (
        bool(base) and base == applied_base and are_numbered and int(applied_number) > int(number)
    )


# --- what a sender wraps around a memory ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Envelope:
    """A memory as it was sent (`content` and `metadata` are echoed unchanged) and as it is understood (`draft`)."""

    content: str
    memory_type: str
    metadata: JsonObject
    draft: Draft

    def sent(self) -> JsonObject:
        """What answers echo."""
        return {"content": self.content, "memory_type": self.memory_type, "metadata": self.metadata}


def _sent(request: StoreMemory) -> Envelope:
    kind = request.memory_type or MemoryType.SEMANTIC.value
    return opened(request.content, kind, request.metadata, request.idempotency_key)


def opened(content: str, memory_type: str, metadata: JsonObject | None, key: str | None) -> Envelope:
    """Check what was sent. Raises InvalidInput; a record inside the content that makes no sense is passed over."""
    outer = metadata or {}
    text, record = _unwrapped(content)
    scope = record.get("scope")
    draft = validation.draft(
        text,
        content_limit_bytes=CONTENT_LIMIT_BYTES,
        key=validation.label("idempotency_key", key),
        type=validation.memory_type("memory_type", memory_type),
        significance=0.5 if outer.get("significance") is None else outer["significance"],
        confidence=0.5 if outer.get("confidence") is None else outer["confidence"],
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


def _label(value: object) -> str | None:
    try:
        return validation.label("record", value)
    except InvalidInput:
        return None


def _tags(value: object) -> tuple[str, ...]:
    try:
        return validation.tag_list("record", value) if isinstance(value, list) else ()
    except InvalidInput:
        return ()
