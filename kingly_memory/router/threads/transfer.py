"""Threads and the focus as an export to files has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kingly_memory.attention import drift
from kingly_memory.attention.ratings import Ratings, relevance
from kingly_memory.cognition.owners import owner, whose_focus
from kingly_memory.ids import MemoryId
from kingly_memory.imported import FROM_FILE, ExportedThread
from kingly_memory.models import KEPT, JsonObject, Query, Standing
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router.subjects import Subjects
from kingly_memory.router.thread_lookup import RATINGS, THREAD, number
from kingly_memory.router.threads import reading
from kingly_memory.router.view import pages


def exported_threads(reader: StoreReader, space: str) -> Iterator[ExportedThread]:
    """Every thread of contexts, archived and merged ones too: each with what was said in its own context, in the order
    in which they were begun here."""
    contexts: dict[str, list[MemoryId]] = {}
    for row in pages(reader, Query("", space)):
        if row.memory.scope.context_id is not None:
            contexts.setdefault(row.memory.scope.context_id, []).append(row.memory.id)
    for thread_id, memory_ids in contexts.items():
        rows = (reader.row(one) for one in memory_ids)
        yield _exported(reader, space, thread_id, [row for row in rows if row is not None and row.standing in KEPT])


def exported_focus(reader: StoreReader, space: str) -> JsonObject | None:
    """What the project has in focus; None when it never had a focus."""
    name = whose_focus(space)
    return reader.facets("focus", [name]).get(name)


def _exported(reader: StoreReader, space: str, thread_id: str, rows: Sequence[Row]) -> ExportedThread:
    whose = owner(space, thread_id)
    found = reader.facets_of({name: [whose] for name in FROM_FILE})
    facets = {name: by_owner[whose] for name, by_owner in found.items() if whose in by_owner}
    said = [reading.line(row.memory, thread_id) for row in rows]
    archived_at = number(facets.get(THREAD, {}), "archived_at")
    # What has ended is live until a sweep sees to it.
    live = (one for one in Subjects(reader, space).of(rows) if one.standing is Standing.LIVE)
    return ExportedThread(
        thread_id,
        tuple((row.memory, row.standing) for row in rows),
        facets,
        reading.title(thread_id, said) if said else thread_id,
        reading.topics_of(said[-reading.READ_MOST :])[: reading.MOST_TOPICS],
        drift.history(said[-reading.VIEW_DRIFT_MOST :]),
        relevance(Ratings.from_json(facets.get(RATINGS))),
        any(reading.is_in_use(one, archived_at) for one in live),
    )
