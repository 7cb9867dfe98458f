"""Backups: the whole store of one moment in one file, and back, while others use it."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, Put, SyncMemoryRouter
from kingly_memory.adapters.local import backup, sql
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.trusted import is_trusted
from kingly_memory.errors import InvalidInput, StoreError
from kingly_memory.home.own_files import unfinished
from tests.cli_runner import Run
from tests.store_samples import number_layout

pytestmark = pytest.mark.requirement("N6")


def opened(home: Path) -> SyncMemoryRouter:
    return SyncMemoryRouter.open(home, False, project="app")


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A home with something of everything."""
    home = tmp_path / "home"
    with opened(home) as memory:
        memory.store("Deploys need two reviews", key="deploy", tags=["ops"])
        memory.store("Deploys need three reviews", key="deploy")
        memory.store("Rotate keys each spring", key="keys", context_id="security")
        memory.link_memories("deploy", "keys", "related")
        memory.attention.pin("The user prefers dark mode", key="dark")
        memory.forget(memory.store("The old password").id)
        memory.documents.put("users", "lydia", {"city": "Oslo"})
        memory.log("chat").append(["a", "b"])
        emptied = memory.scoped(project="emptied")
        emptied.purge(emptied.store("was here").id)
    return home


def files(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir() if one.is_file())


def told(home: Path) -> list[Any]:
    with opened(home) as memory:
        return [
            sorted((one.key or one.content, one.content, one.revision) for one in memory.list().memories),
            [one.to_json() for one in memory.links("deploy")],
            [one.value for one in memory.documents.list()],
            memory.log("chat").last(),
            [hit.memory.key for hit in memory.search("reviews")],
        ]


def test_a_backup_put_elsewhere_is_the_same_memory(full: Path, tmp_path: Path) -> None:
    with opened(full) as memory:
        made = memory.backup(tmp_path / "one.backup")
    assert (made.memories, made.projects) == (3, 1)
    assert backup.check(tmp_path / "one.backup") == made
    other = tmp_path / "other"
    assert backup.restore(other, tmp_path / "one.backup", replace=False, lock_wait_s=1).put_aside is None
    assert not list(other.glob("store.replaced-*"))
    assert told(other) == told(full)
    assert (tmp_path / "one.backup").stat().st_mode & 0o777 == 0o600


def test_a_restored_home_is_another_incarnation(full: Path, tmp_path: Path) -> None:
    backup.create(full, tmp_path / "one.backup")
    backup.restore(tmp_path / "other", tmp_path / "one.backup", replace=False, lock_wait_s=1)

    assert incarnation(full) != incarnation(tmp_path / "other")


def incarnation(home: Path) -> str:
    with closing(sqlite3.connect(f"file:{home}/store/cache.db?mode=ro", uri=True)) as connection:
        found: str = connection.execute(sql.FACET, ("home", "incarnation")).fetchone()[0]
    return str(json.loads(found.splitlines()[0])["id"])


@pytest.mark.requirement("A2")
def test_a_copied_home_is_another_incarnation_from_its_first_change_on_and_a_moved_one_is_not(
    full: Path, tmp_path: Path
) -> None:
    first = incarnation(full)
    copy = Path(shutil.copytree(full, tmp_path / "copy"))
    with opened(copy) as memory:
        assert memory.list().memories
    assert incarnation(copy) == first
    for home in (copy, full):
        with opened(home) as memory:
            memory.store("The same words here and there")
    second = incarnation(copy)
    assert (incarnation(full), second == first) == (first, False)
    moved = copy.rename(tmp_path / "moved")
    with opened(moved) as memory:
        memory.store("It has only another name")
    assert incarnation(moved) == second
    shutil.rmtree(full)
    shutil.copytree(moved, full)  # in the place of the one that it was copied from
    with opened(full) as memory:
        memory.store("Again a copy")
    assert incarnation(full) not in (first, second)


def test_who_has_the_home_open_goes_on_with_what_was_restored(full: Path, tmp_path: Path) -> None:
    backup.create(full, tmp_path / "one.backup")
    with opened(full) as memory:
        memory.store("Written after the backup", key="later")
        with pytest.raises(InvalidInput, match="holds memories; --replace puts them aside"):
            backup.restore(full, tmp_path / "one.backup", replace=False, lock_wait_s=1)
        assert memory.get("later") is not None
        backup.restore(full, tmp_path / "one.backup", replace=True, lock_wait_s=1)
        assert memory.get("later") is None
        memory.store("Written after the restoring", key="last")
    assert [one[0] for one in told(full)[0]] == ["dark", "deploy", "keys", "last"]
    [aside] = full.glob("store.replaced-*")
    assert (aside / "cache.db").exists()


@pytest.mark.parametrize("goes_on", ["reading", "restoring"])
def test_who_finds_no_store_while_one_takes_its_place_goes_on_with_that_one(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: str
) -> None:
    backup.create(full, file := tmp_path / "one.backup")
    rename = Path.rename

    def rename_once(self: Path, to: Path) -> Path:
        """The store is put aside, and what replaces it has not taken its place yet."""
        if to == full / "store":
            monkeypatch.setattr(Path, "rename", rename)
            raise InterruptedError
        return rename(self, to)

    with opened(full) as memory:
        memory.store("Written after the backup", key="later")
        monkeypatch.setattr(Path, "rename", rename_once)
        with pytest.raises(StoreError):
            backup.restore(full, file, replace=True, lock_wait_s=1)
        assert not (full / "store").exists()
        if goes_on == "restoring":
            with pytest.raises(InvalidInput, match="holds memories; --replace puts them aside"):
                backup.restore(full, file, replace=False, lock_wait_s=1)
        assert memory.get("later") is None
    assert [one[0] for one in told(full)[0]] == ["dark", "deploy", "keys"]
    assert is_trusted(Folder(full))


def test_a_backup_is_of_one_moment_while_others_write(full: Path, tmp_path: Path) -> None:
    stop = threading.Event()

    def write(memory: SyncMemoryRouter) -> None:
        for number in range(2_000):
            if stop.is_set():
                return
            memory.documents.write([Put("pair", "a", number), Put("pair", "b", number)])

    with opened(full) as memory:
        writer = threading.Thread(target=write, args=(memory,))
        writer.start()
        try:
            for number in range(5):
                backup.create(full, tmp_path / f"{number}.backup")
        finally:
            stop.set()
            writer.join()
    for number in range(5):
        home = tmp_path / f"home-{number}"
        backup.restore(home, tmp_path / f"{number}.backup", replace=False, lock_wait_s=1)
        with opened(home) as memory:
            pair = [memory.documents.get("pair", key) for key in ("a", "b")]
        assert len({one and one.value for one in pair}) == 1


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096 : 4096 + 64] = bytes(64)
    file.write_bytes(content)


def newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        number_layout(connection, sql.LAYOUT + 1)


def planted(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TRIGGER evil AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (Path.unlink, "cannot be read .No such file"),
        (lambda file: file.write_text("text"), "is no backup; make one with"),
        (cut, "is not whole .pages of it hold something else"),
        (flip, "is not whole"),
        (newer, "this version knows [0-9]+; upgrade"),
        (planted, "is not used: .* holds a trigger named 'evil'"),
    ],
    ids=["missing", "text", "cut", "flipped", "newer", "planted"],
)
def test_what_is_no_whole_backup_is_refused_and_nothing_is_changed(
    full: Path, tmp_path: Path, spoil: Callable[[Path], object], problem: str
) -> None:
    file = tmp_path / "one.backup"
    backup.create(full, file)
    before = told(full)
    spoil(file)
    with pytest.raises(InvalidInput, match=problem):
        backup.check(file)
    with pytest.raises(InvalidInput, match=problem):
        backup.restore(full, file, replace=True, lock_wait_s=1)
    assert told(full) == before
    assert not list(full.glob("store.re*"))


def test_a_bit_that_has_changed_anywhere_is_found(full: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.backup"
    made = backup.create(full, file)
    whole = file.read_bytes()
    assert made.size_bytes == len(whole)
    for place in range(0, len(whole), len(whole) // 50):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(
            InvalidInput, match=r"no backup|not whole|is not used|is damaged|not as it was written|layout"
        ):
            backup.check(file)
    free = whole.rindex(bytes(64), 0, whole.rindex(b"kingly-memory backup"))
    file.write_bytes(whole[:free] + b"x" + whole[free + 1 :])
    with pytest.raises(InvalidInput, match="is not as it was written; use another backup, or --force"):
        backup.restore(tmp_path / "other", file, replace=False, lock_wait_s=1)
    assert backup.restore(tmp_path / "other", file, replace=False, lock_wait_s=1, force=True).memories == made.memories


async def test_a_file_that_is_there_is_never_replaced_and_an_empty_home_has_no_backup(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", False, project="app") as memory:
        with pytest.raises(InvalidInput, match=r"nothing was stored in .* yet"):
            await memory.backup(tmp_path / "one.backup")
        await memory.store("Deploys need two reviews")
        (tmp_path / "one.backup").write_text("precious")
        with pytest.raises(InvalidInput, match="is there already; name a new file"):
            await memory.backup(tmp_path / "one.backup")
        with pytest.raises(InvalidInput, match=r"cannot be written .No such file"):
            await memory.backup(tmp_path / "no" / "one.backup")
    assert files(tmp_path) == ["one.backup"]


def test_a_damaged_store_gives_no_backup_of_its_damage(full: Path, tmp_path: Path) -> None:
    database = full / "store" / "cache.db"
    content = bytearray(database.read_bytes())
    content[8192 : 8192 + 2048] = bytes(2048)
    database.write_bytes(content)
    with pytest.raises((StoreError, InvalidInput)):
        backup.create(full, tmp_path / "one.backup")
    assert files(tmp_path) == []


def test_the_commands_make_check_and_restore(run: Run, full: Path, tmp_path: Path) -> None:
    place, file = ("--home", str(full), "--project", "app"), str(tmp_path / "one.backup")
    assert run("backup", "create", file, *place).out.startswith(f"{file} holds 3 memories of 1 project, ")
    assert run("backup", "check", file).out.startswith(f"{file} is whole: 3 memories of 1 project, ")
    assert run("forget", "deploy", *place).code == 0
    assert run("purge", "keys", "--yes", *place).code == 0
    refused = run("backup", "restore", file, *place)
    assert (refused.code, "--replace puts them aside" in refused.err) == (2, True)
    restored = run("backup", "restore", file, "--replace", *place).out
    [aside] = full.glob("store.replaced-*")
    assert f"; what was there lies in {aside}\n" in restored
    assert "what was forgotten there, and not purged, is as the backup has it" in restored
    assert "purged again, as it was there: 1 memory" in restored
    assert run("get", "keys", *place).code == 2
    assert b"each spring" not in b"".join(one.read_bytes() for one in (full / "store").iterdir())
    assert run("get", "deploy", "--json", *place).json["content"] == "Deploys need three reviews"


def test_a_backup_counts_projects_and_not_who_is_in_them(full: Path, tmp_path: Path) -> None:
    with opened(full) as memory:
        for one in (memory.scoped(user="ann"), memory.scoped(user="bob"), memory.scoped(project=None)):
            one.store("likes tea")
    made = backup.create(full, tmp_path / "one.backup")
    assert (made.memories, made.projects) == (6, 1)


def test_damaged_records_are_said_and_restored_by_force_alone(full: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(full / "store" / "cache.db")) as connection, connection:
        connection.execute("UPDATE Cache SET value = replace(value, 'each spring', 'in autumn') WHERE key LIKE 'm:%'")
    file = tmp_path / "one.backup"
    assert backup.create(full, file).damaged == 1
    with pytest.raises(InvalidInput, match="1 memory in it is damaged"):
        backup.check(file)
    with pytest.raises(InvalidInput, match="1 memory in it is damaged"):
        backup.restore(tmp_path / "other", file, replace=False, lock_wait_s=1)
    assert backup.restore(tmp_path / "other", file, replace=False, lock_wait_s=1, force=True).damaged == 1


def test_a_store_in_use_and_a_pipe_are_no_backups(full: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidInput, match="is a store in use and no backup"):
        backup.check(full / "store" / "cache.db")
    with pytest.raises(InvalidInput, match="is no backup"):
        backup.check(pipe)


def test_a_file_system_without_hard_links_takes_a_backup(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", refused)
    made = backup.create(full, tmp_path / "one.backup")
    assert (backup.check(tmp_path / "one.backup"), files(tmp_path)) == (made, ["one.backup"])


def test_a_full_disk_is_said_of_the_file_and_not_of_the_store(full: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
    try:
        with pytest.raises(InvalidInput, match=r"one.backup cannot be written"):
            backup.create(full, tmp_path / "one.backup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from kingly_memory.home.own_files import unfinished

with unfinished(Path(sys.argv[1])) as (descriptor, partial):
    os.write(descriptor, b"half of it")
    partial.with_name(f"{partial.name}-journal").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("command", ["backup create", "export"])
def test_what_a_killed_writer_has_left_goes_with_the_next_one_and_what_is_being_written_stays(
    run: Run, full: Path, tmp_path: Path, command: str
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / ".notes.kingly").touch()
    subprocess.run([sys.executable, "-c", KILLED, there / "monday"], check=False)
    left = files(there)
    assert len(left) == 3
    with unfinished(there / "other") as (descriptor, partial):
        os.close(descriptor)
        assert run(*command.split(), str(there / "tuesday"), "--home", str(full)).code == 0
        assert files(there) == sorted([*left, partial.name, "tuesday"])
    assert run(*command.split(), str(there / "wednesday"), "--home", str(full)).code == 0
    assert files(there) == [".notes.kingly", "tuesday", "wednesday"]
