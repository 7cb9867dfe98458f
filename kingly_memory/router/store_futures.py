"""Awaiting the store's futures: those of one commit wake the event loop once, not once each."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class StoreFutures:
    """Where the futures of other threads arrive in one event loop."""

    def __init__(self) -> None:
        self._arrived: list[tuple[asyncio.Future[Any], Future[Any]]] = []
        self._lock = threading.Lock()

    async def of(self, future: Future[T]) -> T:
        """The future's result. Cancelling the wait leaves the work to go on."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda done: self._arrive(loop, waiting, done))
        return await waiting

    def _arrive(self, loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[Any], done: Future[Any]) -> None:
        with self._lock:
            self._arrived.append((waiting, done))
            first = len(self._arrived) == 1
        if first and not loop.is_closed():
            loop.call_soon_threadsafe(self._take_in)

    def _take_in(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, []
        for waiting, done in arrived:
            if waiting.done():
                continue
            error = done.exception()
            if error is None:
                waiting.set_result(done.result())
            else:
                waiting.set_exception(error)
