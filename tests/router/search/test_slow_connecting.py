"""A remote that takes long to be connected to is slow; one that says nothing meanwhile hangs. Only that counts."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.errors import NotConnectedYet, RemoteRefused, RemoteUnavailable
from kingly_memory.models import LinkState
from kingly_memory.ports import Remote
from kingly_memory.router.delivery.link import Link
from kingly_memory.router.delivery.routes import UNNAMED, Route
from kingly_memory.router.link_keeper import LinkKeeper
from kingly_memory.router.search.remote_cache import RemoteCache
from kingly_memory.router.search.remote_side import RemoteSide
from kingly_memory.router.services import RemotePart, Services
from kingly_memory.settings import Pace
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, REMOTE, PromptStore, nothing_new
from tests.scripted.mcp_frames import McpStyle
from tests.scripted.remote import ScriptedRemote

PATIENCE_S = 30.0
HASTY = Settings(durability="process", call_timeout_s=2 * PATIENCE_S, pace=Pace(closing_s=5.0), remote_search_s=0.4)


class Beside:
    """A link and a reader beside a remote that has said nothing yet."""

    def __init__(self, home: Path) -> None:
        self.clock = ManualClock()
        self.heard_s = -math.inf
        store = PromptStore(home)
        self.remote = FakeRemote(clock=self.clock)
        route = Route(REMOTE, UNNAMED, "http://fake")
        part = RemotePart(route, self.remote, lambda: True, lambda: None, heard_s=lambda: self.heard_s)
        self.link = LinkKeeper(part, Services(store, self.clock, CALM, (), lambda: 0.5, lambda _: 0))
        cache = RemoteCache(REMOTE, store=store, clock=self.clock)
        self.side = RemoteSide(part, self.link, cache, nothing_new)

    def answers(self) -> None:
        self.heard_s = self.clock.monotonic()

    async def search(self) -> None:
        """One that gives up while the remote is still being connected to."""

        async def late(_: Remote) -> None:
            self.clock.tick(CALM.remote_search_s)
            raise NotConnectedYet("not connected within 150 ms")

        with pytest.raises(RemoteUnavailable):
            await self.side.ask("a search", late)


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside(tmp_path / "home")


@pytest.mark.requirement("KNG-013")
async def test_a_remote_that_says_nothing_while_it_is_connected_to_is_offline_soon(beside: Beside) -> None:
    searches = 0
    while beside.link.is_connected:
        await beside.search()
        searches += 1
    assert searches == 5
    assert beside.link.seconds_to_probe() == 0  # with more patience than a search has


async def test_a_remote_that_answers_while_it_is_connected_to_has_not_failed(beside: Beside) -> None:
    for _ in range(20):
        await beside.search()
        beside.answers()
    assert beside.link.current().failures == 0


async def test_what_is_connected_in_the_end_begins_anew(beside: Beside) -> None:
    for _ in range(2):
        await beside.search()
    await beside.side.ask(
        "a search", lambda remote: remote.search("fog", space="app", limit=1, types=None, timeout_s=1.0)
    )
    beside.clock.tick(3600)
    for _ in range(2):
        await beside.search()
    assert beside.link.current().failures == 0


@pytest.mark.parametrize(("answers", "failures"), [(True, 0), (False, 1)])
async def test_a_process_that_ends_while_it_connects_tells_of_silence_and_of_nothing_else(
    beside: Beside, answers: bool, failures: int
) -> None:
    beside.remote.hang()
    probing = asyncio.create_task(beside.link.probe(forced=True))
    for _ in range(3):
        await beside.clock.advance(0.1)
        if answers:
            beside.answers()
    assert beside.link.is_kept_waiting is not answers
    probing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probing
    assert beside.link.current().failures == failures


async def test_a_transport_knows_when_it_was_last_answered() -> None:
    clock = ManualClock()
    clock.tick(5)
    with ScriptedRemote() as server:
        transport = Transport(endpoint(server.url), clock=clock)
        assert transport.heard_s == -math.inf
        with pytest.raises(RemoteRefused):
            await transport.post("/nowhere", {}, headers={}, timeout_s=PATIENCE_S)
        assert transport.heard_s == 5
        await transport.aclose()


# --- real servers that hang -------------------------------------------------------------------------------------------

STYLES = pytest.mark.parametrize("style", [None, McpStyle()], ids=["json-call", "mcp"])


@STYLES
async def test_a_router_that_stays_open_soon_knows_that_its_remote_hangs(
    tmp_path: Path, style: McpStyle | None
) -> None:
    home = tmp_path / "home"
    with ScriptedRemote(mcp=style) as server:
        hang(server)
        async with asyncio.timeout(PATIENCE_S), MemoryRouter.open(home, server.url, settings=HASTY) as memory:
            while link_at(home, server).state is not LinkState.OFFLINE:
                await memory.search("fog")


@STYLES
async def test_commands_that_end_soon_learn_together_that_a_remote_hangs(
    tmp_path: Path, style: McpStyle | None
) -> None:
    home = tmp_path / "home"
    known: list[LinkState] = []
    with ScriptedRemote(mcp=style) as server:
        hang(server)
        while LinkState.OFFLINE not in known:
            async with MemoryRouter.open(home, server.url, settings=HASTY) as memory:
                await memory.search("fog")
            known.append(link_at(home, server).state)
    assert 3 <= len(known) <= 5  # one may end before it is clear that it waits in vain


def link_at(home: Path, server: ScriptedRemote) -> Link:
    store, name = DiskStore(home), endpoint(server.url).remote_name
    found = store.reader.facets("link", [name])
    store.close()
    return Link.from_json(found[name]) if found else Link()


def hang(server: ScriptedRemote) -> None:
    for method in (None, "initialize", "server/discover"):
        server.script(*["hang"] * 100, method=method)
