"""What the commands about memories print, and what `store`, `get`, `list` and `forget` do besides their verb."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory import validation
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, Table, begun, facts, harmless, one_line, width
from kingly_memory.cli.place import (
    adding,
    answered,
    arguments,
    asked,
    author,
    by_now,
    command,
    is_about_a_token,
    links_of,
    place_of,
    reading,
    routing,
)
from kingly_memory.errors import InvalidInput, KeptForEveryProject, KinglyMemoryError, NothingUnder
from kingly_memory.filters import NOTHING_FITS
from kingly_memory.home.place import editor
from kingly_memory.models import (
    DeliveryState,
    JsonObject,
    Memory,
    MemoryStatus,
    Origin,
    Page,
    Receipt,
    RemoteUse,
    moment_text,
)
from kingly_memory.text.writing import ago, counted, duration, shortened, when

if TYPE_CHECKING:
    from kingly_memory.ports import Row

_TAKEN_OUT = "`kingly-memory purge` erases it, KINGLY_REDACT_SECRETS=1 keeps such out"
REMOTE_WAIT_S = 0.25
"""How long `store` waits for the remote unless told otherwise: a command ends, and then nobody delivers."""


class InArchive(InvalidInput):
    """What has that key or id has ended or lies in the archive."""

    def __init__(self, name: str) -> None:
        problem = f"{name[:200]!r} has ended or is in the archive; `get --explain` shows it, `restore` brings it back"
        super().__init__("key_or_id", problem)


def store(options: Options, out: Output) -> Answer:
    from kingly_memory.app.parts import makeable, secured

    place = makeable(secured(place_of(options, out)))  # before it is read for the first time
    fields = arguments(options.command.verb, options, place)
    if options.wait is None and place.has_remote and not options.require_remote:
        fields["wait"] = REMOTE_WAIT_S
    before = None
    if (key := validation.label("key", options.key)) is not None:
        with reading(place, out) as reader:
            before = reader.find(key)
    asks_a_router = place.has_remote or fields["require_remote"] or fields["wait"] is not None or fields["context_id"]
    fields = {name: value for name, value in fields.items() if value is not None and value is not False}
    with routing(place, out) if asks_a_router else reading(place, out) as router:
        receipt: Receipt = options.command.verb.call(router, fields)
        is_pending = receipt.delivery is DeliveryState.PENDING
        links = links_of(router.status()) if is_pending else {}
        refusing = [label or "the remote" for label, link in links.items() if is_about_a_token(link)]
        lines = receipt_lines(receipt)
        if before is not None and before.status is MemoryStatus.FORGOTTEN:
            lines.append(f"  it was forgotten and is back; undo: {command(options, 'forget', receipt.id)}")
        if place.remote_use is RemoteUse.ONCE and receipt.delivery is not DeliveryState.LOCAL_ONLY:
            lines += [
                f"  later memories do not go to {remote.endpoint}; `{adding(remote.endpoint)}` sends them there too"
                for remote in router.remotes()
                if remote.in_use and remote.since is None
            ]
    if refusing:
        doctor = command(options, "doctor")
        lines.append(f"  nothing is sent to {', '.join(refusing)} until a token is accepted; see `{doctor}`")
    return Answer(receipt.to_json(), lines)


def get(options: Options, out: Output) -> Answer:
    place, name = place_of(options, out), options.key_or_id
    if options.explain and options.revision is not None:
        raise InvalidInput(
            "revision", "does not go with --explain, which tells of the memory as it is now; leave one out"
        )
    with reading(place, out) as reader:
        # Why it is in the archive is asked of what lies there.
        memory = reader.named([name]).get(name) if options.explain else reader.get(name, options.revision)
        if memory is None:
            row = reader.find(name)
            if row is not None and row.status is MemoryStatus.FORGOTTEN and not row.is_tombstone:
                undo = command(options, "restore", name)
                raise InvalidInput("key_or_id", f"{name[:200]!r} was forgotten; `{undo}` brings it back")
            raise InArchive(name) if reader.named([name]) else NothingUnder(name)
        remote_id = reader.remote_ids([memory.id]).get(memory.id)
        current = reader.find(memory.id)
        if not options.explain and options.revision is None:
            reader.note_used([memory.id])
    fields = {**memory.to_json(), "ends_at": moment_text(memory.ends_at)}
    if memory.sightings > 1:
        fields["sightings"] = memory.sightings
    if not options.explain:
        return Answer({**fields, "remote_id": remote_id}, _details(memory, remote_id, current))
    with routing(place, out, reads=True) as router:
        explained = router.explain(memory.id)
    if explained is None:
        raise NothingUnder(memory.id)
    return Answer({**fields, "explained": explained}, [*_details(memory), "", *explanation(explained)])


def list_lines(page: Page, options: Options) -> list[str]:
    def row(memory: Memory) -> Sequence[object]:
        """With its type, what sets it apart from most of the project's."""
        marks = ["every project"] if memory.scope.project is None and not options.everywhere else []
        marks += ["archived"] if memory.id in page.archived else []
        kind = f"{memory.type} ({', '.join(marks)})" if marks else memory.type
        return memory.key or memory.id, kind, memory.created_at, summary(memory, width())

    lines = Table((), row, "no memories")(page, options)
    lines += [NOTHING_FITS] if not len(page) and options.filter is not None else []
    return [*lines, *([] if page.next_before is None else [f"more: the same with --before {page.next_before}"])]


def forget(options: Options, out: Output) -> Answer:
    memory = answered(options, out)
    with reading(place_of(options, out), out) as reader:  # once the router is closed, which gives deliveries a moment
        receipt = reader.receipt(memory.id)
        *_, first = memory, *reader.rows.revisions(memory.id)  # another machine may have revised what is our own
    lines = [f"forgotten: {summary(memory)}"]
    if receipt is not None and receipt.delivery is DeliveryState.DEAD:
        lines.append(f"  on this machine alone: {receipt.reason}")
    elif first.origin is Origin.REMOTE:
        lines.append("  it came from a remote; a hub of this project hears of it, elsewhere forget it there")
    if receipt is not None and receipt.delivery is DeliveryState.PENDING:
        where = " and ".join(_waiting(receipt)) or "the remote"
        lines.append(f"  not forgotten yet on {where}; that follows ({receipt.reason})")
    return Answer(memory.to_json(), [*lines, f"undo: {command(options, 'restore', memory.id)}"])


def restore(options: Options, out: Output) -> Answer:
    name = options.key_or_id
    with reading(place_of(options, out), out) as reader:
        row = reader.find(name)
        is_there = row is not None and row.status is MemoryStatus.LIVE and reader.get(name) is not None
    memory = answered(options, out)
    if options.revision is not None and is_there and row is not None and row.memory.revision == memory.revision:
        outcome = "nothing was restored, it says that already"
    elif options.revision is not None:
        outcome = f"restored as revision {memory.revision}"
    else:
        outcome = "there already, neither forgotten nor archived" if is_there else "restored"
    return Answer(memory.to_json(), [f"{outcome}: {summary(memory)}"])


def update(options: Options, out: Output) -> Answer:
    with reading(place_of(options, out), out) as reader:
        before = reader.find(options.key_or_id)
    receipt = answered(options, out)
    is_same = before is not None and before.memory.revision == receipt.revision and options.ttl is None
    return Answer(receipt.to_json(), ["nothing was changed"] if is_same else receipt_lines(receipt))


def history_lines(revisions: Sequence[Memory], options: Options) -> list[str]:
    """A revision a line; of one that has the text of the one before it, what else changed."""
    before = {newer.revision: older for newer, older in pairwise(revisions) if older.content == newer.content}

    def row(memory: Memory) -> Sequence[object]:
        changed = _beside_the_text(before[memory.revision], memory) if memory.revision in before else None
        text = summary(memory, width()) if changed is None else changed
        return memory.revision, memory.updated_at, memory.scope.agent or str(memory.origin), text

    return Table((), row)(revisions, options)


def diff(options: Options, out: Output) -> Answer:
    with asked(options, out) as (difference, reader):
        history = {one.revision: one for one in reader.history(options.key_or_id)}
    if difference or len(history) == 1:
        return Answer({"diff": difference}, difference.splitlines() or ["there is only one revision"])
    newest, before, *_ = history
    a, b = (before if options.a is None else options.a), (newest if options.b is None else options.b)
    return Answer({"diff": difference}, [_beside_the_text(history[a], history[b])])


def _beside_the_text(old: Memory, new: Memory) -> str:
    """What differs between two revisions that have the same text."""
    compared = ("tags", "title", "type", "significance", "confidence", "metadata")
    changed = ", ".join(name for name in compared if getattr(old, name) != getattr(new, name))
    return f"the same text; changed: {changed}" if changed else "the same text"


def tag(options: Options, out: Output) -> Answer:
    """Without a change of tags nothing is written."""
    with routing(place_of(options, out), out) as router:
        name = options.key_or_id
        memory = router.get(name)
        if memory is None:
            raise InArchive(name) if router.history(name) else NothingUnder(name)
        kept = [one for one in memory.tags if one not in (options.remove or ())]
        tags = list(dict.fromkeys([*kept, *(options.add or ())]))
        if tags != list(memory.tags) and router.update(name, tags=tags, if_revision=memory.revision) is None:
            raise NothingUnder(name)
    return Answer({"id": memory.id, "key": memory.key, "tags": tags}, [", ".join(tags) or "no tags"])


def edit(options: Options, out: Output) -> Answer:
    """The text in the editor, and what is saved there as a new revision."""
    place, name = place_of(options, out), options.key_or_id
    with routing(place, out) as router:
        memory = router.get(name)
        if memory is None:
            raise NothingUnder(name)
        if memory.scope.space != place.space:
            raise KeptForEveryProject(name)  # before anything is written in vain
        with _edited(memory, _editor(), place.home, out) as text:
            if text == memory.content.rstrip("\n"):
                return Answer({"changed": False}, ["nothing was changed"])
            receipt = router.update(memory.id, text, if_revision=memory.revision, origin=author(place))
            if receipt is None:
                raise NothingUnder(name)
    receipt = by_now(receipt, options, out)
    return Answer(receipt.to_json(), receipt_lines(receipt))


def _editor() -> list[str]:
    """The command line of VISUAL or EDITOR, else vi."""
    from shlex import split

    said = (editor() or "").strip()
    if not said and not sys.stdin.isatty():
        raise InvalidInput("EDITOR", "is not set, and there is no terminal for vi; set it, or use `update`")
    try:
        return split(said or "vi")
    except ValueError as error:
        raise InvalidInput("EDITOR", f"{said[:80]!r} is no command ({error})") from None


@contextmanager
def _edited(memory: Memory, command_line: Sequence[str], home: Path, out: Output) -> Iterator[str]:
    """What the editor has made of the text. Where the block raises, that is kept in a file."""
    import shutil
    import subprocess
    from tempfile import mkstemp

    # Nobody else may read it. By the id `purge` finds what an edit that was killed has left.
    descriptor, name = mkstemp(dir=home, prefix=f"edit-{memory.id}-", suffix=".md")
    file, is_kept = Path(name), False
    try:
        with os.fdopen(descriptor, "wb") as begun:
            begun.write(memory.content.encode() + b"\n")
        try:
            code = subprocess.run([*command_line, file], check=False).returncode  # noqa: S603  # the caller's own
        except OSError as error:
            raise InvalidInput("EDITOR", f"{command_line[0]!r} cannot be started ({error.strerror})") from None
        if code:
            raise InvalidInput("EDITOR", f"{command_line[0]!r} ended with exit code {code}; nothing was changed")
        yield file.read_bytes().decode("utf-8-sig").rstrip("\n")
    except OSError as error:
        raise InvalidInput("EDITOR", f"left no file ({error.strerror}); nothing was changed") from None
    except (KinglyMemoryError, ValueError, KeyboardInterrupt) as error:
        written = file.read_bytes().strip() if file.exists() else b""
        if is_kept := written not in (b"", memory.content.encode().strip()):
            out.note(f"what you wrote is kept in {file}")
        if not isinstance(error, UnicodeDecodeError):
            raise
        raise InvalidInput("EDITOR", "what was saved is not UTF-8; nothing was changed") from None
    finally:
        if not is_kept:
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)


def receipt_lines(receipt: Receipt) -> list[str]:
    """Where the memory is now, and what is still to come."""
    name = f"{receipt.key} ({receipt.id})" if receipt.key else receipt.id
    names = [layer for layer in receipt.layers if layer != "local"] if receipt.remotes else ["the remote"]
    waiting = _waiting(receipt)
    later = f"{' and '.join(waiting) or 'the remote'} {'get' if len(waiting) > 1 else 'gets'}"
    here = " and on ".join(["on this machine", *(names if receipt.remotes else ())])
    places = {
        DeliveryState.DELIVERED: " and on ".join(["on this machine", *names]),
        DeliveryState.PENDING: f"{here}; {later} it later ({receipt.reason})",
        DeliveryState.LEASED: "on this machine; on its way to the remote",
    }
    place = places.get(receipt.delivery, f"on this machine only: {receipt.reason}")
    ends = [] if receipt.ends_at is None else [f"  ends {when(receipt.ends_at)}"]
    stored = "stored" if receipt.revision == 1 else f"stored as revision {receipt.revision}"
    if receipt.sightings > 1:
        stored = f"known already, stored {receipt.sightings} times by now:"
    seems = [f"  seems to hold {counted(receipt.secrets, 'secret')}: {_TAKEN_OUT}"] if receipt.secrets else []
    return [f"{stored} {name}", f"  {place}", *ends, *seems]


def _waiting(receipt: Receipt) -> list[str]:
    """The names of the remotes that have not answered; a single one may have none."""
    return [label for label, at in receipt.remotes.items() if at["delivery"] == DeliveryState.PENDING]


def summary(memory: Memory, most: int = 48) -> str:
    """A memory in a few words, on one line."""
    return shortened(one_line(begun(memory)), most)


def _details(memory: Memory, remote_id: str | None = None, current: Row | None = None) -> list[str]:
    """`current` is the memory as it is now, where this may be what it said before."""
    now = memory if current is None else current.memory
    is_current = now.revision == memory.revision
    revision = f"{memory.revision}, {ago(memory.updated_at)}" + ("" if is_current else f"; {now.revision} is current")
    details = {
        "key": memory.key,
        "id": memory.id,
        "remote id": remote_id,
        "title": memory.title,
        "type": memory.type,
        "significance": memory.significance,
        "confidence": memory.confidence,
        "tags": ", ".join(memory.tags),
        "context": memory.scope.context_id,
        "agent": memory.scope.agent,
        "origin": memory.origin,
        "created": when(memory.created_at),
        "ends": None if memory.ends_at is None else end_line(moment_text(memory.ends_at), memory.lifetime_s),
        "stored": f"{memory.sightings} times" if memory.sightings > 1 else None,
        "revision": revision if now.revision > 1 else None,
        "metadata": memory.metadata or None,
    }
    return [*facts(details.items()), "", harmless(memory.content)]


def explanation(explained: JsonObject) -> list[str]:
    """The lines of `get --explain`: what becomes of a memory and why, one fact each."""
    tier, uses, archived = explained["tier"], explained["uses"], explained["archived"]
    used = (
        f", the last {when(datetime.fromisoformat(uses['last_used']))}"
        if uses["accesses"] and uses["last_used"]
        else ""
    )
    rows = {
        "status": f"{explained['status']}{', protected from sweeps' if explained['protected'] else ''}",
        "strength": strength_line(explained["strength"]),
        "uses": f"{uses['accesses']:,}{used}",
        "stored": f"{uses['sightings']:,} times" if uses["sightings"] > 1 else None,
        "ends": None if archived else end_line(explained["ends_at"], explained["lifetime_s"]),
        "tier": f"{tier['name']} (how near at hand: fast, medium, slow or glacial); "
        f"importance {tier['importance']:.2f}, surprise {tier['surprise']:.2f} (how much more useful than predicted), "
        f"{counted(tier['successes'], 'success', 'successes')}",
        "archived": None if archived is None else f"by {archived['policy']}: {archived['reason']}",
    }
    remotes = []
    for remote in explained["remotes"]:
        called = f", which calls it {remote['remote_id']}" if remote["remote_id"] else ""
        remotes.append(("remote", f"{remote['delivery'].replace('_', ' ')}, {remote['endpoint']}{called}"))
    return facts([*rows.items(), *remotes])


def strength_line(strength: JsonObject) -> str:
    uses = f"{counted(int(strength['accesses']), 'use')}, {counted(strength['reinforcements'], 'reinforcement')}"
    return f"{strength['strength']:.2f} ({strength['state']}; {uses}; idle {strength['idle_days']:,.0f} days)"


def end_line(ends_at: str | None, lifetime_s: float | None) -> str:
    """When a memory ends."""
    if ends_at is None:
        return "never"
    ending = when(datetime.fromisoformat(ends_at))
    return ending if lifetime_s is None else f"{ending} ({duration(lifetime_s)} after its last use)"
