"""A page over a home with some memories in it, as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import httpx
import pytest

from kingly_memory.blocking import SyncMemoryRouter
from tests.cli_runner import environment

HOSTILE = "</textarea></pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe\u202c \"' &lt;"
PROJECT = "shop"


@dataclass(frozen=True, slots=True)
class Served:
    """A page on a port, the link that it printed, and a browser's memory of it."""

    link: str
    home: Path
    web: httpx.Client

    @property
    def base(self) -> str:
        return self.link.partition("/?")[0]

    def get(self, path: str) -> httpx.Response:
        return self.web.get(self.base + path)

    def do(self, calls: str, **said: str | list[str]) -> httpx.Response:
        """Send a form as a page of ours has it, and go where that leads."""
        seal = re.search(r'name="seal" value="([^"]+)"', self.get("/").text)
        assert seal is not None
        return self.web.post(
            f"{self.base}/do/{calls}", data={"seal": seal[1], "in": "", "back": "/", **said}, follow_redirects=True
        )

    @contextmanager
    def store(self) -> Iterator[SyncMemoryRouter]:
        """What is in the store, read by somebody else."""
        with SyncMemoryRouter.open(self.home, remote=False, project=PROJECT) as router:
            yield router


def said(response: httpx.Response) -> str:
    """The sentences about what was done, or was not."""
    return unescape(" ".join(re.findall(r'class="(?:note|alert)">(.*?)</p>', response.text)))


@contextmanager
def served(home: Path, *options: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "kingly_memory", "page", "--home", str(home), "--project", PROJECT, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(environment())) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().split()[-1]
            with httpx.Client(trust_env=False, timeout=30) as web:
                yield Served(link, home, web)
        finally:
            process.terminate()
            assert process.wait(timeout=30) == 0


def filled(home: Path) -> None:
    with SyncMemoryRouter.open(home, remote=False, project=PROJECT) as router:
        router.store("Deploys need one review", key="deploy", tags=["release"], significance=0.8)
        router.store("Deploys need two reviews", key="deploy", significance=0.8)
        router.store("The outage began without one", key="outage", context_id="incident-7", type="episodic")
        router.link_memories("deploy", "outage", "follows")
        router.store(HOSTILE, key="hostile", title=HOSTILE, tags=["<b>"])
        router.store("x" * 1_000_000, key="long")
        router.inject("how many reviews does a deploy need?", session=HOSTILE)


@pytest.fixture(scope="package")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Whose link was opened."""
    home = tmp_path_factory.mktemp("page") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KINGLY_EMBEDDER", "none")
        filled(home)
        with served(home) as one:
            one.web.get(one.link)
            yield one
