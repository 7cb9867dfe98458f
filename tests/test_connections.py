"""Closing a store while its threads are inside statements: the interpreter stays whole, and every answer too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.damage import Malformed
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.store import DiskStore
from tests.store_samples import memory, put

KEYS = "SELECT key FROM Cache ORDER BY rowid"


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[Connections]:
    store = DiskStore(tmp_path / "home", durability="process")
    put(store, *(memory(f"memory number {number}") for number in range(50)))
    store.close()

    def recover(damage: Malformed) -> None:
        raise damage

    connections = Connections(Folder(tmp_path / "home"), recover)
    yield connections
    connections.close()


def descriptors(folder: Path) -> list[str]:
    """The files below the folder that this process has open."""
    links = []
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            links.append(str(number.readlink()))
    return [link for link in links if link.startswith(str(folder))]


def test_statement_that_is_under_way_ends_whole_and_its_connection_is_closed_then(
    connections: Connections, tmp_path: Path
) -> None:
    inside, go_on = Event(), Event()
    every = connections.rows(KEYS, ())

    def slowly(_: tuple[Any, ...]) -> bool:
        inside.set()
        assert go_on.wait(10)
        return False

    with ThreadPoolExecutor(1) as other:
        read = other.submit(connections.rows, KEYS, (), slowly)
        assert inside.wait(10)
        connections.close()
        assert descriptors(tmp_path)
        go_on.set()
        assert read.result() == every
        assert not descriptors(tmp_path)
        assert other.submit(connections.rows, KEYS, ()).result() == every


def test_store_may_be_closed_again_and_again_while_others_read(connections: Connections) -> None:
    every = connections.rows(KEYS, ())

    def read() -> bool:
        with connections.until(math.inf):
            return connections.rows(KEYS, (), lambda _: False) == every

    with ThreadPoolExecutor(4) as others:
        answers = [others.submit(read) for _ in range(100)]
        while not all(answer.done() for answer in answers):
            connections.close()
    assert all(answer.result() for answer in answers)
