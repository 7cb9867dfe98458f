"""The verbs on one session's log: exact items in order, such as the turns of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from kingly_memory import validation
from kingly_memory.api.family import Family
from kingly_memory.declare import LIMIT, Arg, verb
from kingly_memory.documents import BEHIND_ALL, LogItem, json_text, read_json
from kingly_memory.errors import InvalidInput
from kingly_memory.ports import Transaction
from kingly_memory.router.engine import Engine

MOST_ITEMS = 100_000


class SessionLog(Family):
    """The items of one session, exactly as they were appended: what JSON can say, up to 16 MiB each."""

    def __init__(self, engine: Engine, session: str) -> None:
        super().__init__(engine)
        self.session = session

    async def append(self, items: Iterable[object]) -> int:
        """Append items in one transaction; they are durable when this returns. Returns the position of the last item.
        Raises InvalidInput, and then none was appended; StoreError."""
        return await self._replaced(None, items)

    async def last(self, limit: int | None = None) -> list[Any]:
        """The last items, the oldest of them first; all of them without a limit. Raises InvalidInput, StoreError."""
        return [one.item for one in await self.items(limit)]

    async def items(self, limit: int | None = None, *, before: int | None = None) -> tuple[LogItem, ...]:
        """The same with the position and time of each, those before a position. Raises InvalidInput, StoreError."""
        most = BEHIND_ALL if limit is None else validation.count("limit", limit, least=0, most=MOST_ITEMS)
        until = BEHIND_ALL if before is None else validation.count("before", before, most=BEHIND_ALL)
        engine = self._engine
        found = await engine.read(lambda: engine.reader.documents.log(engine.space, self.session, until, most))
        return tuple(reversed(found))

    async def pop(self) -> Any | None:
        """Take the last item off; None when there is none. Items that cannot be read go with it. Raises StoreError."""
        space, session = self._engine.space, self.session

        def change(transaction: Transaction) -> Any | None:
            found = transaction.documents.log(space, session, BEHIND_ALL, 1)
            transaction.documents.cut(space, session, found[0].position if found else 0)
            return found[0].item if found else None

        return await self._engine.write(change)

    async def clear(self) -> int:
        """Remove all items for good. Returns how many those were. Raises StoreError."""
        space, session = self._engine.space, self.session
        return await self._engine.write(lambda tx: tx.documents.cut(space, session, 0))

    async def replace(self, position: int, items: Iterable[object]) -> int:
        """Put items in the place of all from that position on, in one transaction. Returns the position of the last
        item. Raises InvalidInput, StoreError."""
        return await self._replaced(validation.count("position", position, most=BEHIND_ALL), items)

    async def copy(self, to: str, *, until: int | None = None) -> int:
        """Append the items, up to a position, to the log of another session: a branch of a conversation. Returns how
        many those were. Raises InvalidInput, StoreError."""
        other = validation.required("to", to)
        if other == self.session:
            raise InvalidInput("to", "is this session itself; name another one")
        last = BEHIND_ALL if until is None else validation.count("until", until, most=BEHIND_ALL)
        space, session = self._engine.space, self.session
        return await self._engine.write(lambda tx: tx.documents.copy(space, session, other, last))

    async def _replaced(self, position: int | None, items: Iterable[object]) -> int:
        if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
            raise InvalidInput("items", "are no list; put one item into a list: [item]")
        added = [json_text("items", one) for one in items]
        space, session, now_s = self._engine.space, self.session, self._engine.now_s()

        def change(transaction: Transaction) -> int:
            if position is not None:
                transaction.documents.cut(space, session, position)
            return transaction.documents.append(space, session, added, now_s)

        return await self._engine.write(change)


# --- on the command line ----------------------------------------------------------------------------------------------

SESSION = Arg("name of the session", "SESSION")


@verb("log append")
def append(
    memory: Any, session: Annotated[str, SESSION], items: Annotated[Sequence[str], Arg("JSON, or texts", "ITEM")]
) -> Any:
    """Append items to the log of a session; they come back exactly, and no search for memories finds them."""
    return memory.log(session).append(map(read_json, items))


@verb("log show", reads=True)
def show(memory: Any, session: Annotated[str, SESSION], limit: Annotated[int, LIMIT] = 20) -> Any:
    """Show the last items of a session."""
    return memory.log(session).items(validation.count("limit", limit, most=MOST_ITEMS))


@verb("log pop", destroys=True)
def pop(memory: Any, session: Annotated[str, SESSION]) -> Any:
    """Take the last item off a session's log, and show it."""
    return memory.log(session).pop()


@verb("log clear", destroys=True, repeatable=True)
def clear(memory: Any, session: Annotated[str, SESSION]) -> Any:
    """Remove all items of a session for good."""
    return memory.log(session).clear()


@verb("log list", reads=True)
def sessions(memory: Any) -> Any:
    """List the sessions whose logs have items."""
    return memory.logs()
