"""One piece of work that everybody who needs it waits for together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from kingly_memory.errors import RemoteError, RemoteUnavailable

T = TypeVar("T")


class Together(Generic[T]):
    """Runs `work` once for all who ask while it is under way; who asks later starts it anew. Somebody who stops waiting
    does not stop it: the next one finds it done."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None

    async def done(self, *, anew: bool = False) -> T:
        """What it came to. Raises what it raised, and RemoteUnavailable when it was called off. `anew`: what was under
        way already and then failed, though not by taking too long, may have failed on what is over, and is done once
        more."""
        earlier = self._under_way()
        task = earlier or self._begun()
        await asyncio.wait([task])
        if anew and earlier is not None and _failed_early(earlier):
            task = self._under_way() or self._begun()
            await asyncio.wait([task])
        if task.cancelled():
            raise RemoteUnavailable("the connection is being closed")
        return task.result()

    def _under_way(self) -> asyncio.Task[T] | None:
        return None if self._task is None or self._task.done() else self._task

    def _begun(self) -> asyncio.Task[T]:
        self._task = asyncio.create_task(self._work())
        self._task.add_done_callback(_looked_at)
        return self._task

    async def aclose(self) -> None:
        """Call it off, if it is under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


def _failed_early(task: asyncio.Task[Any]) -> bool:
    error = None if task.cancelled() else task.exception()
    return isinstance(error, RemoteError) and not (isinstance(error, RemoteUnavailable) and error.timed_out)


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Whoever still waits is told; nobody may be left, and that is no reason for a word in the log."""
    if not task.cancelled():
        task.exception()
