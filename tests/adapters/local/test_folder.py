"""The store's folder: who may own it, who can read it, one writer at a time, and what a fork inherits."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from zlib import crc32

import pytest

from kingly_memory.adapters.local.folder import Folder, locked, try_lock
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import StoreBusy, StoreError, StoreUntrusted, StoreUnwritable
from tests.store_samples import check_integrity, elsewhere, memory, opened, put, stored_contents

NOBODY = 65_534
forking = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
"""Python 3.12 warns of what these tests are about."""


@pytest.fixture
def founded(home: Path) -> Path:
    """A home that holds one memory, closed."""
    store = DiskStore(home, durability="process")
    put(store, memory("violet"))
    store.close()
    return home


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0)
    yield os.umask
    os.umask(before)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


# --- modes and owners ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0, 0o022])
def test_everything_is_for_the_owner_alone(home: Path, umask: Callable[[int], int], mask: int) -> None:
    umask(mask)
    store = opened(home)
    put(store, memory())
    stored_contents(store)
    assert {mode(path) for path in (home, home / "store")} == {"0o700"}
    files = [path for path in home.rglob("*") if path.is_file()]
    assert len(files) == 6
    assert {mode(path) for path in files} == {"0o600"}


@pytest.mark.parametrize("name", ["store", "store/cache.db"])
@pytest.mark.parametrize("open_to", [0o020, 0o002])
def test_folder_or_file_that_others_may_write_to_is_refused(founded: Path, name: str, open_to: int) -> None:
    path = founded / name
    path.chmod(path.stat().st_mode | open_to)
    store = opened(founded)
    with pytest.raises(StoreUntrusted, match=r"other users may write to it \(run `chmod go-w`"):
        stored_contents(store)
    with pytest.raises(StoreUntrusted):
        put(store, memory())
    path.chmod(path.stat().st_mode & ~0o022)
    assert stored_contents(store) == ["violet"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["store", "store/cache.db"])
def test_folder_or_file_of_another_user_is_refused(founded: Path, name: str) -> None:
    os.chown(founded / name, NOBODY, NOBODY)
    store = opened(founded)
    with pytest.raises(StoreUntrusted, match="belongs to another user"):
        stored_contents(store)
    with pytest.raises(StoreUntrusted, match="belongs to another user"):
        put(store, memory())


def linked(path: Path, target: Path) -> None:
    target.parent.mkdir()
    path.rename(target)
    path.symlink_to(target)


def linked_to_nothing(path: Path, target: Path) -> None:
    path.rename(target)
    path.symlink_to(target.parent / "nothing")


def fifo(path: Path, target: Path) -> None:
    path.rename(target)
    os.mkfifo(path)


@pytest.mark.parametrize("replaced", [linked, linked_to_nothing, fifo])
@pytest.mark.parametrize("name", ["store", "store/cache.db", "sentinel"])
def test_link_or_special_file_is_refused_without_being_opened(
    founded: Path, name: str, replaced: Callable[[Path, Path], None]
) -> None:
    target = founded.parent / "away" / "target" if replaced is linked else founded.parent / "target"
    replaced(founded / name, target)
    before = {path: path.stat().st_mtime_ns for path in founded.parent.rglob("*") if path.is_file()}
    attempts: list[Callable[[DiskStore], object]] = [stored_contents, lambda store: put(store, memory())]
    for attempt in attempts:
        with (
            pytest.raises(StoreUntrusted, match=r"symbolic link|is no (folder|regular file)"),
            closing(opened(founded)) as store,
        ):
            attempt(store)
    after = {path: path.stat().st_mtime_ns for path in founded.parent.rglob("*") if path.is_file()}
    assert {path: after.get(path) for path in before} == before
    assert set(after) - set(before) <= {founded / "write.lock"}


@pytest.mark.parametrize("name", ["write.lock", "sentinel"])
def test_link_in_place_of_our_notes_is_not_followed(home: Path, name: str) -> None:
    home.mkdir()
    victim = home.parent / "victim"
    victim.write_text("precious")
    (home / name).symlink_to(victim)
    with pytest.raises(StoreError), closing(opened(home)) as store:
        put(store, memory())
    assert victim.read_text() == "precious"


def test_sentinel_is_neither_read_through_a_link_nor_waited_for_in_a_pipe_nor_read_whole(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.mkdir()
    folder = Folder(home)
    sentinel = folder.sentinel
    sentinel.path.symlink_to("/dev/zero")
    assert sentinel.read() is None
    sentinel.path.unlink()
    os.mkfifo(sentinel.path)
    assert sentinel.read() is None
    sentinel.path.unlink()
    assert sentinel.before_commit() is None
    sentinel.write(11)
    assert (sentinel.read(), sentinel.before_commit()) == (11, 11)
    sentinel.write(12)
    assert sentinel.read() == 12
    sentinel.path.write_bytes(sentinel.path.read_bytes() * 10_000)
    assert sentinel.read() == 12
    assert not caplog.records
    sentinel.path.write_bytes(b"0" * 26)
    assert sentinel.read() is None
    assert "made anew" in caplog.text
    sentinel.close()


@pytest.mark.requirement("A5")
@pytest.mark.parametrize("number", [2**63 - 1, 2**64 - 1])
def test_sentinel_with_a_number_that_no_home_reaches_stops_nothing(home: Path, number: int) -> None:
    store = opened(home)
    put(store, memory("before"))
    digits = b"%016x" % number
    Folder(home).sentinel.path.write_bytes(b"%s %08x\n" % (digits, crc32(digits)))
    assert stored_contents(opened(home)) == ["before"]
    put(store, memory("after"))
    assert Folder(home).sentinel.read() is not None
    store.close()
    assert stored_contents(opened(home)) == ["before", "after"]


@pytest.mark.parametrize("name", ["$HOME", "a$b", "${x}"])
def test_path_that_diskcache_would_expand_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreUntrusted, match="would be expanded"):
        put(opened(tmp_path / name), memory())


def test_home_that_is_a_file_is_said_to_be_unwritable(home: Path) -> None:
    home.write_text("")
    store = opened(home)
    assert stored_contents(store) == []
    with pytest.raises(StoreUnwritable, match=r"File exists|Not a directory"):
        put(store, memory())


# --- locks --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("UNI-011")
def test_one_writer_at_a_time(home: Path) -> None:
    home.mkdir()
    path = home / "write.lock"
    with locked(path, 1):
        with pytest.raises(StoreBusy, match=r"locked by another process for 0\.1 s"), locked(path, 0.05):
            pytest.fail("two had the lock")
        assert try_lock(path) is None
    with locked(path, 0):
        pass


def test_lock_is_free_again_after_an_error(home: Path) -> None:
    home.mkdir()
    with pytest.raises(LookupError), locked(home / "write.lock", 0):
        raise LookupError
    descriptor = try_lock(home / "write.lock")
    assert descriptor is not None
    os.close(descriptor)


@pytest.mark.requirement("UNI-010")
@forking
def test_lock_of_a_killed_process_is_free(home: Path) -> None:
    home.mkdir()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with locked(home / "write.lock", 0):
            os.write(writing, b"1")
            signal.pause()
    os.read(reading, 1)
    assert try_lock(home / "write.lock") is None
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with locked(home / "write.lock", 1):
        pass
    os.close(reading)
    os.close(writing)


@forking
def test_forked_child_and_parent_both_go_on_with_the_store(home: Path) -> None:
    store = opened(home)
    put(store, memory("before"))
    assert stored_contents(store) == ["before"]
    child = os.fork()
    if child == 0:
        put(store, memory("from the child"))
        fine = stored_contents(store) == ["before", "from the child"]
        store.close()
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    put(store, memory("from the parent"))
    assert stored_contents(store) == ["before", "from the child", "from the parent"]
    store.close()
    check_integrity(home)


@forking
def test_children_forked_while_another_thread_writes_go_on_and_the_parent_fails_in_nothing(home: Path) -> None:
    store = DiskStore(home, durability="process", lock_wait_s=60)
    put(store, memory("before"))
    stored, children = Event(), []
    with ThreadPoolExecutor(1) as threads:

        def write() -> int:
            for number in range(50):
                put(store, memory(f"parent {number}"))
                stored.set()
            return 50

        writing = threads.submit(write)
        for _ in range(4):
            stored.wait(60)
            stored.clear()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    put(DiskStore(home, durability="process", lock_wait_s=60), memory("from a child"))
                    put(store, memory("from a child"))
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
        assert writing.result() == 50
    assert stored_contents(store).count("from a child") == 8
    assert len(stored_contents(store)) == 1 + 50 + 8
    store.close()
    check_integrity(home)


@pytest.mark.parametrize("lets_go", [True, False])
def test_lock_is_waited_for_and_one_that_came_too_late_is_let_go(home: Path, lets_go: bool) -> None:
    home.mkdir()
    path = home / "write.lock"
    with ThreadPoolExecutor(1) as threads:
        with locked(path, 0):

            def take() -> str:
                try:
                    with locked(path, 30 if lets_go else 0.05):
                        return "taken"
                except StoreBusy:
                    return "busy"

            taking = threads.submit(take)
            if not lets_go:
                assert taking.result() == "busy"
        if lets_go:
            assert taking.result() == "taken"
    with locked(path, 30):
        pass


# --- durability ---------------------------------------------------------------------------------------------------


def synchronous(store: DiskStore) -> int:
    def look(_: object) -> int:
        assert store._engine is not None
        assert store._engine._connection is not None
        level: int = store._engine._connection.execute("PRAGMA synchronous").fetchone()[0]
        return level

    return store.write(look).result()


@pytest.mark.requirement("UNI-010")
@pytest.mark.parametrize(("durability", "other", "level"), [("power", "process", 2), ("process", "power", 1)])
def test_durability_holds_whatever_another_process_has_chosen(
    home: Path, durability: str, other: str, level: int
) -> None:
    stores = [DiskStore(home, durability=one) for one in (durability, other, durability)]  # type: ignore[arg-type]
    assert [synchronous(store) for store in stores] == [level, 3 - level, level]
    elsewhere(f"put(DiskStore(Path(sys.argv[1]), durability={other!r}), memory()); answer = 1", home)
    assert [synchronous(store) for store in stores] == [level, 3 - level, level]
    for store in stores:
        store.close()


def test_commit_is_written_ahead_and_never_by_memory_map(home: Path) -> None:
    store = opened(home)
    put(store, memory())

    def look(_: object) -> list[tuple[object]]:
        assert store._engine is not None
        connection = store._engine._connection
        assert connection is not None
        return [connection.execute(f"PRAGMA {name}").fetchone() for name in ("journal_mode", "mmap_size")]

    assert store.write(look).result() == [("wal",), (0,)]


def test_closed_store_is_one_file_that_can_be_copied(founded: Path) -> None:
    assert [path.name for path in (founded / "store").iterdir()] == ["cache.db"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "store").mkdir(mode=0o700)
        copy = Path(folder, "store", "cache.db")
        copy.write_bytes((founded / "store" / "cache.db").read_bytes())
        assert stored_contents(opened(Path(folder))) == ["violet"]
