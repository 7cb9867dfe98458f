"""Search by meaning without a router: what one command reads, makes and counts of vectors."""

from __future__ import annotations

import time

from kingly_memory.app import parts
from kingly_memory.errors import InvalidSetting
from kingly_memory.models import JsonObject, MemoryStatus, Query
from kingly_memory.ports import StoreReader
from kingly_memory.router.search.meaning import BITE, PAGE, MeaningSearch, VectorSearch
from kingly_memory.settings import Settings

PATIENCE_S = 0.5
"""What a command reads and makes of vectors at most, once the table is there: some ten thousand, or a thousand."""
COUNTING_S = 0.2
_STAYING = "a router that stays open (the MCP server, your program)"
TOO_MANY = f"there are too many to read for one command; {_STAYING} has them"
UNMADE = f"not all memories have theirs yet; {_STAYING} makes them"


def by_meaning(
    reader: StoreReader, space: str, settings: Settings, *, repairs: bool, unanswered: str | None
) -> MeaningSearch | None:
    """A local side that finds by meaning too, if anything is there to do that with and to find. Takes up to 0.5 s
    and what the table takes; what is not light is left to routers that stay open. `unanswered` is the question where
    words found nothing: then there is nothing to find either when the table knows none of them."""
    try:
        light = parts.light_meaning(settings)
    except InvalidSetting:  # said by `doctor`; words answer all the same
        return None
    if light is None or not reader.page(Query("", space), (MemoryStatus.LIVE,), 1, None):
        return None
    vectors = VectorSearch(space, light[1], reader.vectors)
    if unanswered is not None and not any(vectors.embedder.embed([unanswered], is_question=True)[0]):
        return None
    vectors.prepare()
    deadline_s = time.monotonic() + PATIENCE_S
    if not vectors.load(deadline_s):
        vectors.give_up(TOO_MANY)
    elif not _complete(vectors, reader, deadline_s):
        vectors.remark = UNMADE
    # Nothing is written down, so nobody needs to know what is out of date; what can be read in time has been read.
    return MeaningSearch(reader, vectors=vectors, words_weight=settings.words_weight, repairs=repairs)


def vectors_status(reader: StoreReader, space: str, settings: Settings) -> JsonObject:
    """What makes vectors, and how many memories have none, None when there is no time to count them; empty where
    memories are found by words alone. Loads no table."""
    try:
        light = parts.light_meaning(settings)
    except InvalidSetting:
        return {}
    if light is None:
        return {}
    waiting = reader.vectors.lacking_count(light[0], space, time.monotonic() + COUNTING_S)
    return {"vectors": {"embedder": light[0], "waiting": waiting}}


def _complete(vectors: VectorSearch, reader: StoreReader, deadline_s: float) -> bool:
    """Make the vectors that are missing; False when there was no time for them all."""
    position, at_end = 0, False
    while not at_end:
        lacking = reader.vectors.lacking(vectors.embedder.name, vectors.space, position, PAGE, deadline_s)
        if lacking is None:
            return False
        for start in range(0, len(lacking), BITE):
            if time.monotonic() >= deadline_s:
                return False
            vectors.add(lacking[start : start + BITE])
        at_end = len(lacking) < PAGE
        if not at_end:
            position = lacking[-1].position
    return True
