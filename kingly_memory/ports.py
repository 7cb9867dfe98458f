"""The ports: what the rooms need from the outside world. Adapters implement them and repeat none of this."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

from kingly_memory.dataclass import NamedTuple, dataclass
from kingly_memory.digests import content_digest
from kingly_memory.ids import MemoryId
from kingly_memory.models import (
    Backup,
    DeliveryState,
    JsonObject,
    Memory,
    MemoryStatus,
    MemoryType,
    Query,
    Results,
)

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future
    from datetime import datetime
    from pathlib import Path

    from kingly_memory.documents import Document, LogSession, Namespace, Place
    from kingly_memory.errors import RemoteRefused

P = ParamSpec("P")
T = TypeVar("T")


class Now(Protocol):
    """The time of day: aware UTC, and it may jump."""

    def now(self) -> datetime: ...


@runtime_checkable
class Clock(Now, Protocol):
    """Every question about time goes through this, so that a test can hold it still."""

    def monotonic(self) -> float:
        """Seconds that never go back; for durations within this process."""

    async def sleep(self, seconds: float) -> None: ...

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Wait until the event is set (True) or that many seconds have passed (False). None waits for ever."""


# --- the local layer ------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A memory as it lies in the store. `position` orders rows by when they were first stored."""

    position: int
    memory: Memory
    status: MemoryStatus

    @property
    def is_tombstone(self) -> bool:
        """True of what a purge leaves: a forgotten memory without content, which never comes back."""
        return self.status is MemoryStatus.FORGOTTEN and not self.memory.content


class Scrubbed(NamedTuple):
    """What a scrub has reached. `is_complete` is False while another process keeps the log; `left_in` names the folders
    of replaced stores that hold what was erased."""

    is_complete: bool
    left_in: tuple[str, ...]


class Match(NamedTuple):
    """A row that the text index found, with its BM25 score: positive, higher is better."""

    row: Row
    bm25: float


class Matches(NamedTuple):
    """One page of matches, best first. `cut` says that the deadline ended the search early, `has_passed_over` that not
    all that match were looked at, `at_end` that no further page follows: one may be short because of its filters."""

    found: tuple[Match, ...]
    cut: bool = False
    has_passed_over: bool = False
    at_end: bool = True


Passages = Mapping[int, tuple[int, float]]
"""Of each memory, by its position, where its best passage begins in its content and that one's BM25 score, of which
higher is better."""


class Beside(NamedTuple):
    """Positions of what was said just before a memory and just after it in its context, the nearest first."""

    before: tuple[int, ...]
    after: tuple[int, ...]


class Corpus(NamedTuple):
    """What the text index holds, every project's: how many rows, and how many words a row has on average."""

    rows: int
    mean_words: float


class Counted(NamedTuple):
    """In how many rows of the whole store each term stands: 0 unless the own project has it. `corpus` is how much there
    is of what was counted. Where a store looks for that in the same step, `found` is the first page of what the terms
    find, and its passages, and `last_change` the number of the project's last change, vectors included."""

    rows_with: Mapping[str, int]
    corpus: Corpus
    found: tuple[Passages, Matches] | None = None
    last_change: int | None = None


class Ends(NamedTuple):
    """How many live memories of each type are past their end, and when the next of the others ends, in Unix seconds."""

    over: Mapping[str, int]
    next_s: float | None


class Space(NamedTuple):
    """What lies in a space. `documents` counts items of logs too; `changed_s`, in Unix seconds, is its last change."""

    name: str
    memories: int
    archived: int
    documents: int
    changed_s: float

    @property
    def is_used(self) -> bool:
        """False where everything was forgotten or purged."""
        return bool(self.memories or self.archived or self.documents)


class DocumentReader(Protocol):
    """Reading documents and logs. `now_s` leaves out documents that have ended by then (Unix seconds)."""

    def document(self, space: str, namespace: Namespace, key: str) -> Document | None:
        """The document in that place, also one that has ended."""

    def found_by(self, space: str, namespace: Namespace, key: str) -> str:
        """The text that searches find the document by."""

    def documents(
        self, space: str, prefix: Namespace, now_s: float, limit: int, after: tuple[Namespace, str] | None
    ) -> list[Document]:
        """Documents of the namespaces that begin with those labels, by namespace and key, from the first one behind
        `after`."""

    def namespaces(self, space: str, prefix: Namespace, now_s: float) -> list[Namespace]:
        """Every namespace that has documents and begins with those labels, sorted."""

    def found(
        self,
        space: str,
        prefix: Namespace,
        now_s: float,
        words: Sequence[str],
        pieces: Sequence[str],
        *,
        most: int | None,
    ) -> list[tuple[int, float | None]]:
        """Where at `most` so many documents lie that hold one of the words, best first with their BM25 score (higher is
        better), or all of the pieces, letter by letter; any, the last changed first, where neither is given."""

    def documents_at(self, positions: Sequence[int]) -> list[tuple[int, Document]]:
        """The documents at those positions, each with its position, in that order."""

    def operation(self, space: str, operation: str) -> JsonObject | None:
        """What was noted of an operation."""

    def log(self, space: str, session: str, before: str | None, limit: int | None) -> list[Document]:
        """The last items of a session before the one of that id, the last one first, without those that cannot be
        read."""

    def log_end(self, space: str, session: str) -> str | None:
        """The id of a session's last item."""

    def sessions(self, space: str) -> list[LogSession]: ...

    def places(self, space: str, prefix: Namespace, limit: int, after: tuple[Namespace, str] | None) -> list[Place]:
        """Where documents and log items of the namespaces that begin with those labels lie, by namespace and key, from
        the first one behind `after`; also of those that have ended."""

    def count(self, space: str) -> int:
        """How many documents and log items the project has."""


class DocumentRows(DocumentReader, Protocol):
    """The same as one change sees them, and writing them."""

    def put(self, space: str, document: Document, value: str, text: str) -> None:
        """Write a document, in the place of one that lies there, with its value as JSON and the text to find it by."""

    def last_version(self, space: str) -> int:
        """The highest version of any document that was removed from the project; 0 where none was."""

    def remove(self, space: str, namespace: Namespace, key: str) -> None: ...

    def extend(self, space: str, namespace: Namespace, key: str, now_s: float) -> None:
        """Let a document with a ttl begin it anew."""

    def sweep(self, space: str, prefix: Namespace, now_s: float) -> list[tuple[str, Place]]:
        """Remove documents of the namespaces that begin with those labels that have ended, a thousand at most. Returns
        their spaces and places."""

    def tidy(self, now_s: float, operations_before_s: float) -> list[tuple[str, Place]]:
        """Remove documents that have ended, whoever's they are, a thousand at most, and what was noted of older
        operations. Returns the spaces and places of the documents."""

    def purge(self, space: str) -> int:
        """Remove every document and log item of a project, and what was noted of operations. Returns how many those
        were."""

    def move(self, space: str, to: str, suffix: str) -> int:
        """Move every document and log item to another space. Where both have a document of one name, the suffix is put
        to that of the one that changed earlier; logs of one session become one. Returns how many those were."""

    def note_operation(self, space: str, operation: str, outcome: JsonObject, now_s: float) -> None: ...

    def cut(self, space: str, session: str, first: str) -> list[str]:
        """Remove a session's items from that id on. Returns their ids."""


HOME, INCARNATION, READ = "home", "incarnation", "read"
"""The facet `home:incarnation` names a home by its `id`, another one wherever a home is made anew. `restored` says that
it was made of a backup or is a copy, `files` which files it lies in: a copy lies in others. It is part of no export."""

MET = "met"
"""The facet of a memory that was stored under one key on machines that were apart: `ids`, what it is called there."""


class Change(NamedTuple):
    """One line of the change feed: what became of a memory, and when (Unix seconds).

    `what` is stored, seen (stored again), revised, moved (to another project), archived, forgotten, restored or erased.
    Sequences of one home ascend and are never given twice; `<incarnation of the home>.<sequence>` names a change
    everywhere.
    """

    sequence: int
    memory_id: MemoryId
    revision: int
    what: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a memory, or a link between two, stands with one remote. Times are Unix seconds.

    Changes of a subject are numbered: a memory's revision, or one more for each forget and restore. `wanted` is the
    newest change, `acknowledged` the last one that the remote confirmed. `first_sent` is the first text that was sent
    and not confirmed (0: none): it may be there, or arrive late. `due` is when it may be sent or when its lease lapses;
    None when nothing is to be sent.
    """

    wanted: int
    due: float | None
    state: DeliveryState = DeliveryState.PENDING
    acknowledged: int = 0
    first_sent: int = 0
    attempts: int = 0
    refusals: int = 0
    owner: str | None = None
    remote_id: str | None = None
    last_error: str | None = None

    @property
    def waits(self) -> bool:
        return self.state in {DeliveryState.PENDING, DeliveryState.LEASED}

    @property
    def untried(self) -> bool:
        """True when nothing of the subject can have reached the remote."""
        return self.remote_id is None and self.first_sent == 0


class Lookups(Protocol):
    """What readers and changes look up alike."""

    def row(self, memory_id: str) -> Row | None:
        """None for one that is not there, or that is damaged: see `MemoryReader.is_there`."""

    def remains(self, memory_id: str) -> Row | None:
        """What is known of a memory whose record is damaged: it says what it said last, as far as that is kept, or that
        it is damaged. None for one that can be read, or of which nothing is known. A change that asks has to save or
        erase the memory."""

    def id_of_key(self, space: str, key: str) -> MemoryId | None: ...

    def revisions(self, memory_id: str) -> list[Memory]:
        """The earlier revisions of a memory, the latest first."""

    def facet(self, name: str, owner: str) -> JsonObject | None:
        """What lies beside the owner under that name; `owner` is a memory id, or whatever else the facet is about."""

    def facets(self, name: str, owners: Sequence[str]) -> dict[str, JsonObject]:
        """The facets of that name that exist, by owner."""

    def facets_of(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, JsonObject]]:
        """Facets of several names, each with its owners, in one statement: by name, each of which is in the answer, and
        owner."""


class Transaction(Lookups, Protocol):
    """The store as one change sees it: its own writes included, nobody else's. Valid only inside the change."""

    @property
    def documents(self) -> DocumentRows: ...

    def same_as(self, memory: Memory) -> Row | None:
        """The latest live memory without a key that has the same text, title, type, metadata, origin and scope, as far
        as a digest of these can tell."""

    def has_context(self, space: str, context_id: str) -> bool:
        """Whether any live or archived memory of the project belongs to that context."""

    def save(self, memory: Memory, status: MemoryStatus) -> None:
        """Write the memory, its key, its index entries and a line of the change feed. What was there under the same id
        becomes an earlier revision, if its number is lower; a copy of what a remote holds has none."""

    def move(self, memory: Memory, status: MemoryStatus) -> None:
        """Write a memory that is there under another scope or key, its revisions too; the feed says that it moved."""

    def set_status(self, memory_ids: Sequence[str], status: MemoryStatus) -> None:
        """Change the status of memories and nothing else about them; of many at once far quicker than one by one."""

    def erase(self, memory_id: str) -> None:
        """Remove the memory with its revisions, its key, its vectors and its index entries. Nothing brings it back. Its
        facets and deliveries stay."""

    def note_seen(self, memory: Memory) -> None:
        """Write a line of the change feed: the memory was stored again and says what it said."""

    def keep_revision(self, memory: Memory) -> None:
        """Write an earlier revision of a memory, as an import and a recovery do."""

    def drop_revisions(self, memory_id: str, but: int = 0) -> None:
        """Remove all earlier revisions of a memory but that many of the latest."""

    def drop_changes(self, older_than_s: float) -> None:
        """Remove what is older from the change feed. Its last line stays."""

    def unlearn(self, memory: Memory) -> None:
        """Words of a memory that was erased, and that no other memory uses, are offered to nobody any more."""

    def set_facet(self, name: str, owner: str, value: JsonObject | None) -> None:
        """Write a facet; None removes it. The memory ends when its facet `lifetime` says so in `expires_at`."""

    def move_facets(self, owner: str, to: str) -> None:
        """Put the facets of one owner beside another, where it has none of that name; the rest goes."""

    def drop_facets(self, owner: str) -> None:
        """Remove all facets of the owner."""

    def owners(self, facet: str) -> list[str]:
        """Who has a facet of that name, at most 1,000 of them; for the few rows that are not per memory."""

    def current_revisions(self, memory_ids: Sequence[str]) -> dict[str, int]:
        """The revision of each of those memories that is there, in one statement."""

    def set_vector(self, embedder: str, memory: Memory, levels: bytes) -> None:
        """Write the vector that the embedder made of the memory as it is, one signed byte a dimension."""

    def drop_vectors(self, space: str, but: str | None) -> bool:
        """Remove a thousand of the project's vectors at most, but not those of that embedder. False when that was
        all."""

    def delivery(self, remote: str, item: str) -> Delivery | None:
        """Where a memory (`item` is its id) or a link stands with a remote. One that is damaged reads as dead."""

    def set_delivery(self, remote: str, item: str, delivery: Delivery | None) -> None:
        """Write a delivery; None removes it."""

    def send_anew(self, remote: str, outbox_of_links: str, outbox_of_documents: str, now_s: float) -> None:
        """Everything of ours that the remote has, or that it has forgotten for us, is due there once more from the
        first change on, documents that it had with an empty remote id; links are when their ends are there."""

    def delivery_items(self, remote: str) -> list[str]:
        """What has a delivery for that remote, at most 1,000 of them."""

    def due_deliveries(self, remote: str, now_s: float, limit: int, *, early: bool = False) -> list[MemoryId]:
        """Memories whose delivery is pending or holds a lapsed lease, and due: the earliest first.

        `early=True` takes pending ones that are not due yet as well, oldest memory first, but what failed more than
        once after the others, by how often it did. A due time that lies more than 301 s ahead (the clock went back)
        counts as due.
        """

    def undelivered(self, remote: str, space: str, above: float, limit: int, *, after: str = "") -> list[Memory]:
        """Live or archived memories of the project above that significance without a delivery for this remote,
        or with one that is `local_only`, by id, from the first one beyond the id `after`."""


def in_transaction(work: Callable[Concatenate[Transaction, P], T]) -> Callable[P, Callable[[Transaction], T]]:
    """For a function that changes the store: it takes the transaction first, and is called without. What that call
    returns is the change, which `LocalStore.write` runs."""

    @wraps(work)
    def made(*arguments: P.args, **named: P.kwargs) -> Callable[[Transaction], T]:
        return lambda transaction: work(transaction, *arguments, **named)

    return made


class MemoryReader(Lookups, Protocol):
    """Reading by id, key and scope. Safe from any thread; sees every committed change of every process."""

    def rows(self, memory_ids: Sequence[str], deadline_s: float) -> dict[str, Row | None]:
        """The rows of those memories, None for one that is not there, as far as there was time to look (monotonic)."""

    def is_there(self, memory_id: str) -> bool:
        """Whether the store has a row for that id, readable or not."""

    def damaged(self) -> list[str]:
        """The ids of all memories whose rows cannot be read, or not be found by id or key. Reads every row of the
        store."""

    def with_revisions(self, more_than: int) -> dict[MemoryId, int]:
        """Memories of every project that have more earlier revisions than that, and how many they have."""

    def changes(self, after: int, limit: int) -> list[Change]:
        """The change feed of the home, from the first line beyond that sequence."""

    def changed(self, space: str, after: int, limit: int) -> list[tuple[int, Row | None]]:
        """The memories of a space that lines of the feed beyond that sequence are about, as they are now, by line. None
        for one that is damaged."""

    def changed_since(self, space: str, after: int) -> int:
        """How many memories of the space lines of the feed beyond that sequence are about."""

    def size_bytes(self) -> int:
        """Of the file, or as much of it as was written back from the log beside it."""

    def last_change(self, space: str = "") -> int:
        """The sequence of the feed's last line, or of the last one about that space, or one behind it; 0 where there is
        none."""

    def facets_named(self, name: str, limit: int, after: str = "") -> list[tuple[str, JsonObject]]:
        """The facets of that name with their owners, whichever project they belong to, from the first owner beyond
        `after`. Those that cannot be read are left out; none at all says that there are no more."""

    def deliveries(self, remotes: Sequence[str], items: Sequence[str]) -> dict[str, dict[str, Delivery]]:
        """Where each of these memories or links stands with each of these remotes: by remote, each of which is in the
        answer, those that have a delivery."""

    def page(
        self,
        query: Query,
        statuses: Sequence[MemoryStatus],
        limit: int,
        start: int | None,
        *,
        oldest_first: bool = False,
    ) -> list[Row]:
        """Rows that pass the query's filters (its text is not looked at), the most recently stored first or last.

        `start` is the position of the last row of the previous page.
        """

    def in_time(self, query: Query, statuses: Sequence[MemoryStatus], limit: int | None = None) -> list[int]:
        """Positions of the rows that pass the filters which the index knows, `since` and `until`, created last first;
        of one instant, those stored later first. What stands there is not looked at."""

    def expired(self, now_s: float, limit: int, offset: int = 0) -> list[MemoryId]:
        """Memories of every project whose lifetime facet ended, whatever their status, the longest ended first, from
        `offset` on."""

    def counts(self, space: str) -> Mapping[str, int]:
        """Live memories of the project by type name, and all archived ones under `archived`."""

    def spaces(self) -> list[Space]:
        """Every space in which there is something, forgotten memories and tombstones too, which no field counts. Reads
        a row per memory."""

    def counted_spaces(self) -> Mapping[str, int]:
        """Live and archived memories of every space that has any. Quick."""

    def ends(self, space: str, now_s: float) -> Ends:
        """How many live memories of the project have ended and wait for a sweep, and when the next one ends."""


class Vector(NamedTuple):
    """What an embedder made of a revision of a memory: one signed byte a dimension. Places ascend and are never given
    twice; a vector that is made anew gets another one."""

    place: int
    memory_id: MemoryId
    revision: int
    levels: bytes


class VectorRows(Protocol):
    """Reading the vectors of one embedder. What has a deadline (monotonic) gives None when it came first."""

    def made(
        self, embedder: str, space: str, after: int, limit: int, deadline_s: float = math.inf
    ) -> list[Vector] | None:
        """The project's vectors behind that place, in their order."""

    def made_of(self, embedder: str, memory_ids: Sequence[str]) -> dict[str, int]:
        """Of which revision the vector of each of these memories was made, as far as they have one."""

    def lacking(
        self, embedder: str, space: str, after: int, limit: int, deadline_s: float = math.inf
    ) -> list[Row] | None:
        """The project's memories behind that position, forgotten ones aside, whose vector is missing or of another
        revision, in their order."""

    def lacking_count(self, embedder: str, space: str, deadline_s: float = math.inf) -> int | None:
        """How many those are in all."""

    def counts(self, space: str) -> dict[str, int]:
        """How many vectors of the project's memories there are, by embedder."""


class Talk(NamedTuple):
    """A context of a project, as far as its live memories have not ended. `memories` (how many there are) and their
    `mark` change with anything that is stored, revised, forgotten, archived or brought back there, or that ends.
    `first_s` is when the first was made, `last_s` when the last was made or revised (Unix seconds)."""

    context_id: str
    memories: int
    mark: int
    first_s: float
    last_s: float


class Line(NamedTuple):
    """What a memory says, cut to its beginning."""

    context_id: str
    title: str
    text: str
    tags: tuple[str, ...]


class StoreReader(MemoryReader, Protocol):
    """Everything that can be read, from any thread."""

    def in_one_go(self, look: Callable[[], T]) -> T:
        """What a look gives. All that it reads is read from one file, whatever takes that file's place meanwhile."""

    @property
    def vectors(self) -> VectorRows: ...

    @property
    def documents(self) -> DocumentReader: ...

    # By contexts.

    def talks(self, space: str, now_s: float) -> list[Talk]:
        """Every context with live memories that have not ended by `now_s`. About 7 ms for 1,000 memories."""

    def lines(self, space: str, context_ids: Sequence[str], now_s: float, most: int) -> list[Line]:
        """What was said in each of the contexts first, and the last `most` times, in the order in which it was stored;
        of what is live and has not ended by `now_s`. About 0.1 ms for ten memories."""

    # By words. Everything is limited to the query's own project, the vocabulary included.

    @property
    def shortlist(self) -> int:
        """Fewest of the best matches that have to be looked at closely, so that what answers best is among them."""

    def matches(
        self,
        query: Query,
        terms: Sequence[str],
        limit: int,
        offset: int,
        deadline_s: float,
        *,
        rows_with: Mapping[str, int] | None = None,
    ) -> Matches:
        """Rows that pass every filter and hold at least one of the terms, best BM25 first. `deadline_s` is on the
        monotonic clock.

        `rows_with` says in how many rows of the whole store a term stands, where that is known. With it, rows that hold
        one frequent term and no other may be passed over but for the latest, which is much faster: no page goes on from
        there."""

    def passages(self, query: Query, terms: Sequence[str], limit: int, deadline_s: float) -> Passages:
        """The best passages of long memories that hold at least one of the terms, within the filters that the index
        knows. What was found by the deadline."""

    def containing(self, query: Query, pieces: Sequence[str], limit: int, deadline_s: float) -> Matches:
        """Rows that pass every filter and whose content holds pieces literally: of scripts without word breaks one or
        more, most of them first; of anything else, such as emoji, every one, the latest first."""

    def frequencies(
        self, query: Query, terms: Sequence[str], most: int, deadline_s: float = math.inf, *, page: int = 0
    ) -> Counted:
        """The terms counted up to `most`, without those that were not counted by the deadline. `page` is how many
        matches a page has, if one may come along."""

    def holding(self, query: Query, term: str, limit: int, deadline_s: float) -> list[Row]:
        """The latest rows that hold the term and pass the filters the index knows: fewer where they are long, and none
        after the deadline."""

    def vocabulary(self, length: int, limit: int, first: str = "") -> list[str]:
        """Words of that many characters which begin with `first`, at most `limit`. They are every project's: show none
        of them before a row of the own project has been seen to hold it."""

    def longer(self, beginning: str, most: int, limit: int) -> list[str]:
        """Words with that beginning and up to `most` characters more, the shortest first; every project's, as those of
        `vocabulary`."""

    def beside(self, query: Query, contexts: Mapping[int, str], reach: int, deadline_s: float) -> dict[int, Beside]:
        """Episodic memories of the same context, `reach` in each direction, beside each of the positions, which are
        given with their context ids; whatever else the query filters by: look at the rows before showing one. After the
        deadline those that were found by then."""

    def rows_at(self, positions: Sequence[int], deadline_s: float) -> list[Row]:
        """The rows at those positions, in their order, without those that are not there or that there was no time
        for."""

    # What waits for a remote.

    def outbox_counts(self, remote: str) -> Mapping[str, int]:
        """How many deliveries are `pending`, `leased` and `dead`."""

    def outbox_page(
        self, remote: str, states: Sequence[str], limit: int, *, space: str | None = None
    ) -> list[tuple[MemoryId, Delivery]]:
        """Deliveries of memories and documents in those states, oldest memory first; of that space, or of all."""

    def delivered_count(self, remote: str) -> int:
        """How many memories of ours, forgotten ones aside, the remote has."""

    def next_due_s(self, remote: str) -> float | None:
        """When the earliest pending or leased delivery is due, in Unix seconds."""

    def by_remote_id(self, remote: str, remote_ids: Sequence[str]) -> dict[str, MemoryId]:
        """The local memories that the remote knows under those ids."""


class LocalStore(Protocol):
    """The local layer. A change that was acknowledged survives kill -9, and a power cut at durability `power`."""

    @property
    def reader(self) -> StoreReader: ...

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        """Run the change on the writer thread, in a transaction shared with whatever else is waiting.

        The future resolves after the commit. A change that raises is undone alone and the others go on. Fails with
        StoreBusy, StoreUnwritable or StoreTooNew; then nothing of the change was stored. Cancelling the future leaves
        the change to go on. `space`: which one it is about, for a store to which several hubs write. Changes of one
        space follow each other there, whoever makes them. `memories`: what it will save as it is, unless a memory there
        has its key: for a store that asks once for the keys of all that waits, and makes ready here what it will write.
        """

    def commit(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Awaitable[T]:
        """The same for an event loop, whose future this is. Cancelling it leaves the change to go on."""

    def versions(self) -> Mapping[str, str]:
        """Versions of what the store is made of, for `status`."""

    def scrub(self, memory_ids: Collection[str], spaces: Sequence[str] = ()) -> Scrubbed:
        """Leave no byte of what was erased in the store's files: indexes are merged and the log is emptied. Damaged
        stores that were put aside, and what an interrupted restoring or recovery has left, are removed when they hold
        one of those memories. Stores that a backup has replaced stay, and are named when they hold one of them or
        anything of these `spaces`. Blocks; takes about a second per 100,000 memories, while others go on writing.
        Raises StoreError."""

    def read_all(self, now_s: float) -> list[str]:
        """Read and check every byte, while no one else writes. Returns what is damaged by itself, by name; a store
        whose parts do not fit together is replaced by what reads of it."""

    def note_damaged(self, memory_ids: Sequence[str]) -> None:
        """Note there that these were found to be damaged."""

    def read_share(self, now_s: float) -> None:
        """Read a thirtieth of all rows, once a day at most, and note in the facet `home:read` which are `damaged`, and
        since when every row was read (`whole`). Blocks. Raises StoreError."""

    def recovered(self) -> str | None:
        """Where the newest damaged store is kept, if one ever had to be replaced and is still there."""

    def backup(self, file: Path) -> Backup:
        """Write the whole store, as it is at one moment, to a new file."""

    def close(self) -> None:
        """Finish the changes that were accepted, then let go of the files. Safe to call twice."""


class InjectedPrompt(NamedTuple):
    """What was put beside one prompt, or at a session's start, at a time in Unix seconds. `account` is that of the
    `Injection`; it is empty where an earlier version noted it, and its figures are of a file: nothing to rely on."""

    session: str
    at_s: float
    ids: tuple[str, ...]
    account: JsonObject


class InjectionLog(Protocol):
    """Which memories were put into which session's prompts. Kept beside the store, since a hook does not write to it;
    a log that cannot be written to or read is as good as an empty one."""

    def note(self, session: str, memory_ids: Sequence[str], at_s: float, account: JsonObject | None = None) -> None:
        """Those were put in now, in Unix seconds, with why and what it cost: see `Injection.account`. Survives the
        process, not a power cut."""

    def clear(self, session: str, at_s: float) -> None:
        """The session has lost what was put into it by then: its context was compacted."""

    def of(self, session: str) -> Mapping[str, float]:
        """When each memory was last put into a prompt of the session, of those it has not lost since."""

    def ever(self, session: str) -> Mapping[str, float]:
        """The same with those that it has lost."""

    def latest(self, most: int) -> Sequence[InjectedPrompt]:
        """What was put into the last prompts of this space's sessions, the latest first."""

    def purge(self, memory_ids: Collection[str], contexts: Collection[str], *, whole: bool) -> None:
        """Erase those ids from the logs of all spaces, and of this space the sessions of these names, or all of it."""


# --- the remote -----------------------------------------------------------------------------------------------------


class RemoteHit(NamedTuple):
    """What a remote found. `memory_id` is our own id when the remote gave it back; `record` its fields of it.
    `is_fed`: it lists changes, so that the memory comes with those, and no copy of it has to be kept."""

    remote_id: str
    content: str
    relevance: float
    memory_id: str | None = None
    record: Mapping[str, Any] = MappingProxyType({})
    is_fed: bool = False


UNKNOWN = "unknown"
"""What a server is called that does not say its name."""


class RemoteInfo(NamedTuple):
    """What a remote said of itself on connecting. `honours_keys`: a repeated idempotency key has one effect. `dialect`
    and `protocol` say how it is spoken to, where that was found out. `incarnation` is another one after the remote was
    put back to what it held before; empty where it does not say. `takes_at_once`: how many memories
    or documents `store_many` and `put_documents` may be given; 1 where the remote has no such calls."""

    server: str
    honours_keys: bool
    takes_at_once: int = 1
    dialect: str = ""
    protocol: str = ""
    incarnation: str = ""

    def __str__(self) -> str:
        spoken = " ".join(filter(None, (self.dialect, self.protocol)))
        named = "" if self.server == UNKNOWN else self.server
        return " over ".join(filter(None, (named, spoken))) or UNKNOWN


class RemoteLink(NamedTuple):
    """A link between two memories of a project, by their ids on the remote."""

    source_id: str
    target_id: str
    link_type: str
    strength: float
    description: str | None
    space: str


class RemoteMarks(NamedTuple):
    """What lies beside a memory of a project, by its id on the remote: whether it is pinned, `{pinned, weight, at}`,
    and how its thread was rated, `{useful, timestamp, reason}` each. None and empty where nothing was said of that."""

    remote_id: str
    pin: JsonObject | None
    ratings: Sequence[JsonObject]
    space: str


class RemoteDocument(NamedTuple):
    """A document as it stood `at` a moment, on its way to a hub or from one. `document` is None where it was removed,
    or `purged`, or has `ended` by itself: then the hub need not keep it any longer. `content` is what travels: its
    value as JSON, with what it is found by (`text`).

    `based_on` is the state that the sender knew the hub to have: None for none, empty where the hub was put back to
    an earlier one, so that nobody knows.
    """

    name: str
    space: str
    at: datetime
    document: Document | None = None
    content: str = ""
    text: str = ""
    based_on: str | None = None
    purged: bool = False
    ended: bool = False

    @property
    def digest(self) -> str:
        return content_digest(self.content) if self.content else ""

    @property
    def state(self) -> str:
        """What tells one text of a document from another, everywhere alike."""
        return f"{self.digest}@{self.at.isoformat()}"


class DocumentChanges(NamedTuple):
    """A page of a hub's feed of documents, as `Changes`."""

    found: tuple[RemoteDocument, ...]
    until: str
    more: bool = False
    left_out: int = 0


class HubText(NamedTuple):
    """A text of a memory: what a hit has of it, when it was said, and its revision at the hub."""

    hit: RemoteHit
    at: datetime
    revision: int


class Changed(NamedTuple):
    """A memory of a hub as it stands there now. `name` is the id that its first sender gave it, `met` are those of
    others who stored it under the same key while apart. `current` is None for what was forgotten at `at`, or `purged`.
    `pin` and `ratings` are as in `RemoteMarks`, unchecked."""

    remote_id: str
    at: datetime
    name: str | None = None
    current: HubText | None = None
    earlier: tuple[HubText, ...] = ()
    links: tuple[RemoteLink, ...] = ()
    met: tuple[str, ...] = ()
    purged: bool = False
    pin: object = None
    ratings: object = None


class Changes(NamedTuple):
    """A page of a hub's change feed. `until` is what to ask from the next time; `more` says that there is more now,
    `left_out` how many entries cannot be read here."""

    found: tuple[Changed, ...]
    until: str
    more: bool = False
    left_out: int = 0


class Remote(Protocol):
    """A semantic memory server. Every call raises RemoteUnavailable, RemoteRefused or RemoteUnauthorised, nothing else,
    and is one try: the sender tries again.

    Calls end at their deadline whatever the server does.
    """

    async def connect(self) -> RemoteInfo:
        """Say hello and learn what the server can do. One try; also the probe of the link."""

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        """Bring the memory to the remote and return its id there.

        `remote_id` is None for the first delivery and names the remote's copy for a later revision. `repeated` says
        that an earlier try may have had its effect: a server that honours no keys is then searched first.
        """

    async def store_many(self, memories: Sequence[tuple[Memory, str]]) -> Sequence[str | RemoteRefused]:
        """The first delivery of several memories of one space, each with its idempotency key, where the remote has said
        on connecting that it takes several at once. Returns the remote's ids in that order, and a RemoteRefused in the
        place of each that it refused."""

    async def record_thought(
        self, memory: Memory, *, parent_remote_id: str | None, idempotency_key: str, repeated: bool
    ) -> str:
        """The first delivery of a memory that is a thought: `store` for a server that does not know thoughts.

        `parent_remote_id` is None when there is no parent or the remote's id of it is not known.
        """

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        """Link two memories. The same ends and type again are the same link, with its new strength.

        `repeated` as for `store`.
        """

    async def mark(self, marks: RemoteMarks) -> None:
        """Send the pin and the ratings of a memory. The same again changes nothing. A server that keeps no such thing
        gets no call."""

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        """Drop the remote's copy: by its remote id, or by our id when the outcome of storing it was never known. Of a
        memory without content, which was purged here, it should keep nothing.

        Returns the remote's id, if it is known by then: an update under it brings the memory back.
        """

    async def changes(self, since: str | None, *, space: str, limit: int, timeout_s: float) -> Changes | None:
        """What has become of the memories of a space since an earlier answer's `until`, by anybody: `limit` changes at
        most.

        None from a remote that does not tell. One try, ended at `timeout_s`.
        """

    async def put_documents(self, documents: Sequence[RemoteDocument]) -> None:
        """Write or remove a document, or several of one space, which are short or were removed, where the remote takes
        several at once: all of them, or none. The same again changes nothing. A server that keeps none gets no call."""

    async def document_changes(
        self, since: str | None, *, space: str, limit: int, timeout_s: float
    ) -> DocumentChanges | None:
        """The same as `changes` of the documents of a space. A long one is asked for in several calls, each ended at
        `timeout_s`."""

    async def search(
        self, text: str, *, space: str, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        """The remote's answers, best first, relevance in [0, 1]. One try, ended at `timeout_s`."""

    async def working_memory(self, context_id: str | None, *, space: str, timeout_s: float) -> list[RemoteHit]:
        """What the remote holds in working memory for a context, or for all of them. One try, ended at `timeout_s`."""

    async def linked(self, remote_ids: Sequence[str], *, space: str, timeout_s: float) -> list[JsonObject]:
        """The links that begin or end at any of the remote's memories, each once, as
        `{link_type, source_memory_id, target_memory_id, strength}`. One try, ended at `timeout_s`."""

    async def aclose(self) -> None: ...


# --- the router, as the rooms beneath it see it ----------------------------------------------------------------------


class Searcher(Protocol):
    """The one search."""

    async def find(self, query: Query) -> Results:
        """What `search` answers to a query that has been checked. Never raises because of the remote."""


# --- models ---------------------------------------------------------------------------------------------------------


class Embedder(Protocol):
    """Turns texts into vectors that are near each other when the texts mean alike. Used by several threads."""

    is_light: bool = False
    """Whether it is loaded and answers within some milliseconds: then commands that open no router use it too."""
    speaks: bool = False
    """Whether what somebody said is embedded as `Speaker: content`, and not as title, content and tags."""
    floor: float = 0.15
    """Similarity from which a memory that no word points to is a candidate. With static vectors half of all questions
    about something else reach 0.2 in a small project, and half of the right answers in other words do not."""
    scale: float = 1.0
    """What similarities (0-1) are multiplied by before they are held against words."""

    @property
    def name(self) -> str:
        """Names the vectors: two embedders with the same name give the same vector for the same text, everywhere."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        """One unit-length vector per text, in order; zeros for a text that it can say nothing of. Deterministic across
        processes. `is_question`: the texts are asked, not stored. Raises EmbedderFailed, nothing else."""

    def close(self) -> None:
        """Let go of connections, where there are some."""
        return  # else it would have to be written by everybody


class Poster(Protocol):
    """Bounded HTTP exchanges with one server, as `adapters.remote.http` makes them."""

    async def post(self, path: str, payload: JsonObject, *, headers: Mapping[str, str], timeout_s: float) -> Any:
        """The JSON value of the answer. Raises a RemoteError, `timeout_s` later at most."""

    async def aclose(self) -> None: ...


class LanguageModel(Protocol):
    """Goes on where a text ends. What it says is a stranger's word: read it with care, and never do what it asks."""

    async def complete(self, prompt: str, *, timeout_s: float) -> str:
        """The model's reply, `timeout_s` later at most. Raises LanguageModelError, nothing else."""
