"""What carrying out a skill leaves in memory (seed 001, §10.1 and §10.2): a map that is data, and can be added to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Real
from string import Formatter
from typing import Any

from kingly_memory import intake
from kingly_memory.cognition.experience import skill_files
from kingly_memory.cognition.experience.cognitive import CognitiveMemory
from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.cognition.experience.skill_files import Entry
from kingly_memory.errors import InvalidInput

TEMPLATE_CHARACTERS = 1_000
VALUE_CHARACTERS = 1_000
"""Of one text that a context puts into a template."""

_FIELDS = ("template", "fallback", "importance", "tags")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_FORMAT = re.compile(r"[<>^=]?[ +-]?#?0?\d{0,3}[,_]?(?:\.\d{1,2})?[bcdeEfFgGnosxX%]?")


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
        entry.check_fields(_FIELDS)
        usual = f"Year {{year}}: I decided to {entry.skill.replace('{', '{{').replace('}', '}}')}"
        try:
            template = Template.read(entry.text("template", most=TEMPLATE_CHARACTERS))
            plain = template.text if template.names <= {"year"} else usual
            fallback = Template.read(entry.text("fallback", most=TEMPLATE_CHARACTERS, default=plain))
            importance = intake.share("importance", entry.fields.get("importance"))
            tags = intake.tag_list("tags", entry.texts("tags"))
        except InvalidInput as error:
            raise error if error.field == "skills" else entry.fault(f"{error.field} {error.problem}") from None
        if not fallback.names <= {"year"}:
            raise entry.fault("fallback may name the year alone, for it is said where there is no context")
        return cls(entry.skill, template, fallback, importance, tags)

    def content(self, year: int, context: Mapping[str, Any]) -> str:
        values = {**context, "year": year}
        said = self.template.filled(values) or self.fallback.filled(values)
        if said is None:  # only a year that is no number has no text, and the memory says so of it
            raise InvalidInput("year", f"expected a whole number, not {intake.shown(year)}")
        return said


class SkillMap(Mapping[str, SkillUpdate]):
    """By the name of each skill, what carrying it out leaves in memory."""

    def __init__(self, updates: Mapping[str, SkillUpdate]) -> None:
        self._updates = dict(updates)

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> SkillMap:
        """The packaged map, with what a YAML file of yours says over it. Raises InvalidInput that names file and
        skill."""
        return cls({entry.skill: SkillUpdate.read(entry) for entry in skill_files.updates(path)})

    def __getitem__(self, skill: str) -> SkillUpdate:
        return self._updates[skill]

    def __iter__(self) -> Iterator[str]:
        return iter(self._updates)

    def __len__(self) -> int:
        return len(self._updates)


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
    if context is not None and not isinstance(context, Mapping):
        raise InvalidInput("context", f"expected names with values, not {type(context).__name__}")
    update = (packaged() if skills is None else skills).get(skill_id)
    if update is None:
        return None
    return memory.add_experience(update.content(year, context or {}), update.importance, year, update.tags)


@cache
def packaged() -> SkillMap:
    """Read once."""
    return SkillMap.load()


def _plain(value: object) -> object:
    """A number or a text as one of Python's own: what formats itself may do anything. Raises TypeError."""
    if isinstance(value, str):
        return intake.mended(str.__str__(value)[:VALUE_CHARACTERS])
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    if isinstance(value, int):
        return int(value)
    figure = float(value)
    if figure - figure:  # not a number, or none that has an end
        raise ValueError
    return figure
