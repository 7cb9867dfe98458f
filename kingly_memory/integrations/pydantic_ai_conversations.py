"""Pydantic AI's `ConversationStore`: `await KinglyConversationStore(memory).save(result)`.

A conversation's record and each message are documents, written in one transaction. What has to be looked at before
something is written is looked at in that transaction, so that of several writers one wins and none half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kingly_memory import validation
from kingly_memory.documents import Document, Put, Remove
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import Router, as_label, asked, decided, either, looked

with needed("the conversation store for Pydantic AI", "pydantic-ai-conversations"):
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )

if TYPE_CHECKING:
    from kingly_memory.ports import DocumentReader

Record = dict[str, Any]
RECORD, ENTRY = TypeAdapter(ConversationRecord), TypeAdapter(ConversationEntry)


class KinglyConversationStore(ConversationStore):
    """Conversations that every process sees, with each message stored once. Deleting one removes the messages that no
    other one has. Raises ConversationConflict, InvalidInput (a message of more than 16 MiB, a name of more than 512
    characters), StoreError, RouterClosed; then nothing was changed."""

    def __init__(self, memory: Router, *, root: str = "pydantic-ai-conversations") -> None:
        self._memory = either(memory)
        self._records, self._entries = (root, "records"), (root, "entries")

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        key = as_label("conversation_id", conversation_id)
        found = await asked(self._memory, lambda memory: memory.documents.get(self._records, key))
        return None if found is None else RECORD.validate_python(found.value)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        values = await looked(self._memory, lambda reader, space: list(self._values(reader, space)))
        found = [record for record in map(RECORD.validate_python, values) if scope is None or record.scope == scope]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        (entry,) = await self.read_history(entry_id, limit=1)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        def look(reader: DocumentReader, space: str) -> list[ConversationEntry]:
            found, name = list[ConversationEntry](), head_id
            while name is not None and (limit is None or len(found) < limit):
                document = self._entry(reader, space, name)
                if document is None:
                    raise KeyError(name)
                found.append(ENTRY.validate_python(document.value))
                name = found[-1].parent_id
            return found[::-1]

        return await looked(self._memory, look)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        name, head = record.conversation_id, record.head_id
        key, value = as_label("conversation_id", name), RECORD.dump_python(record, mode="json")
        puts = [Put(self._entries, one.id, ENTRY.dump_python(one, mode="json"), index=False) for one in new_entries]
        is_new = any(one.id == head for one in new_entries)

        def decide(rows: DocumentReader, space: str) -> list[Put]:
            self._check(rows, space, name, expected_revision)
            if head is not None and not is_new and self._entry(rows, space, head) is None:
                raise ConversationConflict(name)
            return [*puts, Put(self._records, key, value, index=False)]

        await decided(self._memory, decide)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        def decide(rows: DocumentReader, space: str) -> list[Remove]:
            gone = self._check(rows, space, conversation_id, expected_revision)
            others = [record for record in self._values(rows, space) if record["conversation_id"] != conversation_id]
            if gone["forked_from"] is None:  # then only a fork can have messages of it
                others = [record for record in others if record["forked_from"] is not None]
            kept: dict[str, Document] = {}
            for record in others:
                self._reach(rows, space, record, kept)
            reached = dict(kept)
            self._reach(rows, space, gone, reached)
            removes = [Remove(self._entries, name) for name in reached if name not in kept]
            return [*removes, Remove(self._records, as_label("conversation_id", conversation_id))]

        await decided(self._memory, decide)

    def _check(self, rows: DocumentReader, space: str, name: str, expected: str | None) -> Record:
        """The record. Raises ConversationConflict where it has another revision."""
        stored = rows.document(space, self._records, as_label("conversation_id", name))
        value: Record = {} if stored is None else stored.value
        if value.get("revision") != expected:
            raise ConversationConflict(name)
        return value

    def _reach(self, rows: DocumentReader, space: str, record: Record, seen: dict[str, Document]) -> None:
        """Add the messages of its history and its branches to those that were seen."""
        for tip in (record["head_id"], *(record["branches"] or ())):
            name = tip
            while name is not None and name not in seen and (found := self._entry(rows, space, name)) is not None:
                seen[name] = found
                name = found.value["parent_id"]

    def _entry(self, reader: DocumentReader, space: str, entry_id: str) -> Document | None:
        return reader.document(space, self._entries, validation.required("entry_id", entry_id))

    def _values(self, reader: DocumentReader, space: str) -> Iterator[Record]:
        last: Document | None = None
        while page := reader.documents(
            space, self._records, 0.0, validation.RESULTS_LIMIT, None if last is None else (last.namespace, last.key)
        ):
            last = page[-1]
            yield from (document.value for document in page)
