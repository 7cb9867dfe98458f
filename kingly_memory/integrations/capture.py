"""What of a conversation is worth keeping, and as what: sentences that `wording` knows, without secrets, each once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from kingly_memory.attention.fence import harmless
from kingly_memory.integrations.transcript import Message, Speaker
from kingly_memory.integrations.wording import FEWEST_WORDS, Sort, sort_of, telling
from kingly_memory.models import MemoryType
from kingly_memory.redaction import redact
from kingly_memory.writing import words

PER_MESSAGE = 6
PASTED = 4_000
"""A longer message holds something pasted; only what is written around it, at its two ends, is looked at."""
PASTED_PARAGRAPHS = 1_000
"""The same of a user's message of several paragraphs or lines: what was pasted must not pass for the user's word."""
_EDGE, _EDGE_LINE = 300, 600
"""A longer first or last paragraph is pasted too, but for its outermost line, and that as well when it is so long."""
_AROUND_PASTED = 1_000
_READ = 25_000
"""Characters at either end of a message that are looked at for secrets: far more than can be kept."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What a sort of statement is kept as, by who makes it."""

    type: MemoryType
    significance: float
    confidence: float


WORTH: dict[tuple[Speaker, Sort], Worth] = {
    ("user", Sort.REQUEST): Worth(MemoryType.PROCEDURAL, 0.8, 0.9),
    ("user", Sort.PREFERENCE): Worth(MemoryType.PROCEDURAL, 0.7, 0.8),
    ("user", Sort.CORRECTION): Worth(MemoryType.PROCEDURAL, 0.7, 0.8),
    ("user", Sort.DECISION): Worth(MemoryType.SEMANTIC, 0.7, 0.8),
    ("user", Sort.FACT): Worth(MemoryType.SEMANTIC, 0.5, 0.8),
    ("assistant", Sort.DECISION): Worth(MemoryType.SEMANTIC, 0.5, 0.5),
    ("assistant", Sort.FACT): Worth(MemoryType.SEMANTIC, 0.4, 0.5),
    ("assistant", Sort.OUTCOME): Worth(MemoryType.EPISODIC, 0.4, 0.5),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence worth keeping, without secrets. `message_id` is "" when the host gave none."""

    content: str
    sort: Sort
    speaker: Speaker
    message_id: str
    at: datetime | None

    @property
    def worth(self) -> Worth:
        return WORTH[self.speaker, self.sort]


def statements(messages: Iterable[Message]) -> Iterator[Statement]:
    """What is worth keeping, in the order it was said; the same words only once."""
    seen: set[str] = set()
    for message in messages:
        kept = 0
        for sentence in sentences(message.text, message.speaker):
            sort = sort_of(sentence, message.speaker)
            if sort is None or gist(sentence) in seen or kept == PER_MESSAGE:
                continue
            seen.add(gist(sentence))
            kept += 1
            yield Statement(sentence, sort, message.speaker, message.id, message.at)


def sentences(text: str, speaker: Speaker = "user") -> Iterator[str]:
    """The prose of a message, sentence by sentence, redacted before anything is cut apart."""
    both_ends = text if len(text) <= 2 * _READ else f"{text[:_READ]}\n\n{text[-_READ:]}"
    clean = redact(both_ends.replace("\r\n", "\n")).text
    prose = _CODE.sub("\n", clean)
    if speaker == "user" and len(prose) > PASTED_PARAGRAPHS:
        prose = _edges(prose)
    if len(prose) > PASTED:
        prose = f"{prose[:_AROUND_PASTED]}\n\n{prose[-_AROUND_PASTED:]}"
    for line in prose.split("\n"):
        if not _NOT_PROSE.match(line):
            yield from (one.strip(" *_\t") for one in _SENTENCE_END.split(_BULLET.sub("", line)))


def _edges(text: str) -> str:
    """The first and the last paragraph, or so much of them as is not pasted. A text of one line is its own edge."""
    paragraphs = [one.strip("\n") for one in _BLANK.split(text) if one.strip()]
    if not paragraphs:
        return ""
    first, last = paragraphs[0], paragraphs[-1]
    if len(paragraphs) == 1 and "\n" not in first:
        return first
    above = first if len(first) <= _EDGE else first.split("\n", 1)[0]
    below = last if len(last) <= _EDGE else last.rsplit("\n", 1)[-1]
    return "\n\n".join(edge for edge in (above, below) if len(edge) <= _EDGE_LINE)


def gist(text: str) -> str:
    """What two texts have in common when they say the same: the words, without case, spacing and punctuation."""
    return " ".join(words(harmless(text)))


def is_echo(sentence: str, known: str) -> bool:
    """True when one of the two says little more than the other: then the sentence has been heard before."""
    said, heard = telling(sentence), telling(known)
    shared = len(said & heard)
    return shared >= FEWEST_WORDS and shared >= _ECHO * min(len(said), len(heard))


_ECHO = 0.75

_CODE = re.compile(r"^ *(```|~~~).*?(?:^ *\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_NOT_PROSE = re.compile(r"\s*(?:[|>]|#!|\$ |[-=+*_]{3,}\s*$|[{}\[\]();]|@@|at [\w.$]+\(|File \")| {4,}\S")
_BLANK = re.compile(r"\n[ \t]*\n")
_BULLET = re.compile(r"^\s*(?:[-*•+]|#{1,6}|\d{1,3}[.)])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_]{0,3}\s+(?=[\"'(\[*_`A-Z0-9])")
