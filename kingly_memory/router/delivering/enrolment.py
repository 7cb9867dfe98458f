"""Enrolling a project at a remote: new memories go there from then on, earlier ones where that was said."""

from __future__ import annotations

import logging
from concurrent.futures import Future

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.models import REMOTE_ABOVE, DeliveryState
from kingly_memory.ports import Clock, LocalStore
from kingly_memory.router.delivering import outbox
from kingly_memory.router.delivering.outbox import MOST_WITHHELD, Judge, for_everything
from kingly_memory.router.delivering.routes import EVERYTHING
from kingly_memory.router.landing import Landing

log = logging.getLogger("kingly_memory.router")


class Enrolment:
    """One project at one remote: its new memories go there, as far as the policy says so (`said`, `is_for`). Its
    earlier ones go there only when that was said (`earlier`)."""

    def __init__(
        self,
        remote: str,
        endpoint: str,
        project: str,
        *,
        store: LocalStore,
        landing: Landing,
        clock: Clock,
        said: str = EVERYTHING,
        is_for: Judge = for_everything,
        earlier: bool = False,
    ) -> None:
        self._remote = remote
        self._endpoint = endpoint
        self._project = project
        self._store = store
        self._landing = landing
        self._clock = clock
        self._said = said
        self._is_for = is_for
        self._earlier = earlier

    def begin(self) -> Future[bool]:
        """Queue it at the store. What is stored after this call finds the remote known."""
        now_s = self._now_s()
        change = outbox.enrol(self._remote, self._endpoint, self._project, now_s, self._said, earlier=self._earlier)
        return self._store.write(change)

    def is_undone(self) -> bool:
        """Whether somebody has taken the remote out of the home, or it was enrolled again without its earlier memories
        although they are wanted there."""
        known = self._store.reader.facets("remote", [self._remote]).get(self._remote)
        if known is None or self._project not in known["projects"] or self._project in known["backlog"]:
            return True
        return self._earlier and self._project not in known["earlier"]

    async def complete(self, begun: Future[bool], pause_s: float) -> None:
        """Bring it to an end, for as often as it takes while the store cannot be written."""
        said = False
        while not await self._is_complete(begun, quietly=said):
            said = True
            await self._clock.sleep(pause_s)
            begun = self.begin()

    async def _is_complete(self, begun: Future[bool], *, quietly: bool) -> bool:
        try:
            if await self._landing.of(begun):
                await self._send_withheld()
                await self._send_backlog()
        except KinglyMemoryError as error:
            if not quietly:
                log.warning("delivery waits for the memory store: %s", error)
            return False
        return True

    async def _send_backlog(self) -> None:
        due, after = 0, ""
        while True:
            batch = outbox.enrol_backlog(self._remote, self._project, self._now_s(), after, self._is_for)
            made_due = await self._landing.of(self._store.write(batch))
            due += made_due.due
            if made_due.last is None:
                break
            after = made_due.last
        if due:
            log.info("earlier memories above significance %g that go to %s: %d", REMOTE_ABOVE, self._endpoint, due)

    async def _send_withheld(self) -> None:
        """What an earlier policy has kept back. First, since the backlog is done when it says so."""
        held = self._store.reader.outbox_page(self._remote, [DeliveryState.LOCAL_ONLY.value], MOST_WITHHELD)
        ids = [memory_id for memory_id, _ in held]
        for start in range(0, len(ids), outbox.ENROLMENT_BATCH):
            some = ids[start : start + outbox.ENROLMENT_BATCH]
            change = outbox.send_after_all(self._remote, some, self._project, self._now_s(), self._is_for)
            await self._landing.of(self._store.write(change))

    def _now_s(self) -> float:
        return self._clock.now().timestamp()
