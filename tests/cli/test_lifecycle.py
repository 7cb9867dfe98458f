"""sweep, weak, archive, stats, reinforce, get --explain."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kingly_memory import Settings, SyncMemoryRouter
from kingly_memory.settings import Lifetimes, Pace
from kingly_memory.testing import ManualClock
from tests.cli_runner import Run, runner

LASTING = Settings(durability="process", pace=Pace(closing_s=0.0), lifetimes=Lifetimes(episodic=86_400.0))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("KINGLY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KINGLY_PROJECT", "app")
    return runner(capsys, monkeypatch)


@pytest.fixture
def years_ago(run: Run, tmp_path: Path) -> None:
    """Three faded memories and one that matters, stored in 2020."""
    clock = ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=LASTING, clock=clock) as memory:
        for name in ("one", "two", "three"):
            memory.store(f"a note named {name}", key=name, significance=0.4)
        memory.store("our one promise", key="promise", significance=0.9)


def live(run: Run) -> set[str]:
    return {one["key"] for one in run("list", "--json").json["memories"]}


@pytest.mark.usefixtures("years_ago")
def test_dry_run_says_memory_by_memory_what_would_happen_and_why(run: Run) -> None:
    said = run("sweep", "--policy", "strength", "--dry-run").out.splitlines()
    assert said[0] == "3 memories would be archived, 0 would be erased  (strength)"
    assert "  its strength is below 0.1: 3" in said
    [at] = [number for number, line in enumerate(said) if line == "  a note named one"]
    assert said[at + 1].startswith("      one · strength 0.00 · idle for ")
    assert sum("strength: its strength is below 0.1" in line for line in said) == 1
    assert "archive, strength: its strength is below 0.1:" in said
    assert "undo" not in said[-1]
    assert live(run) == {"one", "two", "three", "promise"}


@pytest.mark.usefixtures("years_ago")
def test_a_sweep_and_its_undo(run: Run) -> None:
    swept = run("sweep", "--policy", "strength")
    assert swept.out.startswith("3 memories archived, 0 erased  (strength)\n")
    assert swept.out.endswith("undo: kingly-memory sweep --undo\n")
    assert "  a note named one\n      one · strength 0.00" in swept.out
    assert live(run) == {"promise"}
    assert run("sweep", "--undo").out == "3 memories as before the last sweep\n"
    assert live(run) == {"one", "two", "three", "promise"}
    assert run("sweep", "--undo", "--json").json == {"undone": 0, "memories": 0, "threads": 0}
    assert run("sweep", "--undo").out == "there is nothing to take back\n"


@pytest.mark.usefixtures("years_ago")
def test_policies_may_be_several_and_tiers_show_their_moves(run: Run) -> None:
    said = run("sweep", "--policy", "lifetimes", "--policy", "tiers", "--dry-run").out
    assert ", 0 would be moved up, 4 would be moved down  (lifetimes, tiers)\n" in said
    assert "down to " in said


@pytest.mark.parametrize(
    ("argv", "field", "words"),
    [
        (["sweep", "--policy", "dust"], "policies", "'dust' is unknown; choose one of lifetimes, strength, tiers"),
        (["sweep", "--undo", "--dry-run"], "dry_run", "does not go with --undo"),
        (["sweep", "--undo", "--policy", "tiers"], "policy", "does not go with --undo"),
        (["weak", "--limit", "0"], "limit", "limit"),
        (["reinforce", "nobody"], "key_or_id", "nothing is stored under 'nobody'"),
        (["archive", "restore", "nobody"], "key_or_id", "nothing is stored under 'nobody'"),
        (["archive", "add", "nobody"], "key_or_id", "nothing is stored under 'nobody'"),
        (["archive", "add", "nobody", "--reason", " "], "reason", "is empty; leave it out instead"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, argv: list[str], field: str, words: str) -> None:
    ran = run(*argv, "--json")
    assert (ran.code, ran.json["error"]["field"]) == (2, field)
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_a_sweep_says_how_many_went_behind_summaries_and_the_archive_says_behind_which(
    run: Run, tmp_path: Path
) -> None:
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=2))
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=LASTING, clock=clock) as memory:
        for number in range(203):
            memory.store(f"note {number}", key=f"n{number}", significance=0.4, tags=["notes"])
    would = run("sweep", "--policy", "tiers", "--dry-run").out.splitlines()
    did = run("sweep", "--policy", "tiers").out.splitlines()
    assert did[:2] == ["3 memories archived, 0 erased  (tiers)", "  3 of them behind 1 summary"]
    assert would[1] == did[1]
    [entry, *_] = run("archive", "list", "--json").json["entries"]
    summary = entry["archived"]["summary"]
    assert f"\n    behind {summary}\n" in run("archive", "list").out
    assert run("get", summary, "--json").json["title"] == "Summary of 3 memories about notes"


@pytest.mark.usefixtures("years_ago")
def test_weak_memories_are_listed_with_what_to_do(run: Run) -> None:
    said = run("weak", "--limit", "2").out.splitlines()
    assert said[0].split() == ["STATE", "STRENGTH", "MEMORY", "TEXT"]
    assert [line.split()[0] for line in said[1:3]] == ["forgettable", "forgettable"]
    assert "protected" in said[3]
    assert said[4:] == [
        "1 more; --limit shows them",
        "archive the forgettable: kingly-memory sweep --policy strength",
        "hold one: kingly-memory reinforce KEY_OR_ID",
    ]
    assert len(run("weak", "--json").json["forgettable"]) == 3
    assert run("weak", "--agent", "nobody").out == "no memory has faded\n"


@pytest.mark.usefixtures("years_ago")
def test_the_archive_is_listed_and_gives_back(run: Run) -> None:
    assert run("archive", "list").out == "the archive is empty\n"
    run("sweep", "--policy", "strength")
    said = run("archive", "list", "--limit", "2").out.splitlines()
    assert said[0] == "three  a note named three"
    assert said[1] == "    just now, strength: its strength is below 0.1 (0.00)"
    _, _, position = said[4].partition("more: the same with --before ")
    assert run("archive", "list", "--before", position).out.startswith("one  a note named one\n")
    assert run("archive", "restore", "one").out == "restored: a note named one\n"
    assert live(run) == {"one", "promise"}
    assert [one["key"] for one in run("archive", "list", "--json").json["entries"]] == ["three", "two"]


def test_get_explains_what_becomes_of_a_memory(run: Run) -> None:
    run("store", "two reviews", "--key", "deploy")
    run("reinforce", "deploy")
    said = run("get", "deploy", "--explain").out
    assert "two reviews" in said
    assert "strength  0.82 (strong; 0 uses, 1 reinforcement; idle 0 days)" in said
    assert (
        "tier      medium (how near at hand: fast, medium, slow or glacial); importance 0.50, surprise 0.00 (" in said
    )
    assert "ends      never" in said
    told = run("get", "deploy", "--explain", "--json").json
    assert (told["key"], told["explained"]["strength"]["state"]) == ("deploy", "strong")
    assert "explained" not in run("get", "deploy", "--json").json
    assert run("get", "nobody", "--explain").code == 2


def test_stats_are_a_screen_for_a_person_and_figures_for_a_program(run: Run) -> None:
    run("store", "two reviews", "--significance", "0.9")
    said = run("stats").out
    assert "tiers     1 fast · 0 medium · 0 slow · 0 glacial" in said
    assert "strength  1 strong · 0 normal · 0 weak · 0 forgettable" in said
    assert "searches  none counted yet (a search of the command line counts if it asks a remote)" in said
    assert run("stats", "--json").json["tier_counts"]["fast"] == 1


def test_a_pipe_or_a_device_is_not_replaced_by_a_file(run: Run, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        ran = run("export", str(path))
        assert (ran.code, ran.err) == (2, f"kingly-memory: FILE: {path} is a device or a pipe; name a file\n")
    assert pipe.is_fifo()
    assert link.is_symlink()


@pytest.mark.requirement("SMT-035", "SMT-043")
def test_compaction_says_thread_by_thread_what_becomes_of_it(run: Run, tmp_path: Path) -> None:
    clock = ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=LASTING, clock=clock) as memory:
        memory.store("a talk of long ago", context_id="long ago", key="ago")
    for name in ("deploy", "shop"):
        run("store", "deploys wait for reviews", "--context", name)
    dry = run("compact", "--dry-run").out.splitlines()
    assert dry == [
        "1 thread would be merged, 1 would be archived",
        "  active 3 → 1; weight 3 → 0.9  (normal)",
        "merge    shop into deploy, 1.00 alike",
        "archive  long ago for its age",
    ]
    assert "ago" in live(run)
    did = run("compact").out.splitlines()
    assert (did[0], did[-1]) == ("1 thread merged, 1 archived", "undo: kingly-memory sweep --undo")
    assert "ago" not in live(run)
    assert run("sweep", "--undo").out == "1 memory and 3 threads as before the last sweep\n"
    assert "ago" in live(run)
    run("compact")
    assert run("sweep", "--undo", "--json").json == {"undone": 3, "memories": 0, "threads": 3}
    run("compact")
    assert run("compact", "--json", "--strategy", "gentle").json["actions"] == []
    assert "choose one of gentle, normal, aggressive" in run("compact", "--strategy", "brutal").err


def test_memories_are_put_away_by_name_and_brought_back(run: Run) -> None:
    run("store", "The old port is 5432", "--key", "port", "--significance", "0.9")
    run("store", "The old host is db1", "--key", "host")
    assert run("archive", "add", "port", "--reason", "we have moved").out.splitlines() == [
        "archived: port  The old port is 5432",
        "undo: kingly-memory archive restore port",
    ]
    assert run("archive", "add", "host", "--json").json["key"] == "host"
    assert live(run) == set()
    listed = run("archive", "list").out
    assert "    just now, request: we have moved\n" in listed
    assert "    just now, request: somebody asked for it to rest\n" in listed
    assert "archived  by request: we have moved" in run("get", "port", "--explain").out.splitlines()
    assert run("get", "port").code == 2
    run("archive", "restore", "port")
    assert live(run) == {"port"}


def test_a_sweep_shows_nothing_of_another_projects_memories(run: Run, tmp_path: Path) -> None:
    clock = ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    with SyncMemoryRouter.open(tmp_path / "home", False, project="other", settings=LASTING, clock=clock) as memory:
        theirs = memory.store("a secret of theirs", key="theirs", type="episodic")
    for options in (["--dry-run"], []):
        said = run("sweep", *options).out.splitlines()
        assert said[0].startswith("0 memories ")
        assert said[1:] == [
            f"  1 memory of another project had ended and {'would be' if options else 'was'} put away too",
        ]
        assert theirs.id not in "\n".join(said)
