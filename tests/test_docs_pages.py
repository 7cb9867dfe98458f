"""Pages with Python in them run as they stand and print what they say, and no link between pages is dead."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from kingly_memory.home.place import hub_home
from kingly_memory.hub.process import HubProcess
from tests.cli_runner import ROOT, put_on_path, runner

DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, *sorted((ROOT / "integrations").rglob("*.md"))]
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def printed_and_promised(page: Path) -> tuple[str, str]:
    """What the page's Python prints when run as one script, and what its text blocks say that it prints."""
    namespace: dict[str, object] = {"__name__": "page"}
    promised = ""
    out = io.StringIO()
    for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "text":
            promised += body
        else:
            with contextlib.redirect_stdout(out):
                exec(compile(body, str(page), "exec"), namespace)  # noqa: S102  # our own page
    return out.getvalue(), promised


@pytest.mark.requirement("KNG-086")
@pytest.mark.parametrize(
    "page", [one for one in DOCS if "```python" in one.read_text(encoding="utf-8")], ids=lambda page: page.name
)
def test_a_page_prints_what_it_says(page: Path, isolated_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_LOCAL_SEARCH_S", "30")  # a busy machine shows the same
    printed, promised = printed_and_promised(page)
    assert printed == promised


def sessions(page: Path) -> list[tuple[str, str]]:
    """The commands of a page's sessions in a shell, each with what it prints, in which … stands for anything."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.MULTILINE)


@pytest.mark.requirement("N18")
def test_the_ten_minutes_go_as_they_are_told(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(tmp_path / "bin", monkeypatch)
    run = runner(capsys, monkeypatch)
    hub = HubProcess(hub_home())
    hub.start()
    with contextlib.ExitStack() as at_end:
        at_end.callback(hub.kill)
        for command, promised in sessions(ROOT / "docs" / "index.md"):
            into_file = re.fullmatch(r"\(umask 077; (.+) > (.+)\)", command)
            words = into_file[1] if into_file else command.replace("http://127.0.0.1:8000", hub.url)
            ran = run(*shlex.split(words)[1:])
            printed = (ran.err + ("" if into_file else ran.out)).replace(hub.url, "http://127.0.0.1:8000")
            pattern = ".*".join(map(re.escape, promised.split("…")))
            assert re.fullmatch(pattern, printed, re.DOTALL), f"{promised}---\n{printed}"
            if into_file:
                (project / into_file[2]).write_text(ran.out, encoding="utf-8")
                (project / into_file[2]).chmod(0o600)


def without_blocks(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> list[str]:
    """The names by which a page's headings are linked to."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    dead = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", without_blocks(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


def test_every_page_that_is_named_anywhere_is_there() -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), page)
        for folder in ("kingly_memory", "tests", "tools", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
        for page in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert named
    assert [(path, page) for path, page in sorted(named) if not (ROOT / page).exists()] == []


def test_the_readme_names_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT).as_posix() for page in DOCS]
    assert [page for page in pages if f"]({page}" not in readme] == []
