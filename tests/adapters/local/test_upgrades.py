"""A store of an earlier layout is upgraded, wherever the process is killed. Two steps made up here show it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.local import backup, encryption, keys, safety, sql, sqlite, upgrades
from kingly_memory.adapters.local.engine import Engine
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import StoreTooNew, StoreUntrusted
from tests.store_samples import behind, check_integrity, memory, number_layout, put, stored_contents

OLD = upgrades.FIRST
SAID = [f"memory number {number}" for number in range(5)]
MOODS = {
    "km_mood": "CREATE TABLE km_mood(memory TEXT, mood TEXT)",
    "km_mood_of": "CREATE UNIQUE INDEX km_mood_of ON km_mood(memory)",
}
Use = Callable[[DiskStore], object]


def add_letters(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE km_memory ADD COLUMN letters INTEGER")
    connection.execute("UPDATE km_memory SET letters = length(id)")


def add_moods(connection: sqlite3.Connection) -> None:
    for statement in MOODS.values():
        connection.execute(statement)
    connection.execute("INSERT INTO km_mood SELECT id, 'calm' FROM km_memory")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the first layout with memories in it, in a version that has two steps more."""
    monkeypatch.setattr(sql, "LAYOUT", OLD)
    monkeypatch.setattr(upgrades, "STEPS", ())
    home = tmp_path / "home"
    fill(home)
    told = sql.SCHEMA["km_memory"]
    monkeypatch.setattr(sql, "SCHEMA", sql.SCHEMA | {"km_memory": f"{told[:-1]}, letters INTEGER)"} | MOODS)
    monkeypatch.setattr(sql, "LAYOUT", OLD + 2)
    first = upgrades.Step({"km_memory": told}, add_letters)
    monkeypatch.setattr(upgrades, "STEPS", (first, upgrades.Step(dict.fromkeys(MOODS), add_moods)))
    return home


def fill(home: Path) -> None:
    store = DiskStore(home, durability="process")
    put(store, *(memory(said) for said in SAID))
    store.close()


def used(home: Path, use: Use) -> object:
    store = DiskStore(home, durability="process", lock_wait_s=5)
    try:
        return use(store)
    finally:
        store.close()


def on_disk(home: Path) -> tuple[int, Mapping[str, str]]:
    """The layout's number, and the statements of our own objects that belong to no text index."""
    with closing(sqlite.connect(home / "store" / "cache.db")) as connection:
        found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name LIKE 'km%'"))
        return safety.layout_of(connection), {name: said for name, said in found.items() if "'km_" not in said[:20]}


def is_upgraded(home: Path) -> bool:
    with closing(sqlite.connect(home / "store" / "cache.db")) as connection:
        filled = connection.execute(
            "SELECT count(*) FROM km_memory JOIN km_mood ON memory = id WHERE letters = 36 AND mood = 'calm'"
        ).fetchone()
    return on_disk(home) == (OLD + 2, sql.SCHEMA) and filled == (len(SAID),)


def in_child(work: Callable[[], object]) -> int:
    """Do that in a forked process. Returns its number."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    return child


def commit(home: Path) -> None:
    engine = Engine(Folder(home), synchronous=sql.SYNCHRONOUS["process"], lock_wait_s=5)
    engine.commit([lambda transaction: None])
    engine.close()
    os._exit(0)


def test_an_encrypted_home_is_upgraded_too(home: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sql, "LAYOUT", OLD)
        patched.setattr(sql, "SCHEMA", upgrades.schema(OLD))
        patched.setattr(upgrades, "STEPS", ())
        encryption.rewrite(home, keys.name_of(*keys.make(in_keyring=False)), 1)
    assert on_disk(home)[0] == OLD
    assert used(home, stored_contents) == SAID
    assert is_upgraded(home)


def test_encrypting_an_older_home_upgrades_it_first(home: Path) -> None:
    encryption.rewrite(home, keys.name_of(*keys.make(in_keyring=False)), 1)
    assert is_upgraded(home)
    assert used(home, stored_contents) == SAID


@pytest.mark.parametrize("use", [stored_contents, put])
def test_whoever_opens_an_older_store_first_upgrades_it(home: Path, use: Use) -> None:
    used(home, use)
    assert is_upgraded(home)
    assert used(home, stored_contents) == SAID
    check_integrity(home)


def test_killed_at_any_statement_a_store_has_one_layout_and_the_next_to_open_it_goes_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, seen, plain = (home / "store" / "cache.db").read_bytes(), set(), sqlite.connect
    for last in range(1_000):
        for path in (home / "store").glob("cache.db*"):
            path.unlink() if path.name != "cache.db" else path.write_bytes(whole)
        statements: list[str] = []

        def dying(*said: Any, at: int = last, statements: list[str] = statements, **options: Any) -> sqlite3.Connection:
            def count(statement: str) -> None:
                if statements or statement == "PRAGMA integrity_check(1)":  # with which an upgrade begins
                    statements.append(statement)
                if len(statements) > at and statements.count("COMMIT") < 3:
                    os._exit(9)

            connection = plain(*said, **options)
            connection.set_trace_callback(count)
            return connection

        with monkeypatch.context() as patched:
            patched.setattr(sqlite, "connect", dying)
            _, status = os.waitpid(in_child(lambda: commit(home)), 0)
        layout, objects = on_disk(home)
        assert objects == upgrades.schema(layout)
        seen.add(layout)
        assert used(home, stored_contents) == SAID
        assert is_upgraded(home)
        if os.waitstatus_to_exitcode(status) == 0:
            break
        assert os.waitstatus_to_exitcode(status) == 9
    assert seen == {OLD, OLD + 1, OLD + 2}
    assert last > 15
    check_integrity(home)


def test_processes_that_open_an_older_store_at_once_upgrade_it_once(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counting(step: upgrades.Step) -> upgrades.Step:
        def run(connection: sqlite3.Connection) -> None:
            with (tmp_path / "runs").open("a") as file:
                file.write("x")
            step.run(connection)

        return step._replace(run=run)

    monkeypatch.setattr(upgrades, "STEPS", tuple(counting(step) for step in upgrades.STEPS))
    children = [in_child(lambda: commit(home)) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert (tmp_path / "runs").read_text() == "xx"
    assert is_upgraded(home)


def test_a_step_that_leaves_something_else_is_undone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = upgrades.STEPS
    wrong = second._replace(run=lambda connection: connection.execute("CREATE TABLE km_mood(other)"))
    monkeypatch.setattr(upgrades, "STEPS", (first, wrong))
    with pytest.raises(StoreUntrusted, match="km_mood"):
        used(home, stored_contents)
    layout, objects = on_disk(home)
    assert (layout, objects) == (OLD + 1, upgrades.schema(OLD + 1))
    monkeypatch.setattr(upgrades, "STEPS", (first, second))
    assert used(home, stored_contents) == SAID


@pytest.mark.parametrize("use", [stored_contents, put])
@pytest.mark.parametrize(
    "planted",
    ["CREATE TRIGGER planted AFTER INSERT ON km_memory BEGIN DELETE FROM km_memory; END", *list(MOODS.values())[:1]],
)
def test_an_older_store_may_hold_only_what_its_own_layout_has(home: Path, planted: str, use: Use) -> None:
    with behind(home) as connection:
        connection.execute(planted)
    with pytest.raises(StoreUntrusted, match=r"planted|km_mood"):
        used(home, use)
    assert on_disk(home)[0] == OLD


def test_a_newer_store_is_still_not_written_to(home: Path) -> None:
    with behind(home) as connection:
        number_layout(connection, OLD + 3)
    with pytest.raises(StoreTooNew):
        used(home, put)


def test_an_older_store_that_is_damaged_is_salvaged_and_not_upgraded(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with behind(home) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'km_memory_said'").fetchone()
    with (home / "store" / "cache.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    monkeypatch.setattr(upgrades, "run_next", lambda *_: pytest.fail("upgraded"))
    assert used(home, stored_contents) == SAID
    assert on_disk(home) == (OLD + 2, sql.SCHEMA)
    assert len(list(home.glob("store.corrupt-*"))) == 1


def test_an_older_backup_is_taken_and_upgraded(home: Path, tmp_path: Path) -> None:
    backup.create(home, tmp_path / "older")
    backup.restore(tmp_path / "other", tmp_path / "older", replace=False, lock_wait_s=1)
    assert on_disk(tmp_path / "other")[0] == OLD
    assert used(tmp_path / "other", stored_contents) == SAID
    assert is_upgraded(tmp_path / "other")
