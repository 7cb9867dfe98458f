"""One plan of what every policy says: the last of a category stays, what is protected too, and all are counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import policies
from kingly_memory.lifecycle.lifetimes import LIFETIMES, Lifetime, is_expired
from kingly_memory.lifecycle.plan import STRENGTH, TIERS, Plan, Policies, category, heading, plan
from kingly_memory.lifecycle.policies import (
    Archive,
    Demote,
    Promote,
    Subject,
    Summarise,
    Usage,
    Verdict,
)
from kingly_memory.lifecycle.tiers import SEEDS_TIERS, TIER_CONFIGS, Placement, surprised
from kingly_memory.models import MemoryStatus, MemoryType, Scope, Tier
from kingly_memory.settings import Tiers
from tests.lifecycle import samples
from tests.lifecycle.samples import DAY_S, HOUR_S, NOON_S, placed

SMALL = replace(SEEDS_TIERS, configs={tier: replace(config, max_items=3) for tier, config in TIER_CONFIGS.items()})
NARROW = replace(SEEDS_TIERS, configs={tier: replace(config, max_items=2) for tier, config in TIER_CONFIGS.items()})
FADING = Policies((STRENGTH,))
TIERED = Policies((TIERS,), tiers=NARROW)
FADING_AND_TIERED = replace(TIERED, names=(STRENGTH, TIERS))


def subject(number: int = 1, *, days_old: float = 365, **said: Any) -> Subject:
    """By default faded."""
    return samples.subject(number, days_old=days_old, **said)


def planned(population: Sequence[Subject], asked: Policies = FADING, now_s: float = NOON_S) -> Plan:
    live = [one for one in population if one.memory.scope.project == "app" and one.status is MemoryStatus.LIVE]
    return plan(
        asked,
        now_s,
        "app",
        ended=[one for one in population if is_expired(one.lifetime, now_s)],
        live=live,
    )


def consolidated(population: Sequence[Subject], rules: Tiers = SEEDS_TIERS, now_s: float = NOON_S) -> Plan:
    """By the tiers alone."""
    return planned(population, Policies((TIERS,), tiers=rules), now_s=now_s)


def ids(found: Plan, kind: type[Verdict]) -> tuple[MemoryId, ...]:
    return tuple(one.memory_id for one in found.decisions if isinstance(one.verdict, kind))


def verdicts(found: Plan) -> Mapping[MemoryId, Verdict]:
    return {one.memory_id: one.verdict for one in found.decisions}


def carried_out(population: Sequence[Subject], found: Plan, rules: Tiers, now_s: float) -> list[Subject]:
    """The population afterwards, with the summaries that the plan asks for."""
    after, behind = [], {}
    for one in population:
        verdict = verdicts(found).get(one.memory.id)
        if isinstance(verdict, Promote | Demote):
            after.append(replace(one, placement=policies.moved(one, verdict, now_s, rules)))
        else:
            after.append(one if verdict is None else replace(one, status=MemoryStatus.ARCHIVED))
        if isinstance(verdict, Summarise):
            behind[heading(one.memory)] = one.memory
    for number, of in enumerate(behind.values()):
        memory_id = MemoryId(f"019b0000-0000-7000-9000-{number:012x}")
        said = replace(of, id=memory_id, significance=0.1, metadata={"category": "summary"})
        after.append(Subject(said, MemoryStatus.LIVE, placement=Placement(Tier.GLACIAL, moved_at=now_s)))
    return after


def sizes(population: Sequence[Subject], found: Plan) -> list[int]:
    """How many live memories each tier holds afterwards."""
    after = [one for one in carried_out(population, found, SEEDS_TIERS, NOON_S) if one.status is MemoryStatus.LIVE]
    held = Counter(one.placed(SEEDS_TIERS).tier for one in after)
    return [held[tier] for tier in Tier]


def archived(found: Plan) -> list[int]:
    """The numbers of those that would go."""
    return sorted(int(one.memory_id[-12:], 16) for one in found.decisions if isinstance(one.verdict, Archive))


@pytest.mark.requirement("ALM-044")
def test_of_a_category_that_would_leave_altogether_the_strongest_stays() -> None:
    found = planned([subject(1, days_old=300), subject(2, days_old=200), subject(3, days_old=400)])
    assert archived(found) == [1, 3]
    assert found.spared == 1


lifetimes = st.sampled_from([None, None, Lifetime(NOON_S - DAY_S), Lifetime(NOON_S + DAY_S)])


placements = st.one_of(
    st.none(),
    st.builds(Placement, tier=st.sampled_from(Tier), successes=st.integers(0, 4), surprise=st.floats(0, 1)),
)


mixtures = st.lists(
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
            "scope": st.sampled_from([Scope("app"), Scope("app"), Scope("app", agent="cleo"), Scope("other")]),
            "tags": st.sampled_from([(), ("one",), ("two", "one")]),
        }
    ),
    max_size=14,
).map(lambda those: [subject(number, **said) for number, said in enumerate(those)])


chosen = st.builds(
    Policies,
    st.lists(st.sampled_from([LIFETIMES, STRENGTH, TIERS]), unique=True).map(tuple),
    tiers=st.sampled_from([SEEDS_TIERS, NARROW]),
)


@given(mixtures, chosen, st.randoms(use_true_random=False))
def test_the_order_of_the_memories_makes_no_difference(
    population: list[Subject], asked: Policies, chance: random.Random
) -> None:
    shuffled = population.copy()
    chance.shuffle(shuffled)
    one, other = planned(population, asked), planned(shuffled, asked)
    assert set(map(repr, one.decisions)) == set(map(repr, other.decisions))
    assert replace(one, decisions=()) == replace(other, decisions=())


@given(mixtures, chosen)
def test_every_memory_is_decided_on_once(population: list[Subject], asked: Policies) -> None:
    found = planned(population, asked)
    ours = {one.memory.id: one.memory for one in population}
    summaries = {heading(ours[one.memory_id]) for one in found.decisions if isinstance(one.verdict, Summarise)}
    assert found.summaries == len(summaries)
    assert len({one.memory_id for one in found.decisions}) == len(found.decisions)


@given(mixtures, chosen)
def test_the_weakest_goes_first_and_what_shares_a_summary_goes_together(
    population: list[Subject], asked: Policies
) -> None:
    found = planned(population, asked)
    strengths = [one.verdict.figures["strength"] for one in found.decisions if one.policy == STRENGTH]
    assert strengths == sorted(strengths)
    behind = [(one.verdict.agent, one.verdict.topic) for one in found.decisions if isinstance(one.verdict, Summarise)]
    assert len([key for key, _ in groupby(behind)]) == len(set(behind))
    assert all(count > 1 for count in Counter(behind).values())


@given(mixtures, chosen)
def test_nothing_protected_leaves(population: list[Subject], asked: Policies) -> None:
    found = planned(population, asked)
    pinned = {one.memory.id for one in population if one.pinned}
    significant = {one.memory.id for one in population if one.is_protected}
    moves = (Promote, Demote)
    leaving = {one.memory_id: one.policy for one in found.decisions if not isinstance(one.verdict, moves)}
    assert not pinned & set(leaving)
    assert all(leaving[memory_id] == LIFETIMES for memory_id in significant & set(leaving))


def in_categories(categories: str, days_old: float = 2) -> list[Subject]:
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


def taken(found: Plan) -> dict[int, type]:
    """The numbers of those that would go, and how."""
    leaving = [one for one in found.decisions if isinstance(one.verdict, Archive | Summarise)]
    return {int(one.memory_id[-12:], 16): type(one.verdict) for one in leaving}


@pytest.mark.requirement("ALM-044")
def test_a_summary_is_of_those_that_go() -> None:
    found = planned(in_categories("aaabccc", days_old=0), TIERED)
    assert taken(found) == {0: Summarise, 1: Summarise, 4: Summarise}
    assert (found.spared, found.summaries) == (2, 1)


@pytest.mark.requirement("ALM-044")
def test_what_is_spared_from_fading_is_spared_from_the_tiers_and_counted_once() -> None:
    old = [subject(number, placement=Placement(Tier.GLACIAL)) for number in (1, 2, 3)]
    found = planned(old, FADING_AND_TIERED)
    assert ([one.policy for one in found.decisions], found.spared) == ([STRENGTH, STRENGTH], 1)


@given(st.text("abcd", max_size=12), st.sampled_from([TIERED, FADING_AND_TIERED]))
def test_no_policy_empties_a_category(categories: str, asked: Policies) -> None:
    population = in_categories(categories, days_old=300)
    found = planned(population, asked)
    gone = taken(found)
    left = {category(one.memory) for number, one in enumerate(population) if number not in gone}
    assert left == {category(one.memory) for one in population}


# --- the sizes of the tiers -----------------------------------------------------------------------------------------


def crowd(tier: Tier, size: int, significance: float = 0.5, *, start: int = 1, **fields: object) -> list[Subject]:
    """Memories that stay in their tier, the first of least importance."""
    return [
        placed(significance, tier, number=number, age_s=float(start + size - number) / 1000, used_s=NOON_S, **fields)  # type: ignore[arg-type]
        for number in range(start, start + size)
    ]


CROWDED = "the slow tier holds too much, and this is of the least importance there"


@pytest.mark.requirement("ARG-033")
def test_what_slow_has_no_room_for_leaves_behind_a_summary() -> None:
    full = crowd(Tier.SLOW, 200)
    assert consolidated(full).decisions == ()
    least = [placed(0.35, Tier.SLOW, number=990 + number, tags=("deploy", "api"), agent="ada") for number in range(2)]
    kept = placed(0.9, Tier.FAST, number=980, agent="ada")  # so that none of them is the last of its category
    run = consolidated(those := [*full, *least, kept])
    assert [one.memory_id for one in run.decisions] == [one.memory.id for one in least]
    figures = {"importance": 0.35, "max_items": 200, "significance": 0.35}
    assert set(map(repr, verdicts(run).values())) == {repr(Summarise(CROWDED, figures, topic="deploy", agent="ada"))}
    assert (sizes(those, run), run.summaries) == ([1, 0, 200, 1], 1)


@pytest.mark.requirement("ARG-033")
def test_what_leaves_alone_goes_to_the_archive_without_a_summary() -> None:
    others = [placed(0.35, Tier.SLOW, number=900 + number, tags=(f"t{number}",)) for number in range(2)]
    run = consolidated(those := [*crowd(Tier.SLOW, 200), *others])
    assert set(map(repr, verdicts(run).values())) == {repr(Archive(CROWDED, {"importance": 0.35, "max_items": 200}))}
    assert (sizes(those, run), run.summaries) == ([0, 0, 200, 0], 0)


def working(one: Subject) -> Subject:
    return replace(one, memory=replace(one.memory, type=MemoryType.WORKING))


def test_working_memories_are_told_of_in_no_summary_and_push_nobody_out() -> None:
    scratch = [working(placed(0.35, Tier.SLOW, number=900 + number, tags=("deploy",))) for number in range(3)]
    run = consolidated([*crowd(Tier.SLOW, 200), *scratch])
    assert run.decisions == ()


@pytest.mark.requirement("ARG-033")
@pytest.mark.parametrize(
    ("tier", "kind"),
    [(Tier.FAST, Demote), (Tier.MEDIUM, Summarise), (Tier.SLOW, Summarise), (Tier.GLACIAL, Archive)],
)
def test_a_tier_that_holds_too_much_lets_go_of_the_least_important(tier: Tier, kind: type[Verdict]) -> None:
    some = crowd(tier, 5, 0.79)
    lenient = {each: replace(config, max_items=3) for each, config in TIER_CONFIGS.items()}
    run = consolidated(some, replace(SEEDS_TIERS, configs=lenient))
    assert ids(run, kind) == (some[0].memory.id, some[1].memory.id)
    assert len(run.decisions) == 2


@pytest.mark.requirement("ARG-023")
def test_a_crowded_fast_does_not_make_a_memory_change_direction_again() -> None:
    moved_s = NOON_S - 2 * DAY_S
    held = crowd(Tier.FAST, 5, 0.79, moved_at=moved_s, rising=True, turned_at=moved_s)
    assert consolidated(held, SMALL).decisions == ()
    free = [replace(one, placement=replace(one.placed(SEEDS_TIERS), turned_at=None)) for one in held]
    assert len(consolidated(free, SMALL).decisions) == 2


@pytest.mark.requirement("ARG-033")
def test_protected_memories_hold_their_place_in_a_tier() -> None:
    pinned = [replace(one, pinned=True) for one in crowd(Tier.SLOW, 3, 0.31)]
    plain = crowd(Tier.SLOW, 2, 0.7, start=50)
    assert ids(consolidated([*pinned, *plain], SMALL), Summarise) == tuple(one.memory.id for one in plain)
    run = consolidated([replace(one, pinned=True) for one in [*pinned, *plain]], SMALL)
    assert run.decisions == ()


@pytest.mark.requirement("ARG-031", "ARG-034")
def test_a_run_goes_down_from_fast_and_then_up_from_glacial() -> None:
    useful = [placed(0.5, tier, number=number, accesses=5) for number, tier in enumerate(list(Tier)[1:])]
    aged = [placed(0.4, tier, number=10 + number, age_s=90 * DAY_S) for number, tier in enumerate(Tier)]
    run = consolidated([*useful, *aged])
    found = [(type(verdict), getattr(verdict, "to", None)) for verdict in verdicts(run).values()]
    assert found == [
        (Demote, Tier.MEDIUM),
        (Demote, Tier.SLOW),
        (Demote, Tier.GLACIAL),
        (Archive, None),
        (Promote, Tier.SLOW),
        (Promote, Tier.MEDIUM),
        (Promote, Tier.FAST),
    ]


@pytest.mark.requirement("ARG-032")
def test_what_surprises_most_takes_three_days_from_glacial_to_fast() -> None:
    one, seen = placed(0.1, Tier.GLACIAL), []
    for day in range(5):
        now_s = NOON_S + day * DAY_S
        for _ in range(5):
            one = replace(one, placement=surprised(one.placed(SEEDS_TIERS), now_s, predicted=0.0, actual=1.0))
        one = replace(one, usage=Usage(0, now_s))
        (one,) = carried_out([one], consolidated([one], now_s=now_s), SEEDS_TIERS, now_s)
        seen.append(one.placed(SEEDS_TIERS).tier)
    assert seen == [Tier.SLOW, Tier.MEDIUM, Tier.FAST, Tier.FAST, Tier.FAST]


@st.composite
def populations(draw: st.DrawFn) -> list[Subject]:
    """Some memories in every state that a plan may find."""
    some = []
    for number in range(draw(st.integers(0, 14))):
        moved_at = draw(st.sampled_from([None, NOON_S, NOON_S - HOUR_S, NOON_S - 2 * DAY_S]))
        one = placed(
            draw(st.sampled_from([0.1, 0.3, 0.35, 0.5, 0.8, 0.9])),
            draw(st.sampled_from([None, *Tier])),
            number=number,
            tags=draw(st.sampled_from([(), ("a",), ("b",)])),
            age_s=draw(st.sampled_from([0.0, 30.0, 2 * HOUR_S, 3 * DAY_S, 90 * DAY_S])),
            accesses=draw(st.sampled_from([0, 5])),
            used_s=draw(st.sampled_from([None, NOON_S, NOON_S - DAY_S])),
            moved_at=moved_at,
        )
        one = working(one) if draw(st.integers(0, 5)) == 0 else one
        some.append(replace(one, pinned=draw(st.booleans())))
    return some


@given(populations())
def test_a_second_run_in_the_same_instant_changes_nothing(some: list[Subject]) -> None:
    run = consolidated(some, SMALL)
    settled = carried_out(some, run, SMALL, NOON_S)
    assert consolidated(settled, SMALL).decisions == ()
