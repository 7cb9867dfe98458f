"""The remotes of a router: one connection each, and all of them at once. None waits for another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.ids import MemoryId
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, LinkState, RemoteUse
from kingly_memory.plain import Plain
from kingly_memory.ports import Delivery
from kingly_memory.router.delivery import known_remotes, outbox
from kingly_memory.router.delivery.link import as_shown
from kingly_memory.router.delivery.routes import Route, Routes
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.remotes.sender import Sender, Tally
from kingly_memory.router.remotes.sync import Reading
from kingly_memory.router.search.remote_cache import RemoteCache
from kingly_memory.router.search.remote_side import RemoteSide
from kingly_memory.router.services import RemotePart, Services

log = logging.getLogger("kingly_memory.delivery")
T = TypeVar("T")

SLOWER = 10
"""A process that does not lead, or that has just met trouble, looks this many polls apart."""

POLITE_S = 0.002
"""Between two looks while closing."""

NO_TIME = "earlier memories were not looked through in the time that there was"


@dataclass(frozen=True, slots=True)
class SyncReport(Plain):
    """What `sync` achieved. `reason` says why something still waits or is not taken in, else None. `received` counts
    memories and documents of other machines that are new here, revised or gone, since the router was opened or the last
    report; `documents` counts changes of shared documents and logs that were delivered. Of several remotes it is the
    sum, with what was achieved at each by its name; the link is connected when all are."""

    OPTIONAL = ("received", "documents", "remotes")

    delivered: int
    pending: int
    dead: int
    link: LinkState
    reason: str | None
    received: int = 0
    documents: int = 0
    remotes: Mapping[str, SyncReport] = field(default_factory=dict)


class RemoteConnection:
    """Everything about one remote: its link, its side of searches, and when something is sent to it. One process per
    home and remote delivers."""

    def __init__(self, part: RemotePart, routes: Routes, services: Services, *, space: str) -> None:
        self.part = part
        self._link = LinkKeeper(part, services)
        self._sender = Sender(part, self._link, services)
        self._route = part.route
        self._earlier = routes.earlier
        self._services = services
        self._space = space
        self.side = self._made_side(space)
        self._adds = routes.use is RemoteUse.ADD
        self._added = asyncio.Event()
        self._adding: asyncio.Task[None] | None = None
        self._sends = routes.use is not RemoteUse.ASK
        self._leading = False
        self._next_look_s = 0.0
        self._reported_news = 0

    def side_of(self, space: str) -> RemoteSide:
        """The remote as searches of that space see it."""
        if space == self._space:
            return self.side
        return self._made_side(space)

    def _made_side(self, space: str) -> RemoteSide:
        services, name = self._services, self._route.name
        cache = RemoteCache(name, store=services.store, clock=services.clock)
        return RemoteSide(self.part, self._link, cache, Reading(name, space, services).pull)

    def begin(self) -> Future[bool] | None:
        """Make the remote known to the store: what is stored after this call finds that the project is sent there. See
        `known_remotes.add`."""
        if not self._adds:
            return None
        route, now_s = self._route, self._services.now_s()
        change = known_remotes.add(route.name, route.endpoint, self._space, now_s, earlier=self._earlier)
        return self._services.store.write(change)

    async def run(self, begun: Future[bool] | None) -> None:
        """Deliver for as long as the router is open."""
        await self._add(begun)
        try:
            await self._guarded(self._first_contact())
            while True:
                self._next_look_s = self._services.settings.pace.poll_s * SLOWER  # should the round meet trouble
                await self._guarded(self._round())
                await self._services.clock.wait(self._link.wake, self._next_look_s)
        finally:
            if self._adding is not None:
                self._adding.cancel()
                await asyncio.wait({self._adding})

    async def sync(self, timeout_s: float) -> SyncReport:
        """Probe now, then send everything that waits, due or not, and earlier memories where that was asked for, until
        it is done or the time is over."""
        end_s = self._services.clock.monotonic() + timeout_s
        if self._adds and self._added.is_set():
            reader = self._services.reader
            if known_remotes.is_undone(reader, self._route.name, self._space, earlier=self._earlier):
                # Somebody has taken it out of the home, and it is wanted there all the same.
                self._adding = asyncio.create_task(self._add(self.begin()))
                self._added.clear()
        is_backfilled = await self._services.clock.wait(self._added, timeout_s)
        before = {name: self._sender.tally(name) for name in self._sender.outboxes}
        work = asyncio.ensure_future(self._sync(end_s))
        over = asyncio.Event()
        work.add_done_callback(lambda _: over.set())
        try:
            if await self._services.clock.wait(over, max(0.0, end_s - self._services.clock.monotonic())):
                await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        report = self._report(before)
        return report if is_backfilled or report.reason else replace(report, reason=NO_TIME)

    def wake(self) -> None:
        """Something was stored: look at once."""
        self._link.use()
        self._sender.moved.set()

    async def wait_for(self, memory_id: MemoryId, seconds: float) -> Delivery | None:
        """The delivery once it is at rest, or as it is when the seconds are over or the link is offline."""
        end = self._services.clock.monotonic() + seconds
        self.wake()
        while True:
            self._sender.settled.clear()
            now = self._sender.delivery_of(self._route.name, memory_id)
            left = end - self._services.clock.monotonic()
            at_rest = now is None or now.state in (DeliveryState.DELIVERED, DeliveryState.DEAD)
            if at_rest or left <= 0 or not self._link.is_connected:
                return now
            await self._services.clock.wait(self._sender.settled, min(left, self._services.settings.pace.poll_s / 10))

    async def until_idle(self) -> None:
        """Wait while there is something to send and a remote that takes it."""
        while not self._link.is_kept_waiting and (self._link.is_calling or self._is_busy()):
            self.wake()
            await asyncio.sleep(POLITE_S)

    def _is_busy(self) -> bool:
        return (
            self._sends
            and self._sender.may_send
            and (self._sender.turn.locked() or self._sender.due_outbox() is not None)
        )

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        """The task must outlive any one round; the outbox keeps what was not sent."""
        try:
            await work
        except Exception as error:  # this is the background task's top
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError from error  # what failed was the tidying up
            log.warning("delivery%s paused for a moment: %s: %s", self._sender.to_whom, type(error).__name__, error)

    async def _first_contact(self) -> None:
        """On opening: say hello, unless this machine knows already that nobody answers."""
        if self._adds:  # what is being stored goes first: to open a connection that reads would hold it up
            await self._services.write(lambda _: None)
        link = self._link.current()
        if link.state is LinkState.CONNECTED or link.unauthorised:
            await self._link.probe(forced=True)

    async def _round(self) -> None:
        self._link.wake.clear()
        if self._link.is_connected or await self._link.probe():
            if self._sends and await self._lead():
                while self._sender.may_send and (due := self._sender.due_outbox()) is not None:
                    await self._sender.drain(due)
            if self._link.is_connected:
                await self.side.catch_up(self._services.settings.call_timeout_s)
        else:
            if self._leading and self._link.current().unauthorised:  # make way for a process with a good token
                self._leading = False
                self.part.stop_leading()
            self._sender.settled.set()
        # A look costs one read, and shows what other processes stored or found out.
        self._next_look_s = self._services.settings.pace.poll_s * (1 if self._leading else SLOWER)
        probe_s = self._link.seconds_to_probe()
        if probe_s is not None:
            self._next_look_s = min(self._next_look_s, max(probe_s, 0.001))

    async def _lead(self) -> bool:
        """Become or stay the one process that delivers. A new leader takes back what a dead one had leased."""
        if self._leading or not self.part.leads():
            return self._leading
        self._leading = True
        for name in self._sender.outboxes:
            if ids := self._sender.ids(name, "leased"):
                await self._services.write(outbox.reclaim(name, ids, self._sender.owner, self._services.now_s()))
        return True

    async def _sync(self, end: float) -> None:
        """A batch that was under way may fail after the probe, on what happened before it: then one more is due."""
        rounds = 2 if self._sender.turn.locked() else 1
        while rounds and await self._link.probe(forced=True):
            if await self._lead():
                self._sender.paused_until_s = 0.0  # the user does not want to wait for as long as the remote has asked
                for name in self._sender.outboxes:
                    await self._sender.drain(name, early=True, end_s=end)
            else:
                await self._have_it_sent(end)
            if self._link.is_connected:
                await self.side.catch_up(max(end - self._services.clock.monotonic(), 0.0), at_once=True)
            rounds = 0 if self._link.is_connected else rounds - 1

    async def _have_it_sent(self, end: float) -> None:
        """Another process leads: make everything due at once, and watch it work."""
        for name in self._sender.outboxes:
            if ids := self._sender.ids(name, "pending"):
                await self._services.write(outbox.hasten(name, ids, self._services.now_s()))
        while self._link.is_connected and any(self._sender.tally(name).waiting for name in self._sender.outboxes):
            left = end - self._services.clock.monotonic()
            if left <= 0:
                return
            await self._services.clock.sleep(min(left, self._services.settings.pace.poll_s / 10))

    def _report(self, before: Mapping[str, Tally]) -> SyncReport:
        """`before` is how it stood with each outbox when the sync began."""
        link = as_shown(self._link.current())
        memories, links, documents = (self._sender.tally(name) for name in self._sender.outboxes)
        of_memories, _, of_documents = before.values()
        see = f"see `{self._sender.listing}`"
        refusal = known_remotes.not_taken_in(self._services.reader, self._route.name, self._space) or ""
        not_read = f"not all that is new there was taken in: {self.side.not_read}; the next sync goes on"
        reasons: dict[str, object] = {  # the first that holds is said
            link.last_error or f"some were not accepted yet; {see}": memories.waiting
            or link.state is LinkState.OFFLINE,
            f"the remote refused some; {see}": memories.dead > of_memories.dead,
            "links between memories were not accepted yet; `kingly-memory status` counts them": links.waiting,
            f"documents were not accepted yet; {see}": documents.waiting,
            f"the remote refused documents; {see}": documents.dead > of_documents.dead,
            refusal: refusal,
            not_read: self.side.not_read,
        }
        reason = next((why for why, holds in reasons.items() if holds), None)
        received, self._reported_news = self.side.news - self._reported_news, self.side.news
        return SyncReport(
            memories.delivered_since(of_memories),
            memories.waiting,
            memories.dead,
            link.state,
            reason,
            received,
            documents.delivered_since(of_documents),
        )

    async def _add(self, begun: Future[bool] | None) -> None:
        """Add the remote and make the project's earlier memories due, as often as it takes while the store cannot be
        written."""
        has_complained = False
        while True:
            try:
                if begun is not None and await asyncio.shield(asyncio.wrap_future(begun)):
                    await self._backfill()
            except KinglyMemoryError as error:
                if not has_complained:
                    log.warning("delivery waits for the memory store: %s", error)
                has_complained = True
                await self._services.clock.sleep(self._services.settings.pace.usage_flush_s)
                begun = self.begin()
            else:
                self._added.set()
                return

    async def _backfill(self) -> None:
        """Make the earlier memories due."""
        due, after = 0, ""
        while True:
            batch = known_remotes.backfill(self._route.name, self._space, self._services.now_s(), after)
            made = await self._services.write(batch)
            due += made.due
            if made.last is None:
                break
            after = made.last
        if due:
            log.info(
                "earlier memories above significance %g that go to %s: %d", REMOTE_ABOVE, self._route.endpoint, due
            )


class Remotes:
    """The connections of a router, in the order in which the remotes were named."""

    def __init__(self, connections: Sequence[RemoteConnection], routes: Routes) -> None:
        self.routes = routes
        self.connections = tuple(connections)

    def sides_of(self, space: str) -> tuple[RemoteSide, ...]:
        """The remotes as searches of that space see them."""
        return tuple(one.side_of(space) for one in self.connections)

    def begin(self) -> Iterator[Coroutine[None, None, None]]:
        """Make every remote known to the store, and return what delivers to each of them."""
        begun = [(one, one.begin()) for one in self.connections]
        return (one.run(backfill) for one, backfill in begun)

    async def wait_for(self, memory_id: MemoryId, seconds: float) -> None:
        """Wait until the memory is at rest at every remote, or the seconds are over, or those that have not answered
        are offline."""
        await _at_once([one.wait_for(memory_id, seconds) for one in self.connections])

    async def sync(self, timeout_s: float, chosen: Sequence[Route]) -> SyncReport:
        """Probe the chosen remotes and send what waits for them, all at the same time."""
        names = {route.name for route in chosen}
        connections = [one for one in self.connections if one.part.route.name in names]
        reports = await _at_once([one.sync(timeout_s) for one in connections])
        if self.routes.is_plain:
            return reports[0]
        each = {one.part.route.label: report for one, report in zip(connections, reports, strict=True)}
        is_connected = all(report.link is LinkState.CONNECTED for report in reports)
        counts = ("delivered", "pending", "dead", "received", "documents")
        return SyncReport(
            **{name: sum(getattr(report, name) for report in reports) for name in counts},
            link=LinkState.CONNECTED if is_connected else LinkState.OFFLINE,
            reason="; ".join(f"{label}: {one.reason}" for label, one in each.items() if one.reason) or None,
            remotes=each,
        )

    async def finish_sending(self, seconds: float) -> None:
        """Whatever the clock says, closing waits this long in real time and no longer, however many remotes."""

        async def until_idle(connection: RemoteConnection) -> None:
            with contextlib.suppress(TimeoutError, KinglyMemoryError):
                async with asyncio.timeout(seconds):
                    await connection.until_idle()

        await _at_once([until_idle(one) for one in self.connections])
        await _at_once([one.side.settle() for one in self.connections])

    async def aclose(self) -> None:
        """Let go of every remote; one that fails at that keeps none of the others."""
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
