"""Run every test that docs/reliability.md names and all faults, and rewrite the page's column of figures.

`python -m tools.reliability [PYTEST OPTION ...]` prints the table and exits as pytest does. With options that leave
tests out (`-k cuts`), rows of which none was run keep their figures.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
WHOLE = ("tests/benchmarks", "tests/faults", "tests/kill")
"""Folders that are run from end to end."""
BESIDE = "3"
"""Files of tests that run at once."""
FIGURE = "figure"
"""The property of a test's report that holds `<row>|<figure>`."""

_TEST = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")
_CELL = " | "


@dataclass(frozen=True, slots=True)
class Row:
    """One fault of the page, with the tests that show what holds."""

    number: int
    fault: str
    promise: str
    tests: tuple[str, ...]


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Recorder:
    """A pytest plugin that keeps outcomes and figures by test, whatever its parameters."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    figures: dict[int, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    reasons: dict[str, str] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when != "call":
            return
        name = report.nodeid.partition("[")[0]
        self.outcomes[name][report.outcome] += 1
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[name] = report.longrepr[2].removeprefix("Skipped: ")
        for key, value in report.user_properties if report.passed else ():
            if key == FIGURE:
                row, _, text = str(value).partition("|")
                self.figures[int(row)].setdefault(text)

    def has_run(self, row: Row) -> bool:
        return any(one in self.outcomes for one in row.tests)

    def figure(self, row: Row) -> str:
        """What the last column says of a row."""
        counts = sum((self.outcomes[one] for one in row.tests if one in self.outcomes), Counter[str]())
        parts = [f"{counts['passed']} passed"]
        parts += [f"**{counts['failed']} failed**"] if counts["failed"] else []
        parts += [f"{counts['skipped']} skipped: {self._reason(row)}"] if counts["skipped"] else []
        return "; ".join([*parts, *self.figures[row.number]])

    def _reason(self, row: Row) -> str:
        return next((self.reasons[one] for one in row.tests if one in self.reasons), "no reason given")


def rows(page: str) -> list[Row]:
    """The faults of a page, in its order."""
    found = []
    for line in page.splitlines():
        if re.match(r"\| \d+ \|", line):
            number, fault, promise, tests, *_ = line.strip("| ").split(_CELL)
            found.append(Row(int(number), fault, promise, tuple(_TEST.findall(tests))))
    return found


def rewritten(page: str, recorder: Recorder) -> str:
    """The page with the figures of this run."""
    figures = {row.number: recorder.figure(row) for row in rows(page) if recorder.has_run(row)}
    lines = []
    for line in page.splitlines(keepends=True):
        match = re.match(r"\| (\d+) \|", line)
        if match is None or int(match[1]) not in figures:
            lines.append(line)
            continue
        kept = line.rstrip("\n").split(_CELL)[:4]
        kept[3] = kept[3].removesuffix(" |").rstrip()
        lines.append(_CELL.join([*kept, figures[int(match[1])]]) + " |\n")
    return "".join(lines)


def main(arguments: Sequence[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    # In the order of files: one whose fixtures are made once has them made once.
    named = sorted({test for row in rows(page) for test in row.tests if not test.startswith(WHOLE)})
    recorder = Recorder()
    options = ["-q", "-ra", "--tb=short", "--show-capture=no", "-o", "faulthandler_timeout=1200", *WHOLE, *named]
    # Most of them wait most of the time and go beside each other, file by file; what measures has the machine alone.
    beside = ["-m", "not measures", "-n", BESIDE, "--dist", "loadfile"]
    alone = ["-m", "measures"]
    codes = [pytest.main([*options, *how, *arguments], plugins=[recorder]) for how in (beside, alone)]
    PAGE.write_text(rewritten(page, recorder), encoding="utf-8")
    for row in filter(recorder.has_run, rows(page)):
        print(f"{row.number:>2}  {row.fault[:58]:58}  {recorder.figure(row)}")
    ran = [int(code) for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return max(ran, default=int(pytest.ExitCode.NO_TESTS_COLLECTED))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
