"""history, diff, get --revision, restore --revision, store --if-revision, update, tag and edit."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.models import Receipt
from tests.cli_runner import Run


@pytest.fixture
def deploy(run: Run) -> str:
    """Stored twice; its id."""
    run("store", "one review", "--key", "deploy", "--tag", "rule")
    return str(run("store", "two reviews", "--key", "deploy", "--agent", "bob", "--tag", "rule", "--json").json["id"])


@pytest.mark.requirement("N5", "D2")
def test_what_a_memory_said_before_is_listed_shown_and_compared(run: Run, deploy: str) -> None:
    newest, oldest = (line.split() for line in run("history", "deploy").out.splitlines())
    assert (newest[0], newest[-3:]) == ("2", ["bob", "two", "reviews"])
    assert (oldest[0], oldest[-3:]) == ("1", ["user", "one", "review"])
    told = run("history", deploy, "--json").json["revisions"]
    assert [(one["revision"], one["scope"]["agent"]) for one in told] == [(2, "bob"), (1, None)]
    assert run("get", "deploy", "--revision", "1", "--json").json["content"] == "one review"
    assert "; 2 is current\n" in run("get", "deploy", "--revision", "1").out
    assert "is current" not in run("get", "deploy", "--revision", "2").out + run("get", "deploy").out
    assert run("diff", "deploy").out.splitlines()[-2:] == ["-one review", "+two reviews"]
    assert run("diff", "deploy", "2", "1", "--json").json["diff"].endswith("-two reviews\n+one review")
    assert run("diff", "deploy", "2", "2").out == "the same text\n"


def test_a_comparison_says_why_it_is_empty(run: Run, deploy: str) -> None:
    run("store", "alone", "--key", "one")
    assert run("diff", "one").out == "there is only one revision\n"
    run("update", "deploy", "--title", "Deploying", "--tag", "law")
    assert run("diff", "deploy").out == "the same text; changed: tags, title\n"
    assert run("history", "deploy").out.splitlines()[0].endswith(" the same text; changed: tags, title")


def test_what_only_tells_of_today_does_not_go_with_a_revision(run: Run, deploy: str) -> None:
    ran = run("get", "deploy", "--revision", "1", "--explain")
    assert (ran.out, "does not go with --explain" in ran.err) == ("", True)
    assert ran.code


def test_tags_of_what_has_been_archived_are_not_said_to_be_nowhere(run: Run, deploy: str) -> None:
    run("archive", "add", "deploy")
    ran = run("tag", "deploy", "--add", "old")
    assert "has ended or is in the archive" in ran.err


@pytest.mark.requirement("N5", "D2")
def test_an_earlier_text_comes_back_as_a_new_revision(run: Run, deploy: str) -> None:
    assert run("restore", "deploy", "--revision", "1").out == "restored as revision 3: one review\n"
    again = run("restore", "deploy", "--revision", "1").out
    assert again == "nothing was restored, it says that already: one review\n"
    memory = run("get", "deploy", "--json").json
    assert (memory["content"], memory["revision"], memory["id"]) == ("one review", 3, deploy)


@pytest.mark.requirement("N5", "D2")
def test_a_change_that_came_too_late_is_refused_in_one_sentence(run: Run, deploy: str) -> None:
    ran = run("store", "three reviews", "--key", "deploy", "--if-revision", "1")
    assert (ran.code, ran.out) == (1, "")
    assert (
        ran.err
        == "kingly-memory: 'deploy' is at revision 2 and not at revision 1; read it again before you change it\n"
    )
    assert run("store", "three reviews", "--key", "deploy", "--if-revision", "2").code == 0


@pytest.mark.parametrize("command", ["history", "diff", "update", "tag", "edit"])
def test_what_is_not_there_is_an_error_that_names_it(run: Run, command: str) -> None:
    ran = run(command, "nobody")
    assert (ran.code, ran.err) == (
        2,
        "kingly-memory: nothing is stored under 'nobody' in this project; `kingly-memory list` shows what is there\n",
    )


def test_an_update_changes_what_is_said_and_nothing_else(run: Run, deploy: str) -> None:
    assert run("update", "deploy", "--title", "Deploys", "--significance", "0.2").out.startswith(
        "stored as revision 3 deploy"
    )
    memory = run("get", "deploy", "--json").json
    assert (memory["title"], memory["significance"], memory["content"]) == ("Deploys", 0.2, "two reviews")
    assert memory["tags"] == ["rule"]


@pytest.mark.parametrize(
    ("said", "tags"),
    [
        (["+release", "-rule"], "release\n"),
        (["--add", "release", "--add=ci"], "rule, release, ci\n"),
        (["-rule"], "no tags\n"),
        (["+rule"], "rule\n"),
    ],
)
def test_tags_are_added_and_taken_away(run: Run, deploy: str, said: list[str], tags: str) -> None:
    ran = run("tag", "deploy", *said)
    assert (ran.code, ran.out) == (0, tags)
    memory = run("get", "deploy", "--json").json
    assert ", ".join(memory["tags"]) + "\n" == tags.replace("no tags", "")
    assert memory["revision"] == 2 + (tags != "rule\n")


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shell script in the place of an editor."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"sh {tmp_path / 'editor'}")
    return tmp_path / "editor"


def test_a_text_is_changed_in_the_editor(run: Run, deploy: str, editor: Path) -> None:
    editor.write_text("sed -i s/two/three/ $1\n")
    assert run("edit", "deploy").out.startswith("stored as revision 3 deploy")
    memory = run("get", "deploy", "--json").json
    assert (memory["content"], memory["tags"]) == ("three reviews", ["rule"])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("true", "nothing was changed\n"),
        ("false", "kingly-memory: EDITOR: 'sh' ended with exit code 1; nothing was changed\n"),
        ("rm $1", "kingly-memory: EDITOR: left no file (No such file or directory); nothing was changed\n"),
        ("rm $1; mkdir $1", "kingly-memory: EDITOR: left no file (Is a directory); nothing was changed\n"),
        ("> $1", "kingly-memory: content: is empty; say what is to be remembered\n"),
    ],
)
def test_an_editor_that_changed_nothing_or_failed_leaves_the_memory(
    run: Run, deploy: str, editor: Path, script: str, said: str
) -> None:
    editor.write_text(script)
    ran = run("edit", "deploy")
    assert (ran.code, ran.out + ran.err) == (0 if script == "true" else 2, said)
    assert run("get", "deploy", "--json").json["content"] == "two reviews"
    assert list(editor.parent.rglob("edit-*")) == []


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("false", "ended with exit code 1"),
        ("printf '\\377' >> $1", "not UTF-8"),
        ("again", "is at revision"),
        ("gone", "nothing is stored"),
    ],
)
def test_what_was_written_in_the_editor_is_kept_when_it_cannot_be_stored(
    run: Run, deploy: str, editor: Path, script: str, problem: str
) -> None:
    commands = {"again": "store elsewhere --key deploy", "gone": "forget deploy"}
    if script in commands:
        script = f"{sys.executable} -m kingly_memory {commands[script]} > /dev/null"
    editor.write_text(f"echo my long text > $1; {script}\n")
    ran = run("edit", "deploy")
    assert ran.code != 0
    assert problem in ran.err
    kept = Path(re.search(r"what you wrote is kept in (\S+)", ran.err)[1])  # type: ignore[index]
    assert kept.read_bytes().startswith(b"my long text")


def test_what_was_written_is_kept_when_the_edit_is_interrupted(
    run: Run, deploy: str, editor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(command_line: list[str | Path], *, check: bool) -> None:
        Path(command_line[-1]).write_text("my long text\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", interrupted)
    ran = run("edit", "deploy")
    assert ran.code != 0
    [kept] = editor.parent.rglob("edit-*")
    assert f"what you wrote is kept in {kept}" in ran.err
    assert kept.read_text() == "my long text\n"


@pytest.mark.requirement("N10")
def test_what_an_edit_has_left_in_the_home_goes_with_a_purge_of_its_memory_alone(
    run: Run, deploy: str, editor: Path
) -> None:
    run("store", "another", "--key", "other")
    editor.write_text("echo my long text > $1; printf '\\377' >> $1\n")
    run("edit", "deploy")
    run("edit", "other")
    assert len(list(editor.parent.rglob("edit-*"))) == 2
    run("purge", deploy, "--yes")
    [left] = editor.parent.rglob("edit-*")
    assert deploy not in left.name


def test_what_is_kept_for_every_project_is_refused_before_the_editor_opens(run: Run, editor: Path) -> None:
    run("store", "english", "--everywhere", "--key", "lang")
    editor.write_text(f"touch {editor}.opened\n")
    ran = run("edit", "lang")
    assert (ran.code, "kept for every project" in ran.err, Path(f"{editor}.opened").exists()) == (2, True, False)
    assert (run("tag", "lang", "+short").code, run("tag", "lang", "+short").out) == (2, "")
    editor.write_text("echo french > $1\n")
    run("edit", "lang", "--everywhere")
    assert run("get", "lang", "--json").json["content"] == "french"


def test_tags_of_what_is_forgotten_meanwhile_are_not_said_to_be_there(
    run: Run, deploy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = SyncMemoryRouter.update

    def late(memory: SyncMemoryRouter, name: str, **said: Any) -> Receipt | None:
        memory.forget(name)
        del said["if_revision"]
        return update(memory, name, **said)

    monkeypatch.setattr(SyncMemoryRouter, "update", late)
    ran = run("tag", "deploy", "+x")
    assert (ran.code, ran.out, "nothing is stored under 'deploy'" in ran.err) == (2, "", True)


def test_an_update_that_changes_nothing_says_so(run: Run, deploy: str) -> None:
    assert run("update", "deploy").out == run("update", "deploy", "--tag", "rule").out == "nothing was changed\n"
    assert run("update", "deploy", "--ttl", "7d").out.startswith("stored as revision 2 deploy")


def test_what_a_person_changes_is_a_persons(run: Run, deploy: str, editor: Path) -> None:
    editor.write_text("sed -i s/two/three/ $1\n")
    run("edit", deploy[:13])
    assert [one["origin"] for one in run("history", "deploy", "--json").json["revisions"]][:1] == ["user"]
    run("update", "deploy", "four reviews")
    assert run("get", "deploy", "--json").json["origin"] == "user"


def test_an_editor_that_is_not_there_is_one_sentence(run: Run, deploy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    ran = run("edit", "deploy")
    assert (ran.code, ran.err) == (
        2,
        "kingly-memory: EDITOR: '/nowhere/editor' cannot be started (No such file or directory)\n",
    )


@pytest.mark.parametrize("nothing", ["", " "])
def test_without_an_editor_and_a_terminal_nothing_waits_for_one(
    run: Run, deploy: str, monkeypatch: pytest.MonkeyPatch, nothing: str
) -> None:
    monkeypatch.setenv("VISUAL", "")
    monkeypatch.setenv("EDITOR", nothing)
    ran = run("edit", "deploy")
    said = "kingly-memory: EDITOR: is not set, and there is no terminal for vi; set it, or use `update`\n"
    assert (ran.code, ran.err) == (2, said)


@pytest.mark.requirement("D7")
def test_doctor_names_what_the_disk_has_changed(run: Run, deploy: str) -> None:
    run("store", "a sound one")
    with closing(sqlite3.connect(Path(run("status", "--json").json["home"], "store/cache.db"))) as raw:
        raw.execute(
            "UPDATE Cache SET value = CAST(replace(value, 'two', CAST(x'FF6F' AS TEXT)) AS TEXT) WHERE key = ?",
            (f"m:{deploy}",),
        )
        raw.commit()
    ran = run("doctor")
    assert f"1 memory damaged on disk and not shown: {deploy}" in ran.out
    assert "a sweep met" not in run("doctor").out
    told = run("status", "--json").json["memories"]
    assert (told["total"], told["by_type"]["semantic"], told["damaged"]) == (1, 1, 1)
    assert "1 memory; `kingly-memory doctor` names them" in run("status").out
    assert [one["memories"] for one in run("projects", "list", "--json").json["list"]] == [1]
    assert run("get", "deploy").code == 1
    assert run("history", "deploy").out.split()[-2:] == ["one", "review"]


@pytest.mark.requirement("N5", "D2")
def test_an_export_carries_revisions_and_a_repeated_import_adds_none(run: Run, deploy: str, tmp_path: Path) -> None:
    run("store", "three reviews", "--key", "deploy")
    run("store", "said once", "--key", "once")
    told = run("export").rows
    assert [(one.get("revision_of"), one["revision"]) for one in told] == [
        (deploy, 1),
        (deploy, 2),
        (None, 3),
        (None, 1),
    ]
    assert run("export", str(tmp_path / "all.jsonl")).out.startswith("2 memories written")
    other = ("--home", str(tmp_path / "other"), "--project", "other")
    for stored in (2, 0):
        assert run("import", str(tmp_path / "all.jsonl"), *other, "--json").json["stored"] == stored
        found = run("history", "deploy", *other, "--json").json["revisions"]
        assert [(one["revision"], one["content"]) for one in found] == [
            (3, "three reviews"),
            (2, "two reviews"),
            (1, "one review"),
        ]
        assert [one["scope"]["agent"] for one in found] == [None, "bob", None]
        assert found[2]["updated_at"] == told[0]["updated_at"]


def test_a_file_cannot_give_a_history_to_a_memory_that_is_here(run: Run, deploy: str, tmp_path: Path) -> None:
    lines = [
        {"revision_of": deploy, "revision": 1, "content": "no reviews"},
        {"revision_of": deploy, "revision": 9, "content": "no reviews"},
        {"revision_of": "deploy", "content": "no reviews"},
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ran = run("import", str(tmp_path / "some.jsonl"))
    assert (ran.code, "line 3: revision_of: 'deploy' is not the id of a memory" in ran.err) == (1, True)
    assert [one["content"] for one in run("history", "deploy", "--json").json["revisions"]] == [
        "two reviews",
        "one review",
    ]


@pytest.mark.requirement("D2")
def test_a_sweep_says_how_many_revisions_it_lets_go(run: Run, deploy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run("store", "three reviews", "--key", "deploy")
    monkeypatch.setenv("KINGLY_REVISIONS_KEPT", "1")
    assert "1 earlier revision would be let go" in run("sweep", "--dry-run").out
    assert "1 earlier revision let go" in run("sweep").out
    assert len(run("history", "deploy").out.splitlines()) == 2


def _flip(home: Path, memory_id: str, old: str, new: str) -> None:
    with closing(sqlite3.connect(home / "store/cache.db")) as raw:
        changed = "UPDATE Cache SET value = replace(value, ?, ?) WHERE key = ?"
        raw.execute(changed, (old, new, f"m:{memory_id}"))
        raw.commit()


@pytest.fixture
def plan(run: Run, tmp_path: Path) -> str:
    """Stored three times and damaged since, in `home`; its id."""
    ids = [
        run("store", f"version {number}", "--key", "plan", "--home", str(tmp_path / "home"), "--json").json["id"]
        for number in ("one", "two", "three")
    ]
    _flip(tmp_path / "home", ids[-1], "three", "thrce")
    return str(ids[-1])


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("is_json", [True, False])
def test_a_damaged_memory_says_again_what_it_said_before(run: Run, plan: str, tmp_path: Path, is_json: bool) -> None:
    home = ("--home", str(tmp_path / "home"))
    if not is_json:
        _flip(tmp_path / "home", plan, '"content"', '"content')
    assert f"`kingly-memory restore {plan} --revision 2`" in run("get", "plan", *home).err
    assert run("restore", "plan", "--revision", "1", *home).code == 0
    now = run("get", "plan", *home, "--json").json
    assert (now["id"], now["revision"], now["content"]) == (plan, 4, "version one")
    assert "damaged on disk" not in run("doctor", *home).out
    assert run("search", "three", *home, "--json").json["hits"] == []
    assert [one["id"] for one in run("search", "version", *home, "--json").json["hits"]] == [plan]


@pytest.mark.requirement("D7")
def test_storing_under_the_key_of_a_damaged_memory_revises_it(run: Run, plan: str, tmp_path: Path) -> None:
    home = ("--home", str(tmp_path / "home"))
    assert run("store", "version two", "--key", "plan", *home, "--json").json["id"] == plan
    now = run("get", "plan", *home, "--json").json
    assert (now["id"], now["content"]) == (plan, "version two")
    assert "damaged on disk" not in run("doctor", *home).out


@pytest.mark.requirement("D7")
def test_an_export_that_leaves_a_damaged_memory_out_says_so_and_ends_with_1(
    run: Run, plan: str, tmp_path: Path
) -> None:
    exported = run("export", str(tmp_path / "all.jsonl"), "--home", str(tmp_path / "home"))
    assert (exported.code, exported.out.count("0 memories written")) == (1, 1)
    assert "1 memory of this home damaged on disk and in no export" in exported.err


@pytest.mark.requirement("D7", "N10")
@pytest.mark.parametrize("how", [("forget", "plan"), ("purge", "plan", "--yes"), ("purge", "--whole-project", "--yes")])
def test_a_damaged_memory_is_taken_away_with_what_it_said_before(
    run: Run, plan: str, tmp_path: Path, how: tuple[str, ...]
) -> None:
    home = ("--home", str(tmp_path / "home"))
    gone = run(*how, *home)
    assert gone.code == 0
    assert how[0] == "forget" or gone.out.startswith("purged 1 memory;")
    assert "damaged on disk" not in run("doctor", *home).out
    assert run("history", plan, *home).code
    if how[0] == "purge":
        left = (tmp_path / "home/store/cache.db").read_bytes()
        assert [text for text in (b"version one", b"version two", b"thrce") if text in left] == []


@pytest.mark.requirement("D7")
def test_a_damaged_memory_that_said_nothing_before_is_not_sent_to_its_history(run: Run, tmp_path: Path) -> None:
    home = ("--home", str(tmp_path / "home"))
    alone = run("store", "said once", "--key", "alone", *home, "--json").json["id"]
    _flip(tmp_path / "home", alone, "once", "ance")
    told = run("get", "alone", *home).err
    assert ("history" in told, f"`kingly-memory forget {alone}`" in told) == (False, True)
    assert run("forget", alone, *home).code == 0
    assert "damaged on disk" not in run("doctor", *home).out


@pytest.mark.requirement("N10", "D7")
@pytest.mark.parametrize("which", ["--tag=t", "--context=c", "--by-agent=a"])
def test_a_purge_of_several_takes_damaged_ones_along(run: Run, tmp_path: Path, which: str) -> None:
    home = ("--home", str(tmp_path / "home"))
    said = ("--tag", "t", "--context", "c", "--agent", "a", "--json")
    run("store", "Brillowhisp one", "--key", "k", *said, *home)
    stored = run("store", "Brillowhisp two", "--key", "k", *said, *home).json["id"]
    _flip(tmp_path / "home", stored, "two", "twp")
    assert run("purge", which, "--yes", *home, "--json").json["ids"] == [stored]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if b"Brillowhisp" in path.read_bytes()] == []
