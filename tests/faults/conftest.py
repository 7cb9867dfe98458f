"""What a run of the faults hands on: the figures that docs/reliability.md shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Tell = Callable[[int, str], None]


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Note a figure for a row of docs/reliability.md."""

    def note(row: int, figure: str) -> None:
        request.node.user_properties.append(("figure", f"{row}|{figure}"))

    return note
