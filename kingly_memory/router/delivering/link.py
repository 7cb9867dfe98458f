"""The router's connection to the remote, as values: its states and when it is tried again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kingly_memory.models import JsonObject, LinkState


@dataclass(frozen=True, slots=True)
class Link:
    """The row `link:<remote>`, shared by every process on this machine that shows the same token (Route.link). Times in
    Unix seconds.

    `effects` says what a repeated send may do there: `exactly_once` when the server honours idempotency keys,
    `at_least_once` when it does not, None until it has been asked.
    """

    state: LinkState = LinkState.CONNECTED
    next_probe: float | None = None
    last_error: str | None = None
    unauthorised: bool = False
    effects: str | None = None
    failures: int = 0
    """Failed calls in a row, by any process of this machine, since one was answered."""
    server: str | None = None
    """What it said of itself, and how it is spoken to; None until it has been asked."""

    def to_json(self) -> JsonObject:
        return {**asdict(self), "state": self.state.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Link:
        """What a later version notes besides is left out."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        return cls(**{**known, "state": LinkState(data["state"])})


def as_shown(link: Link) -> Link:
    """Until somebody has been answered, nobody knows that there is a connection."""
    if link.state is LinkState.CONNECTED and link.effects is None:
        return Link(LinkState.OFFLINE, next_probe=0.0, last_error=link.last_error or "not contacted yet")
    return link


def broken(link: Link, reason: str, now_s: float, interval_s: float, *, unauthorised: bool = False) -> Link:
    """Offline, with the next probe one interval away."""
    return replace(
        link,
        state=LinkState.OFFLINE,
        next_probe=now_s + interval_s,
        last_error=reason,
        unauthorised=unauthorised,
        failures=0,
    )


def strained(link: Link, reason: str, failures: int) -> Link:
    """Still connected, but so many calls more have failed."""
    return replace(link, failures=link.failures + failures, last_error=reason)


def given_back(link: Link, now_s: float) -> Link | None:
    """The turn to probe was not used: the next process may take it at once."""
    return replace(link, next_probe=now_s) if link.state is LinkState.OFFLINE else None


def hastened(link: Link, at_s: float) -> Link | None:
    """The next probe is no later than that: whoever had the turn left before it was answered."""
    if link.state is not LinkState.OFFLINE or link.next_probe is None or link.next_probe <= at_s:
        return None
    return replace(link, next_probe=at_s)


def mended(effects: str, server: str) -> Link:
    """Nothing of the trouble is left."""
    return Link(LinkState.CONNECTED, effects=effects, server=server)


def probe_is_due(link: Link, now_s: float, longest_s: float) -> bool:
    """True when it is time to try again. A probe further ahead than any interval was set before the clock went back."""
    if link.state is not LinkState.OFFLINE or link.next_probe is None:
        return False
    return now_s >= link.next_probe or link.next_probe - now_s > longest_s
