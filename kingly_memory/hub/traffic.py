"""What a server's operator sees of its calls: how many, how long and how large, one by one where a log is wanted, and
nothing of what they say."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Container, MutableMapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kingly_memory.hub.access import CALLER, Caller

METHOD = "kingly.method"
"""Where a request's scope, and every copy of it, has a mapping whose `name` is the method or tool that is called."""

PAGE = "/page"
"""Where the page for operators lies."""
_PLACES = {"/mcp": "mcp", "/mcp/": "mcp", "/health": "health", "/ready": "ready", "/metrics": "metrics"}
NOT_ANSWERED = 0
"""The status of a call whose caller left before the answer."""
_REFUSED_FROM = 400
_MINUTE_S, _HOUR_MIN = 60.0, 60


class Load(NamedTuple):
    """What was answered of a method since the start."""

    method: str
    calls: int
    refused: int
    ms_each: float
    sent_bytes: int


class Failure(NamedTuple):
    """What happened to a call that was not answered with success, and whose it was, where somebody was let in."""

    method: str
    status: int
    namespace: str | None
    holder: str | None


class Traffic:
    """Counts calls by method and status. Labels are the server's own words, `methods` among them: what a caller makes
    up counts as `other`, so that nobody can make the table grow.

    `name`: what the names of the counts begin with. `note`: takes a line of JSON about each call.
    """

    def __init__(
        self,
        name: str,
        methods: Container[str],
        note: Callable[[str], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._methods = methods
        self._note = note
        self._calls: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}
        self._sent_bytes: Counter[str] = Counter()
        self._in_progress = 0
        self._monotonic = monotonic
        self._began_s = monotonic()
        self._failures: dict[int, Counter[Failure]] = {}
        """By the minute, of the last hour."""

    @property
    def uptime_s(self) -> float:
        return self._monotonic() - self._began_s

    def loads(self) -> list[Load]:
        """By method, the one that was called most first."""
        calls, refused = Counter[str](), Counter[str]()
        for (method, status), number in [*self._calls.items()]:  # others go on counting
            calls[method] += number
            refused[method] += number * _is_refused(status)
        ms = {method: self._seconds.get(method, 0.0) * 1000 / number for method, number in calls.items()}
        rows = [
            (method, number, refused[method], ms[method], self._sent_bytes[method])
            for method, number in calls.most_common()
        ]
        return [Load(*row) for row in rows]

    def failures(self) -> dict[Failure, tuple[int, int]]:
        """Those of the last hour: how many, and how many minutes ago the last one was. The latest first."""
        now = int(self._monotonic() // _MINUTE_S)
        counts: dict[Failure, tuple[int, int]] = {}
        for minute, found in sorted(self._failures.items(), reverse=True):
            for failure, number in [*found.items()] if minute > now - _HOUR_MIN else ():
                count, ago = counts.get(failure, (0, now - minute))
                counts[failure] = (count + number, ago)
        return counts

    def counting(self, application: ASGIApp) -> ASGIApp:
        """The same application, each call of which is counted when it ends, however it ends."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await application(scope, receive, send)
                return
            status, sent_bytes, began_s = NOT_ANSWERED, 0, self._monotonic()

            async def noted(message: Message) -> None:
                nonlocal status, sent_bytes
                status = message.get("status", status)
                sent_bytes += len(message.get("body", b""))
                await send(message)

            scope[METHOD] = {}
            self._in_progress += 1
            try:
                await application(scope, receive, noted)
            finally:
                self._in_progress -= 1
                method, took_s = self._method(scope), self._monotonic() - began_s
                self._calls[method, status] += 1
                self._seconds[method] = self._seconds.get(method, 0.0) + took_s
                self._sent_bytes[method] += sent_bytes
                if _is_refused(status):
                    self._note_failure(scope, method, status)
                if self._note is not None:
                    self._note(_line(scope, method, status, took_s, sent_bytes))

        return counted

    def text(self, **gauges: tuple[str, float]) -> str:
        """All counts since the server was started, in the text format of Prometheus (0.0.4); and others by name, each
        with what it says."""
        calls = {f'method="{method}",status="{status}"': n for (method, status), n in sorted(self._calls.items())}
        lines = self._family("requests_total", "counter", "Calls answered, by method and HTTP status.", calls)
        seconds = {f'method="{method}"': round(took_s, 6) for method, took_s in sorted(self._seconds.items())}
        lines += self._family("request_seconds_total", "counter", "Seconds that calls took.", seconds)
        sent = {f'method="{method}"': size for method, size in sorted(self._sent_bytes.items())}
        lines += self._family("sent_bytes_total", "counter", "Bytes of the bodies of answers.", sent)
        gauges = {"requests_in_progress": ("Calls being answered, this one too.", self._in_progress), **gauges}
        for name, (says, value) in gauges.items():
            lines += self._family(name, "gauge", says, {"": value})
        return "\n".join(lines) + "\n"

    def _method(self, scope: MutableMapping[str, Any]) -> str:
        named, path = scope[METHOD].get("name"), scope["path"]
        if isinstance(named, str) and named in self._methods:
            return named
        return "page" if path == PAGE or path.startswith(f"{PAGE}/") else _PLACES.get(path, "other")

    def _note_failure(self, scope: MutableMapping[str, Any], method: str, status: int) -> None:
        caller, now = scope.get(CALLER), int(self._monotonic() // _MINUTE_S)
        who = (caller.grant.namespace, caller.grant.holder) if isinstance(caller, Caller) else (None, None)
        if now not in self._failures:
            self._failures = {minute: counts for minute, counts in self._failures.items() if minute > now - _HOUR_MIN}
            self._failures[now] = Counter()
        self._failures[now][Failure(method, status, *who)] += 1

    def _family(self, name: str, kind: str, says: str, values: dict[str, Any]) -> list[str]:
        full = f"{self._name}_{name}"
        lines = [f"# HELP {full} {says}", f"# TYPE {full} {kind}"]
        return lines + [f"{full}{f'{{{labels}}}' if labels else ''} {value}" for labels, value in values.items()]


def _is_refused(status: int) -> bool:
    return status == NOT_ANSWERED or status >= _REFUSED_FROM


def _line(scope: Scope, method: str, status: int, took_s: float, sent_bytes: int) -> str:
    caller, address = scope.get(CALLER), scope.get("client")
    facts = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "from": None if address is None else address[0],
        "token": caller.grant.holder if isinstance(caller, Caller) else None,
        "namespace": caller.grant.namespace if isinstance(caller, Caller) else None,
        "method": method,
        "status": status,
        "ms": round(took_s * 1000, 1),
        "bytes": sent_bytes,
    }
    return json.dumps(facts, ensure_ascii=False)
