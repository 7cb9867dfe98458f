"""Threads as files are to have them: read one after the other, so that no more than one is held at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kingly_memory.attention.ratings import Ratings, relevance
from kingly_memory.cognition.owners import current_owner, owner
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.models import JsonObject, Query, Standing
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.threads.telling import Gathered
from kingly_memory.router.view import pages
from kingly_memory.thread_files import FILE, FROM_FILE, ExportedThread

AT_ONCE = 200
NEVER_OVER = 0.0
"""What has ended is there until a sweep sees to it, and a file has it as it is."""
_SHOWN = (Standing.LIVE, Standing.ARCHIVED)


def threads(reader: StoreReader, project: str) -> Iterator[ExportedThread]:
    """Every thread of the project, archived and merged ones too: each with what was said in its own context, in the
    order in which they were begun here."""
    contexts: dict[str, list[MemoryId]] = {}
    alone: set[str] = set()
    for row in pages(reader, Query("", project)):
        context_id = row.memory.scope.context_id
        contexts.setdefault(row.memory.id if context_id is None else context_id, []).append(row.memory.id)
        if context_id is None:
            alone.add(row.memory.id)
    waiting = iter(contexts.items())
    while several := dict(islice(waiting, AT_ONCE)):
        owners = {one: one if one in alone else owner(project, one) for one in several}
        facets = {name: reader.facets(name, list(owners.values())) for name in (*FROM_FILE, FILE)}
        for thread_id, memory_ids in several.items():
            beside = {name: found[owners[thread_id]] for name, found in facets.items() if owners[thread_id] in found}
            rows = [one for one in map(reader.row, memory_ids) if one is not None and one.standing in _SHOWN]
            yield _exported(thread_id, rows, beside, Subjects(reader, project).of(rows), is_alone=thread_id in alone)


def focus(reader: StoreReader, project: str, agent: str | None) -> JsonObject | None:
    """What the agent has in focus; None when it never had a focus."""
    name = current_owner(project, agent)
    return reader.facets("focus", [name]).get(name)


def _exported(
    thread_id: str,
    rows: Sequence[Row],
    facets: Mapping[str, JsonObject],
    subjects: Sequence[Subject],
    *,
    is_alone: bool,
) -> ExportedThread:
    facet, gathered = facets.get("thread", {}), Gathered(thread_id)
    for subject in subjects:
        gathered.see(subject, NEVER_OVER)
    return ExportedThread(
        thread_id,
        tuple((row.memory, row.standing) for row in rows),
        facets,
        gathered.title(facet),
        gathered.topics(facet),
        relevance(Ratings.from_json(facets.get("ratings"))),
        gathered.is_active(facet),
        is_alone,
    )
