"""Working contexts in the store: noting what is stored, reading what is at hand, whispering what it was about."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kingly_memory.cognition import whispers
from kingly_memory.cognition.whispers import Portion
from kingly_memory.cognition.working import (
    CURRENT,
    Context,
    ContextRules,
    Noted,
    current_owner,
    latest_owner,
    noted,
    owner,
)
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.intake import Draft
from kingly_memory.models import Memory, Standing
from kingly_memory.ports import Now, Row, StoreReader, Transaction
from kingly_memory.router.searching.local_search import LocalSearch
from kingly_memory.router.usage import UsageBuffer
from kingly_memory.writing import token_count

FACET = "context"
CURRENT_FACET = "current"

WHISPERS_AT_ONCE = 20
"""In one transaction, so that a note of a megabyte does not hold the writer for long."""


@dataclass(frozen=True, slots=True)
class AtHand:
    """A context as it is on this machine: its items, latest first, and when something was last noted in it."""

    context: Context
    items: tuple[Memory, ...]
    last_updated: datetime | None


@dataclass(frozen=True, slots=True)
class Due:
    """Whispers to be stored, and the state of the context that they rest on and lead to."""

    before: Context
    after: Context
    drafts: tuple[Draft, ...]


def note(
    transaction: Transaction,
    memory: Memory,
    context_id: str,
    *,
    agent: str | None,
    now_s: float,
    rules: ContextRules,
    used_s: float = 0.0,
) -> Noted:
    """Have a memory that is being stored at hand in its context, which becomes the agent's current one.

    `used_s` is a use of the context that is not written down yet.
    """
    project = memory.scope.project
    name = owner(project, context_id)
    before = _context(transaction.facet(FACET, name), context_id).used(used_s)
    if len(before.items) >= rules.capacity:
        there = (one for one in before.items if _is_there(transaction.row(one), context_id))
        before = replace(before, items=tuple(there))
    after = noted(before, memory.id, token_count(memory.content), now_s, rules)
    transaction.set_facet(FACET, name, after.context.to_json())
    pointer = {"context_id": context_id}
    for whose in (current_owner(project, agent), latest_owner(project)):
        if transaction.facet(CURRENT_FACET, whose) != pointer:
            transaction.set_facet(CURRENT_FACET, whose, pointer)
    return after


def advance(transaction: Transaction, project: str, due: Due) -> bool:
    """Say that the whispers are made. False, and nothing said, when the context has moved on meanwhile."""
    name = owner(project, due.before.context_id)
    now = _context(transaction.facet(FACET, name), due.before.context_id)
    if (now.tokens, now.whispers) != (due.before.tokens, due.before.whispers):
        return False
    transaction.set_facet(FACET, name, replace(due.after, used_s=now.used_s).to_json())
    return True


def tidy(now_s: float, rules: ContextRules) -> Callable[[Transaction], int]:
    """A change that drops what is known of contexts that are over; their memories have lifetimes of their own."""

    def change(transaction: Transaction) -> int:
        over = []
        for name in transaction.owners(FACET):
            facet = transaction.facet(FACET, name)
            if facet is not None and Context.from_json(facet).is_over(now_s, rules.lifetime_s):
                over.append(name)
        for name in over:
            transaction.set_facet(FACET, name, None)
        return len(over)

    return change


class Contexts:
    """The contexts of one project, for one router or reader. Reading one keeps it alive; that is written behind."""

    def __init__(
        self,
        project: str,
        agent: str | None,
        *,
        reader: StoreReader,
        local: LocalSearch,
        clock: Now,
        rules: ContextRules,
        usage: UsageBuffer | None = None,
    ) -> None:
        self.project = project
        self._agent = agent
        self.reader = reader
        self.local = local
        self.clock = clock
        self._rules = rules
        self._usage = usage
        self._current: str | None = None
        self._used: dict[str, float] = {}
        self._taken: dict[str, float] = {}
        self._lock = threading.Lock()

    def resolve(self, context_id: str | None) -> str | None:
        """The context that is meant. `current` is the last one worked in by this process, else the last in which this
        agent stored something here, else the last in which anybody of the project did."""
        if context_id == CURRENT:
            return self._current or self._last_stored() or CURRENT
        return context_id

    def resolve_to_store(self, context_id: str | None) -> str | None:
        """The same, where `current` begins a context if there is none."""
        named = self.resolve(context_id)
        return str(new_id(self.clock.now())) if named == CURRENT else named

    def enter(self, context_id: str | None) -> None:
        """From now on this process works there."""
        self._current = context_id or self._current

    def at_hand(self, context_id: str) -> AtHand:
        """What is at hand in a context; nothing when it is over or was never used."""
        now_s = self.clock.now().timestamp()
        name = owner(self.project, context_id)
        facet = self.reader.facets(FACET, [name]).get(name)
        context = _context(facet, context_id)
        if facet is None or context.used(self._last_use(name)).is_over(now_s, self._rules.lifetime_s):
            return AtHand(Context(context_id), (), None)
        rows = [row for one in reversed(context.items) if (row := self.reader.row(one)) is not None]
        shown = [row for row in rows if _is_there(row, context_id) and self.local.is_alive(row, now_s)]
        items = tuple(row.memory for row in shown)
        if self._usage is not None:
            self.enter(context_id)
            self._usage.note([memory.id for memory in items], now_s)
            self._note_use(name, now_s)
        return AtHand(context, items, datetime.fromtimestamp(context.noted_s, UTC))

    def due(self, context_id: str) -> Due | None:
        """The whispers that are due in a context; None when none is."""
        name, size = owner(self.project, context_id), self._rules.whisper_tokens
        context = _context(self.reader.facets(FACET, [name]).get(name), context_id)
        if not context.due(size):
            return None
        sources = self._sources(context)
        texts = {one: memory.content for one, memory in sources.items()}
        count = min(context.due(size), WHISPERS_AT_ONCE)
        drafts = [
            self._drafted(portion, sources, context, context.whispers + number)
            for number, portion in enumerate(whispers.portions(context, texts, size, count), start=1)
            if portion.text
        ]
        return Due(context, whispers.covered(context, texts, size, count), tuple(drafts))

    def take(self) -> Callable[[Transaction], None] | None:
        """A change that writes down when contexts were used; None when there is nothing to write."""
        with self._lock:
            self._taken |= self._used
            self._used = {}
            taken = dict(self._taken)
        if not taken:
            return None

        def change(transaction: Transaction) -> None:
            for name, used_s in taken.items():
                facet = transaction.facet(FACET, name)
                if facet is not None:
                    transaction.set_facet(FACET, name, Context.from_json(facet).used(used_s).to_json())

        return change

    def written(self, _: None) -> None:
        with self._lock:
            self._taken = {}

    def _last_stored(self) -> str | None:
        names = (current_owner(self.project, self._agent), latest_owner(self.project))
        facets = self.reader.facets(CURRENT_FACET, names)
        return next((str(facets[name]["context_id"]) for name in names if name in facets), None)

    def last_use(self, context_id: str | None) -> float:
        """The last use that may not be in the store yet, in Unix seconds; 0 for none."""
        return 0.0 if context_id is None else self._last_use(owner(self.project, context_id))

    def _last_use(self, name: str) -> float:
        return max(self._used.get(name, 0.0), self._taken.get(name, 0.0))

    def _note_use(self, name: str, now_s: float) -> None:
        with self._lock:
            self._used[name] = now_s

    def _sources(self, context: Context) -> dict[MemoryId, Memory]:
        rows = [row for one in context.pending if (row := self.reader.row(one)) is not None]
        return {row.memory.id: row.memory for row in rows if _is_there(row, context.context_id)}

    def _drafted(self, portion: Portion, sources: dict[MemoryId, Memory], context: Context, number: int) -> Draft:
        return whispers.drafted(
            portion,
            [sources[one] for one in portion.sources],
            context_id=context.context_id,
            number=number,
            size=self._rules.whisper_tokens,
        )


def _is_there(row: Row | None, context_id: str) -> bool:
    """False for what was forgotten, archived, erased or moved to another context."""
    return row is not None and row.standing is Standing.LIVE and row.memory.scope.context_id == context_id


def _context(facet: object, context_id: str) -> Context:
    return Context.from_json(facet) if isinstance(facet, dict) else Context(context_id)
