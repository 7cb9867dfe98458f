"""What a tier has no room for leaves behind a summary: short, no better trusted than its sources, and taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter
from kingly_memory.cognition import links
from kingly_memory.errors import StoreUnwritable
from kingly_memory.lifecycle.summaries import SENTENCE_CHARACTERS, Summarised, gist, summary
from kingly_memory.models import LEAST_TRUSTED_LAST, Memory, MemoryStatus, Origin, Tier
from kingly_memory.router.sweep import steward as sweep
from kingly_memory.testing import FakeRemote, ManualClock
from tests.lifecycle.samples import memory
from tests.router.test_sweep_machine import DAY_S, LASTING, ROOM, Interrupted
from tests.router_bench import PromptStore, router_over

NARROW = replace(LASTING, tiers=ROOM)


def of(*memories: Memory, agent: str | None = None, topic: str = "deploys") -> Summarised:
    return Summarised(agent, topic, tuple(one.id for one in memories), tuple(one.significance for one in memories))


# --- the text -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-033")
def test_a_summary_says_a_sentence_of_each_in_the_order_in_which_they_were_said() -> None:
    one = memory(1, content="We deploy on Fridays. It never rains.", tags=("deploys",))
    two = memory(2, days_old=3, content="The queue was full.\nSomebody restarted it.", title="Trouble")
    same = memory(3, content="The queue was full.")
    said = summary(of(one, two, same, agent="ada"), [gist(each) for each in (one, two, same)])
    assert said.content == "The queue was full.\nWe deploy on Fridays."
    assert (said.title, said.tags, said.agent) == ("Summary of 3 memories about deploys", ("summary", "deploys"), "ada")
    assert said.metadata == {
        "record": "summary",
        "category": "summary",
        "topic": "deploys",
        "count": 3,
        "summarises": [one.id, two.id, same.id],
        "tells": [[two.id, same.id], [one.id]],
    }


populations = st.lists(
    st.fixed_dictionaries(
        {
            "content": st.one_of(
                st.text(min_size=1).filter(str.strip), st.sampled_from(["No. Yes.", "a\n\nb", "word " * 999])
            ),
            "significance": st.floats(0, 1),
            "confidence": st.floats(0, 1),
            "origin": st.sampled_from(Origin),
            "days_old": st.integers(0, 9),
        }
    ),
    min_size=1,
    max_size=12,
).map(lambda those: [memory(number, **said) for number, said in enumerate(those)])


@given(populations)
def test_a_summary_is_short_and_no_better_than_the_least_of_its_sources(memories: list[Memory]) -> None:
    said = summary(of(*memories), [gist(one) for one in memories])
    shares = [one.significance for one in memories]
    assert len(said.content) <= len("\n".join(one.content for one in memories))
    assert len(said.content) <= len(memories) * (SENTENCE_CHARACTERS + 1)
    assert said.significance <= max(shares)
    assert said.significance <= 0.3 or min(shares) > 0.3
    assert said.confidence == min(one.confidence for one in memories)
    assert said.origin == max((one.origin for one in memories), key=LEAST_TRUSTED_LAST.index)


# --- through the router ---------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Interrupted:
    return Interrupted(tmp_path / "home")


@pytest.fixture
async def router(store: Interrupted, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, None, clock, settings=NARROW) as memory:
        yield memory


async def crowd(router: MemoryRouter, count: int = 5, **said: Any) -> list[str]:
    """More than MEDIUM has room for, the first of least importance."""
    return [
        (await router.store(f"Deploy {number} took an hour.", **{"tags": ["deploys"], "key": f"k{number}", **said})).id
        for number in range(count)
    ]


async def live_summaries(router: MemoryRouter) -> list[Memory]:
    return [one for one in await router.list(limit=100) if one.metadata.get("record") == "summary"]


@pytest.mark.requirement("ARG-033", "ARG-035")
async def test_what_a_tier_has_no_room_for_is_archived_behind_a_summary(router: MemoryRouter) -> None:
    ids = await crowd(router)
    dry = await router.sweep(["tiers"], dry_run=True)
    report = await router.sweep(["tiers"])
    assert {**dry.to_json(), "dry_run": False} == report.to_json()
    assert (report.archived, report.summarised, report.summaries) == (3, 3, 1)
    assert (await router.stats())["tier_counts"] == {"fast": 0, "medium": 2, "slow": 0, "glacial": 1}
    [said] = await live_summaries(router)
    told = set(said.metadata["summarises"])
    assert told < set(ids)
    assert said.content.splitlines() == [f"Deploy {number} took an hour." for number in range(5) if ids[number] in told]
    for entry in (await router.archived()).entries:
        assert entry.why is not None
        assert (entry.memory.id in told, entry.why.summary) == (True, said.id)
    assert {link.target for link in await router.links(said.id)} == told
    explained = await router.explain(said.id)
    assert explained is not None
    assert explained["tier"]["name"] == Tier.GLACIAL
    assert (await router.search("how long did the deploys take")).hits[0].memory.id in {said.id, *ids}


@pytest.mark.requirement("ARG-033")
async def test_originals_are_brought_back_whole_one_by_one(router: MemoryRouter) -> None:
    await crowd(router)
    await router.sweep(["tiers"])
    entries = (await router.archived()).entries
    for entry in entries:
        assert entry.memory.key is not None
        restored = await router.restore(entry.memory.key)
        assert restored == entry.memory
    assert len(await live_summaries(router)) == 1


async def test_undo_brings_back_the_originals_and_forgets_the_summary(
    router: MemoryRouter, store: Interrupted, clock: ManualClock
) -> None:
    ids = await crowd(router)
    await router.sweep(["tiers"])
    [said] = await live_summaries(router)
    assert await router.undo_sweep() == (3, 0)
    assert {one.id for one in await router.list(limit=100)} == set(ids)
    assert store.reader.facets(links.FACET, [said.id, *ids]) == {}
    assert await router.undo_sweep() == (0, 0)
    clock.jump(2 * DAY_S)
    await router.sweep(["tiers"])
    assert said.id not in {one.id for one in await live_summaries(router)}


@pytest.mark.parametrize(
    "touch",
    [
        lambda router, said: router.reinforce(said.id),
        lambda router, said: router.continuum.update_outcome([said.id], success=True),
        lambda router, said: router.continuum.update_surprise_score(said.id, {"actual_usefulness": 1.0}),
        lambda router, said: router.link_memories(said.id, "k4"),
    ],
)
async def test_undo_leaves_a_summary_that_somebody_has_made_his_own(
    router: MemoryRouter, touch: Callable[[MemoryRouter, Memory], Any]
) -> None:
    await crowd(router)
    await router.sweep(["tiers"])
    [said] = await live_summaries(router)
    await touch(router, said)
    assert await router.undo_sweep() == (3, 0)
    assert await live_summaries(router) == [said]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change carries out one decision."""
    monkeypatch.setattr(sweep, "AT_ONCE", 1)


@pytest.mark.parametrize("killed_at", range(2, 8))
@pytest.mark.usefixtures("one_by_one")
async def test_killed_in_between_nothing_is_lost_and_the_next_sweep_goes_on(
    router: MemoryRouter, store: Interrupted, clock: ManualClock, killed_at: int, tmp_path: Path
) -> None:
    ids = await crowd(router)
    store.before, store.left = store.die, killed_at
    try:
        await router.sweep(["tiers"])
    except StoreUnwritable:
        store.die()
    disk = PromptStore(tmp_path / "home")
    async with router_over(disk, None, clock, settings=NARROW) as after:
        rows = [disk.reader.row(memory_id) for memory_id in ids]
        assert {row.status for row in rows if row is not None} <= {MemoryStatus.LIVE, MemoryStatus.ARCHIVED}
        await after.sweep(["tiers"])
        assert (await after.stats())["tier_counts"]["medium"] == 2
        entries = (await after.archived()).entries
        assert len(entries) == 3
        live = {one.id for one in await live_summaries(after)}
        assert {entry.why.summary for entry in entries if entry.why is not None and entry.why.summary} == live


async def test_when_nothing_goes_behind_it_no_summary_stays(
    router: MemoryRouter, store: Interrupted, clock: ManualClock
) -> None:
    ids = await crowd(router)
    facet = {"accesses": 9, "last_used": clock.now().timestamp()}

    def use_all() -> None:
        for memory_id in ids:
            PromptStore.write(store, lambda tx, memory_id=memory_id: tx.set_facet("usage", memory_id, facet))  # type: ignore[misc]  # bound now

    store.before, store.left = use_all, 3
    report = await router.sweep(["tiers"])
    assert (report.summarised, report.summaries, report.skipped) == (0, 0, 3)
    assert await live_summaries(router) == []


async def test_what_stays_on_this_machine_leaves_it_in_no_summary(store: Interrupted, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    async with router_over(store, remote, clock, settings=NARROW) as router:
        for significance in (0.3, 0.31, 0.32, 0.33):
            key = f"k{significance}"
            await router.store(f"My pin is {significance}.", key=key, significance=significance, tags=["pins"])
            await router.continuum.update_surprise_score(key)  # rests where it is put next
            store.write(lambda tx, key=key: _put_in_slow(tx, tx.id_of_key("app", key)))  # type: ignore[misc]  # bound now
        report = await router.sweep(["tiers"])
        assert report.summarised == 2
        [said] = await live_summaries(router)
        await router.sync()
        assert said.significance == 0.3
        assert all("0.3." not in one.content for one in remote.memories.values())
        assert {one.metadata.get("record") for one in remote.memories.values()} == {None}


def _put_in_slow(tx: Any, memory_id: str) -> None:
    tx.set_facet("tier", memory_id, {**tx.facet("tier", memory_id), "tier": "slow"})
