"""Work that several callers wait for together, and a deadline over all that somebody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
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
        """What it came to. Raises what it raised, and RemoteUnavailable when it was called off.

        `anew`: work that was under way already and failed, though not by taking too long, may have failed on what is
        over, and is done once more.
        """
        is_earlier = self._task is not None and not self._task.done()
        task = self._current()
        await asyncio.wait([task])
        error = None if task.cancelled() else task.exception()
        is_late = isinstance(error, RemoteUnavailable) and error.timed_out
        if anew and is_earlier and isinstance(error, RemoteError) and not is_late:
            task = self._current()
            await asyncio.wait([task])
        if task.cancelled():
            raise RemoteUnavailable("the connection is being closed")
        return task.result()

    def _current(self) -> asyncio.Task[T]:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
            # Whoever waits gets what it raised. If nobody waits any more, no log needs to say so.
            self._task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._task

    async def aclose(self) -> None:
        """Call it off, if it is under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def deadline(timeout_s: float) -> AsyncIterator[None]:
    """All that somebody waits for, in that time. Raises RemoteUnavailable."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError:
        reason = f"no complete answer within {timeout_s * 1000:.0f} ms"
        raise RemoteUnavailable(reason, timed_out=True) from None
