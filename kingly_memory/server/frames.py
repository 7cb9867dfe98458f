"""From bytes on the wire to messages and back. Whatever arrives, there is something to say to it."""

from __future__ import annotations

import json
import re

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from kingly_memory.hub.bodies import NO_MESSAGE, STRANGE_ID, has_strange_id
from kingly_memory.validation import mended_tree

ENDS_BYTES = 4_096
"""How much of the beginning and of the end of a message is looked at for its id when it cannot be read."""

_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\\x00-\x1f]{0,200}")'
_SCALARS = rb'(?:\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|-?[\d.]+|true|false|null)\s*,)*?'
_ID_AT_BEGIN = re.compile(rb"\s*\{" + _SCALARS + rb"\s*" + _ID)
_ID_AT_END = re.compile(_ID + rb'(?:\s*,\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|-?[\d.]+|true|false|null))*\s*\}\s*$')


class Unreadable(ValueError):
    """What arrived is no message. `reply` is what to answer."""

    def __init__(self, reply: JSONRPCError) -> None:
        super().__init__(reply.error.message)
        self.reply = reply


def message(line: bytes) -> JSONRPCMessage:
    """The message of a line. Bytes that are no text and lone surrogates become U+FFFD. Raises Unreadable."""
    try:
        read = jsonrpc_message_adapter.validate_json(line, by_name=False, extra="allow")
    except ValidationError:
        read = _mended(line)
    if has_strange_id(read):
        raise _unreadable(INVALID_REQUEST, STRANGE_ID, None)
    return read


def _mended(line: bytes) -> JSONRPCMessage:
    try:
        value = mended_tree(json.loads(line.decode(errors="replace")))
    except (ValueError, RecursionError):
        raise _unreadable(PARSE_ERROR, "this is not JSON that can be read", request_id(line, line)) from None
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False, extra="allow")
    except ValidationError:
        message_id = value.get("id") if isinstance(value, dict) else None
        usable_id = message_id if isinstance(message_id, str | int) and not isinstance(message_id, bool) else None
        raise _unreadable(INVALID_REQUEST, NO_MESSAGE, usable_id) from None


def too_long(head: bytes, tail: bytes, limit_bytes: int) -> JSONRPCError:
    """What to answer to a message of which only the ends were kept."""
    sentence = f"the message is longer than {limit_bytes:,} bytes; store a text in several memories"
    return _refusal(INVALID_REQUEST, sentence, request_id(head, tail))


def line(reply: JSONRPCMessage) -> bytes:
    """The line for a message, whatever is in it."""
    try:
        text = reply.model_dump_json(by_alias=True, exclude_unset=True)
    except (PydanticSerializationError, UnicodeEncodeError):
        text = _mended_text(reply)
    return text.encode() + b"\n"


def request_id(head: bytes, tail: bytes) -> RequestId | None:
    """The id of a request that cannot be read, if it stands among the plain members at either end, where clients put
    it."""
    matched = _ID_AT_BEGIN.match(head[:ENDS_BYTES]) or _ID_AT_END.search(tail[-ENDS_BYTES:])
    if matched is None:
        return None
    text = matched[1].decode(errors="replace")
    return text[1:-1] if text.startswith('"') else int(text)


def _mended_text(reply: JSONRPCMessage) -> str:
    try:
        return json.dumps(mended_tree(reply.model_dump(by_alias=True, exclude_unset=True)), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        message_id = getattr(reply, "id", None)
        return _refusal(INTERNAL_ERROR, "the answer cannot be written as JSON", message_id).model_dump_json(
            by_alias=True
        )


def _unreadable(code: int, sentence: str, message_id: RequestId | None) -> Unreadable:
    return Unreadable(_refusal(code, sentence, message_id))


def _refusal(code: int, sentence: str, message_id: RequestId | None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=message_id, error=ErrorData(code=code, message=sentence))
