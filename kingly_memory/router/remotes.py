"""All remotes of a router at once. Each goes its own way: none waits for another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.models import JsonObject, LinkState, Memory
from kingly_memory.router.branch import Branch, Ground, RemotePart
from kingly_memory.router.delivering.drain import SyncReport
from kingly_memory.router.delivering.routes import Route, Routes
from kingly_memory.router.searching.remote_side import RemoteSide

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemotesSynced(SyncReport):
    """What `sync` achieved at several remotes, and at each of them by its name. The link is connected when all are."""

    remotes: Mapping[str, SyncReport] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        each = {label: report.to_json() for label, report in self.remotes.items()}
        return {**SyncReport.to_json(self), "remotes": each}


class Remotes:
    """The branches of a router, in the order in which the remotes were named."""

    def __init__(self, parts: Sequence[RemotePart], routes: Routes | None, ground: Ground) -> None:
        self.routes = routes or Routes(tuple(part.route for part in parts))
        self.branches = tuple(Branch(part, self.routes, ground) for part in parts)

    @property
    def sides(self) -> tuple[RemoteSide, ...]:
        return tuple(branch.side for branch in self.branches)

    def begin(self) -> Iterator[Coroutine[None, None, None]]:
        """Make every remote known to the store, and return what delivers to each of them."""
        begun = [(branch, branch.begin()) for branch in self.branches]
        return (branch.run(enrolled) for branch, enrolled in begun)

    def wake(self) -> None:
        """Something was stored."""
        for branch in self.branches:
            branch.drainer.wake()

    async def wait_for(self, memory: Memory, seconds: float) -> None:
        """Wait until the memory is at rest at every remote that it is for, or the seconds are over, or those that have
        not answered are offline."""
        wanted = {route.name for route in self.routes.of(memory)}
        waiting = [one.drainer.wait_for(memory.id, seconds) for one in self.branches if one.part.name in wanted]
        await _at_once(waiting)

    async def sync(self, timeout_s: float, chosen: Sequence[Route]) -> SyncReport:
        """Probe the chosen remotes and send what waits for them, all at the same time."""
        names = {route.name for route in chosen}
        branches = [branch for branch in self.branches if branch.part.name in names]
        reports = await _at_once([branch.sync(timeout_s) for branch in branches])
        if self.routes.is_plain:
            return reports[0]
        return _together({branch.label: report for branch, report in zip(branches, reports, strict=True)})

    async def finish_sending(self, seconds: float) -> None:
        """Whatever the clock says, closing waits this long in real time and no longer, however many remotes."""
        await _at_once([_until_idle(branch, seconds) for branch in self.branches])
        await _at_once([branch.side.settle() for branch in self.branches])

    async def aclose(self) -> None:
        """Let go of every remote; one that fails at that keeps none of the others."""
        async with AsyncExitStack() as stack:
            for branch in self.branches:
                stack.callback(branch.part.stop_leading)
            closing = (branch.part.remote.aclose() for branch in self.branches)
            outcomes = await asyncio.gather(*closing, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome


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


async def _until_idle(branch: Branch, seconds: float) -> None:
    with contextlib.suppress(TimeoutError, KinglyMemoryError):
        async with asyncio.timeout(seconds):
            await branch.drainer.until_idle()


def _together(reports: Mapping[str, SyncReport]) -> RemotesSynced:
    each = reports.values()
    reasons = [f"{label}: {report.reason}" for label, report in reports.items() if report.reason]
    is_connected = all(report.link is LinkState.CONNECTED for report in each)
    return RemotesSynced(
        delivered=sum(report.delivered for report in each),
        pending=sum(report.pending for report in each),
        dead=sum(report.dead for report in each),
        link=LinkState.CONNECTED if is_connected else LinkState.OFFLINE,
        reason="; ".join(reasons) or None,
        remotes=reports,
    )
