"""Real conversations: a LoCoMo file named by path is stored turn by turn and asked its own questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.measure import Figure, Plan, figure, timed
from kingly_memory import MemoryRouter, Settings
from kingly_memory.intake import Imported, draft

UNANSWERABLE = 5


async def measure(plan: Plan) -> list[Figure]:
    """Time of a search, and how many questions find one of their evidence turns among the first ten hits."""
    if plan.locomo is None:
        return []
    conversations = json.loads(plan.locomo.read_text(encoding="utf-8"))
    seconds: list[float] = []
    found = asked = 0
    for number, conversation in enumerate(conversations):
        home = plan.folder / "locomo"
        async with MemoryRouter.open(home, project=f"conversation {number}", settings=Settings()) as memory:
            await memory.remember(_turns(conversation["conversation"]))
            for question in _questions(conversation):
                evidence = set(question["evidence"])
                asked += 1
                hits = [hit.memory.key for hit in await _search(memory, question["question"], seconds)]
                found += bool(evidence & set(hits))
    return [figure("search, LoCoMo", seconds, remark=f"evidence in the first ten: {found / asked:.0%} of {asked}")]


async def _search(memory: MemoryRouter, text: str, seconds: list[float]) -> Any:
    results = []

    async def search() -> None:
        results.append(await memory.search(text))

    seconds.append(await timed(search()))
    return results[0]


def _turns(conversation: dict[str, Any]) -> Iterator[Imported]:
    limit = Settings().content_limit_bytes
    number = 1
    while turns := conversation.get(f"session_{number}"):
        for turn in turns:
            text = f"{turn['speaker']}: {turn['text']}"
            yield Imported(draft(text, content_limit_bytes=limit, key=turn["dia_id"], type="episodic"))
        number += 1


def _questions(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in conversation["qa"] if one["category"] != UNANSWERABLE and one["evidence"]]
