"""Memories by tier: placed where they are asked to be, retrieved by strategy, moved by what becomes of them."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.app.opening import MemoryRouter
from kingly_memory.cognition.continuum import (
    TIER_WEIGHTS,
    MemoryEntry,
    MemoryTier,
    RetrievalStrategy,
    TieredHit,
    retrieved,
)
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Tier
from kingly_memory.router.agents.continuum import ContinuumMemory
from kingly_memory.testing import ManualClock
from tests.lifecycle.samples import placed as subject
from tests.router.search.test_meaning import fill, opened
from tests.router_bench import CALM, PromptStore, router_over

DAY_S = 86_400.0
TIERS = tuple(Tier)


@pytest.fixture
def continuum(memory: MemoryRouter) -> ContinuumMemory:
    return memory.continuum


@pytest.mark.requirement("ARG-006")
async def test_the_tiers_are_those_of_the_settings(tmp_path: Path, clock: ManualClock) -> None:
    thresholds = dict(zip(Tier, (0.95, 0.9, 0.85, 0.0), strict=True))
    configs = {
        tier: replace(config, importance_threshold=thresholds[tier], max_items=1)
        for tier, config in CALM.tiers.configs.items()
    }
    settings = replace(CALM, tiers=replace(CALM.tiers, configs=configs))
    async with router_over(PromptStore(tmp_path / "home"), None, clock, settings=settings) as memory:
        receipt = await memory.store("a ford in the river", significance=0.83)
        entry = await memory.continuum.entry(receipt.id)
        assert entry is not None
        assert (entry.tier, (await memory.stats())["tier_counts"]["glacial"]) == (Tier.GLACIAL, 1)
        for text in ("near", "nearer"):
            await memory.continuum.store(text, Tier.FAST)
        assert await memory.continuum.needs_consolidation()


def contents(entries: list[MemoryEntry]) -> list[str]:
    return [entry.content for entry in entries]


async def in_every_tier(continuum: ContinuumMemory) -> None:
    """Texts that answer `ford` equally well, the farthest stored first."""
    for tier in reversed(TIERS):
        await continuum.store(f"The ford, {tier}", tier)


# --- storing ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-007")
def test_store_has_the_seeds_signature() -> None:
    parameters = inspect.signature(ContinuumMemory.store).parameters
    defaults = {name: one.default for name, one in parameters.items() if one.default is not inspect.Parameter.empty}
    assert list(parameters)[1:] == ["content", "tier", "importance", "source", "topic", "metadata"]
    assert defaults == {"tier": MemoryTier.SLOW, "importance": 0.5, "source": "", "topic": "", "metadata": None}


@pytest.mark.requirement("ARG-007")
@pytest.mark.parametrize("tier", TIERS)
async def test_an_entry_is_placed_where_it_is_asked_to_be_and_comes_back_as_it_was(
    memory: MemoryRouter, tier: Tier
) -> None:
    continuum = memory.continuum
    stored = await continuum.store("The ford is deep", tier, 0.6, "scout", "fords", {"depth": 4})
    assert await continuum.entry(stored.id) == stored
    assert (stored.content, stored.tier, stored.importance) == ("The ford is deep", tier, 0.6)
    assert (stored.source, stored.topic, stored.metadata) == ("scout", "fords", {"depth": 4})
    assert (stored.access_count, stored.surprise_score, stored.success_references) == (0, 0.0, 0)
    told = await memory.explain(stored.id)
    assert told is not None
    assert told["tier"]["name"] == tier


# --- retrieving -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-008")
def test_retrieve_has_the_seeds_signature() -> None:
    parameters = inspect.signature(ContinuumMemory.retrieve).parameters
    assert {name: one.default for name, one in list(parameters.items())[2:]} == {
        "tiers": None,
        "limit": 5,
        "min_similarity": 0.3,
        "strategy": "weighted",
    }


@pytest.mark.requirement("ARG-009")
async def test_fast_first_falls_through_to_the_next_tier_only_while_it_is_short(continuum: ContinuumMemory) -> None:
    await in_every_tier(continuum)
    await continuum.store("The ford, once more", Tier.FAST)
    tiers = [entry.tier for entry in await continuum.retrieve("ford", limit=4, strategy="fast_first")]
    assert tiers == [Tier.FAST, Tier.FAST, Tier.MEDIUM, Tier.SLOW]
    assert {entry.tier for entry in await continuum.retrieve("ford", limit=2, strategy="fast_first")} == {Tier.FAST}


@pytest.mark.requirement("ARG-010")
def test_the_weights_of_the_tiers_are_those_of_the_page() -> None:
    weights = ", ".join(f"{tier.value} {weight:g}" for tier, weight in TIER_WEIGHTS.items())
    assert weights == "fast 1, medium 0.85, slow 0.7, glacial 0.5"
    page = Path(__file__).parents[2] / "docs" / "agents.md"
    assert f"relevance times the weight of the tier: {weights}" in page.read_text(encoding="utf-8")


@pytest.mark.requirement("ARG-010")
async def test_weighted_favours_the_nearer_tier_among_equals(continuum: ContinuumMemory) -> None:
    await in_every_tier(continuum)
    found = await continuum.retrieve("ford")
    assert [entry.tier for entry in found] == list(TIERS)
    assert len({entry.similarity for entry in found}) == 1
    assert list(TIER_WEIGHTS.values()) == sorted(TIER_WEIGHTS.values(), reverse=True)


@pytest.mark.requirement("ARG-011")
async def test_comprehensive_merges_all_tiers_and_says_everything_once(continuum: ContinuumMemory) -> None:
    for tier in (Tier.GLACIAL, Tier.FAST, Tier.SLOW):
        await continuum.store("The ford  is deep" if tier is Tier.SLOW else "The ford is deep", tier)
    await continuum.store("The ford is closed, and deep is the ford, and the ford deep", Tier.GLACIAL)
    found = await continuum.retrieve("ford deep", strategy="comprehensive")
    assert sorted(entry.tier for entry in found) == [Tier.FAST, Tier.GLACIAL]
    assert [entry.similarity for entry in found] == sorted((entry.similarity or 0 for entry in found), reverse=True)


@pytest.mark.requirement("ARG-009", "ARG-010")
@pytest.mark.parametrize("strategy", ["fast_first", "weighted"])
async def test_a_near_tier_comes_first_although_more_than_can_be_seen_at_once_answer_better(
    continuum: ContinuumMemory, strategy: str
) -> None:
    for number in range(3):
        await continuum.store(f"a ford by the mill, {number}", Tier.FAST)
    for number in range(90):
        await continuum.store(f"ford {number}")
    found = await continuum.retrieve("ford", limit=4, strategy=strategy)
    tiers = [Tier.FAST, Tier.FAST, Tier.FAST, Tier.SLOW]
    assert [entry.tier for entry in found] == tiers
    best = await continuum.retrieve("ford", limit=4, strategy="comprehensive")
    assert [entry.tier for entry in best] == [Tier.SLOW] * 4


async def test_a_tier_is_looked_through_although_another_is_full_of_better_answers(continuum: ContinuumMemory) -> None:
    await continuum.store(
        "Some day somebody will have to look at the ford beside the mill and at the bridge", Tier.SLOW
    )
    for number in range(150):
        await continuum.store(f"ford {number}", Tier.FAST)
    [found] = await continuum.retrieve("ford", [Tier.SLOW])
    assert found.tier is Tier.SLOW


@pytest.mark.requirement("ARG-014")
async def test_what_only_its_meaning_points_to_must_be_similar_enough_and_words_need_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await fill(memory)
        continuum = memory.continuum
        await continuum.store("The kitten and the vessel sleep")
        await continuum.store("SLA breach, nothing of any subject, told at such length that little of it is the breach")
        assert await memory.await_vectors()
        [near] = await continuum.retrieve("feline", min_similarity=0.0)
        assert near.similarity is not None
        assert 0.3 < near.similarity < 0.99
        assert contents(await continuum.retrieve("feline", min_similarity=near.similarity)) == [near.content]
        assert await continuum.retrieve("feline", min_similarity=near.similarity + 0.01) == []
        [worded] = await continuum.retrieve("breach feline", min_similarity=1.0)
        assert worded.content.startswith("SLA breach")


@pytest.mark.requirement("ARG-015")
async def test_retrieval_is_a_use_of_what_it_answers_with_and_of_nothing_else(
    memory: MemoryRouter, clock: ManualClock, tmp_path: Path
) -> None:
    continuum = memory.continuum
    await in_every_tier(continuum)
    answers = []
    for _ in range(2):
        clock.tick(60)
        answers += await continuum.retrieve("ford", limit=1)
    assert [(one.tier, one.access_count) for one in answers] == [(Tier.FAST, 1), (Tier.FAST, 2)]
    assert answers[-1].last_access == clock.now()
    untouched = await continuum.retrieve("ford", [Tier.SLOW])
    assert untouched[0].access_count == 1
    await memory.close()
    async with router_over(PromptStore(tmp_path / "home"), None, clock) as again:
        after = await again.continuum.entry(answers[-1].id)
    assert after is not None
    assert after.access_count == 2


# --- outcomes ---------------------------------------------------------------------------------------------------------


async def test_an_outcome_is_noted_on_every_memory_that_it_refers_to_or_on_none(continuum: ContinuumMemory) -> None:
    one, two = [await continuum.store(text) for text in ("one", "two")]
    assert await continuum.update_outcome([one, two.id, two.id], success=True) == 2
    assert await continuum.update_outcome([one], success=False) == 1
    first, second = [await continuum.entry(entry.id) for entry in (one, two)]
    assert first is not None
    assert second is not None
    assert (first.access_count, first.success_references) == (2, 1)
    assert (second.access_count, second.success_references) == (1, 1)
    with pytest.raises(InvalidInput, match="keys_or_ids: nothing is stored under 'nowhere'"):
        await continuum.update_outcome([one, "nowhere"], success=True)
    assert await continuum.entry(one.id) == first


# --- consolidation ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-030", "ARG-036")
async def test_consolidation_says_what_it_moved_and_a_move_changes_nothing_else(
    continuum: ContinuumMemory, clock: ManualClock
) -> None:
    useful = await continuum.store("The ford is deep", Tier.SLOW, 0.6, "scout", "fords", {"depth": 4})
    idle = await continuum.store("The bridge is out", Tier.FAST, 0.9)
    over = await continuum.store("The mill is old", Tier.GLACIAL, 0.2)
    await continuum.update_outcome([useful], success=True)
    await continuum.update_outcome([useful], success=True)
    clock.jump(8 * DAY_S)
    before = await continuum.entry(useful.id)
    result = await continuum.consolidate_memories()
    assert (result.promoted_ids, result.demoted_ids, result.archived_ids) == ((useful.id,), (idle.id,), (over.id,))
    assert (result.promoted, result.demoted, result.archived, result.skipped) == (1, 1, 1, 0)
    after = await continuum.entry(useful.id)
    assert before is not None
    assert after is not None
    assert {**after.to_json(), "tier": "slow"} == before.to_json()
    assert after.tier is Tier.MEDIUM
    assert (await continuum.consolidate_memories()).to_json() == type(result)().to_json()


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-012")
@pytest.mark.parametrize(
    ("verb", "said", "why"),
    [
        ("store", {"content": ""}, "content: is empty"),
        ("store", {"tier": "hot"}, "tier: 'hot' is unknown; choose one of fast, medium, slow, glacial"),
        ("store", {"importance": -0.1}, "importance: -0.1 is outside 0 to 1"),
        ("store", {"topic": "a\nb"}, "topic: contains control characters"),
        ("store", {"metadata": []}, "metadata: expected a JSON object"),
        ("store", {"source": "bo", "metadata": {"source": "cy"}}, "metadata: names another source than the entry has"),
        ("retrieve", {"strategy": "slow_first"}, "strategy: 'slow_first' is unknown; choose one of fast_first"),
        ("retrieve", {"tiers": []}, "tiers: is empty; leave it out for all of them"),
        ("retrieve", {"tiers": ["hot"]}, "tiers: 'hot' is unknown"),
        ("retrieve", {"tiers": 3}, "tiers: expected a list of texts, not int"),
        ("retrieve", {"limit": 0}, "limit: 0 is outside 1"),
        ("retrieve", {"min_similarity": 2}, "min_similarity: 2 is outside 0 to 1"),
        ("update_outcome", {"memory_ids": None}, "memory_ids: expected a list of ids or entries, not NoneType"),
        ("update_outcome", {"memory_ids": [3]}, "memory_ids: expected text, not int"),
        ("update_outcome", {"success": "no"}, "success: expected true or false, not 'no'"),
        ("update_surprise_score", {"retrieval_context": [1]}, "retrieval_context: expected a mapping, not list"),
        ("update_surprise_score", {"retrieval_context": {"actual_usefulness": "x"}}, "actual_usefulness: expected a"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(
    memory: MemoryRouter, verb: str, said: dict[str, Any], why: str
) -> None:
    continuum = memory.continuum
    entry = await continuum.store("one")
    usual: dict[str, dict[str, Any]] = {
        "store": {"content": "x"},
        "retrieve": {"query": "ford"},
        "update_outcome": {"memory_ids": [entry.id], "success": True},
        "update_surprise_score": {"memory_id": entry.id},
    }
    with pytest.raises(InvalidInput, match=why):
        await getattr(continuum, verb)(**{**usual[verb], **said})
    assert (await memory.status())["memories"]["total"] == 1
    assert await continuum.entry(entry.id) == entry


# --- laws -------------------------------------------------------------------------------------------------------------


@st.composite
def candidates(draw: st.DrawFn) -> list[TieredHit]:
    figures = draw(st.lists(st.tuples(st.sampled_from(TIERS), st.floats(0, 1), st.floats(0, 1), st.booleans())))
    return [
        TieredHit(subject(number=number).memory, tier, relevance, max(relevance, similarity), is_worded=worded)
        for number, (tier, relevance, similarity, worded) in enumerate(figures)
    ]


def rank(one: TieredHit, strategy: RetrievalStrategy) -> tuple[float, ...]:
    if strategy is RetrievalStrategy.FAST_FIRST:
        return TIERS.index(one.tier), -one.relevance
    return (-one.relevance * (TIER_WEIGHTS[one.tier] if strategy is RetrievalStrategy.WEIGHTED else 1.0),)


@given(candidates(), st.sampled_from(RetrievalStrategy), st.integers(1, 8), st.floats(0, 1))
def test_an_answer_is_the_best_of_what_may_be_answered(
    found: list[TieredHit], strategy: RetrievalStrategy, limit: int, least: float
) -> None:
    answer = retrieved(found, strategy, limit, least)
    allowed = [one for one in found if one.is_worded or one.similarity >= least]
    assert len(answer) == min(limit, len(allowed))
    assert all(one in allowed for one in answer)
    assert [rank(one, strategy) for one in answer] == sorted(rank(one, strategy) for one in allowed)[:limit]


@pytest.mark.requirement("ARG-029")
async def test_feedback_moves_the_surprise_of_a_memory(memory: MemoryRouter) -> None:
    entry = await memory.continuum.store("it came in handy")
    said = {"actual_usefulness": 1.0, "predicted_relevance": 0.0}
    moved = [await memory.continuum.update_surprise_score(entry, said) for _ in range(2)]
    assert moved == pytest.approx([0.3, 0.51])
