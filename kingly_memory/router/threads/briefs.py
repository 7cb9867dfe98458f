"""Looking over all threads of a project: which briefs are true, and which threads have to be read for one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from typing import NamedTuple

from kingly_memory.cognition.owners import owner
from kingly_memory.models import JsonObject, Standing
from kingly_memory.ports import StoreReader, Talk
from kingly_memory.router.collector import put_off
from kingly_memory.router.right_of_way import Pause, no_pause
from kingly_memory.router.threads import courses, roll, roots
from kingly_memory.router.threads.courses import COURSE, Course, Kept, Outline

STEP = 100
"""Facets that are read between two pauses: about a millisecond's work."""
STRIDE = 1_000
"""The same for who is waited for."""
LOOKED_AT = 1_000
"""The same of what is only compared."""
READ_AT_ONCE = 16
MOST_NEW, NEW_EACH_S = 64, 1_000
"""Contexts that are met for the first time by who has no time for all of them, the latest: so many, and as many more as
may be read in each second that there is."""
MOST_VERSIONS = 16
"""Of the store, in which a look is known to be true: each thread that reads has its own."""

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Survey:
    """All threads of a project by context: whose briefs are true, and those to be read, the latest first. `facets` are
    the threads' own notes, `roots` the thread of each context by the store's name for it, `over` whose briefs are to
    go. `unmet`: how many contexts are left of which not even the name was read."""

    current: Mapping[str, Course] = field(default_factory=dict)
    waiting: Mapping[str, Outline] = field(default_factory=dict)
    facets: Mapping[str, JsonObject] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    over: tuple[str, ...] = ()
    unmet: int = 0

    def made_of(self, context_id: str) -> str | None:
        """The state that the thread is in."""
        found = self.current.get(context_id) or self.waiting.get(context_id)
        return None if found is None else found.made_of


class _Look(NamedTuple):
    """What one look over all threads has found, from which the next one goes on. `versions` of the store hold it all,
    and until `until_s` (Unix seconds) no brief ends."""

    survey: Survey
    talks: Mapping[str, Talk]
    names: Mapping[str, str]
    states: Mapping[str, str]
    until_s: float
    versions: tuple[Version | None, ...] = ()


class _Asked(NamedTuple):
    """How somebody looks: the time by which briefs are true, the pause between two bites of the work, and how many
    contexts are met for the first time at most."""

    now_s: float
    pause: Pause
    most_new: int | None

    def left(self, unnamed: Sequence[Talk]) -> int:
        return 0 if self.most_new is None else max(len(unnamed) - self.most_new, 0)


class Briefs:
    """The briefs of one project. Those that are true are held in memory, some hundred bytes each, and so is what was
    seen of all threads: the next look is at what has changed since. Safe from any thread."""

    def __init__(self, reader: StoreReader, project: str) -> None:
        self._reader = reader
        self.project = project
        self._look: _Look | None = None
        self._worked_out: Mapping[str, Course] = {}
        self._nameless: frozenset[Talk] = frozenset()
        self.topics: Mapping[str, Kept] = {}
        """Of threads whose briefs are held, as far as they are still needed."""

    def survey(self, now_s: float, pause: Pause = no_pause, most_new: int | None = None) -> Survey:
        """`pause` is called after every millisecond or so of the interpreter. The same object as before says that all
        threads are as they were. With `most_new`, no more contexts than that are met for the first time."""
        version = self._reader.threads.version()
        look, asked = self._look, _Asked(now_s, pause, most_new)
        is_known = look is not None and version is not None and version in look.versions and now_s < look.until_s
        if look is None or not is_known or look.survey.unmet:
            found = self._gone_on(look, look.talks, asked) if look and is_known else self._looked(look, asked)
            known = look.versions if look is not None and found.survey is look.survey else ()
            self._look = look = found._replace(versions=(version, *known[: MOST_VERSIONS - 1]))
        return look.survey

    def _looked(self, before: _Look | None, asked: _Asked) -> _Look:
        with put_off() if before is None and asked.pause is no_pause else nullcontext():
            known = self._known(asked.pause) if before is None else before.survey.current
            talks = {talk.context: talk for talk in self._reader.threads.talks(self.project)}
        asked.pause()
        facets = self._thread_facets(asked.pause)
        if before is None or asked.now_s >= before.until_s or facets != before.survey.facets:
            return self._anew(before, known, talks, facets, asked)
        return self._gone_on(before, talks, asked)

    def _known(self, pause: Pause) -> Mapping[str, Course]:
        """The briefs that are kept, true or not: all but the latest from the roll, where there is one."""
        rolled = roll.read(self._reader, self.project, pause)
        if rolled is None:
            return self._read_all(pause)
        self._reader.threads.go_on(self.project, rolled.seen)
        return rolled.courses

    def _anew(
        self,
        before: _Look | None,
        known: Mapping[str, Course],
        talks: Mapping[str, Talk],
        facets: Mapping[str, JsonObject],
        asked: _Asked,
    ) -> _Look:
        """Every thread is looked at."""
        said = {token: context_id for course in known.values() for context_id, token in course.contexts}
        names = {**said, **({} if before is None else before.names)}
        unnamed = [one for one in talks.values() if one.context not in names and one not in self._nameless]
        names |= self._met(unnamed, asked)
        asked.pause()
        names = {token: names[token] for token in talks if token in names}
        heads = dict(names)
        if facets:
            heads |= {token: roots.root(one, facets) for token, one in names.items() if one in facets}
        asked.pause()
        states = _states(talks.values(), heads, asked.pause)
        current = {root: one for root, one in known.items() if one.is_true(states.get(root), asked.now_s)}
        current |= self._written(states, current, asked.now_s) if known else {}
        waiting = {root: state for root, state in states.items() if root not in current}
        over = tuple(root for root in known if root not in states)
        outlines = _outlines(waiting, names, heads, talks)
        survey = Survey(current, outlines, facets, heads, over, asked.left(unnamed))
        return _Look(survey, talks, names, states, until_s(current.values()))

    def _gone_on(self, before: _Look, talks: Mapping[str, Talk], asked: _Asked) -> _Look:
        """Only what is not as it was is looked at. No thread goes on as another one than before."""
        found, names, heads, states = before.survey, before.names, before.survey.roots, before.states
        touched = [talk for talk in talks.values() if before.talks.get(talk.context) != talk]
        unnamed = [one for one in talks.values() if one.context not in names and one not in self._nameless]
        gone = before.talks.keys() - talks.keys()
        asked.pause()
        if touched or unnamed or gone:
            new = self._met(unnamed, asked)
            names = {token: one for token, one in {**names, **new}.items() if token not in gone}
            heads = {token: one for token, one in heads.items() if token not in gone}
            heads |= {token: roots.root(one, found.facets) for token, one in new.items()}
            moved = {heads[token] for token in (*new, *(talk.context for talk in touched)) if token in heads}
            moved |= {found.roots[token] for token in gone if token in found.roots}
            own = [talks[token] for token, root in heads.items() if root in moved]
            states = {root: state for root, state in states.items() if root not in moved} | _states(
                own, heads, asked.pause
            )
        current = {root: one for root, one in found.current.items() if one.made_of == states.get(root)}
        written = self._written(states, current, asked.now_s)
        if states is before.states and not written:
            return before
        asked.pause()
        current |= written
        waiting = {root: state for root, state in states.items() if root not in current}
        over = tuple(root for root in found.current if root not in states)
        still = {root: one for root, one in found.waiting.items() if waiting.get(root) == one.made_of}
        fresh = {root: state for root, state in waiting.items() if root not in still}
        outlines = _outlines(fresh, names, heads, talks) | still
        survey = Survey(current, outlines, found.facets, heads, over, asked.left(unnamed))
        return _Look(survey, talks, names, states, min(before.until_s, until_s(written.values())))

    def _written(self, states: Mapping[str, str], current: Collection[str], now_s: float) -> dict[str, Course]:
        """The true briefs of other threads than those whose briefs are known: somebody may have written them down."""
        kept = courses.kept(self._reader, self.project, [root for root in states if root not in current])
        return {root: one for root, one in kept.items() if one.is_true(states.get(root), now_s)}

    def strays(self, found: Survey, pause: Pause = no_pause) -> tuple[str, ...]:
        """The threads that are no more and whose briefs are there all the same, whoever wrote them."""
        return tuple(one for one in self._read_all(pause) if one not in found.current and one not in found.waiting)

    def worked_out(self, found: Survey, now_s: float) -> dict[str, Course]:
        """The briefs of threads in waiting that were worked out before and are still true."""
        held = self._worked_out
        waiting = found.waiting.items()
        return {name: held[name] for name, one in waiting if name in held and held[name].is_true(one.made_of, now_s)}

    def hold(self, worked_out: Mapping[str, Course], topics: Mapping[str, Kept]) -> None:
        """Keep in mind what was worked out of threads in waiting, instead of what was before."""
        self._worked_out, self.topics = worked_out, topics

    def _read_all(self, pause: Pause) -> dict[str, Course]:
        read = (courses.from_json(facet, self.project) for _, facet in all_facets(self._reader, COURSE, pause))
        return {course.context_id: course for course in read if course is not None}

    def _thread_facets(self, pause: Pause) -> dict[str, JsonObject]:
        """By context. The owner says whether one is this project's."""
        found: dict[str, JsonObject] = {}
        for whose, facet in all_facets(self._reader, roots.THREAD, pause):
            context_id = facet.get("context_id")
            if isinstance(context_id, str) and owner(self.project, context_id) == whose:
                found[context_id] = facet
        return found

    def _met(self, talks: Sequence[Talk], asked: _Asked) -> dict[str, str]:
        """The contexts' ids by the store's names for them, from a memory of each; the latest of them."""
        at = {talk.last: talk for talk in talks}
        places = list(at) if asked.most_new is None else nlargest(asked.most_new, at)
        named: dict[str, str] = {}
        for first in range(0, len(places), READ_AT_ONCE):
            asked.pause()
            for row in self._reader.rows_at(places[first : first + READ_AT_ONCE], math.inf):
                context_id, token = row.memory.scope.context_id, at[row.position].context
                if context_id is not None and self._reader.context_token(context_id) == token:  # and has not moved
                    named[token] = context_id
        self._nameless |= {at[place] for place in places if at[place].context not in named}
        return named


def most_new(least: int, within_s: float) -> int | None:
    return None if within_s == math.inf else least + int(max(within_s, 0.0) * NEW_EACH_S)


def is_active(course: Course, facet: JsonObject) -> bool:
    """What compaction archived holds nothing any more but protected memories that were there then."""
    archived_at = roots.number(facet, "archived_at")
    return not course.is_over and (archived_at is None or course.is_free or course.held_s > archived_at)


def weights(reader: StoreReader, project: str, found: Survey) -> dict[str, list[JsonObject]]:
    """What the facets `attention` say of each thread, its own first. A pinned memory pins its thread."""
    facets = dict(all_facets(reader, roots.ATTENTION))
    own = courses.names(reader, project, facets) if facets else {}
    own |= {whose: name for name in (found.waiting if facets else ()) if (whose := owner(project, name)) in facets}
    there = {whose: name for whose, name in own.items() if name in found.current or name in found.waiting}
    said = {name: [facets.pop(whose)] for whose, name in there.items()}
    for memory_id, facet in facets.items():
        row = reader.row(memory_id) if facet.get("pinned") is True else None
        if row is None or row.standing is not Standing.LIVE or row.memory.scope.project != project:
            continue
        if (context_id := row.memory.scope.context_id) is not None:
            said.setdefault(roots.root(context_id, found.facets), []).append(facet)
    return said


def until_s(several: Iterable[Course]) -> float:
    """When the first of the briefs ends that are true now."""
    return min((one.ends_s for one in several if one.ends_s is not None), default=math.inf)


def _states(talks: Iterable[Talk], heads: Mapping[str, str], pause: Pause) -> dict[str, str]:
    """Which state each thread is in: how many live memories its contexts have, and the sum of their marks."""
    is_alone = len(set(heads.values())) == len(heads)  # as most are: one context is one thread
    several = set() if is_alone else {root for root, count in Counter(heads.values()).items() if count > 1}
    states: dict[str, str] = {}
    sums: dict[str, tuple[int, int]] = {}
    left = iter(talks)
    while some := list(islice(left, LOOKED_AT)):
        named = [(heads[talk.context], talk) for talk in some if talk.context in heads]
        states |= {root: f"{talk.memories}.{talk.mark}" for root, talk in named if root not in several}
        for root, talk in named if several else ():
            if root in several:
                count, mark = sums.get(root, (0, 0))
                sums[root] = count + talk.memories, mark + talk.mark
        pause()
    return states | {root: f"{count}.{mark}" for root, (count, mark) in sums.items()}


def _outlines(
    states: Mapping[str, str], names: Mapping[str, str], heads: Mapping[str, str], talks: Mapping[str, Talk]
) -> dict[str, Outline]:
    """Of threads in those states, the latest first."""
    contexts: dict[str, list[tuple[str, str]]] = {root: [] for root in states}
    latest = dict.fromkeys(states, 0)
    for token, root in heads.items() if states else ():
        if root in contexts:
            contexts[root].append((names[token], token))
            latest[root] = max(latest[root], talks[token].last)
    ordered = sorted(states, key=latest.__getitem__, reverse=True)
    return {root: Outline(root, tuple(sorted(contexts[root])), states[root]) for root in ordered}


def all_facets(reader: StoreReader, name: str, pause: Pause = no_pause) -> Iterator[tuple[str, JsonObject]]:
    """Every facet of that name, with its owner."""
    after, most = "", STRIDE if pause is no_pause else STEP
    while page := reader.threads.named(name, most, after):
        pause()
        yield from page
        after = page[-1][0]
