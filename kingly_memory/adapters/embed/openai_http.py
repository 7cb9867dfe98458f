"""Vectors of a server with the endpoint that most servers of models offer (OpenAI's `/v1/embeddings`): OpenAI, Ollama,
LM Studio, vLLM, llama.cpp."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kingly_memory.adapters.embed.guarded import Guarded
from kingly_memory.errors import EmbedderFailed, RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.ports import Poster

QUESTION_S, PASSAGES_S = 2.0, 30.0
"""What one call may take. A search does not wait that long; what comes late lets the next one be asked sooner."""
REPLY_LIMIT_BYTES = 16 * 1_048_576
CALL = "/embeddings"
_PREFIXES = (
    ("e5", "query: ", "passage: "),
    ("nomic-embed", "search_query: ", "search_document: "),
    ("bge-", "Represent this sentence for searching relevant passages: ", ""),
    ("mxbai", "Represent this sentence for searching relevant passages: ", ""),
)
"""What the models whose names hold the first word were trained to read before a question and before a passage."""


def openai_embedder(new_poster: Callable[[], Poster], *, model: str, path: str) -> Guarded:
    """Asks one model at that path of the poster's server. Raises EmbedderFailed."""
    lanes = {True: _Lane(new_poster(), QUESTION_S), False: _Lane(new_poster(), PASSAGES_S)}
    found = next((one for one in _PREFIXES if one[0] in model.lower()), ("", "", ""))

    def ask(texts: Sequence[str], is_question: bool) -> list[Any]:
        prefix = found[1] if is_question else found[2]
        payload = {"model": model, "input": [prefix + text for text in texts], "encoding_format": "float"}
        return _vectors(lanes[is_question].post(path, payload), len(texts))

    def close() -> None:
        for lane in lanes.values():
            lane.close()

    try:
        return Guarded(ask, model, close=close)
    except BaseException:
        close()
        raise


class _Lane:
    """One call at a time over connections that are kept: questions do not wait for passages."""

    def __init__(self, poster: Poster, timeout_s: float) -> None:
        self._poster = poster
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._runner = asyncio.Runner()

    def post(self, path: str, payload: dict[str, Any]) -> Any:
        try:
            with self._lock:
                return self._runner.run(self._poster.post(path, payload, headers={}, timeout_s=self._timeout_s))
        except RemoteRefused as error:
            if error.clear:
                raise
            raise EmbedderFailed(error.reason) from None
        except (RemoteUnavailable, RemoteUnauthorised) as error:
            raise EmbedderFailed(error.reason) from None

    def close(self) -> None:
        with self._lock, suppress(RuntimeError):  # closed before
            self._runner.run(self._poster.aclose())
            self._runner.close()


def _vectors(reply: Any, count: int) -> list[Any]:
    """In the order of the texts."""
    try:
        vectors = {int(entry["index"]): entry["embedding"] for entry in reply["data"]}
        return [vectors[at] for at in range(count)]
    except (TypeError, KeyError, ValueError):
        raise EmbedderFailed("its reply has another shape than that of an embeddings endpoint") from None
