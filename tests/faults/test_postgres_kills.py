"""Hubs and their PostgreSQL killed under many callers: what was acknowledged is there, once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from kingly_memory.adapters.embed import wordllama
from kingly_memory.hub.process import HubProcess
from tests.faults.conftest import Tell
from tests.hub.stores import postgres_server

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: the hub is not tested on PostgreSQL")

HUBS, CALLERS, KEYS = 4, 200, 20_000
QUICK = (2, 12, 400)
TRIES = 400
PAUSE_S = 0.05


@contextmanager
def hubs_of(address: str, home: Path, number: int) -> Iterator[list[HubProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(HubProcess(home, options=("--store", address))) for _ in range(number)]


@pytest.mark.requirement("A9")
@pytest.mark.parametrize(
    "scale",
    [
        pytest.param(QUICK, id="few"),
        pytest.param((HUBS, CALLERS, KEYS), marks=pytest.mark.faults, id="many"),
    ],
)
def test_killed_hubs_and_a_killed_database_lose_and_double_nothing(
    tmp_path: Path, scale: tuple[int, int, int], tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The many have vectors: what a killed hub had not come to is made after its start."""
    number, callers, keys = scale
    by_meaning = scale != QUICK and wordllama.folder() is not None
    monkeypatch.setenv("KINGLY_EMBEDDER", "wordllama" if by_meaning else "none")
    acknowledged: dict[str, str] = {}
    given_up = list[str]()
    waiting = iter(range(keys))
    lock = threading.Lock()

    def store(web: httpx.Client, hub: Callable[[], HubProcess], key: str) -> None:
        said = {"method": "store_memory", "params": {"content": f"text of {key}", "idempotency_key": key}}
        for _ in range(TRIES):
            with suppress(httpx.HTTPError):
                reply = web.post(f"{hub().url}/mcp/call", json=said)
                if reply.status_code == 200:
                    acknowledged[key] = reply.json()["memory_id"]
                    return
            time.sleep(PAUSE_S)
        given_up.append(key)

    def call(hubs: list[HubProcess], chance: random.Random) -> None:
        with httpx.Client(trust_env=False, timeout=20) as web:
            while True:
                with lock:
                    one = next(waiting, None)
                if one is None:
                    return
                store(web, lambda: chance.choice(hubs), f"key {one}")

    with postgres_server() as server, hubs_of(server.address, tmp_path, number) as hubs:
        threads = [threading.Thread(target=call, args=(hubs, random.Random(one))) for one in range(callers)]
        for thread in threads:
            thread.start()
        for victim in range(number // 2):
            wait_for(acknowledged, keys * (victim + 1) // 5)
            hubs[victim].kill()
            hubs[victim].start()
        wait_for(acknowledged, keys * 3 // 5)
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kingly-hub' LIMIT 1"
            )
        wait_for(acknowledged, keys * 4 // 5)
        server.stop()
        server.start()
        is_back_s = time.monotonic()
        with httpx.Client(trust_env=False, timeout=20) as web:
            store(web, lambda: hubs[-1], "after the outage")
        first_s = time.monotonic() - is_back_s
        for thread in threads:
            thread.join()
        assert given_up == []
        found = told(hubs[-1])
        if by_meaning:
            wait_for_vectors(server.address, keys + 1)
    assert found == acknowledged
    assert len(found) == keys + 1
    tell(15, f"{number} hubs on one PostgreSQL, hubs and database killed: {keys:,} keys, 0 lost, 0 doubled")
    tell(15, f"first acknowledgement {first_s:.1f} s after the database was back")


def told(hub: HubProcess) -> dict[str, str]:
    """The ids of what the feed tells of, by key."""
    found, since, more = dict[str, str](), None, True
    with httpx.Client(trust_env=False, timeout=60) as web:
        while more:
            asked = {"method": "list_changes", "params": {"since": since, "limit": 1000}}
            page = web.post(f"{hub.url}/mcp/call", json=asked).json()
            since, more = page["until"], page["more"]
            for one in page["changes"]:
                assert found.setdefault(one["name"], one["memory_id"]) == one["memory_id"]
    return found


def wait_for_vectors(address: str, number: int) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        while connection.execute("SELECT count(*) FROM km_vector").fetchone() != (number,):
            time.sleep(PAUSE_S)


def wait_for(acknowledged: dict[str, str], number: int) -> None:
    while len(acknowledged) < number:
        time.sleep(PAUSE_S)
