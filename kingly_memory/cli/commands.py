"""Every command: the verbs of `api/` that have one, and below what only the command line does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from kingly_memory.api.declared import VERBS
from kingly_memory.dataclass import NamedTuple
from kingly_memory.declare import NOT_GIVEN, Arg, Parameter, Type, Verb


class Options(SimpleNamespace):
    """What a command line says, by the names of the parameters, and its `command`."""

    def but(self, **changes: Any) -> Options:
        """A copy with other values."""
        return Options(**{**vars(self), **changes})


class Command(NamedTuple):
    """One command, which is its `verb` or has `parameters` of its own."""

    name: str
    says: str
    parameters: tuple[Parameter, ...] = ()
    verb: Verb | None = None

    @property
    def is_apart(self) -> bool:
        """True when the command takes only its own options, and none of those that every command has."""
        return self.name.partition(" ")[0] in ("hub", "completion")


def commands() -> Sequence[Command]:
    """Every command in the order of help and docs."""
    derived = [Command(verb.command, verb.says, verb=verb) for verb in VERBS if verb.command is not None]
    back = next(one.verb for one in derived if one.name == "restore")
    restore = Command("archive restore", "Bring a memory back from the archive.", verb=back)
    return (OWN[0], *derived, restore, *OWN[1:])


def parameters_of(command: Command) -> Sequence[Parameter]:
    """What the command takes."""
    if command.verb is None:
        return command.parameters
    return (*command.verb.of("command"), *EXTRA.get(command.name, ()))


def _takes(spelling: str, words: str, default: Any = None) -> Parameter:
    """A parameter as help spells it: `--flag`, `--option VALUE`, `--several VALUE…`, or `positional VALUE`. An option
    of N is a whole number; a positional is required unless it has a default."""
    name, _, metavar = spelling.partition(" ")
    kind: Type = "texts" if metavar.endswith("…") else "integer" if metavar == "N" else "text" if metavar else "flag"
    arg = Arg(words, metavar.removesuffix("…") or None)
    is_option = name.startswith("--")
    name = name.removeprefix("--").replace("-", "_")
    return Parameter(name, kind, arg, False if kind == "flag" else default, is_option)


COMMON = (
    _takes("--json", "print JSON for programs instead of text for people"),
    _takes("--home DIR", "folder of the memories (default: the nearest project's `.kingly/memory`)"),
    _takes("--remote REMOTE", "the servers to use instead, by name, address or name=URL; alone http://localhost:8000"),
    _takes("--token-file FILE", "file of mode 0600 with the remote's token (or set KINGLY_TOKEN or KINGLY_TOKEN_FILE)"),
    _takes("--project NAME", "project whose memories are meant (default: the project folder's name)"),
    _takes("--everywhere", "what is kept for every project, instead of one project"),
    _takes("--user NAME", "user whose memories are meant (default: those that are nobody's)"),
    _takes("--agent NAME", "agent who speaks; search and list show only what this agent stored"),
)
"""Options of every command that is not `is_apart`. They may stand before and after its name."""
REMOTE = COMMON[2]
"""May be given several times, and without a value."""

EXTRA: Mapping[str, tuple[Parameter, ...]] = {
    "store": (_takes("--origin WHO", "who said it: user, agent, tool, web, remote or import (default: who speaks)"),),
    "search": (
        _takes("--explain", "show what made each hit's place"),
        _takes("--verify", "check each memory: which hold, which are contradicted"),
        _takes("--source FILE…", "with --verify: a file known to be right, which they are checked against"),
    ),
    "get": (_takes("--explain", "show how strong it is, its tier, and what becomes of it"),),
    "weak": (_takes("--limit N", "how many to show", 20),),
    "status": (_takes("--watch", "show it again whenever it changes, until Ctrl-C"),),
    **dict.fromkeys(("purge", "projects remove"), (_takes("--yes", "do it without asking"),)),
    "sweep": (_takes("--undo", "take back what the last sweep archived and moved"),),
}
"""What the command line adds to a verb."""

FILES: Mapping[str, str] = {
    **dict.fromkeys(("store", "get", "list", "forget", "restore", "update", "history", "diff"), "memories"),
    **dict.fromkeys(("tag", "edit"), "memories"),
    **dict.fromkeys(("context", "confidence", "links"), "tasks"),
    **dict.fromkeys(("threads", "suggestions", "compact", "inject"), "threads"),
    **dict.fromkeys(("backup", "encrypt", "decrypt", "trust"), "homes"),
    **dict.fromkeys(("projects", "sweep", "purge", "weak", "archive", "stats"), "lifecycle"),
    **dict.fromkeys(("status", "sync", "remotes", "outbox", "embedder"), "remotes"),
    **dict.fromkeys(("hub", "mcp", "page"), "serving"),
    **dict.fromkeys(("config", "version"), "configuration"),
    "import": "importing",
    "export": "transfer",
    **{name: name for name in ("search", "demo", "doctor", "completion", "hook")},
}
"""The file of a command, or of a group: what is called as the command does it, and `<command>_lines` prints the answer
of its verb; `printing` prints all others. A file is imported when its command is used."""

OF_REMOTES = {"remotes", "outbox", "sync"}
"""Commands that fail when the record of the added remotes cannot be read."""
NAMES_ELSEWHERE = frozenset("store search list status get edit tag update history forget inject".split())
"""Commands that note when the project is empty and other projects are not; `status` always notes it."""
NAMED: Mapping[str, str] = {
    "threads list": "threads",
    "history": "revisions",
    "outbox list": "entries",
    "outbox retry": "retried",
    "outbox drop": "dropped",
}
"""What an answer is called for programs, where that is not the verb's own name."""

GROUPS: Mapping[str, str] = {
    "archive": "what was put away",
    "backup": "all memories of a home in one file",
    "projects": "the projects of a home",
    "documents": "JSON or text under a namespace and a key",
    "embedder": "what finds memories by meaning",
    "log": "the exact items of a session, in order",
    "outbox": "what the remote has not acknowledged",
    "remotes": "the memory servers that memories go to",
    "task": "what came of tasks",
    "thought": "chains of reasoning",
    "threads": "what was said in one context",
}
"""What the verbs of a group are about."""

DAILY = "store search get list edit forget import status doctor config"
"""Commands that `--help` lists with a line each; `help all` lists every command."""
FOR: Mapping[str, str] = {
    "memories": "store search get list forget restore update tag edit history diff link links purge",
    "tasks and thoughts": "context task confidence thought",
    "beside prompts": "inject focus unfocus pin unpin rate threads suggestions",
    "what becomes of them": "sweep weak reinforce archive compact stats",
    "files": "import export backup encrypt decrypt documents log",
    "remotes and projects": "remotes sync outbox hub projects",
    "agents, this program": "demo status embedder doctor page mcp hook config trust completion version",
}
"""The commands of `--help`, by what they are for."""
AT_ITS_OWN_PACE = frozenset("edit demo hub mcp page hook completion".split())
"""Commands that wait for a person or a program: no clock runs on the terminal meanwhile."""


def _own(name: str, says: str, *takes: Parameter) -> Command:
    return Command(name, says, takes)


_KEY_OR_ID = _takes("key_or_id KEY_OR_ID", "key or id of a memory", NOT_GIVEN)
_HUB_HOME = _takes("--home DIR", "the hub's own folder (default: `~/.local/share/kingly/hub`, or in XDG_DATA_HOME)")
_JSON = COMMON[0]

OWN = (
    _own("demo", "Watch the whole story: store, search, lose the remote, go on, get it back."),
    _own(
        "tag",
        "Add tags to a memory and take tags away: `tag deploy +release -draft`.",
        _KEY_OR_ID,
        _takes("--add TAG…", "or +TAG: a tag to add"),
        _takes("--remove TAG…", "or -TAG: one to take away"),
    ),
    _own("edit", "Change the text of a memory in your editor (VISUAL or EDITOR).", _KEY_OR_ID),
    _own(
        "remotes add",
        "Have what this project stores from now on above significance 0.3 go to a memory server, and searches ask it.",
        _takes("name NAME", "what to call it in this home, as in --remote NAME", NOT_GIVEN),
        _takes("address URL", "its address, such as http://localhost:8000", NOT_GIVEN),
        _takes("--with-earlier", "send it what was stored before, too"),
        _takes("--offline", "add it without asking it first"),
    ),
    _own(
        "export",
        "Write the project's memories, links, documents and logs to a file: of all users, unless --user names one.",
        _takes("file FILE", "file, or folder with --layout okf, kingly or ai; nothing or - for standard output"),
        _takes(
            "--layout LAYOUT",
            "jsonl: a line each, with everything; for other programs, with less than everything, graph: "
            "the reference memory server's file; okf: a bundle of the Open Knowledge Format; kingly: quick_cache, "
            "session_state and task_history.json; ai: threads/*.json and focus.json",
            "jsonl",
        ),
    ),
    _own(
        "import",
        "Bring memories in: notes, exports, files of other programs. A folder of notes may be imported again, and "
        "what was changed, moved and deleted there is followed.",
        _takes(
            "path PATH",
            "folder of notes or one, text (.txt), JSONL, an export of ChatGPT, Claude (also their .zip), mem0 or "
            "claude-mem, a file of the reference memory server, Letta or a LangGraph store, old memory.json, .ai "
            "folder, or home of an earlier version; - for standard input",
            NOT_GIVEN,
        ),
        _takes(
            "--format FORMAT",
            "jsonl, notes, text, chatgpt, claude, mem0, letta, claude-mem, langgraph, okf, legacy, ai or home "
            "(default: found out)",
        ),
        _takes("--dry-run", "say what would be done, and write nothing"),
        _takes("--watch", "import a folder again whenever one of its notes changes, until Ctrl-C"),
        _takes("--trust", "keep who said it, where an export says that the user or an agent did"),
    ),
    _own(
        "backup check",
        "Read a backup whole, and say what it holds.",
        _takes("file FILE", "a file that `backup create` has written", NOT_GIVEN),
    ),
    _own(
        "backup restore",
        "Put a backup in the place of the home's memories.",
        _takes("file FILE", "a file that `backup create` has written", NOT_GIVEN),
        _takes("--replace", "put the memories that are there aside, in a folder beside them"),
        _takes("--force", "take a backup in which memories are damaged, or any byte has changed"),
    ),
    _own(
        "encrypt",
        "Encrypt the home's memories, or give an encrypted home another key (needs the extra `encryption`).",
        _takes("--new-key", "encrypt it anew, with another key"),
        _takes("--keyring", "keep the key in the keyring of the system (needs the package `keyring`)"),
    ),
    _own("decrypt", "Keep the home's memories without encryption again."),
    _own(
        "hub",
        "Run a remote memory server, for yourself or others.",
        _takes("--host HOST", "address to listen on", "127.0.0.1"),
        _takes("--port N", "port to listen on", 8000),
        _HUB_HOME,
        _takes(
            "--token-file FILE",
            "file of mode 0600 with the token that callers must bring (or set KINGLY_HUB_TOKEN or "
            "KINGLY_HUB_TOKEN_FILE)",
        ),
        _takes("--tokens-file FILE", "JSON file of {token: namespace}, mode 0600"),
        _takes(
            "--store ADDRESS",
            "keep memories in the PostgreSQL at postgresql://user@host/database, which several hubs may share "
            "(with a password set KINGLY_HUB_STORE instead: others can read arguments)",
        ),
        _takes("--tls-cert FILE", "PEM file with its certificate and the chain: it then answers https alone"),
        _takes("--tls-key FILE", "PEM file of mode 0600 with the certificate's private key"),
        _takes("--access-log", "a line of JSON about each call, without what it says, on standard output"),
        _takes("--until-eof", "stop when standard input ends"),
        _takes("--json", "say where it listens as JSON"),
    ),
    _own(
        "hub status",
        "Say how a running hub is, and what it has answered since its start.",
        _takes("--url URL", "its address", "http://127.0.0.1:8000"),
        _takes("--token-file FILE", "file of mode 0600 with a token of it, where it needs one"),
        _JSON,
    ),
    _own(
        "hub page",
        "Make a link to the page of a running hub, which shows all of it and works once.",
        _takes("--url URL", "the hub's address", "http://127.0.0.1:8000"),
        _HUB_HOME,
        _JSON,
    ),
    _own(
        "hub tokens",
        "Tokens of a hub: who holds one, what each may do in which project, and when it was made.",
        _HUB_HOME,
        _JSON,
    ),
    _own(
        "hub tokens create",
        "Make a token for a person or a program, and show it this once.",
        _takes("name NAME", "who is to hold it", NOT_GIVEN),
        _takes("--role ROLE", "what it may do, each with those before: read, write, forget, purge, admin", "write"),
        _takes("--project NAME…", "a project in which it may do so (default: every one)"),
        _takes("--namespace NAME", "the namespace that it opens; another one sees nothing of it", "default"),
        _HUB_HOME,
        _JSON,
    ),
    _own(
        "hub tokens revoke",
        "Let nobody in any more by a token; the running hub obeys at its next call.",
        _takes("name NAME", "who holds it", NOT_GIVEN),
        _HUB_HOME,
        _JSON,
    ),
    _own(
        "hub quota",
        "Limit how many memories a namespace of a hub may keep; without a number it is not limited.",
        _takes("namespace NAMESPACE", "the namespace", NOT_GIVEN),
        _takes("memories N", "how many memories at most", ""),
        _HUB_HOME,
        _JSON,
    ),
    _own(
        "mcp",
        "Serve the memory to agents over MCP: on standard input and output, or with --http on a port.",
        _takes(
            "--tools SETS",
            "which tools, with commas (default: memory, seven tools): "
            "memory, thoughts, alma, lifecycle, ai, cognition, documents, legacy, graph, or all",
        ),
        _takes(
            "--http",
            "serve Streamable HTTP at /mcp of 127.0.0.1 instead of stdio; callers bring KINGLY_MCP_TOKEN, or else "
            "the token that the home gets",
        ),
        _takes("--port N", "port to listen on", 8001),
    ),
    _own(
        "page",
        "Look at the memory in a browser, and change it: a page for you alone, on this machine.",
        _takes("--port N", "port of 127.0.0.1 to listen on; 0 takes a free one", 0),
        _takes("--browser", "open it in the browser; other users may see the link, which works once"),
    ),
    _own(
        "hook",
        "Answer a host's hook event; its JSON is read from standard input, and what is wrong is not said.",
        _takes(
            "event EVENT",
            "UserPromptSubmit, SessionStart (recall), PreCompact, Stop, SessionEnd (capture); default: the input's",
        ),
        _takes(
            "host HOST", "whose event it is: claude-code (default), codex, gemini, copilot, opencode, cursor or vscode"
        ),
        _takes("--wait", "capture before returning, and not in the background afterwards (Stop, SessionEnd)"),
    ),
    _own(
        "config",
        "Set up an assistant or editor; without its name, show every setting and where it comes from.",
        _takes("host HOST", "claude-code, claude-desktop, cursor, vscode, codex, gemini, copilot or opencode"),
        _takes("--write", "merge it into the host's file, which is kept as a backup"),
        _takes("--remove", "take out of the host's file what --write has put there"),
        _takes("--path FILE", "that file, if it is another one than the usual"),
        _takes("--absolute", "write paths of this machine also into a file that is shared with the project"),
    ),
    _own(
        "trust",
        "Trust a project: obey its settings file as long as that stays the same, and recall what its home holds.",
        _takes("path PATH", "the file, or the project (default: this one)"),
        _takes("--list", "show which files and homes are trusted"),
        _takes("--remove", "trust it no longer"),
    ),
    _own(
        "doctor",
        "Look for what is wrong, and say what to do: what keeps memories from being stored, found or delivered.",
        _takes("--read-all", "read and check every byte that is stored; who writes waits meanwhile"),
    ),
    _own(
        "completion",
        "Complete commands and options in a shell; for bash: `source <(kingly-memory completion bash)`.",
        _takes("shell SHELL", "bash, zsh or fish", NOT_GIVEN),
        _takes("words WORD…", "after --, a command line so far: what its last word may become", ()),
    ),
    _own("version", "Show the version."),
)
