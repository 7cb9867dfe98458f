"""LoCoMo conversations (Maharana et al., 2024): every turn becomes an episodic memory, in the order it was said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files.reading import Entry, Problem, attempt
from kingly_memory.errors import InvalidInput
from kingly_memory.validation import Imported, draft

_SESSION = re.compile(r"session_(\d+)")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DATE_TIME = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)\s*(?P<half>[ap])\.?m\.?\s+on\s+"
    r"(?P<day>\d{1,2})\s+(?P<month>[a-z]+),?\s+(?P<year>\d{4})",
    re.IGNORECASE,
)


def looks_like(content: Any) -> bool:
    """True for a list of samples, or for one sample."""
    first = content[0] if isinstance(content, list) and content else content
    return isinstance(first, Mapping) and isinstance(first.get("conversation"), Mapping)


def entries(content: Any, path: Path) -> Iterator[Entry]:
    """The turns of every sample, sessions in order of their number. The questions are not memories."""
    samples = content if isinstance(content, list) else [content]
    for number, sample in enumerate(samples, start=1):
        if not looks_like(sample) or not isinstance(sample.get("sample_id"), str):
            yield Problem(path, f"sample {number}", "has no `sample_id` text or no `conversation` object")
            continue
        yield from _conversation(sample["sample_id"], sample["conversation"], path)


def session_start(text: object) -> datetime:
    """When a session began, from "1:56 pm on 8 May, 2023"; taken as UTC. Raises InvalidInput."""
    match = _DATE_TIME.fullmatch(text.strip()) if isinstance(text, str) else None
    try:
        if match is None:
            raise ValueError
        hour = int(match["hour"]) % 12 + (12 if match["half"] in "pP" else 0)
        month = _MONTHS.index(match["month"].lower()) + 1
        return datetime(int(match["year"]), month, int(match["day"]), hour, int(match["minute"]), tzinfo=UTC)
    except ValueError:
        raise InvalidInput("date_time", f"{str(text)[:40]!r} is not like '1:56 pm on 8 May, 2023'") from None


def _conversation(sample_id: str, conversation: Mapping[str, Any], path: Path) -> Iterator[Entry]:
    numbered = sorted((int(match[1]), name) for name in conversation if (match := _SESSION.fullmatch(name)))
    for number, name in numbered:
        place, turns = f"{sample_id} {name}", conversation[name]
        if not isinstance(turns, list):
            yield Problem(path, place, "is not a list of turns")
            continue
        try:
            start = session_start(conversation.get(f"{name}_date_time"))
        except InvalidInput as error:
            yield Problem(path, place, str(error))
            continue
        for index, turn in enumerate(turns):
            said_at = start + timedelta(seconds=index)
            build = partial(_imported, turn, sample_id, number, said_at)
            yield attempt(path, f"{place} turn {index + 1}", build)


def _imported(turn: Any, sample_id: str, session: int, said_at: datetime) -> Imported:
    if not isinstance(turn, Mapping) or not all(isinstance(turn.get(name), str) for name in ("speaker", "dia_id")):
        raise InvalidInput("turn", "is not an object with speaker, dia_id and text")
    speaker, dia_id = turn["speaker"], turn["dia_id"]
    return Imported(
        draft(
            _said(turn),
            key=f"locomo:{sample_id}:{dia_id}",
            type="episodic",
            tags=(speaker,),
            title=f"{speaker}, {said_at.day} {_MONTHS[said_at.month - 1].title()} {said_at.year}",
            context_id=f"locomo:{sample_id}",
            origin="import",
            metadata={"speaker": speaker, "dia_id": dia_id, "session": session},
            created_at=said_at,
        )
    )


def _said(turn: Mapping[str, Any]) -> object:
    text, caption = turn.get("text"), turn.get("blip_caption")
    return f"{text}\n[shows a picture: {caption}]" if isinstance(text, str) and caption else text
