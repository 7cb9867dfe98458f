"""Texts to the numbers of their word pieces, as Llama 2's tokenizer does it: byte-pair encoding (Sennrich et al. 2016)
over characters, and over bytes where a character has no piece of its own (sentencepiece, Kudo and Richardson 2018).

The package `tokenizers` takes a tenth of a second to load such a file. Of this vocabulary its list of merges, which is
most of the file, says nothing new: any two neighbours may merge whose joined text is a piece.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from heapq import heapify, heappop, heappush
from operator import add
from pathlib import Path

_SPACE = "\u2581"
"""In the place of a space. Pieces begin with it, and those that have one elsewhere hold nothing else."""
_SPECIAL = ("<unk>", "<s>", "</s>")
"""Pieces that a text is cut at before anything merges."""
_CUT_AT_SPECIAL = re.compile(f"({'|'.join(_SPECIAL)})")
_CHUNK = re.compile(rf"{_SPACE}*[^\W\d_\u00b2]+|{_SPACE}*(?:[^\w{_SPACE}]|[_\u00b2])+|{_SPACE}+|\d")
"""Letters, signs, spaces and single digits: no piece has two of them, but for spaces in front, and a square (U+00B2)
counts as a sign. So each is merged by itself, and most have been met before."""
_CACHED_CHUNKS, _LONGEST_CACHED = 16_384, 64
_BEHIND_ALL, _MOST_SPACES = 1 << 15, 16
"""More than there are pieces: added to the numbers of those of up to so many spaces alone, which merge last."""
_EDGE = "\0"
"""No piece has it."""


class BpeTokenizer:
    """The vocabulary of one file of the package `tokenizers`. Safe from any thread."""

    def __init__(self, file: Path) -> None:
        """Takes 20 ms."""
        read = file.read_bytes()
        begin, end = read.index(b"{", read.index(b'"vocab"')), read.rindex(b'"merges"')
        self._numbers: dict[str, int] = json.JSONDecoder().raw_decode(read[begin:end].decode())[0]
        for piece in filter(self._numbers.__contains__, (_SPACE * count for count in range(2, _MOST_SPACES + 1))):
            self._numbers[piece] += _BEHIND_ALL
        self._of_chunk = lru_cache(_CACHED_CHUNKS)(self._merged)

    def encode(self, text: str) -> list[int]:
        """The numbers of the text's pieces, in order. Raises UnicodeEncodeError for a lone surrogate."""
        found: list[int] = []
        for part in _CUT_AT_SPECIAL.split(text):
            if part in _SPECIAL:
                found.append(self._numbers[part])
            elif part:
                for chunk in _CHUNK.findall(_SPACE + part.replace(" ", _SPACE)):
                    found += self._of_chunk(chunk) if len(chunk) <= _LONGEST_CACHED else self._merged(chunk)
        return found

    def _merged(self, chunk: str) -> tuple[int, ...]:
        """Merge the two neighbours whose joined piece comes first in the vocabulary until none make one."""
        numbers = self._numbers
        parts: list[str] = []
        for character in chunk:
            parts += [character] if character in numbers else [f"<0x{byte:02X}>" for byte in character.encode()]
        end = len(parts)
        after, before = [*range(1, end + 1)], [*range(-1, end)]
        waiting = [
            (number, left, joined)
            for left, joined in enumerate(map(add, parts, parts[1:]))
            if (number := numbers.get(joined)) is not None
        ]
        heapify(waiting)
        parts.append(_EDGE)  # behind the last one, and at -1 before the first
        while waiting:
            _, left, joined = heappop(waiting)
            right = after[left]
            if parts[left] + parts[right] != joined:
                continue  # one of the two has merged since; of equal pieces the left one merges first
            parts[left], parts[right] = joined, ""
            after[left] = after[right]
            before[after[left]] = left
            for one, other in ((before[left], left), (left, after[left])):
                joined = parts[one] + parts[other]
                if (number := numbers.get(joined)) is not None:
                    heappush(waiting, (number, one, joined))
        return tuple([numbers[part] % _BEHIND_ALL for part in parts[:end] if part])
