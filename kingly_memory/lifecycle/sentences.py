"""Where the sentences of a text begin and end: prose, lists, headings, tables, conversations and code. Pure.

A doubtful full stop ends nothing: two sentences taken for one lose nothing, half a sentence is wrong. Time is linear in
the text, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from kingly_memory.dataclass import dataclass
from kingly_memory.writing import STOP_WORDS


class Form(StrEnum):
    """What a sentence stands in."""

    PROSE = "prose"
    ITEM = "item"
    HEADING = "heading"
    ROW = "row"
    CODE = "code"


class Sentence(NamedTuple):
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
    """Lines that belong together; `last_line` is where the last one begins."""

    start: int
    end: int
    form: Form
    last_line: int


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    fence = ""
    after_blank = True
    at = 0
    for raw in text.splitlines(keepends=True):
        body = raw.strip()
        start = at + len(raw) - len(raw.lstrip())
        end = start + len(body)
        at += len(raw)
        if fence and block is not None:
            block.end = end if body else block.end
            if body.startswith(fence) and not body.strip(fence[0]):
                yield block
                block, fence = None, ""
            continue
        lead = raw[: len(raw) - len(raw.lstrip())]
        is_indented = bool(body) and ("\t" in lead or len(lead) >= _CODE_INDENT)
        opening = _FENCE.match(text, start, end)
        new = _begun(text, start, end)
        if block is not None and not opening and _goes_on(text, block, new, start, is_indented=is_indented):
            block.last_line, block.end = start, end
        else:
            if block is not None:
                yield block
            is_code = after_blank and is_indented and new.start == start and _CODE.search(raw)
            if opening or is_code:
                new = _Block(start, end, Form.CODE, start)
            fence = opening.group() if opening else ""
            block = new if new.start < new.end else None
        after_blank = not body
    if block is not None:
        yield block


def _begun(text: str, start: int, end: int) -> _Block:
    """The block that a line would begin, without its mark; an empty one for a line without words."""
    form = Form.PROSE
    quote = _QUOTE.match(text, start, end)
    begin = quote.end() if quote else start
    if heading := _HEADING.match(text, begin, end):
        begin, form = heading.end(), Form.HEADING
    elif item := _ITEM.match(text, begin, end):
        begin, form = item.end(), Form.ITEM
    elif text.startswith("|", begin):
        form = Form.ROW
    begin = _past(text, begin, end, " \t".__contains__)
    return _Block(begin if _WORD.search(text, begin, end) else end, end, form, start)


def _goes_on(text: str, block: _Block, new: _Block, start: int, *, is_indented: bool) -> bool:
    """Whether a line goes on with the block of the line before."""
    if block.form is Form.CODE:
        return is_indented
    is_plain = new.form is Form.PROSE and start == new.start < new.end
    if not is_plain or block.form in (Form.HEADING, Form.ROW):
        return False
    if _LABEL.match(text, start, new.end) or _STAMP.match(text, start, new.end):
        return False
    before = text[block.last_line : block.end]
    is_ended = before.rstrip(_CLOSERS)[-1:] in tuple(_ENDINGS)
    return not is_ended and (len(before) >= _WRAPPED or text[start].islower())


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
    start = at = read = block.start
    is_said = False
    while (found := _STOP.search(text, at, block.end)) is not None:
        at = found.end()
        if found.group() == "`":
            closing = text.find("`", at, min(at + _INLINE_CODE, block.end))
            at = closing + 1 if closing >= 0 else at
            continue
        end = _past(text, at, block.end, _CLOSERS.__contains__)
        if end == block.end:
            break
        # Each character is looked at once for whether a word was said since the last sentence.
        is_said = is_said or _WORD.search(text, read, found.start()) is not None
        read = found.start()
        if is_said and _ends(text, start, found, end, block.end):
            yield Sentence(start, end, block.form)
            start = at = read = _past(text, end, block.end, str.isspace)
            is_said = False
    if is_said or _WORD.search(text, read, block.end):
        yield Sentence(start, block.end, block.form)


def _ends(text: str, start: int, stop: re.Match[str], end: int, limit: int) -> bool:
    """Whether a run of stops, closed at `end`, is the end of the sentence that began at `start`."""
    run = stop.group()
    following = text[end]
    closed = end > stop.end()
    if any(one in _WIDE for one in run):
        return not closed or following.isspace() or following in _OPENERS or following in _WIDE
    if not following.isspace():
        return False
    upcoming = _past(text, _past(text, end, limit, str.isspace), limit, _OPENERS.__contains__)
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


def _past(text: str, at: int, limit: int, is_one: Callable[[str], bool]) -> int:
    """The first place from there on that holds no such character."""
    while at < limit and is_one(text[at]):
        at += 1
    return at
