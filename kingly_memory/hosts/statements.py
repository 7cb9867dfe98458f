"""What of a conversation is worth keeping, and as what: a decision, preference, correction, request, fact or outcome.

The rules look at the words of one sentence, in English, without secrets and each once. They would rather miss a
statement than keep small talk: questions, plans and guesses are never kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum

from kingly_memory.attention.fence import harmless
from kingly_memory.dataclass import dataclass
from kingly_memory.hosts.transcript import Message, Speaker
from kingly_memory.models import MemoryType
from kingly_memory.redaction import redact
from kingly_memory.writing import STOP_WORDS, words

SHORTEST, LONGEST = 12, 500
"""Characters of a statement."""
FEWEST_WORDS = 3
"""Words of a statement that are not stop words; "let's do that" says nothing by itself."""
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


class Sort(StrEnum):
    """What a statement is; also the tag it gets."""

    REQUEST = "request"
    PREFERENCE = "preference"
    DECISION = "decision"
    CORRECTION = "correction"
    FACT = "fact"
    OUTCOME = "outcome"


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
    if speaker == "user":
        prose = _own_paragraphs(prose)
    if len(prose) > PASTED:
        prose = f"{prose[:_AROUND_PASTED]}\n\n{prose[-_AROUND_PASTED:]}"
    for line in prose.split("\n"):
        if not _NOT_PROSE.match(line):
            said = (one.strip(" *_\t") for one in _SENTENCE_END.split(_BULLET.sub("", line)))
            yield from (one for one in said if _ELSEWHERE not in one)


def _own_paragraphs(prose: str) -> str:
    """What the user has written, as far as that can be told from what he has pasted: up to a mail, or to what a line
    announces ("This is the log:"), without quotations, and without paragraphs that look like code, a page or a log."""
    own = _QUOTED.sub(_ELSEWHERE, prose)
    if _ASKED_ABOUT.search(own):
        return ""
    brought = _BROUGHT.search(own)
    own = own if brought is None else own[: brought.start()]
    own = _edges(own) if len(own) > PASTED_PARAGRAPHS else own
    return "\n\n".join(one for one in _BLANK.split(own) if not _NOT_WRITTEN.search(one))


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


def sort_of(sentence: str, speaker: Speaker) -> Sort | None:
    """What sort of statement this is; None when it is not worth keeping."""
    sentence = sentence.replace("\u2019", "'")
    if not SHORTEST <= len(sentence) <= LONGEST or _ASKS.search(sentence):
        return None
    if len(telling(_REDACTED.sub("", sentence))) < FEWEST_WORDS:
        return None
    if speaker == "assistant" and (_PLANS.match(sentence) or _GUESSES.search(sentence)):
        return None
    return next((sort for sort, pattern in _RULES[speaker] if pattern.search(sentence)), None)


def telling(text: str) -> set[str]:
    """The words that are not stop words."""
    return {word for word in words(text) if word not in STOP_WORDS}


# --- rules -----------------------------------------------------------------------------------------------------------

_ECHO = 0.75

_ELSEWHERE = "\0"
"""Stands for a quotation: a sentence with one is not all the user's."""
_QUOTED = re.compile(
    r"[\"\u201c\u201e\u00ab](?:[^\s\"\u201d\u00bb]+\s+){4}[^\"\u201d\u00bb]{1,2000}[\"\u201c\u201d\u00bb]"
)
"""Of five words or more."""
_BROUGHT = re.compile(
    r"^(?:[ \t]*(?:from|to|subject|sent|cc|von|betreff|gesendet|objet|asunto|reporter)[ \t]?:[ \t]*\S"
    r"|[-\s_]*(?:original|forwarded|begin forwarded) message"
    r"|.*\b(?:wrote|schrieb|a écrit|escribió)[ \t]?:"
    r"|(?!.*\b(?:remember|rules?|note|conventions?|preferences?|decisions?|decided)\b)"
    r".*\b(?:this|these|that|below|following|page|mail|error|log|output|message|article|text|ticket|comment|file|says?|said"
    r"|got|gave|read|summari[sz]e|translate|explain|review|look)\b.*[:?][ \t]*\n(?=\s*\S))",
    re.IGNORECASE | re.MULTILINE,
)
_ASKED_ABOUT = re.compile(
    r"\n[ \t]*\n.*\b(?:(?:summari[sz]e|translate|explain) (?:this|that|it)"
    r"|what (?:does|do|is|was) (?:this|that|it|they)\b).*\s*\Z",
    re.IGNORECASE,
)
"""The last paragraph asks about what stands above it."""
_NOT_WRITTEN = re.compile(
    r"^[ \t]*(?:\[?\d{1,2}:\d\d|\d{4}-\d\d-\d\d[ T]|HTTP/|Traceback|FAILED |error(?:\[|:)|\$ |</?[a-z!]|//|/\*|\"\"\"|#"
    r"|--(?:[ \t]|$)|[+-]{1,3}[#\w]|\d+,)",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = re.compile(r"^ *(```|~~~).*?(?:^ *\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_NOT_PROSE = re.compile(r"\s*(?:[|>]|#!|\$ |[-=+*_]{3,}\s*$|[{}\[\]();]|@@|at [\w.$]+\(|File \")| {4,}\S")
_BLANK = re.compile(r"\n[ \t]*\n")
_BULLET = re.compile(r"^\s*(?:[-*•+]|#{1,6}|\d{1,3}[.)])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_]{0,3}\s+(?=[\"'(\[*_`A-Z0-9])")
_REDACTED = re.compile(r"\[redacted [a-z ]+\]")


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_ASKS = _any(
    r"\?\W*$",
    r"^(?:and |but |so |ok,? )?(?:what|who|whom|whose|when|where|why|which|how|can|could|would|will|shall|should|do"
    r"|does|did|is|are|was|were|have|has|had|may|might|am)(?:n't)? "
    r"(?:you|we|i|it|they|he|she|the|this|that|there|my|our|your|to|a|an)\b",
)
_PLANS = _any(
    r"(?:now |next,? |then |first,? |okay,? |ok,? |great[,.!] |good[,.!] |so,? )*"
    r"(?:i'll|i will|i'm going to|i am going to|let me|let's|we should|we could|i can|i need to|i should|next|to )\b"
)
_GUESSES = _any(
    r"\b(?:might|maybe|perhaps|probably|possibly|likely|seems?|appears?|could be|may be|i think|i guess|not sure|unless"
    r"|if)\b"
)

_THING = r"(?:our|the|this|my) [\w /.'-]{2,60}?"
_STATE = (
    r"(?:is|are) (?:called|named|located|hosted|deployed|owned|maintained|written|stored|kept|pinned|based|licensed|at"
    r"|on|in|behind|under)"
)
_HABIT = r"(?:runs?|lives?|listens?|depends?|uses?|requires?|needs?|belongs?|expires?|stands for|moved|expects?)"

_RULES: dict[Speaker, tuple[tuple[Sort, re.Pattern[str]], ...]] = {
    "user": (
        (
            Sort.REQUEST,
            _any(
                r"(?<!n't )(?<!not )\bremember (?:that|to|this|we|i|the|our|my)\b|^(?:please )?remember\b",
                r"\b(?:keep in mind|for future reference|make a note|take note)\b",
                r"^(?:please )?(?:note|nb)(?: that\b|:)",
                r"\b(?:don't|do not|never) forget\b",
                r"\b(?:from now on|going forward|in (?:the )?future)\b",
            ),
        ),
        (
            Sort.CORRECTION,
            _any(
                r"^(?:no|nope|wrong|actually|correction)\b[,:.!]*\s",
                r"\bthat(?:'s| is| was) (?:wrong|incorrect|not (?:right|correct|true|what))\b",
                r"\bi meant\b",
                r"\byou (?:should(?:n't| not)? have|got .{1,40} wrong|forgot|misunderstood)\b",
                r"\b(?:stop|quit) (?:using|adding|doing|writing|making|calling|changing|creating|putting)\b",
            ),
        ),
        (
            Sort.PREFERENCE,
            _any(
                r"\b(?:i|we)(?:'d| would)? (?:much |strongly |really |usually )?(?:prefer|rather|favou?r)\b",
                r"\b(?:i|we) (?:really )?(?:like|want|hate|dislike) (?:it when|to (?:keep|use|have|see|avoid))\b",
                r"^(?:please,? )?(?:always|never)\b",
                r"\b(?:you|we|i|it|they|one|and|but) (?:should|must|have to|need to)?\s*(?:always|never) \w+",
                r"\b(?:must|should) (?:always|never|not)\b",
                r"^(?:please,? )?(?:don't|do not|avoid) "
                r"(?:use|add|write|put|call|touch|commit|push|create|change|mock|ever|\w+ing)\b",
                r"\binstead of\b|\brather than\b",
                r"\b(?:our|the|my) (?:convention|standard|style|rule|policy|guideline)s? (?:is|are|says?)\b",
            ),
        ),
        (
            Sort.DECISION,
            _any(
                r"\b(?:let's|let us) (?:go with|use|keep|stick|switch|move|drop|adopt|settle)\b",
                r"\b(?:we|i)(?:'ve| have)? (?:decided|agreed|chose|chosen|settled|picked|opted)\b",
                r"\bwe(?:'ll| will|'re going to| are going to) "
                r"(?:use|go with|keep|stick|switch|move|drop|adopt|support)\b",
                r"\bthe decision (?:is|was)\b|^decision:",
                r"^(?:ok,? |yes,? )?(?:go with|stick (?:with|to))\b",
            ),
        ),
        (
            Sort.FACT,
            _any(
                r"\bmy (?:name|role|team|job|time ?zone|editor|company|manager) (?:is|are)\b",
                r"\bi(?:'m| am) (?:a|an|the|on the|in the|responsible)\b|\bi work (?:at|for|on|in|with|as)\b",
                rf"\b{_THING} {_STATE}\b",
                rf"\b{_THING} {_HABIT}\b",
                r"\bwe (?:use|run|host|deploy|store|support|target|own|release|ship)\b",
                r"\b\w+ stands for\b",
            ),
        ),
    ),
    "assistant": (
        (
            Sort.OUTCOME,
            _any(
                r"\b(?:root cause|turned out|turns out|caused by|came down to)\b",
                r"\bthe (?:\w+ ){0,2}"
                r"(?:bug|problem|issue|failure|error|crash|cause|culprit|fix|solution) (?:was|is|came|lay)\b",
                r"\b(?:fixed|resolved|solved) (?:the|a|an|by|it|this|that)\b",
                r"\b(?:all|the) (?:[\d,]+ )?(?:\w+ )?tests "
                r"(?:now |all |still )?(?:pass|passed|are passing|fail|failed)\b",
                r"\bnow (?:works|passes|builds|runs|returns)\b",
                r"\b(?:is|are) (?:now )?(?:fixed|resolved|deployed|merged|released)\b",
            ),
        ),
        (
            Sort.DECISION,
            _any(
                r"\b(?:we|i)(?:'ve| have)? (?:decided|chose|chosen|settled on|went with|opted|agreed|switched)\b",
                r"^decision:|\bthe decision (?:is|was)\b",
            ),
        ),
        (
            Sort.FACT,
            _any(
                r"\b(?:the|this) "
                r"(?:project|repo|repository|codebase|service|server|api|app|application|database|build|pipeline"
                rf"|deployment|package|library|module|config|configuration|test suite) (?:{_STATE}|{_HABIT})\b",
            ),
        ),
    ),
}
"""The first rule that fits decides."""
