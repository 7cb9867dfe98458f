"""Pytest plugin: `--requirements=FILE` writes which rows of tests/requirements.md passing and failing tests prove."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

PROPERTY = "requirement"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", metavar="FILE", help="write the outcome of the requirement markers to FILE")


def pytest_configure(config: pytest.Config) -> None:
    target = config.getoption("--requirements")
    if target and not hasattr(config, "workerinput"):  # with several processes the first one hears of every test
        config.pluginmanager.register(_Recorder(config.invocation_params.dir / target), "requirement-recorder")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reports carry an item's properties but not its markers, so the rows travel as properties."""
    for item in items:
        for marker in item.iter_markers("requirement"):
            item.user_properties.extend((PROPERTY, row) for row in marker.args)


class _Recorder:
    """Collects outcomes as `{row: {"passed": [test, …], "failed": [test, …]}}`. Skipped tests prove nothing."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._rows: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"passed": [], "failed": []})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped or (report.passed and report.when != "call"):
            return
        for name, row in report.user_properties:
            if name == PROPERTY:
                self._rows[str(row)][report.outcome].append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._target.write_text(json.dumps(self._rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
