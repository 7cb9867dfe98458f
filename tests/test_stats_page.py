"""The page of `stats --html`: whole by itself, harmless, and true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kingly_memory import Settings, SyncMemoryRouter
from kingly_memory.testing import ManualClock
from tests.cli_runner import Run, runner

LASTING = Settings(durability="process", closing_s=0.0, semantic_lifetime_s=1e10)
HOSTILE = "<script>alert(1)</script> \" ' & </svg> <img src=http://x onerror=y>"
ACTIVE = {"script", "img", "iframe", "link", "object", "embed", "image", "use", "foreignobject", "a", "base", "form"}
"""Elements that load or run something, or lead away."""


class Elements(HTMLParser):
    """The elements of a page as a browser would see them; fails when their ends do not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @classmethod
    def of(cls, page: str) -> Elements:
        seen = cls()
        seen.feed(page)
        seen.close()
        assert seen._open == []
        return seen


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("KINGLY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KINGLY_PROJECT", "<b>app")
    return runner(capsys, monkeypatch)


def stored(home: Path) -> None:
    """Memories of many ages, some with hostile names, and something in the archive."""
    clock = ManualClock(datetime.now(UTC) - timedelta(days=190))
    with SyncMemoryRouter.open(home, False, project="<b>app", settings=LASTING, clock=clock) as memory:
        for number in range(40):
            memory.store(f"note {number}", key=f"n{number}", significance=(number % 10) / 10)
            clock.jump(3 * 86_400)
            if number == 36:
                memory.sweep(["strength"])
        memory.store(f"\x1b[31m \u202e {HOSTILE}", key=HOSTILE, title="\u2028<i>", significance=0.3)
        clock.jump(70 * 86_400)
        memory.sweep(["tiers"])


def page(run: Run, tmp_path: Path) -> str:
    path = tmp_path / "page.html"
    ran = run("stats", "--html", str(path))
    assert (ran.code, ran.out) == (0, f"wrote {path}: open it in a browser\n")
    return path.read_text(encoding="utf-8")


def test_a_page_of_nothing_is_a_page(run: Run, tmp_path: Path) -> None:
    text = page(run, tmp_path)
    Elements.of(text)
    assert "Nothing has been put away yet." in text
    assert "No live memory is on its way below the threshold." in text
    assert "Nothing: every memory may stay where it is." in text


def test_the_page_is_whole_and_loads_and_runs_nothing(run: Run, tmp_path: Path) -> None:
    stored(tmp_path / "home")
    text = page(run, tmp_path)
    seen = Elements.of(text)
    assert not ACTIVE & set(seen.names)
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in ("src", "href", "style")]
    assert not re.search(r"url\(|@import|https?:", text.replace("http://x", ""))
    assert "prefers-color-scheme:dark" in text
    assert "default-src 'none'" in text


def test_hostile_names_are_shown_as_text(run: Run, tmp_path: Path) -> None:
    stored(tmp_path / "home")
    text = page(run, tmp_path)
    assert "<script>" not in text
    assert "<b>app" not in text
    assert "&lt;b&gt;app" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert any("<script>alert(1)</script>" in one for one in Elements.of(text).texts)


def test_the_figures_are_those_of_stats_and_of_the_dry_run(run: Run, tmp_path: Path) -> None:
    stored(tmp_path / "home")
    text = page(run, tmp_path)
    stats = run("stats", "--json").json
    policies = ("lifetimes", "merging", "strength", "tiers")
    dry = run("sweep", *(word for one in policies for word in ("--policy", one)), "--dry-run", "--json").json
    live = sum(stats["strength"].values())
    assert f"<dt>live</dt><dd>{live:,}</dd>" in text
    assert f"<dt>in the archive</dt><dd>{stats['archived']:,}</dd>" in text
    for count in stats["tier_counts"].values():
        assert f'<span class="count">{count:,}</span>' in text
    assert f"<dt>live</dt><dd>{dry['before']['live']:,} → {dry['after']['live']:,}</dd>" in text
    archive = re.search(r'aria-label="Archive by reason">(.*?)</ul>', text, re.DOTALL)
    assert archive is not None
    counts = [int(one.replace(",", "")) for one in re.findall(r'class="count">([\d,]+)<', archive[1])]
    assert sum(counts) == stats["archived"] > 0
    columns = re.search(r'aria-label="Strengths">(.*?)</svg>', text, re.DOTALL)
    assert columns is not None
    assert sum(int(one) for one in re.findall(r'class="value"[^>]*>(\d+)<', columns[1])) == live


def test_a_sweep_by_every_policy_is_shown_with_what_it_would_merge(run: Run, tmp_path: Path) -> None:
    run("store", "Deploys wait for two reviews")
    run("store", "deploys wait for 2 reviews", "--key", "reviews")
    run("store", "Deploys wait for two reviews.", "--key", "again")
    text = page(run, tmp_path)
    assert "(policies: lifetimes, merging, strength, tiers); nothing was changed" in text
    assert '<span class="tag merge">merge</span>' in text
    assert "<td>another memory says the same: Deploys wait for two reviews.<small>again</small></td>" in text
    assert "1 kept apart by keys, though others say the same" in text
    assert run("sweep", "--json").json["merged"] == 0


def test_every_picture_is_sound_and_stays_within_its_frame(run: Run, tmp_path: Path) -> None:
    stored(tmp_path / "home")
    pictures = re.findall(r"<svg.*?</svg>", page(run, tmp_path), re.DOTALL)
    assert len(pictures) >= 4 + 1 + 6
    for picture in pictures:
        root = ElementTree.fromstring(picture)  # noqa: S314  # our own picture
        left, top, width, height = map(float, root.attrib["viewBox"].split())
        for x, y in _points(root):
            assert left - 0.1 <= x <= left + width + 0.1
            assert top - 0.1 <= y <= top + height + 0.1


def _points(root: ElementTree.Element) -> Iterator[tuple[float, float]]:
    for one in root.iter():
        said = one.attrib
        if "points" in said:
            yield from (tuple(map(float, pair.split(","))) for pair in said["points"].split())  # type: ignore[misc]
        for x, y in (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy")):
            if x in said and y in said:
                yield float(said[x]), float(said[y])
