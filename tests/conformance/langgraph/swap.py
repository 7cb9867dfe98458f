"""Puts our stores in the place of LangGraph's on SQLite before its tests are read, each over a new home."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from langgraph.store import sqlite
from langgraph.store.sqlite import aio

from kingly_memory.integrations.langgraph import AsyncKinglyStore, KinglyStore


class Swapped:
    @staticmethod
    @contextmanager
    def from_conn_string(conn_string: str, **chosen: Any) -> Iterator[KinglyStore]:
        """Where theirs has a file, or none at all, ours has a folder."""
        with tempfile.TemporaryDirectory() as home, KinglyStore.from_conn_string(f"{home}/home", **chosen) as store:
            yield store


class AsyncSwapped:
    @staticmethod
    @asynccontextmanager
    async def from_conn_string(conn_string: str, **chosen: Any) -> AsyncIterator[AsyncKinglyStore]:
        with tempfile.TemporaryDirectory() as home:
            async with AsyncKinglyStore.from_conn_string(f"{home}/home", **chosen) as store:
                yield store


sqlite.SqliteStore = Swapped
sqlite.AsyncSqliteStore = aio.AsyncSqliteStore = AsyncSwapped
