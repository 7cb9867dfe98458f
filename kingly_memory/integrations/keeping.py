"""Capturing a session: read on in its transcript, store what is worth keeping and not known yet, and note which of the
memories that were put beside its prompts the assistant has drawn on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from kingly_memory import intake
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.app import parts
from kingly_memory.app.reading import LocalReader, open_reader
from kingly_memory.attention.using import draws_on
from kingly_memory.errors import InvalidInput, StoreBusy
from kingly_memory.ids import MemoryId
from kingly_memory.intake import Imported
from kingly_memory.integrations.capture import Statement, gist, is_echo, statements
from kingly_memory.integrations.progress import Progress
from kingly_memory.integrations.transcript import Message, read_since
from kingly_memory.models import Memory, Origin, Taken
from kingly_memory.settings import Place, Settings

TAG = "captured"
BUDGET_S = 10.0
"""After so long no further portion is begun: a host ends the hook at some time, see `cli.hook`."""
_LOOKED_AT = 5
MOST_SHOWN = 50
"""Memories of a session that are held against what the assistant says, those that were put in last."""


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation with a host. `id` becomes the context id of what is captured from it."""

    id: str
    transcript: Path


def keep(
    session: Session, place: Place, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic
) -> Taken:
    """Store what was said since the last time and is worth keeping. Doing so again, or twice at once, changes nothing.

    Goes through the transcript portion by portion, and leaves to the next time what there is no time for. Raises
    TranscriptUnreadable, InvalidInput, StoreError; what was not stored is then read again the next time.
    """
    with _turn(place.home):
        return _keep(session, place, settings, monotonic)


@contextmanager
def _turn(home: Path) -> Iterator[None]:
    """The hooks for a turn's end and a session's end come at the same time: the later one waits, has nothing left to
    read, and does not count a second time what the assistant has drawn on. After as long as a capture may take it goes
    ahead: what two of them find is stored once."""
    with ExitStack() as held:
        if home.is_dir():
            with suppress(StoreBusy):
                held.enter_context(locked(home / "capturing.lock", BUDGET_S))
        yield


def _keep(session: Session, place: Place, settings: Settings, monotonic: Callable[[], float]) -> Taken:
    progress, latest = Progress(place.home), monotonic() + BUDGET_S
    end, more, room = progress.end(session.id), True, settings.capture_most
    taken, heard_s, is_heard = Taken(), time.time(), False
    while more and room and monotonic() < latest:
        passage = read_since(session.transcript, end)
        end, more = passage.end, passage.more
        new = _new(list(statements(passage.messages)), room, place, settings)
        used = _used(passage.messages, session, place, settings)
        is_heard = is_heard or any(one.speaker == "assistant" for one in passage.messages)
        taken = _sum(taken, _store(new, used, session, place, settings)) if new or used else taken
        room -= len(new)
        if place.home.is_dir():
            progress.save(session.id, end)
    if is_heard and not more:
        parts.injections(place).hear(session.id, heard_s)
    if more and not place.home.is_dir():  # else nothing is founded only to note that there was nothing to keep
        Folder(place.home).make()
        progress.save(session.id, end)
    return taken


def captured_id(statement: Statement, session: Session, project: str) -> MemoryId:
    """The same for the same words of the same message, and ordered by the time they were said (RFC 9562, version 8)."""
    source = statement.message_id or session.id
    digest = sha256("\0".join((project, source, gist(statement.content))).encode(errors="replace")).hexdigest()
    said_at = statement.at or datetime.fromtimestamp(0, UTC)
    time = f"{max(int(said_at.timestamp() * 1000), 0) & ((1 << 48) - 1):012x}"
    return MemoryId(f"{time[:8]}-{time[8:]}-8{digest[:3]}-8{digest[3:6]}-{digest[6:18]}")


def _new(found: Sequence[Statement], most: int, place: Place, settings: Settings) -> list[Statement]:
    if not found:
        return []
    with closing(open_reader(place, settings, repairs=False)) as reader:
        return [one for one in _weightiest(found, most) if not _is_known(one, reader)]


def _sum(one: Taken, other: Taken) -> Taken:
    return Taken(*(first + second for first, second in zip(one, other, strict=True)))


def _weightiest(found: Sequence[Statement], most: int) -> list[Statement]:
    """The most significant ones, in the order they were said."""
    chosen = sorted(found, key=lambda one: one.worth.significance, reverse=True)[:most]
    return [one for one in found if one in chosen]


def _is_known(statement: Statement, reader: LocalReader) -> bool:
    """True for what is stored already, and for what an assistant has only repeated from there."""
    known = [hit.memory.content for hit in reader.search(statement.content, limit=_LOOKED_AT)]
    if any(gist(statement.content) == gist(one) for one in known):
        return True
    return statement.speaker == "assistant" and any(is_echo(statement.content, one) for one in known)


def _used(messages: Sequence[Message], session: Session, place: Place, settings: Settings) -> list[MemoryId]:
    """The memories put into this session that the assistant has drawn on."""
    shown_s = parts.injections(place).ever(session.id)
    if not shown_s or not any(one.speaker == "assistant" for one in messages):
        return []
    latest = sorted(shown_s, key=shown_s.__getitem__)[-MOST_SHOWN:]
    with closing(open_reader(place, settings, repairs=False)) as reader:
        shown = [memory for one in latest if (memory := reader.get(one)) is not None]
    used: dict[MemoryId, None] = {}
    asked = ""
    for message in messages:
        if message.speaker == "user":
            asked = message.text
        else:
            used |= {one.id: None for one in shown if draws_on(_told(one), asked, message.text)}
    return list(used)


def _told(memory: Memory) -> str:
    return f"{memory.title} {memory.content}" if memory.title else memory.content


def _store(
    new: Sequence[Statement], used: Sequence[MemoryId], session: Session, place: Place, settings: Settings
) -> Taken:
    from kingly_memory.blocking import SyncMemoryRouter

    # Without a remote, so that nobody waits for one; whoever delivers for this project next takes them along.
    with SyncMemoryRouter.open(
        place.home, remote=False, project=place.project, agent=place.agent, settings=settings
    ) as router:
        taken = router.remember([_imported(one, session, place, settings) for one in new])
        with suppress(InvalidInput):  # one of them was forgotten just now
            router.mark_used(used)
        return taken


def _imported(statement: Statement, session: Session, place: Place, settings: Settings) -> Imported:
    worth = statement.worth
    draft = intake.draft(
        statement.content,
        content_limit_bytes=settings.content_limit_bytes,
        type=worth.type,
        significance=worth.significance,
        confidence=worth.confidence,
        tags=(TAG, statement.sort),
        context_id=session.id,
        agent=place.agent,
        origin=Origin.USER if statement.speaker == "user" else Origin.AGENT,
        created_at=statement.at,
    )
    return Imported(draft, captured_id(statement, session, place.project))
