"""What each host needs in which of its files to start the server and, where it has hooks, to call them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.hosts.hooks import CAPTURING, EVENTS
from kingly_memory.models import JsonObject
from kingly_memory.place import nearest_project

SERVER = "kingly-memory"
"""What the server is called in every host's file, and the installed command."""
RECALL_TIMEOUT_S, CAPTURE_TIMEOUT_S = 5, 30
"""When a host ends a hook: long after it should have ended itself."""

CODEX_SECTION = "mcp_servers"
"""Under which Codex has its servers, in a file that is TOML."""

_HOOK_VARIABLES = ("KINGLY_HOME", "KINGLY_PROJECT", "KINGLY_USER", "KINGLY_AGENT")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_AS_MODULE = ["-m", "kingly_memory", "hook"]


class Format(StrEnum):
    """How a file is written."""

    JSON = "json"
    TOML = "toml"


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
    format: Format
    content: JsonObject
    is_shared: bool = False


class _Host(NamedTuple):
    section: str
    """The name in its file under which servers stand."""
    file: Callable[[Path], Path]
    """From the project's folder to the file."""
    named_type: bool = False
    in_workspace: bool = False
    """It starts servers somewhere else than in the project."""


def _claude_desktop_file(_: Path) -> Path:
    folder = "Library/Application Support" if sys.platform == "darwin" else ".config"
    return Path.home() / folder / "Claude" / "claude_desktop_config.json"


_HOSTS: Mapping[str, _Host] = {
    "claude-code": _Host("mcpServers", lambda project: project / ".mcp.json", named_type=True),
    "claude-desktop": _Host("mcpServers", _claude_desktop_file),
    "cursor": _Host("mcpServers", lambda project: project / ".cursor" / "mcp.json", in_workspace=True),
    "vscode": _Host("servers", lambda project: project / ".vscode" / "mcp.json", named_type=True, in_workspace=True),
    "codex": _Host(CODEX_SECTION, lambda _: Path.home() / ".codex" / "config.toml"),
}
HOSTS = tuple(_HOSTS)
SECTIONS = frozenset(host.section for host in _HOSTS.values())


def snippets(host: str, wish: Wish, *, start: Path, path: Path | None = None) -> tuple[Snippet, ...]:
    """What that host needs, file by file. `path` is the file meant, instead of the usual ones.

    Of Claude Code's files, one named `settings…` takes the hooks and any other the server. Raises InvalidInput.
    """
    if host not in _HOSTS:
        raise InvalidInput("host", f"{host[:40]!r} is unknown; choose one of {', '.join(HOSTS)}")
    known, project, own = _HOSTS[host], project_of(start), wish
    where = path or known.file(project)
    is_shared = _is_shared(start / where, project)
    if is_shared:
        wish = replace(wish, command=wish.shared)
    if path is not None and host == "claude-code" and path.name.startswith("settings"):
        return (Snippet(path, Format.JSON, hooks(wish), is_shared),)
    server = Snippet(where, Format.TOML if host == "codex" else Format.JSON, _servers(host, wish), is_shared)
    if host != "claude-code" or path is not None:
        return (server,)
    return (server, Snippet(project / ".claude" / "settings.local.json", Format.JSON, hooks(own)))


def project_of(start: Path) -> Path:
    """The folder of the project, or `start` where there is none."""
    return nearest_project(start) or start


def hooks(wish: Wish) -> JsonObject:
    """The hooks for Claude Code's settings and for a plugin's hooks.json."""
    return {"hooks": {event: [{"hooks": [_hook(event, wish)]}] for event in EVENTS}}


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
    command = entry.get("command") if isinstance(entry, dict) else None
    if not isinstance(command, str):
        return False
    words = list(dropwhile(_ASSIGNMENT.match, _words(command)))
    if words[1:4] == _AS_MODULE:
        words = [SERVER, *words[3:]]
    program, verb, event, *more = [*words, "", "", ""]
    return (Path(program).name, verb, any(more)) == (SERVER, "hook", False) and event.isalpha()


def _words(command: str) -> Sequence[str]:
    """The words and operators of a shell's command; none of one that cannot be read."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|<>()`\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    try:
        return list(lexer)
    except ValueError:
        return ()


def _hook(event: str, wish: Wish) -> JsonObject:
    """For a shell and not as a list of arguments: a host that does not know those would run the bare command.

    Variables and not options: reading options would take a hook longer than its search.
    """
    variables = [f"{name}={shlex.quote(value)}" for name, value in wish.variables.items() if name in _HOOK_VARIABLES]
    return {
        "type": "command",
        "command": " ".join([*variables, shlex.join([*wish.command, "hook", event])]),
        "timeout": CAPTURE_TIMEOUT_S if event in CAPTURING else RECALL_TIMEOUT_S,
    }


def _servers(host: str, wish: Wish) -> JsonObject:
    """The section of servers with ours, which the host starts in the project or tells where that is."""
    known = _HOSTS[host]
    program, *arguments = wish.command
    home = {"KINGLY_HOME": "${workspaceFolder}/.kingly/memory"} if known.in_workspace else {}
    started = {
        **({"type": "stdio"} if known.named_type else {}),
        "command": program,
        "args": [*arguments, "mcp", *wish.options],
        "env": {"KINGLY_AGENT": host, **home, **wish.variables},
    }
    return {known.section: {SERVER: started}}
