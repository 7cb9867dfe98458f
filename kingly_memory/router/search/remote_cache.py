"""The remote cache: copies of what only a remote holds, so that what was once found stays findable offline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, named_id
from kingly_memory.lifecycle.lifetimes import Lifetime, is_expired
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Query, space_named
from kingly_memory.ports import Clock, LocalStore, RemoteHit, Row, Transaction
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.lifecycle import lifetimes
from kingly_memory.validation import Draft, draft, moment

LIFETIME_S = 7 * 86_400.0
"""Of a copy: what nobody has found for a week is asked for again."""
UNSAVED = -1
"""The position of a row that is not in the store yet."""
MOST_FRESH = 1_000
"""Copies that wait to be written; beyond that they are shown and not kept, since the store may stay unwritable."""


class Copy(NamedTuple):
    """A copy that the store does not hold yet, or holds with an older text or a lifetime that is over."""

    remote_id: str
    memory: Memory


class RemoteCache:
    """Joins one remote's hits to local rows and collects new and changed copies, to be written behind."""

    def __init__(self, remote: str, *, store: LocalStore, clock: Clock) -> None:
        self._remote = remote
        self._reader = store.reader
        self._clock = clock
        self._fresh: dict[MemoryId, Copy] = {}
        self._lock = threading.Lock()

    def join(self, query: Query, hits: Sequence[RemoteHit]) -> Iterator[tuple[Row, RemoteHit]]:
        """Each hit with the memory it is: ours when we know it, else a copy that says what the remote says now.

        A hit that is another project's, that we have forgotten or erased, or that makes no valid memory is left out.
        """
        space = query.space
        id_of = self._reader.by_remote_id(self._remote, [hit.remote_id for hit in hits])
        for hit in hits:
            known_id, copy_id = id_of.get(hit.remote_id), named_id(self._remote, hit.remote_id, space)
            rows = {
                memory_id: self._reader.row(memory_id) for memory_id in (known_id, hit.memory_id, copy_id) if memory_id
            }
            owned = [row for row in rows.values() if row is not None and row.status is not MemoryStatus.CACHED]
            row = next((row for row in owned if row.memory.scope.space == space), None)
            # What another project keeps as a copy of its own does not make the hit that project's.
            is_erased = known_id not in (None, copy_id) and rows[known_id] is None
            is_foreign = space_named(hit.record.get("scope")) not in (None, space)
            if row is None and not owned and not is_erased and not is_foreign:
                row = self._copy(space, hit, copy_id, rows[copy_id])
            hidden = (
                (MemoryStatus.FORGOTTEN,) if query.include_archived else (MemoryStatus.FORGOTTEN, MemoryStatus.ARCHIVED)
            )
            if row is not None and row.status not in hidden:
                yield row, hit

    def _copy(self, space: str, hit: RemoteHit, copy_id: MemoryId, row: Row | None) -> Row | None:
        """The copy as the remote has it now; None when that is no valid memory. What is new about it is noted.

        What the remote leaves out stays as it was. Its key is not taken over: which of our keys means what is not for a
        remote to say. Of a remote that lists changes nothing is kept: what belongs here comes with those.
        """
        fresh = self._fresh.get(copy_id)
        before = fresh.memory if fresh is not None else None if row is None else row.memory
        before_fields: JsonObject = {} if before is None else before.to_json()
        merged, scope = {**before_fields, **hit.record}, hit.record.get("scope")
        scope = {**before_fields.get("scope", {}), **(scope if isinstance(scope, dict) else {})}
        made = drafted(hit, {**merged, "scope": scope})
        if made is None:
            return None
        now = self._clock.now()
        created = made.created_at or now
        revision, updated = (1, created) if before is None else (before.revision + 1, now)
        memory = made.memory(copy_id, space, created_at=created, updated_at=updated, revision=revision)
        if before is not None and _says_the_same(before, memory):
            memory = before
        if not hit.is_fed and (memory is not before or (fresh is None and self._is_over(copy_id))):
            with self._lock:
                if copy_id in self._fresh or len(self._fresh) < MOST_FRESH:
                    self._fresh[copy_id] = Copy(hit.remote_id, memory)
        return Row(UNSAVED if row is None else row.position, memory, MemoryStatus.CACHED)

    def _is_over(self, copy_id: MemoryId) -> bool:
        facet = self._reader.facet("lifetime", copy_id)
        return is_expired(None if facet is None else Lifetime.from_json(facet), self._clock.now().timestamp())

    def take(self) -> Callable[[Transaction], list[Copy]] | None:
        """A change that keeps the copies that are not `written` yet; None when there are none."""
        with self._lock:
            fresh = list(self._fresh.values())
        if not fresh:
            return None
        lifetime = Lifetime(self._clock.now().timestamp() + LIFETIME_S)

        def change(transaction: Transaction) -> list[Copy]:
            id_of = self._reader.by_remote_id(self._remote, [copy.remote_id for copy in fresh])
            for copy in fresh:
                if self._fresh.get(copy.memory.id) is not copy:  # dropped or replaced since
                    continue
                known_id = id_of.get(copy.remote_id, copy.memory.id)
                others = None if known_id == copy.memory.id else transaction.row(known_id)
                is_ours = known_id != copy.memory.id and (others is None or others.status is not MemoryStatus.CACHED)
                row = transaction.row(copy.memory.id)
                # Meanwhile the id may have turned out to be that of a memory of ours, erased or not, or the user may
                # have made the copy a memory of his own.
                if is_ours or (row is not None and row.status is not MemoryStatus.CACHED):
                    continue
                if row is None or not _says_the_same(row.memory, copy.memory):
                    revision = copy.memory.revision if row is None else row.memory.revision + 1
                    transaction.save(replace(copy.memory, revision=revision), MemoryStatus.CACHED)
                    transaction.set_delivery(self._remote, copy.memory.id, delivery.came(revision, copy.remote_id))
                lifetimes.put(transaction, copy.memory.id, lifetime)
            return fresh

        return change

    def written(self, copies: list[Copy]) -> None:
        """Those copies are in the store, where `join` finds them from now on."""
        with self._lock:
            for copy in copies:
                if self._fresh.get(copy.memory.id) is copy:
                    del self._fresh[copy.memory.id]


def drafted(
    hit: RemoteHit, fields: Mapping[str, Any], *, key: object = None, origin: object = "remote"
) -> Draft | None:
    """A draft of the `fields` that a remote gave of a memory, checked; None where they make no valid memory."""
    scope = fields.get("scope")
    scope = scope if isinstance(scope, dict) else {}
    try:
        created_at = moment("created_at", fields.get("created_at"))
    except InvalidInput:
        created_at = None
    try:
        return draft(
            hit.content,
            created_at=created_at,
            key=key,
            type=fields.get("type", "semantic"),
            significance=fields.get("significance", 0.5),
            confidence=fields.get("confidence", 0.5),
            tags=fields.get("tags") or (),
            title=fields.get("title"),
            context_id=scope.get("context_id"),
            agent=scope.get("agent"),
            origin=origin,
            metadata=fields.get("metadata"),
        )
    except InvalidInput:
        return None


def _says_the_same(copy: Memory, kept: Memory) -> bool:
    """Figures that a server may count anew for each answer are not looked at."""
    own, also = (
        (memory.content, memory.title, memory.tags, memory.type, memory.scope.context_id) for memory in (copy, kept)
    )
    return own == also
