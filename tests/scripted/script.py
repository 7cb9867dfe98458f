"""What a scripted remote can do beyond the test kit's: faults of the wire and of mcp, and faults by chance."""

from __future__ import annotations

from dataclasses import dataclass

from kingly_memory.testing.remote import FAULTS as SMALL_FAULTS

FAULTS = {
    **SMALL_FAULTS,
    "redirect": "no effect; `redirect=307 http://...`",
    "truncated": "the effect, then half of the reply",
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


def takes_effect(fault: str) -> bool:
    return fault.partition("=")[0] in EFFECTIVE


@dataclass(frozen=True, slots=True)
class Weather:
    """Faults by chance, when nothing is scripted: shares of all requests, from 0 to 1. The seed makes it repeatable.

    `delay_s` is what every call of a tool takes.
    """

    fail_500: float = 0.0
    fail_429: float = 0.0
    drop_reply: float = 0.0
    retry_after: str = "1"
    seed: int = 0
    delay_s: float = 0.0

    def fault(self, roll: float) -> str | None:
        """What comes of a chance in [0, 1)."""
        if roll < self.fail_500:
            return "status=500"
        if roll < self.fail_500 + self.fail_429:
            return f"status=429 {self.retry_after}"
        return "lost-reply" if roll < self.fail_500 + self.fail_429 + self.drop_reply else None
