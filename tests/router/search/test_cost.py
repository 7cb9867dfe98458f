"""What a search costs, counted and not timed: how often the store is asked, and how many memories are read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.texts import Note, Writer
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.adapters.local.text_index import TextIndex
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.models import RetrievalMode
from kingly_memory.retrieval.modes import MODES, POOL
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over
from tests.store_samples import memory, put

MEMORIES = 3_000
QUESTIONS, WORDS = 2, 8
"""So many questions are asked, each of so many words of a memory that is there."""
UNHURRIED = Settings(durability="process", pace=Pace(closing_s=0.0), local_search_s=60.0)


class Counter:
    """How many statements the readers of a process ran, and how many rows they got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements = self.rows = 0
        run = Connections.rows

        def counted(connections: Connections, statement: str, values: Iterable[Any], **more: Any) -> list[Any]:
            found = run(connections, statement, values, **more)
            self.statements += 1
            self.rows += len(found)
            return found

        monkeypatch.setattr(Connections, "rows", counted)


@cache
def notes() -> list[Note]:
    """A writer makes up a vocabulary first, which takes longer than a search."""
    return Writer(3).notes(MEMORIES)


@pytest.fixture(scope="module", params=[1, 50], ids=["all sure", "one of fifty sure"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home")
    store = DiskStore(made, durability="process")
    numbered = enumerate(notes())
    put(store, *(memory(note.content, "app", confidence=0.1 if at % request.param else 0.9) for at, note in numbered))
    store.close()
    return made


async def searched(router: MemoryRouter, questions: list[str], mode: Any) -> None:
    for question in questions:
        assert len(await router.search(question, mode=mode)) > 0


@pytest.mark.requirement("ALM-082")
@pytest.mark.parametrize("mode", [None, *RetrievalMode])
async def test_a_search_reads_a_few_times_its_shortlist_however_much_matches(
    home: Path, monkeypatch: pytest.MonkeyPatch, mode: RetrievalMode | None
) -> None:
    questions = [" ".join(note.content.split()[:WORDS]) for note in notes()[:QUESTIONS]]
    shortlist = max(TextIndex.shortlist, 2 * POOL * MODES[mode].top_k if mode else 0)
    async with router_over(PromptStore(home), None, ManualClock(), settings=UNHURRIED) as router:
        await searched(router, questions[:1], mode)  # connections are opened
        counter = Counter(monkeypatch)
        await searched(router, questions, mode)
    assert counter.rows <= QUESTIONS * 4 * shortlist < MEMORIES
    assert counter.statements <= QUESTIONS * shortlist
