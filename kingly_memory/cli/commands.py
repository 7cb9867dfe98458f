"""Every command with its arguments, as data: the parser is built from it and so is docs/cli.md."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentTypeError
from collections.abc import Mapping
from typing import Any, NamedTuple

from kingly_memory.intake import CONFIDENCE, SIGNIFICANCE, TTL, TYPE
from kingly_memory.models import KINDS, MemoryType, Origin, RetrievalMode

_ROOM = "kingly_memory.cli"


class Argument(NamedTuple):
    """A positional (a bare name) or an option (`--name`). `settings` are what argparse takes besides."""

    name: str
    help: str
    settings: Mapping[str, Any]


class Command(NamedTuple):
    """One verb. `target` names the function that does it; it is imported only when the verb is used. `is_apart`: of the
    options of every command it takes those alone that are among its `arguments`, in its own words."""

    name: str
    summary: str
    target: str
    arguments: tuple[Argument, ...] = ()
    is_apart: bool = False


def argument(name: str, help: str, **settings: Any) -> Argument:
    return Argument(name, help, settings)


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text[:40]!r} is not a number") from None


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None


def repeatable(name: str, help: str, metavar: str) -> Argument:
    return argument(name, f"{help}; may be repeated", metavar=metavar, action="append", default=None)


def limit(help: str, default: int | None = None) -> Argument:
    """The option that has a short form, in every command that has it."""
    return argument("--limit", f"{help}; or -n N", metavar="N", type=whole_number, default=default)


COMMON = (
    argument("--json", "print JSON for programs instead of text for people", action="store_true"),
    argument(
        "--home", "folder of the memories (default: `.kingly/memory` of the nearest project folder)", metavar="DIR"
    ),
    argument(
        "--remote",
        "name or address of the remote memory server that this command uses, and no other one; alone "
        "http://localhost:8000; several as name=URL each",
        metavar="REMOTE",
        nargs="?",
        const=True,
        action="append",
    ),
    argument(
        "--token-file",
        "file of mode 0600 with the (first) remote's token (or set KINGLY_TOKEN or KINGLY_TOKEN_FILE)",
        metavar="FILE",
    ),
    argument("--project", "project whose memories are meant (default: the project folder's name)", metavar="NAME"),
    argument("--agent", "agent who speaks; search and list show only what this agent stored", metavar="NAME"),
)
"""Options of every command that is not apart, accepted before and after its name."""

COMMON_DEFAULTS: Mapping[str, Any] = {
    "json": False,
    "home": None,
    "remote": None,
    "token_file": None,
    "project": None,
    "agent": None,
}

_TYPES = f"{', '.join(MemoryType)} (or {', '.join(KINDS)})"
_NAMED = argument("memory", "key or id of the memory", metavar="KEY_OR_ID")
_THREAD = argument("thread", "id of the thread, or key or id of a memory in it", metavar="THREAD")
_TYPE_FILTER = repeatable("--type", f"only memories of this type: {_TYPES}", "TYPE")
_TAG_FILTER = repeatable("--tag", "only memories with this tag", "TAG")
_CONTEXT = argument("--context", "id of the conversation or task it belongs to", metavar="ID")
_CONTEXT_FILTER = argument("--context", "only memories of this context", metavar="ID")
_ARCHIVED = argument("--archived", "show archived memories as well", action="store_true")
_REMOTE_NAME = argument("--remote-name", "only the remote of this name (default: all of them)", metavar="NAME")
_LIMIT_20 = limit("how many to show (default 20)", 20)

_FOLDER = argument("--folder", "folder of the audit (default: `audit` beside the home)", metavar="DIR")
_KIND = repeatable("--kind", "only memory_updates, tool_invocations, consolidations or household_traces", "KIND")

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

COMMANDS = (
    Command("demo", "Watch the whole story: store, search, lose the remote, go on, get it back.", f"{_ROOM}.demo:demo"),
    Command(
        "store",
        "Store a memory.",
        f"{_ROOM}.memories:store",
        (
            argument("content", "the text, or - to read it from standard input", metavar="CONTENT"),
            argument(
                "--key",
                "its name; storing that again revises it, and what you leave out stays as it was",
                metavar="KEY",
            ),
            argument("--type", f"{_TYPES} (default semantic)", metavar="TYPE", default=TYPE),
            argument(
                "--ttl",
                "when it ends, counted from now: 90s, 30m, 12h, 7d, 2w, seconds, or never (default: as its type says)",
                metavar="TIME",
                default=TTL,
            ),
            argument(
                "--significance",
                "0 to 1, how much it matters (default 0.5); above 0.3 it goes to the remote",
                metavar="N",
                type=number,
                default=SIGNIFICANCE,
            ),
            argument(
                "--confidence", "0 to 1, how sure it is (default 0.5)", metavar="N", type=number, default=CONFIDENCE
            ),
            repeatable("--tag", "a tag", "TAG"),
            argument("--title", "a short title", metavar="TEXT"),
            _CONTEXT,
            argument(
                "--origin", f"who said it: {', '.join(Origin)} (default user, or agent with --agent)", metavar="WHO"
            ),
            argument("--metadata", "further facts as a JSON object", metavar="JSON"),
            argument(
                "--wait",
                "seconds to wait for the remote's acknowledgement (default 0.25 when there is a remote)",
                metavar="S",
                type=number,
            ),
            argument("--require-remote", "fail when the remote has not acknowledged in time", action="store_true"),
        ),
    ),
    Command(
        "search",
        "Find memories by what they say.",
        f"{_ROOM}.memories:search",
        (
            argument(
                "query", "what to look for, or - to read it from standard input (a log)", metavar="QUERY", nargs="+"
            ),
            limit("how many to show (default 10, or what suits the mode)"),
            argument(
                "--mode",
                f"what it is for: {', '.join(RetrievalMode)}, or auto (the question decides)",
                metavar="MODE",
            ),
            argument("--min-confidence", "0 to 1, only memories at least that sure", metavar="N", type=number),
            argument("--min-similarity", "0 to 1, least likeness of hits without the words", metavar="N", type=number),
            argument(
                "--detail",
                "how much of each memory to show: titles, passages or full (default: a line of each)",
                metavar="HOW",
            ),
            argument(
                "--budget-tokens",
                "show no more than so many tokens, counted as JSON: the best hits whole, then passages, then titles",
                metavar="N",
                type=whole_number,
            ),
            argument("--no-fold", "show memories that say the same one by one", action="store_true"),
            argument("--explain", "show what made each hit's place", action="store_true"),
            argument("--verify", "check each memory: which hold, which are contradicted", action="store_true"),
            repeatable("--source", "with --verify: a file known to be right, which they are checked against", "FILE"),
            _TYPE_FILTER,
            _TAG_FILTER,
            _CONTEXT_FILTER,
            argument("--since", "only memories from this ISO 8601 date or time on (UTC)", metavar="TIME"),
            argument("--until", "only memories up to this ISO 8601 time, or the end of that day (UTC)", metavar="TIME"),
            argument("--local", "look on this machine only", action="store_true"),
            argument(
                "--prefer-speed",
                "by words alone, and do not ask the remote when this machine has an answer",
                action="store_true",
            ),
            argument("--no-semantic", "do not ask the remote for memories of similar meaning", action="store_true"),
            argument("--archived", "search archived memories as well", action="store_true"),
        ),
    ),
    Command(
        "get",
        "Show one memory.",
        f"{_ROOM}.memories:get",
        (_NAMED, argument("--explain", "show how strong it is, its tier, and what becomes of it", action="store_true")),
    ),
    Command(
        "list",
        "List memories, the latest first; assessments of tasks only with --tag confidence_assessment.",
        f"{_ROOM}.memories:list_memories",
        (
            _LIMIT_20,
            argument(
                "--before",
                "go on from this position, which the page before names",
                metavar="POSITION",
                type=whole_number,
            ),
            _TYPE_FILTER,
            _TAG_FILTER,
            _CONTEXT_FILTER,
            _ARCHIVED,
        ),
    ),
    Command(
        "forget", "Take a memory out of every answer, here and on the remote.", f"{_ROOM}.memories:forget", (_NAMED,)
    ),
    Command("restore", "Bring a forgotten or archived memory back.", f"{_ROOM}.memories:restore", (_NAMED,)),
    Command(
        "context",
        "Show what is at hand in a working context.",
        f"{_ROOM}.work:context",
        (argument("id", "the context (default: the last one worked in)", metavar="ID", nargs="?"),),
    ),
    Command(
        "task record",
        "Store what came of a task.",
        f"{_ROOM}.work:task_record",
        (
            argument("task", "what was to be done", metavar="TASK"),
            argument("--status", "completed (default), failed or cancelled", metavar="STATUS", default="completed"),
            argument("--reason", "why it failed", metavar="TEXT"),
            argument("--approach", "who or what did it", metavar="NAME"),
            repeatable("--note", "something to keep with it", "TEXT"),
            repeatable("--tag", "a tag", "TAG"),
            _CONTEXT,
        ),
    ),
    Command(
        "task route",
        "Rank candidates (agents or approaches) by what came of similar tasks.",
        f"{_ROOM}.work:task_route",
        (
            argument("task", "what is to be done", metavar="TASK"),
            argument("candidate", "who or what could do it", metavar="CANDIDATE", nargs="+"),
        ),
    ),
    Command(
        "confidence",
        "Say how sure to be of a task, by what came of similar ones; the answer is stored as a memory.",
        f"{_ROOM}.work:confidence",
        (argument("task", "what is to be done", metavar="TASK", nargs="+"), _CONTEXT),
    ),
    Command(
        "thought record",
        "Record one step of reasoning.",
        f"{_ROOM}.work:thought_record",
        (
            argument("content", "the thought", metavar="CONTENT"),
            argument("--chain", "id of its chain (default: a new one)", metavar="ID"),
            argument("--type", "what kind of step it is (default inference)", metavar="TYPE", default="inference"),
            argument("--parent", "id of the thought it follows from (default: the chain's last)", metavar="ID"),
            _CONTEXT,
        ),
    ),
    Command(
        "thought list",
        "Show a chain of thoughts in its order.",
        f"{_ROOM}.work:thought_list",
        (argument("chain", "id of the chain", metavar="CHAIN"),),
    ),
    Command(
        "link",
        "Link two memories.",
        f"{_ROOM}.work:link",
        (
            argument("source", "key or id of the memory it begins at", metavar="SOURCE"),
            argument("target", "key or id of the memory it leads to", metavar="TARGET"),
            argument("--type", "how they relate (default related)", metavar="TYPE", default="related"),
            argument("--strength", "0 to 1 (default 1)", metavar="N", type=number, default=1.0),
            argument("--description", "a remark on it", metavar="TEXT"),
        ),
    ),
    Command("links", "List the links of a memory.", f"{_ROOM}.work:links", (_NAMED,)),
    Command("status", "Show what is stored, what waits, and how the remote is.", f"{_ROOM}.upkeep:status"),
    Command(
        "sync",
        "Try the remote now and deliver what waits for it.",
        f"{_ROOM}.upkeep:sync",
        (
            argument("--timeout", "seconds to spend at most (default 60)", metavar="S", type=number, default=60.0),
            _REMOTE_NAME,
        ),
    ),
    Command(
        "sweep",
        "Archive memories that have ended, and those that other policies want to; erase ended working ones.",
        f"{_ROOM}.lifecycle:sweep",
        (
            repeatable(
                "--policy",
                "lifetimes, merging, strength or tiers (default: lifetimes, and what the settings switch on)",
                "POLICY",
            ),
            argument("--dry-run", "say what would happen and change nothing", action="store_true"),
            argument("--undo", "take back what the last sweep archived and moved", action="store_true"),
        ),
    ),
    Command(
        "compact",
        "Make room among the threads (contexts): merge those alike, archive idle and excess ones, make others lighter.",
        f"{_ROOM}.lifecycle:compact",
        (
            argument("--strategy", "gentle, normal or aggressive (default normal)", metavar="S", default="normal"),
            argument("--dry-run", "say what would happen and change nothing", action="store_true"),
        ),
    ),
    Command(
        "inject",
        "Show the notes that a hook would put beside a prompt, for the agent claude-code unless --agent names another.",
        f"{_ROOM}.injecting:inject",
        (
            argument("prompt", "the prompt, or - to read it from standard input", metavar="PROMPT", nargs="+"),
            argument(
                "--budget", "tokens that all of it may take, 67 at least (default 1000)", metavar="N", type=whole_number
            ),
            argument(
                "--session", "what this session was told is left out, and what it is told now noted", metavar="ID"
            ),
            argument("--explain", "show why each memory is in or out", action="store_true"),
        ),
    ),
    Command(
        "focus",
        "Put threads about a topic into prompts first; without a topic, list what is in focus.",
        f"{_ROOM}.attention:focus",
        (
            argument("topic", "a word or two, the id of a thread, or the key of a memory", metavar="TOPIC", nargs="?"),
            argument("--weight", "how strongly, 0 to 1 (default 0.8)", metavar="N", type=number),
        ),
    ),
    Command(
        "unfocus",
        "Take the focus off a topic, or off everything that holds for you, also where it holds for everyone.",
        f"{_ROOM}.attention:unfocus",
        (argument("topic", "a topic in focus (default: all of them)", metavar="TOPIC", nargs="?"),),
    ),
    Command(
        "pin",
        "Keep a text: a thread that weighs more, begins sessions, and that nothing takes away until it is unpinned.",
        f"{_ROOM}.attention:pin",
        (
            argument("content", "the text, or - to read it from standard input", metavar="TEXT"),
            argument("--title", "a short title (default: its first sentence)", metavar="TEXT"),
            repeatable("--topic", "a word to find it by", "TOPIC"),
            argument("--boost", "weight beyond that of others, 0 to 0.5 (default 0.3)", metavar="N", type=number),
            argument("--key", "its name, which must be a new one", metavar="KEY"),
        ),
    ),
    Command("unpin", "Let a pinned thread be as any other.", f"{_ROOM}.attention:unpin", (_THREAD,)),
    Command(
        "rate",
        "Say whether what a hook or inject has put into a prompt was useful or noise, once for each session.",
        f"{_ROOM}.attention:rate",
        (
            _THREAD,
            argument("rating", "useful or noise", metavar="RATING"),
            argument("--reason", "why; it is kept", metavar="TEXT"),
        ),
    ),
    Command(
        "suggestions",
        "Show which threads to merge, split or recall, and whether there are too many; nothing is changed.",
        f"{_ROOM}.suggestions:suggestions",
        (argument("context_text", "what you are working on: hints what to recall", metavar="CONTEXT", nargs="?"),),
    ),
    Command(
        "threads list",
        "List the threads (contexts), the latest first, under a line that says how heavy they are together.",
        f"{_ROOM}.threads:threads",
        (
            _LIMIT_20,
            argument("--status", "active (default), archived, merged-into or all", metavar="STATUS", default="active"),
        ),
    ),
    Command(
        "threads show",
        "Show all that is known of a thread, with its messages.",
        f"{_ROOM}.threads:show",
        (
            _THREAD,
            argument("--first", "number of the first message shown", metavar="N", type=whole_number, default=0),
            _LIMIT_20,
        ),
    ),
    Command(
        "threads recall",
        "Recall the threads on a topic, or the one of that id; archived ones too.",
        f"{_ROOM}.threads:recall",
        (
            argument("topic", "a topic, or the id or title of a thread", metavar="TOPIC", nargs="+"),
            limit("how many threads (default 5)", 5),
            argument("--restore", "bring back what was archived of the thread of that id", action="store_true"),
        ),
    ),
    Command(
        "threads merge",
        "Have the second thread go on as the first; all that was said is kept.",
        f"{_ROOM}.threads:merge",
        (
            argument("thread_a", "the thread that goes on", metavar="A"),
            argument("thread_b", "the thread that goes on as the first", metavar="B"),
        ),
    ),
    Command(
        "threads split",
        "Part the threads that were merged into one, or divide it where its topic changes.",
        f"{_ROOM}.threads:split",
        (
            _THREAD,
            repeatable("--topic", "take out what is about this, or part the merged thread of that name", "TOPIC"),
        ),
    ),
    Command(
        "threads rename",
        "Call a thread something else; its id stays.",
        f"{_ROOM}.threads:rename",
        (_THREAD, argument("title", "a short title", metavar="TITLE")),
    ),
    Command(
        "weak",
        "List memories that have faded: which may be forgotten, which a use brings back.",
        f"{_ROOM}.lifecycle:weak",
        (_LIMIT_20,),
    ),
    Command(
        "reinforce",
        "Hold a memory against fading, and count its lifetime anew if it has one.",
        f"{_ROOM}.lifecycle:reinforce",
        (_NAMED,),
    ),
    Command(
        "archive list",
        "List what lies in the archive, and why.",
        f"{_ROOM}.lifecycle:archive_list",
        (
            _LIMIT_20,
            argument(
                "--before",
                "go on from this position, which the page before names",
                metavar="POSITION",
                type=whole_number,
            ),
        ),
    ),
    Command(
        "archive add",
        "Put memories away into the archive. Those that lie there already stay as they are.",
        f"{_ROOM}.lifecycle:archive_add",
        (
            argument("memories", "keys or ids of the memories", metavar="KEY_OR_ID", nargs="+"),
            argument("--reason", "why, to be read in the archive", metavar="TEXT"),
        ),
    ),
    Command("archive restore", "Bring a memory back from the archive.", f"{_ROOM}.memories:restore", (_NAMED,)),
    Command(
        "stats",
        "Show how many memories are in which tier and how strong they are.",
        f"{_ROOM}.lifecycle:stats",
    ),
    Command(
        "audit tail",
        "Show the latest records of an audit; with --agent those of one agent.",
        f"{_ROOM}.audit:tail",
        (
            _LIMIT_20,
            argument("--follow", "go on with each new record, until interrupted", action="store_true"),
            _KIND,
            _FOLDER,
        ),
    ),
    Command(
        "audit show",
        "Show one record of an audit.",
        f"{_ROOM}.audit:show",
        (
            argument("record", "its id, or the beginning of one, or FILE:LINE", metavar="ID_OR_LINE"),
            _FOLDER,
        ),
    ),
    Command(
        "audit stats",
        "Count an audit's records by kind, agent and year, with retrievals and consolidations.",
        f"{_ROOM}.audit:stats",
        (_KIND, _FOLDER),
    ),
    Command(
        "remotes list",
        "List the remotes that this home knows, in use or not, and what waits for each; the same as `remotes`.",
        f"{_ROOM}.remotes:remotes_list",
    ),
    Command(
        "remotes add",
        "Have what this project stores from now on above significance 0.3 go to a memory server, and searches ask it.",
        f"{_ROOM}.remotes:remotes_add",
        (
            argument("name", "what to call it in this home, as in --remote NAME", metavar="NAME"),
            argument("address", "its address, such as http://localhost:8000", metavar="URL"),
            argument("--with-earlier", "send it what was stored before, too", action="store_true"),
            argument("--offline", "add it without asking it first", action="store_true"),
        ),
    ),
    Command(
        "remotes forget",
        "Take a remote out of this home, with all that waits for it; the memories stay.",
        f"{_ROOM}.remotes:remotes_forget",
        (argument("address", "its name or address, as `remotes list` shows it", metavar="REMOTE"),),
    ),
    Command(
        "outbox list",
        "List what the remote has not acknowledged.",
        f"{_ROOM}.upkeep:outbox_list",
        (repeatable("--state", "only entries that are pending, leased or dead", "STATE"), _REMOTE_NAME),
    ),
    Command(
        "outbox retry",
        "Send dead entries again: the named ones, or all.",
        f"{_ROOM}.upkeep:outbox_retry",
        (argument("memory", "key or id of a memory", metavar="KEY_OR_ID", nargs="*"), _REMOTE_NAME),
    ),
    Command(
        "outbox drop",
        "Stop sending the named memories; they stay on this machine.",
        f"{_ROOM}.upkeep:outbox_drop",
        (argument("memory", "key or id of a memory", metavar="KEY_OR_ID", nargs="+"), _REMOTE_NAME),
    ),
    Command(
        "export",
        "Write the project's memories, archived ones too, to a file or to standard output.",
        f"{_ROOM}.transfer:export",
        (
            argument(
                "file",
                "file, or folder with --layout kingly or ai; nothing or - for standard output",
                metavar="FILE",
                nargs="?",
            ),
            argument(
                "--layout",
                "jsonl: one memory per line (default); kingly: quick_cache, session_state and task_history.json; "
                "ai: threads/*.json and focus.json",
                metavar="LAYOUT",
                default="jsonl",
            ),
        ),
    ),
    Command(
        "import",
        "Bring memories in; the same file can be imported again without making duplicates.",
        f"{_ROOM}.transfer:import_path",
        (
            argument(
                "path",
                "JSONL, notes folder, old memory.json, quick_cache.json, .ai folder, or project folder (notes and .ai)",
                metavar="PATH",
            ),
            argument("--format", "jsonl, notes, legacy, kingly or ai (default: found out)", metavar="FORMAT"),
        ),
    ),
    Command(
        "hub",
        "Run a remote memory server, for yourself or others.",
        f"{_ROOM}.hub:hub",
        (
            argument("--host", "address to listen on (default 127.0.0.1)", metavar="HOST", default="127.0.0.1"),
            argument("--port", "port to listen on (default 8000)", metavar="PORT", type=whole_number, default=8000),
            argument(
                "--home",
                "folder of the hub's own (default: `~/.local/share/kingly/hub`, or `kingly/hub` in XDG_DATA_HOME)",
                metavar="DIR",
                default=SUPPRESS,
            ),
            argument(
                "--token-file",
                "file of mode 0600 with the token that callers must bring (or set KINGLY_HUB_TOKEN or "
                "KINGLY_HUB_TOKEN_FILE)",
                metavar="FILE",
                default=SUPPRESS,
            ),
            argument("--tokens-file", "JSON file of {token: namespace}, mode 0600", metavar="FILE"),
            argument("--json", "say where it listens as JSON", action="store_true", default=SUPPRESS),
        ),
        is_apart=True,
    ),
    Command(
        "mcp",
        "Serve the memory to agents over MCP: on standard input and output, or with --http on a port.",
        f"{_ROOM}.mcp:mcp",
        (
            argument(
                "--tools",
                "which tools, with commas (default: memory, seven tools): "
                "memory, thoughts, alma, lifecycle, ai, cognition, legacy, or all",
                metavar="SETS",
            ),
            argument("--http", "serve Streamable HTTP at /mcp instead of stdio", action="store_true"),
            argument("--host", "address to listen on (default 127.0.0.1)", metavar="HOST", default="127.0.0.1"),
            argument("--port", "port to listen on (default 8001)", metavar="PORT", type=whole_number, default=8001),
            argument(
                "--mcp-token-file",
                "file with the token that callers must bring (or set KINGLY_MCP_TOKEN; default: the home gets one)",
                metavar="FILE",
            ),
            repeatable("--allow-host", "a further name under which it may be called", "NAME"),
        ),
    ),
    Command(
        "hook",
        "Answer a host's hook event, whose JSON is read from standard input; says nothing when anything is wrong.",
        f"{_ROOM}.hook:hook",
        (
            argument(
                "event",
                "UserPromptSubmit, SessionStart (recall), PreCompact, Stop, SessionEnd (capture); default: the input's",
                metavar="EVENT",
                nargs="?",
            ),
            argument(
                "--wait",
                "capture before returning; otherwise Stop and SessionEnd leave that to a process in the background",
                action="store_true",
            ),
        ),
    ),
    Command(
        "config",
        "Show every setting and where it comes from, or what a host needs in its configuration file.",
        f"{_ROOM}.host_config:config",
        (
            argument("host", "claude-code, claude-desktop, cursor, vscode or codex", metavar="HOST", nargs="?"),
            argument("--write", "merge it into the host's file, which is kept as a backup", action="store_true"),
            argument("--remove", "take out of the host's file what --write has put there", action="store_true"),
            argument("--path", "that file, if it is another one than the usual", metavar="FILE"),
            argument("--url", "address of a running `kingly-memory mcp --http` instead of a command", metavar="URL"),
            argument(
                "--absolute",
                "write paths of this machine also into a file that is shared with the project",
                action="store_true",
            ),
        ),
    ),
    Command(
        "trust",
        "Obey a settings file that lies in a project, as long as its contents stay the same.",
        f"{_ROOM}.trusting:trust",
        (
            argument(
                "path", "the file, or the project that it belongs to (default: this one)", metavar="PATH", nargs="?"
            ),
            argument("--list", "show the files that are trusted", action="store_true"),
            argument("--remove", "trust it no longer", action="store_true"),
        ),
    ),
    Command(
        "doctor",
        "Look for what keeps memories from being stored, found or delivered, and say what to do.",
        f"{_ROOM}.doctor:doctor",
    ),
    Command("version", "Show the version.", f"{_ROOM}.upkeep:version"),
)
