"""CrewAI's storage of records: `Memory(storage=KinglyStorage(memory), …)`.

A record is a document under the label `root`, named by its id, with its vector in it. What is not asked by words reads
them all: a crew has thousands and not millions.
"""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from typing import Any, Self

from kingly_memory import validation
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.documents import Document, Put, Remove, VersionConflict
from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.crewai_scopes import Fits, children, fitting, normal, utc
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import as_label, looked
from kingly_memory.ports import DocumentReader
from kingly_memory.router import documents
from kingly_memory.validation import RESULTS_LIMIT, batches

with needed("the storage for CrewAI", "crewai"):
    import numpy as np
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.types import MemoryRecord, ScopeInfo

    from kingly_memory.integrations.vectors import directions

_TOGETHER = 1_000


class KinglyStorage:
    """CrewAI's StorageBackend, safe for several processes and threads. Raises EmbeddingDimensionMismatchError for a
    vector of another length than the stored ones have, TypeError for metadata that is no JSON, InvalidInput,
    StoreError, RouterClosed; then nothing of the thousand records that are written together was changed."""

    def __init__(self, memory: SyncMemoryRouter, *, root: str = "crewai") -> None:
        if not isinstance(memory, SyncMemoryRouter):
            raise InvalidInput("memory", "is no SyncMemoryRouter, and CrewAI's storages do not await")
        self._memory, self._documents = memory, memory.documents
        self._place, self._beside = (root,), (f"{root}.dimensions",)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The same: crews copy their memory, and there is one store."""
        return self

    def save(self, records: list[MemoryRecord]) -> None:
        for some in batches(records, _TOGETHER):
            puts = [Put(self._place, as_label("id", record.id), _value(record), index=("content",)) for record in some]
            try:
                self._documents.write([*puts, *self._dimensions(some)])
            except VersionConflict:  # somebody else has just stored the first vector
                self._documents.write([*puts, *self._dimensions(some)])

    def update(self, record: MemoryRecord) -> None:
        self.save([record])

    def touch_records(self, record_ids: list[str]) -> None:
        """Note that they were recalled; where one of them is written meanwhile, that is not noted."""
        places = [(self._place, as_label("id", name)) for name in record_ids]
        now = datetime.now(UTC).replace(tzinfo=None).isoformat()
        with suppress(VersionConflict):
            self._documents.write(
                Put(*document[:2], {**document.value, "last_accessed": now}, document.version, index=("content",))
                for document in self._documents.get_many(places)
                if document is not None
            )

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Nearest first; the score is the cosine, 0 where it is below."""
        self._dimensions([MemoryRecord(content="", embedding=query_embedding)])
        fits = fitting(scope_prefix, categories, metadata_filter=metadata_filter)
        records = [one for one in self._records(fits) if one.embedding]
        if not records:
            return []
        rows = directions([one.embedding or [] for one in records])
        scores = (rows @ directions([query_embedding])[0]).clip(0.0, 1.0)
        ranked = sorted(zip(records, map(float, scores), strict=True), key=lambda pair: -pair[1])
        return [pair for pair in ranked if pair[1] >= min_score][:limit]

    def find(self, query: str, match: Callable[[MemoryRecord, float], Any], limit: int) -> list[Any]:
        """What is made of the best records, found by words and without a vector; None leaves one out. It is made where
        they are read: the caller's thread would be woken in the midst of the work, which costs as much again."""
        most, now_s = validation.count("limit", limit, least=0, most=sys.maxsize), datetime.now(UTC).timestamp()

        def look(reader: DocumentReader, space: str) -> list[Any]:
            hits = partial(documents.search, reader, space, self._place, query, wanted=None, now_s=now_s)
            best = list(hits(most=most))
            seen = {one.document.key for one in best}
            behind = hits(most=sys.maxsize) if len(best) >= most else ()  # a generator: searched when asked for
            rest = (one for one in behind if one.document.key not in seen)
            matches = (match(_record(one.document), one.relevance or 0.0) for one in chain(best, rest))
            return list(islice((one for one in matches if one is not None), most))

        return self._memory._call(lambda: looked(self._memory._awaiting, look))  # noqa: SLF001

    def delete(self, *arguments: Any, **how: Any) -> int:
        """Delete the records that fit all arguments; they are those of `fitting`. Returns how many were deleted."""
        removed = 0
        for gone in batches(list(self._records(fitting(*arguments, **how))), _TOGETHER):
            removes = [Remove(self._place, as_label("id", record.id)) for record in gone]
            removed += sum(was is not None for was in self._documents.write(removes))
        return removed

    def reset(self, scope_prefix: str | None = None) -> None:
        self.delete(scope_prefix)
        if normal(scope_prefix) == "/":
            self._documents.delete(self._beside, "dimensions")

    def get_record(self, record_id: str) -> MemoryRecord | None:
        document = self._documents.get(self._place, as_label("id", record_id))
        return None if document is None else _record(document)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """The newest first."""
        below = sorted(self._records(fitting(scope_prefix)), key=lambda record: utc(record.created_at), reverse=True)
        return below[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        below = list(self._records(fitting(scope)))
        times = sorted((record.created_at for record in below), key=utc)
        return ScopeInfo(
            path=normal(scope),
            record_count=len(below),
            categories=sorted({name for record in below for name in record.categories}),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=children(scope, below),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        return children(parent, self._records(fitting(parent)))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        return dict(Counter(name for one in self._records(fitting(scope_prefix)) for name in one.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        return sum(1 for _ in self._records(fitting(scope_prefix)))

    async def asave(self, records: list[MemoryRecord]) -> None:
        await asyncio.to_thread(self.save, records)

    async def asearch(
        self, query_embedding: list[float], *arguments: Any, **how: Any
    ) -> list[tuple[MemoryRecord, float]]:
        return await asyncio.to_thread(self.search, query_embedding, *arguments, **how)

    async def adelete(self, *arguments: Any, **how: Any) -> int:
        return await asyncio.to_thread(self.delete, *arguments, **how)

    def _records(self, fits: Fits) -> Iterator[MemoryRecord]:
        last: Document | None = None
        while page := self._documents.list(self._place, limit=RESULTS_LIMIT, after=last):
            last = page[-1]
            yield from filter(fits, map(_record, page))

    def _dimensions(self, records: Sequence[MemoryRecord]) -> list[Put]:
        """What notes the length of vectors, where none was noted yet."""
        lengths = {len(one.embedding) for one in records if one.embedding}
        if not lengths:
            return []
        noted = self._documents.get(self._beside, "dimensions")
        dimensions = noted.value if noted else min(lengths)
        if others := lengths - {dimensions}:
            raise EmbeddingDimensionMismatchError(dimensions, others.pop())
        return [Put(self._beside, "dimensions", dimensions, 0, index=False)] if noted is None else []


def _value(record: MemoryRecord) -> dict[str, Any]:
    json.dumps(record.metadata)  # pydantic would turn sets and dates into something else; this raises TypeError
    value: dict[str, Any] = record.model_dump(mode="json")
    if record.embedding:
        value["float32"] = b64encode(np.array(record.embedding, np.float32).tobytes()).decode()
    return value


def _record(document: Document) -> MemoryRecord:
    record = MemoryRecord.model_validate(document.value)
    if (vector := document.value.get("float32")) is not None:
        record.embedding = np.frombuffer(b64decode(vector), np.float32).tolist()
    return record
