"""Going on after damage: what still reads moves into a new store, the damaged one is kept beside it.

The new store is finished before the old one is moved, so an interruption at any point loses nothing: up to then the old
store is still in its place, and afterwards the next opening only has to rename.
"""

from __future__ import annotations

import errno
import logging
import shutil
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from operator import methodcaller
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from kingly_memory.adapters.local import keys, rows, safety, sql, sqlite
from kingly_memory.adapters.local.document_rows import kept_document
from kingly_memory.adapters.local.engine import Engine
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.safety import Malformed
from kingly_memory.adapters.local.trusted import is_listed, is_trusted, take
from kingly_memory.errors import StoreDamaged, StoreUnreadable
from kingly_memory.home.own_files import writing_to
from kingly_memory.models import JsonObject
from kingly_memory.ports import HOME, INCARNATION, Transaction
from kingly_memory.text.writing import counted

log = logging.getLogger("kingly_memory.store")

BATCH = 500
"""Rows per transaction."""

_AT_ONCE_BYTES = 1_048_576
_LAST_POSITION = 2**62
_PAGE_BYTES = 4_096
_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_FRAME_BYTES = _FRAME_HEADER_BYTES + _PAGE_BYTES
_INTERIOR_PAGE = 5
_COUNTS = range(28, 40)
"""Where the header counts pages (sqlite.org/fileformat.html, 1.3)."""
MEMORIES, REVISIONS, FACETS, DELIVERIES = "memory", "earlier revision", "facet", "delivery"
DOCUMENTS = "document or log item"


class Saved(NamedTuple):
    """What was read of a damaged store, of which kind it is, and what writes it again."""

    kind: str
    write: Callable[[Transaction], object]
    named: JsonObject | None = None
    """What the damaged store calls its home. The new one has another name: it is another incarnation."""


def recover(folder: Folder, damage: Malformed) -> None:
    """Put a whole store in the place of the damaged one, unless another process has done so already. The caller holds
    the write lock. Raises StoreUnwritable, StoreUntrusted, StoreLocked, StoreUnreadable where the disk does not give
    what is in it, and StoreDamaged while a process that writes to it has the log that was deleted."""
    if folder.inode() != damage.inode:
        return
    if folder.has_lost_log():
        to_do = "Let that process store something, or end it as usual, and nothing is lost; a kill would lose the log"
        raise StoreDamaged(str(folder.home), "its log was deleted, and a process that still runs has it", to_do)
    _check_disk(folder)
    with writing_to(folder.home):
        if sqlite.key_name_of(folder.store) is None and (named := keys.name_in(folder.database)) is not None:
            keys.find(named, folder.store)  # a name without a key may come of a damaged beginning
            sqlite.mark(folder.store, named)  # the file that says so is gone or damaged, and nothing else
            return
        _replace(folder, damage)


def _check_disk(folder: Folder) -> None:
    """SQLite says of a page that the disk does not give what it says of a damaged one. A new store on that disk would
    lose what may be read there later, or elsewhere."""
    for path in (folder.database, folder.wal):
        try:
            with path.open("rb", buffering=0) as file:
                while file.read(_AT_ONCE_BYTES):
                    pass
        except OSError as error:
            if error.errno in (errno.EIO, errno.ENXIO):
                cause = error.strerror or "error"
                raise StoreUnreadable(str(folder.store), cause, safety.MOVE_TO_ANOTHER_DISK) from None


def _replace(folder: Folder, damage: Malformed) -> None:
    fresh, outcome = folder.salvaged, "what replaces it was finished before"
    fresh.check()
    was_trusted = is_trusted(folder if folder.exists() else fresh)
    if folder.exists():
        folder.check()
        if fresh.store.exists():
            shutil.rmtree(fresh.store)  # of an attempt that was interrupted
        try:
            saved, named = _refill(folder, fresh)
            outcome = _summary(saved)
        except BaseException:
            shutil.rmtree(fresh.store, ignore_errors=True)
            raise
        was_trusted |= saved.keys() <= {"lost"}  # nothing of whoever made it is left
        was_trusted |= is_listed(folder, named)  # its name could only be read among the rows that were saved
    take(folder, fresh, "corrupt", was_trusted=was_trusted)
    kept = folder.quarantined
    log.warning(
        "the memory store in %s was damaged (%s) and has been replaced: %s%s",
        folder.store,
        damage.problem,
        outcome,
        f". The damaged files are kept in {kept}" if kept else "",
    )


def _refill(damaged: Folder, fresh: Folder) -> tuple[Counter[str], JsonObject]:
    """Copy every readable row, in the order in which they were stored, and count them by kind. Returns also what the
    damaged store calls its home."""
    fresh.make()
    sqlite.mark(fresh.store, sqlite.key_name_of(damaged.store))
    engine = Engine(fresh, synchronous=sql.SYNCHRONOUS["power"], lock_wait_s=0)
    saved: Counter[str] = Counter()
    named: JsonObject = {}
    try:
        engine.commit_locked([])  # so that there is a store, even without a row to keep
        found = _found_rows(damaged, fresh)
        while batch := list(islice(found, BATCH)):
            ((_, error),) = engine.commit_locked([partial(_copy, batch)])
            if error is not None:
                raise error
            for row in batch:
                if row is not None and row.named is not None:
                    named = row.named
                else:
                    saved["lost" if row is None else row.kind] += 1
    finally:
        engine.release()
    return saved, named


def _summary(saved: Counter[str]) -> str:
    lost = f"; {counted(saved['lost'], 'row')} could not be read" if saved["lost"] else ""
    kinds = {MEMORIES: None, REVISIONS: None, DELIVERIES: None, DOCUMENTS: "documents and log items"}
    parts = [counted(saved[kind], kind, many) for kind, many in kinds.items() if saved[kind] or kind == MEMORIES]
    return f"saved: {', '.join(parts)}{lost}"


def _copy(found: Sequence[Saved | None], transaction: Transaction) -> None:
    for row in found:
        if row is not None:
            row.write(transaction)


# --- reading around broken pages --------------------------------------------------------------------------------------


def _found_rows(damaged: Folder, fresh: Folder) -> Iterator[Saved | None]:
    """Every memory, facet, delivery, earlier revision and document that still reads, each in the order of
    storing; None for a row that says nothing we understand. Vectors are made anew of the memories.

    When the list of tables does not read, it is borrowed from `fresh`, a new store: ours all begin alike. Raises
    StoreUntrusted when the table is not the one that we would have made.
    """
    with TemporaryDirectory(prefix="salvage-", dir=damaged.home) as scratch:
        copy = _folded_in(damaged, Path(scratch))
        with suppress(*sqlite.DatabaseError), closing(_connect(copy)) as connection:
            with closing(safety.connect_read_only(copy)) as strict:
                strict.execute("SELECT name FROM sqlite_master").fetchall()  # else broken entries count as foreign ones
            if safety.check_table(connection, damaged.store):
                yield from _rows_of(copy)
                return
        if sqlite.key_name_of(fresh.store) is not None:  # its pages cannot be put together of two databases
            to_do = "Put a backup in its place: `kingly-memory backup restore FILE --replace`"
            raise StoreDamaged(str(damaged.store), "the beginning of the encrypted database cannot be read", to_do)
        _give_sound_schema(copy, fresh.database)
        with suppress(*sqlite.DatabaseError), closing(_connect(copy)) as connection:
            safety.check_table(connection, damaged.store)
            yield from _rows_of(copy)


def _connect(database: Path) -> sqlite3.Connection:
    connection = safety.connect_read_only(database, pragmas=sql.SALVAGE_PRAGMAS)
    connection.text_factory = bytes
    return connection


def _folded_in(damaged: Folder, scratch: Path) -> Path:
    """A copy of the damaged database with every page that is committed in its WAL. SQLite reads a WAL up to the first
    frame whose checksum is wrong; what lies behind is whole, and the digests of rows tell what is not.

    Copying drops this process's locks on the damaged database, which nobody writes to any more.
    """
    copy = scratch / damaged.database.name
    shutil.copy(damaged.database, copy)
    sqlite.mark(scratch, sqlite.key_name_of(damaged.store))
    log = damaged.wal.read_bytes() if damaged.wal.exists() else b""
    frames = [
        (*struct.unpack_from(">II8s", log, at), log[at + _FRAME_HEADER_BYTES : at + _FRAME_BYTES])
        for at in range(_WAL_HEADER_BYTES, len(log) - _FRAME_BYTES + 1, _FRAME_BYTES)
    ]
    salts = Counter(salt for _, _, salt, _ in frames[:3]).most_common(1)  # others are left from before
    own = [frame for frame in frames if frame[2] == salts[0][0]]
    while own and not own[-1][1]:  # not committed
        own.pop()
    pages = copy.stat().st_size // _PAGE_BYTES or (own[-1][1] if own else 0)  # the last frame says it of an emptied one
    most = pages + len(own)  # a page beyond has a damaged number
    with copy.open("r+b") as file:
        for page, _, _, content in own:
            if 0 < page <= most:
                file.seek((page - 1) * _PAGE_BYTES)
                file.write(content)
    return copy


def _give_sound_schema(copy: Path, sound: Path) -> None:
    """Put the pages of a sound database there that hold the header and the list of tables.

    The header's counts of all pages and of free ones are left empty: SQLite then goes by the file's size.
    """
    pages = sound.read_bytes()
    with copy.open("r+b") as file:
        file.write(pages[: _COUNTS.start] + bytes(len(_COUNTS)) + pages[_COUNTS.stop : _PAGE_BYTES])
        for number in _children(pages[:_PAGE_BYTES]):
            file.seek((number - 1) * _PAGE_BYTES)
            file.write(pages[(number - 1) * _PAGE_BYTES : number * _PAGE_BYTES])


def _children(first_page: bytes) -> list[int]:
    """The pages of the list of tables beside the first (sqlite.org/fileformat.html, 1.6)."""
    kind, _, cells, _, _, right = struct.unpack_from(">BHHHBI", first_page, 100)
    if kind != _INTERIOR_PAGE:
        return []
    pointers = struct.unpack_from(f">{cells}H", first_page, 112)
    return [*(struct.unpack_from(">I", first_page, at)[0] for at in pointers), right]


def _rows_of(database: Path) -> Iterator[Saved | None]:
    for position, key, value, status, is_ours in _sound_rows(database, sql.SALVAGE):
        yield _memory(position, key, value, status) if is_ours else None
    for _, record in _sound_rows(database, sql.SALVAGE_REVISIONS):
        earlier = rows.read_record(record)
        yield None if earlier is None else Saved(REVISIONS, methodcaller("keep_revision", earlier))
    for _, name, owner, value in _sound_rows(database, sql.SALVAGE_FACETS):
        yield _facet(name, owner, value)
    for _, remote, item, *columns in _sound_rows(database, sql.SALVAGE_DELIVERIES):
        yield _delivery(remote, item, columns)
    for _, *columns in _sound_rows(database, sql.SALVAGE_DOCUMENTS):
        document = kept_document(columns)
        yield None if document is None else Saved(DOCUMENTS, document)


def _sound_rows(database: Path, statement: str) -> Iterator[tuple[Any, ...]]:
    """Rows in ascending order, from one stretch of sound pages to the next. Each has a connection of its own: one of
    SQLCipher reads no page any more after a damaged one."""
    start = 1
    while True:
        with suppress(*sqlite.DatabaseError), closing(_connect(database)) as connection:
            for columns in connection.execute(statement, (start, -1)):
                if columns[0] < start:  # of a torn page: to read on from there would never end
                    break
                start = columns[0] + 1
                yield tuple(map(_decoded, columns))
            else:
                return
        # Python drops the last row before a page that does not read. By itself it can be had.
        found = _past_damage(database, statement, start)
        if not found:
            return
        start = found[0] + 1
        yield tuple(map(_decoded, found))


def _decoded(found: Any) -> Any:
    """None of bytes that are no text."""
    try:
        return found.decode() if isinstance(found, bytes) else found
    except ValueError:
        return None


def _memory(position: int, key: Any, value: Any, status: Any) -> Saved | None:
    row = rows.read_row(position, value, status)
    if row is None or f"m:{row.memory.id}" != key:
        return None
    return Saved(MEMORIES, methodcaller("save", row.memory, row.status))


def _facet(name: Any, owner: Any, value: Any) -> Saved | None:
    facet = rows.read_facet(name, value)
    if facet is None or not isinstance(name, str) or not isinstance(owner, str):
        return None
    if name == HOME:
        return Saved(FACETS, lambda _: None, facet if owner == INCARNATION else {})
    return Saved(FACETS, methodcaller("set_facet", name, owner, facet))


def _delivery(remote: Any, item: Any, columns: Sequence[Any]) -> Saved | None:
    if not isinstance(remote, str) or not isinstance(item, str):
        return None
    return Saved(DELIVERIES, methodcaller("set_delivery", remote, item, rows.read_delivery(remote, item, columns)))


def _past_damage(database: Path, statement: str, start: int) -> tuple[Any, ...]:
    """The row at the nearest position from there on that can be read, found by doubling and halving; empty when there
    is none."""
    bad, step = start - 1, 1
    while (found := _row(database, statement, start)) is None:
        bad, start, step = start, start + step, step * 2
        if start > _LAST_POSITION:
            return ()
    good = start
    while good - bad > 1:
        middle = (bad + good) // 2
        if (nearer := _row(database, statement, middle)) is None:
            bad = middle
        else:
            good, found = middle, nearer
    return found


def _row(database: Path, statement: str, start: int) -> tuple[Any, ...] | None:
    """The first row from a position on, empty where there is none; None where it cannot be read."""
    try:
        with closing(_connect(database)) as connection:
            found = connection.execute(statement, (start, 1)).fetchone() or ()
    except sqlite.DatabaseError:
        return None
    return None if found and found[0] < start else found
