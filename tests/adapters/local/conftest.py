"""A store for one test, and one that all examples of a law share. What they leave behind has to be sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kingly_memory.adapters.local import store as local_store
from kingly_memory.adapters.local.store import DiskStore
from tests.store_samples import check_integrity


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """It does not exist yet."""
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def closed_in_the_end() -> Iterator[None]:
    """Whatever a test has opened and not closed."""
    before = {*local_store._stores}
    yield
    for one in {*local_store._stores} - before:
        one.close()


@pytest.fixture
def store(home: Path) -> Iterator[DiskStore]:
    store = DiskStore(home, durability="process")
    yield store
    store.close()
    if home.exists():
        check_integrity(home)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskStore]:
    """Each example takes projects of its own; those of the others make it a large store."""
    home = tmp_path_factory.mktemp("shared")
    store = DiskStore(home, durability="process")
    yield store
    store.close()
    check_integrity(home)
