"""Capturing: which statements of a conversation are news here, and the memories that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kingly_memory import validation
from kingly_memory.attention.fence import without_fenced
from kingly_memory.attention.statements import Message, Statement, gist, is_echo
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, named_id
from kingly_memory.models import Memory, Origin
from kingly_memory.validation import Imported

TAG = "captured"
LOOKED_AT = 5
"""Memories like a statement, among which one may say it already."""


def messages(turns: object) -> list[Message]:
    """What user and assistant have said in turns of `{role, content}`, without recalled notes. Calls of tools, their
    results and what the host says are left out. Raises InvalidInput."""
    if not isinstance(turns, Sequence) or isinstance(turns, str | bytes):
        raise InvalidInput("turns", "is no list of {role, content}")
    found = []
    for number, turn in enumerate(turns):
        try:
            role, content = turn.get("role"), turn.get("content")
        except AttributeError:
            raise InvalidInput(f"turns[{number}]", "is no mapping with role and content") from None
        parts: Any = [{"text": content}] if isinstance(content, str) else content
        texts = [one.get("text") for one in parts if isinstance(one, dict)] if isinstance(parts, list | tuple) else []
        if role in ("user", "assistant"):
            text = "\n".join(one for one in texts if isinstance(one, str))
            found.append(Message("", role, without_fenced(text), None))
    return found


def news(found: Sequence[Statement], most: int, alike: Callable[[str], Iterable[Memory]]) -> list[Statement]:
    """The most significant statements that no memory says yet, in the order they were said."""
    chosen = sorted(found, key=lambda one: one.worth.significance, reverse=True)[:most]
    return [
        statement for statement in found if statement in chosen and not _is_known(statement, alike(statement.content))
    ]


def _is_known(statement: Statement, hits: Iterable[Memory]) -> bool:
    """True for what is stored already, and for what an assistant has only repeated from there. What was only derived
    from a reply is not known as the user's word, who confirms it by saying it."""
    is_users = statement.speaker == "user"
    texts = [memory.content for memory in hits if not (is_users and memory.origin is Origin.DERIVED)]
    if any(gist(statement.content) == gist(text) for text in texts):
        return True
    return not is_users and any(is_echo(statement.content, text) for text in texts)


def entry(statement: Statement, context_id: str | None, space: str, agent: str | None) -> Imported:
    """A statement as it is taken in: what is here already, or was forgotten, stays so."""
    draft = validation.draft(
        statement.content,
        type=statement.worth.type,
        significance=statement.worth.significance,
        confidence=statement.worth.confidence,
        tags=(TAG, statement.sort.value),
        context_id=context_id,
        agent=agent,
        origin=Origin.USER if statement.speaker == "user" else Origin.DERIVED,
        created_at=statement.at,
    )
    return Imported(draft, captured_id(statement, context_id, space))


def captured_id(statement: Statement, context_id: str | None, space: str) -> MemoryId:
    """The same for the same words of the same message, and ordered by the time they were said, where that is known
    (RFC 9562, version 8)."""
    names = (space, statement.message_id or context_id or "", gist(statement.content))
    if statement.at is None:
        return named_id(*names)
    digest = sha256("\0".join(names).encode(errors="replace")).hexdigest()
    time = f"{max(int(statement.at.timestamp() * 1000), 0) & ((1 << 48) - 1):012x}"
    return MemoryId(f"{time[:8]}-{time[8:]}-8{digest[:3]}-8{digest[3:6]}-{digest[6:18]}")
