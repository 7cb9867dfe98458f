"""Storing, forgetting and restoring as changes: each runs whole inside one transaction of the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from kingly_memory.cognition.working import ContextRules
from kingly_memory.ids import MemoryId, derived_id, new_id
from kingly_memory.intake import Draft, Imported
from kingly_memory.lifecycle.lifetimes import LIFETIMES, Lifetime, Lifetimes
from kingly_memory.lifecycle.tiers import SEEDS_TIERS, TierRules, told_placement
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, Memory, MemoryType, Origin, Receipt, RemoteUse, Standing
from kingly_memory.ports import Row, Transaction
from kingly_memory.router import archive, contexts, delivery, editions, lifetimes, usage
from kingly_memory.router.contexts import Due
from kingly_memory.router.delivery import Delivery, receipt_of
from kingly_memory.router.known_remotes import enrol, gets_nothing, is_earlier, know, remotes_of
from kingly_memory.router.outbox import delivery_of, first_delivery, set_delivery, told_before, withhold
from kingly_memory.router.routes import Routes
from kingly_memory.router.sweeping import joined, retelling
from kingly_memory.router.threads.leaving import leave
from kingly_memory.router.usage import Used

NONE_TOLD: Mapping[str, Delivery] = {}
TOGETHER = 500
"""Memories whose standing changes in one statement."""


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What every change needs to know: whose memories these are, which remotes are in use, and what time it is."""

    project: str
    agent: str | None
    routes: Routes | None
    lifetimes: Lifetimes
    now: datetime
    contexts: ContextRules = field(default_factory=ContextRules)
    tiers: TierRules = SEEDS_TIERS

    @property
    def now_s(self) -> float:
        return self.now.timestamp()


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a draft, in which context, what is at hand there, and how many whispers are due. `others` are
    those that were revised, forgotten or brought back with it."""

    receipt: Receipt
    context_id: str | None
    at_hand: tuple[MemoryId, ...] = ()
    whispers_due: int = 0
    others: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True)
class Gone:
    """What was forgotten, and what was revised or forgotten with it."""

    memory: Memory
    others: tuple[MemoryId, ...] = ()


def store(
    draft: Draft, desk: WriteContext, *, noted: bool = True, context_used_s: float = 0.0
) -> Callable[[Transaction], Stored]:
    """A new memory, or a new revision of the one that has the key already; `noted` in its working context, of which a
    use may not be written down yet."""

    def change(transaction: Transaction) -> Stored:
        before = _by_key(transaction, desk.project, draft.key)
        memory = _memory(draft if before is None else draft.revising(before.memory), before, desk)
        others = _leave_what_it_said(transaction, before, memory, desk)
        lifetime = lifetimes.of_draft(transaction, draft, memory, before, usual=desk.lifetimes, now_s=desk.now_s)
        receipt = _save(transaction, memory, Standing.LIVE, desk, lifetime, is_new=before is None, is_said=True)
        if not noted or memory.scope.context_id is None:
            return Stored(receipt, memory.scope.context_id, others=others)
        context_id = memory.scope.context_id
        after = contexts.note(
            transaction,
            memory,
            context_id,
            agent=desk.agent,
            now_s=desk.now_s,
            rules=desk.contexts,
            used_s=context_used_s,
        )
        for memory_id in after.overflow:
            _consolidate(transaction, memory_id, context_id, desk)
        due = after.context.due(desk.contexts.whisper_tokens)
        return Stored(receipt, context_id, after.context.items, due, others)

    return change


def whisper(due: Due, desk: WriteContext) -> Callable[[Transaction], bool]:
    """Store the whispers that are due, unless the context has moved on meanwhile: then False, and nothing is stored."""

    def change(transaction: Transaction) -> bool:
        if not contexts.advance(transaction, desk.project, due):
            return False
        for draft in due.drafts:
            memory = _memory(draft, None, desk)
            own_words = replace(memory, scope=replace(memory.scope, agent=draft.agent))
            _save(transaction, own_words, Standing.LIVE, desk, desk.lifetimes.usual(memory.type), is_new=True)
        return True

    return change


def take_in(items: Sequence[Imported], desk: WriteContext) -> Callable[[Transaction], list[tuple[Receipt, str]]]:
    """Many imported memories at once, each with what became of it: stored, revised, unchanged or kept."""

    def change(transaction: Transaction) -> list[tuple[Receipt, str]]:
        return [_take_in_one(transaction, item, desk) for item in items]

    return change


def forget(key_or_id: str, desk: WriteContext) -> Callable[[Transaction], Gone | None]:
    """Put the memory out of sight on this machine at once, and on every remote that has it as soon as it answers.
    Summaries tell no more of it; a text that was learned is forgotten whole, and so is what rests because this says the
    same."""

    def change(transaction: Transaction) -> Gone | None:
        row = find(transaction, desk.project, key_or_id)
        if row is None:
            return None
        joined.note_along(transaction, row.memory.id, None)
        if row.standing is Standing.FORGOTTEN:
            return None
        _leave(transaction, row.memory, desk)
        return Gone(row.memory, tuple(_forget_with(transaction, row.memory, desk)))

    return change


def _leave(transaction: Transaction, memory: Memory, desk: WriteContext) -> None:
    transaction.save(memory, Standing.FORGOTTEN)
    lifetimes.stop(transaction, memory.id)
    contexts.forgotten(transaction, memory)
    editions.renew(transaction, memory, new_id(desk.now))
    leave(transaction, [memory])
    told = _remotes(transaction, memory, desk, is_said=False)
    in_use = [] if desk.routes is None or desk.routes.use is not RemoteUse.ENROL else desk.routes.known
    wanting = {*told, *(route.name for route in in_use)}
    for remote in {*wanting, *transaction.owners("remote")}:  # one that was used once may have it too
        _forget_at(transaction, remote, memory, desk, is_wanting=remote in wanting)


def _forget_with(transaction: Transaction, memory: Memory, desk: WriteContext) -> Iterator[MemoryId]:
    """What says it in other words: the summary of a text that was learned, or the whole text, and summaries of many."""
    halves = [row.memory for row in retelling.halves(transaction, memory) if row.standing is not Standing.FORGOTTEN]
    for half in halves:
        _leave(transaction, half, desk)
        yield half.id
    same = _forget_joined(transaction, memory, desk)
    yield from (one.id for one in same)
    for one in (memory, *halves, *same):
        yield from _retell(transaction, one, desk)


def _forget_joined(transaction: Transaction, memory: Memory, desk: WriteContext) -> list[Memory]:
    """What rests in the archive because this says the same, and because that does, and so on."""
    found = [memory]
    for stands in found:
        for row in joined.resting(transaction, stands.id):
            _leave(transaction, row.memory, desk)
            joined.note_along(transaction, row.memory.id, stands.id)
            found.append(row.memory)
    return found[1:]


def _return_joined(transaction: Transaction, memory: Memory, desk: WriteContext) -> None:
    """Back to the archive with what was forgotten along, as it was."""
    found = [memory]
    for stands in found:
        for row in joined.gone_along(transaction, stands.id):
            transaction.restand([row.memory.id], Standing.ARCHIVED)
            joined.note_along(transaction, row.memory.id, None)
            _deliver(transaction, row.memory, desk)
            found.append(row.memory)


def _retell(transaction: Transaction, gone: Memory, desk: WriteContext) -> Iterator[MemoryId]:
    """Take out of summaries what they tell of it. One that tells nothing then is forgotten."""
    for row, said, is_telling in retelling.without(transaction, gone):
        after = replace(said, updated_at=desk.now)
        if is_telling:
            transaction.save(after, row.standing)
            if row.standing is not Standing.FORGOTTEN:
                _deliver(transaction, after, desk)
        else:
            _leave(transaction, after, desk)
        yield after.id


def restore(key_or_id: str, desk: WriteContext) -> Callable[[Transaction], Memory | None]:
    """Bring back a memory that was forgotten, archived, or whose lifetime has ended, with a fresh lifetime. A live one
    stays as it is."""

    def change(transaction: Transaction) -> Memory | None:
        row = find(transaction, desk.project, key_or_id)
        if row is None:
            return None
        if row.standing in (Standing.FORGOTTEN, Standing.ARCHIVED) or lifetimes.is_over(transaction, row, desk.now_s):
            revive(transaction, [row.memory], desk)
        if row.standing is Standing.FORGOTTEN:
            joined.note_along(transaction, row.memory.id, None)
            _deliver(transaction, row.memory, desk)
            for text_id in retelling.whole_texts(transaction, row.memory):
                transaction.restand([text_id], Standing.ARCHIVED)
            _return_joined(transaction, row.memory, desk)
        return row.memory

    return change


def revise(transaction: Transaction, memory: Memory, desk: WriteContext, standing: Standing = Standing.LIVE) -> None:
    """Write a new revision of a memory, live or archived, whose lifetime goes on."""
    transaction.save(memory, standing)
    _deliver(transaction, memory, desk)


def revive(transaction: Transaction, memories: Sequence[Memory], desk: WriteContext, *, apart: bool = True) -> None:
    """Back from the archive, with everything that lies beside them. Whoever brings them back uses them and settles them
    anew in their tiers: else the next sweep would find them as faded, and of as little importance, as the last one
    did. `apart`: what says the same as another one is wanted for itself, and is not joined to any again."""
    transaction.restand([memory.id for memory in memories], Standing.LIVE)
    for memory in memories:
        lifetimes.begin_again(transaction, memory, desk.now_s)
        if apart:
            archive.keep_apart(transaction, memory.id, desk.now_s)
        transaction.set_facet(archive.FACET, memory.id, None)
        usage.note(transaction, memory.id, Used(1, desk.now_s))
        placement = told_placement(transaction.facet("tier", memory.id), memory, desk.tiers)
        settled = replace(placement, moved_at=desk.now_s)
        transaction.set_facet("tier", memory.id, settled.to_json())


def find(transaction: Transaction, project: str, key_or_id: str) -> Row | None:
    """The project's memory under that key, else under that id."""
    memory_id = transaction.id_of_key(project, key_or_id) or key_or_id
    row = transaction.row(memory_id)
    return row if row is not None and row.memory.scope.project == project else None


def receipt(
    transaction: Transaction, memory: Memory, routes: Routes | None, told: Mapping[str, Delivery] = NONE_TOLD
) -> Receipt:
    """Where the memory stands, as of this transaction; `told` are deliveries that need not be read again."""
    if routes is None:
        known = (delivery_of(transaction, one, memory.id) for one in remotes_of(transaction, memory.scope.project))
        return receipt_of(memory, {}, None, waits=any(one is not None and one.waits for one in known))
    others = (one.name for one in routes.known if one.name not in told)
    read = {name: delivery_of(transaction, name, memory.id) for name in others}
    return receipt_of(memory, {**told, **read}, routes)


def _take_in_one(transaction: Transaction, item: Imported, desk: WriteContext) -> tuple[Receipt, str]:
    before = _by_key(transaction, desk.project, item.draft.key)
    wanted_id = item.id
    if before is None and wanted_id is not None:
        before = transaction.row(wanted_id)
        if before is not None and before.memory.scope.project != desk.project:
            wanted_id = derived_id(wanted_id, desk.project)
            before = transaction.row(wanted_id)
    memory = _memory(item.draft, before, desk, wanted_id, item.updated_at)
    lifetime = lifetimes.in_file(item) or lifetimes.of_draft(
        transaction, item.draft, memory, before, usual=desk.lifetimes, now_s=desk.now_s
    )
    why = _ended(item, desk)
    ends_otherwise = why is None and lifetimes.differs(transaction, item, lifetime, before)
    if before is not None and _says_the_same(before.memory, memory) and not ends_otherwise:
        return receipt(transaction, before.memory, desk.routes), "unchanged"
    if before is not None and _is_older(item, before.memory):
        return receipt(transaction, before.memory, desk.routes), "kept"
    _leave_what_it_said(transaction, before, memory, desk)
    standing = item.standing if why is None else Standing.ARCHIVED
    taken = _save(transaction, memory, standing, desk, lifetime, is_said=True)
    if why is not None:
        transaction.set_facet(archive.FACET, memory.id, why.to_json())
    _tell_of_the_living(transaction, memory, desk)
    return taken, "stored" if before is None else "revised"


def _tell_of_the_living(transaction: Transaction, said: Memory, desk: WriteContext) -> None:
    """Note whom a summary tells of, and take out what has been forgotten here."""
    for memory_id in retelling.note(transaction, said):
        row = transaction.row(memory_id)
        if row is not None and row.standing is Standing.FORGOTTEN:
            deque(_retell(transaction, row.memory, desk), maxlen=0)


def _is_older(item: Imported, stored: Memory) -> bool:
    """True when somebody has written the stored text himself, and after the file's: an import must not undo that."""
    said_at = item.updated_at or item.draft.created_at
    return stored.origin is not Origin.IMPORT and said_at is not None and said_at < stored.updated_at


def _says_the_same(old: Memory, new: Memory) -> bool:
    origin = old.origin if new.origin is Origin.IMPORT else new.origin  # a file vouches for nobody, nor does it demote
    like_old = replace(new, origin=origin, updated_at=old.updated_at, revision=old.revision, created_at=old.created_at)
    return like_old == old


def _by_key(transaction: Transaction, project: str, key: str | None) -> Row | None:
    if key is None:
        return None
    memory_id = transaction.id_of_key(project, key)
    return None if memory_id is None else transaction.row(memory_id)


def _memory(
    draft: Draft,
    before: Row | None,
    desk: WriteContext,
    wanted_id: str | None = None,
    updated_at: datetime | None = None,
) -> Memory:
    old = None if before is None else before.memory
    created = draft.created_at or desk.now
    said = replace(draft, agent=draft.agent or desk.agent)
    if old is not None:
        return said.memory(
            old.id, desk.project, created_at=old.created_at, updated_at=desk.now, revision=old.revision + 1
        )
    memory_id = MemoryId(wanted_id or new_id(desk.now))
    return said.memory(memory_id, desk.project, created_at=created, updated_at=updated_at or created)


def _save(
    transaction: Transaction,
    memory: Memory,
    standing: Standing,
    desk: WriteContext,
    lifetime: Lifetime | None,
    *,
    is_new: bool = False,
    is_said: bool = False,
) -> Receipt:
    """`is_new`: it has just got its id, so that nothing can lie beside it that would have to be read. `is_said`: it is
    what the caller asked to store, rather than what follows from that."""
    transaction.save(memory, standing)
    begun = lifetimes.begin(transaction, memory, lifetime, desk.now_s, is_new=is_new)
    if standing is not Standing.LIVE:
        lifetimes.stop(transaction, memory.id)
    told = {} if standing is Standing.FORGOTTEN else _deliver(transaction, memory, desk, is_new=is_new, is_said=is_said)
    ends_at = begun.ends_at if begun is not None and standing is Standing.LIVE else None
    return replace(receipt(transaction, memory, desk.routes, told), ends_at=ends_at)


def _leave_what_it_said(
    transaction: Transaction, before: Row | None, after: Memory, desk: WriteContext
) -> tuple[MemoryId, ...]:
    """Of a new revision: what is no longer true once it says something else. Summaries tell no more what it said, and
    what rests because it said the same comes back, unless it was out of sight itself. Names those."""
    if before is None:
        return ()
    others: list[MemoryId] = []
    if after.content != before.memory.content:
        retelling.unlearn(transaction, after)
        others += _retell(transaction, before.memory, desk)
        back = [row.memory for row in joined.resting(transaction, after.id)] if before.standing is Standing.LIVE else []
        for start in range(0, len(back), TOGETHER):
            revive(transaction, back[start : start + TOGETHER], desk, apart=False)
        joined.clear(transaction, after.id)
        others += [memory.id for memory in back]
    if before.standing is not Standing.LIVE:
        transaction.set_facet(archive.FACET, after.id, None)
    return tuple(others)


def _consolidate(transaction: Transaction, memory_id: MemoryId, context_id: str, desk: WriteContext) -> None:
    """What no longer fits a context has happened: a working memory goes on as an episodic one, under the same id."""
    row = transaction.row(memory_id)
    if row is None or row.standing is not Standing.LIVE or row.memory.type is not MemoryType.WORKING:
        return
    if row.memory.scope.context_id != context_id:  # it is at hand in another context by now
        return
    happened = replace(row.memory, type=MemoryType.EPISODIC, updated_at=desk.now, revision=row.memory.revision + 1)
    lifetime = lifetimes.lifetime_of(transaction, memory_id)
    if lifetime is not None and lifetime.sliding_s is not None:
        lifetime = desk.lifetimes.usual(happened.type)
    _save(transaction, happened, Standing.LIVE, desk, lifetime)


def _ended(item: Imported, desk: WriteContext) -> archive.Archived | None:
    """Why a memory whose end is over by the time of its import goes to the archive."""
    if item.standing is not Standing.LIVE or item.ends_at is None or item.ends_at > desk.now:
        return None
    figures = {"ended_s_ago": desk.now_s - item.ends_at.timestamp()}
    return archive.Archived(desk.now_s, LIFETIMES, "it had ended before it was imported", figures)


def _deliver(
    transaction: Transaction, memory: Memory, desk: WriteContext, *, is_new: bool = False, is_said: bool = False
) -> dict[str, Delivery]:
    """Make the newest change due at every remote its project has been told of and that a policy names for it, or keep
    it from them. Where it is due, as it stands there now."""
    due: dict[str, Delivery] = {}
    for remote in _remotes(transaction, memory, desk, is_said=is_said):
        before = None if is_new else delivery_of(transaction, remote, memory.id)
        if before is None and not (is_new or is_said) and is_earlier(transaction, remote, memory):
            continue  # it is brought back or revised here, not stored
        if memory.significance <= REMOTE_ABOVE:
            if before is not None:
                set_delivery(transaction, remote, memory.id, None if before.untried else delivery.at_rest(before))
        elif _is_for(transaction, remote, memory, desk):
            if before is None and not is_new:
                after = first_delivery(transaction, remote, memory, desk.now_s)
            else:
                after = delivery.wanted(before, memory.revision, desk.now_s)
            set_delivery(transaction, remote, memory.id, after)
            due[remote] = after
        else:
            withhold(transaction, remote, memory.id, _outdone(before, memory))
    return due


def _remotes(transaction: Transaction, memory: Memory, desk: WriteContext, *, is_said: bool) -> list[str]:
    """Those that its project is enrolled at. One in use here that somebody has taken out of the home meanwhile is
    enrolled again. One that is used once gets what is `is_said`, and changes of what it got so before."""
    known = remotes_of(transaction, memory.scope.project)
    if desk.routes is None or memory.scope.project != desk.project:
        return known
    others = [route for route in desk.routes.of(memory) if route.name not in known]
    if desk.routes.use is RemoteUse.ENROL:
        for route in others:
            said = desk.routes.policy.about(route.label)
            enrol(route.name, route.endpoint, desk.project, desk.now_s, said)(transaction)
    else:
        is_sent = is_said and desk.routes.use is RemoteUse.ONCE
        others = [route for route in others if is_sent or delivery_of(transaction, route.name, memory.id) is not None]
        for route in others:
            know(transaction, route.name, route.endpoint)
    return [*known, *(route.name for route in others)]


def _is_for(transaction: Transaction, remote: str, memory: Memory, desk: WriteContext) -> bool:
    """A remote that is not in use here gets what it may get: whoever delivers to it has the last word."""
    if desk.routes is None or desk.routes.named(remote) is None:
        return not gets_nothing(transaction, remote, memory.scope.project)
    return desk.routes.is_for(remote, memory)


def _outdone(before: Delivery | None, memory: Memory) -> Delivery | None:
    """There is a change that the remote does not get now: should it be for it one day, it is known to be missing."""
    return None if before is None else replace(before, wanted=max(before.wanted + 1, memory.revision))


def _forget_at(transaction: Transaction, remote: str, memory: Memory, desk: WriteContext, *, is_wanting: bool) -> None:
    before = delivery_of(transaction, remote, memory.id)
    may_be_there = is_wanting and memory.significance > REMOTE_ABOVE and _is_for(transaction, remote, memory, desk)
    if before is None and may_be_there:
        before = told_before(transaction, remote, memory, desk.now_s)
    if before is None:
        return
    unsent = before.untried and before.state is not DeliveryState.LEASED
    set_delivery(transaction, remote, memory.id, None if unsent else delivery.wanted(before, 0, desk.now_s))
