"""Which homes hold this user's own words: those that were made here, and those that were trusted since.

A store that came with a clone or an archive can claim anything of its memories. So hooks put in nothing of a home that
the user's list does not name, by the random name that it got here. The name holds only for the files that got it: a
copy lies in others.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path

from kingly_memory.adapters.local import rows, safety, sql, sqlite
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.errors import InvalidInput, StoreError, StoreLocked, StoreUntrusted
from kingly_memory.home.own_files import CAREFULLY, lock, make_folder, write_json
from kingly_memory.home.place import user_data_folder
from kingly_memory.home.trust import HOME_ENTRY, TrustList, place
from kingly_memory.models import JsonObject
from kingly_memory.ports import HOME, INCARNATION

MOST_GONE = 200
"""Entries from which on those go whose place is empty. One may only have been moved."""
_LOCK_WAIT_S = 2.0


def check_trusted(home: Path) -> None:
    """Raise StoreUntrusted for a store that this user has neither made nor trusted, and StoreLocked for one of which
    that cannot be told without its key."""
    folder = Folder(home)
    found = folder if folder.exists() else folder.salvaged  # which the next reader would put in its place
    if found.exists() and not is_trusted(found) and not _is_made_just_now(found):
        raise StoreUntrusted(
            str(home),
            "it was not made here, so it may hold words that nobody here has said",
            "Look at what `kingly-memory list` shows; if it is yours, run `kingly-memory trust`",
        )


def _is_made_just_now(folder: Folder) -> bool:
    """True when another process made the home and listed it meanwhile: it holds the write lock from before there is a
    store until the list names it. Nothing is made for this in a home that came from elsewhere."""
    with suppress(OSError):
        descriptor = os.open(folder.write_lock, os.O_RDONLY | CAREFULLY)
        try:
            lock(descriptor, _LOCK_WAIT_S)
        finally:
            os.close(descriptor)  # which lets go of the lock
        return is_trusted(folder)
    return False


def take(folder: Folder, fresh: Folder, why: str, *, was_trusted: bool) -> Path | None:
    """`Folder.take`, with the trust that the store had which is put aside."""
    if was_trusted:
        vouch(fresh)  # a store.salvaged that is found later may have come with a clone
    aside = folder.take(fresh, why)
    if was_trusted:
        vouch(folder)
    return aside


def is_trusted(folder: Folder, named_in: Folder | None = None) -> bool:
    """Whether the list names the home as it is just now, and as a copy of its store says that it is named. What lies
    with the user's own data needs no list."""
    if _is_own(folder.home):
        return True
    return is_listed(folder, _named(named_in or folder))


def is_listed(folder: Folder, named: JsonObject) -> bool:
    """Whether the list names the home as its store is `named`, and its files are those that got this name."""
    entries = TrustList.read(user_data_folder()).entries
    return entry(named) in entries.values() and named.get("files") == folder.files()


def entry(named: JsonObject) -> str:
    """How the list names a home."""
    return f"{HOME_ENTRY}{named.get('id')}"


def vouch(folder: Folder) -> None:
    """List the home as it is called just now: this user has made it, or says that it is his. Where the list cannot be
    written hooks put in nothing of it, and `doctor` says so."""
    if not _is_own(folder.home):
        named, salvaged = entry(_named(folder)), place(folder.salvaged.store)
        with suppress(StoreError, InvalidInput, OSError):
            if place(folder.store) == salvaged:
                change_list({salvaged: named})  # beside the one that it replaces, which is still in its place
            else:
                change_list({place(folder.home): named}, removed=[salvaged])


def change_list(added: Mapping[str, str], removed: Collection[str] = ()) -> None:
    """Change the list of what this user trusts. Raises InvalidInput for a list that cannot be used, and what writing it
    may raise."""
    folder = user_data_folder()
    make_folder(folder)
    with locked(folder / "trusted.lock", _LOCK_WAIT_S):
        trusted = TrustList.read(folder)
        if trusted.problem is not None:
            what = f"{trusted.path} cannot be used ({trusted.problem}). Delete it, then trust your files again"
            raise InvalidInput("trust", what)
        entries = {path: held for path, held in {**trusted.entries, **added}.items() if path not in removed}
        if len(entries) > MOST_GONE:
            entries = {path: held for path, held in entries.items() if Path(path).exists()}
        write_json(trusted.path, {"trusted": entries})


def _named(folder: Folder) -> JsonObject:
    """What the store calls its home; nothing where that cannot be read. Raises StoreLocked."""
    if folder.is_empty():
        return {}  # SQLite would delete the log of an emptied database, of which something can be saved
    try:
        with closing(safety.connect_read_only(folder.database)) as connection:
            found = connection.execute(sql.FACET, (HOME, INCARNATION)).fetchone()
            return (found and rows.read_facet(HOME, found[0])) or {}
    except StoreLocked:
        raise
    except (*sqlite.Error, StoreError):
        return {}


def _is_own(home: Path) -> bool:
    return place(home).startswith(f"{place(user_data_folder())}/")
