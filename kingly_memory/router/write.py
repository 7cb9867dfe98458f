"""Every write of memories as a change: a function that runs whole inside one transaction of the store.

A store checks nothing any more. It writes the memory, when it ends, what is due at each remote, and its place in the
working context, and answers with the receipt.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any

from kingly_memory.cognition import thoughts
from kingly_memory.cognition.context import ContextRules
from kingly_memory.dataclass import NamedTuple, dataclass, field, replace
from kingly_memory.errors import InvalidInput, KeptForEveryProject, NoSuchRevision, NothingUnder, RevisionConflict
from kingly_memory.ids import MemoryId, derived_id, new_id
from kingly_memory.lifecycle.lifetimes import Lifetime, UsualLifetimes, is_expired, later_of
from kingly_memory.lifecycle.tiers import SEEDS_TIERS, kept_placement
from kingly_memory.models import (
    REMOTE_ABOVE,
    DeliveryState,
    Memory,
    MemoryStatus,
    MemoryType,
    Origin,
    Receipt,
    RemoteUse,
    just_after,
    spaces_read,
)
from kingly_memory.ports import Delivery, Lookups, Row, Transaction, in_transaction
from kingly_memory.router import contexts, experiences
from kingly_memory.router.contexts import Due
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery.known_remotes import add, is_earlier, know
from kingly_memory.router.delivery.outbox import earlier_delivery, every_remote, first_delivery
from kingly_memory.router.delivery.routes import Routes, added_to, receipt_of
from kingly_memory.router.lifecycle import alive, archive, lifetimes, summaries
from kingly_memory.settings import Tiers
from kingly_memory.validation import TAGS_LIMIT, Draft, Imported, shown

CHANGES_KEPT_S = 90 * 86_400.0
"""How long the change feed goes back, after a sweep."""


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What every change needs to know: whose memories these are, which remotes are in use, and what time it is."""

    space: str
    agent: str | None
    routes: Routes | None
    lifetimes: UsualLifetimes
    now: datetime
    contexts: ContextRules = field(default_factory=ContextRules)
    tiers: Tiers = SEEDS_TIERS
    redacts: bool = False
    last_use: Callable[[str], float] = lambda _: 0.0
    """The last use of a context that may not be written down yet."""

    @property
    def now_s(self) -> float:
        return self.now.timestamp()

    def after(self, memory: Memory) -> datetime:
        """Now, or just after what was done to the memory last, maybe by another machine whose clock is ahead: machines
        agree by these times on what came later."""
        return just_after(memory.updated_at, self.now)


class Stored(NamedTuple):
    """What became of a draft, in which context, what is at hand there, and how many whispers are due."""

    receipt: Receipt
    context_id: str | None
    at_hand: tuple[MemoryId, ...] = ()
    whispers_due: int = 0


class Forgotten(NamedTuple):
    """What was forgotten, and what was revised or forgotten with it."""

    memory: Memory
    others: tuple[MemoryId, ...] = ()


# --- storing ----------------------------------------------------------------------------------------------------------


def without_secrets(draft: Draft, context: WriteContext) -> tuple[Draft, int]:
    """The draft and how many secrets seem to stand in it: where they are taken out, only those in what it is found by,
    which stays. Every face's texts come in here; hooks have taken out those of captured text before."""
    redacted, secrets_in = _finders()
    content, count = redacted(draft.content)
    fields = {"content": content}
    for name in ("title", "metadata"):
        if value := getattr(draft, name):
            fields[name], found = redacted(value)
            count += found
    in_names = sum(map(secrets_in, filter(None, (draft.key, draft.context_id, *draft.tags))))
    if not count or not context.redacts:
        return draft, count + in_names
    return replace(draft, **fields), in_names


_loading = threading.Lock()
# A fork waits until nobody holds it: else the child would find a module that was loaded by halves.
os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


@cache  # to import them each time takes a store 0.6 µs
def _finders() -> tuple[Callable[[Any], tuple[Any, int]], Callable[[str], int]]:
    with _loading:
        from kingly_memory.text.redaction import redacted, secrets_in  # most commands store nothing

    return redacted, secrets_in


def store(
    original: Draft,
    context: WriteContext,
    *,
    noted: bool = True,
    if_revision: int | None = None,
    folds: bool = False,
) -> Callable[[Transaction], Stored]:
    """A new memory, or a new revision of the one that has the key already, damaged or not, unless that says the same;
    `noted` in its working context. What `folds` goes into a live memory that says just that, where neither has a key.
    The change raises RevisionConflict."""
    draft, secrets = without_secrets(original, context)  # here, so that no writer waits for it
    # No closure: ten thousand are stored at once, and the garbage collector would go through nine objects of each.
    return partial(
        _put, draft=draft, secrets=secrets, context=context, noted=noted, if_revision=if_revision, folds=folds
    )


def store_once(original: Draft, context: WriteContext) -> Callable[[Transaction], Stored | None]:
    """The same for what has a key and may be told again: what says so already, or was forgotten, stays as it is, and
    the change answers with None."""
    draft, secrets = without_secrets(original, context)
    return partial(_put_once, draft=draft, secrets=secrets, context=context)


def _put_once(transaction: Transaction, draft: Draft, secrets: int, context: WriteContext) -> Stored | None:
    if draft.key is not None and is_kept(transaction, context.space, draft.key, draft.content, context.now_s):
        return None
    return _put(transaction, draft, secrets, context, noted=True, if_revision=None, folds=False)


def is_kept(lookups: Lookups, space: str, key: str, text: str, now_s: float) -> bool:
    """Whether what was stored under the key says so and can be found, or was forgotten."""
    row = _by_key(lookups, space, key)
    if row is None or row.status is MemoryStatus.FORGOTTEN:
        return row is not None
    is_over = row.status is MemoryStatus.ARCHIVED or is_expired(lifetimes.lifetime_of(lookups, row.memory.id), now_s)
    return row.memory.content == text and not is_over


def _put(
    transaction: Transaction,
    draft: Draft,
    secrets: int,
    context: WriteContext,
    *,
    noted: bool,
    if_revision: int | None,
    folds: bool,
) -> Stored:
    memory_id = None if draft.key is None else transaction.id_of_key(context.space, draft.key)
    before = None if memory_id is None else _of_key(transaction, memory_id, draft.key)
    if before is None and memory_id is not None:
        before = repair(transaction, context.space, memory_id)
    if if_revision is not None:
        if before is None and if_revision and draft.key is not None:
            find_own(transaction, context.space, draft.key)
        _check_revision(draft.key, before, if_revision)
    memory = _memory(draft if before is None else _completed_from(draft, before.memory, context), before, context)
    lifetime = _lifetime(transaction, draft, memory, before, context)
    twin = _duplicate(transaction, memory, context) if folds and draft.key is None else None
    if twin is not None:
        memory, receipt = _merge_duplicate(transaction, draft, memory, twin, context, lifetime=lifetime)
    elif before is not None and _is_unchanged(transaction, before, memory, context):
        memory = before.memory
        receipt = _with_sighting(transaction, memory, _note_use(transaction, memory, context, lifetime), context)
    else:
        if before is not None:
            _clear_outdated(transaction, before, memory, context)
        receipt = _save(
            transaction, memory, MemoryStatus.LIVE, context, lifetime, is_new=before is None, is_requested=True
        )
    if secrets:
        receipt = replace(receipt, secrets=secrets)
    return (
        _note_in_context(transaction, memory, receipt, context) if noted else Stored(receipt, memory.scope.context_id)
    )


def _note_in_context(transaction: Transaction, memory: Memory, receipt: Receipt, context: WriteContext) -> Stored:
    """Note a memory in its context, if it has one, and consolidate what then has no place there any more."""
    context_id = memory.scope.context_id
    if context_id is None:
        return Stored(receipt, None)
    after = contexts.note(
        transaction,
        memory,
        context_id,
        agent=context.agent,
        now_s=context.now_s,
        rules=context.contexts,
        used_s=context.last_use(context_id),
    )
    for memory_id in after.overflow:
        _consolidate(transaction, memory_id, context_id, context)
    due = after.context.due(context.contexts.whisper_tokens)
    return Stored(receipt, context_id, after.context.items, due)


def _duplicate(transaction: Transaction, memory: Memory, context: WriteContext) -> Memory | None:
    """The live memory without a key that says just what this one says."""
    row = transaction.same_as(memory)
    if row is None or lifetimes.is_over(transaction, row, context.now_s):
        return None
    mine = ("content", "title", "type", "origin", "scope", "metadata", "key")
    return row.memory if all(getattr(row.memory, name) == getattr(memory, name) for name in mine) else None


def _merge_duplicate(
    transaction: Transaction,
    draft: Draft,
    memory: Memory,
    twin: Memory,
    context: WriteContext,
    *,
    lifetime: Lifetime | None,
) -> tuple[Memory, Receipt]:
    """One memory of two that say the same: of what the second one says of itself the higher significance and
    confidence, the tags of both, and the later end."""
    higher = {
        name: max(getattr(twin, name), getattr(memory, name))
        for name in ("significance", "confidence")
        if name not in draft.unsaid
    }
    both = replace(twin, tags=tuple(dict.fromkeys((*twin.tags, *memory.tags)))[:TAGS_LIMIT], **higher)
    later = later_of(lifetimes.lifetime_of(transaction, twin.id), lifetime, context.now_s)
    if both == twin:
        receipt = _note_use(transaction, twin, context, later)
    else:
        both = replace(both, updated_at=context.after(twin), revision=twin.revision + 1)
        receipt = _save(transaction, both, MemoryStatus.LIVE, context, later, is_requested=True)
    return both, _with_sighting(transaction, both, receipt, context)


def _with_sighting(transaction: Transaction, memory: Memory, receipt: Receipt, context: WriteContext) -> Receipt:
    """The receipt of a memory that was stored once more."""
    transaction.note_seen(memory)
    return replace(receipt, sightings=alive.see(transaction, memory.id, context.now_s))


def _completed_from(draft: Draft, old: Memory, context: WriteContext) -> Draft:
    """A revision under a key keeps what is left unsaid, but tags and significance only of an agent's own memory: what
    another one said of its text is not said of this."""
    is_own = (draft.agent or context.agent) == old.scope.agent
    return (draft if is_own else replace(draft, unsaid=draft.unsaid - {"tags", "significance"})).revising(old)


def _check_revision(name: str | None, before: Row | None, expected: int | None) -> None:
    if expected and name is None:
        raise InvalidInput("if_revision", "goes with the key of a memory, and none is given")
    current = 0 if before is None or before.status is MemoryStatus.FORGOTTEN else before.memory.revision
    if expected not in (None, current):
        raise RevisionConflict(str(name)[:200], int(expected or 0), current)


def update(
    key_or_id: str, original: Draft, context: WriteContext, if_revision: int | None = None
) -> Callable[[Transaction], Stored | None]:
    """A new revision of a memory that keeps all that the draft leaves unsaid, its text among it; none when that changes
    nothing. None when there is no such memory. Raises RevisionConflict."""
    draft, secrets = without_secrets(original, context)

    def change(transaction: Transaction) -> Stored | None:
        before = find_own(transaction, context.space, key_or_id)
        if before is None or before.status in (MemoryStatus.FORGOTTEN, MemoryStatus.CACHED):
            return None
        _check_revision(key_or_id, before, if_revision)
        revised = draft.revising(before.memory)
        author = revised.agent if "agent" in draft.unsaid else context.agent
        memory = _memory(revised, before, replace(context, agent=author))
        lifetime = _lifetime(transaction, draft, memory, before, context)
        if _is_unchanged(transaction, before, memory, context):
            return Stored(_note_use(transaction, before.memory, context, lifetime), None)
        _clear_outdated(transaction, before, memory, context)
        receipt = _save(transaction, memory, MemoryStatus.LIVE, context, lifetime, is_requested=True)
        return Stored(replace(receipt, secrets=secrets), None)

    return change


@in_transaction
def whisper(transaction: Transaction, due: Due, context: WriteContext) -> bool:
    """Store the whispers that are due, unless the context has moved on meanwhile: then False, and nothing is stored."""
    if not contexts.advance(transaction, context.space, due):
        return False
    for draft in due.drafts:
        memory = _memory(draft, None, replace(context, agent=None))  # whoever stores last need not have said any of it
        _save(transaction, memory, MemoryStatus.LIVE, context, context.lifetimes[memory.type], is_new=True)
    return True


def import_all(items: Sequence[Imported], context: WriteContext) -> Callable[[Transaction], list[tuple[Receipt, str]]]:
    """Many imported memories at once, each with what became of it: stored, revised, unchanged, kept or stays_away."""
    if context.redacts:
        items = [replace(item, draft=without_secrets(item.draft, context)[0]) for item in items]

    def change(transaction: Transaction) -> list[tuple[Receipt, str]]:
        found, whole = [], {item.id for item in items if not item.is_earlier}
        for item in items:
            if item.is_earlier and item.id in whole:
                _import_earlier(transaction, item, context)
            elif not item.is_earlier:
                found.append(_import(transaction, item, context))
        return found

    return change


def _import_earlier(transaction: Transaction, item: Imported, context: WriteContext) -> None:
    """What a memory said before, if the memory comes from the same file and has no history here."""
    memory_id, existing = in_space(transaction, item.id or "", context.space)
    if existing is None and _by_key(transaction, context.space, item.draft.key) is None:
        created_at = item.draft.created_at or context.now
        updated_at = item.updated_at or created_at
        transaction.keep_revision(
            item.draft.memory(
                memory_id, context.space, created_at=created_at, updated_at=updated_at, revision=item.revision
            )
        )


def _import(transaction: Transaction, item: Imported, context: WriteContext) -> tuple[Receipt, str]:
    before, wanted_id = _by_key(transaction, context.space, item.draft.key), item.id
    if wanted_id is not None:
        wanted_id, existing = in_space(transaction, wanted_id, context.space)
        if existing is not None and existing.is_tombstone:
            return _receipt(transaction, existing.memory, context.routes), "stays_away"
        before = before or existing
    memory = _memory(item.draft, before, context, wanted_id, item.updated_at or context.now)
    if before is None:
        memory = replace(memory, revision=item.revision)
        for name, facet in item.beside.items():
            transaction.set_facet(name, memory.id, facet)
    lifetime = lifetimes.in_file(item) or _lifetime(transaction, item.draft, memory, before, context)
    has_ended = item.status is MemoryStatus.LIVE and item.ends_at is not None and item.ends_at <= context.now
    if before is not None:
        ends_otherwise = not has_ended and lifetimes.differs(transaction, item, lifetime, before)
        if _says_the_same(before.memory, memory) and not ends_otherwise:
            fate = "stays_away" if before.status is MemoryStatus.FORGOTTEN else "unchanged"
            return _receipt(transaction, before.memory, context.routes), fate
        # What somebody has written himself, and after the file's text, an import must not undo.
        written_at = item.updated_at or item.draft.created_at
        if (
            before.memory.origin is not Origin.IMPORT
            and written_at is not None
            and written_at < before.memory.updated_at
        ):
            return _receipt(transaction, before.memory, context.routes), "kept"
        _clear_outdated(transaction, before, memory, context)
    receipt = _save(transaction, memory, item.status, context, lifetime, is_requested=True)
    if before is None and item.ends_at is not None and item.status is MemoryStatus.LIVE:  # it may have ended already
        lifetimes.put(transaction, memory.id, lifetime)
    for source_id in summaries.note(transaction, memory):  # a summary tells nothing of what was forgotten here
        source = transaction.row(source_id)
        if source is not None and source.status is MemoryStatus.FORGOTTEN:
            _redact(transaction, source.memory, context)
    return receipt, "stored" if before is None else "revised"


def in_space(transaction: Transaction, memory_id: str, space: str) -> tuple[MemoryId, Row | None]:
    """What a file's memory of that id is called in a space, and its row there, if it has one. An id that the memory of
    another space has gives way to one that is derived from it."""
    row = transaction.row(memory_id)
    if row is None or row.memory.scope.space == space:
        return MemoryId(memory_id), row
    derived = derived_id(memory_id, space)
    return derived, transaction.row(derived)


def _says_the_same(old: Memory, new: Memory) -> bool:
    origin = old.origin if new.origin is Origin.IMPORT else new.origin  # a file vouches for nobody, nor does it demote
    like_old = replace(new, origin=origin, updated_at=old.updated_at, revision=old.revision, created_at=old.created_at)
    return like_old == old


def _is_unchanged(transaction: Transaction, before: Row, memory: Memory, context: WriteContext) -> bool:
    """Whether a live memory says just that already: a revision that says the same would push out one that does not."""
    is_live = before.status is MemoryStatus.LIVE and not lifetimes.is_over(transaction, before, context.now_s)
    return is_live and _says_the_same(before.memory, memory)


def _note_use(transaction: Transaction, memory: Memory, context: WriteContext, lifetime: Lifetime | None) -> Receipt:
    """Storing the same text again is a use of the memory: its lifetime begins anew, and remotes that do not know of it
    get it."""
    lives = lifetimes.begin(transaction, memory, lifetime, context.now_s)
    _deliver(transaction, memory, context, is_requested=True, is_same=True)
    return replace(_receipt(transaction, memory, context.routes), ends_at=None if lives is None else lives.ends_at)


def _memory(
    draft: Draft,
    before: Row | None,
    context: WriteContext,
    wanted_id: str | None = None,
    updated_at: datetime | None = None,
) -> Memory:
    """What the draft says, as a new memory or as the next revision of what was there."""
    if before is None:
        created = draft.created_at or context.now
        memory_id, revision, updated = MemoryId(wanted_id or new_id(context.now)), 1, updated_at or created
    else:
        old, updated = before.memory, context.after(before.memory)
        memory_id, revision, created = old.id, old.revision + 1, old.created_at
    return draft.memory(
        memory_id, context.space, created_at=created, updated_at=updated, revision=revision, agent=context.agent
    )


def _lifetime(
    transaction: Transaction, draft: Draft, memory: Memory, before: Row | None, context: WriteContext
) -> Lifetime | None:
    """The lifetime of what is stored: as its owner says, else as it was, else as its type or kind says. Raises
    InvalidInput for an end of what is pinned."""
    if "ttl" not in draft.unsaid:
        if draft.ttl_s is not None and before is not None and lifetimes.is_pinned(transaction, memory.id):
            raise InvalidInput("ttl", "the memory is pinned, so it has no end; unpin it first or leave out the ttl")
        return None if draft.ttl_s is None else Lifetime(context.now_s + draft.ttl_s)
    of_its_type = context.lifetimes[draft.kind or memory.type]
    if before is None:
        return of_its_type
    current = lifetimes.lifetime_of(transaction, memory.id)
    if current is None:
        is_as_it_was = draft.kind is None and memory.type is before.memory.type and before.status is MemoryStatus.LIVE
        return None if is_as_it_was else of_its_type
    is_named = current.sliding_s is None and not is_expired(current, context.now_s)
    return current if is_named or "type" in draft.unsaid else of_its_type


def _save(
    transaction: Transaction,
    memory: Memory,
    status: MemoryStatus,
    context: WriteContext,
    lifetime: Lifetime | None,
    *,
    is_new: bool = False,
    is_requested: bool = False,
) -> Receipt:
    """`is_new`: it has just got its id, so that nothing can lie beside it that would have to be read. `is_requested`:
    it is what the caller asked to store, rather than what follows from that."""
    transaction.save(memory, status)
    if memory.metadata:  # what has none is no thought
        thoughts.note(transaction, memory)
    lives = None
    if lifetime is not None or not is_new:
        lives = lifetimes.begin(transaction, memory, lifetime, context.now_s, is_new=is_new)
    if status is not MemoryStatus.LIVE:
        lifetimes.stop(transaction, memory.id)
    due = {} if status is MemoryStatus.FORGOTTEN else _deliver(transaction, memory, context, is_new, is_requested)
    ends_at = lives.ends_at if lives is not None and status is MemoryStatus.LIVE else None
    receipt = _receipt(transaction, memory, context.routes, due)
    return receipt if ends_at is None else replace(receipt, ends_at=ends_at)


def _clear_outdated(transaction: Transaction, before: Row, after: Memory, context: WriteContext) -> None:
    """Clear what a new revision makes untrue. Where the text is another one, summaries no longer quote the old one."""
    if after.content != before.memory.content:
        summaries.disconnect(transaction, after)
        _redact(transaction, before.memory, context)
    if before.status is not MemoryStatus.LIVE:
        transaction.set_facet(archive.FACET, after.id, None)


def _consolidate(transaction: Transaction, memory_id: MemoryId, context_id: str, context: WriteContext) -> None:
    """A working memory that no longer fits its context becomes an episodic one, under the same id."""
    row = transaction.row(memory_id)
    if row is None or row.status is not MemoryStatus.LIVE or row.memory.type is not MemoryType.WORKING:
        return
    if row.memory.scope.context_id != context_id:  # it is at hand in another context by now
        return
    happened = replace(row.memory, type=MemoryType.EPISODIC, updated_at=context.now, revision=row.memory.revision + 1)
    lifetime = lifetimes.lifetime_of(transaction, memory_id)
    if lifetime is not None and lifetime.sliding_s is not None:
        lifetime = context.lifetimes[happened.type]
    _save(transaction, happened, MemoryStatus.LIVE, context, lifetime)


def revise(
    transaction: Transaction, memory: Memory, context: WriteContext, status: MemoryStatus = MemoryStatus.LIVE
) -> None:
    """Write a new revision of a memory, live or archived, whose lifetime goes on."""
    transaction.save(memory, status)
    _deliver(transaction, memory, context)


def find(transaction: Transaction, space: str, key_or_id: str) -> Row | None:
    """The project's memory under that key, else under that id."""
    found = _by_key(transaction, space, key_or_id) or transaction.row(key_or_id)
    return found if found is not None and found.memory.scope.space == space else None


def find_own(
    transaction: Transaction, space: str, key_or_id: str, field: str = "key_or_id", *, or_forgotten: bool = False
) -> Row | None:
    """The same. Raises KeptForEveryProject where nothing of the project has that name, and what its user keeps for
    every project has it."""
    found = find(transaction, space, key_or_id)
    if found is None:
        for everywhere in spaces_read(space)[1:]:
            kept = find(transaction, everywhere, key_or_id)
            if kept is not None and (or_forgotten or kept.status is not MemoryStatus.FORGOTTEN):
                raise KeptForEveryProject(key_or_id, field)
    return found


def present(transaction: Transaction, space: str, key_or_id: str, field: str = "key_or_id") -> Row:
    """The same. Raises InvalidInput where there is none, or it was forgotten."""
    row = find_own(transaction, space, key_or_id, field)
    if row is None:
        raise NothingUnder(key_or_id, field=field)
    if row.status is MemoryStatus.FORGOTTEN:
        raise InvalidInput(field, f"{shown(key_or_id)!r} was forgotten; restore it first")
    return row


def _by_key(lookups: Lookups, space: str, key: str | None) -> Row | None:
    memory_id = None if key is None else lookups.id_of_key(space, key)
    return None if memory_id is None else _of_key(lookups, memory_id, key)


def _of_key(lookups: Lookups, memory_id: MemoryId, key: str | None) -> Row | None:
    row = lookups.row(memory_id)
    return row if row is not None and row.memory.key == key else None  # else its pointer is damaged


def repair(transaction: Transaction, space: str, key_or_id: str, revision: int | None = None) -> Row | None:
    """Have a damaged memory of the space say again what it said last, or as that `revision`, as its next revision.
    None where none of that name is damaged. Raises InvalidInput for a revision that is not there."""
    remains = transaction.remains(transaction.id_of_key(space, key_or_id) or key_or_id)
    if remains is None or remains.memory.scope.space != space:
        return None
    before = remains.memory
    earlier = _earlier(transaction, replace(before, revision=0), revision)
    restored = before if earlier is None else replace(earlier, key=before.key, scope=before.scope)
    transaction.save(replace(restored, revision=before.revision + 1), remains.status)
    return transaction.row(before.id)


# --- forgetting and restoring -----------------------------------------------------------------------------------------


@in_transaction
def forget(transaction: Transaction, key_or_id: str, context: WriteContext) -> Forgotten | None:
    """Put the memory out of sight on this machine at once, and on every remote that has it as soon as it answers.
    Summaries no longer quote it. Of a learned text, the summary and the whole text go together."""
    row = find_own(transaction, context.space, key_or_id) or repair(transaction, context.space, key_or_id)
    if row is None or row.status is MemoryStatus.FORGOTTEN:
        return None
    memory = row.memory
    _hide(transaction, memory, context)
    counterparts = [
        other.memory
        for other in summaries.counterparts(transaction, memory)
        if other.status is not MemoryStatus.FORGOTTEN
    ]
    for counterpart in counterparts:
        _hide(transaction, counterpart, context)
    gone = [memory, *counterparts]
    redacted = [memory_id for hidden in gone for memory_id in _redact(transaction, hidden, context)]
    return Forgotten(memory, (*(counterpart.id for counterpart in counterparts), *redacted))


@in_transaction
def restore(
    transaction: Transaction, key_or_id: str, context: WriteContext, revision: int | None = None
) -> Memory | None:
    """Bring back a memory that was forgotten, archived, or whose lifetime has ended, with a fresh lifetime. A live one
    stays as it is. With the number of an earlier `revision` what the memory said then is a new revision of it. Raises
    InvalidInput for a revision that is not there."""
    row = find_own(transaction, context.space, key_or_id, or_forgotten=True)
    if row is None and revision is not None:
        row = repair(transaction, context.space, key_or_id, revision)
        if row is not None:
            revive(transaction, [row.memory], context)
            _deliver(transaction, row.memory, context)
            return row.memory
    if row is None or row.is_tombstone:
        return None
    earlier = _earlier(transaction, row.memory, revision)
    memory, was_forgotten = row.memory, row.status is MemoryStatus.FORGOTTEN
    if was_forgotten or row.status is MemoryStatus.ARCHIVED or lifetimes.is_over(transaction, row, context.now_s):
        revive(transaction, [memory], context)
    if was_forgotten:
        memory = replace(memory, updated_at=context.after(memory))
        transaction.save(memory, MemoryStatus.LIVE)
        _deliver(transaction, memory, context)
        transaction.set_status(summaries.full_texts(transaction, memory), MemoryStatus.ARCHIVED)
    return memory if earlier is None else _earlier_text(transaction, earlier, row, context)


def _earlier(transaction: Transaction, memory: Memory, revision: int | None) -> Memory | None:
    if revision in (None, memory.revision):
        return None
    found = next((one for one in transaction.revisions(memory.id) if one.revision == revision), None)
    if found is None:
        raise NoSuchRevision(memory.key or memory.id, revision)
    return found


def _earlier_text(transaction: Transaction, earlier: Memory, now: Row, context: WriteContext) -> Memory:
    """What a live memory said before, by whoever said it, under its key of today and in its context of today."""
    scope = replace(earlier.scope, context_id=now.memory.scope.context_id)
    updated_at = context.after(now.memory)
    revised = replace(earlier, key=now.memory.key, scope=scope, updated_at=updated_at, revision=now.memory.revision + 1)
    if _says_the_same(now.memory, revised):
        return now.memory
    replace_text(transaction, now, revised, context)
    return revised


def replace_text(transaction: Transaction, before: Row, after: Memory, context: WriteContext) -> None:
    """Write a revision that says something else, and is live from now on."""
    _clear_outdated(transaction, before, after, context)
    revise(transaction, after, context)


@in_transaction
def drop_revisions(transaction: Transaction, revisions: Iterable[MemoryId], kept: int) -> None:
    """Remove earlier revisions of these memories but for the latest, and what is old from the change feed."""
    for memory_id in revisions:
        transaction.drop_revisions(memory_id, but=kept)
    transaction.drop_changes(CHANGES_KEPT_S)


def revive(transaction: Transaction, memories: Sequence[Memory], context: WriteContext) -> None:
    """Bring memories back from the archive, with everything that lies beside them. That counts as a use, and settles
    them anew in their tiers: else the next sweep would find them as faded, and of as little importance, as the last one
    did."""
    transaction.set_status([memory.id for memory in memories], MemoryStatus.LIVE)
    for memory in memories:
        lifetimes.begin_again(transaction, memory, context.now_s)
        transaction.set_facet(archive.FACET, memory.id, None)
        alive.note(transaction, memory.id, context.now_s)
        placement = kept_placement(transaction.facet("tier", memory.id), memory, context.tiers)
        transaction.set_facet("tier", memory.id, replace(placement, moved_at=context.now_s).to_json())


def _hide(transaction: Transaction, memory: Memory, context: WriteContext) -> None:
    from kingly_memory.router.thread_cleanup import clean_up  # a command that stores does without

    transaction.save(replace(memory, updated_at=context.after(memory)), MemoryStatus.FORGOTTEN)
    lifetimes.stop(transaction, memory.id)
    contexts.forgotten(transaction, memory)
    experiences.let_go(transaction, memory)
    clean_up(transaction, [memory])
    routes = context.routes
    in_use = [] if routes is None or routes.use is not RemoteUse.ADD else [route.name for route in routes.known]
    wanting = {*_remotes(transaction, memory, context, is_requested=False), *in_use}
    # One that was used once may have it too, and one that was taken out of the home hears of it when it is added again.
    for remote in {*wanting, *every_remote(transaction)}:
        before = transaction.delivery(remote, memory.id)
        if before is None and memory.significance > REMOTE_ABOVE:
            before = earlier_delivery(transaction, remote, memory, context.now_s)
        if before is not None:
            unsent = before.untried and before.state is not DeliveryState.LEASED
            after = None if unsent else delivery.wanted(before, 0, context.now_s)
            transaction.set_delivery(remote, memory.id, after)


def _redact(transaction: Transaction, gone: Memory, context: WriteContext) -> list[MemoryId]:
    """Take out of summaries what they say of this memory, and forget those that say nothing then. Returns their ids."""
    redacted = []
    for row, summary, is_telling in summaries.redact_mentions(transaction, gone):
        after = replace(summary, updated_at=context.now)
        if not is_telling:
            _hide(transaction, after, context)
        elif row.status is MemoryStatus.FORGOTTEN:
            transaction.save(after, row.status)
        else:
            revise(transaction, after, context, row.status)
        transaction.drop_revisions(after.id)  # they tell it too
        redacted.append(after.id)
    return redacted


# --- what is due at remotes -------------------------------------------------------------------------------------------


def _deliver(
    transaction: Transaction,
    memory: Memory,
    context: WriteContext,
    is_new: bool = False,
    is_requested: bool = False,
    *,
    is_same: bool = False,
) -> dict[str, Delivery]:
    """Make the newest change due at every remote that its project has added, unless it is not significant. Where
    it is due, as it stands there now. `is_same`: nothing has changed, so that those which know of the memory need not
    hear of it."""
    due: dict[str, Delivery] = {}
    for remote in _remotes(transaction, memory, context, is_requested=is_requested):
        before = None if is_new else transaction.delivery(remote, memory.id)
        is_for_it = before is not None and before.state is not DeliveryState.LOCAL_ONLY
        if is_same and is_for_it:
            continue
        if not is_for_it and not (is_new or is_requested) and is_earlier(transaction, remote, memory):
            continue  # it is brought back or revised here, not stored
        if memory.significance <= REMOTE_ABOVE:
            if before is not None:
                transaction.set_delivery(remote, memory.id, None if before.untried else delivery.at_rest(before))
            continue
        if before is None and not is_new:
            after = first_delivery(transaction, remote, memory, context.now_s)
        else:
            after = delivery.wanted(before, memory.revision, context.now_s)
        transaction.set_delivery(remote, memory.id, after)
        due[remote] = after
    return due


def _remotes(transaction: Transaction, memory: Memory, context: WriteContext, *, is_requested: bool) -> list[str]:
    """Those that its project has added. One in use here that somebody has taken out of the home meanwhile is
    added again. One that is used once gets what is `is_requested`, and changes of what it got so before."""
    known, routes = list(added_to(transaction, memory.scope.space)), context.routes
    if routes is None or memory.scope.space != context.space or all(route.name in known for route in routes.known):
        return known
    others = [route for route in routes.of(memory) if route.name not in known]
    if routes.use is RemoteUse.ADD:
        for route in others:
            add(route.name, route.endpoint, context.space, context.now_s)(transaction)
    else:
        is_sent = is_requested and routes.use is RemoteUse.ONCE
        others = [route for route in others if is_sent or transaction.delivery(route.name, memory.id) is not None]
        for route in others:
            know(transaction, route.name, route.endpoint)
    return [*known, *(route.name for route in others)]


def _receipt(
    transaction: Transaction, memory: Memory, routes: Routes | None, due: Mapping[str, Delivery] | None = None
) -> Receipt:
    """Where the memory stands, as of this transaction; what is `due` was just written and need not be read again."""
    if routes is None:
        if due is None:
            names = added_to(transaction, memory.scope.space)
            due = {name: entry for name in names if (entry := transaction.delivery(name, memory.id)) is not None}
        return receipt_of(memory, {}, None, waits=any(one.waits for one in due.values()))
    known = dict(due or {})
    others = (route.name for route in routes.known if route.name not in known)
    read = {name: transaction.delivery(name, memory.id) for name in others}
    return receipt_of(memory, {**known, **read}, routes)
