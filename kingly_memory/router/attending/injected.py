"""Whether what was put into prompts was of use: the log's sessions are folded into facets once they have gone quiet.

The facet `injected:<memory id>` says in how many sessions a memory was put in, when last, and in how many in a row it
was then not used; `folded:<session's owner>` up to when a session was folded, so that nothing is counted twice.
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

if TYPE_CHECKING:
    from kingly_memory.ports import Clock, InjectionLog, StoreReader, Transaction
    from kingly_memory.router.access import Access

log = logging.getLogger("kingly_memory.router")

FACET, FOLDED = "injected", "folded"
QUIET_S = 1_800.0
"""After its last injection: what was put in has been used by then, or is left out of it."""
KEPT_S = 604_800.0
"""So long a quiet session still knows what it was shown: it may be resumed."""
EVERY_S = 300.0
"""How often a router looks for quiet sessions."""
AT_ONCE = 20
"""Sessions that one change folds."""


class Quiet(NamedTuple):
    """A session that has gone quiet, and when each memory was last put into it. `is_over`: it is not expected back."""

    session: str
    shown: Mapping[str, float]
    is_over: bool


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
        if over:
            await self._access.read(lambda: self._drop(over))
            await self._access.write(forget(over, self._project))
        return count

    def _drop(self, sessions: Sequence[Quiet]) -> None:
        for one in sessions:
            if self._log.ever(one.session).keys() == one.shown.keys():  # else it has just come back
                self._log.drop(one.session)


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
            found.append(Quiet(name, log.ever(name), is_over))
        if len(found) == AT_ONCE:
            break
    return found


def fold(sessions: Sequence[Quiet], project: str) -> Callable[[Transaction], int]:
    """Count what has not been counted yet. Says how many memories that were. Doing so again changes nothing."""

    def change(transaction: Transaction) -> int:
        return sum(_fold_one(transaction, one, project) for one in sessions)

    return change


def forget(sessions: Iterable[Quiet], project: str) -> Callable[[Transaction], None]:
    """Take away what is known of sessions whose log is gone."""

    def change(transaction: Transaction) -> None:
        for one in sessions:
            transaction.set_facet(FOLDED, owner(project, one.session), None)

    return change


def was_injected(reader: StoreReader, log: InjectionLog | None, project: str, memory_ids: Sequence[str]) -> bool:
    """Whether any of those memories was ever put into a prompt of the project, as far as is known."""
    if reader.facets(FACET, memory_ids):
        return True
    wanted = set(memory_ids)
    return log is not None and any(wanted & log.ever(name).keys() for name in log.sessions())


def unused_of(reader: StoreReader, memory_ids: Sequence[str]) -> dict[str, int]:
    """In how many sessions in a row each was put in and not used: of those where that has happened."""
    found = {name: _count(facet, "unused") for name, facet in reader.facets(FACET, memory_ids).items()}
    return {name: times for name, times in found.items() if times}


def _fold_one(transaction: Transaction, one: Quiet, project: str) -> int:
    name = owner(project, one.session)
    until_s = _until_s(transaction.facet(FOLDED, name))
    new = {memory_id: at_s for memory_id, at_s in one.shown.items() if at_s > until_s}
    own = list(_own(transaction, new, project))
    for memory in own:
        _count_in(transaction, memory, new[memory.id])
    if new:
        transaction.set_facet(FOLDED, name, {"until_s": max(new.values())})
    return len(own)


def _own(transaction: Transaction, memory_ids: Iterable[str], project: str) -> Iterator[Memory]:
    rows = (transaction.row(memory_id) for memory_id in memory_ids)
    yield from (row.memory for row in rows if row is not None and row.memory.scope.project == project)


def _count_in(transaction: Transaction, memory: Memory, at_s: float) -> None:
    before = transaction.facet(FACET, memory.id) or {}
    unused = 0 if _is_used_since(transaction, memory, at_s) else _count(before, "unused") + 1
    last_s = max(_number(before, "last_s"), at_s)
    after: JsonObject = {"times": _count(before, "times") + 1, "last_s": last_s, "unused": unused}
    transaction.set_facet(FACET, memory.id, after)


def _is_used_since(transaction: Transaction, memory: Memory, at_s: float) -> bool:
    if _number(transaction.facet("usage", memory.id) or {}, "last_used") >= at_s:
        return True
    context_id = memory.scope.context_id
    owners = [memory.id, *([] if context_id is None else [owner(memory.scope.project, context_id)])]
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
