"""The verb that looks for what keeps memories from being stored, found or delivered."""

from __future__ import annotations

import os
import platform
import sqlite3
import stat
from datetime import UTC, datetime
from pathlib import Path

from kingly_memory.adapters.local import injections, sqlite
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.adapters.local.sql import LAYOUT, SHARES
from kingly_memory.adapters.local.trusted import check_trusted
from kingly_memory.app import parts
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output
from kingly_memory.cli.place import elsewhere, reading, resolved_place
from kingly_memory.cli.remotes import NOTE, OK, PROBLEM, Finding, Findings, Level, of_remotes
from kingly_memory.errors import InvalidInput, InvalidSetting, KinglyMemoryError, StoreLocked, StoreUntrusted
from kingly_memory.home.own_files import check_folder
from kingly_memory.home.place import KEY, KEY_FILE, Place
from kingly_memory.models import whose
from kingly_memory.settings import Settings, inert, unknown_variables
from kingly_memory.text.writing import ago, counted
from kingly_memory.version import __version__

DAMAGED_SHOWN = 5
_VERSIONS = f"kingly-memory {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"

_WAL_RESET_FIXED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""sqlite.org/wal.html, the WAL-reset bug: mended in these versions of their lines, and in all after the last."""

_NETWORKS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "sshfs", "9p", "afs", "davfs", "glusterfs", "rclone"})
_SYNCED = frozenset(
    {"dropbox", "onedrive", "google drive", "icloud drive", "mobile documents", "nextcloud", "owncloud", "pclouddrive"}
)
"""Folders of programs that keep files the same on several machines: of OneDrive also `OneDrive - Company`."""


def doctor(options: Options, out: Output) -> Answer:
    """Exit code 1 when something needs the user."""
    findings = [OK("versions", _VERSIONS), *_settings(options.home)]
    if not any(finding.level is Level.PROBLEM for finding in findings):
        place, faults = resolved_place(options)
        if place.unread is not None:
            findings.append(PROBLEM("remotes", str(place.unread), "until then this machine alone is used"))
        for label, error in faults:
            about = "remote" if label is None else f"remote {label}"
            what = f"{error.problem}; nothing is sent there"
            findings.append(PROBLEM(about, what, "mend the address in --remote or KINGLY_REMOTE"))
        findings += _place(options, place, out)
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<8} {finding.about}: {finding.what}")
        lines += [f"         → {finding.to_do}"] if finding.to_do else []
    verdict = f"{counted(problems, 'problem')} to look at" if problems else "nothing needs you"
    data = {"findings": [finding._asdict() for finding in findings], "problems": problems}
    return Answer(data, [*lines, "", verdict], 1 if problems else 0)


def _place(options: Options, place: Place, out: Output) -> Findings:
    who = "no agent is named" if place.agent is None else f"agent {place.agent!r} speaks"
    yield OK("project", f"memories belong to {whose(place.space)}; {who}")
    yield _sqlite(sqlite3.sqlite_version_info)
    yield _meaning()
    try:
        check_folder(place.home)
        parts.makeable(place)
    except (StoreUntrusted, InvalidInput) as error:
        what = error.problem if isinstance(error, InvalidInput) else str(error)
        yield PROBLEM("home", what, "until then nothing is found and nothing is stored")
        return
    if not place.home.exists():
        yield NOTE("home", f"{place.home} does not exist yet; the first memory makes it")
    else:
        yield from _home(place.home)
        mounts = Path("/proc/mounts")
        yield from _disk(place.home.resolve(), mounts.read_text() if mounts.exists() else "")
        try:
            check_trusted(place.home)
        except StoreUntrusted as error:
            yield NOTE("trust", f"hooks recall and capture nothing: {error}")
        except StoreLocked:  # which the store says
            pass
        yield from _encryption(place.home)
        yield from _store(options, place, out)
        if (moved := elsewhere(options, out)) is not None:
            yield Finding(Level.PROBLEM if moved.is_all else Level.NOTE, "projects", moved.what, moved.to_do)
    yield from _ways(place)
    yield from _hooks(place.home, datetime.now(UTC))


def _encryption(home: Path) -> Findings:
    name = sqlite.key_name_of(home / "store")
    if name is None:
        return
    from kingly_memory.adapters.local import keys
    from kingly_memory.adapters.local.encryption import readable_beside

    try:
        kept_in = keys.find(name, home)[1]
        yield OK("encryption", f"the memories are encrypted; their key {name} is in {kept_in}")
        if kept_in not in (KEY, KEY_FILE) and (other := keys.given(but=name)) is not None:
            yield NOTE("encryption", f"{other[1]} holds another key, which does not open these memories")
    except StoreLocked:  # which the store says
        return
    except InvalidSetting as error:
        yield NOTE("encryption", f"{error}; the memories are opened without it")
    for path in readable_beside(home):
        yield PROBLEM("encryption", f"{path} is not encrypted", "look whether you need it, then delete it")


def _settings(home: str | None) -> Findings:
    if unknown := unknown_variables():
        yield NOTE("settings", f"nothing reads {', '.join(unknown)}", "`kingly-memory config` lists what is read")
    try:
        place = Place.resolve(home)
        Settings.from_environment(home=place.home)
        for folder in inert(place.home):
            yield NOTE("settings", f"{folder.path} is not obeyed: {folder.why}", folder.to_do)
    except InvalidSetting as error:
        yield PROBLEM("settings", str(error), "set it to such a value, or take it out")


def _meaning() -> Finding:
    """What searches of routers find memories by."""
    settings = Settings.from_environment()
    try:
        meaning = parts.meaning(settings)
    except InvalidSetting as error:
        return PROBLEM("vectors", str(error), "until then no router opens; hooks recall by words")
    if meaning is None:
        is_chosen = settings.embedder == "none"
        why = ", as KINGLY_EMBEDDER says" if is_chosen else "; kingly-memory[semantic] adds their meaning"
        return OK("vectors", f"memories are found by their words alone{why}")
    if parts.light_meaning(settings) is not None:
        return OK("vectors", "routers and `search` find memories by meaning too, with wordllama; hooks by words")
    what = f"routers find memories by meaning too, with {parts.shown_embedder(settings.embedder)}"
    return OK("vectors", f"{what}; commands and hooks by words; `kingly-memory embedder status` asks it")


def _sqlite(version: tuple[int, ...]) -> Finding:
    """Whether SQLite of that version can lose commits of two processes that write and checkpoint at once."""
    mended = any(version[:2] == fixed[:2] and version >= fixed for fixed in _WAL_RESET_FIXED)
    if mended or version >= _WAL_RESET_FIXED[-1]:
        return OK("sqlite", "this version is free of the WAL-reset bug")
    what = "this version has the WAL-reset bug; writes take turns behind a lock, which keeps memories safe from it"
    return NOTE("sqlite", what, "let no other program write to the store, or use SQLite 3.51.3 or newer")


def _home(home: Path) -> Findings:
    """Whose the folders are, who may look into them or write, and what in them leads elsewhere."""
    can_look = os.access(home, os.R_OK | os.X_OK)  # else opening the store says so
    links = [path for path in sorted(home.iterdir()) if path.is_symlink()] if can_look else []
    for path in links:
        yield PROBLEM("home", f"{path} is a symbolic link, and none in a home is followed", "remove it")
    for path in sorted(home.glob("edit-*.md")) if can_look else ():
        what = f"{path} is the text of an `edit` that is open, or that was killed"
        yield NOTE("home", what, "take out of it what you need, and remove it")
    closed_to = {home: 0o022, home / "store": 0o077, home / injections.FOLDER: 0o077}
    *own, beside = [(folder, _fault(folder, bits)) for folder, bits in closed_to.items()]
    for folder, fault in own:
        if fault is not None:
            yield PROBLEM("home", f"{folder} {fault[0]}", fault[1].format(home=home))
    if not any(fault for _, fault in own):  # else that is to be mended first
        held = Folder(home)
        files = (held.write_lock, held.sentinel.path, held.database, held.wal, held.shared_memory) if can_look else ()
        shut = [path for path in files if path.exists() and not os.access(path, os.R_OK | os.W_OK)]
        for path in shut:
            yield PROBLEM("home", f"{path} cannot be written to", f"run `chmod u+rw {path}`, or nothing is stored")
        if not links and not shut:
            yield OK("home", f"{home} is yours alone to write to")
    if beside[1] is not None:  # it says what sessions were shown
        what = f"{beside[0]} {beside[1][0].partition(',')[0]}, so that sessions are shown memories twice"
        yield PROBLEM("hooks", what, "it can be spared: delete it")


def _disk(home: Path, mounts: str) -> Findings:
    """Where the home lies, if files there are not what SQLite relies on. `mounts`: a line per file system, as Linux
    lists them."""
    mounted = [line.split(" ") for line in mounts.splitlines()]
    around = [(len(where), kind) for _, where, kind, *_ in mounted if home.is_relative_to(where.replace("\\040", " "))]
    _, kind = max(around, default=(0, ""))
    to_do = "keep the home on a disk of this machine; take it there with `kingly-memory backup`"
    if kind.removeprefix("fuse.") in _NETWORKS:
        yield PROBLEM("disk", f"{home} lies on a network file system ({kind}), whose locks may fail", to_do)
    if synced := next((part for part in home.parts if part.lower().partition(" - ")[0] in _SYNCED), None):
        what = f"{home} lies in {synced!r}, where a program copies files one by one that change together"
        yield PROBLEM("disk", what, to_do)


def _fault(folder: Path, closed: int) -> tuple[str, str] | None:
    """What is wrong with a folder, and what to do about it. `closed`: the mode bits that must not be set."""
    if not os.path.lexists(folder):
        return None
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "is a link or a file, not a folder", "name the folder itself as --home"
    if status.st_uid != os.geteuid():
        return "belongs to another user", "take it over with chown, or name another --home"
    if stat.S_IMODE(status.st_mode) & closed:
        return "is open to other users", "if these memories are yours, run: chmod -R go-rwx {home}"
    return None if os.access(folder, os.W_OK) else ("cannot be written to", "make it writable, or nothing is stored")


def _store(options: Options, place: Place, out: Output) -> Findings:
    """What the store says of itself. One that cannot be opened says why."""
    try:
        with reading(place, out) as reader:
            damaged = reader.damaged(in_all=options.read_all)
            status, read_over = reader.status(), reader.read_over()
    except KinglyMemoryError as error:
        yield PROBLEM("store", str(error), "until then nothing is found and nothing is stored")
        return
    memories, layout = status["memories"], int(status["versions"]["layout"])
    held = f"{counted(memories['total'], 'memory')} in this project, {memories['archived']:,} archived; layout {layout}"
    if layout > LAYOUT:
        what = f"{held}, which a newer version has written: this one only reads it"
        yield PROBLEM("store", what, "upgrade kingly-memory to store memories again")
    else:
        yield OK("store", held)
    # Asked after the store was read, which is when a damaged one is replaced.
    if kept := sorted(str(path) for path in place.home.glob("store.corrupt-*")):
        what = f"a damaged store was replaced by what could be read of it; what is left is kept in {', '.join(kept)}"
        yield PROBLEM("damage", what, "look whether anything is missing, then move it out of the home")
    if damaged:
        many = counted(len(damaged), "row" if options.read_all else "memory")
        what = f"{many} damaged on disk and not shown: {', '.join(damaged[:DAMAGED_SHOWN])}"
        yield PROBLEM("damage", what, "`kingly-memory get ID` says what is left of one and what to do; check the disk")
    reported = {*damaged, *(f"memory {row_id}" for row_id in damaged)}
    # What sweeps have seen of the rows that nobody asked for.
    if met := [row_id for row_id in read_over.get("damaged", ()) if row_id not in reported]:
        what = f"a sweep met damaged rows: {', '.join(met[:DAMAGED_SHOWN])}"
        yield PROBLEM("read", what, "`kingly-memory doctor --read-all` says what is damaged now; check the disk")
    if whole_s := read_over.get("whole"):
        yield OK("read", f"every row was read since {ago(datetime.fromtimestamp(whole_s, UTC))}")
    elif memories["total"]:
        what = f"sweeps have read {read_over.get('share', 0)} of {SHARES} parts of the rows for damage, one part a day"
        yield OK("read", f"{what}; `doctor --read-all` reads all now")
    yield from of_remotes(options, place, status)


def _ways(place: Place) -> Findings:
    """Report unsafe ways to the remotes: a password in the address, no encryption, a token file that cannot be read."""
    from kingly_memory.home.secret_file import secret

    for reached in parts.reached(place):
        own, address = reached.place, reached.endpoint
        if address.credentials is not None:
            what = f"the address of {address.origin} holds a password, which stays wherever the address is written down"
            yield NOTE("token", what, "put a token into a file of mode 0600 and name it: --token-file")
        if address.scheme == "http" and not address.loopback:
            what = f"memories, and the token if there is one, go to {address.origin} unencrypted"
            yield NOTE("way", what, "use https, or a tunnel, unless the network is yours alone")
        if own.token is None and own.token_file is not None:
            try:
                secret(own.token_file, "token_file")
            except InvalidSetting as error:
                yield PROBLEM("token", str(error), "until then nothing is sent to that remote")


def _hooks(home: Path, now: datetime) -> Findings:
    """Report failures of hooks, which say nothing themselves."""
    from kingly_memory.hosts import hook_log

    failed: dict[tuple[str, str, str | None], list[datetime]] = {}
    for one in hook_log.failures(now):
        if one.home in (None, str(home)):
            failed.setdefault((one.event, one.problem, one.home), []).append(one.at)
    if not failed:
        yield OK("hooks", "no failure in the last day that is not over")
    for (event, problem, in_home), moments in failed.items():
        count, last = len(moments), max(moments)
        times = "once" if count == 1 else f"{count:,} times"
        anywhere = " in this or another project" if in_home is None else ""
        which = f"the hook {event}".rstrip()  # a call may name no event
        what = f"{which} failed {times}{anywhere} in the last day, last {ago(last, now)}: {problem}"
        yield PROBLEM("hooks", what, f"mend that, or see {hook_log.path()}; this ends when the hook works")
