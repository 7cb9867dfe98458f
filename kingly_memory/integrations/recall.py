"""Recalling for a hook: which stored memories a prompt or a session's start gets to see. Reads on this machine only."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.app.reading import LocalReader, open_reader
from kingly_memory.attention.injection import Budget, Candidate, Injection, inject
from kingly_memory.attention.pertinence import LEAST, pertinence
from kingly_memory.errors import StoreUntrusted
from kingly_memory.models import CONFIDENCE_ASSESSMENT
from kingly_memory.settings import Place, Settings

if TYPE_CHECKING:
    from kingly_memory.models import Memory

LOOKED_AT = 20
"""Memories that are looked at for one injection."""
WEIGHTY = 0.7
"""Significance from which a memory comes before later ones at a session's start."""
WEIGHED = 200
"""The project's latest memories, of which the weightiest are looked for."""


def for_prompt(prompt: str, place: Place, settings: Settings) -> Injection:
    """The notes that fit the prompt, best first. Raises StoreError."""
    check_private(place.home)
    with closing(open_reader(place, settings, repairs=False)) as reader:
        found = reader.search(prompt, limit=LOOKED_AT)
    asked = prompt if found.asked is None else found.asked
    candidates = (Candidate(hit.memory, _fitness(asked, hit.memory)) for hit in found)
    return inject(candidates, agent=place.agent, budget=_budget(settings), least_relevance=LEAST)


def for_start(session: str | None, place: Place, settings: Settings) -> Injection:
    """What this session has said, then what weighs most, then what is latest in the project. Raises StoreError."""
    check_private(place.home)
    with closing(open_reader(place, settings, repairs=False)) as reader:
        candidates = list(_of_project(reader, session))
    return inject(candidates, agent=place.agent, budget=_budget(settings))


def check_private(home: Path) -> None:
    """Raise StoreUntrusted unless the store is closed to others, as this program makes it.

    A store that came with a checkout has the modes of one. Its memories could claim to be the user's.
    """
    try:
        status = (home / "store").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise StoreUntrusted(str(home / "store"), "other users may look into it, so it may have come with a checkout")


def _of_project(reader: LocalReader, session: str | None) -> Iterator[Candidate]:
    own = reader.list(limit=LOOKED_AT, context_id=session).memories if session else ()
    latest = reader.list(limit=WEIGHED).memories
    weighty = [memory for memory in latest if memory.significance >= WEIGHTY]
    weighty.sort(key=lambda memory: memory.significance, reverse=True)
    ordered = (*own, *weighty[:LOOKED_AT], *latest[:LOOKED_AT])
    told = {memory.id: memory for memory in ordered if CONFIDENCE_ASSESSMENT not in memory.tags}
    yield from map(Candidate, told.values())


def _fitness(prompt: str, memory: Memory) -> float:
    return pertinence(prompt, f"{memory.title} {memory.content}" if memory.title else memory.content)


def _budget(settings: Settings) -> Budget:
    return Budget(tokens=settings.hook_tokens)
