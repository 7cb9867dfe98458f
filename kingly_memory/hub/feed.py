"""The hub's change feed as callers read it: the memories of their scope as they are now, by their latest changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kingly_memory.cognition import links
from kingly_memory.cognition.links import Link
from kingly_memory.hub.documents import documents_of, part
from kingly_memory.hub.envelopes import sent
from kingly_memory.hub.methods import ListChanges
from kingly_memory.hub.recall import REPLY_LIMIT_BYTES, size_of, worded
from kingly_memory.models import JsonObject, MemoryStatus
from kingly_memory.ports import HOME, INCARNATION, MET, Row, StoreReader
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS

_EARLIER = 20
"""Earlier revisions that travel with a memory, the latest."""


class Feed:
    """Reads only. Safe from any thread."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader

    def changes(self, scope: str, request: ListChanges) -> JsonObject:
        """A page of the feed. A cursor that this hub never gave out, as after a restored backup, begins anew."""
        scope = documents_of(scope) if request.documents else scope
        home = str((self._reader.facet(HOME, INCARNATION) or {}).get("id", ""))
        last = self._reader.last_change(scope)
        mark, _, number = (request.since or "").rpartition(".")
        is_cursor = mark == home and re.fullmatch("[0-9]{1,15}", number) is not None and int(number) <= last
        until = int(number) if is_cursor else 0
        found = self._reader.changed(scope, until, request.limit)
        ids = [row.memory.id for _, row in found if row is not None]
        beside = self._reader.facets_of(dict.fromkeys((MET, ATTENTION, RATINGS), ids))
        linked = links.beside(self._reader, ids)
        listed: dict[str, JsonObject] = {}
        room = REPLY_LIMIT_BYTES
        is_cut = len(found) == request.limit
        for sequence, row in found:
            if row is not None and row.memory.id not in listed:
                memory_id = row.memory.id
                facets = {name: beside[name].get(memory_id, {}) for name in beside}
                entry = self._document(row) if request.documents else self._entry(row, facets, linked[memory_id])
                size = size_of(entry)
                if size > REPLY_LIMIT_BYTES // 2 and "content" in entry:
                    entry |= {"revisions": [], "links": [], "ratings": []}
                    size = size_of(entry)
                if size > REPLY_LIMIT_BYTES:  # no reply has room for it
                    entry, size = {"memory_id": row.memory.id, "too_long": True}, 0
                if size > room:
                    is_cut = True
                    break
                listed[row.memory.id] = entry
                room -= size
            until = sequence
            if row is not None and listed[row.memory.id].get("parts", 1) > 1:  # who reads it has room for one of those
                is_cut = True
                break
        until = until if is_cut else max(last, until)
        return {"changes": [*listed.values()], "until": f"{home}.{until}", "more": is_cut}

    def _document(self, row: Row) -> JsonObject:
        """With its content, where that is one part."""
        memory, metadata = row.memory, row.memory.metadata
        entry = {"memory_id": memory.id, "name": memory.key, **metadata["said"]}
        if entry.get("parts") == 1:
            entry["content"] = part(self._reader, memory.id, entry["digest"], 0)
        return entry

    def _entry(self, row: Row, beside: Mapping[str, JsonObject], linked: Sequence[Link]) -> JsonObject:
        memory = row.memory
        entry: JsonObject = {
            "memory_id": memory.id,
            "name": memory.key,
            "revision": memory.revision,
            "at": memory.updated_at.isoformat(),
            **({"met": beside[MET]["ids"]} if beside[MET] else {}),
        }
        if row.status is MemoryStatus.FORGOTTEN:
            return {**entry, "forgotten": True, "purged": memory.metadata.get("purged") is True}
        earlier = self._reader.revisions(memory.id)[:_EARLIER] if memory.revision > 1 else []
        return {
            **entry,
            **sent(memory),
            "revisions": [
                {"revision": revision.revision, "at": revision.updated_at.isoformat(), **sent(revision)}
                for revision in earlier
            ],
            "links": [worded(link) for link in linked],
            **({"pin": beside[ATTENTION]} if beside[ATTENTION] else {}),
            **beside[RATINGS],
        }
