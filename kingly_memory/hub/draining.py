"""When a hub that was told to stop closes its port."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_WATCHED_S = 60.0
_WATCHED = 3
"""Whoever asked `/ready` so often within this time asks again, as a proxy does; a person asks once or twice."""
_TOLD = 3
"""Proxies take a server out after one to three bad answers."""
_LONGEST_S = 10.0


class Draining:
    """A proxy in front of several hubs is told first, by 503 at `/ready`, and calls are answered until it has heard:
    then none of them meets a closed port. A hub that nobody watches closes its port at once."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._asked_s = deque[float](maxlen=_WATCHED)
        self._since_s: float | None = None
        self._told = 0

    def asked(self) -> bool:
        """Note that somebody asks whether the hub is ready. True where it is to stop."""
        self._asked_s.append(self._monotonic())
        self._told += self._since_s is not None
        return self._since_s is not None

    def is_over(self) -> bool:
        """Whether the port may be closed. The first question begins the draining."""
        now_s = self._monotonic()
        if self._since_s is None:
            self._since_s = now_s
        is_watched = len(self._asked_s) == _WATCHED and now_s - self._asked_s[0] < _WATCHED_S
        return not is_watched or self._told >= _TOLD or now_s - self._since_s >= _LONGEST_S
