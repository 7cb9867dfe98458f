"""The door: every bad argument is named, and what is accepted is kept as it is."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import validation
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import new_id
from kingly_memory.models import DEEP_KINDS, KINDS, QUICK_KINDS, Memory, MemoryType, Origin, Scope
from kingly_memory.text.writing import QUERY_CHARACTERS

LIMIT = 1_048_576


def drafted(content: object = "a note", **said: Any) -> validation.Draft:
    return validation.draft(content, **said)


@pytest.mark.requirement("KNG-085")
@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("content", {"content": ""}),
        ("content", {"content": " \n\t"}),
        ("content", {"content": 7}),
        ("content", {"content": None}),
        ("content", {"content": "x" * (LIMIT + 1)}),
        ("content", {"content": "é" * (LIMIT // 2 + 1)}),
        ("significance", {"significance": 1.01}),
        ("significance", {"significance": -0.01}),
        ("significance", {"significance": float("nan")}),
        ("significance", {"significance": "0.5"}),
        ("significance", {"significance": True}),
        ("confidence", {"confidence": float("inf")}),
        ("type", {"type": "dream"}),
        ("type", {"type": 3}),
        ("origin", {"origin": "gossip"}),
        ("key", {"key": ""}),
        ("key", {"key": "a\x00b"}),
        ("key", {"key": "k" * 10_000}),
        ("key", {"key": 5}),
        ("context_id", {"context_id": "two\nlines"}),
        ("title", {"title": "t" * 513}),
        ("tags", {"tags": [1]}),
        ("tags", {"tags": [""]}),
        ("tags", {"tags": {"a": 1}}),
        ("tags", {"tags": [str(n) for n in range(65)]}),
        ("metadata", {"metadata": "text"}),
        ("metadata", {"metadata": {1: 2}}),
        ("metadata", {"metadata": {"x": object()}}),
        ("metadata", {"metadata": {"x": float("nan")}}),
        ("metadata", {"metadata": {"x": 2**64}}),
        ("metadata", {"metadata": {"x": "y" * 70_000}}),
    ],
)
def test_bad_memory_is_refused_by_the_name_of_its_field(field: str, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        drafted(**said)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_of_too_many_tags_no_more_is_looked_at() -> None:
    looked_at = iter(map(str, range(1_000_000)))
    with pytest.raises(InvalidInput, match="tags: are more than the 64 that are allowed"):
        validation.draft("x", tags=looked_at)
    assert next(looked_at) == "65"


def test_metadata_that_nests_without_end_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(InvalidInput, match="nested deeper"):
        drafted(metadata=loop)


@pytest.mark.parametrize("key", ["../../x", "/etc/passwd", "..", "$HOME", "~root", "CON", "a:b", "ключ", "🔑"])
def test_key_that_looks_like_a_path_is_only_a_name(key: str) -> None:
    assert drafted(key=key, context_id=key).key == key


@pytest.mark.parametrize(("kind", "kept_as"), {**KINDS, **QUICK_KINDS, **DEEP_KINDS}.items())
@pytest.mark.requirement("KNG-057")
@pytest.mark.requirement("KNG-058")
@pytest.mark.requirement("KNG-059")
@pytest.mark.requirement("KNG-060")
def test_kinds_of_the_design_are_accepted_as_types(kind: str, kept_as: MemoryType) -> None:
    assert drafted(type=kind).type is kept_as


@pytest.mark.requirement("KNG-085")
def test_a_tag_that_is_more_than_a_text_is_kept_as_a_text() -> None:
    tags = [drafted(tags=[tag]).tags[0] for tag in (Origin.IMPORT, "import")]
    assert (tags, {type(tag) for tag in tags}) == (["import", "import"], {str})


@given(st.text(min_size=1).filter(str.strip))
def test_content_is_kept_byte_for_byte(text: str) -> None:
    assert drafted(text).content == text


def test_lone_surrogates_become_replacement_characters() -> None:
    assert drafted("a\ud800b").content == "a\ufffdb"


def test_metadata_is_a_copy_that_later_changes_do_not_reach() -> None:
    said = {"list": [1]}
    kept = drafted(metadata=said)
    said["list"].append(2)
    assert kept.metadata == {"list": [1]}


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("query", {"text": 5}),
        ("limit", {"limit": 0}),
        ("limit", {"limit": -3}),
        ("limit", {"limit": 1_001}),
        ("limit", {"limit": "ten"}),
        ("types", {"types": ["dream"]}),
        ("types", {"types": 4}),
        ("tags", {"tags": 4}),
        ("since", {"since": "last week"}),
        ("until", {"until": 12}),
    ],
)
def test_bad_filter_is_refused_by_its_name(field: str, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        validation.query(**{"text": "words", "space": "p", **said})
    assert caught.value.field == field


def test_query_of_a_megabyte_is_cut_and_not_refused() -> None:
    assert 0 < len(validation.query("x" * 1_000_000, space="p").text) <= QUERY_CHARACTERS


@pytest.mark.requirement("UNI-009")
def test_naive_times_are_taken_as_utc_and_others_converted() -> None:
    noon = datetime(2026, 5, 1, 12)  # noqa: DTZ001  # the naive case is the point
    east = datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    expected = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert validation.moment("since", noon) == validation.moment("since", east) == expected
    assert validation.moment("since", "2026-05-01T12:00:00") == expected


@pytest.mark.parametrize("day", ["2026-05-01", "20260501", "2026-W18-5"])
def test_a_day_means_its_beginning_or_its_end(day: str) -> None:
    query = validation.query("x", space="app", since=day, until=day)
    assert query.since == datetime(2026, 5, 1, tzinfo=UTC)
    assert query.until == datetime(2026, 5, 1, 23, 59, 59, 999_999, tzinfo=UTC)


def test_a_time_of_a_day_means_that_time() -> None:
    until = validation.query("x", space="app", until="2026-05-01T00:00").until
    assert until == datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.requirement("UNI-002")
@given(
    significance=st.floats(0, 1),
    confidence=st.floats(0, 1),
    tags=st.lists(st.text(min_size=1, max_size=9), max_size=4),
    content=st.text(),
)
def test_record_survives_its_json_form(significance: float, confidence: float, tags: list[str], content: str) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    memory = Memory(
        id=new_id(now),
        key="k",
        content=content,
        type=MemoryType.SEMANTIC,
        significance=significance,
        confidence=confidence,
        tags=tuple(tags),
        title=None,
        scope=Scope("p", None, "a", "c"),
        origin=Origin.TOOL,
        created_at=now,
        updated_at=now,
        revision=3,
        metadata={"n": [1, None, {"deep": 0.25}]},
    )
    assert Memory.from_json(json.loads(json.dumps(memory.to_json()))) == memory


def test_ids_ascend_and_carry_their_time() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ids = [new_id(now) for _ in range(100)]
    assert ids == sorted(set(ids))
    assert {one[14] for one in ids} == {"7"}


def test_a_forked_child_makes_other_ids_in_the_same_millisecond() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    new_id(now)
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, new_id(now).encode())
        os._exit(0)
    os.waitpid(child, 0)
    of_child = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    ours = [new_id(now) for _ in range(10)]
    assert of_child[:13] == ours[0][:13]
    assert of_child not in ours
