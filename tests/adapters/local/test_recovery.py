"""A damaged store never stops a start: what still reads is saved, the damaged files are kept, and it is said aloud."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.local import recovery, sql
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.engine import Engine
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.adapters.local.safety import Malformed, failure
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.adapters.local.trusted import is_trusted
from kingly_memory.errors import StoreBusy, StoreDamaged, StoreUnreadable, StoreUntrusted, StoreUnwritable
from kingly_memory.models import MemoryStatus
from kingly_memory.ports import HOME, INCARNATION
from tests.store_samples import (
    ask,
    behind,
    behind_triggers,
    check_integrity,
    contents,
    elsewhere,
    match,
    memory,
    opened,
    put,
    set_facet,
    stored_contents,
)

pytestmark = pytest.mark.requirement("UNI-010")
PAGE = 4_096
HELD = 400


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose store holds memories with keys and facets, closed."""
    home = tmp_path_factory.mktemp("sound") / "home"
    store = DiskStore(home, durability="process")
    put(store, *(memory(f"note {number} " + "x" * 200, key=f"key {number}") for number in range(HELD)))
    put(store, memory("forgotten"), status=MemoryStatus.FORGOTTEN)
    set_facet(store, "usage", "somebody", {"accesses": 3})
    store.close()
    return home


@pytest.fixture
def home(sound: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    return Path(shutil.copytree(sound, tmp_path / "home"))


def database(home: Path) -> Path:
    return home / "store" / "cache.db"


def overwrite(home: Path, at: int, data: bytes) -> None:
    with database(home).open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_home_whose_making_was_cut_off_is_made_again_and_is_ours(tmp_path: Path) -> None:
    """SQLite would roll such a file back, and refuses to do so for whoever only reads."""
    unfinished = tmp_path / "cache.db"
    connection = sqlite3.connect(unfinished, isolation_level=None)
    connection.execute("CREATE TABLE Settings (key TEXT)")
    connection.execute("PRAGMA cache_size = 1")  # so that the change is in the file before it is committed
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO Settings VALUES (?)", [("x" * 3000,)] * 20)
    (tmp_path / "home" / "store").mkdir(mode=0o700, parents=True)
    for name in ("cache.db", "cache.db-journal"):
        shutil.copy(tmp_path / name, tmp_path / "home" / "store" / name)
    connection.close()
    store = opened(tmp_path / "home")
    put(store, memory("the first"))
    assert stored_contents(store) == ["the first"]
    assert is_trusted(Folder(tmp_path / "home"))
    assert (Path(str(store.recovered())) / "cache.db-journal").exists()


def garbage(home: Path) -> None:
    database(home).write_bytes(random.Random(1).randbytes(100_000))


def short(home: Path) -> None:
    database(home).write_bytes(b"hello")


def half(home: Path) -> None:
    os.truncate(database(home), database(home).stat().st_size // 2 // PAGE * PAGE)


def header(home: Path) -> None:
    overwrite(home, 0, b"\xff" * 100)


def first_page(home: Path) -> None:
    overwrite(home, 0, b"\xff" * PAGE)


def zeroed(home: Path) -> None:
    overwrite(home, 0, bytes(PAGE))


def pages(home: Path) -> None:
    """Every sixth page, beginning behind the list of tables."""
    for number in range(20, database(home).stat().st_size // PAGE, 6):
        overwrite(home, number * PAGE, b"\x5a" * PAGE)


def index_pages(home: Path) -> None:
    """The text index alone: the memories are whole."""
    with behind(home) as connection:
        connection.execute("UPDATE km_text_data SET block = x'0102030405060708' WHERE id > 10")


DAMAGES = [garbage, short, half, header, first_page, zeroed, pages, index_pages]
Damage = Callable[[Path], None]


def loudly(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "has been replaced" in record.getMessage()]


def every_read(store: DiskStore) -> None:
    """Touch every page: damage is met when it is read."""
    stored_contents(store)
    match(store, "note", limit=HELD)
    store.reader.facets("usage", ["somebody"])


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize("writes", [False, True], ids=["read", "write"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_that_is_read_or_written_to_is_recovered(
    home: Path, damage: Damage, writes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    damage(home)
    store = opened(home)
    if not writes:
        every_read(store)
    put(store, *(memory(f"afterwards {number}") for number in range(50)))
    every_read(store)
    assert stored_contents(store)[-1] == "afterwards 49"
    (quarantined,) = home.glob("store.corrupt-*")
    assert store.recovered() == str(quarantined)
    store.close()
    (said,) = loudly(caplog)
    assert str(quarantined) in said
    assert "memories" in said
    assert not (home / "store.salvaged").exists()
    assert opened(home).recovered() == str(quarantined)
    check_integrity(home)


def test_memories_on_sound_pages_are_saved_whole_and_in_order(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = opened(home)
    kept = {row.memory.id: row for row in before.reader.page(ask(), tuple(MemoryStatus), 1_000, None)}
    before.close()
    pages(home)
    store = opened(home)
    every_read(store)
    after = store.reader.page(ask(), tuple(MemoryStatus), 1_000, None)
    assert HELD / 3 < len(after) < HELD
    assert all((row.memory, row.status) == (kept[row.memory.id].memory, kept[row.memory.id].status) for row in after)
    assert [row.memory.id for row in after] == sorted((row.memory.id for row in after), reverse=True)
    assert all(store.reader.id_of_key("alpha", row.memory.key) == row.memory.id for row in after if row.memory.key)
    assert f"{len(after)} memories" in loudly(caplog)[0]


def test_all_rows_beside_a_broken_page_are_saved_and_one_that_holds_an_earlier_page_is_read_once(home: Path) -> None:
    file = database(home).read_bytes()
    notes = {at: re.findall(rb'"content":"(note \d+) ', file[at : at + PAGE]) for at in range(0, len(file), PAGE)}
    of_memories = [at for at, found in notes.items() if found and file[at] == 0x0D]  # a leaf of a table
    first, _, torn, broken, *_ = of_memories
    overwrite(home, torn, file[first : first + PAGE])  # so that what is read there comes before what was read
    overwrite(home, broken, bytes(PAGE))
    store = opened(home)
    every_read(store)
    saved = [text.rstrip("x ").encode() for text in stored_contents(store)]
    assert sorted(saved) == sorted(note for at in of_memories if at not in (torn, broken) for note in notes[at])


@pytest.mark.parametrize("damage", [header, first_page, index_pages])
def test_nothing_is_lost_when_the_pages_of_memories_are_sound(home: Path, damage: Damage) -> None:
    damage(home)
    store = opened(home)
    found = store.reader.matches(ask(), ["note"], 1_000, 0, float("inf"))
    assert len(found.found) == len(stored_contents(store)) == HELD
    assert store.reader.facets("usage", ["somebody"]) == {"somebody": {"accesses": 3}}
    assert store.reader.page(ask(), (MemoryStatus.FORGOTTEN,), 10, None)[0].memory.content == "forgotten"


def test_forgotten_memories_stay_forgotten(home: Path) -> None:
    index_pages(home)
    store = opened(home)
    assert match(store, "forgotten").found == ()


# --- rows that are damaged alone ----------------------------------------------------------------------------------


def break_row(home: Path, store: DiskStore, text: str, value: str) -> None:
    """Close the store and damage the row that holds the text."""
    store.close()
    with behind_triggers(home) as connection:
        for table in ("Cache", "km_facet"):
            connection.execute(f"UPDATE {table} SET value = {value} WHERE value LIKE ?", (f"%{text}%",))  # noqa: S608


@pytest.mark.parametrize(
    "value",
    [
        "substr(value, 1, 80)",
        "'[1, 2]'",
        "'{}'",
        "''",
        "x'80049500'",
        "replace(value, '\"tags\":[]', '\"tags\":[7]')",
        'replace(value, \'"content":"\', \'"content":7,"c":"\')',
        "replace(value, '+00:00', '')",
        "CAST(replace(value, '\"type\"', x'22ffff22') AS TEXT)",
    ],
)
def test_row_that_is_no_memory_is_left_out_with_a_word_and_stops_nothing(
    tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(tmp_path)
    put(store, memory("good violet"), memory("canary violet", key="k"), memory("late violet"))
    break_row(tmp_path, store, "canary", value)
    store = opened(tmp_path)
    assert sorted(contents(match(store, "violet"))) == ["good violet", "late violet"]
    assert stored_contents(store) == ["good violet", "late violet"]
    broken = store.reader.id_of_key("alpha", "k")
    assert broken is not None
    assert store.reader.row(broken) is None
    assert store.write(lambda tx: tx.row(broken)).result() is None
    assert len(store.write(lambda tx: tx.undelivered("r" * 16, "alpha", 0.3, 10)).result()) == 2
    said = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert said
    assert "canary" not in "".join(said)


def test_storing_over_a_broken_row_recovers_the_rest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(tmp_path)
    one = memory("canary violet")
    put(store, memory("good violet"), one)
    break_row(tmp_path, store, "canary", "substr(value, 1, 80)")
    store = opened(tmp_path)
    put(store, replace(one, content="renewed violet", revision=2))
    assert stored_contents(store) == ["good violet", "renewed violet"]
    assert "1 row could not be read" in loudly(caplog)[0]
    assert "canary" not in caplog.text
    store.close()
    check_integrity(tmp_path)


def test_broken_facet_counts_as_missing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    set_facet(store, "usage", "a", {"accesses": 12_345})
    set_facet(store, "usage", "b", {"accesses": 1})
    break_row(tmp_path, store, "12345", "'{'")
    store = opened(tmp_path)
    assert store.reader.facets("usage", ["a", "b"]) == {"b": {"accesses": 1}}
    assert store.write(lambda tx: tx.facet("usage", "a")).result() is None


# --- other processes ----------------------------------------------------------------------------------------------


def test_process_that_had_the_damaged_store_open_goes_on_with_the_new_one(home: Path) -> None:
    store = opened(home)
    put(store, memory("before"))
    index_pages(home)
    assert elsewhere("match(store, 'note'); answer = bool(store.recovered())", home)
    put(store, memory("after"))
    assert stored_contents(store)[-2:] == ["before", "after"]
    assert elsewhere("answer = stored_contents(store)[-2:]", home) == ["before", "after"]


def test_only_one_of_two_processes_recovers(home: Path) -> None:
    garbage(home)
    first, second = opened(home), opened(home)
    put(first, memory("one"))
    assert stored_contents(second) == ["one"]
    put(second, memory("two"))
    assert stored_contents(first) == ["one", "two"]
    assert len(list(home.glob("store.corrupt-*"))) == 1


def test_recovery_waits_for_a_writer_and_then_gives_up_without_harm(home: Path) -> None:
    header(home)
    folder = Folder(home)
    store = opened(home)
    with locked(folder.write_lock, 1):
        with pytest.raises(StoreDamaged, match="not a database"):
            store.reader.row("x")
        with pytest.raises(StoreBusy):
            put(store, memory())
    assert not list(home.glob("store.corrupt-*"))
    put(store, memory("later"))
    assert stored_contents(store)[-1] == "later"


def test_store_that_fails_again_after_its_recovery_is_left_to_a_person(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(home)
    put(store, memory("before"))

    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("malformed JSON")

    monkeypatch.setattr(Engine, "_transact", broken)
    refilled = Counter(memory=HELD), dict[str, object]()
    monkeypatch.setattr(
        recovery, "_refill", lambda _, fresh: (shutil.copytree(home / "store", fresh.store), refilled)[1]
    )
    for _ in range(3):
        with pytest.raises(StoreDamaged, match="a row is no JSON"):
            put(store, memory())
    assert len(list(home.glob("store.corrupt-*"))) == 1
    monkeypatch.undo()
    put(store, memory("after"))


# --- interruptions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["_refill", "rename", "finish"])
def test_recovery_that_was_killed_is_finished_or_repeated(
    home: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_pages(home)
    folder = Folder(home)
    renames = iter({"_refill": [], "rename": [], "finish": [True]}[step])
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if not next(renames, False):
            raise KeyboardInterrupt
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    if step == "_refill":
        monkeypatch.setattr(recovery, "_copy", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        recovery.recover(folder, Malformed("", "broken", folder.inode()))
    monkeypatch.undo()
    store = opened(home)
    every_read(store)
    assert len(stored_contents(store)) == HELD
    put(store, memory("afterwards"))
    store.close()
    check_integrity(home)
    assert not (home / "store.salvaged").exists()
    assert len(list(home.glob("store.corrupt-*"))) == 1


def test_store_stays_as_it_is_when_the_new_one_cannot_be_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_pages(home)
    before = database(home).read_bytes()

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(recovery, "_copy", full)
    store = opened(home)
    with pytest.raises(StoreDamaged):
        match(store, "note")
    folder = Folder(home)
    with pytest.raises(StoreUnwritable, match="full"):
        recovery.recover(folder, Malformed("", "broken", folder.inode()))
    assert database(home).read_bytes() == before
    assert not folder.salvaged.store.exists()
    monkeypatch.undo()
    assert len(match(store, "note", limit=HELD).found) == HELD


def test_second_quarantine_of_a_second_gets_a_name_of_its_own(home: Path) -> None:
    folder = Folder(home)
    names = []
    for _ in range(3):
        header(home)
        recovery.recover(folder, Malformed("", "broken", folder.inode()))
        names.append(folder.quarantined)
    assert len(set(names)) == 3


# --- nothing where something was ----------------------------------------------------------------------------------


def emptied(home: Path) -> None:
    os.truncate(database(home), 0)


def removed(home: Path) -> None:
    database(home).unlink()


def folder_removed(home: Path) -> None:
    shutil.rmtree(home / "store")


def replaced(home: Path) -> None:
    """As if the WAL had been lost before anything was ever folded in."""
    for path in (home / "store").iterdir():
        path.unlink()
    with behind(home) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    database(home).chmod(0o600)


@pytest.mark.parametrize("loss", [removed, folder_removed, replaced])
def test_vanished_database_is_reported_and_not_taken_as_empty(home: Path, loss: Damage) -> None:
    store = opened(home)
    put(store, memory("before"))
    loss(home)
    with pytest.raises(StoreDamaged, match=r"missing or empty, although memories were kept here"):
        stored_contents(store)
    with pytest.raises(StoreDamaged, match=r"Restore the folder from a backup, or move it aside"):
        put(store, memory("lost"))
    with pytest.raises(StoreDamaged):
        stored_contents(opened(home))


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("does_write", [False, True], ids=["read", "write"])
def test_database_emptied_under_a_writer_is_called_that_and_what_its_log_holds_is_saved(
    tmp_path: Path, does_write: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(tmp_path)
    put(store, memory("said last"))
    emptied(tmp_path)
    if does_write:
        put(store, memory("afterwards"))
    assert "said last" in stored_contents(store)
    assert [line for line in loudly(caplog) if "its database was emptied" in line] == loudly(caplog) != []


def test_home_moved_aside_begins_anew_as_the_message_says(home: Path) -> None:
    emptied(home)
    with pytest.raises(StoreDamaged, match=str(home)):
        opened(home)
    home.rename(home.with_name("aside"))
    store = opened(home)
    put(store, memory("new"))
    assert stored_contents(store) == ["new"]


def test_database_without_the_wal_it_was_killed_with_is_said_to_have_lost_something(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = "put(store, memory('kept')); store.close(); store = DiskStore(Path(sys.argv[1]));"
    elsewhere(f"{script} put(store, memory('in the wal')); print('1', flush=True); os._exit(0)", tmp_path)
    (tmp_path / "store" / "cache.db-wal").unlink()
    store = opened(tmp_path)
    assert stored_contents(store) == ["kept"]
    put(store, memory("after"))
    assert "opens as it was 1 commit earlier" in caplog.text
    store.close()
    caplog.clear()
    again = opened(tmp_path)
    put(again, memory("again"))
    assert stored_contents(again) == ["kept", "after", "again"]
    assert "missing" not in caplog.text


@pytest.mark.requirement("A5")
def test_number_of_the_last_commit_never_falls_when_two_write(home: Path) -> None:
    first, second, sentinel = opened(home), opened(home), Folder(home).sentinel
    put(first, memory("first"))
    for number in range(3):
        put(second, memory(f"second {number}"))
    before = sentinel.read()
    first.write(lambda _: None).result()  # changes nothing
    assert sentinel.read() == before
    put(first, memory("first again"))
    assert before is not None
    assert sentinel.read() == before + 1


@pytest.mark.requirement("A5", "D7")
@pytest.mark.parametrize("at", [8, 16, 40, 5_000, 100_000])
def test_one_flipped_bit_in_the_wal_of_a_killed_writer_loses_nothing_that_reads(
    tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    says = "for n in range(30): put(store, memory(f'note {n}', key=f'key {n}'))"
    elsewhere(f"{says}\nprint('1', flush=True); os._exit(0)", home)
    wal = home / "store" / "cache.db-wal"
    content = bytearray(wal.read_bytes())
    content[at] ^= 4
    wal.write_bytes(content)
    store = opened(home)
    assert stored_contents(store) == [f"note {number}" for number in range(30)]
    store.close()
    assert "commits earlier" in caplog.text
    check_integrity(home)


@pytest.mark.requirement("A16")
@pytest.mark.parametrize("how", [shutil.rmtree, lambda home: home.rename(home.with_name("moved"))], ids=["rm", "mv"])
def test_home_that_is_deleted_or_moved_while_it_is_open_is_said_to_be_gone(
    home: Path, how: Callable[[Path], object]
) -> None:
    store = opened(home)
    put(store, memory("before"))
    how(home)
    for access in (stored_contents, lambda store: put(store, memory("lost"))):
        with pytest.raises(StoreDamaged, match="deleted or moved while it was open"):
            access(store)
    assert not home.exists()
    if home.with_name("moved").exists():
        home.with_name("moved").rename(home)
        put(store, memory("after"))
        assert stored_contents(store)[-2:] == ["before", "after"]


@pytest.mark.requirement("A17")
@pytest.mark.parametrize("at", [0, 16, 18, 19, 20, 28, 40, 47, 56, 60, 63, 68, 71, 92, 96])
def test_damaged_byte_of_the_header_is_called_damage(home: Path, at: int) -> None:
    before = database(home).read_bytes()
    overwrite(home, at, bytes([before[at] ^ 0x10]))
    store = opened(home)
    every_read(store)
    put(store, memory("afterwards"))
    assert len(stored_contents(store)) == HELD + 1


@pytest.mark.requirement("A5", "A17")
@pytest.mark.parametrize("does_write", [False, True], ids=["read", "write"])
@pytest.mark.parametrize(
    "statement",
    [b"CREATE TABLE Cache", sql.SCHEMA["km_memory"].encode(), sql.SCHEMA["km_text_source"].partition(",")[0].encode()],
    ids=["memories", "columns", "view"],
)
def test_damaged_statement_in_the_list_of_tables_is_damage_and_loses_nothing(
    home: Path, statement: bytes, does_write: bool, caplog: pytest.LogCaptureFixture
) -> None:
    at = database(home).read_bytes().index(statement) + len(statement)
    overwrite(home, at, bytes(64))
    store = opened(home)
    if does_write:
        put(store, memory("afterwards"))
    assert len(stored_contents(store)) == HELD + does_write
    assert len(loudly(caplog)) == 1
    store.close()
    check_integrity(home)


@pytest.mark.requirement("A7")
def test_wal_removed_under_two_writers_loses_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    mine, said = opened(home), ["first"]
    put(mine, memory("first"))
    theirs = opened(home)
    for number in range(3):
        put(theirs, memory(f"theirs {number}"))
        for name in ("cache.db-wal", "cache.db-shm"):
            (home / "store" / name).unlink(missing_ok=True)
        put(mine, memory(f"mine {number}"))
        said += [f"theirs {number}", f"mine {number}"]
        assert stored_contents(theirs) == said
    mine.close()
    theirs.close()
    assert elsewhere("answer = stored_contents(store)", home) == said
    check_integrity(home)


@pytest.mark.requirement("A7", "A11")
def test_store_whose_log_a_writer_still_has_is_replaced_by_nobody_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store = opened(home)
    put(store, memory("first"))
    for name in ("cache.db-wal", "cache.db-shm"):
        (home / "store" / name).unlink()
    asks = "try: answer = stored_contents(store)\nexcept Exception as error: answer = str(error)"
    assert "a process that still runs has it" in elsewhere(asks, home)
    store.close()
    assert elsewhere(asks, home) == ["first"]
    assert sorted(path.name for path in home.glob("store*")) == ["store"]
    assert is_trusted(Folder(home))


def test_foreign_table_in_a_damaged_file_is_not_salvaged_from(home: Path) -> None:
    with behind(home) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = sql || ' -- theirs' WHERE name = 'Cache'")
    folder = Folder(home)
    with pytest.raises(StoreUntrusted):
        recovery.recover(folder, Malformed("", "broken", folder.inode()))
    assert database(home).exists()


@pytest.mark.requirement("A17")
@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_CORRUPTFS])
def test_store_that_may_not_be_read_or_whose_disk_fails_is_said_to_be(home: Path, code: int) -> None:
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    denied = failure(error, str(home), None, 1.0, writing=False)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    failing = [failure(error, str(home), None, 1.0, writing=one) for one in (False, True)]
    assert isinstance(denied, StoreUnreadable)
    assert "chmod -R u+rwX" in str(denied)
    assert {type(one) for one in failing} == {StoreUnreadable}
    assert all("disk may be failing" in str(one) for one in failing)


@pytest.mark.requirement("A17")
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that gives EIO")
def test_store_whose_disk_does_not_give_it_is_said_to_be_unreadable_and_not_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def malformed(*_: object) -> None:
        """What SQLite says of such a page, too."""
        raise Malformed(str(home), "pages of it hold something else than was written", Folder(home).inode())

    store, real = opened(home), Path.open
    with monkeypatch.context() as failing:
        failing.setattr(Engine, "_transact", malformed)
        failing.setattr(Connections, "_ask", malformed)
        failing.setattr(
            Path,
            "open",
            lambda path, *how, **more: real(Path("/proc/self/mem") if path.name == "cache.db" else path, *how, **more),
        )
        for attempt in (lambda: put(store, memory()), lambda: stored_contents(store)):
            with pytest.raises(StoreUnreadable, match=r"Input/output error.*The disk may be failing"):
                attempt()
    assert not list(home.glob("store.corrupt-*"))
    assert len(stored_contents(store)) == HELD


@pytest.mark.requirement("A17")
@pytest.mark.parametrize(("where", "what"), [(Engine, "_transact"), (Connections, "_ask")])
def test_store_whose_disk_does_not_give_a_page_once_is_not_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch, where: type, what: str
) -> None:
    store, real, refusals = opened(home), getattr(where, what), [True]

    def once(*arguments: Any) -> Any:
        if refusals:
            refusals.clear()
            raise Malformed(str(home), "pages of it hold something else than was written", Folder(home).inode())
        return real(*arguments)

    monkeypatch.setattr(where, what, once)
    put(store, memory("later"))
    assert stored_contents(store)[-1] == "later"
    assert (refusals, list(home.glob("store.corrupt-*"))) == ([], [])


@pytest.mark.requirement("N5", "D2")
@pytest.mark.parametrize("damage", [header, first_page, zeroed])
def test_earlier_revisions_are_saved_under_a_new_incarnation(home: Path, damage: Damage) -> None:
    store = opened(home)
    first = memory("said first")
    put(store, first)
    put(store, replace(first, content="said next", revision=2))
    before = store.reader.facets(HOME, [INCARNATION])
    store.close()
    damage(home)
    store = opened(home)
    assert [one.content for one in store.reader.revisions(first.id)] == ["said first"]
    assert store.reader.row(first.id) is not None
    assert store.reader.facets(HOME, [INCARNATION]) != before
    assert store.reader.changes(0, 1)[0].what == "stored"
