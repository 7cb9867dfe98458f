"""Recalling for a hook: which stored memories a prompt or a session's start gets to see. Reads on this machine only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from kingly_memory.adapters.local.trusted import check_trusted
from kingly_memory.app import parts
from kingly_memory.app.reading import LocalReader, open_reader
from kingly_memory.attention.injection import Budget, inject
from kingly_memory.attention.pertinence import LEAST
from kingly_memory.models import CONFIDENCE_ASSESSMENT
from kingly_memory.router.attention import candidates

if TYPE_CHECKING:
    from kingly_memory.home.place import Place
    from kingly_memory.models import Memory
    from kingly_memory.router.attention.candidates import Gathered, Surroundings
    from kingly_memory.settings import Settings

LOOKED_AT = 20
"""Memories that are looked at for one injection."""
WEIGHTY = 0.7
"""Significance from which a memory comes before later ones at a session's start."""
WEIGHED = 200
"""The project's latest memories, of which the weightiest are looked for."""
PINNED = "pinned"
"""Tag of memories that may be pinned; the facet `attention` says whether one still is."""


NotesBlock = tuple[str, Callable[[float], None]]
"""The block of notes, and a function that records that it was put in, and in how many milliseconds."""


def for_prompt(prompt: str, session: str | None, place: Place, settings: Settings) -> NotesBlock:
    """The notes that fit the prompt, best first, but for those that the session has. Raises StoreError."""
    check_trusted(place.home)
    with closing(open_reader(place, settings, repairs=False)) as reader:
        around = reader.surroundings()
        gathered = reader.rows.in_one_go(lambda: candidates.for_prompt(prompt, around, settings.local_search_s))
    return _recalled(gathered, session, place, settings, around, occasion="prompt", least=LEAST)


def for_start(session: str | None, place: Place, settings: Settings, *, anew: bool) -> NotesBlock:
    """What is pinned, then what this session has said, then what weighs most, then what is latest in the project.

    `anew`: the session has lost what was put in before, and gets it again. Raises StoreError.
    """
    check_trusted(place.home)
    with closing(open_reader(place, settings, repairs=False)) as reader:
        around = reader.surroundings()
        gathered = reader.rows.in_one_go(lambda: candidates.for_start(_of_project(reader, around, session), around))
    return _recalled(gathered, session, place, settings, around, occasion="start", anew=anew)


def _recalled(
    gathered: Gathered,
    session: str | None,
    place: Place,
    settings: Settings,
    around: Surroundings,
    *,
    occasion: str,
    least: float = 0.0,
    anew: bool = False,
) -> NotesBlock:
    log = parts.injections(place)
    seen = log.of(session) if session and not anew else {}

    injection = inject(
        gathered.candidates,
        agent=place.agent,
        budget=Budget(tokens=settings.hook_tokens),
        least_pertinence=least,
        focuses=gathered.focuses,
        seen=seen,
    )

    def remember(took_ms: float) -> None:
        if session and anew:
            log.clear(session, around.now_s)
        if session:
            log.note(session, injection.put_in, around.now_s, injection.account(occasion, took_ms))

    return injection.text, remember


def _of_project(reader: LocalReader, around: Surroundings, session: str | None) -> Iterator[Memory]:
    tagged = reader.list(limit=WEIGHED, tags=(PINNED,)).memories
    facets = around.reader.facets("attention", [memory.id for memory in tagged])
    pins = {name: facet.get("weight") for name, facet in facets.items() if facet.get("pinned") is True}
    weights = {name: weight if isinstance(weight, int | float) else 1.0 for name, weight in pins.items()}
    pinned = [memory for memory in tagged if memory.id in weights]
    pinned.sort(key=lambda memory: weights[memory.id], reverse=True)
    own = reader.list(limit=LOOKED_AT, context_id=session).memories if session else ()
    latest = reader.list(limit=WEIGHED).memories
    weighty = [memory for memory in latest if memory.significance >= WEIGHTY]
    weighty.sort(key=lambda memory: memory.significance, reverse=True)
    for memory in (*pinned, *own, *weighty[:LOOKED_AT], *latest[:LOOKED_AT]):
        if CONFIDENCE_ASSESSMENT not in memory.tags:
            yield memory
