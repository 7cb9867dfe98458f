"""The floor: what raw sqlite3 costs for the same thing on the same disk in the same run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks.texts import FUNCTION_WORDS, Note

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


def _body(key: str, note: Note) -> str:
    record = {"key": key, "content": note.content, "tags": note.tags, "said_at": note.said_at.isoformat()}
    return json.dumps(record, ensure_ascii=False)
