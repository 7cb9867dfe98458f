"""The verbs about the remotes that memories go to: add, list, forget."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from kingly_memory import intake
from kingly_memory.cli.output import Output, counted, table
from kingly_memory.cli.place import command, place_of, reading, routing, token_of
from kingly_memory.errors import InvalidInput, RemoteError
from kingly_memory.settings import Place, Settings, added_remotes

if TYPE_CHECKING:
    from kingly_memory.blocking import SyncMemoryRouter
    from kingly_memory.remote_record import AddedRemote


_STANDARD_INPUT = "-"


def remotes_add(options: Namespace, out: Output) -> int:
    """The token comes from --token-file (`-` is standard input) or from the variables, never from the command line."""
    from kingly_memory.app import home_remotes

    place = _told(options)
    [remote] = place.remotes
    settings = Settings.from_environment(home=place.home)
    try:
        added = home_remotes.add(place, settings, remote, with_earlier=options.with_earlier, offline=options.offline)
    except RemoteError as error:
        problem = f"{remote.label} was not added: {error}. Mend the address or the token; --offline adds it unasked"
        raise RemoteError(problem) from None
    told = {
        "name": remote.label,
        "endpoint": str(added.endpoint),
        "server": added.server,
        "project": place.project,
        "home": str(place.home),
        "earlier": added.earlier,
    }
    lines = [f"added {remote.label}, {added.endpoint}" + (f" ({added.server})" if added.server else "")]
    if added.gets_nothing:
        lines.append("  the setting remote_policy names it for no memory, so nothing is sent there; searches ask it")
    else:
        lines.append(f"  what project {place.project} stores from now on above significance 0.3 goes there")
        lines.append(f"  {_earlier(options, added.earlier)}")
        with reading(place, out) as reader:
            due = sum(one.waiting for one in reader.remotes() if one.endpoint == str(added.endpoint))
        if due > added.earlier:
            waits = "waits" if due - added.earlier == 1 else "wait"
            lines.append(
                f"  {counted(due - added.earlier, 'memory')} {waits} for that server already, and will be sent"
            )
    out.show({"added": told}, lines)
    return 0


def _earlier(options: Namespace, count: int) -> str:
    if not options.with_earlier:
        return "what was stored before stays on this machine; the same with --with-earlier sends it too"
    if not count:
        return "nothing was stored before that is to go there"
    goes = "goes" if count == 1 else "go"
    return f"{counted(count, 'earlier memory')} {goes} there too; `{command(options, 'sync')}` sends them now"


def _told(options: Namespace) -> Place:
    """The place with that remote alone, and its token."""
    is_typed = options.token_file == _STANDARD_INPUT
    typed = sys.stdin.readline().strip() if is_typed else ""
    if is_typed and not typed:
        raise InvalidInput("token_file", "standard input holds no token in its first line")
    if not is_typed:
        token_of(options)  # a file that cannot serve is refused before anything is done
    return Place.resolve(
        home=options.home,
        remote={options.name: options.address},
        token={options.name: typed} if typed else None,
        token_file=None if is_typed else options.token_file,
        project=intake.label("project", options.project),
        agent=intake.label("agent", options.agent),
    )


def remotes_list(options: Namespace, out: Output) -> int:
    with reading(place_of(options, out, needs_record=True), out) as reader:
        known = reader.remotes()
    rows = [
        (
            one.label or "-",
            "yes" if one.in_use else "no",
            "-" if one.since is None else one.since.astimezone().date().isoformat(),
            "too" if one.earlier else "-",
            f"{one.delivered:,}",
            f"{one.waiting:,}",
            f"{one.dead:,}",
            one.endpoint,
        )
        for one in known
    ]
    heads = ("NAME", "IN USE", "SINCE", "EARLIER", "DELIVERED", "WAITING", "DEAD", "ADDRESS")
    none = "no remote is known; `kingly-memory remotes add NAME URL` adds one"
    lines = table(rows, heads, is_whole=True) if rows else [none]
    out.show({"remotes": [one.to_json() for one in known]}, lines)
    return 0


def remotes_forget(options: Namespace, out: Output) -> int:
    from kingly_memory import remote_record
    from kingly_memory.app import home_remotes

    place, said = place_of(options, out, needs_record=True), options.address
    recorded = remote_record.added(added_remotes(), place.home)
    named = next((one for one in recorded if _is_meant(one, said)), None)
    if named is not None:
        said = named.address
        if options.remote is None and any((one.label, one.address) == (named.name, said) for one in place.remotes):
            place = place.alone()  # it is in use because it was added
    with routing(place, out) as router:
        gone = router.forget_remote(said) if named is None or _is_known(router, said) else None
    if named is not None:
        home_remotes.drop(place, lambda one: _is_meant(one, said))
    if gone is None:
        out.show({"forgotten": None}, [f"{named.name if named else said} is forgotten; nothing waited for it"])
        return 0
    told = [
        f"{gone.endpoint} is forgotten; {counted(gone.waiting, 'memory')} waited for it; all stay on this machine",
        *([f"  it keeps the {counted(gone.delivered, 'memory')} that it has got"] if gone.delivered else []),
    ]
    out.show({"forgotten": gone.to_json()}, told)
    return 0


def _is_known(router: SyncMemoryRouter, address: str) -> bool:
    """Whether the home knows the remote that was added to it: it may be another one at the same path."""
    from kingly_memory.app.parts import remote_name

    return any(one.name == remote_name(address) for one in router.remotes())


def _is_meant(one: AddedRemote, said: str) -> bool:
    from kingly_memory.app.parts import remote_name

    return said == one.name or remote_name(said) == remote_name(one.address)
