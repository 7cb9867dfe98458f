"""A server with the tools that the seed names: our hub, and whatever else was written to seed 004."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kingly_memory.adapters.remote import wire
from kingly_memory.adapters.remote.dialect import Dialect, Offer
from kingly_memory.adapters.remote.outcomes import NOT_FOUND
from kingly_memory.errors import OVERTAKEN, RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.ports import Changes, DocumentChanges, RemoteDocument, RemoteHit, RemoteInfo, RemoteLink, RemoteMarks

log = logging.getLogger("kingly_memory.remote")

STORE_MANY, PUT_DOCUMENTS = "store_many", "put_documents"
MOST_AT_ONCE = 100
"""Memories or documents in one call."""

PARTS_TOGETHER = 8
"""Of a document, in calls at the same time."""

_LOOKUP_CHARACTERS, _LOOKUP_LIMIT = 256, 5
"""How much of a memory's text its copy is looked up by, and how many answers are looked at."""


class HubRemote:
    """A remote with the seed's tools, in any dialect. What the home is called is told to a hub of ours and to nobody
    else, and what only a hub of ours keeps goes to no other server. Every call is one try."""

    def __init__(self, dialect: Dialect, home: str = "") -> None:
        self._dialect = dialect
        self._home = home
        self._features: Sequence[Any] = ()
        self._has_complained = self._honours_keys = False
        self._can_update = self._knows_thoughts = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._dialect.address}>"

    async def connect(self) -> RemoteInfo:
        return await self.greeted(await self._dialect.connect())

    async def aclose(self) -> None:
        await self._dialect.aclose()

    async def greeted(self, offer: Offer) -> RemoteInfo:
        """Adopt what the server offers."""
        info = wire.server_info(offer.reply)
        self._honours_keys = info.honours_keys and offer.takes("store_memory", "idempotency_key")
        self._features = wire.features(offer.reply)
        self._can_update = self._knows_thoughts = True
        self._dialect.home = self._home if "homes" in self._features else ""
        takes_many = self._honours_keys and STORE_MANY in self._features
        return info._replace(honours_keys=self._honours_keys, takes_at_once=MOST_AT_ONCE if takes_many else 1)

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        """An update, else a new memory unless an earlier try has made it."""
        if remote_id is not None and (updated := await self._update(memory, remote_id, idempotency_key)) is not None:
            return updated
        existing = await self._earlier(memory, any_revision=remote_id is None) if repeated else None
        return existing or await self._create(memory, idempotency_key, remote_id)

    async def store_many(self, memories: Sequence[tuple[Memory, str]]) -> list[str | RemoteRefused]:
        each = [wire.store_params(memory, key) for memory, key in memories]
        reply = await self._dialect.call(STORE_MANY, {"memories": each}, space=memories[0][0].scope.space)
        return wire.stored_many(reply, [params["content"] for params in each])

    async def record_thought(
        self, memory: Memory, *, parent_remote_id: str | None, idempotency_key: str, repeated: bool
    ) -> str:
        """A plain memory where the server has no thoughts."""
        existing = await self._earlier(memory, any_revision=True) if repeated else None
        if existing is not None:
            return existing
        if self._knows_thoughts:
            params = wire.thought_params(memory, idempotency_key, parent_remote_id)
            try:
                return wire.stored_id(await self._dialect.call("record_thought", params, space=memory.scope.space))
            except RemoteRefused as refused:
                if not refused.unknown_method:
                    raise
                self._knows_thoughts = False
        return await self._create(memory, idempotency_key, None)

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        if repeated and not self._honours_keys:
            with suppress(RemoteRefused):  # a server that cannot say whether it has the link gets it again
                if wire.link_words(link) in await self._linked([link.source_id], link.space, None):
                    return
        params = {**wire.link_words(link), "description": link.description, "idempotency_key": idempotency_key}
        wire.done(await self._dialect.call("create_memory_link", params, space=link.space))

    async def mark(self, marks: RemoteMarks) -> None:
        if "mark_memory" in self._features:
            given = {"pin": marks.pin, "ratings": list(marks.ratings)}
            params = {"memory_id": marks.remote_id, **{name: value for name, value in given.items() if value}}
            wire.done(await self._dialect.call("mark_memory", params, space=marks.space))

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        params: JsonObject = {
            "memory_id": remote_id,
            "store_key": memory.id,
            "forgotten_at": memory.updated_at.isoformat(),
            "idempotency_key": idempotency_key,
        }
        if not memory.content:
            params["purge"] = True
        forgotten = wire.forgotten_id(await self._dialect.call("forget_memory", params, space=memory.scope.space))
        return remote_id or forgotten

    async def changes(self, since: str | None, *, space: str, limit: int, timeout_s: float) -> Changes | None:
        if "list_changes" not in self._features:
            return None
        ask = partial(self._dialect.call, space=space, timeout_s=timeout_s, reads=True)
        return wire.changes(await ask("list_changes", {"since": since, "limit": limit}))

    async def put_documents(self, documents: Sequence[RemoteDocument]) -> None:
        if not self._keeps_documents():
            return
        if len(documents) == 1:
            for params in wire.document_params(documents[0]):  # a long one takes several calls
                wire.check_put(await self._dialect.call("put_document", params, space=documents[0].space))
            return
        each = [params for document in documents for params in wire.document_params(document)]
        reply = await self._dialect.call(PUT_DOCUMENTS, {"documents": each}, space=documents[0].space)
        wire.results(reply, len(each))

    def _keeps_documents(self) -> bool:
        """Says once where it does not."""
        keeps = "put_document" in self._features
        if not keeps and not self._has_complained:
            self._has_complained = True
            log.warning("%s keeps no documents: those that are shared do not go there", self._dialect.address)
        return keeps

    async def document_changes(
        self, since: str | None, *, space: str, limit: int, timeout_s: float
    ) -> DocumentChanges | None:
        if "put_document" not in self._features:
            return None
        ask = partial(self._dialect.call, space=space, timeout_s=timeout_s, reads=True)
        params = {"since": since, "limit": limit, "documents": True}
        listed, until, is_more = wire.listed_documents(await ask("list_changes", params))
        # A hub of ours ends a page with a long one: more of them together would fill the memory.
        usable = [entry for entry in listed if entry is not None and (entry.parts <= 1 or entry is listed[-1])]
        found = [await self._document(entry, ask, space) for entry in usable]
        documents = tuple(document for document in found if document is not None)
        return DocumentChanges(documents, until, is_more, len(listed) - len(documents))

    async def _document(
        self, listed: wire.ListedDocument, ask: Callable[..., Awaitable[Any]], space: str
    ) -> RemoteDocument | None:
        """A document; None for one of which there is no content any more: then it is listed again."""
        if listed.parts <= 1:
            return wire.remote_document(listed, str(listed.entry.get("content") or ""), space)
        content = ""
        for first in range(0, listed.parts, PARTS_TOGETHER):
            some = range(first, min(first + PARTS_TOGETHER, listed.parts))
            named = {"memory_id": listed.remote_id, "digest": listed.digest}
            texts = map(
                wire.document_part,
                await asyncio.gather(*(ask("get_document", {**named, "part": part}) for part in some)),
            )
            content += "".join(text or "" for text in texts)
            if len(content) > wire.LONGEST_CONTENT:
                return None
        return await asyncio.to_thread(wire.remote_document, listed, content, space)

    async def search(
        self, text: str, *, space: str, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        kinds = None if types is None else [one.value for one in types]
        params = {"query": text, "limit": limit, "memory_types": kinds}
        return (await self._hits("search_semantic_memories", params, space, timeout_s))[:limit]

    async def working_memory(self, context_id: str | None, *, space: str, timeout_s: float) -> list[RemoteHit]:
        return await self._hits("get_working_memory", {"context_filter": context_id}, space, timeout_s)

    async def _hits(self, tool: str, params: JsonObject, space: str, timeout_s: float) -> list[RemoteHit]:
        reply = await self._dialect.call(tool, params, space=space, timeout_s=timeout_s, reads=True)
        return [hit._replace(is_fed="list_changes" in self._features) for hit in wire.hits(reply)]

    async def linked(self, remote_ids: Sequence[str], *, space: str, timeout_s: float) -> list[JsonObject]:
        return await self._linked(remote_ids, space, timeout_s)

    async def _linked(self, remote_ids: Sequence[str], space: str, timeout_s: float | None) -> list[JsonObject]:
        ask = partial(self._dialect.call, space=space, timeout_s=timeout_s, reads=True)
        return wire.links(await ask("get_linked_memories", {"memory_ids": list(remote_ids)}))

    async def _earlier(self, memory: Memory, *, any_revision: bool) -> str | None:
        """The remote id of an earlier try's copy, on a server that would store the memory twice. Where the server
        cannot search, the memory is sent again: at least once is better than never."""
        if self._honours_keys:
            return None
        try:
            return await self._find(memory, any_revision=any_revision)
        except RemoteRefused:
            return None

    async def _update(self, memory: Memory, remote_id: str, key: str) -> str | None:
        """Its remote id from now on; None where there is nothing to update: the server has no such tool, or no such
        memory any more."""
        if not self._can_update:
            return None
        params = {"memory_id": remote_id, **wire.store_params(memory, key)}
        try:
            reply = await self._dialect.call("update_memory", params, space=memory.scope.space)
        except RemoteRefused as refused:
            if refused.code == NOT_FOUND and self._honours_keys:  # it was put back to before it had this
                raise RemoteRefused(OVERTAKEN, clear=False, code=OVERTAKEN) from None
            if not refused.unknown_method:
                raise
            self._can_update = False
            return None
        wire.check_held(reply, params["content"])
        return remote_id

    async def _create(self, memory: Memory, key: str, supersedes: str | None) -> str:
        """The remote id of a new memory; `supersedes` is that of the revision which it replaces."""
        params = wire.store_params(memory, key, supersedes)
        reply = await self._dialect.call("store_memory", params, space=memory.scope.space)
        wire.check_held(reply, params["content"])
        return wire.stored_id(reply)

    async def _find(self, memory: Memory, *, any_revision: bool) -> str | None:
        """A copy of the memory there; unless `any_revision`, of this very revision."""
        params = {"query": memory.content[:_LOOKUP_CHARACTERS], "limit": _LOOKUP_LIMIT, "memory_types": None}
        reply = await self._dialect.call("search_semantic_memories", params, space=memory.scope.space, reads=True)
        try:
            found = wire.hits(reply)
        except RemoteUnavailable:  # it answers in words that nobody can read, as often as it is asked: it cannot search
            return None
        for hit in found:
            if hit.memory_id == memory.id and (any_revision or hit.record.get("revision") == memory.revision):
                return hit.remote_id
        return None
