"""Up when useful, down when faded, one tier a run; and what a whole run over the tiers does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.lifecycle.consolidation import Consolidation, consolidate, heading
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.lifecycle.subject import Subject, Usage
from kingly_memory.lifecycle.tiering import Tiering
from kingly_memory.lifecycle.tiers import (
    TIER_CONFIGS,
    Placement,
    TierRules,
    Transition,
    below,
    moved,
    reinforced,
    succeeded,
    surprised,
)
from kingly_memory.lifecycle.verdicts import Archive, Demote, Keep, Promote, Summarise, Verdict
from kingly_memory.models import MemoryType, Standing, Tier
from tests.tier_samples import DAY_S, HOUR_S, MINUTE_S, NOON_S, SEEDS_TTL_S, carried_out, placement_of, subject

SEEDS = Tiering()
SMALL = Tiering(
    TierRules(configs={tier: replace(config, max_items=3) for tier, config in TIER_CONFIGS.items()}),
)
LOWER = [Tier.MEDIUM, Tier.SLOW, Tier.GLACIAL]


def decided(one: Subject, now_s: float = NOON_S) -> Verdict:
    return SEEDS.decide(one, now_s)


def went(one: Subject, now_s: float = NOON_S) -> Tier | None:
    """The tier that the memory is moved to; None when it stays or goes to the archive."""
    verdict = decided(one, now_s)
    return verdict.to if isinstance(verdict, Promote | Demote) else None


# Up


@pytest.mark.requirement("ARG-016")
@pytest.mark.parametrize(("accesses", "to"), [(4, None), (5, Tier.MEDIUM), (6, Tier.MEDIUM)])
def test_a_memory_that_is_used_often_rises(accesses: int, to: Tier | None) -> None:
    assert went(subject(0.5, Tier.SLOW, accesses=accesses)) == to


@pytest.mark.requirement("ARG-016")
@pytest.mark.parametrize(("accesses", "to"), [(11, None), (12, Tier.MEDIUM)])
def test_only_uses_since_the_last_move_count(accesses: int, to: Tier | None) -> None:
    one = subject(0.5, Tier.SLOW, accesses=accesses, accesses_at_move=7, moved_at=NOON_S - DAY_S)
    assert went(one) == to


@pytest.mark.requirement("ARG-017")
@pytest.mark.parametrize(("surprise", "to"), [(0.599, None), (0.6, Tier.MEDIUM)])
def test_a_memory_that_surprises_rises(surprise: float, to: Tier | None) -> None:
    assert went(subject(0.5, Tier.SLOW, surprise=surprise, surprises=1)) == to


@pytest.mark.requirement("ARG-017", "ARG-023")
def test_a_surprise_from_before_the_last_move_earns_nothing_more() -> None:
    one = subject(0.5, Tier.SLOW, surprise=0.99, surprises=4, surprises_at_move=4, moved_at=NOON_S - DAY_S)
    assert went(one) is None


@pytest.mark.requirement("ARG-028", "ARG-017")
def test_three_perfect_surprises_lead_to_a_promotion() -> None:
    one, tiers = subject(0.5, Tier.SLOW), []
    for number in range(3):
        placement = surprised(placement_of(one), NOON_S + number, predicted=0.0, actual=1.0)
        one = replace(one, placement=placement)
        tiers.append(went(one, NOON_S + number))
    assert tiers == [None, None, Tier.MEDIUM]


@pytest.mark.requirement("ARG-018")
@pytest.mark.parametrize(("successes", "to"), [(3, None), (4, Tier.MEDIUM)])
def test_a_memory_that_successes_refer_to_rises(successes: int, to: Tier | None) -> None:
    assert went(subject(0.5, Tier.SLOW, successes=successes, successes_at_move=2)) == to


@pytest.mark.requirement("ARG-019")
def test_the_thresholds_are_those_of_the_rules() -> None:
    lenient = Tiering(TierRules(promotion_accesses=1, surprise_threshold=0.1, success_references=1))
    for one in (
        subject(0.5, Tier.SLOW, accesses=1),
        subject(0.5, Tier.SLOW, surprise=0.1, surprises=1),
        subject(0.5, Tier.SLOW, successes=1),
    ):
        assert isinstance(lenient.decide(one, NOON_S), Promote)
        assert isinstance(SEEDS.decide(one, NOON_S), Keep)


@pytest.mark.requirement("ARG-020", "ARG-032")
@pytest.mark.parametrize("tier", [Tier.GLACIAL, Tier.SLOW, Tier.MEDIUM])
def test_even_what_has_every_merit_rises_by_one_tier(tier: Tier) -> None:
    assert below(went(subject(0.9, tier, accesses=99, surprise=0.99, surprises=9, successes=9)) or tier) == tier


@pytest.mark.requirement("ARG-020")
def test_nothing_rises_above_fast() -> None:
    assert isinstance(decided(subject(0.9, Tier.FAST, accesses=99)), Keep)


def test_merit_says_why_and_by_which_figure() -> None:
    verdict = decided(subject(0.5, Tier.GLACIAL, accesses=9, accesses_at_move=2))
    assert verdict == Promote(Tier.SLOW, "it was used often since it last moved", {"accesses": 7})


# Down


@pytest.mark.requirement("ARG-021")
@pytest.mark.parametrize("tier", [Tier.FAST, Tier.MEDIUM])
@pytest.mark.parametrize("since", ["written", "used", "reinforced"])
def test_a_memory_that_is_idle_for_longer_than_its_tier_allows_steps_down(tier: Tier, since: str) -> None:
    rested = {
        "written": subject(1.0, tier),
        "used": subject(1.0, tier, age_s=9 * DAY_S, used_s=NOON_S, reinforced_at=NOON_S - SEEDS_TTL_S[tier]),
        "reinforced": subject(1.0, tier, age_s=9 * DAY_S, used_s=NOON_S - DAY_S, reinforced_at=NOON_S),
    }[since]
    assert went(rested, NOON_S + SEEDS_TTL_S[tier]) is None
    assert went(rested, NOON_S + SEEDS_TTL_S[tier] + 1) == below(tier)


@pytest.mark.requirement("ARG-022")
def test_a_memory_in_use_steps_down_once_its_importance_has_faded_below_its_tier() -> None:
    golden_s = 10.195500086538743 * MINUTE_S
    for after_s, to in [(golden_s - 1, None), (golden_s + 1, Tier.MEDIUM)]:
        now_s = NOON_S + after_s
        assert went(subject(0.9, Tier.FAST, used_s=now_s), now_s) == to


@pytest.mark.requirement("ARG-022")
@pytest.mark.parametrize(("tier", "significance"), [(Tier.FAST, 0.8), (Tier.MEDIUM, 0.5), (Tier.SLOW, 0.3)])
def test_a_memory_exactly_at_the_threshold_has_the_time_of_its_tier(tier: Tier, significance: float) -> None:
    ttl_s = SEEDS_TTL_S[tier]
    for after_s, to in [(0.0, None), (ttl_s, None), (ttl_s + 1, below(tier))]:
        now_s = NOON_S + after_s
        assert went(subject(significance, tier, used_s=now_s), now_s) == to


@pytest.mark.requirement("ARG-022")
def test_a_reinforcement_lets_importance_fade_anew() -> None:
    now_s = NOON_S + 3 * DAY_S
    faded = subject(0.5, Tier.MEDIUM, used_s=now_s)
    reminded = replace(faded, placement=reinforced(placement_of(faded), now_s))
    elsewhere = replace(faded, strength=faded.strength.reinforce(now_s))
    assert [went(one, now_s) for one in (faded, reminded, elsewhere)] == [Tier.SLOW, None, None]


def test_a_revision_lets_importance_fade_anew() -> None:
    faded = subject(0.5, Tier.MEDIUM, age_s=3 * DAY_S, used_s=NOON_S)
    revised = replace(faded, memory=replace(faded.memory, updated_at=subject().memory.updated_at))
    assert [went(one) for one in (faded, revised)] == [Tier.SLOW, None]


@pytest.mark.requirement("ARG-035")
def test_what_matters_does_not_become_glacial_by_idleness() -> None:
    """0.9 is 0.3 after 266.3 hours in SLOW."""
    kept, gone = (subject(0.9, Tier.SLOW, age_s=hours * HOUR_S) for hours in (266, 267))
    assert [went(one) for one in (kept, gone)] == [None, Tier.GLACIAL]


@pytest.mark.requirement("ARG-035")
def test_what_has_faded_below_the_entry_becomes_glacial() -> None:
    """0.4 is 0.3 after 69.7 hours in SLOW."""
    assert [went(subject(0.4, Tier.SLOW, age_s=hours * HOUR_S)) for hours in (69, 70)] == [None, Tier.GLACIAL]
    early = Tiering(TierRules(glacial_entry=0.35))
    assert isinstance(early.decide(subject(0.4, Tier.SLOW, age_s=50 * HOUR_S), NOON_S), Demote)


@pytest.mark.requirement("ARG-020")
def test_a_glacial_memory_does_not_leave_for_its_importance_but_for_its_idleness() -> None:
    now_s = NOON_S + 7 * DAY_S
    one = subject(0.0, Tier.GLACIAL, age_s=300 * DAY_S, moved_at=NOON_S)
    assert isinstance(decided(one, now_s), Keep)
    verdict = decided(one, now_s + 1)
    assert isinstance(verdict, Archive)
    assert verdict.reason == "idle for longer than the glacial tier allows"
    assert verdict.figures == {"importance": 0.0, "idle_s": 7 * DAY_S + 1}


@pytest.mark.requirement("ARG-005")
def test_no_threshold_makes_a_glacial_memory_leave() -> None:
    strict = {**TIER_CONFIGS, Tier.GLACIAL: replace(TIER_CONFIGS[Tier.GLACIAL], importance_threshold=0.1)}
    used = subject(0.05, Tier.GLACIAL, age_s=300 * DAY_S, used_s=NOON_S)
    assert isinstance(Tiering(TierRules(configs=strict)).decide(used, NOON_S), Keep)


@pytest.mark.parametrize(("significance", "pinned"), [(0.8, False), (0.1, True)])
def test_a_protected_memory_moves_between_tiers_and_is_not_archived(significance: float, pinned: bool) -> None:
    old = replace(subject(significance, Tier.GLACIAL, age_s=300 * DAY_S), pinned=pinned)
    assert decided(old).reason == "it is protected from the archive"
    assert went(replace(old, placement=Placement(Tier.FAST))) is Tier.MEDIUM


@pytest.mark.requirement("ARG-023")
def test_what_has_earned_a_promotion_is_not_demoted_by_the_same_run() -> None:
    for tier in LOWER:
        assert isinstance(decided(subject(0.01, tier, age_s=300 * DAY_S, accesses=5)), Promote)


@pytest.mark.requirement("ARG-023")
def test_merit_holds_a_faded_memory_in_fast_until_it_is_idle() -> None:
    for used_s, to in [(NOON_S - MINUTE_S, None), (NOON_S - MINUTE_S - 1, Tier.MEDIUM)]:
        assert went(subject(0.1, Tier.FAST, age_s=DAY_S, accesses=5, used_s=used_s)) == to


@pytest.mark.requirement("ARG-023")
@pytest.mark.parametrize("jump_s", [0.0, -1.0, -5.0])
def test_a_memory_that_has_moved_stays_for_the_cooldown(jump_s: float) -> None:
    useful = subject(0.5, Tier.SLOW, accesses=9, moved_at=NOON_S)
    faded = subject(0.1, Tier.MEDIUM, age_s=300 * DAY_S, moved_at=NOON_S)
    for one, to in ((useful, Tier.MEDIUM), (faded, Tier.SLOW)):
        assert went(one, NOON_S + jump_s) is None, "nor when the clock is set back a little"
        assert [went(one, NOON_S + after_s) for after_s in (DAY_S - 1, DAY_S)] == [None, to]


def test_a_move_in_the_far_future_binds_nobody_when_the_clock_is_right_again() -> None:
    assert went(subject(0.5, Tier.SLOW, accesses=9, moved_at=NOON_S + 3_650 * DAY_S)) is Tier.MEDIUM


@pytest.mark.requirement("ARG-023")
def test_a_second_change_of_direction_waits_for_ten_days() -> None:
    placement = Placement(Tier.SLOW)
    for day, to in enumerate([Tier.MEDIUM, Tier.SLOW]):
        placement = moved(placement, to, NOON_S + day * DAY_S, accesses=0, reason="so")
    one = replace(subject(0.9, Tier.SLOW, accesses=9), placement=placement)
    turned_s = NOON_S + DAY_S
    assert [went(one, turned_s + days * DAY_S) for days in (1, 9.99, 10)] == [None, None, Tier.MEDIUM]
    assert decided(one, turned_s + DAY_S).reason == "it has earned a promotion, and has changed direction lately"


@pytest.mark.parametrize("standing", [Standing.ARCHIVED, Standing.FORGOTTEN, Standing.CACHED])
def test_only_live_memories_have_a_tier(standing: Standing) -> None:
    one = replace(subject(0.1, Tier.GLACIAL, age_s=300 * DAY_S), standing=standing)
    assert decided(one) == Keep(f"it is {standing.value} already")
    assert consolidate(SEEDS, [one], NOON_S) == consolidate(SEEDS, [], NOON_S)


def test_tiers_that_are_switched_off_move_nothing() -> None:
    off = replace(SMALL, enabled=False)
    crowd = [subject(0.4, Tier.SLOW, number=number, age_s=90 * DAY_S, accesses=9) for number in range(9)]
    run = consolidate(off, crowd, NOON_S)
    assert run.verdicts == {}
    assert run.before == run.after


@pytest.mark.requirement("ARG-036")
def test_a_move_changes_nothing_but_where_the_memory_stands() -> None:
    one = subject(0.5, Tier.SLOW, accesses=9, surprise=0.7, surprises=3, successes=2, metadata={"a": [1]})
    kept = one.memory.to_json()
    after = SEEDS.after(one, decided(one), NOON_S)
    before = placement_of(one)
    assert one.memory.to_json() == kept
    assert (after.surprise, after.surprises, after.successes) == (before.surprise, before.surprises, before.successes)
    assert after.tier is Tier.MEDIUM
    assert SEEDS.after(one, Keep("so"), NOON_S) == before


# A whole run


def crowd(tier: Tier, size: int, significance: float = 0.5, *, start: int = 1, **fields: object) -> list[Subject]:
    """Memories that stay in their tier, the first of least importance."""
    return [
        subject(significance, tier, number=number, age_s=float(start + size - number) / 1000, used_s=NOON_S, **fields)  # type: ignore[arg-type]
        for number in range(start, start + size)
    ]


CROWDED = "the slow tier holds too much, and this is of the least importance there"


@pytest.mark.requirement("ARG-033")
def test_what_slow_has_no_room_for_leaves_behind_a_summary() -> None:
    full = crowd(Tier.SLOW, 200)
    assert consolidate(SEEDS, full, NOON_S).verdicts == {}
    least = [subject(0.35, Tier.SLOW, number=990 + number, tags=("deploy", "api"), agent="ada") for number in range(2)]
    run = consolidate(SEEDS, [*full, *least], NOON_S)
    assert list(run.verdicts) == [one.memory.id for one in least]
    figures = {"importance": 0.35, "max_items": 200, "significance": 0.35}
    assert set(map(repr, run.verdicts.values())) == {repr(Summarise("deploy", CROWDED, figures, "ada"))}
    assert (run.after[Tier.SLOW], run.after[Tier.GLACIAL], run.summaries) == (200, 1, 1)


@pytest.mark.requirement("ARG-033")
def test_what_leaves_alone_goes_to_the_archive_without_a_summary() -> None:
    others = [subject(0.35, Tier.SLOW, number=900 + number, tags=(f"t{number}",)) for number in range(2)]
    run = consolidate(SEEDS, [*crowd(Tier.SLOW, 200), *others], NOON_S)
    assert set(map(repr, run.verdicts.values())) == {repr(Archive(CROWDED, {"importance": 0.35, "max_items": 200}))}
    assert (run.after[Tier.SLOW], run.after[Tier.GLACIAL], run.summaries) == (200, 0, 0)


def test_what_has_ended_is_told_of_in_no_summary() -> None:
    some = [subject(0.35, Tier.SLOW, number=900 + number, tags=("deploy",)) for number in range(3)]
    ended = replace(some[0], lifetime=Lifetime(NOON_S))
    run = consolidate(SEEDS, [*crowd(Tier.SLOW, 200), ended, *some[1:]], NOON_S)
    assert (run.ids(Archive), len(run.ids(Summarise)), run.summaries) == ((ended.memory.id,), 2, 1)


def working(one: Subject) -> Subject:
    return replace(one, memory=replace(one.memory, type=MemoryType.WORKING))


def test_working_memories_are_told_of_in_no_summary_and_push_nobody_out() -> None:
    scratch = [working(subject(0.35, Tier.SLOW, number=900 + number, tags=("deploy",))) for number in range(3)]
    run = consolidate(SEEDS, [*crowd(Tier.SLOW, 200), *scratch], NOON_S)
    assert (run.verdicts, run.after[Tier.SLOW]) == ({}, 203)


def test_an_idle_working_memory_leaves_glacial_by_its_lifetime_only() -> None:
    idle = subject(0.1, Tier.GLACIAL, age_s=30 * DAY_S)
    assert isinstance(decided(idle), Archive)
    assert isinstance(decided(working(idle)), Keep)


@pytest.mark.requirement("ARG-033")
@pytest.mark.parametrize(
    ("tier", "kind"),
    [(Tier.FAST, Demote), (Tier.MEDIUM, Summarise), (Tier.SLOW, Summarise), (Tier.GLACIAL, Archive)],
)
def test_a_tier_that_holds_too_much_lets_go_of_the_least_important(tier: Tier, kind: type[Verdict]) -> None:
    some = crowd(tier, 5, 0.79)
    lenient = {each: replace(config, max_items=3) for each, config in TIER_CONFIGS.items()}
    run = consolidate(Tiering(TierRules(configs=lenient)), some, NOON_S)
    assert run.ids(kind) == (some[0].memory.id, some[1].memory.id)
    assert len(run.verdicts) == 2
    assert run.after[tier] == 3


@pytest.mark.requirement("ARG-032")
def test_what_steps_down_from_a_crowded_fast_has_a_day_in_medium() -> None:
    """After six minutes 0.79 has faded to 0.737 in FAST, and is 0.788 in MEDIUM, where 0.75 has become 0.748."""
    hour_long = {**SMALL.rules.configs, Tier.FAST: replace(TIER_CONFIGS[Tier.FAST], ttl_seconds=HOUR_S, max_items=3)}
    tiering = Tiering(replace(SMALL.rules, configs=hour_long))
    near = [subject(0.79 + number / 1000, Tier.FAST, number=number, age_s=360) for number in range(4)]
    middle = [subject(0.75, Tier.MEDIUM, number=50 + number, age_s=360) for number in range(3)]
    run = consolidate(tiering, [*near, *middle], NOON_S)
    assert run.ids(Demote) == (near[0].memory.id,)
    assert run.ids(Archive) == (middle[0].memory.id,), "what matters least in MEDIUM, by the half-life of MEDIUM"
    poor = replace(near[0], memory=replace(near[0].memory, significance=0.6))
    crowded = consolidate(tiering, [poor, *near[1:], *middle], NOON_S)
    assert (crowded.ids(Demote), crowded.ids(Archive)) == ((poor.memory.id,), ())
    assert crowded.after[Tier.MEDIUM] == 4


@pytest.mark.requirement("ARG-023")
def test_a_crowded_fast_does_not_make_a_memory_change_direction_again() -> None:
    turned = (
        Transition(NOON_S - 3 * DAY_S, Tier.FAST, Tier.MEDIUM, "so"),
        Transition(NOON_S - 2 * DAY_S, Tier.MEDIUM, Tier.FAST, "so"),
    )
    held = crowd(Tier.FAST, 5, 0.79, moved_at=NOON_S - 2 * DAY_S, history=turned)
    assert consolidate(SMALL, held, NOON_S).verdicts == {}
    free = [replace(one, placement=replace(placement_of(one), history=turned[1:])) for one in held]
    assert len(consolidate(SMALL, free, NOON_S).verdicts) == 2


@pytest.mark.requirement("ARG-033")
def test_protected_memories_hold_their_place_in_a_tier() -> None:
    pinned = [replace(one, pinned=True) for one in crowd(Tier.SLOW, 3, 0.31)]
    plain = crowd(Tier.SLOW, 2, 0.7, start=50)
    assert consolidate(SMALL, [*pinned, *plain], NOON_S).ids(Summarise) == tuple(one.memory.id for one in plain)
    run = consolidate(SMALL, [replace(one, pinned=True) for one in [*pinned, *plain]], NOON_S)
    assert (run.verdicts, run.after[Tier.SLOW]) == ({}, 5)


@pytest.mark.requirement("ARG-032")
def test_newcomers_of_little_importance_push_nobody_out_and_have_a_day() -> None:
    residents = crowd(Tier.SLOW, 3, 0.7)
    arriving = [subject(0.5, Tier.MEDIUM, number=50 + number, age_s=2 * HOUR_S) for number in range(2)]
    run = consolidate(SMALL, [*residents, *arriving], NOON_S)
    assert run.ids(Demote) == tuple(one.memory.id for one in arriving)
    assert (len(run.verdicts), run.after[Tier.SLOW]) == (2, 5)
    settled = carried_out([*residents, *arriving], run, SMALL, NOON_S)
    assert consolidate(SMALL, settled, NOON_S + DAY_S).ids(Summarise) == tuple(one.memory.id for one in arriving)


def test_summaries_take_their_place_in_glacial() -> None:
    resting = crowd(Tier.GLACIAL, 3, 0.2)
    leaving = [one for n in range(2) for one in crowd(Tier.SLOW, 3, 0.4 + n / 10, start=50 + 3 * n, tags=(f"t{n}",))]
    run = consolidate(SMALL, [*resting, *leaving], NOON_S)
    assert len(run.ids(Summarise)) == 3
    assert (run.summaries, run.ids(Archive)) == (1, (resting[0].memory.id,))
    assert run.after == {Tier.FAST: 0, Tier.MEDIUM: 0, Tier.SLOW: 3, Tier.GLACIAL: 3}


def test_projects_have_tiers_of_their_own() -> None:
    some = [*crowd(Tier.SLOW, 3, project="mine"), *crowd(Tier.SLOW, 3, start=50, project="yours")]
    assert consolidate(SMALL, some, NOON_S).verdicts == {}
    run = consolidate(SMALL, [*some, subject(0.4, Tier.SLOW, number=90, project="yours")], NOON_S)
    assert len(run.verdicts) == 1


@pytest.mark.parametrize(
    ("said", "topic"),
    [
        ({"metadata": {"topic": "release"}, "tags": ("a",)}, "release"),
        ({"metadata": {"topic": 7}, "tags": ("a", "b")}, "a"),
        ({"metadata": {"topic": " "}}, "semantic"),
    ],
)
def test_a_summary_joins_one_topic_of_one_agent(said: dict[str, object], topic: str) -> None:
    assert heading(subject(agent="ada", **said).memory) == ("app", "ada", topic)  # type: ignore[arg-type]


@pytest.mark.requirement("ARG-031", "ARG-034")
def test_a_run_goes_down_from_fast_and_then_up_from_glacial() -> None:
    useful = [subject(0.5, tier, number=number, accesses=5) for number, tier in enumerate(LOWER)]
    aged = [subject(0.4, tier, number=10 + number, age_s=90 * DAY_S) for number, tier in enumerate(Tier)]
    run = consolidate(SEEDS, [*useful, *aged], NOON_S)
    found = [(type(verdict), getattr(verdict, "to", None)) for verdict in run.verdicts.values()]
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
    one, seen = subject(0.1, Tier.GLACIAL), []
    for day in range(5):
        now_s = NOON_S + day * DAY_S
        for _ in range(5):
            one = replace(one, placement=surprised(placement_of(one), now_s, predicted=0.0, actual=1.0))
        one = replace(one, usage=Usage(0, now_s))
        (one,) = carried_out([one], consolidate(SEEDS, [one], now_s), SEEDS, now_s)
        seen.append(placement_of(one).tier)
    assert seen == [Tier.SLOW, Tier.MEDIUM, Tier.FAST, Tier.FAST, Tier.FAST]


@pytest.mark.requirement("ARG-030")
def test_a_run_says_what_it_does_in_counts_and_ids() -> None:
    up, down = subject(0.5, Tier.SLOW, number=1, accesses=5), subject(0.5, Tier.MEDIUM, number=2, age_s=DAY_S)
    told = json.loads(json.dumps(consolidate(SEEDS, [up, down], NOON_S).to_json()))
    assert told == {
        "counts": {"promoted": 1, "demoted": 1, "archived": 0, "summarised": 0},
        "ids": {"promoted": [up.memory.id], "demoted": [down.memory.id], "archived": [], "summarised": []},
        "summaries": 0,
        "tier_counts": {
            "before": {"fast": 0, "medium": 1, "slow": 1, "glacial": 0},
            "after": {"fast": 0, "medium": 1, "slow": 1, "glacial": 0},
        },
    }
    assert Consolidation().to_json()["tier_counts"]["after"] == {"fast": 0, "medium": 0, "slow": 0, "glacial": 0}


# Laws


@dataclass(frozen=True)
class Day:
    """What happens to a memory between two runs."""

    uses: int
    surprises: int
    successes: int
    until_next_s: float

    def lived(self, one: Subject, now_s: float) -> Subject:
        placement = placement_of(one)
        for _ in range(self.surprises):
            placement = surprised(placement, now_s, predicted=0.0, actual=1.0)
        for _ in range(self.successes):
            placement = succeeded(placement, now_s)
        usage = Usage(one.usage.accesses + self.uses, now_s if self.uses else one.usage.last_used)
        return replace(one, placement=placement, usage=usage)


DAYS = st.builds(
    Day, st.integers(0, 9), st.integers(0, 4), st.integers(0, 3), st.sampled_from([0.0, 1.0, HOUR_S, DAY_S, 2 * DAY_S])
)
QUIET = st.builds(Day, st.just(0), st.just(0), st.just(0), st.sampled_from([HOUR_S, DAY_S, 5 * DAY_S]))


def path(one: Subject, days: Sequence[Day]) -> list[Transition]:
    """The moves that the days lead to. The placement remembers only the latest, so they are collected."""
    now_s, moves = NOON_S, []
    for day in days:
        one = day.lived(one, now_s)
        after = SEEDS.after(one, decided(one, now_s), now_s)
        if after.moved_at != placement_of(one).moved_at:
            moves.append(after.history[-1])
        one = replace(one, placement=after)
        now_s += day.until_next_s
    return moves


def turns(moves: Sequence[Transition]) -> list[float]:
    return [two.at for one, two in pairwise(moves) if one.is_upward != two.is_upward]


@pytest.mark.requirement("ARG-023", "ARG-032")
@given(st.floats(0, 1), st.sampled_from(Tier), st.lists(DAYS, max_size=40))
def test_whatever_happens_a_memory_moves_once_a_day_and_turns_once_in_ten(
    significance: float, tier: Tier, days: list[Day]
) -> None:
    moves = path(subject(significance, tier), days)
    order = list(Tier)
    assert all(abs(order.index(move.source) - order.index(move.target)) == 1 for move in moves)
    assert all(two.at - one.at >= DAY_S for one, two in pairwise(moves))
    assert all(two - one >= 10 * DAY_S for one, two in pairwise(turns(moves)))


@pytest.mark.requirement("ARG-023")
@pytest.mark.parametrize("uses", [1, 3, 5, 50])
@pytest.mark.parametrize("pause_s", [0.0, HOUR_S, DAY_S])
@pytest.mark.parametrize("tier", list(Tier))
def test_ten_runs_with_steady_use_turn_a_memory_once_at_most(uses: int, pause_s: float, tier: Tier) -> None:
    moves = path(subject(0.2, tier), [Day(uses, 0, 0, pause_s)] * 10)
    assert len(turns(moves)) <= 1


@pytest.mark.requirement("ARG-023")
@given(st.floats(0, 1), st.sampled_from(Tier), DAYS, st.lists(QUIET, max_size=20))
def test_what_nobody_uses_rises_once_for_what_was_and_then_only_sinks(
    significance: float, tier: Tier, before: Day, quiet: list[Day]
) -> None:
    moves = path(subject(significance, tier), [before, *quiet])
    assert sum(move.is_upward for move in moves) <= 1
    assert all(not move.is_upward for move in moves[1:])


@st.composite
def populations(draw: st.DrawFn) -> list[Subject]:
    """Some memories in every state that a run may find, in two projects."""
    some = []
    for number in range(draw(st.integers(0, 14))):
        moved_at = draw(st.sampled_from([None, NOON_S, NOON_S - HOUR_S, NOON_S - 2 * DAY_S]))
        one = subject(
            draw(st.sampled_from([0.1, 0.3, 0.35, 0.5, 0.8, 0.9])),
            draw(st.sampled_from([None, *Tier])),
            number=number,
            project=draw(st.sampled_from(["mine", "yours"])),
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
    run = consolidate(SMALL, some, NOON_S)
    settled = carried_out(some, run, SMALL, NOON_S)
    again = consolidate(SMALL, settled, NOON_S)
    assert again.verdicts == {}
    assert again.before == run.after, "and the plan said how it would be"


@given(populations(), st.randoms(use_true_random=False))
def test_the_order_of_the_memories_makes_no_difference(some: list[Subject], random: Random) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)
    one, other = consolidate(SMALL, some, NOON_S), consolidate(SMALL, shuffled, NOON_S)
    assert (one, list(one.verdicts)) == (other, list(other.verdicts))


@given(populations())
def test_a_run_moves_nobody_by_more_than_a_tier_and_takes_nothing_protected(some: list[Subject]) -> None:
    order = list(Tier)
    for memory_id, verdict in consolidate(SMALL, some, NOON_S).verdicts.items():
        (one,) = (each for each in some if each.memory.id == memory_id)
        if isinstance(verdict, Promote | Demote):
            assert abs(order.index(placement_of(one).tier) - order.index(verdict.to)) == 1
        else:
            assert isinstance(verdict, Archive | Summarise)
            assert not one.is_protected
            assert one.memory.type is not MemoryType.WORKING


@given(populations())
def test_a_tier_that_is_still_too_full_holds_only_what_must_not_leave_yet(some: list[Subject]) -> None:
    settled = carried_out(some, consolidate(SMALL, some, NOON_S), SMALL, NOON_S)
    later_s = NOON_S + DAY_S
    run = consolidate(SMALL, settled, later_s)
    sizes = Counter(
        (one.memory.scope.project, placement_of(one).tier)
        for one in carried_out(settled, run, SMALL, later_s)
        if one.standing is Standing.LIVE and not stays(one) and not moved_on(one, later_s)
    )
    assert all(size <= 3 for size in sizes.values())


def stays(one: Subject) -> bool:
    return one.is_protected or one.memory.type is MemoryType.WORKING


def moved_on(one: Subject, now_s: float) -> bool:
    return placement_of(one).moved_at == now_s
