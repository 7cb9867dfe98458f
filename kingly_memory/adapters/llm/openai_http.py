"""A language model behind the chat endpoint that most servers of models offer (OpenAI's `/chat/completions`)."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from kingly_memory.errors import LanguageModelError, RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import JsonObject
from kingly_memory.ports import Poster

_CALL = "/chat/completions"
_VERSION = "/v1"


class OpenAiHttpModel:
    """Asks one model over `poster`, and closes that at the end. Use it as `async with`; belongs to one event loop.

    `path` is that of the address as users write it: with or without the call's own name at its end.
    """

    def __init__(self, poster: Poster, *, model: str, path: str, name: str) -> None:
        """`name` tells this model from others, whose replies are kept apart."""
        self.name = name
        self._poster = poster
        self._model = model
        self._path = call_path(path)
        self._steady = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._poster.aclose()

    async def complete(self, prompt: str, *, timeout_s: float) -> str:
        """See `LanguageModel`."""
        try:
            async with asyncio.timeout(timeout_s):
                return _text(await self._ask(prompt, timeout_s))
        except TimeoutError:
            raise LanguageModelError(f"not within {timeout_s:g} s") from None
        except (RemoteUnavailable, RemoteRefused, RemoteUnauthorised) as error:
            # `from None`: the cause speaks of a memory server.
            raise LanguageModelError(error.reason) from None

    async def _ask(self, prompt: str, timeout_s: float) -> Any:
        """Some models take no temperature but their own, and refuse the call that names another."""
        try:
            return await self._poster.post(self._path, self._payload(prompt), headers={}, timeout_s=timeout_s)
        except RemoteRefused as refused:
            if not (refused.clear and self._steady):
                raise
        self._steady = False
        return await self._poster.post(self._path, self._payload(prompt), headers={}, timeout_s=timeout_s)

    def _payload(self, prompt: str) -> JsonObject:
        payload: JsonObject = {"model": self._model, "messages": [{"role": "user", "content": prompt}], "stream": False}
        return {**payload, "temperature": 0} if self._steady else payload


def call_path(path: str, call: str = _CALL) -> str:
    """What to add to an address: nothing where the call is named already, the version too where there is no path."""
    if path.endswith(call):
        return ""
    return call if path else f"{_VERSION}{call}"


def _text(reply: Any) -> str:
    """The first choice's text. Raises LanguageModelError on every other shape."""
    try:
        content = reply["choices"][0]["message"]["content"]
    except (TypeError, KeyError, IndexError):
        raise LanguageModelError("its reply has another shape than that of a chat endpoint") from None
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if isinstance(part, dict) and _is_text(part.get("text")))
    if not _is_text(content) or not content.strip():
        raise LanguageModelError("its reply holds no text")
    return str(content)


def _is_text(value: object) -> bool:
    return isinstance(value, str)
