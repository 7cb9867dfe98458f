"""Which tools an agent may call while it reasons, and calling them (seed 001, §8): retrieval as a governed skill."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kingly_memory import intake
from kingly_memory.cognition.experience import skill_files
from kingly_memory.cognition.experience.cognitive import TOP_K, CognitiveMemory
from kingly_memory.cognition.experience.guideline import MAX_RETRIEVE
from kingly_memory.cognition.experience.skill_files import Entry
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

EVERYONE = "*"


def _retrieve(memory: CognitiveMemory, **chosen: Any) -> list[str]:
    return memory.retrieve(**chosen)


IMPLEMENTATIONS: Final[Mapping[str, Callable[..., list[str]]]] = {"memory.retrieve": _retrieve}
"""What a tool may do. None of it changes anything."""

_FIELDS = (
    "description",
    "eligible_agent_types",
    "preconditions",
    "institutional_constraints",
    "allowed_state_changes",
    "implementation_mapping",
    "parameters",
)
_PARAMETERS = ("top_k", "current_year", "tags", "query", "reserve_episodic")
_LONGEST = 1_000
_NOT = "not "


@dataclass(frozen=True, slots=True)
class Skill:
    """A tool. `preconditions` are names in the agent's state that must be true, or false after `not `."""

    skill_id: str
    description: str
    eligible_agent_types: tuple[str, ...]
    preconditions: tuple[str, ...]
    max_retrieve: int
    implementation_mapping: str
    parameters: Mapping[str, Any]

    @property
    def allowed_state_changes(self) -> tuple[str, ...]:
        """None: tools read."""
        return ()

    @classmethod
    def read(cls, entry: Entry) -> Skill:
        """Raises InvalidInput that names the file and the skill."""
        entry.check_fields(_FIELDS)
        mapping = entry.text("implementation_mapping", most=_LONGEST)
        if mapping not in IMPLEMENTATIONS:
            known = ", ".join(IMPLEMENTATIONS)
            raise entry.fault(f"implementation_mapping {mapping[:40]!r} is unknown; choose {known}")
        if entry.texts("allowed_state_changes"):
            raise entry.fault("allowed_state_changes has to be empty, for tools only read")
        return cls(
            skill_id=entry.skill,
            description=entry.text("description", most=_LONGEST),
            eligible_agent_types=entry.texts("eligible_agent_types", (EVERYONE,)),
            preconditions=entry.texts("preconditions"),
            max_retrieve=_constraint(entry),
            implementation_mapping=mapping,
            parameters=_parameters(entry),
        )

    def refusal(self, agent_type: str, state: Mapping[str, Any] | None = None) -> str | None:
        """Why an agent of that type, in that state, may not call it; None when it may."""
        if EVERYONE not in self.eligible_agent_types and agent_type not in self.eligible_agent_types:
            return f"agents of the type {intake.shown(agent_type)!r} may not call {self.skill_id}"
        for one in self.preconditions:
            name = one.removeprefix(_NOT).strip()
            if bool((state or {}).get(name)) is one.startswith(_NOT):
                return f"{self.skill_id} may be called when `{one}`, and it is not so"
        return None

    def arguments(self, **given: Any) -> JsonObject:
        """What a call is carried out with: what the caller says over what the tool says, within its constraint.

        Raises InvalidInput.
        """
        strange = next((name for name in given if name not in _PARAMETERS), None)
        if strange is not None:
            raise InvalidInput(strange, f"unknown argument; {self.skill_id} takes {', '.join(_PARAMETERS)}")
        chosen = {"top_k": TOP_K, "current_year": 0, **self.parameters}
        chosen |= {name: value for name, value in given.items() if value is not None}
        asked = intake.count("top_k", chosen["top_k"], least=0, most=intake.RESULTS_LIMIT)
        return {**chosen, "top_k": min(asked, self.max_retrieve)}


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call of a tool. `parameters` are those it was carried out with; `refused` says why it was not."""

    tool_id: str
    parameters: JsonObject
    result: tuple[str, ...] = ()
    refused: str | None = None


class SkillRegistry:
    """The tools there are, by their ids."""

    def __init__(self, skills: Collection[Skill]) -> None:
        self._skills = {one.skill_id: one for one in skills}

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> SkillRegistry:
        """The packaged tools, with what a YAML file of yours says over them. Raises InvalidInput that names file and
        skill."""
        return cls([Skill.read(entry) for entry in skill_files.tools(path)])

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def get(self, skill_id: str) -> Skill | None:
        return self._skills.get(skill_id)

    def eligible(self, agent_type: str, state: Mapping[str, Any] | None = None) -> list[Skill]:
        """The tools that such an agent may call."""
        return [one for one in self if one.refusal(agent_type, state) is None]

    def invoke(
        self,
        skill_id: str,
        agent_type: str,
        memory: CognitiveMemory,
        *,
        state: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Invocation | None:
        """Call a tool for an agent; None for one that is not known. Changes nothing in the memory.

        Never more than the tool's `max_retrieve` memories come back, whatever `top_k` asks for. Raises InvalidInput.
        """
        skill = self._skills.get(skill_id)
        if skill is None:
            return None
        chosen = skill.arguments(**given)
        refused = skill.refusal(agent_type, state)
        if refused is not None:
            return Invocation(skill_id, chosen, refused=refused)
        found = IMPLEMENTATIONS[skill.implementation_mapping](memory, **chosen)
        return Invocation(skill_id, chosen, tuple(found))


def _constraint(entry: Entry) -> int:
    constraints = entry.group("institutional_constraints")
    strange = next((name for name in constraints if name != "max_retrieve"), None)
    if strange is not None:
        raise entry.fault(f"{str(strange)[:40]!r} is no constraint that can be kept here; there is max_retrieve")
    return _counted(entry, "max_retrieve", constraints.get("max_retrieve", MAX_RETRIEVE))


def _parameters(entry: Entry) -> JsonObject:
    given = entry.group("parameters")
    strange = next((name for name in given if name not in _PARAMETERS), None)
    if strange is not None:
        raise entry.fault(f"{str(strange)[:40]!r} is no parameter; choose of {', '.join(_PARAMETERS)}")
    _counted(entry, "top_k", given.get("top_k", TOP_K))
    return dict(given)


def _counted(entry: Entry, name: str, value: object) -> int:
    try:
        return intake.count(name, value, least=0, most=intake.RESULTS_LIMIT)
    except InvalidInput as error:
        raise entry.fault(f"{name} {error.problem}") from None
