"""Letting whoever calls a verb go before what goes on behind its back."""

from __future__ import annotations

import asyncio
import math
import time


class CalledMeanwhile(Exception):
    """Somebody has called a verb: what goes on behind its back is undone, and done later."""


class Callers:
    """Lets whoever calls a verb go before work that nobody waits for, which is done piece by piece. That has the whole
    time while nobody calls, and else a tenth, by the real clock: interpreter and writer serve one at a time."""

    _THERE_S = 0.25
    """A caller seldom comes alone, and its call takes a moment."""
    _OTHERS = 9
    """Times that a piece took, which callers have to themselves after it."""

    def __init__(self) -> None:
        self.called_s = -math.inf
        """When a verb was called last (monotonic)."""

    def are_there(self) -> bool:
        return time.monotonic() < self.called_s + self._THERE_S

    def check(self) -> None:
        """Raises CalledMeanwhile."""
        if self.are_there():
            raise CalledMeanwhile

    async def let_pass(self, worked_s: float) -> None:
        """After a piece that took so long. Nothing tells that nobody called."""
        theirs_s = time.monotonic() + self._OTHERS * worked_s
        while (wait_s := min(theirs_s, self.called_s + self._THERE_S) - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(wait_s)
