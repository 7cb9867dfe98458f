"""The working context from both layers: what is at hand here, and what the remote holds for it, under one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from kingly_memory.cognition.working import WorkingContext
from kingly_memory.errors import RemoteError
from kingly_memory.models import JsonObject, Memory, Query, Source, Standing
from kingly_memory.ports import Clock, Remote, RemoteHit, StoreReader
from kingly_memory.router.contexts import AtHand, Contexts
from kingly_memory.router.linking.associations import Associations
from kingly_memory.router.searching.local_search import LocalSearch
from kingly_memory.router.searching.remote_side import RemoteSide, reason_of
from kingly_memory.settings import Settings

T = TypeVar("T")

RELATED_LIMIT = 5
"""Linked memories for each that is at hand."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What the remote holds for a context and how it links it, or why it did not say."""

    hits: tuple[RemoteHit, ...] = ()
    links: tuple[JsonObject, ...] = ()
    error: str | None = None


class ContextGatherer:
    """Puts working contexts together for one router."""

    def __init__(
        self,
        project: str,
        *,
        contexts: Contexts,
        associations: Associations,
        reader: StoreReader,
        local: LocalSearch,
        side: RemoteSide | None,
        threads: Executor,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._project = project
        self._contexts = contexts
        self._associations = associations
        self._reader = reader
        self._local = local
        self._side = side
        self._threads = threads
        self._clock = clock
        self._settings = settings

    async def gather(self, context_id: str, *, include_related: bool) -> WorkingContext:
        """What is at hand in a context. Never raises because of the remote."""
        at_hand, there = await self._in_thread(lambda: self._here(context_id))
        asked = tuple(there) if include_related else ()
        told = await self._told(context_id, asked)
        remote = await self._in_thread(lambda: self._joined(context_id, told.hits))
        ids = list(dict.fromkeys(memory.id for memory in (*at_hand.items, *remote)))
        related = await self._in_thread(lambda: self._related(ids, there, told.links)) if include_related else None
        return WorkingContext(
            context_id=context_id,
            items=at_hand.items,
            remote=remote,
            related=related,
            source=self._source(told),
            last_updated=at_hand.last_updated,
            tokens=at_hand.context.tokens,
            whispers=at_hand.context.whispers,
            reason=told.error,
        )

    def _here(self, context_id: str) -> tuple[AtHand, dict[str, str]]:
        """What is at hand on this machine, and which memory of it the remote knows under which id."""
        at_hand = self._contexts.at_hand(context_id)
        if self._side is None:
            return at_hand, {}
        owners = [f"{self._side.name}:{memory.id}" for memory in at_hand.items]
        facets = self._reader.facets("delivery", owners)
        known = {owner.partition(":")[2]: facet.get("remote_id") for owner, facet in facets.items()}
        return at_hand, {remote_id: memory_id for memory_id, remote_id in known.items() if remote_id}

    async def _told(self, context_id: str, remote_ids: Sequence[str]) -> _Told:
        side, timeout_s = self._side, self._settings.remote_search_s
        if side is None:
            return _Told()
        reason = side.unreachable()
        if reason is not None:
            return _Told(error=reason)

        async def both(remote: Remote) -> tuple[list[RemoteHit], list[JsonObject]]:
            asked = remote.working_memory(context_id, timeout_s=timeout_s)
            held, links = await asyncio.gather(asked, _links(remote, remote_ids, timeout_s))
            return held, links

        try:
            hits, links = await side.ask("for a working context", both)
        except RemoteError as error:
            return _Told(error=reason_of(error))
        return _Told(tuple(hits), tuple(links))

    def _source(self, told: _Told) -> Source:
        if self._side is None:
            return Source.LOCAL
        return Source.HYBRID if told.error is None else Source.LOCAL_FALLBACK

    def _joined(self, context_id: str, hits: Sequence[RemoteHit]) -> tuple[Memory, ...]:
        """Each memory once, as this machine knows it where it does: what was forgotten or ended here stays so.

        The remote was asked for one context: what it says of none belongs to that one.
        """
        if self._side is None or not hits:
            return ()
        query = Query("", self._project, context_id=context_id)
        now_s = self._clock.now().timestamp()
        found = {
            row.memory.id: row.memory
            for row, _ in self._side.keepsakes.join(query, [_within(context_id, hit) for hit in hits])
            if query.admits(row.memory) and (row.standing is Standing.CACHED or self._local.is_alive(row, now_s))
        }
        return tuple(found.values())

    def _related(
        self, ids: Sequence[str], there: Mapping[str, str], remote_links: Sequence[JsonObject]
    ) -> tuple[JsonObject, ...]:
        """Memories linked to those that are at hand, each with the one it is `linked_to`.

        A link that only the remote knows comes with the remote's id of what lies beyond it, for what that is is not
        known here.
        """
        linked = self._associations.linked(ids, RELATED_LIMIT)
        here = [{**one, "linked_to": memory_id} for memory_id, several in linked.items() for one in several]
        return (*here, *self._only_remote(there, remote_links))

    def _only_remote(self, there: Mapping[str, str], remote_links: Sequence[JsonObject]) -> Iterator[JsonObject]:
        if self._side is None or not remote_links:
            return
        ends = {end for one in remote_links for end in (one["source_memory_id"], one["target_memory_id"])}
        known = self._reader.by_remote_id(self._side.name, sorted(ends))
        for one in remote_links:
            source, target = one["source_memory_id"], one["target_memory_id"]
            for this, other, direction in ((source, target, "outgoing"), (target, source, "incoming")):
                if this in there and other not in known:
                    yield {
                        "id": None,
                        "remote_id": other,
                        "link_type": one["link_type"],
                        "direction": direction,
                        "strength": one["strength"],
                        "linked_to": there[this],
                    }

    async def _in_thread(self, look: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, look)


def _within(context_id: str, hit: RemoteHit) -> RemoteHit:
    scope = hit.record.get("scope")
    scope = scope if isinstance(scope, dict) else {}
    if scope.get("context_id") is not None:
        return hit
    return hit._replace(record={**hit.record, "scope": {**scope, "context_id": context_id}})


async def _links(remote: Remote, remote_ids: Sequence[str], timeout_s: float) -> list[JsonObject]:
    """Empty where the server cannot say: what is at hand is worth having without them."""
    if not remote_ids:
        return []
    try:
        return await remote.linked(remote_ids, timeout_s=timeout_s)
    except RemoteError:
        return []
