"""The rules by which a sentence is worth keeping: a decision, preference, correction, request, fact or outcome.

They look at the words of one sentence, in English, and would rather miss a statement than keep small talk: questions,
plans and guesses are never kept.
"""

from __future__ import annotations

import re
from enum import StrEnum

from kingly_memory.integrations.transcript import Speaker
from kingly_memory.writing import STOP_WORDS, words

SHORTEST, LONGEST = 12, 500
"""Characters of a statement."""
FEWEST_WORDS = 3
"""Words of a statement that are not stop words; "let's do that" says nothing by itself."""


class Sort(StrEnum):
    """What a statement is; also the tag it gets."""

    REQUEST = "request"
    PREFERENCE = "preference"
    DECISION = "decision"
    CORRECTION = "correction"
    FACT = "fact"
    OUTCOME = "outcome"


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
