"""SECURITY.md speaks of what is there: its variables are read, its options taken, its files exist."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

from kingly_memory.settings import Settings
from tests.adapters.remote.test_security_tokens import options
from tools.audit import accepted

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_each_variable_that_the_page_names_is_read() -> None:
    package = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "kingly_memory").rglob("*.py"))
    known = {f"KINGLY_{one.name.upper()}" for one in fields(Settings)} | set(re.findall(r'"(KINGLY_[A-Z_]+)"', package))
    named = set(re.findall(r"KINGLY_[A-Z_]+", PAGE))
    assert len(named) >= 5
    assert named - known == set()


def test_each_option_that_the_page_names_is_taken() -> None:
    named = set(re.findall(r"`(--[a-z-]+)`", PAGE))
    assert len(named) >= 4
    assert named - options() == set()


def test_each_accepted_advisory_is_named_with_its_package() -> None:
    for one in accepted():
        assert one.package in PAGE
        assert any(name in PAGE for name in one.ids)


def test_each_attack_names_a_test_that_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) >= 15
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        there = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert not function or function in there, (path, function)


def test_where_each_data_file_comes_from_is_said() -> None:
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("Where data files come from")[2]
    patterns = re.findall(r"`([\w./*-]+)`", said.partition("## ")[0])
    code = {".py", ".md", ".toml"}
    for folder in ("kingly_memory", "benchmarks", "tests", "integrations"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_dir() or path.suffix in code | {".pyc", ".typed"}:
                continue
            place = path.relative_to(ROOT)
            assert any(place.match(one) or str(place).startswith(one) for one in patterns), place
