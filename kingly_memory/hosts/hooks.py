"""A host's hook events and what we answer: notes for a prompt or a session's start, capture before a compaction, at a
turn's end and at a session's end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kingly_memory.dataclass import NamedTuple
from kingly_memory.errors import KinglyMemoryError

if TYPE_CHECKING:
    from kingly_memory.home.place import Place
    from kingly_memory.models import JsonObject
    from kingly_memory.settings import Settings

RECALLING = ("UserPromptSubmit", "SessionStart")
DETACHED = ("Stop", "SessionEnd")
"""A worker captures after the hook has returned: `claude -p` ends as soon as its hooks have, and the user waits for
them. A compaction has time to wait."""
CAPTURING = ("PreCompact", *DETACHED)
EVENTS = (*RECALLING, *CAPTURING)
NAMES = {
    "gemini": {"UserPromptSubmit": "BeforeAgent", "Stop": "AfterAgent"},
    "cursor": {
        "UserPromptSubmit": "beforeSubmitPrompt",
        **{event: event[0].lower() + event[1:] for event in ("SessionStart", *CAPTURING)},
    },
}
"""What hosts call events for which they have other names than Claude Code."""
LOSING = ("compact", "clear")
"""Sources of a session's start after which the host no longer has the notes that were put in before."""
HOST = "claude-code"
"""Whose event it is where the command names no host. A host is the agent who speaks, unless the command line or
KINGLY_AGENT says otherwise."""
LOG = "hooks.jsonl"
"""What went wrong, in the user's data folder: see `hook_log`."""
INPUT_BYTES = 8 * 1024 * 1024
_SESSION_LIMIT = 200
_SESSION_NAMES = ("session_id", "conversation_id", "sessionId")
"""What hosts call it; Cursor and VS Code have words of their own."""


class UnusableInput(KinglyMemoryError):
    """A hook was called in a way that it does not know. Quotes nothing of what it was given."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; compare the host's configuration with what `kingly-memory config HOST` prints")


class TranscriptUnreadable(KinglyMemoryError):
    """The transcript that the host named cannot be read."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the host's transcript cannot be read ({problem}); nothing was captured from it")


class Call(NamedTuple):
    """One call of a hook by a host."""

    event: str
    host: str
    session: str | None
    folder: Path | None
    prompt: str
    transcript: Path | list[Any] | None
    """The file, or where a host keeps none the entries themselves."""
    goes_on: bool
    """At a Stop: another hook made the assistant go on, so the turn has not ended."""
    source: str
    """At a session's start: startup, resume, clear or compact."""


class HookAnswer(NamedTuple):
    """What the host is told, if anything, and what is done once it has been told."""

    reply: JsonObject | None = None
    remember: Callable[[float], None] = lambda _: None
    """Called with the milliseconds that the hook took."""


def called(event: str, data: bytes, host: str = HOST) -> Call:
    """The call behind an event's name and the JSON that came with it. An event without a name is the one that the JSON
    says. Raises UnusableInput."""
    if len(data) > INPUT_BYTES:
        raise UnusableInput(f"the input has more than {INPUT_BYTES:,} bytes")
    given = _object(data)
    event = event or _text(given, "hook_event_name")
    if event not in EVENTS:
        raise UnusableInput("the event is none of " + ", ".join(EVENTS))
    if given.get("hook_event_name", event) not in (event, _name(event, host)):
        raise UnusableInput(f"the hook for {event} was called for another event")
    transcript, entries = _text(given, "transcript_path"), given.get("transcript")
    folders = [given.get("cwd"), *(given["workspace_roots"] if isinstance(given.get("workspace_roots"), list) else ())]
    folder = next((path for path in folders if isinstance(path, str) and path), "")
    return Call(
        event=event,
        host=host,
        session=_session(next(filter(None, (_text(given, name) for name in _SESSION_NAMES)), "")),
        folder=Path(folder) if folder.startswith("/") and "\0" not in folder else None,
        # Gemini CLI puts what a session's start was told into its first prompt.
        prompt=_text(given, "prompt").rpartition("</hook_context>")[2],
        transcript=entries if isinstance(entries, list) else _path(transcript),
        goes_on=given.get("stop_hook_active") is True,
        source=_text(given, "source"),
    )


def to_capture(call: Call, settings: Settings) -> tuple[str, Path | list[Any]] | None:
    """The session and the transcript of which something is to be captured, if any. Raises UnusableInput when the call
    does not say from where."""
    if call.event not in CAPTURING or call.goes_on or not settings.capture_most:
        return None
    if call.session is None or call.transcript is None:
        raise UnusableInput("the host named no session or no transcript")
    return call.session, call.transcript


def handed_over(call: Call) -> bytes:
    """The part of the input that a worker needs to capture."""
    name = "transcript" if isinstance(call.transcript, list) else "transcript_path"
    facts = {"session_id": call.session, "cwd": call.folder, name: call.transcript}
    return json.dumps({name: fact for name, fact in facts.items() if fact is not None}, default=str).encode()


def notes(call: Call, place: Place, settings: Settings) -> HookAnswer:
    """What is put beside the prompt, or at the session's start. Raises KinglyMemoryError."""
    if not place.home.is_dir() or not settings.hook_tokens:
        return HookAnswer()
    from kingly_memory.hosts.recall import for_prompt, for_start

    if call.event == "SessionStart":
        text, remember = for_start(call.session, place, settings, anew=call.source in LOSING)
    else:
        text, remember = for_prompt(call.prompt, call.session, place, settings)
    if not text:
        return HookAnswer(None, remember)
    reply: JsonObject = {"additionalContext": text}
    if call.host == "cursor":
        reply = {"continue": True, "additional_context": text}
    elif call.host != "copilot":  # which alone reads it there
        reply = {"hookSpecificOutput": {"hookEventName": _name(call.event, call.host), **reply}}
    return HookAnswer(reply, remember)


def _name(event: str, host: str) -> str:
    return NAMES.get(host, {}).get(event, event)


def _object(data: bytes) -> dict[str, Any]:
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        raise UnusableInput("the input is not JSON") from None
    if not isinstance(given, dict):
        raise UnusableInput("the input is not a JSON object")
    return given


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text and "\0" not in text else None


def _session(name: str) -> str | None:
    """A name that can be a context id."""
    return name if name.isprintable() and name.strip() and len(name) <= _SESSION_LIMIT else None
