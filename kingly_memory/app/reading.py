"""Reading without a router: for hooks and one-shot commands. Loads neither asyncio nor httpx nor diskcache."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kingly_memory import intake
from kingly_memory.app import parts
from kingly_memory.models import Hit, JsonObject, LayerReport, Memory, Page, Results, Source, Standing
from kingly_memory.router import shaping
from kingly_memory.router.link import Link
from kingly_memory.router.local_search import LocalSearch
from kingly_memory.router.view import View
from kingly_memory.settings import Place, Settings

if TYPE_CHECKING:
    from kingly_memory.router.outbox import OutboxEntry


class WallClock:
    """`SystemClock` would load asyncio."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class LocalReader:
    """One project's memories on this machine, read-only. Notes no use and asks no remote."""

    def __init__(self, place: Place, settings: Settings, *, repairs: bool = True) -> None:
        self._place = place
        self._settings = settings
        self._endpoint = parts.endpoint_of(place)
        self._store = parts.open_store(place, settings)
        self._local = LocalSearch(self._store.reader, likeness=False, repairs=repairs)
        self._clock = WallClock()
        station = parts.station(place, settings, self._endpoint)
        self._view = View(station, store=self._store, local=self._local, clock=self._clock)

    def answers_alone(self) -> bool:
        """True when no remote would be asked now: none is named, or it is offline and its next probe is not due."""
        return self._view.answers_alone()

    def link(self) -> Link | None:
        """The link as this machine knows it; None when no remote is named."""
        return self._view.link()

    def search(
        self, query: str, *, fold: bool = False, detail: str = "full", budget_tokens: int | None = None, **filters: Any
    ) -> Results:
        """What `MemoryRouter.search` would answer now from the local layer; the same filters, the same errors. Repeats
        stay unless `fold` is on: a hook tells by more than the words which of them may be shown."""
        began = time.monotonic()
        shape = shaping.shape(fold, detail, budget_tokens)
        unsought = intake.unsought(filters.get("tags"))
        asked = intake.query(query, project=self._place.project, without_tags=unsought, **filters)
        now_s = self._clock.now().timestamp()
        pooled = replace(asked, limit=shape.pool(asked.limit))
        answer = self._local.search(pooled, now_s=now_s, budget_s=self._settings.local_search_s)
        hits = tuple(Hit(one.memory, one.relevance, ("local",), one.scores) for one in answer.hits)
        found = Results(
            hits=hits,
            source=Source.LOCAL,
            took_ms=(time.monotonic() - began) * 1000,
            layers={"local": LayerReport(answer.took_ms, len(hits), answer.cut)},
            repaired=answer.repaired,
            asked=asked.asked,
        )
        return shape.shown(shape.folded(found, asked.limit), asked.text)

    def get(self, key_or_id: str) -> Memory | None:
        return self._view.get(key_or_id)

    def named(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Those of the project's memories that have these ids, expired and archived ones too: for lists of what becomes
        of them."""
        rows = ((memory_id, self._view.find(memory_id)) for memory_id in ids)
        return {one: row.memory for one, row in rows if row is not None and row.standing is not Standing.FORGOTTEN}

    def list(self, limit: int = 50, before: int | None = None, **filters: Any) -> Page:
        query = intake.query("", project=self._place.project, limit=limit, **filters)
        return self._view.page(query, before)

    def export(self) -> Iterator[tuple[Memory, Standing]]:
        """See `MemoryRouter.export`."""
        return self._view.everything()

    def outbox(self, states: Sequence[str]) -> Sequence[OutboxEntry]:
        """See `MemoryRouter.outbox`."""
        return self._view.outbox(states)

    def status(self) -> JsonObject:
        return self._view.status()

    def close(self) -> None:
        self._store.close()


def open_reader(place: Place, settings: Settings | None = None, *, repairs: bool = True) -> LocalReader:
    """A reader for that place; `repairs=False` looks words up as they are, typos included.

    Raises InvalidInput, InvalidSetting, StoreDamaged or StoreUntrusted.
    """
    return LocalReader(parts.checked(place), settings or Settings.from_environment(home=place.home), repairs=repairs)
