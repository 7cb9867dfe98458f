"""The link to one remote: when it counts as offline, and when it is tried again.

| event | connected | offline |
|---|---|---|
| a call is answered | failures back to 0 | unchanged until a probe |
| a call fails | one failure more; offline after `offline_after` in a row | unchanged |
| the token is refused (401, 403) | offline, next probe in one interval | unchanged |
| a search gives up waiting, `offline_after` times in a row | offline, and probed at once | unchanged |
| a probe is due, 300 s after the last, in one process | | connected when answered, else 300 s more |
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


@dataclass(frozen=True, slots=True)
class Link:
    """The row `link:<remote>` (`Route.link`). Times are Unix seconds.

    `effects` says what a repeated send may do there: `exactly_once` when the server honours idempotency keys,
    `at_least_once` when it does not. `server` is what it says of itself, and how it is spoken to. Both are None until
    it has been asked. `failures` counts failed calls in a row, by any process of this machine.
    """

    state: LinkState = LinkState.CONNECTED
    next_probe: float | None = None
    last_error: str | None = None
    unauthorised: bool = False
    effects: str | None = None
    failures: int = 0
    server: str | None = None

    def to_json(self) -> JsonObject:
        return {**vars(self), "state": self.state.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Link:
        """Fields of later versions are left out."""
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
    )


def mended(effects: str, server: str) -> Link:
    """Connected. Nothing of the trouble is left."""
    return Link(LinkState.CONNECTED, effects=effects, server=server)


def probe_is_due(link: Link, now_s: float, longest_s: float) -> bool:
    """True when it is time to try again. A probe further ahead than any interval was set before the clock went back."""
    if link.state is not LinkState.OFFLINE or link.next_probe is None:
        return False
    return now_s >= link.next_probe or link.next_probe - now_s > longest_s


def probed_sooner(link: Link, at_s: float) -> Link | None:
    """The same with the next probe at that time at the latest; None where that changes nothing."""
    if link.state is not LinkState.OFFLINE or link.next_probe is None or link.next_probe <= at_s:
        return None
    return replace(link, next_probe=at_s)
