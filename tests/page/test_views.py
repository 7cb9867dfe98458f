"""What the views say, and that no memory is ever more than text on them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from kingly_memory.page.html import Html, el, join
from tests.page.conftest import Served

VIEWS = (
    "/ /?q=deploy /?q=alert+gnp /timeline /links /threads /thread?t=incident-7&hand=1 /tasks /prompts?prompt=deploy "
    "/delivery /upkeep /figures /memory?m=deploy /memory?m=hostile /memory?m=long /?which=forgotten"
).split()


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of one of them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.requirement("P26")
@pytest.mark.parametrize("path", VIEWS)
def test_every_view_has_our_elements_alone_whatever_memories_say(page: Served, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code == 200
    elements = Elements(answer.text).found
    assert [one.get("src") for tag, one in elements if tag == "script"] == ["/page.js"]
    assert not [tag for tag, _ in elements if tag in ("img", "style", "iframe", "object")]
    assert not [name for _, one in elements for name in one if name.startswith("on") or name == "style"]
    labels = {one.get("for") for tag, one in elements if tag == "label"}
    named = [one for tag, one in elements if tag in ("input", "select", "textarea") and one.get("type") != "hidden"]
    assert all(one.get("id") in labels or "id" not in one for one in named)


@pytest.mark.requirement("P26")
def test_a_hostile_text_is_shown_as_it_is_and_what_turns_lines_around_is_named(page: Served) -> None:
    answer = page.get("/memory?m=hostile").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer
    assert "[U+202E]gnp.exe[U+202C]" in answer


@pytest.mark.requirement("P26")
def test_a_text_cannot_become_markup_and_an_address_cannot_lead_elsewhere() -> None:
    assert str(el("p", "<b>", class_='"x')) == '<p class="&quot;x">&lt;b&gt;</p>'
    assert str(join(["a<", el("br"), 1, None])) == "a&lt;<br>1"
    with pytest.raises(TypeError):
        Html("<script>", made_here=None)
    for address in ("javascript:alert(1)", "//evil.example", "https://evil.example", "/\\evil.example"):
        with pytest.raises(ValueError, match="another server"):
            el("a", href=address)
    for attribute in ("onclick", "style"):
        with pytest.raises(ValueError, match="no place"):
            el("a", **{attribute: "x"})


def test_a_search_says_why_each_hit_is_there_and_filters_by_tag_type_and_time(page: Served) -> None:
    found = page.get("/?q=deploy+reviews").text
    assert "<mark>Deploys</mark>" in found
    assert "found on this machine: weight of its words" in found
    part = page.get("/?q=deploy&part=1").text
    assert part.startswith('<div id="results"')
    for query, is_found in (
        ("tag=release", True),
        ("tag=other", False),
        ("type=episodic", False),
        ("since=2999-01-01", False),
    ):
        assert ("Deploys" in page.get(f"/?part=1&{query}").text) is is_found
    assert "since: " in page.get("/?since=rubbish").text


def test_a_memory_is_shown_with_its_history_links_and_status(page: Served) -> None:
    told = page.get("/memory?m=deploy").text
    assert "<del>-Deploys need one review\n</del><ins>+Deploys need two reviews\n</ins>" in told
    assert "follows →" in told
    assert "it is on this machine alone" in told
    assert page.get("/memory?m=nobody").status_code == 404
    assert "never yet" in page.get("/memory?m=long").text  # looking at it is no use


def test_the_last_prompts_are_told_with_what_they_got_why_and_what_it_cost(page: Served) -> None:
    told = page.get("/prompts").text
    assert "the last 1; 1 of them got notes" in told
    assert "fits 100%, likeness" in told
    assert "&lt;/textarea&gt;" in told  # the session's name
    tried = page.get("/prompts?prompt=how+many+reviews+does+a+deploy+need").text
    assert "Put in: 1 memory" in tried
    with page.store() as store:
        assert len(store.attention.prompts()) == 1  # a try is none


def test_time_runs_back_over_what_was_stored_changed_forgotten_and_purged(page: Served) -> None:
    with page.store() as store:
        gone = store.store("Ripe for the bin", key="bin")
        store.forget("bin")
        told = page.get("/timeline").text
        assert re.search("forgotten</b> <a[^>]*><bdi>Ripe for the bin.*stored</b> <a[^>]*><bdi>Ripe", told)
        store.purge(gone.id)
        told = page.get("/timeline").text
        assert "Ripe" not in told
        assert f"purged: only its id is left</b> <code>{gone.id}" in told
        assert "changed</b>" in told
        for number in range(60):
            store.store(f"filler {number}")
        older = re.search(r'href="(/timeline\?before=\d+)"', page.get("/timeline").text)
        assert older is not None
        assert "filler 9<" in page.get(older[1]).text


def test_links_are_a_picture_and_a_list(page: Served) -> None:
    told = page.get("/links").text
    assert 'aria-label="graph of links"' in told
    assert re.search("Deploys need two reviews</bdi></a></td><td>follows</td>", told)


def test_a_megabyte_is_shown_in_part_and_whole_when_asked(page: Served) -> None:
    assert len(page.get("/memory?m=long").text) < 60_000
    assert "Show the other 980,000 characters" in page.get("/memory?m=long").text
    assert "x" * 1_000_000 in page.get("/memory?m=long&whole=1").text


def test_other_projects_and_users_are_a_choice_away(page: Served) -> None:
    with page.store() as store:
        store.scoped(user="ann / ü").store("Ann likes tea")
    assert "Ann likes tea" not in page.get("/").text
    link = re.search(r'href="(/\?in=[^"]+)"><bdi>shop · ann / ü<', page.get("/upkeep").text)
    assert link is not None
    assert "Ann likes tea" in page.get(link[1]).text


def test_the_state_changes_its_mark_when_somebody_else_stores(page: Served) -> None:
    before = page.get("/state").text
    assert page.get("/state").text == before
    with page.store() as store:
        store.store("Something new")
    assert page.get("/state").text != before
