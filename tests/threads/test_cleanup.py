"""Nothing that was said of a thread outlives the last of its memories, and nothing of it comes back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files import ai
from kingly_memory.adapters.local.injections import InjectionFiles
from kingly_memory.cognition.owners import owner
from kingly_memory.models import MemoryStatus
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

HOUR_S = 3_600.0
NAMES = ("thread", "ratings", "attention", "course", "topic", "context")


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Any, PromptStore, ManualClock]]:
    clock, store = ManualClock(), PromptStore(tmp_path / "home")
    async with router_over(store, None, clock) as memory:
        yield memory, store, clock


async def named(memory: Any, store: PromptStore, context_id: str, **facts: Any) -> list[str]:
    """A thread that has a title and a reason, in which three things are said."""
    ids = [(await memory.store(f"The zebrafish plan's part {n}", context_id=context_id, **facts)).id for n in range(3)]
    await memory.threads.rename(context_id, "Zebrafish plan")
    log = memory._engine.injections = InjectionFiles(store.home, "app")
    log.note("s1", ids[:1], 1.0)
    await memory.attention.rate(context_id, False, "zebrafish is over")
    await memory.threads.recall(context_id)
    return ids


def told(store: PromptStore, *owners: str) -> dict[str, Any]:
    return {name: facets for name in NAMES if (facets := store.reader.facets(name, owners))}


def text(found: dict[str, Any]) -> str:
    return json.dumps(found)


async def test_forgetting_the_last_memory_forgets_what_was_said_of_the_thread(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, store, _):
        *first, last = await named(memory, store, "main")
        whose = owner("app", "main")
        for memory_id in first:
            await memory.forget(memory_id)
            assert "Zebrafish plan" in text(told(store, whose))
            assert "is over" in text(told(store, whose))
        await memory.forget(last)
        assert not {"thread", "ratings", "course", "topic"} & told(store, whose).keys()
        await memory.store("Deploys need two reviews", context_id="main")
        thread = await memory.threads.get("main")
        assert (thread.title, thread.relevance, thread.ratings) == ("Deploys need two reviews", 1.0, ())


async def test_what_is_restored_has_its_weight_and_pin_but_no_title(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _, _):
        pinned = await memory.attention.pin("Never push on Fridays")
        await memory.threads.rename(pinned.thread_id, "Fridays")
        await memory.forget(pinned.receipt.id)
        await memory.restore(pinned.receipt.id)
        thread = await memory.threads.get(pinned.thread_id)
        assert (thread.title, thread.weight, thread.pinned) == ("Never push on Fridays", 1.3, True)


async def test_an_archived_memory_keeps_what_was_said_of_its_thread(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, store, _):
        await memory.store("Deploys need two reviews", context_id="main", type="semantic", significance=0.2)
        await memory.threads.rename("main", "Deploys")
        gone = (await memory.store("Gone", context_id="main")).id
        ids = [one.id for one in (await memory.list(context_id="main")).memories if one.id != gone]
        store.write(lambda transaction: transaction.set_status(ids, MemoryStatus.ARCHIVED)).result()
        await memory.forget(gone)
        assert (await memory.threads.get("main")).title == "Deploys"


async def test_erasing_the_last_memory_leaves_nothing_beside_its_thread(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, store, clock):
        ids = await named(memory, store, "main", type="working")
        alone = (await memory.store("Zebrafish alone", type="working")).id
        await memory.threads.recall(alone)
        store.write(lambda one: one.set_facet("attention", owner("app", "main"), {"weight": 0.5})).result()
        await clock.advance(3 * HOUR_S)
        report = await memory.sweep(["lifetimes"])
        assert report.erased == 4
        assert told(store, owner("app", "main"), alone, *ids) == {}


async def test_a_merged_thread_keeps_what_was_said_of_it_as_long_as_anything_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, store, _):
        kept = (await memory.store("Deploys need two reviews", context_id="kept")).id
        gone = await named(memory, store, "gone")
        await memory.threads.rename("kept", "Deploys")
        await memory.threads.merge("kept", "gone")
        for memory_id in gone:
            await memory.forget(memory_id)
        assert (await memory.threads.get("kept")).title == "Deploys"
        beside = told(store, owner("app", "gone"))
        assert beside["thread"][owner("app", "gone")].keys() == {"context_id", "into"}
        assert "ratings" not in beside
        await memory.forget(kept)
        assert "Deploys" not in text(told(store, owner("app", "kept"), owner("app", "gone")))
        await memory.restore(gone[0])
        assert (await memory.threads.get("gone")).into == "kept"


async def test_what_a_file_said_of_a_thread_goes_with_it(tmp_path: Path) -> None:
    said = {"id": "t", "title": "Zebrafish", "messages": [{"content": "secret"}]}
    async with opened(tmp_path) as (memory, store, _):
        await memory.remember(ai.thread(said, Path("t.json"), datetime.now(UTC)))
        whose = owner("app", "t")
        assert "Zebrafish" in text(told(store, whose))
        for one in (await memory.list()).memories:
            await memory.forget(one.id)
        assert told(store, whose) == {}
