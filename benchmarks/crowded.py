"""A small project beside 100,000 memories of others: in its own words, in words that only the others have, and in
typing errors of these, and with the others' stored before its own or after. By meaning too, where that is installed.
With a LoCoMo file, both are its turns; the others' are recombined from sentences of it."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.eval.misspelling import misspelt
from benchmarks.filling import fill, utterance
from benchmarks.measure import Arm, Figure, Goal, Plan, alternate, figure, timed
from benchmarks.texts import FUNCTION_WORDS, Writer
from kingly_memory import MemoryRouter, Settings

FOREIGN = 100_000
OWN = 600
AT_ONCE = 10
MOST_SAMPLES = 300
QUICKLY = (Goal("p50", 10.0), Goal("max", 100.0))
IN_TIME = (Goal("max", 100.0),)


@dataclass(frozen=True, slots=True)
class _Texts:
    """What is said in the own project and by others, what is asked of the own one, and the words only others have."""

    own: Sequence[str]
    foreign: Sequence[str]
    questions: Sequence[str]
    unknown: Sequence[str]


async def measure(plan: Plan) -> list[Figure]:
    if plan.is_quick:
        return []
    figures = await _among(plan, "notes", _generated(plan.writer))
    if plan.locomo is not None:
        figures += await _among(plan, "LoCoMo", _recombined(json.loads(plan.locomo.read_text(encoding="utf-8"))))
    return figures


async def _among(plan: Plan, name: str, texts: _Texts) -> list[Figure]:
    homes = [plan.folder / f"{arm} {name}" for arm in ("alone", "crowded", "overtaken")]
    alone, crowded, overtaken = homes
    own = [utterance(text, number, "own") for number, text in enumerate(texts.own)]
    fill(alone, own)
    fill(crowded, (utterance(text, number, "others") for number, text in enumerate(texts.foreign)))
    fill(crowded, own)
    fill(overtaken, own)
    fill(overtaken, (utterance(text, number, "others") for number, text in enumerate(texts.foreign)))
    unknown = [" ".join(random.Random(number).sample(texts.unknown, 4)) for number in range(MOST_SAMPLES)]
    asked = {
        "own words": texts.questions,
        "others' words": unknown,
        "others' words, mistyped": [misspelt(text, number) for number, text in enumerate(unknown)],
    }
    cuts: dict[str, int] = {}
    async with (
        MemoryRouter.open(alone, project="own", settings=Settings()) as quiet,
        MemoryRouter.open(crowded, project="own", settings=Settings()) as memory,
        MemoryRouter.open(overtaken, project="own", settings=Settings()) as early,
    ):
        for router in (quiet, memory, early):
            await router.await_vectors()
        arms = {"alone": _arm(quiet, "alone", texts.questions, cuts), "A/A": _arm(quiet, "A/A", texts.questions, cuts)}
        arms |= {what: _arm(memory, what, asks, cuts) for what, asks in asked.items()}
        arms["stored before theirs"] = _arm(early, "stored before theirs", texts.questions, cuts)
        seconds = await alternate(arms, min(plan.samples, MOST_SAMPLES))
        together = await _at_once(memory, asked["others' words, mistyped"], min(plan.samples, MOST_SAMPLES) // AT_ONCE)
    for home in homes:
        shutil.rmtree(home)
    first = f"search in {len(own)} {name}"
    return [
        figure(first, seconds["alone"], remark=f"cut short: {cuts['alone']}"),
        figure(f"the same again (A/A), {name}", seconds["A/A"], floor=seconds["alone"], against=first),
        *(
            figure(
                f"beside {len(texts.foreign):,} {name}, {what}",
                seconds[what],
                floor=seconds["alone"],
                against=first,
                goals=QUICKLY,
                remark=f"cut short: {cuts[what]}",
            )
            for what in (*asked, "stored before theirs")
        ),
        figure(f"{AT_ONCE} of the last at once, the slowest", together, goals=IN_TIME),
    ]


def _arm(memory: MemoryRouter, name: str, asked: Sequence[str], cuts: dict[str, int]) -> Arm:
    cuts[name] = 0

    async def search(number: int) -> None:
        results = await memory.search(asked[number % len(asked)])
        cuts[name] += any(report.cut for report in results.layers.values())

    return search


async def _at_once(memory: MemoryRouter, asked: Sequence[str], rounds: int) -> list[float]:
    """Seconds that the slowest of each round took."""
    starts = range(0, max(rounds, 1) * AT_ONCE, AT_ONCE)
    return [
        max(await asyncio.gather(*(timed(memory.search(text)) for text in asked[start : start + AT_ONCE])))
        for start in starts
    ]


def _generated(foreign_writer: Writer) -> _Texts:
    writer = Writer(99)
    own = writer.notes(OWN)
    foreign = [note.content for note in foreign_writer.notes(FOREIGN)]
    questions = [question.text for question in writer.questions(own, MOST_SAMPLES)]
    return _Texts([note.content for note in own], foreign, questions, _only_in(foreign, [note.content for note in own]))


def _recombined(conversations: list[dict[str, Any]]) -> _Texts:
    """The first conversation is the own project; the others say sentences of the rest, in another order."""
    chance = random.Random(0)
    own = list(_turns(conversations[0]))
    sentences = [
        sentence for talk in conversations[1:] for turn in _turns(talk) for sentence in re.split(r"(?<=[.!?]) ", turn)
    ]
    foreign = [" ".join(chance.sample(sentences, chance.randint(1, 4))) for _ in range(FOREIGN)]
    questions = [item["question"] for item in conversations[0]["qa"]]
    return _Texts(own, foreign, questions, _only_in(sentences, own))


def _turns(conversation: dict[str, Any]) -> Iterator[str]:
    for turns in conversation["conversation"].values():
        if isinstance(turns, list):
            yield from (f"{turn['speaker']}: {turn['text']}" for turn in turns)


def _only_in(texts: Sequence[str], others: Sequence[str]) -> list[str]:
    """Words of four letters or more whose beginning no word of the others has, so that they share no stem with one."""
    known = {word[:4] for word in _words(others)} | set(FUNCTION_WORDS)
    return sorted({word for word in _words(texts) if len(word) > 3 and word[:4] not in known})


def _words(texts: Sequence[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}
