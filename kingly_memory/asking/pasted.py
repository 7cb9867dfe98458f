"""A pasted text taken apart: sentences that somebody says, and lines of logs, traces, files and records.

Lines are told apart by how they look alone, in one pass. What is taken for the wrong kind costs a few words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_SYMBOLS = 0.12
"""Share of signs, a digit counting half, from which a line is no prose: a date does not make a question a log line."""
_MOST = 256
"""Sentences that are kept at either end: only there is a question looked for."""
_WEIGHED = 400
"""Characters at the beginning of a line that tell what it is."""
LINES = 512
"""Lines that are looked at, half of them at either end: thousands of short ones would keep others waiting."""
_INDENTED = 4

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_LABEL = re.compile(
    r"\W{0,4}(?:(?P<asked>user(?:[ _]query)?|human|question|query|request|me|q)"
    r"|assistant|system|ai|bot|model|a|answer|from|to|subject|date|re)\W{0,3}[:>](?:\W{0,3}(?=\w)|\W*$)",
    re.IGNORECASE,
)
_LOGGED = re.compile(
    r"\W{0,2}(?:\d{4}[-/.]\d\d|\d{1,2}:\d\d:\d\d|(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b"
    r"|File \"|at [\w.$<>]+\(|Traceback |Caused by: |[\w.]+(?:Error|Exception)\b)"
    r"|\s*(?:import|from|def|class|return|const|let|var|public|private|func|fn|package|using|yield|continue)\b"
    r"[^.?!]*(?:[;:{)\]]|\w)$"
)
_HEADER = re.compile(
    r"(?:Author|AuthorDate|Commit|CommitDate|Committer|Merge|Host|Server|Status|Location|Connection"
    r"|[A-Z][a-z]*(?:-[A-Za-z]+)+): *\S.*(?<![?？])$"
)
"""Beside such lines: of a commit, of a reply."""
_LISTED = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)]|#{1,6})\s")
_QUOTED_QUESTION = re.compile(r'"([^"]*[?？])\s*"')
"""In a record: what somebody said to a program."""
_TAG = re.compile(r"</?[A-Za-z][\w:-]{0,40}>")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bSt\.)[\"')\]]{0,2}\s|(?<=[。！？])"
)


class Sentence(NamedTuple):
    """`paragraph` counts from 0. `turn` is whose it is in a chat: True the asking one's, False another's, else None.
    `listed`: an item of a list, or a heading. `beside`: next to lines that nobody says. `alone`: in its paragraph."""

    text: str
    paragraph: int
    turn: bool | None
    listed: bool
    beside: bool
    alone: bool


@dataclass(frozen=True, slots=True)
class Pasted:
    """Sentences in their order, and the `material`: lines that nobody says."""

    sentences: Sequence[Sentence]
    material: Sequence[str]


def taken_apart(text: str) -> Pasted:
    lines = text.splitlines()
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "", *lines[-LINES // 2 :]]
    blocks = list(_blocks(lines))
    kinds = [False, *(is_material for is_material, _ in blocks), False]
    sentences: list[Sentence] = []
    material: list[str] = []
    turn: bool | None = None
    for number, (is_material, lines) in enumerate(blocks):
        if is_material:
            material += lines
            quoted = [one.strip() for line in lines for one in _QUOTED_QUESTION.findall(line)]
            sentences += [Sentence(one, number, turn, listed=False, beside=True, alone=False) for one in quoted]
            continue
        beside = kinds[number] or kinds[number + 2]
        found = [(one, whose, listed) for said, whose, listed in _said(lines, turn) for one in _sentences(said)]
        turn = (found[-1][1] if found else turn) or None  # an asking turn goes on after a blank line
        sentences += [Sentence(one, number, whose, listed, beside, len(found) == 1) for one, whose, listed in found]
    ends = sentences if len(sentences) <= 2 * _MOST else sentences[:_MOST] + sentences[-_MOST:]
    return Pasted(ends, material)


def _blocks(lines: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Runs of lines of one kind, with paragraphs apart. A fence that nothing closes fences nothing."""
    fences = [at for at, line in enumerate(lines) if _FENCE.match(line)]
    closed = set(fences[: len(fences) // 2 * 2])
    materials = _materials(lines)
    block: list[str] = []
    kind = fenced = False
    for at, line in enumerate(lines):
        is_blank = not line.strip() or at in closed
        fenced ^= at in closed
        is_material = fenced or materials[at]
        if block and (is_blank or is_material != kind):
            yield kind, block
            block = []
        if not is_blank:
            kind = is_material
            block.append(line)
    if block:
        yield kind, block


def _materials(lines: Sequence[str]) -> list[bool]:
    """Which lines nobody says. A header is told by what stands right above or below it."""
    materials = [_is_material(line) for line in lines]
    headers = [at for at, line in enumerate(lines) if _HEADER.match(line[:_WEIGHED])]
    for at in headers:
        materials[at] |= at > 0 and materials[at - 1]
    for at in reversed(headers):
        materials[at] |= at + 1 < len(lines) and materials[at + 1]
    return materials


def _is_material(line: str) -> bool:
    if not line.strip():
        return False
    beginning = line[:_WEIGHED]
    if beginning.startswith((">", "|")) or _LOGGED.match(beginning):
        return True
    if beginning.startswith((" " * _INDENTED, "\t")) and not _LISTED.match(beginning):
        return True
    bare = _LABEL.sub("", _TAG.sub("", beginning), count=1)
    signs = sum(not (sign.isalnum() or sign.isspace() or sign in ",.?!'’-") for sign in bare)
    return signs + sum(map(str.isdigit, bare)) / 2 >= _SYMBOLS * max(len(bare), 1)


def _said(lines: Sequence[str], turn: bool | None) -> Iterator[tuple[str, bool | None, bool]]:
    """What stands in a paragraph, turn by turn and item by item; lines that only go on are joined."""
    going_on: list[str] = []
    was_listed = False
    for line in lines:
        label = _LABEL.match(line)
        listed = bool(_LISTED.match(line))
        if going_on and (label is not None or listed or was_listed):
            yield " ".join(going_on), turn, was_listed
            going_on = []
        if label is not None:
            turn = bool(label.group("asked"))
        going_on.append(_TAG.sub(" ", line[label.end() if label else 0 :]).strip())
        was_listed = listed
    yield " ".join(going_on), turn, was_listed


def _sentences(text: str) -> Iterator[str]:
    for one in _SENTENCE_END.split(" ".join(text.split())):
        said = one.strip().lstrip("-*•#>|_ ")
        if said:
            yield said
