"""What the package index and an installer make of this project: frameworks resolve beside it, an sdist is whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUIET = ("--quiet", "--disable-pip-version-check")
LIMIT_S = 900

pytestmark = pytest.mark.conformance


def environment() -> dict[str, str]:
    """The caller's, without this project's exact versions: a user has none."""
    return {name: value for name, value in os.environ.items() if name not in {"PIP_CONSTRAINT", "PYTHONPATH"}}


def pip(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Skips the test, with pip's reason, where no index can be reached."""
    command = [str(python), "-m", "pip", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode and ("from versions: none" in done.stderr or "Failed to establish" in done.stderr):
        pytest.skip(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done


def resolved(report: Path, *asked: str) -> dict[str, str]:
    """The version that pip would install of each distribution."""
    pip(Path(sys.executable), "install", "--dry-run", "--ignore-installed", *QUIET, "--report", str(report), *asked)
    chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {one["metadata"]["name"].lower(): one["metadata"]["version"] for one in chosen}


@pytest.mark.requirement("N29")
@pytest.mark.parametrize("framework", ["crewai", "strands-agents"])
def test_a_framework_resolves_to_its_current_version_beside_us(framework: str, tmp_path: Path) -> None:
    current = resolved(tmp_path / "alone.json", framework)[framework]
    beside = resolved(tmp_path / "beside.json", framework, str(ROOT))
    assert beside[framework] == current
    assert "kingly-memory" in beside


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a clean clone of what is committed."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("there is no git, or no repository to clone")
    folder = tmp_path_factory.mktemp("sdist")
    clone = folder / "clone"
    subprocess.run([git, "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=LIMIT_S)
    builder = fresh(folder / "builder")
    pip(builder, "install", *QUIET, "hatchling>=1.27,<2")
    subprocess.run(
        [str(builder), "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)],
        cwd=clone, check=True, timeout=LIMIT_S, capture_output=True,
    )  # fmt: skip
    (built,) = folder.glob("*.tar.gz")
    return built


def fresh(folder: Path) -> Path:
    """The interpreter of a new virtual environment."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


@pytest.mark.requirement("N29")
def test_an_sdist_of_a_clean_clone_installs_and_tells_the_demos_story(sdist: Path, tmp_path: Path) -> None:
    python = fresh(tmp_path / "fresh")
    pip(python, "install", *QUIET, f"{sdist}[hub]")
    told = subprocess.run(
        [str(python.parent / "kingly-memory"), "demo", "--json"],
        env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    last = json.loads(told.stdout.splitlines()[-1])
    assert (last["step"], last["exactly_once"]) == ("finished", True)


@pytest.mark.requirement("N29")
def test_a_core_installation_stores_and_finds(sdist: Path, tmp_path: Path) -> None:
    python = fresh(tmp_path / "core")
    pip(python, "install", *QUIET, str(sdist))
    listed = json.loads(pip(python, "list", "--format=json").stdout)
    assert not {"mcp", "starlette", "uvicorn", "numpy"} & {one["name"].lower() for one in listed}
    home = str(tmp_path / "home")
    kingly = str(python.parent / "kingly-memory")
    said = [
        subprocess.run(
            [kingly, *words, "--home", home],
            env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=True,
        ).stdout
        for words in (["store", "Deploys need two reviews"], ["search", "who reviews a deploy"])
    ]  # fmt: skip
    assert "Deploys need two reviews" in said[1]
