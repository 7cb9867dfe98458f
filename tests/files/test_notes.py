"""A folder of Markdown notes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.files import notes
from kingly_memory.adapters.files.notes import front, sections
from kingly_memory.adapters.files.reading import Problem
from kingly_memory.imported import ImportedNote
from kingly_memory.models import MemoryType, Origin
from kingly_memory.validation import Draft


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    return made


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def drafts(folder: Path) -> tuple[list[Draft], list[str]]:
    found, problems = noted(folder)
    return [one.draft for one in found], problems


def noted(folder: Path) -> tuple[list[ImportedNote], list[str]]:
    found = list(notes.read(folder))
    said = [f"{one.place}: {one.reason}" for one in found if isinstance(one, Problem)]
    return [one for one in found if isinstance(one, ImportedNote)], said


def test_a_note_becomes_a_semantic_memory_with_title_tags_and_path(folder: Path) -> None:
    write(
        folder / "work" / "release.md",
        "---\ntags: [ops, '#weekly']\nowner: 'Ann'\naliases:\n- a\n- b\n---\n# How we release #\r\n\nFirst #tag.\n",
    )
    [draft], problems = drafts(folder)
    assert problems == []
    assert draft.content == "# How we release #\r\n\nFirst #tag.\n"
    assert (draft.title, draft.tags) == ("How we release", ("ops", "weekly", "tag"))
    assert (draft.type, draft.origin, draft.metadata) == (
        MemoryType.SEMANTIC,
        Origin.IMPORT,
        {"owner": "Ann", "aliases": ["a", "b"], "path": "work/release.md"},
    )


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("no heading here", "name of the file"),
        ("## Real one\n```\n# not a heading\n~~~\n```\n", "Real one"),
        ("#hashtag is no heading", "name of the file"),
        ('---\ntitle: "From the front"\n---\n# Heading\n', "From the front"),
        ("# Tabs\tand\x07bells", "Tabs and bells"),
        ("# " + "long " * 300, ("long " * 103).strip()[:512]),
    ],
)
def test_the_title_is_the_first_heading_or_the_file_name(folder: Path, text: str, title: str) -> None:
    write(folder / "name of the file.md", text)
    [draft], problems = drafts(folder)
    assert (draft.title, problems) == (title, [])


@pytest.mark.parametrize("written", ["tags: a, b", "Tags: [a, b]", 'tags:\n  - a\n  - "b"', "tag: '#a', b, ,"])
def test_tags_are_read_however_they_are_written(written: str) -> None:
    assert front(f"---\n{written}\nother: c\n---\nbody").tags == ["a", "b"]


@pytest.mark.parametrize("bad", ["tags: [unclosed", 'title: "From', "just words", "more: {a: 1"])
def test_front_matter_that_is_no_yaml_is_named_and_the_text_is_imported(folder: Path, bad: str) -> None:
    write(folder / "n.md", f"---\ndate: 2026-01-02\n{bad}\n---\nbody")
    [draft], problems = drafts(folder)
    assert draft.created_at is not None
    assert (draft.content, draft.title, draft.tags, draft.created_at.year) == ("body", "n", (), 2026)
    assert problems == [f"front matter: {bad!r} is no YAML and was passed; the text is imported"]


def test_front_matter_goes_on_in_lines_that_are_indented() -> None:
    found = front("---\ntags: [a,\n  b]\n# said once\nnested:\n  deeper: x\n---\nbody")
    assert (found.tags, found.unread) == (["a", "b"], ())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_is_lost_when_there_is_no_front_matter(text: str) -> None:
    assert front("x" + text).body == "x" + text
    assert front(f"---\ntitle: t\n---\n{text}").body == text


@given(st.lists(st.sampled_from(("# One\n", "## Two\r\n", "### Three\n", "text\n", "```\n", "\u2028# x", "last"))))
def test_sections_are_parts_of_the_text_that_lose_nothing_but_empty_headings(lines: list[str]) -> None:
    text = "".join(lines)
    found = [one.text for one in sections(text)]
    rest = text
    for one in found:
        before, _, rest = rest.partition(one)
        assert not before.replace("# One", "").replace("## Two", "").strip("# \r\n")


def test_headings_of_two_levels_begin_notes_and_deeper_ones_do_not(folder: Path) -> None:
    write(
        folder / "a.md",
        "First.\n# Top\nsaid\n## In it\n### Deep\n#tag `#no` [[b|B]]\n```\n# no [[c]]\n```\n## In it\nx\n",
    )
    found, _ = noted(folder)
    assert [(one.heading, one.draft.title) for one in found] == [
        ("", "a"),
        ("Top", "Top"),
        ("In it", "Top › In it"),
        ("In it (2)", "Top › In it"),
    ]
    assert (found[2].draft.tags, found[2].links) == (("tag",), ("b",))


def test_the_date_comes_from_the_front_matter_or_from_the_file(folder: Path) -> None:
    write(folder / "a.md", "---\ndate: 2023-05-08\n---\nsaid")
    write(folder / "b.md", "said")
    os.utime(folder / "b.md", (1_700_000_000, 1_700_000_000))
    good, _ = drafts(folder)
    assert [draft.created_at for draft in good] == [
        datetime(2023, 5, 8, tzinfo=UTC),
        datetime.fromtimestamp(1_700_000_000, UTC),
    ]


def test_links_are_never_followed_and_are_named(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "outside" / "secret.md", "not yours")
    (folder / "linked.md").symlink_to(tmp_path / "outside" / "secret.md")
    (folder / "folder").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder)
    good, problems = drafts(folder)
    assert good == []
    assert problems == [": is a symbolic link and was not followed"] * 3


def test_hidden_files_are_left_out_and_other_files_and_empty_notes_are_said_to_be(folder: Path) -> None:
    for name in (".git/x.md", ".hidden.md", "picture.png", "list.txt"):
        write(folder / name, "text")
    write(folder / "empty.md", "---\ntags: a\n---\n  \n")
    write(folder / "Kept.MD", "text")
    found = list(notes.read(folder))
    assert [one.draft.title for one in found if isinstance(one, ImportedNote)] == ["Kept"]
    assert {(one.path.name, one.why) for one in found if isinstance(one, notes.PassedOver)} == {
        ("picture.png", "not Markdown (.md)"),
        ("list.txt", "not Markdown (.md)"),
        ("empty.md", "empty"),
    }


def test_notes_that_cannot_be_read_are_named_and_the_rest_is_read(folder: Path) -> None:
    (folder / "a-bad.md").write_bytes(b"\xff\xfe")
    write(folder / "b-long.md", "x" * 1_048_577)
    os.mkfifo(folder / "d-pipe.md")
    write(folder / "e-date.md", "---\ndate: some day\n---\ntext")
    write(folder / "f-good.md", "text")
    good, problems = drafts(folder)
    assert [draft.title for draft in good] == ["f-good"]
    assert problems == [
        ": is not UTF-8 text",
        ": content: has 1,048,577 bytes, at most 1,048,576 are stored; split it into several memories",
        f": {folder / 'd-pipe.md'} is neither a file nor a folder",
        ": date: 'some day' is not an ISO 8601 date or time",
    ]
