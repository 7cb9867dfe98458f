"""Linking memories, and bringing links to every remote that has both ends, as changes on the store.

The links of a remote have an outbox of their own, of the same delivery facets as its memories: under the name
`outbox_of_links(remote)`, by `<source>:<link id>`. A link becomes due there when it is made, or when the remote
acknowledges the second of its ends: what lies in that outbox can be sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from kingly_memory import intake
from kingly_memory.cognition import links
from kingly_memory.cognition.links import Link, LinkDraft
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, RemoteUse, Standing
from kingly_memory.ports import RemoteLink, Transaction
from kingly_memory.router import write
from kingly_memory.router.delivering import delivery
from kingly_memory.router.delivering.delivery import Delivery, outbox_of_links
from kingly_memory.router.delivering.outbox import Leased, changes_before, delivery_of, remotes_of, set_delivery
from kingly_memory.router.write import WriteContext

log = logging.getLogger("kingly_memory.outbox")

LOOKED_AT = 50
"""Due links that are read at a time to find one that can be sent."""


@dataclass(frozen=True, slots=True)
class LinkParcel(Leased):
    """One leased link, and how the remote is told of it."""

    link: Link
    sent: RemoteLink

    @property
    def id(self) -> str:
        return _address(self.link)

    @property
    def name(self) -> str:
        return f"link {self.link.source} {self.link.link_type} {self.link.target}"

    @property
    def confirms(self) -> int:
        """Which change the remote's answer confirms."""
        return delivery.confirmed_change(self.leased)

    @property
    def idempotency_key(self) -> str:
        """The link's id, `<id>.<change>` for every later change."""
        return self.link.id if self.confirms == 1 else f"{self.link.id}.{self.confirms}"


def link(source: str, target: str, said: LinkDraft, desk: WriteContext) -> Callable[[Transaction], Link]:
    """Link two of the project's memories, each named by key or id. Raises InvalidInput."""

    def change(transaction: Transaction) -> Link:
        ends = (_end(transaction, "source", source, desk.project), _end(transaction, "target", target, desk.project))
        if ends[0] == ends[1]:
            raise InvalidInput("target", "is the source itself; a link joins two memories")
        written = links.write(transaction, *ends, said, desk.now)
        once = [] if desk.routes is None or desk.routes.use is not RemoteUse.ONCE else desk.routes.known
        for remote in dict.fromkeys([*remotes_of(transaction, desk.project), *(route.name for route in once)]):
            _want(transaction, remote, written.link, desk.now_s, is_news=written.is_news)
        return written.link

    return change


def arrived(transaction: Transaction, remote: str, memory_id: MemoryId, now_s: float, *, moved: bool) -> None:
    """The remote has acknowledged a memory: its links become due whose other end is there too.

    `moved` says that it has another id there now, with which all its links have to be made again.
    """
    for one in links.of(transaction, memory_id):
        before = _delivery(transaction, remote, one)
        if before is None or moved:
            after = delivery.wanted(before, changes_before(transaction, remote) + 1, now_s)
        elif before.state is DeliveryState.DELIVERED and before.acknowledged < before.wanted:
            after = delivery.retried(before, now_s)
        else:
            continue
        if _ends(transaction, remote, one) is not None:
            set_delivery(transaction, outbox_of_links(remote), _address(one), after)


def claim(
    remote: str, owner: str, now_s: float, *, lease_s: float, early: bool, failed: Collection[str] = ()
) -> Callable[[Transaction], list[LinkParcel]]:
    """Lease the due link that is earliest, leaving out those that have failed just now."""
    name = outbox_of_links(remote)

    def change(transaction: Transaction) -> list[LinkParcel]:
        while True:
            due = transaction.due_deliveries(name, now_s, LOOKED_AT + len(failed), early=early)
            chosen = [address for address in due if address not in failed]
            for address in chosen:
                parcel = _lease(transaction, remote, address, owner=owner, now_s=now_s, lease_s=lease_s)
                if parcel is not None:
                    return [parcel]
            if not chosen:
                return []

    return change


def _want(transaction: Transaction, remote: str, one: Link, now_s: float, *, is_news: bool) -> None:
    before = _delivery(transaction, remote, one)
    if before is None:
        if _ends(transaction, remote, one) is None:
            return
        after = delivery.wanted(None, changes_before(transaction, remote) + 1, now_s)
    elif is_news:
        after = delivery.wanted(before, 0, now_s)
    elif before.state is DeliveryState.DEAD:
        after = delivery.retried(before, now_s)
    else:
        return
    set_delivery(transaction, outbox_of_links(remote), _address(one), after)


def _lease(
    transaction: Transaction, remote: str, address: str, *, owner: str, now_s: float, lease_s: float
) -> LinkParcel | None:
    """What cannot be sent now leaves the row of what is due: for good, or until an end of it is acknowledged again."""
    name = outbox_of_links(remote)
    source, _, link_id = address.rpartition(":")
    facet, one = delivery_of(transaction, name, address), links.find(transaction, source, link_id)
    if facet is None or one is None:
        set_delivery(transaction, name, address, None)
        return None
    if facet.state is DeliveryState.DEAD:  # dead ones are not due, so this one could not be read
        log.warning("the delivery of link %s is dead: %s", link_id, facet.last_error)
        set_delivery(transaction, name, address, facet)
        return None
    ends = _ends(transaction, remote, one)
    if ends is None:
        resting = replace(facet, state=DeliveryState.DELIVERED, due=None, owner=None)
        set_delivery(transaction, name, address, resting)
        return None
    taken = delivery.leased(facet, owner, now_s, lease_s)
    set_delivery(transaction, name, address, taken)
    return LinkParcel(facet, taken, one, ends)


def _ends(transaction: Transaction, remote: str, one: Link) -> RemoteLink | None:
    """How the remote is told of the link; None unless both ends are there and may be."""
    source, target = (_remote_id(transaction, remote, end) for end in (one.source, one.target))
    row = transaction.row(one.source)
    if source is None or target is None or row is None:
        return None
    project = row.memory.scope.project
    return RemoteLink(source, target, one.link_type.value, one.strength, one.description, project)


def _remote_id(transaction: Transaction, remote: str, memory_id: MemoryId) -> str | None:
    """What the remote calls a memory that is for it; a copy of what it holds itself is."""
    row, facet = transaction.row(memory_id), delivery_of(transaction, remote, memory_id)
    if row is None or facet is None or row.standing is Standing.FORGOTTEN:
        return None
    if row.memory.significance <= REMOTE_ABOVE and row.standing is not Standing.CACHED:
        return None
    return facet.remote_id


def _end(transaction: Transaction, field: str, key_or_id: str, project: str) -> MemoryId:
    row = write.find(transaction, project, key_or_id)
    if row is None:
        raise InvalidInput(field, f"nothing is stored under {intake.shown(key_or_id)!r} in this project")
    if row.standing is Standing.FORGOTTEN:
        raise InvalidInput(field, f"{intake.shown(key_or_id)!r} was forgotten; restore it first")
    return row.memory.id


def _delivery(transaction: Transaction, remote: str, one: Link) -> Delivery | None:
    return delivery_of(transaction, outbox_of_links(remote), _address(one))


def _address(one: Link) -> str:
    return f"{one.source}:{one.id}"
