"""Adding a remote to a home: to its store, and to the record in the user's data folder."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.adapters.local import remote_record
from kingly_memory.app import parts
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import Place, added_remotes
from kingly_memory.home.remote_names import AddedRemote, RemotePlace, added, named
from kingly_memory.router.delivery import known_remotes
from kingly_memory.settings import Settings

if TYPE_CHECKING:
    from kingly_memory.adapters.remote.endpoint import Endpoint


class Added(NamedTuple):
    """What adding a remote came to. `earlier` counts the memories stored before that are due there now. `again`: the
    project had it already; `another_token`: and it was shown another token, or none."""

    endpoint: Endpoint
    server: str | None
    earlier: int
    again: bool
    another_token: bool


def add(place: Place, settings: Settings, remote: RemotePlace, *, with_earlier: bool, offline: bool) -> Added:
    """Have the project's new memories go to a remote, which is asked first whether it is a memory server unless
    `offline`. Its token goes into a file of mode 0600. Raises InvalidInput; RemoteError, and then nothing was done;
    StoreError."""
    from kingly_memory.adapters.remote.endpoint import endpoint

    named({remote.label: remote.address or ""}, "")
    address = endpoint(remote.address)
    parts.makeable(parts.secured(place))
    before = added(added_remotes(), place.home)
    _check_free(before, remote)  # before anything is sent there
    same = next((one for one in before if (one.name, one.project) == (remote.label, place.project)), None)
    if remote.token is None and remote.token_file is None and same is not None and same.token_file is not None:
        remote = replace(remote, token_file=Path(same.token_file))
    server = None if offline else asyncio.run(_greeted(replace(place, remotes=(remote,)), settings))
    with closing(parts.open_store(place, settings)) as store:
        store.write(lambda _: None).result()  # a home that is new begins without remotes
    with remote_record.changing(place.home) as record:
        _check_free(record, remote)  # another process may have added one meanwhile
        names = [one.name for one in record if one.project == (place.project or "")]
        earlier_remotes = Place.resolve(place.home, names, project=place.project).remotes if names else ()
        together = {**{one.label: one for one in earlier_remotes}, remote.label: remote}
        everywhere = replace(place, remotes=tuple(together.values()))
        earlier = _backfill(everywhere, settings, remote.label, with_earlier=with_earlier)
        token_file = None if remote.token_file is None else str(remote.token_file)
        if remote.token is not None:
            folder = remote_record.tokens()
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            token_file = str(folder / f"{remote.label}-{os.urandom(8).hex()}")  # no other entry's
            with replacing(Path(token_file)) as file:
                file.write(f"{remote.token}\n")
        new = AddedRemote(remote.label, remote.address or "", place.project or "", token_file)
        old = next((one for one in record if (one.name, one.project) == (new.name, new.project)), None)
        another_token = old is not None and token_file not in (None, old.token_file)
        if old is None:
            record.append(new)
        elif another_token:
            remote_record.discard_token(old)
            record[record.index(old)] = new
    return Added(address, server, earlier, old is not None, another_token)


def _check_free(before: list[AddedRemote], remote: RemotePlace) -> None:
    if any(one.name == remote.label and one.address != remote.address for one in before):
        otherwise = f"choose another name, or take that one out: kingly-memory remotes forget {remote.label}"
        raise InvalidInput("name", f"{remote.label!r} is another address in this home; {otherwise}")


async def _greeted(place: Place, settings: Settings) -> str:
    """What the server calls itself. Raises RemoteError where no memory server answers, or the token is refused."""
    [part] = parts.remote_parts(place, settings, parts.reached(place), SystemClock())
    try:
        return str(await part.remote.connect())
    finally:
        await part.remote.aclose()


def _backfill(place: Place, settings: Settings, label: str, *, with_earlier: bool) -> int:
    """Make the remote known to the store. How many earlier memories are due there now."""
    routes = parts.station(place, settings, parts.reached(place)).routes
    route = next((one for one in (() if routes is None else routes.known) if one.label == label), None)
    if route is None:
        raise InvalidInput("remote", "this home has that server under another name; `kingly-memory remotes` shows it")
    name, now_s = route.name, SystemClock().now().timestamp()
    earlier, after = 0, ""
    with closing(parts.open_store(place, settings)) as store:
        added = known_remotes.add(name, route.endpoint, place.space, now_s, earlier=with_earlier)
        store.write(added).result()
        while with_earlier:
            batch = known_remotes.backfill(name, place.space, now_s, after)
            made_due = store.write(batch).result()
            earlier += made_due.due
            if made_due.last is None:
                break
            after = made_due.last
    return earlier
