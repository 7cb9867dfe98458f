"""The verbs on remotes and what waits for them, and how the whole memory is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kingly_memory import validation
from kingly_memory.api.family import Family
from kingly_memory.models import JsonObject, LinkState
from kingly_memory.router import known_remotes, outbox
from kingly_memory.router.attention import focus
from kingly_memory.router.known_remotes import KnownRemote
from kingly_memory.router.outbox import OutboxEntry
from kingly_memory.router.remotes import SyncReport


class RemoteVerbs(Family):
    """The verbs on remotes."""

    async def status(self) -> JsonObject:
        """Home, project, memories, link, outbox and versions as plain JSON. Reads the local layer only.

        `vectors` is there where memories are found by meaning too, and says how many wait for their vector; `focus`
        where something is in it.
        """
        engine = self._engine

        def look() -> JsonObject:
            vectors = {} if engine.embedding is None else {"vectors": engine.embedding.status()}
            in_focus = focus.status(engine.reader, engine.project, engine.station.agent)
            return {**engine.view.status(), **vectors, **in_focus}

        return await engine.read(look)

    async def sync(self, timeout: float = 30.0, remote: str | None = None) -> SyncReport:
        """Try the remotes (or the one of that name) now and deliver what waits, for at most `timeout` seconds. Raises
        InvalidInput."""
        await self._engine.opened()
        timeout_s = validation.seconds("timeout", timeout)
        if not self._engine.remotes.connections:
            return SyncReport(0, 0, 0, LinkState.DISABLED, "no remote is named")
        return await self._engine.remotes.sync(timeout_s, self._engine.view.routes(remote))

    async def await_vectors(self, timeout: float | None = None) -> bool:
        """Wait until every memory can be found by its meaning, `timeout` seconds at most; False when that is not so,
        or memories are found by words alone.

        Stores never wait for this, and searches for a part of their time. Raises StoreError.
        """
        await self._engine.opened()
        if self._engine.embedding is None:
            return False
        try:
            async with asyncio.timeout(None if timeout is None else validation.seconds("timeout", timeout)):
                await self._engine.embedding.complete()
        except TimeoutError:
            return False
        return True

    async def outbox(
        self, states: Sequence[str] = ("pending", "leased", "dead"), remote: str | None = None
    ) -> Sequence[OutboxEntry]:
        """What waits for the remotes (or the one of that name) or was refused by them, oldest memory first, at most
        1,000 entries. Raises InvalidInput."""
        return await self._engine.read(lambda: self._engine.view.outbox(states, remote))

    async def outbox_retry(self, ids: Sequence[str] | None = None, remote: str | None = None) -> int:
        """Make those deliveries due now, at every remote or at the one of that name; all dead ones when no ids are
        given. Returns how many. Raises InvalidInput."""
        engine, now_s = self._engine, self._engine.now_s()
        changes = []
        for route in engine.view.routes(remote):
            dead = await self.outbox(["dead"], route.label) if ids is None else ()
            changes.append(outbox.retry(route.name, [*(ids or ()), *(one.id for one in dead)], now_s, engine.project))
        count = await engine.write(lambda transaction: sum(change(transaction) for change in changes))
        engine.wake()
        return count

    async def outbox_drop(self, ids: Sequence[str], remote: str | None = None) -> int:
        """Never deliver those, to no remote or not to the one of that name. The memories stay in the local layer.
        Returns how many deliveries were taken out. Raises InvalidInput."""
        engine = self._engine
        changes = [outbox.drop(route.name, list(ids), engine.project) for route in engine.view.routes(remote)]
        return await engine.write(lambda transaction: sum(change(transaction) for change in changes))

    async def remotes(self) -> tuple[KnownRemote, ...]:
        """Every remote that the home knows, in use here or not: its address, how many memories it has got, how many
        wait for it, and how many it refused."""
        return await self._engine.read(self._engine.view.remotes)

    async def forget_remote(self, address: str) -> KnownRemote:
        """Take a remote out of the home: nothing waits for it any more and nothing becomes due there. The memories
        stay. Says what was known of it.

        Raises InvalidInput for one that is in use here or not known; StoreError, after which it can be repeated.
        """
        named = validation.required("address", address)
        found = known_remotes.forgettable(await self.remotes(), named, self._engine.name_at(named))
        while not await self._engine.write(known_remotes.forget(found.name, self._engine.now_s())):
            pass
        return found
