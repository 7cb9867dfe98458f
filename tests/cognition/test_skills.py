"""What skills leave in memory, a user's own ones, and the tool that retrieves."""

from __future__ import annotations

import copy
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import InvalidInput
from kingly_memory.cognition.agent_memory import CognitiveMemory
from kingly_memory.cognition.skills import (
    LIMIT_BYTES,
    Skill,
    SkillMap,
    SkillRegistry,
    Template,
    update_memory_from_skill,
)

ACTED: dict[str, dict[str, Any]] = {
    "buy_insurance": {"premium": 1200.4},
    "elevate_house": {"subsidy_pct": 0.5},
    "relocate": {},
    "do_nothing": {},
}


def household() -> CognitiveMemory:
    return CognitiveMemory("H001")


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def one_update(text: str, folder: Path) -> Path:
    return written(folder, f"memory_updates:\n  rest: {{{text}}}\n")


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
    assert memory.place == (((), (item,)) if is_episode else ((item,), ()))


@pytest.mark.requirement("COG-036")
@pytest.mark.parametrize("skill", ["dance", "", "Buy_Insurance"])
def test_a_skill_that_is_not_known_leaves_nothing(skill: str) -> None:
    memory = household()
    assert update_memory_from_skill(memory, skill, 3, {"premium": 1}) is None
    assert memory.place == ((), ())


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


@pytest.mark.parametrize("premium", [float("nan"), float("inf"), True, [1], object(), 10**400, "x" * 10])
def test_a_figure_that_is_none_is_left_out(premium: object) -> None:
    item = update_memory_from_skill(household(), "buy_insurance", 3, {"premium": premium})
    assert item is not None
    assert item.content == "Year 3: I purchased flood insurance"


def test_a_context_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="context: expected names with values, not list"):
        update_memory_from_skill(household(), "relocate", 3, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("year", [-1, 2.0, "3", None, object()])
def test_a_year_that_is_none_is_refused_and_nothing_is_stored(year: int) -> None:
    memory = household()
    with pytest.raises(InvalidInput, match="year"):
        update_memory_from_skill(memory, "buy_insurance", year)
    assert memory.place == ((), ())


# --- a user's own skills ----------------------------------------------------------------------------------------------


def test_a_file_of_ones_own_goes_over_the_packaged_one_field_by_field(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
memory_updates:
  plant_trees:
    template: "Year {year}: I planted {count:,} trees by the {place}"
    importance: 0.75
    tags: [decision, trees]
  do_nothing: {importance: 0.1}
  relocate: null
""",
    )
    skills = SkillMap.load(path)
    assert [*skills] == ["buy_insurance", "elevate_house", "do_nothing", "plant_trees"]
    memory = household()
    planted = update_memory_from_skill(memory, "plant_trees", 2, {"count": 1200, "place": "river"}, skills=skills)
    without = update_memory_from_skill(memory, "plant_trees", 2, skills=skills)
    waited = update_memory_from_skill(memory, "do_nothing", 2, skills=skills)
    assert planted is not None
    assert without is not None
    assert waited is not None
    assert (planted.content, planted.tags) == ("Year 2: I planted 1,200 trees by the river", ["decision", "trees"])
    assert without.content == "Year 2: I decided to plant_trees"
    assert (waited.importance, waited.tags) == (0.1, ["decision", "inaction"])
    assert update_memory_from_skill(memory, "relocate", 2, skills=skills) is None
    assert update_memory_from_skill(memory, "relocate", 2) is not None


@pytest.mark.parametrize(
    "template",
    [
        "{0.__class__}",
        "{year.__class__.__mro__}",
        "{premium[0]}",
        "{premium!r}",
        "{premium:{year}}",
        "{premium:>999999999}",
        "{premium:.999999f}",
        "{}",
        "{0}",
        "{premium:%Y}",
        "{a b}",
        "{",
        "}",
        "{year",
    ],
)
def test_a_template_is_names_with_formats_and_nothing_else(template: str, tmp_path: Path) -> None:
    path = one_update(f'template: "{template}", importance: 0.5', tmp_path)
    with pytest.raises(InvalidInput, match=r"mine\.yaml: skill 'rest': template ") as caught:
        SkillMap.load(path)
    assert template in str(caught.value) or "cannot be read" in str(caught.value)


def test_values_that_format_themselves_are_never_asked() -> None:
    class Sly(str):
        __slots__ = ()

        def __format__(self, form: str) -> str:
            raise AssertionError("ran")

        def __str__(self) -> str:
            raise AssertionError("ran")

    class Slier(float):
        def __format__(self, form: str) -> str:
            raise AssertionError("ran")

    template = Template.read("{a} {b:.1f}")
    assert template.filled({"a": Sly("plain"), "b": Slier(2.25)}) == "plain 2.2"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("importance: 0.5", "template has to be a text"),
        ('template: "", importance: 0.5', "template has to be a text"),
        (f'template: "{"x" * 1001}", importance: 0.5', "template has 1,001 characters, at most 1,000 are allowed"),
        ("template: x", "importance expected a number from 0 to 1, not None"),
        ("template: x, importance: 1.5", "importance 1.5 is outside 0 to 1"),
        ("template: x, importance: true", "importance expected a number from 0 to 1, not bool"),
        ("template: x, importance: 0.5, tags: flood", "tags has to be a list of texts"),
        ("template: x, importance: 0.5, tags: [1]", "tags has to be a list of texts"),
        ("template: x, importanse: 0.5", "'importanse' is no field of it; choose of template, fallback, importance"),
        ('template: x, importance: 0.5, fallback: "{premium}"', "fallback may name the year alone"),
    ],
)
def test_a_wrong_field_is_named_with_its_file_and_skill(fields: str, problem: str, tmp_path: Path) -> None:
    path = one_update(fields, tmp_path)
    with pytest.raises(InvalidInput) as caught:
        SkillMap.load(path)
    assert str(caught.value).startswith(f"skills: {path}: skill 'rest': {problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("memory_updates: [", "is no YAML (line"),
        ("\t", "is no YAML"),
        ("a: 2026-99-99", "is no YAML"),
        ("- one", "has "),
        ("just text", "has 'just text' at its top"),
        ("skills: {}", "has 'skills' at its top; it may hold memory_updates and memory_tools"),
        ("memory_updates: [x]", "memory_updates has to hold a name for each skill"),
        ("memory_updates: {rest: 7}", "skill 'rest': has to hold fields"),
        ("memory_updates: {1: {}}", "a skill without a name"),
        ("memory_updates: &a {rest: *a}", "skill 'rest': 'rest' is no field of it"),
        ("a: " + "[" * 60_000, "is no YAML"),
        ("memory_updates: !!python/object/apply:os.system [exit]", "is no YAML"),
        ("#" * (LIMIT_BYTES + 1), "has more than 65,536 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(text: str, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidInput) as caught:
        SkillMap.load(path)
    assert str(caught.value).startswith(f"skills: {path}: {problem}")


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, problem in (
        (tmp_path / "nowhere.yaml", "cannot be read (No such file or directory)"),
        (tmp_path, "cannot be read (Is a directory)"),
        (tmp_path / "pipe", "is no file; name another one"),
        (Path("\0"), "cannot be read (embedded null byte)"),
    ):
        with pytest.raises(InvalidInput) as caught:
            SkillMap.load(path)
        assert str(caught.value).endswith(problem)


# --- the tool ---------------------------------------------------------------------------------------------------------


def experienced() -> CognitiveMemory:
    memory = household()
    for year in range(9):
        memory.add_episodic(f"flood of year {year}", 0.9, year, ["flood"])
    memory.add_working("I waited", 0.3, 8)
    return memory


@pytest.mark.requirement("COG-022")
def test_the_registry_has_retrieval_as_a_tool_for_everyone() -> None:
    skill = SkillRegistry.load().get("retrieve_memory")
    assert skill == Skill(
        skill_id="retrieve_memory",
        description="Retrieve relevant past experiences for decision making",
        eligible_agent_types=("*",),
        preconditions=(),
        max_retrieve=5,
        implementation_mapping="memory.retrieve",
        parameters={"top_k": 5},
    )
    assert skill.refusal("household") is None


@pytest.mark.requirement("COG-022")
def test_the_registry_is_a_file_of_the_package() -> None:
    text = files("kingly_memory.cognition").joinpath("skills.yaml").read_text(encoding="utf-8")
    assert "memory_tools:\n  - skill_id: retrieve_memory\n" in text


@pytest.mark.requirement("COG-023")
@pytest.mark.parametrize(("asked", "given"), [(50, 5), (5, 5), (2, 2), (0, 0), (None, 5)])
def test_the_tool_never_gives_more_than_five(asked: int | None, given: int) -> None:
    memory = experienced()
    called = SkillRegistry.load().invoke("retrieve_memory", "household", memory, top_k=asked, current_year=8)
    assert called is not None
    assert (len(called.result), called.parameters) == (given, {"top_k": given, "current_year": 8})
    assert [*called.result] == memory.retrieve(given, 8)
    assert len(memory.retrieve(50, 8)) == 10


@pytest.mark.requirement("COG-024")
def test_the_tool_changes_nothing() -> None:
    memory = experienced()
    before = copy.deepcopy(memory.serialize())
    registry = SkillRegistry.load()
    registry.invoke("retrieve_memory", "household", memory, top_k=5, current_year=8, query="flood", tags=["flood"])
    assert memory.serialize() == before
    assert all(skill.allowed_state_changes == () for skill in registry)


def test_a_tool_that_is_not_known_is_none() -> None:
    assert SkillRegistry.load().invoke("forget_everything", "household", experienced()) is None


def test_arguments_that_make_no_sense_are_refused() -> None:
    registry, memory = SkillRegistry.load(), experienced()
    with pytest.raises(InvalidInput, match="depth: unknown argument; retrieve_memory takes top_k, current_year"):
        registry.invoke("retrieve_memory", "household", memory, depth=3)
    for wrong in (-1, "five", True, 1_001):
        with pytest.raises(InvalidInput, match="top_k"):
            registry.invoke("retrieve_memory", "household", memory, top_k=wrong)


TOOLS = """
memory_tools:
  - skill_id: recall_floods
    description: Floods alone
    eligible_agent_types: [insurer]
    preconditions: [has_insurance, not relocated]
    institutional_constraints: {max_retrieve: 2}
    implementation_mapping: memory.retrieve
    parameters: {top_k: 5, tags: [flood]}
"""


@pytest.mark.parametrize(
    ("agent_type", "state", "refused"),
    [
        ("insurer", {"has_insurance": True}, None),
        ("insurer", {"has_insurance": 1, "relocated": False}, None),
        ("household", {"has_insurance": True}, "agents of the type 'household' may not call recall_floods"),
        ("insurer", {}, "recall_floods may be called when `has_insurance`, and it is not so"),
        ("insurer", None, "recall_floods may be called when `has_insurance`, and it is not so"),
        (
            "insurer",
            {"has_insurance": True, "relocated": True},
            "recall_floods may be called when `not relocated`, and it is not so",
        ),
    ],
)
def test_a_tool_of_ones_own_is_for_some_and_under_conditions(
    agent_type: str, state: dict[str, Any] | None, refused: str | None, tmp_path: Path
) -> None:
    registry = SkillRegistry.load(written(tmp_path, TOOLS))
    called = registry.invoke("recall_floods", agent_type, experienced(), state=state)
    assert called is not None
    assert called.refused == refused
    assert called.result == (() if refused else ("flood of year 8", "flood of year 7"))
    names = [one.skill_id for one in registry.eligible(agent_type, state)]
    assert names == ["retrieve_memory", *([] if refused else ["recall_floods"])]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("implementation_mapping: os.system", "implementation_mapping 'os.system' is unknown; choose memory.retrieve"),
        ("allowed_state_changes: [working]", "allowed_state_changes has to be empty, for tools only read"),
        ("institutional_constraints: {max_retrieve: lots}", "max_retrieve expected a whole number, not str"),
        ("institutional_constraints: {budget: 3}", "'budget' is no constraint that can be kept here"),
        ("institutional_constraints: 3", "institutional_constraints has to hold names with values"),
        ("parameters: {top_k: -1}", "top_k -1 is outside 0 to 1,000"),
        ("parameters: {depth: 1}", "'depth' is no parameter; choose of top_k"),
        ("preconditions: has_insurance", "preconditions has to be a list of texts"),
        ("mapping: memory.retrieve", "'mapping' is no field of it"),
    ],
)
def test_a_tool_that_cannot_be_kept_to_is_refused(fields: str, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"memory_tools:\n  - skill_id: retrieve_memory\n    {fields}\n")
    with pytest.raises(InvalidInput) as caught:
        SkillRegistry.load(path)
    assert str(caught.value).startswith(f"skills: {path}: skill 'retrieve_memory': {problem}")


@pytest.mark.parametrize("text", ["memory_tools: {}", "memory_tools: [x]", "memory_tools: [{description: x}]"])
def test_tools_are_a_list_with_ids(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="memory_tools has to be a list, each entry with a `skill_id`"):
        SkillRegistry.load(written(tmp_path, text))
