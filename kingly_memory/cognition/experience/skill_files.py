"""Skills in YAML: the packaged file, and a user's over it. Reads bounded files and plain values, and runs nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from kingly_memory.errors import InvalidInput
from kingly_memory.intake import mended

LIMIT_BYTES = 262_144
MOST_SKILLS = 1_000
LONGEST = 2_000
"""Characters of one value: a long row of figures and colons takes minutes to read as the number it is in YAML."""
DEPTH = 16
"""Levels of lists and names: skills take 4."""
UPDATES, TOOLS = "memory_updates", "memory_tools"
PACKAGED = "skills.yaml"

Fields = Mapping[Any, Any] | None
"""What a file says of a skill; None takes it out."""


class Entry(NamedTuple):
    """The fields of one skill, not checked yet. `file` is the last one that spoke of it."""

    file: str
    skill: str
    fields: Mapping[Any, Any]

    def fault(self, problem: str) -> InvalidInput:
        return _fault(self.file, f"skill {self.skill[:60]!r}: {problem}")

    def check_fields(self, known: Iterable[str]) -> None:
        """Raises InvalidInput for a field that means nothing: most often a misspelt one."""
        strange = next((name for name in self.fields if name not in known), None)
        if strange is not None:
            raise self.fault(f"{str(strange)[:40]!r} is no field of it; choose of {', '.join(known)}")

    def text(self, name: str, *, most: int, default: str | None = None) -> str:
        """Raises InvalidInput."""
        value = self.fields.get(name, default)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(f"{name} has to be a text")
        if len(value) > most:
            raise self.fault(f"{name} has {len(value):,} characters, at most {most:,} are allowed")
        return mended(value)

    def texts(self, name: str, default: Iterable[str] = ()) -> tuple[str, ...]:
        """Raises InvalidInput."""
        value = self.fields.get(name)
        if value is None:
            return tuple(default)
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
            raise self.fault(f"{name} has to be a list of texts")
        return tuple(map(mended, value))

    def group(self, name: str) -> Mapping[Any, Any]:
        """Raises InvalidInput."""
        value = self.fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.fault(f"{name} has to hold names with values")
        return value


def updates(path: str | os.PathLike[str] | None = None) -> list[Entry]:
    """What carrying out each skill leaves in memory. Raises InvalidInput."""
    return _merged(path, UPDATES, _by_name)


def tools(path: str | os.PathLike[str] | None = None) -> list[Entry]:
    """The tools that agents may call. Raises InvalidInput."""
    return _merged(path, TOOLS, _by_skill_id)


def _merged(
    path: str | os.PathLike[str] | None, group: str, told: Callable[[object, str], Iterator[tuple[str, Fields]]]
) -> list[Entry]:
    """The packaged entries, and over them, field by field, a user's."""
    found: dict[str, Entry] = {}
    for file, data in _documents(path):
        for skill, fields in told(data.get(group), file):
            if fields is None:
                found.pop(skill, None)
                continue
            before = found[skill].fields if skill in found else {}
            found[skill] = Entry(file, skill, {**before, **fields})
        if len(found) > MOST_SKILLS:
            raise _fault(file, f"{len(found):,} skills, at most {MOST_SKILLS:,} are allowed")
    return list(found.values())


def _documents(path: str | os.PathLike[str] | None) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    yield PACKAGED, _parsed(files(__package__).joinpath(PACKAGED).read_bytes(), PACKAGED)
    if path is not None:
        yield str(path), _parsed(_bytes(Path(path)), str(path))


def _by_name(data: object, file: str) -> Iterator[tuple[str, Fields]]:
    if data is None:
        return
    if not isinstance(data, Mapping):
        raise _fault(file, f"{UPDATES} has to hold a name for each skill, with its fields beneath it")
    for skill, fields in data.items():
        yield _skill(skill, file), _fields(fields, skill, file)


def _by_skill_id(data: object, file: str) -> Iterator[tuple[str, Fields]]:
    if data is None:
        return
    if not isinstance(data, list) or not all(isinstance(one, Mapping) and "skill_id" in one for one in data):
        raise _fault(file, f"{TOOLS} has to be a list, each entry with a `skill_id`")
    for one in data:
        yield _skill(one["skill_id"], file), {name: value for name, value in one.items() if name != "skill_id"}


def _skill(name: object, file: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise _fault(file, "a skill without a name; put it in quotation marks if it is a number")
    return mended(name)


def _fields(value: object, skill: object, file: str) -> Fields:
    if value is None or isinstance(value, Mapping):
        return value
    raise _fault(file, f"skill {str(skill)[:60]!r}: has to hold fields such as `importance: 0.5`")


def _bytes(path: Path) -> bytes:
    """Of a regular file: a pipe would wait for ever."""
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
    import yaml  # type: ignore[import-untyped,unused-ignore]  # typed where its stubs are installed

    try:
        _check_shape(yaml, data, file)
        found = yaml.safe_load(data)
    except InvalidInput:
        raise
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


def _check_shape(yaml: Any, data: bytes, file: str) -> None:
    """Refuse what is quick to write and endless to read: one value in many places, and lists in lists in lists."""
    depth = 0
    for event in yaml.parse(data, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _fault(file, "has an alias (*name); write the value out")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST:
            raise _fault(file, f"has a value of {len(event.value):,} characters, at most {LONGEST:,} are allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH:
            raise _fault(file, f"is nested deeper than {DEPTH} levels")


def _fault(file: str, problem: str) -> InvalidInput:
    return InvalidInput("skills", mended(f"{file}: {problem}"))
