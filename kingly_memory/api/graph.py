"""The verbs on the knowledge graph, those of the reference memory server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kingly_memory import graph, validation
from kingly_memory.api.family import Family
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.graph import TAG, Entity, KnowledgeGraph, Relation
from kingly_memory.models import KEPT, Memory, Query
from kingly_memory.ports import Transaction
from kingly_memory.router import write
from kingly_memory.router.view import pages
from kingly_memory.router.write import Stored, WriteContext
from kingly_memory.text.writing import spelled

T = TypeVar("T")
MOST_FOUND = 10
"""Memories that a search by words looks through for nodes."""


class Graph(Family):
    """Entities with observations, and relations between them. All of them are memories: every search finds them, and
    what is deleted is forgotten, so that `restore` brings it back. Each verb changes all that it names or nothing; what
    several processes change at once is not lost."""

    async def create_entities(self, entities: Iterable[Entity]) -> tuple[Entity, ...]:
        """Add entities, and answer with those that are new: one that is there stays as it is. Raises InvalidInput,
        StoreError."""
        given = [entity.spelled() for entity in validation.listed("entities", entities, Entity)]
        for entity in given:
            validation.required("name", entity.name)
            validation.label("entityType", entity.entity_type if entity.entity_type.strip() else None)

        def change(transaction: Transaction, context: WriteContext) -> tuple[list[Stored], list[Entity]]:
            stored, new = list[Stored](), list[Entity]()
            for entity in given:
                if self._entity(transaction, entity.name) is None:
                    stored.append(self._store(entity, transaction, context))
                    new.append(entity)
            return stored, new

        return tuple(await self._write(change))

    async def create_relations(self, relations: Iterable[Relation]) -> tuple[Relation, ...]:
        """Add relations, whether or not their ends are there, and answer with those that are new. Raises InvalidInput,
        StoreError."""
        given = dict.fromkeys(one.spelled() for one in validation.listed("relations", relations, Relation))
        for relation in given:
            for name, text in relation.to_json().items():
                validation.required(name, text)
        present = {part for part, _ in await self._parts()}
        new = [relation for relation in given if relation not in present]
        await self._write(lambda *within: ([self._store(relation, *within) for relation in new], None))
        return tuple(new)

    async def add_observations(self, observations: Iterable[tuple[str, Sequence[str]]]) -> tuple[tuple[str, ...], ...]:
        """Add observations, each named with its entity, and answer with those of each that are new. Raises InvalidInput
        where an entity is not there, StoreError."""
        pairs = validation.listed("observations", observations, tuple, list)
        given = [(spelled(name), texts) for name, texts in pairs]

        def change(transaction: Transaction, context: WriteContext) -> tuple[list[Stored], list[tuple[str, ...]]]:
            stored, added = list[Stored](), list[tuple[str, ...]]()
            for name, contents in given:
                entity = self._entity(transaction, name)
                if entity is None:
                    shown = validation.shown(name)
                    raise InvalidInput("entityName", f"Entity with name {shown} not found; create it first")
                added.append(tuple(content for content in contents if content not in entity.observations))
                extended = entity._replace(observations=(*entity.observations, *added[-1]))
                stored += self._revise(extended, transaction, context) if added[-1] else []
            return stored, added

        return tuple(await self._write(change))

    async def delete_entities(self, names: Iterable[str]) -> None:
        """Forget entities, and the relations that begin or end at them. Raises StoreError."""
        gone = set(map(spelled, validation.listed("names", names, str)))
        await self._forget(lambda part: bool(gone.intersection(_ends(part))))

    async def delete_observations(self, observations: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Take observations away, each named with its entity. Raises StoreError."""
        pairs = validation.listed("observations", observations, tuple, list)
        given = [(spelled(name), texts) for name, texts in pairs]

        def change(transaction: Transaction, context: WriteContext) -> tuple[list[Stored], None]:
            stored = list[Stored]()
            for name, contents in given:
                entity = self._entity(transaction, name)
                kept = () if entity is None else tuple(one for one in entity.observations if one not in contents)
                if entity is not None and kept != entity.observations:
                    stored += self._revise(entity._replace(observations=kept), transaction, context)
            return stored, None

        await self._write(change)

    async def delete_relations(self, relations: Iterable[Relation]) -> None:
        """Forget relations. Raises StoreError."""
        gone = {relation.spelled() for relation in validation.listed("relations", relations, Relation)}
        await self._forget(gone.__contains__)

    async def read(self) -> KnowledgeGraph:
        """The whole graph, archived parts too. Raises StoreError."""
        return _graph(part for part, _ in await self._parts())

    async def open_nodes(self, names: Iterable[str]) -> KnowledgeGraph:
        """The entities of those names, and the relations that begin or end at them. Raises StoreError."""
        sought = set(map(spelled, validation.listed("names", names, str)))
        return _about(await self.read(), sought)

    async def search_nodes(self, query: str) -> KnowledgeGraph:
        """The entities that hold the query in their name, type or observations, in whatever case; else those that a
        search for its words finds, or finds a relation of. With their relations. Raises InvalidInput, StoreError."""
        words_query = validation.query(query, space=self._engine.space, tags=[TAG], limit=MOST_FOUND)
        whole, sought = await self.read(), query.lower()
        texts = {part.name: (part.name, part.entity_type, *part.observations) for part in whole.entities}
        names = {name for name, searched in texts.items() if any(sought in text.lower() for text in searched)}
        if not names and sought.strip():
            parts = [_part(hit.memory) for hit in await self._engine.find(words_query, is_search=True)]
            names = {name for one in parts if one is not None for name in _ends(one)}
        return _about(whole, names)

    async def _parts(self) -> list[tuple[Entity | Relation, Memory]]:
        """Every part with its memory, in the order in which they were first stored."""
        query = Query("", self._engine.space, tags=(TAG,))
        look = self._engine.reader
        memories = await self._engine.read(lambda: [row.memory for row in pages(look, query)])
        return [(part, memory) for memory in memories if (part := _part(memory)) is not None]

    def _entity(self, transaction: Transaction, name: str) -> Entity | None:
        row = write.find_own(transaction, self._engine.space, name)
        if row is None or row.status not in KEPT:
            return None
        part = _part(row.memory)
        if not isinstance(part, Entity) or part.name != name:
            shown = validation.shown(name)
            raise InvalidInput("name", f"{shown!r} is the key of a memory that is no entity; take another name")
        return part

    def _store(self, part: Entity | Relation, transaction: Transaction, context: WriteContext) -> Stored:
        return write.store(validation.draft(**part.to_store()), context, folds=True)(transaction)

    def _revise(self, entity: Entity, transaction: Transaction, context: WriteContext) -> list[Stored]:
        """Its memory with these observations, and all else that was said of it."""
        draft = validation.draft(entity.content)
        stored = write.update(entity.name, replace(draft, unsaid=draft.unsaid | {"key"}), context)(transaction)
        return [] if stored is None else [stored]

    async def _write(self, change: Callable[[Transaction, WriteContext], tuple[list[Stored], T]]) -> T:
        context, began_s = self._engine.write_context(), self._engine.clock.monotonic()
        stored, answer = await self._engine.write(lambda transaction: change(transaction, context))
        await self._engine.follow(*stored, began_s=began_s)
        return answer

    async def _forget(self, is_meant: Callable[[Entity | Relation], bool]) -> None:
        await self._engine.forget([memory.id for part, memory in await self._parts() if is_meant(part)])


def _part(memory: Memory) -> Entity | Relation | None:
    return graph.part(memory.key, memory.content, memory.metadata)


def _ends(part: Entity | Relation) -> tuple[str, ...]:
    return (part.name,) if isinstance(part, Entity) else (part.source, part.target)


def _graph(parts: Iterable[Entity | Relation]) -> KnowledgeGraph:
    """Machines that were apart may have stored a relation twice."""
    each = dict.fromkeys(parts)
    return KnowledgeGraph(
        tuple(one for one in each if isinstance(one, Entity)), tuple(one for one in each if isinstance(one, Relation))
    )


def _about(whole: KnowledgeGraph, names: set[str]) -> KnowledgeGraph:
    entities = tuple(one for one in whole.entities if one.name in names)
    found_names = {one.name for one in entities}
    return KnowledgeGraph(entities, tuple(one for one in whole.relations if found_names.intersection(_ends(one))))
