"""Sending what is leased to one remote: several at once, and what came of each written down.

Only what needs it is sent in order: a memory has one delivery, so its revisions follow each other; a thought goes after
the one before it; a link waits in the outbox until both its ends are there. What has failed holds up nothing else.
Leases are the second safeguard: what one process has leased, no other sends before the lease lapses.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from kingly_memory.cognition import thoughts
from kingly_memory.dataclass import replace
from kingly_memory.documents import PART_CHARACTERS
from kingly_memory.errors import OVERTAKEN, RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import DeliveryState, Memory
from kingly_memory.observe import (
    DeliveryFailed,
    DeliveryStarted,
    MemoriesLeased,
    MemoryDelivered,
    MemorySent,
)
from kingly_memory.ports import Clock, Delivery, RemoteDocument, RemoteLink, RemoteMarks, Transaction
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery import outbox, shared
from kingly_memory.router.delivery.moves import Leased, outbox_of_documents, outbox_of_links
from kingly_memory.router.delivery.routes import UNNAMED
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.services import RemotePart, Services

if TYPE_CHECKING:
    from tenacity import RetryCallState

log = logging.getLogger("kingly_memory.delivery")

LONGEST_S = 300.0
"""No wait and no lease is longer: what is due further ahead was noted before the clock went back."""

MOST_STALE = 1_000
"""Deliveries that are reclaimed or hastened in one transaction."""

BATCH_CHARACTERS = 262_144
"""Content that goes in one call. As JSON it may have six bytes each, and a server of ours takes 4 MiB."""

OVERTAKEN_AT_ONCE = 3
"""Tries of a delivery that are made one after the other while the remote answers with another text."""


Answer = Sequence[str | RemoteRefused | None] | RemoteError
"""What came of a call: for each memory or link its id at the remote, or why it was refused; or the trouble that all of
them met."""


class Tally(NamedTuple):
    """Deliveries of an outbox that are not at rest, that are dead, and that this process has made."""

    waiting: int
    dead: int
    delivered: int

    def delivered_since(self, before: Tally) -> int:
        """Another process may have sent them; and a remote that was put back is sent what did not wait before."""
        return max(before.waiting - self.waiting - max(self.dead - before.dead, 0), self.delivered - before.delivered)


class SendWindow:
    """How many calls may be under way at once: one, twice as many after each success, half as many after each failure.

    So a remote in trouble is not stormed, and one that loses a few answers is hardly slowed down. A pause between two
    tries gives it time to recover: there is none while it takes several calls at once, and an answer ends one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pauses = deque[asyncio.Event]()
        self.at_once = 1
        self.pausing = 0
        """Deliveries that wait between two tries."""

    def taken(self) -> None:
        """A call was answered. It ends one pause, so that not all that wait go at once."""
        self.at_once = min(self._most, self.at_once * 2)
        if self._pauses:
            self._pauses.popleft().set()

    def failed(self) -> None:
        self.at_once = max(1, self.at_once // 2)

    async def pause(self, clock: Clock, seconds: float, *, wished: bool) -> None:
        """Wait between two tries, no longer than that; all of it where the remote has `wished` so."""
        is_answered = asyncio.Event()
        if not wished:
            if self.at_once > 1:
                return
            self._pauses.append(is_answered)
        self.pausing += 1
        try:
            await clock.wait(is_answered, seconds)
        finally:
            self.pausing -= 1
            if is_answered in self._pauses:
                self._pauses.remove(is_answered)


MOST_ALIKE = 3
"""Warnings for one reason in one drain. A token that may not forget has every memory of a renamed project refused."""


class Sender:
    """Leases deliveries to one remote, sends them, and writes down what came of it."""

    def __init__(self, part: RemotePart, link: LinkKeeper, services: Services) -> None:
        route = part.route
        self.outboxes = (route.name, outbox_of_links(route.name), outbox_of_documents(route.name))
        self.owner = f"{os.getpid()}-{uuid4().hex[:12]}"
        self.delivered = Counter[str]()
        """By this process, from each outbox."""
        self.settled = asyncio.Event()
        self.moved = asyncio.Event()
        """Set when a call has ended, and when something was stored: there may be more to begin."""
        self.turn = asyncio.Lock()
        self.to_whom = "" if route.label == UNNAMED else f" to {route.label}"
        self.paused_until_s = 0.0  # as the remote has asked (Retry-After), on the monotonic clock
        self.listing = f"kingly-memory outbox list --remote {route.endpoint}"
        self.pace = services.settings.pace
        self._complaints = Counter[str]()
        """In the present drain, by reason."""
        self._name = route.name
        self._remote = part.remote
        self.link = link
        self._services = services

    @property
    def may_send(self) -> bool:
        """False while the link is offline or the remote has asked for a pause."""
        return self.link.is_connected and self.monotonic_s() >= self.paused_until_s

    def monotonic_s(self) -> float:
        return self._services.clock.monotonic()

    def due_outbox(self) -> str | None:
        """The first outbox in which something is due."""
        return next(filter(self.is_due, self.outboxes), None)

    def is_due(self, name: str) -> bool:
        """Whether something in that outbox is due. A look without a write, so that polling costs the disk nothing."""
        now_s, due = self._services.now_s(), self._services.reader.next_due_s(name)
        return due is not None and (due <= now_s or due > now_s + LONGEST_S + 1)

    def tally(self, name: str) -> Tally:
        counts = self._services.reader.outbox_counts(name)
        return Tally(counts["pending"] + counts["leased"], counts["dead"], self.delivered[name])

    def ids(self, name: str, state: str) -> list[str]:
        return [one for one, _ in self._services.reader.outbox_page(name, [state], MOST_STALE)]

    def delivery_of(self, name: str, item_id: str) -> Delivery | None:
        return self._services.reader.deliveries([name], [item_id])[name].get(item_id)

    async def drain(self, name: str, *, early: bool = False, end_s: float = math.inf) -> None:
        """Send what is due in that outbox (`early`: each that waits, once), until nothing is left, the remote takes no
        more, or it is `end_s` on the monotonic clock."""
        async with self.turn:
            try:
                await Drain(self, name, early, end_s).run()
            finally:
                for reason, count in self._complaints.items():
                    if count > MOST_ALIKE:
                        log.warning(
                            "%d more deliveries%s failed likewise: %s", count - MOST_ALIKE, self.to_whom, reason
                        )
                self._complaints.clear()
                self.settled.set()

    async def lease(self, name: str, early: bool, failed: Collection[str]) -> list[Leased]:
        """Lease what is due (or, `early`, whatever waits). When this is cancelled, what was leased is given back."""
        lease_s = min(self.pace.lease_s, LONGEST_S)
        honours_keys, now_s = self.link.current().honours_keys, self._services.now_s()
        claim = outbox.Claim(self._name, self.owner, now_s, lease_s, early, failed, honours_keys)
        if name == self._name:
            self._services.emit(DeliveryStarted(self._name))
        # Few links, so that what is sent is as it stands.
        limit = self.pace.sends_at_once if name == outbox_of_links(self._name) else self.pace.lease_size
        claiming = asyncio.ensure_future(self._services.write(claim.lease(name, limit)))
        try:
            items = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            taken, *_ = await asyncio.gather(claiming, return_exceptions=True)
            if isinstance(taken, list):
                await self.release(taken)
            raise
        if name == self._name:
            self._services.emit(MemoriesLeased(tuple(MemoryId(item.id) for item in items)))
        return items

    async def release(self, items: Sequence[Leased]) -> None:
        """Give back what was leased and not sent, so that nobody has to wait for the lease to lapse."""
        if items:
            await asyncio.shield(self._services.write(outbox.give_back(items, self.owner)))

    def outdated(self, items: Sequence[Leased]) -> list[Leased]:
        """Those that must not be sent as they were leased: they were changed meanwhile, or are thoughts whose parent,
        leased before them, could not be delivered."""
        outbox_name = items[0].outbox
        now = self._services.reader.deliveries([outbox_name], [item.id for item in items])[outbox_name]
        return [item for item in items if now.get(item.id) != item.leased or self._is_too_early(item)]

    def _is_too_early(self, item: Leased) -> bool:
        parent, goes_anyway = parent_of(item), item.forgotten or item.leased.remote_id is not None
        if parent is None or goes_anyway or not isinstance(item.subject, Memory):
            return False
        return outbox.is_awaited(self._services.reader.row(parent), self.delivery_of(self._name, parent), item.subject)

    async def send(self, items: Sequence[Leased], window: SendWindow) -> Answer:
        """Send what goes in one call, in as many tries as an attempt has (seed 004). It counts as no call under way
        while it pauses. Raises CancelledError after writing down that it was interrupted."""
        from tenacity import AsyncRetrying, stop_after_attempt, wait_incrementing  # only who has a remote needs it

        tries, is_wished = 0, False

        async def once() -> Sequence[str | RemoteRefused | None]:
            nonlocal tries, is_wished
            began_s, tries = self.monotonic_s(), tries + 1
            try:
                async with self.link.calling():
                    outcomes = await self._call(items, again=tries > 1)
            except RemoteError as error:
                await self._hear(error, began_s, is_last=tries >= self.pace.send_tries)
                window.failed()
                is_wished = isinstance(error, RemoteUnavailable) and error.retry_after_s is not None
                raise
            await self.link.succeeded()
            window.taken()
            return outcomes

        async def pause(seconds: float) -> None:
            self.moved.set()
            await window.pause(self._services.clock, seconds, wished=is_wished)

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.pace.send_tries),
            wait=wait_incrementing(start=self.pace.send_pause_s, increment=self.pace.send_pause_s),
            retry=self._is_worth_another_try,
            sleep=pause,
            reraise=True,
        )
        try:
            return await retrying(once)
        except RemoteError as error:
            return error
        except asyncio.CancelledError:
            await asyncio.shield(self.note(items, RemoteError("interrupted while sending")))
            raise

    def _is_worth_another_try(self, state: RetryCallState) -> bool:
        """False too for a Retry-After longer than the pause: the outbox has the longer patience."""
        problem = state.outcome.exception() if state.outcome else None
        pause_s = self.pace.send_pause_s * state.attempt_number
        is_short = isinstance(problem, RemoteUnavailable) and (problem.retry_after_s or 0.0) <= pause_s
        return is_short and self.link.is_connected

    async def _hear(self, error: RemoteError, began_s: float, *, is_last: bool) -> None:
        """Tell the link what a try came to. Who could not be reached in any of them is offline."""
        if isinstance(error, RemoteRefused):
            await self.link.succeeded()
        elif not isinstance(error, RemoteUnavailable) or error.retry_after_s is None:
            is_out = is_last and isinstance(error, RemoteUnavailable) and not error.reached
            await self.link.failed(error, since_s=began_s, tries=self.pace.offline_after if is_out else 1)

    async def _call(self, items: Sequence[Leased], *, again: bool) -> Sequence[str | RemoteRefused | None]:
        if len(items) > 1:
            documents = [item.subject for item in items if isinstance(item.subject, RemoteDocument)]
            if documents:
                await self._remote.put_documents(documents)
                return [one.state for one in documents]
            return await self._remote.store_many(
                [(item.subject, item.idempotency_key) for item in items if isinstance(item.subject, Memory)]
            )
        try:
            return [await self._call_for(items[0], repeated=again or items[0].repeated)]
        except RemoteRefused as refused:
            return [refused]

    async def _call_for(self, item: Leased, *, repeated: bool) -> str | None:
        """Call the remote; returns its id of the memory, where it has one, or the state of the document."""
        subject, known, key = item.subject, item.leased.remote_id, item.idempotency_key
        if isinstance(subject, RemoteDocument):
            await self._remote.put_documents([subject])
            return subject.state
        if isinstance(subject, RemoteMarks):
            await self._remote.mark(subject)
            return None
        if not isinstance(subject, Memory):
            await self._remote.link(subject, idempotency_key=key, repeated=repeated)
            return None  # what the remote calls a link must not be taken for a memory's id there
        if item.forgotten:
            return await self._remote.forget(subject, remote_id=known, idempotency_key=key)
        if known is None and thoughts.is_thought(subject):
            parent = parent_of(item)
            ahead = None if parent is None else self.delivery_of(self._name, parent)
            return await self._remote.record_thought(
                subject,
                parent_remote_id=None if ahead is None else ahead.remote_id,
                idempotency_key=key,
                repeated=repeated,
            )
        return await self._remote.store(subject, idempotency_key=key, remote_id=known, repeated=repeated)

    async def note(self, items: Sequence[Leased], answer: Answer) -> None:
        """Write down what came of them. A Retry-After holds everybody back.

        That is one transaction: what a lost one knew is found out again when the leases lapse, by the same keys.
        """
        now_s = self._services.now_s()
        if isinstance(answer, RemoteUnavailable) and answer.retry_after_s:
            pause_s = min(answer.retry_after_s, self.pace.longest_wait_s, LONGEST_S)
            self.paused_until_s = max(self.paused_until_s, self.monotonic_s() + pause_s)
        each = [answer] * len(items) if isinstance(answer, RemoteError) else answer
        outcomes = [(item, meant(item, outcome)) for item, outcome in zip(items, each, strict=True)]
        came = [(item, outcome, self._move(item, outcome, now_s)) for item, outcome in outcomes]
        for item, outcome in outcomes:
            if isinstance(item.subject, Memory) and not isinstance(outcome, RemoteError):
                self._services.emit(MemorySent(MemoryId(item.id)))

        def change(transaction: Transaction) -> list[Delivery | None]:
            return [self._settled(transaction, *one, now_s) for one in came]

        for (item, outcome), after in zip(outcomes, await self._services.write(change), strict=True):
            if not isinstance(outcome, RemoteError):
                self.delivered[item.outbox] += after is not None and after.state is DeliveryState.DELIVERED
                if isinstance(item.subject, Memory):
                    self._services.emit(MemoryDelivered(MemoryId(item.id), outcome))
            elif isinstance(outcome, RemoteUnavailable) or (
                isinstance(outcome, RemoteRefused) and outcome.code != OVERTAKEN
            ):
                self._complain(item, outcome.reason, dead=after is not None and after.state is DeliveryState.DEAD)

    def _move(self, item: Leased, outcome: str | RemoteError | None, now_s: float) -> Callable[[Delivery], Delivery]:
        """What becomes of a delivery, by what came of it."""
        if not isinstance(outcome, RemoteError):
            took = partial(delivery.acknowledged, change=item.confirms, remote_id=outcome, now_s=now_s)
            return took if isinstance(item.subject, Memory) else lambda found: replace(took(found), first_sent=0)
        if isinstance(outcome, RemoteUnavailable):
            due = self._due_after(item, outcome.retry_after_s)
            return partial(delivery.postponed, reason=outcome.reason, due=due)
        if not isinstance(outcome, RemoteRefused):  # a refused token says nothing about the deliveries
            return partial(delivery.postponed, reason=outcome.reason, due=item.place)
        due = now_s if goes_at_once(outcome, item) else self._due_after(item)
        if outcome.code == OVERTAKEN:
            return partial(delivery.overtaken, remote_id=outcome.remote_id, due=due)
        return partial(delivery.refused, change=item.leased.wanted, reason=outcome.reason, clear=outcome.clear, due=due)

    def _settled(
        self,
        transaction: Transaction,
        item: Leased,
        outcome: str | RemoteError | None,
        move: Callable[[Delivery], Delivery],
        now_s: float,
    ) -> Delivery | None:
        """The delivery after its move, which has that happen that waited for it: links of a memory become due."""
        after, subject = outbox.settle(transaction, item, self.owner, move), item.subject
        if after is None:
            return None
        if isinstance(subject, Memory) and not isinstance(outcome, RemoteError) and not item.forgotten:
            was_elsewhere = item.leased.remote_id not in (None, outcome)
            outbox.want_beside(transaction, self._name, item.id, now_s, moved=was_elsewhere)
        elif isinstance(subject, RemoteDocument) and subject.ended and after.state is DeliveryState.DELIVERED:
            shared.let_go(transaction, self._name, item.id)
        elif isinstance(subject, RemoteDocument) and after.state is DeliveryState.DEAD:
            shared.read_anew(self._name, subject.space)(transaction)  # what the hub has of it was passed by meanwhile
        return after

    def _due_after(self, item: Leased, wished_s: float | None = None) -> float:
        """When to try again: as the remote wished, else backed off. A Retry-After of 0 does not make a storm.

        What met the outage first keeps its place: it waits for the link, and goes before what was stored later. If it
        brings the link down again it may be the cause, and lets the others pass.
        """
        if item.leased.attempts == 0 and not self.link.is_connected:
            return item.place
        longest_s = min(self.pace.longest_wait_s, LONGEST_S)
        backed_off_s = delivery.backoff_s(item.leased.attempts, longest_s, self._services.chance())
        return self._services.now_s() + min(wished_s or backed_off_s, longest_s)

    def _complain(self, item: Leased, reason: str, *, dead: bool) -> None:
        again = {RemoteLink: "link the memories", RemoteMarks: "pin or rate it"}.get(type(item.subject))
        remedy = f"{again} again to have it tried anew" if again else f"see `{self.listing}`"
        fate = f"gave up ({remedy})" if dead else "will try again"
        self._complaints[reason] += again is None  # else no list names it
        if again is not None or self._complaints[reason] <= MOST_ALIKE:
            log.warning("delivery of %r%s failed, %s: %s", item.name, self.to_whom, fate, reason)
        if isinstance(item.subject, Memory):
            self._services.emit(DeliveryFailed(item.subject.id, item.subject.key, reason, dead))


class Drain:
    """One outbox being sent. A call begins as soon as the window has room; what pauses between two tries takes none.

    `failed` in a claim are those that were tried in vain: a drain that is `early` tries each once.
    """

    def __init__(self, sender: Sender, name: str, early: bool, end_s: float) -> None:
        self._sender = sender
        self._name = name
        self._early = early
        self._end_s = end_s
        self._window = SendWindow(sender.pace.sends_at_once)
        self._waiting: list[Leased] = []
        self._lease_is_half_over_s = 0.0
        self._under_way: dict[asyncio.Task[None], Sequence[Leased]] = {}
        self._noting = set[asyncio.Task[None] | None]()
        self._failed = set[str]()
        self._is_dry = False
        self._goes_singly = False

    async def run(self) -> None:
        """Returns when nothing is under way and nothing can be begun. What was leased and not sent is given back, also
        when this is cancelled."""
        try:
            await self._begin()
            while self._under_way:
                await self._sender.moved.wait()
                self._sender.moved.clear()
                for task in [one for one in self._under_way if one.done()]:
                    del self._under_way[task]
                    task.result()
                await self._begin()
        finally:
            await self._end()

    async def _begin(self) -> None:
        while self._has_room() and await self._has_some() and (batch := self._next()):
            task = asyncio.create_task(self._deliver(batch))
            self._under_way[task] = batch
            task.add_done_callback(lambda _: self._sender.moved.set())

    def _has_room(self) -> bool:
        is_free = len(self._under_way) - self._window.pausing < self._window.at_once
        return is_free and self._sender.may_send and self._sender.monotonic_s() < self._end_s

    async def _has_some(self) -> bool:
        """Lease more when nothing is left. What is begun in the first half of a lease can end before it lapses."""
        if self._waiting and self._sender.monotonic_s() >= self._lease_is_half_over_s:
            await self._sender.release(self._waiting)
            self._waiting = []
        if self._waiting:
            return True
        may_be_more = not (self._is_dry and self._under_way) if self._early else self._sender.is_due(self._name)
        if may_be_more:
            self._lease_is_half_over_s = self._sender.monotonic_s() + self._sender.pace.lease_s / 2
            self._waiting = await self._sender.lease(self._name, self._early, self._failed)
            self._is_dry = not self._waiting
        return bool(self._waiting)

    def _next(self) -> list[Leased]:
        """The earliest that waits for none, with what goes in the same call; nothing where each waits for another."""
        unsettled = {item.id for batch in self._under_way.values() for item in batch}
        for item in self._waiting:
            if parent_of(item) not in unsettled:
                batch = (
                    [item] if self._goes_singly else in_one_call(item, self._waiting, self._sender.link.takes_at_once)
                )
                taken = {one.id for one in batch}
                self._waiting = [one for one in self._waiting if one.id not in taken]
                return batch
            unsettled.add(item.id)
        return []

    async def _deliver(self, batch: Sequence[Leased]) -> None:
        outdated = self._sender.outdated(batch)
        await self._sender.release(outdated)
        batch = [item for item in batch if item not in outdated]
        if not batch:
            return
        answer = await self._sender.send(batch, self._window)
        if len(batch) > 1 and isinstance(answer, RemoteRefused):  # which of them was meant is not known
            self._goes_singly = True
            self._waiting += batch
            return
        self._noting.add(asyncio.current_task())
        self._failed |= failed(batch, answer)
        await self._sender.note(batch, answer)
        self._sender.settled.set()

    async def _end(self) -> None:
        """End what is being sent. What has been answered is written down all the same, the rest is given back: that
        changes nothing where the interruption has been written down."""
        for task in self._under_way.keys() - self._noting:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
        for task, batch in self._under_way.items():
            if task.cancelled() or task.exception() is not None:
                self._waiting += batch
        await self._sender.release(self._waiting)


def in_one_call(first: Leased, waiting: Sequence[Leased], size: int) -> list[Leased]:
    """`first`, and of those that wait with it what goes in the same call."""
    wanted = like(first) if size > 1 else None
    if wanted is None:
        return [first]
    batch, room = list[Leased](), BATCH_CHARACTERS
    for item in waiting:
        if like(item) == wanted:
            room -= len(item.subject.content)  # type: ignore[union-attr]  # `like` says so
            if batch and (room < 0 or len(batch) == size):
                break
            batch.append(item)
    return batch


def like(item: Leased) -> tuple[str, str] | None:
    """What a call of several has in common: memories of one space that the remote does not have yet and that are no
    thoughts, documents of one space that are short, or those that were removed, which other roles may do. None for what
    goes by itself."""
    subject = item.subject
    if isinstance(subject, Memory):
        is_known = item.forgotten or item.leased.remote_id is not None
        return None if is_known or thoughts.is_thought(subject) else ("memories", subject.scope.space)
    if not isinstance(subject, RemoteDocument) or len(subject.content) > PART_CHARACTERS:
        return None
    what = "purged" if subject.purged else "removed" if subject.document is None else "written"
    return what, subject.space


def failed(batch: Sequence[Leased], answer: Answer) -> set[str]:
    """The ids of what has to wait before it is sent again."""
    if isinstance(answer, RemoteError):
        return {item.id for item in batch}
    outcomes = zip(batch, answer, strict=True)
    return {
        item.id for item, outcome in outcomes if isinstance(outcome, RemoteRefused) and not goes_at_once(outcome, item)
    }


def meant(item: Leased, outcome: str | RemoteError | None) -> str | RemoteError | None:
    """What came of a delivery. A remote that answers the repeat of an earlier change by its text of that one has
    confirmed it."""
    if not isinstance(outcome, RemoteRefused) or outcome.code != OVERTAKEN or outcome.remote_id is None:
        return outcome
    return outcome.remote_id if item.confirms < item.leased.wanted else outcome


def goes_at_once(error: RemoteError, item: Leased) -> bool:
    """Whether the next try need not wait: the remote has a later change already, so this one goes under another key.
    That is tried a few times, since a remote may say so for ever."""
    is_overtaken = isinstance(error, RemoteRefused) and error.code == OVERTAKEN
    return is_overtaken and item.leased.attempts < OVERTAKEN_AT_ONCE


def parent_of(item: Leased) -> MemoryId | None:
    """The thought that goes before this one, if any."""
    return thoughts.parent_of(item.subject) if isinstance(item.subject, Memory) else None
