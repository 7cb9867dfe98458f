"""What the audit notes of a simulation: its records, and that it never stands in the simulation's way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kingly_memory.cognition.agent_memory import CognitiveMemory, ExperienceRules
from kingly_memory.cognition.audit import AuditTrail, HouseholdOutput, MemoryUpdate, Validation, year_end
from kingly_memory.cognition.skills import SkillRegistry, update_memory_from_skill
from kingly_memory.models import JsonObject

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
AT = NOON.isoformat()


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[tuple[str, JsonObject]] = []

    def append(self, kind: str, record: JsonObject) -> None:
        self.records.append((kind, record))

    @property
    def only(self) -> JsonObject:
        [(_, record)] = self.records
        return record


def ticking() -> Callable[[], datetime]:
    """A clock on which each look is a second later, so that memories have an order."""
    seconds = iter(range(1_000_000))
    return lambda: NOON + timedelta(seconds=next(seconds))


def household(**rules: Any) -> CognitiveMemory:
    return CognitiveMemory("H001", now=ticking(), rules=ExperienceRules(**rules))


def trail() -> tuple[AuditTrail, Kept]:
    kept = Kept()
    return AuditTrail(kept, now=lambda: NOON), kept


# --- memory updates ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COG-029")
def test_where_a_memory_went_is_looked_up_and_not_made_from_its_importance() -> None:
    memory, (audit, kept) = household(), trail()
    decision = memory.update_after_decision("buy_insurance", 1)  # 0.7, and kept in working memory
    minor = memory.add_episodic("a minor flood", 0.6, 1)
    full = household(episodic_capacity=1)
    full.add_episodic("the flood of the century", 1.0, 1)
    dropped = full.add_episodic("a puddle", 0.1, 1)
    for where, item in ((memory, decision), (memory, minor), (full, dropped), (None, minor)):
        audit.log_memory_update("H001", 1, "decision", item, where)
    went = [record["memory_item"]["destination"] for _, record in kept.records]
    assert went == ["working", "episodic", "dropped", None]


# --- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COG-031")
def test_a_tool_invocation_is_noted_with_what_it_gave() -> None:
    memory, (audit, kept) = household(), trail()
    memory.add_episodic("Year 2: A flood occurred causing $50,000 in damages", 0.9, 2)
    memory.add_working("Year 2: I decided to buy_insurance", 0.7, 2)
    called = SkillRegistry.load().invoke("retrieve_memory", "household", memory, top_k=50, current_year=3)
    audit.log_invocation("H001", 3, called)
    assert kept.only == {
        "timestamp": AT,
        "agent_id": "H001",
        "year": 3,
        "tool_invocation": {
            "tool_id": "retrieve_memory",
            "parameters": {"top_k": 5, "current_year": 3},
            "result": [
                "Year 2: I decided to buy_insurance",
                "Year 2: A flood occurred causing $50,000 in damages",
            ],
            "result_count": 2,
        },
    }


# --- consolidation ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COG-030", "COG-057")
def test_a_year_ends_with_consolidation_and_a_note_of_it() -> None:
    memory, (audit, kept) = household(), trail()
    memory.add_working("low", 0.3, 1)
    memory.add_working("high", 0.8, 1)
    memory.add_episodic("earlier", 0.9, 0)
    assert year_end(memory, 1, audit) == 1
    assert kept.records == [
        (
            "consolidations",
            {
                "timestamp": AT,
                "agent_id": "H001",
                "year": 1,
                "consolidation": {
                    "transferred_count": 1,
                    "transferred_items": ["high"],
                    "working_after": 2,
                    "episodic_after": 2,
                },
            },
        )
    ]


@pytest.mark.requirement("COG-057", "COG-020")
def test_a_second_year_end_transfers_nothing_and_says_so() -> None:
    memory, (audit, kept) = household(), trail()
    memory.add_working("high", 0.8, 1)
    assert [year_end(memory, 1), year_end(memory, 2, audit)] == [1, 0]
    assert kept.only["consolidation"]["transferred_items"] == []


# --- the trace --------------------------------------------------------------------------------------------------------


def third_year() -> tuple[CognitiveMemory, JsonObject]:
    """A household that elevates its house in year 3, and the trace of that year."""
    memory, (audit, kept) = household(), trail()
    memory.add_episodic("Year 2: A major flood caused $50,000 in damages", 0.9, 2)
    memory.add_episodic("Year 2: I purchased flood insurance (premium: $1,200)", 0.7, 2)
    before = {"elevated": False, "has_insurance": True, "cumulative_damage": 50_000}
    context = {"retrieved_memories": memory.retrieve(5, 3), "year": 3}
    item = update_memory_from_skill(memory, "elevate_house", 3, {"subsidy_pct": 0.5})
    assert item is not None
    output = HouseholdOutput(
        "H001",
        3,
        decision_skill="elevate_house",
        skill_parameters={"subsidy_rate": 0.5},
        constructs={"TP": {"level": "HIGH", "explanation": "Experienced major damage last year"}},
        justification="Given my past flood experience",
        memory_update=MemoryUpdate("skill_execution", item),
        validation=Validation(warnings=("low funds",)),
        state_after={**before, "elevated": True},
    )
    audit.write_household_trace(output, before, context, memory)
    [(kind, record)] = kept.records
    assert kind == "household_traces"
    return memory, record


@pytest.mark.requirement("COG-033", "COG-034")
def test_a_trace_has_the_whole_of_a_households_year() -> None:
    _, trace = third_year()
    assert [*trace] == [
        "timestamp",
        "year",
        "agent_id",
        "state_before",
        "memory",
        "reasoning",
        "action",
        "memory_update",
        "validation",
        "state_after",
    ]
    assert (trace["timestamp"], trace["year"], trace["agent_id"]) == (AT, 3, "H001")
    assert trace["state_before"] == {"elevated": False, "has_insurance": True, "cumulative_damage": 50_000}
    assert trace["reasoning"] == {
        "constructs": {"TP": {"level": "HIGH", "explanation": "Experienced major damage last year"}},
        "justification": "Given my past flood experience",
    }
    assert trace["action"] == {"decision_skill": "elevate_house", "skill_parameters": {"subsidy_rate": 0.5}}
    assert trace["memory_update"] == {
        "type": "skill_execution",
        "content": "Year 3: I elevated my house with 50% subsidy",
        "importance": 0.8,
        "destination": "episodic",
    }
    assert trace["validation"] == {"valid": True, "errors": (), "warnings": ("low funds",)}
    assert trace["state_after"] == {"elevated": True, "has_insurance": True, "cumulative_damage": 50_000}


@pytest.mark.requirement("COG-027")
def test_a_trace_shows_the_memory_as_it_is_afterwards_and_what_was_read_before() -> None:
    memory, trace = third_year()
    told = trace["memory"]
    assert (told["working_count"], told["episodic_count"]) == (0, 3)
    assert told["working_items"] == []
    assert told["episodic_items"][0] == {
        "content": "Year 2: A major flood caused $50,000 in damages",
        "importance": 0.9,
        "year": 2,
    }
    assert told["retrieved"] == [one.content for one in memory.holdings.episodic[:2]]


@pytest.mark.requirement("COG-032")
def test_a_trace_has_the_scores_of_what_was_retrieved() -> None:
    _, trace = third_year()
    scores = [one["score"] for one in trace["memory"]["retrieval_scores"]]
    assert scores == pytest.approx([0.855, 0.665], abs=1e-12)
    assert [one["content"] for one in trace["memory"]["retrieval_scores"]] == trace["memory"]["retrieved"]


@pytest.mark.requirement("COG-028")
def test_a_trace_shows_at_most_ten_episodes() -> None:
    memory, (audit, kept) = household(), trail()
    for number in range(15):
        memory.add_episodic(f"flood {number}", 0.9, 1)
    audit.write_household_trace(HouseholdOutput("H001", 1), {}, {}, memory)
    told = kept.only["memory"]
    assert (len(told["episodic_items"]), told["episodic_count"], len(told["retrieved"])) == (10, 15, 5)
    assert told["episodic_items"][0]["content"] == "flood 0"


# --- trouble ----------------------------------------------------------------------------------------------------------


def test_an_output_that_cannot_be_traced_is_said_once_and_the_simulation_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory, (audit, kept) = household(), trail()
    with caplog.at_level(logging.WARNING, "kingly_memory"):
        for _ in range(3):
            audit.write_household_trace(SimpleNamespace(agent_id="H9"), {}, {}, memory)
    assert caplog.messages == [
        "audit: no record of a household's year (output: has no `year`; a trace needs an agent_id and a year); "
        "the simulation goes on"
    ]
    assert (audit.failures, kept.records) == (3, [])
