"""What to look up for a long text: the question in a pasted prompt, log, file or chat, or else its telling words.

A search for all words of a paste finds whatever resembles the paste. Nothing here knows what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kingly_memory.text.writing import QUERY_CHARACTERS, QUERY_WORDS, STOP_WORDS, has_unbroken, is_short, words

MOST_PLAIN = 4_096
"""Characters of a longer text that is looked up as it stands, if it is one paragraph of few telling words."""
READ = 32_768
LINES = 512
"""Characters and lines that are read, half of them at either end, where questions are. They bound the time it takes."""
ADDED = 10
"""Words of the paste that follow a question which points at it."""
_SIGNS = 0.12
"""Share of signs, a digit counting half, from which a line is no prose: a date does not make a question a log line."""
_SHORTEST_WORD = 3

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_TAG = re.compile(r"</?[A-Za-z][\w:-]{0,40}>")
_USER = re.compile(r"[\s*#<>-]{0,4}(?:user(?:[ _]query)?|human|question|query|request)[\s*]{0,3}[:>]", re.IGNORECASE)
_OTHER = re.compile(r"[\s*#<>-]{0,4}(?:assistant|system|ai|bot|model|answer)[\s*]{0,3}[:>]", re.IGNORECASE)
_LOGGED = re.compile(
    r"[>|\t]|    |\W{0,2}(?:\d{4}[-/.]\d\d|\d\d?:\d\d:\d\d|(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b"
    r"|File \"|at [\w.$<>]+\(|Traceback |Caused by: |[\w.]+(?:Error|Exception)\b)"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\b[DM]r\.)[\"')\]]{0,2}\s|(?<=[。！？])")
_QUESTION_WORD = re.compile(r"\W{0,8}(?:what|when|where|who|whom|whose|which|why|how)\b", re.IGNORECASE)
_POINTING = re.compile(
    r"\b(?:(?:this|these)\b(?! (?:year|month|week|morning|evening)\b)|above\b|below\b|the following\b|here\b)",
    re.IGNORECASE,
)
_FAILING = re.compile(r"error|exception|fail|fatal|denied|refused|timed? ?out|cannot|not found|missing", re.IGNORECASE)
_NOISE = STOP_WORDS.union("info warn warning error file line recent call last traceback none true false self".split())


def extract_query(text: str) -> str:
    """What to look up for a text: the text itself when it is short or plain, else at most 32 words of it.

    The question comes as it stands. One that points at what was pasted ("have we seen this before?") is followed by
    telling words of the paste. Where nobody says anything, those are all there is.
    """
    if is_short(text):
        return text
    typed, pasted = _apart(text if len(text) <= READ else f"{text[: READ // 2]}\n\n{text[-READ // 2 :]}")
    is_plain = len(typed) == 1 and not pasted and len(text) <= MOST_PLAIN
    if is_plain and len(set(_telling(typed))) <= QUERY_WORDS:
        return text
    question = _question(typed)
    if not any(_telling([question])):
        all_words = dict.fromkeys(_telling(_failures_first([*pasted, *typed])))
        return _cut(list(all_words) or text.split())
    if not _POINTING.search(question):
        return _cut(question.split())
    question_words = set(words(question))
    new = [word for word in dict.fromkeys(_telling(_failures_first(pasted))) if word not in question_words]
    return _cut([*question.split(), *new[:ADDED]])


def _apart(text: str) -> tuple[list[str], list[str]]:
    """(the paragraphs that somebody says, the lines that were pasted).

    What stands before the user's last turn counts as pasted. So does another's turn, up to a blank line."""
    lines = text.splitlines()
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "", *lines[-LINES // 2 :]]
    fences = [at for at, line in enumerate(lines) if _FENCE.match(line)]
    closed = set(fences[: len(fences) // 2 * 2])
    typed: list[str] = [""]
    pasted: list[str] = []
    is_fenced = is_others = False
    for at, line in enumerate(lines):
        if at in closed or not line.strip():
            is_fenced ^= at in closed
            is_others = False
            typed.append("")
        elif is_fenced:
            pasted.append(line)
        elif turn := _USER.match(line):
            is_others = False
            pasted += typed
            typed = [line[turn.end() :]]
        elif is_others or _OTHER.match(line) or _is_pasted(line):
            is_others = is_others or _OTHER.match(line) is not None
            pasted.append(line)
            typed.append("")
        else:
            typed[-1] += f" {line}"
    paragraphs = (" ".join(_TAG.sub(" ", paragraph).split()) for paragraph in typed)
    return [paragraph for paragraph in paragraphs if paragraph], [paragraph for paragraph in pasted if paragraph]


def _is_pasted(line: str) -> bool:
    """By its looks alone. What is taken for the wrong kind costs a few words."""
    if _LOGGED.match(line):
        return True
    bare = _TAG.sub("", line[:QUERY_CHARACTERS])
    signs = sum(not (sign.isalnum() or sign.isspace() or sign in ",.?!'’-") for sign in bare)
    return signs + sum(map(str.isdigit, bare)) / 2 >= _SIGNS * len(bare) > 0


def _question(typed: Sequence[str]) -> str:
    """The questions of the last paragraph or else of the first, else the last paragraphs that are short together."""
    ends = [
        [sentence.strip() for sentence in _SENTENCE_END.split(paragraph)] for paragraph in (*typed[-1:], *typed[:1])
    ]
    for sentences in ends:
        marked = [one for one in sentences if one.rstrip("\"')]* ").endswith(("?", "？"))]
        if marked:
            return " ".join(dict.fromkeys(marked))
    for sentences in ends:
        unmarked = [one for one in sentences if _QUESTION_WORD.match(one)]
        if unmarked:
            return unmarked[-1]
    last = "".join(typed[-1:])
    for paragraph in reversed(typed[:-1]):
        if not is_short(f"{paragraph} {last}"):
            break
        last = f"{paragraph} {last}"
    return last


def _failures_first(lines: Iterable[str]) -> list[str]:
    """Each line once. Those that speak of a failure come first, the last of them before the others: it names the
    cause."""
    once = list(dict.fromkeys(lines))
    failing = [line for line in once if _FAILING.search(line)]
    return [*reversed(failing), *(line for line in once if not _FAILING.search(line))]


def _telling(texts: Iterable[str]) -> Iterator[str]:
    """The words that may tell what texts are about: no stop words, no numbers, nothing that every log has."""
    for word in (word for text in texts for word in words(text)):
        is_code = len(word) < _SHORTEST_WORD or sum(map(str.isdigit, word)) > 1
        if has_unbroken(word) or not (is_code or word in _NOISE):
            yield word


def _cut(chosen: Sequence[str]) -> str:
    """Never long, so that what was extracted stays as it is. Of too many words the telling ones are kept."""
    if len(chosen) > QUERY_WORDS:
        chosen = [word for word in chosen if any(_telling([word]))] or chosen
    return " ".join(chosen[:QUERY_WORDS])[:QUERY_CHARACTERS].strip()
