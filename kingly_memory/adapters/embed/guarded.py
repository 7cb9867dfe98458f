"""Anybody's embedder, made safe: one kind of error, vectors of one size, and a text that it cannot take costs that text
alone its vector."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from kingly_memory.errors import EmbedderFailed
from kingly_memory.ports import Embedder

log = logging.getLogger("kingly_memory.models")

TEXT_LIMIT, AT_ONCE = 8_192, 32
"""Characters of a text that are embedded, and texts of one call."""
PROBE = "The harbour master writes down when each ship came in."
_LEAST_LEADING, _MOST_LEADING = 4, 16

Ask = Callable[[Sequence[str], bool], Any]
"""Texts, and whether they are questions, to a vector each. May raise anything: EmbedderFailed where it answers nobody
for now, anything else where it cannot take the texts."""


class Guarded(Embedder):
    """Unit-length vectors of what `ask` answers. The name has a fingerprint of one text's vector: another model behind
    the same address has another name, so that its vectors are made anew."""

    scale = 1.5

    def __init__(
        self, ask: Ask, label: str, *, name: str | None = None, close: Callable[[], None] | None = None
    ) -> None:
        """Asks for one vector. Raises EmbedderFailed when there is none."""
        self._ask = ask
        self._close = close
        self._dimensions = 0
        probe = self._probed()
        self._dimensions = len(probe)
        self._name = name or f"{label}-{len(probe)}-{fingerprint(probe)}"

    @classmethod
    def of(cls, own: Embedder | Callable[[Sequence[str]], Any]) -> Guarded:
        """An embedder, or a function of texts. Raises EmbedderFailed."""
        if callable(own):
            return cls(lambda texts, _: own(texts), getattr(own, "__name__", "callable"))
        guarded = cls(lambda texts, is_question: own.embed(texts, is_question=is_question), own.name, name=own.name)
        guarded.is_light, guarded.speaks = own.is_light, own.speaks
        guarded.floor, guarded.scale = own.floor, own.scale
        return guarded

    def __repr__(self) -> str:
        return f"<Guarded {self.name}>"

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        """See `Embedder`. A passage that is refused while another text is not gets zeros."""
        short = [text[:TEXT_LIMIT] for text in texts]
        return [
            vector
            for start in range(0, len(short), AT_ONCE)
            for vector in self._of_some(short[start : start + AT_ONCE], is_question=is_question)
        ]

    def close(self) -> None:
        if self._close is not None:
            self._close()

    def _of_some(self, texts: Sequence[str], *, is_question: bool) -> list[list[float]]:
        try:
            return self._asked(texts, is_question=is_question)
        except EmbedderFailed:
            raise
        except Exception as error:  # anybody's code, or a server that refuses one of the texts
            if is_question:
                raise EmbedderFailed(_message(error)) from error
            if len(texts) == 1:
                self._probed()  # else nobody is answered
                log.warning("EmbedderRefusedText: %s", type(error).__name__)
                return [[0.0] * self._dimensions]
        middle = len(texts) // 2
        return [
            vector for part in (texts[:middle], texts[middle:]) for vector in self._of_some(part, is_question=False)
        ]

    def _probed(self) -> list[float]:
        try:
            return self._asked([PROBE], is_question=False)[0]
        except EmbedderFailed:
            raise
        except Exception as error:  # see above
            raise EmbedderFailed(_message(error)) from error

    def _asked(self, texts: Sequence[str], *, is_question: bool) -> list[list[float]]:
        vectors = [_unit(vector) for vector in self._ask(texts, is_question)]
        sizes = {len(vector) for vector in vectors}
        if len(vectors) != len(texts) or sizes != {self._dimensions or next(iter(sizes), 0)} or 0 in sizes:
            raise EmbedderFailed(
                f"of {len(texts)} texts it gave {len(vectors)} vectors of {sorted(sizes)} dimensions"
                + (f", where it gave {self._dimensions} before" if self._dimensions else "")
            )
        return vectors


def fingerprint(vector: Sequence[float]) -> str:
    """The same for vectors that differ by rounding alone, as those of graphics cards do: which dimensions lead, with
    their signs, down to the widest step between two that follow each other."""
    from hashlib import sha256

    order = sorted(range(len(vector)), key=lambda at: -abs(vector[at]))
    sizes = [abs(vector[at]) for at in order]
    counts = range(min(_LEAST_LEADING, len(order)), min(_MOST_LEADING, len(order)))
    count = max(counts, key=lambda at: sizes[at - 1] - sizes[at], default=len(order))
    leading = sorted(at if vector[at] > 0 else -at for at in order[:count])
    return sha256(repr(leading).encode()).hexdigest()[:8]


def _unit(vector: Any) -> list[float]:
    """Raises TypeError or ValueError for what is no vector."""
    numbers = [float(value) for value in vector]
    length = math.hypot(*numbers)
    if not math.isfinite(length):
        raise ValueError("a vector holds what is no number")
    return [value / length for value in numbers] if length else numbers


def _message(error: Exception) -> str:
    """Without what it says, which may quote the text."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) else f"it failed with {type(error).__name__}"
