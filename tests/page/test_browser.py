"""The page in a real browser: what it draws, what it runs, and what a person does with keyboard and mouse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page.browser import Browser, browser, missing
from tests.page.conftest import HOSTILE, Served, filled, served
from tests.page.test_views import VIEWS

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Served]]:
    """A browser that has opened the link."""
    folder = tmp_path_factory.mktemp("browser")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KINGLY_EMBEDDER", "none")
        filled(folder / "home")
        with served(folder / "home") as page, browser(folder) as window:
            window.open(page.link)
            window.wait("document.querySelector('#results')")
            yield window, page


@pytest.mark.requirement("P26")
def test_every_view_is_drawn_without_a_complaint_and_fits_a_phone(opened: tuple[Browser, Served]) -> None:
    window, page = opened
    window.look(width=390, height=844, scheme="dark")
    for path in VIEWS:
        window.open(page.base + path)
        assert window.run("return document.querySelectorAll('script, img, iframe').length") == 1, path
        assert window.run("return document.documentElement.scrollWidth") <= 390, path
        assert window.run("return document.querySelectorAll('h1').length") == 1, path
    assert window.log() == []
    assert window.run("return getComputedStyle(document.body).backgroundColor") == "rgb(22, 23, 26)"
    window.look()
    assert window.run("return getComputedStyle(document.body).backgroundColor") == "rgb(251, 251, 249)"


@pytest.mark.requirement("P26")
def test_inline_script_is_not_run_even_where_it_would_stand_in_the_page(opened: tuple[Browser, Served]) -> None:
    window, page = opened
    window.open(f"{page.base}/memory?m=hostile")
    assert HOSTILE[:20] in window.text("main")
    window.run(
        "const one = document.createElement('script'); one.textContent = 'window.ran = 1'; document.body.append(one)"
    )
    assert window.run("return window.ran === undefined")
    assert any("Content Security Policy" in line for line in window.log())


def test_typing_searches_and_a_change_elsewhere_is_told(opened: tuple[Browser, Served]) -> None:
    window, page = opened
    window.open(page.base + "/")
    window.type("#q", "outage")
    window.wait("document.querySelector('#results mark')")
    assert window.url.endswith("/?q=outage")
    assert window.text("#results h3") == "The outage began without one"
    with page.store() as store:
        store.store("Said meanwhile by an agent")
    window.run("dispatchEvent(new Event('focus'))")
    window.wait("!document.querySelector('#news').hidden")
    window.run("document.activeElement.blur()")
    window.type("body", "/")
    assert window.run("return document.activeElement.id") == "q"


def test_a_view_of_what_happens_by_itself_follows_it(opened: tuple[Browser, Served]) -> None:
    window, page = opened
    window.open(page.base + "/timeline")
    with page.store() as store:
        store.store("Nobody has clicked for this")
    window.run("dispatchEvent(new Event('focus'))")
    window.wait("document.querySelector('#live').textContent.includes('Nobody has clicked')")


@pytest.mark.requirement("P25")
def test_a_person_edits_undoes_forgets_and_restores(opened: tuple[Browser, Served]) -> None:
    window, page = opened
    window.open(f"{page.base}/memory?m=hostile")
    window.click("#edit summary")
    window.type("#edit input[name=tags]", ", seen")
    window.click("#edit button")
    window.wait("document.querySelector('.note')?.textContent.startsWith('Changed')")
    with page.store() as store:
        changed = store.history("hostile")[0]
        assert (changed.content, changed.tags, changed.revision) == (HOSTILE, ("<b>", "seen"), 2)
        window.click("form[action='/do/restore'] button")
        window.wait("document.querySelector('.note')?.textContent === 'It is back.'")
        assert store.history("hostile")[0].tags == ("<b>",)
        window.click("form[action='/do/forget'] button")
        window.wait("document.querySelector('h1').textContent === 'No such memory'")
        assert store.get("hostile") is None
        window.click("form[action='/do/restore'] button")
        window.wait("document.querySelector('.note')?.textContent === 'It is back.'")
        assert store.get("hostile") is not None
        window.click("form[action='/do/purge'] button")
        window.wait("document.querySelector('main').textContent.includes('This would be done')")
        window.click("form[action='/do/purge'] button")
        window.wait("document.querySelector('h1').textContent.startsWith('Done')")
        assert store.history("hostile") == ()
