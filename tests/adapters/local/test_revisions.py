"""The table of revisions, the change feed and the digests of records."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from operator import methodcaller
from pathlib import Path

import pytest

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.models import Memory, MemoryStatus
from kingly_memory.ports import HOME, INCARNATION, Transaction
from tests.store_samples import memory, saving


def revised(store: DiskStore, first: Memory, *texts: str) -> Memory:
    """The memory, and after it those texts as its next revisions."""
    said = [replace(first, content=text, revision=number) for number, text in enumerate([first.content, *texts], 1)]
    for one in said:
        store.write(saving(one)).result()
    return said[-1]


@pytest.mark.requirement("N5", "D2")
def test_what_is_stored_once_has_no_row_among_the_revisions(store: DiskStore, tmp_path: Path) -> None:
    one = memory("said once")
    store.write(saving(one)).result()
    store.write(lambda tx: tx.set_status([one.id], MemoryStatus.ARCHIVED)).result()
    store.write(saving(one, status=MemoryStatus.FORGOTTEN)).result()
    with closing(sqlite3.connect(tmp_path / "home/store/cache.db")) as raw:
        assert raw.execute("SELECT count(*) FROM km_revision").fetchone() == (0,)


@pytest.mark.requirement("N5", "D2")
def test_every_earlier_record_is_kept_as_it_was_until_the_memory_is_erased(store: DiskStore) -> None:
    first = memory("one", tags=("a",), agent="ann")
    other = revised(store, memory("kept"), "kept too")
    revised(store, first, "two", "three")
    assert [one.content for one in store.reader.revisions(first.id)] == ["two", "one"]
    assert store.reader.revisions(first.id)[-1] == first
    assert store.write(lambda tx: tx.revisions(first.id)).result()[-2] == replace(first, content="two", revision=2)
    store.write(lambda tx: tx.erase(first.id)).result()
    assert store.reader.revisions(first.id) == []
    assert [one.content for one in store.reader.revisions(other.id)] == ["kept"]


def test_the_latest_revisions_stay_when_the_others_are_dropped(store: DiskStore) -> None:
    first = memory("0")
    revised(store, first, *"12345")
    assert store.reader.with_revisions(4) == {first.id: 5}
    assert store.reader.with_revisions(5) == {}
    store.write(lambda tx: tx.drop_revisions(first.id, but=7)).result()
    store.write(lambda tx: tx.drop_revisions(first.id, but=2)).result()
    assert [one.content for one in store.reader.revisions(first.id)] == ["4", "3"]


def test_a_change_that_raises_leaves_neither_a_revision_nor_a_line_of_the_feed(store: DiskStore) -> None:
    first = memory("one")
    store.write(saving(first)).result()

    def change(tx: Transaction) -> None:
        tx.save(replace(first, content="two", revision=2), MemoryStatus.LIVE)
        raise KeyError

    with pytest.raises(KeyError):
        store.write(change).result()
    assert store.reader.revisions(first.id) == []
    assert [one.what for one in store.reader.changes(0, 10)] == ["stored"]


@pytest.mark.requirement("D2")
def test_the_feed_has_one_line_for_each_change_of_a_memory(store: DiskStore) -> None:
    one, copy = memory("one"), memory("a copy of what a remote holds")
    store.write(saving(copy, status=MemoryStatus.CACHED)).result()
    revised(store, one, "two")
    for status in (MemoryStatus.ARCHIVED, MemoryStatus.ARCHIVED, MemoryStatus.LIVE):
        store.write(methodcaller("set_status", [one.id], status)).result()
    store.write(saving(replace(one, revision=2), status=MemoryStatus.FORGOTTEN)).result()
    store.write(saving(replace(one, revision=3))).result()
    for memory_id in (copy.id, one.id, "nobody"):
        store.write(methodcaller("erase", memory_id)).result()
    found = store.reader.changes(0, 100)
    wanted = [("stored", 1), ("revised", 2), ("archived", 2), ("restored", 2), ("forgotten", 2), ("restored", 3)]
    assert [(line.what, line.revision) for line in found] == [*wanted, ("erased", 3)]
    assert {line.memory_id for line in found} == {one.id}
    assert [line.sequence for line in found] == list(range(1, 8))
    assert store.reader.changes(5, 1) == [found[5]]


@pytest.mark.requirement("D2")
def test_old_lines_of_the_feed_go_and_no_sequence_is_given_twice(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("kingly_memory.adapters.local.transaction.time.time", lambda: now[0])
    store.write(saving(memory("one"), memory("two"))).result()
    now[0] += 100
    store.write(lambda tx: tx.drop_changes(100)).result()
    assert [line.sequence for line in store.reader.changes(0, 9)] == [1, 2]
    store.write(lambda tx: tx.drop_changes(99)).result()
    store.write(saving(memory("three"))).result()
    assert [line.sequence for line in store.reader.changes(0, 9)] == [2, 3]


def test_each_home_has_an_incarnation_of_its_own(tmp_path: Path) -> None:
    names = []
    for home in ("one", "one", "two"):
        with closing(DiskStore(tmp_path / home)) as store:
            store.write(saving(memory())).result()
            names.append(store.reader.facets(HOME, [INCARNATION])[INCARNATION]["id"])
    assert names[0] == names[1] != names[2]


def _changed(home: Path, change: Callable[[str], str], where: str) -> None:
    """Change the records of a closed store behind its back."""
    with closing(sqlite3.connect(home / "store/cache.db")) as raw:
        raw.create_function("changed", 1, change)
        raw.execute(where)
        raw.commit()


@pytest.mark.requirement("D7")
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("whistles", "whistler"),
        lambda text: text.replace('"significance":0.5', '"significance":0.1'),
        lambda text: text.replace('"digest":"', '"digest":"0'),
        lambda text: text.partition(',"digest"')[0] + "}",
        lambda text: text + " ",
    ],
)
def test_a_record_that_is_not_as_it_was_written_is_named_and_never_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[str], str]
) -> None:
    sound, broken = memory("a sound one"), memory("the kettle whistles")
    with closing(DiskStore(tmp_path)) as store:
        store.write(saving(sound)).result()
        revised(store, broken, "the kettle whistles again")
    _changed(tmp_path, change, "UPDATE Cache SET value = changed(value) WHERE value LIKE '%kettle%'")
    _changed(tmp_path, change, "UPDATE km_revision SET record = changed(record)")
    with closing(DiskStore(tmp_path)) as store, caplog.at_level(logging.WARNING):
        assert store.reader.row(broken.id) is None
        assert store.reader.is_there(broken.id)
        assert store.reader.revisions(broken.id) == []
        assert store.reader.row(sound.id) is not None
    assert broken.id in caplog.text
    assert "kettle" not in caplog.text


@pytest.mark.requirement("D7")
def test_memories_that_an_index_no_longer_leads_to_are_named(tmp_path: Path) -> None:
    sound, lost, unkeyed = memory("a sound one", key="a"), memory("by its id"), memory("by its key", key="b")
    with closing(DiskStore(tmp_path, durability="process")) as store:
        store.write(saving(sound, lost, unkeyed)).result()
        assert store.reader.damaged() == []
    database = tmp_path / "store/cache.db"
    for name in (f"m:{lost.id}", "alphab"):
        data = bytearray(database.read_bytes())
        places = [found.start() for found in re.finditer(name.encode(), data)]
        [in_index] = [at for at in places if b'{"id"' not in data[at : at + 250]]
        data[in_index + 2] ^= 1
        database.write_bytes(data)
    with closing(DiskStore(tmp_path, durability="process")) as store:
        assert store.reader.row(lost.id) is None
        assert {lost.id, unkeyed.id} <= set(store.reader.damaged())  # neighbours in the index may be out of reach too
