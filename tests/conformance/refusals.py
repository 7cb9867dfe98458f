"""What an adapter is told that cannot be done, and what it has to say then: an error that its framework or we have for
that, with nothing half written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from kingly_memory import InvalidInput, MemoryRouter, RouterClosed, SyncMemoryRouter

TOO_LARGE = "x" * (16 * 2**20 + 1)
NOTHING: Any = None
NUMBER: Any = 5
LONG = "n" * 600
"""Longer than a name may be."""


async def refused(memory: MemoryRouter | SyncMemoryRouter, *calls: Callable[[], Any]) -> None:
    """Each call raises InvalidInput, in one line, and none of them has left anything."""
    for call in calls:
        with pytest.raises(InvalidInput) as raised:
            await _done(call)
        assert "\n" not in str(raised.value)
    assert not (await _done(memory.list)).memories
    assert await _done(memory.documents.list) == await _done(memory.logs) == ()


async def closed(memory: MemoryRouter | SyncMemoryRouter, *calls: Callable[[], Any]) -> None:
    """Each call raises RouterClosed when the router was closed."""
    await _done(memory.close)
    for call in calls:
        with pytest.raises(RouterClosed):
            await _done(call)


async def _done(call: Callable[[], Any]) -> Any:
    answer = call()
    return await answer if inspect.isawaitable(answer) else answer
