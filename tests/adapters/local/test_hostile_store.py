"""A store that somebody else prepared: opening it runs no code, and reads and deletes nothing outside it."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.local import sql
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import StoreBusy, StoreTooNew, StoreTooOld, StoreUntrusted
from kingly_memory.models import MemoryStatus
from kingly_memory.router.search.local import LocalSearch
from tests.store_samples import (
    NOON_S,
    ask,
    behind,
    behind_triggers,
    check_integrity,
    elsewhere,
    memory,
    number_layout,
    opened,
    put,
    set_facet,
    stored_contents,
)

KEY = "m:01900000-0000-7000-8000-000000000000"
ID = KEY[2:]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one memory in it, closed."""
    home = tmp_path / "homes" / "home"
    store = DiskStore(home, durability="process")
    put(store, memory("violet", key="k"))
    store.close()
    return home


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def use_everything(store: DiskStore) -> None:
    """Read, search, store over, change and erase, as a router would."""
    reader = store.reader
    reader.row(ID)
    reader.facets("lifetime", [ID])
    reader.page(ask(), tuple(MemoryStatus), 100, None)
    LocalSearch(reader).search(ask("violet bomb"), now_s=NOON_S, budget_s=60)
    store.write(lambda tx: (tx.row(ID), tx.facet("usage", ID), tx.owners("usage"))).result()
    reader.expired(NOON_S, 100)
    set_facet(store, "usage", ID, {"accesses": 1})
    set_facet(store, "usage", ID, None)
    put(store, memory("bomb", id=ID))
    store.write(lambda tx: tx.erase(ID)).result()


# --- rows ---------------------------------------------------------------------------------------------------------


Planted = tuple[object, int, int, str | None, object]
"""Key, raw, mode, file name and value of a row of diskcache's table."""


def plant(home: Path, row: Planted) -> None:
    with behind_triggers(home) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO Cache(key, raw, mode, filename, value, store_time, access_time, size, tag)"
            " VALUES (?, ?, ?, ?, ?, 0, 0, 0, 'live')",
            row,
        )


@pytest.mark.parametrize("key", [KEY, f"usage:{ID}"])
@pytest.mark.parametrize("kind", ["value", "file", "key", "outside"])
def test_planted_pickles_and_file_names_do_nothing(home: Path, key: str, kind: str) -> None:
    trap, secret = home.parent / "ran", home.parent / "secret.txt"
    secret.write_text("hunter2")
    bomb = pickle.dumps(Bomb(trap))
    (home / "store" / "planted.val").write_bytes(bomb)
    rows: dict[str, Planted] = {
        "value": (key, 1, 4, None, bomb),
        "file": (key, 1, 4, "planted.val", None),
        "key": (pickle.dumps(Bomb(trap)), 0, 1, None, "{}"),
        "outside": (key, 1, 3, "../../secret.txt", None),
    }
    plant(home, rows[kind])
    store = opened(home)
    use_everything(store)
    assert stored_contents(store) == ["violet"]
    store.close()
    assert not trap.exists()
    assert secret.read_text() == "hunter2"
    assert [path.read_bytes() for path in home.rglob("planted.val")] == [bomb]


@pytest.mark.parametrize("tag", [None, 7, b"\x80\x04", "", "Live", "live p0", "v" * 10_000])
def test_row_with_a_planted_tag_stands_in_nobodys_way(home: Path, tag: object) -> None:
    with behind_triggers(home) as connection:
        connection.execute("UPDATE Cache SET tag = ? WHERE key LIKE 'm:%'", (tag,))
    store = opened(home)
    use_everything(store)
    assert store.reader.row(ID) is None


# --- objects and settings -----------------------------------------------------------------------------------------

OBJECTS = [
    "CREATE TRIGGER planted AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END",
    "CREATE TRIGGER km_extra AFTER UPDATE ON Cache BEGIN DELETE FROM Cache; END",
    "CREATE VIEW planted AS SELECT * FROM Cache",
    "CREATE TABLE planted(x)",
    "CREATE TABLE km_text_planted(x)",
    "CREATE INDEX planted ON Cache(abs(rowid))",
    "CREATE VIRTUAL TABLE planted USING fts5(x)",
    "CREATE VIRTUAL TABLE km_pieces2 USING fts5(x)",
    "CREATE TRIGGER km_text AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END",
    "DROP INDEX km_outbox; CREATE INDEX km_outbox ON Cache(abs(rowid))",
    "ALTER TABLE Cache ADD COLUMN planted DEFAULT 1",
]


@pytest.mark.parametrize("statements", OBJECTS)
def test_planted_object_is_refused_before_anything_runs(home: Path, statements: str) -> None:
    with behind(home) as connection:
        connection.executescript(statements)
    before = (home / "store" / "cache.db").read_bytes()
    store = opened(home)
    with pytest.raises(StoreUntrusted, match="did not make"):
        stored_contents(store)
    with pytest.raises(StoreUntrusted, match="did not make"):
        put(store, memory())
    store.close()
    assert (home / "store" / "cache.db").read_bytes() == before


@pytest.mark.parametrize("statements", OBJECTS[:4])
def test_object_that_is_planted_while_we_are_at_work_is_refused(home: Path, statements: str) -> None:
    store = opened(home)
    put(store, memory("before"))
    with behind(home) as connection:
        connection.executescript(statements)
    with pytest.raises(StoreUntrusted, match="did not make"):
        put(store, memory("after"))
    with behind(home) as connection:
        assert connection.execute("SELECT count(*) FROM Cache WHERE key LIKE 'm:%'").fetchone() == (2,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_directory", "/tmp/elsewhere"),
        ("_disk", "x"),
        ("eviction_policy", "least-recently-stored"),
        ("cull_limit", 10),
        ("size_limit", 1),
        ("disk_min_file_size", 1),
        ("sqlite_mmap_size", 2**26),
        ("sqlite_journal_mode", "delete"),
        ("sqlite_synchronous", 0),
        ("sqlite_synchronous", "1; ATTACH '/tmp/x' AS x"),
        ("sqlite_writable_schema", 1),
        ("statistics", 1),
    ],
)
def test_changed_setting_is_refused(home: Path, name: str, value: object) -> None:
    with behind(home) as connection:
        connection.execute("INSERT OR REPLACE INTO Settings VALUES (?, ?)", (name, value))
    store = opened(home)
    with pytest.raises(StoreUntrusted, match=name):
        stored_contents(store)
    with pytest.raises(StoreUntrusted, match=name):
        put(store, memory())


def test_store_that_diskcache_was_opened_on_with_its_defaults_stays_ours(home: Path) -> None:
    from diskcache import Cache

    Cache(str(home / "store")).close()
    store = opened(home)
    put(store, memory("after"))
    assert stored_contents(store) == ["violet", "after"]
    store.close()
    check_integrity(home)


# --- layouts ------------------------------------------------------------------------------------------------------


def newer(home: Path) -> None:
    with behind(home) as connection:
        connection.execute("CREATE TABLE km_tomorrow(x)")
        number_layout(connection, sql.LAYOUT + 1)


def test_newer_store_is_read_but_not_written_to(home: Path) -> None:
    newer(home)
    store = opened(home)
    assert stored_contents(store) == ["violet"]
    with pytest.raises(StoreTooNew, match=f"layout {sql.LAYOUT + 1}, this version knows {sql.LAYOUT}"):
        put(store, memory())
    assert stored_contents(store) == ["violet"]


@pytest.mark.parametrize("read", [stored_contents, lambda store: put(store, memory())])
def test_a_store_of_an_earlier_layout_is_not_opened(home: Path, read: Callable[[DiskStore], object]) -> None:
    with behind(home) as connection:
        number_layout(connection, sql.LAYOUT - 1)
    store = opened(home)
    with pytest.raises(StoreTooOld, match=f"layout {sql.LAYOUT - 1}, and this version reads layout {sql.LAYOUT}"):
        read(store)


def test_newer_number_does_not_excuse_another_table_of_rows(home: Path) -> None:
    with behind(home) as connection:
        connection.execute("ALTER TABLE Cache ADD COLUMN planted DEFAULT 1")
        number_layout(connection, sql.LAYOUT + 1)
    with pytest.raises(StoreUntrusted):
        stored_contents(opened(home))


@pytest.mark.requirement("UNI-011")
def test_older_process_stops_writing_when_a_newer_one_has_migrated_the_store(home: Path) -> None:
    store = opened(home)
    put(store, memory("before"))
    newer(home)
    for _ in range(2):
        with pytest.raises(StoreTooNew):
            put(store, memory("after"))
    assert stored_contents(store) == ["violet", "before"]


# --- locks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [False, True])
def test_lock_that_another_program_holds_costs_the_wait_we_agreed_to(home: Path, begun: bool) -> None:
    store = opened(home)
    if begun:
        put(store, memory("before"))
    with behind(home) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match=r"stayed locked by another process for 0\.2 s"):
            put(store, memory("during"))
        assert "violet" in stored_contents(store)
        connection.execute("ROLLBACK")
    put(store, memory("after"))
    assert stored_contents(store)[-1] == "after"


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../../x", "/abs", "..", "a\0b", "$HOME", "~root", "x" * 300, "CON", "a:b", "\u202eevil", "'; DROP TABLE"]
)
def test_no_name_a_caller_gives_becomes_a_path(home: Path, name: str) -> None:
    def files() -> set[str]:
        return {str(path) for path in home.parents[1].rglob("*") if not path.name.endswith(("-wal", "-shm"))}

    before = files()
    store = opened(home)
    one = memory("named", project=name, key=name, agent=name, context_id=name, tags=(name,), title=name)
    put(store, one)
    set_facet(store, "usage", one.id, {"accesses": 1})
    assert stored_contents(store, name) == ["named"]
    assert store.reader.id_of_key(name, name) == one.id
    store.close()
    assert files() == before


def test_planted_database_is_read_by_a_fresh_process_too(home: Path) -> None:
    with behind(home) as connection:
        connection.executescript(OBJECTS[0])
    script = "\n".join(
        [
            "from kingly_memory.errors import StoreUntrusted",
            "try: answer = stored_contents(store)",
            "except StoreUntrusted: answer = 'refused'",
        ]
    )
    assert elsewhere(script, home) == "refused"


def test_sqlite_extensions_cannot_be_loaded_from_a_store(home: Path) -> None:
    store = opened(home)
    stored_contents(store)
    opened_now = store._connections._taken()
    assert opened_now is not None
    with pytest.raises(sqlite3.OperationalError, match="not authorized"):
        opened_now.connection.execute("SELECT load_extension('x')")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        opened_now.connection.execute("DELETE FROM Cache")
    opened_now.connection.close()
