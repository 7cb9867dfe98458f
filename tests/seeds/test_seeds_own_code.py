"""The seeds' own import lines and tests run against `kingly_memory.seeds`. They are read from the design documents,
where these lie beside the project, and not copied."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest

SEEDS = Path(__file__).parents[3] / "shared" / "spec" / "seeds"
NAMES = {"000": "alma", "001": "household", "002": "threads", "003": "aragora", "004": "kingly"}
_FENCED = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^\s*from (?:alma|aragora)\.[\w.]+ import ([\w, ]+)$", re.MULTILINE)
CONTRADICTS_ITS_RULE = {"test_fresh_memory_full_strength": "by the seed's own formula it is 0.75 (decision A6)"}

needs_seeds = pytest.mark.skipif(not SEEDS.is_dir(), reason="the design documents do not lie beside the project")


class _Then(datetime):
    """The seeds ask for the time in a way that Python has deprecated."""

    @classmethod
    def utcnow(cls) -> Self:
        return cls.now(UTC)


def documents() -> Iterator[tuple[str, str]]:
    """(module, text) of every design document."""
    for path in sorted(SEEDS.glob("*.txt")):
        yield NAMES[path.name[:3]], path.read_text(encoding="utf-8", errors="replace")


def definitions(text: str) -> Iterator[str]:
    """Public classes, functions and constants in the Python blocks of a document, tools and tests aside."""
    for block in _FENCED.findall(text):
        try:
            body = ast.parse(block).body
        except SyntaxError:  # signatures without bodies
            yield from re.findall(r"^class (\w+)", block, re.MULTILINE)
            continue
        for one in body:
            if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                is_tool = bool(one.decorator_list) and not isinstance(one, ast.ClassDef)
                if not is_tool and not one.name.startswith(("_", "test_", "Test", "ai_")):
                    yield one.name
            elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id.isupper():
                yield one.targets[0].id


def own_tests() -> Iterator[Any]:
    for name, text in documents():
        module = import_module(f"kingly_memory.seeds.{name}")
        for block in _FENCED.findall(text):
            if "def test_" not in block:
                continue
            scope: dict[str, Any] = {**vars(module), "datetime": _Then, "timedelta": timedelta}
            exec(compile(block, name, "exec"), scope)  # noqa: S102  # the design documents' own tests
            found = {key: one for key, one in scope.items() if key.startswith("test_")}
            for made in [one() for key, one in scope.items() if key.startswith("Test")]:
                found |= {key: getattr(made, key) for key in dir(made) if key.startswith("test_")}
            yield from (pytest.param(key, one, id=f"{name}-{key}") for key, one in found.items())


@needs_seeds
def test_every_imported_name_of_the_seeds_is_there() -> None:
    missing = [
        (name, one.strip())
        for name, text in documents()
        for line in _IMPORT.findall(text)
        for one in line.split(",")
        if not hasattr(import_module(f"kingly_memory.seeds.{name}"), one.strip())
    ]
    assert missing == []


def is_in(name: str, module: ModuleType) -> bool:
    classes = [one for one in vars(module).values() if isinstance(one, type)]
    return any(hasattr(one, name) for one in (module, *classes))


@pytest.mark.requirement("L7")
@needs_seeds
def test_every_class_and_function_that_the_seeds_write_is_there() -> None:
    """Methods are looked for in every class; tools are those of the MCP server."""
    missing = [
        (name, one)
        for name, text in documents()
        for one in definitions(text)
        if not is_in(one, import_module(f"kingly_memory.seeds.{name}"))
    ]
    assert missing == []


@needs_seeds
def test_the_documents_hold_the_tests_that_are_meant() -> None:
    assert len(list(own_tests())) == 12


@needs_seeds
@pytest.mark.parametrize(("name", "run"), list(own_tests()))
def test_the_seeds_own_tests_pass(name: str, run: Callable[[], None]) -> None:
    if name in CONTRADICTS_ITS_RULE:
        with pytest.raises(AssertionError):
            run()
    else:
        run()
