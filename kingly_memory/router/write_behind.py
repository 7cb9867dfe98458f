"""What may be written a little later: uses of memories and contexts, and copies of what only the remote held."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kingly_memory.ports import Clock, LocalStore, Transaction
from kingly_memory.router.landing import Landing

log = logging.getLogger("kingly_memory.router")


class Buffer(Protocol):
    """Something that collects what is to be written."""

    def take(self) -> Callable[[Transaction], Any] | None:
        """A change that writes it; None when there is nothing. It still counts here until it is `written`."""
        ...

    def written(self, outcome: Any) -> None:
        """The change is durable and had that outcome. Without this call the same is taken again."""
        ...


class WriteBehind:
    """Empties the buffers of one router into its store, every `pause_s` seconds and on closing."""

    def __init__(
        self, buffers: Sequence[Buffer], *, store: LocalStore, landing: Landing, clock: Clock, pause_s: float
    ) -> None:
        self._buffers = buffers
        self._store = store
        self._landing = landing
        self._clock = clock
        self._pause_s = pause_s
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Work for as long as the router is open."""
        while True:
            await self._clock.sleep(self._pause_s)
            await self.flush_if_possible()

    async def flush_if_possible(self) -> None:
        """Uses and copies are worth a warning, not a failure."""
        try:
            await self.flush()
        except Exception as error:  # noqa: BLE001  # this is a background task's top, and closing must go on
            log.warning("use counts could not be written down: %s: %s", type(error).__name__, error)

    async def flush(self) -> None:
        """One flush at a time, or a use would be counted twice. Raises StoreError."""
        async with self._turn:
            for buffer in self._buffers:
                change = buffer.take()
                if change is not None:
                    buffer.written(await self._landing.of(self._store.write(change)))
