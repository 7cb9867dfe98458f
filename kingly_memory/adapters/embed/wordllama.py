"""Static embeddings: the mean of a text's word pieces in the table that the package `wordllama` carries.

Only the table and the tokenizer of that package are read. Importing it would set up the host's logging, load an HTTP
client and take five times as long; nothing is downloaded either way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.errors import InvalidSetting
from kingly_memory.ports import Embedder
from kingly_memory.text.writing import STOP_WORDS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PACKAGE = "wordllama"
TEXT_LIMIT = 8_192
"""Characters of a text that are read; the mean of a longer one hardly changes after that."""

_TABLE = Path("weights", "l2_supercat_256.safetensors")
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
NAME = "wordllama1-256"
"""Changes whenever the same text would get another vector."""
_WORDS = re.compile(r"[^\W\d_]+")
_SHORTEST_WORD = 3
_LETTERS_A_PIECE = 3.0
"""A word that falls into shorter pieces is not known to the table: `zxqv` becomes four of them."""
_CACHED_WORDS = 16_384
_WORDS_LOOKED_AT = 200


def folder() -> Path | None:
    """Where the package lies, found without importing it; None when it is not installed."""
    spec = find_spec(PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def is_installed() -> bool:
    """Whether the package, both its files and what reads them are there."""
    found = folder()
    if found is None or not all((found / name).is_file() for name in (_TABLE, _TOKENIZER)):
        return False
    return all(find_spec(name) is not None for name in ("safetensors", "tokenizers"))


class WordLlamaEmbedder(Embedder):
    """Texts as unit vectors of 256 dimensions, the same in every process (UNI-007)."""

    is_light = True
    name = NAME
    dimensions = 256

    def __init__(self) -> None:
        """Takes 0.1 s. Raises InvalidSetting when the package is not there."""
        found = folder()
        if found is None:
            raise InvalidSetting("embedder", "wordllama is not installed")
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(found / _TOKENIZER))
        self._table: npt.NDArray[np.float16] = load_file(found / _TABLE)["embedding.weight"]
        self._pieces = lru_cache(_CACHED_WORDS)(self._count_pieces)

    def __repr__(self) -> str:
        return f"<WordLlamaEmbedder {self.name}>"

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        """One unit-length vector per text, in order; zeros for a text without any word that the table knows."""
        return [self._vector(text[:TEXT_LIMIT].lower()) for text in texts]

    def _vector(self, text: str) -> list[float]:
        import numpy as np

        if not self._is_known(text):
            return [0.0] * self.dimensions
        # One at a time: a batch would start threads of its own, which a host that forks is warned of.
        pieces = self._tokenizer.encode(_encodable(text), add_special_tokens=False).ids
        total = self._table[pieces].sum(axis=0, dtype=np.float64)
        length = float(np.sqrt((total * total).sum()))
        return [0.0] * self.dimensions if length == 0.0 else (total / length).tolist()

    def _is_known(self, text: str) -> bool:
        words = _WORDS.findall(text)[:_WORDS_LOOKED_AT]
        content_words = (word for word in words if len(word) >= _SHORTEST_WORD and word not in STOP_WORDS)
        return any(len(word) / self._pieces(word) >= _LETTERS_A_PIECE for word in content_words)

    def _count_pieces(self, word: str) -> int:
        return max(len(self._tokenizer.encode(_encodable(word), add_special_tokens=False).ids), 1)


def _encodable(text: str) -> str:
    """The tokenizer takes no lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
