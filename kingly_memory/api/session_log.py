"""The verbs on one session's log: exact items in order, such as the turns of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from kingly_memory import validation
from kingly_memory.api.family import Family
from kingly_memory.declare import LIMIT, Arg, verb
from kingly_memory.documents import LogItem, json_text, read_json
from kingly_memory.errors import InvalidInput
from kingly_memory.router import documents
from kingly_memory.router.engine import Engine

MOST_ITEMS = 100_000


class SessionLog(Family):
    """The items of one session, exactly as they were appended: what JSON can say, up to 16 MiB each."""

    def __init__(self, engine: Engine, session: str) -> None:
        super().__init__(engine)
        self.session = session

    async def append(self, items: Iterable[object]) -> tuple[str, ...]:
        """Append items in one transaction; they are durable when this returns. Returns their ids. Raises InvalidInput,
        and then none was appended; StoreError."""
        return await self._append(items, None)

    async def last(self, limit: int | None = None) -> list[Any]:
        """The last items, the oldest of them first; all of them without a limit. Raises InvalidInput, StoreError."""
        return [one.item for one in await self.items(limit)]

    async def items(self, limit: int | None = None, *, before: str | None = None) -> tuple[LogItem, ...]:
        """The same with the id and time of each, those before an id. Raises InvalidInput, StoreError."""
        most = None if limit is None else validation.count("limit", limit, least=0, most=MOST_ITEMS)
        until, engine = validation.label("before", before), self._engine
        items_read = await engine.read(lambda: engine.reader.documents.log(engine.space, self.session, until, most))
        return tuple(LogItem(item.key, item.value, item.created_at) for item in reversed(items_read))

    async def pop(self) -> Any | None:
        """Take the last item off; None when there is none. Items that cannot be read go with it. Raises StoreError."""
        engine = self._engine
        return await engine.write(documents.pop(engine.space, self.session, engine.clock.now()))

    async def clear(self) -> int:
        """Remove all items for good. Returns how many those were. Raises StoreError."""
        engine = self._engine
        now = engine.clock.now()
        return await self._engine.write(lambda tx: documents.cut(tx, engine.space, self.session, "", now))

    async def replace(self, items: Iterable[object], *, first: str | None = None) -> tuple[str, ...]:
        """Put items in the place of all, or of those from the id `first` on, in one transaction. Returns their ids.
        Raises InvalidInput, StoreError."""
        return await self._append(items, validation.label("first", first) or "")

    async def copy(self, to: str, *, until: str | None = None) -> int:
        """Append the items, up to that id, to the log of another session: a branch of a conversation. Returns how
        many those were. Raises InvalidInput, StoreError."""
        other = validation.required("to", to)
        if other == self.session:
            raise InvalidInput("to", "is this session itself; name another one")
        last, engine = validation.label("until", until), self._engine
        return await self._engine.write(
            documents.copy(engine.space, self.session, other, until=last, now=engine.clock.now())
        )

    async def _append(self, items: Iterable[object], first: str | None) -> tuple[str, ...]:
        if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
            raise InvalidInput("items", "are no list; put one item into a list: [item]")
        added, engine = [json_text("items", one) for one in items], self._engine
        change = documents.append(engine.space, self.session, added, engine.clock.now(), first=first)
        return tuple(await self._engine.write(change))


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
