"""The page over a large home, in a real browser: `make page-test`. Every view is drawn and has no barrier, whatever the
memories say; every action is done by clicks and keys, and seen in the store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.filling import fill, utterance
from benchmarks.texts import Writer
from kingly_memory.adapters.local.trusted import check_trusted
from kingly_memory.blocking import SyncMemoryRouter
from tests.page.browser import Browser, browser, missing, needs_axe
from tests.page.conftest import HOSTILE, PROJECT, Served, served
from tests.page.test_views import VIEWS
from tests.scripted.remote import ScriptedRemote

pytestmark = [pytest.mark.page, pytest.mark.skipif(missing() is not None, reason=missing() or "")]

MANY, VERY_MANY = 10_000, 100_000
FIRST_VIEW_MS = 300
LONGEST = f"{HOSTILE} " * (1024 * 1024 // len(f"{HOSTILE} ".encode()))
"""Nearly 1 MiB of it."""
WHOLE = (*VIEWS, "/memory?m=longest", "/upkeep?all=1", "/figures?all=1", "/?q=script", "/links?in=%3Cb%3E/%3Cb%3E")


def hostile(home: Path) -> None:
    """The hostile text wherever anybody can say something."""
    with SyncMemoryRouter.open(home, remote=False, project=PROJECT, agent=HOSTILE) as router:
        router.store("Deploys need one review", key="deploy", tags=["release"], significance=0.8, origin="user")
        router.store("Deploys need two reviews", key="deploy", significance=0.8, origin="user")
        router.store("The outage began without one", key="outage", context_id="incident-7", type="episodic")
        about: dict[str, Any] = {
            "title": HOSTILE,
            "tags": [HOSTILE],
            "context_id": HOSTILE,
            "metadata": {HOSTILE: HOSTILE},
        }
        router.store(HOSTILE, key="hostile", **about)
        router.store(LONGEST, key="longest")
        router.store("x" * 1_000_000, key="long")
        for other in ("outage", "hostile", "longest"):
            router.link_memories("deploy", other, "follows", description=HOSTILE)
        router.threads.rename("incident-7", HOSTILE)
        router.attention.focus(HOSTILE)
        router.attention.pin(HOSTILE, topics=[HOSTILE])
        router.assess_confidence(HOSTILE)
        router.record_task_outcome(HOSTILE, "failed", approach=HOSTILE, reason=HOSTILE, notes=[HOSTILE])
        router.inject("how many reviews does a deploy need?", session=HOSTILE)
        router.scoped(project="<b>", user="<b>").store(HOSTILE)
        for number in range(3):
            router.store(f"{HOSTILE} {number}", key=f"gone-{number}")
            router.archive(f"gone-{number}") if number else router.forget(f"gone-{number}")


@contextmanager
def opened(home: Path, folder: Path, *options: str) -> Iterator[tuple[Browser, Served]]:
    with served(home, *options) as page, browser(folder) as window:
        window.open(page.link)
        window.wait("document.querySelector('#results')")
        yield window, page


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Served]]:
    folder = tmp_path_factory.mktemp("large")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KINGLY_EMBEDDER", "none")
        notes = Writer().notes(MANY)
        hostile(folder / "home")
        fill(
            folder / "home",
            (utterance(one.content, number, PROJECT, tags=("note",)) for number, one in enumerate(notes)),
        )
        with SyncMemoryRouter.open(folder / "home", remote=False, project=PROJECT, agent=HOSTILE) as router:
            router.store(f"{HOSTILE} last", key="last", tags=[HOSTILE])
        with opened(folder / "home", folder) as both:
            yield both


@pytest.mark.requirement("P26")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_every_view_over_ten_thousand_memories_is_drawn_and_nothing_that_they_say_is_run(
    large: tuple[Browser, Served], width: int, scheme: str
) -> None:
    window, page = large
    window.look(width=width, height=844, scheme=scheme)
    for path in WHOLE:
        window.open(page.base + path)
        assert window.run("return document.querySelectorAll('script, img, iframe, style').length") == 1, path
        assert window.run("return document.documentElement.scrollWidth") <= width, path
        assert window.run("return document.querySelectorAll('h1').length") == 1, path
        assert "\u202e" not in window.text("main"), path
    assert window.log() == []


@pytest.mark.requirement("P26")
@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_no_view_has_a_serious_barrier(large: tuple[Browser, Served], width: int, scheme: str) -> None:
    window, page = large
    window.look(width=width, height=844, scheme=scheme)
    found = []
    for path in WHOLE:
        window.open(page.base + path)
        found += [(path, *one) for one in window.barriers()]
    assert found == []


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Served, ScriptedRemote]]:
    """A page over a home with a remote."""
    folder = tmp_path_factory.mktemp("working")
    with pytest.MonkeyPatch.context() as patch, ScriptedRemote() as remote:
        patch.setenv("KINGLY_EMBEDDER", "none")
        with SyncMemoryRouter.open(folder / "home", remote=False, project=PROJECT) as router:
            router.store("Deploys need one review", key="deploy", significance=0.8)
            router.store("The gate is green", key="gate", tags=["garden"], significance=0.2)
        with opened(folder / "home", folder, "--remote", remote.url) as (window, page):
            yield window, page, remote


def noted(window: Browser, beginning: str) -> None:
    window.wait(f"document.querySelector('.note')?.textContent.startsWith({json.dumps(beginning)})")


@pytest.mark.requirement("P25")
def test_every_action_is_done_in_the_browser_and_seen_in_the_store(
    working: tuple[Browser, Served, ScriptedRemote],
) -> None:
    window, page, _ = working

    def press(action: str, *, within: str = "main") -> None:
        window.click(f"{within} form[action='/do/{action}'] button")

    def open_folded(words: str) -> None:
        window.run(
            "[...document.querySelectorAll('details')].find((one) => one.querySelector('summary').textContent"
            " === arguments[0]).open = true",
            words,
        )

    with page.store() as store:
        window.open(f"{page.base}/memory?m=gate")
        open_folded("Edit")  # edit and tag
        window.type("#edit textarea", ", and oiled")
        window.type("#edit input[name=tags]", ", fence")
        press("update")
        noted(window, "Changed")
        now = store.history("gate")[0]
        assert (now.content, now.tags) == ("The gate is green, and oiled", ("garden", "fence"))

        press("restore")  # undo
        noted(window, "It is back")
        assert store.history("gate")[0].content == "The gate is green"

        press("attention.rate")
        noted(window, "Rated")
        assert store.threads.get(store.history("gate")[0].id).ratings

        open_folded("Pin this text")
        press("attention.pin")
        noted(window, "Pinned as")
        assert [one.content for one in store.list(tags=["pinned"])] == ["The gate is green"]

        window.open(f"{page.base}/memory?m=gate")
        press("archive")
        noted(window, "Put into the archive")
        assert (store.explain("gate") or {})["status"] == "archived"
        press("restore")
        noted(window, "It is back")

        window.open(f"{page.base}/memory?m=gate")
        press("forget")
        window.wait("document.querySelector('h1').textContent === 'No such memory'")
        assert store.get("gate") is None
        press("restore")
        noted(window, "It is back")
        assert store.get("gate") is not None

        press("purge")
        window.wait("document.querySelector('main').textContent.includes('This would be done')")
        press("purge")
        window.wait("document.querySelector('h1').textContent.startsWith('Done')")
        assert store.history("gate") == ()


@pytest.mark.requirement("P25")
def test_what_is_stored_in_the_browser_is_delivered_by_a_click(working: tuple[Browser, Served, ScriptedRemote]) -> None:
    window, page, remote = working
    window.open(f"{page.base}/")
    window.run("for (const one of document.querySelectorAll('details')) one.open = true")
    window.type("main textarea[name=content]", "Typed by a person")
    window.type("main input[name=significance]", "0.9")
    window.click("main form[action='/do/store'] button")
    noted(window, "Stored")
    window.open(f"{page.base}/delivery")
    window.click("main form[action='/do/sync'] button")
    window.wait("document.querySelector('h1').textContent.startsWith('Done')")
    assert "Typed by a person" in str(remote.effects)


@pytest.mark.requirement("P25")
def test_a_home_from_elsewhere_is_trusted_by_a_click(
    working: tuple[Browser, Served, ScriptedRemote], tmp_path: Path
) -> None:
    _, page, _ = working
    shutil.copytree(page.home, tmp_path / "home")
    with opened(tmp_path / "home", tmp_path) as (window, _):
        assert "This home was not made here" in window.text("main")
        window.click("form[action='/do/trust'] button")
        noted(window, "Trusted")
        assert "This home was not made here" not in window.text("main")
    check_trusted(tmp_path / "home")


@pytest.mark.requirement("P26")
def test_the_first_view_of_a_hundred_thousand_memories_takes_a_third_of_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINGLY_EMBEDDER", "none")
    notes = Writer().notes(VERY_MANY)
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, project=PROJECT) as router:
        router.store("The first of many")
    fill(tmp_path / "home", (utterance(one.content, number, PROJECT) for number, one in enumerate(notes)))
    with served(tmp_path / "home") as page:
        page.web.get(page.link)
        took = {}
        for path in ("/", "/timeline", "/threads", "/links", "/tasks", "/prompts", "/upkeep", "/figures"):
            times = [float(page.get(path).headers["server-timing"].partition("dur=")[2]) for _ in range(5)]
            took[path] = (times[0], sorted(times)[2])
    print(f"\nserver ms over {VERY_MANY:,} memories, the first time and usually: {took}")  # noqa: T201  # figures
    assert took["/"][1] <= FIRST_VIEW_MS
