"""Telling what a path is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kingly_memory.adapters.files import reading
from kingly_memory.adapters.files.detect import FileFormat, source
from kingly_memory.errors import InvalidInput
from tests.files.samples import parted


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.jsonl", "not even JSON", FileFormat.JSONL),
        ("a.NDJSON", "", FileFormat.JSONL),
        ("export", '{"content": "a"}\n{"content": "b"}\n', FileFormat.JSONL),
        ("one.json", '{"content": "a"}', FileFormat.JSONL),
        ("memory.json", '[{"key": "a", "value": "b"}]', FileFormat.LEGACY),
        ("memory.json", '{"a": {"value": "b"}}', FileFormat.LEGACY),
        ("memory.json", '{"id": "a", "title": "b"}', FileFormat.LEGACY),
        ("old.json", '{"a": {"value": "b"}, "messages": {"value": "c"}}', FileFormat.LEGACY),
        ("old.json", '{"memories": {"a": "b"}}', FileFormat.LEGACY),
        ("old.json", '{"key": "a", "value": "b"}', FileFormat.LEGACY),
        ("one.json", '{"content": "a", "messages": []}', FileFormat.JSONL),
        ("note.md", "# Title", FileFormat.NOTES),
        ("A.TXT", "Water the garden", FileFormat.TEXT),
        ("memory.txt", '[{"key": "a", "value": "b"}]', FileFormat.LEGACY),
        ("mem0.json", '{"results": [{"id": "1", "memory": "likes tea"}]}', FileFormat.MEM0),
        ("memory", '{"type":"entity","name":"Ann","entityType":"person","observations":[]}', FileFormat.JSONL),
        ("memory", 'no json\n{"content": "one"}\n', FileFormat.JSONL),
    ],
)
def test_a_file_is_recognised_by_what_it_holds(tmp_path: Path, name: str, text: str, expected: FileFormat) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert source(tmp_path / name).format is expected


@pytest.mark.parametrize(
    "format_name", sorted(set(FileFormat) - {FileFormat.HOME, FileFormat.AI, FileFormat.OKF, FileFormat.LANGGRAPH})
)
def test_a_format_that_is_named_is_taken_at_its_word(tmp_path: Path, format_name: str) -> None:
    file = tmp_path / "file"
    file.write_text("[]")
    expected = {FileFormat.NOTES: (1, 0), FileFormat.TEXT: (1, 0), FileFormat.JSONL: (0, 1)}
    found = source(file, format_name=format_name)
    entries = list(found.entries)
    problems = parted(entries)[1]
    items = [one for one in entries if not isinstance(one, reading.Problem)]
    assert found.format == format_name
    assert (len(items), len(problems)) == expected.get(found.format, (0, 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "a", "title": "b"}', "file: .* may hold anything; `--format legacy` imports each of its fields"),
        ('{"name": "a", "scripts": {"value": "b"}}', "file: .* may hold anything; `--format legacy` imports each"),
        ("hello", r"file: .*file is neither a Markdown note \(\.md\), nor text .* --format text imports any text"),
        (
            "SQLite format 3\x00rest",
            r"file: .*file cannot be read as a database \(",
        ),
        ('{"a"', "json: .*file cannot be read: Expecting ':' delimiter at line 1, column 5"),
        ("", "json: .*file is empty"),
        ("[" * 100_000, "json: .*file is nested too deeply"),
    ],
)
def test_a_file_that_is_nothing_we_know_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        source(tmp_path / "file")


def test_paths_and_formats_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    for name in ("missing", "missing.md", "missing.jsonl"):
        with pytest.raises(InvalidInput, match=r"file: .*missing.* cannot be read \(No such file or directory\)"):
            source(tmp_path / name)
    with pytest.raises(InvalidInput, match="format: 'csv' is unknown; choose one of jsonl, notes"):
        source(tmp_path, format_name="csv")
    with pytest.raises(InvalidInput, match="is a folder; the format legacy is a file"):
        source(tmp_path, format_name="legacy")


def test_a_json_file_that_would_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "DOCUMENT_LIMIT_BYTES", 4)
    (tmp_path / "file").write_text("[1, 2]")
    with pytest.raises(InvalidInput, match="has 6 bytes, at most 4 are read"):
        source(tmp_path / "file")
