"""Hook events and transcripts as a host writes them, made up for the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SESSION = "5f0c1c2e-1111-4a4a-9b9b-000000000001"
SAID_AT = "2026-03-01T10:00:00.000Z"


def event(name: str, folder: Path, **facts: Any) -> dict[str, Any]:
    """What the host writes to a hook's standard input."""
    said = {
        "session_id": SESSION,
        "transcript_path": str(folder / "transcript.jsonl"),
        "cwd": str(folder),
        "permission_mode": "default",
        "hook_event_name": name,
    }
    return {**said, **facts}


def entry(speaker: str, content: Any, uuid: str, **marks: Any) -> dict[str, Any]:
    """A line of a transcript: what somebody said."""
    return {
        "parentUuid": None,
        "isSidechain": False,
        "sessionId": SESSION,
        "type": speaker,
        "uuid": uuid,
        "timestamp": SAID_AT,
        "message": {"role": speaker, "content": content},
        **marks,
    }


def text(said: str) -> list[dict[str, str]]:
    """The content of an assistant's message."""
    return [{"type": "text", "text": said}]


def transcript(folder: Path, *entries: Mapping[str, Any], name: str = "transcript.jsonl") -> Path:
    """Append the entries to the session's transcript."""
    path = folder / name
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in entries)
    return path
