"""Static embeddings: the mean of a text's word pieces in the table that the package `wordllama` carries.

Only the table and the vocabulary of that package are read. Importing it would set up the host's logging, load an HTTP
client and take ten times as long; nothing is downloaded either way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.adapters.embed.bpe import BpeTokenizer
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
_WORDS_LOOKED_AT = 200


def folder() -> Path | None:
    """Where the package lies with both its files, found without importing it; None where it is not installed."""
    spec = find_spec(PACKAGE)
    found = None if spec is None or spec.origin is None else Path(spec.origin).parent
    return found if found is not None and all((found / name).is_file() for name in (_TABLE, _TOKENIZER)) else None


class WordLlamaEmbedder(Embedder):
    """Texts as unit vectors of 256 dimensions, the same in every process (UNI-007)."""

    is_light = True
    name = NAME
    dimensions = 256

    def __init__(self) -> None:
        """Takes 20 ms, and the first text that the table says something of what numpy takes. Raises InvalidSetting when
        the package is not there."""
        found = folder()
        if found is None:
            raise InvalidSetting("embedder", "wordllama is not installed")
        self._tokenizer = BpeTokenizer(found / _TOKENIZER)
        self._file = found / _TABLE

    def __repr__(self) -> str:
        return f"<WordLlamaEmbedder {self.name}>"

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        """One unit-length vector per text, in order; zeros for a text without any word that the table knows."""
        return [self._vector(text[:TEXT_LIMIT].lower()) for text in texts]

    def _vector(self, text: str) -> list[float]:
        if not self._is_known(text):
            return [0.0] * self.dimensions
        import numpy as np

        pieces = self._tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8"))
        total = self._table[pieces].sum(axis=0, dtype=np.float64)
        length = float(np.sqrt((total * total).sum()))
        return [0.0] * self.dimensions if length == 0.0 else (total / length).tolist()

    @cached_property
    def _table(self) -> npt.NDArray[np.float16]:
        """A row a piece, out of a file of the format safetensors: the length of a header in JSON, that header, numbers.
        Rows are read when they are asked for, and processes share what was read."""
        import numpy as np

        with self._file.open("rb") as opened:
            mapped = mmap(opened.fileno(), 0, access=ACCESS_READ)
        begin = 8 + int.from_bytes(mapped[:8], "little")
        about = json.loads(mapped[8:begin])["embedding.weight"]
        rows, dimensions = about["shape"]
        numbers = np.frombuffer(mapped, "<f2", rows * dimensions, begin + about["data_offsets"][0])
        return numbers.reshape(rows, dimensions)

    def _is_known(self, text: str) -> bool:
        words = _WORDS.findall(text)[:_WORDS_LOOKED_AT]
        content_words = (word for word in words if len(word) >= _SHORTEST_WORD and word not in STOP_WORDS)
        return any(len(word) / len(self._tokenizer.encode(word)) >= _LETTERS_A_PIECE for word in content_words)
