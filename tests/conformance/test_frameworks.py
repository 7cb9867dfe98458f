"""The own tests of frameworks, with our classes in the place of theirs, as frameworks.toml says. What came of it is
written into docs/integrations.md."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conformance.test_packages import LIMIT_S, QUIET, ROOT, environment, fresh, pip

HERE = Path(__file__).parent
FRAMEWORKS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "frameworks.toml").read_text(encoding="utf-8"))
PAGE = ROOT / "docs" / "integrations.md"

pytestmark = pytest.mark.conformance


def unpacked(python: Path, package: str, folder: Path) -> Path:
    """The sdist of a release, as the index has it."""
    pip(python, "download", *QUIET, "--no-deps", "--no-binary", ":all:", "--dest", str(folder), package)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (source,) = (one for one in folder.iterdir() if one.is_dir())
    return source


def outcomes(python: Path, folder: Path, *options: str) -> dict[str, str]:
    """How each test of a run of pytest ended: passed, failure, error or skipped."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "--rootdir=.", "--junitxml", report.name, *options],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert report.exists(), done.stdout + done.stderr
    ended = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  # which pytest has just written
        states = {one.tag for one in case} & {"failure", "error", "skipped"}
        name = f"{case.attrib['classname'].partition('.')[2]}::{case.attrib['name']}"
        ended[name] = min(states, default="passed")
    return ended


def note(name: str, row: str) -> None:
    """Put the row of a framework in the place of the one that the page has."""
    page = PAGE.read_text(encoding="utf-8")
    written = re.sub(rf"^\| {re.escape(name)} \|.*$", lambda _: row, page, count=1, flags=re.MULTILINE)
    assert row in written, f"docs/integrations.md has no row that begins with {name}"
    PAGE.write_text(written, encoding="utf-8")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_frameworks_own_tests_pass_with_our_class_in_the_place_of_theirs(framework: str, tmp_path: Path) -> None:
    told = FRAMEWORKS[framework]
    python = fresh(tmp_path / "venv")
    pip(python, "install", *QUIET, f"{ROOT}[{told['extra']}]", told["package"], *told["with"])
    source = unpacked(python, told["package"], tmp_path / "sdist")
    place = tmp_path / "run"
    for one in told["tests"]:
        target = place / one
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / one, target)
        (target.parent / "__init__.py").touch()
    shutil.copy(HERE / told["swap"], place / "tests" / "conftest.py")
    theirs = outcomes(python, place, *told["options"], *told["tests"])
    others: dict[str, str] = told["others"]
    assert {name for name, ended in theirs.items() if ended != "passed"} == set(others)

    checks = [f"checks/{Path(one).name}" for one in told["checks"]]
    (place / "checks").mkdir()
    for one, target in zip(told["checks"], checks, strict=True):
        shutil.copy(HERE / one, place / target)
    assert set(outcomes(python, place, *checks).values()) == {"passed"}

    passed, of = sum(ended == "passed" for ended in theirs.values()), len(theirs)
    rest = "; ".join(f"`{name.rpartition('::')[2]}` {reason}" for name, reason in others.items())
    note(told["name"], f"| {told['name']} | {told['package'].replace('==', ' ')} | {passed} of {of} | {rest} |")
