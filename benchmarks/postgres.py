"""A hub's memory in PostgreSQL: 50 projects that are searched, by words and by meaning too, and 64 callers who store
into one project, each by a connection and commits of its own and by a hub's shared ones, on the event loop as calls of
the network do. Hub and database share the machine."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks.measure import Figure, Goal, Plan, alternate, figure
from benchmarks.texts import Note
from kingly_memory.adapters.embed.wordllama import WordLlamaEmbedder
from kingly_memory.cli.entry import SELDOM
from kingly_memory.hub.engine import scope_name
from kingly_memory.hub.methods import StoreMemory, checked
from kingly_memory.hub.serve import opened
from kingly_memory.router.search.meaning import POOL, VectorSearch
from tests.hub.stores import Hub, Server, postgres_server

PROJECTS, AT_ONCE = 50, 500
CALLERS, STORES, TURNS = 64, 1_024, 5
BY_WORDS, BY_MEANING, IN_A_MILLION = (Goal("p95", 5.0),), (Goal("p95", 10.0),), (Goal("p95", 80.0),)
SHARED_COMMITS = (Goal("ratio", 1 / 8),)
Parts = Mapping[str, Sequence[Note]]


async def measure(plan: Plan) -> list[Figure]:
    gc.set_threshold(SELDOM)  # as in a hub's process
    size = max(plan.sizes)
    notes = plan.writer.notes(size)
    projects = min(PROJECTS, size)
    parts = {scope_name("default", f"project {number}"): notes[number::projects] for number in range(projects)}
    with postgres_server() as server, _hub(server) as hub:
        await asyncio.to_thread(_fill, hub, parts)
        figures = await _searching(plan, hub, parts)
    with postgres_server(fsync=True) as server, _hub(server) as grouping, ExitStack() as apart:
        each_alone = [apart.enter_context(_hub(server, largest_batch=1)) for _ in range(CALLERS)]
        return figures + await _storing(plan, [grouping], each_alone)


@contextmanager
def _hub(server: Server, largest_batch: int = CALLERS) -> Iterator[Hub]:
    with patch("kingly_memory.hub.postgres.store._LARGEST_BATCH", largest_batch):
        store = opened(Path(), server.address)
    with closing(store):
        yield Hub(store)


def _fill(hub: Hub, parts: Parts) -> None:
    for scope, notes in parts.items():
        for first in range(0, len(notes), AT_ONCE):
            hub("store_many", scope, memories=[{"content": one.content} for one in notes[first : first + AT_ONCE]])


def _read(hub: Hub, scope: str) -> None:
    """Until the hub has the vectors of the project in memory."""
    hub.find("which makes all vectors", scope)
    while "partial" in hub("search_semantic_memories", scope, query="which reads them"):
        pass


async def _searching(plan: Plan, hub: Hub, parts: Parts) -> list[Figure]:
    """Searches by words, the same again, by meaning too, and by the vectors alone, by turns."""
    chance, count = random.Random(1), plan.samples + 3
    scopes = [chance.choice(list(parts)) for _ in range(count)]
    asked = [(scope, plan.writer.questions(parts[scope], 1)[0].text) for scope in scopes]
    embedder = WordLlamaEmbedder()
    knowing = Hub(hub.store, embedder)
    compared = {scope: VectorSearch(scope, lambda: embedder, hub.store.reader.vectors) for scope in parts}
    for scope, vectors in compared.items():
        await asyncio.to_thread(_read, knowing, scope)
        await asyncio.to_thread(vectors.load)

    cuts = dict.fromkeys(("words", "again", "meaning"), 0)

    def by(what: str, hub: Hub) -> Callable[[int], Awaitable[None]]:
        async def search(number: int) -> None:
            scope, text = asked[number]
            cuts[what] += "partial" in hub("search_semantic_memories", scope, query=text)

        return search

    async def compare(number: int) -> None:
        scope, text = asked[number]
        vectors = compared[scope]
        vectors.near(vectors.asked(text), POOL, (), time.monotonic() + 1.0)

    engines = {"words": hub, "again": hub, "meaning": knowing}
    ways = {what: by(what, engine) for what, engine in engines.items()} | {"vectors": compare}
    seconds = await alternate(ways, plan.samples)
    where = f"{sum(map(len, parts.values())):,} in {len(parts)} projects"
    of_each, of_both = (BY_WORDS, BY_MEANING) if max(plan.sizes) <= 100_000 else ((), IN_A_MILLION)
    words, against, cut = seconds["words"], "by words", {what: f"cut short: {count}" for what, count in cuts.items()}
    return [
        figure(f"hub, PostgreSQL: search by words in {where}", words, goals=of_each, remark=cut["words"]),
        figure("the same again (A/A)", seconds["again"], floor=words, against=against),
        figure(
            "by words and meaning",
            seconds["meaning"],
            floor=words,
            against=against,
            goals=of_both,
            remark=cut["meaning"],
        ),
        figure("the nearest vectors alone", seconds["vectors"], floor=words, against=against, goals=of_each),
    ]


async def _storing(plan: Plan, grouping: Sequence[Hub], each_alone: Sequence[Hub]) -> list[Figure]:
    """Seconds per memory of so many callers of one project, by turns: with a connection and a commit for each, and all
    by one hub. Each memory has a key, as a delivery does. The texts are the same each time: what is done once for a
    word is done before."""
    count, scope = CALLERS if plan.is_quick else STORES, scope_name("default", "busy")
    numbers, texts = itertools.count(), [one.content for one in plan.writer.notes(count)]

    async def each(hubs: Sequence[Hub]) -> float:
        async def store(hub: Hub, own: Sequence[str]) -> None:
            for text in own:
                named = {"content": text, "idempotency_key": f"key {next(numbers)}"}
                await hub.engine.store(scope, checked(StoreMemory, named))

        began = time.perf_counter()
        callers = (store(hubs[number % len(hubs)], texts[number::CALLERS]) for number in range(CALLERS))
        await asyncio.gather(*callers)
        return (time.perf_counter() - began) / count

    await each(grouping)
    alone, control, grouped = list[float](), list[float](), list[float]()
    for _ in range(1 if plan.is_quick else TURNS):
        alone.append(await each(each_alone))
        grouped.append(await each(grouping))
        control.append(await each(each_alone))
    against = "a commit for each"
    return [
        figure(f"hub, PostgreSQL: {CALLERS} callers of a project, a connection and a commit for each", alone),
        figure("the same again (A/A), stores", control, floor=alone, against=against),
        figure(
            f"hub, PostgreSQL: {CALLERS} callers of a project, commits shared",
            grouped,
            floor=alone,
            against=against,
            goals=SHARED_COMMITS,
        ),
    ]
