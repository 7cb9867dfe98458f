"""Real conversations: a LoCoMo file named by path is imported, and asked its own questions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, Plan, by_words, figure, timed
from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.files import locomo
from kingly_memory.intake import Imported

UNANSWERABLE = 5
TOGETHER = "all conversations"


async def measure(plan: Plan) -> list[Figure]:
    """Time of a search, and the share of evidence among the first ten hits: each conversation asked alone, then all of
    them in one project."""
    if plan.locomo is None:
        return []
    conversations = json.loads(plan.locomo.read_text(encoding="utf-8"))
    alone = [(f"conversation {number}", [one]) for number, one in enumerate(conversations)]
    return [
        await _asked(plan, "search, LoCoMo, one at a time", alone),
        await _asked(plan, "search, LoCoMo, pooled", [(TOGETHER, conversations)]),
    ]


async def _asked(plan: Plan, name: str, projects: list[tuple[str, list[dict[str, Any]]]]) -> Figure:
    seconds: list[float] = []
    shares: list[float] = []
    for project, conversations in projects:
        async with MemoryRouter.open(plan.folder / "locomo", project=project, settings=by_words()) as memory:
            await memory.remember(_turns(conversations))
            for text, evidence in _questions(conversations):
                hits = {hit.memory.key for hit in await _search(memory, text, seconds)}
                shares.append(len(evidence & hits) / len(evidence))
    recall = sum(shares) / len(shares)
    return figure(name, seconds, remark=f"recall@10 {recall:.3f} of {len(shares)} questions")


async def _search(memory: MemoryRouter, text: str, seconds: list[float]) -> Any:
    results = []

    async def search() -> None:
        results.append(await memory.search(text))

    seconds.append(await timed(search()))
    return results[0]


def _turns(conversations: list[dict[str, Any]]) -> Iterator[Imported]:
    entries = locomo.entries(conversations, Path("-"), content_limit_bytes=Settings().content_limit_bytes)
    return (entry for entry in entries if isinstance(entry, Imported))


def _questions(conversations: list[dict[str, Any]]) -> Iterator[tuple[str, set[str]]]:
    """Each question that has an answer, and the keys of the turns that hold it; a few name turns that do not exist."""
    for one in conversations:
        spoken = one["conversation"].values()
        known = {turn["dia_id"] for turns in spoken if isinstance(turns, list) for turn in turns}
        for asked in one["qa"]:
            named = {name.strip() for given in asked["evidence"] for name in re.split("[;,]", given)} & known
            if asked["category"] != UNANSWERABLE and named:
                yield asked["question"], {f"locomo:{one['sample_id']}:{name}" for name in named}
