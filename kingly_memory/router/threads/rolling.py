"""When the roll of a project is written anew, and that it never has what was forgotten meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from kingly_memory.ports import LocalStore, Transaction
from kingly_memory.router.right_of_way import Pause, no_pause
from kingly_memory.router.threads import roll
from kingly_memory.router.threads.briefs import Briefs, Survey
from kingly_memory.router.threads.courses import Course

LEAST = 500
"""Threads of which there is a roll: fewer are read one by one in no time."""
FEW, SHARE = 50, 0.01
"""So many threads whose briefs are not those of the roll are left to whoever reads it, or that share of all."""
OLD_S = 86_400.0
"""A roll that is older is written anew once anything differs: it has what was said of memories that were revised."""
REST_S = 60.0
"""Between two times: a roll of 10,000 threads is 3 MB."""
COST_S = 2e-5
"""What writing down takes for each thread, at most."""
BITE = 1_000
"""Briefs compared between two pauses."""


class Rolling:
    """Who calls it holds the project's lock: nobody else writes the roll. Others may drop it at any time."""

    def __init__(self, store: LocalStore, briefs: Briefs) -> None:
        self._store = store
        self._briefs = briefs
        self._written: Mapping[str, Course] | None = None
        self._since_s = 0.0

    def look(self, found: Survey, now_s: float, pause: Pause = no_pause) -> bool:
        """After a round that found that: write the roll if it is due, and say whether it was."""
        if not self._is_due(found, pause):
            return False
        self._begin()
        found = self._briefs.survey(now_s, pause)
        return not _is_much(len(found.waiting), found) and self._write(found.current, pause)

    def is_begun(self, found: Survey) -> bool:
        """Whether so much of what was found is worked out for somebody that `finish` should write the roll. Called
        before it is looked whether that is true."""
        if _count(found) < LEAST:
            return False
        project, rows = self._briefs.project, self._store.reader.threads
        if not _is_much(len(found.waiting), found) and roll.is_written(rows, project):
            return False
        self._begin()
        return True

    def finish(self, courses: Mapping[str, Course], left_s: float) -> bool:
        """Write the roll if there is the time."""
        return len(courses) * COST_S <= left_s and self._write(courses, no_pause)

    def _begin(self) -> None:
        """From now on it is seen when a thread is forgotten: what was to be read of it is not written then."""
        if self._store.write(roll.announce(self._briefs.project)).result():
            self._written = {}

    def _write(self, courses: Mapping[str, Course], pause: Pause) -> bool:
        seen = self._store.reader.threads.seen(self._briefs.project)
        if seen is None:
            return False
        project = self._briefs.project
        write = roll.write(project, courses.values(), seen, pause)

        def change(transaction: Transaction) -> bool:
            is_there = bool(roll.pages(transaction, project))
            if is_there:
                write(transaction)
            return is_there

        if not self._store.write(change).result():
            return False
        self._written, self._since_s = courses, seen.since_s
        return True

    def _is_due(self, found: Survey, pause: Pause) -> bool:
        if _count(found) < LEAST:
            return False
        written = self._known(pause)
        seen = self._store.reader.threads.seen(self._briefs.project)
        age_s = 0.0 if seen is None else abs(seen.since_s - self._since_s)
        if age_s < REST_S:
            return False
        differing = len(found.waiting.keys() | (written.keys() - found.current.keys()))
        for number, (name, course) in enumerate(found.current.items(), start=1):
            if (known := written.get(name)) is not course and known != course:
                differing += 1
            if number % BITE == 0:
                pause()
        return not written or _is_much(differing, found) or (differing > 0 and age_s >= OLD_S)

    def _known(self, pause: Pause) -> Mapping[str, Course]:
        """The briefs that the roll has."""
        project = self._briefs.project
        if not roll.is_written(self._store.reader.threads, project):
            return {}
        if self._written is None:
            rolled = roll.read(self._store.reader, project, pause)
            self._written = {} if rolled is None else rolled.courses
            self._since_s = 0.0 if rolled is None else rolled.seen.since_s
        return self._written


def _count(found: Survey) -> int:
    return len(found.current) + len(found.waiting)


def _is_much(threads: int, found: Survey) -> bool:
    return threads >= max(FEW, SHARE * _count(found))
