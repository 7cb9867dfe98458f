"""The verbs on remotes and what waits for them, and how the whole memory is doing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from kingly_memory import validation
from kingly_memory.api.family import Family
from kingly_memory.declare import Arg, example, verb
from kingly_memory.errors import InvalidInput
from kingly_memory.home.own_files import named_path
from kingly_memory.models import OUTBOX_STATES, JsonObject, LinkState

if TYPE_CHECKING:
    from kingly_memory.models import Backup
    from kingly_memory.router.delivery.known_remotes import KnownRemote
    from kingly_memory.router.delivery.outbox import OutboxEntry
    from kingly_memory.router.remotes.connections import SyncReport

_REMOTE_NAME = Arg("only the remote of this name (default: all of them)", "NAME", option="remote_name")


class RemoteVerbs(Family):
    """The verbs on remotes."""

    @verb("status", "memory_status", "lifecycle", "See the memory's status", reads=True)
    @example("{}", "home project durability memories link outbox versions …")
    async def status(self) -> JsonObject:
        """See how many memories there are, whether the remote is connected, and what waits for it.

        It is plain JSON, and reads the local layer only. `vectors` is there where memories are found by meaning too,
        and says how many wait for their vector; `focus` where something is in it.
        """
        from kingly_memory.router.attention import focus

        engine = self._engine

        def look() -> JsonObject:
            vectors = {} if engine.embedding is None else {"vectors": engine.embedding.status()}
            in_focus = focus.status(engine.reader, engine.space)
            return {**engine.view.status(), **vectors, **in_focus}

        return await engine.read(look)

    @verb("sync")
    async def sync(
        self,
        timeout: Annotated[float, Arg("seconds to spend at most", "S", command_default=60.0)] = 30.0,
        remote: Annotated[str | None, _REMOTE_NAME] = None,
    ) -> SyncReport:
        """Try the remote now and deliver what waits for it.

        That is each remote, or the one of that name. Raises InvalidInput.
        """
        from kingly_memory.router.remotes.connections import SyncReport

        await self._engine.opened(goes_first=False)
        timeout_s = validation.seconds("timeout", timeout)
        if not self._engine.remotes.connections:
            return SyncReport(0, 0, 0, LinkState.DISABLED, "no remote is named")
        return await self._engine.remotes.sync(timeout_s, self._engine.view.routes(remote))

    @verb("backup create")
    async def backup(self, file: Annotated[str | os.PathLike[str], Arg("a new file", "FILE")]) -> Backup:
        """Write all of the home's memories to one file, while they are in use.

        That is every project of the home, with revisions, links, threads, documents and logs, and what waits for
        remotes; not the vectors' model, settings and tokens. `kingly-memory backup restore FILE` puts it back. Raises
        InvalidInput, StoreError.
        """
        path, engine = named_path("file", file), self._engine
        await engine.opened()
        await engine.flush()
        return await asyncio.to_thread(engine.store.backup, path)

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

    @verb("embedder status", reads=True)
    async def embedder_status(self) -> JsonObject:
        """See what makes the vectors that memories are found by, and how many have theirs.

        The embedder is loaded and asked; `problem` says why it makes none. `others` were made by another one, and go
        when all are made anew. `embedder` is None where words alone are searched.
        """
        await self._engine.opened()
        embedding = self._engine.embedding
        return {"embedder": None, "others": 0} if embedding is None else await embedding.describe()

    @verb("embedder rebuild", repeatable=True)
    async def embedder_rebuild(
        self,
        anew: Annotated[bool, Arg("make those anew that are there too")] = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> JsonObject:
        """Make all vectors that are missing now, and remove what another embedder made.

        Cut short, it goes on where it was. `progress` hears how many wait. Answers as `embedder status`. Raises
        InvalidInput where words alone are searched, EmbedderFailed, StoreError.
        """
        await self._engine.opened()
        embedding = self._engine.embedding
        if embedding is None:
            raise InvalidInput("embedder", "memories are found by their words alone; name one in the setting embedder")
        await embedding.rebuild(progress, anew=anew)
        return await embedding.describe()

    @verb("outbox list", reads=True)
    async def outbox(
        self,
        states: Annotated[
            Sequence[str], Arg("only entries that are", "STATE", option="state", choices=OUTBOX_STATES)
        ] = OUTBOX_STATES,
        remote: Annotated[str | None, _REMOTE_NAME] = None,
    ) -> Sequence[OutboxEntry]:
        """List what the remote has not acknowledged.

        It waits for the remotes (or the one of that name) or was refused by them: oldest memory first, then shared
        documents and log items, at most 1,000 entries. Raises InvalidInput.
        """
        return await self._engine.read(lambda: self._engine.view.outbox(states, remote))

    @verb("outbox retry")
    async def outbox_retry(
        self,
        ids: Annotated[Sequence[str] | None, Arg("key or id of a memory", "KEY_OR_ID", is_positional=True)] = None,
        remote: Annotated[str | None, _REMOTE_NAME] = None,
    ) -> int:
        """Send dead entries again: the named ones, or all.

        They are due now, at every remote or at the one of that name. Returns how many. Raises InvalidInput, also for a
        name under which nothing is stored.
        """
        from kingly_memory.router.delivery import outbox

        engine, now_s = self._engine, self._engine.now_s()
        routes, named = engine.view.routes(remote), await engine.read(lambda: engine.view.ids_of(ids or ()))
        changes = []
        for route in routes:
            dead = () if ids else await self.outbox(["dead"], route.label)
            changes.append(outbox.retry(route.name, [*named, *(one.id for one in dead)], now_s, engine.space))
        count = await engine.write(lambda transaction: sum(change(transaction) for change in changes))
        engine.wake()
        return count

    @verb("outbox drop")
    async def outbox_drop(
        self,
        ids: Annotated[Sequence[str], Arg("key or id of a memory", "KEY_OR_ID")],
        remote: Annotated[str | None, _REMOTE_NAME] = None,
    ) -> int:
        """Stop sending the named memories; they stay on this machine.

        They go to no remote, or not to the one of that name. Returns how many deliveries were taken out. Raises
        InvalidInput, also for a name under which nothing is stored.
        """
        from kingly_memory.router.delivery import outbox

        engine = self._engine
        routes, named = engine.view.routes(remote), await engine.read(lambda: engine.view.ids_of(ids))
        changes = [outbox.drop(route.name, named, engine.space) for route in routes]
        return await engine.write(lambda transaction: sum(change(transaction) for change in changes))

    @verb("remotes list", reads=True)
    async def remotes(self) -> tuple[KnownRemote, ...]:
        """List the remotes that this home knows, in use or not, and what waits for each; the same as `remotes`.

        Each has its address, how many memories it has got, how many wait for it, and how many it refused.
        """
        return await self._engine.read(self._engine.view.remotes)

    @verb("remotes forget")
    async def forget_remote(
        self, address: Annotated[str, Arg("its name or address, as `remotes list` shows it", "REMOTE")]
    ) -> KnownRemote:
        """Take a remote out of this home, with all that waits for it; the memories stay.

        Nothing becomes due there any more. Says what was known of it. Raises InvalidInput for one that is in use here
        or not known; StoreError, after which it can be repeated.
        """
        from kingly_memory.router.delivery import known_remotes

        named = validation.required("address", address)
        forgotten = known_remotes.forgettable(await self.remotes(), named, self._engine.runtime.name_at(named))
        while not await self._engine.write(known_remotes.forget(forgotten.name, self._engine.now_s())):
            pass
        return forgotten
