"""The key-value file of earlier days."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.files import jsonl, programs
from kingly_memory.models import MemoryType
from kingly_memory.validation import Imported
from tests.files.samples import parted

FILE = Path("memory.json")
MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def read(content: Any) -> tuple[list[Imported], list[str]]:
    items = programs.legacy_items(content)
    line, called = programs.legacy_line, programs.LEGACY_CALLED
    return parted(jsonl.entries(items, FILE, as_line=line, called=called))


@pytest.mark.requirement("KNG-087")
@pytest.mark.parametrize(
    "content",
    [
        [{"key": "editor", "value": "vim", "category": "taste", "timestamp": 1683554160}],
        {"editor": {"value": "vim", "category": "taste", "timestamp": 1683554160000}},
        {"memories": {"editor": {"value": "vim", "category": "taste", "timestamp": "2023-05-08T13:56:00Z"}}},
        {"memories": [{"key": "editor", "value": "vim", "category": "taste", "timestamp": "1683554160"}]},
        {"key": "editor", "value": "vim", "category": "taste", "timestamp": 1683554160.0},
    ],
)
def test_every_shape_of_the_old_file_gives_the_same_memory(content: Any) -> None:
    [item], problems = read(content)
    assert problems == []
    draft = item.draft
    assert (draft.key, draft.content, draft.tags, draft.created_at) == ("editor", "vim", ("taste",), MAY)
    assert draft.type is MemoryType.SEMANTIC


@pytest.mark.requirement("KNG-087")
def test_values_that_are_not_text_and_pairs_without_more_are_kept() -> None:
    items, problems = read({"ports": [80, 443], "note": "plain", "limits": {"cpu": 2}})
    assert problems == []
    assert {item.draft.key: item.draft.content for item in items} == {
        "ports": "[80,443]",
        "note": "plain",
        "limits": '{"cpu":2}',
    }


def test_further_fields_are_kept_as_metadata_and_a_missing_key_is_made() -> None:
    items, problems = read(
        [{"value": "x", "source": "chat"}, {"value": "x", "source": "chat"}, {"key": 7, "value": "y"}]
    )
    assert problems == []
    assert items[0].draft.metadata == {"source": "chat"}
    assert items[0].draft.key == items[1].draft.key
    assert items[2].draft.key == "7"


def test_a_bad_item_is_named_and_the_rest_is_read() -> None:
    items, problems = read(
        [
            "text",
            {"key": "a"},
            {"key": "a", "value": ""},
            {"key": "a\nb", "value": "x"},
            {"key": "a", "value": "x", "timestamp": "soon"},
            {"key": "a", "value": "x", "timestamp": float("nan")},
            {"key": "a", "value": "x", "timestamp": 10**400},
            {"key": "a", "value": "x", "timestamp": True},
            {"key": "a", "value": "x", "category": ["c"]},
            {"key": "good", "value": "x", "category": None, "timestamp": None},
        ]
    )
    assert [item.draft.key for item in items] == ["good"]
    assert problems == [
        "item 1: item: is not an object with key and value",
        "item 2: item: is not an object with key and value",
        "item 3: value: is empty; say what is to be remembered",
        "item 4: key: contains control characters",
        "item 5: timestamp: 'soon' is not an ISO 8601 date or time",
        "item 6: timestamp: nan is no point in time",
        f"item 7: timestamp: {10**39} is no point in time",
        "item 8: timestamp: expected a date and time, not bool",
        "item 9: category: expected text, not list",
    ]
