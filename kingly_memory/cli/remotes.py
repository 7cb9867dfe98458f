"""What the commands about the store and its remotes print: status, sync, remotes, the outbox."""

from __future__ import annotations

import sys
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from kingly_memory import validation
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, Table, documents, facts
from kingly_memory.cli.place import (
    adding,
    answered,
    command,
    is_about_a_token,
    links_of,
    named_place,
    place_of,
    reading,
    routing,
    token_of,
    without_address,
)
from kingly_memory.dataclass import NamedTuple, replace
from kingly_memory.errors import InvalidInput, RemoteError, RemoteUnauthorised
from kingly_memory.home.place import Place, added_remotes
from kingly_memory.models import OUTBOX_STATES, JsonObject, LinkState, RemoteUse, project_and_user, whose
from kingly_memory.plain import plain
from kingly_memory.settings import Settings
from kingly_memory.text.writing import counted, duration, when

if TYPE_CHECKING:
    from kingly_memory.home.remote_names import AddedRemote
    from kingly_memory.router.delivery.outbox import OutboxEntry


_DURABILITY = {
    "power": "power (what is stored survives a power cut)",
    "process": "process (what is stored survives kill -9, not a power cut)",
}


def remotes_add(options: Options, out: Output) -> Answer:
    """The token comes from --token-file (`-` is standard input) or from the variables, never from the command line."""
    from kingly_memory.app import home_remotes

    if options.everywhere:
        kept = "it is added for one project, and gets what that keeps for every project too"
        raise InvalidInput("everywhere", f"is no place for a remote: {kept}; leave it out")
    is_typed = out.is_idle = options.token_file == "-"  # noqa: S105  # a place
    typed = _typed_token() if is_typed else ""
    out.is_idle = False
    if is_typed and not typed:
        raise InvalidInput("token_file", "standard input holds no token in its first line")
    if not is_typed:
        token_of(options)  # a file that cannot serve is refused before anything is done
    place = named_place(
        options,
        remote={options.name: options.address},
        token={options.name: typed} if typed else None,
        token_file=None if is_typed else options.token_file,
    )
    [remote] = place.remotes
    settings = Settings.from_environment(home=place.home)
    try:
        added = home_remotes.add(place, settings, remote, with_earlier=options.with_earlier, offline=options.offline)
    except RemoteError as error:
        why = error.reason if isinstance(error, RemoteUnauthorised) else error
        to_do = "Mend the address or the token (--token-file FILE); --offline adds it unasked"
        problem = f"{remote.label} was not added: {why}. {to_do}"
        raise RemoteError(problem) from None
    with reading(place, out) as reader:
        known = next(one for one in reader.remotes() if one.endpoint == str(added.endpoint))
    if added.earlier:
        counted_earlier = counted(added.earlier, "earlier memory goes", "earlier memories go")
        earlier = f"{counted_earlier} there too; `{command(options, 'sync')}` sends them now"
    elif options.with_earlier:
        earlier = "nothing was stored before that is to go there"
    elif known.earlier:
        earlier = "what was stored before goes there too"
    else:
        earlier = "what was stored before stays on this machine; the same with --with-earlier sends it too"
    server = f"{added.endpoint} ({added.server})" if added.server else str(added.endpoint)
    token = "it is shown another token from now on" if added.another_token else "its token is as it was"
    lines = [
        f"{remote.label} was added before, {server}; {token}" if added.again else f"added {remote.label}, {server}",
        f"  what {whose(place.space)} stores from now on above significance 0.3 goes there",
        f"  {earlier}",
    ]
    if (due := known.waiting - added.earlier) > 0:
        waiting = counted(due, "memory waits", "memories wait")
        lines.append(f"  {waiting} for that server already, and will be sent")
    described = {"name": remote.label, **added._asdict(), "endpoint": str(added.endpoint)}
    return Answer({"added": {**described, "project": place.project, "home": str(place.home)}}, lines)


def _typed_token() -> str:
    """The first line of standard input; a terminal asks for it and does not show it."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    from getpass import getpass  # few commands need it

    with suppress(EOFError):  # Ctrl-D
        return getpass("token: ").strip()
    return ""


remotes_list_lines = Table(
    ("NAME", "IN USE", "SINCE", "EARLIER", "SHARED", "DELIVERED", "WAITING", "DEAD", "ADDRESS"),
    lambda remote: (
        remote.label,
        "yes" if remote.in_use else "no",
        remote.since,
        "too" if remote.earlier else None,
        ", ".join(name or "all documents and logs" for name in remote.shared) or None,
        remote.delivered,
        remote.waiting,
        remote.dead,
        remote.endpoint,
    ),
    "no remote is known; `kingly-memory remotes add NAME URL` adds one",
    is_whole=True,
)


def remotes_forget(options: Options, out: Output) -> Answer:
    from kingly_memory.adapters.local import remote_record
    from kingly_memory.app.parts import remote_name
    from kingly_memory.home.remote_names import recorded

    def is_meant(remote: AddedRemote) -> bool:
        return options.address == remote.name or remote_name(options.address) == remote_name(remote.address)

    place, address = place_of(options, out), options.address
    named = next(filter(is_meant, recorded(added_remotes(), place.home)), None)
    if named is not None:
        address = named.address
        if options.remote is None and any((one.label, one.address) == (named.name, address) for one in place.remotes):
            place = replace(place, remotes=())  # it is in use because it was added
    with routing(place, out) as router:
        # The home need not know the remote that was added to it: it may be another one at the same path.
        is_known = named is None or any(one.name == remote_name(address) for one in router.remotes())
        gone = router.forget_remote(address) if is_known else None
    if named is not None:
        remote_record.drop(place.home, is_meant)
    if gone is None:
        return Answer({"forgotten": None}, [f"{named.name if named else address} is forgotten; nothing waited for it"])
    waited = f"{counted(gone.waiting, 'memory')} waited for it; all stay on this machine"
    lines = [f"{gone.endpoint} is forgotten; {waited if gone.waiting else 'nothing waited for it'}"]
    if gone.delivered:
        lines.append(f"  it keeps the {counted(gone.delivered, 'memory')} that it has got")
    return Answer({"forgotten": gone.to_json()}, lines)


# --- the embedder -----------------------------------------------------------------------------------------------------


def embedder_status(options: Options, out: Output) -> Answer:
    data = answered(options, out, of_embedder=True)
    return Answer(data, _embedder_lines(data, options), code=1 if "problem" in data else 0)


def embedder_rebuild(options: Options, out: Output) -> Answer:
    from kingly_memory.app.parts import makeable

    def progress(waiting: int) -> None:
        out.progress(f"{counted(waiting, 'memory')} to go")

    makeable(place_of(options, out))
    data = answered(options, out, of_embedder=True, reads=True, progress=progress)
    return Answer(data, _embedder_lines(data, options))


def _embedder_lines(data: JsonObject, options: Options) -> list[str]:
    if "problem" in data:
        return [data["problem"]]
    if data["embedder"] is None:
        return ["memories are found by their words alone, as the setting embedder says"]
    lines = [f"{data['embedder']}, {data['dimensions']} dimensions: {counted(data['made'], 'vector')}"]
    if data["waiting"]:
        lines.append(
            f"{counted(data['waiting'], 'memory')} wait; `{command(options, 'embedder rebuild')}` makes theirs"
        )
    if data["others"]:
        lines.append(f"{counted(data['others'], 'vector')} of another embedder; they go when all are made")
    return lines


# --- the outbox -------------------------------------------------------------------------------------------------------


def sync(options: Options, out: Output) -> Answer:
    """Exit code 1 when something is still waiting."""
    place = place_of(options, out)
    validation.seconds("timeout", options.timeout)
    with reading(place, out) as reader:
        reader.routes(options.remote_label)  # raises where there is none
        strange = next((remote.endpoint for remote in reader.remotes() if remote.in_use and remote.is_strange), None)
    if place.remote_use is RemoteUse.ONCE and strange is not None:
        raise InvalidInput("remote", f"{strange} is no remote of this project; `{adding(strange)}` makes it one")
    report = answered(options, out)
    data = report.to_json()
    lines = [f"{counted(data['delivered'], 'memory')} delivered, {data['pending']:,} waiting, {data['dead']:,} dead"]
    if report.documents:
        lines.append(f"{counted(report.documents, *_BESIDE['documents'][1:])} delivered")
    if report.received:
        lines.append(f"{counted(report.received, 'change')} received from other machines")
    with reading(place, out) as reader:
        refused = reader.status().get("documents", {}).get("dead", 0)
    if refused:
        lines[0] += f"; {counted(refused, *_BESIDE['documents'][1:])} dead"
    remotes = data.get("remotes", {})
    [(who, only), *more] = remotes.items() or [("the remote", data)]
    if data["reason"] and not more:
        how = "did not take everything" if only["link"] == "connected" and data["pending"] else f"is {only['link']}"
        lines.append(f"{who} {how}: {only['reason']}")
    elif (data["dead"] or refused) and not data["reason"]:
        lines.append(f"what is dead was refused before: `{command(options, 'outbox list')}` shows why")
    for label, counts in remotes.items() if more else ():
        done = f"{counts['delivered']:,} delivered, {counts['pending']:,} waiting, {counts['dead']:,} dead"
        lines.append(f"{label}: {done}; {counts['link']}" + (f": {counts['reason']}" if counts["reason"] else ""))
    return Answer(data, lines, 1 if report.reason else 0)


def outbox_list(options: Options, out: Output) -> Answer:
    """With the commands that list what `status` and `sync` count beside it: what is of other projects of the home."""
    entries = answered(options, out)
    is_named = any(entry.remote for entry in entries)
    heads = ("MEMORY", "STATE", "TRIES", "NEXT", *(["REMOTE"] if is_named else []), "LAST ERROR")

    def row(entry: OutboxEntry) -> list[object]:
        due = "by the next store or sync" if entry.is_offline else "now"
        due = "-" if entry.due_s is None else f"in {duration(entry.due_s)}" if entry.due_s > 0 else due
        where = [entry.remote or ""] if is_named else []
        return [entry.key or entry.id, entry.state.value, entry.attempts, due, *where, entry.last_error or ""]

    what = "no such entry" if options.states or options.remote_label else "nothing waits and nothing was refused"
    lines = Table(heads, row, f"{what} of this project", is_whole=True)(entries, options)
    with reading(place_of(options, out), out) as reader:
        others = reader.outbox_elsewhere(options.states or OUTBOX_STATES, options.remote_label)
    for (space, label), count in sorted(others.items()):
        project, user = project_and_user(space)
        there = options.but(project=project, everywhere=project is None, user=user)
        if not place_of(there, out).has_remote:  # as in a project that was renamed
            there.remote = [label]
        lines.append(f"{counted(count, 'entry')} of {whose(space)}: `{command(there, 'outbox list')}`")
    return Answer({"entries": plain(entries)}, lines)


# --- status -----------------------------------------------------------------------------------------------------------


def status(options: Options, out: Output) -> Answer | int:
    """With --watch for as long as nobody interrupts it."""
    answer = _status(options, out)
    if not options.watch:
        return answer
    out.is_idle, shown = True, None
    with suppress(KeyboardInterrupt):
        while True:
            if answer.data != shown:
                out.show(answer.data, answer.lines, again=True)
                out.flush()
            shown = answer.data
            time.sleep(WATCH_S)
            answer = _status(options, out)
    return 0


def _status(options: Options, out: Output) -> Answer:
    place = place_of(options, out)
    with reading(place, out) as reader:
        now, spaces = reader.status(), reader.rows.counted_spaces()
        strange = {one.endpoint for one in reader.remotes() if one.is_strange} if options.remote is not None else set()
    memories = now["memories"]
    kinds = " · ".join(f"{count:,} {kind}" for kind, count in memories["by_type"].items() if count)
    unread, next_end, ended = memories.get("damaged"), memories["next_end"], memories["ended"] or None
    vectors = now.get("vectors")
    waiting = vectors and vectors["waiting"]
    missing = f"; {counted(waiting, 'memory')} without one" if waiting else ""
    rows = {
        "home": now["home"],
        "project": now["project"] or "(every project)",
        "user": now.get("user"),
        "durability": _DURABILITY[now["durability"]],
        "memories": counted(memories["total"], "memory") + (f": {kinds}" if kinds else ""),
        "of users": _of_other_users(spaces, place),
        "damaged": unread and f"{counted(unread, 'memory')}; `{command(options, 'doctor')}` names them",
        "meaning": vectors and f"{vectors['embedder']}; Python programs and `mcp` make vectors{missing}",
        "next end": next_end and when(datetime.fromisoformat(next_end)),
        "ended": ended and f"{counted(ended, 'memory')}; `kingly-memory sweep` archives them",
        "archive": counted(memories["archived"], "memory"),
        "documents": documents(now["documents_held"]) if "documents_held" in now else None,
        "focus": ", ".join(f"{one['topic']} ({one['weight']:g})" for one in now.get("focus", ())),
    }
    findings = of_remotes(options, place, now, strange)
    found = ((finding.about, finding.what + (f"; {finding.to_do}" if finding.to_do else "")) for finding in findings)
    versions = ", ".join(f"{name} {one}" for name, one in now["versions"].items())
    lines = facts([*rows.items(), *found, ("versions", versions)])
    if "damaged" in now:
        lines += ["", f"A damaged store was replaced by what could be read of it; it is kept in {now['damaged']}."]
    return Answer(now, lines)


def _of_other_users(spaces: Mapping[str, int], place: Place) -> str:
    """What users of the project keep for themselves, whom this command does not name."""
    own = [(*project_and_user(space), count) for space, count in spaces.items()]
    held = {user: count for project, user, count in own if project == place.project and user not in (None, place.user)}
    names = ", ".join(sorted(held)) if len(held) <= MOST_USERS_NAMED else counted(len(held), "user")
    return f"{counted(sum(held.values()), 'memory')} of {names}; `--user NAME` reads them" if held else ""


# --- how things stand with each remote: what `status` says and `doctor` judges --------------------------------------

MOST_USERS_NAMED = 5
WATCH_S = 2.0
"""Seconds between two looks of `status --watch`."""
OLD_DELIVERY_S = 86_400.0
"""A delivery that waits longer is worth a look."""
_BESIDE = {
    "links": ("links", "link between memories", "links between memories"),
    "documents": ("shared", "change of a shared document or log", "changes of shared documents and logs"),
}
"""What waits for a remote beside memories: what a line about it begins with, one of it, and several."""


class Level(StrEnum):
    """How much a finding matters: `problem` needs the user."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """What was seen, in a sentence, and what to do about it if there is anything."""

    level: Level
    about: str
    what: str
    to_do: str | None = None


Findings = Iterator[Finding]
OK, NOTE, PROBLEM = (partial(Finding, level) for level in Level)


def of_remotes(options: Options, place: Place, status: JsonObject, strange: Container[str] = ()) -> Findings:
    """Report the link and the outbox of each remote. Nothing is sent to remotes that are `strange`."""
    for label, link in links_of(status).items():
        sync = None if link["endpoint"] in strange else command(options, "sync")
        if sync is not None and label is not None:  # alone it would be the first, which may be sent what is not for it
            sync = command(options, f"sync --remote-name {label}")
        listing = command(options, "outbox list")
        is_all_elsewhere = link["state"] == LinkState.DISABLED and "elsewhere" in status
        outbox = () if is_all_elsewhere else _outbox(link["outbox"], sync, listing)  # which is not empty then
        for finding in (_link(place, link, sync, label), *outbox):
            yield finding if label is None else finding._replace(about=f"{finding.about} {label}")
    if "not_taken_in" in status:
        yield NOTE("not taken in", without_address(status["not_taken_in"]))
    if "unread" in status:
        what = (
            f"{counted(status['unread'], 'change')} of other machines cannot be read here, or no reply has room for it"
        )
        again = "with a newer version here `remotes forget` and `remotes add … --with-earlier` have all read again"
        yield NOTE("left out", what, again)
    for name, (about, thing, things) in _BESIDE.items():
        counts = status.get(name, {})
        if counts.get("pending"):
            yield OK(about, f"{counted(counts['pending'], thing, things)} waiting")
        if counts.get("dead"):
            what = f"the remote refused {counted(counts['dead'], thing, things)}, and this machine keeps what it has"
            listed = f"`{command(options, 'outbox list')}` shows why; then outbox retry or outbox drop"
            yield NOTE(about, what, listed if name == "documents" else "make it again to have it tried anew")
    for remote in status.get("elsewhere", ()):
        what = f"{counted(remote['waiting'], 'memory')} for {remote['endpoint']}, which is not named here"
        give_up = command(options.but(remote=None), "remotes forget", remote["endpoint"])
        yield NOTE("waiting", what, f"`{adding(remote['endpoint'])}` has it sent, `{give_up}` gives it up")


def _link(place: Place, link: JsonObject, sync: str | None, label: str | None) -> Finding:
    """`sync` is the command that tries that remote."""
    if link["state"] == LinkState.DISABLED:
        return OK("link", "no remote; `kingly-memory remotes add NAME URL` adds one")
    what = f"{link['state']}, {link['endpoint']}" + (f" ({link['server']})" if link["server"] else "")
    if link["effects"] == "at_least_once":
        what += "; honours no idempotency keys, so that a lost reply may repeat a delivery"
    if link["last_error"]:
        what += f" ({without_address(link['last_error'])})"
    if link["state"] == LinkState.CONNECTED:
        return OK("link", what)
    if is_about_a_token(link):
        then = f", then run `{sync}`" if sync else ""
        return PROBLEM(
            "link", f"{what}; what is for it waits, and nothing is lost", mending_the_token(place, label) + then
        )
    next_s = link["next_probe_s"]
    next_try = (
        f"a running program tries it again in {duration(next_s)}" if next_s else "the next store or sync tries it"
    )
    now = f", or now with `{sync}`" if sync else ""
    return NOTE("link", f"{what}; what is for it waits", "it is tried again" if next_s is None else f"{next_try}{now}")


def mending_the_token(place: Place, label: str | None) -> str:
    """What to do about a token, by where it comes from."""
    from kingly_memory.home.remote_names import UNNAMED, variable

    remote = next((one for one in place.remotes if one.label == (label or UNNAMED)), None)
    if remote is not None and remote.token is None and remote.token_file is not None:
        return f"put the right token into {remote.token_file}"
    name = "KINGLY_TOKEN"
    if remote is not None and remote.label != UNNAMED:
        name = f"{name}_{variable(remote.label)}"
    return f"check {name}" if remote is None or remote.token is not None else f"set {name} to a token that it takes"


def _outbox(outbox: JsonObject, sync: str | None, listing: str) -> Findings:
    """`sync` and `listing` are the commands that send what waits, and show it."""
    waiting, oldest_s = outbox["pending"] + outbox["leased"], outbox["oldest_s"] or 0
    if outbox["dead"]:
        what = f"the remote refused {counted(outbox['dead'], 'change')}, and this machine keeps what it has"
        yield PROBLEM("outbox", what, f"`{listing}` shows why; then outbox retry or outbox drop")
        if not waiting and "earlier" not in outbox:
            return
    what = f"{counted(waiting, 'memory')} waiting" + (f", the oldest for {duration(oldest_s)}" if oldest_s else "")
    what += f" ({without_address(outbox['last_error'])})" if "last_error" in outbox else ""
    if earlier := outbox.get("earlier", 0):
        many = counted(earlier, "earlier memory")
        what += f"; {many} {'is' if earlier == 1 else 'are'} sent by the next `sync`"
    elif earlier is None:
        what += "; earlier memories above 0.3 are sent by the next `sync`"
    if waiting and oldest_s > OLD_DELIVERY_S and sync:
        yield NOTE("outbox", what, f"`{sync}` says why")
    else:
        yield OK("outbox", what if waiting or earlier != 0 else "empty")
