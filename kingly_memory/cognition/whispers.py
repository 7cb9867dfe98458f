"""Context whispers: of every full 1,000 tokens noted in a context, what they were about (seed 004, AC-003)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from kingly_memory import intake
from kingly_memory.cognition.working import Context
from kingly_memory.ids import MemoryId
from kingly_memory.intake import Draft
from kingly_memory.models import LEAST_TRUSTED_LAST, Memory, Origin
from kingly_memory.writing import STOP_WORDS, token_count, token_spans, words

RECORD = "whisper"
"""What `metadata.record` of such a memory says."""

SIGNIFICANCE = 0.5
TOPICS = 6
POINTS = 3
POINT_WORDS = 12
POINT_CHARACTERS = 160
TOPIC_CHARACTERS = 40
TITLE_CHARACTERS = 80

_LEAST_WORD = 3
_REPEATED = 2
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_TELLING = frozenset(
    """agreed always avoid because broke broken cannot caused changed chose decided discovered error failed failing
    fixed found instead learned learnt moved must need needs never now only prefer prefers remember requires root
    should switched turned use uses wants works wrong""".split()
)


@dataclass(frozen=True, slots=True)
class Portion:
    """The text that one whisper covers, and the memories it comes from."""

    text: str
    sources: tuple[MemoryId, ...]


def portions(context: Context, texts: Mapping[MemoryId, str], size: int, count: int) -> list[Portion]:
    """What each of the next `count` whispers covers: the noted tokens in their order, `size` at a time.

    What was forgotten since is missing from the texts, and so from the portions.
    """
    stream = _stream(context, texts)
    return [_portion(stream[start : start + size], texts) for start in range(0, count * size, size)]


def covered(context: Context, texts: Mapping[MemoryId, str], size: int, count: int) -> Context:
    """The context once so many whispers have been made: the rest of the tokens waits for the next ones."""
    rest = context.tokens - (context.whispers + count) * size
    pending: list[MemoryId] = []
    held = 0
    for memory_id in reversed(context.pending):
        if held >= rest:
            break
        pending.insert(0, memory_id)
        held += token_count(texts.get(memory_id, ""))
    return replace(context, whispers=context.whispers + count, pending=tuple(pending), skipped=max(held - rest, 0))


def drafted(portion: Portion, sources: Sequence[Memory], *, context_id: str, number: int, size: int) -> Draft:
    """The insight that is stored. It is no more significant and no better trusted than the least of its sources: what
    must stay on this machine, or came from a stranger, does so in a whisper too. What several agents have said is no
    agent's own."""
    least = min((memory.significance for memory in sources), default=SIGNIFICANCE)
    agents = {memory.scope.agent for memory in sources}
    origins = [memory.origin for memory in sources] or [Origin.AGENT]
    shown = context_id if len(context_id) <= TITLE_CHARACTERS else f"{context_id[:TITLE_CHARACTERS]}…"
    return intake.draft(
        distilled(portion.text),
        content_limit_bytes=1_000_000,
        significance=min(SIGNIFICANCE, least),
        tags=(RECORD,),
        title=f"Whisper {number} of {shown}",
        context_id=context_id,
        agent=agents.pop() if len(agents) == 1 else None,
        origin=max(origins, key=LEAST_TRUSTED_LAST.index),
        metadata={
            "record": RECORD,
            "number": number,
            "tokens": [(number - 1) * size, number * size],
            "sources": list(portion.sources),
        },
    )


def distilled(text: str) -> str:
    """What a text is about, in a few lines: its topics, and the sentences that decide or explain, cut short."""
    topics = _topics(text)
    lines = [f"Mostly about {', '.join(topics)}." if topics else "Mostly names and figures."]
    lines += [f"- {point}" for point in _points(text, set(words(" ".join(topics))))]
    return "\n".join(lines)


class _Token(NamedTuple):
    source: MemoryId
    start: int
    end: int


def _stream(context: Context, texts: Mapping[MemoryId, str]) -> list[_Token]:
    stream = [_Token(one, *span) for one in context.pending for span in token_spans(texts.get(one, ""))]
    return stream[context.skipped :]


def _portion(stream: Sequence[_Token], texts: Mapping[MemoryId, str]) -> Portion:
    pieces: list[str] = []
    for source, group in groupby(stream, key=lambda token: token.source):
        first, *rest = group
        pieces.append(texts[source][first.start : (rest[-1] if rest else first).end])
    return Portion("\n".join(pieces), tuple(dict.fromkeys(token.source for token in stream)))


def _topics(text: str) -> list[str]:
    """Pairs of neighbouring words that are said again, then the words said most; none twice."""
    said = words(text)
    singles = Counter(word for word in said if _tells(word))
    pairs = Counter((one, other) for one, other in pairwise(said) if _tells(one) and _tells(other) and one != other)
    chosen: list[str] = []
    taken: set[str] = set()
    for (one, other), times in pairs.most_common(TOPICS):
        if times >= _REPEATED and not taken & {one, other}:
            chosen.append(f"{one} {other}")
            taken |= {one, other}
    for word, _ in singles.most_common(TOPICS * 3):
        if len(chosen) < TOPICS and word not in taken:
            chosen.append(word)
            taken.add(word)
    return [topic[:TOPIC_CHARACTERS] for topic in chosen[:TOPICS]]


def _tells(word: str) -> bool:
    return len(word) >= _LEAST_WORD and word not in STOP_WORDS


def _points(text: str, topics: set[str]) -> Iterator[str]:
    """The sentences with the most telling words, in the order they were said."""
    said = (sentence.strip() for sentence in _SENTENCE_END.split(text))
    sentences = list({" ".join(words(sentence)): sentence for sentence in said if sentence}.values())
    scored = [(_weight(sentence, topics), number) for number, sentence in enumerate(sentences)]
    best = sorted((one for one in scored if one[0] > 0), key=lambda one: (-one[0], one[1]))[:POINTS]
    for _, number in sorted(best, key=lambda one: one[1]):
        yield _cut(sentences[number])


def _weight(sentence: str, topics: set[str]) -> float:
    said = set(words(sentence))
    telling = len(said & _TELLING)
    return telling + 0.25 * len(said & topics) if telling else 0.0


def _cut(sentence: str) -> str:
    pieces = sentence.split()
    said = " ".join(pieces[:POINT_WORDS])[:POINT_CHARACTERS]
    return said if len(pieces) <= POINT_WORDS and len(said) == len(" ".join(pieces)) else f"{said} …"
