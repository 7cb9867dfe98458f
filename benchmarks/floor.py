"""The floor: what raw sqlite3 costs for the same thing on the same disk in the same run."""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks.measure import by_words
from benchmarks.texts import FUNCTION_WORDS, Note
from kingly_memory import SyncMemoryRouter
from kingly_memory.adapters.local import sql

_SCHEMA = """
CREATE TABLE memory(id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(content, tokenize = 'porter unicode61');
"""
_SYNCHRONOUS = {"power": "FULL", "process": "NORMAL"}


class Floor:
    """One table in a WAL database at the given durability, and a plain full-text table beside it."""

    def __init__(self, file: Path, durability: Literal["power", "process"] = "power") -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
        self._connection.executescript(_SCHEMA)

    def insert(self, key: str, note: Note) -> None:
        """One row in one commit of its own."""
        self._connection.execute("INSERT INTO memory(id, body) VALUES (?, ?)", (key, _body(key, note)))

    def load(self, notes: Sequence[Note]) -> None:
        """Every note as a row and in the full-text table, in one commit; keys are `k0`, `k1`, …"""
        with self._connection:
            self._connection.execute("BEGIN")
            rows = [(f"k{number}", _body(f"k{number}", note)) for number, note in enumerate(notes)]
            self._connection.executemany("INSERT INTO memory(id, body) VALUES (?, ?)", rows)
            self._connection.executemany("INSERT INTO words(content) VALUES (?)", [(note.content,) for note in notes])

    def get(self, key: str) -> Any:
        (body,) = self._connection.execute("SELECT body FROM memory WHERE id = ?", (key,)).fetchone()
        return json.loads(body)

    def match(self, question: str) -> list[Any]:
        """The ten best by BM25 for any of the question's telling words."""
        words = sorted(set(question.strip("?").split()) - set(FUNCTION_WORDS))
        expression = " OR ".join(f'"{word}"' for word in words)
        statement = "SELECT content FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT 10"
        return self._connection.execute(statement, (expression,)).fetchall()

    def close(self) -> None:
        self._connection.close()


_Job = tuple[Note, asyncio.Future[None]]


class SameTables:
    """The least that could keep our promise: one writer thread that commits the rows of a store of ours, into the same
    tables, and then wakes the caller. Those that wait together share one commit."""

    def __init__(self, home: Path, durability: Literal["power", "process"] = "power") -> None:
        with SyncMemoryRouter.open(home, settings=by_words(durability=durability)) as memory:
            memory.store("so that the tables are there")
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, args=(home / "store" / "cache.db", durability))
        self._thread.start()

    async def store(self, _key: str, note: Note) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs.put((note, done))
        await done

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _write(self, file: Path, durability: Literal["power", "process"]) -> None:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
        while job := self._jobs.get():
            batch: list[_Job | None] = [job]
            while not self._jobs.empty():
                batch.append(self._jobs.get())
            due = [item for item in batch if item is not None]
            connection.execute("BEGIN IMMEDIATE")
            positions = [_insert(connection, note) for note, _ in due]
            connection.execute(sql.INDEX, (json.dumps(positions),))
            connection.execute(sql.COUNT, ("app", "semantic", len(due)))
            connection.executemany(sql.LEARN, {(len(w), w) for note, _ in due for w in note.content.lower().split()})
            connection.execute("COMMIT")
            due[0][1].get_loop().call_soon_threadsafe(_wake, [done for _, done in due])
            if None in batch:
                break
        connection.close()


def _insert(connection: sqlite3.Connection, note: Note) -> int:
    memory_id = str(uuid.uuid4())
    columns = (memory_id, "live", "app", None, "semantic", None, 1, 0.5, 0.0, 0.0, 0.0, 0, hash(note.content), "papp")
    position = int(connection.execute(sql.ADD_MEMORY, columns).lastrowid or 0)
    connection.execute(sql.WRITE_RECORD, (position, memory_id, 0.0, "live", _body(memory_id, note)))
    connection.execute(sql.NOTE, (memory_id, 1, "stored", 0.0))
    return position


def _wake(waiting: Sequence[asyncio.Future[None]]) -> None:
    for done in waiting:
        done.set_result(None)


def _body(key: str, note: Note) -> str:
    record = {"key": key, "content": note.content, "tags": note.tags, "said_at": note.said_at.isoformat()}
    return json.dumps(record, ensure_ascii=False)
