"""docs/cli.md says what the parser does."""

from __future__ import annotations

import pytest

from kingly_memory.cli.commands import FOR, Command, commands, parameters_of
from kingly_memory.cli.parser import described
from kingly_memory.cli.reference import cli_reference, settings_reference
from tests.cli_runner import ROOT

COMMANDS = commands()
PAGE = ROOT / "docs" / "cli.md"
SETTINGS_PAGE = ROOT / "docs" / "settings.md"


def test_the_page_is_in_step_with_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == cli_reference(), (
        "run: python -m kingly_memory.cli.reference > docs/cli.md"
    )


def test_the_settings_page_is_in_step_with_the_settings() -> None:
    assert SETTINGS_PAGE.read_text(encoding="utf-8") == settings_reference(), (
        "run: python -m kingly_memory.cli.reference settings > docs/settings.md"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_and_argument_is_on_the_page(command: Command) -> None:
    _, found, section = cli_reference().partition(f"\n## {command.name}\n")
    assert found
    section = section.partition("\n## ")[0]
    assert command.says in section
    assert all(described(one).replace("|", "\\|") in section for one in parameters_of(command))


def test_help_names_every_command() -> None:
    listed = " ".join(FOR.values()).split()
    assert sorted(listed) == sorted({one.name.partition(" ")[0] for one in COMMANDS})
