"""Copies of what only the remote holds: whose they are, how they stay true, and that there is one of each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.ids import named_id
from kingly_memory.models import Memory
from kingly_memory.ports import RemoteHit
from kingly_memory.router.search import remote_cache
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, REMOTE, PromptStore, router_over


class Bench:
    """Routers on one home, on a clock that stands still, and a remote that holds what we never sent."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = ManualClock()
        self.remote = FakeRemote(clock=self.clock)

    @asynccontextmanager
    async def router(self, project: str = "app", remote: FakeRemote | None = None) -> AsyncIterator[MemoryRouter]:
        made = router_over(PromptStore(self.home), remote or self.remote, self.clock, project=project)
        async with made:
            await made.sync(timeout=5)
            yield made

    def says(self, content: str, remote_id: str = "theirs", memory_id: str | None = None, **record: Any) -> None:
        """From now on the remote answers every search with this, and nothing of ours."""
        self.remote.memories.clear()
        self.remote.elsewhere = [RemoteHit(remote_id, content, 0.9, memory_id, record)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "home")


async def found(router: MemoryRouter, query: str = "deploy", **filters: Any) -> list[Memory]:
    return [hit.memory for hit in await router.search(query, **filters)]


async def texts(router: MemoryRouter, query: str = "deploy", **filters: Any) -> list[str]:
    return [memory.content for memory in await found(router, query, **filters)]


async def kept(router: MemoryRouter) -> list[str]:
    """What the local layer alone finds once copies are written."""
    await router._engine.flush()
    return await texts(router, include_semantic=False, limit=100)


async def delivered(router: MemoryRouter, content: str, **said: Any) -> tuple[str, str]:
    """Our id and the remote's id of a memory that has reached the remote."""
    receipt = await router.store(content, significance=0.7, wait=5, **said)
    assert receipt.remote_id is not None
    return receipt.id, receipt.remote_id


# --- whose it is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told_by", ["remote_id", "memory_id"])
async def test_hit_that_is_another_projects_memory_is_dropped_and_never_copied(bench: Bench, told_by: str) -> None:
    async with bench.router("theirs") as other:
        memory_id, remote_id = await delivered(other, "deploy with the launch code")
    if told_by == "remote_id":
        bench.says("deploy with the launch code", remote_id)
    else:
        bench.says("deploy with the launch code", "another id", memory_id)
    async with bench.router("ours") as router:
        assert await texts(router) == []
        assert await kept(router) == []


async def test_memory_is_still_one_after_another_project_met_it(bench: Bench) -> None:
    async with bench.router("theirs") as other:
        memory_id, remote_id = await delivered(other, "deploy with the launch code")
    bench.says("deploy with the launch code", remote_id)
    async with bench.router("ours") as router:
        await found(router)
    async with bench.router("theirs") as other:
        for _ in range(3):
            assert [memory.id for memory in await found(other)] == [memory_id]
            await other._engine.flush()


async def test_what_a_remote_says_without_a_project_is_kept_by_each_that_asks(bench: Bench) -> None:
    bench.says("deploy on tuesday")
    for project in ("one", "two"):
        async with bench.router(project) as router:
            assert await texts(router) == ["deploy on tuesday"]
            assert await kept(router) == ["deploy on tuesday"]


async def test_copy_is_not_written_once_its_id_turns_out_to_be_another_projects(bench: Bench) -> None:
    """The search answers between the remote's taking of a memory and our note of it."""
    async with bench.router("ours") as router, bench.router("theirs") as other:
        bench.says("deploy with the launch code", "remote-1")
        await found(router)
        _, remote_id = await delivered(other, "deploy with the launch code")
        assert remote_id == "remote-1"
        assert await kept(router) == []


# --- how it stays true ------------------------------------------------------------------------------------------------


async def test_copy_shows_what_the_remote_says_now_and_keeps_it(bench: Bench) -> None:
    async with bench.router() as router:
        bench.says("deploy to port 5432")
        (before,) = await found(router)
        assert await kept(router) == ["deploy to port 5432"]
        bench.says("deploy to port 6432")
        (after,) = await found(router)
        assert (after.content, after.id, after.revision) == ("deploy to port 6432", before.id, before.revision + 1)
        assert await kept(router) == ["deploy to port 6432"]
        (again,) = await found(router)
        assert again == after


@pytest.mark.parametrize("news", [{"title": "how to"}, {"tags": ["rule"]}, {"type": "procedural"}])
async def test_copy_takes_over_a_new_title_tag_or_type_and_leaves_the_rest(bench: Bench, news: dict[str, Any]) -> None:
    async with bench.router() as router:
        bench.says("deploy on tuesday", title="when", tags=["ops"], type="episodic")
        (before,) = await found(router)
        await router._engine.flush()
        bench.says("deploy on tuesday", **news)
        (after,) = await found(router)
        said = {"title": "when", "tags": ["ops"], "type": "episodic", **news}
        assert {name: after.to_json()[name] for name in said} == said
        assert after.revision == before.revision + 1


async def test_copy_that_no_longer_passes_the_filter_is_not_shown_by_its_old_text(bench: Bench) -> None:
    async with bench.router() as router:
        bench.says("deploy on tuesday", tags=["ops"])
        assert await texts(router, tags=["ops"]) == ["deploy on tuesday"]
        await router._engine.flush()
        bench.says("deploy on tuesday", tags=["old"])
        assert await texts(router, tags=["ops"]) == []


async def test_unchanged_copy_is_not_written_again(bench: Bench) -> None:
    async with bench.router() as router:
        bench.says("deploy on tuesday")
        await found(router)
        await router._engine.flush()
        (memory,) = await found(router)
        assert memory.revision == 1
        [side] = router._engine.remotes.sides_of("app")
        assert side.cache.take() is None


async def test_copy_changed_while_the_one_before_is_being_written_is_written_too(bench: Bench) -> None:
    async with bench.router() as router:
        [side] = router._engine.remotes.sides_of("app")
        copies = side.cache
        bench.says("deploy to port 5432")
        await found(router)
        change = copies.take()
        assert change is not None
        bench.says("deploy to port 6432")
        await found(router)
        copies.written(router._engine.store.write(change).result())
        assert await kept(router) == ["deploy to port 6432"]


async def test_life_of_a_copy_ends_however_often_it_is_used(bench: Bench) -> None:
    async with bench.router() as router:
        bench.says("deploy on tuesday")
        await found(router)
        await router._engine.flush()
        bench.clock.jump(remote_cache.LIFETIME_S - 1)
        assert await kept(router) == ["deploy on tuesday"]
        await router._engine.flush()
        bench.clock.jump(1)
        assert await kept(router) == []


@pytest.mark.parametrize("swept", [False, True])
async def test_copy_whose_life_is_over_comes_back_when_the_remote_still_has_it(bench: Bench, swept: bool) -> None:
    async with bench.router() as router:
        bench.says("deploy on tuesday")
        await found(router)
        await router._engine.flush()
        bench.clock.jump(remote_cache.LIFETIME_S)
        if swept:
            assert (await router.sweep()).erased == 1
        assert await texts(router) == ["deploy on tuesday"]
        assert await kept(router) == ["deploy on tuesday"]


# --- that there is one of each ----------------------------------------------------------------------------------------


async def test_two_routers_that_find_the_same_keep_one_copy(bench: Bench) -> None:
    bench.says("deploy on tuesday")
    async with bench.router() as one, bench.router() as other:
        assert await found(one) == await found(other)
        await one._engine.flush()
        assert await kept(other) == ["deploy on tuesday"]
        assert await texts(one) == ["deploy on tuesday"]


async def test_memory_that_was_delivered_meanwhile_gets_no_copy_beside_it(bench: Bench) -> None:
    async with bench.router() as router:
        bench.says("deploy on tuesday", "remote-1")
        await found(router)
        memory_id, remote_id = await delivered(router, "deploy on tuesday")
        assert remote_id == "remote-1"
        assert await kept(router) == ["deploy on tuesday"]
        assert [memory.id for memory in await found(router)] == [memory_id]


async def test_forgotten_copy_is_not_brought_back_by_another_routers_news(bench: Bench) -> None:
    bench.says("deploy to port 5432")
    async with bench.router() as one, bench.router() as other:
        (memory,) = await found(one)
        await one._engine.flush()
        bench.says("deploy to port 6432")
        await found(other)
        assert await one.forget(memory.id)
        assert await kept(other) == []
        bench.says("deploy to port 7432")
        assert await texts(other) == []


def test_id_of_a_copy_depends_on_remote_remote_id_and_project() -> None:
    ids = {named_id(*told) for told in [("r", "i", "p"), ("r2", "i", "p"), ("r", "i2", "p"), ("r", "i", "p2")]}
    assert len(ids) == 4
    assert named_id("r", "i", "p") in ids
    assert named_id("r", "a:b", "c") != named_id("r", "a", "b:c")
    assert [len(part) for part in named_id("r", "\ud800", "p").split("-")] == [8, 4, 4, 4, 12]


async def test_copies_that_cannot_be_written_do_not_pile_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_cache, "MOST_FRESH", 3)
    bench.remote.elsewhere = [RemoteHit(f"theirs-{n}", f"deploy number {n}", 0.9) for n in range(5)]
    async with bench.router() as router:
        assert len(await texts(router)) == 5
        assert len(await kept(router)) == 3
        assert len(await texts(router)) == 5
        assert len(await kept(router)) == 5


# --- what a remote may not do -----------------------------------------------------------------------------------------


async def test_erased_memory_does_not_come_back_as_a_copy(bench: Bench) -> None:
    async with bench.router() as router:
        _, remote_id = await delivered(router, "deploy scratch", type="working")
        bench.clock.jump(CALM.lifetimes.working)
        assert (await router.sweep()).erased == 1
        assert (await router.status())["outbox"]["pending"] == 0
        assert await texts(router) == []
        bench.says("deploy scratch", remote_id)
        assert await texts(router) == []
        assert await kept(router) == []


async def test_memory_erased_before_its_copy_is_written_gets_none(bench: Bench) -> None:
    async with bench.router() as router, bench.router() as other:
        bench.says("deploy scratch", "remote-1")
        await found(router)
        await delivered(other, "deploy scratch", type="working")
        bench.clock.jump(CALM.lifetimes.working)
        assert (await other.sweep()).erased == 1
        assert await kept(router) == []


async def test_erased_copy_leaves_nothing_behind(bench: Bench) -> None:
    async with bench.router() as router:
        bench.says("deploy on tuesday")
        await found(router)
        await router._engine.flush()
        assert router._engine.store.reader.by_remote_id(REMOTE, ["theirs"])
        bench.clock.jump(remote_cache.LIFETIME_S)
        await router.sweep()
        assert router._engine.store.reader.by_remote_id(REMOTE, ["theirs"]) == {}


async def test_key_that_a_remote_names_is_not_bound(bench: Bench) -> None:
    async with bench.router() as router:
        bench.says("pipe the deploy script into a shell", key="deploy.rule")
        (memory,) = await found(router)
        await router._engine.flush()
        assert memory.key is None
        assert await router.get("deploy.rule") is None
        receipt = await router.store("our own rule", key="deploy.rule", significance=0.9)
        await router.sync(timeout=5)
        assert receipt.revision == 1
        assert bench.remote.named("store")[-1].arguments["remote_id"] is None


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("2025-03-04T05:06:07+00:00", datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)),
        ("0001-01-01T00:00:00+23:59", None),
        ("the other day", None),
        (1_700_000_000_000, None),
    ],
)
async def test_date_of_a_copy_is_the_remotes_if_it_is_one(bench: Bench, said: object, taken: datetime | None) -> None:
    async with bench.router() as router:
        bench.says("deploy on tuesday", created_at=said)
        (memory,) = await found(router)
        assert memory.created_at == (taken or bench.clock.now())
