"""`kingly-memory config HOST`: the right words for each host, merged into its file without harm to anything else."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.hosts import config as hosts
from kingly_memory.hosts import config_files as host_files
from kingly_memory.hosts.config import HOSTS, SERVER, Format, Wish, is_our_hook, snippets
from kingly_memory.hosts.config_text import Unmergeable, merged, stripped, written
from kingly_memory.hosts.hooks import EVENTS, NAMES
from kingly_memory.models import JsonObject
from kingly_memory.version import __version__
from tests.cli_runner import ROOT, Run, environment, put_on_path, runner
from tests.hosts.hook_samples import event

PLUGIN = ROOT / "integrations" / "plugin"
WISH = Wish(("kingly-memory",))
merged_json, merged_toml = (partial(merged, format=one) for one in (Format.JSON, Format.TOML))
stripped_json, stripped_toml = (partial(stripped, format=one) for one in (Format.JSON, Format.TOML))
DESKTOP = "Library/Application Support" if sys.platform == "darwin" else ".config"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The command line of an installation that shells find by its name."""
    put_on_path(tmp_path / "bin", monkeypatch)
    return runner(capsys, monkeypatch)


def server_of(host: str, wish: Wish = WISH) -> JsonObject:
    """The entry of our server in that host's words."""
    first = snippets(host, wish, start=Path("/nowhere"))[0]
    entry: JsonObject
    [entry] = (section[SERVER] for section in first.content.values() if SERVER in section)
    return entry


def content_of(name: str, text: str) -> JsonObject:
    """What a file of that name says."""
    if name.endswith(".js"):
        return {"script": text.rstrip("\n") + "\n"}
    return tomllib.loads(text) if name.endswith(".toml") else json.loads(text)


def backups(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.bak"))


# --- what each host gets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "file", "section"),
    [
        ("claude-code", "work/.mcp.json", "mcpServers"),
        ("claude-desktop", f"user/{DESKTOP}/Claude/claude_desktop_config.json", "mcpServers"),
        ("cursor", "work/.cursor/mcp.json", "mcpServers"),
        ("vscode", "work/.vscode/mcp.json", "servers"),
        ("codex", "user/.codex/config.toml", "mcp_servers"),
        ("copilot", "user/.copilot/mcp-config.json", "mcpServers"),
        ("opencode", "work/opencode.json", "mcp"),
    ],
)
def test_each_host_has_its_file_and_its_word_for_servers(
    host: str, file: str, section: str, project: Path, tmp_path: Path
) -> None:
    first = snippets(host, WISH, start=project / "deep")[0]
    assert (first.path, list(first.content)) == (tmp_path / file, [section])


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_starts_the_server_by_its_command_and_says_who_speaks(host: str) -> None:
    entry = server_of(host)
    command = entry["command"] if host == "opencode" else [entry["command"], *entry["args"]]
    variables = entry["environment" if host == "opencode" else "env"]
    assert (command, variables["KINGLY_AGENT"]) == (["kingly-memory", "mcp"], host)


def test_hosts_that_start_servers_elsewhere_are_told_the_home() -> None:
    assert {host for host in HOSTS if "KINGLY_HOME" in json.dumps(server_of(host))} == {"cursor", "vscode"}


@pytest.mark.requirement("N28")
@pytest.mark.parametrize(
    ("host", "file", "names", "entry"),
    [
        (
            "codex",
            "user/.codex/hooks.json",
            {"UserPromptSubmit", "SessionStart", "PreCompact", "Stop"},
            {"type": "command", "command": "kingly-memory hook Stop codex", "timeout": 30},
        ),
        (
            "gemini",
            "work/.gemini/settings.json",
            {"BeforeAgent", "SessionStart", "AfterAgent", "SessionEnd"},
            {"type": "command", "command": "kingly-memory hook Stop gemini", "timeout": 30_000},
        ),
        (
            "copilot",
            "user/.copilot/hooks/kingly-memory.json",
            {"UserPromptSubmit", "SessionStart", "PreCompact", "Stop"},
            {"type": "command", "bash": "kingly-memory hook Stop copilot", "timeoutSec": 30},
        ),
        (
            "cursor",
            "work/.cursor/hooks.json",
            {"beforeSubmitPrompt", "sessionStart", "preCompact", "stop", "sessionEnd"},
            {"type": "command", "command": "kingly-memory hook Stop cursor", "timeout": 30},
        ),
        (
            "vscode",
            "work/.github/hooks/kingly-memory.json",
            {"UserPromptSubmit", "SessionStart", "PreCompact", "Stop"},
            {"type": "command", "command": "kingly-memory hook Stop vscode", "timeout": 30},
        ),
    ],
)
def test_each_host_calls_hooks_by_its_own_names_and_in_its_own_units(
    host: str, file: str, names: set[str], entry: JsonObject, project: Path
) -> None:
    last = snippets(host, WISH, start=project)[-1]
    stop = last.content["hooks"][NAMES.get(host, {}).get("Stop", "Stop")][0]
    ours = stop if last.content.get("version") == 1 else stop["hooks"][0]
    assert (str(last.path).endswith(f"/{file}"), set(last.content["hooks"]), ours) == (True, names, entry)
    assert is_our_hook(ours)
    text = merged_json('{"hooks": {"Other": [{"bash": "beep"}]}}', last.content)
    assert json.loads(stripped_json(text))["hooks"] == {"Other": [{"bash": "beep"}]}


def test_options_of_the_command_line_end_up_with_the_server_and_the_hooks(run: Run, project: Path) -> None:
    argv = ["--home", "my notes", "--agent", "ada", "--project", "shop", "--remote", "http://hub", "--token-file", "t"]
    server, settings = run("config", "claude-code", "--json", *argv).json["files"]
    entry = server["content"]["mcpServers"][SERVER]
    home = str(project / "my notes")
    assert entry["env"] == {
        "KINGLY_AGENT": "ada",
        "KINGLY_HOME": home,
        "KINGLY_PROJECT": "shop",
        "KINGLY_REMOTE": "http://hub",
    }
    assert entry["args"][-2:] == ["--token-file", str(project / "t")]
    command = settings["content"]["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert shlex.split(command)[:3] == [f"KINGLY_HOME={home}", "KINGLY_PROJECT=shop", "KINGLY_AGENT=ada"]
    refused = run("config", "claude-code", "--everywhere")
    assert (refused.code, refused.out, "which works in one project" in refused.err) == (2, "", True)


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (["emacs"], "host"),
        (["--write"], "write"),
        (["--path", "x"], "path"),
        (["--remove"], "remove"),
        (["--absolute"], "absolute"),
        (["cursor", "--write", "--remove"], "remove"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(run: Run, argv: list[str], field: str) -> None:
    ran = run("config", "--json", *argv)
    assert (ran.code, ran.json["error"]["field"]) == (2, field)
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_printed_can_be_pasted(run: Run, project: Path, host: str) -> None:
    ran = run("config", host)
    said = ran.out
    assert ran.err.endswith("kingly-memory: this is what --write would write; nothing was written\n")
    for one in run("config", host, "--json").json["files"]:
        _, _, after = said.partition(f"{one['path']}:\n")
        assert content_of(one["path"], after.partition("\n\n/")[0]) == one["content"]


def test_the_installed_command_is_named_by_its_place_when_only_this_environment_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "venv" / "bin" / "kingly-memory"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "elsewhere"))
    assert hosts.installed_command() == ("kingly-memory",)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    assert hosts.installed_command() == (str(script),)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    assert hosts.installed_command() == (sys.executable, "-m", "kingly_memory")


SERVER_FILES = (("claude-code", ".mcp.json"), ("cursor", ".cursor/mcp.json"), ("vscode", ".vscode/mcp.json"))
PROJECT_FILES = (
    *SERVER_FILES,
    ("cursor", ".cursor/hooks.json"),
    ("vscode", ".github/hooks/kingly-memory.json"),
    ("opencode", ".opencode/plugins/kingly-memory.js"),
)


def command_in(file: Path) -> str:
    entry = content_of(file.name, file.read_text())
    if "script" in entry:
        [command] = re.findall(r"^const COMMAND = (.+)$", entry["script"], re.MULTILINE)
        return shlex.join(json.loads(command))
    if "hooks" in entry:
        stop = (entry["hooks"].get("Stop") or entry["hooks"]["stop"])[0]
        return str(stop.get("hooks", [stop])[0]["command"])
    [servers] = entry.values()
    return str(servers[SERVER]["command"])


@pytest.fixture
def in_an_environment(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As if the command were only in a virtual environment, which is active. Returns the command's path."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "bin"))
    return tmp_path / "bin" / "kingly-memory"


@pytest.mark.requirement("N28")
@pytest.mark.parametrize(("host", "file"), PROJECT_FILES)
def test_a_file_that_a_project_shares_names_the_command_and_no_place_on_this_machine(
    run: Run, in_an_environment: Path, project: Path, host: str, file: str
) -> None:
    ran = run("config", host, "--write")
    assert ran.code == 0
    assert shlex.split(command_in(project / file))[0] == "kingly-memory"
    assert str(project.parent) not in (project / file).read_text()
    assert f"start {host} from a shell that has it" in ran.err


@pytest.mark.requirement("N28")
def test_a_file_of_the_users_own_names_the_place_where_no_other_shell_finds_the_command(
    run: Run, in_an_environment: Path, project: Path, tmp_path: Path
) -> None:
    for host in ("claude-code", "codex"):
        assert run("config", host, "--write").code == 0
    assert command_in(tmp_path / "user" / ".codex" / "config.toml") == str(in_an_environment)
    assert command_in(project / ".claude" / "settings.local.json") == f"{in_an_environment} hook Stop"
    run("config", "claude-code", "--write", "--path", ".claude/settings.json")
    assert command_in(project / ".claude" / "settings.json") == "kingly-memory hook Stop"


@pytest.mark.requirement("N28")
@pytest.mark.parametrize(("host", "file"), [*PROJECT_FILES, ("claude-code", ".claude/settings.json")])
def test_nothing_is_written_for_others_that_would_not_start_here(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, host: str, file: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    named = ["--path", file] if "settings" in file else []
    ran = run("config", host, "--write", *named)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"put {Path(sys.executable).parent} on your PATH or install it as a command of your user" in ran.err
    assert [path for path in project.rglob("*") if path.is_file()] == []
    shown = run("config", host, *named)
    assert (shown.code, "--absolute" in shown.err) == (0, True)
    assert sys.executable not in shown.out.partition("settings.local.json")[0]
    assert run("config", host, "--write", "--absolute", *named).code == 0
    assert Path(shlex.split(command_in(project / file))[0]).is_absolute()


@pytest.mark.requirement("N28")
@pytest.mark.parametrize("option", ["--home", "--token-file"])
@pytest.mark.parametrize(("host", "file"), [*SERVER_FILES, ("claude-code", ".claude/settings.json")])
def test_paths_that_are_named_get_into_no_file_for_others(
    run: Run, project: Path, host: str, file: str, option: str
) -> None:
    named = ["--path", file] if "settings" in file else []
    ran = run("config", host, "--write", option, "mine", *named)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"{file} is shared with the project, and {option} would put a path of this machine" in ran.err
    assert [path for path in project.rglob("*") if path.is_file()] == []
    shown = run("config", host, option, "mine", *named)
    assert (shown.code, "--absolute" in shown.err) == (0, True)
    assert run("config", host, "--write", "--absolute", option, "mine", *named).code == 0


@pytest.mark.requirement("N28")
def test_paths_that_are_named_get_into_files_of_the_user(run: Run, project: Path, tmp_path: Path) -> None:
    named = ("--home", "mine", "--token-file", "token")
    assert run("config", "codex", "--write", *named).code == 0
    assert run("config", "claude-code", "--write", *named, "--path", ".claude/settings.local.json").code == 0
    assert str(project / "mine") in (tmp_path / "user" / ".codex" / "config.toml").read_text()
    assert str(project / "mine") in (project / ".claude" / "settings.local.json").read_text()


@pytest.mark.requirement("N28")
def test_another_installation_of_that_name_is_not_taken_for_this_one(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert hosts.is_found_by_name()
    link = tmp_path / "links" / "kingly-memory"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "bin" / "kingly-memory")
    monkeypatch.setenv("PATH", str(link.parent))
    assert hosts.is_found_by_name()
    link.unlink()
    link.write_text("#!/bin/sh\n")
    link.chmod(0o755)
    assert not hosts.is_found_by_name()
    assert run("config", "cursor", "--write").code == 2


def test_a_server_that_lacks_its_extra_is_written_with_a_word_about_it(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    ran = run("config", "claude-code", "--write")
    assert (ran.code, (project / ".mcp.json").exists()) == (0, True)
    said = "`kingly-memory mcp`, which the host starts, needs the extra `mcp`; install kingly-memory[mcp]"
    assert ran.err.startswith(f"kingly-memory: {said}")
    assert said not in run("config", "claude-code", "--path", "settings.json").err  # hooks do without


# --- writing it -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
def test_writing_makes_the_file_and_writing_again_changes_nothing(
    run: Run, project: Path, host: str, tmp_path: Path
) -> None:
    expected = {one["path"]: one["content"] for one in run("config", host, "--json").json["files"]}
    first = run("config", host, "--write", "--json").json["files"]
    assert [(one["changed"], one["backup"]) for one in first] == [(True, None)] * len(expected)
    for name, content in expected.items():
        assert content_of(name, Path(name).read_text()) == content
    again = run("config", host, "--write", "--json").json["files"]
    assert [one["changed"] for one in again] == [False] * len(expected)
    assert backups(tmp_path) == []
    assert "says so already" in run("config", host, "--write").out


def test_everything_else_in_the_file_stays_and_a_backup_is_kept(run: Run, project: Path) -> None:
    before = '{\n\t"z": [1.5, "ä"],\n\t"mcpServers": {"other": {"command": "x"}},\n\t"a": null\n}\n'
    path = project / ".mcp.json"
    path.write_text(before)
    path.chmod(0o640)
    ran = run("config", "claude-code", "--write", "--path", str(path))
    after = json.loads(path.read_text())
    assert list(after) == ["z", "mcpServers", "a"]
    assert list(after["mcpServers"]) == ["other", SERVER]
    assert (after["z"], after["mcpServers"]["other"]) == ([1.5, "ä"], {"command": "x"})
    assert '\n\t"z"' in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    [backup] = backups(project)
    assert backup.read_text() == before
    assert str(backup) in ran.out


def test_what_the_user_has_added_to_our_entry_stays(run: Run, project: Path) -> None:
    old = {"type": "http", "url": "http://old", "headers": {}, "alwaysLoad": True, "env": {"KINGLY_TOKEN": "x"}}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {SERVER: old}}))
    run("config", "claude-code", "--write")
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"][SERVER]
    assert (entry["type"], entry["alwaysLoad"]) == ("stdio", True)
    assert entry["env"] == {"KINGLY_TOKEN": "x", "KINGLY_AGENT": "claude-code"}
    assert not {"url", "headers"} & set(entry)


def test_hooks_of_others_stay_and_old_ones_of_ours_are_replaced_where_they_stood() -> None:
    other: JsonObject = {"matcher": "", "hooks": [{"type": "command", "command": "echo kingly-memory hook"}]}
    mixed = {
        "hooks": [
            {"type": "command", "command": "/old/bin/kingly-memory hook Stop"},
            {"type": "command", "command": "beep"},
        ]
    }
    before: JsonObject = {
        "permissions": {"allow": ["Bash(ls)"]},
        "hooks": {
            "Stop": [other, mixed],
            "UserPromptSubmit": [
                {"hooks": [{"type": "command", "command": "python -m kingly_memory hook UserPromptSubmit"}]}
            ],
            "SubagentStop": [{"hooks": [{"type": "command", "command": "A=b kingly-memory hook SubagentStop"}]}],
            "PostToolUse": [{"matcher": "Bash", "hooks": []}],
        },
    }
    after = json.loads(merged_json(json.dumps(before), hosts.hooks(WISH)))
    wanted = hosts.hooks(WISH)["hooks"]
    assert after["permissions"] == before["permissions"]
    assert after["hooks"]["Stop"] == [other, *wanted["Stop"], {"hooks": [{"type": "command", "command": "beep"}]}]
    assert after["hooks"]["UserPromptSubmit"] == wanted["UserPromptSubmit"]
    assert after["hooks"]["PostToolUse"] == [{"matcher": "Bash", "hooks": []}]
    assert "SubagentStop" not in after["hooks"]
    assert set(after["hooks"]) == {*EVENTS, "PostToolUse"}


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("kingly-memory hook Stop", True),
        ("'/opt/my tools/kingly-memory' hook Stop", True),
        ("KINGLY_HOME=/x /usr/bin/python3 -m kingly_memory hook Stop", True),
        ("kingly-memory hook Stop && notify-send done", False),
        ("kingly-memory hook Stop; beep", False),
        ("kingly-memory hook Stop;beep", False),
        ("kingly-memory hook Stop\nbeep", False),
        ("kingly-memory hook Stop | tee log", False),
        ("kingly-memory hook Stop > log", False),
        ("A=$(beep) kingly-memory hook Stop", False),
        ("beep && kingly-memory hook Stop", False),
        ("python -m kingly_memory hook Stop & beep", False),
        ("kingly-memory hook Stop --home x", False),
        ("kingly-memory hook", False),
        ("", False),
        ("kingly-memory status", False),
        ("my-kingly-memory hook Stop", False),
        ("echo hook", False),
        ("echo 'unbalanced", False),
    ],
)
def test_our_hooks_are_told_from_others(command: str, ours: bool) -> None:
    assert is_our_hook({"type": "command", "command": command}) is ours
    assert not is_our_hook({"type": "prompt", "prompt": command})
    assert not is_our_hook(command)


COMMENTED = '{\n  // servers\n  "mcpServers": {},\n}\n'


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
        "[]",
        '{"mcpServers": []}',
        '{"mcpServers": {"kingly-memory": "x"}}',
        "[" * 100_000,
        f'{{"a": {"1" * 5_000}}}',
        '{"a": 1E400}',
        '{"a": "\\ud800"}',
    ],
    ids=lambda text: repr(text[:40]),
)
def test_a_file_that_a_merge_would_harm_is_left_as_it_is(run: Run, project: Path, text: str) -> None:
    path = project / ".mcp.json"
    path.write_text(text)
    ran = run("config", "claude-code", "--write", "--json")
    assert (ran.code, ran.json["error"]["field"]) == (2, "path")
    assert "left as it is" in ran.err
    assert path.read_text() == text
    assert backups(project) == []


def test_a_file_that_somebody_changes_meanwhile_is_left_as_it_is(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / ".mcp.json"
    path.write_text("{}")

    def slow(before: str, **how: Any) -> str:
        path.write_text('{"theirs": 1}')
        return merged(before, **how)

    monkeypatch.setattr("kingly_memory.hosts.config_files.merged", slow)
    ran = run("config", "claude-code", "--write", "--path", str(path))
    assert (ran.code, path.read_text(), sorted(project.iterdir())) == (2, '{"theirs": 1}', [project / ".git", path])
    assert "changed by somebody else" in ran.err


def test_one_file_that_cannot_be_merged_leaves_the_others_of_its_host_unwritten(run: Run, project: Path) -> None:
    settings = project / ".claude" / "settings.local.json"
    settings.parent.mkdir()
    settings.write_text(COMMENTED)
    assert run("config", "claude-code", "--write").code == 2
    assert not (project / ".mcp.json").exists()


def test_a_backup_is_never_open_to_more_people_than_the_file(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / ".mcp.json"
    path.write_text("{}")
    path.chmod(0o600)
    made: list[int] = []
    fchmod = os.fchmod

    def watched(descriptor: int, mode: int) -> None:
        made.append(os.fstat(descriptor).st_mode & 0o777)
        fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", watched)
    before = os.umask(0)
    try:
        assert run("config", "claude-code", "--write", "--path", str(path)).code == 0
    finally:
        os.umask(before)
    [backup] = backups(project)
    assert backup.stat().st_mode & 0o777 == 0o600
    assert made == [0o600, 0o600]


def test_what_is_no_file_is_refused_in_a_sentence_of_its_own(run: Run, project: Path) -> None:
    (project / "folder").mkdir()
    (project / "loop").symlink_to("loop")
    os.mkfifo(project / "pipe")
    with (project / "big").open("wb") as file:
        file.truncate(host_files.LIMIT_BYTES + 1)
    (project / "bytes").write_bytes(b"\xff\xfe{}")
    wrong = {"folder": "is a folder", "loop": "links", "pipe": "a pipe", "big": "more than", "bytes": "not UTF-8"}
    for name, said in wrong.items():
        ran = run("config", "cursor", "--write", "--path", name)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert said in ran.err


@pytest.mark.parametrize("place", [".mcp.json", ".claude", ".claude/settings.local.json"])
@pytest.mark.parametrize("verb", ["--write", "--remove"])
@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.requirement("A20")
def test_a_link_that_leads_out_of_the_project_is_refused(
    run: Run, project: Path, tmp_path: Path, *, place: str, verb: str, is_named: bool
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("{}")
    (project / place).parent.mkdir(exist_ok=True)
    (project / place).symlink_to(outside if place == ".claude" else outside / "file")
    file = place if place != ".claude" else ".claude/settings.local.json"
    ran = run("config", "claude-code", verb, *(["--path", file] if is_named else []))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"leads out of the project, to {outside}" in ran.err
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "{}"
    assert not (project / ".mcp.json").exists() or place == ".mcp.json"


@pytest.mark.requirement("A20")
def test_a_link_that_leads_out_of_the_project_to_nothing_makes_nothing(run: Run, project: Path, tmp_path: Path) -> None:
    for host, folder in (("cursor", ".cursor"), ("vscode", ".github"), ("opencode", ".opencode")):
        (project / folder).symlink_to(tmp_path / "outside")
        assert run("config", host, "--write").code == 2
        assert not (tmp_path / "outside").exists()


def test_a_link_within_the_project_stays_a_link(run: Run, project: Path) -> None:
    real = project / "dotfiles.json"
    real.write_text("{}")
    (project / ".mcp.json").symlink_to(real)
    assert run("config", "claude-code", "--write").code == 0
    assert (project / ".mcp.json").is_symlink()
    assert SERVER in json.loads(real.read_text())["mcpServers"]


def test_a_script_of_somebody_else_is_left_as_it_is(run: Run, project: Path) -> None:
    script = project / ".opencode" / "plugins" / "kingly-memory.js"
    script.parent.mkdir(parents=True)
    script.write_text("export const Mine = async () => ({})\n")
    ran = run("config", "opencode", "--write")
    assert (ran.code, ran.err.count("\n"), (project / "opencode.json").exists()) == (2, 1, False)
    assert "it is a script of somebody else. Add by hand what `kingly-memory config opencode` prints" in ran.err
    assert run("config", "opencode", "--remove").out.endswith(f"{script} holds nothing of Kingly Memory\n")
    assert script.read_text() == "export const Mine = async () => ({})\n"


def test_hooks_go_into_a_named_settings_file(run: Run, project: Path) -> None:
    run("config", "claude-code", "--write", "--path", "settings.json")
    assert list(json.loads((project / "settings.json").read_text())) == ["hooks"]
    assert not (project / ".mcp.json").exists()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "mcpServers"), json_values, max_size=4))
def test_any_json_object_keeps_its_values_a_second_merge_changes_nothing_and_a_removal_leaves_it_as_it_was(
    before: dict[str, Any],
) -> None:
    content = snippets("cursor", WISH, start=Path("/nowhere"))[0].content
    once = merged_json(written(before, Format.JSON), content)
    after = json.loads(once)
    assert {name: value for name, value in after.items() if name != "mcpServers"} == before
    assert merged_json(once, content) == once
    left = stripped_json(once)
    assert (json.loads(left) if left else {}) == before


# --- TOML -----------------------------------------------------------------------------------------------------------

CODEX: JsonObject = snippets("codex", WISH, start=Path("/nowhere"))[0].content

SETTINGS = '''\
# my settings
model = "gpt" # the best

[mcp_servers.other]   # keep
command = "x"
args = [
  "a", # first
  "b",
]

[profiles."with space"]
text = """
[mcp_servers.not-a-table]
"""
'''


def test_our_table_is_added_behind_everything_else() -> None:
    after = merged_toml(SETTINGS, CODEX)
    assert after.startswith(SETTINGS)
    assert tomllib.loads(after)["mcp_servers"][SERVER]["env"] == {"KINGLY_AGENT": "codex"}
    assert merged_toml(after, CODEX) == after


def test_our_old_table_is_replaced_with_what_the_user_has_added() -> None:
    old = """\
[mcp_servers."kingly-memory"]
command = "/old/kingly-memory"
startup_timeout_sec = 20

  [mcp_servers.kingly-memory.env]
  KINGLY_TOKEN = "x"

# about the next one
[mcp_servers.after]
command = "y"
"""
    after = merged_toml(SETTINGS + "\n" + old, CODEX)
    found = tomllib.loads(after)["mcp_servers"][SERVER]
    assert (found["command"], found["startup_timeout_sec"]) == ("kingly-memory", 20)
    assert found["env"] == {"KINGLY_TOKEN": "x", "KINGLY_AGENT": "codex"}
    assert after.startswith(SETTINGS)
    assert '# about the next one\n[mcp_servers.after]\ncommand = "y"\n' in after
    assert merged_toml(after, CODEX) == after


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        'mcp_servers = { kingly-memory = { command = "x" } }',
        'mcp_servers.kingly-memory.command = "x"',
        "mcp_servers = 3",
        'mcp_servers = { other = { command = "x" } }',
    ],
)
def test_tables_written_another_way_are_left_alone(text: str) -> None:
    with pytest.raises(Unmergeable):
        merged_toml(text, CODEX)


# --- taking it out --------------------------------------------------------------------------------------------------


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "kingly-memory")


@pytest.mark.requirement("N28")
@pytest.mark.parametrize("host", HOSTS)
def test_what_was_made_is_deleted_and_a_second_time_changes_nothing(
    run: Run, project: Path, host: str, tmp_path: Path
) -> None:
    made = run("config", host, "--write", "--json").json["files"]
    ran = run("config", host, "--remove")
    assert (ran.code, files_below(tmp_path)) == (0, [])
    assert [*project.iterdir(), *Path.home().iterdir()] == [project / ".git"]
    assert ran.out.splitlines() == [f"deleted {one['path']}, which held nothing else" for one in made]
    again = run("config", host, "--remove")
    assert again.out.splitlines() == [f"{one['path']} holds nothing of Kingly Memory" for one in made]


@pytest.mark.requirement("N28")
def test_folders_outside_the_project_and_the_users_home_stay(
    run: Run, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("elsewhere") / "empty" / "mcp.json"
    path.parent.mkdir()
    for what in ("--write", "--remove"):
        assert run("config", "cursor", what, "--absolute", "--path", str(path)).code == 0
    assert path.parent.exists()
    assert not path.exists()


@pytest.mark.requirement("N28")
def test_servers_and_hooks_of_others_stay_as_they_were(run: Run, project: Path) -> None:
    servers: JsonObject = {"a": 1, "mcpServers": {"other": {"command": "x"}}, "b": {}}
    mine = {"hooks": [{"type": "command", "command": "beep"}]}
    settings: JsonObject = {"hooks": {"Stop": [mine], "PostToolUse": []}, "permissions": {"allow": ["Bash(ls)"]}}
    for name, before in ((".mcp.json", servers), (".claude/settings.local.json", settings)):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(json.dumps(before, indent=4) + "\n")
    run("config", "claude-code", "--write")
    changed = [project / ".mcp.json", project / ".claude" / "settings.local.json"]
    with_us = [path.read_text() for path in changed]
    ran = run("config", "claude-code", "--remove", "--json")
    assert [path.read_text() for path in changed] == [
        json.dumps(one, indent=4, ensure_ascii=False) + "\n" for one in (servers, settings)
    ]
    assert [Path(one["backup"]).read_text() for one in ran.json["files"]] == with_us
    assert [one["changed"] for one in run("config", "claude-code", "--remove", "--json").json["files"]] == [False] * 2


@pytest.mark.requirement("N28")
@pytest.mark.parametrize("text", [COMMENTED, '{"a": 1E400, "mcpServers": {"kingly-memory": {}}}', '{"hooks": []}'])
def test_a_file_from_which_nothing_can_be_taken_without_harm_is_left_as_it_is(
    run: Run, project: Path, text: str
) -> None:
    (project / ".mcp.json").write_text(text)
    ran = run("config", "claude-code", "--remove")
    assert (ran.code, ran.err.count("\n"), (project / ".mcp.json").read_text()) == (2, 1, text)
    assert "Take out by hand what is called kingly-memory" in ran.err


@pytest.mark.parametrize("text", [SETTINGS, "", "# only a comment\n"])
def test_toml_is_the_same_text_after_adding_and_taking_out(text: str) -> None:
    assert stripped_toml(merged_toml(text, CODEX)) == text
    assert stripped_toml(text) == text


def test_a_table_between_others_is_taken_out() -> None:
    ours = written(CODEX, Format.TOML)
    after = '# about the next one\n[mcp_servers.after]\ncommand = "y"\n'
    assert stripped_toml(f"{SETTINGS}\n{ours}\n{after}") == f"{SETTINGS}\n{after}"
    with pytest.raises(Unmergeable):
        stripped_toml('mcp_servers = { kingly-memory = { command = "x" } }')


# --- it works -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVENTS)
def test_the_written_hook_commands_run(run: Run, project: Path, name: str) -> None:
    run("store", "Deploys need two reviews")
    run("config", "claude-code", "--write")
    settings = json.loads((project / ".claude" / "settings.local.json").read_text())
    [group] = settings["hooks"][name]
    given = event(name, project, prompt="who has to review a deploy?")
    done = subprocess.run(
        ["/bin/sh", "-c", group["hooks"][0]["command"]],
        input=json.dumps(given).encode(),
        env=environment(KINGLY_HOOK_DEADLINE_S="600"),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"Deploys need two reviews" in done.stdout) is (name in ("UserPromptSubmit", "SessionStart"))


@pytest.mark.parametrize(
    ("host", "folder", "hooks", "server"),
    [
        ("claude-code", ".claude-plugin", "hooks/hooks.json", ".mcp.json"),
        ("codex", ".codex-plugin", "hooks/codex.json", ".mcp.codex.json"),
    ],
)
def test_the_plugin_says_what_the_command_writes(host: str, folder: str, hooks: str, server: str) -> None:
    plugin, market, its_hooks, its_server = (
        json.loads((PLUGIN / name).read_text())
        for name in (f"{folder}/plugin.json", ".claude-plugin/marketplace.json", hooks, server)
    )
    assert plugin["version"] == market["plugins"][0]["version"] == __version__
    assert (plugin.get("hooks", "./hooks/hooks.json"), plugin.get("mcpServers", "./.mcp.json")) == (
        f"./{hooks}",
        f"./{server}",
    )
    assert its_hooks.pop("description")
    assert its_hooks == hosts.hooks(WISH, host)
    assert its_server == {"mcpServers": {SERVER: server_of(host)}}
