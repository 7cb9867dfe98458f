"""The outbox: the deliveries of memories and links that are not at rest. Every function here is a change on the store.

It is no queue of copies. A delivery lies beside its memory, and what is sent is read when it is leased.
Links have an outbox of their own (`outbox_of_links`), in which a link lies as `<source>:<link id>` once the remote has
both ends. So do pins and ratings, as `<memory id>:marks`: what the remote is told of them is read as it stands then.
So do documents that are shared, in an outbox of their own (`shared`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

from kingly_memory.cognition import links, thoughts
from kingly_memory.cognition.links import Link
from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import NamedTuple, dataclass, field, replace
from kingly_memory.ids import MemoryId, made_s
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, Memory, MemoryStatus
from kingly_memory.plain import Plain
from kingly_memory.ports import (
    HOME,
    INCARNATION,
    Delivery,
    RemoteDocument,
    RemoteLink,
    RemoteMarks,
    Row,
    Transaction,
    in_transaction,
)
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery.moves import DOCUMENT, Leased, outbox_of_documents, outbox_of_links
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS

log = logging.getLogger("kingly_memory.outbox")

FORMER = "parted"
"""The facet of a remote that was taken out of the home: when, and the last change that it may have been told of."""
SENT_AS = "sent_as"
"""In the metadata of a grave that a move leaves: the id that remotes were told of the memory. A remote whose answer was
lost knows it by that alone."""
PURGED = "purged"
"""In the same metadata: the memory was purged before it moved."""

INCARNATION_CHARACTERS = 8
_MARKS = "marks"
LOOKED_AT = 50
"""Due deliveries that are read at a time to find those that can be sent."""

LEASED_CHARACTERS = 4_194_304
"""Content that is leased at a time: it lies in memory until it is sent. The last one may go beyond it."""

LEASED_ELSEWHERE_S = 1.0
"""When to look again for a thought whose parent another process is sending."""


# --- what becomes due -------------------------------------------------------------------------------------------------


def first_delivery(transaction: Transaction, remote: str, memory: Memory, now_s: float) -> Delivery:
    return earlier_delivery(transaction, remote, memory, now_s) or delivery.wanted(None, memory.revision, now_s)


def earlier_delivery(transaction: Transaction, remote: str, memory: Memory, now_s: float) -> Delivery | None:
    """The first delivery to a remote that was taken out of the home and is named again, if it may have the memory.

    It would answer the first store with what it was told then. So the newest change follows under a number that was
    never used there.
    """
    former = transaction.facet(FORMER, remote)
    if former is None or made_s(memory.id, 0.0) > former["at"]:
        return None
    change = max(memory.revision, changes_before(transaction, remote) + 1)
    return Delivery(wanted=change, due=now_s, first_sent=1)


def every_remote(transaction: Transaction) -> set[str]:
    """The remotes that this home knows, and those that were taken out of it: what may have been told of a memory."""
    return {*transaction.owners("remote"), *transaction.owners(FORMER)}


def changes_before(transaction: Transaction, remote: str) -> int:
    """The number of the last change that the remote may have been told of before it was taken out of the home."""
    former = transaction.facet(FORMER, remote)
    return 0 if former is None else int(former["changes"])


def want_link(transaction: Transaction, remote: str, link: Link, now_s: float, *, is_news: bool) -> None:
    """A link was made (`is_news`: or changed). It is due as soon as the remote has both ends."""
    outbox, item_id = outbox_of_links(remote), link_item(link)
    before = transaction.delivery(outbox, item_id)
    if before is None and _ends(transaction, remote, link) is not None:
        transaction.set_delivery(outbox, item_id, _first_of_link(transaction, remote, now_s))
    elif before is not None and is_news:
        transaction.set_delivery(outbox, item_id, delivery.wanted(before, 0, now_s))
    elif before is not None and before.state is DeliveryState.DEAD:
        transaction.set_delivery(outbox, item_id, delivery.retried(before, now_s))


def want_marks(transaction: Transaction, remote: str, memory_id: MemoryId, now_s: float) -> None:
    """The memory was pinned, unpinned or rated. The remote is told as soon as it has the memory."""
    outbox, item_id = outbox_of_links(remote), marks_item(memory_id)
    before = transaction.delivery(outbox, item_id)
    after = _first_of_link(transaction, remote, now_s) if before is None else delivery.wanted(before, 0, now_s)
    transaction.set_delivery(outbox, item_id, after)


def want_beside(transaction: Transaction, remote: str, memory_id: str, now_s: float, *, moved: bool) -> None:
    """The remote has acknowledged a memory: its marks become due, and its links where the other end is there too.

    `moved` says that the memory has another id there now, so all of them have to be told again.
    """
    outbox = outbox_of_links(remote)
    items = [link_item(link) for link in links.of(transaction, memory_id) if _ends(transaction, remote, link)]
    for item_id in (*items, marks_item(memory_id)):
        before = transaction.delivery(outbox, item_id)
        if before is None and (item_id in items or transaction.facet(ATTENTION, memory_id) is not None):
            after = _first_of_link(transaction, remote, now_s)
        elif before is not None and moved:
            after = delivery.wanted(before, changes_before(transaction, remote) + 1, now_s)
        elif before is not None and before.state is DeliveryState.DELIVERED and before.acknowledged < before.wanted:
            after = delivery.retried(before, now_s)  # it came to rest when an end of it was not there
        else:
            continue
        transaction.set_delivery(outbox, item_id, after)


def link_item(link: Link) -> str:
    return f"{link.source}:{link.id}"


def marks_item(memory_id: str) -> str:
    return f"{memory_id}:{_MARKS}"


def _first_of_link(transaction: Transaction, remote: str, now_s: float) -> Delivery:
    return delivery.wanted(None, changes_before(transaction, remote) + 1, now_s)


# --- what is sent -----------------------------------------------------------------------------------------------------


class _About(NamedTuple):
    """What a delivery is about. Without a `subject` the remote is not to be told now. `row` is that of a memory."""

    name: str
    first_key: str
    subject: Memory | RemoteLink | RemoteMarks | RemoteDocument | None
    forgotten: bool = False
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Who leases what for one remote. `early` takes what is not due yet."""

    remote: str
    owner: str
    now_s: float
    lease_s: float
    early: bool = False
    failed: Collection[str] = ()
    honours_keys: bool = True

    def lease(self, outbox: str, limit: int) -> Callable[[Transaction], list[Leased]]:
        """Lease up to `limit` deliveries of that outbox of the remote, the earliest due first, leaving out what has
        `failed` just now.

        A thought that has to wait for its parent is passed by, and is due when that one is.
        """
        looks = {outbox_of_links(self.remote): self._link, outbox_of_documents(self.remote): self._document}

        def change(transaction: Transaction) -> list[Leased]:
            passed, found, room = set(self.failed), dict[str, Leased](), LEASED_CHARACTERS
            while not found:  # what cannot be sent now may fill a whole page of what is due
                most = max(limit, LOOKED_AT) + len(passed)
                due = transaction.due_deliveries(outbox, self.now_s, most, early=self.early)
                fresh = [one for one in due if one not in passed]
                for item_id in fresh:
                    if len(found) == limit or room <= 0:
                        break
                    before = transaction.delivery(outbox, item_id)
                    about = None if before is None else looks.get(outbox, self._memory)(transaction, item_id, before)
                    if before is None or about is None:  # what it is about is gone
                        transaction.set_delivery(outbox, item_id, None)
                    elif (leased := self._leased(transaction, outbox, item_id, before, about, taken=found)) is not None:
                        found[item_id] = leased
                        content = about.subject.content if isinstance(about.subject, Memory | RemoteDocument) else ""
                        room -= len(content)
                if not fresh:
                    break
                passed.update(fresh)
            home = transaction.facet(HOME, INCARNATION) or {}
            mark = str(home["id"])[:INCARNATION_CHARACTERS] if home.get("restored") else ""
            return [replace(item, incarnation=mark) for item in found.values()] if mark else list(found.values())

        return change

    def _leased(
        self,
        transaction: Transaction,
        outbox: str,
        item_id: str,
        before: Delivery,
        about: _About,
        *,
        taken: Collection[str],
    ) -> Leased | None:
        """One delivery, leased; None where it is not to be sent now."""
        name, first_key, subject, forgotten, row = about
        if before.state is DeliveryState.DEAD:  # dead ones are not due, so this one could not be read
            what = name if row is None else f"memory {item_id}"
            log.warning("the delivery of %s is dead: %s", what, before.last_error)
            newest = 0 if row is None else row.memory.revision
            transaction.set_delivery(outbox, item_id, replace(before, wanted=max(before.wanted, newest)))
        elif row is not None and self._waits_for_parent(transaction, row, before, taken):
            pass
        elif subject is None:  # for good, or a link until the remote acknowledges an end of it again
            resting = replace(before, state=DeliveryState.DELIVERED, due=None, owner=None)
            transaction.set_delivery(outbox, item_id, resting if row is None else delivery.at_rest(before))
        else:
            honours_keys = self.honours_keys and isinstance(subject, Memory)  # all others are sent as they stand
            leased = delivery.leased(before, self.owner, self.now_s, self.lease_s, honours_keys=honours_keys)
            transaction.set_delivery(outbox, item_id, leased)
            return Leased(outbox, item_id, name, first_key, subject, before, leased, forgotten)
        return None

    def _memory(self, transaction: Transaction, memory_id: str, _: Delivery) -> _About | None:
        row = transaction.row(memory_id)
        if row is None:
            return None
        memory, forgotten = row.memory, row.status is MemoryStatus.FORGOTTEN
        is_for_it = forgotten or memory.significance > REMOTE_ABOVE
        subject = memory if is_for_it else None
        if row.is_tombstone and SENT_AS in memory.metadata:
            # Unless it was purged before, it is forgotten there alone: with a content, so that whoever shares it can
            # restore it.
            content = "" if memory.metadata.get(PURGED) else SENT_AS
            subject = replace(memory, id=MemoryId(str(memory.metadata[SENT_AS])), content=content)
        return _About(memory.key or memory.id, memory.id, subject, forgotten, row)

    def _link(self, transaction: Transaction, item_id: str, _: Delivery) -> _About | None:
        """A link, or the marks of a memory."""
        source, called = item_id.rpartition(":")[::2]  # a damaged name may have no colon, and is let go
        if called == _MARKS:
            return _About(f"what lies beside {source}", called, _marks(transaction, self.remote, MemoryId(source)))
        link = links.find(transaction, source, called)
        if link is None:
            return None
        name = f"link {link.source} {link.link_type} {link.target}"
        return _About(name, called, _ends(transaction, self.remote, link))

    def _document(self, transaction: Transaction, item_id: str, found: Delivery) -> _About | None:
        from kingly_memory.documents import shown_place  # commands that store load this module
        from kingly_memory.router.delivery import shared

        subject = shared.remote_document(transaction, self.remote, item_id, found.remote_id)
        if subject is None:
            shared.let_go(transaction, self.remote, item_id)
            return None
        place = shown_place((transaction.facet(DOCUMENT, item_id) or {}).get("place"))
        return _About(place, item_id, subject)

    def _waits_for_parent(self, transaction: Transaction, row: Row, found: Delivery, taken: Collection[str]) -> bool:
        """True for a thought whose parent goes first and is not among the `taken`. It becomes due with that one."""
        parent_id = thoughts.parent_of(row.memory)
        if (
            parent_id is None
            or parent_id in taken
            or found.remote_id is not None
            or row.status is MemoryStatus.FORGOTTEN
        ):
            return False
        ahead = transaction.delivery(self.remote, parent_id)
        if ahead is None or ahead.due is None or not is_awaited(transaction.row(parent_id), ahead, row.memory):
            return False
        is_pending = ahead.state is DeliveryState.PENDING
        due = ahead.due if is_pending else min(ahead.due, self.now_s + LEASED_ELSEWHERE_S)
        if (found.state, found.due) != (DeliveryState.PENDING, due):
            transaction.set_delivery(self.remote, row.memory.id, delivery.held(found, due))
        return True


def is_awaited(parent: Row | None, found: Delivery | None, child: Memory) -> bool:
    """True while the remote is still to be told of a thought that another one follows.

    A parent that stays here, was forgotten or dropped, or that the remote will not take keeps nobody waiting.
    """
    if parent is None or found is None or found.remote_id is not None or found.due is None:
        return False
    is_for_it = parent.status is not MemoryStatus.FORGOTTEN and parent.memory.significance > REMOTE_ABOVE
    return is_for_it and found.waits and thoughts.follows(child, parent.memory)


def _ends(transaction: Transaction, remote: str, link: Link) -> RemoteLink | None:
    """How the remote is told of the link; None unless both ends are there and may be."""
    source, target = (_remote_id(transaction, remote, end) for end in (link.source, link.target))
    row = transaction.row(link.source)
    if source is None or target is None or row is None:
        return None
    space = row.memory.scope.space
    return RemoteLink(source, target, link.link_type.value, link.strength, link.description, space)


def _marks(transaction: Transaction, remote: str, memory_id: MemoryId) -> RemoteMarks | None:
    """What the remote is told that lies beside the memory; None unless it has the memory and may."""
    remote_id, row = _remote_id(transaction, remote, memory_id), transaction.row(memory_id)
    if remote_id is None or row is None:
        return None
    scope = row.memory.scope
    thread = memory_id if scope.context_id is None else owner(scope.space, scope.context_id)
    ratings = (transaction.facet(RATINGS, thread) or {}).get("ratings", ())
    return RemoteMarks(remote_id, transaction.facet(ATTENTION, memory_id), ratings, scope.space)


def _remote_id(transaction: Transaction, remote: str, memory_id: MemoryId) -> str | None:
    """What the remote calls a memory that may be there: one above 0.3, or our copy of what the remote holds itself."""
    row, found = transaction.row(memory_id), transaction.delivery(remote, memory_id)
    if row is None or found is None or row.status is MemoryStatus.FORGOTTEN:
        return None
    if row.memory.significance <= REMOTE_ABOVE and row.status is not MemoryStatus.CACHED:
        return None
    return found.remote_id


# --- what became of it ------------------------------------------------------------------------------------------------


def settle(transaction: Transaction, item: Leased, owner: str, move: Callable[[Delivery], Delivery]) -> Delivery | None:
    """Apply a move to a leased delivery, unless the lease has gone to somebody else meanwhile."""
    now = transaction.delivery(item.outbox, item.id)
    if now is None or now.state is not DeliveryState.LEASED or now.owner != owner:
        return None
    moved = move(now)
    transaction.set_delivery(item.outbox, item.id, moved)
    return moved


@in_transaction
def give_back(transaction: Transaction, items: Collection[Leased], owner: str) -> None:
    """Undo the lease of what was not sent."""
    for item in items:
        settle(transaction, item, owner, partial(delivery.released, unleased=item.before))


def reclaim(outbox: str, item_ids: Collection[str], owner: str, now_s: float) -> Callable[[Transaction], None]:
    """Take back what a process leased that no longer delivers. Whether its sends arrived is not known."""

    def move(found: Delivery) -> Delivery:
        if found.state is not DeliveryState.LEASED or found.owner == owner:
            return found
        return delivery.postponed(found, "the process that was sending it ended", now_s)

    return _each(outbox, item_ids, move)


def hasten(outbox: str, item_ids: Collection[str], now_s: float) -> Callable[[Transaction], None]:
    """Make due what waits for later. What is due already keeps its place, before what has failed meanwhile."""

    def move(found: Delivery) -> Delivery:
        if found.state is not DeliveryState.PENDING or found.due is None:
            return found
        return replace(found, due=min(found.due, now_s))

    return _each(outbox, item_ids, move)


@in_transaction
def _each(
    transaction: Transaction, outbox: str, item_ids: Collection[str], move: Callable[[Delivery], Delivery]
) -> None:
    for item_id in item_ids:
        found = transaction.delivery(outbox, item_id)
        if found is not None and (after := move(found)) != found:
            transaction.set_delivery(outbox, item_id, after)


# --- what the user asks for -------------------------------------------------------------------------------------------


def retry(remote: str, ids: Collection[str], now_s: float, space: str) -> Callable[[Transaction], int]:
    """The project's dead deliveries become due again, and its waiting ones become due now."""
    return _chosen(remote, ids, space, lambda found: delivery.retried(found, now_s))


def drop(remote: str, ids: Collection[str], space: str) -> Callable[[Transaction], int]:
    """Take the project's deliveries out of the outbox. What they are about stays in the local layer."""
    return _chosen(remote, ids, space, lambda found: None if found.remote_id is None else delivery.dropped(found))


@in_transaction
def _chosen(
    transaction: Transaction, remote: str, ids: Collection[str], space: str, move: Callable[[Delivery], Delivery | None]
) -> int:
    """Move those of memories and documents that are dead or waiting, and the project's. Returns how many."""
    count = 0
    for item_id in ids:
        row, document = transaction.row(item_id), transaction.facet(DOCUMENT, item_id)
        outbox = remote if document is None else outbox_of_documents(remote)
        whose = document["space"] if document else None if row is None else row.memory.scope.space
        found = transaction.delivery(outbox, item_id)
        if found is not None and whose == space and found.state in (DeliveryState.DEAD, DeliveryState.PENDING):
            transaction.set_delivery(outbox, item_id, move(found))
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class OutboxEntry(Plain):
    """One waiting or dead delivery, as `outbox list` shows it. `key` of a document says where it lies. `due_s` counts
    from now to the next try, which is not before the next probe of an offline link. `remote_id` is what the remote
    calls the memory, when it has an earlier revision; `remote` is the remote's name, where it has one."""

    OPTIONAL = ("remote",)
    DIGITS = 1

    id: str
    key: str | None
    state: DeliveryState
    attempts: int
    due_s: float | None
    last_error: str | None
    remote_id: str | None = None
    remote: str | None = None
    is_offline: bool = field(default=False, repr=False)
