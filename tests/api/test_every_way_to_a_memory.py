"""What is stored through the router is reached in each of the ways that the design documents describe."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kingly_memory import Settings, SyncMemoryRouter
from kingly_memory.app.auditing import AuditWriter
from kingly_memory.app.hybrid_search import get_hybrid_memory_search


@pytest.mark.requirement("UNI-004")
def test_a_memory_is_reached_by_modes_hybrid_search_notes_and_audit(tmp_path: Path) -> None:
    settings = Settings(local_search_s=30.0)
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, agent="H001", settings=settings) as router:
        household = router.cognitive("H001")
        flood = household.update_after_flood(damage=60_000, year=1)

        by_mode = router.search("which flood caused damages?", mode="diagnostic")
        hybrid = asyncio.run(get_hybrid_memory_search(router).search("flood damages"))
        notes = router.inject("what damages has a flood caused?")
        audit = AuditWriter(tmp_path / "audit")
        audit.log_memory_update("H001", 1, "flood", flood, household)

    [line] = (audit.folder / "memory_updates.jsonl").read_text(encoding="utf-8").splitlines()
    assert [hit.memory.content for hit in by_mode] == [flood.content]
    assert [hit.memory.content for hit in hybrid] == [flood.content]
    assert flood.content in notes.text
    assert json.loads(line)["memory_item"]["content"] == flood.content
