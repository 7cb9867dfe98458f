"""Calling the tools of an Ultimate MCP server: only those it lists, with the arguments they take, in our workflow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from kingly_memory.adapters.remote import outcomes, ultimate_replies, ultimate_wire
from kingly_memory.adapters.remote.dialect import Dialect, Offer
from kingly_memory.adapters.remote.together import Together
from kingly_memory.errors import RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject

T = TypeVar("T")

_AT_ONCE = 4


class Deadline:
    """The end of several calls that somebody waits for together."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Raises RemoteUnavailable when nothing is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._over()
        return left

    async def ends(self, work: Awaitable[T]) -> T:
        """The work's result, if it comes in time."""
        try:
            async with asyncio.timeout(self.left_s()):
                return await work
        except TimeoutError:
            raise self._over() from None

    def _over(self) -> RemoteUnavailable:
        return RemoteUnavailable(f"no complete answer within {self._timeout_s * 1000:.0f} ms", timed_out=True)


class Calls:
    """The tools as the server listed them. Where it listed none, those of the current server are taken for granted."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._offer = Offer("", None, None)

    @property
    def address(self) -> str:
        return self._dialect.address

    def greeted(self, offer: Offer) -> None:
        self._offer = offer

    def offers(self, tool: str) -> bool:
        return self._offer.tools is None or tool in self._offer.tools

    def takes(self, tool: str, argument: str) -> bool:
        """Whether a tool takes an argument, as far as is known."""
        known = self._offer.arguments.get(tool)
        return known is None or argument in known

    async def read(self, tool: str, arguments: JsonObject, *, project: str, deadline: Deadline | None = None) -> Any:
        """One call that changes nothing."""
        return await self._call(tool, arguments, project=project, deadline=deadline, reads=True)

    async def write(self, tool: str, arguments: JsonObject, *, project: str, deadline: Deadline | None = None) -> Any:
        """One call that changes something. A database that is locked is worth trying again."""
        try:
            return await self._call(tool, arguments, project=project, deadline=deadline, reads=False)
        except RemoteRefused as refused:
            if refused.code != outcomes.LOCKED:
                raise
            raise RemoteUnavailable(refused.reason, reached=True) from None

    async def _call(
        self, tool: str, arguments: JsonObject, *, project: str, deadline: Deadline | None, reads: bool
    ) -> Any:
        if not self.offers(tool):
            raise RemoteRefused(f"it has no tool {tool}", clear=True, unknown_method=True)
        known = {name: value for name, value in arguments.items() if self.takes(tool, name)}
        timeout_s = None if deadline is None else deadline.left_s()
        key = known.get("idempotency_key")
        return await self._dialect.call(tool, known, project=project, key=key, timeout_s=timeout_s, reads=reads)


class Workflows:
    """The workflow of each project: nothing can be stored without one. Made once, and again when it is gone."""

    def __init__(self, calls: Calls, namespaces: Callable[[str], str]) -> None:
        self._calls = calls
        self._namespaces = namespaces
        self._known: dict[str, str] = {}
        self._getting: dict[str, Together[str]] = {}
        self.look_first = False
        """The server honours no keys, so that creating a workflow twice would make two."""

    async def within(self, project: str, use: Callable[[str], Awaitable[T]], deadline: Deadline | None = None) -> T:
        """What `use` makes of the project's workflow; where that is gone, of a new one."""
        workflow_id = await self.of(project, deadline)
        try:
            return await use(workflow_id)
        except RemoteRefused as refused:
            if refused.code != outcomes.NO_WORKFLOW:
                raise
        if self._known.get(project) == workflow_id:
            del self._known[project]
        return await use(await self.of(project, deadline))

    async def of(self, project: str, deadline: Deadline | None = None) -> str:
        """Somebody who cannot wait for it any longer leaves it to be found by the next."""
        if project not in self._known:
            getting = self._getting.setdefault(project, Together(partial(self._get, project)))
            self._known[project] = await (getting.done() if deadline is None else deadline.ends(getting.done()))
        return self._known[project]

    async def aclose(self) -> None:
        for getting in self._getting.values():
            await getting.aclose()

    async def _get(self, project: str) -> str:
        earlier = await self._earlier(project) if self.look_first else None
        if earlier is not None:
            return earlier
        arguments = ultimate_wire.workflow_arguments(self._namespaces(project))

        async def create() -> Any:
            return await self._calls.write("create_workflow", arguments, project=project)

        return ultimate_replies.named(await repeated_on_conflict(create), "workflow_id")

    async def _earlier(self, project: str) -> str | None:
        """The workflow of any memory that lies there for the project; a server that cannot say has none."""
        arguments: JsonObject = {"tags": [ultimate_wire.project_tag(project)], "limit": 1}
        try:
            reply = await self._calls.read("query_memories", arguments, project=project)
        except RemoteRefused:
            return None
        for entry in ultimate_replies.entries(reply):
            workflow_id = entry.get("workflow_id")
            if ultimate_replies.hit(entry, project) is not None and isinstance(workflow_id, str) and workflow_id:
                return workflow_id
        return None


async def repeated_on_conflict(write: Callable[[], Awaitable[T]]) -> T:
    """Of two calls with one key at the same time one wins; the other, made again, is told what that one made."""
    try:
        return await write()
    except RemoteRefused as refused:
        if refused.code != outcomes.CONFLICT:
            raise
    return await write()


async def all_of(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """All of them, a few at a time; the first error ends them."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with turns:
            return await call()

    tasks = [asyncio.ensure_future(one(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
