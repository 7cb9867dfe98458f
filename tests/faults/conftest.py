"""What a run of the faults hands on: the figures that docs/reliability.md shows. A search gives a silent remote up as
early as it does for users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kingly_memory.settings import Settings

Tell = Callable[[int, str], None]


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Note a figure for a row of docs/reliability.md."""

    def note(row: int, figure: str) -> None:
        request.node.user_properties.append(("figure", f"{row}|{figure}"))

    return note


@pytest.fixture(autouse=True)
def as_for_users(isolated_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests wait long for a remote, since others use the machine too."""
    monkeypatch.delenv("KINGLY_REMOTE_SEARCH_S")
    monkeypatch.setitem(vars(Settings)["__init__"].__kwdefaults__, "remote_search_s", 0.15)
