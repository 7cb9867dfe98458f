"""The examples run as they stand, and say what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_runner import ROOT, environment

EXAMPLES = ROOT / "examples"


def run_example(name: str, folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd=folder,
        env=dict(environment()),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.requirement("KNG-078")
@pytest.mark.requirement("KNG-086")
def test_an_orchestrator_keeps_its_place_across_agents_and_restarts(tmp_path: Path) -> None:
    said = run_example("orchestrator.py", tmp_path)
    assert "migrator begins with 2 memories at hand" in said
    assert "context release-7:" in said
    assert "Deploys need two reviews (planner)" in said
    assert "from 1 similar task" in said


@pytest.mark.requirement("KNG-086")
def test_a_gate_lets_through_what_went_well_and_holds_what_did_not(tmp_path: Path) -> None:
    said = run_example("confidence_gate.py", tmp_path)
    verdicts = dict(line.split(" -> ") for line in said.splitlines() if " -> " in line)
    assert [verdict for said, verdict in verdicts.items() if said.startswith("rotate")] == ["goes ahead"]
    assert [verdict for said, verdict in verdicts.items() if not said.startswith("rotate")] == ["asks a human"] * 2


@pytest.mark.requirement("KNG-086")
@pytest.mark.requirement("KNG-046")
def test_an_agent_works_through_an_outage(tmp_path: Path) -> None:
    lines = run_example("offline_agent.py", tmp_path).splitlines()
    assert [line.rsplit("[", 1)[1].rstrip("]") for line in lines if line.endswith("]")] == [
        "hybrid",
        "local_fallback",
        "local_fallback",
        "hybrid",
    ]
    assert "the hub is back: 1 delivered, 0 waiting" in lines


@pytest.mark.requirement("ARG-051")
def test_a_debate_reads_the_slower_tiers_and_what_earlier_debates_came_to(tmp_path: Path) -> None:
    said = run_example("debate.py", tmp_path, str(tmp_path / "home")).splitlines()
    conclusion = "Billing moves to PostgreSQL after a month of double writes."
    at = said.index("Should the invoices move to PostgreSQL too?")
    assert "  knows (medium): The mail service moved to PostgreSQL with double writes" in said[:at]
    assert not any("settled before" in line for line in said[:at])
    assert f"  settled before: {conclusion}" in said[at:]
    assert "  cy did not agree: A month is too short: yearly invoices are written in January." in said[at:]


def test_every_example_is_run_by_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in tests] == []
