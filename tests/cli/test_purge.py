"""purge: it says what it would take away, and asks before it does."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest

from kingly_memory import SyncMemoryRouter
from tests.cli_runner import Run, runner


class Terminal(StringIO):
    """Standard input of a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    found = runner(capsys, monkeypatch)
    for key in ("one", "two"):
        found("store", f"text {key}", "--key", key, "--tag", "private")
    return found


@pytest.mark.requirement("N10")
def test_a_dry_run_names_what_would_go_and_nothing_goes_unasked(run: Run) -> None:
    assert run("purge", "--tag", "private", "--dry-run").out.splitlines() == [
        "would purge 2 memories",
        "  one",
        "  two",
    ]
    refused = run("purge", "--tag", "private")
    assert (refused.code, "say --yes to purge without being asked; nothing was purged" in refused.err) == (2, True)
    assert run("get", "one").code == 0


@pytest.mark.requirement("N10")
def test_with_yes_it_is_done_and_the_receipt_tells_no_content(run: Run) -> None:
    done = run("purge", "one", "--yes", "--json")
    assert (done.json["count"], done.json["is_complete"], "text one" in done.out) == (1, True, False)
    assert "nothing is stored under 'one'" in run("get", "one").err
    again = run("purge", "one", "--yes")
    assert (again.code, again.err) == (
        2,
        "kingly-memory: nothing is stored under 'one' in this project; `kingly-memory list` shows what is there\n",
    )


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 2), ("n\n", 2)])
def test_a_person_at_the_terminal_is_asked(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, code: int
) -> None:
    from kingly_memory.cli.main import main

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert main(["purge", "--tag", "private"]) == code
    said = capsys.readouterr()
    assert "purge 2 memories for good? [y/N]" in said.err
    assert said.out.startswith("nothing was purged\n" if code else "purged 2 memories")


def words(home: Path) -> set[str]:
    with closing(sqlite3.connect(home / "store" / "cache.db")) as connection:
        return {word for (word,) in connection.execute("SELECT word FROM km_vocabulary")}


@pytest.mark.requirement("N10")
def test_a_purge_takes_words_that_an_earlier_command_stored_and_another_process_learns_them_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, home = runner(capsys, monkeypatch), tmp_path / "home"
    place = ("--home", str(home), "--project", "app")
    run("store", "orangutan", "--key", "o", "--tag", "tagsecret", "--title", "titlesecret", *place)
    run("store", "the garden gate", *place)
    run("purge", "o", "--yes", *place)
    assert words(home) == {"garden", "gate"}
    with SyncMemoryRouter.open(home, False, project="app") as elsewhere:
        elsewhere.store("the lighthouse", key="l")
        command = [sys.executable, "-m", "kingly_memory", "purge", "l", "--yes", *place]
        subprocess.run(command, check=True, capture_output=True, timeout=60)  # our own
        assert words(home) == {"garden", "gate"}
        elsewhere.store("a lighthouse again")
    assert "lighthouse" in words(home)


def test_a_user_who_has_nothing_or_every_project_beside_a_user_is_not_purged(run: Run) -> None:
    run("store", "a text", "--user", "ben")
    run("store", "a habit", "--user", "ben", "--everywhere", "--key", "habit")
    ghost = run("purge", "--whole-project", "--user", "ghost", "--yes")
    assert (ghost.code, "nothing was stored for user 'ghost' in project" in ghost.err) == (2, True)
    refused = run("purge", "--user", "ben", "--everywhere", "--yes")
    assert (refused.code, "add --whole-project for that alone" in refused.err) == (2, True)
    alone = run("purge", "--whole-project", "--user", "ben", "--everywhere", "--dry-run")
    assert alone.out.splitlines()[1:] == ["  habit"]


@pytest.mark.requirement("N10")
def test_a_user_and_a_project_together_purge_what_the_user_has_in_that_project_alone(run: Run) -> None:
    for project in ("e5", "e6"):
        run("store", "a text", "--user", "ann", "--project", project, "--key", "habit")
    both = ["  habit, project e5", "  habit, project e6"]
    assert sorted(run("purge", "--user", "ann", "--dry-run").out.splitlines()[1:]) == both
    assert run("purge", "--user", "ann", "--project", "e5", "--yes").out.splitlines()[0].startswith("purged 1 memory;")
    assert run("get", "habit", "--user", "ann", "--project", "e5").code == 2
    assert run("get", "habit", "--user", "ann", "--project", "e6").code == 0
    assert run("get", "one").code == 0
