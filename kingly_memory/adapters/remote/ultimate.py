"""An Ultimate MCP server as a remote: which of its tools do what (docs/remotes.md)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kingly_memory.adapters.remote import ultimate_wire, wire
from kingly_memory.adapters.remote.dialect import Dialect, Offer
from kingly_memory.adapters.remote.hub import HubRemote
from kingly_memory.adapters.remote.outcomes import CONFLICT, LOCKED, NO_WORKFLOW, NOT_FOUND
from kingly_memory.adapters.remote.together import Together, deadline
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.ports import Clock, RemoteHit, RemoteInfo, RemoteLink

log = logging.getLogger("kingly_memory.remote")
T = TypeVar("T")

_AT_ONCE = 4
"""Calls of one question that are under way together."""
_LOOKUP_LIMIT = 10
_MOST_ITEMS = 20
_MOST_WITHOUT_EMBEDDING = 256


class UltimateRemote(HubRemote):
    """A remote with the tools of an Ultimate MCP server. It has no features of a hub, so that what is not written anew
    here makes no call; thoughts are memories of a kind of their own, found, linked and dropped like any other."""

    def __init__(self, dialect: Dialect, clock: Clock, *, space: str) -> None:
        super().__init__(dialect)
        self._clock = clock
        self._offer = Offer("", None, None)
        self._space = space
        self._workflows: dict[str, str] = {}
        self._getting: dict[str, Together[str]] = {}
        self._honours_keys, self._knows_thoughts = True, False
        self._was_late = False
        self._without_embedding: deque[tuple[str, str]] = deque(maxlen=_MOST_WITHOUT_EMBEDDING)
        self._has_warned = False

    def __repr__(self) -> str:
        return f"<UltimateRemote {self._dialect.address} without_embedding={len(self._without_embedding)}>"

    async def greeted(self, offer: Offer) -> RemoteInfo:
        """Take up what the server offers, and get the project's workflow before somebody waits for it."""
        self._offer = offer
        self._honours_keys = offer.takes("store_memory", "idempotency_key")
        info = RemoteInfo(server=offer.server or "ultimate", honours_keys=self._honours_keys)
        await self._workflow(self._space)
        return info

    async def aclose(self) -> None:
        for getting in self._getting.values():
            await getting.aclose()
        await super().aclose()

    # --- what the outbox sends --------------------------------------------------------------------------------------

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        """Where the server keeps one link of a kind between two memories, it stays as it is there."""
        with suppress(RemoteRefused):  # a server that cannot say whether it has the link gets it again
            if repeated and wire.link_words(link) in await self._links_of(link.source_id, link.space):
                return
        try:
            await self._write("create_memory_link", ultimate_wire.link_arguments(link), link.space)
        except RemoteRefused as refused:
            if refused.code != CONFLICT:
                raise

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        """Overwritten and ended: the server has no tool to delete a memory."""
        copies = [remote_id] if remote_id is not None else await self._copies(memory, dropped_too=True)
        for copy in copies:
            await self._drop(memory, copy)
        return next(iter(copies), None)

    async def _drop(self, memory: Memory, remote_id: str) -> None:
        space = memory.scope.space
        tags = [ultimate_wire.memory_tag(memory), ultimate_wire.project_tag(space)]
        arguments = {"memory_id": remote_id, "content": ultimate_wire.FORGOTTEN, "tags": tags, "ttl": 1}
        try:
            await self._write("update_memory", arguments, space)
        except RemoteRefused as refused:
            if refused.unknown_method:
                raise RemoteRefused("it has no tool to drop a memory with", clear=True) from None
            if refused.code != NOT_FOUND:
                raise

    async def _update(self, memory: Memory, remote_id: str, key: str) -> str | None:
        """Some servers keep the embedding of the old words, and say so. There a new row takes the place of the old one:
        else the old words would find the memory and the new ones would not. Without keys that could make two."""
        arguments = ultimate_wire.update_arguments(memory, remote_id, self._clock.now())
        space, was_late = memory.scope.space, self._was_late

        async def write(embedding: bool) -> Any:
            return await self._write("update_memory", {**arguments, "regenerate_embedding": embedding}, space)

        try:
            reply = await self._with_embedding(write)
        except RemoteRefused as refused:
            if refused.unknown_method or refused.code == NOT_FOUND:
                return None
            raise
        if was_late:
            self._note_without_embedding(remote_id, space)
        elif self._honours_keys and wire.body_of(reply).get("embedding_regenerated") is False:
            new_id = await self._create(memory, key, remote_id)
            if new_id != remote_id:
                await self._drop(memory, remote_id)
            return new_id
        return remote_id

    async def _create(self, memory: Memory, key: str, supersedes: str | None) -> str:
        arguments, space = ultimate_wire.store_arguments(memory, key, supersedes), memory.scope.space

        async def store(fields: JsonObject, workflow_id: str) -> Any:
            async def write(embedding: bool) -> Any:
                complete = {"workflow_id": workflow_id, **fields, "generate_embedding": embedding}
                return await self._write("store_memory", complete, space)

            return await self._with_embedding(write)

        try:
            reply = await self._within(space, partial(store, arguments))
        except RemoteRefused as refused:
            plain = ultimate_wire.PLAIN_KIND  # an older server knows fewer kinds
            if not refused.clear or refused.unknown_method or arguments["memory_type"] == plain:
                raise
            reply = await self._within(space, partial(store, {**arguments, "memory_type": plain}))
        remote_id, body = ultimate_wire.named(reply, "memory_id"), wire.body_of(reply)
        self._honours_keys = self._honours_keys and "idempotency_hit" in body
        await self._note_embedding(remote_id, body, space)
        return remote_id

    async def _find(self, memory: Memory, *, any_revision: bool) -> str | None:
        return next(iter(await self._copies(memory, any_revision=any_revision)), None)

    async def _copies(self, memory: Memory, *, any_revision: bool = True, dropped_too: bool = False) -> list[str]:
        """The remote ids of what bears the memory's tag."""
        space, tool = memory.scope.space, "query_memories"
        arguments: JsonObject = {"tags": [ultimate_wire.memory_tag(memory)], "limit": _LOOKUP_LIMIT}
        if not self._offer.offers(tool):
            tool = "hybrid_search_memories"
            arguments |= ultimate_wire.search_arguments(memory.content, _LOOKUP_LIMIT, memory.type)

        async def look(workflow_id: str) -> Any:
            return await self._read(tool, {"workflow_id": workflow_id, **arguments}, space)

        return [
            ultimate_wire.named(entry, "memory_id")
            for entry in ultimate_wire.entries(await self._within(space, look))
            if ultimate_wire.is_of(entry, memory, any_revision=any_revision)
            and (dropped_too or not ultimate_wire.is_dropped(entry))
        ]

    # --- what somebody waits for ------------------------------------------------------------------------------------

    async def search(
        self, text: str, *, space: str, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        """A search there is for one level or for all: several types are asked for one by one, at the same time."""
        wanted = None if types is None else frozenset(types)
        all_of_them = wanted is None or len(wanted) == len(MemoryType)
        levels: Sequence[MemoryType | None] = [None] if all_of_them else sorted(wanted or ())

        async def found(level: MemoryType | None, workflow_id: str) -> list[RemoteHit | None]:
            is_hybrid = self._offer.offers("hybrid_search_memories")  # older servers have the other one
            tool = "hybrid_search_memories" if is_hybrid else "search_semantic_memories"
            arguments = ultimate_wire.search_arguments(text, limit, level, by_words=is_hybrid)
            reply = await self._read(tool, {"workflow_id": workflow_id, **arguments}, space)
            return [ultimate_wire.hit(entry, space, level) for entry in ultimate_wire.entries(reply)]

        async def ask(workflow_id: str) -> list[RemoteHit]:
            by_level = await _all_of([partial(found, level, workflow_id) for level in levels])
            return ultimate_wire.merged((hit for hits in by_level for hit in hits), wanted)

        async with deadline(timeout_s):
            return (await self._within(space, ask))[:limit]

    async def working_memory(self, context_id: str | None, *, space: str, timeout_s: float) -> list[RemoteHit]:
        """Working memories that bear the tag of the context; all of the project's where none is named."""
        tags = {} if context_id is None else {"tags": [ultimate_wire.context_tag(context_id)]}

        async def query(workflow_id: str) -> Any:
            arguments = {
                "workflow_id": workflow_id,
                "memory_level": MemoryType.WORKING.value,
                "sort_by": "created_at",
                "sort_order": "DESC",
                "limit": _MOST_ITEMS,
                **tags,
            }
            return await self._read("query_memories", arguments, space)

        async with deadline(timeout_s):
            entries = ultimate_wire.entries(await self._within(space, query))
        working = MemoryType.WORKING
        hits = (ultimate_wire.hit(entry, space, working) for entry in entries)
        found = ultimate_wire.merged(hits, frozenset({working}))
        if context_id is None:
            return found
        return [placed for hit in found if (placed := ultimate_wire.in_context(hit, context_id)) is not None]

    async def linked(self, remote_ids: Sequence[str], *, space: str, timeout_s: float) -> list[JsonObject]:
        """One memory a call, several calls at a time, all of them under one deadline."""
        asks = [partial(self._links_of, one, space) for one in dict.fromkeys(remote_ids)]
        async with deadline(timeout_s):
            return wire.links([one for links in await _all_of(asks) for one in links])

    async def _links_of(self, remote_id: str, space: str) -> list[JsonObject]:
        """None of a memory that the server does not have any more."""
        arguments = {"memory_id": remote_id, "direction": "both", "limit": 50}
        try:
            reply = await self._read("get_linked_memories", arguments, space)
        except RemoteRefused as refused:
            if refused.code == NOT_FOUND:
                return []
            raise
        return ultimate_wire.links(reply, remote_id)

    # --- embeddings -------------------------------------------------------------------------------------------------

    async def _with_embedding(self, write: Callable[[bool], Awaitable[Any]]) -> Any:
        """What takes long there is the embedding: after a call that was not answered in time, the next one does
        without, and it is made up for later. Else each try would wait for the one before it."""
        try:
            reply = await _repeated_on_conflict(partial(write, not self._was_late))
        except RemoteUnavailable as error:
            self._was_late = error.timed_out
            raise
        self._was_late = False
        return reply

    async def _note_embedding(self, remote_id: str, stored: Mapping[str, Any], space: str) -> None:
        """What the server stored without an embedding is found by its words only. Once a later memory has got one, the
        server can make them again, and is asked for one that is missing. Known to this process alone."""
        if "embedding_id" not in stored:
            return
        if stored["embedding_id"] is None:
            self._note_without_embedding(remote_id, space)
        elif self._without_embedding:
            self._has_warned = False
            missing_id, of_space = self._without_embedding.popleft()
            try:
                await self._write("update_memory", {"memory_id": missing_id, "regenerate_embedding": True}, of_space)
            except RemoteError as error:
                log.warning("the remote made no embedding of a memory, which it finds by its words only: %s", error)

    def _note_without_embedding(self, remote_id: str, space: str) -> None:
        if (remote_id, space) not in self._without_embedding:
            self._without_embedding.append((remote_id, space))
        if not self._has_warned:
            self._has_warned = True
            log.warning("the remote stores without embeddings: its semantic search does not find what is new")

    # --- workflows and calls ----------------------------------------------------------------------------------------

    async def _within(self, space: str, use: Callable[[str], Awaitable[T]]) -> T:
        """What `use` makes of the project's workflow; where that is gone, of a new one."""
        workflow_id = await self._workflow(space)
        try:
            return await use(workflow_id)
        except RemoteRefused as refused:
            if refused.code != NO_WORKFLOW:
                raise
        if self._workflows.get(space) == workflow_id:
            del self._workflows[space]
        return await use(await self._workflow(space))

    async def _workflow(self, space: str) -> str:
        """Nothing can be stored without one. Somebody who cannot wait for it any longer leaves it to the next."""
        if space not in self._workflows:
            getting = self._getting.setdefault(space, Together(partial(self._get_workflow, space)))
            self._workflows[space] = await getting.done()
        return self._workflows[space]

    async def _get_workflow(self, space: str) -> str:
        """Where the server honours no keys, making one twice would make two: what lies there for the project is looked
        at first. An older server refuses a key that it knows: then the workflow is the one that holds something of the
        project. One that holds nothing is not missed, and another is made without the key."""
        arguments = ultimate_wire.workflow_arguments(space)
        takes_key = self._offer.takes("create_workflow", "idempotency_key")
        if not takes_key and (existing := await self._workflow_there(space)) is not None:
            return existing
        create = partial(self._write, "create_workflow", arguments, space)
        try:
            made = await _repeated_on_conflict(create)
        except RemoteRefused as refused:
            if not takes_key or refused.clear:
                raise
            if (existing := await self._workflow_there(space)) is not None:
                return existing
            keyless = {name: value for name, value in arguments.items() if name != "idempotency_key"}
            made = await self._write("create_workflow", keyless, space)
        return ultimate_wire.named(made, "workflow_id")

    async def _workflow_there(self, space: str) -> str | None:
        """The workflow of a memory of the project there. A server that cannot say has none."""
        tags: JsonObject = {"tags": [ultimate_wire.project_tag(space)], "limit": 1}
        try:
            earlier = ultimate_wire.entries(await self._read("query_memories", tags, space))
        except RemoteRefused:
            return None
        for entry in earlier:
            workflow_id = entry.get("workflow_id")
            if ultimate_wire.hit(entry, space) is not None and isinstance(workflow_id, str) and workflow_id:
                return workflow_id
        return None

    async def _read(self, tool: str, arguments: JsonObject, space: str) -> Any:
        """One call that changes nothing."""
        return await self._dialect.call(tool, arguments, space=space, reads=True)

    async def _write(self, tool: str, arguments: JsonObject, space: str) -> Any:
        """One call that changes something. A database that is locked is worth trying again."""
        try:
            reply = await self._dialect.call(tool, arguments, space=space)
        except RemoteRefused as refused:
            if refused.code != LOCKED:
                raise
            raise RemoteUnavailable(refused.reason, reached=True) from None
        wire.done(reply)
        return reply


async def _repeated_on_conflict(write: Callable[[], Awaitable[T]]) -> T:
    """Of two calls with one key at the same time one wins; the other, made again, is told what that one made."""
    try:
        return await write()
    except RemoteRefused as refused:
        if refused.code != CONFLICT:
            raise
    return await write()


async def _all_of(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """All of them, a few at a time; the first error ends them."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def limited(call: Callable[[], Awaitable[T]]) -> T:
        async with turns:
            return await call()

    tasks = [asyncio.ensure_future(limited(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
