"""What the hub's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.machines import Team
from tests.hub.stores import STORES, Hub, Server, opener, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=STORES)
def team(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Team]:
    """With each of the two stores of a hub."""
    made = Team(tmp_path, opener(request.param, tmp_path / "hub", request))
    yield made
    made.store.close()


@pytest.fixture(params=STORES)
def hub(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hub]:
    store = opener(request.param, tmp_path / "hub", request)()
    yield Hub(store)
    store.close()
