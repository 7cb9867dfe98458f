"""Links between memories: each lies, as a facet, beside both of its ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kingly_memory import intake
from kingly_memory.hub.requests import CreateMemoryLink
from kingly_memory.ids import new_id
from kingly_memory.models import JsonObject
from kingly_memory.ports import MemoryReader, Transaction

_FACET = "links"


def drafted(request: CreateMemoryLink) -> JsonObject:
    """The link that is asked for, checked. Raises InvalidInput."""
    return {
        "source_memory_id": request.source_memory_id,
        "target_memory_id": request.target_memory_id,
        "link_type": intake.label("link_type", request.link_type),
        "strength": intake.share("strength", request.strength),
        "description": intake.label("description", request.description),
    }


def write(tx: Transaction, link: JsonObject, now: datetime) -> JsonObject:
    """Put the link beside both ends. The same ends and type again are the same link, with its new strength."""
    source, target = link["source_memory_id"], link["target_memory_id"]
    earlier = next((one for one in _beside(tx, source) if _same(one, link)), None)
    link_id = earlier["link_id"] if earlier else new_id(now)
    kept = {"link_id": link_id, **link}
    for end in dict.fromkeys((source, target)):
        others = [one for one in _beside(tx, end) if not _same(one, link)]
        tx.set_facet(_FACET, end, {"links": [*others, kept]})
    return kept


def read(reader: MemoryReader, memory_ids: Sequence[str]) -> list[JsonObject]:
    """The links that begin or end at any of the memories, each once."""
    facets = reader.facets(_FACET, memory_ids)
    found = {link["link_id"]: link for owner in memory_ids for link in facets.get(owner, {}).get("links", ())}
    return list(found.values())


def ends(links: Iterable[JsonObject]) -> list[str]:
    """The memories that the links join, each once."""
    return list(dict.fromkeys(link[end] for link in links for end in ("source_memory_id", "target_memory_id")))


def _beside(tx: Transaction, memory_id: str) -> list[JsonObject]:
    facet = tx.facet(_FACET, memory_id)
    return facet["links"] if facet else []


def _same(one: JsonObject, other: JsonObject) -> bool:
    return all(one[part] == other[part] for part in ("source_memory_id", "target_memory_id", "link_type"))
