"""Where sentences begin and end."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.lifecycle.sentences import Sentence, sentences

HOSTILE_CHARACTERS = 65_536
"""Enough that anything slower than linear would stop the run."""

PIECES = (
    "We fixed it.;Is it up?;It is 3.5 now.;Use v1.2.;e.g. this;Dr. Smith;是的。;「はい。」;`a. b`;\n;\n\n; ;  ;- ;1. "
    ";# ;> ;```\n"
    ";    x = f(1)\n;|a|b|\n;User: ;...;…;!;?!;”;“;);(;\t;\r\n;no;No. 5;\u2028;👍;---\n;* [ ] "
).split(";")
WRITTEN = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=30).map("".join)
"""Texts as people, agents and machines write them, and texts as nobody does."""


def split(text: str) -> list[str]:
    return [one.of(text) for one in sentences(text)]


def told(text: str) -> list[tuple[bool, str]]:
    return [(one.tells, one.of(text)) for one in sentences(text)]


def between(text: str, found: list[Sentence]) -> list[str]:
    ends = [0, *(one.end for one in found)]
    starts = [*(one.start for one in found), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


@pytest.mark.requirement("ALM-067")
@pytest.mark.parametrize(
    "written",
    [
        "The cache is stale.|We fixed it.",
        "Load is 3.5 now.|Then it fell to .5 again.",
        "Upgrade to v1.2.|Then to v1.2.3 and 10.0.0.1.|Done.",
        "Read https://example.com/a.b?c=d!e and app.py first.|Then run main.py.|Then rest.",
        "Use a cache, e.g. Redis.|It helps, i.e. it is fast.|Compare cf. Smith.",
        "Dr. Smith and Mrs. Jones agreed.|George W. Bush came.|He left at 5 p.m.|We did too.",
        "The answer is no.|We stop.|See No. 5 and fig. 3 for more.",
        "We have logs, traces, etc.|They help.|Acme Inc. sells them.",
        "Restart the app.|Then wait 5 min.|Go.",
        "In the U.S. it works.|The U.S. Army left the U.S.|We sell it.",
        "Take plan B.|Then plan C.|The R. A. Fisher test is it.",
        "Well... maybe not.|Wait…|Then it came.|So …and on.",
        "“Is it up?” he asked.|“Yes.”|(It was.)|Good!",
        "What?!|No way!!|Really?|yes.",
        "是的。|好的！|真的吗？|走吧",
        "「はい。」と言った。|「いいえ。」|「次。」",
        "1 is enough.|2 are too many.",
        "It ended in 2024.|The next began.",
        "**It is done.**|_We shipped._|Good.",
        "यह ठीक है।|चलो।",
        "Use .env and .NET here.|Go on.",
        "This line is long enough to be wrapped by an editor and\ngoes on here.|Next.",
        "This line is long enough to be wrapped by an editor and\nAnna went on here.|Next.",
        "It works with\nnothing set: no server and no key.|Next.",
    ],
)
def test_a_sentence_ends_where_a_reader_says(written: str) -> None:
    said = written.split("|")
    joint = "" if "。" in written else " "
    assert split(joint.join(said)) == said


def test_lists_headings_tables_and_quotations_are_told_apart_from_their_marks() -> None:
    text = (
        "# Outcome\n\n- Use Redis\n* [x] Set TTL 5. It is low.\n2) Go on\n> - Said so.\n| a | b |\n|---|---|\n---\nDone"
    )
    assert told(text) == [
        (False, "Outcome"),
        (True, "Use Redis"),
        (True, "Set TTL 5."),
        (True, "It is low."),
        (True, "Go on"),
        (True, "Said so."),
        (False, "| a | b |"),
        (True, "Done"),
    ]


@pytest.mark.parametrize("mark", ["```", "~~~", "````"])
def test_a_fenced_block_of_code_is_one_piece(mark: str) -> None:
    code = f"{mark}py\nx = 1. # One. Two.\n\n- y\n{mark}"
    assert told(f"Run this.\n{code}\nIt works.") == [(True, "Run this."), (False, code), (True, "It works.")]


def test_each_line_of_a_conversation_or_log_begins_anew() -> None:
    text = "User: is it up\nassistant: it is\nerror: disk full\n2026-01-01 10:00 started\n2026-01-01 10:01 stopped"
    assert split(text) == text.split("\n")


@given(WRITTEN)
def test_pieces_and_what_stands_between_them_are_the_text(text: str) -> None:
    found = sentences(text)
    gaps = between(text, found)
    pieces = [one.of(text) for one in found]
    rebuilt = gaps[0] + "".join(piece + gap for piece, gap in zip(pieces, gaps[1:], strict=True))
    assert rebuilt == text
    assert all(before.end <= after.start for before, after in pairwise(found))


@given(WRITTEN)
def test_a_sentence_has_no_white_space_around_it_and_says_something(text: str) -> None:
    for one in sentences(text):
        said = one.of(text)
        assert said
        assert said == said.strip()
        assert not one.tells or re.search(r"[^\W_]", said)


@given(st.lists(st.from_regex(r"v?[0-9]{1,3}(\.[0-9]{1,3}){1,3}", fullmatch=True), min_size=1, max_size=8))
def test_numbers_and_versions_are_never_taken_apart(figures: list[str]) -> None:
    text = " ".join(f"It is {figure}." if at % 2 else f"We had {figure} then." for at, figure in enumerate(figures))
    found = split(text)
    assert len(found) == len(figures)
    assert all(figure in said for figure, said in zip(figures, found, strict=True))


HOSTILE = (
    'word ;x;.;. ;a. ;ab. ;\n;a\n;`a;`;```\n;。;あ。;.";. (;> ;# ;- ;1. '
    ";A b c d e\n;    a=b\n;When a ;\n \t; ;e.g. ;No. 5 ;*;[;|;a:\n"
)


@pytest.mark.parametrize("piece", HOSTILE.split(";"))
def test_time_is_linear_in_hostile_texts(piece: str) -> None:
    text = piece * (HOSTILE_CHARACTERS // len(piece))
    assert all(one.start < one.end for one in sentences(f"a.{text}b"))
