"""Records in the store that name each other: kept beside the memory they are about, and found by their tags."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from kingly_memory import intake
from kingly_memory.cognition.links import LinkDraft
from kingly_memory.errors import InvalidInput
from kingly_memory.intake import Draft
from kingly_memory.models import Memory, Query, Receipt, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import linking, write
from kingly_memory.router.access import Access
from kingly_memory.router.view import pages
from kingly_memory.router.write import Stored, WriteContext


class Keep(Protocol):
    """Runs a change that stores a memory, and does what comes after a store. Raises what `Access.write` raises."""

    def __call__(self, change: Callable[[Transaction], Stored]) -> Awaitable[Receipt]: ...


class DebateShelf:
    """Implements cognition.consensus.Shelf."""

    def __init__(self, project: str, *, access: Access, keep: Keep) -> None:
        self._project = project
        self._access = access
        self._keep = keep

    async def keep_beside(self, key_or_id: str, make: Callable[[Memory], Draft], said: LinkDraft) -> Receipt:
        return await self._keep(_beside(key_or_id, make, said, self._access.write_context()))

    async def tagged(self, *tags: str) -> list[Memory]:
        query = Query("", self._project, tags=tags)
        return await self._access.read(lambda: [row.memory for row in pages(self._access.reader, query)])


def _beside(
    key_or_id: str, make: Callable[[Memory], Draft], said: LinkDraft, desk: WriteContext
) -> Callable[[Transaction], Stored]:
    def change(transaction: Transaction) -> Stored:
        row = write.find(transaction, desk.project, key_or_id)
        if row is None or row.standing is Standing.FORGOTTEN:
            raise InvalidInput("debate_id", f"nothing is stored under {intake.shown(key_or_id)!r} in this project")
        stored = write.store(make(row.memory), desk, noted=False)(transaction)
        linking.link(stored.receipt.id, row.memory.id, said, desk)(transaction)
        return stored

    return change
