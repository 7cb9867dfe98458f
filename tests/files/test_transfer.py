"""export and import."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from kingly_memory.adapters.files import jsonl
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.cli import importing, output
from tests.cli_runner import Run


def lines(path: Path, count: int) -> Path:
    path.write_text("".join(json.dumps({"content": f"memory {number}"}) + "\n" for number in range(count)))
    return path


def test_export_without_a_file_goes_to_standard_output(run: Run) -> None:
    run("store", "one", "--key", "a")
    for argv in (["export"], ["export", "-"]):
        [row] = run(*argv).rows
        assert (row["key"], row["archived"]) == ("a", False)


def test_forgotten_memories_are_not_exported_and_archived_ones_stay_archived(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("store", "forgotten", "--key", "f")
    run("forget", "f")
    run("store", "archived", "--key", "a")
    run("archive", "add", "a")
    assert [row["archived"] for row in run("export").rows] == [True]
    run("export", str(tmp_path / "out.jsonl"))
    run("import", str(tmp_path / "out.jsonl"), "--home", str(tmp_path / "other"))
    assert run("list", "--home", str(tmp_path / "other"), "--json").json["memories"] == []
    assert len(run("list", "--archived", "--home", str(tmp_path / "other"), "--json").json["memories"]) == 1


@pytest.mark.requirement("KNG-049")
def test_the_kingly_layout_is_written(run: Run, tmp_path: Path) -> None:
    run("store", "one", "--key", "a", "--type", "working", "--context", "c", "--significance", "0.25")
    ran = run("export", "--layout", "kingly", str(tmp_path / "views"), "--json").json
    assert ran["files"] == {"quick_cache.json": 1, "session_state.json": 1, "task_history.json": 0}


@pytest.mark.requirement("KNG-087")
def test_an_old_memory_file_can_be_imported(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "memory.json"
    old.write_text(json.dumps([{"key": "editor", "value": "vim", "category": "taste", "timestamp": 1683554160}]))
    assert run("import", str(old)).out.startswith("1 memory from legacy in ")
    assert run("get", "editor", "--json").json["content"] == "vim"


@pytest.mark.requirement("KNG-087")
def test_values_by_key_are_imported_from_a_memory_file_or_when_it_is_said_that_they_are(
    run: Run, tmp_path: Path
) -> None:
    run("store", "the real id rule", "--key", "id")
    for name in ("package.json", "memory.json"):
        (tmp_path / name).write_text(json.dumps({"id": name}))
    refused = run("import", str(tmp_path / "package.json"))
    assert (refused.code, run("get", "id", "--json").json["content"]) == (2, "the real id rule")
    assert run("import", str(tmp_path / "package.json"), "--format", "legacy", "--json").json["revised"] == 1
    assert run("import", str(tmp_path / "memory.json"), "--json").json["revised"] == 1


@pytest.mark.requirement("N19")
@pytest.mark.parametrize("name", ["memories.jsonl", "notes"])
def test_an_interrupted_import_says_what_is_in_the_store_and_is_finished_by_repeating_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = lines(tmp_path / "memories.jsonl", 5)
    if name == "notes":
        path = tmp_path / "notes"
        path.mkdir()
        for number in range(5):
            (path / f"{number}.md").write_text(f"note {number}")
    monkeypatch.setattr(importing, "BATCH", 2)
    verb = "remember_notes" if name == "notes" else "remember"
    write, calls = getattr(SyncMemoryRouter, verb), []

    def interrupted(router: SyncMemoryRouter, items: list[object], **said: object) -> object:
        calls.append(items)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)  # while the second transaction is on its way
        return write(router, items, **said)

    monkeypatch.setattr(SyncMemoryRouter, verb, interrupted)
    ran = run("import", str(path))
    assert ran.code == 130
    assert ran.err == "kingly-memory: 4 memories imported; repeat the command to bring in the rest\n"
    assert run("status", "--json").json["memories"]["total"] == 4
    again = run("import", str(path), "--json").json
    assert (again["stored"], again["unchanged"]) == (1, 4)


def test_bad_lines_are_named_the_rest_is_imported_and_the_command_fails(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    file.write_text('{"content": "good"}\nnot json\n{"content": ""}\n{"content": "good too"}\n')
    ran = run("import", str(file))
    assert ran.code == 1
    assert ran.out.startswith("2 memories from jsonl")
    assert f"kingly-memory: {file}, line 2: json: cannot be read" in ran.err
    assert f"kingly-memory: {file}, line 3: content: is empty" in ran.err
    again = run("import", str(file), "--json")
    assert (again.code, [one["place"] for one in again.json["problems"]]) == (1, ["line 2", "line 3"])


def test_a_field_that_no_memory_has_is_named_once(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    file.write_text('{"content": "a", "sigificance": 0.9}\n{"content": "b", "sigificance": 0.1, "tags": ["x"]}\n')
    ran = run("import", str(file))
    assert "no fields of a memory, kept in its metadata: sigificance\n" in ran.out
    assert run("import", str(file), "--json").json["unknown_fields"] == ["sigificance"]
    run("export", str(tmp_path / "ours.jsonl"))
    assert "unknown_fields" not in run("import", str(tmp_path / "ours.jsonl"), "--json").json


@pytest.mark.requirement("N6")
@pytest.mark.parametrize("layout", ["jsonl", "kingly", "ai"])
def test_an_export_writes_over_nothing(run: Run, tmp_path: Path, layout: str) -> None:
    run("store", "one", "--context", "task")
    command = ("export", str(tmp_path / "there"), "--layout", layout)
    assert [run(*command).code, (again := run(*command)).code] == [0, 2]
    assert "is there already; name a new" in again.err


def test_many_problems_are_counted_rather_than_listed(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    file.write_text("x\n" * 30)
    ran = run("import", str(file))
    assert ran.err.count("\n") == importing.PROBLEMS_SHOWN + 1
    assert ran.err.endswith("and 10 more parts that could not be used; repeat the command with --json to see all\n")
    told = run("import", str(file), "--json")
    assert len(told.json["problems"]) == 30
    assert told.err.endswith("and 10 more parts that could not be used\n")


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (["import", "missing.jsonl"], "file"),
        (["import", "."], None),
        (["import", ".", "--format", "csv"], "format"),
        (["export", "no/such/folder/out.jsonl"], "file"),
        (["export", "."], "file"),
        (["export", "--layout", "kingly"], "file"),
        (["export", "--layout", "xml", "x"], "layout"),
    ],
)
def test_paths_and_formats_that_cannot_be_used_are_refused(run: Run, argv: list[str], field: str | None) -> None:
    ran = run(*argv, "--json")
    assert ran.code == (0 if field is None else 2)
    assert ran.json.get("error", {}).get("field") == field


def test_a_folder_says_which_files_made_no_memory(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Garden\n\nWater it.")
    (tmp_path / "b.md").touch()
    (tmp_path / "c.txt").touch()
    said = run("import", str(tmp_path)).out.splitlines()[1:]
    assert said == ["1 file passed over, empty: b.md", "1 file passed over, not Markdown (.md): c.txt"]


def test_an_import_does_not_count_what_was_forgotten_here(run: Run, tmp_path: Path) -> None:
    run("store", "kept")
    run("store", "gone", "--key", "gone")
    run("export", str(tmp_path / "all.jsonl"))
    run("forget", "gone")
    said = run("import", str(tmp_path / "all.jsonl")).out.splitlines()
    assert said[0].startswith("1 memory from jsonl in ")
    assert said[1].startswith("1 memory was forgotten or purged here before, and not brought back; `list --forgotten`")


def test_an_export_never_takes_the_place_of_a_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("old")
    run("store", "x")
    assert run("export", str(file)).err == f"kingly-memory: FILE: {file} is there already; name a new file\n"
    assert file.read_text() == "old"
    file.unlink()

    def failing(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(jsonl, "line", failing)
    assert run("export", str(file)).code == 130
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


@pytest.mark.parametrize(("options", "told"), [((), True), (("--json",), False)])
def test_an_import_says_how_far_it_is(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], told: bool
) -> None:
    monkeypatch.setattr(output, "_REPORT_S", 0.0)
    assert ("2 memories so far" in run("import", str(lines(tmp_path / "m.jsonl", 2)), *options).err) is told


def test_an_import_for_a_remote_says_what_is_on_its_way(run: Run, tmp_path: Path) -> None:
    ran = run("import", str(lines(tmp_path / "m.jsonl", 2)), "--remote", "http://127.0.0.1:9")
    assert "2 memories on the way to the remote; `kingly-memory sync`" in ran.out


def test_a_backup_that_comes_home_leaves_who_said_what_as_it_is(run: Run, tmp_path: Path) -> None:
    run("store", "I prefer tabs", "--key", "tabs")
    run("export", str(tmp_path / "all.jsonl"))
    assert run("import", str(tmp_path / "all.jsonl"), "--json").json["unchanged"] == 1
    assert run("get", "tabs", "--json").json["origin"] == "user"


@pytest.mark.parametrize(
    ("name", "data", "code", "problem"),
    [
        ("empty.json", b" \n", 2, "json: empty.json is empty"),
        ("latin.json", b"{\xff", 2, "json: latin.json is not UTF-8 text"),
        ("empty.jsonl", b"", 0, "empty.jsonl holds nothing to import"),
        ("empty.md", b"\n", 0, "empty.md holds nothing to import"),
        ("empty.txt", b"\n", 0, "empty.txt holds nothing to import"),
    ],
)
def test_a_file_with_nothing_to_read_is_named(run: Run, name: str, data: bytes, code: int, problem: str) -> None:
    Path(name).write_bytes(data)
    ran = run("import", name)
    assert (ran.code, problem in ran.err) == (code, True)
