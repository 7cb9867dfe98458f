"""The verbs about the store itself: status, sync, outbox, config, version."""

from __future__ import annotations

import platform
import re
import sqlite3
from argparse import Namespace
from collections.abc import Container, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kingly_memory.cli.failures import FAILED, NothingUnder
from kingly_memory.cli.output import Output, counted, duration, facts, table
from kingly_memory.cli.place import (
    command,
    forget_remote_command,
    place_of,
    reading,
    remote_place,
    routing,
    sync_command,
    without_address,
)
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, RemoteUse
from kingly_memory.remote_names import UNNAMED, RemotePlace
from kingly_memory.settings import (
    HOME_FOLDER,
    Place,
    Settings,
    nearest_project,
    said,
    token_variable,
    user_data_folder,
    written,
)
from kingly_memory.version import __version__

if TYPE_CHECKING:
    from kingly_memory.router.outbox import OutboxEntry

OUTBOX_STATES = ("pending", "leased", "dead")

_DURABILITY = {
    "power": "power (what is stored survives a power cut)",
    "process": "process (what is stored survives kill -9, not a power cut)",
}


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
        report = router.sync(timeout=options.timeout, remote=options.remote_name)
    told = report.to_json()
    out.show(told, [*_synced(told), *(f"{label}: {line}" for label, line in _each_synced(told))])
    return FAILED if report.reason else 0


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


def outbox_list(options: Namespace, out: Output) -> int:
    place = remote_place(options, out)
    with reading(place, out) as reader:
        entries = reader.outbox(_states(options.state), options.remote_name)
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


def outbox_retry(options: Namespace, out: Output) -> int:
    place = remote_place(options, out)
    ids = _ids(place, options.memory, out) or None
    with routing(place, out) as router:
        count = router.outbox_retry(ids, options.remote_name)
    out.show({"retried": count}, [f"{counted(count, 'memory')} will be sent again"])
    return 0


def outbox_drop(options: Namespace, out: Output) -> int:
    place = remote_place(options, out)
    ids = _ids(place, options.memory, out)
    with routing(place, out) as router:
        count = router.outbox_drop(ids, options.remote_name)
    out.show({"dropped": count}, [f"{counted(count, 'memory')} will not be sent; kept on this machine"])
    return 0


def config(options: Namespace, out: Output) -> int:
    place = place_of(options, out)
    rows = [*_place_rows(options, place), *_setting_rows(place.home)]
    settings = [{"name": name, "value": value, "from": source} for name, value, source in rows]
    shown = [(name, "-" if value is None else str(value), source) for name, value, source in rows]
    out.show({"settings": settings}, table(shown, ("SETTING", "VALUE", "FROM")))
    return 0


def version(options: Namespace, out: Output) -> int:
    versions = {"version": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    out.show(versions, [f"kingly-memory {__version__}"])
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
        yield "focus", ", ".join(_in_focus(one) for one in now["focus"])


def _in_focus(one: JsonObject) -> str:
    return f"{one['topic']} ({one['weight']:g}{', for everyone' if one.get('for_everyone') else ''})"


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
        return f"empty{_earlier(outbox)}"
    age = f", the oldest for {duration(outbox['oldest_s'])}" if outbox["oldest_s"] else ""
    return f"{waiting:,} waiting{age}; {outbox['dead']:,} dead{_earlier(outbox)}"


def _earlier(outbox: JsonObject) -> str:
    """What was stored before the remote was named."""
    count = outbox.get("earlier", 0)
    if count is None:
        return "; earlier memories above 0.3 are sent by the next `sync`"
    are = "is" if count == 1 else "are"
    return f"; {counted(count, 'earlier memory')} {are} sent by the next `sync`" if count else ""


def _states(given: list[str] | None) -> tuple[str, ...]:
    for state in given or ():
        if state not in OUTBOX_STATES:
            raise InvalidInput("state", f"{state[:40]!r} is unknown; choose one of {', '.join(OUTBOX_STATES)}")
    return tuple(given or OUTBOX_STATES)


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
        entries = reader.outbox(OUTBOX_STATES)
    by_name = {name: one.id for one in entries for name in (one.key, one.id) if name is not None}
    for name in names:
        if name not in by_name:
            raise NothingUnder(name, "in the outbox")
    return [by_name[name] for name in names]


Setting = tuple[str, Any, str]


def _place_rows(options: Namespace, place: Place) -> Iterator[Setting]:
    """Each part of the place with its source: what an empty environment would not give comes from the environment."""
    bare = Place.resolve(environment={})
    yield "home", str(place.home), _home_source(options, place)
    yield "project", place.project, _source(options.project, "--project", place.project == bare.project, "folder name")
    yield "agent", place.agent, _source(options.agent, "--agent", place.agent is None, "default", "KINGLY_AGENT")
    remotes = ", ".join(_shown_remote(place, one) for one in place.remotes if one.address is not None) or None
    yield "remote", remotes, _source(options.remote, "--remote", remotes is None, "default", "KINGLY_REMOTE")
    tokens = [(one.label, source) for one in _shown(place) if (source := _token_source(options, one)) is not None]
    who = ", ".join(label for label, _ in tokens) if place.others else "set"
    yield "token", who if tokens else None, ", ".join(source for _, source in tokens) or "default"


def _shown(place: Place) -> tuple[RemotePlace, ...]:
    """Every remote with the token that it is shown; the token of none, too."""
    return place.remotes or (RemotePlace(place.label, None, place.token, place.token_file),)


def _token_source(options: Namespace, one: RemotePlace) -> str | None:
    """The option or variable that a remote's token comes from; None when it has none."""
    if one.token is None and one.token_file is None:
        return None
    return token_variable(one) or "--token-file"


def _shown_remote(place: Place, one: RemotePlace) -> str:
    """Without its secrets, and with its name where it has one."""
    address = _without_secrets(one.address or "")
    return address if one.label == UNNAMED and not place.others else f"{one.label}={address}"


def _without_secrets(remote: str) -> str:
    """The address without its password and its query, which may hold a key."""
    return re.sub(r"\?.*", "?***", re.sub(r"//[^/@]*@", "//***@", remote))


def _home_source(options: Namespace, place: Place) -> str:
    folder = nearest_project(Path.cwd())
    if options.home:
        return "--home"
    if folder is not None and place.home == folder / HOME_FOLDER:
        return "nearest project folder"
    return "user data folder" if place.home == user_data_folder() / "memory" else "KINGLY_HOME"


def _source(given: object, option: str, is_default: bool, default: str, variable: str = "KINGLY_PROJECT") -> str:
    if given:
        return option
    return default if is_default else variable


def _setting_rows(home: Path) -> Iterator[Setting]:
    settings, told = Settings.from_environment(home=home), said(home=home)
    for one in fields(Settings):
        yield one.name, written(getattr(settings, one.name)), told[one.name].by if one.name in told else "default"
