"""A server with the tools that the seed names: our hub, and whatever else was written to seed 004."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kingly_memory.adapters.remote import wire
from kingly_memory.adapters.remote.dialect import Dialect, Offer
from kingly_memory.adapters.remote.retrying import Persistence
from kingly_memory.errors import RemoteRefused
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.ports import Forgotten, RemoteHit, RemoteInfo, RemoteLink


class HubRemote:
    """A remote with the seed's tools, in any dialect. What the outbox sends is tried several times, what somebody
    waits for once."""

    def __init__(self, dialect: Dialect, persistence: Persistence) -> None:
        self._dialect = dialect
        self._persistence = persistence
        self._offer = Offer("", None, None)
        self._honours_keys = self._lists_forgotten = False
        self._can_update = True
        self._knows_thoughts = True

    def __repr__(self) -> str:
        return f"<HubRemote {self._dialect.address}>"

    async def connect(self) -> RemoteInfo:
        return await self.greeted(await self._dialect.connect())

    async def greeted(self, offer: Offer) -> RemoteInfo:
        """Take up what the server said of itself."""
        self._offer = offer
        info = wire.server_info(offer.told)
        self._honours_keys = info.honours_keys and offer.takes("store_memory", "idempotency_key")
        self._lists_forgotten = "list_forgotten" in wire.features(offer.told)
        self._can_update = self._knows_thoughts = True
        return info._replace(honours_keys=self._honours_keys)

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        """By whatever this server can do: an update, else a new memory unless an earlier try has made it."""

        async def bring(maybe_there: bool) -> str:
            if remote_id is not None and self._can_update:
                try:
                    await self._call("update_memory", wire.update_params(memory, remote_id, idempotency_key), memory)
                except RemoteRefused as refused:
                    if not refused.unknown_method:
                        raise
                    self._can_update = False
                else:
                    return remote_id
            there = await self._find(memory, any_revision=remote_id is None) if maybe_there else None
            return there or await self._create(memory, idempotency_key, remote_id)

        return await self._persistence.delivered(bring, repeated)

    async def record_thought(
        self, memory: Memory, *, parent_remote_id: str | None, idempotency_key: str, repeated: bool
    ) -> str:
        """A plain memory where the server has no thoughts."""

        async def bring(maybe_there: bool) -> str:
            there = await self._find(memory, any_revision=True) if maybe_there else None
            if there is not None:
                return there
            if self._knows_thoughts:
                params = wire.thought_params(memory, idempotency_key, parent_remote_id)
                try:
                    return wire.stored_id(await self._call("record_thought", params, memory))
                except RemoteRefused as refused:
                    if not refused.unknown_method:
                        raise
                    self._knows_thoughts = False
            return await self._create(memory, idempotency_key, None)

        return await self._persistence.delivered(bring, repeated)

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        async def bring(maybe_there: bool) -> None:
            if maybe_there and not self._honours_keys and await self._is_linked(link):
                return
            params = self._taken("create_memory_link", wire.link_params(link, idempotency_key))
            await self._dialect.call("create_memory_link", params, project=link.project, key=idempotency_key)

        await self._persistence.delivered(bring, repeated)

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        params: JsonObject = {"memory_id": remote_id, "store_key": memory.id, "idempotency_key": idempotency_key}
        if not memory.content:
            params["purge"] = True

        async def drop(_: bool) -> str | None:
            return wire.forgotten_id(await self._call("forget_memory", params, memory))

        forgotten = await self._persistence.delivered(drop)
        return remote_id or forgotten

    async def forgotten(self, since: str | None, *, timeout_s: float) -> Forgotten | None:
        if not self._lists_forgotten:
            return None
        return wire.forgotten(await self._read("list_forgotten", {"since": since}, timeout_s=timeout_s))

    async def search(
        self, text: str, *, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        params = wire.search_params(text, limit, types)
        reply = await self._read("search_semantic_memories", params, timeout_s=timeout_s)
        return wire.answers(reply)[:limit]

    async def working_memory(self, context_id: str | None, *, timeout_s: float) -> list[RemoteHit]:
        params = {"context_filter": context_id}
        return wire.answers(await self._read("get_working_memory", params, timeout_s=timeout_s))

    async def linked(self, remote_ids: Sequence[str], *, timeout_s: float) -> list[JsonObject]:
        params = {"memory_ids": list(remote_ids)}
        return wire.links(await self._read("get_linked_memories", params, timeout_s=timeout_s))

    async def aclose(self) -> None:
        await self._dialect.aclose()

    async def _create(self, memory: Memory, key: str, supersedes: str | None) -> str:
        return wire.stored_id(await self._call("store_memory", wire.store_params(memory, key, supersedes), memory))

    async def _find(self, memory: Memory, *, any_revision: bool) -> str | None:
        """The remote id of an earlier try's copy, on a server that would store the memory twice.

        A server that cannot search is taken as one that does not have it: at least once is better than never.
        """
        if self._honours_keys:
            return None
        params = wire.search_params(memory.content[:256], 5, None)
        try:
            hits = wire.hits(await self._read("search_semantic_memories", params, memory.scope.project))
        except RemoteRefused:
            return None
        for hit in hits:
            if hit.memory_id == memory.id and (any_revision or hit.record.get("revision") == memory.revision):
                return hit.remote_id
        return None

    async def _is_linked(self, link: RemoteLink) -> bool:
        """Whether an earlier try has made this link. See `_find`."""
        try:
            reply = await self._read("get_linked_memories", {"memory_ids": [link.source_id]}, link.project)
        except RemoteRefused:
            return False
        return wire.link_words(link) in wire.links(reply)

    async def _call(self, method: str, params: JsonObject, memory: Memory) -> Any:
        """One call for the memory's own project, since an outbox may serve several."""
        key = params.get("idempotency_key")
        return await self._dialect.call(method, self._taken(method, params), project=memory.scope.project, key=key)

    async def _read(
        self, method: str, params: JsonObject, project: str | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """One call that changes nothing, for the router's own project or that one."""
        told = self._taken(method, params)
        return await self._dialect.call(method, told, project=project, timeout_s=timeout_s, reads=True)

    def _taken(self, method: str, params: JsonObject) -> JsonObject:
        """What the server lists of them, where it lists any: a strict one refuses a call with an argument more."""
        return {name: value for name, value in params.items() if self._offer.takes(method, name)}
