"""LangGraph's `BaseStore` over the documents of a router: `graph.compile(store=KinglyStore(memory))`.

An item is a document under the label `root` and its namespace: an empty prefix means all items, and nothing that others
keep in the router.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from copy import deepcopy
from itertools import islice
from typing import Any, Self, TypedDict, Unpack

from kingly_memory import validation
from kingly_memory.api.documents import checked_namespace
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.documents import Document, Namespace, Put, Remove, json_text
from kingly_memory.errors import InvalidInput, RouterClosed, StoreError
from kingly_memory.filters import Filter, check_filter
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import as_label, as_name
from kingly_memory.router.documents import search

with needed("the store for LangGraph", "langgraph"):
    from langgraph.store import base

    from kingly_memory.integrations import vectors

log = logging.getLogger("kingly_memory.integrations")

PROJECT = "default"
"""Of a store that is opened by its path, so that the path alone says which items it has."""
Found = tuple[Document, float | None]
"""With its score, where the query says something of it."""


class Options(TypedDict, total=False):
    """`index` and `ttl` are LangGraph's; `root` begins the namespaces of the documents that the items are."""

    index: base.IndexConfig | None
    ttl: base.TTLConfig | None
    root: str


class _Items(base.BaseStore):
    """What both stores have in common: all but on whose event loop it happens."""

    supports_ttl = True

    def __init__(self, memory: MemoryRouter, **chosen: Unpack[Options]) -> None:
        index, ttl = chosen.get("index"), chosen.get("ttl")
        self._engine = memory._engine  # noqa: SLF001  # the sweeper ends with it
        self._documents = memory.documents
        self._root = chosen.get("root", "langgraph")
        self._sweeper: asyncio.Task[None] | None = None
        self.ttl_config = ttl
        self.index_config = index
        self.embeddings = base.ensure_embeddings(index.get("embed")) if index else None
        options: Mapping[str, Any] = index or {}  # the framework's own stores do not agree on the name
        self._fields = options.get("fields") or options.get("text_fields") or ["$"]

    async def _done(self, ops: list[base.Op]) -> list[base.Result]:
        """What the operations answer, in their order. All writing is one transaction, after all reading."""
        for op in ops:
            base.validate_op_namespace(op)
        try:
            used: list[Document] = []
            answers = [await self._answer(op, used) for op in ops]
            if puts := {(tuple(op.namespace), op.key): op for op in ops if isinstance(op, base.PutOp)}:
                await self._write(puts)
            if used:
                await self._documents.touch(used)
        except InvalidInput as error:
            if error.field == "namespace":
                raise base.InvalidNamespaceError(str(error)) from None
            raise
        return answers

    async def _answer(self, op: base.Op, used: list[Document]) -> base.Result:
        """Notes which documents are to begin their time anew."""
        if isinstance(op, base.PutOp):
            return None
        if isinstance(op, base.ListNamespacesOp):
            return await self._namespaces(op)
        if isinstance(op, base.GetOp):
            document = await self._documents.get(self._place(op.namespace), as_label("key", op.key))
            found: list[Found] = [] if document is None else [(document, None)]
        else:
            found = await self._search(op)
        if op.refresh_ttl and self.ttl_config and self.ttl_config.get("refresh_on_read", False):
            used += [
                same
                for document, _ in found
                for same in (document, document._replace(namespace=vectors.beside(document.namespace)))
            ]
        if isinstance(op, base.GetOp):
            return next((base.Item(**_fields(document)) for document, _ in found), None)
        return [base.SearchItem(**_fields(document), score=score) for document, score in found]

    async def _namespaces(self, op: base.ListNamespacesOp) -> list[Namespace]:
        first, until = _page(op)
        conditions = op.match_conditions or ()
        plain = (
            condition.path for condition in conditions if condition.match_type == "prefix" and "*" not in condition.path
        )
        names = await self._documents.namespaces(self._place(next(plain, ())))
        fitting = (name for name in map(_name, names) if all(_fits(name, one) for one in conditions))
        return sorted({name[: op.max_depth] for name in fitting})[first:until]

    async def _search(self, op: base.SearchOp) -> list[Found]:
        """Best first. Behind what the query finds come the others, as in a store that ranks all by a model."""
        first, until = _page(op)
        prefix, wanted = self._place(op.namespace_prefix), _filter(op.filter)
        best: list[Found] = []
        if not isinstance(op.query, str | None):
            raise InvalidInput("query", "expected text")
        if op.query and self.embeddings:
            query = await self.embeddings.aembed_query(op.query)
            best += await vectors.nearest(self._documents, prefix, query, wanted, until)
        queries = ["", *([op.query] if op.query and not self.embeddings else ())]
        engine, now_s = self._engine, self._engine.now_s()

        def look() -> list[Found]:
            once: dict[tuple[Namespace, str], Found] = {
                (document.namespace, document.key): (document, score) for document, score in best
            }
            while queries and len(once) < until:
                reader, query = engine.reader.documents, queries.pop()
                for hit in search(reader, engine.space, prefix, query, wanted=wanted, now_s=now_s, most=until):
                    once.setdefault((hit.document.namespace, hit.document.key), hit)
                    if len(once) >= until:
                        break
            return list(once.values())[first:until]

        return await engine.read(look)

    async def _write(self, puts: dict[tuple[Namespace, str], base.PutOp]) -> None:
        texts = [self._texts(op) for op in puts.values()]
        flat = [text for own in texts for text in own]
        made = iter(await self.embeddings.aembed_documents(flat) if self.embeddings and flat else ())
        changes: list[Put | Remove] = []
        for op, own in zip(puts.values(), texts, strict=True):
            namespace, key = self._place(op.namespace), as_label("key", op.key)
            ttl = op.ttl * 60 if isinstance(op.ttl, int | float) else op.ttl
            is_found = op.index is not False
            changes.append(
                Remove(namespace, key) if op.value is None else Put(namespace, key, op.value, ttl=ttl, index=is_found)
            )
            if op.value is None or self.embeddings:
                changes.append(vectors.change(namespace, key, op.value, list(islice(made, len(own))), ttl))
        await self._documents.write(changes)

    def _texts(self, op: base.PutOp) -> list[str]:
        """What a model is given of an item that is written."""
        if op.value is None:
            return []
        if not op.namespace:
            raise base.InvalidNamespaceError("the namespace of an item is empty; name at least one label")
        if not isinstance(op.value, Mapping):
            raise InvalidInput("value", f"is {type(op.value).__name__} and no dict; put it under a name")
        paths = validation.texts("index", op.index) if op.index not in (None, False) else self._fields
        if self.embeddings is None or op.index is False:
            return []
        json_text("value", op.value)  # no model is asked for what is not written
        return [text for path in paths for text in base.get_text_at_path(op.value, path)]

    def _place(self, namespace: Iterable[str]) -> Namespace:
        return checked_namespace([self._root, *(as_label("namespace", label) for label in namespace)])

    async def _sweep(self) -> int:
        namespace = self._place(())
        await self._documents.sweep(vectors.beside(namespace))
        return await self._documents.sweep(namespace)

    async def _start_sweeper(self, minutes: float | None) -> None:
        """It ends when it is stopped, or with the router."""
        if self.ttl_config and (self._sweeper is None or self._sweeper.done()):
            every_s = 60 * (minutes or self.ttl_config.get("sweep_interval_minutes") or 5)
            self._sweeper = self._engine.runtime.in_background(self._sweep_on(every_s), "items-sweeper")

    async def _sweep_on(self, every_s: float) -> None:
        while True:
            await self._engine.clock.sleep(every_s)
            try:
                await self._sweep()
            except StoreError as error:
                log.warning("items that have ended could not be removed: %s", error)

    async def _stop_sweeper(self) -> bool:
        if self._sweeper is not None:
            self._sweeper.cancel()
        return True


class KinglyStore(_Items):
    """Items that words find without a model, and that every process sees.

    They are those of the router, or of its `scoped` view: a store for each user costs next to nothing. With an `index`
    its model ranks what a query finds. Values are dicts that JSON can say, of up to 16 MiB. What has ended is never
    shown, whatever `omit_expired` says. Async methods serve any event loop, through a thread. The store is open as long
    as its router. Raises InvalidNamespaceError, InvalidInput, StoreError, RouterClosed, and what the model raises; of a
    batch that raises nothing is written.
    """

    def __init__(self, memory: SyncMemoryRouter, **chosen: Unpack[Options]) -> None:
        if not isinstance(memory, SyncMemoryRouter):
            raise InvalidInput("memory", "is no SyncMemoryRouter; over a MemoryRouter there is AsyncKinglyStore")
        super().__init__(memory._awaiting, **chosen)  # noqa: SLF001  # the same router, which its loop runs
        self._call = memory._call  # noqa: SLF001

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str, **chosen: Unpack[Options]) -> Iterator[Self]:
        """Opens the home in that folder, and closes it."""
        with SyncMemoryRouter.open(_folder(conn_string), project=PROJECT) as memory:
            yield cls(memory, **chosen)

    def setup(self) -> None:
        """There is nothing to prepare."""

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        operations = list(ops)
        return self._call(lambda: self._done(operations))

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove what has ended from the file. Returns how many items those were."""
        return self._call(self._sweep)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        self._call(lambda: self._start_sweeper(sweep_interval_minutes))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        return self._call(self._stop_sweeper)


class AsyncKinglyStore(_Items):
    """`KinglyStore` over a `MemoryRouter`, for the event loop that it is made in. Other threads may call its methods
    without `await`; on that loop they raise InvalidStateError, as those of the framework's own stores do."""

    def __init__(self, memory: MemoryRouter, **chosen: Unpack[Options]) -> None:
        if not isinstance(memory, MemoryRouter):
            raise InvalidInput("memory", "is no MemoryRouter; over a SyncMemoryRouter there is KinglyStore")
        super().__init__(memory, **chosen)
        self._loop = asyncio.get_running_loop()

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str, **chosen: Unpack[Options]) -> AsyncIterator[Self]:
        """Opens the home in that folder, and closes it."""
        async with MemoryRouter.open(_folder(conn_string), project=PROJECT) as memory:
            yield cls(memory, **chosen)

    async def setup(self) -> None:
        """There is nothing to prepare."""

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                raise asyncio.InvalidStateError(
                    "this would block the event loop; await the method that begins with `a`"
                )
        if not self._loop.is_running():
            raise RouterClosed("event loop")
        return asyncio.run_coroutine_threadsafe(self._done(list(ops)), self._loop).result()

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        return await self._done(list(ops))

    async def sweep_ttl(self) -> int:
        """Remove what has ended from the file. Returns how many items those were."""
        return await self._sweep()

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        await self._start_sweeper(sweep_interval_minutes)

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # the peers' signature
        return await self._stop_sweeper()


def _folder(conn_string: str) -> str:
    if conn_string == ":memory:" or "://" in conn_string:
        raise InvalidInput("conn_string", f"{conn_string[:80]!r} is no folder; name the one where the items are to lie")
    return conn_string


def _fields(document: Document) -> dict[str, Any]:
    times = {"created_at": document.created_at, "updated_at": document.updated_at}
    return {"namespace": _name(document.namespace), "key": as_name(document.key), "value": document.value, **times}


def _name(namespace: Namespace) -> Namespace:
    return tuple(map(as_name, namespace[1:]))


def _page(op: base.SearchOp | base.ListNamespacesOp) -> tuple[int, int]:
    """From which answer on, and up to which."""
    first, most = (validation.count(name, getattr(op, name), least=0, most=2**53) for name in ("offset", "limit"))
    return first, first + most


def _fits(namespace: Namespace, condition: base.MatchCondition) -> bool:
    path = condition.path
    first = len(namespace) - len(path) if condition.match_type == "suffix" else 0
    part = namespace[first : first + len(path)] if first >= 0 else ()
    return len(part) == len(path) and all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _filter(fields: object) -> Filter | None:
    """A field with dots in its name is a path: `{"user.city": "Oslo"}`. Raises InvalidInput."""
    wanted: dict[str, Any] = {}
    for field, value in deepcopy(dict(check_filter("filter", fields or {}))).items():
        if set("'\"[]()").intersection(field):
            raise InvalidInput(
                "filter", f"Invalid filter key {field[:80]!r}; name a field, or the path to one with dots"
            )
        *path, last = field.split(".")
        inner = wanted
        for label in path:
            inner = inner.setdefault(label, {})
            if not isinstance(inner, dict):
                raise InvalidInput("filter", f"wants two things of the field {label[:40]!r}; say it once")
        inner[last] = value
    return check_filter("filter", wanted) if wanted else None
