"""The hub's memory: every method of the wire, done once per idempotency key, over a router's own local layer.

Every call in every dialect ends in `answered`, and what goes wrong with it is worded by `refusal`. What reads the store
runs in worker threads, and so does what takes long to make ready. A short text is made ready on the event loop in a
tenth of a millisecond, and its call waits there for the commit. So those who wait keep no thread from those who search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from anyio import CancelScope, to_thread

from kingly_memory import validation
from kingly_memory.adapters.audit import AuditFiles
from kingly_memory.attention import pins
from kingly_memory.attention.ratings import Ratings
from kingly_memory.cognition import links
from kingly_memory.cognition.links import Link
from kingly_memory.cognition.owners import digest
from kingly_memory.dataclass import replace
from kingly_memory.digests import content_digest
from kingly_memory.errors import InvalidInput, KinglyMemoryError, StoreError
from kingly_memory.hub.access import Caller, Refusal
from kingly_memory.hub.documents import Documents, documents_of
from kingly_memory.hub.envelopes import CLOCKS_APART, Envelope, label, opened, sent, wrapped
from kingly_memory.hub.feed import Feed
from kingly_memory.hub.grants import ANYBODY, EVERY, Forbidden, QuotaUsedUp
from kingly_memory.hub.homes import Homes
from kingly_memory.hub.methods import (
    METHODS,
    CreateMemoryLink,
    ForgetMemory,
    GetDocument,
    GetLinkedMemories,
    GetWorkingMemory,
    InitializeMemorySystem,
    ListChanges,
    MarkMemory,
    PutDocument,
    PutDocuments,
    RecordThought,
    Request,
    SearchSemanticMemories,
    StoreMany,
    StoreMemory,
    Storing,
    UnknownMethod,
    UpdateMemory,
    checked,
    parsed,
)
from kingly_memory.hub.recall import Recall, worded
from kingly_memory.hub.vectors import Vectors
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.models import JsonObject, Memory, MemoryStatus, MemoryType, just_after, project_and_user, space_of
from kingly_memory.observe import log
from kingly_memory.ports import HOME, INCARNATION, MET, Clock, LocalStore, Row, Transaction
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS

T = TypeVar("T")
Waiting = TypeVar("Waiting")
_Write = Callable[[Callable[[Transaction], JsonObject], str, Sequence[Memory]], Waiting]
"""`write` or `commit` of a store, and what there is to wait for."""

_SHORT_BYTES = 16_384
"""A text of that length is made ready in 3 ms, and hundreds of tiny ones in 20: the event loop feels no more than
that."""

_NAMED = "named"
"""The facet `named:<digest of the scope>.<key>`: which memory has the key that people gave it."""
_NAMES = "names"
"""The facet of a memory with the keys that people gave it: a forgetting leaves them, and a purge finds them here."""
_QUOTA_PAUSE_S = 300
"""When a home is to try again whose namespace is full."""
_MEMORIES = ("memory_id", "source_memory_id", "target_memory_id")
"""The fields of an answer that name changed memories."""
_APPLIED = "applied"
_APPLIED_KEPT = 16
"""Idempotency keys of changes that a memory remembers; a sender repeats its last one, not its seventeenth."""


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

    def __init__(
        self,
        store: LocalStore,
        clock: Clock,
        version: str,
        audit: AuditFiles | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        """`audit` has a line for each change: when, whose token, what, and of which memories. Without `vectors` it
        finds by words alone."""
        self._store = store
        self._vectors = vectors
        self._clock = clock
        self._version = version
        self._audit = audit
        self.homes = Homes(store, clock)
        recall = Recall(store.reader, None if vectors is None else vectors.search)
        documents = Documents(store, clock)
        self._answers: Mapping[type[Request], Callable[[str, Any], JsonObject]] = {
            InitializeMemorySystem: self._introduce,
            UpdateMemory: self._update_memory,
            ForgetMemory: self._forget_memory,
            ListChanges: Feed(store.reader).changes,
            SearchSemanticMemories: recall.search,
            GetWorkingMemory: recall.working,
            GetLinkedMemories: recall.linked,
            CreateMemoryLink: self._create_link,
            MarkMemory: self._mark_memory,
            PutDocument: documents.put,
            PutDocuments: documents.put_many,
            GetDocument: documents.part,
        }

    def answer(self, scope: str, request: Request) -> JsonObject:
        """What the request asks for, within a scope made by `scope_name`. Returns after the commit.

        Raises InvalidInput or UnknownMemory; then nothing was changed. Raises StoreError; then nothing was, or a
        database has committed it and was gone before it said so.
        """
        if isinstance(request, Storing):
            answer = self._storing(scope, request, self._store.write).result()
        else:
            answer = self._answers[type(request)](scope, request)
        self._give_vectors(scope, request, answer)
        return answer

    async def store(self, scope: str, request: Storing) -> JsonObject:
        """The same for an event loop, which goes on meanwhile."""
        answer = await self._storing(scope, request, self._store.commit)
        self._give_vectors(scope, request, answer)
        return answer

    @property
    def embedder(self) -> str | None:
        """What memories are found by besides their words."""
        return None if self._vectors is None else self._vectors.name

    def check_quota(self, caller: Caller, scope: str, request: Request) -> None:
        """Raise QuotaUsedUp where the caller's namespace has no room for what the request stores. What was stored
        before under the same idempotency key, or as that document, takes none."""
        space, keys = scope, list[str | None]()
        if isinstance(request, StoreMany):
            keys = [label(one.get("idempotency_key")) for one in request.memories]
        elif isinstance(request, StoreMemory | RecordThought):
            keys = [label(request.idempotency_key)]
        elif isinstance(request, PutDocument | PutDocuments):
            documents = request.documents if isinstance(request, PutDocuments) else [request]
            keys, space = [one.name for one in documents if one.document is not None], documents_of(scope)
        if caller.quota is None or not keys:
            return
        own, spaces = scope_name(caller.grant.namespace, ""), self._store.reader.counted_spaces().items()
        kept = sum(count for one, count in spaces if (project_and_user(one)[0] or "").startswith(own))
        if kept + len(keys) <= caller.quota:
            return

        def count_new(tx: Transaction) -> int:
            named = {key for key in keys if key is not None}  # a document may come in several parts
            return keys.count(None) + sum(tx.id_of_key(space, key) is None for key in named)

        if (added := self._store.write(count_new, space).result()) and kept + added > caller.quota:
            raise QuotaUsedUp(caller.quota)

    def note(self, caller: Caller, scope: str, request: Request, answer: JsonObject) -> None:
        """Write down which home has called, and who has changed what, where callers bring tokens."""
        results = [] if request.reads or answer.get("held") else answer.get("results", [answer])
        is_news = [result.get("success", True) and not result.get("idempotency_hit") for result in results]
        self.homes.note(caller, scope, request, answer, sum(is_news))
        if self._audit is None or not results or caller.grant is ANYBODY:
            return
        changed = [result[name] for result in results for name in _MEMORIES if result.get(name)]
        self._audit.append(
            "changes",
            {
                "at": self._clock.now().isoformat(),
                "token": caller.grant.holder,
                "namespace": caller.grant.namespace,
                "project": EVERY if caller.for_all else caller.project or "default",
                "user": caller.user,
                "method": type(request).__name__,
                "memories": changed,
            },
        )

    def _give_vectors(self, scope: str, request: Request, answer: JsonObject) -> None:
        """Have vectors made of what was stored or revised."""
        if self._vectors is not None and isinstance(request, Storing | UpdateMemory):
            results = answer.get("results", [answer])
            stored = [one["memory_id"] for one in results if "memory_id" in one and not one.get("idempotency_hit")]
            self._vectors.want(scope, stored)

    def check_store(self) -> None:
        """Raises StoreError when the store cannot be read."""
        self._store.reader.row("")

    def _introduce(self, scope: str, request: InitializeMemorySystem) -> JsonObject:
        looked = self._store.write(lambda tx: tx.facet(HOME, INCARNATION), scope)  # who writes looks for copies
        home = looked.result() or {}
        server = {"server": "kingly-hub", "version": self._version, "incarnation": home.get("id")}
        return {"success": True, **server, "features": ["idempotency_keys", "homes", *METHODS]}

    def _storing(self, scope: str, request: Storing, write: _Write[Waiting]) -> Waiting:
        match request:
            case StoreMany():
                return self._store_many(scope, request, write)
            case RecordThought():
                return self._record_thought(scope, request, write)
        return self._write(scope, [_opened(request)], write, lambda replies: replies[0])

    def _store_many(self, scope: str, request: StoreMany, write: _Write[Waiting]) -> Waiting:
        """One commit for all. What makes no sense is refused in its place, and the others are stored."""
        results: list[JsonObject] = []
        envelopes: dict[int, Envelope] = {}
        for position, params in enumerate(request.memories):
            results.append({})
            try:
                envelopes[position] = _opened(checked(StoreMemory, params))
            except InvalidInput as error:
                refused = refusal(error)
                facts = {"error": refused.reason, "error_code": "INVALID_PARAMETER", "field": refused.field}
                results[position] = {"success": False, **facts}

        def worded(replies: Sequence[JsonObject]) -> JsonObject:
            stored = dict(zip(envelopes, replies, strict=True))
            return {"results": [stored.get(position, refused) for position, refused in enumerate(results)]}

        return self._write(scope, list(envelopes.values()), write, worded)

    def _record_thought(self, scope: str, request: RecordThought, write: _Write[Waiting]) -> Waiting:
        """A thought is a memory; one that came with its record is echoed like a stored one."""
        names = {"thought_type", "chain_id", "parent_thought_id", "context_id"}
        content = request.content if request.record is None else wrapped(request.content, request.record)
        metadata = {**(request.metadata or {}), **request.model_dump(include=names, exclude_none=True)}
        thought = opened(content, MemoryType.SEMANTIC.value, metadata, request.idempotency_key)
        return self._write(
            scope, [thought], write, lambda replies: {"thought_id": replies[0]["memory_id"], **replies[0]}
        )

    def _write(
        self,
        scope: str,
        envelopes: Sequence[Envelope],
        write: _Write[Waiting],
        worded: Callable[[Sequence[JsonObject]], JsonObject],
    ) -> Waiting:
        """Store each, unless its idempotency key was used before, or a memory has the key that people gave it: then it
        is one more text of that memory. A sender whose memory was forgotten meanwhile is told so."""
        now = self._clock.now()

        def store(tx: Transaction, envelope: Envelope, memory: Memory) -> JsonObject:
            draft = envelope.draft
            by_key = None if draft.key is None else tx.id_of_key(scope, draft.key)
            named = None if envelope.key is None else tx.facet(_NAMED, _owner(scope, envelope.key))
            held_id = by_key or (None if named is None else str(named["id"]))
            row = None if held_id is None else tx.row(held_id)
            if row is None or (by_key is None and row.memory.metadata.get("purged")):
                _put(tx, memory, envelope.key)
                return {"memory_id": memory.id, "idempotency_hit": False, "digest": envelope.digest}
            if envelope.said_at is None:
                forgotten = row.status is MemoryStatus.FORGOTTEN
                state = {"forgotten": True} if forgotten else {"digest": _digest(row.memory)}
                return {"memory_id": row.memory.id, "idempotency_hit": True, **state}
            if by_key is None and draft.key is not None:
                met = (tx.facet(MET, row.memory.id) or {"ids": []})["ids"]
                tx.set_facet(MET, row.memory.id, {"ids": list(dict.fromkeys([*met, draft.key]))})
            return self._revise(tx, row, envelope, now)

        def change(tx: Transaction) -> JsonObject:
            return worded([store(tx, *pair) for pair in zip(envelopes, memories, strict=True)])

        memories = [
            one.draft.memory(new_id(now), scope, created_at=now, updated_at=one.said_before(now), revision=1)
            for one in envelopes
        ]
        return write(change, scope, memories)

    def _update_memory(self, scope: str, request: UpdateMemory) -> JsonObject:
        """Also how a forgotten memory comes back. What the request leaves out stays as it was sent before."""
        memory_id = MemoryId(request.memory_id)
        row = self._row("memory_id", scope, memory_id)
        earlier = sent(row.memory)
        kind = request.memory_type or earlier.get("memory_type", row.memory.type.value)
        metadata = earlier.get("metadata") if request.metadata is None else request.metadata
        envelope = opened(request.content, kind, metadata, row.memory.key)
        now = self._clock.now()

        def change(tx: Transaction) -> JsonObject:
            row = tx.row(memory_id)
            if row is None:  # it was there a moment ago, and the hub never erases one
                raise UnknownMemory("memory_id", memory_id)
            if envelope.said_at is None and not _first_time(tx, memory_id, request.idempotency_key):
                held = {"memory_id": memory_id, "digest": _digest(row.memory)}
                return {**held, "revision": row.memory.revision, "idempotency_hit": True}
            return self._revise(tx, row, envelope, now)

        return self._store.write(change, scope).result()

    def _revise(self, tx: Transaction, row: Row, envelope: Envelope, now: datetime) -> JsonObject:
        """One more text of a memory: its current one, or an earlier revision where a later text or a later forgetting
        came first. Of what was sent before only a line of the feed is written: its sender may have passed by what has
        changed since."""
        before, is_forgotten = row.memory, row.status is MemoryStatus.FORGOTTEN
        said_at = just_after(before.updated_at, now) if envelope.said_at is None else envelope.said_before(now)
        memory = replace(
            envelope.draft.memory(
                before.id, before.scope.space, created_at=before.created_at, updated_at=said_at, revision=0
            ),
            key=before.key,
        )
        is_repeat = envelope.said_at is not None and any(  # a digest covers the sender's own time
            _digest(revision) == envelope.digest for revision in (before, *self._store.reader.revisions(before.id))
        )
        answer: JsonObject = {"memory_id": before.id, "idempotency_hit": is_repeat, "digest": envelope.digest}
        is_later = said_at >= before.updated_at and not is_repeat and not before.metadata.get("purged")
        if is_later:
            _put(tx, replace(memory, revision=before.revision + 1), envelope.key)
        elif is_forgotten:
            tx.note_seen(before)
            answer = {"memory_id": before.id, "idempotency_hit": is_repeat, "forgotten": True}
        elif is_repeat:
            tx.note_seen(before)
        else:  # it takes the place of the current one, which becomes the next
            tx.save(replace(before, revision=before.revision + 1), row.status)
            tx.keep_revision(replace(memory, revision=before.revision))
        return {**answer, "revision": before.revision + (not is_repeat)}

    def _forget_memory(self, scope: str, request: ForgetMemory) -> JsonObject:
        """Drop the text, keep id and key: neither a late store nor a repeat brings the memory back. A purge
        leaves nothing of it in the files either. A text that was said later than this stays."""
        if request.memory_id is None and request.store_key is None:
            raise InvalidInput("memory_id", "is missing, and store_key is too; one of them names the memory")
        key = validation.label("store_key", request.store_key)
        said_at = validation.moment("forgotten_at", request.forgotten_at)
        now = self._clock.now()

        def change(tx: Transaction) -> tuple[MemoryId | None, bool, bool]:
            row = _named(tx, scope, request.memory_id, key)
            if row is None and key is None:
                return None, False, False
            if row is None:  # its store may still be on its way, and must find it forgotten
                unseen = opened("unseen", MemoryType.SEMANTIC.value, None, key).draft
                memory = unseen.memory(
                    new_id(now), scope, created_at=now, updated_at=min(said_at or now, now), revision=0
                )
            elif not _first_time(tx, row.memory.id, request.idempotency_key):
                return row.memory.id, row.status is MemoryStatus.FORGOTTEN, True
            elif said_at is not None and said_at < row.memory.updated_at and not request.purge:
                tx.note_seen(row.memory)
                return row.memory.id, row.status is MemoryStatus.FORGOTTEN, False
            else:
                memory = row.memory
            if request.purge:
                links.sever(tx, memory.id)
                for name in (tx.facet(_NAMES, memory.id) or {"keys": []})["keys"]:
                    if tx.facet(_NAMED, _owner(scope, name)) == {"id": memory.id}:
                        tx.set_facet(_NAMED, _owner(scope, name), None)
                tx.set_facet(_NAMES, memory.id, None)
            tx.set_facet(ATTENTION, memory.id, None)
            tx.set_facet(RATINGS, memory.id, None)  # which say why, in people's words
            tx.erase(memory.id)
            tx.unlearn(memory)
            left = {"purged": True} if request.purge or memory.metadata.get("purged") else {}
            emptied = replace(memory, content="", title=None, tags=(), metadata=left)
            forgotten_at = max(min(said_at or now, now + CLOCKS_APART), memory.updated_at)
            tx.save(replace(emptied, updated_at=forgotten_at, revision=memory.revision + 1), MemoryStatus.FORGOTTEN)
            return memory.id, True, False

        memory_id, is_forgotten, hit = self._store.write(change, scope).result()
        if memory_id is not None and request.purge:
            self._store.scrub([memory_id])
        return {"memory_id": memory_id, "forgotten": is_forgotten, "idempotency_hit": hit}

    def _create_link(self, scope: str, request: CreateMemoryLink) -> JsonObject:
        """The same ends and type again are the same link. A change that was overtaken by a later one has no effect."""
        source = self._row("source_memory_id", scope, request.source_memory_id).memory.id
        target = self._row("target_memory_id", scope, request.target_memory_id).memory.id
        draft = links.draft(request.link_type, request.strength, request.description)
        now = self._clock.now()

        def change(tx: Transaction) -> Link:
            before = links.between(tx, source, target, draft.link_type)
            if before is not None and not _first_time(tx, before.id, request.idempotency_key):
                return before
            link, _ = links.write(tx, source, target, draft, now)
            if before is None:
                _first_time(tx, link.id, request.idempotency_key)
            if (row := tx.row(source)) is not None:
                tx.note_seen(row.memory)  # links lie beside memories: who reads the feed hears of them there
            return link

        return worded(self._store.write(change, scope).result())

    def _mark_memory(self, scope: str, request: MarkMemory) -> JsonObject:
        """Of pins the one that was set or taken off last counts, and of ratings all. Who reads the feed hears of them
        with the memory."""
        memory_id = self._row("memory_id", scope, request.memory_id).memory.id
        latest = self._clock.now() + CLOCKS_APART
        pin = None if request.pin is None else pins.received(request.pin, latest.timestamp())
        if request.pin is not None and pin is None:
            raise InvalidInput("pin", "expected whether it is `pinned`, its `weight`, and since when (`at`)")
        rated = Ratings.heard(request.ratings, latest)

        def change(tx: Transaction) -> bool:
            row = tx.row(memory_id)
            if row is None or row.status is MemoryStatus.FORGOTTEN:
                return False
            is_news = pin is not None and pins.is_later(pin, tx.facet(ATTENTION, memory_id))
            if is_news:
                tx.set_facet(ATTENTION, memory_id, pin)
            before = Ratings.from_json(tx.facet(RATINGS, memory_id))
            if (after := before.united(rated)) != before:
                tx.set_facet(RATINGS, memory_id, after.to_json())
                is_news = True
            if is_news:
                tx.note_seen(row.memory)
            return is_news

        return {"memory_id": memory_id, "marked": self._store.write(change, scope).result()}

    def _row(self, field: str, scope: str, memory_id: str) -> Row:
        """The row of a memory that was ever stored in the scope. Raises UnknownMemory."""
        row = self._store.reader.row(memory_id)
        if row is None or row.memory.scope.space != scope:
            raise UnknownMemory(field, memory_id)
        return row


async def answered(
    engine: Engine, caller: Caller, method: object, params: object, *, size: int, worded: Callable[[JsonObject], T]
) -> T:
    """The answer to a call, as `worded` words it. `size`: how many bytes its body has. Raises what `refusal` words."""
    if size > _SHORT_BYTES:
        return await to_thread.run_sync(lambda: worded(_answered(engine, caller, *_read(caller, method, params))))
    scope, request = _read(caller, method, params)
    if not isinstance(request, Storing) or caller.quota is not None:  # a quota is counted in the store
        return await to_thread.run_sync(lambda: worded(_answered(engine, caller, scope, request)))
    with CancelScope(shield=True):  # what is stored for a caller who hangs up is noted too, as in a thread
        answer = await engine.store(scope, request)
        engine.note(caller, scope, request, answer)
    return worded(answer)


def _read(caller: Caller, method: object, params: object) -> tuple[str, Request]:
    """What is asked for, and in which scope. Raises InvalidInput, UnknownMethod, Forbidden."""
    request = parsed(method, params, caller.key)
    project = "" if caller.for_all else validation.label("Kingly-Project", caller.project) or "default"
    user = validation.label("Kingly-User", caller.user)
    caller.grant.check(request, project or None)
    return scope_name(caller.grant.namespace, project, user), request


def _answered(engine: Engine, caller: Caller, scope: str, request: Request) -> JsonObject:
    """Blocks while the disk works; safe from any thread."""
    engine.check_quota(caller, scope, request)
    answer = engine.answer(scope, request)
    engine.note(caller, scope, request, answer)
    return answer


def refusal(error: Exception) -> Refusal:
    """The answer to a failed call. An error that nobody foresaw is answered without its details."""
    match error:
        case UnknownMethod() | UnknownMemory():
            return Refusal(404, str(error))
        case Forbidden():
            return Refusal(403, str(error))
        case QuotaUsedUp():
            return Refusal(429, str(error), retry_after_s=_QUOTA_PAUSE_S)
        case InvalidInput():
            return Refusal(422, str(error), error.field)
        case StoreError():
            log.error("HubStoreFailed: %s", error)
            to_do = "try again: what has an idempotency key is not done twice"
            return Refusal(503, f"the hub's store cannot be used at the moment; {to_do}")
    log.error("HubCallFailed %s", type(error).__name__)
    return Refusal(500, "internal error")


def _put(tx: Transaction, memory: Memory, key: str | None) -> None:
    tx.save(memory, MemoryStatus.LIVE)
    if key is not None:
        tx.set_facet(_NAMED, _owner(memory.scope.space, key), {"id": memory.id})
        names = (memory.revision > 1 and tx.facet(_NAMES, memory.id)) or {"keys": []}
        tx.set_facet(_NAMES, memory.id, {"keys": list(dict.fromkeys([*names["keys"], key]))})


def _named(tx: Transaction, scope: str, memory_id: str | None, key: str | None) -> Row | None:
    """The memory of the scope with that id, else the one stored under that key."""
    by_key = None if key is None else tx.id_of_key(scope, key)
    for candidate in (memory_id, by_key):
        row = None if candidate is None else tx.row(candidate)
        if row is not None and row.memory.scope.space == scope:
            return row
    return None


def _digest(memory: Memory) -> str | None:
    """The digest of the content as it was sent, by which a sender sees whether the hub holds its text."""
    content = sent(memory).get("content")
    return None if content is None else content_digest(content)


def _opened(request: StoreMemory) -> Envelope:
    kind = request.memory_type or MemoryType.SEMANTIC.value
    return opened(request.content, kind, request.metadata, request.idempotency_key)


def _owner(scope: str, key: str) -> str:
    return f"{digest(scope)}.{key}"


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
    are_numbered = all(digits.isascii() and digits.isdecimal() for digits in (number, applied_number))
    return applied == key or (
        bool(base) and base == applied_base and are_numbered and int(applied_number) > int(number)
    )
