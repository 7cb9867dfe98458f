"""The tests of seed 001, §7, under their own names."""

from __future__ import annotations

from typing import Any

import pytest

from kingly_memory.cognition.agent_memory import ExperienceRules
from kingly_memory.seeds.household import CognitiveMemory, HouseholdAgent


@pytest.mark.requirement("COG-011", "COG-049")
def test_memory_add_working() -> None:
    mem = CognitiveMemory(agent_id="H001")
    for i in range(12):
        mem.add_working(f"Event {i}", importance=0.5)

    assert len(mem._working) == 10
    assert "Event 0" not in [m.content for m in mem._working]


@pytest.mark.requirement("COG-009", "COG-050")
def test_memory_add_episodic() -> None:
    mem = CognitiveMemory(agent_id="H001")
    mem.add_episodic("Major flood", importance=0.9, year=3)

    assert len(mem._episodic) == 1
    assert mem._episodic[0].tags == []


@pytest.mark.requirement("COG-019", "COG-051")
def test_memory_consolidation() -> None:
    mem = CognitiveMemory(agent_id="H001")
    mem.add_working("Low importance", importance=0.3)
    mem.add_working("High importance", importance=0.8)

    transferred = mem.consolidate()
    assert transferred == 1
    assert len(mem._episodic) == 1


@pytest.mark.requirement("COG-014", "COG-052")
def test_memory_retrieval_priority() -> None:
    mem = CognitiveMemory(agent_id="H001")
    mem.add_episodic("Old event", importance=0.9, year=1)
    mem.add_working("Recent event", importance=0.5, year=5)

    retrieved = mem.retrieve(top_k=2, current_year=5)
    assert retrieved[0] == "Recent event"


@pytest.mark.requirement("COG-053")
@pytest.mark.parametrize(
    ("scoring", "first"),
    [("product", "Year 1 event"), ("hello_agents", "Year 10 event")],
    ids=["0.9 x 0.95^9 is more than 0.5", "the comment holds under the other scoring"],
)
def test_memory_retrieval_decay(scoring: str, first: str) -> None:
    """The seed asserts no order. Its comment is false under its own formula before twelve years have passed."""
    mem = CognitiveMemory(agent_id="H001", rules=ExperienceRules(scoring=scoring))  # type: ignore[arg-type]  # one of two
    mem.add_episodic("Year 1 event", importance=0.9, year=1)
    mem.add_episodic("Year 10 event", importance=0.5, year=10)

    retrieved = mem.retrieve(top_k=2, current_year=10)
    assert retrieved[0] == first
    assert len(retrieved) == 2


@pytest.mark.requirement("COG-054")
def test_memory_with_flood_decision_cycle() -> None:
    mem = CognitiveMemory("H001")
    agent = HouseholdAgent(state={}, memory=mem)

    agent.memory.update_after_flood(damage=50000, year=1)
    assert len(mem._episodic) == 1

    memories = agent.memory.retrieve(top_k=5, current_year=2)
    assert "flood" in memories[0].lower()

    agent.memory.update_after_decision("buy_insurance", year=2)
    assert len(mem._working) == 1


@pytest.mark.requirement("COG-055")
def test_memory_serialization() -> None:
    mem = CognitiveMemory(agent_id="H001")
    mem.add_episodic("Event 1", importance=0.9, year=1)
    mem.add_working("Event 2", importance=0.5, year=2)

    data: dict[str, list[dict[str, Any]]] = {
        "working": [{"content": m.content, "importance": m.importance} for m in mem._working],
        "episodic": [{"content": m.content, "importance": m.importance} for m in mem._episodic],
    }

    new_mem = CognitiveMemory(agent_id="H001")
    for item in data["working"]:
        new_mem.add_working(item["content"], item["importance"])
    for item in data["episodic"]:
        new_mem.add_episodic(item["content"], item["importance"])

    assert len(new_mem._working) == 1
    assert len(new_mem._episodic) == 1
