"""Looking over all threads of a project: which briefs are true, and which threads have to be read for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kingly_memory.cognition.working import owner
from kingly_memory.models import JsonObject, Standing
from kingly_memory.ports import StoreReader, Talk
from kingly_memory.router.threads import courses, roots
from kingly_memory.router.threads.courses import COURSE, Course, Outline

STEP = 100
"""Facets that are read between two pauses: about a millisecond's work."""
LOOKED_AT = 1_000
"""The same of what is only compared."""
READ_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Survey:
    """All threads of a project by context: whose briefs are true, and those to be read. `facets` are the threads' own
    notes, `roots` the thread of each context by the store's name for it, `over` whose briefs are to go."""

    current: Mapping[str, Course] = field(default_factory=dict)
    waiting: Mapping[str, Outline] = field(default_factory=dict)
    facets: Mapping[str, JsonObject] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    over: tuple[str, ...] = ()

    def made_of(self, context_id: str) -> str | None:
        """The state that the thread is in."""
        found = self.current.get(context_id) or self.waiting.get(context_id)
        return None if found is None else found.made_of


def no_pause() -> None:
    """For who is waited for."""


class Briefs:
    """The briefs of one project. Those that are true are held in memory, some hundred bytes each, so that it is quick
    to look again. Safe from any thread."""

    def __init__(self, reader: StoreReader, project: str) -> None:
        self._reader = reader
        self._project = project
        self._held: Mapping[str, Course] = {}
        self._worked_out: Mapping[str, Course] = {}

    def survey(self, now_s: float, pause: Callable[[], None] = no_pause) -> Survey:
        """`pause` is called after every millisecond or so of the interpreter."""
        talks = self._reader.threads.talks(self._project)
        facets = self._thread_facets(pause)
        held = self._held
        known = held or self._read_all(pause)
        names = {token: context_id for course in known.values() for context_id, token in course.contexts}
        names |= self._unknown([talk for talk in talks if talk.context not in names], pause)
        pause()
        heads = {talk.context: names[talk.context] for talk in talks if talk.context in names}
        if facets:
            heads |= {token: roots.root(one, facets) for token, one in heads.items() if one in facets}
        states = _states(talks, heads, pause)
        current = {root: one for root, one in known.items() if one.is_true(states.get(root), now_s)}
        if held:
            written = courses.kept(self._reader, self._project, [root for root in states if root not in current])
            current |= {root: one for root, one in written.items() if one.is_true(states.get(root), now_s)}
        self._held = current
        waiting = {root: state for root, state in states.items() if root not in current}
        over = tuple(root for root in known if root not in states)
        return Survey(current, _outlines(waiting, names, heads), facets, heads, over)

    def strays(self, found: Survey, pause: Callable[[], None] = no_pause) -> tuple[str, ...]:
        """The threads that are no more and whose briefs are there all the same, whoever wrote them."""
        return tuple(one for one in self._read_all(pause) if one not in found.current and one not in found.waiting)

    def worked_out(self, found: Survey, now_s: float) -> dict[str, Course]:
        """The briefs of threads in waiting that were worked out before and are still true."""
        held = self._worked_out
        waiting = found.waiting.items()
        return {name: held[name] for name, one in waiting if name in held and held[name].is_true(one.made_of, now_s)}

    def hold(self, worked_out: Mapping[str, Course]) -> None:
        """Keep in mind what was worked out of threads in waiting, instead of what was before."""
        self._worked_out = worked_out

    def _read_all(self, pause: Callable[[], None]) -> dict[str, Course]:
        read = (courses.from_json(facet, self._project) for _, facet in all_facets(self._reader, COURSE, pause))
        return {course.context_id: course for course in read if course is not None}

    def _thread_facets(self, pause: Callable[[], None]) -> dict[str, JsonObject]:
        """By context. The owner says whether one is this project's."""
        found: dict[str, JsonObject] = {}
        for whose, facet in all_facets(self._reader, roots.THREAD, pause):
            context_id = facet.get("context_id")
            if isinstance(context_id, str) and owner(self._project, context_id) == whose:
                found[context_id] = facet
        return found

    def _unknown(self, talks: Sequence[Talk], pause: Callable[[], None]) -> dict[str, str]:
        """The contexts' ids by the store's names for them, from a memory of each."""
        at = {talk.last: talk.context for talk in talks}
        places = list(at)
        named: dict[str, str] = {}
        for first in range(0, len(places), READ_AT_ONCE):
            pause()
            for row in self._reader.rows_at(places[first : first + READ_AT_ONCE], math.inf):
                if row.memory.scope.context_id is not None:
                    named[at[row.position]] = row.memory.scope.context_id
        return named


def is_active(course: Course, facet: JsonObject) -> bool:
    """What compaction archived holds nothing any more but protected memories that were there then."""
    archived_at = roots.number(facet, "archived_at")
    return not course.is_over and (archived_at is None or course.is_free or course.held_s > archived_at)


def weights(reader: StoreReader, project: str, found: Survey) -> dict[str, list[JsonObject]]:
    """What the facets `attention` say of each thread, its own first. A pinned memory pins its thread."""
    facets = dict(all_facets(reader, roots.ATTENTION))
    names = [*found.current, *found.waiting] if facets else []
    said = {name: [facet] for name in names if (facet := facets.pop(owner(project, name), None)) is not None}
    for memory_id, facet in facets.items():
        row = reader.row(memory_id) if facet.get("pinned") is True else None
        if row is None or row.standing is not Standing.LIVE or row.memory.scope.project != project:
            continue
        if (context_id := row.memory.scope.context_id) is not None:
            said.setdefault(roots.root(context_id, found.facets), []).append(facet)
    return said


def _states(talks: Sequence[Talk], heads: Mapping[str, str], pause: Callable[[], None]) -> dict[str, str]:
    """Which state each thread is in: how many live memories its contexts have, and the sum of their marks."""
    counts: dict[str, int] = {}
    marks: dict[str, int] = {}
    for number, talk in enumerate(talks, 1):
        root = heads.get(talk.context)
        if root is not None:
            counts[root] = counts.get(root, 0) + talk.memories
            marks[root] = marks.get(root, 0) + talk.mark
        if number % LOOKED_AT == 0:
            pause()
    return {root: f"{count}.{marks[root]}" for root, count in counts.items()}


def _outlines(states: Mapping[str, str], names: Mapping[str, str], heads: Mapping[str, str]) -> dict[str, Outline]:
    contexts: dict[str, list[tuple[str, str]]] = {root: [] for root in states}
    for token, root in heads.items() if states else ():
        if root in contexts:
            contexts[root].append((names[token], token))
    return {root: Outline(root, tuple(sorted(contexts[root])), state) for root, state in states.items()}


def all_facets(
    reader: StoreReader, name: str, pause: Callable[[], None] = no_pause
) -> Iterator[tuple[str, JsonObject]]:
    """Every facet of that name, with its owner."""
    after = ""
    while page := reader.threads.named(name, STEP, after):
        pause()
        yield from page
        after = page[-1][0]
