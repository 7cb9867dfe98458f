"""Tasks: recording what came of them, and asking that record about the next one (seed 004, AC-004)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from kingly_memory import validation
from kingly_memory.cognition.confidence import EVIDENCE_LIMIT, Assessment, Routing, assess, by_likeness, evidence, rank
from kingly_memory.cognition.context import WorkingContext
from kingly_memory.cognition.outcomes import TASK_OUTCOME, TaskStatus, assessment_draft, outcome_draft, spoken
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput, KinglyMemoryError, StoreError
from kingly_memory.models import Hit, MemoryType, Query, Receipt, Results
from kingly_memory.router.engine import Engine

log = logging.getLogger("kingly_memory.tasks")

EXPERIENCE = (MemoryType.PROCEDURAL, MemoryType.EPISODIC)
LOOKED_AT = 20
"""Memories that are looked at here: enough for the five latest of the most alike, cancelled ones among them."""
REASON_LIMIT = 500
"""Characters of an exception that are kept as the reason of a failure."""

LoadContext = Callable[[str], Awaitable[WorkingContext]]


class TaskBook:
    """The record of one project's tasks."""

    def __init__(self, engine: Engine, load_context: LoadContext) -> None:
        self.context = load_context
        self.monotonic_s = engine.clock.monotonic
        self._engine = engine

    async def record(self, task: str, status: str, **fields: Any) -> Receipt:
        """Store what came of a task; `fields` are what `outcome_draft` takes. Raises InvalidInput, StoreError."""
        return await self._engine.put(outcome_draft(task, status, **fields))

    async def assess(self, task: str, context_id: str | None, significance: float) -> Assessment:
        """How sure to be of a task; the assessment is stored and is no evidence for a later one. Raises InvalidInput.

        With a context, what is at hand there comes along. A store that cannot be written costs only the record.
        """
        description = spoken("task", task)
        if context_id is None:
            context, (results, hits) = None, await self._experience(description)
        else:
            context, (results, hits) = await asyncio.gather(self.context(context_id), self._experience(description))
        assessment = replace(
            assess(description, evidence(hits)), source=results.source, context=() if context is None else context.items
        )
        draft = assessment_draft(
            description,
            confidence=assessment.confidence,
            factors=assessment.confidence_factors,
            similar_tasks_found=assessment.similar_tasks_count,
            context_id=None if context is None else context.context_id,
            significance=significance,
        )
        try:
            receipt = await self._engine.put(draft, noted=False)
        except StoreError as error:
            log.warning("the assessment was not stored: %s", error)
            return assessment
        return replace(assessment, assessment_id=receipt.id)

    async def route(self, description: str, candidates: Sequence[str]) -> Routing:
        """Rank the candidates by what came of similar tasks. Raises InvalidInput."""
        text = spoken("description", description)
        rank(candidates, ())  # names that make no list are refused before anything is searched
        results = await self._engine.find(self._query(text, 200, tags=(TASK_OUTCOME,)))
        return rank(candidates, by_likeness(text, results))

    def begin(self, description: str, context_id: str | None, **fields: Any) -> Task:
        """A task to be used with `async with`; `fields` are what `outcome_draft` takes. Raises InvalidInput."""
        task = spoken("description", description)
        outcome_draft(task, context_id=context_id, **fields)
        return Task(self, task, context_id=context_id, **fields)

    async def note(self, text: str, context_id: str, significance: float) -> Receipt:
        """Have a text at hand in a context. Raises InvalidInput, StoreError."""
        draft = validation.draft(
            text,
            type=MemoryType.WORKING,
            context_id=context_id,
            significance=significance,
        )
        return await self._engine.put(draft)

    async def _experience(self, description: str) -> tuple[Results, list[Hit]]:
        """What may be evidence: whatever any layer calls similar, and outcomes recorded here.

        Those are looked for by themselves where other memories of the same words may have kept them out, or a remote
        has a say in which ones come first. Assessments are the most similar of all and no evidence: here they are left
        out, and when a remote may have named nothing else, more is asked for.
        """

        def is_enough(hits: Sequence[Hit]) -> bool:
            return sum(one.is_known for one in evidence(hits)) >= EVIDENCE_LIMIT

        similar = await self._engine.find(replace(self._query(description, LOOKED_AT), remote_limit=EVIDENCE_LIMIT))
        hits = by_likeness(description, similar)
        named_by_remote = max((one.hits for layer, one in similar.layers.items() if layer != "local"), default=None)
        if named_by_remote is not None or (len(hits) < len(similar) and not is_enough(hits)):
            only = replace(self._query(description, LOOKED_AT, tags=(TASK_OUTCOME,)), include_semantic=False)
            hits += by_likeness(description, await self._engine.find(only))
        if named_by_remote is not None and named_by_remote >= EVIDENCE_LIMIT and not is_enough(hits):
            similar = await self._engine.find(self._query(description, 50))
            hits += by_likeness(description, similar)
        return similar, hits

    def _query(self, description: str, limit: int, tags: tuple[str, ...] | None = None) -> Query:
        """What was said beside a task does not make it more alike, and in one long piece of work costs most. By words
        alone the same record gives the same confidence, whichever vectors are made by now."""
        query = validation.query(
            description,
            space=self._engine.space,
            limit=limit,
            types=EXPERIENCE,
            tags=tags,
            without_tags=validation.unsought(None),
        )
        return replace(query, remote_text=f"task similar to: {query.text}", neighbours=False, by_meaning=False)


class Task:
    """A task under way. Leaving it records what came of it: completed, failed when `fail` was called or an exception
    passed (with its reason; it goes on), cancelled when it was cancelled or interrupted.

    `context` is what was at hand when it began, None without a context id; `receipt` is that of the outcome.
    """

    def __init__(
        self, book: TaskBook, description: str, *, context_id: str | None, significance: float, **fields: Any
    ) -> None:
        self.description = description
        self.context: WorkingContext | None = None
        self.receipt: Receipt | None = None
        self._book = book
        self._context_id = context_id
        self._significance = significance
        self._fields = fields
        self._notes: list[str] = []
        self._failure: str | None = None
        self._began_s = 0.0
        self._is_open = False

    async def __aenter__(self) -> Self:
        if self._context_id is not None:
            self.context = await self._book.context(self._context_id)
            self._context_id = self.context.context_id
        self._began_s = self._book.monotonic_s()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        status, reason = self._outcome(error)
        try:
            self.receipt = await self._book.record(
                self.description,
                status,
                context_id=self._context_id,
                notes=self._notes,
                reason=reason,
                duration_s=round(self._book.monotonic_s() - self._began_s, 3),
                significance=self._significance,
                **self._fields,
            )
        except KinglyMemoryError as problem:
            if error is None:
                raise
            log.warning("what came of a task was not stored, since %s", problem)

    async def note(self, text: str) -> None:
        """Keep something in mind: it goes into the outcome, and is at hand in the task's context.

        Raises InvalidInput, StoreError.
        """
        self._check_open()
        if self._context_id is None:
            validation.draft(text)
        else:
            await self._book.note(text, self._context_id, self._significance)
        self._notes.append(text)

    def fail(self, reason: str) -> None:
        """Say that the task failed, and why, without raising anything."""
        self._check_open()
        self._failure = spoken("reason", reason)

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidInput("task", "is not under way; use it inside `async with memory.task(…) as task:`")

    def _outcome(self, error: BaseException | None) -> tuple[TaskStatus, str | None]:
        if error is None:
            return (TaskStatus.FAILED if self._failure else TaskStatus.COMPLETED), self._failure
        if not isinstance(error, Exception):
            return TaskStatus.CANCELLED, self._failure
        try:
            message = str(error)
        except Exception:  # noqa: BLE001  # somebody else's code, and the user's own exception must go on
            message = ""
        reason = f"{type(error).__name__}: {message}"[:REASON_LIMIT].strip().removesuffix(":")
        return TaskStatus.FAILED, validation.mended(reason)
