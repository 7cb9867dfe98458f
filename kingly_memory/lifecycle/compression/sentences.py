"""Where the sentences of a text begin and end: prose, lists, headings, tables, conversations and code. Pure.

A doubtful full stop ends nothing: two sentences taken for one lose nothing, half a sentence is wrong. Time is linear in
the text, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kingly_memory.writing import STOP_WORDS


class Form(StrEnum):
    """What a sentence stands in."""

    PROSE = "prose"
    ITEM = "item"
    HEADING = "heading"
    ROW = "row"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Sentence:
    """`text[start:end]`, without white space around it and without the mark of its list item, heading or quotation. A
    block of code is one."""

    start: int
    end: int
    form: Form

    def of(self, text: str) -> str:
        return text[self.start : self.end]


def sentences(text: str) -> list[Sentence]:
    """The sentences of a text in its order. They do not overlap, and between them stand only white space and marks."""
    return [one for block in _blocks(text) for one in _split(text, block)]


# --- blocks: lines that belong together -----------------------------------------------------------------------------

_INDENT = re.compile(r"[ \t]*")
_QUOTE = re.compile(r"(?:>[ \t]?){1,20}")
_HEADING = re.compile(r"#{1,6}[ \t]+")
_ITEM = re.compile(r"(?:[-*+•‣·–][ \t]+|\(?(?:\d{1,3}|[a-z])[.)][ \t]+)(?:\[[ xX]\][ \t]+)?")
_LABEL = re.compile(r"\*{0,2}(?:[^\W\d_][\w.-]{0,30}|[A-Z][\w.-]{0,30}(?: [\w.-]{1,30}){1,3})\*{0,2}:(?=[ \t*]|$)")
"""A speaker, or a word like "error", in front of what is said."""
_STAMP = re.compile(r"\[?\d{1,4}[-:/.]\d{1,2}[-:/.T]\d")
"""A line of a log begins with its time."""
_WORD = re.compile(r"[^\W_]")
_FENCE = re.compile(r"`{3,}(?=[^`]*$)|~{3,}")
_CODE_INDENT = 4
_CODE = re.compile(r"\w\(|\w ?[-+*/:<>=!]?= ?\S|[{};]\s*$|::|->|^\s*[$@]")
"""What an indented line of code has, and one of prose has not."""
_WRAPPED = 50
"""A line at least so long may go on in the next one although that begins with a capital."""
_ENDINGS = ".!?…。！？｡؟।:"
_CLOSERS = "\"'”’»)]}*_`」』）】》〉›"


@dataclass(slots=True)
class _Block:
    start: int
    end: int
    form: Form
    last_line: int
    """Where its last line begins."""
    is_closed: bool = False
    """A fence has ended it."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line, `start` and `end` without the white space around it."""

    raw: str
    start: int
    end: int
    after_blank: bool

    @property
    def is_blank(self) -> bool:
        return self.start == self.end

    @property
    def is_indented(self) -> bool:
        lead = self.raw[: len(self.raw) - len(self.raw.lstrip())]
        return "\t" in lead or len(lead) >= _CODE_INDENT


def _lines(text: str) -> Iterator[_Line]:
    at = 0
    after_blank = True
    for raw in text.splitlines(keepends=True):
        start = at + len(raw) - len(raw.lstrip())
        line = _Line(raw, start, start + len(raw.strip()), after_blank)
        yield line
        after_blank = line.is_blank
        at += len(raw)


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    fence = ""
    for line in _lines(text):
        if fence and block is not None:
            block.end = block.end if line.is_blank else line.end
            block.is_closed = _closes(line, fence)
            fence = "" if block.is_closed else fence
            continue
        opening = _FENCE.match(text, line.start, line.end)
        fence = opening.group() if opening else ""
        begun = _Block(line.start, line.end, Form.CODE, line.start) if fence else _begun(text, line, block)
        if begun is None and block is not None:
            block.last_line, block.end = line.start, line.end
        elif begun is not None:
            if block is not None:
                yield block
            block = begun if begun.start < begun.end else None
    if block is not None:
        yield block


def _closes(line: _Line, fence: str) -> bool:
    body = line.raw.strip()
    return body.startswith(fence) and not body.strip(fence[0])


def _begun(text: str, line: _Line, block: _Block | None) -> _Block | None:
    """The block that a line begins, an empty one for a line without words; None when it goes on with the one before."""
    new = _new(text, line.start, line.end)
    if block is not None and block.form is Form.CODE:
        return None if line.is_indented and not line.is_blank and not block.is_closed else new
    if line.after_blank and new.start == line.start and line.is_indented and _CODE.search(line.raw):
        return _Block(line.start, line.end, Form.CODE, line.start)
    if block is None or new.start > line.start or new.start == new.end or new.form is not Form.PROSE:
        return new
    if block.form in (Form.HEADING, Form.ROW) or _LABEL.match(text, line.start, line.end):
        return new
    if _STAMP.match(text, line.start, line.end):
        return new
    before = text[block.last_line : block.end]
    is_ended = before.rstrip(_CLOSERS)[-1:] in tuple(_ENDINGS)
    return new if is_ended or (len(before) < _WRAPPED and not text[line.start].islower()) else None


def _new(text: str, start: int, end: int) -> _Block:
    form = Form.PROSE
    quote = _QUOTE.match(text, start, end)
    begin = quote.end() if quote else start
    if heading := _HEADING.match(text, begin, end):
        begin, form = heading.end(), Form.HEADING
    elif item := _ITEM.match(text, begin, end):
        begin, form = item.end(), Form.ITEM
    elif text[begin : begin + 1] == "|":
        form = Form.ROW
    begin = _INDENT.match(text, begin, end).end()  # type: ignore[union-attr]  # it matches the empty string too
    if not _WORD.search(text, begin, end):
        begin = end
    return _Block(begin, end, form, begin)


# --- sentences of one block -----------------------------------------------------------------------------------------

_STOPS = ".!?…。！？｡؟।"
_WIDE = "。！？｡"
_STOP = re.compile(rf"[{_STOPS}]+|`")
_OPENERS = "\"'“‘«([{*_`「『（【《〈‹"
_INLINE_CODE = 200
"""Characters within which code in a line is closed again."""
_WORD_READ = 40
"""Characters in front of a full stop that are looked at."""

_NEVER_LAST = frozenset(
    """mr mrs ms mx dr prof gen sen capt lt sgt st hon messrs vs cf eg ie viz ca approx resp incl excl esp e.g i.e a.k.a
    z.b d.h u.a bzw ggf nr""".split()
)
"""Abbreviations with something after them."""
_MAYBE_LAST = frozenset(
    """etc inc ltd co corp llc plc bros jr sr al ibid am pm ph.d m.sc b.sc usw avg min max std dev temp ref refs misc
    est dept fig figs eq eqs vol vols pp ed eds sec secs ch art app para tab tel mins hr hrs
    jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun""".split()
)
"""Abbreviations that a sentence may end with: it does when a capital follows."""
_BEFORE_NUMBERS = frozenset("no nos p v ver rev".split())
"""Not the end of a sentence when a number follows."""
_NEXT_WORD = re.compile(r"[^\W\d_]{1,20}(?![\w.])")
_ENUMERATOR = re.compile(r"\W*(?:\d{1,3}|[^\W\d_])\W*")


def _split(text: str, block: _Block) -> Iterator[Sentence]:
    if block.form in (Form.CODE, Form.ROW):
        yield Sentence(block.start, block.end, block.form)
        return
    start = block.start
    told = _Told(text, block)
    at = start
    while (found := _STOP.search(text, at, block.end)) is not None:
        at = found.end()
        if found.group() == "`":
            closing = text.find("`", at, min(at + _INLINE_CODE, block.end))
            at = closing + 1 if closing >= 0 else at
            continue
        end = _past(text, at, block.end, _CLOSERS)
        if end == block.end:
            break
        if told.since(start, found.start()) and _ends(text, start, found, end, block.end):
            yield Sentence(start, end, block.form)
            start = at = _past_space(text, end, block.end)
    if told.since(start, block.end):
        yield Sentence(start, block.end, block.form)


class _Told:
    """Whether a word was said between two places; asked in ascending order, it looks at each character once."""

    def __init__(self, text: str, block: _Block) -> None:
        self._text = text
        self._block = block
        self._word = -1

    def since(self, start: int, stop: int) -> bool:
        if self._word < start:
            found = _WORD.search(self._text, start, self._block.end)
            self._word = found.start() if found else self._block.end
        return self._word < stop


def _ends(text: str, start: int, stop: re.Match[str], end: int, limit: int) -> bool:
    """Whether a run of stops, closed at `end`, is the end of the sentence that began at `start`."""
    run = stop.group()
    following = text[end]
    closed = end > stop.end()
    if any(one in _WIDE for one in run):
        return not closed or following.isspace() or following in _OPENERS or following in _WIDE
    if not following.isspace():
        return False
    upcoming = _past(text, _past_space(text, end, limit), limit, _OPENERS)
    then = text[upcoming] if upcoming < limit else ""
    if closed and then.islower():
        return False
    if "!" in run or "?" in run:
        return True
    if run != ".":
        return not then.islower()
    return _full_stop_ends(text, start, stop.start(), then, _goes_on_anew(text, upcoming))


def _goes_on_anew(text: str, at: int) -> bool:
    """Whether a word like The or We follows, with its capital: no name begins with one."""
    word = _NEXT_WORD.match(text, at)
    return word is not None and word.group()[0].isupper() and word.group().casefold() in STOP_WORDS


def _full_stop_ends(text: str, start: int, stop: int, then: str, is_new: bool) -> bool:
    if stop - start < _WORD_READ and _ENUMERATOR.fullmatch(text, start, stop):
        return False
    word = _word_before(text, start, stop)
    bare = word.casefold()
    if bare in _NEVER_LAST or (bare in _BEFORE_NUMBERS and then.isdigit()):
        return False
    if len(word) > 1 and all(len(one) == 1 and one.isupper() for one in word.split(".")):
        return is_new
    if bare in _MAYBE_LAST or (len(bare) > 1 and all(len(one) == 1 and one.isalpha() for one in bare.split("."))):
        return not then.islower() and not then.isdigit()
    if word.isdigit() and then.isdigit():
        return False
    return is_new or not _is_initial(text, start, stop, word)


def _word_before(text: str, start: int, stop: int) -> str:
    """The run of letters, digits and inner full stops in front of a place."""
    window = text[max(start, stop - _WORD_READ) : stop]
    pieces = window.split()
    return pieces[-1].lstrip(_OPENERS) if pieces and not window[-1:].isspace() else ""


def _is_initial(text: str, start: int, stop: int, word: str) -> bool:
    """A capital alone after a name: George W. Bush."""
    if len(word) != 1 or not word.isupper() or word == "I":
        return False
    before = text[max(start, stop - _WORD_READ) : stop - 1].split()
    return bool(before) and before[-1][:1].isupper()


def _past(text: str, at: int, limit: int, characters: str) -> int:
    while at < limit and text[at] in characters:
        at += 1
    return at


def _past_space(text: str, at: int, limit: int) -> int:
    while at < limit and text[at].isspace():
        at += 1
    return at
