"""What the hub answers to questions: search, working memory, linked memories. Echoes memories as they were sent."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence

from kingly_memory import validation
from kingly_memory.cognition import links
from kingly_memory.cognition.links import Link
from kingly_memory.hub.envelopes import sent
from kingly_memory.hub.methods import GetLinkedMemories, GetWorkingMemory, SearchSemanticMemories
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.models import Hit, JsonObject, Memory, MemoryStatus, MemoryType, Query
from kingly_memory.ports import StoreReader
from kingly_memory.router.search.local import LocalSearch

REPLY_LIMIT_BYTES = 1_000_000
"""Clients read at most 1 MiB of a reply; memories that do not fit are left out and `truncated` says so."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)
"""Made once: `json.dumps` makes one for each entry, which takes as long as to write it."""
_BUDGET_S = 0.1
"""What a search may take; our router gives the whole search 0.15."""
_WORKING_LIMIT = 100
_IDS_LIMIT = 1_000


class Recall:
    """Reads only. Safe from any thread."""

    def __init__(self, reader: StoreReader, by_meaning: Callable[[str], LocalSearch] | None = None) -> None:
        """`by_meaning` gives the search of a space, where there are vectors."""
        self._reader = reader
        words = Lasting(reader, repairs=False)
        self._search = by_meaning or (lambda space: words)

    def search(self, scope: str, request: SearchSemanticMemories) -> JsonObject:
        """What a home would find, best first; `partial` where there was no time for all. Blank queries find nothing,
        and what is mistyped stays so: homes send what was meant."""
        wanted = [request.memory_types] if isinstance(request.memory_types, str) else request.memory_types
        types = wanted and [validation.memory_type("memory_types", one) for one in wanted]
        query = validation.query(request.query, space=scope, limit=request.limit, types=types)
        if not query.text.strip():
            return {"memories": []}
        answer = self._search(scope).search(query, now_s=0.0, budget_s=_BUDGET_S)
        hits = [hit for hit in answer.hits if hit.relevance >= request.threshold]
        reply = self._reply([hit.memory for hit in hits], [hit.relevance for hit in hits])
        return {**reply, "partial": True} if answer.cut or answer.without else reply

    def working(self, scope: str, request: GetWorkingMemory) -> JsonObject:
        """Working memories of the context, the most recently stored first."""
        context_id = validation.label("context_filter", request.context_filter)
        query = Query("", scope, types=(MemoryType.WORKING,), context_id=context_id)
        rows = self._reader.page(query, (MemoryStatus.LIVE,), _WORKING_LIMIT, None)
        return self._reply([row.memory for row in rows])

    def linked(self, scope: str, request: GetLinkedMemories) -> JsonObject:
        """Links that begin or end at one of the memories, and the memories at their other ends."""
        memory_ids = list(dict.fromkeys(request.memory_ids))[:_IDS_LIMIT]
        own = [memory.id for memory in self._live(scope, memory_ids)]
        found = [link for beside in links.beside(self._reader, own).values() for link in beside]
        each = {link.id: link for link in found}.values()
        alive = {memory.id: memory for memory in self._live(scope, _ends(each))}
        whole = [link for link in each if alive.keys() >= {link.source, link.target}]
        others = [alive[end] for end in _ends(whole) if end not in own]
        return {"links": [worded(link) for link in whole], **self._reply(others)}

    def _live(self, scope: str, memory_ids: Sequence[str]) -> list[Memory]:
        """The memories that are alive and in the scope, in the order of their ids."""
        rows = self._reader.rows(memory_ids, math.inf).values()
        own = [row for row in rows if row is not None and row.memory.scope.space == scope]
        return [row.memory for row in own if row.status is MemoryStatus.LIVE]

    def _reply(self, memories: Sequence[Memory], similarities: Sequence[float] = ()) -> JsonObject:
        """The memories in their order, as many as fit into a reply."""
        entries: list[JsonObject] = [{"memory_id": memory.id, **sent(memory)} for memory in memories]
        for entry, similarity in zip(entries, similarities, strict=False):
            entry["similarity"] = entry["relevance"] = round(similarity, 4)
        reply: JsonObject = {"memories": entries}
        if size_of(reply) <= REPLY_LIMIT_BYTES:
            return reply
        room, fitting = REPLY_LIMIT_BYTES, list[JsonObject]()
        for entry in entries:
            if (size := size_of(entry)) <= room:
                room -= size
                fitting.append(entry)
        return {"memories": fitting, "truncated": True} if len(fitting) < len(entries) else reply


class Lasting(LocalSearch):
    """Nothing ends at a hub: memories with a lifetime end in their homes, which say so."""

    def lifetimes(self, memory_ids: Sequence[str]) -> dict[str, Lifetime]:
        return {}

    def _named(self, query: Query, now_s: float) -> list[Hit]:
        """A memory's key is that of the call which stored it."""
        return []


def size_of(entry: JsonObject) -> int:
    """The bytes that it takes of a reply."""
    return len(_ENCODER.encode(entry).encode())


def worded(link: Link) -> JsonObject:
    """A link in the words of the wire."""
    return {
        "link_id": link.id,
        "source_memory_id": link.source,
        "target_memory_id": link.target,
        "link_type": link.link_type.value,
        "strength": link.strength,
        "description": link.description,
    }


def _ends(found: Iterable[Link]) -> list[MemoryId]:
    """The memories that the links join, each once."""
    return list(dict.fromkeys(end for link in found for end in (link.source, link.target)))
