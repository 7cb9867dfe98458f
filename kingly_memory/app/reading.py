"""Reading without a router: for hooks and one-shot commands. Loads neither asyncio nor httpx nor diskcache."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kingly_memory import validation
from kingly_memory.app import parts
from kingly_memory.dataclass import replace
from kingly_memory.errors import StoreError
from kingly_memory.home.place import Place
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Page, Receipt, Results, project_and_user
from kingly_memory.ports import Transaction
from kingly_memory.router.lifecycle import alive
from kingly_memory.router.view import View
from kingly_memory.settings import Settings

if TYPE_CHECKING:
    from kingly_memory.cognition.links import Link
    from kingly_memory.documents import Document, Namespace
    from kingly_memory.imported import ExportedMemory
    from kingly_memory.router.attention.candidates import Surroundings
    from kingly_memory.router.search.local import LocalSearch


ANSWERED_BY_WORDS = 0.5
"""The relevance of the best hit from which one command does not load the model, which takes it 0.15 s: the
memory holds half of the question's words."""


class WallClock:
    """`SystemClock` would load asyncio."""

    def now(self) -> datetime:
        return datetime.now(UTC)


DOCUMENTS_READ, EXPORTED_TOGETHER = 50, 200
MOST_BEGINNING = 50
"""Memories of all projects that are looked at for those whose ids begin in some way."""


class LocalReader(View):
    """One project's memories on this machine. Asks no remote, and writes nothing but what `store` and `note_used` are
    told."""

    def __init__(self, place: Place, settings: Settings, *, repairs: bool, meaning: bool = False) -> None:
        self._place = place
        self.settings = settings
        self._is_by_meaning = meaning
        self._is_closed = False
        station = parts.station(place, settings, parts.reached(place))
        store = parts.open_store(place, settings)  # after what may raise: it counts as in use until it is closed
        self.rows = store.reader
        self._repairs = repairs
        super().__init__(station, store=store, local=alive.Visible(store.reader), clock=WallClock())

    @cached_property
    def _words(self) -> LocalSearch:
        from kingly_memory.router.search.local import LocalSearch  # a command that names its memory does without

        return LocalSearch(self.rows, repairs=self._repairs)

    def search(
        self,
        query: str,
        *,
        fold: bool = False,
        detail: str = "full",
        budget_tokens: int | None = None,
        min_relevance: float | None = None,
        after: str | None = None,
        **filters: Any,
    ) -> Results:
        """What `MemoryRouter.search` would answer now from the local layer; the same filters, the same errors. Repeats
        stay unless `fold` is on: a hook tells by more than the words which of them may be shown."""
        from kingly_memory.router.search import search as steps  # a hook looks for candidates instead

        words, began = self._words, time.monotonic()
        request = steps.request(fold, detail, budget_tokens, min_relevance=min_relevance)
        asked = validation.query(query, space=self._place.space, wide=True, needs_words=True, **filters)
        asked = steps.continuing(asked, request, after)
        now_s, local_s = self._now_s(), self.settings.local_search_s
        wording = words.word(asked, budget_s=local_s)
        answer = steps.look(words, asked, request, now_s=now_s, deadline_s=began + local_s, wording=wording)
        if self._is_by_meaning and (not answer.hits or answer.hits[0].relevance < ANSWERED_BY_WORDS):
            from kingly_memory.app.meaning import by_meaning
            from kingly_memory.router.search.local import spelt

            unanswered = None if answer.hits else spelt(asked, wording.repaired).text
            layer = by_meaning(
                self.rows, self._place.space, self.settings, repairs=self._repairs, unanswered=unanswered
            )
            if layer is not None:
                deadline_s = time.monotonic() + local_s
                answer = steps.look(layer, asked, request, now_s=now_s, deadline_s=deadline_s, wording=wording)
        listed = steps.listed(steps.local_results(asked, answer), request, asked)
        results = steps.shaped(listed, asked, request, self, local_s)
        return replace(results, took_ms=(time.monotonic() - began) * 1000)

    def surroundings(self) -> Surroundings:
        """Where candidates for a prompt or a session's start are looked for: see `router.attention`."""
        from kingly_memory.router.attention.candidates import Surroundings

        now_s = self._now_s()
        return Surroundings(self.rows, self._words, self._place.space, self._place.agent, now_s)

    def store(
        self, content: str, *, ttl: validation.Ttl = validation.USUAL, if_revision: int | None = None, **fields: Any
    ) -> Receipt:
        """What `MemoryRouter.store` does where no remote is in use, outside of every context."""
        from kingly_memory.lifecycle.lifetimes import usual_lifetimes
        from kingly_memory.router import write

        if if_revision is not None:
            validation.count("if_revision", if_revision, least=0, most=validation.LARGEST_REVISION)
        draft = validation.draft(content, ttl=ttl, **fields)
        context = write.WriteContext(
            self._place.space,
            self._place.agent,
            None,
            usual_lifetimes(self.settings.lifetimes),
            self._clock.now(),
            tiers=self.settings.tiers,
            redacts=self.settings.redact_secrets,
        )
        stored = self._store.write(write.store(draft, context, if_revision=if_revision, folds=True))
        return stored.result().receipt

    def note_used(self, memory_ids: Sequence[str]) -> None:
        """Renew the lifetimes that count from the last use. Most memories have none, and then nothing is written."""
        counting = [one for one, lifetime in self._local.lifetimes(memory_ids).items() if lifetime.slides]
        if not counting:
            return
        now_s = self._now_s()

        def change(transaction: Transaction) -> None:
            for memory_id in counting:
                alive.note(transaction, memory_id, now_s)

        try:
            self._store.write(change).result()
        except StoreError as error:  # reading goes on where nothing can be written
            from kingly_memory.observe import log  # loads logging, which a hook has no use for

            log.warning("the use of %d memories was not noted: %s", len(counting), error)

    def named(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Those of the project's memories that have these ids or keys, expired and archived ones too: for telling what
        becomes of them."""
        rows = ((memory_id, self.readable(memory_id)) for memory_id in ids)
        return {one: row.memory for one, row in rows if row is not None and row.status is not MemoryStatus.FORGOTTEN}

    def ids_beginning(self, beginning: str) -> Sequence[str]:
        """Ids of the project's memories that begin with that text, whatever their status."""
        return [one for one in self.rows.ids_beginning(beginning, MOST_BEGINNING) if self.readable(one) is not None]

    def list(self, limit: int = 50, before: int | None = None, *, forgotten: bool = False, **filters: Any) -> Page:
        query = validation.query("", space=self._place.space, wide=True, limit=limit, **filters)
        return self.page(query, before, forgotten=forgotten)

    def of_users(self) -> Iterator[tuple[str | None, LocalReader]]:
        """Readers for all that the project holds: this one and one for each of its users, or this one alone where it
        is of a user."""
        yield self._place.user, self
        if self._place.user is not None:
            return
        spaces = [project_and_user(space.name) for space in self.rows.spaces() if space.is_used]
        for user in (user for project, user in spaces if project == self._place.project and user is not None):
            reader = LocalReader(replace(self._place, user=user), self.settings, repairs=self._repairs)
            with closing(reader):
                yield user, reader

    def exported(self) -> Iterator[ExportedMemory]:
        """Every memory that an export has, with what lies beside it."""
        from kingly_memory.imported import CARRIED, ExportedMemory

        for page in validation.batches(self.export(), EXPORTED_TOGETHER):
            ids = [memory.id for memory, _ in page]
            facets = self.rows.facets_of(dict.fromkeys(CARRIED, ids))
            for memory, status in page:
                earlier = self.rows.revisions(memory.id) if memory.revision > 1 else ()
                beside = {name: facets[name][memory.id] for name in CARRIED if memory.id in facets[name]}
                yield ExportedMemory(memory, status, tuple(reversed(earlier)), beside)

    def contexts(self, context_ids: Iterable[str]) -> Iterator[tuple[str, dict[str, JsonObject]]]:
        """What was said of those contexts as threads, if anything was."""
        from kingly_memory.cognition.owners import owner
        from kingly_memory.imported import FROM_FILE

        for context_id in context_ids:
            whose = owner(self._place.space, context_id)
            facets = self.rows.facets_of({name: [whose] for name in FROM_FILE})
            if facets_found := {name: facets[name][whose] for name in FROM_FILE if whose in facets[name]}:
                yield context_id, facets_found

    def links_from(self, memory_ids: Sequence[str]) -> Iterator[Link]:
        """Every link from one of the memories to another of them."""
        from kingly_memory.cognition import links

        ids = frozenset(memory_ids)
        for page in validation.batches(memory_ids, EXPORTED_TOGETHER):
            for memory_id, beside in links.beside(self.rows, page).items():
                yield from (link for link in beside if link.source == memory_id and link.target in ids)

    def documents(self) -> Iterator[tuple[Document, str]]:
        """Every document of the project that has not ended, and the text that it is found by; and every item of its
        logs."""
        from kingly_memory.documents import LOG

        rows, space = self.rows.documents, self._place.space
        beginnings: tuple[Namespace, ...] = ((), (LOG,))
        for prefix in beginnings:
            last: tuple[Namespace, str] | None = None
            while page := rows.documents(space, prefix, self._now_s(), DOCUMENTS_READ, last):
                for document in page:
                    yield document, rows.found_by(space, document.namespace, document.key)
                last = page[-1].namespace, page[-1].key

    def status(self) -> JsonObject:
        """See `MemoryRouter.status`; `vectors` says how many memories have none yet, None when that takes too long."""
        from kingly_memory.app.meaning import vectors_status
        from kingly_memory.router.attention import focus

        return {
            **super().status(),
            **vectors_status(self.rows, self._place.space, self.settings),
            **focus.status(self.rows, self._place.space),
        }

    def close(self) -> None:
        """Let go of the store. Safe to call twice."""
        if not self._is_closed:
            self._is_closed = True
            self._store.close()


def open_reader(
    place: Place, settings: Settings | None = None, *, repairs: bool = True, meaning: bool = False
) -> LocalReader:
    """A reader for that place; `repairs=False` looks words up as they are, typos included. With `meaning` a search that
    words leave open reads vectors where there are any, for up to 0.5 s, and memories are found by these too.

    Raises InvalidInput, InvalidSetting, StoreDamaged or StoreUntrusted.
    """
    chosen = settings or Settings.from_environment(home=place.home)
    return LocalReader(parts.checked(place), chosen, repairs=repairs, meaning=meaning)
