"""Making a project known for a remote: from then on, and for what was stored before."""

from __future__ import annotations

import logging
from concurrent.futures import Future

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.ports import Clock, LocalStore
from kingly_memory.router.delivering import outbox
from kingly_memory.router.landing import Landing

log = logging.getLogger("kingly_memory.router")


class Enrolment:
    """One project at one remote. A remote named for the first time gets its earlier memories above 0.3 as well."""

    def __init__(
        self, remote: str, endpoint: str, project: str, *, store: LocalStore, landing: Landing, clock: Clock
    ) -> None:
        self._remote = remote
        self._endpoint = endpoint
        self._project = project
        self._store = store
        self._landing = landing
        self._clock = clock

    def begin(self) -> Future[bool]:
        """Queue it at the store. What is stored after this call finds the remote known."""
        return self._store.write(outbox.enrol(self._remote, self._endpoint, self._project))

    async def complete(self, begun: Future[bool], pause_s: float) -> None:
        """Bring it to an end, for as often as it takes while the store cannot be written."""
        said = False
        while not await self._is_complete(begun, quietly=said):
            said = True
            await self._clock.sleep(pause_s)
            begun = self.begin()

    async def _is_complete(self, begun: Future[bool], *, quietly: bool) -> bool:
        try:
            after: str | None = "" if await self._landing.of(begun) else None
            while after is not None:
                now_s = self._clock.now().timestamp()
                batch = outbox.enrol_backlog(self._remote, self._project, now_s, after)
                after = await self._landing.of(self._store.write(batch))
        except KinglyMemoryError as error:
            if not quietly:
                log.warning("delivery waits for the memory store: %s", error)
            return False
        return True
