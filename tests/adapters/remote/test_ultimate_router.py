"""Whole sessions of the router with an Ultimate server: what was said, found, linked, thought and forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.models import DeliveryState, LinkState, Source
from kingly_memory.router.delivery.moves import MOST_REFUSALS
from kingly_memory.settings import Pace
from tests.ultimate.engine import Manners
from tests.ultimate.server import UltimateServer

QUICK = Settings(
    durability="process",
    pace=Pace(send_pause_s=0.0, poll_s=0.02, closing_s=0.0),
    remote_search_s=5.0,
    call_timeout_s=5.0,
)
"""With more time for the remote's side of a search than it has in use: the machine that tests may be a busy one."""


@pytest.fixture
def server() -> Iterator[UltimateServer]:
    with UltimateServer() as server:
        yield server


@pytest.fixture
async def memory(tmp_path: Path, server: UltimateServer) -> AsyncIterator[MemoryRouter]:
    async with opened(tmp_path / "home", server) as router:
        yield router


def opened(home: Path, server: UltimateServer, remote: str | None = None) -> MemoryRouter:
    return MemoryRouter.open(home, remote or server.url, project="app", settings=QUICK)


def held(server: UltimateServer) -> list[str]:
    return sorted(row.content for row in server.engine.live())


async def until(server: UltimateServer, condition: Callable[[UltimateServer], bool]) -> None:
    await asyncio.to_thread(server.wait_until, condition, 20.0)


@pytest.mark.requirement("KNG-006", "KNG-009", "KNG-010", "KNG-066")
@pytest.mark.parametrize("given", ["full address", "origin alone"])
async def test_what_is_stored_is_delivered_to_the_server_and_known_by_its_id_there(
    tmp_path: Path, server: UltimateServer, given: str
) -> None:
    remote = server.url if given == "full address" else server.origin
    async with opened(tmp_path / "home", server, remote) as memory:
        receipt = await memory.store("blue green deploys", key="deploys", significance=0.8, wait=20)
        assert (receipt.layers, receipt.delivery) == (("local", "remote"), DeliveryState.DELIVERED)
        assert receipt.remote_id in server.engine.data.rows
        told = (await memory.status())["link"]
        assert (told["state"], told["effects"]) == (LinkState.CONNECTED, "exactly_once")


@pytest.mark.requirement("KNG-011")
async def test_a_search_asks_both_and_knows_what_is_the_same(memory: MemoryRouter, server: UltimateServer) -> None:
    receipt = await memory.store("Blue-green deploys need two pools", significance=0.8, tags=["Ops"], wait=20)
    await memory.store("a green apple", significance=0.1)
    (workflow_id,) = server.engine.data.workflows
    said = {"memory_type": "fact", "memory_level": "semantic", "importance": 7.0}
    theirs = {"workflow_id": workflow_id, "content": "green pools are drained on Fridays", **said}
    server.engine.call("store_memory", theirs)
    results = await memory.search("green-pools deploys?")
    assert results.source is Source.HYBRID
    by_content = {hit.memory.content: hit for hit in results}
    assert by_content["Blue-green deploys need two pools"].memory.id == receipt.id
    assert by_content["Blue-green deploys need two pools"].memory.tags == ("Ops",)
    assert "remote" in by_content["green pools are drained on Fridays"].layers
    assert len(results) == len(by_content) == 3


async def test_what_is_forgotten_is_gone_there_too_and_may_come_back(
    memory: MemoryRouter, server: UltimateServer
) -> None:
    await memory.store("the secret handshake", key="secret", significance=0.8, wait=20)
    await memory.forget("secret")
    await memory.sync(timeout=20)
    assert held(server) == ["(forgotten)"]
    assert len(await memory.search("secret handshake")) == 0
    server.engine.advance(60)
    await memory.store("the new handshake", key="secret", significance=0.8, wait=20)
    await memory.sync(timeout=20)
    assert held(server) == ["the new handshake"]


async def test_links_and_thoughts_follow_the_memories_they_are_about(
    memory: MemoryRouter, server: UltimateServer
) -> None:
    await memory.store("the pool was full", key="pool", significance=0.8)
    await memory.store("requests failed", key="failed", significance=0.8)
    await memory.link_memories("pool", "failed", "causal", strength=0.5)
    first = await memory.record_thought("The pool is too small.", thought_type="hypothesis")
    await memory.record_thought("A second pool would help.", parent_id=first.id)
    await memory.sync(timeout=20)
    await until(server, lambda one: bool(one.engine.data.links))
    (link,) = server.engine.data.links
    assert (link["link_type"], link["strength"]) == ("causal", 0.5)
    kinds = [row.memory_type for row in server.engine.live() if "thought" in row.tags]
    assert kinds == ["reasoning_step"] * 2


@pytest.mark.requirement("U5")
@pytest.mark.parametrize("is_gone", [False, True], ids=["both are there", "the thought is gone there"])
async def test_a_link_between_a_memory_and_a_thought_is_made_once_or_given_up_on_an_older_server(
    tmp_path: Path, is_gone: bool
) -> None:
    manners = Manners(repeats_workflows=False, replaces_links=False)
    with UltimateServer(older=True, manners=manners) as server:
        async with opened(tmp_path / "home", server) as memory:
            await memory.store("the pool was full", key="pool", significance=0.8)
            thought = await memory.record_thought("The pool is too small.", thought_type="hypothesis")
            await memory.sync(timeout=20)
            if is_gone:
                [there] = [row.memory_id for row in server.engine.live() if "thought" in row.tags]
                del server.engine.data.rows[there]
            await memory.link_memories("pool", thought.id, "supports")
            for _ in range(MOST_REFUSALS + 2):
                await memory.sync(timeout=20)
            links = (await memory.status()).get("links", {"pending": 0, "dead": 0})
        assert links == {"pending": 0, "dead": int(is_gone)}
        assert len(server.named("create_memory_link")) == (MOST_REFUSALS if is_gone else 1)


@pytest.mark.requirement("KNG-071")
async def test_a_working_context_is_gathered_from_both(
    memory: MemoryRouter, server: UltimateServer, tmp_path: Path
) -> None:
    await memory.store("checking the pools", type="working", context_id="Incident 7", significance=0.8, wait=20)
    async with opened(tmp_path / "elsewhere", server) as another:
        await another.store("the pools are cold", type="working", context_id="Incident 7", significance=0.8, wait=20)
        context = await another.working_context("Incident 7")
    assert context.source is Source.HYBRID
    assert [item.content for item in context.items] == ["the pools are cold"]
    assert "checking the pools" in [one.content for one in context.remote]


@pytest.mark.requirement("KNG-012", "KNG-079")
async def test_through_an_outage_with_a_wiped_database_nothing_is_lost(tmp_path: Path, server: UltimateServer) -> None:
    async with opened(tmp_path / "home", server) as memory:
        await memory.store("before", key="before", significance=0.8, wait=20)
        server.stop()
        await memory.store("during", key="during", significance=0.8)
        assert [hit.memory.content for hit in await memory.search("during")] == ["during"]
        server.engine.wipe()
        server.start()
        await memory.store("before, revised", key="before", significance=0.8)
        await memory.sync(timeout=20)
        await until(server, lambda one: len(one.engine.live()) == 2)
        assert held(server) == ["before, revised", "during"]


@pytest.mark.requirement("KNG-003", "KNG-012", "KNG-013", "KNG-079")
@pytest.mark.parametrize("fault", ["hang", "late", "status=500", "html", "lost-reply", "refused", "gone"])
async def test_whatever_the_server_does_a_search_is_answered_from_this_machine(
    tmp_path: Path, server: UltimateServer, fault: str
) -> None:
    """The search is over when the remote's time is: nothing here waits for the server longer than that."""
    impatient = replace(QUICK, remote_search_s=0.1)
    async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=impatient) as memory:
        receipt = await memory.store("the pool was full", significance=0.8, wait=20)
        if fault == "gone":
            server.stop()
        elif fault == "refused":
            server.engine.data.index.execute("DROP TABLE memory_fts")
        else:
            server.script(fault, fault, method="hybrid_search_memories")  # a kept connection that breaks is asked anew
        try:
            async with asyncio.timeout(60):
                results = await memory.search("pool")
        finally:
            if fault == "gone":
                server.start()
        assert results.source is Source.LOCAL_FALLBACK
        assert [hit.memory.id for hit in results] == [receipt.id]
        assert results.failures["remote"]


@pytest.mark.requirement("KNG-012")
async def test_a_search_that_the_server_cannot_do_is_answered_locally_and_the_link_holds(
    memory: MemoryRouter, server: UltimateServer
) -> None:
    await memory.store("the pool was full", significance=0.8, wait=20)
    server.script(*["html"] * 2, method="hybrid_search_memories")
    for _ in range(2):
        results = await memory.search("pool")
        assert (results.source, [hit.memory.content for hit in results]) == (
            Source.LOCAL_FALLBACK,
            ["the pool was full"],
        )
    assert (await memory.search("pool")).source is Source.HYBRID
