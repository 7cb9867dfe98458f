"""docs/cli.md, docs/settings.md and docs/mcp.md say what the declarations and the settings say."""

from __future__ import annotations

import pytest

from kingly_memory.cli.commands import FOR, commands
from tools.reference import DOCS, PARTS, page


@pytest.mark.parametrize("name", PARTS)
def test_the_page_is_in_step_with_the_declarations(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert page(name, text) == text, "run: python -m tools.reference"


def test_a_page_without_a_place_for_its_part_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for its tools"):
        page("mcp.md", "# Another page")


def test_help_names_every_command() -> None:
    listed = " ".join(FOR.values()).split()
    assert sorted(listed) == sorted({one.name.partition(" ")[0] for one in commands()})
