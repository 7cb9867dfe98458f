"""Links between memories: each lies, as a facet, beside both of its ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from kingly_memory import validation
from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.models import JsonObject, Memory
from kingly_memory.plain import Plain
from kingly_memory.ports import MemoryReader, Row, Transaction

FACET = "links"

MOST_LINKS = 200
"""Beside one memory. They are read and written together."""

SHORTENED = 300
"""Characters of a linked memory's content that are shown beside another memory."""


class LinkType(StrEnum):
    """What the source of a link is to its target."""

    RELATED = "related"
    CAUSAL = "causal"
    SEQUENTIAL = "sequential"
    HIERARCHICAL = "hierarchical"
    CONTRADICTS = "contradicts"
    SUPPORTS = "supports"
    GENERALIZES = "generalizes"
    SPECIALIZES = "specializes"
    FOLLOWS = "follows"
    PRECEDES = "precedes"
    TASK = "task"
    REFERENCES = "references"
    ELABORATES = "elaborates"
    QUESTION_OF = "question_of"
    CONSEQUENCE_OF = "consequence_of"


@dataclass(frozen=True, slots=True)
class Link(Plain):
    """A link from one memory to another; `strength` in [0, 1]. The same ends and type are the same link."""

    DIGITS = None

    id: str
    source: MemoryId
    target: MemoryId
    link_type: LinkType
    strength: float
    description: str | None
    created_at: datetime

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Link:
        """Rebuild a link written by `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            id=str(data["id"]),
            source=MemoryId(data["source"]),
            target=MemoryId(data["target"]),
            link_type=LinkType(data["link_type"]),
            strength=float(data["strength"]),
            description=data["description"],
            created_at=datetime.fromisoformat(data["created_at"]),
        )

    def other_end(self, memory_id: str) -> MemoryId:
        return self.target if memory_id == self.source else self.source

    def joins(self, source: str, target: str, link_type: LinkType) -> bool:
        return (self.source, self.target, self.link_type) == (source, target, link_type)


@dataclass(frozen=True, slots=True)
class LinkDraft:
    """A validated link that has no ends yet."""

    link_type: LinkType
    strength: float
    description: str | None


def draft(link_type: object = "related", strength: object = 1.0, description: object = None) -> LinkDraft:
    """Check what a caller says of a link. Raises InvalidInput."""
    checked_type = validation.choice("link_type", link_type, LinkType)
    return LinkDraft(checked_type, validation.share("strength", strength), validation.label("description", description))


def write(
    transaction: Transaction, source: MemoryId, target: MemoryId, link_draft: LinkDraft, now: datetime
) -> tuple[Link, bool]:
    """Put the link beside both ends, which the caller has looked up, and say whether anything about it is new; a repeat
    gives the same link its new strength. Raises InvalidInput for an end that has `MOST_LINKS` others."""
    beside = {end: of(transaction, end) for end in (source, target)}
    earlier = next((one for one in beside[source] if one.joins(source, target, link_draft.link_type)), None)
    link = Link(
        id=earlier.id if earlier else new_id(now),
        source=source,
        target=target,
        link_type=link_draft.link_type,
        strength=link_draft.strength,
        description=link_draft.description,
        created_at=earlier.created_at if earlier else now,
    )
    if all(link in beside[end] for end in (source, target)):
        return link, False
    for field, end in (("source", source), ("target", target)):
        kept = [one for one in beside[end] if not one.joins(source, target, link_draft.link_type)]
        if len(kept) >= MOST_LINKS:  # what was linked to an end that was erased makes room
            kept = [one for one in kept if transaction.row(one.other_end(end)) is not None]
        if len(kept) >= MOST_LINKS:
            problem = f"{end} has {MOST_LINKS} links, and no more are kept beside one memory"
            raise InvalidInput(field, f"{problem}; link a memory that sums up some")
        _set_beside(transaction, end, [*kept, link])
    return link, True


def sever(transaction: Transaction, memory_id: MemoryId) -> None:
    """Take away every link that begins or ends at a memory, from beside both of its ends."""
    remove(transaction, memory_id, [one.id for one in of(transaction, memory_id)])


def remove(transaction: Transaction, memory_id: MemoryId, link_ids: Collection[str]) -> None:
    """Take away those of a memory's links, from beside both of their ends."""
    links = of(transaction, memory_id)
    for end in {memory_id, *(one.other_end(memory_id) for one in links if one.id in link_ids)}:
        _set_beside(transaction, end, [one for one in of(transaction, end) if one.id not in link_ids])


def find(transaction: Transaction, source: str, link_id: str) -> Link | None:
    """A link by its source and its id."""
    return next((one for one in of(transaction, source) if one.id == link_id), None)


def between(transaction: Transaction, source: str, target: str, link_type: LinkType) -> Link | None:
    return next((one for one in of(transaction, source) if one.joins(source, target, link_type)), None)


def of(transaction: Transaction, memory_id: str) -> list[Link]:
    """The links that begin or end at a memory, whatever became of their other ends, oldest first."""
    return list(_links(transaction.facet(FACET, memory_id)))


def beside(reader: MemoryReader, memory_ids: Sequence[str]) -> dict[str, list[Link]]:
    """The links that begin or end at each of the memories, whatever became of their other ends, oldest first."""
    facets = reader.facets(FACET, memory_ids)
    return {memory_id: list(_links(facets.get(memory_id))) for memory_id in memory_ids}


def linked_of(
    reader: MemoryReader, space: str, memory_ids: Sequence[str], limit: int, is_shown: Callable[[Row], bool]
) -> dict[str, tuple[JsonObject, ...]]:
    """For each memory that has any, up to `limit` memories of the project linked to it, the strongest links first.

    Each is `{id, key, title, content, type, link_type, direction, strength}`, the content cut to 300 characters and the
    direction as seen from the memory asked about. `is_shown` says which rows may be seen.
    """
    rows: dict[str, Row | None] = {}

    def shown(memory_id: str) -> Memory | None:
        if memory_id not in rows:
            rows[memory_id] = reader.row(memory_id)
        row = rows[memory_id]
        return row.memory if row is not None and row.memory.scope.space == space and is_shown(row) else None

    by_memory: dict[str, tuple[JsonObject, ...]] = {}
    for memory_id, links in beside(reader, memory_ids).items():
        linked: list[JsonObject] = []
        for link in sorted(links, key=lambda one: -one.strength):
            other = shown(link.other_end(memory_id)) if len(linked) < limit else None
            if other is not None:
                fields = {
                    "id": other.id,
                    "key": other.key,
                    "title": other.title,
                    "content": other.content[:SHORTENED],
                    "type": other.type.value,
                    "link_type": link.link_type.value,
                    "direction": "outgoing" if other.id == link.target else "incoming",
                    "strength": link.strength,
                }
                linked.append(fields)
        if linked:
            by_memory[memory_id] = tuple(linked)
    return by_memory


def _set_beside(transaction: Transaction, memory_id: str, links: Sequence[Link]) -> None:
    transaction.set_facet(FACET, memory_id, {"links": [link.to_json() for link in links]} if links else None)


def _links(facet: JsonObject | None) -> Iterator[Link]:
    """What cannot be read is left out."""
    kept = [] if facet is None else facet.get("links")
    for data in kept if isinstance(kept, list) else []:
        try:
            yield Link.from_json(data)
        except (KeyError, TypeError, ValueError):
            continue
