"""Reading what was said in a host's transcript: JSON Lines, one entry per message, appended to while we read."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from kingly_memory.attention.fence import without_fenced
from kingly_memory.attention.statements import Message, Speaker
from kingly_memory.dataclass import dataclass
from kingly_memory.hosts.hooks import TranscriptUnreadable
from kingly_memory.models import as_utc

READ_BYTES = 1024 * 1024
"""Bytes of a transcript that are read at a time: looking through them takes a second or two."""
LINE_BYTES = 1024 * 1024
"""A longer line holds a picture or the output of a tool, nothing that somebody said."""

_NOT_SAID = ("isMeta", "isCompactSummary", "isSidechain", "isVisibleInTranscriptOnly", "isApiErrorMessage")
"""Marks of entries that the host or a subagent wrote."""
_HOST_TAGS = (
    "system-reminder|command-[a-z]+|local-command-[a-z]+|bash-[a-z]+|task-notification|user-prompt-submit-hook"
    "|environment_context|user_instructions|INSTRUCTIONS|turn_aborted|skill|session_context|hook_context"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """Messages in their order, and the byte at which the next reading begins. `more`: there was no time to read all."""

    messages: tuple[Message, ...]
    end: int
    more: bool = False


def read_since(path: Path, start: int) -> Passage:
    """What was said from that byte on. A transcript that has become shorter is read from its beginning, and a last line
    that is still being written is left for the next time. Raises TranscriptUnreadable."""
    try:
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(start if start <= size else 0)
            messages: list[Message] = []
            limit, end = file.tell() + READ_BYTES, file.tell()
            for position, line in _lines(file, limit):
                end = position
                messages += [] if line is None else _messages(_parsed(line))
            return Passage(tuple(messages), end, more=end >= limit)
    except OSError as error:
        raise TranscriptUnreadable(error.strerror or type(error).__name__) from None


def handed_over(entries: Sequence[Any]) -> Passage:
    """What was said in entries that a host keeps in no file."""
    return Passage(tuple(message for one in entries for message in _messages(one)), 0)


def _opened(path: Path) -> BinaryIO:
    """The file, if it is one: a pipe would hold us up."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TranscriptUnreadable("it is no file")
    return os.fdopen(descriptor, "rb")


def _lines(file: BinaryIO, limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Each complete line with the byte after it, up to the limit; None in the place of one that is too long."""
    while file.tell() < limit:
        line = file.readline(LINE_BYTES)
        if not line:
            return
        if line.endswith(b"\n"):
            yield file.tell(), line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LINE_BYTES)
        if not line:
            return
        yield file.tell(), None


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _messages(entry: Any) -> Iterator[Message]:
    """The message in an entry; nothing for everything else that hosts write into a transcript."""
    if not isinstance(entry, dict) or any(entry.get(mark) for mark in _NOT_SAID):
        return
    match entry:
        case {"type": "user" | "assistant" as speaker, "message": {"content": content}}:  # Claude Code
            name = entry.get("uuid")
        case {
            "type": "response_item",
            "payload": {"role": "user" | "assistant" as speaker, "content": content},
        }:  # Codex
            name = entry["payload"].get("id")
        case {"type": "user" | "gemini" as speaker, "content": content}:  # Gemini CLI
            name = entry.get("id")
        case {"type": "user.message" | "assistant.message" as speaker, "data": {"content": content}}:
            name = entry.get("id")  # Copilot CLI, VS Code
        case {"role": "user" | "assistant" as speaker, "message": {"content": content}}:  # Cursor, opencode's plugin
            name = entry.get("id")
        case _:
            return
    text = _said(_text(content)).strip()
    if text:
        who: Speaker = "user" if speaker.startswith("user") else "assistant"
        yield Message(name if isinstance(name, str) else "", who, text, _moment(entry.get("timestamp")))


def _text(content: Any) -> str:
    """The text of a message; what tools returned and what the model thought is not said by anybody."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    blocks = [one for one in content if isinstance(one, dict)]
    if any(one.get("type") == "tool_result" for one in blocks):
        return ""
    texts = [
        block.get("text") for block in blocks if block.get("type", "text") in ("text", "input_text", "output_text")
    ]
    return "\n".join(one for one in texts if isinstance(one, str))


def _said(text: str) -> str:
    """The text without recalled notes and insertions of the host, also those that are not closed."""
    own = without_fenced(text)
    if "<user_query>" in own:  # Cursor: what stands around it is not the user's
        own = "\n".join(re.findall(r"<user_query>(.*?)(?:</user_query>|\Z)", own, flags=re.DOTALL))
    if "<" in own:
        own = re.sub(rf"<({_HOST_TAGS})(?:\s[^>]*)?>.*?(?:</\1>|\Z)", "", own, flags=re.DOTALL)
    return "" if own.startswith(("[Request interrupted", "# AGENTS.md instructions")) else own


def _moment(value: Any) -> datetime | None:
    try:
        return as_utc(datetime.fromisoformat(value))
    except (TypeError, ValueError, OverflowError):
        return None
