"""What the hub's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hub.stores import Server, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server
