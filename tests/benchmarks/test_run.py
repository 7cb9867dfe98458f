"""The benchmarks run and report what they promise. Nothing here depends on how long anything took."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measure import Figure, Goal, figure, percentile
from benchmarks.report import as_markdown
from benchmarks.run import FAMILIES, TABLES
from benchmarks.texts import Writer

ROOT = Path(__file__).parents[2]
FIELDS = set("name samples p50 p95 p99 max against ratio ratio_p99 goals missed remark grown_mb".split())


# Those that start many processes are measured by `make faults`, the others by every run of the tests.
SLOW = {
    "hanging": {
        "store with a hung remote",
        "the same again (A/A)",
        "search, remote hangs",
        "search, link known offline",
    },
    "draining": {"backlog to the hub, mcp", "backlog to the same in bad weather"},
    "syncing": {"first sync of 40 memories", "search, 0 s apart, beside a first sync"},
    "hooks": {"prompt hook, recalls", "prompt hook, nothing fits"},
    "mcp": {"MCP initialize", "MCP store, remote hangs", "MCP, end of input to exit"},
    "postgres": {"hub, PostgreSQL: 64 callers of a project, commits shared"},
    "idle": {"health of a hub, 200 idle connections", "search in a hub, 200 idle connections"},
}
QUICK = {
    "storing": {"store, power", "store, process", "store, 64 at once"},
    "searching": {"get by key in 40", "search in 40", "search in 40, broad", "store, get or list in 40"},
    "processes": {"kingly-memory search --json", "the same by meaning, among 40"},
    "working": {"task in its last tenth"},
    "agents": {"add + retrieve, an agent's memory", "add to an agent in a store"},
    **{name: set() for name in ("sweeping", "attending", "crowded", "hostile", "users", "million", "calibration")},
}


@pytest.mark.parametrize("families", [QUICK, pytest.param(SLOW, marks=pytest.mark.faults)], ids=["quick", "slow"])
def test_a_tiny_run_reports_every_family(tmp_path: Path, families: dict[str, set[str]]) -> None:
    report = tmp_path / "bench.json"
    tiny = ["--quick", "--samples", "4", "--sizes", "40", "--json", str(report)]
    command = [sys.executable, "-m", "benchmarks.run", *tiny, *(part for name in families for part in ("--only", name))]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    told = json.loads(report.read_text(encoding="utf-8"))
    figures, tables = told["figures"], told["tables"]
    assert set().union(*families.values()) <= {one["name"] for one in figures}
    assert all(set(one) == FIELDS and one["p50"] <= one["p95"] <= one["p99"] <= one["max"] for one in figures)
    assert [one["title"] for one in tables] == [name for name in families if name in TABLES]
    printed = [line for line in run.stdout.splitlines() if line]
    assert len(printed) == len(figures) + 2 + sum(len(one["rows"]) + 2 for one in tables)


def test_every_family_is_run_small() -> None:
    assert {*QUICK, *SLOW, "quarter"} == {*FAMILIES, *TABLES}


def test_the_same_seed_writes_the_same_texts() -> None:
    first, second = Writer(7), Writer(7)
    notes = first.notes(50)
    assert notes == second.notes(50)
    assert first.questions(notes, 8) == second.questions(notes, 8)
    assert notes != Writer(8).notes(50)


def test_a_few_words_make_up_most_of_the_text_and_most_words_are_rare() -> None:
    words = Counter(word for note in Writer().notes(2_000) for word in note.content.lower().replace(".", "").split())
    assert sum(count for _, count in words.most_common(50)) > words.total() / 4
    assert sum(1 for count in words.values() if count <= 5) > len(words) / 4


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1), st.integers(min_value=1, max_value=100))
def test_a_percentile_is_a_value_that_was_seen_and_enough_are_below_it(values: list[float], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(1 for value in values if value <= found) >= len(values) * percent / 100


def test_a_missed_goal_is_named_in_the_table() -> None:
    slow = figure("store", [0.010, 0.012], floor=[0.001, 0.001], against="floor", goals=(Goal("ratio", 4.0),))
    assert slow.missed == [Goal("ratio", 4.0)]
    assert "missed: ratio ≤ 4" in as_markdown([slow])


def test_a_goal_can_be_a_lower_bound() -> None:
    one = Figure("gain", 1, p50=1, p95=1, p99=1, max=1, ratio=9.0, goals=(Goal("ratio", 8.0, at_least=True),))
    assert one.missed == []
    assert "ratio ≥ 8" in as_markdown([one])
