"""Importing a folder of notes again follows what became of its files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from kingly_memory.adapters.files.detect import FoundFile, source
from kingly_memory.dataclass import replace
from tests.cli_runner import Run

pytestmark = pytest.mark.requirement("N20")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    (made / "work").mkdir(parents=True)
    (made / "work" / "release.md").write_text("# Release\nCut on #thursday, see [[people]].\n\n## Rollback\nRevert.\n")
    (made / "people.md").write_text("---\ntags: team\n---\nAnn and Bo review.\n")
    (made / "cats.md").write_text("Cats sleep.\n")
    return made


def keys(run: Run) -> dict[str, str]:
    """The keys of all memories, and their ids."""
    return {one["key"]: one["id"] for one in run("list", "--json").json["memories"]}


ALL = {"work/release.md#Release", "work/release.md#Rollback", "people.md", "cats.md"}


def test_keys_say_file_and_heading_tags_and_links_come_along_and_old_files_do_not_fade_at_once(
    run: Run, folder: Path
) -> None:
    os.utime(folder / "cats.md", (1_500_000_000, 1_500_000_000))
    run("import", str(folder))
    assert keys(run).keys() == ALL
    assert run("get", "work/release.md#Release", "--json").json["tags"] == ["thursday"]
    [link] = run("links", "people.md", "--json").json["links"]
    assert (link["link_type"], link["description"]) == ("references", "[[people]]")
    cats = run("get", "cats.md", "--json", "--explain").json
    assert cats["created_at"].startswith("2017-07-14")
    assert run("sweep", "--policy", "strength", "--dry-run", "--json").json["archived"] == 0


def test_a_note_that_is_imported_by_itself_keeps_its_links_to_the_others_and_may_get_more(
    run: Run, folder: Path
) -> None:
    run("import", str(folder))
    note = folder / "work" / "release.md"
    run("import", str(note))
    assert len(run("links", "people.md", "--json").json["links"]) == 1
    note.write_text(note.read_text().replace("[[people]]", "[[cats]]"))
    run("import", str(note))
    assert run("links", "people.md", "--json").json["links"] == []
    assert len(run("links", "cats.md", "--json").json["links"]) == 1
    (folder / "cats.md").write_bytes(b"\xff")
    run("import", str(folder))  # cannot be read
    assert len(run("links", "cats.md", "--json").json["links"]) == 1
    (folder / "cats.md").unlink()
    run("import", str(folder))
    assert run("links", "work/release.md#Release", "--json").json["links"] == []


def test_a_file_whose_name_has_its_accents_apart_is_found_by_what_a_keyboard_types(run: Run, folder: Path) -> None:
    apart, typed = (normalize(form, "Büro.md") for form in ("NFD", "NFC"))
    (folder / apart).write_text("# Tür\nThe key of the office.\n")
    (folder / "cats.md").write_text("Cats sleep in the [[Büro]].\n")
    run("import", str(folder))
    assert run("get", f"{typed}#Tür", "--json").json["content"].endswith("office.\n")
    assert len(run("links", "cats.md", "--json").json["links"]) == 1
    assert "0 new, 0 revised, 5 as before" in run("import", str(folder)).out


@pytest.mark.skipif(sys.platform == "darwin", reason="both names are one file there")
def test_two_files_whose_names_differ_in_their_spelling_alone_are_two_notes(run: Run, folder: Path) -> None:
    apart, typed = (normalize(form, "Büro.md") for form in ("NFD", "NFC"))
    (folder / apart).write_text("The key of the office.\n")
    run("import", str(folder))
    before = {*keys(run).values()}
    (folder / typed).write_text("The key of the other office.\n")
    assert "1 new, 0 revised, 4 as before, 1 moved" in run("import", str(folder)).out
    (folder / apart).write_bytes(b"\xff")
    run("import", str(folder))
    assert before < {*keys(run).values()}


def linked(folder: Path) -> str:
    folder.with_name("alias").symlink_to(folder)
    return str(folder.with_name("alias"))


@pytest.mark.parametrize(
    "named",
    [
        os.path.relpath,
        lambda folder: str(folder / "work" / ".."),
        linked,
        lambda folder: str(shutil.copytree(folder, folder.with_name("checkout"))),
        lambda folder: str(shutil.move(folder, folder.with_name("moved"))),
    ],
    ids=["relative", "dots", "link", "copy", "moved"],
)
def test_the_same_folder_under_another_path_adds_nothing(run: Run, folder: Path, named: Callable[[Path], str]) -> None:
    run("import", str(folder))
    before = keys(run)
    other = named(folder)
    again = run("import", other, "--json").json
    assert (again["stored"], again["unchanged"], keys(run)) == (0, 4, before)
    for file in ("people.md", "cats.md", "work/release.md"):
        Path(other, file).write_text("All new.")
    told = run("import", other, "--json").json
    assert (told["revised"], told["forgotten"]) == (2, 2), "what was seen to be the folder stays it"


def test_what_was_changed_moved_deleted_and_split_is_followed(run: Run, folder: Path) -> None:
    run("import", str(folder))
    before = keys(run)
    (folder / "people.md").write_text("Ann, Bo and Cy review.\n")
    (folder / "work" / "release.md").rename(folder / "how.md")
    with (folder / "how.md").open("a") as file:
        file.write("Then tell everybody.\n\n# Later\nA party.\n")
    (folder / "cats.md").unlink()
    tried = run("import", str(folder), "--dry-run", "--json").json
    assert {one["key"]: one["what"] for one in tried["steps"]} == {
        "people.md": "changed",
        "how.md#Release": "moved",
        "how.md#Rollback": "changed",
        "how.md#Later": "new",
        "cats.md": "gone",
    }
    assert keys(run) == before, "a dry run writes nothing"
    told = run("import", str(folder), "--json").json
    figures = ("stored", "revised", "moved", "forgotten", "unchanged")
    assert [told[name] for name in figures] == [tried[name] for name in figures] == [1, 2, 1, 1, 0]
    after = keys(run)
    assert after.keys() == {"people.md", "how.md#Release", "how.md#Rollback", "how.md#Later"}
    for name in ("Release", "Rollback"):
        assert after[f"how.md#{name}"] == before[f"work/release.md#{name}"]
    assert [one["content"] for one in run("history", "people.md", "--json").json["revisions"]] == [
        "Ann, Bo and Cy review.\n",
        "Ann and Bo review.\n",
    ]
    (folder / "cats.md").write_text("Cats sleep.\n")
    run("import", str(folder))
    assert keys(run)["cats.md"] == before["cats.md"], "the memory comes back with its file"


def test_a_note_called_like_its_file_moves_with_it(run: Run, folder: Path) -> None:
    run("import", str(folder))
    (folder / "cats.md").rename(folder / "felines.md")
    (folder / "work" / "release.md").rename(folder / "Release.md")
    steps = run("import", str(folder), "--dry-run", "--json").json["steps"]
    assert {one["what"] for one in steps} == {"moved"}
    assert run("import", str(folder), "--json").json["moved"] == 3
    (folder / "Release.md").rename(folder / "how.md")
    assert run("import", str(folder), "--json").json["moved"] == 2
    assert run("get", "felines.md", "--json").json["title"] == "felines"
    run("update", "felines.md", "--title", "Cats")
    (folder / "felines.md").rename(folder / "pets.md")
    run("import", str(folder))
    assert run("get", "pets.md", "--json").json["title"] == "Cats"


def test_notes_that_change_places_keep_their_memories(run: Run, folder: Path) -> None:
    run("import", str(folder))
    before = keys(run)
    (folder / "people.md").rename(folder / "x")
    (folder / "cats.md").rename(folder / "people.md")
    (folder / "x").rename(folder / "cats.md")
    run("import", str(folder))
    after = keys(run)
    assert (after["people.md"], after["cats.md"]) == (before["cats.md"], before["people.md"])
    assert after.keys() == before.keys()


def test_what_was_changed_by_hand_stays_until_its_file_changes_too(run: Run, folder: Path) -> None:
    run("import", str(folder))
    run("update", "cats.md", "Cats sleep all day.")
    run("forget", "people.md")
    told = run("import", str(folder), "--json").json
    assert (told["unchanged"], told["stays_away"]) == (3, 1)
    assert run("get", "cats.md", "--json").json["content"] == "Cats sleep all day."
    assert "people.md" not in keys(run)
    (folder / "cats.md").write_text("Cats hunt.\n")
    run("import", str(folder))
    told = [one["content"] for one in run("history", "cats.md", "--json").json["revisions"]]
    assert told == ["Cats hunt.\n", "Cats sleep all day.", "Cats sleep.\n"]


def test_a_bad_file_is_named_and_passed_and_keeps_what_came_from_it(run: Run, folder: Path) -> None:
    run("import", str(folder))
    (folder / "cats.md").write_bytes(b"\xff\x00 no text")
    (folder / "dogs.md").write_text("Dogs bark.\n")
    ran = run("import", str(folder), "--json")
    [problem] = ran.json["problems"]
    assert (ran.code, problem["path"], problem["message"]) == (1, str(folder / "cats.md"), "is not UTF-8 text")
    assert keys(run).keys() == {*ALL, "dogs.md"}


def test_a_folder_without_notes_forgets_nothing(run: Run, folder: Path) -> None:
    run("import", str(folder))
    shutil.rmtree(folder)
    folder.mkdir()
    ran = run("import", str(folder))
    assert (ran.code, "4 memories that came from it stay" in ran.err, set(keys(run))) == (1, True, ALL)


def test_other_folders_and_memories_keep_their_keys(run: Run, folder: Path, tmp_path: Path) -> None:
    run("store", "mine", "--key", "cats.md")
    run("import", str(folder))
    other = tmp_path / "handbook"
    other.mkdir()
    (other / "people.md").write_text("Other people.\n")
    run("import", str(other))
    assert keys(run).keys() == {*ALL, "notes/cats.md", "handbook/people.md"}
    assert run("get", "cats.md", "--json").json["content"] == "mine"


def test_a_folder_that_shares_a_file_with_a_small_one_is_another(run: Run, folder: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    shutil.copy(folder / "cats.md", small)
    run("import", str(small))
    run("import", str(folder))
    run("import", str(small))
    assert keys(run).keys() == ALL


@pytest.mark.requirement("N20")
def test_of_two_folders_that_say_nearly_the_same_neither_forgets_what_the_other_has(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    twin = shutil.copytree(folder, tmp_path / "twin")
    (twin / "only.md").write_text("Only in the twin.\n")
    (folder / "mine.md").write_text("Only in the first.\n")
    for _ in range(2):
        for one in (folder, twin):
            assert "forgotten" not in run("import", str(one), "--json").json
    assert keys(run).keys() == {*ALL, "only.md", "mine.md"}
    (twin / "people.md").write_text("Others review there.\n")
    for one in (twin, folder, twin):
        run("import", str(one))
    assert keys(run).keys() == {*ALL, "only.md", "mine.md", "notes/people.md"}


def test_headings_that_repeat_are_memories_of_their_own_each(run: Run, folder: Path) -> None:
    (folder / "cats.md").write_text("# Log\nOne.\n# Log\nTwo.\n# Log (2)\nThree.\n")
    run("import", str(folder / "cats.md"))
    there = {"cats.md#Log", "cats.md#Log (2)", "cats.md#Log (2) (2)"}
    assert keys(run).keys() == there
    assert run("import", str(folder / "cats.md"), "--json").json["unchanged"] == 3
    assert keys(run).keys() == there


def test_a_file_or_folder_inside_a_known_folder_is_that_part_of_it(run: Run, folder: Path) -> None:
    run("import", str(folder))
    (folder / "cats.md").unlink()
    (folder / "work" / "new.md").write_text("New.\n")
    (folder / "people.md").write_text("Nobody.\n")
    assert run("import", str(folder / "work"), "--json").json["stored"] == 1
    assert run("import", str(folder / "people.md"), "--json").json["revised"] == 1
    assert keys(run).keys() == {*ALL, "work/new.md"}


def test_a_sync_goes_on_in_a_home_that_was_imported_from_an_export(run: Run, folder: Path, tmp_path: Path) -> None:
    run("import", str(folder))
    run("export", str(tmp_path / "all.jsonl"))
    other = ("--home", str(tmp_path / "other"))
    run("import", str(tmp_path / "all.jsonl"), *other)
    (folder / "cats.md").unlink()
    told = run("import", str(folder), *other, "--json").json
    assert (told["stored"], told["unchanged"], told["forgotten"]) == (0, 3, 1)


def test_a_watched_folder_is_imported_again_when_a_file_changes(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            (folder / "dogs.md").write_text("Dogs bark.\n")
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    ran = run("import", str(folder), "--watch")
    assert ran.code == 0
    told = [line.partition(":")[2] for line in ran.out.splitlines() if "memor" in line]
    assert told == [" 4 new, 0 revised, 0 as before", " 1 new, 0 revised, 4 as before"]
    assert run("import", str(folder / "cats.md"), "--watch").code == 2


def test_what_changes_while_a_watched_folder_is_read_for_the_first_time_is_imported_too(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_before_it_changed(path: Path, **said: Any) -> FoundFile:
        found = source(path, **said)
        entries = [*found.entries]
        (folder / "dogs.md").write_text("Dogs bark.\n")
        return replace(found, entries=iter(entries))

    looks = iter([None, KeyboardInterrupt()])

    def sleep(_: float) -> None:
        if (ending := next(looks)) is not None:
            raise ending

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("kingly_memory.cli.importing.source", read_before_it_changed)
    ran = run("import", str(folder), "--watch")
    told = [line.partition(":")[2] for line in ran.out.splitlines() if "memor" in line]
    assert told == [" 4 new, 0 revised, 0 as before", " 1 new, 0 revised, 4 as before"]
