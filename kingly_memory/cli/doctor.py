"""The verb that looks for what keeps memories from being stored, found or delivered."""

from __future__ import annotations

import os
import platform
import sqlite3
import stat
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from kingly_memory.adapters.local import injections
from kingly_memory.adapters.local.sql import LAYOUT
from kingly_memory.app import parts
from kingly_memory.cli.output import Output, ago, counted, duration
from kingly_memory.cli.place import (
    Fault,
    command,
    forget_remote_command,
    is_about_a_token,
    reading,
    sync_command,
    told_place,
    without_address,
)
from kingly_memory.errors import InvalidSetting, KinglyMemoryError, StoreUntrusted
from kingly_memory.models import JsonObject, LinkState
from kingly_memory.own_files import check_folder
from kingly_memory.remote_names import UNNAMED, RemotePlace, variable
from kingly_memory.settings import Place, Settings, inert
from kingly_memory.version import __version__

HOOKS_LOOKED_BACK = timedelta(days=1)
OLD_DELIVERY_S = 86_400.0

_WAL_RESET_FIXED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""sqlite.org/wal.html, the WAL-reset bug: mended in these versions of their lines, and in all after the last."""


class Level(StrEnum):
    """How much a finding matters: `problem` needs the user."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was seen, in a sentence, and what to do about it if there is anything."""

    level: Level
    about: str
    what: str
    to_do: str | None = None

    def to_json(self) -> JsonObject:
        return {"level": self.level.value, "about": self.about, "what": self.what, "to_do": self.to_do}


def doctor(options: Namespace, out: Output) -> int:
    """Exit code 1 when something needs the user."""
    found = [Finding(Level.OK, "versions", _versions()), *_settings(options.home)]
    if not any(one.level is Level.PROBLEM for one in found):
        place, faults = told_place(options)
        if place.unread is not None:
            found.append(Finding(Level.PROBLEM, "remotes", str(place.unread), "until then this machine alone is used"))
        found += [_unusable(fault) for fault in faults]
        found += _policy(place, faults)
        found += _place(options, place, datetime.now(UTC), out)
    problems = sum(one.level is Level.PROBLEM for one in found)
    lines = [line for one in found for line in _lines(one)]
    verdict = f"{counted(problems, 'problem')} to look at" if problems else "nothing needs you"
    out.show({"findings": [one.to_json() for one in found], "problems": problems}, [*lines, "", verdict])
    return 1 if problems else 0


def _unusable(fault: Fault) -> Finding:
    what = f"{fault.error.problem}; nothing is sent there"
    about = "remote" if fault.label is None else f"remote {fault.label}"
    return Finding(Level.PROBLEM, about, what, "mend the address in --remote or KINGLY_REMOTE")


def _policy(place: Place, faults: Sequence[Fault]) -> Iterator[Finding]:
    """Whether the setting `remote_policy` speaks of the remotes that there are, those of `faults` too."""
    from kingly_memory.router.routes import policy as read_policy

    labels = {*(one.label for one in place.remotes), *(one.label or place.label for one in faults)}
    known = labels or {UNNAMED}
    try:
        policy = read_policy(Settings.from_environment(home=place.home).remote_policy, sorted(known))
    except InvalidSetting as error:
        yield Finding(Level.PROBLEM, "policy", str(error), "until then no router opens with a remote")
        return
    there = "the remote" if labels == {UNNAMED} else " and ".join(sorted(labels))
    unknown = " and ".join(sorted(policy.named - known))
    if unknown:
        what = f"remote_policy names {unknown}, and no remote is called so"
        to_do = "name it as in --remote name=URL or KINGLY_REMOTE, or take it out of remote_policy"
        if labels and not policy.named & labels:
            yield Finding(Level.PROBLEM, "policy", f"{what}: nothing is sent to {there}", to_do)
        else:
            yield Finding(Level.NOTE, "policy", f"{what}: what is for no other stays on this machine", to_do)
    elif labels and not policy.named:
        what = f"remote_policy names no remote for any memory: nothing is sent to {there}"
        yield Finding(Level.NOTE, "policy", what, "add a rule such as *=all, unless that is what you want")


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Whether SQLite of that version can lose commits of two processes that write and checkpoint at once."""
    if version >= _WAL_RESET_FIXED[-1]:
        return False
    return not any(version[:2] == fixed[:2] and version >= fixed for fixed in _WAL_RESET_FIXED)


def _place(options: Namespace, place: Place, now: datetime, out: Output) -> Iterator[Finding]:
    who = "no agent is named" if place.agent is None else f"agent {place.agent!r} speaks"
    yield Finding(Level.OK, "project", f"memories belong to project {place.project!r}; {who}")
    yield _sqlite(sqlite3.sqlite_version_info)
    yield _meaning()
    try:
        check_folder(place.home)
    except StoreUntrusted as error:
        yield Finding(Level.PROBLEM, "home", str(error), "until then nothing is found and nothing is stored")
        return
    if not place.home.exists():
        yield Finding(Level.NOTE, "home", f"{place.home} does not exist yet; the first memory makes it")
    else:
        yield from _home(place.home)
        yield from _injected(place.home)
        yield from _store(options, place, out)
    yield from _ways(place)
    yield from _hooks(place.home, now)


def _versions() -> str:
    return f"kingly-memory {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"


def _settings(home: str | None) -> Iterator[Finding]:
    try:
        place = Place.resolve(home)
        Settings.from_environment(home=place.home)
        for one in inert(place.home):
            yield Finding(Level.NOTE, "settings", f"{one.path} is not obeyed: {one.why}", one.to_do)
    except InvalidSetting as error:
        yield Finding(Level.PROBLEM, "settings", str(error), "set it to such a value, or take it out")


def _meaning() -> Finding:
    """What searches of routers find memories by."""
    settings = Settings.from_environment()
    try:
        found = parts.meaning(settings)
    except InvalidSetting as error:
        return Finding(Level.PROBLEM, "vectors", str(error), "until then no router opens; hooks recall by words")
    if found is not None:
        what = "routers and `search` find memories by meaning too, with wordllama; hooks by words"
        return Finding(Level.OK, "vectors", what)
    what = "memories are found by their words alone"
    if settings.embedder == "none":
        return Finding(Level.OK, "vectors", f"{what}, as KINGLY_EMBEDDER says")
    return Finding(Level.OK, "vectors", f"{what}; kingly-memory[semantic] adds their meaning")


def _sqlite(version: tuple[int, ...]) -> Finding:
    if not has_wal_reset_bug(version):
        return Finding(Level.OK, "sqlite", "this version is free of the WAL-reset bug")
    what = "this version has the WAL-reset bug; writes take turns behind a lock, which keeps memories safe from it"
    return Finding(Level.NOTE, "sqlite", what, "let no other program write to the store, or use SQLite 3.51.3 or newer")


def _home(home: Path) -> Iterator[Finding]:
    """Whose the folders are, who may look into them or write, and what in them leads elsewhere."""
    links = [path for path in sorted(home.iterdir()) if path.is_symlink()]
    for path in links:
        what = f"{path} is a symbolic link, and none in a home is followed"
        yield Finding(Level.PROBLEM, "home", what, "remove it")
    store = home / "store"
    closed_to = {home: 0o022, store: 0o077}
    faults = [(folder, _fault(folder, bits)) for folder, bits in closed_to.items() if os.path.lexists(folder)]
    for folder, fault in faults:
        if fault is not None:
            yield Finding(Level.PROBLEM, "home", f"{folder} {fault[0]}", fault[1].format(home=home))
    if not links and not any(fault for _, fault in faults):
        yield Finding(Level.OK, "home", f"{home} is yours alone to write to")


def _injected(home: Path) -> Iterator[Finding]:
    """Whether the folder can be used that says what sessions were shown."""
    folder = home / injections.FOLDER
    fault = _fault(folder, 0o077) if os.path.lexists(folder) else None
    if fault is not None:
        what = f"{folder} {fault[0].partition(',')[0]}, so that sessions are shown memories twice"
        yield Finding(Level.PROBLEM, "hooks", what, "it can be spared: delete it")


def _fault(folder: Path, closed: int) -> tuple[str, str] | None:
    """What is wrong with a folder, and what to do about it. `closed`: the mode bits that must not be set."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "is a link or a file, not a folder", "name the folder itself as --home"
    if status.st_uid != os.geteuid():
        return "belongs to another user", "take it over with chown, or name another --home"
    if stat.S_IMODE(status.st_mode) & closed:
        what = "is open to other users, so that hooks recall nothing from it"
        return what, "if these memories are yours, run: chmod -R go-rwx {home}"
    return None if os.access(folder, os.W_OK) else ("cannot be written to", "make it writable, or nothing is stored")


def _store(options: Namespace, place: Place, out: Output) -> Iterator[Finding]:
    """What the store says of itself. One that cannot be opened says why."""
    try:
        with reading(place, out) as reader:
            status = reader.status()
    except InvalidSetting:  # that of the policy, which has a finding of its own
        return
    except KinglyMemoryError as error:
        yield Finding(Level.PROBLEM, "store", str(error), "until then nothing is found and nothing is stored")
        return
    yield from _memories(status)
    yield from _damage(place.home)
    yield from _remotes(options, place, status)


def _memories(status: JsonObject) -> Iterator[Finding]:
    memories, layout = status["memories"], int(status["versions"]["layout"])
    held = f"{counted(memories['total'], 'memory')} in this project, {memories['archived']:,} archived; layout {layout}"
    if layout > LAYOUT:
        what = f"{held}, which a newer version has written: this one only reads it"
        yield Finding(Level.PROBLEM, "store", what, "upgrade kingly-memory to store memories again")
    else:
        yield Finding(Level.OK, "store", held)


def _damage(home: Path) -> Iterator[Finding]:
    """Asked after the store was read, which is when a damaged one is replaced."""
    kept = sorted(str(path) for path in home.glob("store.corrupt-*"))
    if not kept:
        return
    what = f"a damaged store was replaced by what could be read of it; what is left is kept in {', '.join(kept)}"
    yield Finding(Level.PROBLEM, "damage", what, "look whether anything is missing, then move it out of the home")


def _remotes(options: Namespace, place: Place, status: JsonObject) -> Iterator[Finding]:
    """The link and the outbox, of each remote where they have names."""
    known = {one.label: one for one in place.remotes}
    listing = command(options, "outbox list")
    if "remotes" not in status:
        link = status["link"]
        sync = "" if link["endpoint"] is None else sync_command(options, link["endpoint"])
        yield from _link(link, sync, known.get(UNNAMED))
        yield from _outbox(status["outbox"], sync, listing)
    for label, one in status.get("remotes", {}).items():
        sync = sync_command(options, one["endpoint"], label)
        for finding in (*_link(one, sync, known.get(label)), *_outbox(one["outbox"], sync, listing)):
            yield replace(finding, about=f"{finding.about} {label}")
    refused = status.get("links", {}).get("dead")
    if refused:
        what = f"{counted(refused, 'link')} between memories the remote refused, for good; they stay on this machine"
        yield Finding(Level.NOTE, "links", what, "link the memories again once the remote has both")
    for one in status.get("elsewhere", ()):
        what = f"{counted(one['waiting'], 'memory')} waiting for {one['endpoint']}, which is not named here"
        give_up = forget_remote_command(options, one["endpoint"])
        yield Finding(Level.NOTE, "waiting", what, f"name it with --remote, or give it up with `{give_up}`")


def _link(link: JsonObject, sync: str, there: RemotePlace | None = None) -> Iterator[Finding]:
    """`sync` is the command that tries that remote."""
    state = LinkState(link["state"])
    if state is LinkState.DISABLED:
        yield Finding(Level.OK, "link", "no remote is in use; memories stay on this machine")
    elif state is LinkState.CONNECTED:
        yield Finding(Level.OK, "link", f"{link['endpoint']} answers")
    elif is_about_a_token(link):
        what = f"{link['endpoint']} gets nothing ({without_address(link['last_error'])}); nothing is lost"
        yield Finding(Level.PROBLEM, "link", what, f"{_mending_the_token(there)}, then run `{sync}`")
    else:
        why = without_address(link["last_error"] or "no answer yet")
        what = f"{link['endpoint']} is offline ({why}); what is for it waits"
        yield Finding(Level.NOTE, "link", what, f"it is tried again by itself; `{sync}` tries now")


def _mending_the_token(there: RemotePlace | None) -> str:
    """What to do about a token, by where it comes from."""
    if there is not None and there.token is None and there.token_file is not None:
        return f"put the right token into {there.token_file}"
    name = "KINGLY_TOKEN"
    if there is not None and there.label != UNNAMED:
        name = f"{name}_{variable(there.label)}"
    return f"check {name}" if there is None or there.token is not None else f"set {name} to a token that it takes"


def _outbox(outbox: JsonObject, sync: str, listing: str) -> Iterator[Finding]:
    """`sync` and `listing` are the commands that send what waits, and show it."""
    waiting = outbox["pending"] + outbox["leased"]
    if outbox["dead"]:
        what = f"the remote refused {counted(outbox['dead'], 'memory')}, which stay on this machine"
        yield Finding(Level.PROBLEM, "outbox", what, f"see `{listing}`, then outbox retry or outbox drop")
    if waiting and (outbox["oldest_s"] or 0) > OLD_DELIVERY_S:
        what = f"{counted(waiting, 'memory')} waiting for the remote, the oldest for {duration(outbox['oldest_s'])}"
        yield Finding(Level.NOTE, "outbox", what, f"run `{sync}` to see why")
    elif waiting:
        yield Finding(Level.OK, "outbox", f"{counted(waiting, 'memory')} on the way to the remote")


def _ways(place: Place) -> Iterator[Finding]:
    """How memories and secrets get to the remotes, where that leaves something to be wished for."""
    for one in parts.reached(place):
        own, there = one.place, one.endpoint
        if there.credentials is not None:
            what = f"the address of {there.origin} holds a password, which stays wherever the address is written down"
            yield Finding(Level.NOTE, "token", what, "put a token into a file of mode 0600 and name it: --token-file")
        if there.scheme == "http" and not there.loopback:
            what = f"memories, and the token if there is one, go to {there.origin} unencrypted"
            yield Finding(Level.NOTE, "way", what, "use https, or a tunnel, unless the network is yours alone")
        if own.token is None and own.token_file is not None:
            yield from _token_file(own.token_file)


def _token_file(path: Path) -> Iterator[Finding]:
    from kingly_memory.secret_file import secret

    try:
        secret(path, "token_file")
    except InvalidSetting as error:
        yield Finding(Level.PROBLEM, "token", str(error), "until then nothing is sent to that remote")


def _hooks(home: Path, now: datetime) -> Iterator[Finding]:
    """What hooks have kept quiet about."""
    from kingly_memory.hosts import hook_log

    lately = [one for one in hook_log.failures(HOOKS_LOOKED_BACK, now) if one.home in (None, str(home))]
    if not lately:
        yield Finding(Level.OK, "hooks", "no failure in the last day")
    for (event, problem, where), count in Counter((one.event, one.problem, one.home) for one in lately).items():
        last = max(one.at for one in lately if (one.event, one.problem, one.home) == (event, problem, where))
        times = "once" if count == 1 else f"{count:,} times"
        there = " in this or another project" if where is None else ""
        what = f"the hook {event} failed {times}{there} in the last day, last {ago(last, now)}: {problem}"
        yield Finding(Level.PROBLEM, "hooks", what, f"mend that, or see {hook_log.path()}; after a day it is forgotten")


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.level:<8} {finding.about}: {finding.what}"
    if finding.to_do is not None:
        yield f"         → {finding.to_do}"
