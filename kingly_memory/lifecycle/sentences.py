"""Where the sentences of a text begin and end: prose, lists, headings, tables, conversations and code. Pure.

A doubtful full stop ends nothing: two sentences taken for one lose nothing, half a sentence is wrong. Time is linear in
the text, whatever it holds.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kingly_memory.text.writing import STOP_WORDS


class Sentence(NamedTuple):
    """`text[start:end]`, without white space around it and without the mark of its list item, heading or quotation. It
    tells something unless it is a heading, a row of a table or a block of code, which is one."""

    start: int
    end: int
    tells: bool = True

    def of(self, text: str) -> str:
        return text[self.start : self.end]


_LINE = re.compile(r"[^\n]*\n?")
_FENCE = re.compile(r"`{3,}|~{3,}")
_MARK = re.compile(
    r"(?:>[ \t]?){0,20}(?:(?P<heading>#{1,6}[ \t]+)"
    r"|(?P<item>(?:[-*+•‣·–][ \t]+|\(?(?:\d{1,3}|[a-z])[.)][ \t]+)(?:\[[ xX]\][ \t]+)?))?"
)
_LABEL = re.compile(
    r"\*{0,2}(?:[^\W\d_][\w.-]{0,30}|[A-Z][\w.-]{0,30}(?: [\w.-]{1,30}){1,2})\*{0,2}:(?=[ \t*]|$)"
    r"|\[?\d{1,4}[-:/.]\d{1,2}[-:/.]"
)
"""A speaker, a word like "error", or the time of a log in front of what is said: the line begins anew."""
_WORD = re.compile(r"[^\W_]")
_CLOSERS = "\"'”’»)]}*_`」』）】》〉›"
_OPENERS = "\"'“‘«([{*_`「『（【《〈‹"
_END = re.compile(
    rf"(?:(?<![.!?…؟।])[.!?…؟।]++[{re.escape(_CLOSERS)}]*+(?=\s)|[。！？｡]++[{re.escape(_CLOSERS)}]*+)\s*"
)
_WRAPPED = 50
"""A line at least so long may go on in the next one although that begins with a capital."""
_READ = 40
"""Characters in front of a full stop that are looked at."""
_NEVER_LAST = frozenset(
    """mr mrs ms mx dr prof gen sen capt lt sgt st hon vs cf eg ie viz ca approx resp incl excl esp e.g i.e a.k.a z.b
    d.h u.a bzw ggf nr""".split()
)
"""Abbreviations with something after them."""
_BEFORE_NUMBERS = frozenset("no nos p pp v ver rev fig figs eq vol sec ch art tab min mins max".split())
"""Not the end of a sentence when a number follows."""
_ENUMERATOR = re.compile(r"\W*(?:\d{1,3}|[^\W\d_])\W*")


def sentences(text: str) -> list[Sentence]:
    """The sentences of a text in its order. They do not overlap, and between them stand only white space and marks."""
    pieces = []
    for start, end, tells, is_whole in _blocks(text):
        begin = start
        for stop in () if is_whole else _END.finditer(text, start, end):
            if stop.end() == end or not _ends(text, begin, stop):
                continue
            if _WORD.search(text, begin, stop.start()):
                pieces.append(Sentence(begin, begin + len(text[begin : stop.end()].rstrip()), tells))
            begin = stop.end()
        if _WORD.search(text, begin, end):
            pieces.append(Sentence(begin, end, tells))
    return pieces


class _Block(NamedTuple):
    """Lines that belong together. `is_whole`: a row, or code, which is not split."""

    start: int
    end: int
    tells: bool = True
    is_whole: bool = False


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    fence = before = ""
    for line in _LINE.finditer(text):
        body = line.group().strip()
        start = line.start() + len(line.group()) - len(line.group().lstrip())
        end = start + len(body)
        if fence:
            blocks[-1] = blocks[-1]._replace(end=end if body else blocks[-1].end)
            fence = "" if body.startswith(fence) and not body.strip(fence[0]) else fence
        elif opening := _FENCE.match(body):
            blocks.append(_Block(start, end, tells=False, is_whole=True))
            fence, before = opening.group(), ""
        elif body and before and _goes_on(before, body):
            blocks[-1] = blocks[-1]._replace(end=end)
            before = body
        elif body:
            mark, is_row = _MARK.match(body), body.startswith("|")
            is_heading = mark is not None and mark["heading"] is not None
            begin = start + (mark.end() if mark else 0)
            blocks.append(_Block(begin, end, tells=not (is_row or is_heading), is_whole=is_row))
            before = "" if is_row or is_heading else body
        else:
            before = ""
    return blocks


def _goes_on(before: str, line: str) -> bool:
    """Whether a line of prose goes on with what the line before says."""
    mark = _MARK.match(line)
    if line.startswith("|") or _LABEL.match(line) or (mark is not None and mark.end()):
        return False
    is_ended = before.rstrip(_CLOSERS)[-1:] in tuple(".!?…。！？｡؟।:")
    return not is_ended and (len(before) >= _WRAPPED or line[0].islower())


def _ends(text: str, begin: int, stop: re.Match[str]) -> bool:
    """Whether a run of stops, closed or not, is the end of the sentence that began there."""
    run = stop.group().rstrip()
    marks = run.rstrip(_CLOSERS)
    is_closed = marks != run
    following = text[stop.end() : stop.end() + _READ].lstrip(_OPENERS)
    if marks[-1:] in tuple("。！？｡"):
        return not is_closed or stop.group() != run or following != text[stop.end() : stop.end() + _READ]
    then = following[:1]
    if then.islower() and (is_closed or not {"!", "?"} & set(marks)):
        return False
    if marks != ".":
        return True
    window = text[max(begin, stop.start() - _READ) : stop.start()]
    if stop.start() - begin < _READ and _ENUMERATOR.fullmatch(window):
        return False
    word = window.split()[-1].lstrip(_OPENERS) if window.split() and not window[-1].isspace() else ""
    bare = word.casefold()
    if bare in _NEVER_LAST or (then.isdigit() and (bare in _BEFORE_NUMBERS or word.isdigit())):
        return False
    # Initials and letters with full stops end a sentence only where a word like The or We follows with its capital.
    is_initials = all(len(one) == 1 and one.isupper() for one in word.split(".")) and word != "I"
    next_word = re.match(r"[^\W\d_]{1,20}(?![\w.])", following)
    return not is_initials or (next_word is not None and next_word.group().casefold() in STOP_WORDS)
