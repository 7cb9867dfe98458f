"""Links between memories: each lies, as a facet, beside both of its ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.models import JsonObject, Memory
from kingly_memory.ports import MemoryReader, Row, Transaction

FACET = "links"

MOST_LINKS = 200
"""Beside one memory. They are read and written together."""

SHORTENED = 300
"""Characters of a linked memory's content that are shown beside another memory."""

OUTGOING = "outgoing"
INCOMING = "incoming"


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
class Link:
    """A link from one memory to another; `strength` in [0, 1]. The same ends and type are the same link."""

    id: str
    source: MemoryId
    target: MemoryId
    link_type: LinkType
    strength: float
    description: str | None
    created_at: datetime

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "source": self.source,
            "target": self.target,
            "link_type": self.link_type.value,
            "strength": self.strength,
            "description": self.description,
            "created_at": self.created_at.isoformat(),
        }

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


@dataclass(frozen=True, slots=True)
class Written:
    """A link as it is kept, and whether anything about it is new."""

    link: Link
    is_news: bool


def draft(link_type: object = "related", strength: object = 1.0, description: object = None) -> LinkDraft:
    """Check what a caller says of a link. Raises InvalidInput."""
    return LinkDraft(
        _link_type(link_type), intake.share("strength", strength), intake.label("description", description)
    )


def write(transaction: Transaction, source: MemoryId, target: MemoryId, said: LinkDraft, now: datetime) -> Written:
    """Put the link beside both ends, which the caller has looked up; a repeat gives the same link its new strength.

    Raises InvalidInput for an end that has `MOST_LINKS` others.
    """
    before = {end: of(transaction, end) for end in (source, target)}
    earlier = next((one for one in before[source] if one.joins(source, target, said.link_type)), None)
    link = Link(
        id=earlier.id if earlier else new_id(now),
        source=source,
        target=target,
        link_type=said.link_type,
        strength=said.strength,
        description=said.description,
        created_at=earlier.created_at if earlier else now,
    )
    if all(link in before[end] for end in (source, target)):
        return Written(link, is_news=False)
    kept = {
        end: _others(transaction, link, before[end], field, end)
        for field, end in (("source", source), ("target", target))
    }
    for end, others in kept.items():
        _set_beside(transaction, end, [*others, link])
    return Written(link, is_news=True)


def sever(transaction: Transaction, memory_id: MemoryId) -> None:
    """Take away every link that begins or ends at a memory, from beside both of its ends."""
    for one in of(transaction, memory_id):
        other = one.other_end(memory_id)
        _set_beside(transaction, other, [each for each in of(transaction, other) if each.id != one.id])
    transaction.set_facet(FACET, memory_id, None)


def remove(transaction: Transaction, memory_id: MemoryId, link_ids: Collection[str]) -> None:
    """Take away those of a memory's links, from beside both of their ends."""
    gone = [one for one in of(transaction, memory_id) if one.id in link_ids]
    for one in gone:
        for end in (one.source, one.target):
            _set_beside(transaction, end, [each for each in of(transaction, end) if each.id != one.id])


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
    reader: MemoryReader, project: str, memory_ids: Sequence[str], limit: int, is_shown: Callable[[Row], bool]
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
        return row.memory if row is not None and row.memory.scope.project == project and is_shown(row) else None

    found: dict[str, tuple[JsonObject, ...]] = {}
    for memory_id, links in beside(reader, memory_ids).items():
        linked: list[JsonObject] = []
        for link in sorted(links, key=lambda one: -one.strength):
            other = shown(link.other_end(memory_id)) if len(linked) < limit else None
            if other is not None:
                linked.append(_linked(other, link))
        if linked:
            found[memory_id] = tuple(linked)
    return found


def _linked(other: Memory, link: Link) -> JsonObject:
    return {
        "id": other.id,
        "key": other.key,
        "title": other.title,
        "content": other.content[:SHORTENED],
        "type": other.type.value,
        "link_type": link.link_type.value,
        "direction": OUTGOING if other.id == link.target else INCOMING,
        "strength": link.strength,
    }


def _others(transaction: Transaction, link: Link, before: Iterable[Link], field: str, end: MemoryId) -> list[Link]:
    """The other links beside an end. Only when there is no room are those left out whose other end was erased."""
    others = [one for one in before if not one.joins(link.source, link.target, link.link_type)]
    if len(others) >= MOST_LINKS:
        others = [one for one in others if transaction.row(one.other_end(end)) is not None]
    if len(others) >= MOST_LINKS:
        raise InvalidInput(
            field,
            f"{end} has {MOST_LINKS} links, and no more are kept beside one memory; link a memory that sums up some",
        )
    return others


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


def _link_type(value: object) -> LinkType:
    known = [one.value for one in LinkType]
    if isinstance(value, str) and value in known:
        return LinkType(value)
    raise InvalidInput("link_type", f"{intake.shown(value)!r} is unknown; choose one of {', '.join(known)}")
