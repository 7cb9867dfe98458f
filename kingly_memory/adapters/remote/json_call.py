"""The json-call dialect: `POST {endpoint}/mcp/call` with `{"method", "params"}` (seed 004)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from tenacity import AsyncRetrying, RetryCallState, stop_after_attempt, wait_incrementing

from kingly_memory.adapters.remote import wire
from kingly_memory.adapters.remote.transport import Transport
from kingly_memory.errors import RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.ports import Clock, RemoteHit, RemoteInfo, RemoteLink

T = TypeVar("T")

CALL_PATH = "/mcp/call"

_LOOKUP_CHARACTERS = 256
_LOOKUP_LIMIT = 5


class JsonCallRemote:
    """A remote that speaks json-call.

    What the outbox sends is tried `tries` times, with pauses of `pause_s`, twice that, and so on; what somebody waits
    for is tried once. A Retry-After longer than the pause ends the tries: the outbox has the longer patience.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        project: str,
        clock: Clock,
        tries: int = 3,
        pause_s: float = 1.0,
        call_timeout_s: float = 5.0,
    ) -> None:
        self._transport = transport
        self._project = project
        self._clock = clock
        self._tries = max(tries, 1)
        self._pause_s = pause_s
        self._call_timeout_s = call_timeout_s
        self._honours_keys = False
        self._can_update = True
        self._knows_thoughts = True

    def __repr__(self) -> str:
        return f"<JsonCallRemote {self._transport.endpoint}>"

    async def connect(self) -> RemoteInfo:
        info = wire.server_info(await self._call("initialize_memory_system", {}))
        self._honours_keys = info.honours_keys
        self._can_update = self._knows_thoughts = True
        return info

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        async def bring(maybe_there: bool) -> str:
            return await self._bring(memory, idempotency_key, remote_id, maybe_there)

        return await self._delivered(bring, repeated)

    async def record_thought(
        self, memory: Memory, *, parent_remote_id: str | None, idempotency_key: str, repeated: bool
    ) -> str:
        async def bring(maybe_there: bool) -> str:
            return await self._bring_thought(memory, idempotency_key, parent_remote_id, maybe_there)

        return await self._delivered(bring, repeated)

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        async def bring(maybe_there: bool) -> None:
            if maybe_there and not self._honours_keys and await self._is_linked(link):
                return
            await self._call("create_memory_link", wire.link_params(link, idempotency_key), link.project)

        await self._delivered(bring, repeated)

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        params = {"memory_id": remote_id, "store_key": memory.id, "idempotency_key": idempotency_key}
        reply = await self._call_persistently("forget_memory", params, memory.scope.project)
        return remote_id or wire.forgotten_id(reply)

    async def search(
        self, text: str, *, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        params = wire.search_params(text, limit, types)
        reply = await self._call("search_semantic_memories", params, timeout_s=timeout_s)
        return wire.answers(reply)[:limit]

    async def working_memory(self, context_id: str | None, *, timeout_s: float) -> list[RemoteHit]:
        return wire.hits(await self._call("get_working_memory", {"context_filter": context_id}, timeout_s=timeout_s))

    async def linked(self, remote_ids: Sequence[str], *, timeout_s: float) -> list[JsonObject]:
        params = {"memory_ids": list(remote_ids)}
        return wire.links(await self._call("get_linked_memories", params, timeout_s=timeout_s))

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _bring(self, memory: Memory, key: str, remote_id: str | None, maybe_there: bool) -> str:
        """One try at making the remote hold this revision, by whatever this server can do."""
        if remote_id is not None and self._can_update:
            try:
                return await self._update(memory, key, remote_id)
            except RemoteRefused as refused:
                if not refused.unknown_method:
                    raise
                self._can_update = False
        if maybe_there and not self._honours_keys:
            there = await self._find(memory, any_revision=remote_id is None)
            if there is not None:
                return there
        return await self._create(memory, key, supersedes=remote_id)

    async def _bring_thought(self, memory: Memory, key: str, parent_id: str | None, maybe_there: bool) -> str:
        """One try at recording a thought, as a plain memory where the server has no thoughts."""
        if maybe_there and not self._honours_keys:
            there = await self._find(memory, any_revision=True)
            if there is not None:
                return there
        if self._knows_thoughts:
            params = wire.thought_params(memory, key, parent_id)
            try:
                return wire.stored_id(await self._call("record_thought", params, memory.scope.project))
            except RemoteRefused as refused:
                if not refused.unknown_method:
                    raise
                self._knows_thoughts = False
        return await self._create(memory, key, supersedes=None)

    async def _is_linked(self, link: RemoteLink) -> bool:
        """Whether an earlier try has made this link, on a server that would make it twice. See `_find`."""
        try:
            reply = await self._call("get_linked_memories", {"memory_ids": [link.source_id]}, link.project)
        except RemoteRefused:
            return False
        return wire.link_words(link) in wire.links(reply)

    async def _update(self, memory: Memory, key: str, remote_id: str) -> str:
        await self._call("update_memory", wire.update_params(memory, remote_id, key), memory.scope.project)
        return remote_id

    async def _create(self, memory: Memory, key: str, supersedes: str | None) -> str:
        params = wire.store_params(memory, key, supersedes)
        return wire.stored_id(await self._call("store_memory", params, memory.scope.project))

    async def _find(self, memory: Memory, *, any_revision: bool) -> str | None:
        """The remote id of an earlier try's copy, on a server that would store the memory twice.

        A server that cannot search is taken as one that does not have it: at least once is better than never.
        """
        params = wire.search_params(memory.content[:_LOOKUP_CHARACTERS], _LOOKUP_LIMIT, None)
        try:
            hits = wire.hits(await self._call("search_semantic_memories", params, memory.scope.project))
        except RemoteRefused:
            return None
        for hit in hits:
            if hit.memory_id == memory.id and (any_revision or hit.record.get("revision") == memory.revision):
                return hit.remote_id
        return None

    async def _call_persistently(self, method: str, params: JsonObject, project: str | None = None) -> JsonObject:
        async def attempt() -> Any:
            return await self._call(method, params, project)

        reply = await self._persistently(attempt)
        return reply if isinstance(reply, dict) else {}

    async def _delivered(self, bring: Callable[[bool], Awaitable[T]], repeated: bool) -> T:
        """Bring something persistently; each try is told whether one before it may have had its effect."""
        maybe_there = repeated

        async def attempt() -> T:
            nonlocal maybe_there
            try:
                return await bring(maybe_there)
            except RemoteUnavailable:
                maybe_there = True
                raise

        return await self._persistently(attempt)

    async def _persistently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try several times, as long as the trouble may pass. Cancelling passes through.

        The attempt must be an `async def`: tenacity does not await what a lambda returns, so it would never retry.
        """
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._tries),
            wait=wait_incrementing(start=self._pause_s, increment=self._pause_s),
            retry=self._worth_another_try,
            sleep=self._clock.sleep,
            reraise=True,
        )
        return await retrying(attempt)

    def _worth_another_try(self, state: RetryCallState) -> bool:
        problem = state.outcome.exception() if state.outcome else None
        pause_s = self._pause_s * state.attempt_number
        return isinstance(problem, RemoteUnavailable) and (problem.retry_after_s or 0.0) <= pause_s

    async def _call(
        self, method: str, params: JsonObject, project: str | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """One call for a project: the memory's own where there is one, since an outbox may serve several."""
        headers = {"Kingly-Project": quote(project or self._project, safe="")}
        if "idempotency_key" in params:
            headers["Idempotency-Key"] = quote(params["idempotency_key"], safe="")
        payload = {"method": method, "params": params}
        deadline_s = self._call_timeout_s if timeout_s is None else timeout_s
        return await self._transport.post(CALL_PATH, payload, headers=headers, timeout_s=deadline_s)
