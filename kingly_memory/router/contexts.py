"""Working contexts in the store: noting what is stored, reading what is at hand, whispering what it was about."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from kingly_memory.cognition.context import (
    CURRENT,
    Context,
    ContextRules,
    Noted,
    WorkingContext,
    covered,
    drafted,
    noted,
    portions,
)
from kingly_memory.cognition.owners import current_owner, latest_owner, owner
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.ids import new_id
from kingly_memory.models import Memory, MemoryStatus
from kingly_memory.ports import Now, Row, StoreReader, Transaction, in_transaction
from kingly_memory.router.lifecycle.alive import UsageBuffer, Visible
from kingly_memory.router.view import Station
from kingly_memory.text.writing import token_count, words
from kingly_memory.validation import Draft

FACET = "context"
CURRENT_FACET = "current"

TOPICS, POINTS, POINT_CHARACTERS = 6, 3, 160
"""Of a whisper: topics, sentences, and characters of one of these."""
WHISPERS_AT_ONCE = 20
"""In one transaction, so that a note of a megabyte does not hold the writer for long."""


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

    `used_s` is a use of the context that is not written down yet. In a full context, forgotten items make room first.
    """
    space = memory.scope.space
    name = owner(space, context_id)
    before = _context(transaction.facet(FACET, name), context_id).used(used_s)
    if len(before.items) >= rules.capacity:
        # To read every item for every store would take a fifth of its time. Forgetting says that there is a gap, and
        # what went away otherwise is noticed when it is the oldest.
        items = before.items if before.has_gaps else before.items[:1]
        gone = {item_id for item_id in items if not _is_there(transaction.row(item_id), context_id)}
        before = replace(
            before, items=tuple(item_id for item_id in before.items if item_id not in gone), has_gaps=False
        )
    after = noted(before, memory.id, token_count(memory.content), now_s, rules)
    transaction.set_facet(FACET, name, after.context.to_json())
    pointer = {"context_id": context_id}
    for whose in (current_owner(space, agent), latest_owner(space)):
        if transaction.facet(CURRENT_FACET, whose) != pointer:
            transaction.set_facet(CURRENT_FACET, whose, pointer)
    return after


def forgotten(transaction: Transaction, memory: Memory) -> None:
    """An item is forgotten. It keeps its place, in case it is restored, until a full context needs the room."""
    context_id = memory.scope.context_id
    if context_id is None:
        return
    name = owner(memory.scope.space, context_id)
    context = _context(transaction.facet(FACET, name), context_id)
    if memory.id in context.items and not context.has_gaps:
        transaction.set_facet(FACET, name, replace(context, has_gaps=True).to_json())


def purged(transaction: Transaction, memory: Memory) -> None:
    """An item is purged. Its agent, or one without a name, does not work in its context any more, and nobody does when
    it was the last item: `current` would still tell what the context was called."""
    space, context_id = memory.scope.space, memory.scope.context_id
    if context_id is None:
        return
    whose = {current_owner(space, memory.scope.agent), current_owner(space, None)}
    if not transaction.has_context(space, context_id):
        whose.add(latest_owner(space))
    for name in whose:
        if transaction.facet(CURRENT_FACET, name) == {"context_id": context_id}:
            transaction.set_facet(CURRENT_FACET, name, None)


def advance(transaction: Transaction, space: str, due: Due) -> bool:
    """Note that the whispers were made. Returns False, and notes nothing, when the context has moved on meanwhile."""
    name = owner(space, due.before.context_id)
    now = _context(transaction.facet(FACET, name), due.before.context_id)
    if (now.tokens, now.whispers) != (due.before.tokens, due.before.whispers):
        return False
    after = replace(due.after, used_s=now.used_s, has_gaps=now.has_gaps)
    transaction.set_facet(FACET, name, after.to_json())
    return True


@in_transaction
def tidy(transaction: Transaction, now_s: float, rules: ContextRules) -> int:
    """A change that drops what is known of contexts that are over; their memories have lifetimes of their own."""
    facets = ((name, transaction.facet(FACET, name)) for name in transaction.owners(FACET))
    over = [name for name, facet in facets if facet and Context.from_json(facet).is_over(now_s, rules.lifetime_s)]
    for name in over:
        transaction.set_facet(FACET, name, None)
    return len(over)


class Contexts:
    """The contexts of one project, for one router. Reading one keeps it alive; that is written down later."""

    def __init__(
        self,
        station: Station,
        *,
        reader: StoreReader,
        local: Visible,
        clock: Now,
        rules: ContextRules,
        usage: UsageBuffer,
    ) -> None:
        self._space = station.space
        self._agent = station.agent
        self._usual = self._current = station.context_id
        self._reader = reader
        self._local = local
        self._clock = clock
        self._rules = rules
        self._usage = usage

    def resolve(self, context_id: str | None) -> str | None:
        """The context that is meant. `current` is the last one worked in by this process, else the last in which this
        agent stored something here, else the last in which anybody of the project did."""
        if context_id != CURRENT or self._current:
            return self._current if context_id == CURRENT else context_id
        names = (current_owner(self._space, self._agent), latest_owner(self._space))
        facets = self._reader.facets(CURRENT_FACET, names)
        return next((str(facets[name]["context_id"]) for name in names if name in facets), CURRENT)

    def resolve_to_store(self, context_id: str | None) -> str | None:
        """The same, where `current` begins a context if there is none, and None is the usual one."""
        named = self.resolve(self._usual if context_id is None else context_id)
        return str(new_id(self._clock.now())) if named == CURRENT else named

    def enter(self, context_id: str | None) -> None:
        """Make this the context in which the process works from now on."""
        self._current = context_id or self._current

    def at_hand(self, context_id: str) -> WorkingContext:
        """What is at hand in a context on this machine; nothing when it is over or was never used."""
        now_s = self._clock.now().timestamp()
        name = owner(self._space, context_id)
        facet = self._reader.facet(FACET, name)
        context = _context(facet, context_id)
        if facet is None or context.used(self.last_use(context_id)).is_over(now_s, self._rules.lifetime_s):
            return WorkingContext(context_id)
        rows = (self._reader.row(one) for one in reversed(context.items))
        present = (row for row in rows if row is not None and _is_there(row, context_id))
        items = tuple(row.memory for row in present if self._local.is_alive(row, now_s))
        self.enter(context_id)
        self._usage.note([memory.id for memory in items], now_s)
        self._usage.note_context(name, now_s)
        noted_at = datetime.fromtimestamp(context.noted_s, UTC)
        return WorkingContext(
            context_id, items, last_updated=noted_at, tokens=context.tokens, whispers=context.whispers
        )

    def last_use(self, context_id: str | None) -> float:
        """The last use that may not be in the store yet, in Unix seconds; 0 for none."""
        return 0.0 if context_id is None else self._usage.last_use_of_context(owner(self._space, context_id))

    def due(self, context_id: str) -> Due | None:
        """The whispers that are due in a context; None when none is."""
        size = self._rules.whisper_tokens
        context = _context(self._reader.facet(FACET, owner(self._space, context_id)), context_id)
        count = min(context.due(size), WHISPERS_AT_ONCE)
        if not count:
            return None
        rows = (self._reader.row(one) for one in context.pending)
        sources = {row.memory.id: row.memory for row in rows if row is not None and _is_there(row, context_id)}
        texts = {one: memory.content for one, memory in sources.items()}
        drafts = [
            drafted(
                _insight(text),
                [sources[one] for one in ids],
                context_id=context_id,
                number=context.whispers + number,
                size=size,
            )
            for number, (text, ids) in enumerate(portions(context, texts, size, count), start=1)
            if text
        ]
        return Due(context, covered(context, texts, size, count), tuple(drafts))


def _insight(text: str) -> str:
    """What a text is about, in a few lines: its topics, and the sentences that decide or explain most."""
    from kingly_memory.attention.drift import telling_of
    from kingly_memory.lifecycle.compression import CompressionLevel, compress, shortened

    found = compress(text, CompressionLevel.MEDIUM)
    points = dict.fromkeys((*found.decisions, *found.constraints, *found.patterns, *found.key_facts))
    topics = telling_of(Counter(words(text)), TOPICS)
    begin = f"Mostly about {', '.join(topics)}." if topics else "Mostly names and figures."
    return "\n".join([begin, *(f"- {shortened(point, POINT_CHARACTERS)}" for point in [*points][:POINTS])])


def _is_there(row: Row | None, context_id: str) -> bool:
    """False for what was forgotten, archived, erased or moved to another context."""
    return row is not None and row.status is MemoryStatus.LIVE and row.memory.scope.context_id == context_id


def _context(facet: object, context_id: str) -> Context:
    return Context.from_json(facet) if isinstance(facet, dict) else Context(context_id)
