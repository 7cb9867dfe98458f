"""What every test gets: a folder of its own for home, data and working directory, and none of the caller's settings.
What most tests of routers ask for: a clock and a store."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from kingly_memory.settings import Settings
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kingly_memory import MemoryRouter
    from tests.cli_runner import Run

pytest_plugins = ["tests.requirements_plugin"]

# A loaded machine is not a failure: no law depends on how long an example took. By default every run tries the same
# examples, so that a run fails only because of what was changed; `make test-long` looks for new ones.
CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "same", derandomize=True, database=None, max_examples=16, deadline=None, suppress_health_check=CALM
)
settings.register_profile("long", max_examples=250, deadline=None, suppress_health_check=CALM, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Nor is a search cut or a remote given up, unless a test says when: others use the machine too.
PATIENCE = {"local_search_s": 30.0, "remote_search_s": 30.0}
Settings()  # the first one has `__init__` compiled
vars(Settings)["__init__"].__kwdefaults__.update(PATIENCE)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Run in the background of a shell: processes that tests start would not hear of it either.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Rubbish is looked for less often, and never among modules and collected tests: one eighth of all processor time.
gc.set_threshold(50_000)

_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """For what a module's fixtures start, which no test isolates."""
    os.environ["KINGLY_EMBEDDER"] = "none"
    os.environ["XDG_DATA_HOME"] = folder = tempfile.mkdtemp(prefix="kingly-tests-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(autouse=True)
def isolated_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No KINGLY_* variable or proxy of the caller's; HOME, XDG_DATA_HOME and the working directory in `tmp_path`."""
    for name in os.environ:
        if name.startswith("KINGLY_") or name.lower() in _PROXIES:
            monkeypatch.delenv(name)
    user_home = tmp_path / "user"
    work = tmp_path / "work"
    for folder in (user_home, work):
        folder.mkdir()
    # Vectors come behind a store, whenever there is time: tests that are about them ask for them.
    monkeypatch.setenv("KINGLY_EMBEDDER", "none")
    for name, seconds in PATIENCE.items():
        monkeypatch.setenv(f"KINGLY_{name.upper()}", str(seconds))
    monkeypatch.setenv("HOME", str(user_home))
    monkeypatch.setenv("XDG_DATA_HOME", str(user_home / "data"))
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs one command line in this process."""
    from tests.cli_runner import runner

    return runner(capsys, monkeypatch)


@pytest.fixture
def project(isolated_environment: Path) -> Path:
    """A project folder, which is also the working directory."""
    (isolated_environment / ".git").mkdir()
    return isolated_environment


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path) -> PromptStore:
    """Of a router that somebody else closes."""
    return PromptStore(tmp_path / "home")


@pytest.fixture
async def memory(store: PromptStore, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    """A router over that store, without a remote."""
    async with router_over(store, None, clock) as router:
        yield router
