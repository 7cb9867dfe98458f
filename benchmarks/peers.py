"""Other stores that agents are given, where they are installed: `make bench PEERS=1` installs them beside us."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from benchmarks.texts import Note

Put = Callable[[str, Note], Awaitable[None]]
NAMESPACE = ("bench",)


def has_langgraph() -> bool:
    """Whether LangGraph's SQLite store can be imported here."""
    return find_spec("langgraph") is not None and find_spec("langgraph.store.sqlite") is not None


@asynccontextmanager
async def langgraph(folder: Path) -> AsyncIterator[dict[str, Put]]:
    """`put` of LangGraph's two SQLite stores at our durability, without an embedding model; empty where they are not
    installed."""
    if not has_langgraph():
        yield {}
        return
    from langgraph.store.sqlite import SqliteStore
    from langgraph.store.sqlite.aio import AsyncSqliteStore

    with SqliteStore.from_conn_string(str(folder / "langgraph.db")) as blocking:
        blocking.setup()
        blocking.conn.execute("PRAGMA synchronous = FULL")
        async with AsyncSqliteStore.from_conn_string(str(folder / "langgraph-async.db")) as awaiting:
            await awaiting.setup()
            await awaiting.conn.execute("PRAGMA synchronous = FULL")

            async def put(key: str, note: Note) -> None:
                blocking.put(NAMESPACE, key, {"content": note.content, "tags": list(note.tags)})

            async def aput(key: str, note: Note) -> None:
                await awaiting.aput(NAMESPACE, key, {"content": note.content, "tags": list(note.tags)})

            yield {"LangGraph SqliteStore": put, "LangGraph AsyncSqliteStore": aput}
