"""Which threads are about the same as one, found through the text index: nobody holds every thread against every other.

Threads whose topics are more alike than the threshold have one of each other's rarest words in common, taken until what
is left of the topic could not reach the threshold by itself (prefix filtering, Bayardo 2007). So the index is asked for
memories with those words, and the topics of the threads that they belong to are compared.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping

from kingly_memory import topics
from kingly_memory.attention.suggestions import ALIKE
from kingly_memory.ports import StoreReader
from kingly_memory.router.threads.briefs import Survey
from kingly_memory.router.threads.courses import Alike, Kept, Read, topics_of
from kingly_memory.topics import Topic

COMPARED = 12
"""Threads whose topics one is held against."""
KEPT = 5
COMMON = 2_000
"""A word in more memories than that finds nothing in particular."""
MOST_ASKED = 10
REMEMBERED = 50_000
ASKING_S = 0.1


class Kin:
    """Finds the threads like one. Remembers how common words are, so it lives for a task and no longer."""

    def __init__(self, reader: StoreReader, project: str) -> None:
        self._reader = reader
        self._project = project
        self._times: dict[str, int] = {}

    def candidates(self, one: Read, survey: Survey) -> list[str]:
        """The threads that may be about the same, the likeliest first."""
        words = self._asked(one)
        deadline_s = time.monotonic() + ASKING_S
        found = self._reader.threads.sharing(self._project, words, COMPARED + 1, deadline_s)
        roots = dict.fromkeys(survey.roots[talk.context] for talk in found if talk.context in survey.roots)
        return [root for root in roots if root != one.course.context_id][:COMPARED]

    def topics(self, context_ids: list[str], survey: Survey, read: Mapping[str, Read], now_s: float) -> dict[str, Kept]:
        """Their topics, as far as they are known in the state that the threads are in."""
        known = {name: read[name].kept for name in context_ids if name in read}
        kept = topics_of(self._reader, self._project, [name for name in context_ids if name not in known])
        return known | {name: one for name, one in kept.items() if one.is_true(survey.made_of(name), now_s)}

    def _asked(self, one: Read) -> list[str]:
        """The words by which a thread that is about the same is found: its own project has them all."""
        spelling = one.spelling()
        spelt = {stem: spelling.get(stem, stem) for stem in one.topic}
        times = self._counted(list(spelt.values()))
        rarest = sorted(one.topic, key=lambda stem: (times[spelt[stem]], stem))
        asked = [spelt[stem] for stem in _heads(one.topic, rarest) if 1 < times[spelt[stem]] <= COMMON]
        return list(dict.fromkeys(asked))[:MOST_ASKED]

    def _counted(self, words: list[str]) -> Mapping[str, int]:
        if len(self._times) > REMEMBERED:
            self._times.clear()
        new = [word for word in dict.fromkeys(words) if word not in self._times]
        self._times |= self._reader.threads.spread(new, COMMON + 1)
        return self._times


def alike(one: Read, others: Mapping[str, Kept]) -> list[Alike]:
    """Those of the others that are about the same, the most alike first."""
    found = ((name, round(topics.cosine(one.topic, other.topic), 4)) for name, other in others.items())
    above = sorted((pair for pair in found if pair[1] > ALIKE), key=lambda pair: (-pair[1], pair[0]))
    return [Alike(name, value, others[name].state) for name, value in above[:KEPT]]


def _heads(topic: Topic, rarest: list[str]) -> Iterator[str]:
    left = whole = math.fsum(weight * weight for weight in topic.values())
    for stem in rarest:
        if left < ALIKE * ALIKE * whole * (1 - 1e-9):
            return
        yield stem
        left -= topic[stem] ** 2
