"""`MemoryRouter.open`: a router over the real adapters."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from kingly_memory import intake
from kingly_memory.adapters.clock import SystemClock
from kingly_memory.app import parts
from kingly_memory.app.views import Views
from kingly_memory.attention.injection import Injection
from kingly_memory.cognition import links, thoughts
from kingly_memory.cognition.confidence import Assessment
from kingly_memory.cognition.links import Link
from kingly_memory.cognition.outcomes import ASSESSMENT_SIGNIFICANCE, OUTCOME_SIGNIFICANCE
from kingly_memory.cognition.routing import Routing
from kingly_memory.cognition.tasks import Task, TaskBook
from kingly_memory.cognition.thoughts import Thought
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Receipt, Taken
from kingly_memory.observe import Observer
from kingly_memory.ports import Clock, LanguageModel
from kingly_memory.router.attending.injected import showings
from kingly_memory.router.attending.injecting import TOKENS, Injecting
from kingly_memory.router.attending.surroundings import Surroundings
from kingly_memory.router.delivering import memory_links
from kingly_memory.router.linking import chains
from kingly_memory.router.searching import moded
from kingly_memory.router.searching.local_search import LocalSearch
from kingly_memory.router.threads import taking_in
from kingly_memory.settings import Place, Settings, inert
from kingly_memory.thread_files import ImportedFocus, ImportedThread

if TYPE_CHECKING:  # read by whoever has memories checked
    from kingly_memory.remote_names import Addresses
    from kingly_memory.retrieval.verification import VerifiedResults
    from kingly_memory.router.attending.verbs import Attention
    from kingly_memory.router.threads.verbs import Threads

log = logging.getLogger("kingly_memory")

USUALLY_VERIFIED = 5
"""Memories that a verified search answers with unless it is told how many (seed 000)."""


class MemoryRouter(Views):
    """A memory that keeps working when the network doesn't.

    `memory = MemoryRouter.open()` works with nothing set: no remote, no key, no model, no network. Its first verb opens
    it. `await memory.close()`, leaving `async with`, or the end of its event loop closes it.
    """

    @cached_property
    def _book(self) -> TaskBook:
        return TaskBook(
            self,
            self,
            partial(self.working_context, include_related=False),
            project=self._station.project,
            clock=self._clock,
            content_limit_bytes=self._settings.content_limit_bytes,
        )

    @cached_property
    def _injecting(self) -> Injecting:
        reader = self._store.reader
        layer = self._local_layer(LocalSearch(reader, self._usage.last_use, likeness=False))
        return Injecting(
            self._access,
            lambda: Surroundings(reader, layer, self._station.project, self._agent, self._now_s()),
            budget_s=self._settings.local_search_s,
            log=self._injections,
        )

    @cached_property
    def attention(self) -> Attention:
        """What should be in view: focus, pins and ratings."""
        from kingly_memory.router.attending.verbs import Attention

        return Attention(
            self._access,
            follow=self._follow,
            showings=partial(showings, self._store.reader, self._injections, self._station.project),
            content_limit_bytes=self._settings.content_limit_bytes,
        )

    @cached_property
    def threads(self) -> Threads:
        """What was said in one context, as a thread: listed, recalled, merged, split and named."""
        from kingly_memory.router.attending import focuses
        from kingly_memory.router.threads.verbs import Threads

        return Threads(
            self._access,
            self,
            project=self._station.project,
            in_focus=focuses.applying,
            flush=self._behind.flush,
        )

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        remote: Addresses = None,
        *,
        token: str | Mapping[str, str] | None = None,
        token_file: str | os.PathLike[str] | None = None,
        deliver_earlier: bool = False,
        project: str | None = None,
        agent: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> Self:
        """A router that its first verb opens, and that `close` or leaving `async with` closes.

        `home` defaults to `.kingly/memory` of the nearest project, `project` to that folder's name. `remote` is an
        http(s) address, True for http://localhost:8000, or None for none but KINGLY_REMOTE; False for none at all.
        Several are given by name, `{"team": "http://…", "home": "http://…"}`, and so are their tokens; the setting
        `remote_policy` says which memories go where: docs/federation.md.
        `token_file`, of mode 0600, is read again when the remote refuses its token, and as long as it cannot be read.
        What is stored from now on above significance 0.3 goes to the remote; what was stored before goes there only
        with `deliver_earlier`, and `status()["outbox"]` and the log tell how many those are.
        Raises InvalidInput for an address or a home that cannot be used; InvalidSetting, StoreDamaged, StoreUntrusted.
        """
        place = Place.resolve(home, remote, token, project, agent, token_file=token_file)
        if place.unread is not None:
            log.warning("%s; until then this machine alone is used", place.unread)
        return cls.at(
            replace(parts.makeable(place), deliver_earlier=deliver_earlier),
            settings=settings,
            clock=clock,
            observers=observers,
        )

    @classmethod
    def at(
        cls,
        place: Place,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> Self:
        """`open` for a place that is known. Where its home cannot be made, the first store fails."""
        place = parts.closed(parts.checked(place))
        chosen = settings or Settings.from_environment(home=place.home)
        for one in () if settings else inert(place.home):
            log.warning("%s", one)
        time = clock or SystemClock()
        remotes = parts.reached(place)
        return cls(
            parts.station(place, chosen, remotes),
            place.agent,
            store=parts.open_store(place, chosen),
            remotes=parts.remote_parts(place, chosen, remotes, time),
            settings=chosen,
            clock=time,
            observers=observers,
            embedder=parts.embedder,
            sweeping=parts.sweep_lock(place),
            meaning=parts.meaning(chosen),
            injections=parts.injections(place),
        )

    # --- tasks --------------------------------------------------------------------------------------------------------

    def task(
        self,
        description: str,
        *,
        context_id: str | None = None,
        approach: str | None = None,
        significance: float = OUTCOME_SIGNIFICANCE,
        tags: Sequence[str] = (),
    ) -> Task:
        """A task under way: `async with memory.task("deploy the api", context_id="deploy-42") as task:`.

        Entering loads its context, leaving records what came of it; an exception is recorded as the reason of a failure
        and goes on. `approach` names who or what does it, for `route_task`. Raises InvalidInput.
        """
        return self._book.begin(description, context_id, approach=approach, significance=significance, tags=tuple(tags))

    async def record_task_outcome(
        self,
        task: str,
        status: str = "completed",
        *,
        context_id: str | None = None,
        approach: str | None = None,
        notes: Sequence[str] = (),
        reason: str | None = None,
        duration_s: float | None = None,
        significance: float = OUTCOME_SIGNIFICANCE,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Store what came of a task, for later assessments: `status` is completed, failed or cancelled.

        `approach` names who or what did it. Raises InvalidInput, StoreError.
        """
        return await self._book.record(
            task,
            status,
            context_id=context_id,
            approach=approach,
            notes=notes,
            reason=reason,
            duration_s=duration_s,
            significance=significance,
            tags=tags,
            metadata=metadata,
        )

    async def assess_confidence(
        self, task: str, context_id: str | None = None, significance: float = ASSESSMENT_SIGNIFICANCE
    ) -> Assessment:
        """How sure to be that a task will succeed, from 0 to 1, by what came of similar ones, and what that rests on.

        docs/confidence.md has the rule. The assessment is stored as a procedural memory and never counts as evidence.
        With a context, what is at hand there comes along. `significance` is the assessment's: 0.3 or less keeps the
        task's text on this machine. Raises InvalidInput.
        """
        return await self._book.assess(task, context_id, significance)

    async def route_task(self, description: str, candidates: Sequence[str]) -> Routing:
        """Which of the candidates (agents or approaches) to give a task to, by their record on similar ones.

        Equals stay in the order given; one that was never tried scores 0.5. Raises InvalidInput.
        """
        return await self._book.route(description, candidates)

    # --- injection ---------------------------------------------------------------------------------------------------

    async def inject(
        self, prompt: str, budget_tokens: int = TOKENS, *, session: str | None = None, explain: bool = False
    ) -> Injection:
        """The memories that fit a prompt as a fenced block of notes to put beside it, as the prompt hook has them.

        `budget_tokens` (estimated, 1 to 100,000) is for all of it. Only what the user or this agent said is put in, by
        priority: similarity × weight × relevance of its thread, and a boost for what is in focus. A `session` is not
        told twice of what has not changed. `explain` adds why each memory is in or out (`considered`). Asks no remote
        and counts as no use, except that a lifetime counts from then on. Raises InvalidInput, StoreError.
        """
        return await self._injecting.inject(prompt, budget_tokens, session, explain=explain)

    # --- threads from files -------------------------------------------------------------------------------------------

    async def remember_thread(self, thread: ImportedThread) -> Taken:
        """Take in a thread from a file, with what the file says of it. Repeating it changes nothing. Raises
        InvalidInput, and then nothing of the thread was stored."""
        return await taking_in.take_in(thread, self._access)

    async def remember_focus(self, focus: ImportedFocus) -> bool:
        """Set what a file says is in focus. False when it was set here later, or as it is."""
        return await taking_in.take_in_focus(focus, self._access)

    # --- links and thoughts -------------------------------------------------------------------------------------------

    async def link_memories(
        self,
        source: str,
        target: str,
        link_type: str = "related",
        strength: float = 1.0,
        description: str | None = None,
    ) -> Link:
        """Link two memories of the project, each named by key or id; docs/thoughts-and-links.md lists the types.

        The same ends and type again are the same link, with its new strength and description. It goes to every remote
        that has both ends. Raises InvalidInput, StoreError.
        """
        said = links.draft(link_type, strength, description)
        ends = (intake.required("source", source), intake.required("target", target))
        link = await self._write(memory_links.link(*ends, said, self._write_context()))
        self._wake()
        return link

    async def links(self, key_or_id: str) -> tuple[Link, ...]:
        """The links that begin or end at a memory, oldest first; none to a forgotten one. Raises InvalidInput."""
        return await self._read(lambda: self._associations.links(key_or_id))

    async def record_thought(
        self,
        content: str,
        *,
        chain_id: str | None = None,
        thought_type: str = "inference",
        parent_id: str | None = None,
        context_id: str | None = None,
        significance: float = 0.5,
    ) -> Thought:
        """Store a step of a chain of reasoning. It is a semantic memory with tags `thought`, its type and its chain.

        It follows the chain's last thought unless a parent is named. Without `chain_id` it goes on in its parent's
        chain, or begins a new one; a `chain_id` that is new begins that chain. Raises InvalidInput, StoreError.
        """
        said = thoughts.step(
            content,
            content_limit_bytes=self._settings.content_limit_bytes,
            chain_id=chain_id,
            thought_type=thought_type,
            parent_id=parent_id,
            context_id=self._contexts.resolve_to_store(intake.label("context_id", context_id)),
            significance=significance,
        )
        found = await self._read(lambda: self._associations.end_of_chain(said))
        recorded = await self._write(chains.record(said, self._write_context(), found))
        await self._follow(recorded.stored)
        return recorded.thought

    async def thoughts(self, chain_id: str) -> tuple[Thought, ...]:
        """The thoughts of a chain in the order they were stored, archived ones included. Raises InvalidInput."""
        return await self._read(lambda: self._associations.thoughts(chain_id))

    # --- verified search ----------------------------------------------------------------------------------------------

    async def search_verified(
        self,
        query: str,
        top_k: int | None = None,
        ground_truth: Sequence[str] | None = None,
        cross_verify: bool = True,
        *,
        agent: str | None = None,
        context_id: str | None = None,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        include_archived: bool = False,
        include_semantic: bool = True,
        language_model: LanguageModel | None = None,
        mode: str | None = None,
        min_confidence: float | None = None,
        min_similarity: float | None = None,
        fold: bool = True,
    ) -> VerifiedResults:
        """The memories that answer the query, at most `top_k`, as verified, uncertain, contradicted or unverifiable.

        `ground_truth` are texts known to be right; without them each memory is held against those most like it, unless
        `cross_verify` is off. Judged by `language_model`, else by that of KINGLY_LLM_URL, else by words, numbers and
        negations: docs/verification.md. Without a mode five memories are answered unless you say how many, the best of
        four times as many that are checked; in a mode (see `search`) the hits of that mode are checked. Of those that
        say the same the surest stands for all, unless `fold` is off. Raises InvalidInput, InvalidSetting; a model that
        fails leaves memories uncertain.
        """
        await self._opened()
        asked = intake.query(
            query,
            project=self._station.project,
            types=types,
            tags=tags,
            agent=agent,
            context_id=context_id,
            since=since,
            until=until,
            include_archived=include_archived,
            without_tags=intake.unsought(tags),
        )
        if not asked.text.strip():
            raise InvalidInput("query", "is empty; say what to look for")
        asked = replace(asked, context_id=self._contexts.resolve(asked.context_id))
        in_mode = (mode, min_confidence, min_similarity) != (None, None, None)
        plan = moded.plan(
            asked.text,
            mode,
            settings=self._settings,
            limit=asked.limit,
            top_k=top_k if in_mode else None,
            min_confidence=min_confidence,
            min_similarity=min_similarity,
            fold=fold,
        )
        async with AsyncExitStack() as stack:
            model, is_here = language_model, False
            if model is None:
                model, is_here = await stack.enter_async_context(self._language_model())
            retriever = self._retriever(model, is_here)
            if plan is None:
                wanted = USUALLY_VERIFIED if top_k is None else top_k
                results = await retriever.retrieve_verified(
                    asked, wanted, ground_truth, cross_verify, include_semantic=include_semantic, fold=fold
                )
            else:
                found = await self._moded.search(asked, plan, prefer_speed=False, include_semantic=include_semantic)
                results = await retriever.verify(found, asked.text, plan.config.top_k, ground_truth, cross_verify)
        self._note_found([one.memory.id for one in results])
        return results

    def _name_at(self, address: str) -> str | None:
        return parts.remote_name(address)

    def _language_model(self) -> AbstractAsyncContextManager[tuple[LanguageModel | None, bool]]:
        return parts.language_model(self._settings, self._clock)
