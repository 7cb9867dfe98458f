"""What stands behind the blocking API: the thread that runs the event loop, and what cannot be written by a script.

`kingly_memory/blocking.py` has the verbs; `tools/blocking.py` writes it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from kingly_memory.errors import CalledWithin, RouterClosed

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter

log = logging.getLogger("kingly_memory.router")
T = TypeVar("T")


class Call(Protocol):
    """Starts a call on the event loop and waits for its result."""

    def __call__(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T: ...


async def on_the_loop(make: Callable[[], T]) -> T:
    """For what must be made on the event loop's own thread."""
    return make()


class Face:
    """Base of the blocking views: holds the awaiting object, and runs its coroutines on the portal's loop."""

    _awaiting: Any

    def __init__(self, awaiting: Any, call: Call) -> None:
        self._awaiting = awaiting
        self._call = call


class Portal:
    """A router that the thread of all blocking routers runs. The first verb opens it; `close()`, leaving `with`, or the
    end of the program closes it. Safe from any thread."""

    def __init__(self, awaiting: MemoryRouter | None = None) -> None:
        if awaiting is None or isinstance(awaiting, str | os.PathLike):  # what one tries first
            raise TypeError(f"Open a router with {type(self).__name__}.open(home).")
        self._awaiting = awaiting
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._is_closed = False
        self._calls: set[asyncio.Task[Any]] = set()
        self._router: Portal | None = None
        """Of a view: the portal of its router."""

    def _beside(self, view: MemoryRouter) -> Self:
        """A view of the router, which is open as long as that is."""
        portal = type(self)(view)
        portal._router = self._router or self  # noqa: SLF001  # a portal like this one
        return portal

    def __enter__(self) -> Self:
        try:
            self._call(self._awaiting.__aenter__)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the router; of a view, close nothing but the view. Safe to call twice."""
        if self._router is not None:
            with suppress(RouterClosed):
                self._call(self._awaiting.close)
            return
        with _shared.lock:
            if threading.current_thread() is _shared.thread:
                raise CalledWithin
            loop, self._loop, self._is_closed = self._loop, None, True
        if loop is None or self._pid != os.getpid():  # a fork leaves the thread behind
            return
        try:
            asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        finally:
            _shared.leave(self)

    def __repr__(self) -> str:
        return repr(self._awaiting).replace("MemoryRouter", type(self).__name__, 1)

    async def _end(self) -> None:
        """Close the router, then end the calls that other threads still wait for."""
        await self._awaiting.close()
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def _run(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine of the loop always has one
        self._calls.add(task)
        try:
            return await begin()
        finally:
            self._calls.discard(task)

    def _call(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._router is not None:
            return self._router._call(begin)  # noqa: SLF001  # a portal like this one
        waiting = self._begin(begin)
        try:
            return waiting.result()
        except CancelledError:
            raise RouterClosed from None
        except BaseException:  # Ctrl-C ends the wait, so the work on the loop must end too
            waiting.cancel()
            raise

    async def elsewhere(self, begin: Callable[[MemoryRouter], Coroutine[Any, Any, T]]) -> T:
        """What the portal's loop does for code that another event loop runs. Raises RouterClosed."""
        portal = self._router or self
        waiting = asyncio.wrap_future(portal._begin(lambda: begin(self._awaiting)))  # noqa: SLF001  # as above
        try:
            return await waiting
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            raise RouterClosed from None

    def _begin(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Start a call on the loop; with the lock held, for the loop must not end before it has been told."""
        with _shared.lock:
            if threading.current_thread() is _shared.thread:
                raise CalledWithin
            if self._is_closed:
                raise RouterClosed
            if self._loop is None:
                self._pid, self._loop = os.getpid(), _shared.join(self)
            if self._pid != os.getpid():
                raise RouterClosed("process")
            return asyncio.run_coroutine_threadsafe(self._run(begin), self._loop)


class _Thread:
    """The event loop of all blocking routers in this process. The first begins it, and the last that closes ends it."""

    def __init__(self) -> None:
        self.begin_anew()
        os.register_at_fork(after_in_child=self.begin_anew)

    def begin_anew(self) -> None:
        """In a forked child too: the parent's thread is not there."""
        self.lock = threading.RLock()  # a signal's handler may call, too
        self._routers: set[Portal] = set()
        """Those that are open, also where nobody else refers to them any more."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None

    def join(self, router: Portal) -> asyncio.AbstractEventLoop:
        """With the lock held."""
        _close_at_the_end()
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self.thread = threading.Thread(target=self._loop.run_forever, name="kingly-portal", daemon=True)
            self.thread.start()
        self._routers.add(router)
        return self._loop

    def leave(self, router: Portal) -> None:
        with self.lock:
            self._routers.discard(router)
            if self._routers or self._loop is None or self.thread is None:
                return
            loop, thread = self._loop, self.thread
            self._loop = self.thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def close_all(self) -> None:
        for router in list(self._routers):
            try:
                router.close()
            except Exception as error:  # noqa: BLE001  # the end of the program: the others are still to be closed
                log.warning("a memory router could not be closed: %s: %s", type(error).__name__, error)


_shared = _Thread()


@cache
def _close_at_the_end() -> None:
    """Routers that nobody has closed are closed when the program ends.

    `atexit` would be too late: by then thread pools take no more work, and closing needs them. So this is registered
    where concurrent.futures registers the end of its pools, and runs before it.
    """
    threading._register_atexit(_shared.close_all)  # type: ignore[attr-defined]  # noqa: SLF001  # there is no public name


class Entered(Face):
    """A view of what is used with `async with`, for `with`."""

    def __enter__(self) -> Self:
        self._call(self._awaiting.__aenter__)
        return self

    def __exit__(self, *how: object) -> None:
        self._call(lambda: self._awaiting.__aexit__(*how))
