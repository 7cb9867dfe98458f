"""Documents of homes at the hub, which does not look at what is in them.

Those of a project have a space of their own, and so a feed. A document is a memory there, with its name as the key: its
metadata have in `said` what the feed lists, in `state` which text that is, and in `earlier` which texts it was. Its
content lies in parts, the facets `part:<id>.<digest>.<number>`. They arrive before it counts; the facet `arriving:<id>`
says whose they are, so that what never came whole goes when another text comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kingly_memory import validation
from kingly_memory.dataclass import replace
from kingly_memory.documents import APART_FOR, LOG, apart, name_of
from kingly_memory.errors import InvalidInput
from kingly_memory.hub.envelopes import CLOCKS_APART
from kingly_memory.hub.methods import GetDocument, PutDocument, PutDocuments
from kingly_memory.ids import MemoryId, named_id
from kingly_memory.models import JsonObject, MemoryStatus, project_and_user, space_of
from kingly_memory.ports import Clock, LocalStore, StoreReader, Transaction

_PART, _ARRIVING = "part", "arriving"
_EARLIER_KEPT = 16
"""A sender repeats its last text, not its seventeenth."""
_CONTENT = "document"
"""What stands in the place of a memory's text."""


def documents_of(scope: str) -> str:
    """The space of the documents of a scope; a project has no slash in its name there."""
    project, user = project_and_user(scope)
    return space_of(f"{project}/documents", user)


def is_of_documents(space: str) -> bool:
    """Whether it is such a space: that of a scope has one slash, between namespace and project."""
    return (project_and_user(space)[0] or "").count("/") > 1


def part(reader: StoreReader, memory_id: str, digest: str, number: int) -> str | None:
    owner = _part(memory_id, digest, number)
    text: str | None = (reader.facet(_PART, owner) or {}).get("text")
    return text


class Documents:
    """Safe from any thread."""

    def __init__(self, store: LocalStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def part(self, scope: str, request: GetDocument) -> JsonObject:
        """One part of a document's content. Its `text` is None where the document has another text by now."""
        row = self._store.reader.row(request.memory_id)
        is_own = row is not None and row.memory.scope.space == documents_of(scope)
        text = part(self._store.reader, request.memory_id, request.digest, request.part) if is_own else None
        return {"text": text}

    def put(self, scope: str, request: PutDocument) -> JsonObject:
        """Keep a part, or with the last one decide. Raises InvalidInput."""
        return self._put(documents_of(scope), [request])[0]

    def put_many(self, scope: str, request: PutDocuments) -> JsonObject:
        """In one commit. Raises InvalidInput; then nothing was written."""
        return {"results": self._put(documents_of(scope), request.documents)}

    def _put(self, space: str, requests: Sequence[PutDocument]) -> list[JsonObject]:
        now = self._clock.now()
        puts = [(_Place(space, request.name), _text(request, now), request) for request in requests]

        def put(tx: Transaction, place: _Place, text: _Text, request: PutDocument) -> JsonObject:
            if request.document is not None and (kept := _arrive(tx, place.id, request)) is not None:
                return kept
            state = _decide(tx, place, text, request, now)
            _let_go(tx, place.id)
            return {"memory_id": place.id, "state": state}

        def change(tx: Transaction) -> list[JsonObject]:
            return [put(tx, *one) for one in puts]

        answers = self._store.write(change, space).result()
        if purged := [place.id for place, _, request in puts if request.purge]:
            self._store.scrub(purged)
        return answers


class _Text(NamedTuple):
    """What the feed lists of a document, or of its removal, and since when it counts."""

    fields: JsonObject
    at: datetime

    @property
    def state(self) -> str:
        """As `ports.RemoteDocument` has it."""
        return f"{self.digest}@{self.fields['at']}"

    @property
    def digest(self) -> str:
        """Empty for a removal."""
        return str(self.fields.get("digest", ""))


class _Place:
    """Where a document lies: the id of the memory is that of its name in its space."""

    def __init__(self, space: str, name: str) -> None:
        self.space, self.name = space, name
        self.id = named_id(space, name)


def _text(request: PutDocument, now: datetime) -> _Text:
    said_at = validation.moment("at", request.at)
    if said_at is None:
        raise InvalidInput("at", "is missing")
    # A wrong clock must not make a text the last one for ever.
    return _Text(_fields(request, said_at), said_at if said_at <= now + CLOCKS_APART else now)


def _fields(request: PutDocument, at: datetime) -> JsonObject:
    """The fields of a document that the feed lists."""
    if request.document is None:
        return {"at": at.isoformat(), "removed": True, "purged": request.purge}
    place = request.document.get("place")
    labels = [label for label in place if isinstance(label, str)] if isinstance(place, list) else []
    if len(labels) < 2 or name_of(labels[:-1], labels[-1]) != request.name or not request.digest:  # noqa: PLR2004
        raise InvalidInput(
            "document", "expected its `place`, of which `name` is the digest, and the `digest` of its content"
        )
    return {
        "at": at.isoformat(),
        "document": request.document,
        "digest": request.digest,
        "parts": request.parts,
    }


def _arrive(tx: Transaction, memory_id: MemoryId, request: PutDocument) -> JsonObject | None:
    """Keep a part. None with the last one, where all are there."""
    arriving = {"digest": request.digest, "parts": request.parts}
    if request.parts > 1 and tx.facet(_ARRIVING, memory_id) != arriving:
        _let_go(tx, memory_id)
        tx.set_facet(_ARRIVING, memory_id, arriving)
    tx.set_facet(_PART, _part(memory_id, request.digest, request.part), {"text": request.content})
    if request.parts == 1:
        return None
    if request.part + 1 < request.parts:
        return {"held": True}
    if any(tx.facet(_PART, _part(memory_id, request.digest, number)) is None for number in range(request.parts)):
        return {"missing": True}
    tx.set_facet(_ARRIVING, memory_id, None)
    return None


def _let_go(tx: Transaction, memory_id: MemoryId) -> None:
    """Drop the parts of a text that never came whole."""
    arriving = tx.facet(_ARRIVING, memory_id)
    if arriving is None:
        return
    row = tx.row(memory_id)
    if row is None or row.memory.metadata["said"].get("digest") != arriving["digest"]:
        _drop(tx, memory_id, arriving)
    tx.set_facet(_ARRIVING, memory_id, None)


def _decide(tx: Transaction, place: _Place, text: _Text, request: PutDocument, now: datetime) -> str:
    """Which text counts from now on: its state. One that replaces what its sender knew counts whenever it was written;
    of two that were written apart the later one counts, and the other is kept beside it. Of one that was sent before
    only a line of the feed is written: its sender may have passed by what has changed since."""
    row = tx.row(place.id)
    if row is None:
        if not request.ended:
            _save(tx, place, text, (), 1)
        return text.state
    memory, before = row.memory, row.memory.metadata
    here, known = _Text(before["said"], memory.updated_at), [*before["earlier"], before["state"]]
    is_current = here.state == request.based_on
    if request.ended and is_current and _has_ended(here.fields, now):  # everywhere, so nobody has to hear of it
        _drop(tx, place.id, here.fields)
        tx.erase(place.id)
        return text.state
    if request.ended or text.state in known:
        if text.digest != here.digest:
            _drop(tx, place.id, text.fields)
        tx.note_seen(memory)
        return here.state
    is_later = request.purge or request.based_on == here.state or text.at >= here.at
    winner, loser = (text, here) if is_later else (here, text)
    if winner.digest != loser.digest:
        if request.based_on not in (here.state, "") and not winner.fields.get("purged"):
            _keep_beside(tx, place, loser, now)
        _drop(tx, place.id, loser.fields)
    _save(tx, place, winner, [*known, *([] if is_later else [text.state])], memory.revision + 1)
    return winner.state


def _has_ended(fields: JsonObject, now: datetime) -> bool:
    """Whether it names an end that has come, by whose clock ever. Who may not delete may say this of no other one."""
    ends_at = (fields.get("document") or {}).get("expires_at")
    try:
        end = validation.moment("expires_at", ends_at)
    except InvalidInput:
        return False
    return end is not None and end <= now + CLOCKS_APART


def _keep_beside(tx: Transaction, place: _Place, loser: _Text, now: datetime) -> None:
    """Under a key of its own, for a while; nothing of one that was removed. An item of a log is there or not."""
    if not loser.digest or loser.fields["document"]["place"][0] == LOG:
        return
    *namespace, key = loser.fields["document"]["place"]
    key = apart(key, datetime.fromisoformat(loser.fields["at"]))
    beside = _Place(place.space, name_of(namespace, key))
    if tx.row(beside.id) is not None:
        return
    for number in range(loser.fields["parts"]):
        content = tx.facet(_PART, _part(place.id, loser.digest, number))
        tx.set_facet(_PART, _part(beside.id, loser.digest, number), content)
    ends = {"expires_at": (now + APART_FOR).isoformat(), "ttl_s": None}
    document = {**loser.fields["document"], "place": [*namespace, key], **ends}
    _save(tx, beside, _Text({**loser.fields, "document": document}, loser.at), (), 1)


def _save(tx: Transaction, place: _Place, text: _Text, earlier: Sequence[str], revision: int) -> None:
    """Write the text as the only revision of the document's memory."""
    metadata = {"said": text.fields, "state": text.state, "earlier": list(earlier)[-_EARLIER_KEPT:]}
    draft = validation.draft(_CONTENT, key=place.name, metadata=metadata, origin="remote")
    memory = draft.memory(place.id, place.space, created_at=text.at, updated_at=text.at, revision=revision)
    if revision > 1:
        tx.erase(place.id)
    tx.save(replace(memory, content=""), MemoryStatus.LIVE if text.digest else MemoryStatus.FORGOTTEN)


def _part(memory_id: str, digest: str, number: int) -> str:
    return f"{memory_id}.{digest}.{number}"


def _drop(tx: Transaction, memory_id: MemoryId, fields: Mapping[str, Any]) -> None:
    for number in range(fields.get("parts", 0)):
        tx.set_facet(_PART, _part(memory_id, fields["digest"], number), None)
