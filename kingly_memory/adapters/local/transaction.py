"""The store as one change sees it."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from kingly_memory.adapters.local import rows, safety, sql, sqlite
from kingly_memory.dataclass import replace
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryStatus
from kingly_memory.ports import Delivery, Row
from kingly_memory.text.passages import LONGEST, searchable_passages

if TYPE_CHECKING:
    from kingly_memory.adapters.local.document_rows import DocumentRows

FARTHEST_DUE_S = 301.0
"""No due time is set further ahead than 300 s; one that is was written before the clock went back."""
_DROPPED_AT_ONCE = 1_000
_CHANGE_TO = {
    MemoryStatus.LIVE: "restored",
    MemoryStatus.ARCHIVED: "archived",
    MemoryStatus.FORGOTTEN: "forgotten",
    MemoryStatus.CACHED: "cached",
}
"""What the feed says of a change of status."""
LIFETIME = "lifetime"
"""The facet that says when a memory ends."""

SHORTEST_WORD, LONGEST_WORD = 4, 40
MOST_KNOWN = 200_000
"""Words remembered as written already, to spare the disk; when there are more, they are asked about again."""
_UNBROKEN = sql.COLUMNS.index("unbroken")
MOST_ASKED = 100
"""Memories that are read to find out whether one has a certain word."""

_WORD = re.compile(r"[^\W_]+")
_APART = bytes(byte if chr(byte).isalnum() else 0x20 for byte in range(256))

T = TypeVar("T")


class Vocabulary:
    """The words that memories use, as they are written: what a mistyped word may be repaired to. Collects those of one
    commit and writes down the new ones.

    The text index knows only stems, and listing them means reading all of it. Words stay when their memory goes: who
    is offered one is asked about in the index first, within the asking project.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._noted: set[str] = set()
        self._doubtful: set[str] = set()

    def note(self, memory: Memory) -> None:
        self._noted.update(_words(memory))

    def unlearn(self, memory: Memory) -> None:
        """It was erased for good: words that no memory has any more go with it."""
        self._doubtful.update(_words(memory))

    def write(self, connection: sqlite3.Connection) -> None:
        """Part of the commit, when the text index is written."""
        if self._doubtful:
            gone = {word for word in self._doubtful if not _is_used(connection, word)}
            connection.executemany(sql.UNLEARN, [(len(word), word) for word in gone])
            self._known -= self._doubtful
            self._noted -= gone  # it was forgotten in the same commit, and its words were noted once more
            self._doubtful = set()
        self._noted = self._noted - self._known  # in place it would go through all that are known
        new = [(len(word), word) for word in self._noted if SHORTEST_WORD <= len(word) <= LONGEST_WORD]
        connection.executemany(sql.LEARN, new)

    def noted(self) -> frozenset[str]:
        """Since the last commit."""
        return frozenset(self._noted)

    def undone(self, before: frozenset[str] = frozenset()) -> None:
        """Changes were taken back; `before` was noted without them. A word that they made doubtful is asked about all
        the same, which does no harm."""
        self._noted = set(before)

    def written(self) -> None:
        """The commit is durable."""
        if len(self._known) > MOST_KNOWN:
            self._known = set()
        self._known |= self._noted
        self._noted = set()


def _listed(positions: Collection[int]) -> str:
    return json.dumps(sorted(positions))


def _words(memory: Memory) -> list[str]:
    """Short ones, too."""
    text = " ".join((memory.title or "", memory.content, *memory.tags)).casefold()
    # The former takes a third of the time.
    return text.encode().translate(_APART).decode().split() if text.isascii() else _WORD.findall(text)


def _is_used(connection: sqlite3.Connection, word: str) -> bool:
    """Whether a memory has that very word; one of whose stem very many memories have words counts as used."""
    if not SHORTEST_WORD <= len(word) <= LONGEST_WORD:
        return True  # it was never written down
    found = connection.execute(sql.SAYING, (f'"{word}"', MOST_ASKED)).fetchall()
    return len(found) == MOST_ASKED or any(word in _WORD.findall(text.casefold()) for (text,) in found)


class DiskTransaction(rows.SqlLookups):
    """Implements ports.Transaction on the writer thread, between BEGIN and COMMIT.

    Index entries and counts are written at its end, for all changes together.
    """

    def __init__(self, connection: sqlite3.Connection, vocabulary: Vocabulary) -> None:
        self._connection = connection
        self._execute = execute = connection.cursor().execute  # a connection would make one for each statement
        self._all = lambda statement, values: execute(statement, values).fetchall()
        self._vocabulary = vocabulary
        self._unindexed: dict[int, rows.Texts | None] = {}
        self._has_stale_words = False
        self._unbroken: set[int] = set()
        self._long: set[int] = set()
        self._counted: Counter[tuple[str, str]] = Counter()
        self._owners: dict[str, list[str]] = {}

    # --- what the engine calls

    def read_all(self) -> list[str]:
        return safety.read_all(self._connection)

    def run(self, change: Callable[[DiskTransaction], T]) -> T:
        """The change's value. If it raises, it is undone alone; an error of the database undoes the whole commit."""
        before, noted = (self._unindexed.copy(), self._counted.copy()), self._vocabulary.noted()
        self._execute("SAVEPOINT change")
        try:
            value = change(self)
        except sqlite.Error:
            raise
        except Exception:
            self._execute("ROLLBACK TO change")
            self._execute("RELEASE change")
            self._unindexed, self._counted = before
            self._vocabulary.undone(noted)
            self._owners = {}
            raise
        self._execute("RELEASE change")
        return value

    def finish(self) -> None:
        """Write what all changes have left to do."""
        is_rebuilt = self._has_stale_words and not self._all(sql.IS_BROKEN, ())  # a broken row is in the way of that
        if is_rebuilt:
            for statement in sql.REBUILD:
                self._execute(statement)
        if not is_rebuilt:
            texts = [(position, *text) for position, text in sorted(self._unindexed.items()) if text is not None]
            self._connection.executemany(sql.INDEX_TEXT, texts)
            if unread := [position for position, text in self._unindexed.items() if text is None]:
                self._execute(sql.INDEX, (_listed(unread),))
        if (unbroken := self._unindexed.keys() & self._unbroken) and not is_rebuilt:
            self._execute(sql.INDEX_PIECES, (_listed(unbroken),))
        if long := self._unindexed.keys() & self._long:
            for position, content, scope in self._all(sql.TEXTS, (_listed(long),)):
                added = [
                    (rows.passage_row(position, number), text, scope, begin)
                    for number, (begin, text) in enumerate(searchable_passages(content))
                ]
                self._connection.executemany(sql.ADD_PASSAGE, added)
        counted = [(*counter, number) for counter, number in self._counted.items() if number]
        self._connection.executemany(sql.COUNT, counted)
        self._vocabulary.write(self._connection)

    @cached_property
    def documents(self) -> DocumentRows:
        from kingly_memory.adapters.local.document_rows import DocumentRows

        return DocumentRows(self._connection)

    # --- memories

    def remains(self, memory_id: str) -> Row | None:
        for columns in [] if self.row(memory_id) else self._all(sql.REMAINS, (memory_id,)):
            found = rows.read_remains(columns, self.revisions(memory_id))
            if found is not None:
                # The text indexes want the very words again that they are to drop, and those are lost.
                self._unindexed[found.position] = None
                self._has_stale_words = True
            return found
        return None

    def same_as(self, memory: Memory) -> Row | None:
        for position, record, status in self._all(sql.SAME_CONTENT, (rows.said(memory),)):
            return rows.read_row(position, record, status)
        return None

    def has_context(self, space: str, context_id: str) -> bool:
        return bool(self._all(sql.HAS_CONTEXT, (space, context_id)))

    def save(self, memory: Memory, status: MemoryStatus) -> None:
        self._vocabulary.note(memory)
        now_s = time.time()
        columns = rows.columns(memory, status, now_s)
        what = "forgotten" if status is MemoryStatus.FORGOTTEN else None if status is MemoryStatus.CACHED else "stored"
        if memory.key is not None:
            self._execute(sql.UNBIND, (memory.scope.space, memory.key, memory.id))
        added = self._execute(sql.ADD_MEMORY, columns)
        if added.rowcount == 1:
            position = int(added.lastrowid or 0)
        else:
            for at, record, was in self._all(sql.GET_MEMORY, (memory.id,)):
                before = rows.read_row(at, record, was)
                if before is not None and before.status is not MemoryStatus.CACHED:
                    is_revised = before.memory.revision < memory.revision
                    if is_revised:
                        self._execute(sql.KEEP, (memory.id, before.memory.revision, record))
                    is_moved = before.status is not status
                    what = _CHANGE_TO[status] if is_moved else "revised" if is_revised else None
            (position,) = self._unindex([memory.id])
            self._execute(sql.CHANGE_MEMORY, (*columns, position))
        self._execute(sql.WRITE_RECORD, (position, memory.id, now_s, str(status), rows.record(memory)))
        self._unindexed[position] = rows.texts(memory, status, columns[-1])
        if columns[_UNBROKEN]:
            self._unbroken.add(position)
        if len(memory.content) > LONGEST:
            self._long.add(position)
        self._count(memory.scope.space, memory.type, status, 1)
        if what is not None:
            self._execute(sql.NOTE, (memory.id, memory.revision, what, now_s))

    def move(self, memory: Memory, status: MemoryStatus) -> None:
        self.save(memory, status)
        self._execute(sql.NOTE, (memory.id, memory.revision, "moved", time.time()))
        self._execute(sql.DROP_VECTORS, (memory.id,))  # they are found by space, and made anew
        whose = memory.scope
        for earlier in self.revisions(memory.id):
            scope = replace(earlier.scope, project=whose.project, user=whose.user)
            self.keep_revision(replace(earlier, scope=scope))

    def set_status(self, memory_ids: Sequence[str], status: MemoryStatus) -> None:
        positions, now_s = self._unindex(memory_ids), time.time()
        listed = _listed(positions)
        self._execute(sql.NOTE_STATUS, (_CHANGE_TO[status], now_s, listed, status))
        for statement in sql.RESTAND:
            self._execute(statement, (status, now_s, listed))
        for _, space, kind, *_ in self._all(sql.PLACES, (json.dumps(list(memory_ids)),)):
            self._count(space, kind, status.value, 1)
        self._unindexed |= dict.fromkeys(positions)

    def erase(self, memory_id: str) -> None:
        before = self.row(memory_id)
        if before is not None and before.status is not MemoryStatus.CACHED:
            self._execute(sql.NOTE, (memory_id, before.memory.revision, "erased", time.time()))
        self._unindex([memory_id])
        for statement in sql.DELETE_MEMORY:
            self._execute(statement, (memory_id,))
        for earlier in self.revisions(memory_id):
            self._vocabulary.unlearn(earlier)
        self.drop_revisions(memory_id)

    # --- revisions and the change feed

    def note_seen(self, memory: Memory) -> None:
        self._execute(sql.NOTE, (memory.id, memory.revision, "seen", time.time()))

    def keep_revision(self, memory: Memory) -> None:
        self._execute(sql.KEEP, (memory.id, memory.revision, rows.record(memory)))

    def drop_revisions(self, memory_id: str, but: int = 0) -> None:
        self._execute(sql.DROP_REVISIONS, (memory_id, but))

    def drop_changes(self, older_than_s: float) -> None:
        self._execute(sql.DROP_CHANGES, (time.time() - older_than_s,))

    def unlearn(self, memory: Memory) -> None:
        self._vocabulary.unlearn(memory)

    def undelivered(self, remote: str, space: str, above: float, limit: int, *, after: str = "") -> list[Memory]:
        found = rows.read_rows(self._all(sql.UNDELIVERED, (after, above, space, remote, limit)))
        return [row.memory for row in found]

    # --- facets

    def set_facet(self, name: str, owner: str, value: JsonObject | None) -> None:
        self._owners.pop(name, None)
        if value is None:
            self._execute(sql.DROP_FACET, (name, owner))
        else:
            self._execute(sql.SET_FACET, (name, owner, rows.facet(value)))
        if name == LIFETIME:
            self._execute(sql.ENDS_AT, ((value or {}).get("expires_at"), owner))

    def move_facets(self, owner: str, to: str) -> None:
        self._execute(sql.MOVE_FACETS, (owner, to))
        self.drop_facets(owner)

    def drop_facets(self, owner: str) -> None:
        self._owners = {}
        self._execute(sql.DROP_FACETS, (owner,))

    def owners(self, facet: str) -> list[str]:
        """Asked once per commit and facet, since every store asks."""
        if facet not in self._owners:
            self._owners[facet] = [owner for (owner,) in self._all(sql.OWNERS, (facet,))]
        return self._owners[facet]

    # --- vectors and deliveries

    def current_revisions(self, memory_ids: Sequence[str]) -> dict[str, int]:
        return dict(self._execute(sql.CURRENT_REVISIONS, (json.dumps(list(memory_ids)),)))

    def set_vector(self, embedder: str, memory: Memory, levels: bytes) -> None:
        self._execute(sql.SET_VECTOR, (embedder, memory.id, memory.scope.space, memory.revision, levels))

    def drop_vectors(self, space: str, but: str | None) -> bool:
        dropped = self._execute(sql.DROP_VECTORS_OF, (space, but, _DROPPED_AT_ONCE)).rowcount
        return dropped == _DROPPED_AT_ONCE

    def delivery(self, remote: str, item: str) -> Delivery | None:
        for columns in self._all(sql.GET_DELIVERY, (remote, item)):
            return rows.read_delivery(remote, item, columns)
        return None

    def set_delivery(self, remote: str, item: str, delivery: Delivery | None) -> None:
        if delivery is None:
            self._execute(sql.DROP_DELIVERY, (remote, item))
        else:
            self._execute(sql.SET_DELIVERY, rows.delivery_columns(remote, item, delivery))

    def send_anew(self, remote: str, outbox_of_links: str, outbox_of_documents: str, now_s: float) -> None:
        self._execute(sql.SEND_ANEW, (now_s, remote))
        self._execute(sql.SEND_LEASED_ANEW, (remote,))
        self._execute(sql.LINK_ANEW, (outbox_of_links,))
        self._execute(sql.DOCUMENTS_ANEW, (now_s, outbox_of_documents))
        rows.teach(self._connection)
        self._connection.executemany(sql.SEAL_ANEW, [(remote,), (outbox_of_links,), (outbox_of_documents,)])

    def delivery_items(self, remote: str) -> list[str]:
        return [item for (item,) in self._all(sql.DELIVERY_ITEMS, (remote,))]

    def due_deliveries(self, remote: str, now_s: float, limit: int, *, early: bool = False) -> list[MemoryId]:
        farthest_s = now_s + FARTHEST_DUE_S
        if early:
            # By age, which is quick to tell, unless some of the oldest have failed more than once.
            found = self._all(sql.EARLY, (remote, now_s, farthest_s, limit))
            if any(attempts not in (0, 1) for _, attempts in found):
                found = self._all(sql.EARLY_IN_TURN, (remote, now_s, farthest_s, limit))
            return [MemoryId(memory_id) for memory_id, _ in found]
        due: list[tuple[str, float]] = []
        for state in ("pending", "leased"):
            due += self._all(sql.DUE, (remote, state, now_s, limit))
            due += self._all(sql.FAR_AHEAD, (remote, state, farthest_s, limit))
        return [MemoryId(memory_id) for memory_id, _ in sorted(due, key=lambda pair: (pair[1], pair[0]))[:limit]]

    # --- steps

    def _unindex(self, memory_ids: Collection[str]) -> set[int]:
        """Take memories out of the indexes and the counts before they change. Returns where they stand."""
        found = self._all(sql.PLACES, (json.dumps(list(memory_ids)),))
        positions = {position for position, *_ in found}
        self._unbroken |= {position for position, *_, is_unbroken in found if is_unbroken}
        indexed = positions - self._unindexed.keys()
        for position in indexed:
            first, last = rows.passage_row(position, 0), rows.passage_row(position + 1, 0) - 1
            if passages_of_it := self._all(sql.PASSAGES_OF, (first, last)):
                self._long.add(position)
                self._connection.executemany(sql.DROP_PASSAGE, passages_of_it)
        self._execute(sql.UNINDEX, (_listed(indexed),))
        if unbroken := indexed & self._unbroken:
            self._execute(sql.UNINDEX_PIECES, (_listed(unbroken),))
        for _, space, kind, status, _ in found:
            self._count(space, kind, status, -1)
        for position in positions:
            self._unindexed.pop(position, None)
        return positions

    def _count(self, space: str, kind: str, status: str, number: int) -> None:
        counter = rows.counted_as(space, kind, status)
        if counter is not None:
            self._counted[counter] += number
