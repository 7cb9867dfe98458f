"""Attention with many threads: suggestions, what is known of all threads, and the notes beside a prompt."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.filling import fill, utterance
from benchmarks.measure import Figure, Goal, Plan, by_words, figure, timed
from benchmarks.texts import Question
from kingly_memory import MemoryRouter
from kingly_memory.models import Memory, Scope

THREADS, QUICK_THREADS = 1_000, 100
EACH = 10
ALIKE = 100
"""Every so many threads one says what another has said."""
SETTINGS = by_words(durability="process")
OPENED = 10
SUGGESTED = (Goal("p95", 200.0),)
INJECTED = (Goal("p95", 20.0),)


async def measure(plan: Plan) -> list[Figure]:
    count = QUICK_THREADS if plan.is_quick else THREADS
    notes = plan.writer.notes(count * EACH)
    home = plan.folder / "attending"
    fill(home, _memories([note.content for note in notes], count))
    questions = plan.writer.questions(notes, plan.samples)
    firsts = [await _first(home) for _ in range(OPENED)]
    async with _opened(home) as memory:
        return [
            figure(f"suggestions, {count:,} threads, just opened", firsts, goals=SUGGESTED),
            *await _asking(memory, questions, count),
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
        memory = utterance(texts[copied * EACH + place], number, "bench")
        yield replace(memory, key=None, scope=Scope("bench", context_id=f"thread {thread}"))


async def _first(home: Path) -> float:
    """Of somebody who knows nothing of the threads yet and does not wait."""
    async with _opened(home) as memory:
        return await timed(memory.threads.suggestions(within=0.1))


async def _asking(memory: MemoryRouter, questions: Sequence[Question], count: int) -> list[Figure]:
    began_cpu = time.process_time()
    whole = await timed(memory.threads.suggestions(within=math.inf))
    cpu_ms = (time.process_time() - began_cpu) * 1000
    some = questions[: max(len(questions) // 10, 10)]
    plain = [await timed(memory.threads.suggestions()) for _ in some]
    hinted = [await timed(memory.threads.suggestions(question.text)) for question in some]
    candidates = await memory.threads.suggestions()
    found = len(candidates.merge_candidates) + candidates.more["merge_candidates"]
    after: list[float] = []
    for number, question in enumerate(some):
        await memory.store(question.text, context_id=f"thread {number}")
        after.append(await timed(memory.threads.suggestions()))
    injected = [await timed(memory.inject(one.text)) for one in questions]
    await _guide(memory, questions)
    guided = [await timed(memory.inject(one.text)) for one in questions]
    return [
        figure("the same, until all are read", [whole], remark=f"{cpu_ms:.0f} ms of a processor"),
        figure("suggestions once all were read", plain, goals=SUGGESTED, remark=f"{found:,} pairs alike"),
        figure("the same with hints for a context", hinted, goals=SUGGESTED),
        figure("suggestions after a store", after, goals=SUGGESTED),
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
