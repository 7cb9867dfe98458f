"""Asking the remote something that somebody waits for, telling the link what came of it, and holding what remotes have
found against what this machine has."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeVar

from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import NotConnectedYet, RemoteError, RemoteRefused, RemoteUnavailable, StoreError
from kingly_memory.models import DeliveryState, LayerReport, LinkState, MemoryStatus, Query, Results, Source
from kingly_memory.ports import Remote, RemoteHit, Row
from kingly_memory.retrieval.fusion import Candidate, fuse
from kingly_memory.router.access import Access
from kingly_memory.router.delivery.routes import called
from kingly_memory.router.lifecycle.alive import Visible
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.search.remote_cache import RemoteCache
from kingly_memory.router.services import RemotePart

log = logging.getLogger("kingly_memory.search")
T = TypeVar("T")

Feeds = Sequence[tuple[str, str]]
"""Each is a space, and the cursor of its memories or of its documents."""
Pull = Callable[[Remote, float, Feeds], Awaitable[tuple[int, Feeds]]]
"""Takes in a part of what has changed in some feeds, or in all, in so many seconds: how much is new here, and which
feeds have more."""

HANGING = 3
"""A remote that is being connected to hangs when it says nothing for this many times the patience of a search."""
NOTE_S = 0.02
CAUGHT_UP_FOR_S = 60.0
"""How old an answer may be by what others have said or forgotten (decision D5)."""
PAGES_A_ROUND = 1_000
"""How much is taken in before the next minute, so that a hub that always says that there is more keeps nobody busy."""


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What a remote answered in time, or why it did not."""

    side: RemoteSide
    hits: tuple[RemoteHit, ...]
    took_ms: float
    error: str | None = None


class RemoteSide:
    """The remote as a reader of memories sees it: asked once, only while the link is connected."""

    def __init__(self, part: RemotePart, link: LinkKeeper, cache: RemoteCache, pull: Pull) -> None:
        """`pull` takes in what has changed there."""
        self.part = part
        self.name = part.route.name
        self.label = part.route.label
        """What people call it, and the name of its layer."""
        self.link = link
        self.cache = cache
        self.news = 0
        """How many memories its feed has added or changed here."""
        self.not_read: str | None = None
        """Why not all that has changed there was taken in, when that was tried last."""
        self._pull = pull
        self._catching_up = asyncio.Lock()
        self._caught_up_s = -math.inf
        self._pages = 0
        self._notes: set[asyncio.Future[None]] = set()
        self._connecting_since_s: float | None = None

    def unreachable(self) -> str | None:
        """Why asking would be in vain; None when it is worth it. Then it may be tried in the background."""
        link = self.link.current()
        if link.state is LinkState.CONNECTED:
            return None
        self.link.use(link)
        return f"offline: {link.last_error}"

    async def search(self, query: Query, limit: int, timeout_s: float, *, patient: bool) -> RemoteAnswer:
        """What the remote finds, in so much time. What has changed there is taken in meanwhile."""
        text, began_s = query.remote_text or query.text, self.link.monotonic_s()
        hits: Sequence[RemoteHit] = ()
        error = None
        catching_up = asyncio.ensure_future(self.catch_up(timeout_s))
        try:
            hits = await self.ask(
                "a search",
                lambda remote: remote.search(
                    text, space=query.space, limit=limit, types=query.types, timeout_s=timeout_s
                ),
                patient=patient,
            )
        except RemoteError as failed:
            error = failed.reason
        await catching_up
        return RemoteAnswer(self, tuple(hits), (self.link.monotonic_s() - began_s) * 1000, error)

    async def ask(self, what: str, question: Callable[[Remote], Awaitable[T]], *, patient: bool = True) -> T:
        """The remote's answer to one question; `what` names it in the log. Raises RemoteError.

        `patient=False`: it was given less time than it may take, so that being late says nothing about the link.
        """
        began_s = self.link.monotonic_s()
        try:
            answer = await question(self.part.remote)
        except RemoteError as error:
            log.warning("%s did not answer %s, answering without it: %s", called(self.label), what, error)
            if self._is_a_failure(error, began_s, patient):
                await self._noted(self.link.failed(error, since_s=began_s, each=True))
            raise
        self._connecting_since_s = None
        await self._noted(self.link.succeeded())
        return answer

    def is_news_since(self, news: int) -> bool:
        """Whether a search that began with so much news should look again. None minds a long list that comes in."""
        return self.news != news and not self._reads_a_long_list()

    def _reads_a_long_list(self) -> bool:
        """Of more than a page."""
        return self._catching_up.locked() and self._pages > 0

    async def catch_up(self, timeout_s: float, *, at_once: bool = False) -> None:
        """Take in what has changed there. The remote is asked once a minute, for `PAGES_A_ROUND` at most, or `at_once`,
        for as much as there is time for; one that cannot answer, or has more to say than there was time for, is asked
        again next time. Nobody waits for a long list that somebody else is taking in."""
        if self._reads_a_long_list() and not at_once:
            return
        try:
            async with asyncio.timeout(timeout_s), self._catching_up:
                is_due = at_once or self.link.monotonic_s() >= self._caught_up_s + CAUGHT_UP_FOR_S
                more: Feeds = ()
                while is_due:
                    news, more = await self._pull(self.part.remote, timeout_s, more)
                    self.news += news
                    self._pages += 1
                    is_due = bool(more) and (at_once or self._pages < PAGES_A_ROUND)
                    if not is_due:
                        self._caught_up_s, self._pages, self.not_read = self.link.monotonic_s(), 0, None
        except TimeoutError:
            self.not_read = "there was no time for all of it"
        except (RemoteError, StoreError) as error:
            self.not_read = error.reason if isinstance(error, RemoteError) else str(error)

    def _is_a_failure(self, error: RemoteError, began_s: float, patient: bool) -> bool:
        """Whether it says something about the link. Of a remote that is still being connected to only its silence does:
        a router that stays open notices when it lasts, and one that ends tells of it then."""
        if not isinstance(error, NotConnectedYet):
            self._connecting_since_s = None
            is_late = isinstance(error, RemoteUnavailable) and error.timed_out
            return not isinstance(error, RemoteRefused) and (patient or not is_late)
        if self._connecting_since_s is None and patient:
            self._connecting_since_s = began_s
        return self._connecting_since_s is not None and self.link.is_silent(self._connecting_since_s, HANGING)

    async def settle(self) -> None:
        """Closing: wait for what is still being noted, and note that a remote that was asked has said nothing."""
        since_s, self._connecting_since_s = self._connecting_since_s, None
        if since_s is not None and self.part.heard_s() < since_s:
            await self.link.given_up(since_s)
        await asyncio.gather(*self._notes, return_exceptions=True)

    async def _noted(self, note: Coroutine[None, None, None]) -> None:
        """Tell the link what came of a call. The answer waits for that only while the store is quick about it."""
        task = asyncio.ensure_future(note)
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
        await asyncio.wait({task}, timeout=NOTE_S)


def merged(
    found: Results,
    answered: Sequence[RemoteAnswer],
    query: Query,
    asked_for: int,
    *,
    access: Access,
    visible: Visible,
    now_s: float,
) -> Results:
    """What this machine found, with what remotes answered that were asked for so many hits: each memory once, whoever
    found it. The best that any remote says of a memory counts. What a filter or another scope excludes stays out on
    every path, and what has ended answers only where nothing that is alive does.

    A copy is as the remote has it now: the text found here may be older, and its lifetime over.
    """
    reports = {answer.side.label: LayerReport(answer.took_ms, len(answer.hits)) for answer in answered}
    found = replace(found, source=Source.HYBRID, layers={**found.layers, **reports})
    is_ended = any(hit.archived for hit in found)
    local = () if is_ended else found.hits
    sides = [answer.side.name for answer in answered]
    deliveries = access.reader.deliveries(sides, [hit.memory.id for hit in local])
    delivered = {
        memory_id
        for each in deliveries.values()
        for memory_id, delivery in each.items()
        if delivery.state is DeliveryState.DELIVERED
    }
    candidates = {
        hit.memory.id: Candidate(
            hit.memory, hit.relevance, None, True, hit.memory.id in delivered, hit.layers, hit.scores
        )
        for hit in local
    }
    copies: dict[tuple[str, str], tuple[RemoteSide, Row]] = {}
    for answer in answered:
        for stored, hit in answer.side.cache.join(query, answer.hits):
            row = stored
            if row.status is MemoryStatus.CACHED and hit.memory_id is not None:
                # What two remotes hold of the same memory is one copy, the first one's.
                holder, copy = copies.setdefault((hit.memory_id, hit.content), (answer.side, row))
                if holder is not answer.side:
                    candidates.pop(row.memory.id, None)
                    row = copy
            candidate = candidates.pop(row.memory.id, None)  # what was found here has been looked at
            is_alive = candidate or row.status is MemoryStatus.CACHED or visible.is_alive(row, now_s)
            if query.admits(row.memory) and is_alive:
                candidate = candidate or Candidate(row.memory, None, None, row.position >= 0, True, ())
                relevance = max(hit.relevance, candidate.remote or 0.0)
                layers = tuple(dict.fromkeys([*candidate.layers, answer.side.label]))
                candidates[row.memory.id] = replace(
                    candidate, memory=row.memory, remote=relevance, in_remote=True, layers=layers
                )

    if is_ended and not candidates:
        return found
    full = [min(hit.relevance for hit in answer.hits) for answer in answered if len(answer.hits) >= asked_for]
    # Of several remotes the one that has left out the best.
    floor = max(full, default=0.0)
    return replace(found, hits=fuse([*candidates.values()], local_weight=access.settings.local_weight, floor=floor))
