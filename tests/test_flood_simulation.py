"""The example of ten households by a river: it runs, leaves its audit, and goes on from a saved file as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kingly_memory.cognition.audit import Kind
from kingly_memory.models import JsonObject
from tests.cli_runner import ROOT, environment


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What it said, and the folder it was given."""
    folder = tmp_path_factory.mktemp("river")
    example = ROOT / "examples" / "flood_simulation.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example), str(folder)],
        env=dict(environment()),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, folder


def records(folder: Path, kind: Kind) -> list[JsonObject]:
    return [json.loads(line) for line in (folder / "audit" / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.requirement("COG-045", "COG-046", "COG-056")
def test_a_household_that_was_saved_goes_on_to_the_same_decisions(ran: tuple[str, Path]) -> None:
    assert ran[0].splitlines()[-1] == "H007, resumed from its file of year 10: the same"
    saved = json.loads((ran[1] / "household.json").read_text(encoding="utf-8"))
    assert {"state", "memory"} <= saved.keys()
    assert {"working", "episodic"} <= saved["memory"].keys()


@pytest.mark.requirement("COG-057", "COG-031", "COG-033")
def test_every_household_has_a_trace_a_tool_call_and_a_consolidation_each_year(ran: tuple[str, Path]) -> None:
    expected = [(year, f"H{number:03}") for year in range(1, 21) for number in range(1, 11)]
    for kind in (Kind.TOOL_INVOCATION, Kind.CONSOLIDATION, Kind.HOUSEHOLD_TRACE):
        assert [(one["year"], one["agent_id"]) for one in records(ran[1], kind)] == expected


@pytest.mark.requirement("COG-029")
def test_the_audit_says_where_each_memory_went(ran: tuple[str, Path]) -> None:
    updates = records(ran[1], Kind.MEMORY_UPDATE)
    went = {
        (one["update_type"], one["memory_item"]["importance"], one["memory_item"]["destination"]) for one in updates
    }
    assert ("policy", 0.7, "working") in went
    assert ("flood", 0.6, "episodic") in went
    assert ("flood", 0.4, "working") in went
    assert ("decision", 0.7, "episodic") in went


@pytest.mark.requirement("COG-030")
def test_what_was_consolidated_was_news_of_that_year(ran: tuple[str, Path]) -> None:
    years = records(ran[1], Kind.CONSOLIDATION)
    taken = [(one["year"], text) for one in years for text in one["consolidation"]["transferred_items"]]
    assert set(taken) == {(year, f"Year {year}: The town pays half of an elevation") for year in (5, 12)}
