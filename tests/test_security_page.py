"""SECURITY.md speaks of what is there: its variables are read, its options taken, its files exist."""

from __future__ import annotations

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
