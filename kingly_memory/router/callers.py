"""Lets calls of verbs go before work in the background."""

from __future__ import annotations

import asyncio
import math
import time


class CalledMeanwhile(Exception):
    """Somebody has called a verb: the work in the background is undone, and done later."""


class Callers:
    """Lets calls of verbs go before work that nobody waits for, which is done piece by piece. That work has all the
    time while nobody calls, else a tenth, by the real clock: interpreter and writer serve one at a time."""

    _THERE_S = 1.0
    """A call seldom comes alone, and takes a moment."""
    _OTHERS = 9
    """After a piece of work, callers have this many times as long as it took to themselves."""

    def __init__(self) -> None:
        self.called_s = -math.inf
        """When a verb was called last (monotonic)."""

    def call(self) -> None:
        """A verb is called."""
        self.called_s = time.monotonic()

    def are_there(self) -> bool:
        return time.monotonic() < self.called_s + self._THERE_S

    def check(self) -> None:
        """Raises CalledMeanwhile."""
        if self.are_there():
            raise CalledMeanwhile

    async def let_pass(self, worked_s: float) -> None:
        """Wait after a piece that took so long, until callers have had their time or have stopped calling. No event
        says that they have stopped, so this looks at the clock."""
        theirs_s = time.monotonic() + self._OTHERS * worked_s
        while (wait_s := min(theirs_s, self.called_s + self._THERE_S) - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(wait_s)
