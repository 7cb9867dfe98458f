"""What only the remote held: joined to what we know, and kept, so that what was once found stays findable offline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, kept_id
from kingly_memory.intake import Draft, draft, moment
from kingly_memory.lifecycle.lifetimes import Lifetime, is_expired
from kingly_memory.models import DeliveryState, Memory, Origin, Query, Standing
from kingly_memory.ports import Clock, RemoteHit, Row, StoreReader, Transaction
from kingly_memory.router import lifetimes
from kingly_memory.router.delivery import Delivery
from kingly_memory.router.outbox import set_delivery
from kingly_memory.settings import Settings

UNSAVED = -1
"""The position of a row that is not in the store yet."""

MOST_FRESH = 1_000
"""Copies that wait to be written; beyond that they are shown and not kept, since the store may stay unwritable."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that the store does not hold yet, or holds with an older text or a lifetime that is over."""

    remote_id: str
    memory: Memory


class Keepsakes:
    """Joins a remote's hits to local rows and collects new and changed copies to be written behind."""

    def __init__(self, remote: str, *, reader: StoreReader, clock: Clock, settings: Settings) -> None:
        self._remote = remote
        self._reader = reader
        self._clock = clock
        self._settings = settings
        self._fresh: dict[MemoryId, Copy] = {}
        self._lock = threading.Lock()

    def join(self, query: Query, hits: Sequence[RemoteHit]) -> Iterator[tuple[Row, RemoteHit]]:
        """Each hit with the memory it is: ours when we know it, else a copy that says what the remote says now.

        A hit that is another project's, that we have forgotten or erased, or that makes no valid memory is left out.
        """
        known = self._reader.by_remote_id(self._remote, [hit.remote_id for hit in hits])
        for hit in hits:
            row = self._row(query.project, hit, known.get(hit.remote_id))
            if row is not None and row.standing is not Standing.FORGOTTEN and _is_asked_for(row, query):
                yield row, hit

    def take(self) -> Callable[[Transaction], list[Copy]] | None:
        """A change that keeps the copies that are not `written` yet; None when there are none."""
        with self._lock:
            fresh = list(self._fresh.values())
        if not fresh:
            return None
        lifetime = Lifetime(self._now_s() + self._settings.remote_cache_lifetime_s)

        def change(transaction: Transaction) -> list[Copy]:
            known = self._reader.by_remote_id(self._remote, [copy.remote_id for copy in fresh])
            for copy in fresh:
                if not _is_claimed(transaction, copy, known.get(copy.remote_id)):
                    self._keep(transaction, copy, lifetime)
            return fresh

        return change

    def written(self, copies: list[Copy]) -> None:
        """Those copies are in the store, where `join` finds them from now on."""
        with self._lock:
            for copy in copies:
                if self._fresh.get(copy.memory.id) is copy:
                    del self._fresh[copy.memory.id]

    def _keep(self, transaction: Transaction, copy: Copy, lifetime: Lifetime) -> None:
        """Another process may have written it meanwhile, or the user may have made it a memory of his own."""
        row = transaction.row(copy.memory.id)
        if row is not None and row.standing is not Standing.CACHED:
            return
        if row is None or not _says_the_same(row.memory, copy.memory):
            revision = copy.memory.revision if row is None else row.memory.revision + 1
            transaction.save(replace(copy.memory, revision=revision), Standing.CACHED)
            set_delivery(transaction, self._remote, copy.memory.id, _at_home_there(copy.remote_id, revision))
        lifetimes.put(transaction, copy.memory.id, lifetime)

    def _row(self, project: str, hit: RemoteHit, known_id: MemoryId | None) -> Row | None:
        """Our memory, else None for what is another project's or was erased here, else the copy of what is unknown.

        A copy that another project keeps does not make the hit that project's.
        """
        copy_id = kept_id(self._remote, hit.remote_id, project)
        rows = {memory_id: self._reader.row(memory_id) for memory_id in (known_id, hit.memory_id, copy_id) if memory_id}
        owned = [row for row in rows.values() if row is not None and row.standing is not Standing.CACHED]
        ours = next((row for row in owned if row.memory.scope.project == project), None)
        if ours is not None:
            return ours
        is_erased = known_id not in (None, copy_id) and rows[known_id] is None
        if owned or is_erased or _project_of(hit.record) not in (None, project):
            return None
        return self._copy(project, hit, copy_id, rows[copy_id])

    def _copy(self, project: str, hit: RemoteHit, copy_id: MemoryId, row: Row | None) -> Row | None:
        """The copy as the remote has it now. What is new about it is noted, to be written behind."""
        fresh = self._fresh.get(copy_id)
        newest = fresh or row
        before = None if newest is None else newest.memory
        said = self._said(hit, before)
        if said is None:
            return None
        memory = self._memory(said, copy_id, project, before)
        is_news = before is None or memory is not before or (fresh is None and self._is_over(copy_id))
        if is_news:
            self._note(Copy(hit.remote_id, memory))
        return Row(UNSAVED if row is None else row.position, memory, Standing.CACHED)

    def _note(self, copy: Copy) -> None:
        with self._lock:
            if copy.memory.id in self._fresh or len(self._fresh) < MOST_FRESH:
                self._fresh[copy.memory.id] = copy

    def _said(self, hit: RemoteHit, before: Memory | None) -> Draft | None:
        """What the remote says, through our own door: None when it is no memory. What it leaves out stays as it was.

        Its key is not taken over: which of our keys means what is not for a remote to say.
        """
        known = {} if before is None else before.to_json()
        said, scope = {**known, **hit.record}, hit.record.get("scope")
        scope = {**known.get("scope", {}), **(scope if isinstance(scope, dict) else {})}
        try:
            return draft(
                hit.content,
                content_limit_bytes=self._settings.content_limit_bytes,
                created_at=_time(said.get("created_at")),
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

    def _memory(self, said: Draft, copy_id: MemoryId, project: str, before: Memory | None) -> Memory:
        """A new copy, a new revision of the one before, or that one itself when it says the same."""
        now = self._clock.now()
        created_at = said.created_at or now
        if before is None:
            return said.memory(copy_id, project, created_at=created_at, updated_at=created_at)
        memory = said.memory(copy_id, project, created_at=created_at, updated_at=now, revision=before.revision + 1)
        return before if _says_the_same(before, memory) else memory

    def _is_over(self, copy_id: MemoryId) -> bool:
        facet = self._reader.facets("lifetime", [copy_id]).get(copy_id)
        return is_expired(None if facet is None else Lifetime.from_json(facet), self._now_s())

    def _now_s(self) -> float:
        return self._clock.now().timestamp()


def _is_claimed(transaction: Transaction, copy: Copy, known_id: MemoryId | None) -> bool:
    """True when the remote's id has meanwhile turned out to be that of a memory of ours, erased or not."""
    if known_id in (None, copy.memory.id):
        return False
    row = transaction.row(known_id)
    return row is None or row.standing is not Standing.CACHED


def _says_the_same(one: Memory, other: Memory) -> bool:
    """Figures that a server may count anew for each answer are not looked at."""
    return _said_by(one) == _said_by(other)


def _said_by(memory: Memory) -> tuple[object, ...]:
    return memory.content, memory.title, memory.tags, memory.type, memory.scope.context_id


def _is_asked_for(row: Row, query: Query) -> bool:
    return row.standing is not Standing.ARCHIVED or query.include_archived


def _project_of(record: Mapping[str, Any]) -> str | None:
    scope = record.get("scope")
    project = scope.get("project") if isinstance(scope, dict) else None
    return project if isinstance(project, str) else None


def _time(value: object) -> datetime | None:
    """The time that a remote names, if it is one."""
    try:
        return moment("created_at", value)
    except InvalidInput:
        return None


def _at_home_there(remote_id: str, revision: int) -> Delivery:
    return Delivery(
        wanted=revision, due=None, state=DeliveryState.DELIVERED, acknowledged=revision, remote_id=remote_id
    )
