"""Whether what was put into prompts was of use: the log's sessions are folded into facets once they have gone quiet.

The facet `injected:<memory id>` says in how many sessions a memory was put in, when last, and in how many in a row it
was then not used, of those that somebody listened to; `folded:<session's owner>` up to when a session was folded, so
that nothing is counted twice.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kingly_memory.cognition.owners import owner
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.models import JsonObject, Memory, as_utc
from kingly_memory.router import lifetimes
from kingly_memory.router.threads import roots

if TYPE_CHECKING:
    from kingly_memory.ports import Clock, InjectionLog, StoreReader, Transaction
    from kingly_memory.router.access import Access

log = logging.getLogger("kingly_memory.router")

FACET, FOLDED = "injected", "folded"
QUIET_S = 1_800.0
"""After its last injection: what was put in has been used by then, or is left out of it."""
PAGE = 500
KEPT_S = 604_800.0
"""So long a quiet session still knows what it was shown: it may be resumed."""
EVERY_S = 300.0
"""How often a router looks for quiet sessions."""
AT_ONCE = 20
"""Sessions that one change folds."""


class Quiet(NamedTuple):
    """A session that has gone quiet, when each memory was last put into it, and when it was logged last. `heard_s`: by
    when somebody has listened for what was used. `is_over`: it is not expected back."""

    session: str
    shown: Mapping[str, float]
    last_s: float
    heard_s: float = 0.0
    is_over: bool = False


class UsageFeedback:
    """Folds a project's log, for one router."""

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
        """Not more often than EVERY_S. What cannot be learned now is learned later."""
        if self._clock.monotonic() < self._next_s:
            return
        self._next_s = self._clock.monotonic() + EVERY_S
        try:
            await self.fold()
        except KinglyMemoryError as error:
            log.warning("what was injected is not looked at now: %s", error)

    async def fold(self) -> int:
        """Says how many memories were counted. Raises StoreError, RouterClosed."""
        now_s = self._clock.now().timestamp()
        found = await self._access.read(lambda: quiet(self._log, self._access.reader, self._project, now_s))
        if not found:
            return 0
        count = await self._access.write(fold(found, self._project))
        over = [one for one in found if one.is_over]
        dropped = await self._access.read(lambda: self._drop(over)) if over else []
        lost = await self._access.read(lambda: unlogged(self._log, self._access.reader, self._project, now_s))
        if dropped or lost:
            await self._access.write(forget([*(owner(self._project, one) for one in dropped), *lost]))
        return count

    def _drop(self, sessions: Sequence[Quiet]) -> list[str]:
        """Says which were dropped: not those that have just come back."""
        gone = [one.session for one in sessions if self._log.ever(one.session) == one.shown]
        for session in gone:
            self._log.drop(session)
        return gone


def quiet(log: InjectionLog, reader: StoreReader, project: str, now_s: float) -> list[Quiet]:
    """Sessions that are to be folded or dropped, at most AT_ONCE, those quiet for longest first."""
    away_s = {name: now_s - at_s for name, at_s in log.sessions().items()}
    silent = [name for name, seconds in away_s.items() if seconds >= QUIET_S or _is_over(seconds)]
    silent.sort(key=away_s.__getitem__, reverse=True)
    known = reader.facets(FOLDED, [owner(project, name) for name in silent]) if silent else {}
    found: list[Quiet] = []
    for name in silent:
        is_over = _is_over(away_s[name])
        if is_over or _until_s(known.get(owner(project, name))) < now_s - away_s[name]:
            found.append(Quiet(name, log.ever(name), now_s - away_s[name], log.heard(name), is_over))
        if len(found) == AT_ONCE:
            break
    return found


def fold(sessions: Sequence[Quiet], project: str) -> Callable[[Transaction], int]:
    """Count what has not been counted yet. Says how many memories that were. Doing so again changes nothing."""

    def change(transaction: Transaction) -> int:
        return sum(_fold_one(transaction, one, project) for one in sessions)

    return change


def unlogged(log: InjectionLog, reader: StoreReader, project: str, now_s: float) -> list[str]:
    """The owners of what is known of the project's sessions whose log is gone: when there are too many, the oldest
    go."""
    logged = {owner(project, name) for name in log.sessions()}
    found: list[str] = []
    after = ""
    while page := reader.threads.named(FOLDED, PAGE, after):
        own = [whose for whose, facet in page if facet.get("project") == project and _is_over(now_s - _until_s(facet))]
        found += [whose for whose in own if whose not in logged]
        after = page[-1][0]
    return found


def forget(owners: Iterable[str]) -> Callable[[Transaction], None]:
    """Take away what is known of sessions whose log is gone."""

    def change(transaction: Transaction) -> None:
        for whose in owners:
            transaction.set_facet(FOLDED, whose, None)

    return change


def showings(reader: StoreReader, log: InjectionLog | None, project: str, memory_ids: Sequence[str]) -> list[float]:
    """When each session was last shown any of those memories of the project, in order, as far as is known. Of what
    only facets know, the last time. Empty: they were never put into a prompt."""
    wanted = set(memory_ids)
    named = [log.ever(name) for name in log.sessions()] if log is not None else []
    logged = sorted(max(session[one] for one in both) for session in named if (both := wanted & session.keys()))
    pages = (memory_ids[at : at + PAGE] for at in range(0, len(memory_ids), PAGE)) if not logged else ()
    folded = [_number(facet, "last_s") for page in pages for facet in reader.facets(FACET, page).values()]
    return logged or ([max(folded)] if folded else [])


def _fold_one(transaction: Transaction, one: Quiet, project: str) -> int:
    name = owner(project, one.session)
    until_s = _until_s(transaction.facet(FOLDED, name))
    new = {memory_id: at_s for memory_id, at_s in one.shown.items() if at_s > until_s}
    own = list(_own(transaction, new, project))
    for memory in own:
        _count_in(transaction, memory, new[memory.id], is_heard=new[memory.id] <= one.heard_s)
    if one.last_s > until_s:
        transaction.set_facet(FOLDED, name, {"until_s": one.last_s, "project": project})
    return len(own)


def _own(transaction: Transaction, memory_ids: Iterable[str], project: str) -> Iterator[Memory]:
    rows = (transaction.row(memory_id) for memory_id in memory_ids)
    yield from (row.memory for row in rows if row is not None and row.memory.scope.project == project)


def _count_in(transaction: Transaction, memory: Memory, at_s: float, *, is_heard: bool) -> None:
    """`is_heard`: somebody has listened since whether it was used. What is pinned is to be there, used or not."""
    before = transaction.facet(FACET, memory.id) or {}
    owners = list(dict.fromkeys([memory.id, *_threads(transaction, memory)]))
    is_needed = _is_pinned(transaction, owners) or _is_used_since(transaction, memory.id, owners, at_s)
    unused = 0 if is_needed else _count(before, "unused") + is_heard
    last_s = max(_number(before, "last_s"), at_s)
    after: JsonObject = {"times": _count(before, "times") + 1, "last_s": last_s, "unused": unused}
    transaction.set_facet(FACET, memory.id, after)
    lifetimes.renew(transaction, memory.id, at_s)  # to be put into a prompt is a use


def _threads(transaction: Transaction, memory: Memory) -> Iterator[str]:
    """The owners of its context, and of the threads that this goes on as."""
    context_id, seen = memory.scope.context_id, set[str]()
    while context_id is not None and context_id not in seen:
        seen.add(context_id)
        name = owner(memory.scope.project, context_id)
        yield name
        context_id = roots.into(transaction.facet(roots.THREAD, name) or {})


def _is_pinned(transaction: Transaction, owners: Iterable[str]) -> bool:
    return any((transaction.facet(roots.ATTENTION, name) or {}).get("pinned") is True for name in owners)


def _is_used_since(transaction: Transaction, memory_id: str, owners: Iterable[str], at_s: float) -> bool:
    if _number(transaction.facet("usage", memory_id) or {}, "last_used") >= at_s:
        return True
    return any(_is_useful_since(transaction.facet("ratings", name), at_s) for name in owners)


def _is_useful_since(facet: JsonObject | None, at_s: float) -> bool:
    ratings = (facet or {}).get("ratings")
    given = [one for one in ratings if isinstance(one, dict)] if isinstance(ratings, list) else []
    return any(one.get("useful") is True and _moment_s(one.get("timestamp")) >= at_s for one in given)


def _moment_s(said: Any) -> float:
    try:
        return as_utc(datetime.fromisoformat(said)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _is_over(away_s: float) -> bool:
    """A time that lies as far ahead is none either: a clock was wrong."""
    return abs(away_s) >= KEPT_S


def _until_s(facet: JsonObject | None) -> float:
    return _number(facet or {}, "until_s")


def _count(facet: Mapping[str, Any], name: str) -> int:
    return max(int(_number(facet, name)), 0)


def _number(facet: Mapping[str, Any], name: str) -> float:
    value = facet.get(name)
    return float(value) if isinstance(value, int | float) and abs(value) < 2**53 else 0.0
