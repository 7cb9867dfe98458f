"""Hubs and their PostgreSQL killed under many callers: what was acknowledged is there, once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from kingly_memory.hub.process import HubProcess
from tests.hub.stores import postgres_server

HUBS, CALLERS, KEYS = 4, 40, 8_000
TRIES = 200
PAUSE_S = 0.05


@contextmanager
def hubs_of(address: str, home: Path) -> Iterator[list[HubProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(HubProcess(home, options=("--store", address))) for _ in range(HUBS)]


@pytest.mark.faults
@pytest.mark.requirement("A9")
def test_killed_hubs_and_a_killed_database_lose_and_double_nothing(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    given_up = list[str]()
    waiting = iter(range(KEYS))
    lock = threading.Lock()

    def call(hubs: list[HubProcess], chance: random.Random) -> None:
        with httpx.Client(trust_env=False, timeout=20) as web:
            while True:
                with lock:
                    number = next(waiting, None)
                if number is None:
                    return
                key = f"key {number}"
                said = {"method": "store_memory", "params": {"content": f"text of {key}", "idempotency_key": key}}
                for _ in range(TRIES):
                    try:
                        reply = web.post(f"{chance.choice(hubs).url}/mcp/call", json=said)
                    except httpx.HTTPError:
                        time.sleep(PAUSE_S)
                        continue
                    if reply.status_code == 200:
                        acknowledged[key] = reply.json()["memory_id"]
                        break
                    time.sleep(PAUSE_S)
                else:
                    given_up.append(key)

    with postgres_server() as server, hubs_of(server.address, tmp_path) as hubs:
        callers = [threading.Thread(target=call, args=(hubs, random.Random(one))) for one in range(CALLERS)]
        for one in callers:
            one.start()
        for victim in (0, 1):
            wait_for(acknowledged, KEYS * (victim + 1) // 5)
            hubs[victim].kill()
            hubs[victim].start()
        wait_for(acknowledged, KEYS * 3 // 5)
        server.stop()
        server.start()
        for one in callers:
            one.join()
        assert given_up == []
        found, since = dict[str, str](), None
        with httpx.Client(trust_env=False, timeout=60) as web:
            more = True
            while more:
                asked = {"method": "list_changes", "params": {"since": since, "limit": 1000}}
                page = web.post(f"{hubs[2].url}/mcp/call", json=asked).json()
                since, more = page["until"], page["more"]
                for one_change in page["changes"]:
                    assert found.setdefault(one_change["name"], one_change["memory_id"]) == one_change["memory_id"]
    assert found == acknowledged
    assert len(found) == KEYS


def wait_for(acknowledged: dict[str, str], number: int) -> None:
    while len(acknowledged) < number:
        time.sleep(PAUSE_S)
