"""LoCoMo conversations. The texts here are our own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval import locomo
from kingly_memory.errors import InvalidInput
from kingly_memory.models import MemoryType, Origin
from kingly_memory.validation import Imported
from tests.files.samples import parted

SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Mara",
        "speaker_b": "Jon",
        "session_10_date_time": "12:05 am on 1 June, 2023",
        "session_10": [{"speaker": "Jon", "dia_id": "D10:1", "text": "The boat is mended."}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Mara", "dia_id": "D2:1", "text": "I sail on Sundays."},
            {"speaker": "Jon", "dia_id": "D2:2", "text": "Look!", "blip_caption": "a small red boat"},
        ],
        "session_3_date_time": "1:00 pm on 9 May, 2023",
    },
    "qa": [],
}


def read(content: Any) -> tuple[list[Imported], list[str]]:
    return parted(locomo.entries(content, Path("locomo.json")))


def with_session(**changes: Any) -> list[Any]:
    return [{"sample_id": "s", "conversation": {"session_1_date_time": "1:00 pm on 9 May, 2023", **changes}}]


def test_turns_become_episodic_memories_in_session_order() -> None:
    items, problems = read([SAMPLE])
    assert problems == []
    assert [item.draft.key for item in items] == ["locomo:conv-1:D2:1", "locomo:conv-1:D2:2", "locomo:conv-1:D10:1"]
    first = items[0].draft
    assert (first.content, first.title, first.tags) == ("I sail on Sundays.", "Mara, 8 May 2023", ("Mara",))
    assert (first.type, first.origin, first.context_id) == (MemoryType.EPISODIC, Origin.IMPORT, "locomo:conv-1")
    assert first.metadata == {"speaker": "Mara", "dia_id": "D2:1", "session": 2}
    assert items[1].draft.content == "Look!\n[shows a picture: a small red boat]"


def test_each_turn_is_a_second_later_than_the_one_before() -> None:
    items, _ = read(SAMPLE)
    assert [item.draft.created_at for item in items] == [
        datetime(2023, 5, 8, 13, 56, 0, tzinfo=UTC),
        datetime(2023, 5, 8, 13, 56, 1, tzinfo=UTC),
        datetime(2023, 6, 1, 0, 5, 0, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12:00 pm on 1 January, 2024", datetime(2024, 1, 1, 12, 0, tzinfo=UTC)),
        ("12:00 AM on 29 February 2024", datetime(2024, 2, 29, 0, 0, tzinfo=UTC)),
        (" 9:07 p.m. on 31 December, 1999 ", datetime(1999, 12, 31, 21, 7, tzinfo=UTC)),
    ],
)
def test_session_dates_are_read(text: str, expected: datetime) -> None:
    assert locomo.session_start(text) == expected


@pytest.mark.parametrize(
    "text",
    [None, 7, "", "8 May 2023", "1:00 pm on 31 June, 2023", "1:99 pm on 1 June, 2023", "1:00 pm on 1 Juni, 2023"],
)
def test_session_dates_that_make_no_sense_are_refused(text: object) -> None:
    with pytest.raises(InvalidInput, match=r"date_time: .* is not like"):
        locomo.session_start(text)


def test_what_cannot_be_used_is_named_and_the_rest_is_read() -> None:
    good = {"speaker": "Jon", "dia_id": "D1:4", "text": "Still here."}
    turns = ["text", {"speaker": "Jon", "text": "x"}, {"speaker": "Jon", "dia_id": "D1:3", "text": None}, good]
    content = [7, {"conversation": {}}, *with_session(session_1=turns, session_2="x", session_3=[good])]
    items, problems = read(content)
    assert [item.draft.content for item in items] == ["Still here."]
    assert problems == [
        "sample 1: has no `sample_id` text or no `conversation` object",
        "sample 2: has no `sample_id` text or no `conversation` object",
        "s session_1 turn 1: turn: is not an object with speaker, dia_id and text",
        "s session_1 turn 2: turn: is not an object with speaker, dia_id and text",
        "s session_1 turn 3: content: expected text, not None",
        "s session_2: is not a list of turns",
        "s session_3: date_time: 'None' is not like '1:56 pm on 8 May, 2023'",
    ]
