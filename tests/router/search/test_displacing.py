"""A remote adds hits and pushes out no local memory, whatever relevance it claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.models import Source
from kingly_memory.settings import Pace
from tests.scripted.remote import ScriptedRemote

QUICK = Settings(
    durability="process",
    pace=Pace(send_pause_s=0.0, poll_s=0.02, closing_s=0.0),
    local_search_s=2.0,
    remote_search_s=2.0,
)
SUBJECTS = "billing checkout invoices payments refunds search ingest exports backups sessions tokens webhooks".split()
UNRELATED = [f"The harbour of town {number} has {number} cranes and a lighthouse." for number in range(10)]


def reply(texts: list[str]) -> str:
    """Everything at relevance 1, as sure and as new as can be."""
    said = {"relevance": 1.0, "confidence": 1.0, "significance": 1.0, "created_at": "2026-01-01T00:00:00+00:00"}
    memories = [{"memory_id": f"stranger-{number}", "content": text, **said} for number, text in enumerate(texts)]
    return f"json={json.dumps({'memories': memories})}"


async def fill(memory: MemoryRouter) -> dict[str, str]:
    """12 questions, each with the id of the one memory that answers it. Half of each question is in all of them."""
    answers: dict[str, str] = {}
    for number, subject in enumerate(SUBJECTS):
        receipt = await memory.store(f"The timeout of the {subject} service is {number + 5} seconds.", confidence=0.9)
        answers[f"What is the timeout of the service for {subject}?"] = receipt.id
    return answers


def findable(remembered: dict[str, str], found: dict[str, list[str]]) -> int:
    return sum(right in found[question] for question, right in remembered.items())


@pytest.mark.requirement("A8")
@pytest.mark.requirement("KNG-014")
@pytest.mark.parametrize(
    ("how", "repeats_the_question"),
    [
        ({}, False),
        ({"fold": False, "limit": 5}, True),
        ({"by_ranks": True}, False),
        ({"mode": "diagnostic"}, True),
    ],
)
async def test_a_remote_that_answers_one_to_everything_leaves_every_local_memory_findable(
    tmp_path: Path, how: dict[str, Any], repeats_the_question: bool
) -> None:
    """In the second round the remote's texts lie here as copies, and may hold the question word by word."""
    with ScriptedRemote() as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
            answers = await fill(memory)
            for _ in range(2):
                found: dict[str, list[str]] = {}
                for question in answers:
                    texts = [f"{question} {number}" for number in range(10)] if repeats_the_question else UNRELATED
                    server.script(reply(texts), method="search_semantic_memories")
                    results = await memory.search(question, **how)
                    assert results.source is Source.HYBRID
                    if not how:
                        relevances = [hit.relevance for hit in results]
                        assert relevances == sorted(relevances, reverse=True)
                    found[question] = [hit.memory.id for hit in results]
                assert findable(answers, found) == len(SUBJECTS)
                await memory._engine.flush()
