"""Trying again what is sent in the background, as long as the trouble may pass (seed 004)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, stop_after_attempt, wait_incrementing

from kingly_memory.errors import RemoteUnavailable
from kingly_memory.ports import Clock

T = TypeVar("T")


class Persistence:
    """Up to `tries` tries, with pauses of `pause_s`, twice that, and so on. A Retry-After longer than the pause ends
    them: the outbox has the longer patience. Cancelling passes through."""

    def __init__(self, clock: Clock, *, tries: int = 3, pause_s: float = 1.0) -> None:
        self.clock = clock
        self._tries = max(tries, 1)
        self._pause_s = pause_s

    async def of(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Raises what the last try raised.

        The attempt must be an `async def`: tenacity does not await what a lambda returns, so it would never retry.
        """
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._tries),
            wait=wait_incrementing(start=self._pause_s, increment=self._pause_s),
            retry=self._worth_another_try,
            sleep=self.clock.sleep,
            reraise=True,
        )
        return await retrying(attempt)

    async def delivered(self, bring: Callable[[bool], Awaitable[T]], repeated: bool) -> T:
        """Bring something; each try is told whether one before it may have had its effect."""
        maybe_there = repeated

        async def attempt() -> T:
            nonlocal maybe_there
            try:
                return await bring(maybe_there)
            except RemoteUnavailable:
                maybe_there = True
                raise

        return await self.of(attempt)

    def _worth_another_try(self, state: RetryCallState) -> bool:
        problem = state.outcome.exception() if state.outcome else None
        pause_s = self._pause_s * state.attempt_number
        return isinstance(problem, RemoteUnavailable) and (problem.retry_after_s or 0.0) <= pause_s
