"""What a language model is asked to do with texts, and how its replies are read. Pure.

Texts are quoted, so that none can step out of its place. Replies come in both formats of seed 000, whatever markup a
model puts around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kingly_memory.text.prompts import MATERIAL, READ, answer_of, quoted
from kingly_memory.text.redaction import redact
from kingly_memory.validation import mended

NO_PATTERN, DUPLICATE = "NO_PATTERN", "DUPLICATE"
HEAD, TAIL = 16_000, 8_000
"""Characters that a model is shown of the beginning and of the end of a text."""
ENTRY_SHOWN = 1_000
"""Characters of one experience or one piece of knowledge."""

_KEPT = {
    "light": "Leave out only what is said twice or says nothing.",
    "medium": "Keep the key points and leave out the rest.",
    "aggressive": "Keep only what nobody could do without.",
}

_OUTCOME = """\
Turn the report of a finished task into something worth remembering.
{quoted} {kept} Keep numbers, names and versions exactly as they are. Add nothing.

Report: {material}

Answer with these four sections and nothing else:
CORE_STRATEGY: what was done, in one sentence
KEY_FACTS: what should be known later, a list, {most} entries at most, each beginning with "- "
CONSTRAINTS: limits and requirements, a list, or none
REUSABLE_PATTERN: a rule for cases like it, in one sentence, or none"""

_CONVERSATION = """\
Note what is worth remembering of a conversation. Greetings, thanks and digressions are not.
{quoted} {kept} Keep numbers, names and versions exactly as they are. Add nothing.{focus}

Conversation: {material}

Answer with these five sections and nothing else, each entry of a list beginning with "- ":
DECISIONS_MADE: what was decided and why, a list, or none
FACTS_ESTABLISHED: what turned out to be so, a list, {most} entries at most, or none
PATTERNS_IDENTIFIED: rules that will hold again, a list, or none
CONSTRAINTS_DISCOVERED: limits and requirements, a list, or none
SUMMARY: the essence in one paragraph"""

_HEURISTIC = """\
Find the rule that several experiences have in common.
{quoted}

Experiences:
{material}

If they show one, answer with that one sentence and nothing else:
When <situation>, then <action>, because <reason>.
If they show none, answer with this one word and nothing else: NO_PATTERN"""

_MERGE = """\
Join a new piece of knowledge to what was known before it, without saying anything twice.
{quoted} Keep numbers, names and versions exactly as they are. Add nothing.

New: {new}

Known:
{material}

If the new piece says nothing that is not known, answer with this one word and nothing else: DUPLICATE
Otherwise answer with one statement that says all of it, and nothing else."""


# --- the questions --------------------------------------------------------------------------------------------------


def outcome(text: str, level: str, most_facts: int, *, is_here: bool) -> str:
    """The question what is to be kept of an outcome. `is_here`: the model is on this machine and may see secrets."""
    return _OUTCOME.format(quoted=MATERIAL, kept=_KEPT[level], most=most_facts, material=_excerpt(text, is_here))


def conversation(text: str, level: str, most_facts: int, *, focus: str, is_here: bool) -> str:
    """The question what a conversation taught, above all about its focus."""
    emphasis = f"\nAbove all, note what it says about: {_entry(focus, is_here)}" if focus else ""
    material = _excerpt(text, is_here)
    return _CONVERSATION.format(quoted=MATERIAL, kept=_KEPT[level], focus=emphasis, most=most_facts, material=material)


def heuristic(experiences: Sequence[str], *, is_here: bool) -> str:
    """The question for a rule; of many experiences the last twenty are shown."""
    numbered = enumerate(experiences[-20:], 1)
    listed = "\n".join(f"{number}. {_entry(one, is_here)}" for number, one in numbered)
    return _HEURISTIC.format(quoted=MATERIAL, material=listed)


def merge(new: str, statements: Sequence[str], *, is_here: bool) -> str:
    """The question for one statement out of several that are alike."""
    listed = "\n".join(f"- {_entry(one, is_here)}" for one in statements)
    return _MERGE.format(quoted=MATERIAL, new=_entry(new, is_here), material=listed)


def _excerpt(text: str, is_here: bool) -> str:
    """The text in quotation marks; of a long one the beginning and the end."""
    shown = text if is_here else redact(text).text
    if len(shown) <= HEAD + TAIL:
        return quoted(shown, len(shown))
    return (
        f"{quoted(shown[:HEAD], HEAD)} ({len(shown) - HEAD - TAIL:,} characters are left out) "
        f"{quoted(shown[-TAIL:], TAIL)}"
    )


def _entry(text: str, is_here: bool) -> str:
    return quoted(text if is_here else redact(text).text, ENTRY_SHOWN)


# --- the replies ----------------------------------------------------------------------------------------------------

MOST_ENTRIES = 20
"""Of one list."""
STATEMENT_LIMIT = 2_000
"""Characters of a rule or a merged statement; a reply that is longer is none."""

_SECTIONS = {
    name: field
    for field, names in {
        "summary": "core_strategy summary",
        "key_facts": "key_facts facts_established facts",
        "constraints": "constraints_discovered constraints",
        "patterns": "reusable_patterns reusable_pattern patterns_identified patterns",
        "decisions": "decisions_made key_decisions decisions",
    }.items()
    for name in names.split()
}
"""What models call the sections, and the field of `CompressedMemory` that each fills."""
_MARKUP = " \t\r\n#*_`\"'>|"
_NAMES = "|".join(name.replace("_", "[ _-]") for name in _SECTIONS)
_HEADER = re.compile(
    rf"[\s#*_`\"'>|•\d.)-]{{0,20}}({_NAMES})[*_`\"]{{0,4}}\s?(?:\([^()]{{0,80}}\))?[*_`\"]{{0,4}}\s{{0,5}}"
    r"(?:[:=|][*_`\"]{0,4}|[-–—](?=\s)|$)(.*)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[-*+•‣·–]|\d{1,2}[.)])\s+|[-•‣·](?=[^\W\d])")
_NOTHING = re.compile(
    r"[(\[]?(?:none(?: \w{1,20}){0,3}|n/?a|nothing|null|not applicable|[-–—.]{0,3})[)\]]?\.?", re.IGNORECASE
)


def extract(reply: object) -> dict[str, list[str]]:
    """What a reply says, by the field that it fills: those sections that have anything in them. Nothing raises."""
    sections: dict[str, list[str]] = {}
    for section, entry in _sections(_answer(reply)) if isinstance(reply, str) else ():
        plain = _plain(entry)
        if not _NOTHING.fullmatch(plain) and plain not in sections.setdefault(section, []):
            sections[section].append(plain)
    return sections


def statement(reply: object, *, but_for: str) -> str | None:
    """The one statement of a reply in one line; None when there is none, or far too much of it, or it is that word or
    begins with it and goes on to explain it."""
    if not isinstance(reply, str) or is_word(reply, but_for):
        return None
    text = _answer(reply)
    rest = text.lstrip(_MARKUP).removeprefix(but_for)
    if rest != text.lstrip(_MARKUP) and rest.lstrip("*_`\"'")[:1] in tuple(":.,;-–—(\n"):
        return None
    plain = _plain(text)
    return plain if plain and len(plain) <= STATEMENT_LIMIT else None


def is_word(reply: object, word: str) -> bool:
    """Whether a word like NO_PATTERN is the whole reply, markup and punctuation apart."""
    return isinstance(reply, str) and _letters(_answer(reply)) == _letters(word)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Each entry with its section. A header's own line may hold text already, and an entry goes on in lines that are
    indented."""
    section, entry = "", ""
    for line in text.splitlines():
        header = _HEADER.fullmatch(line)
        content = (line if header is None else header[2]).strip()
        bullet = _BULLET.match(content)
        if header is None and bullet is None and content and line[:1].isspace():
            entry = f"{entry} {content}"
            continue
        if section and entry:
            yield section, entry
        section = section if header is None else _SECTIONS[re.sub(r"[ -]", "_", header[1].casefold())]
        entry = content[bullet.end() :] if bullet else content
    if section and entry:
        yield section, entry


def _answer(reply: str) -> str:
    return answer_of(mended(reply[:READ]))


def _plain(text: str) -> str:
    """In one line, without the marks around all of it."""
    plain = " ".join(text.split())
    for opening, closing in (("**", "**"), ("__", "__"), ("*", "*"), ("_", "_"), ('"', '"'), ("`", "`"), ("“", "”")):
        inner = plain[len(opening) : -len(closing)]
        if inner and plain == f"{opening}{inner}{closing}" and opening not in inner and closing not in inner:
            plain = inner.strip()
    return plain


def _letters(text: str) -> str:
    return "".join(one for one in text.casefold() if one.isalnum())
