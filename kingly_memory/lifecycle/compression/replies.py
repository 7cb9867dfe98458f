"""How the replies of a language model are read: both formats of seed 000, whatever markup they come in. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kingly_memory.intake import mended
from kingly_memory.lifecycle.compression.rules import ENTRY_LIMIT, shortened

READ = 40_000
"""Characters of a reply that are read."""
MOST_ENTRIES = 20
"""Of one list."""
STATEMENT_LIMIT = 2_000
"""Characters of a rule or a merged statement; a reply that is longer is none."""


class Section(StrEnum):
    SUMMARY = "summary"
    FACTS = "facts"
    CONSTRAINTS = "constraints"
    PATTERNS = "patterns"
    DECISIONS = "decisions"


@dataclass(frozen=True, slots=True)
class Extract:
    """What a reply says, section by section. The summary is empty when it has none."""

    summary: str
    facts: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()


def extract(reply: object) -> Extract | None:
    """What a reply says; None when it has no section with anything in it. Nothing raises."""
    if not isinstance(reply, str):
        return None
    text = _answer(reply)
    found: dict[Section, list[str]] = {section: [] for section in Section}
    for section, entry in _from_json(text) or _from_lines(text):
        plain = _plain(entry)
        if not _NOTHING.fullmatch(plain) and plain not in found[section]:
            found[section].append(plain)
    if not any(found.values()):
        return None
    return Extract(
        " ".join(found[Section.SUMMARY]),
        _entries(found[Section.FACTS]),
        _entries(found[Section.CONSTRAINTS]),
        _entries(found[Section.PATTERNS]),
        _entries(found[Section.DECISIONS]),
    )


def statement(reply: object) -> str | None:
    """The one statement of a reply in one line; None when there is none, or far too much of it."""
    text = _plain(_answer(reply)) if isinstance(reply, str) else ""
    return text if text and len(text) <= STATEMENT_LIMIT else None


def is_word(reply: object, word: str) -> bool:
    """Whether a word like NO_PATTERN is the whole reply, markup and punctuation apart."""
    return isinstance(reply, str) and _letters(_answer(reply)) == _letters(word)


def begins_with(reply: object, word: str) -> bool:
    """Whether a reply begins with that word and goes on to explain it: neither an answer nor a statement."""
    text = _answer(reply).lstrip(_MARKUP) if isinstance(reply, str) else ""
    return text.startswith(word) and text[len(word) :].lstrip("*_`\"'")[:1] in tuple(":.,;-–—(\n")


# --- sections -------------------------------------------------------------------------------------------------------

_SECTIONS = {
    "core_strategy": Section.SUMMARY,
    "summary": Section.SUMMARY,
    "key_facts": Section.FACTS,
    "facts_established": Section.FACTS,
    "facts": Section.FACTS,
    "constraints_discovered": Section.CONSTRAINTS,
    "constraints": Section.CONSTRAINTS,
    "reusable_patterns": Section.PATTERNS,
    "reusable_pattern": Section.PATTERNS,
    "patterns_identified": Section.PATTERNS,
    "patterns": Section.PATTERNS,
    "decisions_made": Section.DECISIONS,
    "key_decisions": Section.DECISIONS,
    "decisions": Section.DECISIONS,
}
_MARKUP = " \t\r\n#*_`\"'>|"
_NAMES = "|".join(name.replace("_", "[ _-]") for name in _SECTIONS)
_HEADER = re.compile(
    rf"[\s#*_`\"'>|•-]{{0,20}}(?:\d{{1,2}}[.)]\s{{0,5}})?[*_`\"]{{0,4}}({_NAMES})[*_`\"]{{0,4}}\s?(?:\([^()]{{0,80}}\))?"
    r"[*_`\"]{0,4}\s{0,5}(?:[:=|][*_`\"]{0,4}|[-–—](?=\s)|$)(.*)",
    re.IGNORECASE,
)
_LOUD = "|".join(name.upper() for name in _SECTIONS if "_" in name)
_INSIDE_A_LINE = re.compile(rf"(?<![#>|•*-])(?<!\d[.)])\s(?=(?:\d{{1,2}}[.)]\s)?[*_]{{0,3}}(?:{_LOUD})[*_]{{0,3}}:)")
_BULLET = re.compile(r"(?:[-*+•‣·–]|\(?\d{1,2}[.)])\s+|[-•‣·](?=[^\W\d])")
_ASIDE = re.compile(r"\([^()]{0,80}\)")
"""What a header repeats of the question: (max 5)."""
_NEXT_BULLET = re.compile(r"\s[-•‣*]\s")
_NOTHING = re.compile(
    r"[(\[]?(?:none(?: (?:were|was|are|is|explicitly|yet|specifically)){0,2}"
    r"(?: (?:identified|found|stated|mentioned|noted|discovered|given|specified|apparent|known|made|established))?"
    r"|n/?a|nothing|null|not applicable|-|–|—|\.{3}|)[)\]]?\.?",
    re.IGNORECASE,
)
_PAIRS = ("**", "__", "*", "_", '"', "`", "“”")


def _from_json(text: str) -> list[tuple[Section, str]]:
    """The sections of an object; none when the text is no object."""
    if not text.startswith("{"):
        return []
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return list(_of_object(said)) if isinstance(said, dict) else []


def _of_object(said: Mapping[str, object]) -> Iterator[tuple[Section, str]]:
    for name, value in said.items():
        section = _SECTIONS.get(re.sub(r"[ -]", "_", name.casefold()))
        for entry in value if isinstance(value, list) else [value]:
            if section is not None and isinstance(entry, str):
                yield section, entry


def _from_lines(text: str) -> list[tuple[Section, str]]:
    """A header's own line may hold text already. An entry goes on in lines that are indented, a summary in all."""
    found: list[tuple[Section, str]] = []
    section: Section | None = None
    for line in _lines(text):
        header = _HEADER.fullmatch(line)
        if header is not None:
            section = _SECTIONS[re.sub(r"[ -]", "_", header[1].casefold())]
            found += ((section, one) for one in _in_header(header[2].strip()))
        elif section is not None and line.strip():
            bullet = _BULLET.match(line.strip())
            entry = line.strip()[bullet.end() :] if bullet else line.strip()
            goes_on = bullet is None and line[:1].isspace() and found and found[-1][0] is section
            if goes_on:
                found[-1] = (section, f"{found[-1][1]} {entry}")
            else:
                found.append((section, entry))
    return found


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.strip().startswith("```"):
            yield from _INSIDE_A_LINE.split(line)


def _in_header(text: str) -> list[str]:
    """The entries that stand behind a header: one, or a list in one line."""
    bullet = _BULLET.match(text)
    if bullet is None:
        return [text] if text and not _ASIDE.fullmatch(text) else []
    return _NEXT_BULLET.split(text[bullet.end() :])


# --- one text -------------------------------------------------------------------------------------------------------


def _answer(reply: str) -> str:
    """The reply without what a model thought aloud before it, and without the fence around all of it."""
    text = mended(reply[:READ]).rpartition("</think>")[2].partition("<think>")[0].strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text.partition("\n")[2][:-3].strip()
    return text


def _plain(text: str) -> str:
    """In one line, without the marks around all of it."""
    plain = " ".join(text.split())
    for marks in _PAIRS:
        opening, closing = (marks[0], marks[1]) if marks == "“”" else (marks, marks)
        inner = plain[len(opening) : -len(closing)]
        if inner and plain == f"{opening}{inner}{closing}" and opening not in inner and closing not in inner:
            plain = inner.strip()
    return plain


def _entries(several: list[str]) -> tuple[str, ...]:
    return tuple(shortened(one, ENTRY_LIMIT) for one in several[:MOST_ENTRIES])


def _letters(text: str) -> str:
    return "".join(one for one in text.casefold() if one.isalnum())
