"""docs/reliability.md names every fault and only tests that exist, and a run changes nothing of it but its figures."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tools.reliability import PAGE, Recorder, Row, rewritten, rows

ROOT = Path(__file__).parents[1]
FAULTS = 36


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests of a file; none when there is no such file."""
    file = ROOT / path
    if not file.exists():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def listed() -> list[Row]:
    return rows(PAGE.read_text(encoding="utf-8"))


def test_every_fault_is_on_the_page_once_and_in_order() -> None:
    assert [row.number for row in listed()] == list(range(1, FAULTS + 1))
    assert [row.number for row in listed() if not row.tests or not row.promise] == []


def test_every_test_that_the_page_names_exists() -> None:
    named = [test for row in listed() for test in row.tests]
    missing = [test for test in named if test.partition("::")[2] not in names_in(test.partition("::")[0])]
    assert missing == []


def test_a_run_rewrites_the_figures_and_nothing_else() -> None:
    page = PAGE.read_text(encoding="utf-8")
    recorder = Recorder()
    recorder.outcomes[listed()[0].tests[0]].update(passed=3)
    recorder.figures[1]["two of three"] = None
    once = rewritten(page, recorder)
    assert rewritten(once, recorder) == once
    assert rows(once) == rows(page)
    assert next(line for line in once.splitlines() if line.startswith("| 1 |")).endswith("| 3 passed; two of three |")
    for before, after in zip(page.splitlines(), once.splitlines(), strict=True):
        assert after == before or after.rsplit(" | ", 1)[0] == before.rsplit(" | ", 1)[0].removesuffix(" |")


@pytest.mark.parametrize(("outcome", "said"), [("failed", "**1 failed**"), ("skipped", "1 skipped")])
def test_what_did_not_pass_is_said(outcome: str, said: str) -> None:
    recorder = Recorder()
    recorder.outcomes[listed()[0].tests[0]][outcome] += 1
    assert said in recorder.figure(listed()[0])


def test_pytest_takes_the_recorder_as_a_plugin() -> None:
    assert pytest.PytestPluginManager().register(Recorder())
