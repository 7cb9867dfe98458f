"""Keeping the link to one remote, by the rules in `link`: counting failures, going offline, probing, recovering."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from kingly_memory.dataclass import replace
from kingly_memory.errors import RemoteError, RemoteUnauthorised, RemoteUnavailable, StoreError
from kingly_memory.models import LinkState
from kingly_memory.observe import LinkChanged
from kingly_memory.ports import RemoteInfo, Transaction
from kingly_memory.router.delivery.link import SEEN, Link, broken, mended, probe_is_due, probed_sooner, use_is_due, used
from kingly_memory.router.delivery.moves import outbox_of_documents, outbox_of_links
from kingly_memory.router.delivery.routes import UNNAMED, called
from kingly_memory.router.services import RemotePart, Services

log = logging.getLogger("kingly_memory.link")

NEXT_PROBE_S = 10.0
"""When a process ends before its probe is answered, the next process may probe after this time: it need not wait for
the interval, and a series of short commands does not ask a hung remote each."""


class LinkKeeper:
    """Keeps one remote's link: counts failures, goes offline, probes once per interval and machine, recovers. All times
    that are passed in and out are on the monotonic clock."""

    def __init__(self, part: RemotePart, services: Services) -> None:
        self._part = part
        self._route = part.route
        self._services = services
        self._longest_s = services.settings.probe_interval_s + 1.0
        self.wake = asyncio.Event()
        """Set when there may be something to do: something was stored, or an offline remote is to be tried."""
        self._is_used = False
        self._unshared: Link | None = None
        self._asked_at: list[float] = []
        self._answered_s = -math.inf
        self.takes_at_once = 1
        """Memories in one call, as the remote said when this process last connected to it."""
        self._counted: deque[tuple[float, int]] = deque(maxlen=32)  # enough to tell which failures were side by side
        self._failing = asyncio.Lock()

    def current(self) -> Link:
        """The link as the last process to touch it left it."""
        if self._unshared is not None:
            return self._unshared
        return Link.from_json(self._services.reader.facet("link", self._route.link))

    @property
    def is_connected(self) -> bool:
        return self.current().state is LinkState.CONNECTED

    def seconds_to_probe(self) -> float | None:
        """How long until the next probe may be made; None while connected."""
        link = self.current()
        if link.state is not LinkState.OFFLINE or link.next_probe is None:
            return None
        ahead = link.next_probe - self._services.now_s()
        return 0.0 if ahead > self._longest_s else max(0.0, ahead)

    def use(self, link: Link | None = None) -> None:
        """A user's own call wants the remote: while it is offline it may be tried, which nobody waits for; within the
        pause after a try, at its end. `link` is for a caller who has just read it: then nobody is woken in vain."""
        if link is None or use_is_due(link, self._services.now_s()) or used(link) is not None:
            self._is_used = True
            self.wake.set()

    async def succeeded(self) -> None:
        """A call was answered, so whatever failed before it does not matter."""
        self._answered_s = self._services.clock.monotonic()
        if self.current().failures:
            await self._change(lambda link: replace(link, failures=0, last_error=None))

    async def failed(self, error: RemoteError, *, since_s: float, tries: int = 1, each: bool = False) -> None:
        """A call that began at `since_s` failed `tries` times over.

        It does not count when the remote has answered since it began: it may have failed on what is over. Of calls that
        fail side by side only the one with the most tries counts, unless `each` counts by itself.
        """
        async with self._failing:
            if since_s < self._answered_s:
                return
            beside = 0 if each else sum(counted for at_s, counted in self._counted if since_s < at_s)
            more = max(tries - beside, 0)
            if more or isinstance(error, RemoteUnauthorised):
                self._counted.append((self._services.clock.monotonic(), more))
                await self._count(error, since_s, tries=more)

    async def _count(self, error: RemoteError, since_s: float, *, tries: int | None = None) -> None:
        """Count what failed; `tries` None is enough by itself. A remote that is only too slow for a search is probed at
        once, with the patience that deliveries have."""
        reason, unauthorised = error.reason, isinstance(error, RemoteUnauthorised)
        is_slow = isinstance(error, RemoteUnavailable) and error.timed_out and tries is not None
        now_s, pause_s = self._services.now_s(), 0.0 if is_slow else self._services.settings.probe_interval_s
        was: LinkState | None = None

        def move(before: Link) -> Link | None:
            nonlocal was
            was = before.state
            if since_s < self._answered_s:  # asked again here: it may have answered while this waited for the store
                return None
            after = before
            if tries is not None:
                after = replace(before, failures=before.failures + tries, last_error=reason)
            if tries is None or unauthorised or after.failures >= self._services.settings.pace.offline_after:
                return broken(after, reason, now_s, pause_s, unauthorised=unauthorised)
            return after

        moved = await self._change(move)
        if moved is not None and moved.state is LinkState.OFFLINE and was is not LinkState.OFFLINE:
            working = "working locally" if self._route.label == UNNAMED else "going on without it"
            log.warning("%s is offline, %s: %s", called(self._route.label), working, reason)
            self._tell(LinkState.OFFLINE, reason)

    async def probe(self, *, forced: bool = False) -> bool:
        """Try the remote once if a probe is due (forced, or wanted by a use), and say whether the link is connected
        now."""
        if not forced and not await self._take_probe():
            return self.is_connected
        began_s = self._services.clock.monotonic()
        try:
            async with self.calling():
                info = await self._part.remote.connect()
        except RemoteError as error:
            await self._count(error, began_s)
            return self.is_connected
        await self._go_connected(info)
        return True

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """Around a call. A call that is given up because the process ends has failed, if the remote was silent for long
        enough: commands that each end before the deadline still learn together that nobody answers."""
        asked_at = self._services.clock.monotonic()
        self._asked_at.append(asked_at)
        try:
            yield
        except asyncio.CancelledError:
            now_s = self._services.now_s()
            if self.is_silent(asked_at):
                await asyncio.shield(self.given_up(asked_at))
            else:  # the turn to probe was not used: the next process may take it at once
                await asyncio.shield(self._change(lambda link: probed_sooner(link, now_s)))
            raise
        finally:
            self._asked_at.remove(asked_at)

    async def given_up(self, since_s: float) -> None:
        """The process ends, and has waited for the remote since then. Who was refused keeps hearing that: a hub answers
        wrong tokens late."""
        if self.current().unauthorised:
            return
        now_s = self._services.now_s()
        await self.failed(RemoteUnavailable("no answer in the time that there was"), since_s=since_s)
        await self._change(lambda link: probed_sooner(link, now_s + NEXT_PROBE_S))

    @property
    def is_calling(self) -> bool:
        """True while a call is under way."""
        return bool(self._asked_at)

    @property
    def is_kept_waiting(self) -> bool:
        """True when a call is under way and the remote silent for longer than a search would wait."""
        return any(map(self.is_silent, self._asked_at))

    def monotonic_s(self) -> float:
        return self._services.clock.monotonic()

    def is_silent(self, since_s: float, times: int = 1) -> bool:
        """Whether nothing was heard of the remote since then for `times` the patience of a search."""
        silent_s = self._services.clock.monotonic() - max(since_s, self._part.heard_s())
        return silent_s >= times * self._services.settings.remote_search_s

    def _tell(self, state: LinkState, reason: str | None) -> None:
        self._services.emit(
            LinkChanged(state.value, reason, None if self._route.label == UNNAMED else self._route.label)
        )

    async def _take_probe(self) -> bool:
        """Claim the probe for this process: whoever moves `next_probe` on makes it, or gives it back when it has to
        end before it can."""
        now_s, interval_s = 0.0, self._services.settings.probe_interval_s
        taken, is_used, self._is_used = False, self._is_used, False

        def take(before: Link) -> Link | None:
            # The time is asked for under the write lock. A claim that another process made while this one waited for
            # the lock would else lie more than an interval ahead, as if the clock had gone back.
            nonlocal now_s, taken
            now_s = self._services.now_s()
            taken = probe_is_due(before, now_s, self._longest_s) or (is_used and use_is_due(before, now_s))
            if not taken:
                return used(before) if is_used else None
            return replace(before, next_probe=now_s + interval_s, tried=now_s)

        try:
            await self._change(take)
            return taken
        except asyncio.CancelledError:  # the claim may still wait for the writer: `taken` is asked after it
            await asyncio.shield(self._change(lambda link: probed_sooner(link, now_s) if taken else None))
            raise

    async def _go_connected(self, info: RemoteInfo) -> None:
        self._answered_s = self._services.clock.monotonic()
        self.takes_at_once = info.takes_at_once
        effects = "exactly_once" if info.honours_keys else "at_least_once"
        with suppress(StoreError):  # what was not written is compared again when the remote is next connected to
            await self._compare(info.incarnation)
        before, answer = self.current(), (effects, str(info))
        if before.state is LinkState.CONNECTED and (before.effects, before.server) == answer:
            return
        await self._change(lambda _: mended(*answer))
        if before.state is not LinkState.CONNECTED:
            log.info("%s is back", called(self._route.label))
            self._tell(LinkState.CONNECTED, None)

    async def _compare(self, incarnation: str) -> None:
        """Send everything once more to a remote that is another incarnation than the one last seen. That is kept per
        remote, since the token may be replaced while the remote is put back."""
        name, now_s = self._route.name, self._services.now_s()
        seen = self._services.reader.facet(SEEN, name)
        if not incarnation or seen == {"incarnation": incarnation}:
            return

        def change(transaction: Transaction) -> bool:
            seen = transaction.facet(SEEN, name)
            transaction.set_facet(SEEN, name, {"incarnation": incarnation})
            if seen is None or seen["incarnation"] == incarnation:
                return False
            transaction.send_anew(name, outbox_of_links(name), outbox_of_documents(name), now_s)
            return True

        if await self._services.write(change):
            remote = called(self._route.label)
            log.warning("%s was put back to an earlier state: all that is for it is sent once more", remote)

    async def _change(self, move: Callable[[Link], Link | None]) -> Link | None:
        """Move the shared row. Where the store cannot be written, this process keeps its own."""

        def change(transaction: Transaction) -> Link | None:
            moved = move(Link.from_json(transaction.facet("link", self._route.link)))
            if moved is not None:
                transaction.set_facet("link", self._route.link, moved.to_json())
            return moved

        try:
            moved = await self._services.write(change)
        except StoreError:  # a full disk must not make each search wait for a remote that is gone
            moved = move(self.current())
            self._unshared = moved if moved is not None else self._unshared
            return moved
        self._unshared = None
        return moved
