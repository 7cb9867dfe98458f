"""A home and an export of an earlier version are read: `fixtures/first_house.*` were written by it on two days, 40 days
apart, and then swept."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from kingly_memory import InvalidInput, MemoryType, SyncMemoryRouter
from kingly_memory.adapters.local import old_home
from tests.cli_runner import Run

FIXTURES = Path(__file__).parents[1] / "fixtures"
PLACE = ("--project", "atlas", "--agent", "ada")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURES / "first_house.tar.gz") as packed:
        packed.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old" / "memory"


def test_an_old_home_is_refused_with_what_to_do(run: Run, old: Path) -> None:
    ran = run("search", "deploys", "--home", str(old), *PLACE)
    assert ran.code == 1
    assert "Move the folder aside and bring its memories in: `kingly-memory import FOLDER`" in ran.err


def test_everything_of_an_old_home_comes_along(run: Run, old: Path, tmp_path: Path) -> None:
    ran = run("import", str(old), "--home", str(tmp_path / "new"), *PLACE, "--json")
    assert ran.code == 0, ran.err
    assert {name: ran.json[name] for name in ("format", "stored", "links", "problems")} == {
        "format": "home",
        "stored": 18,
        "links": 1,
        "problems": [],
    }
    with SyncMemoryRouter.open(tmp_path / "new", project="atlas", agent="ada", remote=False) as memory:
        rule = memory.get("deploy-rule")
        assert rule is not None
        assert (rule.content, rule.significance, rule.tags) == (
            "Deploys to Gondwana need three reviews",
            0.8,
            ("deploy", "rule"),
        )
        assert [(one.source, one.link_type, one.strength) for one in memory.links("deploy-rule")] == [
            (rule.id, "supports", 0.7)
        ]
        assert [one.topic for one in memory.attention.focused()] == ["deploy"]
        merged, pinned = sorted(memory.threads.list(), key=lambda one: one.title, reverse=True)
        assert (merged.id, merged.title, merged.message_count) == ("talk-1", "Parade map", 3)
        assert (pinned.title, pinned.weight) == ("Fridays", 1.4)
        assert [one.content for one in memory.thoughts("why-slow")] == [
            "If reviews fail, retry",
            "Retries double the load",
        ]


def test_what_only_its_age_put_away_is_there_again_and_what_was_forgotten_is_not(
    run: Run, old: Path, tmp_path: Path
) -> None:
    run("import", str(old), "--home", str(tmp_path / "new"), *PLACE)
    with SyncMemoryRouter.open(tmp_path / "new", project="atlas", remote=False) as memory:
        found = memory.search("The database password rotates on Mondays").hits[0].memory
        assert found.content == "The database password rotates on Mondays"
        assert memory.get("secret-plan") is None
        assert "office-old" in [one.memory.key for one in memory.archived().entries]
        live = [one for one in memory.list(limit=50).memories if one.type is not MemoryType.WORKING]
        assert all(one.ends_at is None for one in live)


def test_importing_an_old_home_again_changes_nothing(run: Run, old: Path, tmp_path: Path) -> None:
    first, again = (run("import", str(old), "--home", str(tmp_path / "new"), *PLACE, "--json").json for _ in range(2))
    assert (first["stored"], again["stored"], again["unchanged"]) == (18, 0, 18)


def test_memories_of_another_project_are_counted_and_stay(run: Run, old: Path, tmp_path: Path) -> None:
    ran = run("import", str(old), "--home", str(tmp_path / "new"), "--project", "other")
    assert ran.code == 1
    assert "19 memories of atlas stay there; name one with --project" in ran.err


def test_a_home_of_this_version_is_not_imported(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "new", remote=False) as memory:
        memory.store("x")
    with pytest.raises(InvalidInput, match="is a home of this version; name it with --home"):
        old_home.rows(tmp_path / "new")


def test_a_table_that_is_not_ours_is_not_read(old: Path) -> None:
    with closing(sqlite3.connect(old / "store" / "cache.db")) as connection:
        connection.executescript(
            "ALTER TABLE Cache RENAME TO Other; CREATE VIEW Cache AS SELECT key, value, tag, raw FROM Other"
        )
    with pytest.raises(InvalidInput, match="cannot be read as a memory store"):
        old_home.rows(old)


def test_an_old_export_is_read(run: Run, tmp_path: Path) -> None:
    ran = run("import", str(FIXTURES / "first_house.jsonl"), "--home", str(tmp_path / "new"), *PLACE, "--json")
    assert (ran.code, ran.json["stored"], ran.json["problems"]) == (0, 18, [])
