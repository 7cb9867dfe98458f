"""Every public operation that may touch a remote: what it does, and what holds whatever the remote does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from kingly_memory import MemoryRouter, RemoteUnavailable
from kingly_memory.models import DeliveryState, Source
from tests.faults.troubles import Place, Trouble

HARBOUR, LANTERN, FERRY = "The harbour opens at six", "The lantern is lit at dusk", "The ferry is late in fog"
PIER = "The granite pier was mended in spring"
CONTEXT = "watch"
WAITED_S = 0.2


@dataclass(frozen=True, slots=True)
class Scene:
    """A router whose remote is in trouble, and who knows `harbour`, `lantern` and, forgotten, `ferry`."""

    memory: MemoryRouter
    place: Place
    trouble: Trouble
    operation: str

    @property
    def key(self) -> str:
        """Of what this operation stores."""
        return f"pier, {self.operation}"

    @property
    def new(self) -> str:
        return f"{PIER}: {self.operation}"

    def asked(self, method: str) -> int:
        return sum(call.method == method for call in self.place.server.requests)


@dataclass(frozen=True, slots=True)
class Operation:
    """`bound_s` is what it may take by its own account, whatever the remote does: the machine's share comes on top."""

    name: str
    run: Callable[[Scene], Awaitable[None]]
    bound_s: float = 0.0

    def __str__(self) -> str:
        return self.name


async def _store(scene: Scene) -> None:
    receipt = await scene.memory.store(scene.new, key=scene.key, significance=0.9)
    assert (receipt.layers, receipt.delivery) == (("local",), DeliveryState.PENDING)
    await _is_here(scene, scene.key, scene.new)


async def _store_and_wait(scene: Scene) -> None:
    receipt = await scene.memory.store(scene.new, key=scene.key, significance=0.9, wait=WAITED_S)
    assert receipt.delivery is not DeliveryState.DELIVERED
    assert receipt.layers == ("local",)
    await _is_here(scene, scene.key, scene.new)


async def _store_required(scene: Scene) -> None:
    with pytest.raises(RemoteUnavailable) as unavailable:
        await scene.memory.store(scene.new, key=scene.key, significance=0.9, wait=WAITED_S, require_remote=True)
    assert unavailable.value.receipt.key == scene.key
    await _is_here(scene, scene.key, scene.new)


async def _revise(scene: Scene) -> None:
    receipt = await scene.memory.store("The harbour opens at seven", key="harbour")
    assert receipt.revision == 2
    await _is_here(scene, "harbour", "The harbour opens at seven")


async def _store_quietly(scene: Scene) -> None:
    receipt = await scene.memory.store(scene.new, key=scene.key, significance=0.3)
    assert receipt.delivery is DeliveryState.LOCAL_ONLY


async def _search(scene: Scene) -> None:
    found = await scene.memory.search("harbour")
    assert [hit.memory.key for hit in found] == ["harbour"]
    if not scene.trouble.searched:
        assert found.source is Source.LOCAL_FALLBACK
        assert "remote" in found.failures


async def _search_here(scene: Scene) -> None:
    before = scene.asked("search_semantic_memories")
    found = await scene.memory.search("lantern", include_semantic=False)
    assert [hit.memory.key for hit in found] == ["lantern"]
    assert found.source is Source.LOCAL
    assert scene.asked("search_semantic_memories") == before


async def _search_linked(scene: Scene) -> None:
    found = await scene.memory.search("harbour", include_linked=True)
    assert [linked["key"] for several in found.linked.values() for linked in several] == ["lantern"]
    (link,) = await scene.memory.links("lantern")
    assert link.link_type.value == "related"


async def _think(scene: Scene) -> None:
    thought = await scene.memory.record_thought("Fog delays ferries", chain_id="fog")
    assert [one.id for one in await scene.memory.thoughts("fog")] == [thought.id]


async def _link(scene: Scene) -> None:
    await scene.memory.link_memories("lantern", "harbour", "supports")
    assert len(await scene.memory.links("harbour")) == 2


async def _forget(scene: Scene) -> None:
    assert await scene.memory.forget("lantern") is not None
    assert await scene.memory.get("lantern") is None
    assert [hit.memory.key for hit in await scene.memory.search("lantern")] == []


async def _restore(scene: Scene) -> None:
    assert await scene.memory.restore("ferry") is not None
    await _is_here(scene, "ferry", FERRY)


async def _working_context(scene: Scene) -> None:
    context = await scene.memory.working_context(CONTEXT)
    assert {"harbour", "lantern"} <= {memory.key for memory in context.items}


async def _sync(scene: Scene) -> None:
    await scene.memory.store(scene.new, key=scene.key, significance=0.9)
    report = await scene.memory.sync(timeout=WAITED_S)
    assert report.delivered == 0
    assert report.pending + report.dead >= 1
    assert report.reason


async def _status(scene: Scene) -> None:
    status = await scene.memory.status()
    assert status["memories"]["total"] >= 2
    assert status["link"]["endpoint"] == scene.place.url


async def _close(scene: Scene) -> None:
    await scene.memory.store(scene.new, key=scene.key, significance=0.9)
    await scene.memory.close()


async def _is_here(scene: Scene, key: str, content: str) -> None:
    found = await scene.memory.get(key)
    assert found is not None
    assert found.content == content


SEARCH_S = 0.2
OPERATIONS = (
    Operation("status", _status),
    Operation("store", _store),
    Operation("store and wait", _store_and_wait, WAITED_S),
    Operation("store, remote required", _store_required, WAITED_S),
    Operation("store at 0.3", _store_quietly),
    Operation("sync", _sync, WAITED_S),
    Operation("search", _search, SEARCH_S),
    Operation("search here", _search_here, SEARCH_S),
    Operation("search with links", _search_linked, SEARCH_S),
    Operation("working context", _working_context, SEARCH_S),
    Operation("revise", _revise),
    Operation("record thought", _think),
    Operation("link memories", _link),
    Operation("forget", _forget, SEARCH_S),
    Operation("restore", _restore),
    Operation("close", _close),
)
"""In an order in which each finds what it needs, whichever of them were left out before it."""
