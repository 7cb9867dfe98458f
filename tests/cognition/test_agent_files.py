"""Saving an agent's memory to a file: whole or not at all, and nothing but such a file is loaded."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kingly_memory.app import agent_files
from kingly_memory.app.agent_files import load_agent_memory, save_agent_memory
from kingly_memory.cognition.agent_memory import CognitiveMemory, ExperienceRules
from kingly_memory.errors import InvalidInput

ROOT = Path(__file__).parents[2]


def sample() -> CognitiveMemory:
    memory = CognitiveMemory("H001", rules=ExperienceRules(scoring="hello_agents"))
    memory.update_after_flood(50_000, 1)
    memory.add_working("dry 🌵 \ud800", 0.8, 2, ["weather"])
    memory.consolidate()
    return memory


@pytest.mark.requirement("COG-046")
def test_a_saved_memory_comes_back_whole(tmp_path: Path) -> None:
    memory = sample()
    save_agent_memory(memory, tmp_path / "H001.json")
    again = load_agent_memory(tmp_path / "H001.json")
    assert again.serialize() == memory.serialize()
    assert again.rules == memory.rules
    assert again.retrieve(5, 3) == memory.retrieve(5, 3)
    assert again.place.working[0] is again.place.episodic[1]


def test_a_saved_memory_is_for_its_owner_alone_and_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    target = tmp_path / "H001.json"
    target.write_text("old")
    target.chmod(0o666)
    save_agent_memory(sample(), target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("*.json")] == ["H001.json"]
    assert list(tmp_path.glob(".H001*")) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"{", "cannot be read"),
        (b"\xff\xfe{}", "UTF-8|cannot be read"),
        (b'{"format": "\xe9"}', "UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "is no memory of an agent"),
        (b'{"format": "kingly-memory/other", "version": 1}', "is no memory of an agent"),
        (b'{"format": "kingly-memory/cognitive", "version": 2}', "has version 2, and 1 can be read here"),
        (b'{"format": "kingly-memory/cognitive", "version": 1}', "is damaged"),
        (b'{"format": "kingly-memory/cognitive", "version": ' + b"9" * 5_000 + b"}", "digits"),
    ],
)
def test_another_file_is_refused_by_name_and_the_simulation_goes_on(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=told) as refused:
        load_agent_memory(path)
    assert "other.json" in str(refused.value)
    assert path.read_bytes() == content


def test_a_folder_a_pipe_and_what_is_not_there_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "nothing.json", tmp_path / "nul\0"):
        with pytest.raises(InvalidInput, match="file"):
            load_agent_memory(path)
    with pytest.raises(InvalidInput, match="is a folder; name a file"):
        save_agent_memory(sample(), tmp_path)
    with pytest.raises(InvalidInput, match="cannot be written"):
        save_agent_memory(sample(), tmp_path / "nowhere" / "H001.json")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_what_is_too_large_to_be_read_is_neither_read_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "H001.json"
    save_agent_memory(sample(), path)
    before = path.read_bytes()
    monkeypatch.setattr(agent_files, "LARGEST_BYTES", len(before) - 1)
    with pytest.raises(InvalidInput, match="more than"):
        load_agent_memory(path)
    with pytest.raises(InvalidInput, match="more than"):
        save_agent_memory(sample(), path)
    assert path.read_bytes() == before
