"""The verbs on memories: store, search, get, list, forget, and taking many in and out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from kingly_memory import validation
from kingly_memory.api.choices import DetailName, ModeName, TypeName
from kingly_memory.api.family import Family
from kingly_memory.cognition import links
from kingly_memory.cognition.context import CURRENT, WorkingContext
from kingly_memory.cognition.links import Link
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.models import DEEP_KINDS, QUICK_KINDS, Memory, Page, Receipt, Results, Standing, Taken
from kingly_memory.ports import LanguageModel
from kingly_memory.router import linking, write
from kingly_memory.router.context_gather import RELATED_LIMIT
from kingly_memory.router.search import moded
from kingly_memory.router.search.request import Request, request
from kingly_memory.validation import USUAL, Imported, Ttl

if TYPE_CHECKING:  # read by whoever has memories checked, documents or logs
    from kingly_memory.api.documents import Documents
    from kingly_memory.api.session_log import SessionLog
    from kingly_memory.documents import LogSession
    from kingly_memory.retrieval.verification import VerifiedResults

IMPORT_BATCH = 200
USUALLY_VERIFIED = 5
"""Memories that a verified search answers with unless it is told how many (seed 000)."""


class MemoryVerbs(Family):
    """The verbs on memories."""

    @cached_property
    def documents(self) -> Documents:
        """JSON or text under a namespace and a key: no memory, found by name, field or word, and in no recall."""
        from kingly_memory.api.documents import Documents

        return Documents(self._engine)

    def log(self, session: str) -> SessionLog:
        """The items of one session in order, exactly as they were appended; in no recall. Raises InvalidInput."""
        from kingly_memory.api.session_log import SessionLog

        return SessionLog(self._engine, validation.required("session", session))

    async def logs(self) -> tuple[LogSession, ...]:
        """Every session of the project whose log has items, by name. Raises StoreError."""
        engine = self._engine
        return tuple(await engine.read(lambda: engine.reader.documents.sessions(engine.project)))

    async def store(
        self,
        content: str,
        key: str | None = None,
        type: TypeName | None = None,
        significance: float | None = None,
        confidence: float | None = None,
        tags: Sequence[str] = (),
        title: str | None = None,
        context_id: str | None = None,
        origin: str = "agent",
        metadata: Mapping[str, Any] | None = None,
        ttl: Ttl = USUAL,
        wait: float | None = None,
        require_remote: bool = False,
    ) -> Receipt:
        """Store a memory; it is durable and searchable when this returns, whatever the remote does.

        A key that the project has already gets a new revision, whichever agent stored it: the text is replaced, and
        what you do not say (type, significance, tags, …) stays as it was; `tags=[]` takes all tags away. A new memory
        is semantic, with significance and confidence 0.5, unless you say otherwise.

        `type` is semantic, episodic, procedural or working, or a kind, which is a type with a lifetime. `ttl` says when
        the memory ends, counted from now: seconds, a timedelta, a text such as "7d", or None for never. Not given, a
        memory has no end, but for working ones (30 minutes after their last use) and kinds. What has ended goes to the
        archive; working memories are erased. The receipt's `ends_at` says when that is.

        Above significance 0.3 the memory is delivered to the remote in the background: `wait` seconds for that, or
        `require_remote=True` to raise RemoteUnavailable (with the receipt) when it is not there by then (5 s if `wait`
        is not given). Raises InvalidInput, StoreError.
        """
        draft = validation.draft(
            content,
            content_limit_bytes=self._engine.settings.content_limit_bytes,
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
        usual_s = self._engine.settings.call_timeout_s if require_remote else 0.0
        wait_s = usual_s if wait is None else validation.seconds("wait", wait)
        return await self._engine.put_at_remotes(draft, wait_s, require=require_remote)

    async def search(
        self,
        query: str,
        limit: int = 10,
        types: Sequence[TypeName] | None = None,
        tags: Sequence[str] | None = None,
        agent: str | None = None,
        context_id: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        prefer_speed: bool = False,
        include_semantic: bool = True,
        include_archived: bool = False,
        include_linked: bool = False,
        mode: ModeName | None = None,
        top_k: int | None = None,
        min_confidence: float | None = None,
        min_similarity: float | None = None,
        fold: bool = True,
        detail: DetailName = "full",
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
        await self._engine.opened()
        how = request(fold, detail, budget_tokens, by_ranks)
        asked = validation.query(
            query,
            project=self._engine.project,
            limit=limit,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            since=since,
            until=until,
            include_archived=include_archived,
            without_tags=validation.unsought(tags),
        )
        plan = moded.plan(
            asked.text,
            mode,
            settings=self._engine.settings,
            limit=asked.limit,
            top_k=top_k,
            min_confidence=min_confidence,
            min_similarity=min_similarity,
        )
        kinds = {types} if isinstance(types, str) else set(types or ())
        results = await self._engine.search(
            replace(asked, or_ended=not include_archived),
            replace(how, plan=plan),
            prefer_speed=prefer_speed and not kinds & DEEP_KINDS.keys(),
            include_semantic=include_semantic and not (kinds and kinds <= QUICK_KINDS.keys()),
        )
        if not include_linked:
            return results
        ids = [hit.memory.id for hit in results]
        associations = self._engine.associations
        return replace(results, linked=await self._engine.read(lambda: associations.linked(ids, RELATED_LIMIT)))

    async def search_verified(
        self,
        query: str,
        top_k: int | None = None,
        ground_truth: Sequence[str] | None = None,
        cross_verify: bool = True,
        *,
        agent: str | None = None,
        context_id: str | None = None,
        types: Sequence[TypeName] | None = None,
        tags: Sequence[str] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        include_archived: bool = False,
        include_semantic: bool = True,
        language_model: LanguageModel | None = None,
        mode: ModeName | None = None,
        min_confidence: float | None = None,
        min_similarity: float | None = None,
        fold: bool = True,
    ) -> VerifiedResults:
        """The memories that answer the query, at most `top_k`, as verified, uncertain, contradicted or unverifiable.

        `ground_truth` are texts known to be right; without them each memory is held against those most like it, unless
        `cross_verify` is off. Judged by `language_model`, else by that of KINGLY_LLM_URL, else by words, numbers and
        negations: docs/search.md. Without a mode five memories are answered unless you say how many, the best of
        four times as many that are checked; in a mode (see `search`) the hits of that mode are checked. Of those that
        say the same the surest stands for all, unless `fold` is off. Raises InvalidInput, InvalidSetting; a model that
        fails leaves memories uncertain.
        """
        engine, settings = self._engine, self._engine.settings
        await engine.opened()
        asked = validation.query(
            query,
            project=engine.project,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            since=since,
            until=until,
            include_archived=include_archived,
            without_tags=validation.unsought(tags),
        )
        if not asked.text.strip():
            raise InvalidInput("query", "is empty; say what to look for")
        asked = replace(asked, context_id=engine.contexts.resolve(asked.context_id))
        in_mode = (mode, min_confidence, min_similarity) != (None, None, None)
        plan = moded.plan(
            asked.text,
            mode,
            settings=settings,
            limit=asked.limit,
            top_k=top_k if in_mode else None,
            min_confidence=min_confidence,
            min_similarity=min_similarity,
        )
        async with AsyncExitStack() as stack:
            model, is_here = language_model, False
            if model is None:
                model, is_here = await stack.enter_async_context(engine.language_model())
            retriever = engine.retriever(model, is_here)
            if plan is None:
                wanted = USUALLY_VERIFIED if top_k is None else top_k
                results = await retriever.retrieve_verified(
                    asked, wanted, ground_truth, cross_verify, include_semantic=include_semantic, fold=fold
                )
            else:
                how = Request(fold, plan=plan)
                found = await engine.searching.find(asked, how, include_semantic=include_semantic)
                results = await retriever.verify(found, asked.text, plan.config.top_k, ground_truth, cross_verify)
        engine.note_found([one.memory.id for one in results])
        return results

    async def get(self, key_or_id: str) -> Memory | None:
        """The memory under that key or id, or None, also when it has ended or lies in the archive. `ends_at` says when
        it ends. Counts as a use. Raises InvalidInput on a hostile name."""
        memory = await self._engine.read(lambda: self._engine.view.get(key_or_id))
        if memory is not None:
            self._engine.usage.note([memory.id], self._engine.now_s())
        return memory

    async def list(
        self,
        limit: int = 50,
        before: int | None = None,
        types: Sequence[TypeName] | None = None,
        tags: Sequence[str] | None = None,
        agent: str | None = None,
        context_id: str | None = None,
        include_archived: bool = False,
    ) -> Page:
        """The most recently stored memories. `before` takes the previous page's `next_before`."""
        engine = self._engine
        query = validation.query(
            "",
            project=engine.project,
            limit=limit,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            include_archived=include_archived,
        )
        query = replace(query, context_id=engine.contexts.resolve(query.context_id))
        start = None if before is None else validation.count("before", before, least=0, most=2**62)
        return await engine.read(lambda: engine.view.page(query, start))

    async def forget(self, key_or_id: str) -> Memory | None:
        """Take a memory out of sight, here at once and on the remote when it answers, and out of the summaries that
        tell of it. None when there is none.

        `restore` brings it back."""
        name = validation.required("key_or_id", key_or_id)
        gone = await self._engine.write(write.forget(name, self._engine.write_context()))
        self._engine.wake(*(() if gone is None else gone.others))
        if gone is None:
            return None
        self._engine.take_away(gone.memory)
        return gone.memory

    async def restore(self, key_or_id: str) -> Memory | None:
        """Bring a forgotten or archived memory back, here and on the remote. None when there is none."""
        name = validation.required("key_or_id", key_or_id)
        restored = await self._engine.write(write.restore(name, self._engine.write_context()))
        self._engine.wake(*([] if restored is None else [restored.id]))
        return restored

    async def remember(self, items: Iterable[Imported]) -> Taken:
        """Take in many memories from files, a few hundred per transaction. Repeating it changes nothing."""
        waiting, counts = iter(items), {"stored": 0, "revised": 0, "unchanged": 0, "kept": 0}
        while batch := [*islice(waiting, IMPORT_BATCH)]:
            for _, fate in await self._engine.write(write.import_all(batch, self._engine.write_context())):
                counts[fate] += 1
            self._engine.wake()
        return Taken(**counts)

    def export(self) -> Iterator[tuple[Memory, Standing]]:
        """Every live and archived memory of the project, in the order they were first stored."""
        return self._engine.view.export()

    async def working_context(self, context_id: str = CURRENT, include_related: bool = True) -> WorkingContext:
        """What is at hand in a context: its latest items (20 at most) here, merged with what the remote holds for it.

        `current` is the last context used by this process, else the last in which this agent stored something, else
        the last in which anybody of the project did. A context is over 30 minutes after its last use, and reading it is
        one. `include_related` adds the memories that are linked to the items. Raises InvalidInput.
        """
        await self._engine.opened()
        named = self._engine.contexts.resolve(validation.required("context_id", context_id))
        return await self._engine.context_gatherer.gather(named or CURRENT, include_related=include_related)

    async def link_memories(
        self,
        source: str,
        target: str,
        link_type: str = "related",
        strength: float = 1.0,
        description: str | None = None,
    ) -> Link:
        """Link two memories of the project, each named by key or id; docs/tasks.md lists the types.

        The same ends and type again are the same link, with its new strength and description. It goes to every remote
        that has both ends. Raises InvalidInput, StoreError.
        """
        said = links.draft(link_type, strength, description)
        ends = (validation.required("source", source), validation.required("target", target))
        link = await self._engine.write(linking.link(*ends, said, self._engine.write_context()))
        self._engine.wake()
        return link

    async def links(self, key_or_id: str) -> tuple[Link, ...]:
        """The links that begin or end at a memory, oldest first; none to a forgotten one. Raises InvalidInput."""
        return await self._engine.read(lambda: self._engine.associations.links(key_or_id))
