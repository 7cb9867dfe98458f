"""Threads that all routers of a process share: twenty projects need no more of them than one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SharedThreads(Executor):
    """A router's share in the pool of that name. The pool ends when the last router that uses it shuts its share down.
    A process that was forked has pools of its own: threads do not survive a fork."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._key = ("", 0)
        self._pool: ThreadPoolExecutor | None = None
        self._own: set[Future[object]] = set()
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Raises RuntimeError once this share is shut down, whoever else uses the pool."""
        with _lock:
            if self._is_shut:
                raise RuntimeError("this router's threads have ended")
            if self._pool is None:  # the first use: who never needs a thread keeps none for others
                self._key = (self._name, os.getpid())
                pool, users = _pools.get(self._key) or (ThreadPoolExecutor(self._most, self._name), 0)
                self._pool, _pools[self._key] = pool, (pool, users + 1)
            future = self._pool.submit(fn, *args, **kwargs)
        self._own.add(future)  # type: ignore[arg-type]  # whatever it gives
        future.add_done_callback(self._own.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for what this router has under way, and for nobody else's."""
        with _lock:
            self._is_shut, pool, self._pool = True, self._pool, None
        if pool is None:
            return
        own = list(self._own)
        for future in own if cancel_futures else ():
            future.cancel()
        if wait:
            futures.wait(own)
        with _lock:
            _, users = _pools[self._key]
            _pools[self._key] = (pool, users - 1)
            if users == 1:
                del _pools[self._key]
        if users == 1:
            pool.shutdown(wait)


_pools: dict[tuple[str, int], tuple[ThreadPoolExecutor, int]] = {}
"""By name and process: the pool, and how many routers use it."""
_lock = threading.Lock()
# A fork waits until nobody holds it: else the child could never get it.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
