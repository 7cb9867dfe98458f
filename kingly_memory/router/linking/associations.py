"""Reading what belongs together: links between memories, and the thoughts of a chain. Synchronous and read-only."""

from __future__ import annotations

from collections.abc import Sequence

from kingly_memory import intake
from kingly_memory.cognition import links, thoughts
from kingly_memory.cognition.links import Link
from kingly_memory.cognition.thoughts import Chain, Step, Thought
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory, Query, Standing
from kingly_memory.ports import Now, Row, StoreReader
from kingly_memory.router.delivering.delivery import Delivery
from kingly_memory.router.delivering.standing import receipt_of
from kingly_memory.router.searching.local_search import LocalSearch
from kingly_memory.router.view import SEEN, Station, View, pages


class Associations:
    """One project's links and chains, beside its `View`."""

    def __init__(self, station: Station, *, view: View, reader: StoreReader, local: LocalSearch, clock: Now) -> None:
        self._station = station
        self._view = view
        self._reader = reader
        self._local = local
        self._clock = clock

    def links(self, key_or_id: str) -> tuple[Link, ...]:
        """The links of a memory, oldest first, unless the other end was forgotten or erased. Raises InvalidInput."""
        row = self._view.find(key_or_id)
        if row is None or row.standing is Standing.FORGOTTEN:
            raise InvalidInput("key_or_id", f"nothing is stored under {intake.shown(key_or_id)!r} in this project")
        memory_id = row.memory.id
        beside = links.beside(self._reader, [memory_id])[memory_id]
        return tuple(one for one in beside if self._is_there(one.other_end(memory_id)))

    def linked(self, memory_ids: Sequence[str], limit: int) -> dict[str, tuple[JsonObject, ...]]:
        """For each memory that has any, up to `limit` memories linked to it that `get` would give. See `linked_of`."""
        now_s = self._clock.now().timestamp()

        def is_shown(row: Row) -> bool:
            return row.standing in SEEN and self._local.is_alive(row, now_s)

        return links.linked_of(self._reader, self._station.project, memory_ids, limit, is_shown)

    def thoughts(self, chain_id: str) -> tuple[Thought, ...]:
        """The thoughts of a chain in the order they were stored, archived ones included. Raises InvalidInput."""
        memories = self._chain(thoughts.chain_name(chain_id))
        if not memories:
            raise InvalidInput("chain_id", f"{intake.shown(chain_id)!r} has no thoughts in this project")
        facets = self._deliveries(memories)
        receipts = (receipt_of(one, facets.get(one.id, {}), self._station.routes) for one in memories)
        return tuple(thoughts.thought(one, receipt) for one, receipt in zip(memories, receipts, strict=True))

    def end_of_chain(self, said: Step) -> Chain | None:
        """Where the thought's chain ends, if that came from a file and is not noted yet."""
        chain_id = said.chain_id or self._chain_of(said.parent_id)
        if chain_id is None or thoughts.is_noted(self._reader, self._station.project, chain_id):
            return None
        return thoughts.end_of(self._chain(chain_id))

    def _is_there(self, memory_id: str) -> bool:
        row = self._reader.row(memory_id)
        return row is not None and row.standing is not Standing.FORGOTTEN

    def _chain(self, chain_id: str) -> list[Memory]:
        query = Query("", self._station.project, tags=(thoughts.RECORD, thoughts.CHAIN_TAG + chain_id))
        found = (row.memory for row in pages(self._reader, query))
        return [one for one in found if thoughts.is_thought(one) and one.metadata["chain_id"] == chain_id]

    def _chain_of(self, memory_id: str | None) -> str | None:
        row = None if memory_id is None else self._reader.row(memory_id)
        return row.memory.metadata["chain_id"] if row is not None and thoughts.is_thought(row.memory) else None

    def _deliveries(self, memories: Sequence[Memory]) -> dict[str, dict[str, Delivery | None]]:
        """By memory and remote."""
        found: dict[str, dict[str, Delivery | None]] = {}
        for route in self._station.remotes:
            facets = self._reader.facets("delivery", [f"{route.name}:{one.id}" for one in memories])
            for owner, facet in facets.items():
                found.setdefault(owner.partition(":")[2], {})[route.name] = Delivery.from_json(facet)
        return found
