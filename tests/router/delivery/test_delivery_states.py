"""Every state that one memory's delivery can reach within a few changes, whatever happens in whatever order.

The records and the outbox are the real ones, over a store that is a pair of dicts; the remote is four lines of model.
From each state, once nothing fails any more, the remote must come to hold what it should.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from hypothesis import settings

from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.lifetimes import usual_lifetimes
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, JsonObject, Memory, MemoryStatus
from kingly_memory.ports import Delivery, DocumentRows, Row, Transaction
from kingly_memory.router import write
from kingly_memory.router.delivery import known_remotes, outbox
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery.moves import Leased
from kingly_memory.router.delivery.routes import Route, Routes
from kingly_memory.router.write import Stored, WriteContext
from kingly_memory.settings import Settings
from kingly_memory.validation import Draft, draft

T = TypeVar("T")

REMOTE = "feedfacefeedface"
DESK = WriteContext(
    "app",
    None,
    Routes((Route(REMOTE, "remote", "fake"),)),
    usual_lifetimes(Settings().lifetimes),
    datetime(2026, 1, 1, tzinfo=UTC),
)
MOST_CHANGES = 3 if settings().max_examples < 100 else 4
"""Four make five times as many states: `make test-long` goes so far."""


class Shelf:
    """A store of dicts. Implements ports.Transaction as far as records and outbox use it."""

    documents: DocumentRows

    def __init__(self, rows: dict[str, tuple[str, MemoryStatus]], facets: dict[str, str]) -> None:
        self.rows = dict(rows)
        self.beside = dict(facets)

    def row(self, memory_id: str) -> Row | None:
        found = self.rows.get(memory_id)
        return None if found is None else Row(1, Memory.from_json(json.loads(found[0])), found[1])

    def id_of_key(self, project: str, key: str) -> MemoryId | None:
        return next((MemoryId(one) for one in self.rows), None)

    def remains(self, memory_id: str) -> Row | None:
        return None

    def same_as(self, memory: Memory) -> Row | None:
        raise NotImplementedError

    def note_seen(self, memory: Memory) -> None:
        raise NotImplementedError

    def save(self, memory: Memory, status: MemoryStatus) -> None:
        timeless = replace(memory, updated_at=memory.created_at)  # else every state is another one
        self.rows[memory.id] = (json.dumps(timeless.to_json()), status)

    def set_status(self, memory_ids: Sequence[str], status: MemoryStatus) -> None:
        for memory_id in memory_ids:
            self.rows[memory_id] = (self.rows[memory_id][0], status)

    def move(self, memory: Memory, status: MemoryStatus) -> None:
        raise NotImplementedError

    def move_facets(self, owner: str, to: str) -> None:
        raise NotImplementedError

    def unlearn(self, memory: Memory) -> None:
        raise NotImplementedError

    def erase(self, memory_id: str) -> None:
        del self.rows[memory_id]

    def revisions(self, memory_id: str) -> list[Memory]:
        return []

    def keep_revision(self, memory: Memory) -> None: ...

    def drop_revisions(self, memory_id: str, but: int = 0) -> None: ...

    def drop_changes(self, older_than_s: float) -> None: ...

    def facet(self, name: str, owner: str) -> JsonObject | None:
        found = self.beside.get(f"{name}:{owner}")
        return None if found is None else json.loads(found)

    def facets(self, name: str, owners: Sequence[str]) -> dict[str, JsonObject]:
        raise NotImplementedError

    def facets_of(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, JsonObject]]:
        raise NotImplementedError

    def set_facet(self, name: str, owner: str, value: JsonObject | None) -> None:
        self.beside.pop(f"{name}:{owner}", None)
        if value is not None:
            self.beside[f"{name}:{owner}"] = json.dumps(value)

    def owners(self, facet: str, beginning: str = "") -> list[str]:
        return [name.partition(":")[2] for name in self.beside if name.startswith(f"{facet}:{beginning}")]

    def has_context(self, project: str, context_id: str) -> bool:
        return False

    def drop_facets(self, owner: str) -> None:
        self.beside = {name: one for name, one in self.beside.items() if name.partition(":")[2] != owner}

    def current_revisions(self, memory_ids: Sequence[str]) -> dict[str, int]:
        raise NotImplementedError

    def set_vector(self, embedder: str, memory: Memory, levels: bytes) -> None:
        raise NotImplementedError

    def drop_vectors(self, space: str, but: str | None) -> bool:
        raise NotImplementedError

    def delivery(self, remote: str, item: str) -> Delivery | None:
        found = self.facet(f"delivery {remote}", item)
        return None if found is None else Delivery(**{**found, "state": DeliveryState(found["state"])})

    def set_delivery(self, remote: str, item: str, delivery: Delivery | None) -> None:
        self.set_facet(f"delivery {remote}", item, None if delivery is None else vars(delivery))

    def send_anew(self, remote: str, outbox_of_links: str, outbox_of_documents: str, now_s: float) -> None:
        raise NotImplementedError

    def delivery_items(self, remote: str) -> list[str]:
        return self.owners(f"delivery {remote}")

    def due_deliveries(self, remote: str, now_s: float, limit: int, *, early: bool = False) -> list[MemoryId]:
        waiting = (DeliveryState.PENDING, DeliveryState.LEASED)
        facets = ((MemoryId(one), self.delivery(remote, one)) for one in self.rows)
        return [one for one, facet in facets if facet is not None and facet.state in waiting]

    def undelivered(self, remote: str, project: str, above: float, limit: int, *, after: str = "") -> list[Memory]:
        return []

    def expired(self, now_s: float, limit: int, offset: int = 0) -> list[MemoryId]:
        return []


def said_by(item: Leased) -> Memory:
    assert isinstance(item.subject, Memory)
    return item.subject


@dataclass(frozen=True)
class There:
    """The remote: which idempotency keys it has seen, and the content it holds."""

    seen: frozenset[str] = frozenset()
    content: str | None = None

    def after(self, item: Leased) -> There:
        if item.forgotten:
            return replace(self, content=None)
        if item.idempotency_key in self.seen:
            return self
        return There(self.seen | {item.idempotency_key}, said_by(item).content)


@dataclass(frozen=True)
class State:
    """One memory here, one remote there, and what a living process is sending, if anything."""

    rows: frozenset[tuple[str, tuple[str, MemoryStatus]]]
    facets: frozenset[tuple[str, str]]
    there: There = There()
    item: tuple[str, Leased] | None = None

    @property
    def shelf(self) -> Shelf:
        return Shelf(dict(self.rows), dict(self.facets))

    @property
    def memory_id(self) -> str:
        return next(iter(self.rows))[0]

    @property
    def row(self) -> Row:
        row = self.shelf.row(self.memory_id)
        assert row is not None
        return row

    @property
    def facet(self) -> Delivery | None:
        return self.shelf.delivery(REMOTE, self.memory_id)

    @property
    def sent(self) -> Leased | None:
        return None if self.item is None else self.item[1]

    def changed(self, change: Callable[[Transaction], object]) -> State:
        shelf = self.shelf
        change(shelf)
        return replace(self, rows=frozenset(shelf.rows.items()), facets=frozenset(_plain(shelf).beside.items()))

    def sending(self, item: Leased | None) -> State:
        return replace(self, item=None if item is None else (_fingerprint(item), item))

    def __hash__(self) -> int:
        return hash((self.rows, self.facets, self.there, None if self.item is None else self.item[0]))


def _fingerprint(item: Leased) -> str:
    return json.dumps([said_by(item).to_json(), item.forgotten, vars(item.before), vars(item.leased)])


def _plain(shelf: Shelf) -> Shelf:
    """Figures that only grow would make every state a new one."""
    for memory_id in shelf.rows:
        shelf.set_facet("usage", memory_id, None)
        facet = shelf.delivery(REMOTE, memory_id)
        if facet is not None:
            calm = replace(facet, attempts=min(facet.attempts, 1), last_error=None)
            shelf.set_delivery(REMOTE, memory_id, calm)
    return shelf


def words(number: int, significance: float) -> Draft:
    return draft(f"{significance:g} {number}", key="k", significance=significance)


def storing(told: Draft) -> Callable[[Transaction], Stored]:
    return write.store(told, DESK)


def first() -> State:
    empty = State(frozenset(), frozenset()).changed(known_remotes.add(REMOTE, "fake", "app", DESK.now_s))
    return empty.changed(storing(words(1, 0.9)))


def settle(state: State, move: Callable[[Delivery], Delivery]) -> State:
    item = state.sent
    assert item is not None
    return state.changed(lambda transaction: outbox.settle(transaction, item, "me", move)).sending(None)


def user_does(state: State) -> Iterator[State]:
    facet, row = state.facet, state.row
    if max(row.memory.revision, 0 if facet is None else facet.wanted) < MOST_CHANGES:
        for significance in (0.9, 0.3):
            yield state.changed(storing(words(row.memory.revision + 1, significance)))
        yield state.changed(write.forget("k", DESK))
        yield state.changed(write.restore("k", DESK))
    yield state.changed(outbox.retry(REMOTE, [state.memory_id], DESK.now_s, DESK.space))


def process_does(state: State) -> Iterator[State]:
    """Lease, and be killed; send, with every outcome the remote can have."""
    item = state.sent
    if item is None:
        yield leased(state)
        return
    yield state.changed(outbox.reclaim(REMOTE, [state.memory_id], "another", DESK.now_s)).sending(None)
    if state.facet != item.leased:
        yield state.changed(outbox.give_back([item], "me")).sending(None)
    done = replace(state, there=state.there.after(item))
    later = partial(delivery.postponed, reason="later", due=DESK.now_s)
    yield acknowledged(state)
    yield settle(done, later)
    yield settle(state, later)
    refusal = partial(delivery.refused, change=item.leased.wanted, reason="HTTP 422", due=DESK.now_s)
    yield settle(state, partial(refusal, clear=True))
    killed = done.changed(outbox.reclaim(REMOTE, [state.memory_id], "another", DESK.now_s))
    yield killed.sending(None)


def leased(state: State) -> State:
    items: list[Leased] = []
    claim = outbox.Claim(REMOTE, "me", DESK.now_s, 60, early=True).lease(REMOTE, 1)
    state = state.changed(lambda transaction: items.extend(claim(transaction)))
    if not items:
        return state
    (item,) = items
    assert item.forgotten or said_by(item).significance > REMOTE_ABOVE
    facet = state.facet
    assert facet is not None
    return state.sending(replace(item, leased=facet))


def acknowledged(state: State) -> State:
    item = state.sent
    assert item is not None
    remote_id = item.leased.remote_id if item.forgotten else "remote-1"
    done = replace(state, there=state.there.after(item))
    return settle(done, lambda facet: delivery.acknowledged(facet, item.confirms, remote_id, DESK.now_s))


def delivered(state: State) -> State:
    """What becomes of it when nothing fails any more."""
    state = state if state.sent is None else acknowledged(state)
    for _ in range(2 * MOST_CHANGES):
        state = leased(state.changed(outbox.retry(REMOTE, [state.memory_id], DESK.now_s, DESK.space)))
        if state.sent is None:
            return state
        state = acknowledged(state)
    raise AssertionError("it is sent for ever")


def is_right(state: State) -> bool:
    row, there = state.row, state.there.content
    if row.status is MemoryStatus.FORGOTTEN:
        return there is None
    if row.memory.significance > REMOTE_ABOVE:
        return there == row.memory.content
    return there is None or there.startswith("0.9")


def reachable(start: State, steps: Iterable[Callable[[State], Iterator[State]]]) -> set[State]:
    known, fresh = {start}, [start]
    while fresh:
        found = {after for state in fresh for step in steps for after in step(state)}
        fresh = list(found - known)
        known |= found
    return known


def test_from_every_state_that_can_be_reached_the_remote_comes_to_hold_what_it_should() -> None:
    states = reachable(first(), (user_does, process_does))
    assert len(states) > 1_000
    wrong = [(state.facet, state.there) for state in states if not is_right(delivered(state))]
    assert wrong == []
