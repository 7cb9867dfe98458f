"""The one router of a server process, opened when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self

from kingly_memory.errors import RouterClosed

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter

CLOSE_S = 0.7
"""How long closing may take. What it would still write down are counts of uses; what was acknowledged is on disk."""


class LazyRouter:
    """A router that a slow disk or a locked store may take long to open, and that keeps nobody waiting until then.

    `begin` makes the router; it runs in a thread. Belongs to one event loop; use it as `async with`.
    """

    def __init__(
        self, begin: Callable[[], MemoryRouter], prepare: Callable[[MemoryRouter], Awaitable[None]] | None = None
    ) -> None:
        """`prepare`: what is done with the open router before anybody gets it; it raises nothing."""
        self._begin = begin
        self._prepare = prepare
        self._opening: asyncio.Task[MemoryRouter] | None = None
        self._over = False

    async def __aenter__(self) -> Self:
        self._over = False
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def warm_up(self) -> None:
        """Begin to open the router, if nobody has: the first call that needs it will find it open."""
        if not self._over and (self._opening is None or _has_failed(self._opening)):
            self._opening = asyncio.create_task(self._open(), name="kingly-opening")
            self._opening.add_done_callback(_has_failed)  # looked at, even if nobody waits for it

    async def get(self) -> MemoryRouter:
        """The open router. Raises what opening it raises; the next call then tries again."""
        self.warm_up()
        if self._opening is None:
            raise RouterClosed
        # A caller who is cancelled leaves the opening to those who wait with it.
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        """Close the router if it was opened, and wait for that a moment. Safe to call twice.

        A router that is still being opened, or a store that another process holds, is left to the end of the process,
        without a word: nothing that was acknowledged is lost.
        """
        self._over = True
        opening, self._opening = self._opening, None
        if opening is None:
            return
        closing = asyncio.create_task(self._end(opening), name="kingly-closing")
        await asyncio.wait([closing], timeout=CLOSE_S)
        closing.cancel()

    async def _end(self, opening: asyncio.Task[MemoryRouter]) -> None:
        [opened] = await asyncio.gather(opening, return_exceptions=True)
        if not isinstance(opened, BaseException):
            await opened.close()

    async def _open(self) -> MemoryRouter:
        router = await asyncio.to_thread(self._begin)
        opened = await router.__aenter__()
        if self._prepare is not None:
            await self._prepare(opened)
        return opened


def _has_failed(opening: asyncio.Task[MemoryRouter]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
