"""What a hub knows of the homes that call it, over both of its stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.hub import homes
from kingly_memory.hub.access import Caller
from kingly_memory.hub.engine import Engine, answered, scope_name
from kingly_memory.hub.grants import Grant
from kingly_memory.models import JsonObject
from kingly_memory.ports import LocalStore
from kingly_memory.testing import ManualClock
from tests.hub.stores import STORES, opener

pytestmark = pytest.mark.requirement("N24")


class Served:
    """A hub over a store, called by a home."""

    def __init__(self, opened: Callable[[], LocalStore]) -> None:
        self.store, self.clock = opened(), ManualClock()
        self.engine = Engine(self.store, self.clock, "1")

    def __call__(self, home: str, method: str, project: str = "app", **params: Any) -> JsonObject:
        caller = Caller(Grant("ada"), project, home=home)
        return asyncio.run(answered(self.engine, caller, method, params, size=0, worded=dict))

    def seen(self) -> dict[str, JsonObject]:
        return {one["home"]: one for one in self.engine.homes.seen()}

    def close(self) -> None:
        self.engine.homes.close()
        self.store.close()


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], LocalStore]:
    return opener(request.param, tmp_path, request)


def test_a_hub_knows_who_called_when_how_far_each_has_read_and_what_it_delivered(
    opened: Callable[[], LocalStore],
) -> None:
    hub = Served(opened)
    scope = scope_name("default", "app")
    hub("laptop", "store_many", memories=[{"content": "tea", "idempotency_key": "k"}, {"content": ""}])
    hub("laptop", "store_memory", content="tea", idempotency_key="k")
    until = hub("desktop", "list_changes")["until"]
    hub.clock.tick(60)
    hub("laptop", "store_memory", content="milk")
    seen = hub.seen()
    assert list(seen) == ["laptop", "desktop"]  # the one that called last first
    assert [seen["laptop"][name] for name in ("token", "namespace", "scope")] == ["ada", "default", scope]
    assert (seen["laptop"]["delivered"], seen["desktop"]["delivered"]) == (2, 0)
    assert seen["desktop"]["until"] == until
    assert hub.store.reader.changed_since(scope, int(until.rpartition(".")[2])) == 1
    assert hub.store.reader.size_bytes() > 0
    hub.close()


def test_what_a_hub_knows_of_homes_outlives_it_and_is_no_more_than_the_latest(
    opened: Callable[[], LocalStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Served(opened)
    for number in range(4):
        hub("laptop", "store_memory", content=f"tea {number}")
    hub.close()
    monkeypatch.setattr(homes, "MOST", 2)
    again = Served(opened)
    again("laptop", "store_memory", content="tea at last")
    assert again.seen()["laptop"]["delivered"] == 5
    for name in ("desktop", "phone"):
        again.clock.tick(60)
        again(name, "list_changes", documents=True)
    assert list(again.seen()) == ["phone", "desktop"]
    assert {"documents_until", "delivered"} < again.seen()["phone"].keys()
    again.close()
