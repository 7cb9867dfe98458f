"""Asking the remote something that somebody waits for, and telling the link what came of it."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeVar

from kingly_memory.errors import NotConnectedYet, RemoteError, RemoteRefused, RemoteUnavailable, StoreError
from kingly_memory.models import LinkState
from kingly_memory.ports import Remote
from kingly_memory.router.delivery.routes import UNNAMED, called
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.search.remote_cache import RemoteCache

log = logging.getLogger("kingly_memory.search")
T = TypeVar("T")

Feeds = Sequence[tuple[str, str]]
"""Each is a space, and the cursor of its memories or of its documents."""
Pull = Callable[[Remote, float, Feeds], Awaitable[tuple[int, Feeds]]]
"""Takes in a part of what has changed in some feeds, or in all, in so many seconds: how much is new here, and which
feeds have more."""

NOTE_S = 0.02
CAUGHT_UP_FOR_S = 60.0
"""How old an answer may be by what others have said or forgotten (decision D5)."""
PAGES_A_ROUND = 1_000
"""How much is taken in before the next minute, so that a hub that always says that there is more keeps nobody busy."""


class RemoteSide:
    """The remote as a reader of memories sees it: asked once, only while the link is connected."""

    def __init__(
        self,
        name: str,
        remote: Remote,
        link: LinkKeeper,
        cache: RemoteCache,
        *,
        pull: Pull | None = None,
        label: str = UNNAMED,
    ) -> None:
        """`label` is what people call it, and the name of its layer. `pull` takes in what has changed there."""
        self.name = name
        self.label = label
        self.link = link
        self.cache = cache
        self.news = 0
        """How many memories its feed has added or changed here."""
        self.not_read: str | None = None
        """Why not all that has changed there was taken in, when that was tried last."""
        self._pull = pull
        self._remote = remote
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

    async def ask(self, what: str, question: Callable[[Remote], Awaitable[T]], *, patient: bool = True) -> T:
        """The remote's answer to one question; `what` names it in the log. Raises RemoteError.

        `patient=False`: it was given less time than it may take, so that being late says nothing about the link.
        """
        began_s = self.link.monotonic_s()
        try:
            answer = await question(self._remote)
        except RemoteError as error:
            log.warning("%s did not answer %s, answering without it: %s", called(self.label), what, error)
            if self._is_a_failure(error, began_s, patient):
                await self._noted(self.link.failed(error, since_s=began_s, each=True))
            raise
        self._connecting_since_s = None
        await self._noted(self.link.succeeded())
        return answer

    async def catch_up(self, timeout_s: float, *, at_once: bool = False) -> None:
        """Take in what has changed there. The remote is asked once a minute, for `PAGES_A_ROUND` at most, or `at_once`,
        for as much as there is time for; one that cannot answer, or has more to say than there was time for, is asked
        again next time. Nobody waits for what somebody else is taking in of more than a page."""
        if self._catching_up.locked() and self._pages and not at_once:
            return
        try:
            async with asyncio.timeout(timeout_s), self._catching_up:
                is_due = at_once or self.link.monotonic_s() >= self._caught_up_s + CAUGHT_UP_FOR_S
                more: Feeds = ()
                while is_due and self._pull is not None:
                    news, more = await self._pull(self._remote, timeout_s, more)
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
            return not isinstance(error, RemoteRefused) and (patient or not _is_late(error))
        if self._connecting_since_s is None and patient:
            self._connecting_since_s = began_s
        return self._connecting_since_s is not None and self.link.is_hanging(self._connecting_since_s)

    async def settle(self) -> None:
        """Closing: wait for what is still being noted, and note that a remote that was asked has said nothing."""
        since_s, self._connecting_since_s = self._connecting_since_s, None
        if since_s is not None and not self.link.was_heard(since_s):
            await self.link.given_up(since_s)
        await asyncio.gather(*self._notes, return_exceptions=True)

    async def _noted(self, note: Coroutine[None, None, None]) -> None:
        """Tell the link what came of a call. The answer waits for that only while the store is quick about it."""
        task = asyncio.ensure_future(note)
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
        await asyncio.wait({task}, timeout=NOTE_S)


def _is_late(error: RemoteError) -> bool:
    return isinstance(error, RemoteUnavailable) and error.timed_out
