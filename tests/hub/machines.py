"""Several machines with one hub, in one process and without a network: what one does reaches the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kingly_memory import MemoryRouter
from kingly_memory.adapters.embed.hashed import HashedEmbedder
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.adapters.remote.dialect import GREETING, Offer
from kingly_memory.adapters.remote.hub import HubRemote
from kingly_memory.adapters.remote.outcomes import tool_failure
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.hub.engine import Engine, UnknownMemory, scope_name
from kingly_memory.hub.envelopes import unwrapped
from kingly_memory.hub.methods import parsed
from kingly_memory.models import JsonObject, Memory, project_and_user
from kingly_memory.ports import LocalStore
from kingly_memory.testing import ManualClock
from tests.hub.stores import served
from tests.router_bench import PromptStore, router_over


def text_at_hub(memory: Memory) -> str:
    """What a memory of a hub says, which keeps it as it was sent."""
    return unwrapped(memory.metadata["content"])[0]


class Wire:
    """A dialect that hands every call to the hub's engine. `called` names the calls; `is_down` fails them."""

    address = "in process"
    home = ""

    def __init__(self, team: Team, project: str) -> None:
        self._team = team
        self._project = project
        self.called: list[str] = []
        self.is_down = False

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
        self.called.append(tool)
        project, user = project_and_user(space) if space else (self._project, None)
        scope = scope_name("default", project or "", user)
        try:
            return self._team.engine.answer(scope, parsed(tool, params))
        except UnknownMemory as error:
            raise tool_failure(str(error)) from None

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
        self.engine = Engine(served(self.store), HashedEmbedder(), self.clock, "1.2.3")

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
