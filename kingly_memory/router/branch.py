"""One remote of a router: its link, its couriers, its side of searches. Branches know nothing of each other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import inf
from uuid import uuid4

from kingly_memory.models import RemoteUse
from kingly_memory.observe import Events
from kingly_memory.ports import Clock, LocalStore, Remote
from kingly_memory.router.delivering.courier import Depot
from kingly_memory.router.delivering.drain import Drainer, SyncReport
from kingly_memory.router.delivering.enrolment import Enrolment
from kingly_memory.router.delivering.link_keeper import LinkKeeper
from kingly_memory.router.delivering.routes import UNNAMED, Route, Routes
from kingly_memory.router.landing import Landing
from kingly_memory.router.searching.keepsakes import Keepsakes
from kingly_memory.router.searching.remote_side import RemoteSide
from kingly_memory.settings import Settings

NO_TIME = "earlier memories were not looked through in the time that there was"


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A remote that a router works with: the port, its stable name, who may deliver to it on this machine, what people
    call it, and when it was last heard."""

    name: str
    endpoint: str
    remote: Remote
    leads: Callable[[], bool]
    stop_leading: Callable[[], None]
    label: str = UNNAMED
    heard_s: Callable[[], float] = lambda: -inf
    """When the remote last answered anything, on the monotonic clock."""
    token_mark: str = ""

    @property
    def route(self) -> Route:
        return Route(self.name, self.label, self.endpoint, self.token_mark)


@dataclass(frozen=True, slots=True)
class Ground:
    """What the branches of one router stand on."""

    project: str
    store: LocalStore
    landing: Landing
    clock: Clock
    settings: Settings
    events: Events
    chance: Callable[[], float]


class Branch:
    """Everything about one remote."""

    def __init__(self, part: RemotePart, routes: Routes, ground: Ground) -> None:
        self.part = part
        self.side = _side(part, ground)
        depot = Depot(
            part.name,
            f"{os.getpid()}-{uuid4().hex[:12]}",
            store=ground.store,
            remote=part.remote,
            link=self.side.link,
            clock=ground.clock,
            settings=ground.settings,
            events=ground.events,
            chance=ground.chance,
            label=part.label,
            is_for=lambda memory: routes.is_for(part.name, memory),
        )
        self.drainer = Drainer(
            depot, leads=part.leads, stop_leading=part.stop_leading, sends=routes.use is not RemoteUse.ASK
        )
        self._enrols = routes.use is RemoteUse.ENROL
        self._clock = ground.clock
        self._enrolled = asyncio.Event()
        self._undone = asyncio.Event()
        self._pause_s = ground.settings.usage_flush_s
        self._enrolment = Enrolment(
            part.name,
            part.endpoint,
            ground.project,
            store=ground.store,
            landing=ground.landing,
            clock=ground.clock,
            said=routes.policy.about(part.label),
            is_for=depot.is_for,
            earlier=routes.earlier,
        )

    @property
    def label(self) -> str:
        return self.part.label

    def begin(self) -> Future[bool]:
        """Queue the enrolment, if there is to be one, at the store: what is stored after this call finds the remote
        known."""
        if self._enrols:
            return self._enrolment.begin()
        nothing: Future[bool] = Future()
        nothing.set_result(False)
        return nothing

    async def run(self, begun: Future[bool]) -> None:
        """Deliver for as long as the router is open."""
        await self._enrol(begun)
        enrolling = asyncio.create_task(self._enrol_again())
        try:
            await self.drainer.run()
        finally:
            enrolling.cancel()
            await asyncio.wait({enrolling})

    async def sync(self, timeout_s: float) -> SyncReport:
        """Send everything that waits, and earlier memories where that was said."""
        end_s = self._clock.monotonic() + timeout_s
        if self._enrols and self._enrolled.is_set() and self._enrolment.is_undone():
            self._enrolled.clear()
            self._undone.set()
        is_enrolled = await self._clock.wait(self._enrolled, timeout_s)
        report = await self.drainer.sync(max(0.0, end_s - self._clock.monotonic()))
        return report if is_enrolled or report.reason else replace(report, reason=NO_TIME)

    async def _enrol(self, begun: Future[bool]) -> None:
        await self._enrolment.complete(begun, self._pause_s)
        self._enrolled.set()

    async def _enrol_again(self) -> None:
        """Whenever somebody has taken the remote out of the home, and it is wanted there all the same."""
        while True:
            await self._undone.wait()
            self._undone.clear()
            await self._enrol(self._enrolment.begin())


def _side(part: RemotePart, ground: Ground) -> RemoteSide:
    link = LinkKeeper(
        part.route.link,
        store=ground.store,
        clock=ground.clock,
        settings=ground.settings,
        events=ground.events,
        chance=ground.chance,
        label=part.label,
        heard_s=part.heard_s,
    )
    keepsakes = Keepsakes(part.name, reader=ground.store.reader, clock=ground.clock, settings=ground.settings)
    return RemoteSide(part.name, part.remote, link, keepsakes, label=part.label)
