"""The verbs on documents: JSON or text that agents and frameworks keep under a namespace and a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Annotated, Any

from kingly_memory import validation
from kingly_memory.api.family import Family
from kingly_memory.declare import LIMIT, Arg, example, verb
from kingly_memory.documents import Document, FoundDocument, Namespace, Put, Remove, json_text, read_json, texts_in
from kingly_memory.errors import InvalidInput
from kingly_memory.filters import Filter, check_filter
from kingly_memory.ports import DocumentRows, Transaction
from kingly_memory.router import documents
from kingly_memory.router.delivery import shared
from kingly_memory.router.documents import Outcome, Write
from kingly_memory.validation import Ttl

MOST_LABELS = 32
LARGEST_VERSION = 2**53


NAMESPACE = Arg("where it lies, such as users/lydia", "NAMESPACE")
PREFIX = Arg("beginning of the namespace, in whole labels; left out, all", "PREFIX", is_positional=True)
SHARED = Arg("beginning of the namespace, in whole labels", "PREFIX")
KEY = Arg("its name there", "KEY")
IF_VERSION = Arg("only over this version; 0: only where there is none", "N")


class Documents(Family):
    """JSON or text under a namespace and a key. A namespace is a path, `"users/alice"`, or its labels, `("users",
    "alice")`; a prefix is the beginning of one, in whole labels, and the empty one is all of them."""

    async def put(
        self,
        namespace: str | Sequence[str],
        key: str,
        value: object,
        *,
        if_version: int | None = None,
        ttl: Ttl = None,
        index: bool | Sequence[str] = True,
        operation_id: str | None = None,
    ) -> Document:
        """Write a document of up to 16 MiB; it is durable when this returns. One that is there is replaced.

        `if_version` writes only over that version, 0 only where there is none: else VersionConflict. After `ttl` it is
        gone (seconds, a timedelta, "7d"; None: it stays). `index` says what searches find it by: all texts in it, those
        of the named fields, or none. A call with the `operation_id` of one that was done within 30 days changes nothing
        and tells its outcome. Raises InvalidInput, VersionConflict, StoreError.
        """
        (document,) = await self.write([Put(namespace, key, value, if_version, ttl, index)], operation_id=operation_id)
        assert document is not None  # noqa: S101  # a write has a document as its outcome
        return document

    @verb("documents get", "document_get", "documents", "Read a document", reads=True)
    @example(
        '{"namespace": "users/lydia", "key": "profile"}',
        "success namespace key version created_at updated_at expires_at value",
    )
    async def get(
        self, namespace: Annotated[str | Sequence[str], NAMESPACE], key: Annotated[str, KEY]
    ) -> Document | None:
        """Read a document.

        None when there is none or it has ended. Raises InvalidInput, StoreError.
        """
        (document,) = await self.get_many([(namespace, key)])
        return document

    async def get_many(self, places: Iterable[tuple[str | Sequence[str], str]]) -> tuple[Document | None, ...]:
        """Read several documents, each by its namespace and its key, in that order. Raises InvalidInput, StoreError."""
        pairs = validation.listed("places", places, tuple, list)
        if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004  # a pair
            raise InvalidInput("places", "expected a namespace and a key for each")
        named = [(checked_namespace(namespace), validation.required("key", key)) for namespace, key in pairs]
        engine, now = self._engine, self._engine.clock.now()
        loaded = await engine.read(lambda: [engine.reader.documents.document(engine.space, *place) for place in named])
        return tuple(None if document is None or document.is_over(now) else document for document in loaded)

    @verb("documents delete", "document_delete", "documents", "Delete a document", destroys=True, repeatable=True)
    @example('{"namespace": "users/lydia", "key": "draft"}', "success deleted")
    async def delete(
        self,
        namespace: Annotated[str | Sequence[str], NAMESPACE],
        key: Annotated[str, KEY],
        *,
        if_version: Annotated[int | None, IF_VERSION] = None,
        operation_id: str | None = None,
    ) -> bool:
        """Remove a document for good.

        False when there is none. Raises InvalidInput, VersionConflict, StoreError.
        """
        (was,) = await self.write([Remove(namespace, key, if_version)], operation_id=operation_id)
        return was is not None

    async def write(
        self, changes: Iterable[Put | Remove], *, operation_id: str | None = None
    ) -> tuple[Document | None, ...]:
        """Write and remove documents in one transaction, in their order: all of them or, when one cannot be done, none.

        Answers for each with the document as it was written, or as it was when it was removed; for an operation that
        was done before, a removed one without its value. Raises InvalidInput, VersionConflict, StoreError.
        """
        wanted: list[Put | Remove] = validation.listed("changes", changes, Put, Remove)
        checked = [_checked(one) for one in wanted]
        if len(checked) > validation.MOST_TOGETHER:
            most = validation.MOST_TOGETHER
            raise InvalidInput("changes", f"are {len(checked):,}, at most {most:,} are written together")
        operation = validation.label("operation_id", operation_id)
        engine = self._engine
        outcomes: list[Outcome] = await engine.write(
            documents.write(engine.space, checked, engine.clock.now(), operation)
        )
        return tuple(outcomes)

    async def _decided(self, decide: Callable[[DocumentRows, str], Iterable[Put | Remove]]) -> None:
        """Write what `decide` says, as `write` does, in the transaction in which that has looked what there is in a
        space; what it raises ends it. For adapters; the writer's thread waits for it, so it does nothing else."""
        engine, now = self._engine, self._engine.clock.now()

        def change(transaction: Transaction) -> None:
            checked = [_checked(one) for one in decide(transaction.documents, engine.space)]
            documents.write(engine.space, checked, now, None)(transaction)

        await engine.write(change)

    @verb("documents list", reads=True)
    async def list(
        self,
        prefix: Annotated[str | Sequence[str], PREFIX] = "",
        *,
        limit: Annotated[int, LIMIT] = 100,
        after: Annotated[
            Document | Sequence[str] | None,
            Arg("what lies behind that one: its namespace and its key", "JSON", type="object", only="command"),
        ] = None,
    ) -> tuple[Document, ...]:
        """List documents by namespace and key.

        The next page comes `after` the last one of a page, which may be named by its labels and its key as well. Raises
        InvalidInput, StoreError.
        """
        place, most = checked_namespace(prefix), validation.count("limit", limit, most=validation.RESULTS_LIMIT)
        behind = None if after is None else _place_of(after)
        engine, now_s = self._engine, self._engine.now_s()
        page = await engine.read(lambda: engine.reader.documents.documents(engine.space, place, now_s, most, behind))
        return tuple(page)

    @verb("documents namespaces", "document_namespaces", "documents", "List namespaces", reads=True)
    @example('{"prefix": "users"}', "success namespaces")
    async def namespaces(self, prefix: Annotated[str | Sequence[str], PREFIX] = "") -> tuple[Namespace, ...]:
        """List every namespace that has documents, sorted. Raises InvalidInput, StoreError."""
        place, engine, now_s = checked_namespace(prefix), self._engine, self._engine.now_s()
        return tuple(await engine.read(lambda: engine.reader.documents.namespaces(engine.space, place, now_s)))

    @verb("documents search", "document_search", "documents", "Search documents", reads=True)
    @example('{"prefix": "users", "query": "parcel", "filter": {"status": "open"}}', "success found")
    async def search(
        self,
        prefix: Annotated[str | Sequence[str], PREFIX._replace(is_positional=False)] = "",
        query: Annotated[
            str,
            Arg(
                "words that they may hold; left out, the last changed come first", is_positional=True, is_sentence=True
            ),
        ] = "",
        *,
        filter: Annotated[Filter | None, Arg("fields that they must have", "JSON", type="object")] = None,
        limit: Annotated[int, LIMIT] = 10,
        offset: int = 0,
    ) -> tuple[FoundDocument, ...]:
        """Find the documents that hold a word of the query, best first.

        Without a query, the last changed come first. `filter` names the fields that a document must have:
        `{"status": "open", "score": {"$gt": 3}}`, with $eq, $ne, $gt, $gte, $lt, $lte and $in; objects are compared
        field by field, and a field that is not there counts as null. It is read from each document that the query
        finds, so a filter without a query reads them all. Raises InvalidInput, StoreError.
        """
        if not isinstance(query, str):
            raise InvalidInput("query", "expected text")
        place, wanted = checked_namespace(prefix), None if filter is None else check_filter("filter", filter)
        first = validation.count("offset", offset, least=0, most=LARGEST_VERSION)
        most = validation.count("limit", limit, most=validation.RESULTS_LIMIT)
        engine, now_s = self._engine, self._engine.now_s()

        def look() -> list[FoundDocument]:
            reader = engine.reader.documents
            until = first + most
            matching = documents.search(reader, engine.space, place, query, wanted=wanted, now_s=now_s, most=until)
            return list(islice(matching, first, until))

        return tuple(await engine.read(look))

    @verb("documents share")
    async def share(self, prefix: Annotated[str | Sequence[str], SHARED]) -> int:
        """Share the documents of a namespace, and what lies below it, with the hubs of this project, and the logs of
        sessions whose names begin with it.

        Those that are there and those that will be go to each hub that was added to the project by now, and come from
        there to every machine that shares the namespace, too. The empty prefix is all of them. Returns how many
        documents and items are on their way. Raises InvalidInput where no hub was added, StoreError; cut short, it can
        be repeated.
        """
        place, engine = checked_namespace(prefix), self._engine
        now_s, count, last = engine.now_s(), 0, None
        while True:
            done = await engine.write(shared.share(engine.space, place, now_s, last))
            if not done.remotes:
                raise InvalidInput(
                    "prefix", "no hub was added to this project; `kingly-memory remotes add NAME URL` adds one"
                )
            count, last = count + done.due, done.last
            if last is None:
                engine.wake()
                return count

    @verb("documents unshare")
    async def unshare(self, prefix: Annotated[str | Sequence[str], SHARED]) -> bool:
        """Share a namespace no longer: nothing of it goes to a hub or comes from there any more.

        What the hub and other machines have by then stays there. False when it was not shared under that very prefix.
        Raises InvalidInput, StoreError.
        """
        place, engine = checked_namespace(prefix), self._engine
        done = await engine.write(shared.unshare(engine.space, place, None))
        was_shared = done.remotes > 0
        while done.last is not None:
            done = await engine.write(shared.unshare(engine.space, place, done.last))
        return was_shared

    async def touch(self, documents: Iterable[Document]) -> None:
        """Let documents that have a ttl begin it anew, as if they were written now; on this machine. Raises
        StoreError."""
        touched = validation.listed("documents", documents, Document)
        places = [(document.namespace, document.key) for document in touched if document.ttl_s is not None]
        space, now_s = self._engine.space, self._engine.now_s()

        def change(transaction: Transaction) -> None:
            for place in places:
                transaction.documents.extend(space, *place, now_s)

        if places:
            await self._engine.write(change)

    async def sweep(self, prefix: str | Sequence[str] = "") -> int:
        """Remove documents that have ended from the file, as the sweep of memories does. Returns how many
        those were. Raises InvalidInput, StoreError."""
        place, engine, now_s = checked_namespace(prefix), self._engine, self._engine.now_s()
        swept = 0
        while some := await engine.write(documents.sweep(engine.space, place, now_s)):
            swept += some
        return swept


@verb("documents put", "document_put", "documents", "Write a document", destroys=True, repeatable=True)
@example(
    '{"namespace": "users/lydia", "key": "profile", "value": "{\\"city\\": \\"Oslo\\"}"}',
    "success namespace key version created_at updated_at expires_at",
)
def put(
    memory: Any,
    namespace: Annotated[str, NAMESPACE],
    key: Annotated[str, KEY],
    value: Annotated[str, Arg("JSON, or a text that is none", "VALUE", reads_input=True, takes_anything=True)],
    *,
    if_version: Annotated[int | None, IF_VERSION] = None,
    ttl: Annotated[str | None, Arg("it ends so long after: 90s, 12h, 7d", "LENGTH")] = None,
) -> Any:
    """Write a document under a namespace and a key; one that is there is replaced. It is no memory: searches for
    memories do not find it."""
    return memory.documents.put(namespace, key, read_json(value), if_version=if_version, ttl=ttl)


def _place_of(named: object) -> tuple[tuple[str, ...], str]:
    """The namespace and the key of a document, or of one that is named by both in a row."""
    labels = [*named.namespace, named.key] if isinstance(named, Document) else named
    if not isinstance(labels, list | tuple) or len(labels) < 2 or not all(isinstance(label, str) for label in labels):  # noqa: PLR2004
        raise InvalidInput("after", 'is no document; give the last one of the page before, or ["namespace", "key"]')
    return tuple(labels[:-1]), labels[-1]


def checked_namespace(namespace: str | Sequence[str]) -> Namespace:
    """Its labels. Raises InvalidInput."""
    if not isinstance(namespace, Sequence):
        raise InvalidInput("namespace", "is neither a path nor a sequence of labels")
    labels = [one for one in namespace.split("/") if one] if isinstance(namespace, str) else list(namespace)
    if len(labels) > MOST_LABELS:
        raise InvalidInput("namespace", f"has {len(labels)} labels, at most {MOST_LABELS} are allowed")
    return tuple(validation.required("namespace", one) for one in labels)


def _checked(change: Put | Remove) -> Write:
    place, key = checked_namespace(change.namespace), validation.required("key", change.key)
    version = change.if_version
    if version is not None:
        validation.count("if_version", version, least=0, most=LARGEST_VERSION)
    if isinstance(change, Remove):
        return Write(place, key, version, removes=True)
    if not place:
        raise InvalidInput("namespace", "is empty; name at least one label")
    value = json_text("value", change.value)
    fields = None if isinstance(change.index, bool) else validation.texts("index", change.index)
    text = "" if change.index is False else validation.mended(texts_in(change.value, fields))
    ttl_s = validation.ttl_seconds(change.ttl)
    return Write(place, key, version, removes=False, value=change.value, json=value, text=text, ttl_s=ttl_s)
