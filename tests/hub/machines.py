"""Several machines with one hub, in one process and without a network: what one does reaches the others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kingly_memory import MemoryRouter
from kingly_memory.adapters.local import backup
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.adapters.remote.dialect import GREETING, Dialect, Offer
from kingly_memory.adapters.remote.hub import HubRemote
from kingly_memory.adapters.remote.outcomes import tool_failure
from kingly_memory.errors import RemoteError, RemoteUnavailable
from kingly_memory.hub.engine import Engine, UnknownMemory, scope_name
from kingly_memory.hub.envelopes import sent, unwrapped
from kingly_memory.hub.methods import parsed
from kingly_memory.models import JsonObject, Memory, project_and_user
from kingly_memory.ports import LocalStore
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over


def text_at_hub(memory: Memory) -> str:
    """What a memory of a hub says to whom it is echoed."""
    return unwrapped(sent(memory)["content"])[0]


class Wire(Dialect):
    """A dialect that hands every call to the hub's engine. `called` names the calls; `is_down` fails them, `fail` some
    of them."""

    address = "in process"
    home = ""

    def __init__(self, team: Team, project: str) -> None:
        self._team = team
        self._project = project
        self.called: list[str] = []
        self.is_down = False
        self.fail(None)

    def fail(self, error: RemoteError | None, tool: str = "", saying: str = "", *, is_answered: bool = False) -> None:
        """From now on calls of tools that begin so, with parameters that say that, come to this error: before they have
        their effect, or after it. None ends it."""
        self._error, self._tool, self._saying, self._is_answered = error, tool, saying, is_answered

    async def _result(self, *_: Any, **__: Any) -> Any: ...

    async def connect(self) -> Offer:
        return Offer("json-call", None, await self.call(GREETING, {}))

    async def call(
        self,
        tool: str,
        params: JsonObject,
        *,
        space: str | None = None,
        timeout_s: float | None = None,
        reads: bool = False,
    ) -> Any:
        if self.is_down:
            raise RemoteUnavailable("the hub is down")
        error = self._error if tool.startswith(self._tool) and self._saying in json.dumps(params) else None
        if error is not None and not self._is_answered:
            raise error
        self.called.append(tool)
        project, user = project_and_user(space) if space else (self._project, None)
        scope = scope_name("default", project or "", user)
        try:
            answer = self._team.engine.answer(scope, parsed(tool, params))
        except UnknownMemory as unknown:
            raise tool_failure(str(unknown)) from None
        if error is not None:
            raise error
        return answer

    async def aclose(self) -> None:
        pass


class Team:
    """A hub and the machines that share it. The clock stands still unless it is moved."""

    def __init__(self, folder: Path, opened: Callable[[], LocalStore] | None = None) -> None:
        self.folder = folder
        self._opened = opened or (lambda: DiskStore(folder / "hub", durability="process"))
        self.clock = ManualClock()
        self.wires: dict[str, Wire] = {}
        self.start()

    def start(self) -> None:
        """The hub's process, also when it starts again."""
        self.store = self._opened()
        self.engine = Engine(self.store, self.clock, "1.2.3")

    def back_up(self) -> None:
        backup.create(self.folder / "hub", self.folder / "hub.backup")

    def put_back(self) -> None:
        """The hub's process ends, and begins with what was backed up."""
        self.store.close()
        backup.restore(self.folder / "hub", self.folder / "hub.backup", replace=True, lock_wait_s=1)
        self.start()

    @asynccontextmanager
    async def machine(
        self, name: str, project: str = "app", *, is_synced: bool = True, **how: Any
    ) -> AsyncIterator[MemoryRouter]:
        """`how` as for `router_over`."""
        wire = self.wires[name] = Wire(self, project)
        remote = HubRemote(wire)
        async with router_over(PromptStore(self.folder / name), remote, self.clock, project=project, **how) as memory:
            if is_synced:
                await memory.sync(timeout=5)
            yield memory


async def texts(memory: MemoryRouter, query: str, **how: Any) -> list[str]:
    return [hit.memory.content for hit in await memory.search(query, **how)]


async def synced(*machines: MemoryRouter) -> None:
    """Each has told the hub what it has to say, and has heard what the others said."""
    for memory in (*machines, *machines):
        report = await memory.sync(timeout=5)
        assert (report.pending, report.dead) == (0, 0), report


async def all_of(memory: MemoryRouter) -> dict[str, Any]:
    return {f"{'/'.join(one.namespace)}/{one.key}": one.value for one in await memory.documents.list("", limit=1000)}


async def share(*machines: MemoryRouter, prefix: str = "users") -> None:
    for memory in machines:
        await memory.documents.share(prefix)


@asynccontextmanager
async def sharing(team: Team) -> AsyncIterator[tuple[MemoryRouter, MemoryRouter]]:
    """Two machines that share the namespace `users`."""
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await share(laptop, desktop)
        yield laptop, desktop
