"""Whether what was put into prompts was of use: sessions of the injection log are counted once they have gone quiet.

The facet `injected:<memory id>` says in how many sessions a memory was put in, when last, and in how many in a row it
was then not used, of those where somebody listened for that. The facet `folded:<session's owner>` says up to when a
session was counted, so that nothing is counted twice.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kingly_memory.attention.ratings import Ratings
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.models import Memory
from kingly_memory.router import lifetimes, thread_lookup
from kingly_memory.router.thread_lookup import ATTENTION, INJECTED, RATINGS, THREAD

if TYPE_CHECKING:
    from kingly_memory.ports import Clock, InjectionLog, StoreReader, Transaction
    from kingly_memory.router.access import Access

log = logging.getLogger("kingly_memory.router")

FOLDED = "folded"
QUIET_S = 1_800.0
"""After its last injection: what was put in has been used by then, or was left unused."""
KEPT_S = 604_800.0
"""For so long a quiet session still knows what it was shown: it may be resumed."""
EVERY_S = 300.0
"""How often a router looks for quiet sessions."""
AT_ONCE = 20
"""Sessions that one change counts."""


class Quiet(NamedTuple):
    """A session that has gone quiet, when each memory was last put into it, and when it was logged last. `heard_s`: by
    when somebody has listened for what was used. `is_over`: it is not expected back."""

    session: str
    shown: Mapping[str, float]
    last_s: float
    heard_s: float = 0.0
    is_over: bool = False


class UsageFeedback:
    """Counts a project's log, for one router."""

    def __init__(self, log: InjectionLog, access: Access, *, project: str, clock: Clock) -> None:
        self._log = log
        self._access = access
        self._project = project
        self._clock = clock
        self._next_s = -math.inf

    async def run(self) -> None:
        """Work for as long as the router is open."""
        while True:
            await self._clock.sleep(EVERY_S)
            await self.fold_if_due()

    async def fold_if_due(self) -> None:
        """At most once in EVERY_S. What cannot be counted now is counted later."""
        if self._clock.monotonic() < self._next_s:
            return
        self._next_s = self._clock.monotonic() + EVERY_S
        try:
            await self.fold()
        except KinglyMemoryError as error:
            log.warning("what was injected is not looked at now: %s", error)

    async def fold(self) -> int:
        """Answers how many memories were counted. Raises StoreError, RouterClosed."""
        now_s, reader, project = self._clock.now().timestamp(), self._access.reader, self._project
        found = await self._access.read(lambda: quiet(self._log, reader, project, now_s))
        if not found:
            return 0
        count = await self._access.write(fold(found, project))

        def drop() -> list[str]:
            dropped = drop_over(self._log, found)
            return [*(owner(project, one) for one in dropped), *unlogged(self._log, reader, project, now_s)]

        if gone := await self._access.read(drop):
            await self._access.write(forget(gone))
        return count


def quiet(log: InjectionLog, reader: StoreReader, project: str, now_s: float) -> list[Quiet]:
    """Sessions that are to be counted or dropped, at most 20, those quiet for longest first."""
    away_s = {name: now_s - at_s for name, at_s in log.sessions().items()}
    silent = [name for name, seconds in away_s.items() if seconds >= QUIET_S or _is_over(seconds)]
    silent.sort(key=away_s.__getitem__, reverse=True)
    known = reader.facets(FOLDED, [owner(project, name) for name in silent]) if silent else {}
    found: list[Quiet] = []
    for name in silent:
        last_s, is_over = now_s - away_s[name], _is_over(away_s[name])
        if is_over or _number(known.get(owner(project, name)), "until_s") < last_s:
            found.append(Quiet(name, log.ever(name), last_s, log.heard(name), is_over))
        if len(found) == AT_ONCE:
            break
    return found


def fold(sessions: Sequence[Quiet], project: str) -> Callable[[Transaction], int]:
    """Count what has not been counted yet. Answers how many memories that were. Doing so again changes nothing."""

    def change(transaction: Transaction) -> int:
        count = 0
        for one in sessions:
            whose = owner(project, one.session)
            until_s = _number(transaction.facet(FOLDED, whose), "until_s")
            for memory_id, at_s in one.shown.items():
                row = transaction.row(memory_id) if at_s > until_s else None
                if row is not None and row.memory.scope.project == project:
                    _count_in(transaction, row.memory, at_s, is_heard=at_s <= one.heard_s)
                    count += 1
            if one.last_s > until_s:
                transaction.set_facet(FOLDED, whose, {"until_s": one.last_s, "project": project})
        return count

    return change


def drop_over(log: InjectionLog, sessions: Iterable[Quiet]) -> list[str]:
    """Drop the log of sessions that are over. Answers which: not those that have just come back."""
    gone = [one.session for one in sessions if one.is_over and log.ever(one.session) == one.shown]
    for session in gone:
        log.drop(session)
    return gone


def unlogged(log: InjectionLog, reader: StoreReader, project: str, now_s: float) -> list[str]:
    """The owners of what is known of the project's sessions whose log is gone."""
    logged = {owner(project, name) for name in log.sessions()}
    return [
        whose
        for whose, facet in thread_lookup.all_facets(reader, FOLDED)
        if facet.get("project") == project and whose not in logged and _is_over(now_s - _number(facet, "until_s"))
    ]


def forget(owners: Iterable[str]) -> Callable[[Transaction], None]:
    """Take away what is known of sessions whose log is gone."""

    def change(transaction: Transaction) -> None:
        for whose in owners:
            transaction.set_facet(FOLDED, whose, None)

    return change


def showings(reader: StoreReader, log: InjectionLog | None, project: str, memory_ids: Sequence[str]) -> list[float]:
    """When each session was last shown any of those memories of the project, in order, as far as is known. Where only
    facets know, the last time. Empty: they were never put into a prompt."""
    wanted = set(memory_ids)
    named = [log.ever(name) for name in log.sessions()] if log is not None else []
    logged = sorted(max(session[one] for one in both) for session in named if (both := wanted & session.keys()))
    counted = [] if logged else [_number(facet, "last_s") for facet in reader.facets(INJECTED, memory_ids).values()]
    return logged or ([max(counted)] if counted else [])


def _count_in(transaction: Transaction, memory: Memory, at_s: float, *, is_heard: bool) -> None:
    """`is_heard`: somebody has listened since whether it was used. What is pinned is to be there, used or not."""
    before = transaction.facet(INJECTED, memory.id) or {}
    owners = [memory.id, *_thread_owners(transaction, memory)]
    is_pinned = any((transaction.facet(ATTENTION, one) or {}).get("pinned") is True for one in owners)
    is_used = _number(transaction.facet("usage", memory.id), "last_used") >= at_s
    ratings = Ratings.together(transaction.facet(RATINGS, one) for one in owners).latest
    is_useful = any(one.useful and one.at.timestamp() >= at_s for one in ratings)
    unused = 0 if is_pinned or is_used or is_useful else max(int(_number(before, "unused")), 0) + is_heard
    times, last_s = max(int(_number(before, "times")), 0) + 1, max(_number(before, "last_s"), at_s)
    transaction.set_facet(INJECTED, memory.id, {"times": times, "last_s": last_s, "unused": unused})
    lifetimes.renew(transaction, memory.id, at_s)  # a lifetime counts from the last time, too, that it was put in


def _thread_owners(transaction: Transaction, memory: Memory) -> Iterator[str]:
    """The owners of its context, and of the threads that this was merged into."""
    context_id, seen = memory.scope.context_id, set[str]()
    while context_id is not None and context_id not in seen:
        seen.add(context_id)
        whose = owner(memory.scope.project, context_id)
        yield whose
        context_id = thread_lookup.into(transaction.facet(THREAD, whose) or {})


def _is_over(away_s: float) -> bool:
    """A time as far ahead counts too: then a clock was wrong."""
    return abs(away_s) >= KEPT_S


def _number(facet: Mapping[str, Any] | None, name: str) -> float:
    value = (facet or {}).get(name)
    return float(value) if isinstance(value, int | float) and abs(value) < 2**53 else 0.0
