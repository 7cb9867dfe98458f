"""The requirement table, the tests' markers and the documents about them agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.requirements import complaints, taken_on

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "tests" / "requirements.md").read_text(encoding="utf-8")
LEDGER = ROOT.parent / "shared" / "spec" / "ledger.md"
DEVIATIONS = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def marked_rows() -> list[tuple[str, str]]:
    """(test file, row) for every requirement marker in tests/."""
    return [
        (path.name, row)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for rows in re.findall(r"\bmark\.requirement\(([^()]*)\)", path.read_text(encoding="utf-8"))
        for row in re.findall(r'"([^"]+)"', rows)
    ]


def test_every_marker_names_a_row_of_the_table(marked_rows: list[tuple[str, str]]) -> None:
    rows = taken_on(TABLE)
    assert [(name, row) for name, row in marked_rows if row not in rows] == []


def test_every_row_of_the_table_is_named_by_a_test(marked_rows: list[tuple[str, str]]) -> None:
    named = {row for _, row in marked_rows}
    assert [row for row in taken_on(TABLE) if row not in named] == []


@pytest.mark.requirement("L1")
@pytest.mark.skipif(not LEDGER.is_file(), reason="the ledger of the design documents does not lie beside the project")
def test_every_row_of_the_ledger_is_in_the_table_and_no_other() -> None:
    ledger = re.findall(r"^\| ([A-Z]{3}-\d{3}) \|", LEDGER.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(ledger) == 364
    assert sorted(row for row in taken_on(TABLE) if "-" in row) == sorted(ledger)


@pytest.mark.requirement("UNI-012")
@pytest.mark.parametrize("decision", [f"K{number}" for number in range(1, 19)])
def test_every_decision_is_a_line_of_the_deviations(decision: str) -> None:
    lines = [line for line in DEVIATIONS.splitlines() if line.startswith(f"- **{decision}** ")]
    assert len(lines) == 1
    assert ":" in lines[0], "a deviation gives its reason after a colon"


def test_first_deviation_is_where_adapters_and_router_live() -> None:
    first = next(line for line in DEVIATIONS.splitlines() if line.startswith("- "))
    assert first.startswith("- `adapters/` and `router/` are packages inside `kingly_memory`")


def test_a_row_without_a_passing_test_is_complained_about() -> None:
    rows = taken_on("| KNG-001 | one |\n| KNG-002 | two |\n")
    outcome = {
        "KNG-001": {"passed": ["t.py::a"], "failed": ["t.py::b"]},
        "KNG-009": {"passed": ["t.py::c"], "failed": []},
    }
    assert complaints(rows, outcome) == [
        "KNG-002  no passing test: two",
        "KNG-001  fails in t.py::b",
        "KNG-009  is not in the table, but tests name it",
    ]


def test_a_row_that_stands_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="KNG-001 stands in the table twice"):
        taken_on("| KNG-001 | one |\n| KNG-001 | one |\n")
