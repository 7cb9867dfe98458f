"""A language model that answers from a script."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kingly_memory.errors import LanguageModelError
from kingly_memory.ports import Clock
from kingly_memory.testing.clock import Hanging

Reply = str | Exception | Callable[[str], str]


class ScriptedLanguageModel(Hanging):
    """The LanguageModel port from a script: one reply per prompt, and `always` when the script is used up.

    A reply is a text, an error to raise, or a function of the prompt. `prompts` holds what was asked, `most_at_once`
    how many questions were ever under way together. `hang()` lets every call wait for its deadline on the clock.
    """

    def __init__(self, *replies: Reply, always: Reply = "STATUS: uncertain", clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.prompts: list[str] = []
        self.most_at_once = 0
        self._replies = deque(replies)
        self._always = always
        self._under_way = 0
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<ScriptedLanguageModel prompts={len(self.prompts)} replies={len(self._replies)}>"

    async def until_asked(self, count: int) -> None:
        """Wait until so many questions have come."""
        while len(self.prompts) < count:
            self._news.clear()
            await self._news.wait()

    def note(self, prompt: str) -> None:
        """Count a question as asked; for models that answer in a way of their own."""
        self.prompts.append(prompt)
        self._news.set()

    async def complete(self, prompt: str, *, timeout_s: float) -> str:
        """See `LanguageModel`."""
        self.note(prompt)
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            return await self._replied(prompt, timeout_s)
        finally:
            self._under_way -= 1

    async def _replied(self, prompt: str, timeout_s: float) -> str:
        if not await self._goes_on(timeout_s):
            raise LanguageModelError(f"not within {timeout_s:g} s")
        reply = self._replies.popleft() if self._replies else self._always
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, str) else reply(prompt)
