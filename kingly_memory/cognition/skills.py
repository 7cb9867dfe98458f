"""Skills: what carrying one out leaves in memory, and which an agent may call as a tool (seed 001, §8 and §10).

Both are data, in the packaged `skills.yaml`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from kingly_memory import validation
from kingly_memory.cognition.agent_memory import TOP_K, CognitiveMemory, MemoryItem
from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject


@dataclass(frozen=True, slots=True)
class SkillUpdate:
    """What a skill leaves: a text with the year and figures of a context in braces (`{premium:.0f}`), how much it
    matters, and tags. The fallback is said when the context lacks a figure, and names the year alone."""

    template: str
    importance: float
    tags: tuple[str, ...] = ()
    fallback: str | None = None


@cache
def skill_updates() -> Mapping[str, SkillUpdate]:
    """By the name of each packaged skill, what carrying it out leaves in memory."""
    updates = _packaged()["memory_updates"].items()
    return {name: SkillUpdate(**{**fields, "tags": tuple(fields["tags"])}) for name, fields in updates}


def update_memory_from_skill(
    memory: CognitiveMemory,
    skill_id: str,
    year: int,
    context: Mapping[str, Any] | None = None,
    *,
    skills: Mapping[str, SkillUpdate] | None = None,
) -> MemoryItem | None:
    """Remember that a skill was carried out, as an episode if it matters enough; None for one that is not known.

    `context` has the figures of its text, which does without them where they are missing. `skills` stand in the place
    of the packaged ones. Raises InvalidInput.
    """
    if not isinstance(context, Mapping | None):
        raise InvalidInput("context", f"expected names with values, not {type(context).__name__}")
    update = (skill_updates() if skills is None else skills).get(skill_id)
    if update is None:
        return None
    try:
        content = update.template.format(**{**(context or {}), "year": year})
    except (KeyError, ValueError, TypeError):
        content = (update.fallback or f"Year {{year}}: I decided to {skill_id}").format(year=year)
    return memory.add_experience(content, update.importance, year, update.tags)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call of a tool, with the parameters it was carried out with."""

    tool_id: str
    parameters: JsonObject
    result: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skill:
    """A tool, in the seed's words; it changes nothing."""

    skill_id: str
    description: str
    eligible_agent_types: Collection[str]
    preconditions: Collection[str]
    institutional_constraints: Mapping[str, int]
    allowed_state_changes: Collection[str]
    implementation_mapping: str
    parameters: Mapping[str, Any]

    def invoke(self, memory: CognitiveMemory, **given: Any) -> Invocation:
        """Retrieve by what the caller gives, which `CognitiveMemory.retrieve` takes, else by the tool's parameters;
        never more than its `max_retrieve` memories. Raises InvalidInput."""
        arguments = {name: value for name, value in given.items() if value is not None}
        chosen = {"top_k": TOP_K, "current_year": 0, **self.parameters, **arguments}
        top_k = validation.count("top_k", chosen["top_k"], least=0, most=validation.RESULTS_LIMIT)
        chosen["top_k"] = min(top_k, self.institutional_constraints["max_retrieve"])
        return Invocation(self.skill_id, chosen, tuple(memory.retrieve(**chosen)))


class SkillRegistry(dict[str, Skill]):
    """The tools there are, by their ids."""

    @classmethod
    def load(cls) -> SkillRegistry:
        """The packaged tools."""
        return cls({fields["skill_id"]: Skill(**fields) for fields in _packaged()["memory_tools"]})

    def invoke(self, skill_id: str, agent_type: str, memory: CognitiveMemory, **given: Any) -> Invocation | None:
        """Call a tool for an agent; None for one that is not known, or not for such agents. Raises InvalidInput."""
        skill = self.get(skill_id)
        is_eligible = skill is not None and not {"*", agent_type}.isdisjoint(skill.eligible_agent_types)
        return skill.invoke(memory, **given) if skill is not None and is_eligible else None


@cache
def _packaged() -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped,unused-ignore]  # typed where its stubs are installed

    packaged: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("skills.yaml").read_bytes())
    return packaged
