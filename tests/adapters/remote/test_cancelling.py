"""HTTP work that is ended before its time lets go of what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kingly_memory.adapters.remote.http import gently


async def outright(work: Callable[[], Awaitable[None]]) -> None:
    await work()


@pytest.mark.parametrize(("way", "closed"), [(gently, ["one", "two", "three"]), (outright, ["one"])])
async def test_every_connection_is_closed_although_another_deadline_ends_the_closing(
    way: Callable[..., Coroutine[Any, Any, None]], closed: list[str]
) -> None:
    """As the library closes several: shielded, with a turn of the event loop for each."""
    done: list[str] = []
    closing = asyncio.Event()

    async def work() -> None:
        with anyio.CancelScope(shield=True):
            for one in ("one", "two", "three"):
                done.append(one)
                closing.set()
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()

    task = asyncio.create_task(way(work))
    await closing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == closed


async def test_work_that_waits_is_ended_with_its_caller() -> None:
    waits, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await gently(work)
    assert waits.is_set()
    assert ended.is_set()


async def test_what_work_comes_to_is_told_and_so_is_its_trouble() -> None:
    async def answer() -> int:
        return 42

    async def trouble() -> int:
        raise ConnectionError("reset")

    assert await gently(answer) == 42
    with pytest.raises(ConnectionError, match="reset"):
        await gently(trouble)
