"""When a hub that was told to stop closes its port."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_WATCHED_S = 30.0
"""Whoever asked `/ready` within this time asks again: proxies look every few seconds."""
_TOLD = 3
"""Proxies take a server out after one to three bad answers."""
_LONGEST_S = 10.0


class Draining:
    """A proxy in front of several hubs is told first, by 503 at `/ready`, and calls are answered until it has heard:
    then none of them meets a closed port. A hub that nobody watches closes its port at once."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._asked_s = -math.inf
        self._since_s: float | None = None
        self._told = 0

    def asked(self) -> bool:
        """Note that somebody asks whether the hub is ready. True where it is to stop."""
        self._asked_s = self._monotonic()
        self._told += self._since_s is not None
        return self._since_s is not None

    def is_over(self) -> bool:
        """Whether the port may be closed. The first question begins the draining."""
        now_s = self._monotonic()
        if self._since_s is None:
            self._since_s = now_s
        is_watched = now_s - self._asked_s < _WATCHED_S
        return not is_watched or self._told >= _TOLD or now_s - self._since_s >= _LONGEST_S
