"""Our own export and plain lines of other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.files import jsonl
from kingly_memory.models import Memory, MemoryStatus, MemoryType, Origin
from kingly_memory.validation import Draft
from tests.files.samples import as_draft, from_a_file, memories, parted


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memories.jsonl"


def drafts(file: Path, *lines: bytes | str | dict[str, Any]) -> tuple[list[Draft], list[str]]:
    """Write the lines, read them, and return the drafts and the problems."""
    texts = [json.dumps(one) if isinstance(one, dict) else one for one in lines]
    file.write_bytes(b"\n".join(one.encode() if isinstance(one, str) else one for one in texts) + b"\n")
    items, problems = parted(jsonl.read(file))
    return [item.draft for item in items], problems


@given(st.lists(st.tuples(memories, st.sampled_from([MemoryStatus.LIVE, MemoryStatus.ARCHIVED])), max_size=4))
def test_what_was_exported_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, held: Any) -> None:
    file = tmp_path_factory.mktemp("export") / "memories.jsonl"
    file.write_text("".join(jsonl.line(memory, status) + "\n" for memory, status in held), encoding="utf-8")
    items, problems = parted(jsonl.read(file))
    assert problems == []
    assert [(item.draft, item.id, item.status) for item in items] == [
        (from_a_file(as_draft(memory)), memory.id, status) for memory, status in held
    ]


@given(memories)
def test_a_line_of_an_export_is_one_line(memory: Memory) -> None:
    assert len(jsonl.line(memory, MemoryStatus.LIVE).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("created_at", '"0001-01-01T00:00:00+05:00"'), ("significance", "1" + "0" * 400)]
)
def test_a_value_beyond_all_limits_spoils_its_own_line_only(file: Path, name: str, value: str) -> None:
    found, problems = drafts(file, {"content": "one"}, f'{{"content": "two", "{name}": {value}}}', {"content": "three"})
    assert [draft.content for draft in found] == ["one", "three"]
    assert len(problems) == 1
    assert name in problems[0]


def test_a_plain_line_may_say_everything_a_memory_has(file: Path) -> None:
    said = {
        "content": "Deploys need two reviews.",
        "key": "deploy",
        "type": "skill_development",
        "significance": 0.9,
        "confidence": 1,
        "tags": ["process"],
        "title": "Deploys",
        "context_id": "c1",
        "agent": "planner",
        "origin": "user",
        "metadata": {"a": 1},
        "created_at": "2024-05-01T12:00:00",
    }
    [draft], problems = drafts(file, said)
    assert problems == []
    assert (draft.key, draft.type, draft.context_id, draft.agent) == ("deploy", MemoryType.PROCEDURAL, "c1", "planner")
    assert draft.created_at is not None
    assert draft.created_at.isoformat() == "2024-05-01T12:00:00+00:00"
    assert draft.origin is Origin.IMPORT


def test_that_somebody_here_said_or_derived_it_is_not_taken_from_a_file(file: Path) -> None:
    found, _ = drafts(file, *({"content": "x", "origin": one} for one in ("user", "agent", "derived")))
    assert [draft.origin for draft in found] == [Origin.IMPORT] * 3


def test_an_origin_that_gives_no_trust_is_kept_and_an_unknown_one_is_a_problem(file: Path) -> None:
    found, problems = drafts(file, *({"content": "x", "origin": one} for one in ("tool", "web", "remote", "boss")))
    assert [draft.origin for draft in found] == [Origin.TOOL, Origin.WEB, Origin.REMOTE]
    assert len(problems) == 1


def test_the_same_plain_line_has_the_same_key_on_every_import(file: Path) -> None:
    once, _ = drafts(file, '{"content": "x", "type": "semantic"}')
    again, _ = drafts(file, {"content": "x"}, '{ "type":"semantic", "content":"x" }')
    assert once[0].key == again[1].key != again[0].key
    assert once[0].key is not None
    assert once[0].key.startswith("import:jsonl:")


def test_a_bad_line_is_named_and_the_rest_is_read(file: Path) -> None:
    good, problems = drafts(
        file,
        {"content": "first"},
        '{"content": ',
        "[1]",
        b'{"content": "\xff"}',
        "[" * 100_000,
        '{"content": 1' + "0" * 5000 + "}",
        {"content": "   "},
        {"content": "x", "significance": 2},
        {"content": "x", "scope": 1},
        {"content": "x", "created_at": 1e300},
        {"content": "x", "archived": "yes"},
        {"content": "last", "archived": None},
    )
    assert [draft.content for draft in good] == ["first", "last"]
    assert problems == [
        "line 2: json: cannot be read: Expecting value at line 1, column 13",
        "line 3: json: is not an object with a `content`",
        "line 4: json: is not UTF-8 text",
        "line 5: json: is nested too deeply",
        "line 6: json: holds a number with too many digits",
        "line 7: content: is empty; say what is to be remembered",
        "line 8: significance: 2 is outside 0 to 1",
        "line 9: scope: is not an object with project, user, agent and context_id",
        "line 10: created_at: 1e+300 is no point in time",
        "line 11: archived: 'yes' is neither true nor false",
    ]


def test_an_endless_line_is_skipped_without_reading_it_into_memory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MOST_BYTES", 1_000)
    monkeypatch.setattr(jsonl, "CONTENT_LIMIT_BYTES", 100)
    good, problems = drafts(file, b'{"content": "' + b"x" * 300_000 + b'"}', {"content": "next"})
    assert [draft.content for draft in good] == ["next"]
    assert problems == ["line 1: has more than 128,600 bytes"]


def test_blank_lines_carriage_returns_and_a_byte_order_mark_do_no_harm(file: Path) -> None:
    good, problems = drafts(file, b'\xef\xbb\xbf{"content": "a"}\r', b"", b"  \r", '{"content": "b\u2028c"}')
    assert problems == []
    assert [draft.content for draft in good] == ["a", "b\u2028c"]
