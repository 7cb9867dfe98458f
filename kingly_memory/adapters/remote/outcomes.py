"""What an answer means for a delivery: try again, give up, or ask the user. Pure.

| answer | error | why |
|---|---|---|
| no connection, deadline, broken or oversized reply | unavailable | an outage kills nothing |
| 3xx that is not followed | unavailable | a captive portal redirects everything and goes away again |
| 407, 408, 425, 429, 5xx | unavailable | the server or a proxy says "later"; Retry-After is heeded |
| 401, 403 | unauthorised | only the user can mend it |
| 400, 413, 422 | refused, clear | this very message will never be taken |
| other 4xx (404, 405, 409, ...) | refused, not clear | wrong address, wrong protocol, conflict: all may be mended |
| an error that says "unknown method" | refused, clear, unknown method | the server has no such call |
| 2xx that says it failed | refused, clear for INVALID_PARAMETER | the server's tool failed, not the transport |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from kingly_memory.adapters.remote.strict_json import NotJson, read
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import as_utc

LONGEST_RETRY_AFTER_S = 300.0

_LATER = frozenset({407, 408, 425, 429})
_SUCCESS = range(200, 300)
_CLIENT_ERRORS = range(400, 500)
_UNAUTHORISED = frozenset({401, 403})
_DECIDED = _LATER | _UNAUTHORISED
_CLEAR = frozenset({400, 413, 422})
_FAILURE_CODES = frozenset({"INVALID_PARAMETER", "TOOL_ERROR", "EXECUTION_ERROR"})
_METHOD_NOT_FOUND = -32601
_ERROR_TEXT_LIMIT = 200
"""Characters; a longer error text may quote the memory, and the memory may say anything."""
_UNKNOWN_METHOD = re.compile(r"unknown (method|tool)|method not found", re.IGNORECASE)
_SECONDS = re.compile(r"[+-]?\d{1,20}(\.\d{0,9})?")


def status_text(status: int) -> str:
    """`HTTP 503: Service Unavailable` (seed 004). The phrase is the standard's, not the server's."""
    try:
        return f"HTTP {status}: {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}: no standard meaning"


def succeeded(status: int) -> bool:
    return status in _SUCCESS


def needs_body(status: int) -> bool:
    """Whether the body can change what the answer means. Where it cannot, it is not read at all."""
    decides = status in _CLIENT_ERRORS and status not in _DECIDED
    return decides or succeeded(status) or status == HTTPStatus.NOT_IMPLEMENTED


def result(status: int, body: bytes, retry_after: str | None, now: datetime) -> Any:
    """What a finished answer says, as a JSON value; anything but a success raises as the table above says."""
    if not succeeded(status):
        raise refusal(status, body, retry_after, now)
    try:
        value = read(body)
    except NotJson as problem:
        raise RemoteUnavailable(str(problem), reached=True) from None
    if failed := failure(value):
        raise failed
    return value


def refusal(status: int, body: bytes, retry_after: str | None, now: datetime) -> RemoteError:
    """The error that a status other than 2xx stands for."""
    text = status_text(status)
    if status in _UNAUTHORISED:
        return RemoteUnauthorised(status)
    if needs_body(status) and _names_unknown_method(body):
        return RemoteRefused(f"{text} (unknown method)", clear=True, unknown_method=True)
    if status in _LATER or status not in _CLIENT_ERRORS:
        return RemoteUnavailable(text, retry_after_s=retry_after_s(retry_after, now), reached=True)
    return RemoteRefused(text, clear=status in _CLEAR)


def failure(value: Any) -> RemoteRefused | None:
    """The error hidden in a 2xx answer: `{"success": false, ...}` or `{"error": ...}`. Its text stays hidden."""
    if not isinstance(value, Mapping):
        return None
    error = value.get("error")
    if value.get("success") is not False and not error:
        return None
    if _is_unknown_method(error):
        return RemoteRefused("unknown method", clear=True, unknown_method=True)
    code = value.get("error_code")
    known = code if isinstance(code, str) and code in _FAILURE_CODES else "no known code"
    return RemoteRefused(f"the call failed ({known})", clear=known == "INVALID_PARAMETER")


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """A Retry-After header, in seconds or as an HTTP date, clamped to 0-300 s. None when it cannot be read."""
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return _clamped(float(text))
    try:
        return _clamped((as_utc(parsedate_to_datetime(text)) - as_utc(now)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _names_unknown_method(body: bytes) -> bool:
    """True for a short plain text that says so, and for JSON that says so where errors are told."""
    try:
        value = read(body)
    except NotJson:
        return _is_unknown_method(body[: _ERROR_TEXT_LIMIT + 1].decode("utf-8", "replace"))
    if not isinstance(value, Mapping):
        return False
    return any(_is_unknown_method(value.get(name)) for name in ("error", "detail", "message"))


def _is_unknown_method(error: Any) -> bool:
    if isinstance(error, Mapping):
        return error.get("code") == _METHOD_NOT_FOUND or _is_unknown_method(error.get("message"))
    return isinstance(error, str) and len(error) <= _ERROR_TEXT_LIMIT and bool(_UNKNOWN_METHOD.search(error))


def _clamped(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)
