"""Where a long text is cut into passages: at headings, paragraphs and sentences, overlapping by a sentence, and the
headings that each stands under.

A memory is found by its best passage, so that a fact counts as much at the end of a long note as at its beginning.
"""

from __future__ import annotations

import re

LONGEST = 1_200
"""Characters of a passage. A text that is no longer is its own passage."""
MEANT = 400
"""And of one that is found by meaning: a vector of ten facts says little of each of them."""
PASSAGE = "passage"
"""The score of a hit that says where its best passage begins in its content."""
OVERLAP = 0.25
"""Of the characters of a passage, what it shares at most with the next one."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")
_CUTS = (re.compile(r"\n(?=#{1,6} )"), re.compile(r"\n\s*\n"), _SENTENCE, re.compile(r"\s"))
"""Where to cut, the best place first."""
_HEADING = re.compile(r"^(#{1,6}) +(\S.*)$", re.MULTILINE)


def passages(text: str, longest: int = LONGEST) -> list[tuple[int, int]]:
    """Where each passage begins and ends, in order; none for a text that is its own passage."""
    found: list[tuple[int, int]] = []
    begin = 0
    while len(text) - begin > longest:
        end = begin + longest
        for cut in _CUTS:
            places = [match.end() for match in cut.finditer(text, begin + longest // 2, end)]
            if places:
                end = places[-1]
                break
        found.append((begin, end))
        # The last sentence, which a fact may begin with, stands in the next passage too.
        sentences = [
            match.end() for match in _SENTENCE.finditer(text, end - int(longest * OVERLAP), end) if match.end() < end
        ]
        begin = sentences[-1] if sentences else end
    return [*found, (begin, len(text))] if found else []


def searchable_passages(text: str, longest: int = LONGEST) -> list[tuple[int, str]]:
    """Where each passage begins, and what it is found by: the Markdown headings that it stands under, the outermost
    first, and on the next line itself."""
    found, path = list[tuple[int, str]](), dict[int, str]()
    cuts = passages(text, longest)
    headings = list(_HEADING.finditer(text)) if cuts else []
    for begin, end in cuts:
        while headings and headings[0].start() < begin:
            heading = headings.pop(0)
            level = len(heading[1])
            path = {other: words for other, words in path.items() if other < level} | {level: heading[2].strip()}
        found.append((begin, f"{' > '.join(path.values())}\n{text[begin:end]}".lstrip("\n")))
    return found
