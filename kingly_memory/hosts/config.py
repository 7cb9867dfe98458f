"""What each host needs in which of its files to start the server and, where it has hooks, to call them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import nearest_project
from kingly_memory.hosts.hooks import CAPTURING, EVENTS, HOST, NAMES
from kingly_memory.models import JsonObject

SERVER = "kingly-memory"
"""What the server is called in every host's file, and the installed command."""
RECALL_TIMEOUT_S, CAPTURE_TIMEOUT_S = 5, 30
"""When a host ends a hook: long after it should have ended itself."""

CODEX_SECTION = "mcp_servers"
"""Under which Codex has its servers, in a file that is TOML."""
SCRIPT = "script"
"""The key under which a snippet holds the text of a script."""

_HOOK_VARIABLES = ("KINGLY_HOME", "KINGLY_PROJECT", "KINGLY_USER", "KINGLY_AGENT")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_AS_MODULE = ["-m", "kingly_memory", "hook"]


class Format(StrEnum):
    """How a file is written. A script is ours as a whole."""

    JSON = "json"
    TOML = "toml"
    SCRIPT = "script"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user wants: the command that runs us, KINGLY_ variables for it, and further options for the server.

    `shared` is the command in files that a project shares, by committing them: there a path of this machine would be
    wrong on every other one.
    """

    command: tuple[str, ...]
    shared: tuple[str, ...] = (SERVER,)
    variables: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


class Snippet(NamedTuple):
    """What belongs into one file, besides whatever else is there. `is_shared`: it holds `Wish.shared`."""

    path: Path
    content: JsonObject
    is_shared: bool = False

    @property
    def format(self) -> Format:
        content = self.content
        return Format.SCRIPT if SCRIPT in content else Format.TOML if CODEX_SECTION in content else Format.JSON


class _Host(NamedTuple):
    section: str
    """The name in its file under which servers stand."""
    file: str
    """That file: in the project's folder, or in the user's own."""
    more: Mapping[str, Any] = {}
    """Further settings that it wants for a server."""
    in_workspace: bool = False
    """True when it starts servers outside of the project's folder."""
    hooks: str | None = None
    """The file of its hooks; None when it has no hooks."""
    events: tuple[str, ...] = ()
    flat: bool = False
    """True when a hook stands directly under its event, in a file that says its version."""
    command: str = "command"
    timeout: str = "timeout"
    """Its names for these two fields of a hook."""
    ticks: int = 1
    """Units of its timeout in a second: 1 for seconds, 1000 for milliseconds."""


_STDIO = {"type": "stdio"}
_DESKTOP_FOLDER = "~/Library/Application Support" if sys.platform == "darwin" else "~/.config"
_WITHOUT_AN_END = ("UserPromptSubmit", "SessionStart", "PreCompact", "Stop")
_HOSTS: Mapping[str, _Host] = {
    HOST: _Host("mcpServers", ".mcp.json", _STDIO, hooks=".claude/settings.local.json", events=EVENTS),
    "claude-desktop": _Host("mcpServers", f"{_DESKTOP_FOLDER}/Claude/claude_desktop_config.json"),
    "cursor": _Host(
        "mcpServers", ".cursor/mcp.json", in_workspace=True, hooks=".cursor/hooks.json", events=EVENTS, flat=True
    ),
    "vscode": _Host(
        "servers",
        ".vscode/mcp.json",
        _STDIO,
        in_workspace=True,
        hooks=".github/hooks/kingly-memory.json",
        events=_WITHOUT_AN_END,  # it has no SessionEnd
        flat=True,
    ),
    "codex": _Host(
        CODEX_SECTION,
        "~/.codex/config.toml",
        hooks="~/.codex/hooks.json",
        events=_WITHOUT_AN_END,  # it gives SessionEnd no time
    ),
    "gemini": _Host(
        "mcpServers",
        ".gemini/settings.json",
        hooks=".gemini/settings.json",
        events=("UserPromptSubmit", "SessionStart", "Stop", "SessionEnd"),  # its PreCompress comes with every prompt
        ticks=1000,
    ),
    "copilot": _Host(
        "mcpServers",
        "~/.copilot/mcp-config.json",
        {"type": "local", "tools": ["*"]},
        hooks="~/.copilot/hooks/kingly-memory.json",
        events=_WITHOUT_AN_END,  # its SessionEnd names no transcript
        flat=True,
        command="bash",
        timeout="timeoutSec",
    ),
    "opencode": _Host(
        "mcp",
        "opencode.json",
        {"type": "local", "enabled": True},
        hooks=".opencode/plugins/kingly-memory.js",
    ),
}
HOSTS = tuple(_HOSTS)
SECTIONS = frozenset(host.section for host in _HOSTS.values())


def snippets(host: str, wish: Wish, *, start: Path, path: Path | None = None) -> tuple[Snippet, ...]:
    """What that host needs, file by file. `path` is the file meant, instead of the usual ones.

    Of Claude Code's files, one named `settings…` takes the hooks and any other the server. Raises InvalidInput.
    """
    if host not in _HOSTS:
        raise InvalidInput("host", f"{host[:40]!r} is unknown; choose one of {', '.join(HOSTS)}")
    layout, project = _HOSTS[host], project_of(start)
    usual = (None if file is None else project / Path(file).expanduser() for file in (layout.file, layout.hooks))
    server_file, hooks_file = usual
    if path is not None:
        is_settings = host == HOST and path.name.startswith("settings")
        hooks_file = path if is_settings or hooks_file == server_file else None
        server_file = None if is_settings else path
    contents: dict[Path, JsonObject] = {}
    for file, content in ((server_file, _servers), (hooks_file, hooks)):
        if file is not None:
            own = replace(wish, command=wish.shared) if _is_shared(start / file, project) else wish
            contents[file] = {**contents.get(file, {}), **content(own, host)}
    return tuple(Snippet(file, content, _is_shared(start / file, project)) for file, content in contents.items())


def project_of(start: Path) -> Path:
    """The folder of the project, or `start` where there is none."""
    return nearest_project(start) or start


def hooks(wish: Wish, host: str = HOST) -> JsonObject:
    """The hooks as that host wants them, also for the plugin."""
    layout, names = _HOSTS[host], NAMES.get(host, {})
    if not layout.events:  # opencode calls functions of a script, and that script calls us
        return {SCRIPT: _script(wish)}
    entries = {names.get(event, event): _hook(event, wish, host) for event in layout.events}
    if layout.flat:
        return {"version": 1, "hooks": {event: [entry] for event, entry in entries.items()}}
    return {"hooks": {event: [{"hooks": [entry]}] for event, entry in entries.items()}}


def installed_command() -> tuple[str, ...]:
    """How a host can start us: by name where every shell finds it, else by its place, else through this Python."""
    found = shutil.which(SERVER)
    if found is not None and not (sys.prefix != sys.base_prefix and Path(found).is_relative_to(sys.prefix)):
        return (SERVER,)
    script = Path(found or Path(sysconfig.get_path("scripts")) / SERVER)
    return (str(script),) if script.exists() else (sys.executable, "-m", "kingly_memory")


def is_found_by_name() -> bool:
    """True when a shell with our PATH starts this very installation by its name."""
    found = shutil.which(SERVER)
    folders = sysconfig.get_path("scripts"), sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    ours = [Path(sys.argv[0]), *(Path(folder) / SERVER for folder in folders)]
    return found is not None and Path(found).resolve() in [one.resolve() for one in ours]


def _is_shared(path: Path, project: Path) -> bool:
    """True for a file that may be committed with the project. A home folder that is a repository stays the user's."""
    is_inside = Path(os.path.abspath(path)).is_relative_to(project)  # noqa: PTH100  # where the link lies is committed
    return is_inside and project != Path.home() and ".local." not in path.name


def is_our_hook(entry: object) -> bool:
    """True for a hook that we have written, with whatever path and variables, and nothing else in its command."""
    command = entry.get("command", entry.get("bash")) if isinstance(entry, dict) else None
    if not isinstance(command, str):
        return False
    words = list(dropwhile(_ASSIGNMENT.match, _words(command)))
    if words[1:4] == _AS_MODULE:
        words = [SERVER, *words[3:]]
    program, verb, event, *more = [*words, "", "", ""]
    is_known = event.isalpha() and [one for one in more if one] in ([], *([host] for host in HOSTS))
    return (Path(program).name, verb) == (SERVER, "hook") and is_known


def _words(command: str) -> Sequence[str]:
    """The words and operators of a shell's command; none of one that cannot be read."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|<>()`\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    try:
        return list(lexer)
    except ValueError:
        return ()


def _hook(event: str, wish: Wish, host: str) -> JsonObject:
    """For a shell and not as a list of arguments: a host that does not know those would run the bare command.

    Variables and not options: reading options would take a hook longer than its search.
    """
    layout, whose = _HOSTS[host], [] if host == HOST else [host]
    variables = [f"{name}={shlex.quote(value)}" for name, value in _variables(wish).items()]
    command = " ".join([*variables, shlex.join([*wish.command, "hook", event, *whose])])
    timeout_s = CAPTURE_TIMEOUT_S if event in CAPTURING else RECALL_TIMEOUT_S
    return {"type": "command", layout.command: command, layout.timeout: timeout_s * layout.ticks}


def _variables(wish: Wish) -> dict[str, str]:
    return {name: value for name, value in wish.variables.items() if name in _HOOK_VARIABLES}


def _script(wish: Wish) -> str:
    """The plugin of opencode, which starts that command with those variables."""
    text = Path(__file__).with_name("opencode_plugin.js").read_text("utf-8")
    text = text.replace("COMMAND = []", f"COMMAND = {json.dumps(wish.command)}", 1)
    return text.replace("VARIABLES = {}", f"VARIABLES = {json.dumps(_variables(wish))}", 1)


def _servers(wish: Wish, host: str) -> JsonObject:
    """The section of servers with ours, which the host starts in the project or tells where that is."""
    layout, command = _HOSTS[host], [*wish.command, "mcp", *wish.options]
    home = {"KINGLY_HOME": "${workspaceFolder}/.kingly/memory"} if layout.in_workspace else {}
    variables = {"KINGLY_AGENT": host, **home, **wish.variables}
    if host == "opencode":
        started: JsonObject = {"command": command, "environment": variables}
    else:
        started = {"command": command[0], "args": command[1:], "env": variables}
    return {layout.section: {SERVER: {**layout.more, **started}}}
