"""Skills: what carrying one out leaves in memory, and which an agent may call as a tool (seed 001, §8 and §10).

Both are data: the packaged `skills.yaml`, and a user's file over it. Reading one runs nothing, whoever wrote it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from numbers import Real
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from kingly_memory import validation
from kingly_memory.cognition.agent_memory import TOP_K, CognitiveMemory, MemoryItem
from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.validation import mended

LIMIT_BYTES = 65_536
"""Of a file. A larger one can hold a row of figures and colons that YAML takes minutes to read as a number."""
UPDATES, TOOLS = "memory_updates", "memory_tools"
TEXT_LIMIT = 1_000
"""Characters of a template, of a description, and of one text that a context puts into a template."""
MAX_RETRIEVE = 5
"""Memories that a tool gives at most, unless it says less (seed 001, §8.1)."""
EVERYONE = "*"
RETRIEVE = "memory.retrieve"
"""What a tool may do: nothing that changes anything."""

_UPDATE_FIELDS = ("template", "fallback", "importance", "tags")
_TOOL_FIELDS = (
    "description",
    "eligible_agent_types",
    "preconditions",
    "institutional_constraints",
    "allowed_state_changes",
    "implementation_mapping",
    "parameters",
)
_PARAMETERS = ("top_k", "current_year", "tags", "query", "reserve_episodic")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_FORMAT = re.compile(r"[<>^=]?[ +-]?#?0?\d{0,3}[,_]?(?:\.\d{1,2})?[bcdeEfFgGnosxX%]?")


class Entry(NamedTuple):
    """The fields of one skill, not checked yet. `file` is the last one that spoke of it."""

    file: str
    skill: str
    fields: Mapping[Any, Any]

    def fault(self, problem: str) -> InvalidInput:
        return _fault(self.file, f"skill {self.skill[:60]!r}: {problem}")

    def check_names(self, names: Iterable[Any], known: Iterable[str], problem: str) -> None:
        """Raises InvalidInput for a name that means nothing: most often a misspelt one."""
        strange = next((name for name in names if name not in known), None)
        if strange is not None:
            raise self.fault(f"{str(strange)[:40]!r} is no {problem} {', '.join(known)}")

    def text(self, name: str, default: str | None = None) -> str:
        """Raises InvalidInput."""
        value = self.fields.get(name, default)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(f"{name} has to be a text")
        if len(value) > TEXT_LIMIT:
            raise self.fault(f"{name} has {len(value):,} characters, at most {TEXT_LIMIT:,} are allowed")
        return mended(value)

    def texts(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Raises InvalidInput."""
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
            raise self.fault(f"{name} has to be a list of texts")
        return tuple(map(mended, value))

    def group(self, name: str) -> JsonObject:
        """Raises InvalidInput."""
        value = self.fields.get(name)
        if not isinstance(value, Mapping | None):
            raise self.fault(f"{name} has to hold names with values")
        return dict(value or {})

    def number(self, name: str, value: object) -> int:
        """Raises InvalidInput."""
        try:
            return validation.count(name, value, least=0, most=validation.RESULTS_LIMIT)
        except InvalidInput as error:
            raise self.fault(f"{name} {error.problem}") from None


# --- what skills leave in memory --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Template:
    """A text with figures and texts to put in: `{name}` or `{name:format}`, never more than that, so that a template
    from anywhere can look into nothing."""

    text: str

    @classmethod
    def read(cls, text: str) -> Template:
        """Raises InvalidInput."""
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise InvalidInput("template", f"cannot be read ({error}); write {{{{ for a brace") from None
        for _, name, form, conversion in parts:
            if name is None:
                continue
            if not _NAME.fullmatch(name) or conversion or not _FORMAT.fullmatch(form or ""):
                field = "{" + name[:40] + (f"!{conversion}" if conversion else "") + (f":{form[:20]}" if form else "")
                raise InvalidInput("template", f"{field}}} is more than a name with a format, such as {{premium:.0f}}")
        return cls(text)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for _, name, _, _ in Formatter().parse(self.text) if name)

    def filled(self, values: Mapping[Any, Any]) -> str | None:
        """None when a value is missing, or is none that fits."""
        try:
            return self.text.format(**{name: _plain(values[name]) for name in self.names})
        except (KeyError, ValueError, TypeError, OverflowError):
            return None


@dataclass(frozen=True, slots=True)
class SkillUpdate:
    """What a skill leaves: a text, what to say when the context lacks a figure, how much it matters, and tags."""

    skill: str
    template: Template
    fallback: Template
    importance: float
    tags: tuple[str, ...]

    @classmethod
    def read(cls, entry: Entry) -> SkillUpdate:
        """Raises InvalidInput that names the file and the skill."""
        entry.check_names(entry.fields, _UPDATE_FIELDS, "field of it; choose of")
        usual = f"Year {{year}}: I decided to {entry.skill.replace('{', '{{').replace('}', '}}')}"
        try:
            template = Template.read(entry.text("template"))
            fallback = Template.read(entry.text("fallback", template.text if template.names <= {"year"} else usual))
            importance = validation.share("importance", entry.fields.get("importance"))
            tags = validation.tag_list("tags", entry.texts("tags"))
        except InvalidInput as error:
            raise error if error.field == "skills" else entry.fault(f"{error.field} {error.problem}") from None
        if not fallback.names <= {"year"}:
            raise entry.fault("fallback may name the year alone, for it is said where there is no context")
        return cls(entry.skill, template, fallback, importance, tags)


class SkillMap(dict[str, SkillUpdate]):
    """By the name of each skill, what carrying it out leaves in memory."""

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> SkillMap:
        """The packaged map, with what a YAML file of yours says over it. Raises InvalidInput that names file and
        skill."""
        return cls({entry.skill: SkillUpdate.read(entry) for entry in _entries(path, UPDATES)})


def update_memory_from_skill(
    memory: CognitiveMemory,
    skill_id: str,
    year: int,
    context: Mapping[str, Any] | None = None,
    *,
    skills: SkillMap | None = None,
) -> MemoryItem | None:
    """Remember that a skill was carried out, as an episode if it matters enough; None for one that is not known.

    `context` has the figures of its text, which does without them where they are missing. Raises InvalidInput.
    """
    if not isinstance(context, Mapping | None):
        raise InvalidInput("context", f"expected names with values, not {type(context).__name__}")
    update = (_packaged() if skills is None else skills).get(skill_id)
    if update is None:
        return None
    values = {**(context or {}), "year": year}
    content = update.template.filled(values) or update.fallback.filled(values)
    if content is None:  # only a year that is no number has no text
        raise InvalidInput("year", f"expected a whole number, not {validation.shown(year)}")
    return memory.add_experience(content, update.importance, year, update.tags)


@cache
def _packaged() -> SkillMap:
    return SkillMap.load()


def _plain(value: object) -> object:
    """A number or a text as one of Python's own: what formats itself may do anything. Raises TypeError."""
    if isinstance(value, str):
        return mended(str.__str__(value)[:TEXT_LIMIT])
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    if isinstance(value, int):
        return int(value)
    figure = float(value)
    if figure - figure:  # not a number, or none that has an end
        raise ValueError
    return figure


# --- tools that an agent may call -------------------------------------------------------------------------------------


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
        entry.check_names(entry.fields, _TOOL_FIELDS, "field of it; choose of")
        mapping = entry.text("implementation_mapping")
        if mapping != RETRIEVE:
            raise entry.fault(f"implementation_mapping {mapping[:40]!r} is unknown; choose {RETRIEVE}")
        if entry.texts("allowed_state_changes"):
            raise entry.fault("allowed_state_changes has to be empty, for tools only read")
        constraints, parameters = entry.group("institutional_constraints"), entry.group("parameters")
        entry.check_names(constraints, ("max_retrieve",), "constraint that can be kept here; there is")
        entry.check_names(parameters, _PARAMETERS, "parameter; choose of")
        entry.number("top_k", parameters.get("top_k", TOP_K))
        return cls(
            skill_id=entry.skill,
            description=entry.text("description"),
            eligible_agent_types=entry.texts("eligible_agent_types", (EVERYONE,)),
            preconditions=entry.texts("preconditions"),
            max_retrieve=entry.number("max_retrieve", constraints.get("max_retrieve", MAX_RETRIEVE)),
            implementation_mapping=mapping,
            parameters=parameters,
        )

    def refusal(self, agent_type: str, state: Mapping[str, Any] | None = None) -> str | None:
        """Why an agent of that type, in that state, may not call it; None when it may."""
        if EVERYONE not in self.eligible_agent_types and agent_type not in self.eligible_agent_types:
            return f"agents of the type {validation.shown(agent_type)!r} may not call {self.skill_id}"
        for one in self.preconditions:
            is_wanted = bool((state or {}).get(one.removeprefix("not ").strip()))
            if is_wanted is one.startswith("not "):
                return f"{self.skill_id} may be called when `{one}`, and it is not so"
        return None


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
        return cls([Skill.read(entry) for entry in _entries(path, TOOLS)])

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

        What the caller gives comes before what the tool says, but never more than the tool's `max_retrieve` memories
        come back. Raises InvalidInput.
        """
        skill = self._skills.get(skill_id)
        if skill is None:
            return None
        strange = next((name for name in given if name not in _PARAMETERS), None)
        if strange is not None:
            raise InvalidInput(strange, f"unknown argument; {skill_id} takes {', '.join(_PARAMETERS)}")
        said = {name: value for name, value in given.items() if value is not None}
        chosen = {"top_k": TOP_K, "current_year": 0, **skill.parameters, **said}
        asked = validation.count("top_k", chosen["top_k"], least=0, most=validation.RESULTS_LIMIT)
        chosen["top_k"] = min(asked, skill.max_retrieve)
        refused = skill.refusal(agent_type, state)
        if refused is not None:
            return Invocation(skill_id, chosen, refused=refused)
        return Invocation(skill_id, chosen, tuple(memory.retrieve(**chosen)))


# --- files ------------------------------------------------------------------------------------------------------------


def _entries(path: str | os.PathLike[str] | None, group: str) -> list[Entry]:
    """What the packaged file says of each skill, and over it, field by field, what a user's file says. None for its
    fields takes a skill out. Raises InvalidInput."""
    sources = [("skills.yaml", files(__package__).joinpath("skills.yaml").read_bytes())]
    if path is not None:
        sources.append((str(path), _bytes(Path(path))))
    found: dict[str, Entry] = {}
    for file, data in sources:
        for name, fields in _told(_parsed(data, file).get(group), group, file):
            if not isinstance(name, str) or not name.strip():
                raise _fault(file, "a skill without a name; put it in quotation marks if it is a number")
            skill = mended(name)
            if not isinstance(fields, Mapping | None):
                raise _fault(file, f"skill {skill[:60]!r}: has to hold fields such as `importance: 0.5`")
            if fields is None:
                found.pop(skill, None)
            else:
                before = found[skill].fields if skill in found else {}
                found[skill] = Entry(file, skill, {**before, **fields})
    return list(found.values())


def _told(data: Any, group: str, file: str) -> Iterable[tuple[Any, Any]]:
    """Skills with their fields: updates are named by their keys, tools by their ids. Raises InvalidInput."""
    if data is None:
        return ()
    if group == UPDATES:
        if not isinstance(data, Mapping):
            raise _fault(file, f"{UPDATES} has to hold a name for each skill, with its fields beneath it")
        return data.items()
    if not isinstance(data, list) or not all(isinstance(one, Mapping) and "skill_id" in one for one in data):
        raise _fault(file, f"{TOOLS} has to be a list, each entry with a `skill_id`")
    return [(one["skill_id"], {name: one[name] for name in one if name != "skill_id"}) for one in data]


def _bytes(path: Path) -> bytes:
    """Of a regular file: a pipe would wait for ever. Raises InvalidInput."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(LIMIT_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise _fault(str(path), f"cannot be read ({cause})") from None
    if data is None:
        raise _fault(str(path), "is no file; name another one")
    if len(data) > LIMIT_BYTES:
        raise _fault(str(path), f"has more than {LIMIT_BYTES:,} bytes, which no skills take")
    return data


def _parsed(data: bytes, file: str) -> Mapping[Any, Any]:
    """Raises InvalidInput."""
    import yaml  # type: ignore[import-untyped,unused-ignore]  # typed where its stubs are installed

    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" (line {mark.line + 1})"
        raise _fault(file, f"is no YAML{line}; indent with spaces, one name per line") from None
    if found is None:
        return {}
    strange = [name for name in found if name not in (UPDATES, TOOLS)] if isinstance(found, Mapping) else [found]
    if strange:
        raise _fault(file, f"has {str(strange[0])[:40]!r} at its top; it may hold {UPDATES} and {TOOLS}")
    return found  # type: ignore[no-any-return]  # a mapping, or `strange` had said so


def _fault(file: str, problem: str) -> InvalidInput:
    return InvalidInput("skills", mended(f"{file}: {problem}"))
