"""Compression without a model: sentences are chosen, not rewritten, and the result is never longer. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice

from kingly_memory.lifecycle.compression.levels import CompressedMemory, CompressionLevel, Summariser
from kingly_memory.lifecycle.compression.sentences import Form, Sentence, sentences
from kingly_memory.writing import UNBROKEN, stems

MOST_FACTS = {CompressionLevel.LIGHT: 10, CompressionLevel.MEDIUM: 5, CompressionLevel.AGGRESSIVE: 3}
"""Entries of each list (seed 000: five facts)."""
LONGEST = {CompressionLevel.MEDIUM: 1_000, CompressionLevel.AGGRESSIVE: 300}
"""Characters of one sentence in a summary; what has no full stop for longer is cut."""
ENTRY_LIMIT = 500
"""Characters of a fact, a constraint, a pattern or a decision."""

_CUT = "…"
_CUT_REACH = 100
"""Characters by which a cut may come sooner, so as not to tear a number or a word."""
_TOLD = (Form.PROSE, Form.ITEM)
_Told = Callable[[str], bool]


def compress(
    text: str, level: CompressionLevel, focus: str | None = None, *, reason: str | None = None
) -> CompressedMemory:
    """LIGHT leaves out what is said twice and surplus white space, MEDIUM keeps the first and the last sentence,
    AGGRESSIVE the first. With a focus, sentences that share a word with it go before all others."""
    if level is CompressionLevel.NONE or not text.strip():
        return CompressedMemory(text, text, level=level, summariser=Summariser.NOBODY, reason=reason)
    everything = sentences(text) or [_whole(text)]
    said = _once(text, everything)
    told = _of_focus(text, _telling(said), focus)
    summary = _without_repeats(text, everything, said) if level is CompressionLevel.LIGHT else _ends(text, told, level)
    quoted = [one.of(text) for one in told]
    most = MOST_FACTS[level]
    return CompressedMemory(
        full_content=text,
        summary=summary,
        key_facts=_those(quoted, is_fact, most),
        constraints=_those(quoted, is_constraint, most),
        patterns=_those(quoted, is_pattern, most),
        decisions=_those(quoted, is_decision, most),
        level=level,
        reason=reason,
    )


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis, `most` characters at most; no number or word is torn, unless it is
    longer than a word can be."""
    if len(text) <= most:
        return text
    torn = re.compile(rf"[^\s{UNBROKEN}]")
    at = most - 1
    while at > most - _CUT_REACH and torn.match(text[at]) and torn.match(text[at - 1]):
        at -= 1
    at = at if at > most - _CUT_REACH else most - 1
    return f"{text[:at].rstrip()}{_CUT}"


# --- what a summary is made of --------------------------------------------------------------------------------------


def _once(text: str, said: Sequence[Sentence]) -> list[Sentence]:
    """Without what was said before in the same words. White space apart, every character counts."""
    first: dict[str, Sentence] = {}
    for one in said:
        first.setdefault(" ".join(one.of(text).split()), one)
    return list(first.values())


def _whole(text: str) -> Sentence:
    """A text without words."""
    start = len(text) - len(text.lstrip())
    return Sentence(start, len(text.rstrip()), Form.PROSE)


def _telling(said: Sequence[Sentence]) -> list[Sentence]:
    """Without code, headings and tables, unless there is nothing else."""
    return [one for one in said if one.form in _TOLD] or list(said)


def _of_focus(text: str, told: Sequence[Sentence], focus: str | None) -> list[Sentence]:
    wanted = stems(focus) if focus else set()
    near = [one for one in told if wanted & stems(one.of(text))] if wanted else []
    return near or list(told)


def _ends(text: str, told: Sequence[Sentence], level: CompressionLevel) -> str:
    first = shortened(told[0].of(text), LONGEST[level])
    if len(told) == 1 or level is CompressionLevel.AGGRESSIVE:
        return first
    last = told[-1]
    between = text[told[-2].end : last.start] + text[told[0].end : told[1].start]
    joint = "" if not any(map(str.isspace, between)) else " " if _is_ended(first) else "\n"
    return f"{first}{joint}{shortened(last.of(text), LONGEST[level])}"


def _is_ended(sentence: str) -> bool:
    return sentence.rstrip("\"'”’»)]}*_`」』）】》")[-1:] in tuple(".!?…。！？｡؟।:")


def _without_repeats(text: str, everything: Sequence[Sentence], said: Sequence[Sentence]) -> str:
    """The sentences with what stood in front of each, with less white space in it."""
    kept = {one.start for one in said}
    pieces: list[str] = []
    before = 0
    for one in everything:
        if one.start in kept:
            gap = text[before : one.start]
            pieces += (_tight(gap) if pieces else gap.lstrip(), one.of(text))
        before = one.end
    return "".join(pieces).strip()


def _tight(gap: str) -> str:
    """One space between sentences, one blank line at most; marks and the indentation of a line stay."""
    lines = gap.split("\n")
    if len(lines) == 1:
        return gap if gap.strip() else gap[:1] and " "
    tight: list[str] = [lines[0].rstrip()]
    for line in lines[1:-1]:
        if line.strip() or tight[-1] or len(tight) == 1:
            tight.append(line.rstrip())
    return "\n".join([*tight, lines[-1]])


# --- what a sentence is ---------------------------------------------------------------------------------------------

_FACT = re.compile(r"\b(?:is|are|has|isn't|aren't|hasn't|isn’t|aren’t|hasn’t)\b", re.IGNORECASE)
_CONSTRAINT = re.compile(
    r"\b(?:must|mustn't|cannot|can't|can’t|never|always|only|requires?|required|limit|limits|limited|at most|at least"
    r"|no more than|no less than|maximum|minimum|should not|shouldn't|do not|don't|don’t|forbidden|not allowed|unless"
    r"|needs? to|has to|have to|exceeds?|mandatory|prohibited)\b",
    re.IGNORECASE,
)
_PATTERN = re.compile(
    r"^\W*(?:when|whenever|if|before|after|every time)\b[^\n]{1,400}?,"
    r"|\b(?:whenever|every time|each time|next time|in (?:the )?future|as a rule|rule of thumb|lessons?|patterns?)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:decided|decide|decision|agreed|chose|chosen|settled on|going with|went with|opted|we will|we'll|we’ll"
    r"|let's use|let’s use)\b",
    re.IGNORECASE,
)
_QUESTION = ("?", "？", "؟")


def is_fact(sentence: str) -> bool:
    """Says what something is or has (seed 000). A question does not."""
    return _says(_FACT, sentence)


def is_constraint(sentence: str) -> bool:
    return _says(_CONSTRAINT, sentence)


def is_pattern(sentence: str) -> bool:
    """Says what to do, or what happens, in a situation that may come again."""
    return _says(_PATTERN, sentence)


def is_decision(sentence: str) -> bool:
    return _says(_DECISION, sentence)


def _says(what: re.Pattern[str], sentence: str) -> bool:
    return not sentence.endswith(_QUESTION) and what.search(sentence) is not None


def _those(quoted: Sequence[str], are: _Told, most: int) -> tuple[str, ...]:
    chosen = islice((one for one in quoted if are(one)), most)
    return tuple(shortened(" ".join(one.split()), ENTRY_LIMIT) for one in chosen)
