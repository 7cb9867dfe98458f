"""A repository that somebody else prepared: its links lead nowhere, and its settings wait until they are trusted."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kingly_memory import SyncMemoryRouter
from kingly_memory.adapters.audit import AuditFiles
from kingly_memory.adapters.local.injections import InjectionFiles
from kingly_memory.errors import InvalidSetting, StoreUntrusted
from kingly_memory.home.place import user_data_folder
from kingly_memory.home.trust import FILE
from kingly_memory.server.web import own_token
from kingly_memory.settings import Settings, inert
from tests.cli_runner import Run, runner
from tests.hosts.hook_samples import entry, event, transcript

SECRET = "hunter2"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("KINGLY_HOOK_DEADLINE_S", "20")
    monkeypatch.setenv("KINGLY_DURABILITY", "process")
    return runner(capsys, monkeypatch)


@pytest.fixture
def clone(isolated_environment: Path) -> Path:
    """The working directory, a repository."""
    (isolated_environment / ".git").mkdir()
    return isolated_environment


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of this user's that is no business of ours."""
    folder = tmp_path / "outside"
    (folder / "memory").mkdir(parents=True)
    for name in ("file", "memory/file"):
        (folder / name).write_text(SECRET)
        (folder / name).chmod(0o644)
    return folder


def looks(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below that folder: its mode, when it was changed, and what is in it."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (folder, *folder.rglob("*"))
    }


def hook(run: Run, name: str, folder: Path, **facts: str) -> None:
    assert run("hook", name, "--wait", stdin=json.dumps(event(name, folder, **facts)).encode()).code == 0


def use_everything(run: Run, clone: Path) -> list[int]:
    """Whatever a person and an agent do in a project that they have just cloned; how the commands ended."""
    home = clone / ".kingly" / "memory"
    AuditFiles(home.parent / "audit").append("decisions", {"n": 1})
    before = (("store", "The deploy needs two reviews", "--key", "deploys"), ("search", "deploy reviews"))
    codes = [run(*command).code for command in before]
    transcript(clone, entry("user", "Remember that staging lives on port 6432.", "1"))
    for name, facts in (("SessionStart", {}), ("UserPromptSubmit", {"prompt": "deploy reviews"}), ("Stop", {})):
        hook(run, name, clone, **facts)
    transcript(clone, entry("user", "ok", "2"))
    hook(run, "Stop", clone)
    codes += [run(*command).code for command in (("export", "-"), ("sweep",), ("status",), ("doctor",))]
    InjectionFiles(home, "work").note("s", ["a"], 1.0)
    with suppress(StoreUntrusted, InvalidSetting):
        own_token(home)
    return codes


def to_folder(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def to_file(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "file")


def to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "nothing")


FOLDERS = ("", "memory", "audit", "memory/store", "memory/injected", "memory/store.salvaged")
FILES = (
    "memory/.gitignore",
    "memory/write.lock",
    "memory/sentinel",
    "memory/store/cache.db",
    "memory/store/cache.db-wal",
    "memory/store/cache.db-shm",
    "memory/store/cache.db-journal",
    "memory/captured.json",
    "memory/captured.lock",
    "memory/capturing.lock",
    "memory/sweep.lock",
    "memory/mcp-token",
    "audit/.gitignore",
    "audit/decisions.jsonl",
)
STORES = (*FOLDERS[:2], "memory/store", *FILES[:7])
"""What `store` meets on its way."""
Plant = Callable[[Path, Path], None]
PLANTS: list[tuple[str, Plant]] = [
    *((place, plant) for place in FOLDERS for plant in (to_folder, to_nothing)),
    *((place, plant) for place in FILES for plant in (to_file, to_nothing)),
]


def planted(clone: Path, outside: Path, place: str, plant: Plant) -> Path:
    path = clone / ".kingly" / place if place else clone / ".kingly"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    plant(path, outside)
    return path


@pytest.mark.requirement("A1")
@pytest.mark.parametrize(("place", "plant"), PLANTS)
def test_nothing_is_written_through_a_link_that_a_clone_brought_along(
    run: Run, clone: Path, outside: Path, place: str, plant: Plant
) -> None:
    planted(clone, outside, place, plant)
    before = looks(outside)
    use_everything(run, clone)
    assert looks(outside) == before


@pytest.mark.requirement("A1")
@pytest.mark.parametrize("plant", [to_folder, to_nothing])
@pytest.mark.parametrize("place", STORES)
def test_a_link_in_the_way_of_a_memory_is_named_in_one_sentence(
    run: Run, clone: Path, outside: Path, place: str, plant: Plant
) -> None:
    path = planted(clone, outside, place, plant)
    ran = run("store", "The deploy needs two reviews")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert f"{path} is not opened: it is a symbolic link" in ran.err
    assert "Remove it; to keep memories in another folder, name that folder with --home or KINGLY_HOME" in ran.err


@pytest.mark.requirement("A17")
def test_a_sentinel_without_a_store_that_a_clone_brought_along_is_named(run: Run, clone: Path) -> None:
    run("store", "The deploy needs two reviews")
    shutil.rmtree(clone / ".kingly" / "memory" / "store")
    sentinel = clone / ".kingly" / "memory" / "sentinel"
    for verb in (("store", "Staging lives on port 6432"), ("list",)):
        ran = run(*verb)
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert f"If it came with a clone or an archive, nothing of yours is lost: remove {sentinel}" in ran.err
    sentinel.unlink()
    assert run("store", "Staging lives on port 6432").code == 0


@pytest.mark.requirement("A1")
@pytest.mark.parametrize("name", ["write.lock", "sentinel"])
def test_a_second_name_that_another_user_may_have_made_is_named(
    run: Run, clone: Path, outside: Path, name: str
) -> None:
    path = clone / "shared" / name
    path.parent.mkdir()
    path.parent.chmod(0o777)
    path.hardlink_to(outside / "file")
    before = looks(outside)
    ran = run("store", "The deploy needs two reviews", "--home", "shared")
    assert (ran.code, ran.out, ran.err.count("\n"), looks(outside)) == (1, "", 1, before)
    assert f"{path} is not opened: the file has a second name (a hard link)" in ran.err


@pytest.mark.requirement("A1")
def test_a_home_whose_files_a_backup_has_linked_is_used_as_before(run: Run, clone: Path, tmp_path: Path) -> None:
    assert set(use_everything(run, clone)) == {0}
    shutil.copytree(clone / ".kingly", tmp_path / "backup", copy_function=os.link)
    assert set(use_everything(run, clone)) == {0}
    assert run("search", "deploy reviews").out.count("two reviews")


@pytest.mark.requirement("A1")
@pytest.mark.parametrize("named", [(), ("--home", ".")])
def test_a_gitignore_that_is_there_stays_as_it_is(run: Run, clone: Path, named: tuple[str, ...]) -> None:
    note = (clone if named else clone / ".kingly" / "memory") / ".gitignore"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("node_modules/\n")
    note.chmod(0o644)
    assert run("store", "The deploy needs two reviews", *named).code == 0
    assert (note.read_text(), stat.S_IMODE(note.stat().st_mode)) == ("node_modules/\n", 0o644)


@pytest.mark.requirement("A1")
def test_memories_of_another_project_are_not_read_through_a_link(run: Run, clone: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / ".kingly"
    assert run("store", f"the password is {SECRET}", "--home", str(other / "memory")).code == 0
    (clone / ".kingly").symlink_to(other)
    for command in (("search", "password"), ("export", "-"), ("status",), ("list",)):
        ran = run(*command)
        assert (ran.code, SECRET in ran.out) == (1, False)
        assert "it is a symbolic link" in ran.err
    doctor = run("doctor")
    assert doctor.code == 1
    assert f"{clone / '.kingly'} is not opened: it is a symbolic link" in doctor.out


@pytest.mark.requirement("A1")
def test_a_hook_that_met_a_link_says_so_to_doctor_alone(run: Run, clone: Path, outside: Path) -> None:
    planted(clone, outside, "memory/captured.json", to_nothing)
    transcript(clone, entry("user", "Remember that staging lives on port 6432.", "1"))
    hook(run, "Stop", clone)
    assert f"{clone / '.kingly' / 'memory' / 'captured.json'} is not opened: it is a symbolic link" in run("doctor").out


@pytest.mark.requirement("A1")
def test_doctor_names_every_link_in_a_home(run: Run, clone: Path, outside: Path) -> None:
    run("store", "The deploy needs two reviews")
    for name in ("injected", "sweep.lock"):
        (clone / ".kingly" / "memory" / name).symlink_to(outside)
    doctor = run("doctor")
    assert doctor.code == 1
    for name in ("injected", "sweep.lock"):
        assert f"{clone / '.kingly' / 'memory' / name} is a symbolic link" in doctor.out
    assert "is yours alone" not in doctor.out


@pytest.mark.requirement("A1")
def test_the_folders_of_a_project_are_for_their_owner_alone(run: Run, clone: Path) -> None:
    before = os.umask(0)
    try:
        run("store", "The deploy needs two reviews")
        AuditFiles(clone / ".kingly" / "audit").append("decisions", {"n": 1})
    finally:
        os.umask(before)
    made = [clone / ".kingly", *(clone / ".kingly").rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} == {0o600}
    assert {path.read_text() for path in made if path.name == ".gitignore"} == {"*\n"}


def modes(*folders: Path) -> list[int]:
    return [stat.S_IMODE(folder.stat().st_mode) for folder in folders]


@pytest.mark.requirement("A1")
@pytest.mark.parametrize("mode", [0o755, 0o775, 0o777])
def test_folders_that_a_clone_brought_along_are_closed_when_a_memory_is_stored(
    run: Run, clone: Path, mode: int
) -> None:
    home = clone / ".kingly" / "memory"
    home.mkdir(parents=True)
    for folder in (clone, home.parent, home):
        folder.chmod(mode)
    assert run("store", "The deploy needs two reviews").code == 0
    assert modes(clone, home.parent, home) == [mode, 0o700, 0o700]
    (home / "store").chmod(mode)  # as git makes it
    stored = run("store", "It needs three reviews")
    refused = f"{home / 'store'} is not opened: other users may write to it"
    assert (stored.code, modes(home / "store")) == ((0, [0o700]) if mode == 0o755 else (1, [mode & 0o722]))
    assert (refused in stored.err) == (mode != 0o755)


@pytest.mark.requirement("A1")
def test_a_project_that_is_named_as_home_keeps_its_mode(run: Run, clone: Path) -> None:
    clone.chmod(0o755)
    assert run("store", "The deploy needs two reviews", "--home", ".").code == 0
    assert modes(clone, clone / "store") == [0o755, 0o700]


@pytest.mark.requirement("A1")
@pytest.mark.parametrize("place", [".kingly", ".kingly/memory"])
def test_reading_refuses_a_folder_that_others_may_write_to_and_leaves_it_as_it_is(
    run: Run, clone: Path, place: str
) -> None:
    run("store", "The deploy needs two reviews")
    (clone / place).chmod(0o777)
    for command in (("search", "deploy"), ("export", "-"), ("status",), ("list",)):
        ran = run(*command)
        assert (ran.code, ran.err.count("\n"), modes(clone / place)) == (1, 1, [0o777])
        assert f"{clone / place} is not opened: other users may write to it (run `chmod go-w` on it)" in ran.err
    assert "other users may write to it" in run("doctor").out
    assert run("store", "The release needs three").code == 0
    assert (modes(clone / place), run("search", "deploy").code) == ([0o700], 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
@pytest.mark.requirement("A1")
@pytest.mark.parametrize("place", [".kingly", ".kingly/memory"])
def test_a_folder_of_another_user_is_refused(run: Run, clone: Path, place: str) -> None:
    run("store", "The deploy needs two reviews")
    os.chown(clone / place, 65534, 65534)
    for command in (("search", "deploy"), ("store", "The release needs three")):
        ran = run(*command)
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert f"{clone / place} is not opened: it belongs to another user" in ran.err


@pytest.mark.requirement("A1")
def test_memories_are_kept_out_of_git_wherever_a_clone_has_brought_their_folder_along(run: Run, clone: Path) -> None:
    (clone / ".kingly" / "memory" / "store").mkdir(parents=True)
    assert run("store", "The deploy needs two reviews").code == 0
    assert (clone / ".kingly" / "memory" / ".gitignore").read_text() == "*\n"


# --- settings -------------------------------------------------------------------------------------------------------


def settings(clone: Path, text: str = "call_timeout_s = 7\n", name: str = "config.toml") -> Path:
    path = clone / ".kingly" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def timeout(run: Run) -> float:
    (found,) = [one["value"] for one in run("config", "--json").json["settings"] if one["name"] == "call_timeout_s"]
    assert isinstance(found, float | int)
    return found


@pytest.mark.requirement("A12")
@pytest.mark.parametrize("name", ["config.toml", "config.yaml", "config.yml"])
def test_settings_of_a_project_are_obeyed_when_they_are_trusted_and_until_they_change(
    run: Run, clone: Path, name: str
) -> None:
    write = "call_timeout_s = {}\n" if name.endswith("toml") else "call_timeout_s: {}\n"
    path = settings(clone, write.format(7), name)
    assert timeout(run) == Settings().call_timeout_s
    trusted = run("trust")
    assert (trusted.code, trusted.err) == (0, "")
    assert trusted.out.splitlines() == [f"trusted {path}, until its contents change; it says", "call_timeout_s  7"]
    assert (timeout(run), run("status").err) == (7, "")
    path.write_text(write.format(8))
    assert timeout(run) == Settings().call_timeout_s
    assert "the file has changed since you trusted it" in run("status").err
    run("trust", str(clone))
    assert timeout(run) == 8
    assert run("trust", "--remove").out == f"{path} is not trusted any more\n"
    assert timeout(run) == Settings().call_timeout_s


@pytest.mark.requirement("A12")
def test_a_named_file_in_a_project_is_obeyed_only_when_it_is_trusted(
    run: Run, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, link = clone / "mine.toml", tmp_path / "link"
    inside.write_text("call_timeout_s = 7")
    link.symlink_to(clone)
    for named in (inside, link / "mine.toml"):
        monkeypatch.setenv("KINGLY_CONFIG", str(named))
        assert timeout(run) == Settings().call_timeout_s
        assert f"the settings in {named} are not obeyed" in run("status").err
    assert run("trust").code == 0
    assert timeout(run) == 7


@pytest.mark.requirement("A12")
def test_settings_of_the_user_and_a_named_file_of_no_project_need_no_trust(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_data_folder().mkdir(parents=True)
    (user_data_folder() / "config.toml").write_text("call_timeout_s = 7")
    assert (timeout(run), run("status").err) == (7, "")
    (tmp_path / "mine.toml").write_text("call_timeout_s = 8")
    monkeypatch.setenv("KINGLY_CONFIG", str(tmp_path / "mine.toml"))
    assert (timeout(run), run("status").err) == (8, "")


@pytest.mark.requirement("A12")
def test_settings_that_are_not_trusted_are_named_once_with_the_command(run: Run, clone: Path) -> None:
    path = settings(clone, "no settings at all [")
    sentence = f"the settings in {path} are not obeyed: the file lies in a project, and you have not trusted it; "
    sentence += f"read it, then run `kingly-memory trust {path}`"
    for command in (("store", "The deploy needs two reviews"), ("search", "deploy"), ("status",), ("config",)):
        ran = run(*command)
        assert (ran.code, ran.err) == (0, f"kingly-memory: {sentence}\n")
    doctor = run("doctor")
    assert doctor.code == 0
    assert f"{path} is not obeyed: the file lies in a project, and you have not trusted it" in doctor.out
    refused = run("trust")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "is no TOML" in refused.err


@pytest.mark.requirement("A12")
def test_a_router_warns_of_settings_that_are_not_trusted(clone: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = settings(clone)
    with SyncMemoryRouter.open():
        pass
    assert [one.message for one in caplog.records if str(path) in one.message] == [str(*inert(path.parent / "memory"))]


@pytest.mark.requirement("A12")
def test_several_files_that_are_not_trusted_stop_no_command(run: Run, clone: Path) -> None:
    for name in ("config.toml", "config.yml"):
        settings(clone, "", name)
    ran = run("store", "The deploy needs two reviews")
    assert (ran.code, ran.err.count("are not obeyed")) == (0, 2)
    assert "are both there" in run("trust").err
    for name in ("config.toml", "config.yml"):
        run("trust", f".kingly/{name}")
    ran = run("store", "The deploy needs two reviews")
    assert (ran.code, "are both there; keep one of them" in ran.err) == (2, True)


@pytest.mark.requirement("A12")
@pytest.mark.parametrize("content", ["", "{", "[]", '{"trusted": 1}', '{"trusted": {"/x": 1}}', "[" * 10_000])
def test_a_damaged_list_trusts_nothing_and_says_so(run: Run, clone: Path, content: str) -> None:
    settings(clone)
    run("trust")
    (user_data_folder() / FILE).write_text(content)
    assert timeout(run) == Settings().call_timeout_s
    ran = run("store", "The deploy needs two reviews")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert f"the list of trusted files in {user_data_folder() / FILE} cannot be used (it is damaged)" in ran.err
    refused = run("trust")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "Delete it, then trust your files again" in refused.err
    (user_data_folder() / FILE).unlink()
    run("trust")
    assert timeout(run) == 7


@pytest.mark.requirement("A12")
def test_a_home_of_another_name_is_trusted_and_trusted_no_longer_by_its_path(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    run("store", "The deploy needs two reviews", "--home", str(home))
    assert [one["path"] for one in run("trust", "--list", "--json").json["trusted"]] == [str(home)]
    assert run("trust", str(home), "--remove").out == f"{home} is not trusted any more\n"
    assert run("trust", "--list", "--json").json["trusted"] == []
    assert run("trust", str(home)).code == 0
    assert [one["path"] for one in run("trust", "--list", "--json").json["trusted"]] == [str(home)]


@pytest.mark.requirement("A12")
def test_the_list_is_for_its_owner_alone_and_used_only_so(run: Run, clone: Path) -> None:
    settings(clone)
    run("trust")
    path = user_data_folder() / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o622)
    assert timeout(run) == Settings().call_timeout_s
    assert "(others may write to it)" in run("status").err
    path.chmod(0o600)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    assert timeout(run) == Settings().call_timeout_s
    assert "(it is a link)" in run("status").err


@pytest.mark.requirement("A12")
def test_the_list_says_which_files_are_as_they_were(run: Run, clone: Path) -> None:
    assert run("trust", "--list").out == (
        "no settings file of a project is trusted, and no home outside of your data folder\n"
    )
    for name in ("a.toml", "b.toml", "c.toml"):
        (clone / name).write_text("call_timeout_s = 7")
        run("trust", name)
    (clone / "b.toml").write_text("call_timeout_s = 8")
    (clone / "c.toml").unlink()
    listed = [(one["path"], one["state"]) for one in run("trust", "--list", "--json").json["trusted"]]
    assert listed == [
        (str(clone / "a.toml"), "as trusted"),
        (str(clone / "b.toml"), "changed"),
    ]
    assert run("trust", "c.toml").err == (
        f"kingly-memory: PATH: {clone / 'c.toml'} is not there; name a project's folder, or its settings file\n"
    )
    assert run("trust", "--remove", "c.toml").code == 0
    again = run("trust", "--remove", "c.toml")
    assert (again.code, "is not trusted; `kingly-memory trust --list`" in again.err) == (2, True)


@pytest.mark.requirement("A12")
def test_a_hook_obeys_no_settings_that_are_not_trusted(run: Run, clone: Path) -> None:
    run("store", "The deploy needs two reviews", "--origin", "user", "--significance", "0.8")
    settings(clone, "hook_tokens = 0\n")
    asked = json.dumps(event("UserPromptSubmit", clone, prompt="how many reviews does the deploy need")).encode()
    assert "two reviews" in run("hook", "UserPromptSubmit", stdin=asked).out
    run("trust")
    assert run("hook", "UserPromptSubmit", stdin=asked).out == ""
