"""Merging, splitting and naming threads, as changes: each runs whole inside one transaction of the store.

A merge only notes, beside a thread, which one it was merged into. Memories stay in their contexts, and what was said of
either thread stays beside it; readers put it together (`reading.combined`). A split revises memories into new contexts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

from kingly_memory.attention import pins
from kingly_memory.cognition.context import Context
from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import replace
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import KEPT, JsonObject, Memory
from kingly_memory.ports import Transaction, in_transaction
from kingly_memory.router import contexts, write
from kingly_memory.router.thread_lookup import ATTENTION, THREAD, Named, into, number, texts
from kingly_memory.router.write import WriteContext
from kingly_memory.validation import shown

MOST_MOVED = 2_000
"""Messages of a thread that is split: all of them are written in one transaction."""


@in_transaction
def merge(transaction: Transaction, kept: Named, gone: Named) -> None:
    """From now on the second thread is part of the first, which gets the larger weight. Raises InvalidInput."""
    target, source = kept.owner, gone.owner
    of_kept, of_gone = (transaction.facet(THREAD, whose) or {} for whose in (target, source))
    for field, thread, facet in (("thread_a", kept, of_kept), ("thread_b", gone, of_gone)):
        if (other := into(facet)) is not None:
            raise InvalidInput(field, f"{shown(thread.id)!r} was merged into {shown(other)!r} meanwhile; merge that")
    weights = (transaction.facet(ATTENTION, whose) or {} for whose in (target, source))
    transaction.set_facet(ATTENTION, target, _heavier(*weights) or None)
    held = [one for one in texts(of_kept, "holds") if one != gone.id]
    transaction.set_facet(THREAD, target, {**of_kept, "context_id": kept.id, "holds": [*held, gone.id]})
    transaction.set_facet(THREAD, source, {**of_gone, "context_id": gone.id, "into": kept.id})


@in_transaction
def split(
    transaction: Transaction,
    thread: Named,
    shares: Sequence[Sequence[MemoryId]],
    context_ids: Collection[str],
    context: WriteContext,
) -> tuple[str, ...]:
    """Each share of the memories becomes a thread of its own; the rest keeps the id. Answers the new ids, in the order
    of the shares. Memories that have left those contexts since are passed over. Raises InvalidInput when by now nothing
    would be moved, or nothing stay."""
    attention = transaction.facet(ATTENTION, thread.owner)
    ids: list[str] = []
    for share in shares:
        thread_id = _new_id(transaction, thread, share, context)
        rows = [row for one in share if (row := transaction.row(one)) is not None]
        moved = [row for row in rows if row.status in KEPT and row.memory.scope.context_id in context_ids]
        if not moved:
            continue
        for row in moved:  # nothing was said anew, so the times of the texts stay
            scope = replace(row.memory.scope, context_id=thread_id)
            after = replace(row.memory, scope=scope, revision=row.memory.revision + 1)
            write.revise(transaction, after, context, row.status)
        if attention is not None:
            transaction.set_facet(ATTENTION, owner(context.space, thread_id), attention)
        _move_at_hand(transaction, [row.memory for row in moved], thread_id, context)
        ids.append(thread_id)
    if not ids or not any(transaction.has_context(context.space, one) for one in context_ids):
        raise InvalidInput("thread_id", f"{shown(thread.id)!r} was split by somebody else meanwhile")
    for whose in {owner(context.space, one) for one in context_ids} or {thread.owner}:
        facet = transaction.facet(THREAD, whose) or {}
        kept = {name: value for name, value in facet.items() if name != "topics" and value is not None}
        transaction.set_facet(THREAD, whose, kept if kept.keys() - {"context_id"} else None)
    return tuple(ids)


@in_transaction
def rename(transaction: Transaction, thread: Named, title: str) -> None:
    before = transaction.facet(THREAD, thread.owner) or {}
    transaction.set_facet(THREAD, thread.owner, {**before, **_named(thread), "title": title})


@in_transaction
def recalled(transaction: Transaction, threads: Sequence[Named], now_s: float) -> None:
    """Note that somebody asked for them."""
    for thread in threads:
        before = transaction.facet(THREAD, thread.owner) or {}
        noted = {"recalls": int(number(before, "recalls") or 0) + 1, "recalled_at": now_s}
        transaction.set_facet(THREAD, thread.owner, {**before, **_named(thread), **noted})


def _heavier(first: Mapping[str, Any], other: Mapping[str, Any]) -> JsonObject:
    """The facet `attention` with the larger of both weights, pinned when either is."""
    weight, other_weight = (1.0 if (value := number(facet, "weight")) is None else value for facet in (first, other))
    heavier = dict(first)
    if other_weight > weight:
        heavier["weight"] = other_weight
    if other.get("pinned") is True:
        heavier |= {"weight": max(weight, other_weight), "pinned": True}
    return heavier


def _new_id(transaction: Transaction, thread: Named, share: Sequence[MemoryId], context: WriteContext) -> str:
    """Follows from what is split and when, unless that id is taken."""
    seeds = (f"{context.space}\0{thread.id}\0{share[0]}\0{turn}" for turn in count())
    ids = (pins.thread_id(context.now, sha256(seed.encode()).digest()) for seed in seeds)
    beside = (THREAD, ATTENTION, contexts.FACET)
    return next(one for one in ids if not any(transaction.facet(name, owner(context.space, one)) for name in beside))


def _move_at_hand(transaction: Transaction, moved: Sequence[Memory], thread_id: str, context: WriteContext) -> None:
    """What was at hand in the working contexts of the memories is at hand in their new one."""
    ids = {memory.id for memory in moved}
    target = Context(thread_id)
    for context_id in sorted({memory.scope.context_id or "" for memory in moved}):
        facet = transaction.facet(contexts.FACET, owner(context.space, context_id))
        if facet is None:
            continue
        before = Context.from_json(facet)
        pending = tuple(one for one in before.pending if one not in ids)
        left = replace(
            before,
            items=tuple(one for one in before.items if one not in ids),
            pending=pending,
            skipped=before.skipped if pending[:1] == before.pending[:1] else 0,
        )
        transaction.set_facet(contexts.FACET, owner(context.space, context_id), left.to_json())
        gone = [one for one in before.items if one in ids]
        target = replace(
            target,
            items=tuple(sorted((*target.items, *gone)))[-context.contexts.capacity :],
            used_s=max(target.used_s, before.used_s if gone else 0.0),
            noted_s=max(target.noted_s, before.noted_s if gone else 0.0),
        )
    if target.items:
        transaction.set_facet(contexts.FACET, owner(context.space, thread_id), target.to_json())


def _named(thread: Named) -> JsonObject:
    return {} if thread.is_alone else {"context_id": thread.id}
