"""Compare tests/requirements.md with the tests' outcome: which rows taken on does no passing test prove?

Usage: requirements.py TABLE OUTCOME. OUTCOME is written by `pytest --requirements=OUTCOME`. Exits with 1 when a row of
the table has no passing test or has a failing one, or when a test names a row that the table does not have.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

_ROW = re.compile(r"^\| (?P<id>[A-Z]{3}-\d{3}|[NLAPUD]\d{1,2}) \| (?P<text>[^|]+) \|$", re.MULTILINE)

Outcome = Mapping[str, Mapping[str, list[str]]]


def taken_on(table: str) -> dict[str, str]:
    """The rows of the table and what each requires, in the table's order. Raises ValueError on a repeated id."""
    rows: dict[str, str] = {}
    for match in _ROW.finditer(table):
        if match["id"] in rows:
            raise ValueError(f"{match['id']} stands in the table twice")
        rows[match["id"]] = match["text"].strip()
    return rows


def complaints(rows: Mapping[str, str], outcome: Outcome) -> list[str]:
    """One sentence per row that is not proved and per test marker that names no row."""
    unproved = [f"{row}  no passing test: {text}" for row, text in rows.items() if not _tests(outcome, row, "passed")]
    failing = [f"{row}  fails in {test}" for row in rows for test in _tests(outcome, row, "failed")]
    unknown = [f"{row}  is not in the table, but tests name it" for row in sorted(set(outcome) - set(rows))]
    return unproved + failing + unknown


def _tests(outcome: Outcome, row: str, verdict: str) -> list[str]:
    return outcome.get(row, {}).get(verdict, [])


def main(table: Path, outcome: Path) -> int:
    rows = taken_on(table.read_text(encoding="utf-8"))
    found = complaints(rows, json.loads(outcome.read_text(encoding="utf-8")))
    for line in found:
        print(line)
    print(f"{len(rows)} requirements taken on, complaints: {len(found)}")
    return 1 if found or not rows else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
