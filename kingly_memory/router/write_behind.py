"""What may be written a little later: uses of memories, and copies of what only the remote held."""

from __future__ import annotations

import asyncio
import logging

from kingly_memory.ports import Clock, LocalStore
from kingly_memory.router.keepsakes import Keepsakes
from kingly_memory.router.landing import Landing
from kingly_memory.router.usage import UsageBuffer

log = logging.getLogger("kingly_memory.router")


class WriteBehind:
    """Empties the buffers of one router into its store, every `pause_s` seconds and on closing."""

    def __init__(
        self,
        usage: UsageBuffer,
        keepsakes: Keepsakes | None,
        *,
        store: LocalStore,
        landing: Landing,
        clock: Clock,
        pause_s: float,
    ) -> None:
        self._usage = usage
        self._keepsakes = keepsakes
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
            used = self._usage.take()
            if used is not None:
                await self._landing.of(self._store.write(used))
                self._usage.written()
            copied = None if self._keepsakes is None else self._keepsakes.take()
            if self._keepsakes is not None and copied is not None:
                self._keepsakes.written(await self._landing.of(self._store.write(copied)))
