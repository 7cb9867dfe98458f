"""Puts our session in the place of the SDK's on SQLite before its tests are read, each database file being a home."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import agents

from kingly_memory import SyncMemoryRouter
from kingly_memory.integrations.openai_agents import KinglySession


class Swapped(KinglySession):
    """`_locked_connection` lets the tests plant an item that is damaged: their statement, our table."""

    messages_table = "planted"

    def __init__(self, session_id: str, db_path: Any = None, *, session_settings: Any = None) -> None:
        self._home = Path(tempfile.mkdtemp()) if db_path is None else Path(db_path).with_suffix(".home")
        self._opened = SyncMemoryRouter.open(self._home, remote=False, project="tests")
        super().__init__(session_id, self._opened, session_settings=session_settings)

    def close(self) -> None:
        self._opened.close()

    @contextmanager
    def _locked_connection(self) -> Iterator[sqlite3.Connection]:
        self._opened.log(self.session_id).append([])  # else there may be no file yet
        with closing(sqlite3.connect(self._home / "store" / "cache.db")) as connection, connection:
            connection.executescript(
                "CREATE TEMP VIEW planted AS SELECT namespace AS session_id, value AS message_data FROM km_documents;"
                "CREATE TEMP TRIGGER plants INSTEAD OF INSERT ON planted BEGIN INSERT INTO km_documents "
                "SELECT 'tests', char(31) || new.session_id || char(31), coalesce(max(key), '') || '.', "
                "new.message_data, 0, 0, 0, NULL, NULL FROM km_documents; END"
            )
            yield connection
            ((damaged,),) = connection.execute("SELECT count(*) FROM km_documents WHERE value LIKE 'not valid json%'")
            assert damaged == 1


agents.SQLiteSession = Swapped
