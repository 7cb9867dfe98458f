"""One piece of work that everybody who needs it waits for together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from kingly_memory.errors import RemoteUnavailable

T = TypeVar("T")


class Together(Generic[T]):
    """Runs `work` once for all who ask while it is under way; who asks later starts it anew. Somebody who stops waiting
    does not stop it: the next one finds it done."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None

    async def done(self) -> T:
        """What it came to. Raises what it raised, and RemoteUnavailable when it was called off."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(_looked_at)
        task = self._task
        await asyncio.wait([task])
        if task.cancelled():
            raise RemoteUnavailable("the connection is being closed")
        return task.result()

    async def aclose(self) -> None:
        """Call it off, if it is under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Whoever still waits is told; nobody may be left, and that is no reason for a word in the log."""
    if not task.cancelled():
        task.exception()
