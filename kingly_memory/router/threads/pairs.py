"""Which threads are about the same, as they are now: from what is kept, and from memories where nothing is."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from kingly_memory import topics
from kingly_memory.attention.suggestions import ALIKE
from kingly_memory.ports import StoreReader
from kingly_memory.router.threads import courses, kin, roots
from kingly_memory.router.threads.briefs import Survey
from kingly_memory.router.threads.courses import Alike, Course, Kept, Outline, Read
from kingly_memory.router.threads.kin import KEPT, Kin

MOST_BY_INDEX = 100
"""Threads for which the text index is asked. When there are more, all topics are compared, unless these are many."""
DEARER = 8
"""Asking the index for a thread takes as long as comparing the topics of so many."""
LEAST_READ = 4
NOTHING_HELD: Mapping[str, Kept] = MappingProxyType({})
MOST_CHECKED = 200
"""Pairs that are compared again because one of them has changed."""

Pairs = dict[tuple[str, str], float]


class WorkedOut(NamedTuple):
    """The briefs of threads that had none, of what `found` says of them, and how long that took."""

    found: Survey
    read: Mapping[str, Read]
    took_s: float

    def holds(self, now: Survey) -> bool:
        """Whether no memory has come or gone since: each brief names the threads that are like it."""
        before = self.found
        names = {*before.current, *before.waiting}
        return names == {*now.current, *now.waiting} and all(before.made_of(one) == now.made_of(one) for one in names)


class Comparing:
    """Compares the threads of one survey. After `deadline_s` (monotonic) none is read but the first few; threads that
    these are like, and that nobody has read, name them when they are. `held` are topics that were worked out before."""

    def __init__(
        self,
        reader: StoreReader,
        project: str,
        found: Survey,
        now_s: float,
        *,
        deadline_s: float = math.inf,
        held: Mapping[str, Kept] = NOTHING_HELD,
    ) -> None:
        self._reader = reader
        self._project = project
        self._found = found
        self._now_s = now_s
        self._deadline_s = deadline_s
        self._held = held
        self._kin = Kin(reader, project)
        self._read: dict[str, Read] = {}

    def compared(self, outlines: Sequence[Outline]) -> dict[str, Course]:
        """The briefs of threads without one, with the others that are like them."""
        if self._deadline_s < math.inf:
            return dict(self._one_by_one(outlines))
        own = {one.context_id: read for one in outlines if (read := self._read_one(one)) is not None}
        total = len(self._found.current) + len(self._found.waiting)
        if len(own) > MOST_BY_INDEX and len(own) * DEARER > total:
            alike = self._of_all(own)
        else:
            alike = {name: kin.alike(one, self._candidates(one)) for name, one in own.items()}
        return {name: one.course.like(alike[name]) for name, one in own.items()}

    def _one_by_one(self, outlines: Iterable[Outline]) -> Iterator[tuple[str, Course]]:
        for number, outline in enumerate(outlines):
            if number >= LEAST_READ and time.monotonic() >= self._deadline_s:
                return
            if (one := self._read_one(outline)) is not None:
                yield outline.context_id, one.course.like(kin.alike(one, self._candidates(one)))

    def read(self, briefs: Mapping[str, Course]) -> dict[str, Read]:
        """What was read for those that were compared here."""
        return {name: replace(self._read[name], course=one) for name, one in briefs.items() if name in self._read}

    def topics(self, briefs: Mapping[str, Course]) -> dict[str, Kept]:
        """Those of the briefs that were compared here, or held, for who has more to read."""
        if self._deadline_s == math.inf:
            return {}
        held = {name: self._held[name] for name in briefs if name in self._held}
        return held | {name: one.kept for name, one in self.read(briefs).items()}

    def pairs(self, briefs: Mapping[str, Course]) -> Pairs:
        """Those above the threshold, each in the order of its names."""
        pairs: Pairs = {}
        doubtful: dict[tuple[str, str], None] = {}
        for name, course in briefs.items():
            for other in course.others() if course.alike else ():
                if (known := briefs.get(other.context_id)) is not None and known.state == other.state:
                    pairs[_ends(name, other.context_id)] = other.similarity
                elif (root := roots.root(other.context_id, self._found.facets)) != name:
                    doubtful[_ends(name, root)] = None
        again = [ends for ends in doubtful if ends not in pairs][:MOST_CHECKED]
        return pairs | _compared(again, self._topics({one for ends in again for one in ends}))

    def _candidates(self, one: Read) -> dict[str, Kept]:
        return self._topics(self._kin.candidates(one, self._found))

    def _topics(self, names: Iterable[str]) -> dict[str, Kept]:
        """Those of threads that are there; where none is kept, from the memories."""
        wanted = list(names)
        known = self._kin.topics(wanted, self._found, self._read, self._now_s)
        held = {name: self._held[name] for name in wanted if name in self._held and name not in known}
        known |= {name: one for name, one in held.items() if one.is_true(self._found.made_of(name), self._now_s)}
        for name in wanted if time.monotonic() < self._deadline_s else ():
            outline = None if name in known else self._outline(name)
            if outline is not None and (one := self._read_one(outline)) is not None:
                known[name] = one.kept
        return known

    def _of_all(self, own: Mapping[str, Read]) -> dict[str, list[Alike]]:
        everything = self._topics([*self._found.current, *self._found.waiting])
        named = [(name, one.topic) for name, one in everything.items()]
        alike: dict[str, list[Alike]] = {name: [] for name in own}
        for value, one, other in sorted(topics.alike(named, ALIKE), reverse=True):
            for name, theirs in ((one, other), (other, one)):
                if name in alike and len(alike[name]) < KEPT:
                    alike[name].append(Alike(theirs, round(value, 4), everything[theirs].state))
        return alike

    def _outline(self, name: str) -> Outline | None:
        course = self._found.current.get(name)
        return self._found.waiting.get(name) if course is None else Outline(name, course.contexts, course.made_of)

    def _read_one(self, outline: Outline) -> Read | None:
        if outline.context_id not in self._read:
            one = courses.read(self._reader, self._project, outline, self._now_s)
            if one is not None:
                self._read[outline.context_id] = one
        return self._read.get(outline.context_id)


def _compared(pairs: Sequence[tuple[str, str]], known: Mapping[str, Kept]) -> Pairs:
    held = {
        ends: round(topics.cosine(*(known[one].topic for one in ends)), 4) for ends in pairs if known.keys() >= {*ends}
    }
    return {ends: similarity for ends, similarity in held.items() if similarity > ALIKE}


def _ends(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)
