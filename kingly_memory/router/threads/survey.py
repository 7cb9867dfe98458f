"""Which threads a project has: found by one look over its rows, without reading what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kingly_memory.cognition.owners import owner
from kingly_memory.lifecycle.lifetimes import is_expired
from kingly_memory.models import JsonObject, Query, Standing
from kingly_memory.ports import StoreReader, Talk
from kingly_memory.router.subjects import PAGE, Subjects
from kingly_memory.router.threads import roots
from kingly_memory.router.threads.reading import Course

AT_ONCE = 1_000


class Present(NamedTuple):
    """A thread with live memories that have not ended: `talks` are its contexts, its own among them as long as anything
    lives there."""

    id: str
    talks: tuple[Talk, ...]

    @property
    def memories(self) -> int:
        return sum(one.memories for one in self.talks)

    @property
    def first_s(self) -> float:
        return min(one.first_s for one in self.talks)

    @property
    def last_s(self) -> float:
        return max(one.last_s for one in self.talks)

    @property
    def latest_first(self) -> tuple[float, str]:
        return -self.last_s, self.id


@dataclass(frozen=True, slots=True)
class Survey:
    """The threads of a project by id, the latest first. `archived` are those that a compaction has archived and of
    which only protected memories are live. `facets` are the contexts' own notes."""

    active: Mapping[str, Present]
    archived: Mapping[str, Present]
    facets: Mapping[str, JsonObject]


def survey(reader: StoreReader, project: str, now_s: float) -> Survey:
    talks = reader.threads.talks(project, now_s)
    facets = roots.threads(reader, project, [one.context_id for one in talks])
    together: dict[str, list[Talk]] = {}
    for talk in talks:
        together.setdefault(roots.root(talk.context_id, facets), []).append(talk)
    present = sorted((Present(name, tuple(own)) for name, own in together.items()), key=lambda one: one.latest_first)
    archived: dict[str, Present] = {}
    for one in present:
        archived_at = roots.number(facets.get(one.id, {}), "archived_at")
        if archived_at is not None and not _is_active(reader, project, one, archived_at, now_s):
            archived[one.id] = one
    return Survey({one.id: one for one in present if one.id not in archived}, archived, facets)


def weights(reader: StoreReader, project: str, found: Survey) -> dict[str, list[JsonObject]]:
    """What the facets `attention` say of each thread, its own first. A pinned memory pins its thread."""
    facets = dict(all_facets(reader, roots.ATTENTION))
    names = (*found.active, *found.archived) if facets else ()
    said = {name: [facets.pop(whose)] for name in names if (whose := owner(project, name)) in facets}
    for memory_id, facet in facets.items():
        row = reader.row(memory_id) if facet.get("pinned") is True else None
        if row is None or row.standing is not Standing.LIVE or row.memory.scope.project != project:
            continue
        if (context_id := row.memory.scope.context_id) is not None:
            said.setdefault(roots.root(context_id, found.facets), []).append(facet)
    return said


def all_facets(reader: StoreReader, name: str) -> Iterator[tuple[str, JsonObject]]:
    """Every facet of that name, with its owner."""
    after = ""
    while page := reader.threads.named(name, AT_ONCE, after):
        yield from page
        after = page[-1][0]


def _is_active(reader: StoreReader, project: str, one: Present, archived_at: float, now_s: float) -> bool:
    """Whether an archived thread goes on: it has a memory that may be archived, or a protected one from after that."""
    course, subjects = Course(), Subjects(reader, project)
    for talk in one.talks:
        query, start = Query("", project, context_id=talk.context_id), None
        while rows := reader.page(query, (Standing.LIVE,), PAGE, start):
            for subject in subjects.of(rows):
                if not is_expired(subject.lifetime, now_s):
                    course.see(subject)
            if course.is_active(archived_at):
                return True
            start = rows[-1].position
    return False
