"""The router: every memory goes to the local layer first and, above significance 0.3, to the remote behind it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from kingly_memory import intake
from kingly_memory.cognition.working import CURRENT, WorkingContext
from kingly_memory.errors import InvalidInput, KinglyMemoryError, RemoteUnavailable
from kingly_memory.intake import CONFIDENCE, SIGNIFICANCE, TTL, TYPE, Draft, Imported, Ttl
from kingly_memory.models import (
    DEEP_KINDS,
    QUICK_KINDS,
    REMOTE_ABOVE,
    DeliveryState,
    Memory,
    Page,
    Query,
    Receipt,
    Results,
    Standing,
    Taken,
)
from kingly_memory.observe import MemoryStored
from kingly_memory.router import write
from kingly_memory.router.context_gather import RELATED_LIMIT
from kingly_memory.router.searching import moded, shaping
from kingly_memory.router.searching.moded import Plan
from kingly_memory.router.searching.shaping import SHOWING_SHARE, Shape
from kingly_memory.router.upkeep import Upkeep
from kingly_memory.router.write import Stored

if TYPE_CHECKING:  # read by whoever has memories checked
    from kingly_memory.ports import LanguageModel
    from kingly_memory.router.searching.verified import VerifiedRetriever

log = logging.getLogger("kingly_memory.router")

IMPORT_BATCH = 200
WHISPERS_WAITED_FOR = 5
"""A store waits for the whispers that it makes due, unless it was a very long note."""


class Router(Upkeep):
    """The spine with its verbs. `kingly_memory.MemoryRouter` is this with the parts picked; use it as `async with`."""

    @property
    def project(self) -> str:
        """Whose memories these are."""
        return self._station.project

    # --- memories -----------------------------------------------------------------------------------------------------

    async def store(
        self,
        content: str,
        key: str | None = None,
        type: str = TYPE,
        significance: float = SIGNIFICANCE,
        confidence: float = CONFIDENCE,
        tags: Sequence[str] = (),
        title: str | None = None,
        context_id: str | None = None,
        origin: str = "agent",
        metadata: Mapping[str, Any] | None = None,
        ttl: Ttl = TTL,
        wait: float | None = None,
        require_remote: bool = False,
    ) -> Receipt:
        """Store a memory; it is durable and searchable when this returns, whatever the remote does.

        A key that the project has already gets a new revision, whichever agent stored it: the text is replaced, and
        what you do not say (type, significance, tags, …) stays as it was; `tags=[]` takes all tags away.

        `type` is semantic, episodic, procedural or working, or a kind, which is a type with a lifetime. `ttl` says when
        the memory ends, counted from now: seconds, a timedelta, a text such as "7d", or None for never. Not given, a
        memory has no end, but for working ones (30 minutes after their last use) and kinds. What has ended goes to the
        archive; working memories are erased. The receipt's `ends_at` says when that is.

        Above significance 0.3 the memory is delivered to the remote in the background: `wait` seconds for that, or
        `require_remote=True` to raise RemoteUnavailable (with the receipt) when it is not there by then (5 s if `wait`
        is not given). Raises InvalidInput, StoreError.
        """
        draft = intake.draft(
            content,
            content_limit_bytes=self._settings.content_limit_bytes,
            key=key,
            type=type,
            significance=significance,
            confidence=confidence,
            tags=tags,
            title=title,
            context_id=context_id,
            origin=origin,
            metadata=metadata,
            ttl=ttl,
        )
        if require_remote and draft.significance <= REMOTE_ABOVE:
            raise InvalidInput("require_remote", f"significance {draft.significance:g} stays on this machine")
        patience_s = self._patience_s(wait, require_remote)
        receipt = await self.put(draft)
        if patience_s > 0 and receipt.delivery is DeliveryState.PENDING:
            receipt = await self._awaited(receipt, patience_s)
        if require_remote and receipt.delivery is not DeliveryState.DELIVERED:
            raise RemoteUnavailable(await self._why_not_there(receipt), receipt=receipt)
        return receipt

    async def put(self, draft: Draft, *, noted: bool = True) -> Receipt:
        """Store a draft that has been checked, `noted` in its working context. Raises StoreError."""
        context_id = self._contexts.resolve_to_store(draft.context_id)
        placed = replace(draft, context_id=context_id)
        used_s = self._contexts.last_use(context_id)
        stored = await self._write(write.store(placed, self._write_context(), noted=noted, context_used_s=used_s))
        await self._follow(stored)
        return stored.receipt

    async def search(
        self,
        query: str,
        limit: int = 10,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        agent: str | None = None,
        context_id: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        prefer_speed: bool = False,
        include_semantic: bool = True,
        include_archived: bool = False,
        include_linked: bool = False,
        mode: str | None = None,
        top_k: int | None = None,
        min_confidence: float | None = None,
        min_similarity: float | None = None,
        fold: bool = True,
        detail: str = "full",
        budget_tokens: int | None = None,
        by_ranks: bool = False,
    ) -> Results:
        """The memories that answer the query, best first, from every layer that answers within 200 ms. When nothing
        that is alive answers it, memories that have ended do, and these hits say `archived`.

        `prefer_speed` is content with the local layer when that finds anything; `include_semantic=False` never asks
        the remote, and no more does a search for kinds alone that are wanted at once (task_status, current_context,
        quick_lookups). `include_linked` adds the memories linked to each hit. `tags` must all be present; `since` and
        `until` bound `created_at`.

        `mode` says what the search is for (broad, precise, diagnostic, learning, recall; `auto` asks the question), and
        with it how many hits, in which order: docs/search.md. `top_k`, `min_confidence` and `min_similarity` override
        what the mode says; without a mode they leave the plain order as it is. With the setting `verification_enabled`
        a search in a mode also checks what it finds (`verdicts`), which takes longer.

        Hits that say the same are one hit, and `folded` names the others, unless `fold` is off. `detail` shows titles,
        passages or all of each memory, and `budget_tokens` as much of the best hits as fits, all together: `shown`.
        `by_ranks` has the list in the order of reciprocal rank fusion; a mode has an order of its own. Raises
        InvalidInput.
        """
        await self._opened()
        began = self._clock.monotonic()
        shape = shaping.shape(fold, detail, budget_tokens, by_ranks)
        asked = intake.query(
            query,
            project=self._station.project,
            limit=limit,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            since=since,
            until=until,
            include_archived=include_archived,
            without_tags=intake.unsought(tags),
        )
        asked = replace(asked, or_ended=not include_archived)
        plan = moded.plan(
            asked.text,
            mode,
            settings=self._settings,
            limit=asked.limit,
            top_k=top_k,
            min_confidence=min_confidence,
            min_similarity=min_similarity,
            fold=shape.fold,
        )
        kinds = {types} if isinstance(types, str) else set(types or ())
        prefer_speed = prefer_speed and not kinds & DEEP_KINDS.keys()
        include_semantic = include_semantic and not (kinds and kinds <= QUICK_KINDS.keys())
        asked = replace(asked, context_id=self._contexts.resolve(asked.context_id))
        ways = {"prefer_speed": prefer_speed, "include_semantic": include_semantic}
        if plan is None:
            results = await self._gatherer.search(asked, shape=shape, **ways)
        else:
            results = await self._in_mode(asked, plan, **ways)
        if asked.include_archived:
            results = await self._read(lambda: self._view.marked(results))
        if shape.shortens:
            results = await self._shortened(results, shape, asked.text, began)
        self._note_found([hit.memory.id for hit in results if not hit.archived])
        if not include_linked:
            return results
        ids = [hit.memory.id for hit in results]
        return replace(results, linked=await self._read(lambda: self._associations.linked(ids, RELATED_LIMIT)))

    async def find(self, query: Query, *, prefer_speed: bool = False, include_semantic: bool = True) -> Results:
        """Answer a query that has been checked, from every layer."""
        await self._opened()
        query = replace(query, context_id=self._contexts.resolve(query.context_id))
        results = await self._gatherer.search(query, prefer_speed=prefer_speed, include_semantic=include_semantic)
        self._note_found([hit.memory.id for hit in results if not hit.archived])
        return results

    async def _shortened(self, found: Results, shape: Shape, query: str, began: float) -> Results:
        """The hits as they are to be shown, with the time since the search began."""
        deadline_s = time.monotonic() + self._settings.local_search_s * SHOWING_SHARE
        shown = await self._read(lambda: shape.shown(found, query, deadline_s))
        return replace(shown, took_ms=(self._clock.monotonic() - began) * 1000)

    async def _in_mode(self, query: Query, plan: Plan, *, prefer_speed: bool, include_semantic: bool) -> Results:
        found = await self._moded.search(query, plan, prefer_speed=prefer_speed, include_semantic=include_semantic)
        if not self._settings.verification_enabled:
            return found
        async with self._language_model() as (model, is_here):
            verified = await self._retriever(model, is_here).verify(found, query.text, top_k=max(len(found), 1))
        return replace(found, verdicts={one.memory.id: one.verification.to_json() for one in verified})

    def _language_model(self) -> AbstractAsyncContextManager[tuple[LanguageModel | None, bool]]:
        """The model that checks memories, if there is one, and whether it is on this machine."""
        return nullcontext((None, False))

    def _retriever(self, model: LanguageModel | None, is_here: bool) -> VerifiedRetriever:
        from kingly_memory.router.searching.verified import Candidates, VerifiedRetriever

        return VerifiedRetriever(
            Candidates(self._gatherer),
            model,
            self._settings.verification_threshold,
            clock=self._clock,
            verification_s=self._settings.verification_s,
            llm_timeout_s=self._settings.llm_timeout_s,
            llm_at_once=self._settings.llm_at_once,
            model_is_here=is_here,
        )

    def _note_found(self, memory_ids: Sequence[str]) -> None:
        """A search has answered with these, which are alive: each was used, and the search found something or not. What
        has ended does not come back by being found."""
        self._usage.note(memory_ids, self._now_s())
        self._lookups.note(found=bool(memory_ids))

    async def get(self, key_or_id: str) -> Memory | None:
        """The memory under that key or id, or None, also when it has ended or lies in the archive. `ends_at` says when
        it ends. Counts as a use. Raises InvalidInput on a hostile name."""
        memory = await self._read(lambda: self._view.get(key_or_id))
        if memory is not None:
            self._usage.note([memory.id], self._now_s())
        return memory

    async def list(
        self,
        limit: int = 50,
        before: int | None = None,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        agent: str | None = None,
        context_id: str | None = None,
        include_archived: bool = False,
    ) -> Page:
        """The most recently stored memories. `before` takes the previous page's `next_before`."""
        query = intake.query(
            "",
            project=self._station.project,
            limit=limit,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            include_archived=include_archived,
        )
        query = replace(query, context_id=self._contexts.resolve(query.context_id))
        start = None if before is None else intake.count("before", before, least=0, most=2**62)
        return await self._read(lambda: self._view.page(query, start))

    async def forget(self, key_or_id: str) -> Memory | None:
        """Take a memory out of sight, here at once and on the remote when it answers, and out of the summaries that
        tell of it. None when there is none.

        `restore` brings it back."""
        name = intake.required("key_or_id", key_or_id)
        gone = await self._write(write.forget(name, self._write_context()))
        self._wake(*(() if gone is None else gone.others))
        return None if gone is None else gone.memory

    async def remember(self, items: Iterable[Imported]) -> Taken:
        """Take in many memories from files, a few hundred per transaction. Repeating it changes nothing."""
        waiting, counts = iter(items), {"stored": 0, "revised": 0, "unchanged": 0, "kept": 0}
        while batch := list(islice(waiting, IMPORT_BATCH)):
            for _, fate in await self._write(write.take_in(batch, self._write_context())):
                counts[fate] += 1
            self._wake()
        return Taken(**counts)

    def export(self) -> Iterator[tuple[Memory, Standing]]:
        """Every live and archived memory of the project, in the order they were first stored."""
        return self._view.everything()

    async def working_context(self, context_id: str = CURRENT, include_related: bool = True) -> WorkingContext:
        """What is at hand in a context: its latest items (20 at most) here, merged with what the remote holds for it.

        `current` is the last context used by this process, else the last in which this agent stored something, else
        the last in which anybody of the project did. A context is over 30 minutes after its last use, and reading it is
        one. `include_related` adds the memories that are linked to the items. Raises InvalidInput.
        """
        await self._opened()
        named = self._contexts.resolve(intake.required("context_id", context_id))
        return await self._context_gatherer.gather(named or CURRENT, include_related=include_related)

    async def _follow(self, stored: Stored) -> None:
        """What comes after a store: observers, its context is in use and whispers, delivery.

        A whisper that is due stays due, so whatever prevents it is no failure of the store.
        """
        self._contexts.enter(stored.context_id)
        self._usage.note(stored.at_hand, self._now_s(), times=0)
        self._events.emit(MemoryStored(stored.receipt.id, stored.receipt.revision))
        self._wake(stored.receipt.id, *stored.others)
        if stored.whispers_due and stored.context_id is not None:
            at_once = self._whisper(stored.context_id, stored.whispers_due)
            if stored.whispers_due <= WHISPERS_WAITED_FOR:
                await at_once
            else:
                self._in_background(at_once)

    async def _whisper(self, context_id: str, due: int) -> None:
        """Store the whispers that are due. What another process notes meanwhile it whispers itself, or the next note
        does."""
        try:
            for _ in range(due):
                found = await self._read(lambda: self._contexts.due(context_id))
                if found is None or not await self._write(write.whisper(found, self._write_context())):
                    return
        except KinglyMemoryError as error:
            log.warning("a whisper waits for the next note: %s", error)

    def __repr__(self) -> str:
        status = self._view.status()
        link, waiting = status["link"]["state"], status["outbox"]["pending"]
        return f"<{type(self).__name__} link={link} outbox={waiting} local={status['memories']['total']}>"
