"""What an answer means for a delivery: try again, give up, or ask the user. Pure.

| answer | error | why |
|---|---|---|
| no connection, deadline, broken or oversized reply | unavailable | an outage kills nothing |
| 3xx that is not followed | unavailable | a captive portal redirects everything and goes away again |
| 407, 408, 425, 429, 5xx | unavailable | the server or a proxy says "later"; Retry-After is heeded |
| 401, 403 | unauthorised | only the user can mend it |
| 403 that names a role | refused, clear | the token is right, and may not do this one thing |
| 429 about a quota, also as a tool's error | unavailable | it waits, with long pauses, until there is room |
| 400, 413, 422 | refused, clear | this very message will never be taken |
| other 4xx (404, 405, 409, ...) | refused, not clear | wrong address, wrong protocol, conflict: all may be mended |
| an error that says "unknown method" | refused, clear, unknown method | the server has no such call |
| 2xx that says it failed | refused, clear for INVALID_PARAMETER | the server's tool failed, not the transport |

In mcp a reply is told in three more layers, and a 400 may be about the session, so that it is not clear by itself:

| answer | error | why |
|---|---|---|
| JSON-RPC -32603, -32000 to -32019 | unavailable | the server's own trouble |
| JSON-RPC -32602 | refused, clear | these very arguments will never be taken |
| JSON-RPC -32601, "unknown tool" | refused, clear, unknown method | the server has no such call |
| any other error of JSON-RPC | refused, not clear | about the connection or the protocol |
| isError, about the arguments | refused, clear | validation: they will never be taken |
| isError | refused, not clear | the server's tool failed |
| isError false, success false | as in json-call | the same |
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

CONFLICT, LOCKED, NO_WORKFLOW, NOT_FOUND = "conflict", "database locked", "workflow not found", "memory not found"
FORBIDDEN, QUOTA = "the token has not the role that this needs", "its quota is used up"
_ROLE = re.compile(r"\bneeds the role (read|write|forget|purge|admin)\b")
"""What an error text may be about, in words of ours (`RemoteRefused.code`)."""

_SIGNS = {
    CONFLICT: re.compile(r"UNIQUE constraint failed", re.IGNORECASE),
    FORBIDDEN: _ROLE,
    QUOTA: re.compile(r"\bquota\b.{0,80}\bused up\b"),
    LOCKED: re.compile(r"database (table )?is locked", re.IGNORECASE),
    NO_WORKFLOW: re.compile(r"workflow\b.{0,120}?\b(not found|does not exist)", re.IGNORECASE),
    NOT_FOUND: re.compile(
        r"(memory|memories)\b.{0,160}?\b(not found|does not exist|expired)|nothing is stored under", re.IGNORECASE
    ),
}
_QUOTA_PAUSE_S = 300.0
_SIGN_LIMIT = 2_000
"""Characters of an error text that are looked at for signs; beyond are tracebacks."""
_ERROR_TEXT_LIMIT = 200
"""Characters; a longer error text may quote the memory, and the memory may say anything."""
_UNKNOWN_METHOD = re.compile(r"unknown (method|tool)|method not found", re.IGNORECASE)
_INVALID_ARGUMENTS = re.compile(
    r"validation errors?\b|invalid (argument|parameter|params)|missing (a )?required|field required", re.IGNORECASE
)
_SUCCESS, _CLIENT_ERRORS = range(200, 300), range(400, 500)
_UNAUTHORISED = frozenset({401, 403})
_TELLING = frozenset({403, 404, 429})
"""Where our hub says in words of its own what it is about."""
_LATER = frozenset({407, 408, 425, 429})
_METHOD_NOT_FOUND, _INVALID_PARAMS, _INTERNAL_ERROR = -32601, -32602, -32603
_SERVER_TROUBLES = range(-32019, -31999)


class NotThere(RemoteRefused):
    """404, 405, 406 or 415: nothing at this address takes such a call. Another dialect may be spoken there."""


class Foreign(RemoteUnavailable):
    """What answered is not of this dialect: a login page, another service, an empty success."""


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
    is_open = status in _CLIENT_ERRORS and status not in (_LATER | _UNAUTHORISED) - _TELLING
    return is_open or succeeded(status) or status == HTTPStatus.NOT_IMPLEMENTED


def result(status: int, body: bytes, retry_after: str | None, now: datetime) -> Any:
    """What a finished answer says, as a JSON value; anything but a success raises as the table above says."""
    if not succeeded(status):
        raise refusal(status, body, retry_after, now)
    try:
        value = read(body)
    except NotJson as problem:
        raise Foreign(str(problem), reached=True) from None
    if failed := failure(value):
        raise failed
    return value


def refusal(status: int, body: bytes, retry_after: str | None, now: datetime) -> RemoteError:
    """The error that a status other than 2xx stands for."""
    text = status_text(status)
    excerpt = body[:_SIGN_LIMIT].decode("utf-8", "replace") if status in _TELLING else ""
    sign = sign_of(excerpt)
    if status == HTTPStatus.FORBIDDEN and sign == FORBIDDEN:
        return RemoteRefused(f"{text}: {_forbidden(excerpt)}", clear=True, code=sign)
    if status == HTTPStatus.TOO_MANY_REQUESTS and sign == QUOTA:
        return RemoteUnavailable(f"{text}: {sign}", retry_after_s=retry_after_s(retry_after, now), reached=True)
    if status in _UNAUTHORISED:
        return RemoteUnauthorised(status)
    if needs_body(status) and _names_unknown_method(body):
        return RemoteRefused(f"{text} (unknown method)", clear=True, unknown_method=True)
    if status in _LATER or status not in _CLIENT_ERRORS:
        return RemoteUnavailable(text, retry_after_s=retry_after_s(retry_after, now), reached=True)
    if sign == NOT_FOUND:
        return RemoteRefused(text, clear=False, code=NOT_FOUND)
    if status in {404, 405, 406, 415}:
        return NotThere(text, clear=False)
    return RemoteRefused(text, clear=status in {400, 413, 422})


def rpc_failure(error: Mapping[str, Any]) -> RemoteError:
    """What an error of JSON-RPC stands for. Its text stays hidden."""
    code = error.get("code")
    if _is_unknown_method(error):
        return RemoteRefused("unknown method", clear=True, unknown_method=True)
    if not isinstance(code, int):
        return RemoteRefused("the call failed (no known code)", clear=False)
    if code == _INTERNAL_ERROR or code in _SERVER_TROUBLES:
        return RemoteUnavailable(f"the server has trouble of its own (code {code})", reached=True)
    return RemoteRefused(f"the call failed (code {code:d})", clear=code == _INVALID_PARAMS, code=sign_of(error))


def tool_failure(text: str) -> RemoteError:
    """What a tool's error in words stands for (isError). The words stay hidden."""
    if _is_unknown_method(text):
        return RemoteRefused("unknown method", clear=True, unknown_method=True)
    sign = sign_of(text)
    if sign == QUOTA:
        return RemoteUnavailable(sign, retry_after_s=_QUOTA_PAUSE_S, reached=True)
    if sign == FORBIDDEN:
        return RemoteRefused(_forbidden(text), clear=True, code=sign)
    if sign is None and _INVALID_ARGUMENTS.search(text[:_SIGN_LIMIT]):
        return RemoteRefused("the tool does not take these arguments", clear=True)
    about = "" if sign is None else f": {sign}"
    return RemoteRefused(f"the tool failed{about}", clear=False, code=sign)


def failure(value: Any) -> RemoteError | None:
    """The error hidden in a 2xx answer: `{"success": false, ...}` or `{"error": ...}`. Its text stays hidden."""
    error = value.get("error") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or (value.get("success") is not False and not error):
        return None
    if _is_unknown_method(error):
        return RemoteRefused("unknown method", clear=True, unknown_method=True)
    code, sign = value.get("error_code"), sign_of(error)
    if sign in (FORBIDDEN, QUOTA):
        return tool_failure(str(error))
    named = code if code in ("INVALID_PARAMETER", "TOOL_ERROR", "EXECUTION_ERROR") else "no known code"
    about = named if sign is None else f"{named}: {sign}"
    return RemoteRefused(f"the call failed ({about})", clear=named == "INVALID_PARAMETER" and sign is None, code=sign)


def sign_of(error: Any) -> str | None:
    """What a server's error text is about; None when it is nothing we know."""
    text = error.get("message") if isinstance(error, Mapping) else error
    if not isinstance(text, str):
        return None
    return next((sign for sign, words in _SIGNS.items() if words.search(text[:_SIGN_LIMIT])), None)


def _forbidden(text: str) -> str:
    """Names the role that a text of our hub names: one of five words, so nothing of anybody's memories."""
    found = _ROLE.search(text[:_SIGN_LIMIT])
    return FORBIDDEN if found is None else f"the token has not the role {found[1]}, which this needs"


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """A Retry-After header, in seconds or as an HTTP date, clamped to 0-300 s. None when it cannot be read."""
    text = (value or "").strip()
    try:
        if re.fullmatch(r"[+-]?\d{1,20}(\.\d{0,9})?", text):
            seconds = float(text)
        else:
            seconds = (as_utc(parsedate_to_datetime(text)) - as_utc(now)).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), 300.0)


def _names_unknown_method(body: bytes) -> bool:
    """True for a short plain text that says so, and for JSON that says so in a field for errors."""
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
