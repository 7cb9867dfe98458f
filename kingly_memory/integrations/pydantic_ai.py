"""Pydantic AI's harness: `Agent(…, capabilities=[Memory(store=KinglyMemoryStore(memory))])`.

A file of the agent is a document: `lydia/notes.md` is the key `notes.md` under the namespace `pydantic-ai/lydia`. Its
version and what wrote it stand beside its text; what an operation did is a document of its own, written with the file
in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kingly_memory import validation
from kingly_memory.documents import MOST_BYTES, Document, Put, Remove
from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import Router, as_label, asked, decided, either, is_blank, looked
from kingly_memory.validation import RESULTS_LIMIT

with needed("the memory store for Pydantic AI", "pydantic-ai"):
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperation,
        MemoryOperationConflictError,
        MemorySearchMatch,
        MemorySearchResult,
    )

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter
    from kingly_memory.ports import DocumentReader

REPLAYED_FOR = "30d"


class KinglyMemoryStore:
    """Files that agents of several processes read, write and find by words. A write over another version than was read
    raises MemoryConflictError; an operation that was done before is not done again, and its result is returned. Raises
    InvalidInput for what is no path, StoreError, RouterClosed; then nothing was changed.
    """

    def __init__(self, memory: Router, *, root: str = "pydantic-ai") -> None:
        self._memory = either(memory)
        self._root = root

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        validation.count("max_chars", max_chars, most=MOST_BYTES)
        namespace, key = self._place(path)
        file = await asked(self._memory, lambda memory: memory.documents.get(namespace, key))
        if file is None:
            return None
        fields = file.value
        return MemoryFile(
            content=fields["content"][:max_chars],
            version=fields["version"],
            operation_id=fields["operation"],
            truncated=len(fields["content"]) > max_chars,
            metadata=fields["metadata"],
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        return await looked(self._memory, lambda reader, space: self._done_before(reader, space, operation))

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        return await self._change(path, _text("content", content), expected_version, operation, None)

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        fields = dict(metadata) if metadata else None
        return await self._change(path, _text("content", content), expected_version, operation, fields)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        return await self._change(path, None, expected_version, operation, None)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        validation.count("limit", limit, most=RESULTS_LIMIT**2)
        above = self._above(prefix)

        async def listed(memory: MemoryRouter) -> list[str]:
            found: list[str] = []
            last: Document | None = None
            while page := await memory.documents.list(above, limit=RESULTS_LIMIT, after=last):
                last = page[-1]
                found += [path for path in map(_path, page) if path.startswith(prefix)]
            return sorted(found)[:limit]

        return await asked(self._memory, listed)

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """Best first, by words and their forms; of each file the place that the words stand at. The index is asked, and
        no file is read that has none of them."""
        above, most = self._above(prefix), min(max_files, RESULTS_LIMIT)
        if is_blank(query) or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        found = await asked(self._memory, lambda memory: memory.documents.search(above, query, limit=most))
        named = [(_path(hit.document), hit) for hit in found]
        below = [(path, hit) for path, hit in named if path.startswith(prefix) and "/" not in path[len(prefix) :]]
        matches, left, cut = [], max_chars, len(found) == most
        for path, hit in below[:limit]:
            content = hit.document.value["content"]
            snippet = _around(content[:max_file_chars], query, left - len(path) + len(prefix))
            if not snippet:
                break
            left -= len(path) - len(prefix) + len(snippet)
            cut = cut or len(content) > max_file_chars
            matches.append(MemorySearchMatch(path=path, snippet=snippet, score=hit.relevance or 0.0))
        return MemorySearchResult(matches=matches, scanned=len(below), truncated=cut or len(matches) < len(below))

    async def _change(
        self, path: str, content: str | None, expected: str | None, operation: MemoryOperation | None, metadata: Any
    ) -> MemoryMutation:
        namespace, key = self._place(path)
        version = None if content is None else uuid4().hex
        value = {
            "content": content,
            "version": version,
            "operation": operation and operation.id,
            "metadata": metadata,
        }

        done = MemoryMutation(version=version, replayed=False, existed=False)

        def decide(rows: DocumentReader, space: str) -> list[Put | Remove]:
            nonlocal done
            if operation is not None and (before := self._done_before(rows, space, operation)):
                done = before
                return []
            file = rows.document(space, namespace, key)
            if (file and file.value["version"]) != expected:
                raise MemoryConflictError(f"{path!r} has changed since it was read; read it again")
            done = MemoryMutation(version=version, replayed=False, existed=file is not None)
            remove, put = Remove(namespace, key), Put(namespace, key, value, index=("content",))
            writes: list[Put | Remove] = [remove if content is None else put]
            if operation is not None:
                result = {"fingerprint": operation.fingerprint, "version": version, "existed": done.existed}
                writes.append(Put(*self._operations(operation), result, ttl=REPLAYED_FOR, index=False))
            return writes

        await decided(self._memory, decide)
        return done

    def _done_before(self, rows: DocumentReader, space: str, operation: MemoryOperation) -> MemoryMutation | None:
        done = rows.document(space, *self._operations(operation))
        if done is None or done.is_over(datetime.now(UTC)):
            return None
        if done.value["fingerprint"] != operation.fingerprint:
            raise MemoryOperationConflictError(f"operation {operation.id!r} was done before with other arguments")
        return MemoryMutation(version=done.value["version"], replayed=True, existed=done.value["existed"])

    def _operations(self, operation: MemoryOperation) -> tuple[tuple[str, ...], str]:
        return (f"{self._root}.operations",), as_label("operation", operation.id)

    def _place(self, path: str) -> tuple[tuple[str, ...], str]:
        labels = _text("path", path).split("/")
        if any(one in ("", ".", "..") for one in labels):
            raise InvalidInput("path", f"{path!r} is none; name a file below the folders, such as lydia/notes.md")
        return (self._root, *labels[:-1]), labels[-1]

    def _above(self, prefix: str) -> tuple[str, ...]:
        """The folder of all paths that begin so; they may begin in the midst of a name."""
        return (self._root, *_text("prefix", prefix).split("/")[:-1])


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(field, f"expected text, not {type(value).__name__}")
    return value


def _path(document: Document) -> str:
    return "/".join((*document.namespace[1:], document.key))


def _around(content: str, query: str, most: int) -> str:
    places = [offset for word in query.lower().split() if (offset := content.lower().find(word)) >= 0]
    first = max(0, min(places, default=0) - most // 3)
    return content[first : first + most] if most > 0 else ""
