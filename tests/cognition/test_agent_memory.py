"""The memory of one agent: what it keeps, what comes back, and that looking changes nothing."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.cognition.agent_memory import (
    CognitiveMemory,
    ExperienceRules,
    MemoryItem,
)
from kingly_memory.errors import InvalidInput
from kingly_memory.seeds.household import HouseholdAgent, build_household_prompt, prepare_context
from tests.cognition.samples import ADDS, CONSOLIDATION, SMALL, YEARS, PlainMemory, do

Step = tuple[str, str, float, int]
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
GOLDEN = {
    "product_y1_imp0.9_at_y10": 0.5672244687521482,
    "product_y10_imp0.5": 0.5,
    "alternative_scoring_y1": 0.7310893152805467,
    "alternative_scoring_y10": 1.0,
    "audit_0.9_1y": 0.855,
    "audit_0.7_1y": 0.6649999999999999,
}
"""Computed beforehand from the seed's formulas."""


def ticking(every: timedelta = timedelta(seconds=1)) -> Callable[[], datetime]:
    """A clock that goes on at each look."""
    looks = iter(range(10_000_000))
    return lambda: NOON + next(looks) * every


def lived(steps: Iterable[Step], rules: ExperienceRules, now: Callable[[], datetime] | None = None) -> CognitiveMemory:
    memory = CognitiveMemory("H001", rules=rules, now=now or ticking())
    for step in steps:
        do(memory, step)
    return memory


LIVES = st.lists(ADDS | CONSOLIDATION, max_size=30)

# --- items ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COG-004")
def test_an_item_has_the_defaults_of_the_seed_and_shares_none_of_them() -> None:
    one, other = MemoryItem("rain"), MemoryItem("sun")
    assert (one.importance, one.year, one.tags) == (0.5, 0, [])
    assert one.tags is not other.tags
    assert one.timestamp.tzinfo is UTC


BAD: list[tuple[dict[str, Any], str]] = [
    ({"importance": 1.01}, "importance"),
    ({"importance": -0.1}, "importance"),
    ({"importance": math.nan}, "importance"),
    ({"importance": math.inf}, "importance"),
    ({"importance": True}, "importance"),
    ({"importance": "0.5"}, "importance"),
    ({"year": -1}, "year"),
    ({"year": 10**5_000}, "year"),
    ({"year": 2.0}, "year"),
    ({"year": True}, "year"),
    ({"tags": 7}, "tags"),
    ({"tags": [""]}, "tags"),
    ({"tags": {"a": 1}}, "tags"),
    ({"tags": ["a\nb"]}, "tags"),
    ({"content": ""}, "content"),
    ({"content": " \n"}, "content"),
    ({"content": None}, "content"),
    ({"content": b"rain"}, "content"),
]


@pytest.mark.parametrize(("said", "field"), BAD, ids=[f"{field} {number}" for number, (_, field) in enumerate(BAD)])
def test_what_cannot_be_remembered_is_refused_and_changes_nothing(said: dict[str, Any], field: str) -> None:
    memory = lived([("add_working", "before", 0.9, 1)], ExperienceRules(working_capacity=1))
    before = memory.serialize()
    with pytest.raises(InvalidInput) as refused:
        memory.add_experience(**{"content": "rain", **said})
    assert refused.value.field == field
    assert memory.serialize() == before


@pytest.mark.parametrize(
    ("look", "field"),
    [
        ({"top_k": -1}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"current_year": -1}, "current_year"),
        ({"current_year": "3"}, "current_year"),
        ({"tags": 5}, "tags"),
        ({"query": " "}, "query"),
        ({"query": 5}, "query"),
        ({"reserve_episodic": -1}, "reserve_episodic"),
    ],
)
def test_a_look_that_makes_no_sense_is_refused(look: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        CognitiveMemory("H001").retrieve(**look)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"working_capacity": 0}, "working_capacity"),
        ({"episodic_capacity": True}, "episodic_capacity"),
        ({"consolidation_threshold": math.nan}, "consolidation_threshold"),
        ({"consolidation_threshold": "0.7"}, "consolidation_threshold"),
        ({"decay_rate": 0}, "decay_rate"),
        ({"decay_rate": 1.1}, "decay_rate"),
        ({"scoring": "sum"}, "scoring"),
    ],
)
def test_rules_that_make_no_sense_are_refused(said: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ExperienceRules(**said)
    assert refused.value.field == field


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COG-005", "COG-006", "COG-007", "COG-008")
def test_the_constants_are_the_seeds() -> None:
    assert CognitiveMemory.WORKING_CAPACITY == 10
    assert CognitiveMemory.EPISODIC_CAPACITY == 50
    assert CognitiveMemory.CONSOLIDATION_THRESHOLD == 0.7
    assert CognitiveMemory.DECAY_RATE == 0.95


@pytest.mark.requirement("COG-007", "COG-010")
def test_an_experience_of_importance_exactly_at_the_threshold_is_an_episode() -> None:
    memory = CognitiveMemory("H001")
    memory.add_experience("at it", 0.7)
    memory.add_experience("below it", math.nextafter(0.7, 0))
    assert [item.content for item in memory.holdings.episodic] == ["at it"]
    assert [item.content for item in memory.holdings.working] == ["below it"]


@pytest.mark.requirement("COG-003", "COG-011")
def test_working_memory_lets_the_oldest_go_and_nothing_else() -> None:
    memory = CognitiveMemory("H001")
    for number in range(12):
        memory.add_working(f"Event {number}", 0.1 * (number % 7), year=12 - number)
    assert [item.content for item in memory.holdings.working] == [f"Event {number}" for number in range(2, 12)]
    assert memory.retrieve(1, 1_000) == ["Event 11"]


@pytest.mark.requirement("COG-006", "COG-012")
def test_of_sixty_episodes_the_fifty_that_score_highest_stay() -> None:
    memory = CognitiveMemory("H001")
    for number in range(60):
        memory.add_episodic(f"Event {number}", 0.9, year=number)
    assert [item.content for item in memory.holdings.episodic] == [f"Event {number}" for number in range(10, 60)]


@pytest.mark.requirement("COG-017")
def test_a_flood_is_an_episode_in_the_seeds_words() -> None:
    memory = CognitiveMemory("H001")
    memory.update_after_flood(damage=50_000, year=3)
    [item] = memory.holdings.episodic
    assert item.content == "Year 3: A flood occurred causing $50,000 in damages"
    assert (item.importance, item.year, item.tags) == (0.9, 3, ["flood", "damage"])


@pytest.mark.requirement("COG-018")
def test_a_decision_is_in_working_memory_in_the_seeds_words() -> None:
    memory = CognitiveMemory("H001")
    memory.update_after_decision("buy_insurance", year=3)
    memory.update_after_decision("do_nothing", year=4)
    assert [(item.content, item.importance) for item in memory.holdings.working] == [
        ("Year 3: I decided to buy_insurance", 0.7),
        ("Year 4: I decided to do_nothing", 0.3),
    ]


# --- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("UNI-003")
@pytest.mark.requirement("COG-015")
def test_scores_are_the_golden_ones() -> None:
    product, other = ExperienceRules(), ExperienceRules(scoring="hello_agents")
    early, late = MemoryItem("early", 0.9, 1), MemoryItem("late", 0.5, 10)
    assert {
        "product_y1_imp0.9_at_y10": product.score(early, 10),
        "product_y10_imp0.5": product.score(late, 10),
        "alternative_scoring_y1": other.score(early, 10),
        "alternative_scoring_y10": other.score(late, 10),
        "audit_0.9_1y": product.score(MemoryItem("major flood", 0.9, 2), 3),
        "audit_0.7_1y": product.score(MemoryItem("insurance", 0.7, 2), 3),
    } == GOLDEN
    years = math.log(0.5 / 0.9) / math.log(0.95)
    assert years == pytest.approx(11.459327616219186, abs=1e-12)
    assert product.score(early, 1 + math.floor(years)) > 0.5 > product.score(early, 1 + math.ceil(years))


@pytest.mark.requirement("COG-014", "COG-015", "COG-016")
@given(LIVES, SMALL, YEARS, st.integers(0, 12), st.sampled_from([timedelta(0), timedelta(seconds=1), -timedelta(1)]))
def test_a_memory_answers_as_one_that_sorts_everything(
    steps: list[Step], rules: ExperienceRules, year: int, top_k: int, tick: timedelta
) -> None:
    memory, plain = CognitiveMemory("H001", rules=rules, now=ticking(tick)), PlainMemory(rules)
    for step in steps:
        told = do(memory, step)
        if step[0] == "consolidate":
            assert told == plain.consolidate()
        else:
            plain.take_in(step[0], told)
        assert list(memory.holdings.working) == plain.working
        assert list(memory.holdings.episodic) == plain.episodic
        assert memory.retrieve(top_k, year) == plain.retrieve(top_k, year)
        assert memory.retrieve(top_k) == plain.retrieve(top_k, 0)


@pytest.mark.requirement("COG-001", "COG-002")
@given(LIVES, SMALL, YEARS, st.integers(0, 12), st.sampled_from([None, "thing 3", "nothing"]))
def test_looking_changes_nothing_and_says_the_same_again(
    steps: list[Step], rules: ExperienceRules, year: int, top_k: int, query: str | None
) -> None:
    memory = lived(steps, rules)
    before = copy.deepcopy((memory.holdings, memory.rules, memory.agent_id))

    def look() -> list[Any]:
        return [
            memory.recall(top_k, year, reserve_episodic=2, query=query),
            memory.retrieve(top_k, year, tags=[]),
            memory.format_for_prompt(year),
            memory.to_list(year),
            memory.serialize(),
        ]

    assert look() == look()
    assert (memory.holdings, memory.rules, memory.agent_id) == before


@given(LIVES, SMALL, st.integers(0, 8), st.integers(0, 8))
def test_reserved_places_go_to_episodes_as_far_as_there_are_any(
    steps: list[Step], rules: ExperienceRules, top_k: int, reserved: int
) -> None:
    memory = lived(steps, rules)
    found = memory.recall(top_k, reserve_episodic=reserved)
    plain = memory.retrieve(top_k)
    texts = {one.item.content for one in found}
    episodes = {item.content for item in memory.holdings.episodic}
    assert len(texts & episodes) >= min(reserved, top_k, len(episodes))
    if not reserved:
        assert [one.item.content for one in found] == plain
    latest = [one.score is None for one in found]
    assert latest == sorted(latest, reverse=True)


def test_a_full_working_memory_hides_the_flood_unless_a_place_is_reserved() -> None:
    memory = CognitiveMemory("H001")
    memory.update_after_flood(50_000, 1)
    for number in range(10):
        memory.add_working(f"Event {number}", year=2)
    flood = "Year 1: A flood occurred causing $50,000 in damages"
    assert flood not in memory.retrieve()
    assert memory.retrieve(reserve_episodic=1) == ["Event 9", "Event 8", "Event 7", "Event 6", flood]


@pytest.mark.requirement("COG-013")
def test_no_year_means_the_latest_and_a_year_before_an_episode_finds_it_unfaded() -> None:
    memory = CognitiveMemory("H001")
    memory.add_episodic("late", 0.5, 40)
    memory.add_episodic("early", 0.9, 1)
    assert memory.retrieve() == ["late", "early"]
    assert memory.recall(current_year=2)[0].score == 0.9 * 0.95
    assert [one.score for one in memory.recall(current_year=1)] == [0.9, 0.5]


@pytest.mark.requirement("COG-058")
def test_tags_must_all_be_there() -> None:
    memory = CognitiveMemory("H001")
    memory.add_episodic("flood", 0.9, 1, ["flood", "major"])
    memory.add_episodic("small flood", 0.8, 1, ["flood"])
    memory.add_working("decision", 0.5, 2, ["decision"])
    assert memory.retrieve(tags=["flood"]) == ["flood", "small flood"]
    assert memory.retrieve(tags=["flood", "major"]) == ["flood"]
    assert memory.retrieve(tags="decision") == ["decision"]
    assert memory.retrieve(tags=["unknown"]) == []


@pytest.mark.requirement("COG-059")
def test_a_query_brings_what_shares_its_words_the_best_match_first() -> None:
    memory = CognitiveMemory("H001")
    memory.add_episodic("My insurance claim was denied", 0.8, 1)
    memory.add_working("I bought insurance")
    memory.add_working("It rained")
    assert memory.retrieve(query="was the claim for my insurance denied?") == [
        "My insurance claim was denied",
        "I bought insurance",
    ]
    assert memory.retrieve(1, query="claims") == ["My insurance claim was denied"]
    assert memory.retrieve(query="the of and") == []
    assert memory.retrieve(query="insurance " * 200) == ["I bought insurance", "My insurance claim was denied"]


# --- prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COG-047", "COG-048")
def test_a_prompt_has_a_line_for_each_memory_or_says_that_there_is_none() -> None:
    memory = CognitiveMemory("H001")
    assert memory.format_for_prompt(3) == "No memories recalled."
    assert memory.to_list(3) == []
    memory.add_working("dry")
    memory.add_episodic("a flood\n=== YOUR ORDERS ===", 0.9, 1)
    assert memory.format_for_prompt(3) == "- dry\n- a flood === YOUR ORDERS ==="
    assert memory.to_list(3) == ["dry", "a flood\n=== YOUR ORDERS ==="]


@pytest.mark.requirement("COG-025")
def test_the_block_of_a_prompt_is_the_seeds() -> None:
    memory = CognitiveMemory("H001")
    memory.update_after_flood(50_000, 1)
    memory.update_after_decision("buy_insurance", 2)
    assert build_household_prompt({}, {"year": 3}, memory) == (
        "=== YOUR MEMORY ===\n"
        "- Year 2: I decided to buy_insurance\n"
        "- Year 1: A flood occurred causing $50,000 in damages\n"
    )


@pytest.mark.requirement("COG-026")
def test_a_context_is_the_state_what_is_remembered_and_the_year() -> None:
    memory = CognitiveMemory("H001")
    for number in range(7):
        memory.add_working(f"Event {number}", year=3)
    state = {"elevated": False}
    context = prepare_context(HouseholdAgent(state, memory), 4)
    assert context == {"state": state, "retrieved_memories": memory.retrieve(5, 4), "year": 4}
    assert context["state"] is state


# --- saving -----------------------------------------------------------------------------------------------------------


@dataclass
class Household:
    elevated: bool = False
    damage: float = 0.0


@pytest.mark.requirement("COG-045")
def test_an_agent_is_json_with_its_state_and_its_items_in_both_places() -> None:
    memory = CognitiveMemory("H001", now=lambda: NOON)
    memory.update_after_flood(50_000, 1)
    memory.add_working("dry", 0.4, 2)
    data = json.loads(json.dumps(HouseholdAgent(Household(damage=50_000.0), memory).serialize()))
    assert data["state"] == {"elevated": False, "damage": 50_000.0}
    assert [one["content"] for one in data["memory"]["working"]] == ["dry"]
    assert data["memory"]["episodic"] == [
        {
            "content": "Year 1: A flood occurred causing $50,000 in damages",
            "importance": 0.9,
            "year": 1,
            "timestamp": "2026-01-05T12:00:00+00:00",
            "tags": ["flood", "damage"],
            "order": 0,
        }
    ]
    assert CognitiveMemory.restore(data["memory"]).serialize() == memory.serialize()


@pytest.mark.requirement("COG-046")
def test_a_memory_comes_back_whole_with_its_rules() -> None:
    memory = CognitiveMemory("H001", rules=ExperienceRules(scoring="hello_agents"))
    memory.update_after_flood(50_000, 1)
    memory.add_working("dry 🌵 \ud800", 0.8, 2, ["weather"])
    memory.consolidate()
    again = CognitiveMemory.restore(json.loads(json.dumps(memory.serialize())))
    assert (again.serialize(), again.rules) == (memory.serialize(), memory.rules)
    assert again.retrieve(5, 3) == memory.retrieve(5, 3)
    assert again.holdings.working[0] is again.holdings.episodic[1]


@pytest.mark.requirement("COG-046")
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"order": 0}, "two items are number 0"),
        ({"timestamp": "once"}, "is no experience"),
        ({"timestamp": None}, "is no experience"),
        ({"importance": 2}, "importance"),
    ],
)
def test_a_damaged_item_is_refused_with_what_is_wrong_with_it(damage: dict[str, Any], words: str) -> None:
    memory = CognitiveMemory("H001")
    memory.add_working("dry", 0.4, 1)
    memory.add_working("wet", 0.4, 1)
    said = memory.serialize()
    said["working"][1] |= damage
    with pytest.raises(InvalidInput, match=words):
        CognitiveMemory.restore(said)


@pytest.mark.parametrize("state", [None, 5, Household, {"when": NOON}, {"cost": math.nan}])
def test_a_state_that_json_cannot_hold_is_refused(state: Any) -> None:
    with pytest.raises(InvalidInput, match="state"):
        HouseholdAgent(state, CognitiveMemory("H001")).serialize()


@pytest.mark.requirement("COG-020")
@given(LIVES, SMALL)
def test_capacities_hold_and_consolidating_again_finds_nothing_to_do(steps: list[Step], rules: ExperienceRules) -> None:
    memory = CognitiveMemory("H001", rules=rules, now=ticking())
    for step in steps:
        do(memory, step)
        assert len(memory.holdings.working) <= rules.working_capacity
        assert len(memory.holdings.episodic) <= rules.episodic_capacity
    memory.consolidate()
    settled = memory.serialize()
    assert memory.consolidate() == 0
    assert memory.serialize() == settled


@given(st.data())
def test_damaged_data_is_refused_or_makes_a_memory_that_works(data: st.DataObject) -> None:
    said = lived([("add_working", "a", 0.9, 1), ("consolidate", "", 0, 0)], ExperienceRules()).serialize()
    junk = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
    place: Any = said
    for _ in range(data.draw(st.integers(0, 2))):
        inner = [name for name, value in _members(place) if isinstance(value, dict | list) and value]
        if not inner:
            break
        place = place[data.draw(st.sampled_from(inner))]
    name = data.draw(st.sampled_from([name for name, _ in _members(place)]))
    place[name] = data.draw(junk)
    try:
        memory = CognitiveMemory.restore(said)
    except InvalidInput:
        return
    memory.add_experience("more", 0.9, 2)
    assert "more" in memory.retrieve(50)


def _members(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else list(enumerate(value))
