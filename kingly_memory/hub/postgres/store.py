"""A hub's memory in PostgreSQL: several hubs may serve one database, and none of them keeps anything of its own.

One thread of each hub commits what waits, grouped, as the embedded store does: a transaction first locks the rows of
its spaces in their order, so no two hubs wait for each other in a circle, and none reads what another is changing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

import psycopg
from psycopg import Connection
from psycopg_pool import ConnectionPool, PoolTimeout

from kingly_memory.adapters.local import rows
from kingly_memory.adapters.local.store import Job, commit_together
from kingly_memory.errors import RouterClosed, StoreError
from kingly_memory.hub.postgres.failures import failure, shown
from kingly_memory.hub.postgres.schema import POSITIONS, prepare
from kingly_memory.hub.postgres.text_index import INDEX, UNINDEX, TextIndex, texts
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Query
from kingly_memory.ports import Row, StoreReader, Transaction, Vector

if TYPE_CHECKING:
    from kingly_memory.adapters.local.engine import Outcome

T = TypeVar("T")

logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it names the host, and says what callers are told

_READERS = 8
_WAIT_S = 3.0
"""Until a connection is there; a caller is then told to try again. A home waits 5 s for that."""
_SILENT_S = 10
"""After which a database that has vanished from the network counts as gone."""
_LARGEST_BATCH = 64
"""Changes that one transaction takes together: it holds the locks of all their spaces, and where one of them fails,
each is tried by itself."""
_ROW = "position, record, status"
_OF_EACH = (
    "FROM jsonb_array_elements(%s) AS w "
    "CROSS JOIN LATERAL (SELECT space FROM km_scope WHERE space = w ->> 'space' OFFSET 0) AS s"
)
"""Rows to add, joined with their spaces: where a SELECT names no table, Citus takes its rows itself and copies them."""
_ADD = (
    "INSERT INTO km_memory(id, position, space, key, status, type, context_id, sequence, record) "
    "SELECT w ->> 'id', (w ->> 'position')::bigint, s.space, w ->> 'key', w ->> 'status', w ->> 'type', "
    f"w ->> 'context_id', (w ->> 'sequence')::bigint, w ->> 'record' {_OF_EACH}"
)
"""One statement for all, and JSON because a list of each column takes twenty times as long to send. Each `->>` would
read the whole of an element of `json` again. All functions are immutable, as in INDEX."""
_SET_VECTORS = (
    "INSERT INTO km_vector SELECT w ->> 'memory', w ->> 'embedder', s.space, (w ->> 'place')::bigint, "
    f"(w ->> 'revision')::integer, decode(w ->> 'levels', 'hex') {_OF_EACH} "
    "ON CONFLICT (memory, embedder) DO UPDATE "
    "SET (place, revision, levels) = (excluded.place, excluded.revision, excluded.levels)"
)
_DROP_VECTORS = "DELETE FROM km_vector WHERE memory = %s"
_BEHIND_ALL = 2**62
"""No row has that position."""
_IDS = (
    "SELECT m.space, m.key, m.id FROM json_array_elements(%s) AS w "
    "CROSS JOIN LATERAL (SELECT * FROM km_memory WHERE space = w ->> 0 AND key = w ->> 1 OFFSET 0) AS m"
)
"""`OFFSET 0` as in INDEX."""
_Written = tuple[Memory, str, list[tuple[int | None, list[str]]]]
"""A memory, its record, and the words that it is found by."""
_Change = tuple[Callable[[Transaction], Any], str, Sequence[_Written]]
"""A change, the space that it is about, and the memories that it saves unless their keys are there."""


class PostgresStore:
    """Implements what a hub uses of `ports.LocalStore`: each method that stands here, and those of its reader and its
    transaction."""

    def __init__(self, address: str) -> None:
        """`address`: `postgresql://…`, as libpq takes it; it may hold a password, which is never shown. Raises
        StoreUnreadable where nobody answers there, StoreTooNew."""
        self._name = shown(address)
        self._pool = ConnectionPool(
            address,
            min_size=1,
            max_size=_READERS + 1,
            timeout=_WAIT_S,
            reconnect_timeout=_WAIT_S,  # by default it waits for as long again as the database was away
            kwargs={
                "autocommit": True,
                "connect_timeout": int(_WAIT_S),
                "application_name": "kingly-hub",
                "keepalives_idle": _SILENT_S // 2,
                "keepalives_interval": _SILENT_S // 2,  # by default the second question comes after 75 s
                "tcp_user_timeout": _SILENT_S * 1000,
            },
            configure=self._configure,
            open=False,
        )
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._is_closed = False
        try:
            with psycopg.connect(address, autocommit=True, connect_timeout=int(_WAIT_S)) as first:
                prepare(first, self._name)
        except psycopg.Error as error:
            raise failure(self._name, error) from None
        self._pool.open()
        self._thread = threading.Thread(
            target=commit_together,
            args=(self._commit, self._jobs, _LARGEST_BATCH),
            name="hub-postgres",
            daemon=True,
        )
        self._thread.start()
        self._reader = Reader(self)

    @property
    def reader(self) -> StoreReader:
        return cast("StoreReader", self._reader)

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        future: Future[T] = Future()
        self._submit((change, space, [_written(memory) for memory in memories]), future, None)
        return future

    def commit(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()
        self._submit((change, space, [_written(memory) for memory in memories]), waiting, loop)
        return waiting

    def _submit(self, change: _Change, waiting: Any, loop: asyncio.AbstractEventLoop | None) -> None:
        """What is written was made ready by the caller's thread, while the database is at work for others."""
        if self._is_closed:
            raise RouterClosed
        self._jobs.put((change, waiting, loop))

    def scrub(self, memory_ids: Collection[str]) -> None:
        """What was erased is gone from every table; PostgreSQL uses its place again after the next vacuum, and its log
        and backups are the operator's."""

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._jobs.put(None)
            self._thread.join()
            self._pool.close()

    def _configure(self, connection: Connection[Any]) -> None:
        prepare(connection, self._name)  # it may be to another database by now
        # To plan a statement anew takes longer than to run it, and it would always be the same plan. Without values a
        # planner thinks that a LIMIT is soon reached: among some thousand texts it would read all for each word. Where
        # it has to read all, that must not look dear enough to be compiled. Citus plans no INSERT … SELECT without its
        # values.
        connection.execute(
            "SELECT set_config(name, value, false) FROM (VALUES ('plan_cache_mode', 'force_generic_plan'), "
            "('enable_seqscan', 'off'), ('jit', 'off')) AS said(name, value) "
            "WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
        )

    def fetch_all(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """All rows of a statement, over a connection of the pool. Raises StoreUnreadable."""
        for is_last in (False, True):
            try:
                with self._pool.connection() as connection:
                    return connection.execute(statement, values).fetchall()
            except psycopg.OperationalError as error:
                # A connection of before the database was restarted says so at its first use.
                if is_last or isinstance(error, PoolTimeout):
                    raise failure(self._name, error) from None
            except psycopg.Error as error:
                raise failure(self._name, error) from None
        raise AssertionError(statement)

    def _commit(self, batch: Sequence[_Change], tell: Callable[[], None]) -> list[Outcome]:
        """All together, or each by itself where one of them raises."""
        try:
            return [(value, None) for value in self._transact(batch, tell)]
        except Exception as error:  # noqa: BLE001  # who waits for the change gets it
            if len(batch) > 1 and not isinstance(error, StoreError):
                return [outcome for change in batch for outcome in self._commit([change], tell)]
            return [(None, failure(self._name, error) if isinstance(error, psycopg.Error) else error)] * len(batch)

    def _transact(self, batch: Sequence[_Change], tell: Callable[[], None]) -> list[Any]:
        """`tell` is called while the database commits. Raises StoreError where it cannot be reached, and what a change
        or a statement of one raises."""
        for is_last in (False, True):
            is_committing = False
            try:
                with self._pool.connection() as connection, connection.pipeline():
                    connection.execute("BEGIN")
                    written = [one for _, _, written in batch for one in written]
                    transaction = PostgresTransaction(connection, {space for _, space, _ in batch}, written)
                    values = [change(cast("Transaction", transaction)) for change, _, _ in batch]
                    transaction.finish()
                    is_committing = True
                    connection.execute("COMMIT")
                    tell()
                return values
            except psycopg.OperationalError as error:
                # A commit whose answer was lost may have been made: its sender knows the key to repeat it under.
                if is_last or is_committing or isinstance(error, PoolTimeout):
                    raise failure(self._name, error) from None
            except psycopg.errors.ReadOnlySqlTransaction as error:
                raise failure(self._name, error) from None
        raise AssertionError(batch)


def _written(memory: Memory) -> _Written:
    return memory, rows.record(memory), texts(memory)


class _PostgresLookups(rows.SqlLookups):
    _get_memory = f"SELECT {_ROW} FROM km_memory WHERE id = %s"
    _id_of_key = "SELECT id FROM km_memory WHERE space = %s AND key = %s"
    _revisions = "SELECT record FROM km_revision WHERE memory = %s ORDER BY number DESC"
    _facet = "SELECT value FROM km_facet WHERE name = %s AND owner = %s"
    _facets = (
        "SELECT f.name, f.owner, f.value FROM json_each(%s::json) AS n(name, owners) "
        "CROSS JOIN LATERAL json_array_elements_text(n.owners) AS o(owner) "
        "CROSS JOIN LATERAL (SELECT * FROM km_facet WHERE name = n.name AND owner = o.owner OFFSET 0) AS f"
    )


class PostgresTransaction(_PostgresLookups):
    """What a hub's changes use of `ports.Transaction`. They save memories of those spaces, whose feeds it locks."""

    def __init__(
        self, connection: Connection[Any], spaces: Collection[str], written: Collection[_Written] = ()
    ) -> None:
        """Asks once who has the keys of what will be `written`."""
        self._connection = connection
        self._written = {one[0].id: one for one in written}
        keys = {(memory.scope.space, memory.key) for memory, *_ in written if memory.key is not None}
        self._added: list[JsonObject] = []
        """Memories that are written before anything is looked up, and at the end."""

        def written_and_read(statement: str, values: Sequence[Any]) -> list[Any]:
            self._add()
            return connection.execute(statement, values).fetchall()

        self._all = written_and_read
        named = sorted(spaces)  # in one order for everybody
        values = ", ".join(["(%s)"] * len(named))
        self._run(f"INSERT INTO km_scope(space) VALUES {values} ON CONFLICT DO NOTHING", *named)
        locked = "SELECT space, sequence, position FROM km_scope WHERE space = ANY(%s) ORDER BY space FOR UPDATE"
        feeds = connection.execute(locked, (named,))
        holders = connection.execute(_IDS, (json.dumps([*keys]),)) if keys else ()
        locked_rows = feeds.fetchall()
        self._before: dict[str, int] = {space: sequence for space, sequence, _ in locked_rows}
        self._last = dict(self._before)
        self._positions: dict[str, int] = {space: position for space, _, position in locked_rows}
        self._more = Counter[str]()
        """How many live memories more each space has."""
        self._more_words = Counter[str]()
        self._unindexed: dict[str, Memory] = {}
        self._vectors: dict[tuple[str, str], JsonObject] = {}
        """What each embedder made of each memory."""
        self._ids: dict[tuple[str, str], MemoryId | None] = dict.fromkeys(keys)
        """Who has the keys that were looked up for all changes together."""
        for space, key, memory_id in holders:
            self._ids[space, key] = MemoryId(memory_id)

    def id_of_key(self, space: str, key: str) -> MemoryId | None:
        if (space, key) in self._ids:
            return self._ids[space, key]
        return super().id_of_key(space, key)

    def save(self, memory: Memory, status: MemoryStatus) -> None:
        """Whoever saves a key has looked, behind the lock of its space, who has it."""
        columns: JsonObject = {
            "space": memory.scope.space,
            "key": memory.key,
            "status": status.value,
            "type": memory.type.value,
            "context_id": memory.scope.context_id,
            "sequence": self._next(memory.scope.space),
            "record": self._as_written(memory)[1],
        }
        before = self.row(memory.id) if memory.revision > 1 else None
        self._more[memory.scope.space] += status is MemoryStatus.LIVE
        if status is MemoryStatus.LIVE:
            self._unindexed[memory.id] = memory
        if memory.key is not None:
            self._ids[memory.scope.space, memory.key] = memory.id
        if before is None:
            self._added.append({**columns, "id": memory.id, "position": self._next_position(memory.scope.space)})
        else:
            self._more[before.memory.scope.space] -= before.status is MemoryStatus.LIVE
            self._unindex(before.memory.scope.space, before.position)
            self._drop_vectors(memory.id)
            if before.memory.revision < memory.revision:
                self.keep_revision(before.memory)
            changed = ", ".join(f"{name} = %s" for name in columns)
            self._run(f"UPDATE km_memory SET {changed} WHERE id = %s", *columns.values(), memory.id)

    def erase(self, memory_id: str) -> None:
        self._unindexed.pop(memory_id, None)
        gone = "DELETE FROM km_memory WHERE id = %s RETURNING space, key, status, position"
        for space, key, status, position in self._all(gone, (memory_id,)):
            self._ids.pop((space, key), None)
            self._more[space] -= status == MemoryStatus.LIVE
            self._unindex(space, position)
        self._run("DELETE FROM km_revision WHERE memory = %s", memory_id)
        self._drop_vectors(memory_id)

    def unlearn(self, memory: Memory) -> None:
        """How its words are written lies nowhere."""

    def note_seen(self, memory: Memory) -> None:
        self._add()
        self._run("UPDATE km_memory SET sequence = %s WHERE id = %s", self._next(memory.scope.space), memory.id)

    def keep_revision(self, memory: Memory) -> None:
        self._run(
            "INSERT INTO km_revision VALUES (%s, %s, %s) "
            "ON CONFLICT (memory, number) DO UPDATE SET record = excluded.record",
            memory.id, memory.revision, rows.record(memory),
        )  # fmt: skip

    def current_revisions(self, memory_ids: Sequence[str]) -> dict[str, int]:
        asked = "SELECT id, (record::json ->> 'revision')::integer FROM km_memory WHERE id = ANY(%s)"
        return dict(self._all(asked, (list(memory_ids),)))

    def set_vector(self, embedder: str, memory: Memory, levels: bytes) -> None:
        self._vectors[memory.id, embedder] = {
            "memory": memory.id,
            "embedder": embedder,
            "space": memory.scope.space,
            "place": self._next(memory.scope.space),  # a gap in the feed of memories
            "revision": memory.revision,
            "levels": levels.hex(),
        }

    def set_facet(self, name: str, owner: str, value: JsonObject | None) -> None:
        if value is None:
            self._run("DELETE FROM km_facet WHERE name = %s AND owner = %s", name, owner)
        else:
            self._run(
                "INSERT INTO km_facet VALUES (%s, %s, %s) "
                "ON CONFLICT (name, owner) DO UPDATE SET value = excluded.value",
                name, owner, rows.facet(value),
            )  # fmt: skip

    def finish(self) -> None:
        """Index what was saved, say how far the feeds have come, and how much there is to find."""
        self._add()
        written = list[tuple[str, int | None, str]]()
        for memory in self._unindexed.values():
            for start, words in self._as_written(memory)[2]:
                self._more_words[memory.scope.space] += len(words)
                written.append((memory.id, start, " ".join(words)))
        if written:
            self._run(INDEX, json.dumps(written))
        if self._vectors:
            self._run(_SET_VECTORS, json.dumps([*self._vectors.values()]))
        for space, last in self._last.items():
            if last != self._before[space] or self._more[space]:
                self._run(
                    "UPDATE km_scope SET sequence = %s, position = %s, live = live + %s, words = words + %s "
                    "WHERE space = %s",
                    last, self._positions[space], self._more[space], self._more_words[space], space,
                )  # fmt: skip

    def _as_written(self, memory: Memory) -> _Written:
        known = self._written.get(memory.id)
        if known is None or known[0] is not memory:
            self._written[memory.id] = known = _written(memory)
        return known

    def _next(self, space: str) -> int:
        """A place in the feed of that space, behind all others."""
        self._last[space] += 1
        return self._last[space]

    def _next_position(self, space: str) -> int:
        """Where its next memory lies: behind all others of that space, and where none of another space does."""
        position = self._positions[space] + 1
        if position % POSITIONS == 0:
            # A column that takes numbers of a sequence by itself would make Citus copy all new rows.
            ((position,),) = self._connection.execute("SELECT nextval('km_position')")
        self._positions[space] = position
        return position

    def _add(self) -> None:
        added, self._added = self._added, []
        if added:
            self._run(_ADD, json.dumps(added))

    def _unindex(self, space: str, position: int) -> None:
        self._more_words[space] -= sum(size for (size,) in self._all(UNINDEX, (position,)))

    def _drop_vectors(self, memory_id: str) -> None:
        for one in [one for one in self._vectors if one[0] == memory_id]:
            del self._vectors[one]
        self._run(_DROP_VECTORS, memory_id)

    def _run(self, statement: str, *values: Any) -> None:
        self._connection.execute(statement, values)


class Reader(TextIndex, _PostgresLookups):
    """What a hub uses of `ports.StoreReader`."""

    def __init__(self, store: PostgresStore) -> None:
        super().__init__(store.fetch_all)
        self.vectors = _VectorRows(store.fetch_all)

    def rows(self, memory_ids: Sequence[str], deadline_s: float) -> dict[str, Row | None]:
        found = self._all(f"SELECT id, {_ROW} FROM km_memory WHERE id = ANY(%s)", (list(memory_ids),))
        read = {
            memory_id: rows.read_row(columns[0], columns[1], columns[2], memory_id) for memory_id, *columns in found
        }
        return {memory_id: read.get(memory_id) for memory_id in memory_ids}

    def page(self, query: Query, statuses: Sequence[MemoryStatus], limit: int, start: int | None) -> list[Row]:
        # Only where the status stands in the statement can an index of what is alive serve it.
        chosen = ", ".join(f"'{one.value}'" for one in statuses)
        conditions, values = (
            f"space = %s AND status IN ({chosen}) AND position < %s",
            [query.space, start or _BEHIND_ALL],
        )
        if query.types is not None:
            conditions, values = f"{conditions} AND type = ANY(%s)", [*values, [one.value for one in query.types]]
        if query.context_id is not None:
            conditions, values = f"{conditions} AND context_id = %s", [*values, query.context_id]
        statement = f"SELECT {_ROW} FROM km_memory WHERE {conditions} ORDER BY position DESC LIMIT %s"
        return rows.read_rows(self._all(statement, [*values, limit]))

    def changed(self, space: str, after: int, limit: int) -> list[tuple[int, Row | None]]:
        found = self._all(
            f"SELECT sequence, {_ROW} FROM km_memory WHERE space = %s AND sequence > %s ORDER BY sequence LIMIT %s",
            (space, after, limit),
        )
        return [(sequence, rows.read_row(*columns)) for sequence, *columns in found]

    def changed_since(self, space: str, after: int) -> int:
        counted = "SELECT count(*) FROM km_memory WHERE space = %s AND sequence > %s"
        return int(self._all(counted, (space, after))[0][0])

    def last_change(self, space: str) -> int:
        found = self._all("SELECT sequence FROM km_scope WHERE space = %s", (space,))
        return int(found[0][0]) if found else 0

    def size_bytes(self) -> int:
        return int(self._all("SELECT pg_database_size(current_database())", ())[0][0])

    def counted_spaces(self) -> Mapping[str, int]:
        return dict(self._all("SELECT space, live FROM km_scope WHERE live > 0", ()))


class _VectorRows:
    """What a hub uses of `ports.VectorRows`: no deadline cuts a statement short."""

    def __init__(self, fetch_all: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        self._all = fetch_all

    def made(
        self, embedder: str, space: str, after: int, limit: int, deadline_s: float = math.inf
    ) -> list[Vector] | None:
        if time.monotonic() >= deadline_s:
            return None
        found = self._all(
            "SELECT place, memory, revision, levels FROM km_vector "
            "WHERE space = %s AND embedder = %s AND place > %s ORDER BY place LIMIT %s",
            (space, embedder, after, limit),
        )
        return [Vector(*columns) for columns in found]

    def lacking(
        self, embedder: str, space: str, after: int, limit: int, deadline_s: float = math.inf
    ) -> list[Row] | None:
        found = self._all(
            f"SELECT {_ROW} FROM km_memory AS m WHERE space = %s AND status = 'live' AND position > %s AND NOT EXISTS "
            "(SELECT FROM km_vector WHERE memory = m.id AND embedder = %s) ORDER BY position LIMIT %s",
            (space, after, embedder, limit),
        )
        return rows.read_rows(found)
