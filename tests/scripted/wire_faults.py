"""How each fault looks on the wire. Every function plays one and says whether the connection may go on."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from http.client import responses
from http.server import BaseHTTPRequestHandler

from kingly_memory.models import JsonObject
from kingly_memory.testing.remote import reset

CANARY = "canary-of-a-server-side-secret"
"""Stands in every error body: no log line and no error may repeat it."""

_TRICKLE_S = 0.02
_PIECE_BYTES = 65_536
_HUGE_BYTES = 200 * 1024 * 1024


class Frame:
    """How a dialect words what a call comes to; this one is json-call's."""

    media = "application/json"
    headers: tuple[str, ...] = ()

    def result(self, reply: JsonObject) -> bytes:
        return json.dumps(reply).encode()

    def noisy(self, reply: JsonObject) -> bytes:
        """The result after other things, where the dialect has other things."""
        return self.result(reply)

    def failure(self, text: str) -> bytes:
        """The call failed, in words alone."""
        return json.dumps({"error": text}).encode()

    def text(self, text: str) -> bytes:
        return json.dumps(text).encode()

    def error(self, code: int) -> bytes:
        """An error of JSON-RPC."""
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": CANARY}}).encode()

    def astray(self) -> bytes:
        """The answer to a request that nobody made."""
        return b'{"jsonrpc": "2.0", "id": "another", "result": {}}'

    def lost_session(self) -> tuple[int, bytes]:
        return 404, b""

    def unknown(self, method: str) -> tuple[int, bytes]:
        """The server has no such method."""
        return 404, json.dumps({"error": f"unknown method: {method}"}).encode()


@dataclass(frozen=True, slots=True)
class Line:
    """One open connection with a request waiting, the reply it would get, and the fault's detail."""

    request: BaseHTTPRequestHandler
    reply: JsonObject
    detail: str = ""
    frame: Frame = field(default_factory=Frame)

    def send(self, status: int, body: bytes, headers: Iterable[str] = (), media: str = "application/json") -> bool:
        """One whole response; the connection stays open."""
        lines = [
            f"HTTP/1.1 {status} {responses.get(status, 'Unheard Of')}",
            f"Content-Type: {media}",
            "Set-Cookie: session=scripted; Path=/",
            *self.frame.headers,
            *headers,
        ]
        if status != HTTPStatus.NO_CONTENT:
            lines.append(f"Content-Length: {len(body)}")
        self.write("\r\n".join([*lines, "", ""]).encode() + body)
        return True

    def unknown(self, method: str) -> bool:
        status, body = self.frame.unknown(method)
        return self.send(status, body, media=self.frame.media)

    def write(self, data: bytes) -> None:
        self.request.wfile.write(data)

    def begin(self, *headers: str) -> None:
        """Only the head of a response."""
        self.write("\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""]).encode())

    def pour(self, piece: bytes, pause_s: float = 0.0) -> bool:
        """The same bytes again and again, until the other side has had enough, which is a ConnectionError."""
        while True:
            self.write(piece)
            time.sleep(pause_s)

    def reset(self) -> bool:
        reset(self.request.connection)
        return False


Play = Callable[[Line], bool]


def _plain(body: Callable[[Line], bytes], *headers: str, status: int = 200) -> Play:
    """One whole response, the same in every dialect."""
    return lambda line: line.send(status, body(line), headers)


def _framed(body: Callable[[Line], bytes]) -> Play:
    """One whole response in the words of the dialect."""
    return lambda line: line.send(200, body(line), media=line.frame.media)


def _status(line: Line) -> bool:
    status, _, retry_after = line.detail.partition(" ")
    headers = [f"Retry-After: {retry_after}"] if retry_after else []
    return line.send(int(status), json.dumps({"detail": CANARY}).encode(), headers)


def _redirect(line: Line) -> bool:
    status, _, location = line.detail.partition(" ")
    return line.send(int(status), CANARY.encode(), [f"Location: {location}"])


def _hang(line: Line) -> bool:
    while line.request.rfile.read(_PIECE_BYTES):
        pass
    return False


def _truncated(line: Line) -> bool:
    body = line.frame.result(line.reply)
    line.begin(f"Content-Type: {line.frame.media}", f"Content-Length: {len(body)}")
    line.write(body[: len(body) // 2])
    return False


def _failure(line: Line) -> bytes:
    return line.frame.result({"success": False, "error": CANARY, "error_code": line.detail or "EXECUTION_ERROR"})


def _garbage(line: Line) -> bool:
    line.write(f"\x00\x01 {CANARY}\r\n\r\n".encode())
    return False


def _poured(piece: bytes, *headers: str, pause_s: float = 0.0) -> Play:
    """A head, and then the same bytes without end."""

    def play(line: Line) -> bool:
        line.begin(f"Content-Type: {line.frame.media}", *headers)
        return line.pour(piece, pause_s)

    return play


def _header_trickle(line: Line) -> bool:
    line.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    return line.pour(b"x", _TRICKLE_S)


def _interim(line: Line) -> bool:
    return line.pour(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000)


def _stays_open(line: Line) -> bool:
    body = line.frame.result(line.reply)
    line.begin(f"Content-Type: {line.frame.media}", "Transfer-Encoding: chunked")
    line.write(f"{len(body):x}\r\n".encode() + body + b"\r\n")
    return _hang(line)


@cache
def _bomb() -> bytes:
    """300 MB of zeros in 300 kB: gzip members may simply follow each other."""
    return gzip.compress(bytes(10_000_000)) * 30


PLAYS: dict[str, Play] = {
    "ok": _framed(lambda line: line.frame.result(line.reply)),
    "status": _status,
    "redirect": _redirect,
    "hang": _hang,
    "late": _hang,
    "reset": Line.reset,
    "lost-reply": Line.reset,
    "truncated": _truncated,
    "failure": _framed(_failure),
    "error": _framed(lambda line: line.frame.failure(line.detail or CANARY)),
    "json": _plain(lambda line: line.detail.encode()),
    "html": _plain(lambda _: f"<html><title>Log in</title>{CANARY}</html>".encode(), "Content-Type: text/html"),
    "no-content": _plain(lambda _: b"", status=204),
    "empty": _plain(lambda _: b""),
    "nan": _plain(lambda _: b'{"memory_id": "x", "relevance": NaN}'),
    "huge-int": _plain(lambda _: b'{"memory_id": ' + b"9" * 5_000 + b"}"),
    "deep": _plain(lambda _: b"[" * 30_000 + b"]" * 30_000),
    "wide": _plain(lambda _: b"[" + b"[]," * 349_000 + b"[]]"),
    "strings": _plain(lambda _: json.dumps([f"{number % 256:x}" for number in range(39_000)]).encode()),
    "bad-utf8": _plain(lambda _: b'{"memory_id": "\xff\xfe"}'),
    "garbage": _garbage,
    "trickle": _poured(b" ", "Content-Length: 1000000", pause_s=_TRICKLE_S),
    "header-trickle": _header_trickle,
    "gzip-bomb": _plain(lambda _: _bomb(), "Content-Encoding: gzip"),
    "double-gzip": _plain(lambda _: gzip.compress(_bomb()), "Content-Encoding: gzip, gzip"),
    "huge": _poured(b" " * _PIECE_BYTES, f"Content-Length: {_HUGE_BYTES}"),
    "endless": _poured(f"{_PIECE_BYTES:x}\r\n".encode() + b" " * _PIECE_BYTES + b"\r\n", "Transfer-Encoding: chunked"),
    "tiny-chunks": _poured(b"1\r\n \r\n" * 10_000, "Transfer-Encoding: chunked"),
    "interim": _interim,
    "text": _framed(lambda line: line.frame.text(line.detail or CANARY)),
    "wrong-id": _framed(lambda line: line.frame.astray()),
    "rpc-error": _framed(lambda line: line.frame.error(int(line.detail or -32603))),
    "lost-session": lambda line: line.send(*line.frame.lost_session()),
    "noisy": _framed(lambda line: line.frame.noisy(line.reply)),
    "stays-open": _stays_open,
}
