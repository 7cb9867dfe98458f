"""The page of a hub in a real browser, over a hub that a real home delivers to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.hub.grants import changing, granted
from kingly_memory.hub.process import HubProcess
from kingly_memory.page.hub.serve import VIEWS
from kingly_memory.page.hub.sessions import offered
from tests.page.browser import Browser, browser, missing, needs_axe
from tests.page.conftest import HOSTILE

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
    pytest.mark.requirement("P26"),
]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, HubProcess, str]]:
    """A browser, a hub that a home has called, and a token of that hub."""
    folder = tmp_path_factory.mktemp("browser")
    home = folder / "hub"
    with changing(home) as grants:
        after, token = grants.made(granted("ada", "admin", (), "default", datetime.now(UTC)))
        after.write(home)
    with pytest.MonkeyPatch.context() as patch, HubProcess(home) as hub, browser(folder) as window:
        patch.setenv("KINGLY_EMBEDDER", "none")
        for project in ("shop", HOSTILE):
            with SyncMemoryRouter.open(folder / "mine", hub.url, project=project, token=token) as memory:
                memory.store("Deploys need a review", significance=0.8)
                memory.sync()
        yield window, hub, token


def test_a_person_types_a_token_looks_at_everything_and_logs_out(opened: tuple[Browser, HubProcess, str]) -> None:
    window, hub, token = opened
    window.open(f"{hub.url}/page/homes")
    assert window.run("return document.activeElement.id") == "token"
    window.type("#token", "no token of this hub\ue007")
    window.wait("document.querySelector('.alert')?.textContent.startsWith('That is no token')")
    assert all("401" in line for line in window.log())
    window.type("#token", f"{token}\ue007")
    window.wait("document.querySelector('h1').textContent === 'The hub is ready'")
    window.look(width=390, height=844, scheme="dark")
    for path, (name, _, _) in VIEWS.items():
        window.open(f"{hub.url}/page{path}")
        assert window.text("nav [aria-current]") == name
        assert window.run("return document.querySelectorAll('script, img, iframe').length") == 0, path
        assert window.run("return document.documentElement.scrollWidth") <= 390, path
        assert window.run("return document.querySelectorAll('h1').length") == 1, path
        assert window.run("return getComputedStyle(document.body).backgroundColor") == "rgb(22, 23, 26)"
    assert window.log() == []
    window.look()
    window.open(f"{hub.url}/page/homes")
    told = window.text("main")
    assert f"{os.uname().nodename} " in told
    assert "up to date" in told
    assert HOSTILE[:20] in told
    window.click("header form button")
    window.wait("document.querySelector('#token')")
    window.open(f"{hub.url}/page/projects")
    assert "shop" not in window.text()


@pytest.mark.page
@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_no_view_of_the_hub_has_a_serious_barrier(
    opened: tuple[Browser, HubProcess, str], width: int, scheme: str
) -> None:
    window, hub, _ = opened
    window.look(width=width, height=844, scheme=scheme)
    window.open(f"{hub.url}/page")
    found = [("form", *one) for one in window.barriers()]
    window.open(f"{hub.url}/page?token={offered(hub.home, datetime.now(UTC))}")
    window.wait("document.querySelector('#state')?.textContent === 'everything, by a link'")
    for path in VIEWS:
        window.open(f"{hub.url}/page{path}")
        found += [(path, *one) for one in window.barriers()]
    window.click("header form button")
    window.wait("document.querySelector('#token')")
    assert found == []


def test_a_link_leads_on_to_the_hub(opened: tuple[Browser, HubProcess, str]) -> None:
    window, hub, _ = opened
    window.open(f"{hub.url}/page?token={offered(hub.home, datetime.now(UTC))}")
    window.wait("document.querySelector('#state')?.textContent === 'everything, by a link'")
    assert window.url == f"{hub.url}/page"
