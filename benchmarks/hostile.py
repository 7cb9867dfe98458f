"""What somebody stores or asks to make a search slow: the deadline holds, and what was cut says so."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence

from benchmarks.filling import fill, utterance
from benchmarks.measure import Figure, Goal, Plan, alternate, by_words, figure
from benchmarks.texts import Note, Writer
from kingly_memory import MemoryRouter

NOTES = 2_000
LONG = 1_040_000
"""Characters of a long memory: a little less than the 1 MiB that is taken."""
OF_EACH = 30
MOST_SAMPLES = 60
DEADLINE_MS = 100.0
OVERRUN_MS = 10.0
GOALS = (Goal("max", DEADLINE_MS + OVERRUN_MS),)


async def measure(plan: Plan) -> list[Figure]:
    if plan.is_quick:
        return []
    notes = plan.writer.notes(NOTES)
    words = [word for note in notes for word in note.content.split()]
    home, chance = plan.folder / "hostile", random.Random(0)
    texts = [note.content for note in notes] + _long(words, chance)
    fill(home, (utterance(text, number, "own") for number, text in enumerate(texts)))
    asked = _asked(plan.writer, notes, words, chance)
    samples = min(plan.samples, MOST_SAMPLES)
    cuts = dict.fromkeys(asked, 0)
    figures = []
    async with MemoryRouter.open(home, project="own", settings=by_words()) as memory:
        for name, questions in asked.items():

            async def search(number: int, name: str = name, questions: Sequence[str] = questions) -> None:
                results = await memory.search(questions[number % len(questions)])
                cuts[name] += any(report.cut for report in results.layers.values())

            seconds = (await alternate({name: search}, samples))[name]
            figures.append(figure(f"hostile: {name}", seconds, goals=GOALS, remark=f"cut short: {cuts[name]}"))
    shutil.rmtree(home)
    return figures


def _long(words: Sequence[str], chance: random.Random) -> list[str]:
    mixed = [" ".join(chance.choices(words, k=LONG // 5))[:LONG] for _ in range(OF_EACH)]
    repeated = ["bananas " * (LONG // 8)] * OF_EACH
    escaped = ['\x01\n"quote' * (LONG // 12)] * OF_EACH
    unbroken = ["東京の天気は晴れ" * (LONG // 3 // 8)] * OF_EACH
    return mixed + repeated + escaped + unbroken


def _asked(
    writer: Writer, notes: Sequence[Note], words: Sequence[str], chance: random.Random
) -> Mapping[str, Sequence[str]]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return {
        "words of long memories": [question.text for question in writer.questions(notes, MOST_SAMPLES)],
        "one word, repeated": ["bananas"],
        "the same, mistyped": ["bannaas"],
        "text full of escapes": ["quote"],
        "a script without spaces": ["東京の天気", "東"],
        "emoji": ["🎉", "→ ✓"],
        "10,000 words": [" ".join(chance.choices(words, k=10_000)) for _ in range(10)],
        "256 unknown words": [" ".join("".join(chance.choices(letters, k=9)) for _ in range(256)) for _ in range(10)],
    }
