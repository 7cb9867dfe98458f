"""The messages of mcp (JSON-RPC 2.0), the headers beside them, and what the answers mean. Pure.

Until 2025-11-25 a client introduces itself once and may be given a session to name in every later message. From
2026-07-28 on there is neither: every message says who speaks which protocol, and headers repeat what it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, NamedTuple

from kingly_memory.adapters.remote.dialect import Arguments, Tools
from kingly_memory.adapters.remote.outcomes import Foreign, failure, refusal, rpc_failure, tool_failure
from kingly_memory.adapters.remote.strict_json import NotJson, read
from kingly_memory.adapters.remote.wire import server_name
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject
from kingly_memory.version import __version__

STATELESS_VERSION = "2026-07-28"
SESSION_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
EVENT_STREAM = "text/event-stream"

_ACCEPT = f"application/json, {EVENT_STREAM}"
"""Both, or a server may answer 406."""
_META = "io.modelcontextprotocol"
_CLIENT = {"name": "kingly-memory", "version": __version__}
_INVALID_REQUEST = -32600
_MISUNDERSTOOD = range(-32022, -32019)
"""JSON-RPC: headers that do not match, a capability that is missing, a protocol version that is not known."""
_SESSION_ID = re.compile(r"[!-~]{1,1024}")
_MOST_TOOLS = 1_000
_CURSOR_LIMIT = 4_096


class Party(NamedTuple):
    """What was agreed on with a server: where it is (added to the endpoint's address), which protocol (nothing before
    the introduction), which session, and what it calls itself."""

    path: str
    protocol: str = ""
    session: str | None = None
    server: str = ""

    @property
    def stateless(self) -> bool:
        return self.protocol == STATELESS_VERSION


class Misunderstood(Exception):
    """The server does not know this party (any more): it restarted, or speaks another protocol by now. Nothing was
    done. `meaning` is what that comes to if introducing oneself again does not help."""

    def __init__(self, meaning: RemoteRefused) -> None:
        super().__init__(str(meaning))
        self.meaning = meaning


INTRODUCTION: JsonObject = {"protocolVersion": SESSION_VERSIONS[-1], "capabilities": {}, "clientInfo": _CLIENT}
"""The parameters of `initialize`."""

INTRODUCED: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
"""The notification after the introduction. The server does not answer it."""


def request(party: Party, number: int, method: str, params: JsonObject) -> JsonObject:
    """A message that wants an answer. Without a session it says who speaks which protocol."""
    if party.stateless:
        meta = {"protocolVersion": party.protocol, "clientInfo": _CLIENT, "clientCapabilities": {}}
        params = {**params, "_meta": {f"{_META}/{name}": value for name, value in meta.items()}}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def headers(party: Party, message: JsonObject | None = None) -> dict[str, str]:
    """The headers of a message, or of a request that has no message (DELETE)."""
    fields = {"Accept": _ACCEPT}
    if party.protocol:
        fields["MCP-Protocol-Version"] = party.protocol
    if party.session is not None:
        fields["Mcp-Session-Id"] = party.session
    if party.stateless and message is not None:
        fields["Mcp-Method"] = message["method"]
        if message["method"] == "tools/call":
            fields["Mcp-Name"] = message["params"]["name"]
    return fields


def answer(text: bytes, number: int) -> JsonObject | None:
    """The answer to that request in a text; None when it is something else. Raises Foreign when it is no JSON-RPC.

    A server that could not read the request may not know its number either, so an error without one counts as well.
    """
    try:
        body = read(text)
    except NotJson as problem:
        raise Foreign(str(problem), reached=True) from None
    messages = body if isinstance(body, list) else [body]
    if not all(isinstance(message, dict) and message.get("jsonrpc") == "2.0" for message in messages):
        raise Foreign("the reply is no message of JSON-RPC", reached=True)
    return next((message for message in messages if _answers(message, number)), None)


def result(message: JsonObject) -> JsonObject:
    """What a request came to. Raises Misunderstood, or what its error stands for."""
    error = message.get("error")
    if isinstance(error, dict):
        raise rejection(error)
    outcome = message.get("result")
    if not isinstance(outcome, dict):
        raise RemoteUnavailable("the reply holds neither a result nor an error", reached=True)
    return outcome


def rejection(error: Mapping[str, Any]) -> Exception:
    """What an error of JSON-RPC comes to: Misunderstood where it is about the parties rather than about the request."""
    meaning = rpc_failure(error)
    code = error.get("code")
    if isinstance(meaning, RemoteRefused) and (code == _INVALID_REQUEST or code in _MISUNDERSTOOD):
        return Misunderstood(meaning)
    return meaning


def turned_away(status: int, body: bytes, retry_after: str | None, now: datetime) -> Exception:
    """What a status other than 2xx comes to. A 400 or 404 is what a lost session looks like, in various words, and an
    unknown protocol too; what is wrong with the request itself is said by JSON-RPC."""
    meaning = refusal(status, body, retry_after, now)
    if not isinstance(meaning, RemoteRefused) or meaning.unknown_method:
        return meaning
    try:
        message = read(body)
    except NotJson:
        message = None
    error = message.get("error") if isinstance(message, dict) and message.get("jsonrpc") == "2.0" else None
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        rejected = rejection(error)
        if isinstance(rejected, RemoteRefused) and rejected.clear:
            return rejected
    if status == HTTPStatus.NOT_FOUND:
        return Misunderstood(meaning)
    if status == HTTPStatus.BAD_REQUEST:
        return Misunderstood(RemoteRefused(meaning.reason, clear=False))
    return meaning


def discovered(fields: JsonObject, path: str) -> Party | None:
    """The party that a server offers without an introduction, if it speaks that protocol."""
    versions = fields.get("supportedVersions")
    if not isinstance(versions, list) or STATELESS_VERSION not in versions:
        return None
    meta = fields.get("_meta")
    about = meta.get(f"{_META}/serverInfo") if isinstance(meta, dict) else None
    return Party(path, STATELESS_VERSION, server=_name(about))


def introduced(fields: JsonObject, path: str, session: str | None) -> Party:
    """The party that an introduction led to. Raises RemoteRefused when the server speaks no protocol that we do."""
    version = fields.get("protocolVersion")
    if version not in SESSION_VERSIONS:
        raise RemoteRefused("the server speaks no version of mcp that is known here", clear=False)
    if session is not None and not _SESSION_ID.fullmatch(session):
        raise RemoteUnavailable("the server's session id is not one that a header can hold", reached=True)
    return Party(path, version, session, _name(fields.get("serverInfo")))


def tools(fields: JsonObject) -> tuple[Tools, str | None]:
    """One page of a list of tools, and the cursor of the next one. Entries of an unknown shape are left out."""
    listed = fields.get("tools")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    arguments = {
        entry["name"]: _arguments(entry) for entry in entries[:_MOST_TOOLS] if isinstance(entry.get("name"), str)
    }
    cursor = fields.get("nextCursor")
    return arguments, cursor if isinstance(cursor, str) and 0 < len(cursor) <= _CURSOR_LIMIT else None


def called(fields: JsonObject) -> Any:
    """A tool's own result, as JSON. Raises the error that its failure stands for, in whichever layer
    the server reports it."""
    if fields.get("resultType", "complete") != "complete":
        raise RemoteRefused("the tool asks questions before it answers, and nobody is here to answer them", clear=False)
    content = fields.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    if fields.get("isError") is True:
        raise _worded_failure(next(iter(texts), ""))
    structured = fields.get("structuredContent")
    value = [] if structured is None and content == [] else _value(structured, texts)
    if failed := failure(value):
        raise failed
    inner = value.get("data") if isinstance(value, dict) else None
    return inner if isinstance(inner, dict | list) else value


def _answers(message: JsonObject, number: int) -> bool:
    if "method" in message:
        return False
    named = message.get("id")
    nameless = "error" in message and not isinstance(named, int)
    return nameless or (named == number and not isinstance(named, bool))


def _arguments(entry: JsonObject) -> Arguments | None:
    schema = entry.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("additionalProperties"):
        return None
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return None
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return Arguments(frozenset(properties), frozenset(needed))


def _name(about: Any) -> str:
    return server_name(about.get("name")) if isinstance(about, dict) else ""


def _worded_failure(text: str) -> RemoteError:
    """The error of a failed tool, which writes it as JSON or as plain text."""
    try:
        return failure(read(text)) or tool_failure(text)
    except NotJson:
        return tool_failure(text)


def _value(structured: Any, texts: list[str]) -> Any:
    """Results that are no objects are put under `result`, and there may be JSON in a text, too. Servers without
    structured results say a list in a text for each of its entries, and an empty one in none."""
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        structured = structured["result"]
    if structured is not None and not isinstance(structured, str):
        return structured
    try:
        first = read(structured or next(iter(texts), ""))
    except NotJson as problem:
        raise RemoteUnavailable(f"the tool's result cannot be used: {problem}", reached=True) from None
    if structured or len(texts) == 1:
        return first
    try:
        return [first, *map(read, texts[1:])]
    except NotJson:  # words beside the result
        return first
