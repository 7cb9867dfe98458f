"""What the commands about the store and its remotes print: status, sync, remotes, the outbox."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from kingly_memory import intake
from kingly_memory.api.declare import NothingUnder
from kingly_memory.api.remotes_verbs import STATES
from kingly_memory.cli.output import Output, counted, duration, facts, table
from kingly_memory.cli.place import (
    command,
    forget_remote_command,
    place_of,
    reading,
    remote_place,
    routing,
    sync_command,
    token_of,
    without_address,
)
from kingly_memory.errors import InvalidInput, RemoteError
from kingly_memory.models import JsonObject, RemoteUse
from kingly_memory.settings import Place, Settings, added_remotes

if TYPE_CHECKING:
    from kingly_memory.blocking import SyncMemoryRouter
    from kingly_memory.remote_record import AddedRemote
    from kingly_memory.router.outbox import OutboxEntry


_STANDARD_INPUT = "-"
_DURABILITY = {
    "power": "power (what is stored survives a power cut)",
    "process": "process (what is stored survives kill -9, not a power cut)",
}


def add(options: Namespace, out: Output) -> int:
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


def remotes(options: Namespace, out: Output) -> int:
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


def forget_remote(options: Namespace, out: Output) -> int:
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


def status(options: Namespace, out: Output) -> int:
    with reading(place_of(options, out), out) as reader:
        now = reader.status()
        strange = {one.endpoint for one in reader.remotes() if one.is_strange} if options.remote is not None else set()
    out.show(now, _status_lines(options, now, strange))
    return 0


def sync(options: Namespace, out: Output) -> int:
    """Exit code 1 when something is still waiting."""
    place = remote_place(options, out)
    if not options.timeout >= 0:
        raise InvalidInput("timeout", f"{options.timeout} is not a number of seconds")
    _check_enrolled(place, out)
    with routing(place, out) as router:
        report = router.sync(timeout=options.timeout, remote=options.remote_label)
    told = report.to_json()
    out.show(told, [*_synced(told), *(f"{label}: {line}" for label, line in _each_synced(told))])
    return 1 if report.reason else 0


def _check_enrolled(place: Place, out: Output) -> None:
    """Raise InvalidInput for a remote that --remote names and that this home has never had anything to send to."""
    if place.remote_use is not RemoteUse.ONCE:
        return
    with reading(place, out) as reader:
        known = reader.remotes()
    for one in known:
        if one.in_use and one.is_strange:
            add = f"`kingly-memory remotes add NAME {one.endpoint}`"
            raise InvalidInput(
                "remote", f"{one.endpoint} is not enrolled here. {add} sends new memories there from then on"
            )


def outbox(options: Namespace, out: Output) -> int:
    place = remote_place(options, out)
    with reading(place, out) as reader:
        entries = reader.outbox(_states(options.states), options.remote_label)
    rows = [_outbox_row(entry) for entry in entries]
    heads = (
        "MEMORY",
        "STATE",
        "TRIES",
        "NEXT",
        *(["REMOTE"] if any(one.remote for one in entries) else []),
        "LAST ERROR",
    )
    lines = table(rows, heads) if rows else ["the outbox is empty"]
    out.show({"entries": [entry.to_json() for entry in entries]}, lines)
    return 0


def retry(options: Namespace, out: Output) -> int:
    place = remote_place(options, out)
    ids = _ids(place, options.ids, out) or None
    with routing(place, out) as router:
        count = router.outbox_retry(ids, options.remote_label)
    out.show({"retried": count}, [f"{counted(count, 'memory')} will be sent again"])
    return 0


def drop(options: Namespace, out: Output) -> int:
    place = remote_place(options, out)
    ids = _ids(place, options.ids, out)
    with routing(place, out) as router:
        count = router.outbox_drop(ids, options.remote_label)
    out.show({"dropped": count}, [f"{counted(count, 'memory')} will not be sent; kept on this machine"])
    return 0


def _status_lines(options: Namespace, now: JsonObject, strange: Container[str]) -> Iterator[str]:
    memories, outbox, versions = now["memories"], now["outbox"], now["versions"]
    kinds = " · ".join(f"{count:,} {kind}" for kind, count in memories["by_type"].items() if count)
    total = counted(memories["total"], "memory") + (f": {kinds}" if kinds else "")
    yield from facts(
        [
            ("home", now["home"]),
            ("project", now["project"]),
            ("durability", _DURABILITY[now["durability"]]),
            ("memories", total),
            *_vectors(now),
            *_ends(memories),
            ("archive", counted(memories["archived"], "memory")),
            *_focus(now),
            *_links(options, now, strange),
            ("versions", ", ".join(f"{name} {one}" for name, one in versions.items())),
        ]
    )
    if "damaged" in now:
        yield ""
        yield f"A damaged store was replaced by what could be read of it; it is kept in {now['damaged']}."
    if outbox["dead"]:
        yield ""
        yield f"The remote refused some memories: `{command(options, 'outbox list')}` shows why."


def _ends(memories: JsonObject) -> Iterator[tuple[str, str]]:
    """When the next memory ends, and how many have ended, where any do."""
    if memories["next_end"]:
        yield "next end", f"{memories['next_end'][:19]} UTC"
    if memories["ended"]:
        yield "ended", f"{counted(memories['ended'], 'memory')}; `kingly-memory sweep` archives them"


def _links(options: Namespace, now: JsonObject, strange: Container[str]) -> Iterator[tuple[str, str]]:
    """The link and the outbox, of each remote where they have names. To those that are `strange` nothing is sent."""
    if "remotes" not in now:
        yield "link", _link_line(options, now["link"], strange)
        yield "outbox", _outbox_line(now["outbox"])
    for label, one in now.get("remotes", {}).items():
        yield f"link {label}", _link_line(options, one, strange, label)
        yield f"outbox {label}", _outbox_line(one["outbox"])
    if "links" in now:
        yield "outbox of links", f"{now['links']['pending']:,} waiting; {now['links']['dead']:,} dead"
    for one in now.get("elsewhere", ()):
        give_up = forget_remote_command(options, one["endpoint"])
        told = f"{counted(one['waiting'], 'memory')} for {one['endpoint']}, which is not named here"
        yield "waiting", f"{told}; name it with --remote, or give it up with `{give_up}`"


def _synced(told: JsonObject) -> Iterator[str]:
    yield f"{counted(told['delivered'], 'memory')} delivered, {told['pending']:,} waiting, {told['dead']:,} dead"
    if told["reason"] and "remotes" not in told:
        how = "did not take everything" if told["link"] == "connected" else f"is {told['link']}"
        yield f"the remote {how}: {told['reason']}"
    elif told["dead"] and not told["reason"]:
        yield "what is dead was refused before: `kingly-memory outbox list --remote …` shows why"


def _each_synced(told: JsonObject) -> Iterator[tuple[str, str]]:
    """What became of each remote that has a name."""
    for label, one in told.get("remotes", {}).items():
        done = f"{one['delivered']:,} delivered, {one['pending']:,} waiting, {one['dead']:,} dead"
        yield label, f"{done}; {one['link']}" + (f": {one['reason']}" if one["reason"] else "")


def _focus(now: JsonObject) -> Iterator[tuple[str, str]]:
    """What is in focus, if anything is."""
    if "focus" in now:
        several = [
            f"{one['topic']} ({one['weight']:g}{', for everyone' if one.get('for_everyone') else ''})"
            for one in now["focus"]
        ]
        yield "focus", ", ".join(several)


def _vectors(now: JsonObject) -> Iterator[tuple[str, str]]:
    """How far memories can be found by their meaning, where they can."""
    if "vectors" in now:
        waiting = now["vectors"]["waiting"]
        missing = "some may have" if waiting is None else f"{counted(waiting, 'memory')} with"
        yield "meaning", f"{now['vectors']['embedder']}; {missing} no vector yet"


def _link_line(options: Namespace, link: JsonObject, strange: Container[str], label: str | None = None) -> str:
    if link["state"] == "disabled":
        return "no remote; `kingly-memory remotes add NAME URL` adds one"
    line = f"{link['state']}, {link['endpoint']}"
    if link["server"] is not None:
        line += f" ({link['server']})"
    if link["effects"] == "at_least_once":
        line += "; honours no idempotency keys, so that a lost reply may repeat a delivery"
    if link["last_error"]:
        line += f" ({without_address(link['last_error'])})"
    if link["next_probe_s"] is not None:
        when = f"in {duration(link['next_probe_s'])}" if link["next_probe_s"] else "by the next store or sync"
        line += f"; tried again {when}"
        if link["endpoint"] not in strange:
            line += f", or now with `{sync_command(options, link['endpoint'], label)}`"
    return line


def _outbox_line(outbox: JsonObject) -> str:
    waiting = outbox["pending"] + outbox["leased"]
    if not waiting and not outbox["dead"]:
        return f"empty{_earlier_waiting(outbox)}"
    age = f", the oldest for {duration(outbox['oldest_s'])}" if outbox["oldest_s"] else ""
    return f"{waiting:,} waiting{age}; {outbox['dead']:,} dead{_earlier_waiting(outbox)}"


def _earlier_waiting(outbox: JsonObject) -> str:
    """What was stored before the remote was named."""
    count = outbox.get("earlier", 0)
    if count is None:
        return "; earlier memories above 0.3 are sent by the next `sync`"
    are = "is" if count == 1 else "are"
    return f"; {counted(count, 'earlier memory')} {are} sent by the next `sync`" if count else ""


def _states(given: list[str] | None) -> tuple[str, ...]:
    for state in given or ():
        if state not in STATES:
            raise InvalidInput("state", f"{state[:40]!r} is unknown; choose one of {', '.join(STATES)}")
    return tuple(given or STATES)


def _outbox_row(entry: OutboxEntry) -> tuple[str, ...]:
    where = [] if entry.remote is None else [entry.remote]
    named, state = entry.key or entry.id, entry.state.value
    return (named, state, str(entry.attempts), _next_try(entry), *where, entry.last_error or "")


def _next_try(entry: OutboxEntry) -> str:
    if entry.due_s is None:
        return "-"
    if entry.due_s > 0:
        return f"in {duration(entry.due_s)}"
    return "by the next store or sync" if entry.is_offline else "now"


def _ids(place: Place, names: list[str], out: Output) -> list[str]:
    """The ids of outbox entries named by key or id. Raises NothingUnder for the first that is not there."""
    with reading(place, out) as reader:
        entries = reader.outbox(STATES)
    by_name = {name: one.id for one in entries for name in (one.key, one.id) if name is not None}
    for name in names:
        if name not in by_name:
            raise NothingUnder(name, "in the outbox")
    return [by_name[name] for name in names]
