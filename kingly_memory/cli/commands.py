"""Every command: the verbs of `api/` that have one, and below what only the command line does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kingly_memory.api.declare import NOT_GIVEN, Arg, Parameter, Verb, verbs


class Command(NamedTuple):
    """One command. `target` names the function that does it, and is imported only when the command is used; without it
    the command is its `verb`. `is_apart`: of the options of every command it takes those alone that it has itself."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...] = ()
    target: str | None = None
    verb: Verb | None = None
    is_apart: bool = False


def commands() -> Sequence[Command]:
    """Every command in the order of help and docs."""
    derived = [Command(verb.command, verb.summary, (), None, verb) for verb in verbs() if verb.command is not None]
    return (OWN[0], *derived, *OWN[1:])


def parameters_of(command: Command) -> Sequence[Parameter]:
    """What the command takes, read from its declaration when it is asked for: that takes its time."""
    if command.verb is None:
        return command.parameters
    return (*command.verb.of("command"), *EXTRA.get(command.name, ()))


def _option(name: str, words: str, metavar: str | None = None, type: Any = str, default: Any = None) -> Parameter:
    return Parameter(name, type, Arg(words, metavar), default)


def _flag(name: str, words: str) -> Parameter:
    return Parameter(name, bool, Arg(words), False)


def _several(name: str, words: str, metavar: str) -> Parameter:
    return Parameter(name, list[str], Arg(words, metavar), None)


def _positional(name: str, words: str, metavar: str, default: Any = NOT_GIVEN) -> Parameter:
    return Parameter(name, str, Arg(words, metavar), default, is_option=False)


COMMON = (
    _flag("json", "print JSON for programs instead of text for people"),
    _option("home", "folder of the memories (default: `.kingly/memory` of the nearest project folder)", "DIR"),
    _option(
        "remote",
        "name or address of the remote memory server that this command uses, and no other one; alone "
        "http://localhost:8000; several as name=URL each",
        "REMOTE",
    ),
    _option(
        "token_file",
        "file of mode 0600 with the (first) remote's token (or set KINGLY_TOKEN or KINGLY_TOKEN_FILE)",
        "FILE",
    ),
    _option("project", "project whose memories are meant (default: the project folder's name)", "NAME"),
    _option("agent", "agent who speaks; search and list show only what this agent stored", "NAME"),
)
"""Options of every command that is not apart, accepted before and after its name."""

_FOLDER = _option("folder", "folder of the audit (default: `audit` beside the home)", "DIR")
_KIND = _several("kind", "only memory_updates, tool_invocations, consolidations or household_traces", "KIND")

EXTRA: Mapping[str, tuple[Parameter, ...]] = {
    "store": (
        _option(
            "origin", "who said it: user, agent, tool, web, remote or import (default user; agent with --agent)", "WHO"
        ),
    ),
    "search": (
        _flag("explain", "show what made each hit's place"),
        _flag("verify", "check each memory: which hold, which are contradicted"),
        _several("source", "with --verify: a file known to be right, which they are checked against", "FILE"),
        _flag("local", "look on this machine only"),
    ),
    "get": (_flag("explain", "show how strong it is, its tier, and what becomes of it"),),
    "weak": (_option("limit", "how many to show", "N", int, 20),),
    "sweep": (_flag("undo", "take back what the last sweep archived and moved"),),
}
"""What the command line adds to a verb."""

GROUPS: Mapping[str, str] = {
    "archive": "what was put away.",
    "audit": "what a simulation has noted of its agents' memories.",
    "outbox": "what the remote has not acknowledged.",
    "remotes": "the memory servers that memories go to.",
    "task": "what came of tasks.",
    "thought": "chains of reasoning.",
    "threads": "what was said in one context, as a thread.",
}
"""What the verbs of a group are about."""

BARE: Mapping[str, str] = {"remotes": "remotes list"}
"""What a group does when none of its verbs is said."""

OWN = (
    Command("demo", "Watch the whole story: store, search, lose the remote, go on, get it back.", (), "demo:demo"),
    Command(
        "remotes add",
        "Have what this project stores from now on above significance 0.3 go to a memory server, and searches ask it.",
        (
            _positional("name", "what to call it in this home, as in --remote NAME", "NAME"),
            _positional("address", "its address, such as http://localhost:8000", "URL"),
            _flag("with_earlier", "send it what was stored before, too"),
            _flag("offline", "add it without asking it first"),
        ),
        "remotes:add",
    ),
    Command(
        "audit tail",
        "Show the latest records of an audit; with --agent those of one agent.",
        (
            _option("limit", "how many to show", "N", int, 20),
            _flag("follow", "go on with each new record, until interrupted"),
            _KIND,
            _FOLDER,
        ),
        "audit:tail",
    ),
    Command(
        "audit show",
        "Show one record of an audit.",
        (_positional("record", "its id, or the beginning of one, or FILE:LINE", "ID_OR_LINE"), _FOLDER),
        "audit:show",
    ),
    Command(
        "audit stats",
        "Count an audit's records by kind, agent and year, with retrievals and consolidations.",
        (_KIND, _FOLDER),
        "audit:stats",
    ),
    Command(
        "export",
        "Write the project's memories, archived ones too, to a file or to standard output.",
        (
            _positional(
                "file", "file, or folder with --layout kingly or ai; nothing or - for standard output", "FILE", None
            ),
            _option(
                "layout",
                "jsonl: one memory per line; kingly: quick_cache, session_state and task_history.json; "
                "ai: threads/*.json and focus.json",
                "LAYOUT",
                default="jsonl",
            ),
        ),
        "transfer:export",
    ),
    Command(
        "import",
        "Bring memories in; the same file can be imported again without making duplicates.",
        (
            _positional(
                "path",
                "JSONL, notes folder, old memory.json, quick_cache.json, .ai folder, project folder (notes and .ai), "
                "or home of an earlier version",
                "PATH",
            ),
            _option("format", "jsonl, notes, legacy, kingly, ai or home (default: found out)", "FORMAT"),
        ),
        "transfer:import_path",
    ),
    Command(
        "hub",
        "Run a remote memory server, for yourself or others.",
        (
            _option("host", "address to listen on", "HOST", default="127.0.0.1"),
            _option("port", "port to listen on", "PORT", int, 8000),
            _option(
                "home",
                "folder of the hub's own (default: `~/.local/share/kingly/hub`, or `kingly/hub` in XDG_DATA_HOME)",
                "DIR",
            ),
            _option(
                "token_file",
                "file of mode 0600 with the token that callers must bring (or set KINGLY_HUB_TOKEN or "
                "KINGLY_HUB_TOKEN_FILE)",
                "FILE",
            ),
            _option("tokens_file", "JSON file of {token: namespace}, mode 0600", "FILE"),
            _flag("json", "say where it listens as JSON"),
        ),
        "serving:hub",
        is_apart=True,
    ),
    Command(
        "mcp",
        "Serve the memory to agents over MCP: on standard input and output, or with --http on a port.",
        (
            _option(
                "tools",
                "which tools, with commas (default: memory, seven tools): "
                "memory, thoughts, alma, lifecycle, ai, cognition, legacy, or all",
                "SETS",
            ),
            _flag("http", "serve Streamable HTTP at /mcp instead of stdio"),
            _option("host", "address to listen on", "HOST", default="127.0.0.1"),
            _option("port", "port to listen on", "PORT", int, 8001),
            _option(
                "mcp_token_file",
                "file with the token that callers must bring (or set KINGLY_MCP_TOKEN; default: the home gets one)",
                "FILE",
            ),
            _several("allow_host", "a further name under which it may be called", "NAME"),
        ),
        "serving:mcp",
    ),
    Command(
        "hook",
        "Answer a host's hook event, whose JSON is read from standard input; says nothing when anything is wrong.",
        (
            _positional(
                "event",
                "UserPromptSubmit, SessionStart (recall), PreCompact, Stop, SessionEnd (capture); default: the input's",
                "EVENT",
                None,
            ),
            _flag(
                "wait",
                "capture before returning; otherwise Stop and SessionEnd leave that to a process in the background",
            ),
        ),
        "hook:hook",
    ),
    Command(
        "config",
        "Show every setting and where it comes from, or what a host needs in its configuration file.",
        (
            _positional("host", "claude-code, claude-desktop, cursor, vscode or codex", "HOST", None),
            _flag("write", "merge it into the host's file, which is kept as a backup"),
            _flag("remove", "take out of the host's file what --write has put there"),
            _option("path", "that file, if it is another one than the usual", "FILE"),
            _option("url", "address of a running `kingly-memory mcp --http` instead of a command", "URL"),
            _flag("absolute", "write paths of this machine also into a file that is shared with the project"),
        ),
        "configuration:config",
    ),
    Command(
        "trust",
        "Obey a settings file that lies in a project, as long as its contents stay the same.",
        (
            _positional("path", "the file, or the project that it belongs to (default: this one)", "PATH", None),
            _flag("list", "show the files that are trusted"),
            _flag("remove", "trust it no longer"),
        ),
        "trust:trust",
    ),
    Command(
        "doctor",
        "Look for what keeps memories from being stored, found or delivered, and say what to do.",
        (),
        "doctor:doctor",
    ),
    Command("version", "Show the version.", (), "configuration:version"),
)
