"""Encrypted homes: no file says anything without the key, and nothing is lost or replaced because a key is missing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from kingly_memory.adapters.local import encryption, keys, sqlite
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.injections import InjectionFiles
from kingly_memory.errors import StoreDamaged, StoreLocked
from tests.cli_runner import Run, environment
from tests.store_samples import ROOT, memory, put, stored_contents
from tests.store_samples import opened as opened_store

PAGE = 4_096
SAID = [f"zebra {number} " + "x" * 300 for number in range(60)]
WORDS = ("zebra", "melon", "quince", "kiwano", "CREATE TABLE", "SQLite")
"""Of texts, tags, keys and projects, and of every database that can be read."""
opened = partial(opened_store, lock_wait_s=1)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An encrypted home with memories, closed. Its key lies in the user's data folder."""
    home = tmp_path / "home"
    with_memories(home)
    encryption.rewrite(home, keys.name_of(*keys.make(in_keyring=False)), 1)
    return home


def with_memories(home: Path) -> None:
    store = opened(home)
    put(store, *(memory(text) for text in SAID))
    store.close()


def read(home: Path) -> list[str]:
    store = opened(home)
    try:
        return stored_contents(store)
    finally:
        store.close()


def key_file(home: Path) -> Path:
    return Path(keys.find(str(sqlite.key_name_of(home / "store")), home)[1])


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def saying(folder: Path) -> list[tuple[Path, str]]:
    """Which files say one of the words."""
    found = files(folder)
    return [(path, word) for path in found for word in WORDS if re.search(word.encode(), found[path], re.IGNORECASE)]


@pytest.mark.requirement("A21")
def test_no_file_of_a_home_says_anything_without_the_key(run: Run, tmp_path: Path) -> None:
    home = ("--home", str(tmp_path / "home"), "--project", "kiwano")
    assert run("encrypt", *home).code == 0
    for text in ("the zebra rests", "the zebra runs"):
        assert run("store", text, "--key", "quince", "--tag", "melon", *home).code == 0
    assert run("store", "a zebra to forget", "--key", "quince-2", *home).code == 0
    assert run("forget", "quince-2", *home).code == 0
    assert run("documents", "put", "quince/melon", "kiwano", '"zebra"', *home).code == 0
    InjectionFiles(tmp_path / "home", "kiwano").note("session", ["an-id"], 1.0)
    assert run("backup", "create", str(tmp_path / "home" / "one.backup"), *home).code == 0
    killed = (
        "import os; from pathlib import Path; from tests.store_samples import *; "
        f"put(DiskStore(Path({home[1]!r})), memory('zebra', 'kiwano', key='quince-3')); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", killed], env=environment(), cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "home" / "store" / "cache.db-wal").stat().st_size > PAGE
    assert saying(tmp_path / "home") == []
    assert {one["content"] for one in run("search", "zebra", "--json", *home).json["hits"]} == {
        "the zebra runs",
        "zebra",
    }


@pytest.mark.requirement("A21")
def test_encrypting_rotating_and_decrypting_keep_every_byte_of_an_export(run: Run, project: Path) -> None:
    for number in range(3):
        run("store", f"zebra {number}", "--key", "quince", "--tag", "melon")
    for name in ("gone", "one"):
        run("documents", "put", "notes", name, '"zebra"')
    run("documents", "delete", "notes", "gone")  # leaves a gap in the positions that the text index goes by
    before, home = run("export").out, project / ".kingly" / "memory"
    names = set()
    for command in (("encrypt",), ("encrypt", "--new-key"), ("encrypt",), ("decrypt",)):
        assert run(*command).code == 0
        names.add(sqlite.key_name_of(home / "store"))
        assert (saying(home) == []) is (command[0] == "encrypt")
        assert run("export").out == before
        assert run("doctor").code == 0
        assert run("documents", "search", "zebra").out.count("zebra") >= 1
        assert run("search", "zebra", "--json").json["hits"][0]["content"] == "zebra 2"
    assert len(names) == 3


@pytest.mark.requirement("A21")
@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, r"is not here; nothing"),
        ({"KINGLY_KEY": "ab" * 32}, "KINGLY_KEY holds another key"),
        ({"KINGLY_KEY": "zebra"}, "a key has 64 digits"),
        ({"KINGLY_KEY_FILE": "loose"}, "other users may read loose; run `chmod 600` on it"),
    ],
)
def test_a_wrong_or_missing_key_is_one_sentence_and_changes_nothing(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], said: str
) -> None:
    key_file(home).rename("loose")
    Path("loose").chmod(0o644)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    before = files(home / "store")
    for command in (("list",), ("search", "zebra"), ("store", "a kettle"), ("decrypt",), ("encrypt", "--new-key")):
        ended = run(*command, "--home", str(home))
        assert ended.code == 1
        assert re.search(said, ended.err)
        assert "zebra" not in ended.err.replace("KINGLY_KEY: zebra", "")
    doctor = run("doctor", "--home", str(home))
    assert (doctor.code, "is encrypted, and its key" in doctor.out, "made here" in doctor.out) == (1, True, False)
    store = opened(home)
    with pytest.raises(StoreLocked, match="is encrypted, and its key"):
        put(store, memory())
    store.close()
    assert files(home / "store") == before
    assert not list(home.glob("store.*"))
    monkeypatch.delenv("KINGLY_KEY", raising=False)
    monkeypatch.setenv("KINGLY_KEY_FILE", "loose")
    Path("loose").chmod(0o600)
    assert read(home) == SAID


@pytest.mark.requirement("A21")
def test_an_interrupted_encrypting_loses_nothing_and_the_next_one_removes_what_it_left(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    with_memories(home)
    rename = Path.rename

    def once(path: Path, target: Path) -> Path:
        if path.name == "store.salvaged":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", once)
    # A kill cleans nothing up.
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        encryption.rewrite(home, keys.name_of(*keys.make(in_keyring=False)), 1)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user" / "data"))
    assert not (home / "store").exists()
    assert read(home) == SAID
    assert run("doctor", "--home", str(home)).out.count("is not encrypted") == 1
    assert run("encrypt", "--home", str(home)).code == 0
    assert saying(home) == []


def test_a_store_that_is_open_elsewhere_goes_on_with_the_encrypted_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store = opened(home)
    put(store, memory("first"))
    encryption.rewrite(home, keys.name_of(*keys.make(in_keyring=False)), 1)
    assert stored_contents(store) == ["first"]
    put(store, memory("second"))
    store.close()
    assert read(home) == ["first", "second"]


def test_a_log_that_was_deleted_under_a_writer_is_saved_encrypted(home: Path) -> None:
    store = opened(home)
    put(store, memory("zebra before"))
    for name in ("cache.db-wal", "cache.db-shm"):
        (home / "store" / name).unlink()
    put(store, memory("zebra after"))
    assert saying(home) == []
    store.close()
    assert read(home) == [*SAID, "zebra before", "zebra after"]
    assert saying(home) == []


@pytest.mark.requirement("A21")
@pytest.mark.parametrize("harm", ["lost", "another digit"])
def test_a_store_whose_mark_is_lost_or_damaged_is_no_damaged_one(home: Path, harm: str) -> None:
    mark = home / "store" / sqlite.MARK
    whole = mark.read_bytes()

    def damage() -> None:
        if harm == "lost":
            mark.unlink()
        else:
            mark.write_bytes((b"0" if whole[:1] != b"0" else b"1") + whole[1:])

    damage()
    kept = Path(keys.find(whole[:16].decode(), home)[1])
    kept.rename(kept.with_suffix(".away"))
    before = files(home / "store").get(mark)
    store = opened(home)
    with pytest.raises(StoreLocked, match=whole[:16].decode()):
        put(store, memory())
    store.close()
    assert files(home / "store").get(mark) == before
    kept.with_suffix(".away").rename(kept)
    assert read(home) == SAID
    assert mark.read_bytes() == whole
    assert not list(home.glob("store.*"))


@pytest.mark.requirement("A21")
def test_around_a_damaged_page_the_rest_is_salvaged_and_stays_encrypted(home: Path) -> None:
    database = home / "store" / "cache.db"
    whole = database.read_bytes()
    lost = []
    for number in range(55, len(whole) // PAGE, 4):
        database.write_bytes(whole[: number * PAGE] + b"\x5a" * PAGE + whole[(number + 1) * PAGE :])
        lost.append(len(SAID) - len(read(home)))
        assert saying(home) == []
        for aside in home.glob("store.corrupt-*"):
            shutil.rmtree(aside)
        database.write_bytes(whole)
    assert 0 < max(lost) < len(SAID) / 4


def test_without_its_beginning_an_encrypted_store_is_refused_and_stays_where_it_is(home: Path) -> None:
    database = home / "store" / "cache.db"
    database.write_bytes(b"\x5a" * PAGE + database.read_bytes()[PAGE:])
    with pytest.raises(StoreDamaged):
        read(home)
    store = opened(home)
    with pytest.raises(StoreDamaged, match="backup restore"):
        put(store, memory())
    store.close()
    assert sorted(path.name for path in home.glob("store*")) == ["store"]


@pytest.mark.requirement("A21")
def test_a_backup_of_an_encrypted_home_needs_its_key(home: Path, run: Run, tmp_path: Path) -> None:
    backup, other = str(tmp_path / "backup"), ("--home", str(tmp_path / "other"))
    assert run("backup", "create", backup, "--home", str(home)).code == 0
    assert saying(tmp_path / "home") == [] == [word for word in WORDS if word.encode() in Path(backup).read_bytes()]
    assert run("backup", "restore", backup, *other).code == 0
    assert read(tmp_path / "other") == SAID
    assert sqlite.key_name_of(tmp_path / "other" / "store") == sqlite.key_name_of(home / "store")
    at_first, said = str(sqlite.key_name_of(home / "store")), ("backup", "restore", backup, "--replace", *other)
    assert "its key is" not in run(*said).out
    run("encrypt", "--new-key", *other)
    assert f"its key is the backup's now, {at_first}; it was " in run(*said).out
    run("decrypt", *other)
    assert f"its key is the backup's now, {at_first}; it was not encrypted" in run(*said).out
    run("decrypt", *other)
    run("backup", "create", f"{backup}-plain", *other)
    plain = ("backup", "restore", f"{backup}-plain", "--replace", "--home", str(home))
    assert "is not encrypted" in run(*plain).err
    (home / "store").rename(home / "store.salvaged")  # as a replacement leaves it that is killed before its last step
    assert "is not encrypted" in run(*plain).err
    key_file(home).unlink()
    assert "is encrypted, and its key" in run("backup", "check", backup).err


def test_a_purge_names_an_encrypted_store_that_was_put_aside(home: Path) -> None:
    (home / "store").rename(home / "store.replaced-20260101T000000")
    Folder(home).sentinel.path.unlink()
    with_memories(home)
    store = opened(home)
    assert store.scrub(["an-id"]).left_in == (str(home / "store.replaced-20260101T000000"),)


def test_a_key_is_kept_in_the_keyring_where_that_is_asked_for(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = ("--home", str(tmp_path / "home"))
    assert "pip install keyring" in run("encrypt", "--keyring", *home).err
    kept: dict[tuple[str, str], str] = {}
    ring = SimpleNamespace(
        set_password=lambda service, name, key: kept.update({(service, name): key}),
        get_password=lambda service, name: kept.get((service, name)),
        __spec__=SimpleNamespace(),
    )
    monkeypatch.setitem(sys.modules, "keyring", ring)
    keys._ask_keyring.cache_clear()
    assert run("encrypt", "--keyring", *home).code == 0
    assert run("store", "the zebra", *home).code == 0
    assert "the zebra" in run("list", *home).out
    assert "the keyring of the system" in run("doctor", *home).out
    kept.clear()
    keys._ask_keyring.cache_clear()
    assert "it has no key of that name" in run("list", *home).err


def test_doctor_says_that_a_key_of_the_environment_is_not_the_one_that_opens_the_memories(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--home", str(home))
    assert "KINGLY_KEY" not in run("doctor", *where).out
    monkeypatch.setenv("KINGLY_KEY", "ab" * 32)
    assert "note     encryption: KINGLY_KEY holds another key, which does not open" in run("doctor", *where).out
    monkeypatch.setenv("KINGLY_KEY", "ab")
    assert "a key has 64 digits" in run("doctor", *where).out
    assert run("list", *where).code == 0


def test_a_key_that_the_environment_gives_is_the_one_that_is_used(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = ("--home", str(tmp_path / "home"))
    for key in ("ab" * 32, "cd" * 32):
        before = os.environ.get("KINGLY_KEY")
        if before:
            Path("before").write_text(before)
            Path("before").chmod(0o600)
            monkeypatch.setenv("KINGLY_KEY_FILE", "before")
        monkeypatch.setenv("KINGLY_KEY", key)
        assert run("encrypt", "--new-key", *home, "--json").json["key"] == keys.name_of(key, "")
        assert run("store", "the zebra", *home).code == 0
    assert "holds another key" not in run("doctor", *home).out
    assert not (tmp_path / "user" / "data" / "kingly" / "keys").exists()


def test_errors_are_caught_of_both_libraries() -> None:
    code = "\n".join(path.read_text() for path in Path(sqlite.__file__).parent.glob("*.py"))
    assert re.findall(r"(?:except|suppress|isinstance)\b.*sqlite3\.\w*Error|sqlite3\.connect\(", code) == [
        "sqlite3.connect("
    ]
