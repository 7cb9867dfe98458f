"""Merging, splitting and naming threads, as changes: each runs whole inside one transaction of the store.

A merge only says, beside the thread that goes on as another one, that it does; all memories stay in their contexts.
What the other gained is written down there too, so that parting them takes it away again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from kingly_memory.attention import pins
from kingly_memory.attention.ratings import KEPT, Ratings
from kingly_memory.cognition.owners import owner
from kingly_memory.cognition.working import Context
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.intake import shown
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import archive, contexts, write
from kingly_memory.router.threads import leaving, roots
from kingly_memory.router.threads.named import Named
from kingly_memory.router.threads.roots import ATTENTION, THREAD
from kingly_memory.router.threads.views import RATINGS
from kingly_memory.router.write import WriteContext

MOST_MOVED = 2_000
"""Messages of a thread that is split, for all of them are written in one transaction."""
MOST_JOINED = 20
"""Topics, and past topics, that are kept of each thread when two are joined."""
COMPACTED = {"policy": "compaction"}
"""What is said of a memory that a compaction has archived; of one that was imported so, nothing is."""
_SHELVED = (Standing.LIVE, Standing.ARCHIVED)


class Share(NamedTuple):
    """Memories that become a thread of their own, and what that is called, if anybody has said."""

    memory_ids: tuple[MemoryId, ...]
    title: str | None = None


def merge(kept: Named, gone: Named, desk: WriteContext) -> Callable[[Transaction], tuple[MemoryId, ...]]:
    """From now on the second thread goes on as the first. Says which memories were revised: those that belonged to no
    context begin one. Raises InvalidInput."""

    def change(transaction: Transaction) -> tuple[MemoryId, ...]:
        revised = [_adopt(transaction, one, desk) for one in (kept, gone) if one.is_alone]
        into, source = owner(desk.project, kept.id), owner(desk.project, gone.id)
        for field, one, name in (("thread_a", kept, into), ("thread_b", gone, source)):
            target = roots.into(transaction.facet(THREAD, name) or {})
            if target is not None:
                raise InvalidInput(field, f"{shown(one.id)!r} was merged into {shown(target)!r} meanwhile; merge that")
        joined: JsonObject = {}
        for facet, join in ((THREAD, _joined), (ATTENTION, _heavier)):
            before = transaction.facet(facet, into)
            after = join(before or {}, transaction.facet(facet, source) or {})
            joined[facet] = [before, after]
            _set(transaction, facet, into, after)
        if cut := _join_ratings(transaction, into, source):
            joined[RATINGS] = cut.to_json()
        before = transaction.facet(THREAD, into) or {}
        held = [one for one in roots.holds(before) if one != gone.id]
        transaction.set_facet(THREAD, into, {**before, "context_id": kept.id, "holds": [*held, gone.id]})
        own = transaction.facet(THREAD, source) or {}
        went = {"context_id": gone.id, "into": kept.id, "at": desk.now_s, "joined": joined}
        transaction.set_facet(THREAD, source, {**own, **went})
        return tuple(revised)

    return change


def part(
    kept: str, children: Sequence[str], desk: WriteContext, *, is_erased: bool = False
) -> Callable[[Transaction], None]:
    """Those threads go on by themselves again, the latest to come first. When nothing else is left of the one that they
    leave, what was said of it goes; `is_erased`: none of its own memories can come back, so that nothing stays. Raises
    InvalidInput when none is there any more."""

    def change(transaction: Transaction) -> None:
        into = owner(desk.project, kept)
        there = [
            one
            for one in reversed(children)
            if roots.into(transaction.facet(THREAD, owner(desk.project, one)) or {}) == kept
        ]
        if not there:
            raise InvalidInput("thread_id", f"{shown(kept)!r} was split by somebody else meanwhile")
        for one in there:
            _take_apart(transaction, into, one, owner(desk.project, one))
        if roots.holds(transaction.facet(THREAD, into) or {}) or transaction.is_said_in(desk.project, kept):
            return
        if is_erased:
            leaving.clear(transaction, desk.project, kept)
        for facet in (THREAD, *leaving.TELLING):
            transaction.set_facet(facet, into, None)

    return change


def split(
    thread: Named,
    shares: Sequence[Share],
    contexts: Collection[str],
    desk: WriteContext,
    *,
    emptied: Sequence[str] = (),
) -> Callable[[Transaction], tuple[str, ...]]:
    """Each share becomes a thread of its own, and the rest keeps the id. Says the new ids, in the order of the shares;
    what is gone by now, or elsewhere than in those `contexts`, is left out. `emptied` are threads that were merged into
    this one and of which nothing stays: they go on as it no more. Raises InvalidInput when nothing is to be moved by
    now, or nothing would stay."""

    def change(transaction: Transaction) -> tuple[str, ...]:
        attention = transaction.facet(ATTENTION, thread.owner)
        ids: list[str] = []
        for share in shares:
            thread_id = _new_id(transaction, thread, share, desk)
            moved = list(_moved(transaction, share, contexts, thread_id, desk))
            if not moved:
                continue
            facet = {"context_id": thread_id, "split_from": thread.id, "at": desk.now_s}
            titled = facet if share.title is None else {**facet, "title": share.title}
            transaction.set_facet(THREAD, owner(desk.project, thread_id), titled)
            if attention is not None:
                transaction.set_facet(ATTENTION, owner(desk.project, thread_id), attention)
            _take_along(transaction, moved, thread_id, desk)
            ids.append(thread_id)
        if not ids or not any(transaction.is_said_in(desk.project, one) for one in contexts):
            raise InvalidInput("thread_id", f"{shown(thread.id)!r} was split by somebody else meanwhile")
        facet = transaction.facet(THREAD, thread.owner) or {}
        rest = {name: value for name, value in facet.items() if name not in ("topics", "drift_history")}
        _set(transaction, THREAD, thread.owner, rest)
        for one in emptied:
            if roots.into(transaction.facet(THREAD, owner(desk.project, one)) or {}) == thread.id:
                _take_apart(transaction, thread.owner, one, owner(desk.project, one))
                leaving.clear(transaction, desk.project, one)
        return tuple(ids)

    return change


def rename(thread: Named, title: str) -> Callable[[Transaction], None]:
    def change(transaction: Transaction) -> None:
        before = transaction.facet(THREAD, thread.owner) or {}
        transaction.set_facet(THREAD, thread.owner, {**before, **_named(thread), "title": title})

    return change


def recalled(threads: Sequence[Named], now_s: float) -> Callable[[Transaction], None]:
    """Note that somebody asked for them."""

    def change(transaction: Transaction) -> None:
        for one in threads:
            before = transaction.facet(THREAD, one.owner) or {}
            times = int(roots.number(before, "recalls") or 0) + 1
            noted = {**before, **_named(one), "recalls": times, "recalled_at": now_s}
            transaction.set_facet(THREAD, one.owner, noted)

    return change


def bring_back(thread: Named, memory_ids: Sequence[MemoryId], desk: WriteContext) -> Callable[[Transaction], int]:
    """Restore those of the memories that lie in the archive because of their thread, or that came there with an import.
    Says how many."""

    def change(transaction: Transaction) -> int:
        found = [row for one in memory_ids if (row := transaction.row(one)) is not None]
        back = [
            row.memory
            for row in found
            if row.standing is Standing.ARCHIVED
            and (transaction.facet(archive.FACET, row.memory.id) or COMPACTED).get("policy") == COMPACTED["policy"]
        ]
        if back:
            write.revive(transaction, back, desk)
        facet = transaction.facet(THREAD, thread.owner) or {}
        if "archived_at" in facet:
            rest = {name: value for name, value in facet.items() if name != "archived_at"}
            transaction.set_facet(THREAD, thread.owner, rest)
        return len(back)

    return change


# --- merging ----------------------------------------------------------------------------------------------------------


def _adopt(transaction: Transaction, alone: Named, desk: WriteContext) -> MemoryId:
    """A memory that belongs to no context begins one that is called like itself, so that its thread keeps its id."""
    row = transaction.row(alone.id)
    if row is None or row.standing not in _SHELVED or row.memory.scope.context_id is not None:
        raise InvalidInput("thread_id", f"{shown(alone.id)!r} was changed by somebody else meanwhile; try again")
    write.revise(transaction, _in_context(row.memory, alone.id), desk, row.standing)
    name = owner(desk.project, alone.id)
    for facet in (THREAD, RATINGS, ATTENTION):
        value = transaction.facet(facet, alone.id)
        if value is not None:
            transaction.set_facet(facet, name, {**value, "context_id": alone.id} if facet == THREAD else value)
            if facet != ATTENTION:  # which is the memory's own as well
                transaction.set_facet(facet, alone.id, None)
    return row.memory.id


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> JsonObject:
    """What has been said of both: the first one's title stays, topics and what they were about come one after the
    other."""
    joined = dict(one)
    for name in ("topics", "drift_history"):
        first, second = roots.texts(one, name), roots.texts(other, name)
        if name == "topics":
            both = tuple(dict.fromkeys((*first, *second)))
        else:
            both = (*first[-MOST_JOINED:], *second[-MOST_JOINED:])
        if second:
            joined[name] = list(both[: 2 * MOST_JOINED])
    for name, join in (("recalls", sum), ("recalled_at", max)):
        numbers = [value for value in (roots.number(one, name), roots.number(other, name)) if value is not None]
        if numbers:
            joined[name] = join(numbers)
    if "recalls" in joined:
        joined["recalls"] = int(joined["recalls"])
    return joined


def _heavier(one: Mapping[str, Any], other: Mapping[str, Any]) -> JsonObject:
    """The larger weight, and pinned when either is."""
    weights = [roots.number(facet, "weight") for facet in (one, other)]
    heavier = dict(one)
    weight = max(1.0 if value is None else value for value in weights)
    if weight != (1.0 if weights[0] is None else weights[0]):
        heavier["weight"] = weight
    if other.get("pinned") is True:
        heavier |= {"weight": weight, "pinned": True}
    return heavier


def _join_ratings(transaction: Transaction, into: str, source: str) -> Ratings:
    """In the order of their times. Says which of the first thread's own there is no room for beside the other's."""
    one, other = (Ratings.from_json(transaction.facet(RATINGS, name)) for name in (into, source))
    if not other.latest:
        return Ratings()
    both = [*((rating, True) for rating in one.latest), *((rating, False) for rating in other.latest)]
    both.sort(key=lambda rated: rated[0].at)
    transaction.set_facet(RATINGS, into, Ratings(tuple(rating for rating, _ in both[-KEPT:])).to_json())
    return Ratings(tuple(rating for rating, is_own in both[:-KEPT] if is_own))


def _take_apart(transaction: Transaction, into: str, child: str, source: str) -> None:
    """What the child brought along goes with it, unless somebody has changed it since."""
    own = transaction.facet(THREAD, source) or {}
    said = own.get("joined")
    joined = said if isinstance(said, dict) else {}
    kept = transaction.facet(THREAD, into) or {}
    rest = {**kept, "holds": [one for one in roots.holds(kept) if one != child]}
    before, after = _pair(joined, THREAD)
    for name in ("topics", "drift_history", "recalls"):
        if rest.get(name) == after.get(name) != before.get(name):
            rest[name] = before.get(name)
    _set(transaction, THREAD, into, {name: value for name, value in rest.items() if value not in (None, [])})
    before, after = _pair(joined, ATTENTION)
    if after and transaction.facet(ATTENTION, into) == after:
        _set(transaction, ATTENTION, into, before)
    brought = Counter(Ratings.from_json(transaction.facet(RATINGS, source)).latest)
    left = [*Ratings.from_json(joined.get(RATINGS)).latest]
    for rating in Ratings.from_json(transaction.facet(RATINGS, into)).latest:
        if brought[rating]:
            brought[rating] -= 1
        else:
            left.append(rating)
    _set(transaction, RATINGS, into, Ratings(tuple(left[-KEPT:])).to_json() if left else {})
    alone = {name: value for name, value in own.items() if name not in ("into", "at", "joined")}
    _set(transaction, THREAD, source, alone)


def _pair(joined: Mapping[str, Any], name: str) -> tuple[JsonObject, JsonObject]:
    """What lay there before and after, nothing where that cannot be read."""
    said = joined.get(name)
    before, after = said if isinstance(said, list) and len(said) == 2 else (None, None)  # noqa: PLR2004  # before, after
    return (before if isinstance(before, dict) else {}), (after if isinstance(after, dict) else {})


# --- splitting --------------------------------------------------------------------------------------------------------


def _new_id(transaction: Transaction, thread: Named, share: Share, desk: WriteContext) -> str:
    """Follows from what is split and when, unless that name is taken."""
    for turn in range(1_000):
        said = f"{desk.project}\0{thread.id}\0{share.memory_ids[0]}\0{turn}"
        thread_id = pins.thread_id(desk.now, sha256(said.encode()).digest())
        name = owner(desk.project, thread_id)
        if not transaction.facets((THREAD, ATTENTION, contexts.FACET), name):
            return thread_id
    raise AssertionError(thread.id)


def _moved(
    transaction: Transaction, share: Share, contexts: Collection[str], thread_id: str, desk: WriteContext
) -> Iterator[Memory]:
    for memory_id in share.memory_ids:
        row = transaction.row(memory_id)
        if row is not None and row.standing in _SHELVED and row.memory.scope.context_id in contexts:
            write.revise(transaction, _in_context(row.memory, thread_id), desk, row.standing)
            yield row.memory


def _in_context(memory: Memory, context_id: str) -> Memory:
    """Nothing was said anew, so that the time of its text stays."""
    return replace(memory, scope=replace(memory.scope, context_id=context_id), revision=memory.revision + 1)


def _take_along(transaction: Transaction, moved: Sequence[Memory], thread_id: str, desk: WriteContext) -> None:
    """What was at hand where the memories were is at hand where they are now."""
    ids = {memory.id for memory in moved}
    for context_id in {memory.scope.context_id for memory in moved} - {None}:
        name = owner(desk.project, str(context_id))
        facet = transaction.facet(contexts.FACET, name)
        if facet is None:
            continue
        before = Context.from_json(facet)
        items = tuple(one for one in before.items if one not in ids)
        pending = tuple(one for one in before.pending if one not in ids)
        skipped = before.skipped if pending[:1] == before.pending[:1] else 0
        left = replace(before, items=items, pending=pending, skipped=skipped)
        transaction.set_facet(contexts.FACET, name, left.to_json())
        gone = tuple(one for one in before.items if one in ids)
        if gone:
            _lay_out(transaction, Context(thread_id, gone, before.used_s, before.noted_s), desk)


def _lay_out(transaction: Transaction, there: Context, desk: WriteContext) -> None:
    name = owner(desk.project, there.context_id)
    facet = transaction.facet(contexts.FACET, name)
    if facet is not None:
        before = Context.from_json(facet)
        items = tuple(sorted((*before.items, *there.items)))[-desk.contexts.capacity :]
        used_s, noted_s = max(before.used_s, there.used_s), max(before.noted_s, there.noted_s)
        there = replace(before, items=items, used_s=used_s, noted_s=noted_s)
    transaction.set_facet(contexts.FACET, name, there.to_json())


def _named(thread: Named) -> JsonObject:
    return {} if thread.is_alone else {"context_id": thread.id}


def _set(transaction: Transaction, name: str, whose: str, value: JsonObject) -> None:
    """Nothing to say is no facet."""
    said = {one for one in value if one != "context_id"}
    transaction.set_facet(name, whose, value if said else None)
