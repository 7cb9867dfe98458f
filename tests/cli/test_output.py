"""What people get to see."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO, TextIOWrapper
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.cli.output import Output, begun, facts, harmless, one_line, table
from kingly_memory.cli.search import layers_line
from kingly_memory.models import Hit, Origin
from kingly_memory.text.writing import ago, counted, duration, shortened
from tests.store_samples import memory

NOW = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


def stream(encoding: str = "utf-8") -> TextIOWrapper:
    return TextIOWrapper(BytesIO(), encoding=encoding, newline="")


def written(file: TextIOWrapper) -> bytes:
    file.flush()
    return cast("BytesIO", file.buffer).getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (-30, "just now"),
        (49.9, "50 s ago"),
        (-50.2, "in 50 s"),
        (59.8, "1 min ago"),
        (60, "1 min ago"),
        (7_200, "2 h ago"),
        (86_400 * 3, "3 d ago"),
        (-3_600, "in 1 h"),
        (86_400 * 14, "2024-04-17"),
        (-86_400 * 400, "2025-06-05"),
    ],
)
def test_times_are_told_as_a_person_would(seconds: float, words: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0012, "1.2 ms"),
        (0.25, "250 ms"),
        (1.25, "1.2 s"),
        (240, "4 min"),
        (9_000, "2 h"),
        (1e9, "11574 d"),
    ],
)
def test_lengths_of_time_have_one_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@given(st.floats(0, 1e12))
def test_every_length_of_time_can_be_told(seconds: float) -> None:
    assert duration(seconds).split()[1] in ("ms", "s", "min", "h", "d")


@pytest.mark.parametrize(
    ("number", "thing", "words"),
    [(1, "memory", "1 memory"), (0, "memory", "0 memories"), (1_204, "hit", "1,204 hits"), (2, "entry", "2 entries")],
)
def test_things_are_counted_in_words(number: int, thing: str, words: str) -> None:
    assert counted(number, thing) == words


@given(st.text())
def test_nothing_that_steers_a_terminal_gets_through(text: str) -> None:
    shown = harmless(text)
    assert all(one in "\n\t" or (one.isprintable() or not one.isascii()) for one in shown)
    assert not set(shown) & set("\x1b\x07\x9b\u202e\u2066\r")
    shown.encode()


def test_text_that_only_looks_odd_is_shown_as_it_is() -> None:
    assert harmless("naïve – 東京 👩‍👩‍👧 שלום") == "naïve – 東京 👩‍👩‍👧 שלום"


@given(st.text(), st.integers(0, 20))
def test_shortened_text_fits(text: str, most: int) -> None:
    assert len(shortened(text, most)) <= max(most, 1)
    assert "\n" not in one_line(text)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table([("a", "long cell", "x"), ("bbb", "c", "y\nz")], ("K", "V", "W")) == [
        "K    V          W",
        "a    long cell  x",
        "bbb  c          y z",
    ]
    assert table([]) == []


def test_a_very_long_cell_hides_nothing_of_other_lines() -> None:
    assert table([("notes/" + "h" * 300, "x"), ("deploy.rule", "two reviews"), ("k" * 40, "y")])[1:] == [
        f"{'deploy.rule':40}  two reviews",
        f"{'k' * 40}  y",
    ]


def test_a_long_table_line_is_cut_and_a_fact_is_not() -> None:
    assert len(table([("a", "x" * 500)])[0]) == 100
    assert facts([("a", "x" * 500), ("bb", "y")]) == ["a   " + "x" * 500, "bb  y"]


def test_what_the_terminal_cannot_show_becomes_a_question_mark_and_data_stays_utf_8() -> None:
    out = stream("latin-1")
    output = Output(False, out, stream())
    output.say("é 東")
    output.write_utf8("東\n")
    assert written(out) == b"\xe9 ?\n" + "東\n".encode()


def test_data_is_one_line_of_json() -> None:
    out = stream("ascii")
    Output(True, out, stream()).show({"text": "a\nb\x1b東"}, ["not shown"])
    assert json.loads(written(out)) == {"text": "a\nb\x1b東"}
    assert written(out).count(b"\n") == 1


def test_the_same_remark_is_made_once() -> None:
    err = stream()
    output = Output(False, stream(), err)
    for sentence in ("first", "second", "first"):
        output.note(sentence)
    assert written(err) == b"kingly-memory: first\nkingly-memory: second\n"


@pytest.mark.requirement("A8")
def test_a_copy_of_what_a_remote_said_is_not_called_local() -> None:
    own, copy = memory("x"), memory("x", origin=Origin.REMOTE)
    told = [layers_line(Hit(one, 1.0, layers)) for one in (own, copy) for layers in (("local",), ("local", "remote"))]
    assert told == ["local", "local+remote", "a copy from the remote", "local+remote"]


class Screen(TextIOWrapper):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.requirement("N18")
@pytest.mark.parametrize(
    ("variables", "as_json", "is_terminal", "coloured"),
    [
        ({}, False, True, True),
        ({}, False, False, False),
        ({}, True, True, False),
        ({"NO_COLOR": "1"}, False, True, False),
        ({"TERM": "dumb"}, False, True, False),
    ],
    ids=["terminal", "pipe", "json", "NO_COLOR", "dumb"],
)
def test_names_stand_out_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], as_json: bool, is_terminal: bool, coloured: bool
) -> None:
    for name, value in ({"NO_COLOR": "", "TERM": "xterm"} | variables).items():
        monkeypatch.setenv(name, value)
    file = Screen(BytesIO(), newline="") if is_terminal else stream()
    Output(as_json, file).show({"key": "\x1b[31mdeploy"}, [*table([("deploy", "\x1b[31mtwo")], ("KEY", "TEXT"))])
    assert (b"\x1b[1mdeploy\x1b[0m  [31mtwo\n" in written(file)) is coloured
    assert (b"\x1b" in written(file)) is coloured
    failing = Screen(BytesIO(), newline="") if is_terminal else stream()
    Output(as_json, file, failing).note("nothing was stored")
    is_red = is_terminal and "NO_COLOR" not in variables and "TERM" not in variables
    assert (written(failing) == b"\x1b[31mkingly-memory:\x1b[0m nothing was stored\n") is is_red


def test_a_title_that_a_text_begins_with_is_shown_once() -> None:
    told = {"# Deploys\n\nTwo reviews": "Deploys\n\nTwo reviews", "Deploys wait": "Deploys wait", "Two": "Deploys: Two"}
    assert {text: begun(memory(content=text, title="Deploys")) for text in told} == told
