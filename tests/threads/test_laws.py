"""Whatever is done to threads: no message is lost, what is told is so, and what is refused changes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Memory, MemoryStatus, MemoryType, Query
from kingly_memory.ports import Row
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over
from tests.threads.conftest import LASTING
from tests.threads.samples import TOPICS, talk

HOUR_S, DAY_S = 3_600.0, 86_400.0
BESIDE = ("thread", "ratings", "attention", "context")
VERBS = ("merge", "split", "rename", "forget", "end", "compact", "undo")
STEPS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 9), st.integers(0, 9)), max_size=9)


def everything(store: PromptStore) -> list[object]:
    """All memories, and all that is said of threads."""
    rows = store.reader.page(Query("", "app"), tuple(MemoryStatus), 1_000, None)
    return [*rows, *(facet for name in BESIDE for facet in store.reader.facets_named(name, 1_000))]


async def split(memory: MemoryRouter, name: str, known: list[str]) -> None:
    done = await memory.threads.split(name)
    told = {view.id: (view.message_count, view.status, view.into) for view in done.threads}
    seen = [await memory.threads.get(one) for one in told]
    assert told == {view.id: (view.message_count, view.status, view.into) for view in seen}
    known += [one for one in told if one not in known]


async def do(memory: MemoryRouter, clock: ManualClock, step: tuple[str, int, int], known: list[str]) -> None:
    verb, first, second = step
    one, other = known[first % len(known)], known[second % len(known)]
    match verb:
        case "merge":
            await memory.threads.merge(one, other)
        case "split":
            await split(memory, one, known)
        case "rename":
            await memory.threads.rename(one, "called")
        case "forget":
            for message in (await memory.threads.get(one)).messages:
                if message.memory.scope.context_id == one:
                    await memory.forget(message.memory.id)
        case "end":
            clock.jump(HOUR_S)
        case "compact":
            clock.jump(20 * DAY_S)
            await memory.compact()
        case "undo":
            await memory.undo_sweep()


async def root(memory: MemoryRouter, name: str) -> str | None:
    """What a thread was merged into; None for one whose messages are all gone."""
    try:
        return (await memory.threads.get(name, limit=0)).into or name
    except InvalidInput:
        return None


async def play(steps: list[tuple[str, int, int]], home: Path) -> None:
    store, clock = PromptStore(home), ManualClock()
    async with router_over(store, None, clock, settings=LASTING) as memory:
        known = ["deploys", "garden", "orders", "calls"]
        for name in known[:3]:
            await talk(memory, name, *TOPICS[name][:4])
        await talk(memory, "calls", *TOPICS["printer"][:2], type="working")
        known.append((await memory.store("Ana likes tea")).id)
        before = {row.memory.id: row.memory.content for row in rows(store, tuple(MemoryStatus))}
        for step in steps:
            image = everything(store)
            try:
                await do(memory, clock, step, known)
            except InvalidInput:
                assert everything(store) == image
        assert {row.memory.id: row.memory.content for row in rows(store, tuple(MemoryStatus))} == before
        left = Counter(one.content for one in there(store, clock.now().timestamp()))
        names = {found for one in known if (found := await root(memory, one)) is not None}
        shown = [one for name in names for one in (await memory.threads.get(name, limit=1_000)).messages]
        assert Counter(one.memory.content for one in shown) == left, "every message is in exactly one thread"


def rows(store: PromptStore, statuses: tuple[MemoryStatus, ...]) -> list[Row]:
    return store.reader.page(Query("", "app"), statuses, 1_000, None)


def there(store: PromptStore, now_s: float) -> list[Memory]:
    """What is left, without the working memories that have ended: the next sweep erases these."""
    found = [row.memory for row in rows(store, (MemoryStatus.LIVE, MemoryStatus.ARCHIVED))]
    lifetimes = store.reader.facets("lifetime", [one.id for one in found])
    ends = {one.id: lifetimes.get(one.id, {}).get("expires_at") for one in found}
    return [one for one in found if one.type is not MemoryType.WORKING or (ends[one.id] or now_s + 1) > now_s]


@pytest.mark.requirement("SMT-047")
@given(STEPS)
def test_no_message_is_lost_what_is_told_is_so_and_what_is_refused_changes_nothing(
    steps: list[tuple[str, int, int]],
) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(play(steps, Path(folder) / "home"))
