"""What remotes with tools of any kind share: they greet, and bring a memory by whatever their server can do."""

from __future__ import annotations

from kingly_memory.adapters.remote.dialect import Dialect, Offer
from kingly_memory.errors import RemoteRefused
from kingly_memory.models import Memory
from kingly_memory.ports import Changes, DocumentChanges, RemoteDocument, RemoteInfo, RemoteMarks


class ToolRemote:
    """Every call is one try: the sender tries again what the outbox has."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._honours_keys = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._dialect.address}>"

    async def connect(self) -> RemoteInfo:
        return await self.greeted(await self._dialect.connect())

    async def greeted(self, offer: Offer) -> RemoteInfo:
        """Adopt what the server offers."""
        raise NotImplementedError

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        """An update, else a new memory unless an earlier try has made it."""
        if remote_id is not None and (updated := await self._update(memory, remote_id, idempotency_key)) is not None:
            return updated
        existing = await self._earlier(memory, any_revision=remote_id is None) if repeated else None
        return existing or await self._create(memory, idempotency_key, remote_id)

    async def mark(self, marks: RemoteMarks) -> None:
        """Most servers know no pins and no ratings."""

    async def put_document(self, document: RemoteDocument) -> None:
        """Nor documents."""

    async def changes(self, since: str | None, *, space: str, limit: int, timeout_s: float) -> Changes | None:
        """Nor do they tell what has changed."""
        return None

    async def document_changes(
        self, since: str | None, *, space: str, limit: int, timeout_s: float
    ) -> DocumentChanges | None:
        return None

    async def aclose(self) -> None:
        await self._dialect.aclose()

    async def _earlier(self, memory: Memory, *, any_revision: bool) -> str | None:
        """The remote id of an earlier try's copy, on a server that would store the memory twice. Where the server
        cannot search, the memory is sent again: at least once is better than never."""
        if self._honours_keys:
            return None
        try:
            return await self._find(memory, any_revision=any_revision)
        except RemoteRefused:
            return None

    async def _find(self, memory: Memory, *, any_revision: bool) -> str | None:
        """A copy of the memory there; unless `any_revision`, of this very revision."""
        raise NotImplementedError

    async def _update(self, memory: Memory, remote_id: str, key: str) -> str | None:
        """Its remote id from now on; None where there is nothing to update: the server has no such tool, or no such
        memory any more."""
        raise NotImplementedError

    async def _create(self, memory: Memory, key: str, supersedes: str | None) -> str:
        """The remote id of a new memory; `supersedes` is that of the revision which it replaces."""
        raise NotImplementedError
