"""What skills leave in memory, a user's own ones, and the tool that retrieves."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from kingly_memory import InvalidInput
from kingly_memory.cognition.agent_memory import CognitiveMemory
from kingly_memory.cognition.skills import Skill, SkillRegistry, SkillUpdate, update_memory_from_skill

ACTED: dict[str, dict[str, Any]] = {
    "buy_insurance": {"premium": 1200.4},
    "elevate_house": {"subsidy_pct": 0.5},
    "relocate": {},
    "do_nothing": {},
}


def household() -> CognitiveMemory:
    return CognitiveMemory("H001")


# --- the map ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COG-035")
@pytest.mark.parametrize(
    ("skill", "said", "importance", "tags", "is_episode"),
    [
        ("buy_insurance", "I purchased flood insurance (premium: $1200)", 0.7, ["decision", "insurance"], True),
        ("elevate_house", "I elevated my house with 50% subsidy", 0.8, ["decision", "elevation"], True),
        ("relocate", "I relocated to a safer area", 0.9, ["decision", "relocation"], True),
        ("do_nothing", "I chose to wait and not take protective action", 0.3, ["decision", "inaction"], False),
    ],
)
def test_each_skill_leaves_what_the_map_says(
    skill: str, said: str, importance: float, tags: list[str], is_episode: bool
) -> None:
    memory = household()
    item = update_memory_from_skill(memory, skill, 3, ACTED[skill])
    assert item is not None
    assert (item.content, item.importance, item.year, item.tags) == (f"Year 3: {said}", importance, 3, tags)
    assert memory.holdings[:2] == (((), (item,)) if is_episode else ((item,), ()))


@pytest.mark.requirement("COG-036")
@pytest.mark.parametrize("skill", ["dance", "", "Buy_Insurance"])
def test_a_skill_that_is_not_known_leaves_nothing(skill: str) -> None:
    memory = household()
    assert update_memory_from_skill(memory, skill, 3, {"premium": 1}) is None
    assert memory.holdings[:2] == ((), ())


@pytest.mark.requirement("COG-037")
@pytest.mark.parametrize("context", [None, {}, {"premium": None, "subsidy_pct": None}, {"premium": "cheap"}])
def test_templates_do_without_the_figures_that_are_missing(context: dict[str, Any] | None) -> None:
    said = [update_memory_from_skill(household(), skill, 3, context) for skill in ACTED]
    assert [item.content for item in said if item is not None] == [
        "Year 3: I purchased flood insurance",
        "Year 3: I elevated my house",
        "Year 3: I relocated to a safer area",
        "Year 3: I chose to wait and not take protective action",
    ]


def test_a_context_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="context: expected names with values, not list"):
        update_memory_from_skill(household(), "relocate", 3, [])  # type: ignore[arg-type]


def test_skills_of_ones_own_stand_in_the_place_of_the_packaged_ones() -> None:
    trees = SkillUpdate("Year {year}: I planted {count:,} trees", 0.75, ("trees",), "Year {year}: I planted trees")
    skills = {"plant_trees": trees, "rest": SkillUpdate("{nobody.knows}", 0.1)}
    memory = household()
    left = [
        update_memory_from_skill(memory, skill, 2, figures, skills=skills)
        for skill, figures in (("plant_trees", {"count": 1200}), ("plant_trees", None), ("rest", {}), ("relocate", {}))
    ]
    assert [None if item is None else item.content for item in left] == [
        "Year 2: I planted 1,200 trees",
        "Year 2: I planted trees",
        "Year 2: I decided to rest",
        None,
    ]


# --- the tool ---------------------------------------------------------------------------------------------------------


def experienced() -> CognitiveMemory:
    memory = household()
    for year in range(9):
        memory.add_episodic(f"flood of year {year}", 0.9, year, ["flood"])
    memory.add_working("I waited", 0.3, 8)
    return memory


@pytest.mark.requirement("COG-022")
def test_the_registry_has_retrieval_as_a_tool_for_everyone_from_a_file_of_the_package() -> None:
    assert SkillRegistry.load() == {
        "retrieve_memory": Skill(
            skill_id="retrieve_memory",
            description="Retrieve relevant past experiences for decision making",
            eligible_agent_types=["*"],
            preconditions=[],
            institutional_constraints={"max_retrieve": 5},
            allowed_state_changes=[],
            implementation_mapping="memory.retrieve",
            parameters={"top_k": 5},
        )
    }
    text = files("kingly_memory.cognition").joinpath("skills.yaml").read_text(encoding="utf-8")
    assert "memory_tools:\n  - skill_id: retrieve_memory\n" in text


def test_a_tool_that_is_not_known_or_not_for_such_agents_is_none() -> None:
    registry = SkillRegistry.load()
    assert registry.invoke("forget_everything", "household", experienced()) is None
    registry["retrieve_memory"] = replace(registry["retrieve_memory"], eligible_agent_types=["insurer"])
    assert registry.invoke("retrieve_memory", "household", experienced()) is None
    assert registry.invoke("retrieve_memory", "insurer", experienced()) is not None
