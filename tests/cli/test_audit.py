"""audit tail, show, stats."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kingly_memory.app.auditing import AuditWriter
from kingly_memory.cognition.agent_memory import CognitiveMemory
from kingly_memory.cognition.audit import HouseholdOutput, year_end
from kingly_memory.cognition.skills import SkillRegistry, update_memory_from_skill
from tests.cli_runner import Run, environment, runner


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "work" / ".kingly" / "audit"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> Run:
    folder.parent.mkdir(exist_ok=True)
    return runner(capsys, monkeypatch)


@pytest.fixture
def two_years(folder: Path) -> None:
    """Of two households, each with an update, an invocation, a consolidation and a trace in each year."""
    seconds = iter(range(1_000))
    audit = AuditWriter(folder, now=lambda: datetime(2026, 1, 5, tzinfo=UTC) + timedelta(seconds=next(seconds)))
    registry = SkillRegistry.load()
    memories = [CognitiveMemory("H1"), CognitiveMemory("H2")]
    for year in (1, 2):
        for memory, skill in zip(memories, ("relocate", "do_nothing"), strict=True):
            name = memory.agent_id
            audit.log_invocation(name, year, registry.invoke("retrieve_memory", "household", memory, current_year=year))
            item = update_memory_from_skill(memory, skill, year)
            audit.log_memory_update(name, year, "skill_execution", item, memory)
            audit.write_household_trace(HouseholdOutput(name, year, skill), {}, {}, memory)
            year_end(memory, year, audit)


@pytest.mark.usefixtures("two_years")
def test_tail_shows_the_latest_of_all_kinds_in_their_order(run: Run) -> None:
    said = run("audit", "tail", "-n", "4").out.splitlines()
    assert [*said[0].split()] == ["TIME", "YEAR", "AGENT", "ID", "WHAT"]
    assert [line.split("  ")[-1][:40] for line in said[1:]] == [
        "retrieve_memory: 1 found",
        "skill_execution → working: Year 2: I cho",
        "trace: do_nothing",
        "consolidation: 0 transferred, 2 working,",
    ]
    assert said[1].startswith("2026-01-05T00:00:12  2     H2")
    assert run("audit", "tail", "--limit", "4").out.splitlines() == said


@pytest.mark.usefixtures("two_years")
def test_tail_can_be_narrowed_to_an_agent_and_to_kinds(run: Run) -> None:
    found = run("audit", "tail", "--agent", "H1", "--kind", "memory_updates", "--json").json["records"]
    assert [(one["kind"], one["record"]["agent_id"], one["record"]["year"]) for one in found] == [
        ("memory_updates", "H1", 1),
        ("memory_updates", "H1", 2),
    ]
    assert run("audit", "tail", "--agent", "nobody").out == "no records\n"


@pytest.mark.usefixtures("two_years")
def test_show_prints_one_record_by_its_id(run: Run) -> None:
    [latest] = run("audit", "tail", "-n", "1", "--json").json["records"]
    shown = run("audit", "show", latest["id"][:6], "--json").json
    assert shown == latest
    text = run("audit", "show", latest["id"]).out
    assert text.startswith(f"consolidations {latest['id']}\n{{\n")
    assert '    "transferred_count": 0,\n' in text


@pytest.mark.usefixtures("two_years")
def test_stats_count_by_kind_agent_and_year(run: Run, folder: Path) -> None:
    assert run("audit", "stats", "--json").json == {
        "folder": str(folder),
        "records": 16,
        "kinds": {"consolidations": 4, "household_traces": 4, "memory_updates": 4, "tool_invocations": 4},
        "agents": {"H1": 8, "H2": 8},
        "years": {"1": 8, "2": 8},
        "destinations": {"episodic": 2, "working": 2},
        "retrievals": {"calls": 4, "memories": 2},
        "consolidations": {"runs": 4, "memories": 0},
        "damaged": 0,
    }
    said = run("audit", "stats").out
    assert "remembered      2 episodic · 2 working\n" in said
    assert "retrievals      4 calls, 2 memories\n" in said
    assert "years           1 to 2\n" in said
    assert run("audit", "stats", "--agent", "H2", "--json").json["records"] == 8


@pytest.mark.usefixtures("two_years")
def test_damaged_lines_are_noted_beside_the_answer(run: Run, folder: Path) -> None:
    file = folder / "consolidations.jsonl"
    file.write_text("broken\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    said = run("audit", "stats", "--json")
    assert (said.json["records"], said.json["damaged"]) == (16, 1)
    assert said.err == f"kingly-memory: 1 line in {folder} could not be read as records\n"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["audit", "tail"], "folder: there is no audit in "),
        (["audit", "show", "0123abcd"], "folder: there is no audit in "),
        (["audit", "stats", "--folder", "nowhere"], "folder: there is no audit in nowhere; name another --folder"),
        (["audit", "tail", "-n", "0"], "limit: 0 is outside 1 to 100,000"),
        (["audit", "tail", "-n", "few"], "limit: 'few' is not a whole number"),
        (["audit", "tail", "--kind", "rumours"], "kind: 'rumours' is unknown; choose of memory_updates"),
        (["audit", "show"], "the following arguments are required"),
        (["audit"], "the following arguments are required"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(run: Run, argv: list[str], sentence: str) -> None:
    said = run(*argv)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"kingly-memory: {sentence}")
    assert said.err.count("\n") == 1


@pytest.mark.usefixtures("two_years")
def test_a_file_that_cannot_be_read_is_one_sentence(run: Run, folder: Path) -> None:
    (folder / "consolidations.jsonl").unlink()
    (folder / "consolidations.jsonl").symlink_to(folder / "memory_updates.jsonl")
    said = run("audit", "stats")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert f"{folder / 'consolidations.jsonl'} is not opened: it is a symbolic link" in said.err


@pytest.mark.usefixtures("two_years", "run")
def test_following_shows_the_latest_and_then_what_comes_until_it_is_interrupted(folder: Path) -> None:
    command = [sys.executable, "-m", "kingly_memory", "audit", "tail", "-n", "2", "--follow", "--agent", "H1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(environment()), text=True) as following:
        assert following.stdout is not None
        first = [json.loads(following.stdout.readline())["record"] for _ in range(2)]
        audit = AuditWriter(folder)
        for name in ("H2", "H1"):
            audit.log_tool_invocation(name, 3, "retrieve_memory", {"top_k": 5}, ["a flood"])
        then = json.loads(following.stdout.readline())
        following.send_signal(signal.SIGINT)
        assert following.wait(timeout=30) == 130
    assert [(one["agent_id"], one["year"]) for one in first] == [("H1", 2)] * 2
    assert (then["kind"], then["record"]["agent_id"], then["record"]["year"]) == ("tool_invocations", "H1", 3)
