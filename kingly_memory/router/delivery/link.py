"""The link to one remote: when it counts as offline, and when it is tried again.

| event | connected | offline |
|---|---|---|
| a call is answered | failures back to 0 | unchanged until a probe |
| a call fails | one failure more; offline after `offline_after` in a row | unchanged |
| the token is refused (401, 403) | offline, next probe in one interval | unchanged |
| a search gives up waiting, `offline_after` times in a row | offline, and probed at once | unchanged |
| a probe is due, 300 s after the last, in one process | | connected when answered, else 300 s more |
| a user's search or store, 15 s or more after the last try (`use_is_due`) | | probed in the background |
| the same, sooner | | probed 15 s after the last try (`used`) |
| `sync`; after a refused token also when a router opens | | probed at once |

The link is a row in the store that all processes with the same token share. This module is pure, since commands read
that row without an event loop; `link_keeper` moves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kingly_memory.dataclass import dataclass, replace
from kingly_memory.models import JsonObject, LinkState

SEEN = "seen"
"""The facet `seen:<remote>` has the `incarnation` that the remote was when it was last connected to."""

USE_PAUSE_S, LONGEST_USE_PAUSE_S = 15.0, 300.0
"""Between two tries of an offline remote that users' calls bring about (decision D15)."""


@dataclass(frozen=True, slots=True)
class Link:
    """The row `link:<remote>` (`Route.link`). Times are Unix seconds.

    `effects` says what a repeated send may do there: `exactly_once` when the server honours idempotency keys,
    `at_least_once` when it does not. `server` is what it says of itself, and how it is spoken to. Both are None until
    it has been asked. `failures` counts failed calls in a row, by any process of this machine. `since` is when the
    remote was first missed, `tried` when it was last.
    """

    state: LinkState = LinkState.CONNECTED
    next_probe: float | None = None
    last_error: str | None = None
    unauthorised: bool = False
    effects: str | None = None
    failures: int = 0
    server: str | None = None
    since: float | None = None
    tried: float = 0.0

    @property
    def honours_keys(self) -> bool:
        return self.effects == "exactly_once"

    def to_json(self) -> JsonObject:
        return {**vars(self), "state": self.state.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Link:
        """Fields of later versions are left out. None says nothing of it yet."""
        if data is None:
            return cls()
        known = {name: data[name] for name in cls.__match_args__ if name in data}
        return cls(**{**known, "state": LinkState(data["state"])})


def as_shown(link: Link) -> Link:
    """Until a call has been answered, nobody knows that there is a connection."""
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
        since=now_s if link.since is None else link.since,
        tried=now_s,
    )


def mended(effects: str, server: str) -> Link:
    """Connected. Nothing of the trouble is left."""
    return Link(LinkState.CONNECTED, effects=effects, server=server)


def probe_is_due(link: Link, now_s: float, longest_s: float) -> bool:
    """True when it is time to try again. A probe further ahead than any interval was set before the clock went back."""
    if link.state is not LinkState.OFFLINE or link.next_probe is None:
        return False
    return now_s >= link.next_probe or link.next_probe - now_s > longest_s


def use_is_due(link: Link, now_s: float) -> bool:
    """True when a user's own call may have an offline remote tried.

    The pause after a try is 15 s in the first minute of an outage. Then it is a quarter of what the outage has lasted,
    so that it doubles as that does, up to 300 s. A refused token is not shown again for a use.
    """
    due_s = _use_due_s(link)
    return due_s is not None and not link.tried <= now_s < due_s  # before it was tried the clock went back


def used(link: Link) -> Link | None:
    """The same after a use that came within the pause: the next probe is at its end, by whichever process. None where
    that changes nothing."""
    due_s = _use_due_s(link)
    return None if due_s is None else probed_sooner(link, due_s)


def _use_due_s(link: Link) -> float | None:
    if link.state is not LinkState.OFFLINE or link.unauthorised or link.since is None:
        return None
    return link.tried + min(max(USE_PAUSE_S, (link.tried - link.since) / 4), LONGEST_USE_PAUSE_S)


def probed_sooner(link: Link, at_s: float) -> Link | None:
    """The same with the next probe at that time at the latest; None where that changes nothing."""
    if link.state is not LinkState.OFFLINE or link.next_probe is None or link.next_probe <= at_s:
        return None
    return replace(link, next_probe=at_s)
