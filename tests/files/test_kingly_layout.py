"""The three JSON files that the first design document names, as views of the store."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.files import kingly_layout
from kingly_memory.ids import new_id
from kingly_memory.models import Memory, MemoryType, Origin, Scope
from tests.files.samples import NOON


def memory(content: str, *, type: MemoryType = MemoryType.SEMANTIC, **changes: Any) -> Memory:
    context_id = changes.pop("context_id", None)
    made = Memory(
        new_id(NOON),
        None,
        content,
        type,
        0.5,
        0.5,
        (),
        None,
        Scope("p", context_id=context_id),
        Origin.USER,
        NOON,
        NOON,
        1,
    )
    return replace(made, **changes)


def written(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def write(folder: Path, *held: Memory) -> dict[str, int]:
    return kingly_layout.write(folder, held, project="p", now=NOON)


@pytest.mark.requirement("KNG-049")
def test_the_quick_cache_holds_every_memory_in_the_words_of_the_design_document(tmp_path: Path) -> None:
    one = memory("Deploys need two reviews.", key="deploy", context_id="c1")
    assert write(tmp_path, one)["quick_cache.json"] == 1
    [entry] = written(tmp_path, "quick_cache.json")["memories"]
    assert (entry["id"], entry["key"], entry["content"]) == (one.id, "deploy", "Deploys need two reviews.")
    assert entry["metadata"] == {
        "memory_type": "semantic",
        "significance": 0.5,
        "context_id": "c1",
        "timestamp": int(NOON.timestamp() * 1000),
    }


@pytest.mark.requirement("KNG-050")
def test_the_session_state_holds_the_working_memories_by_context(tmp_path: Path) -> None:
    working = MemoryType.WORKING
    write(tmp_path, memory("a", type=working, context_id="c1"), memory("b", type=working), memory("not this one"))
    contexts = written(tmp_path, "session_state.json")["contexts"]
    assert {name: [one["content"] for one in held] for name, held in contexts.items()} == {
        "c1": ["a"],
        "current": ["b"],
    }


@pytest.mark.requirement("KNG-051")
def test_the_task_history_holds_the_latest_completions_only(tmp_path: Path) -> None:
    done = [memory(f"task {number}", metadata={"status": "completed"}) for number in range(1_500)]
    counts = write(tmp_path, *done, memory("open", metadata={"status": "pending"}))
    history = written(tmp_path, "task_history.json")["completions"]
    assert counts["task_history.json"] == len(history) == 1_000
    assert (history[0]["content"], history[-1]["content"]) == ("task 500", "task 1499")


def test_the_files_are_private_and_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "layout"
    write(folder, memory("first"))

    def failing() -> Any:
        yield memory("second")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kingly_layout.write(folder, failing(), project="p", now=NOON)
    assert [one["content"] for one in written(folder, "quick_cache.json")["memories"]] == ["first"]
    files = list(folder.iterdir())
    assert sorted(path.name for path in files) == ["quick_cache.json", "session_state.json", "task_history.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
