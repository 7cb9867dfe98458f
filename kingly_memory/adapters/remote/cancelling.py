"""Ending HTTP work before its time in the way its library is made for.

It shields what closes connections from the cancelling of scopes alone. A task that is cancelled outright while it
closes several leaves the others open, and nobody knows of them any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

_LETTING_GO_S = 1.0


async def gently(work: Callable[[], Awaitable[T]]) -> T:
    """What the work comes to. When the caller is cancelled, the work first gets the time to let go of connections: a
    few turns of the event loop."""
    scope, found = anyio.CancelScope(), list[T]()

    async def scoped() -> None:
        with scope:
            found.append(await work())

    task = asyncio.ensure_future(scoped())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        scope.cancel()
        task.add_done_callback(_seen)
        await asyncio.wait({task}, timeout=_LETTING_GO_S)
        raise
    return found[0]


def _seen(task: asyncio.Future[None]) -> None:
    """What it came to is of no interest any more."""
    if not task.cancelled():
        task.exception()
