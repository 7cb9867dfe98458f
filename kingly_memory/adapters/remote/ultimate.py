"""An Ultimate MCP server as a remote: which of its tools do what (docs/ultimate-server.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from kingly_memory.adapters.remote import outcomes, ultimate_replies, ultimate_wire, wire
from kingly_memory.adapters.remote.dialect import Dialect, Offer
from kingly_memory.adapters.remote.trying import Persistence
from kingly_memory.adapters.remote.ultimate_calls import Calls, Deadline, Workflows, all_of, repeated_on_conflict
from kingly_memory.adapters.remote.ultimate_contexts import Contexts
from kingly_memory.adapters.remote.ultimate_repairs import Repairs
from kingly_memory.adapters.remote.ultimate_thoughts import Thoughts
from kingly_memory.errors import RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.ports import RemoteHit, RemoteInfo, RemoteLink

T = TypeVar("T")

_LOOKUP_LIMIT = 10
_LEAST_SIMILARITY = 0.1
"""What the server asks for by itself, 0.75, leaves out most of what a question is about."""


class UltimateRemote:
    """A remote with the tools of an Ultimate MCP server. What the outbox sends is tried several times, what somebody
    waits for once."""

    def __init__(
        self,
        dialect: Dialect,
        persistence: Persistence,
        *,
        project: str,
        namespace: str | None = None,
    ) -> None:
        """`namespace` names the project's workflow; where it is None, the project does."""
        self._dialect = dialect
        self._persistence = persistence
        self._project = project
        self._namespace = namespace
        self._clock = persistence.clock
        self._calls = Calls(dialect)
        self._workflows = Workflows(self._calls, self._namespace_of)
        self._contexts = Contexts(self._calls, self._workflows)
        self._repairs = Repairs(self._calls)
        self._thoughts = Thoughts(self._calls)
        self._honours_keys = True
        self._by_meaning = False
        self._was_late = False

    def __repr__(self) -> str:
        return f"<UltimateRemote {self._dialect.address} without_embedding={self._repairs.missing}>"

    async def connect(self) -> RemoteInfo:
        info = self.greeted(await self._dialect.connect())
        await self.prepare()
        return info

    def greeted(self, offer: Offer) -> RemoteInfo:
        """Take up what the server offers."""
        self._calls.greeted(offer)
        self._honours_keys = self._calls.takes("store_memory", "idempotency_key")
        self._workflows.look_first = not self._calls.takes("create_workflow", "idempotency_key")
        self._by_meaning = offer.tools is not None and "search_semantic_memories" in offer.tools
        return RemoteInfo(server=offer.server or "ultimate", honours_keys=self._honours_keys)

    async def prepare(self) -> None:
        """Get the project's workflow before somebody waits for it."""
        await self._workflows.of(self._project)

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        async def bring(maybe_there: bool) -> str:
            return await self._bring(memory, idempotency_key, remote_id, maybe_there)

        return await self._persistence.delivered(bring, repeated)

    async def record_thought(
        self, memory: Memory, *, parent_remote_id: str | None, idempotency_key: str, repeated: bool
    ) -> str:
        async def bring(maybe_there: bool) -> str:
            if self._thoughts.are_known:
                record = partial(self._thoughts.record, memory, idempotency_key, parent_remote_id)
                return await self._within(memory, record)
            return await self._bring(memory, idempotency_key, None, maybe_there)

        return await self._persistence.delivered(bring, repeated)

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        async def bring(maybe_there: bool) -> None:
            if not (maybe_there and await self._is_linked(link)):
                await self._link(link)

        await self._persistence.delivered(bring, repeated)

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        async def drop() -> str | None:
            remote_ids = (
                [remote_id]
                if remote_id is not None
                else await self._copies(memory, any_revision=True, dropped_too=True)
            )
            for one in remote_ids:
                await self._drop(memory, one)
            return next(iter(remote_ids), None)

        return await self._persistence.of(drop)

    async def search(
        self, text: str, *, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        """A search there is for one level or for all: several types are asked for one by one, at the same time."""
        wanted = None if types is None else frozenset(types)
        all_of_them = wanted is None or len(wanted) == len(MemoryType)
        levels: Sequence[MemoryType | None] = [None] if all_of_them else sorted(wanted or ())
        deadline = Deadline(timeout_s)

        async def ask(workflow_id: str) -> list[RemoteHit]:
            asks = [partial(self._found, workflow_id, text, limit, level, deadline) for level in levels]
            return ultimate_replies.merged((hit for found in await all_of(asks) for hit in found), wanted)

        found = await self._workflows.within(self._project, ask, deadline)
        return found[:limit]

    async def working_memory(self, context_id: str | None, *, timeout_s: float) -> list[RemoteHit]:
        deadline, project = Deadline(timeout_s), self._project
        asks = [partial(self._contexts.tagged, project, context_id, deadline)]
        if context_id is not None:
            asks.append(partial(self._contexts.held, project, context_id, deadline))
        return ultimate_replies.merged((hit for held in await all_of(asks) for hit in held), None)

    async def linked(self, remote_ids: Sequence[str], *, timeout_s: float) -> list[JsonObject]:
        """One memory a call, several calls at a time, all of them under one deadline."""
        deadline = Deadline(timeout_s)
        asks = [partial(self._links_of, one, self._project, deadline) for one in dict.fromkeys(remote_ids)]
        return ultimate_replies.joined_links(await all_of(asks))

    async def aclose(self) -> None:
        await self._workflows.aclose()
        await self._dialect.aclose()

    def _namespace_of(self, project: str) -> str:
        return self._namespace if self._namespace is not None and project == self._project else project

    async def _bring(self, memory: Memory, key: str, remote_id: str | None, maybe_there: bool) -> str:
        """One try at making the remote hold this revision, by whatever this server can do."""
        if remote_id is not None and await self._updated(memory, remote_id):
            return remote_id
        if maybe_there and not self._honours_keys:
            there = await self._copies_if_told(memory, any_revision=remote_id is None)
            if there:
                return there[0]
        return await self._create(memory, key, supersedes=remote_id)

    async def _updated(self, memory: Memory, remote_id: str) -> bool:
        """False where there is nothing to update: the server has no such tool, or no such memory any more."""
        arguments = ultimate_wire.update_arguments(memory, remote_id, self._clock.now())
        project, was_late = memory.scope.project, self._was_late

        async def write(embedding: bool) -> Any:
            told = {**arguments, "regenerate_embedding": embedding}
            return await self._calls.write("update_memory", told, project=project)

        try:
            await self._with_embedding(write)
        except RemoteRefused as refused:
            if refused.unknown_method or refused.code == outcomes.NOT_FOUND:
                return False
            raise
        if was_late:
            self._repairs.miss(remote_id, project)
        return True

    async def _create(self, memory: Memory, key: str, supersedes: str | None) -> str:
        arguments = ultimate_wire.store_arguments(memory, key, supersedes)
        try:
            reply = await self._within(memory, partial(self._stored, memory, arguments))
        except RemoteRefused as refused:
            if not refused.clear or refused.unknown_method or arguments["memory_type"] == ultimate_wire.PLAIN_KIND:
                raise
            plain = {**arguments, "memory_type": ultimate_wire.PLAIN_KIND}  # an older server knows fewer kinds
            reply = await self._within(memory, partial(self._stored, memory, plain))
        remote_id = ultimate_replies.named(reply, "memory_id")
        body = ultimate_replies.body_of(reply)
        self._honours_keys = self._honours_keys and "idempotency_hit" in body
        await self._repairs.note(remote_id, body, memory.scope.project)
        await self._contexts.note(memory, remote_id)
        return remote_id

    async def _stored(self, memory: Memory, arguments: JsonObject, workflow_id: str) -> Any:
        async def write(embedding: bool) -> Any:
            told = {"workflow_id": workflow_id, **arguments, "generate_embedding": embedding}
            return await self._calls.write("store_memory", told, project=memory.scope.project)

        return await self._with_embedding(write)

    async def _with_embedding(self, write: Callable[[bool], Awaitable[Any]]) -> Any:
        """What takes long there is the embedding: after a call that was not answered in time, the next one does
        without, and it is made up for later. Else each try would wait for the one before it."""
        try:
            reply = await repeated_on_conflict(partial(write, not self._was_late))
        except RemoteUnavailable as error:
            self._was_late = error.timed_out
            raise
        self._was_late = False
        return reply

    async def _within(self, memory: Memory, use: Callable[[str], Awaitable[T]]) -> T:
        return await self._workflows.within(memory.scope.project, use)

    async def _drop(self, memory: Memory, remote_id: str) -> None:
        """Overwritten and ended: the server has no tool to delete a memory."""
        arguments = ultimate_wire.drop_arguments(memory, remote_id)
        try:
            await self._calls.write("update_memory", arguments, project=memory.scope.project)
        except RemoteRefused as refused:
            if refused.unknown_method:
                raise RemoteRefused("it has no tool to drop a memory with", clear=True) from None
            if refused.code != outcomes.NOT_FOUND:
                raise
            self._thoughts.check_dropped(memory)

    async def _copies_if_told(self, memory: Memory, *, any_revision: bool) -> list[str]:
        """As `_copies`; one that cannot search is taken as one that has none: at least once is better than never."""
        try:
            return await self._copies(memory, any_revision=any_revision)
        except RemoteRefused:
            return []

    async def _copies(self, memory: Memory, *, any_revision: bool, dropped_too: bool = False) -> list[str]:
        """The remote ids of what bears the memory's tag."""

        async def look(workflow_id: str) -> list[str]:
            tags = [ultimate_wire.memory_tag(memory)]
            arguments: JsonObject = {"workflow_id": workflow_id, "tags": tags, "limit": _LOOKUP_LIMIT}
            tool = "query_memories"
            if not self._calls.offers(tool):
                tool = "hybrid_search_memories"
                question = ultimate_wire.asked(memory.content)
                arguments |= ultimate_wire.search_arguments(question, _LOOKUP_LIMIT, memory.type)
            reply = await self._calls.read(tool, arguments, project=memory.scope.project)
            return [
                ultimate_replies.named(entry, "memory_id")
                for entry in ultimate_replies.entries(reply)
                if ultimate_replies.is_of(entry, memory, any_revision=any_revision)
                and (dropped_too or not ultimate_replies.is_dropped(entry))
            ]

        return await self._workflows.within(memory.scope.project, look)

    async def _found(
        self, workflow_id: str, text: str, limit: int, level: MemoryType | None, deadline: Deadline
    ) -> list[RemoteHit | None]:
        question = ultimate_wire.asked(text)
        arguments = {"workflow_id": workflow_id, **ultimate_wire.search_arguments(question, limit, level)}
        reply = None
        if self._by_meaning:
            reply = await self._by_meaning_alone(text, arguments, deadline)
        if reply is None:
            tool = "hybrid_search_memories"
            reply = await self._calls.read(tool, arguments, project=self._project, deadline=deadline)
        return [ultimate_replies.hit(entry, self._project, level) for entry in ultimate_replies.entries(reply)]

    async def _by_meaning_alone(self, text: str, arguments: JsonObject, deadline: Deadline) -> Any:
        """An older server's semantic search. One of them fails whenever it finds something: then the other is used, if
        there is one."""
        asked = {
            "workflow_id": arguments["workflow_id"],
            "query": text,
            "limit": arguments["limit"],
            "threshold": _LEAST_SIMILARITY,
            "include_content": True,
            **({"memory_level": arguments["memory_level"]} if "memory_level" in arguments else {}),
        }
        try:
            return await self._calls.read("search_semantic_memories", asked, project=self._project, deadline=deadline)
        except RemoteRefused as refused:
            if refused.code != outcomes.LOCKED or not self._calls.offers("hybrid_search_memories"):
                raise
            self._by_meaning = False
            return None

    async def _link(self, link: RemoteLink) -> None:
        """Where the server keeps one link of a kind between two memories, it stays as it is there."""
        try:
            await self._calls.write("create_memory_link", ultimate_wire.link_arguments(link), project=link.project)
        except RemoteRefused as refused:
            if refused.code != outcomes.CONFLICT:
                raise

    async def _is_linked(self, link: RemoteLink) -> bool:
        try:
            return wire.link_words(link) in await self._links_of(link.source_id, link.project, None)
        except RemoteRefused:
            return False

    async def _links_of(self, remote_id: str, project: str, deadline: Deadline | None) -> list[JsonObject]:
        """None of a memory that the server does not have any more."""
        arguments = {"memory_id": remote_id, "direction": "both", "limit": ultimate_wire.MOST_LINKS}
        try:
            reply = await self._calls.read("get_linked_memories", arguments, project=project, deadline=deadline)
        except RemoteRefused as refused:
            if refused.code == outcomes.NOT_FOUND:
                return []
            raise
        return ultimate_replies.links(reply, remote_id)
