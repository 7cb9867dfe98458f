"""Changing the record of the remotes that this user has added to homes, which lies in the user's data folder.

`home.remote_names` reads it. It goes by the path of a home, so a home that is made anew has to begin without the
remotes of the one that lay there before (`drop`): who removed that does not expect them to get what this will hold. One
that was moved keeps its own, and is listed where it lies now (`keep_up`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kingly_memory.adapters.local.folder import locked
from kingly_memory.dataclass import replace
from kingly_memory.home.own_files import write_json, writing_to
from kingly_memory.home.place import added_remotes
from kingly_memory.home.remote_names import AddedRemote, homes, mark_of, place_in, recorded

WAIT_S = 5.0
"""How long to wait for another process that is changing the record."""


def tokens() -> Path:
    """The folder with the tokens that were read from standard input."""
    return added_remotes().parent / "tokens"


@contextmanager
def changing(home: Path) -> Iterator[list[AddedRemote]]:
    """What was added to that home, to be changed in place while no other process can change it. It is written down
    unless an error is raised."""
    path = added_remotes()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(path.with_suffix(".lock"), WAIT_S):
        record = homes(path)
        here = record[os.path.realpath(home)] = record.pop(place_in(record, home), [])
        yield here
        here[:] = [replace(remote, mark=mark_of(home)) for remote in here]
        remotes = {folder: [remote.to_json() for remote in kept] for folder, kept in record.items() if kept}
        write_json(path, remotes)


def keep_up(home: Path) -> None:
    """Have the record say where the home lies and which it is, for when it is moved. Raises InvalidSetting, StoreError,
    OSError."""
    record = homes(added_remotes())
    path, mark = place_in(record, home), mark_of(home)
    if path in record and (path != os.path.realpath(home) or any(one.mark != mark for one in record[path])):
        with changing(home):
            pass


def drop(home: Path, gone: Callable[[AddedRemote], bool] = lambda _: True) -> list[AddedRemote]:
    """Take remotes out of the record of a home, all unless told, with the tokens that are kept here. Returns them."""
    if not recorded(added_remotes(), home):
        return []
    with changing(home) as record:
        dropped = list(filter(gone, record))
        for remote in dropped:
            record.remove(remote)
            discard_token(remote)
    return dropped


def discard_token(remote: AddedRemote) -> None:
    """Delete the token of a remote, if it is kept here."""
    if remote.token_file is not None and Path(remote.token_file).parent == tokens():
        Path(remote.token_file).unlink(missing_ok=True)


def follow(home: Path, project: str, into: str) -> None:
    """The project is called `into` now, and so it is for its remotes. Raises InvalidSetting, StoreError."""
    if not any(one.project == project for one in recorded(added_remotes(), home)):
        return
    with writing_to(added_remotes().parent), changing(home) as record:
        there = {said for one in record if one.project == into for said in (one.name, one.address)}
        kept = [one for one in record if one.project != project or there.isdisjoint((one.name, one.address))]
        record[:] = [replace(one, project=into) if one.project == project else one for one in kept]
