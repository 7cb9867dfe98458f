"""Every memory's vector: kept as a facet beside it, and in a matrix per scope once the scope has been searched."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence

from kingly_memory.hub.envelopes import found_by
from kingly_memory.hub.storing import HubStore
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryStatus, MemoryType, Query
from kingly_memory.observe import log
from kingly_memory.ports import Embedder, Transaction
from kingly_memory.retrieval.matrix import Matrix, packed
from kingly_memory.retrieval.vectors import unpacked

_PAGE = 200
_PATIENCE_S = 0.1
"""Seconds that a search waits for its scope to be loaded; our router gives the whole search 0.15."""
_SCOPES_KEPT = 64
"""Matrices in memory. The one that was asked least recently goes first, and is loaded again when it is needed."""


class _Scope:
    """One scope's matrix and the lock that whoever touches it holds."""

    def __init__(self, dimensions: int) -> None:
        self.lock = threading.Lock()
        self.loaded = threading.Event()
        self.matrix = Matrix(dimensions)
        self.read_to = 0
        """How far the feed of a shared store was read."""


class Vectors:
    """Keeps the matrices in step with the store. Safe from any thread.

    After each commit the writer calls `follow`, which reads the committed rows again: whatever order writers come in,
    the last one to follow has seen the last commit. What other hubs change in a shared store is read before a search.
    """

    def __init__(self, store: HubStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._facet = f"vector-{embedder.name}"
        self._lock = threading.Lock()
        self._scopes: OrderedDict[str, _Scope] = OrderedDict()

    def of(self, texts: Sequence[str]) -> list[JsonObject]:
        """The vectors of texts as facets, made before a change: its writer serves everybody."""
        return packed(self._embedder.embed(texts)) if texts else []

    def write(self, tx: Transaction, memory_id: MemoryId, vector: JsonObject | None) -> None:
        """Part of a change: the vector beside its memory. None removes it."""
        tx.set_facet(self._facet, memory_id, vector)

    def follow(self, space: str, *memory_ids: MemoryId) -> None:
        """Bring their places in the matrix up to what is committed. Costs nothing for a scope not in use."""
        with self._lock:
            scope = self._scopes.get(space)
        if scope is not None:
            with scope.lock:
                self._read(scope.matrix, memory_ids)

    def nearest(
        self, space: str, text: str, kinds: Collection[MemoryType] | None, limit: int
    ) -> tuple[list[tuple[str, float]], bool]:
        """Ids of live memories with their similarity (0-1), the nearest first, and whether all were looked at.

        The first search of a large scope looks at its newest memories, so that nobody's deadline passes meanwhile.
        """
        [vector] = self._embedder.embed([text])
        scope = self.scope(space)
        complete = scope.loaded.wait(_PATIENCE_S)
        with scope.lock:
            if self._store.is_shared and complete:
                self._catch_up(scope, space)
            return scope.matrix.nearest(vector, kinds, limit), complete

    def _catch_up(self, scope: _Scope, space: str) -> None:
        """Take in what other hubs have changed."""
        last = self._store.last_change(space)
        while scope.read_to < last and (found := self._store.reader.changed(space, scope.read_to, _PAGE)):
            self._read(scope.matrix, [row.memory.id for _, row in found if row is not None])
            scope.read_to = found[-1][0]
        scope.read_to = max(scope.read_to, last)

    def scope(self, space: str) -> _Scope:
        """A scope in use. One that nobody used begins to load."""
        with self._lock:
            scope = self._scopes.get(space)
            if scope is None:
                scope = self._scopes[space] = _Scope(self._embedder.dimensions)
                threading.Thread(target=self._load, args=(scope, space), name="hub-load", daemon=True).start()
            self._scopes.move_to_end(space)
            if len(self._scopes) > _SCOPES_KEPT:
                self._scopes.popitem(last=False)
            return scope

    def _load(self, scope: _Scope, space: str) -> None:
        """Fill the matrix, page by page. What goes wrong is logged, and the next search begins again."""
        try:
            before: int | None = None
            scope.read_to = self._store.last_change(space)
            while True:
                with scope.lock:  # read and put under one lock: a change that is committed later is followed later
                    rows = self._store.reader.page(Query("", space), (MemoryStatus.LIVE,), _PAGE, before)
                    facets = self._store.reader.facets(self._facet, [row.memory.id for row in rows])
                    kinds: dict[str, MemoryType] = {row.memory.id: row.memory.type for row in rows}
                    scope.matrix.put({memory_id: unpacked(facet) for memory_id, facet in facets.items()}, kinds)
                if not rows:
                    break
                self._adopt(space, scope, [row.memory for row in rows if row.memory.id not in facets])
                before = rows[-1].position
        except Exception as error:  # noqa: BLE001  # the top of a thread
            log.warning("HubScopeNotLoaded %s", type(error).__name__)
            with self._lock:
                self._scopes.pop(space, None)
        else:
            with scope.lock:
                scope.matrix.weigh()
            scope.loaded.set()

    def _adopt(self, space: str, scope: _Scope, memories: Sequence[Memory]) -> None:
        """Embed what another embedder left behind, and write it down so that it happens once."""
        if not memories:
            return
        vectors = self.of([found_by(memory) for memory in memories])

        def keep(tx: Transaction) -> None:
            for memory, vector in zip(memories, vectors, strict=True):
                row = tx.row(memory.id)
                if row is not None and row.memory == memory:
                    self.write(tx, memory.id, vector)

        self._store.write(keep, space).result()
        for memory in memories:
            with scope.lock:
                self._read(scope.matrix, [memory.id])

    def _read(self, matrix: Matrix, memory_ids: Sequence[MemoryId]) -> None:
        facets, kinds = self._store.reader.facets(self._facet, memory_ids), dict[str, MemoryType]()
        for memory_id, row in self._store.reader.vectors.rows(memory_ids, math.inf).items():
            if row is None or row.status is not MemoryStatus.LIVE or memory_id not in facets:
                matrix.remove(memory_id)
            else:
                kinds[memory_id] = row.memory.type
        matrix.put({one: unpacked(facets[one]) for one in kinds}, kinds)
