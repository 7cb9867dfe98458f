"""What a scripted remote shall do next, as words: `"ok"`, `"status=429 7"`, `"lost-reply"`."""

from __future__ import annotations

import random
import threading
from collections import deque
from dataclasses import dataclass, field

FAULTS = {
    "ok": "the effect and the reply",
    "status": "no effect; `status=503`, `status=429 7` (Retry-After)",
    "redirect": "no effect; `redirect=307 http://...`",
    "hang": "no effect and no reply",
    "reset": "no effect; the connection is reset",
    "lost-reply": "the effect, then the connection is reset",
    "late": "the effect, then no reply",
    "truncated": "the effect, then half of the reply",
    "failure": "no effect; 200 with success false; `failure=INVALID_PARAMETER` (error_code)",
    "error": "no effect; 200 with an error text; `error=unknown method: x`",
    "json": "no effect; 200 with the body given: `json=[1]`",
    "html": "no effect; 200 with a login page",
    "no-content": "no effect; 204",
    "empty": "no effect; 200 without a body",
    "nan": "no effect; 200 with NaN in the JSON",
    "huge-int": "no effect; 200 with an integer of 5,000 digits",
    "deep": "no effect; 200 with 30,000 nested lists",
    "wide": "no effect; 200 with 1 MB of empty lists in a list",
    "strings": "no effect; 200 with 39,000 short strings in a list, about as many as are read",
    "bad-utf8": "no effect; 200 with bytes that are not UTF-8",
    "garbage": "no effect; not HTTP at all",
    "trickle": "no effect; a body of one byte every 20 ms, without end",
    "header-trickle": "no effect; a header of one byte every 20 ms, without end",
    "gzip-bomb": "no effect; 300 MB packed into 300 kB",
    "double-gzip": "no effect; the same, packed twice",
    "huge": "no effect; 200 MB, announced",
    "endless": "no effect; chunks without end",
    "tiny-chunks": "no effect; chunks of one byte without end",
    "interim": "no effect; replies of the status 103 without end",
    "text": "no effect; 200 with a result that is this text: `text=Done`",
    "wrong-id": "no effect; 200 with the answer to another request",
    "rpc-error": "no effect; 200 with an error of JSON-RPC: `rpc-error=-32603`",
    "lost-session": "no effect; the session is not known any more",
    "noisy": "the effect, then an event stream with much else before the reply",
    "stays-open": "the effect and the reply, on a stream that does not end",
}
EFFECTIVE = frozenset({"ok", "lost-reply", "late", "truncated", "noisy", "stays-open"})


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing a remote may do with a request; `kind` is one of `FAULTS`."""

    kind: str
    detail: str = ""

    @classmethod
    def of(cls, text: str) -> Fault:
        """Read `kind` or `kind=detail`. Raises ValueError on a kind that is not known."""
        kind, _, detail = text.partition("=")
        if kind not in FAULTS:
            raise ValueError(f"{kind!r} is not a fault; choose one of {', '.join(FAULTS)}")
        return cls(kind, detail)

    def __str__(self) -> str:
        return f"{self.kind}={self.detail}" if self.detail else self.kind

    @property
    def takes_effect(self) -> bool:
        return self.kind in EFFECTIVE


@dataclass(frozen=True, slots=True)
class Weather:
    """Faults by chance, when nothing is scripted: shares of all requests, from 0 to 1. The seed makes it repeatable."""

    fail_500: float = 0.0
    fail_429: float = 0.0
    drop_reply: float = 0.0
    retry_after: str = "1"
    seed: int = 0


@dataclass(slots=True)
class Script:
    """Faults to be used up one per request, then `always`. Safe from any thread."""

    always: Fault = Fault("ok")
    weather: Weather = field(default_factory=Weather)
    _waiting: deque[tuple[str | None, Fault]] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.weather.seed)  # repeatable faults, not secrets

    def add(self, *faults: str, method: str | None = None) -> None:
        """Queue faults, for every request or for those of one method."""
        with self._lock:
            self._waiting.extend((method, Fault.of(text)) for text in faults)

    def next(self, method: str) -> Fault:
        """The fault for a request of this method."""
        with self._lock:
            return self._taken((None, method)) or self._by_chance()

    def meant_for(self, method: str) -> Fault:
        """The fault that was queued for this very method, if one was."""
        with self._lock:
            return self._taken((method,)) or Fault("ok")

    def _taken(self, wanted: tuple[str | None, ...]) -> Fault | None:
        for position, (method, fault) in enumerate(self._waiting):
            if method in wanted:
                del self._waiting[position]
                return fault
        return None

    def _by_chance(self) -> Fault:
        weather, roll = self.weather, self._random.random()
        if roll < weather.fail_500:
            return Fault("status", "500")
        if roll < weather.fail_500 + weather.fail_429:
            return Fault("status", f"429 {weather.retry_after}")
        if roll < weather.fail_500 + weather.fail_429 + weather.drop_reply:
            return Fault("lost-reply")
        return self.always
