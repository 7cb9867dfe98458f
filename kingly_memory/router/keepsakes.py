"""What only the remote held: joined to what we know, and kept, so that what was once found stays findable offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kingly_memory.errors import InvalidInput
from kingly_memory.intake import draft, moment
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.models import (
    DeliveryState,
    Memory,
    MemoryId,
    Origin,
    Query,
    Standing,
    new_id,
)
from kingly_memory.ports import Clock, RemoteHit, Row, StoreReader, Transaction
from kingly_memory.router.delivery import Delivery
from kingly_memory.router.outbox import set_delivery
from kingly_memory.settings import Settings

UNSAVED = -1
"""The position of a row that is not in the store yet."""


class Keepsakes:
    """Joins a remote's hits to local rows and collects the unknown ones to be written behind."""

    def __init__(self, remote: str, *, reader: StoreReader, clock: Clock, settings: Settings) -> None:
        self._remote = remote
        self._reader = reader
        self._clock = clock
        self._settings = settings
        self._fresh: dict[str, Memory] = {}

    def join(self, query: Query, hits: Sequence[RemoteHit]) -> Iterator[tuple[Row, RemoteHit]]:
        """Each hit with the memory it is: ours when we know it, else a copy made from what the remote says.

        A hit that is another project's, that we have forgotten, or that makes no valid memory is left out.
        """
        known = self._reader.by_remote_id(self._remote, [hit.remote_id for hit in hits])
        for hit in hits:
            row = self._known(query.project, hit, known)
            if row is None:
                row = self._copy(query.project, hit)
            if row is not None and row.standing is not Standing.FORGOTTEN and _is_asked_for(row, query):
                yield row, hit

    def take(self) -> Callable[[Transaction], list[str]] | None:
        """A change that keeps the copies that are not `written` yet; None when there are none."""
        fresh = dict(self._fresh)
        if not fresh:
            return None
        ends = self._clock.now().timestamp() + self._settings.remote_cache_lifetime_s
        lifetime = Lifetime(ends, self._settings.remote_cache_lifetime_s)

        def change(transaction: Transaction) -> list[str]:
            for remote_id, copied in fresh.items():
                taken = copied.key is not None and transaction.id_of_key(copied.scope.project, copied.key) is not None
                memory = replace(copied, key=None) if taken else copied
                transaction.save(memory, Standing.CACHED)
                transaction.set_facet("lifetime", memory.id, lifetime.to_json())
                set_delivery(transaction, self._remote, memory.id, _at_home_there(remote_id))
            return list(fresh)

        return change

    def written(self, remote_ids: list[str]) -> None:
        """Those copies are in the store, where `join` finds them from now on."""
        for remote_id in remote_ids:
            self._fresh.pop(remote_id, None)

    def _known(self, project: str, hit: RemoteHit, by_remote_id: Mapping[str, MemoryId]) -> Row | None:
        for memory_id in (by_remote_id.get(hit.remote_id), hit.memory_id):
            row = None if memory_id is None else self._reader.row(memory_id)
            if row is not None and row.memory.scope.project == project:
                return row
        return None

    def _copy(self, project: str, hit: RemoteHit) -> Row | None:
        if _project_of(hit.record) not in (None, project):
            return None
        memory = self._fresh.get(hit.remote_id) or self._made(project, hit)
        if memory is None:
            return None
        self._fresh[hit.remote_id] = memory
        return Row(UNSAVED, memory, Standing.CACHED)

    def _made(self, project: str, hit: RemoteHit) -> Memory | None:
        """A memory from untrusted words: anything that does not pass our own door is not shown.

        It keeps its key and its date, but not its id: a revision made here must not be taken for one made elsewhere.
        """
        said, now = hit.record, self._clock.now()
        scope = said.get("scope")
        scope = scope if isinstance(scope, dict) else {}
        try:
            made = draft(
                hit.content,
                content_limit_bytes=self._settings.content_limit_bytes,
                key=self._free(project, said.get("key")),
                created_at=moment("created_at", said.get("created_at")),
                type=said.get("type", "semantic"),
                significance=said.get("significance", 0.5),
                confidence=said.get("confidence", 0.5),
                tags=said.get("tags") or (),
                title=said.get("title"),
                context_id=scope.get("context_id"),
                agent=scope.get("agent"),
                origin=Origin.REMOTE,
                metadata=said.get("metadata"),
            )
        except InvalidInput:
            return None
        created_at = made.created_at or now
        return made.memory(new_id(now), project, created_at=created_at, updated_at=created_at)

    def _free(self, project: str, key: object) -> object:
        """The key, unless the project has a memory of its own under it."""
        taken = isinstance(key, str) and self._reader.id_of_key(project, key) is not None
        return None if taken else key


def _is_asked_for(row: Row, query: Query) -> bool:
    return row.standing is not Standing.ARCHIVED or query.include_archived


def _project_of(record: Mapping[str, Any]) -> str | None:
    scope = record.get("scope")
    project = scope.get("project") if isinstance(scope, dict) else None
    return project if isinstance(project, str) else None


def _at_home_there(remote_id: str) -> Delivery:
    there = Delivery(wanted=1, due=None, state=DeliveryState.DELIVERED, acknowledged=1)
    return replace(there, remote_id=remote_id)
