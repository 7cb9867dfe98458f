"""Capturing a session: read on in its transcript, store what is worth keeping and not known yet, and note which of the
memories that were put beside its prompts the assistant has drawn on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.adapters.local.folder import Folder, locked
from kingly_memory.adapters.local.trusted import check_trusted
from kingly_memory.app import parts
from kingly_memory.app.reading import open_reader
from kingly_memory.attention.pertinence import draws_on
from kingly_memory.attention.statements import Message, Statement, statements
from kingly_memory.dataclass import replace
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput, StoreBusy
from kingly_memory.home.own_files import check_folder, opened
from kingly_memory.home.place import Place
from kingly_memory.hosts.transcript import handed_over, read_since
from kingly_memory.ids import MemoryId
from kingly_memory.models import Taken
from kingly_memory.router import capturing
from kingly_memory.settings import Settings

BUDGET_S = 10.0
"""After so long no further portion is begun: a host ends the hook at some time, see `cli.hook`."""
MOST_SHOWN = 50
"""Memories of a session that are held against what the assistant says, those that were put in last."""
MOST_SESSIONS = 500
"""The sessions read last are remembered. To read one again from its beginning would do no harm."""
_LOCK_WAIT_S = 2.0


def keep(
    session: str,
    transcript: Path | list[Any],
    place: Place,
    settings: Settings,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> Taken:
    """Store what was said since the last time and is worth keeping. Doing so again, or twice at once, changes nothing.

    `session` becomes the context id of what is kept. `transcript` is a file that is read on, or entries that are handed
    over once. Goes through it portion by portion, and leaves to the next time what there is no time for. Raises
    TranscriptUnreadable, InvalidInput, StoreError; what was not stored is then read again the next time.
    """
    with ExitStack() as held:
        # The hooks for a turn's end and a session's end come at the same time. The later one waits, has nothing left to
        # read, and does not count use a second time. After as long as a capture may take it goes ahead: what two of
        # them find is stored once.
        if place.home.is_dir():
            with suppress(StoreBusy):
                held.enter_context(locked(place.home / "capturing.lock", BUDGET_S))
        check_trusted(place.home)
        progress, latest = Progress(place.home), monotonic() + BUDGET_S
        end, more, room = progress.end(session), True, settings.capture_most
        taken = Taken()
        while more and room and monotonic() < latest:
            passage = handed_over(transcript) if isinstance(transcript, list) else read_since(transcript, end)
            end, more = passage.end, passage.more
            new = _new(list(statements(passage.messages)), room, place, settings)
            used = _used(passage.messages, session, place, settings)
            if new or used:
                stored = _store(new, used, session, place, settings)
                taken = taken.and_more(stored)
            room -= len(new)
            if place.home.is_dir():
                progress.save(session, end)
        if more and not place.home.is_dir():  # else nothing is founded only to note that there was nothing to keep
            Folder(place.home).make()
            progress.save(session, end)
        return taken


def _new(candidates: Sequence[Statement], most: int, place: Place, settings: Settings) -> list[Statement]:
    """The statements that are new and worth keeping."""
    if not candidates:
        return []
    with closing(open_reader(place, settings, repairs=False)) as reader:
        return capturing.news(
            candidates, most, lambda text: [hit.memory for hit in reader.search(text, limit=capturing.LOOKED_AT)]
        )


def _used(messages: Sequence[Message], session: str, place: Place, settings: Settings) -> list[MemoryId]:
    """The memories put into this session that the assistant has drawn on."""
    shown_s = parts.injections(place).ever(session)
    if not shown_s or not any(one.speaker == "assistant" for one in messages):
        return []
    latest = sorted(shown_s, key=shown_s.__getitem__)[-MOST_SHOWN:]
    with closing(open_reader(place, settings, repairs=False)) as reader:
        shown = [memory for one in latest if (memory := reader.get(one)) is not None]
    texts = {memory.id: f"{memory.title} {memory.content}" if memory.title else memory.content for memory in shown}
    used: dict[MemoryId, None] = {}
    question = ""
    for message in messages:
        if message.speaker == "user":
            question = message.text
        else:
            used |= {one: None for one, text in texts.items() if draws_on(text, question, message.text)}
    return list(used)


def _store(new: Sequence[Statement], used: Sequence[MemoryId], session: str, place: Place, settings: Settings) -> Taken:
    from kingly_memory.blocking import SyncMemoryRouter

    entries = [capturing.entry(one, session, place.space, place.agent) for one in new]
    # Nobody waits for us, and a session's last hook has no later one that could make up for what a busy disk refused.
    settings = replace(settings, pace=replace(settings.pace, lock_wait_s=BUDGET_S))
    # Without a remote, so that nobody waits for one; whoever delivers for this project next takes them along.
    with SyncMemoryRouter.open(
        place.home, remote=False, project=place.project, user=place.user, agent=place.agent, settings=settings
    ) as router:
        taken = router.remember(entries)
        with suppress(InvalidInput):  # one of them was forgotten just now
            router.continuum.update_outcome(used, success=False)
        return taken


class Progress:
    """How far each session's transcript has been read, durably: so that nothing is read twice, and nothing left out.

    A file beside the store, shared by every host that works on this home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / "captured.json"

    def end(self, session: str) -> int:
        """The byte at which reading goes on; 0 for a session that is not known."""
        return self._read().get(_digest(session), (0, 0.0))[0]

    def save(self, session: str, end: int) -> None:
        """Raises StoreBusy, StoreUnwritable or InvalidInput when that is not possible."""
        with locked(self._home / "captured.lock", _LOCK_WAIT_S):
            ends = {**self._read(), _digest(session): (end, time.time())}
            latest = sorted(ends.items(), key=lambda item: item[1][1])[-MOST_SESSIONS:]
            with replacing(self._path) as file:
                json.dump({"sessions": dict(latest)}, file)

    def _read(self) -> dict[str, tuple[int, float]]:
        """What the file says; empty when there is no file or it cannot be understood. Raises StoreUntrusted."""
        check_folder(self._home)
        try:
            with os.fdopen(opened(self._path, os.O_RDONLY), "rb") as file:
                sessions = json.load(file)["sessions"]
            return {str(name): (max(int(end), 0), float(at)) for name, (end, at) in sessions.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            return {}


def _digest(session: str) -> str:
    """The digest of a host's name for something. The name itself never becomes part of a file's structure or name."""
    return sha256(session.encode(errors="replace")).hexdigest()[:32]
