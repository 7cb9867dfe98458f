"""The remotes of a router: one connection each, and all of them at once. None waits for another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeVar

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, JsonObject, LinkState, Memory, RemoteUse
from kingly_memory.observe import Events
from kingly_memory.ports import Clock, LocalStore, Remote
from kingly_memory.router import known_remotes
from kingly_memory.router.landing import Landing
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.routes import UNNAMED, Route, Routes
from kingly_memory.router.search.remote_cache import RemoteCache
from kingly_memory.router.search.remote_side import RemoteSide
from kingly_memory.router.sender import Sender, SyncReport
from kingly_memory.settings import Settings

log = logging.getLogger("kingly_memory.router")
T = TypeVar("T")

NO_TIME = "earlier memories were not looked through in the time that there was"
MOST_WITHHELD = 100_000
"""Deliveries that are looked at again when a policy says something else."""


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A remote that a router works with: the port, its stable name and address, which process may deliver to it on this
    machine, what people call it, and when it last answered anything, on the monotonic clock."""

    name: str
    endpoint: str
    remote: Remote
    leads: Callable[[], bool]
    stop_leading: Callable[[], None]
    label: str = UNNAMED
    heard_s: Callable[[], float] = lambda: -inf
    token_mark: str = ""

    @property
    def route(self) -> Route:
        return Route(self.name, self.label, self.endpoint, self.token_mark)


@dataclass(frozen=True, slots=True)
class RemotesSynced(SyncReport):
    """What `sync` achieved at several remotes, and at each of them by its name. The link is connected when all are."""

    remotes: Mapping[str, SyncReport] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        each = {label: report.to_json() for label, report in self.remotes.items()}
        return {**SyncReport.to_json(self), "remotes": each}


class RemoteConnection:
    """Everything about one remote: its link, what is sent to it, and its side of searches."""

    def __init__(
        self,
        part: RemotePart,
        routes: Routes,
        *,
        project: str,
        store: LocalStore,
        landing: Landing,
        clock: Clock,
        settings: Settings,
        events: Events,
        chance: Callable[[], float],
    ) -> None:
        self.part = part
        link = LinkKeeper(
            part.route.link,
            store=store,
            clock=clock,
            settings=settings,
            events=events,
            chance=chance,
            label=part.label,
            heard_s=part.heard_s,
        )
        cache = RemoteCache(part.name, reader=store.reader, clock=clock, settings=settings)
        self.side = RemoteSide(part.name, part.remote, link, cache, label=part.label)
        self.sender = Sender(
            part.name,
            part.remote,
            link,
            store=store,
            clock=clock,
            settings=settings,
            events=events,
            chance=chance,
            is_for=self._is_for,
            leads=part.leads,
            stop_leading=part.stop_leading,
            label=part.label,
            sends=routes.use is not RemoteUse.ASK,
        )
        self._routes = routes
        self._project = project
        self._store = store
        self._landing = landing
        self._clock = clock
        self._pause_s = settings.usage_flush_s
        self._enrols = routes.use is RemoteUse.ENROL
        self._enrolled = asyncio.Event()
        self._undone = asyncio.Event()

    def begin(self) -> Future[bool]:
        """Make the remote known to the store: what is stored after this call finds the project enrolled there. See
        `known_remotes.enrol`."""
        if not self._enrols:
            nothing: Future[bool] = Future()
            nothing.set_result(False)
            return nothing
        said = self._routes.policy.about(self.part.label)
        name, endpoint = self.part.name, self.part.endpoint
        enrol = known_remotes.enrol(name, endpoint, self._project, self._now_s(), said, earlier=self._routes.earlier)
        return self._store.write(enrol)

    async def run(self, begun: Future[bool]) -> None:
        """Deliver for as long as the router is open."""
        await self._enrol(begun)
        enrolling = asyncio.create_task(self._enrol_again())
        try:
            await self.sender.run()
        finally:
            enrolling.cancel()
            await asyncio.wait({enrolling})

    async def sync(self, timeout_s: float) -> SyncReport:
        """Send everything that waits, and earlier memories where that was asked for."""
        end_s = self._clock.monotonic() + timeout_s
        if self._enrols and self._enrolled.is_set() and self._is_undone():
            self._enrolled.clear()
            self._undone.set()
        is_enrolled = await self._clock.wait(self._enrolled, timeout_s)
        report = await self.sender.sync(max(0.0, end_s - self._clock.monotonic()))
        return report if is_enrolled or report.reason else replace(report, reason=NO_TIME)

    async def _enrol(self, begun: Future[bool]) -> None:
        """Enrol the project and make its earlier memories due, as often as it takes while the store cannot be
        written."""
        has_complained = False
        while True:
            try:
                if await self._landing.of(begun):
                    await self._backfill()
            except KinglyMemoryError as error:
                if not has_complained:
                    log.warning("delivery waits for the memory store: %s", error)
                has_complained = True
                await self._clock.sleep(self._pause_s)
                begun = self.begin()
            else:
                self._enrolled.set()
                return

    async def _enrol_again(self) -> None:
        """Whenever somebody has taken the remote out of the home, and it is wanted there all the same."""
        while True:
            await self._undone.wait()
            self._undone.clear()
            await self._enrol(self.begin())

    async def _backfill(self) -> None:
        """Make due what an earlier policy has kept back, then the earlier memories: the backlog is done when that says
        so."""
        name, project = self.part.name, self._project
        held = self._store.reader.outbox_page(name, [DeliveryState.LOCAL_ONLY.value], MOST_WITHHELD)
        ids = [memory_id for memory_id, _ in held]
        for start in range(0, len(ids), known_remotes.AT_ONCE):
            some = ids[start : start + known_remotes.AT_ONCE]
            change = known_remotes.send_after_all(name, some, project, self._now_s(), self._is_for)
            await self._landing.of(self._store.write(change))
        due, after = 0, ""
        while True:
            batch = known_remotes.backfill(name, project, self._now_s(), after, self._is_for)
            made = await self._landing.of(self._store.write(batch))
            due += made.due
            if made.last is None:
                break
            after = made.last
        if due:
            log.info("earlier memories above significance %g that go to %s: %d", REMOTE_ABOVE, self.part.endpoint, due)

    def _is_undone(self) -> bool:
        return known_remotes.is_undone(self._store.reader, self.part.name, self._project, earlier=self._routes.earlier)

    def _is_for(self, memory: Memory) -> bool:
        return self._routes.is_for(self.part.name, memory)

    def _now_s(self) -> float:
        return self._clock.now().timestamp()


class Remotes:
    """The connections of a router, in the order in which the remotes were named."""

    def __init__(self, connections: Sequence[RemoteConnection], routes: Routes) -> None:
        self.routes = routes
        self.connections = tuple(connections)

    @property
    def sides(self) -> tuple[RemoteSide, ...]:
        return tuple(one.side for one in self.connections)

    def begin(self) -> Iterator[Coroutine[None, None, None]]:
        """Make every remote known to the store, and return what delivers to each of them."""
        begun = [(one, one.begin()) for one in self.connections]
        return (one.run(enrolled) for one, enrolled in begun)

    def wake(self) -> None:
        """Something was stored."""
        for one in self.connections:
            one.sender.wake()

    async def wait_for(self, memory: Memory, seconds: float) -> None:
        """Wait until the memory is at rest at every remote that it is for, or the seconds are over, or those that have
        not answered are offline."""
        wanted = {route.name for route in self.routes.of(memory)}
        await _at_once([one.sender.wait_for(memory.id, seconds) for one in self.connections if one.part.name in wanted])

    async def sync(self, timeout_s: float, chosen: Sequence[Route]) -> SyncReport:
        """Probe the chosen remotes and send what waits for them, all at the same time."""
        names = {route.name for route in chosen}
        connections = [one for one in self.connections if one.part.name in names]
        reports = await _at_once([one.sync(timeout_s) for one in connections])
        if self.routes.is_plain:
            return reports[0]
        each = {one.part.label: report for one, report in zip(connections, reports, strict=True)}
        is_connected = all(report.link is LinkState.CONNECTED for report in reports)
        return RemotesSynced(
            delivered=sum(report.delivered for report in reports),
            pending=sum(report.pending for report in reports),
            dead=sum(report.dead for report in reports),
            link=LinkState.CONNECTED if is_connected else LinkState.OFFLINE,
            reason="; ".join(f"{label}: {one.reason}" for label, one in each.items() if one.reason) or None,
            remotes=each,
        )

    async def finish_sending(self, seconds: float) -> None:
        """Whatever the clock says, closing waits this long in real time and no longer, however many remotes."""

        async def until_idle(one: RemoteConnection) -> None:
            with contextlib.suppress(TimeoutError, KinglyMemoryError):
                async with asyncio.timeout(seconds):
                    await one.sender.until_idle()

        await _at_once([until_idle(one) for one in self.connections])
        await _at_once([one.side.settle() for one in self.connections])

    async def aclose(self) -> None:
        """Let go of every remote; one that fails at that keeps none of the others."""
        async with AsyncExitStack() as stack:
            for one in self.connections:
                stack.callback(one.part.stop_leading)
            await _at_once([one.part.remote.aclose() for one in self.connections])


async def _at_once(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All of it at the same time, to its end; raises what the first of them raised. Of one alone no task is made: that
    would give others a turn before it begins."""
    if len(work) == 1:
        return [await work[0]]
    done: list[T] = []
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        done.append(outcome)
    return done
