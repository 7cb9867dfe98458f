"""Memories and questions for tests of the local layer, and a way to look behind it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kingly_memory.adapters.local import rows, sql
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.ids import new_id
from kingly_memory.models import Memory, MemoryStatus, MemoryType, Origin, Query, Scope
from kingly_memory.ports import Matches, Transaction
from kingly_memory.text.passages import searchable_passages

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_S = NOON.timestamp()
REMOTE = "0123456789abcdef"
ROOT = Path(__file__).parents[1]


def memory(content: str = "the kettle whistles", project: str = "alpha", **fields: Any) -> Memory:
    """A new memory; `agent` and `context_id` go into its scope."""
    scope = Scope(project, None, fields.pop("agent", None), fields.pop("context_id", None))
    plain = Memory(
        id=new_id(NOON),
        key=None,
        content=content,
        type=MemoryType.SEMANTIC,
        significance=0.5,
        confidence=0.5,
        tags=(),
        title=None,
        scope=scope,
        origin=Origin.AGENT,
        created_at=NOON,
        updated_at=NOON,
        revision=1,
    )
    return replace(plain, **fields)


def opened(home: Path, lock_wait_s: float = 0.2) -> DiskStore:
    return DiskStore(home, durability="process", lock_wait_s=lock_wait_s)


def saving(*memories: Memory, status: MemoryStatus = MemoryStatus.LIVE) -> Callable[[Transaction], None]:
    """A change that saves them."""

    def change(transaction: Transaction) -> None:
        for one in memories:
            transaction.save(one, status)

    return change


def put(store: DiskStore, *memories: Memory, status: MemoryStatus = MemoryStatus.LIVE) -> None:
    """Save them in one change, and wait for the commit."""
    store.write(saving(*memories, status=status)).result()


def set_facet(store: DiskStore, name: str, owner: str, value: dict[str, Any] | None) -> None:
    store.write(lambda tx: tx.set_facet(name, owner, value)).result()


def ask(text: str = "", project: str = "alpha", **filters: Any) -> Query:
    return Query(text, project, **filters)


def soon() -> float:
    """A deadline that no test reaches."""
    return time.monotonic() + 60


def match(store: DiskStore, *terms: str, project: str = "alpha", limit: int = 50, **filters: Any) -> Matches:
    return store.reader.matches(ask(project=project, **filters), terms, limit, 0, soon())


def contents(matches: Matches) -> list[str]:
    return [one.row.memory.content for one in matches.found]


def stored_contents(store: DiskStore, project: str = "alpha") -> list[str]:
    """What the project holds, the oldest first."""
    page = store.reader.page(ask(project=project), (MemoryStatus.LIVE,), 1_000, None)
    return [row.memory.content for row in reversed(page)]


@contextmanager
def behind(home: Path) -> Iterator[sqlite3.Connection]:
    """The database behind the store's back, as another program would open it."""
    with closing(sqlite3.connect(home / "store" / "cache.db", isolation_level=None)) as connection:
        yield connection


@contextmanager
def behind_triggers(home: Path) -> Iterator[sqlite3.Connection]:
    """`behind`, without the triggers noticing: as a broken disk would write, or somebody who knows the format."""
    with behind(home) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, statement in triggers:
            connection.execute(statement)


def number_layout(connection: sqlite3.Connection, layout: int) -> None:
    """As another version would have written it."""
    for statement in sql.numbered(layout):
        connection.execute(statement)


def check_integrity(home: Path) -> None:
    """Raise unless the tables are sound, and the indexes and counts hold exactly what the rows say."""
    with behind(home) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO km_text(km_text, rank) VALUES ('integrity-check', 1)")
        connection.execute("INSERT INTO km_pieces(km_pieces, rank) VALUES ('integrity-check', 1)")
        connection.execute("INSERT INTO km_passages(km_passages) VALUES ('integrity-check')")
        found = connection.execute(
            "SELECT position, value, 'v' || status || ' ' || scope FROM Cache "
            "JOIN km_memory ON position = Cache.rowid WHERE 'm:' || id = Cache.key AND status = tag"
        )
        cut = {
            (rows.passage_row(at, number), text, scope, begin)
            for at, record, scope in found
            for content in [json.loads(record)["content"]]
            for number, (begin, text) in enumerate(searchable_passages(content.replace("\0", " ")))
        }
        assert set(connection.execute("SELECT rowid, body, scope, start FROM km_passages")) == cut
        there = connection.execute("SELECT space, type, status FROM km_memory").fetchall()
        counted = Counter(which for one in there if (which := rows.counted_as(*one)) is not None)
        assert connection.execute("SELECT count(*) FROM Cache WHERE raw = 1 AND key LIKE 'm:%'").fetchone() == (
            len(there),
        )
        kept = connection.execute("SELECT * FROM km_counts WHERE memories <> 0").fetchall()
        assert {(project, name): number for project, name, number in kept} == counted


def elsewhere(script: str, home: Path, *arguments: str) -> Any:
    """What the script leaves in `answer`, run in a new process with `store` open on that home."""
    lines = [
        "import json, sys",
        "from pathlib import Path",
        "from tests.store_samples import *",
        "store = DiskStore(Path(sys.argv[1]), durability='process', lock_wait_s=0.3)",
        script,
        "store.close()",
        "print(json.dumps(answer))",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "\n".join(lines), str(home), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
