"""The own tests of frameworks, with our classes in the place of theirs, as frameworks.toml says, and what ours cost
beside the router's own calls. What came of it is written into docs/integrations/index.md."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.adapters import ADAPTERS
from tests.conformance.test_packages import LIMIT_S, QUIET, ROOT, environment, fresh, pip

HERE = Path(__file__).parent
FRAMEWORKS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "frameworks.toml").read_text(encoding="utf-8"))
PAGE = ROOT / "docs" / "integrations" / "index.md"
IN_THE_ENVIRONMENT_OF = {"langchain": "langgraph"}

pytestmark = pytest.mark.conformance


def unpacked(python: Path, package: str, folder: Path) -> Path:
    """The sdist of a release, as the index has it."""
    name = package.partition("==")[0]
    pip(python, "download", *QUIET, "--no-deps", "--no-binary", name, "--dest", str(folder), package)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (source,) = (one for one in folder.iterdir() if one.is_dir())
    return source


def outcomes(python: Path, folder: Path, report: Path, *options: str) -> dict[str, str]:
    """How each test of a run of pytest ended: passed, failure, error or skipped. `report` is a new file."""
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "--rootdir=.", "--junitxml", str(report), *options],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert report.exists(), done.stdout + done.stderr
    ended = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  # which pytest has just written
        states = {one.tag for one in case} & {"failure", "error", "skipped"}
        ended[f"{case.attrib['classname']}::{case.attrib['name']}"] = min(states, default="passed")
    return ended


def bare(name: str) -> str:
    """Of a test that runs in two classes or with parameters, one name: its module's and its own."""
    place, _, test = name.rpartition("::")
    module = next(one for one in reversed(place.split(".")) if one.startswith("test_"))
    return f"{module}::{test.partition('[')[0]}"


def note(name: str, row: str) -> None:
    """Put the row of a framework in the place of the one that the page has."""
    with PAGE.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several processes test at once
        page = file.read()
        written = re.sub(rf"^\| {re.escape(name)} \|.*$", lambda _: row, page, count=1, flags=re.MULTILINE)
        assert row in written, f"docs/integrations/index.md has no row that begins with {name}"
        file.seek(0)
        file.write(written)
        file.truncate()


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """That of the environment of a framework, which those share that say the same `environment`."""

    @cache
    def made(name: str) -> Path:
        python = fresh(tmp_path_factory.mktemp("venv"))
        those = [told for framework, told in FRAMEWORKS.items() if told.get("environment", framework) == name]
        extras = ",".join(sorted({told["extra"] for told in those}))
        needed = {one for told in those for one in (told["package"], *told["with"])}
        pip(python, "install", *QUIET, f"{ROOT}[{extras}]", *sorted(needed))
        return python

    return lambda framework: made(FRAMEWORKS[framework].get("environment", framework))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_frameworks_own_tests_pass_with_our_class_in_the_place_of_theirs(
    framework: str, interpreter: Callable[[str], Path], tmp_path: Path
) -> None:
    told = FRAMEWORKS[framework]
    python, place = interpreter(framework), tmp_path / "run"
    place.mkdir()
    count, reasons = "", list(told.get("why", ()))
    if told.get("tests"):
        theirs, others = own_tests(told, python, place, tmp_path), told["others"]
        passed = [bare(name) for name, state in theirs.items() if state == "passed"]
        rest = {bare(name) for name, state in theirs.items() if state != "passed"}
        assert (rest, rest & set(passed)) == (set(others), set())
        count = f"{len(passed)} of {len(theirs)}"
        named: dict[str, list[str]] = {}
        for name, reason in others.items():
            named.setdefault(reason, []).append(f"`{name.rpartition('::')[2]}`")
        reasons += [f"{', '.join(names)} {reason}" for reason, names in named.items()]

    checks = [f"checks/{Path(one).name}" for one in told.get("checks", ())]
    for one, target in zip(told.get("checks", ()), checks, strict=True):
        (place / "checks").mkdir(exist_ok=True)
        shutil.copy(HERE / one, place / target)
    ours = 0
    for folder, files in ((place, checks), (ROOT, told.get("contract", ()))):
        if files:
            options = ["-p", "no:cacheprovider", *told.get("contract_options", ())]
            ended = outcomes(python, folder, tmp_path / f"{folder.name}.xml", *options, *files)
            assert set(ended.values()) == {"passed"}
            ours += len(ended)
    version = told["package"].replace("==", " ")
    note(told["name"], f"| {told['name']} | {version} | {count or f'{ours} of ours'} | {'; '.join(reasons)} |")


@pytest.mark.parametrize("adapter", ADAPTERS, ids=[one.replace("_", "-") for one in ADAPTERS])
def test_each_call_of_an_adapter_is_measured_beside_the_routers_own(
    adapter: str, interpreter: Callable[[str], Path]
) -> None:
    """The figures go into the page, with the reason of each that frameworks.toml gives. None fails the run: how fast a
    machine is at this moment says nothing about the code."""
    framework = IN_THE_ENVIRONMENT_OF.get(adapter, adapter.replace("_", "-"))
    command = [str(interpreter(framework)), "-W", "ignore", "-m", "benchmarks.adapters", adapter, "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    reasons, measured = FRAMEWORKS[framework].get("costs", {}), set()
    for name, router_us, processor, again, wall, wall_again in json.loads(done.stdout):
        measured.add(name)
        figures = f"{router_us:,.0f} µs | {processor:.2f} | {again:.2f} | {wall:.2f} | {wall_again:.2f}"
        note(name, f"| {name} | {figures} | {reasons.get(name, '')} |")
    calls = set(re.findall(rf"^\| ({adapter}: `[^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert measured == calls
    assert {name for name in reasons if name.startswith(f"{adapter}:")} <= measured


def own_tests(told: dict[str, Any], python: Path, place: Path, folder: Path) -> dict[str, str]:
    """How the framework's own tests end."""
    source = unpacked(python, told["package"], folder / "sdist")
    for one in (*told["tests"], *told.get("beside", ())):
        target = place / one
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / one, target)
        for above in target.relative_to(place).parents[:-1]:
            (place / above / "__init__.py").touch()
    shutil.copy(HERE / told["swap"], place / "tests" / "conftest.py")
    return outcomes(python, place, folder / "theirs.xml", *told["options"], *told["tests"])
