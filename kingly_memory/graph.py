"""A knowledge graph that is made of memories: entities with observations, and relations between them.

An entity is a memory under its name whose text has a line for each observation; a relation is a memory that says it
in a sentence. So searches and hooks find both, remotes get them, and what was deleted can be restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kingly_memory.models import JsonObject
from kingly_memory.text.writing import spelled

TAG = "graph"
"""What every memory of the graph is tagged with."""


class Entity(NamedTuple):
    """Something that is known by its name."""

    name: str
    entity_type: str
    observations: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        return {"name": self.name, "entityType": self.entity_type, "observations": [*self.observations]}

    def spelled(self) -> Entity:
        """With its name as keys are spelled."""
        return self._replace(name=spelled(self.name))

    @property
    def heading(self) -> str:
        return f"{self.name} ({self.entity_type})"

    @property
    def content(self) -> str:
        """The text of its memory. The further lines of an observation are indented."""
        return "\n- ".join([self.heading, *(one.replace("\n", "\n  ") for one in self.observations)])

    def to_store(self) -> JsonObject:
        """What is stored of it, as `store` takes it."""
        tags = [TAG, self.entity_type] if self.entity_type.strip() else [TAG]
        about = {"key": self.name, "title": self.name, "metadata": {"entityType": self.entity_type}}
        return {"content": self.content, "tags": tags, **about}


class Relation(NamedTuple):
    """What one entity is to another, in the active voice. Neither has to be there."""

    source: str
    target: str
    relation_type: str

    def spelled(self) -> Relation:
        """With the names of its ends as keys are spelled."""
        return self._replace(source=spelled(self.source), target=spelled(self.target))

    def to_json(self) -> JsonObject:
        return {"from": self.source, "to": self.target, "relationType": self.relation_type}

    def to_store(self) -> JsonObject:
        """What is stored of it, as `store` takes it."""
        content = f"{self.source} {self.relation_type} {self.target}"
        return {"content": content, "tags": [TAG], "metadata": self.to_json()}


class KnowledgeGraph(NamedTuple):
    """Entities and relations, in the order in which they were first stored."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]

    def to_json(self) -> JsonObject:
        return {name: [item.to_json() for item in items] for name, items in self._asdict().items()}


def part(key: str | None, content: str, metadata: Mapping[str, Any]) -> Entity | Relation | None:
    """The part of the graph that a memory is, if it is one; its observations are what its text says now."""
    match metadata:
        case {"entityType": str(kind)} if key is not None:
            entity = Entity(key, kind)
            # What somebody wrote in another form is an observation too.
            first, *others = content.removeprefix(entity.heading).split("\n- ")
            observed = ([first.strip("\n")] if first.strip() else []) + [text.replace("\n  ", "\n") for text in others]
            return entity._replace(observations=tuple(observed))
        case {"from": str(source), "to": str(target), "relationType": str(kind)}:
            return Relation(source, target, kind)
    return None


def from_json(data: Any) -> Entity | Relation | None:
    """What a line of the reference server's file says; None for something else."""
    match data:
        case {"type": "entity", "name": str(name), "entityType": str(kind), "observations": list(observed)}:
            is_sound = all(isinstance(text, str) for text in observed)
            return Entity(name, kind, tuple(observed)).spelled() if is_sound else None
        case {"type": "relation", "from": str(source), "to": str(target), "relationType": str(kind)}:
            return Relation(source, target, kind).spelled()
    return None
