"""What is mended and refused in a JSON-RPC message before the SDK reads it."""

from __future__ import annotations

import json
import re
from typing import Any

from anyio import to_thread

from kingly_memory.hub.access import Refusal
from kingly_memory.intake import mended

INVALID_REQUEST = -32600
STRANGE_ID = "the id of a request has to be a text or a whole number"

_THREAD_ABOVE_BYTES = 65_536
"""Reading more JSON than this takes long enough to be felt on the event loop."""
_PERHAPS_STRANGE = re.compile(rb'"(?:i|\\u0069)(?:d|\\u0064)"\s*:\s*(?:[^\s"\d-]|-?\d+[.eE])')


def has_strange_id(line: bytes) -> bool:
    """True for a request whose id is neither text nor a whole number: the SDK would take it for a notification, which
    nobody answers."""
    if _PERHAPS_STRANGE.search(line) is None:
        return False
    try:
        value = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict) or "method" not in value or "id" not in value:
        return False
    return isinstance(value["id"], bool) or not isinstance(value["id"], str | int)


async def readable(body: bytes) -> bytes | Refusal:
    """What the SDK is to read of a request's body, or why it is not to."""
    return _readable(body) if len(body) <= _THREAD_ABOVE_BYTES else await to_thread.run_sync(_readable, body)


def _readable(body: bytes) -> bytes | Refusal:
    return Refusal(400, STRANGE_ID) if has_strange_id(body) else mended_body(body)


def mended_body(body: bytes) -> bytes:
    """The same JSON without lone surrogates, which would be refused as unreadable; anything else as it came."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    try:
        return json.dumps(mended_tree(json.loads(body)), ensure_ascii=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return body


def mended_tree(value: Any) -> Any:
    """A JSON value in which every text can be encoded."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, dict):
        return {mended_tree(name): mended_tree(one) for name, one in value.items()}
    if isinstance(value, list):
        return [mended_tree(one) for one in value]
    return value
