"""Attention with many threads: suggestions, the notes beside a prompt, and what keeping threads in brief costs."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.filling import fill, said
from benchmarks.measure import Figure, Goal, Plan, by_words, figure, timed
from benchmarks.texts import Question
from kingly_memory import MemoryRouter
from kingly_memory.models import Memory, Scope
from kingly_memory.router import spine
from kingly_memory.router.threads import rolling
from kingly_memory.router.threads.keeper import Keeper

THREADS, QUICK_THREADS = 10_000, 500
EACH = 3
ALIKE = 100
"""Every so many threads one says what another has said."""
SETTINGS = by_words(durability="process")
ROUNDS, OPENED, SINCE = 3, 10, 10
NEVER_S = 1e9
SUGGESTED = (Goal("p95", 200.0),)
FIRST = (Goal("max", 200.0),)
INJECTED = (Goal("p95", 20.0),)
KEPT = (Goal("max", 60_000.0),)
STORED = (Goal("ratio", 1.2), Goal("ratio_p99", 1.5))


async def measure(plan: Plan) -> list[Figure]:
    count = QUICK_THREADS if plan.is_quick else THREADS
    notes = plan.writer.notes(count * EACH)
    home = plan.folder / "attending"
    fill(home, _memories([note.content for note in notes], count))
    questions = plan.writer.questions(notes, plan.samples)
    with _threads_kept_after(NEVER_S), _as_a_minute_later():
        async with _opened(home) as memory:
            first = await timed(memory.threads.suggestions())
            unread = (await memory.threads.suggestions()).unread
            kept = await _keeping(memory, count)
            meanwhile = await _stores(memory, questions, count)
            await _keeping(memory, count)
        firsts = [await _first(home) for _ in range(OPENED)]
        async with _opened(home) as memory:
            asked = await _asking(memory, questions, count)
            for number, one in enumerate(questions[:SINCE]):
                await memory.store(one.text, context_id=f"thread {number * count // SINCE}")
        later = [await _first(home) for _ in range(OPENED)]
    none, opened = f"suggestions, {count:,} threads, none in brief", f"suggestions, {count:,} threads, just opened"
    return [
        figure(none, [first], goals=FIRST, remark=f"{unread:,} unread after the second"),
        kept,
        figure(opened, firsts, goals=SUGGESTED),
        figure(f"the same after {SINCE} stores", later, goals=SUGGESTED),
        *asked,
        *meanwhile,
    ]


def _opened(home: Path) -> MemoryRouter:
    return MemoryRouter.open(home, remote=False, project="bench", settings=SETTINGS)


def _memories(texts: Sequence[str], count: int) -> Iterator[Memory]:
    """As they come in life: what belongs to one thread lies between others."""
    order = list(range(count * EACH))
    random.Random(len(order)).shuffle(order)
    for number, at in enumerate(order):
        thread, place = divmod(at, EACH)
        copied = thread - 1 if thread % ALIKE == 1 else thread
        memory = said(texts[copied * EACH + place], number, "bench")
        yield replace(memory, key=None, scope=Scope("bench", None, f"thread {thread}"))


async def _keeping(memory: MemoryRouter, count: int) -> Figure:
    """In the time of a processor: it is done in the background."""
    keeper = _keeper(memory)
    began, began_cpu = time.perf_counter(), time.process_time()
    await keeper.complete()
    cpu_s, wall_s = time.process_time() - began_cpu, time.perf_counter() - began
    keeper.stop()
    return figure(
        f"keeping {count:,} threads in brief, processor",
        [cpu_s],
        goals=KEPT,
        remark=f"{count * EACH:,} memories; {wall_s:.1f} s on the wall",
    )


async def _first(home: Path) -> float:
    """Of somebody who knows nothing of the threads yet, and clears up after nobody else."""
    gc.collect()
    async with _opened(home) as memory:
        return await timed(memory.threads.suggestions())


async def _asking(memory: MemoryRouter, questions: Sequence[Question], count: int) -> list[Figure]:
    await memory.threads.suggestions()
    some = questions[: max(len(questions) // 10, 10)]
    began_cpu = time.process_time()
    plain = [await timed(memory.threads.suggestions()) for _ in some]
    cpu_ms = (time.process_time() - began_cpu) / len(some) * 1000
    hinted = [await timed(memory.threads.suggestions(one.text)) for one in some]
    candidates = await memory.threads.suggestions()
    found = len(candidates.merge_candidates) + candidates.more["merge_candidates"]
    injected = [await timed(memory.inject(one.text)) for one in questions]
    await _guide(memory, questions)
    guided = [await timed(memory.inject(one.text)) for one in questions]
    return [
        figure(
            f"suggestions, {count:,} threads",
            plain,
            goals=SUGGESTED,
            remark=f"{found:,} pairs alike; {cpu_ms:.0f} ms of a processor each",
        ),
        figure("the same with hints for a context", hinted, goals=SUGGESTED),
        figure(f"notes beside a prompt, {count:,} threads", injected, goals=INJECTED),
        figure("the same with topics in focus, a pin and a rating", guided, goals=INJECTED),
    ]


async def _guide(memory: MemoryRouter, questions: Sequence[Question]) -> None:
    """Two topics and a thread are in focus, one memory is pinned, and one thread was of no use."""
    about = [max(one.note.content.split(), key=len) for one in questions[:2]]
    for topic in (*about, "thread 7"):
        await memory.attention.focus(topic)
    await memory.attention.pin(f"Always look up {about[0]} first")
    shown = [thread for one in questions[:10] for thread in (await memory.inject(one.text)).threads.values()]
    await memory.attention.rate(shown[0], useful=False)


async def _stores(memory: MemoryRouter, questions: Sequence[Question], count: int) -> list[Figure]:
    """By turns: while nothing is kept (twice, A and A) and while it is (B), each store in another thread."""
    seconds: dict[str, list[float]] = {arm: [] for arm in "AaB"}
    asked, threads = itertools.cycle(questions), itertools.count()
    share = max(len(questions) // ROUNDS, 1)
    for turn in range(ROUNDS):
        for arm in ("AaB", "BAa", "aBA")[turn % ROUNDS]:
            keeping = asyncio.create_task(_keep_on(memory)) if arm == "B" else None
            for _ in range(share):
                context = f"thread {next(threads) % count}"
                seconds[arm].append(await timed(memory.store(next(asked).note.content, context_id=context)))
            if keeping is not None:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
    plain = "store, no threads are kept in brief"
    return [
        figure(plain, seconds["A"]),
        figure("the same again (A/A), store", seconds["a"], floor=seconds["A"], against=plain),
        figure("store while threads are kept", seconds["B"], floor=seconds["A"], against=plain, goals=STORED),
    ]


async def _keep_on(memory: MemoryRouter) -> None:
    """As a router does it, woken by every store."""
    keeper = memory._keeper = _keeper(memory)  # noqa: SLF001  # so that stores wake it
    try:
        await keeper.run()
    finally:
        memory._keeper = None  # noqa: SLF001  # the same
        await asyncio.to_thread(keeper.stop)


def _keeper(memory: MemoryRouter) -> Keeper:
    store, clock, briefs = memory._store, memory._clock, memory._briefs  # noqa: SLF001  # kept by hand, to measure it
    way = memory._right_of_way  # noqa: SLF001  # the same
    return Keeper("bench", briefs, store=store, clock=clock, right_of_way=way)


@contextmanager
def _threads_kept_after(seconds: float) -> Iterator[None]:
    usual, spine.THREADS_AFTER_S = spine.THREADS_AFTER_S, seconds
    try:
        yield
    finally:
        spine.THREADS_AFTER_S = usual


@contextmanager
def _as_a_minute_later() -> Iterator[None]:
    """The roll is as it is when the last stores are longer ago."""
    usual, rolling.REST_S = rolling.REST_S, 0.0
    try:
        yield
    finally:
        rolling.REST_S = usual
