"""The working context: what is at hand in a piece of work, for half an hour, and no more than 20 items of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter, Settings, Source
from kingly_memory.cognition.context import Context, ContextRules, noted
from kingly_memory.errors import InvalidInput, RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryType
from kingly_memory.ports import RemoteHit, RemoteLink
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, PromptStore, router_over

HALF_AN_HOUR = 1_800.0


def open_router(home: Path, clock: ManualClock, *, agent: str | None = None, project: str = "app") -> MemoryRouter:
    return MemoryRouter.open(
        home, remote=False, project=project, agent=agent, clock=clock, settings=Settings(durability="process")
    )


def contents(memories: tuple[Memory, ...]) -> list[str]:
    return [memory.content for memory in memories]


@pytest.mark.requirement("KNG-023")
@pytest.mark.requirement("KNG-027")
async def test_what_is_stored_with_a_context_id_is_at_hand_in_it(tmp_path: Path) -> None:
    async with open_router(tmp_path / "home", ManualClock()) as memory:
        await memory.store("branch is release-7", context_id="deploy-42", type="working")
        await memory.store("the database moved", context_id="deploy-42")
        await memory.store("something else entirely", context_id="other")
        context = await memory.working_context("deploy-42")
    assert contents(context.items) == ["the database moved", "branch is release-7"]
    assert context.to_json().keys() >= {
        "working_memory",
        "local_state",
        "context_id",
        "last_updated",
        "memory_count",
        "related_memories",
        "source",
    }
    assert context.to_json()["memory_count"] == 2
    assert context.source is Source.LOCAL


@pytest.mark.requirement("KNG-022")
@pytest.mark.parametrize(("after_s", "expected"), [(HALF_AN_HOUR - 1, 1), (HALF_AN_HOUR + 1, 0)])
@pytest.mark.parametrize("kind", ["working", "semantic"])
async def test_items_leave_half_an_hour_after_the_last_use(
    tmp_path: Path, after_s: float, expected: int, kind: Any
) -> None:
    clock = ManualClock()
    async with open_router(tmp_path / "home", clock) as memory:
        await memory.store("at hand", context_id="c", type=kind)
        clock.jump(after_s)
        assert len((await memory.working_context("c")).items) == expected


@pytest.mark.requirement("KNG-022")
async def test_reading_a_context_and_storing_in_it_keep_what_is_at_hand_alive(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_router(tmp_path / "home", clock) as memory:
        await memory.store("first", context_id="c", type="working")
        clock.jump(HALF_AN_HOUR - 600)
        await memory.working_context("c")
        clock.jump(HALF_AN_HOUR - 600)
        await memory.store("second", context_id="c", type="working")
        clock.jump(HALF_AN_HOUR - 600)
        assert contents((await memory.working_context("c")).items) == ["second", "first"]


@pytest.mark.requirement("KNG-024")
async def test_a_hundred_items_become_twenty_at_hand_and_eighty_episodic_ones(tmp_path: Path) -> None:
    async with open_router(tmp_path / "home", ManualClock()) as memory:
        for number in range(100):
            await memory.store(f"step {number}", key=f"step-{number}", context_id="c", type="working")
        context = await memory.working_context("c")
        episodic = await memory.list(limit=200, types=["episodic"])
        assert contents(context.items) == [f"step {number}" for number in range(99, 79, -1)]
        assert sorted(contents(episodic.memories)) == sorted(f"step {number}" for number in range(80))
        first = await memory.get("step-0")
        assert first is not None
        assert first.type == "episodic"
        assert first.revision == 2


@pytest.mark.requirement("KNG-024")
async def test_the_capacity_is_a_setting(tmp_path: Path) -> None:
    settings = Settings(durability="process", context_items=19)
    async with MemoryRouter.open(tmp_path, remote=False, settings=settings) as memory:
        for number in range(40):
            await memory.store(f"step {number}", context_id="c", type="working")
        assert len((await memory.working_context("c")).items) == 19


@pytest.mark.requirement("KNG-024")
async def test_what_was_forgotten_takes_nobodys_place_and_is_at_hand_again_once_it_is_restored(tmp_path: Path) -> None:
    settings = Settings(durability="process", context_items=2)
    async with MemoryRouter.open(tmp_path, remote=False, settings=settings) as memory:
        first, second = [await memory.store(f"step {number}", context_id="c", type="working") for number in (1, 2)]
        await memory.forget(second.id)
        await memory.restore(second.id)
        assert contents((await memory.working_context("c")).items) == ["step 2", "step 1"]
        await memory.forget(second.id)
        await memory.store("step 3", context_id="c", type="working")
        assert contents((await memory.working_context("c")).items) == ["step 3", "step 1"]
        kept = await memory.get(first.id)
        assert kept is not None
        assert kept.type is MemoryType.WORKING


@pytest.mark.requirement("KNG-030")
async def test_context_survives_a_restart_and_is_still_the_current_one(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_router(tmp_path / "home", clock) as memory:
        await memory.store("at hand", context_id="deploy-42", type="working")
    async with open_router(tmp_path / "home", clock) as memory:
        context = await memory.working_context()
    assert context.context_id == "deploy-42"
    assert contents(context.items) == ["at hand"]


async def test_current_context_is_the_own_one_however_many_hosts_share_a_home(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        open_router(tmp_path / "home", clock, agent="editor") as one,
        open_router(tmp_path / "home", clock, agent="editor") as same_agent,
        open_router(tmp_path / "home", clock, agent="reviewer") as other,
    ):
        await one.store("mine", context_id="one")
        await same_agent.store("its", context_id="two")
        await other.store("theirs", context_id="three")
        ids = [(await router.working_context()).context_id for router in (one, same_agent, other)]
    assert ids == ["one", "two", "three"]
    async with open_router(tmp_path / "home", clock, agent="reviewer") as again:
        assert (await again.working_context("current")).context_id == "three"


@pytest.mark.requirement("KNG-029")
async def test_unknown_context_is_empty_and_says_its_name(tmp_path: Path) -> None:
    async with open_router(tmp_path / "home", ManualClock()) as memory:
        await memory.store("the plan", context_id="used")
        context = await memory.working_context("never used")
        assert (context.items, context.context_id, context.last_updated) == ((), "never used", None)


@pytest.mark.parametrize("name", ["", " ", "a\0b", "x" * 600, 7, None])
async def test_names_that_cannot_be_a_context_are_refused(tmp_path: Path, name: object) -> None:
    async with open_router(tmp_path / "home", ManualClock()) as memory:
        with pytest.raises(InvalidInput, match="context_id"):
            await memory.working_context(name)  # type: ignore[arg-type]


async def test_sweep_forgets_contexts_that_are_over(tmp_path: Path) -> None:
    clock = ManualClock()
    store = PromptStore(tmp_path)
    async with router_over(store, None, clock, settings=CALM) as memory:
        await memory.store("at hand", context_id="c")
        clock.jump(HALF_AN_HOUR + 1)
        await memory.sweep()
        assert await memory._engine.write(lambda transaction: transaction.owners("context")) == []


@given(
    st.lists(st.tuples(st.integers(0, 30), st.floats(0, 4_000)), max_size=60),
    st.integers(1, 20),
)
def test_a_context_holds_the_latest_of_what_was_noted_since_it_began(
    notes: list[tuple[int, float]], capacity: int
) -> None:
    rules = ContextRules(capacity=capacity, lifetime_s=1_800, whisper_tokens=0)
    context, now_s = Context("c"), 1_000_000.0
    expected: list[MemoryId] = []
    for number, passed_s in notes:
        now_s += passed_s
        if passed_s >= rules.lifetime_s:
            expected = []
        memory_id = MemoryId(str(number))
        after = noted(context, memory_id, 1, now_s, rules)
        expected = [*(one for one in expected if one != memory_id), memory_id]
        assert list(after.overflow) == expected[:-capacity]
        expected = expected[-capacity:]
        assert list(after.context.items) == expected
        context = Context.from_json(after.context.to_json())
        assert context == after.context


class Bench:
    """A router over a fake remote that answers, on a clock of its own."""

    def __init__(self, home: Path) -> None:
        self.clock = ManualClock()
        self.remote = FakeRemote(clock=self.clock)
        self.memory = router_over(PromptStore(home), self.remote, self.clock)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    async with made.memory:
        await made.memory.sync()
        yield made


@pytest.mark.requirement("KNG-027")
async def test_what_the_remote_holds_for_the_context_comes_beside_what_is_here(bench: Bench) -> None:
    await bench.memory.store("known to both", context_id="c", type="working", significance=0.9)
    await bench.memory.store("known here alone", context_id="c", type="working", significance=0.1)
    await bench.memory.sync()
    bench.remote.working_elsewhere = [
        RemoteHit("there-1", "known there alone", 0.0, None, {"type": "working", "scope": {"context_id": "c"}}),
        RemoteHit("there-2", "another context", 0.0, None, {"type": "working", "scope": {"context_id": "d"}}),
    ]
    context = await bench.memory.working_context("c")
    assert context.source is Source.HYBRID
    assert contents(context.items) == ["known here alone", "known to both"]
    assert sorted(contents(context.remote)) == ["known there alone", "known to both"]
    assert context.to_json()["memory_count"] == 3


@pytest.mark.requirement("KNG-029")
async def test_without_the_remote_the_context_is_what_is_here_and_says_why(bench: Bench) -> None:
    await bench.memory.store("at hand", context_id="c", type="working")
    await bench.memory.sync()
    bench.remote.script(RemoteUnavailable("connection refused"))
    context = await bench.memory.working_context("c")
    said = context.to_json()
    assert (said["source"], said["working_memory"], said["memory_count"]) == ("local_fallback", [], 1)
    assert "connection refused" in said["reason"]
    assert contents(context.items) == ["at hand"]


@pytest.mark.requirement("KNG-028")
async def test_related_memories_are_those_linked_to_what_is_at_hand(bench: Bench) -> None:
    await bench.memory.store("migrate first", key="plan", context_id="c")
    await bench.memory.store("the migration takes nine minutes", key="fact")
    await bench.memory.link_memories("fact", "plan", "supports")
    context = await bench.memory.working_context("c")
    assert context.related is not None
    (related,) = context.related
    assert (related["key"], related["link_type"], related["direction"]) == ("fact", "supports", "incoming")
    assert related["linked_to"] == context.items[0].id
    assert (await bench.memory.working_context("c", include_related=False)).related is None


@pytest.mark.requirement("KNG-028")
async def test_links_that_only_the_remote_knows_are_named(bench: Bench) -> None:
    receipt = await bench.memory.store("migrate first", key="plan", context_id="c")
    await bench.memory.sync()
    (there,) = bench.remote.memories
    bench.remote.links.append(RemoteLink(there, "strange", "supports", 0.5, None, "app"))
    context = await bench.memory.working_context("c")
    assert context.related is not None
    (related,) = context.related
    assert (related["id"], related["remote_id"], related["linked_to"]) == (None, "strange", receipt.id)
