"""A disk that is full or read-only: what is there can be read, a store fails at once with a clear sentence, and goes
through again, without a restart, as soon as the disk lets it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kingly_memory.adapters.local.safety import MAKE_READABLE
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.adapters.local.trusted import check_trusted
from kingly_memory.errors import StoreError, StoreUnreadable, StoreUnwritable
from kingly_memory.router.search.local import LocalSearch
from tests.store_samples import NOON_S, ask, check_integrity, elsewhere, memory, put, stored_contents
from tests.store_samples import opened as opened_store

pytestmark = [
    pytest.mark.requirement("KNG-085"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
NOBODY = 65_534
opened = partial(opened_store, lock_wait_s=30)


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that any user can reach, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="kingly-test-"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder)


def as_a_plain_user(home: Path, work: Callable[[], Any]) -> Any:
    """What the work returns when the home belongs to somebody who is not root, and they do it."""
    import_module("kingly_memory.adapters.local.recovery")  # a plain user may not be able to read our sources
    reading, writing = os.pipe()
    if os.geteuid() == 0:
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            answer = work()
        except BaseException as error:  # noqa: BLE001  # told to the parent, which fails
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        answer = json.load(answers)
    os.waitpid(child, 0)
    return answer


def read_and_try_to_store(home: Path) -> list[Any]:
    """What is found, what storing says, and how often something was waited for meanwhile."""
    store = opened(home)
    found = [
        hit.memory.content for hit in LocalSearch(store.reader).search(ask("violet"), now_s=NOON_S, budget_s=60).hits
    ]
    pauses: list[float] = []
    try:
        with patch.object(time, "sleep", pauses.append):
            put(store, memory("more"))
        said = "stored"
    except StoreUnwritable as error:
        said = str(error)
    again = stored_contents(store)
    store.close()
    return [found, again, said, len(pauses)]


@contextmanager
def read_only(home: Path) -> Iterator[None]:
    paths = [home, *home.rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    for path in reversed(paths):
        path.chmod(0o500 if path.is_dir() else 0o400)
    yield
    for path in paths:
        path.chmod(modes[path])


@pytest.mark.parametrize("killed", [False, True])
def test_read_only_folder_is_searched_and_not_written_to(home: Path, killed: bool) -> None:
    if killed:
        elsewhere("put(store, memory('violet')); print(1, flush=True); os._exit(0)", home)
    else:
        store = opened(home)
        put(store, memory("violet"))
        store.close()
    assert (home / "store" / "cache.db-wal").exists() == killed
    with read_only(home):
        found, again, said, pauses = as_a_plain_user(home, lambda: read_and_try_to_store(home))
    assert (found, again, pauses) == (["violet"], ["violet"], 0)
    assert "cannot be written (Permission denied); nothing was stored" in said


@pytest.mark.parametrize("left", range(4))
def test_a_process_with_too_many_open_files_is_told_so_and_goes_on_when_it_has_fewer(home: Path, left: int) -> None:
    store, soft = opened(home), resource.getrlimit(resource.RLIMIT_NOFILE)
    put(store, memory("violet"))
    store.close()
    store, said = opened(home), []
    with ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, soft)
        free = [os.open(os.devnull, os.O_RDONLY) for _ in range(left + 1)]
        for file in free:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(free), soft[1]))
        for attempt in (lambda: put(store, memory("more")), lambda: stored_contents(store)):
            try:
                attempt()
            except StoreError as error:
                said.append(str(error))
    assert stored_contents(store) == ["violet"]
    put(store, memory("more"))
    store.close()
    assert said
    assert all("Too many open files" in one and "ulimit -n" in one for one in said), said


@pytest.mark.requirement("A17")
@pytest.mark.parametrize("closed", ["", "store"])
def test_closed_folder_is_said_to_be_closed_and_what_to_do(home: Path, closed: str) -> None:
    store = opened(home)
    put(store, memory("violet"))
    store.close()

    def work() -> list[str]:
        store, said = opened(home), []
        (home / closed).chmod(0)
        for attempt in (lambda: stored_contents(store), lambda: put(store, memory("more")), lambda: opened(home)):
            try:
                attempt()
            except StoreError as error:
                said.append(str(error))
        (home / closed).chmod(0o700)
        return [*said, *stored_contents(store)]

    *said, found = as_a_plain_user(home, work)
    assert said == [str(StoreUnreadable(str(home / closed), "Permission denied", MAKE_READABLE))] * 3
    assert found == "violet"


def test_only_the_database_is_read_only(home: Path) -> None:
    store = opened(home)
    put(store, memory("violet"))
    store.close()
    (home / "store" / "cache.db").chmod(0o400)
    found, again, said, pauses = as_a_plain_user(home, lambda: read_and_try_to_store(home))
    assert (found, again, pauses) == (["violet"], ["violet"], 0)
    assert "cannot be written (attempt to write a readonly database)" in said


def test_reader_of_a_read_only_folder_sees_what_is_stored_once_it_is_writable(home: Path) -> None:
    store = opened(home)
    put(store, memory("violet"))
    store.close()

    def work() -> list[list[str]]:
        with read_only(home):
            reader = opened(home)
            before = stored_contents(reader)
        writer = opened(home)
        put(writer, memory("more"))
        after = stored_contents(reader)
        writer.close()
        return [before, after]

    assert as_a_plain_user(home, work) == [["violet"], ["violet", "more"]]


# --- full ---------------------------------------------------------------------------------------------------------


def mounted(folder: Path, *options: str) -> bool:
    folder.mkdir(exist_ok=True)
    command = [shutil.which("mount") or "mount", *options, str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MiB. Skips where none can be mounted."""
    folder = tmp_path / "small"
    if not mounted(folder, "-t", "tmpfs", "-o", "size=6m", "none"):
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run([shutil.which("umount") or "umount", "-l", str(folder)], check=True)


def fill(store: DiskStore) -> tuple[int, StoreUnwritable]:
    """Store until the disk is full: how many were acknowledged, and what was said then."""
    for number in range(1_000):
        try:
            put(store, memory(f"{number} " + "x" * 20_000, key=str(number)))
        except StoreUnwritable as error:
            return number, error
    raise AssertionError("the disk never filled up")


def check_whole(home: Path, acknowledged: int) -> None:
    """Every acknowledged memory is there, and nothing of the one that was refused."""
    here, there = stored_contents(opened(home)), elsewhere("answer = stored_contents(store)", home)
    assert len(here) == acknowledged
    assert here == there
    assert opened(home).reader.id_of_key("alpha", str(acknowledged)) is None


@pytest.mark.requirement("UNI-010")
def test_full_disk_refuses_clearly_keeps_all_and_goes_on_when_there_is_space(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 4_000_000)
    home = small_disk / "home"
    store = opened(home)
    acknowledged, error = fill(store)
    assert "cannot be written (database or disk is full); nothing was stored" in str(error)
    assert "no restart is needed" in str(error)
    check_whole(home, acknowledged)
    with pytest.raises(StoreUnwritable):
        put(store, memory("x" * 500_000))
    ballast.unlink()
    put(store, memory("after"))
    assert len(stored_contents(store)) == acknowledged + 1
    store.close()
    check_integrity(home)


def fill_up(disk: Path) -> Path:
    """The file that takes all the room there is."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4_096):
            pass
    return ballast


def test_disk_that_others_have_filled_meanwhile_is_read_and_its_home_trusted(small_disk: Path) -> None:
    home = small_disk / "home"
    store = opened(home)
    put(store, memory("violet"))
    store.close()
    ballast = fill_up(small_disk)
    late = opened(home)
    assert stored_contents(late) == ["violet"]
    check_trusted(home)
    with pytest.raises(StoreUnwritable):
        put(late, memory("refused"))
    ballast.unlink()
    elsewhere("answer = put(store, memory('after'))", home)
    assert stored_contents(late) == ["violet", "after"]


def test_disk_that_is_full_from_the_start_is_said_to_be(small_disk: Path) -> None:
    ballast = fill_up(small_disk)
    store = opened(small_disk / "home")
    for _ in range(2):
        with pytest.raises(StoreUnwritable, match=r"full|No space left"):
            put(store, memory())
    assert stored_contents(store) == []
    ballast.unlink()
    put(store, memory("after"))
    assert stored_contents(store) == ["after"]


def test_read_only_mount_is_searched_and_not_written_to(small_disk: Path) -> None:
    home = small_disk / "home"
    store = opened(home)
    put(store, memory("violet"))
    store.close()
    assert mounted(small_disk, "-o", "remount,ro")
    found, again, said, pauses = read_and_try_to_store(home)
    assert (found, again, pauses) == (["violet"], ["violet"], 0)
    assert "cannot be written (Read-only file system)" in said


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux says which files are open")
def test_a_store_that_cannot_be_begun_leaves_no_file_open(home: Path) -> None:
    store, (soft, hard) = opened(home), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(StoreUnwritable) as refused:  # as long as it is held, nothing is collected
            put(store, memory())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "nothing was stored" in str(refused.value)
    named = [file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    assert [file for file in named if file.is_relative_to(home / "store")] == []


@pytest.mark.requirement("UNI-010")
def test_file_that_may_not_grow_refuses_clearly_and_goes_on_when_it_may(home: Path) -> None:
    store = opened(home)
    put(store, memory("first"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        acknowledged, error = fill(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "nothing was stored" in str(error)
    check_whole(home, acknowledged + 1)
    put(store, memory("after"))
    assert len(stored_contents(store)) == acknowledged + 2
    store.close()
    check_integrity(home)
