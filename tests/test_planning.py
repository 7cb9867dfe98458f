"""One plan of what every policy says: the last of a category stays, what is protected too, and all are counted."""

from __future__ import annotations

import random
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.lifecycle import steward
from kingly_memory.lifecycle.consolidation import heading
from kingly_memory.lifecycle.forgetting import Forgetting, category
from kingly_memory.lifecycle.lifetimes import LIFETIMES, Lifetime, is_expired
from kingly_memory.lifecycle.merging import Merging
from kingly_memory.lifecycle.restating import Saying
from kingly_memory.lifecycle.steward import STRENGTH, Plan, Policies
from kingly_memory.lifecycle.subject import Subject, Usage
from kingly_memory.lifecycle.tiering import Tiering
from kingly_memory.lifecycle.tiers import SEEDS_TIERS, Placement
from kingly_memory.lifecycle.verdicts import Archive, Demote, Expire, Merge, Promote, Summarise
from kingly_memory.models import MemoryType, Scope, Standing, Tier
from tests.strength_samples import DAY_S, NOON_S, memory

OWN = ("usage", "pinned", "lifetime", "placement", "awaited")
FADING = Policies(lifetimes=False, strength=Forgetting())
NARROW = replace(SEEDS_TIERS, configs={tier: replace(one, max_items=2) for tier, one in SEEDS_TIERS.configs.items()})
ALL = Policies(strength=Forgetting(), tiers=Tiering(NARROW))


def subject(number: int = 1, *, days_old: float = 365, **said: Any) -> Subject:
    """A live memory, by default faded; what is no field of a Subject is one of its memory."""
    own = {name: said.pop(name) for name in OWN if name in said}
    return Subject(memory(number, days_old=days_old, **said), Standing.LIVE, **own)


def planned(population: Sequence[Subject], policies: Policies = FADING, archived: int = 0) -> Plan:
    ended = [one for one in population if is_expired(one.lifetime, NOON_S)]
    return steward.plan(
        policies, ended, (one for one in population if one.memory.scope.project == "app"), NOON_S, archived
    )


def archived(plan: Plan) -> list[int]:
    """The numbers of those that would go."""
    return sorted(int(one.memory_id[-12:], 16) for one in plan.those(Archive))


# --- the last of a category -----------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-044")
def test_of_a_category_that_would_leave_altogether_the_strongest_stays() -> None:
    plan = planned([subject(1, days_old=300), subject(2, days_old=200), subject(3, days_old=400)])
    assert archived(plan) == [1, 3]
    assert plan.spared == 1


@pytest.mark.requirement("ALM-044")
def test_a_category_of_which_one_stays_anyway_loses_all_the_faded() -> None:
    plan = planned([subject(1), subject(2), subject(3, days_old=0)])
    assert archived(plan) == [1, 2]
    assert plan.spared == 0


def test_a_pinned_memory_is_the_one_that_stays() -> None:
    assert archived(planned([subject(1), subject(2, pinned=True)])) == [1]


@pytest.mark.parametrize(
    "said",
    [{"type": MemoryType.PROCEDURAL}, {"metadata": {"category": "deployment"}}, {"scope": Scope("app", "cleo")}],
)
def test_memories_of_different_categories_do_not_stand_for_each_other(said: dict[str, Any]) -> None:
    assert archived(planned([subject(1), subject(2, **said)])) == []


@pytest.mark.parametrize(
    "said",
    [{"tags": ("rare",)}, {"scope": Scope("app", None, "a talk")}, {"metadata": {"category": 7}}, {"key": "k"}],
)
def test_tags_and_contexts_make_no_category(said: dict[str, Any]) -> None:
    assert category(memory(**said)) == category(memory())


def test_what_leaves_for_another_reason_neither_stays_nor_is_spared() -> None:
    plan = planned(
        [subject(1), subject(2, lifetime=Lifetime(NOON_S)), subject(3, type=MemoryType.WORKING, lifetime=Lifetime(0))],
        replace(FADING, lifetimes=True),
    )
    assert [(one.policy, type(one.verdict)) for one in plan.decisions] == [(LIFETIMES, Archive), (LIFETIMES, Expire)]
    assert plan.spared == 1


def test_what_only_moves_between_tiers_stays() -> None:
    risen = subject(2, days_old=0, placement=Placement(successes=3))
    plan = planned([subject(1), risen], replace(FADING, tiers=Tiering()))
    assert [(one.policy, type(one.verdict)) for one in plan.decisions] == [(STRENGTH, Archive), ("tiers", Promote)]


def test_between_equally_strong_ones_the_more_significant_stays() -> None:
    used = Usage(0, NOON_S - 1e6 * DAY_S)
    population = [
        subject(number, days_old=1e5, usage=used, significance=share) for number, share in enumerate([0.2, 0.7, 0.5])
    ]
    assert archived(planned(population)) == [0, 2]


@pytest.mark.parametrize("kind", MemoryType)
def test_what_is_pinned_outlives_even_its_lifetime(kind: MemoryType) -> None:
    plan = planned([subject(1, type=kind, pinned=True, lifetime=Lifetime(NOON_S - DAY_S))], ALL)
    assert not plan.those(Archive)
    assert not plan.those(Expire)


# --- laws -----------------------------------------------------------------------------------------------------------

lifetimes = st.sampled_from([None, None, Lifetime(NOON_S - DAY_S), Lifetime(NOON_S + DAY_S)])
placements = st.one_of(
    st.none(),
    st.builds(Placement, tier=st.sampled_from(Tier), successes=st.integers(0, 4), surprise=st.floats(0, 1)),
)
populations = st.lists(
    st.fixed_dictionaries(
        {
            "days_old": st.floats(0, 400),
            "type": st.sampled_from(MemoryType),
            "significance": st.floats(0, 1),
            "pinned": st.booleans(),
            "awaited": st.booleans(),
            "lifetime": lifetimes,
            "placement": placements,
            "usage": st.builds(Usage, st.integers(0, 9), st.one_of(st.none(), st.floats(NOON_S - 1e7, NOON_S + 1e6))),
            "scope": st.sampled_from([Scope("app"), Scope("app"), Scope("app", "cleo"), Scope("other")]),
            "tags": st.sampled_from([(), ("one",), ("two", "one")]),
        }
    ),
    max_size=14,
).map(lambda those: [subject(number, **said) for number, said in enumerate(those)])
chosen = st.builds(
    Policies,
    lifetimes=st.booleans(),
    strength=st.sampled_from([None, Forgetting()]),
    tiers=st.sampled_from([None, Tiering(), Tiering(NARROW)]),
)


@given(populations, chosen, st.randoms(use_true_random=False))
def test_the_order_of_the_memories_makes_no_difference(
    population: list[Subject], policies: Policies, chance: random.Random
) -> None:
    shuffled = population.copy()
    chance.shuffle(shuffled)
    one, other = planned(population, policies), planned(shuffled, policies)
    assert set(map(repr, one.decisions)) == set(map(repr, other.decisions))
    assert replace(one, decisions=()) == replace(other, decisions=())


@given(populations, chosen, st.integers(0, 5))
def test_every_memory_is_counted_once_before_and_after(
    population: list[Subject], policies: Policies, already: int
) -> None:
    plan = planned(population, policies, already)
    ours = {one.memory.id: one.memory for one in population if one.memory.scope.project == "app"}
    left = {one.memory_id: type(one.verdict) for one in plan.decisions if one.memory_id in ours}
    shelved = [memory_id for memory_id, verdict in left.items() if verdict in (Archive, Summarise)]
    erased = [memory_id for memory_id, verdict in left.items() if verdict is Expire]
    summaries = {heading(ours[memory_id]) for memory_id, verdict in left.items() if verdict is Summarise}
    assert plan.summaries == len(summaries)
    assert (plan.before.live, plan.before.archived) == (len(ours), already)
    assert plan.after.live == plan.before.live - len(shelved) - len(erased) + len(summaries)
    assert plan.after.archived == already + len(shelved)
    assert len({one.memory_id for one in plan.decisions}) == len(plan.decisions)
    if policies.tiers is not None:
        assert sum(plan.before.tiers.values()) == plan.before.live
        assert sum(plan.after.tiers.values()) == plan.after.live
    else:
        assert (plan.before.tiers, plan.after.tiers) == ({}, {})


@given(populations, chosen)
def test_the_weakest_goes_first_and_what_shares_a_summary_goes_together(
    population: list[Subject], policies: Policies
) -> None:
    plan = planned(population, policies)
    strengths = [one.verdict.figures["strength"] for one in plan.decisions if one.policy == STRENGTH]
    assert strengths == sorted(strengths)
    behind = [(one.verdict.agent, one.verdict.topic) for one in plan.decisions if isinstance(one.verdict, Summarise)]
    assert len([key for key, _ in groupby(behind)]) == len(set(behind))
    assert all(count > 1 for count in Counter(behind).values())


@given(populations, chosen)
def test_who_is_looked_at_again_and_joined_to_nobody_is_planned_for_as_before(
    population: list[Subject], policies: Policies
) -> None:
    merging = replace(policies, merging=Merging())
    live = [one for one in population if one.memory.scope.project == "app"]
    ended = [one for one in population if is_expired(one.lifetime, NOON_S)]
    alone = [(one, Saying(one.memory.id, 3)) for one in live]
    again = steward.plan(merging, ended, live, NOON_S, alike=lambda: alone)
    assert again == planned(population, merging)


def test_who_was_touched_after_he_was_seen_is_joined_to_nobody() -> None:
    live = [subject(number, days_old=1) for number in (1, 2)]
    same = [(one, Saying("the same", 3)) for one in live]
    touched = [(replace(one, usage=Usage(1, NOON_S)), said) for one, said in same]
    how = Policies(lifetimes=False, tiers=Tiering(), merging=Merging())
    plan = steward.plan(how, [], live, NOON_S, alike=lambda: same)
    assert (len(plan.those(Merge)), plan.after.live, sum(plan.after.tiers.values())) == (1, 1, 1)
    plan = steward.plan(how, [], live, NOON_S, alike=lambda: [same[0], touched[1]])
    assert (plan.those(Merge), plan.after.live, sum(plan.after.tiers.values())) == ((), 2, 2)


@given(populations, chosen)
def test_nothing_protected_leaves(population: list[Subject], policies: Policies) -> None:
    plan = planned(population, policies)
    pinned = {one.memory.id for one in population if one.pinned}
    significant = {one.memory.id for one in population if one.is_protected}
    moves = (Promote, Demote)
    leaving = {one.memory_id: one.policy for one in plan.decisions if not isinstance(one.verdict, moves)}
    assert not pinned & set(leaving)
    assert all(leaving[memory_id] == LIFETIMES for memory_id in significant & set(leaving))


@given(populations)
def test_no_category_is_emptied_by_fading(population: list[Subject]) -> None:
    plan = planned(population)
    gone = {one.memory_id for one in plan.decisions}
    ours = [one for one in population if one.memory.scope.project == "app"]
    left = [one for one in ours if one.memory.id not in gone]
    assert {category(one.memory) for one in left} == {category(one.memory) for one in ours}


@given(populations, chosen)
def test_after_a_plan_is_carried_out_another_one_finds_nothing_more_to_archive_for_strength(
    population: list[Subject], policies: Policies
) -> None:
    policies = replace(policies, tiers=None)
    gone = {one.memory_id for one in planned(population, policies).decisions}
    again = planned([one for one in population if one.memory.id not in gone], policies)
    assert again.decisions == ()
    assert again.before == again.after


class Text(str):
    """One that can be watched."""


def test_a_plan_for_many_memories_holds_the_texts_of_few() -> None:
    texts: list[weakref.ref[Text]] = []
    held = 0

    def stream() -> Iterator[Subject]:
        nonlocal held
        for number in range(500):
            content = Text("x" * 1_000)
            texts.append(weakref.ref(content))
            yield subject(number, content=content, days_old=number)
            held = max(held, sum(1 for one in texts if one() is not None))

    plan = steward.plan(ALL, [], stream(), NOON_S)
    assert len(plan.decisions) > 300
    assert held <= 3


# --- the last of a category, and the tiers --------------------------------------------------------------------------

TIERED = Policies(lifetimes=False, tiers=Tiering(NARROW))


def crowd(categories: str, days_old: float = 2) -> list[Subject]:
    """As many memories in MEDIUM as there are letters, the first of least importance, each letter a category."""
    return [
        subject(
            number,
            days_old=days_old,
            significance=0.5 + number / 100,
            placement=Placement(Tier.MEDIUM),
            usage=Usage(1, NOON_S),
            metadata={"category": letter},
            tags=("one",),
        )
        for number, letter in enumerate(categories)
    ]


def taken(plan: Plan) -> dict[int, type]:
    """The numbers of those that would go, and how."""
    leaving = [one for one in plan.decisions if isinstance(one.verdict, Archive | Summarise)]
    return {int(one.memory_id[-12:], 16): type(one.verdict) for one in leaving}


@pytest.mark.requirement("ALM-044")
def test_a_tier_that_is_too_full_keeps_the_last_of_each_category() -> None:
    plan = planned(crowd("aabcd", days_old=0), TIERED)
    assert taken(plan) == {0: Archive}
    assert plan.spared == 2
    assert (plan.summaries, plan.after.live, plan.after.archived) == (0, 4, 1)
    assert plan.after.tiers == {Tier.FAST: 0, Tier.MEDIUM: 4, Tier.SLOW: 0, Tier.GLACIAL: 0}


@pytest.mark.requirement("ALM-044")
def test_a_summary_is_of_those_that_go() -> None:
    plan = planned(crowd("aaabccc", days_old=0), TIERED)
    assert taken(plan) == {0: Summarise, 1: Summarise, 4: Summarise}
    assert (plan.spared, plan.summaries) == (2, 1)
    assert plan.after.tiers[Tier.GLACIAL] == 1
    assert sum(plan.after.tiers.values()) == plan.after.live


@pytest.mark.requirement("ALM-044")
def test_what_has_outlived_the_last_tier_stays_as_the_last_of_its_category() -> None:
    old = [subject(number, placement=Placement(Tier.GLACIAL), metadata={"category": "a"}) for number in (1, 2)]
    assert taken(planned(old[:1], TIERED)) == {}
    assert planned(old[:1], TIERED).spared == 1
    assert len(taken(planned(old, TIERED))) == 1


@pytest.mark.requirement("ALM-044")
def test_what_is_spared_from_fading_is_spared_from_the_tiers_and_counted_once() -> None:
    old = [subject(number, placement=Placement(Tier.GLACIAL)) for number in (1, 2, 3)]
    plan = planned(old, replace(TIERED, strength=Forgetting()))
    assert ([one.policy for one in plan.decisions], plan.spared) == ([STRENGTH, STRENGTH], 1)


@given(st.text("abcd", max_size=12), st.sampled_from([TIERED, replace(TIERED, strength=Forgetting())]))
def test_no_policy_empties_a_category(categories: str, policies: Policies) -> None:
    population = crowd(categories, days_old=300)
    plan = planned(population, policies)
    gone = taken(plan)
    left = {category(one.memory) for number, one in enumerate(population) if number not in gone}
    assert left == {category(one.memory) for one in population}
    assert sum(plan.after.tiers.values()) == plan.after.live == len(population) - len(gone) + plan.summaries


# --- elsewhere ------------------------------------------------------------------------------------------------------


def test_what_ended_in_another_project_goes_and_is_not_counted() -> None:
    over = Lifetime(NOON_S - DAY_S)
    population = [
        subject(1, lifetime=over),
        subject(2, lifetime=over, scope=Scope("other")),
        subject(3, lifetime=over, scope=Scope("other"), type=MemoryType.WORKING, awaited=True),
    ]
    plan = steward.plan(Policies(), population, population[:1], NOON_S, project="app")
    assert [one.elsewhere for one in plan.decisions] == [False, True]
    assert (plan.waiting, plan.before.live, plan.after.live, plan.after.archived) == (0, 1, 0, 1)
