"""The outbox: the set of delivery facets that are not at rest. Every move is one change on the store."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from kingly_memory.cognition import thoughts
from kingly_memory.ids import MemoryId, id_time_s
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, JsonObject, Memory, Standing
from kingly_memory.ports import Row, Transaction
from kingly_memory.router.delivering import delivery
from kingly_memory.router.delivering.delivery import Delivery
from kingly_memory.router.delivering.routes import EVERYTHING, NOTHING

log = logging.getLogger("kingly_memory.outbox")

ENROLMENT_BATCH = 200

MOST_WITHHELD = 100_000
"""Deliveries that are looked at again when a policy says something else."""

Judge = Callable[[Memory], bool]
"""Whether a policy names a remote for a memory."""


def for_everything(memory: Memory) -> bool:
    """The judge of a remote that gets everything above 0.3."""
    return True


PARTED = "parted"
"""The facet of a remote that was taken out of the home: when, and the last change that it may have been told of."""

LEASED_ELSEWHERE_S = 1.0
"""When to look again for a thought whose parent somebody else is sending."""


@dataclass(frozen=True, slots=True)
class Leased(ABC):
    """What a process has taken to send: the facet as it was, and as it was leased."""

    before: Delivery
    leased: Delivery

    @property
    @abstractmethod
    def id(self) -> str:
        """Whose delivery it is."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a log calls it: never its text."""

    @property
    def repeated(self) -> bool:
        """True when an earlier try may have had its effect."""
        return self.leased.attempts > 0 or self.before.first_sent > 0

    @property
    def place(self) -> float:
        """The due time it was leased with: its place in the row, which it keeps when the fault is not its own."""
        return self.before.due or 0.0


@dataclass(frozen=True, slots=True)
class Parcel(Leased):
    """One leased memory: what is to be sent, and the facet it was leased with."""

    memory: Memory
    forgotten: bool

    @property
    def id(self) -> MemoryId:
        return self.memory.id

    @property
    def name(self) -> str:
        return self.memory.key or self.memory.id

    @property
    def idempotency_key(self) -> str:
        """The memory's id for the first store, `<id>.<change>` for every later change. Never anything random."""
        if self.leased.remote_id is None and not self.forgotten:
            return self.memory.id
        return f"{self.memory.id}.{self.leased.wanted}"

    @property
    def confirms(self) -> int:
        """Which change the remote's answer confirms."""
        return self.leased.wanted if self.forgotten else delivery.confirmed_change(self.leased)


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One waiting or dead delivery, as `outbox list` shows it. `due_s` counts from now to the next try, which is not
    before the next probe of an offline link."""

    id: MemoryId
    key: str | None
    state: DeliveryState
    attempts: int
    due_s: float | None
    last_error: str | None
    remote: str | None = None
    """The remote's name, where it has one."""
    is_offline: bool = False
    """The remote's link was."""
    remote_id: str | None = None
    """What the remote calls it, when it has an earlier revision."""

    def offline_for(self, probe_s: float) -> OutboxEntry:
        """The same while the link is offline, and tried in so many seconds."""
        return replace(self, due_s=None if self.due_s is None else max(self.due_s, probe_s), is_offline=True)

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "key": self.key,
            "state": self.state.value,
            "attempts": self.attempts,
            "due_s": None if self.due_s is None else round(self.due_s, 1),
            "last_error": self.last_error,
            "remote_id": self.remote_id,
            **({} if self.remote is None else {"remote": self.remote}),
        }


def entry(memory_id: MemoryId, row: Row, data: JsonObject, now_s: float, remote: str | None = None) -> OutboxEntry:
    """What the outbox shows of a delivery facet and the memory it is about, while the link is connected."""
    facet = Delivery.from_json(data)
    due_s = None if facet.due is None else facet.due - now_s
    return OutboxEntry(
        memory_id,
        row.memory.key,
        facet.state,
        facet.attempts,
        due_s,
        facet.last_error,
        remote,
        remote_id=facet.remote_id,
    )


def delivery_of(transaction: Transaction, remote: str, memory_id: str) -> Delivery | None:
    data = transaction.facet("delivery", f"{remote}:{memory_id}")
    return None if data is None else Delivery.from_json(data)


def set_delivery(transaction: Transaction, remote: str, memory_id: str, value: Delivery | None) -> None:
    transaction.set_facet("delivery", f"{remote}:{memory_id}", None if value is None else value.to_json())


def begun(transaction: Transaction, remote: str, memory: Memory, now_s: float) -> Delivery:
    """The first delivery of a memory to a remote."""
    return told_before(transaction, remote, memory, now_s) or delivery.wanted(None, memory.revision, now_s)


def told_before(transaction: Transaction, remote: str, memory: Memory, now_s: float) -> Delivery | None:
    """The same to one that was taken out of the home and is named again, where it may have the memory: it answers the
    first store with what it was told then, so the newest change follows under a number that was never used there."""
    parted = transaction.facet(PARTED, remote)
    if parted is None or made_s(memory.id, 0.0) > parted["at"]:
        return None
    change = max(memory.revision, changes_before(transaction, remote) + 1)
    return Delivery(wanted=change, due=now_s, first_sent=1)


def made_s(memory_id: str, unknown_s: float) -> float:
    """When the memory got its id, in Unix seconds. Ids from elsewhere do not say that."""
    return id_time_s(memory_id) if memory_id[14:15] == "7" else unknown_s


def changes_before(transaction: Transaction, remote: str) -> int:
    """The number of the last change that the remote may have been told of before it was taken out of the home."""
    parted = transaction.facet(PARTED, remote)
    return 0 if parted is None else int(parted["changes"])


def remotes_of(transaction: Transaction, project: str) -> list[str]:
    """The remotes that this project has been told of, in use now or not."""
    facets = ((name, transaction.facet("remote", name)) for name in transaction.owners("remote"))
    return [name for name, facet in facets if facet is not None and project in facet["projects"]]


def is_told_nothing(transaction: Transaction, remote: str, project: str) -> bool:
    """Whether the policy of whoever used that remote last sends none of the project's memories there."""
    return _said(transaction.facet("remote", remote) or {}, project) == NOTHING


def enrol(
    remote: str, endpoint: str, project: str, now_s: float, said: str = EVERYTHING, *, earlier: bool = False
) -> Callable[[Transaction], bool]:
    """Note that the project's new memories go to this remote, as far as a policy says so, and with `earlier` those that
    it has already. True while memories are still to be looked through: the earlier ones, those that the policy kept
    back before it said something else, or what a process left undone that ended meanwhile.
    """

    def change(transaction: Transaction) -> bool:
        known = transaction.facet("remote", remote) or unused(endpoint)
        is_new = project not in known["projects"]
        if is_new and said == NOTHING:
            return False
        is_changed = not is_new and _said(known, project) != said
        is_earlier = earlier and said != NOTHING and project not in known["earlier"]
        if is_new or is_changed or is_earlier:
            backlog = [one for one in known["backlog"] if one != project]
            if said != NOTHING and (is_changed or is_earlier or project in known["backlog"]):
                backlog.append(project)
            after = {
                **known,
                "projects": {**known["projects"], project: now_s} if is_new else known["projects"],
                "earlier": [*known["earlier"], project] if is_earlier else known["earlier"],
                "backlog": backlog,
            }
            known = _saying(after, project, said)
            transaction.set_facet("remote", remote, known)
        return project in known["backlog"]

    return change


def know(transaction: Transaction, remote: str, endpoint: str) -> None:
    """Note that something is sent to a remote at which no project is enrolled: `status` and `sync` look for that."""
    if transaction.facet("remote", remote) is None:
        transaction.set_facet("remote", remote, unused(endpoint))


def unused(endpoint: str) -> JsonObject:
    """What is known of a remote: the projects whose new memories go there and since when, those of them whose earlier
    ones do too, and those of which memories are still to be looked through."""
    return {"endpoint": endpoint, "projects": {}, "earlier": [], "backlog": []}


def is_earlier(transaction: Transaction, remote: str, memory: Memory) -> bool:
    """Whether the memory was there before its project was enrolled at that remote, and is not meant to go there."""
    known, project = transaction.facet("remote", remote), memory.scope.project
    if known is None or project not in known["projects"] or project in known["earlier"]:
        return False
    return made_s(memory.id, 0.0) < float(known["projects"][project])


def _said(known: JsonObject, project: str) -> str:
    """What the policy said of the remote when the project was last opened with it."""
    return str(known.get("said", {}).get(project, EVERYTHING))


def _saying(known: JsonObject, project: str, said: str) -> JsonObject:
    others = {one: text for one, text in known.get("said", {}).items() if one != project}
    told = others if said == EVERYTHING else {**others, project: said}
    rest = {name: value for name, value in known.items() if name != "said"}
    return {**rest, "said": told} if told else rest


class MadeDue(NamedTuple):
    """How many earlier memories a batch made due, and its last id, where the next one goes on; None after the last."""

    due: int
    last: MemoryId | None


def enrol_backlog(
    remote: str, project: str, now_s: float, after: str, is_for: Judge = for_everything
) -> Callable[[Transaction], MadeDue]:
    """Make a batch of earlier memories due at a remote, where that was said: those beyond the id `after`."""

    def change(transaction: Transaction) -> MadeDue:
        known = transaction.facet("remote", remote)
        if known is None or project not in known["projects"]:  # taken out of the home meanwhile
            return MadeDue(0, None)
        batch = []
        if project in known["earlier"]:
            batch = transaction.undelivered(remote, project, REMOTE_ABOVE, ENROLMENT_BATCH, after=after)
        wanted = list(filter(is_for, batch))
        for memory in wanted:
            set_delivery(transaction, remote, memory.id, begun(transaction, remote, memory, now_s))
        if not batch:
            rest = [one for one in known["backlog"] if one != project]
            transaction.set_facet("remote", remote, {**known, "backlog": rest})
        return MadeDue(len(wanted), batch[-1].id if batch else None)

    return change


def send_after_all(
    remote: str, memory_ids: Collection[str], project: str, now_s: float, is_for: Judge
) -> Callable[[Transaction], int]:
    """Make due what a policy has kept from the remote and names it for now."""

    def change(transaction: Transaction) -> int:
        count = 0
        for memory_id in memory_ids:
            facet, row = delivery_of(transaction, remote, memory_id), transaction.row(memory_id)
            if facet is None or row is None or row.memory.scope.project != project:
                continue
            if facet.state is DeliveryState.LOCAL_ONLY and is_for(row.memory):
                set_delivery(transaction, remote, memory_id, delivery.retried(facet, now_s))
                count += 1
        return count

    return change


def withhold(transaction: Transaction, remote: str, memory_id: str, before: Delivery | None) -> None:
    """A policy keeps the newest change from the remote. Nothing is un-sent: what it has, it has."""
    if before is not None:
        set_delivery(transaction, remote, memory_id, None if before.untried else delivery.withheld(before))


def claim(
    remote: str,
    owner: str,
    now_s: float,
    *,
    limit: int,
    lease_s: float,
    early: bool,
    failed: Collection[str] = (),
    is_for: Judge = for_everything,
) -> Callable[[Transaction], list[Parcel]]:
    """Lease up to `limit` due memories, earliest first, leaving out those that have failed just now, and those that the
    remote is not for: whoever stored them knew nothing of the policy.

    A thought that has to wait for its parent is passed by, and is due when that one is.
    """

    def change(transaction: Transaction) -> list[Parcel]:
        passed = set(failed)
        while True:
            due = transaction.due_deliveries(remote, now_s, limit + len(passed), early=early)
            chosen = [memory_id for memory_id in due if memory_id not in passed][:limit]
            parcels: dict[str, Parcel] = {}
            for one in chosen:
                if not _waits(transaction, remote, one, now_s, taken=parcels):
                    parcel = _lease(transaction, remote, one, owner=owner, now_s=now_s, lease_s=lease_s, is_for=is_for)
                    parcels |= {} if parcel is None else {one: parcel}
            if parcels or not chosen:
                return list(parcels.values())
            passed.update(chosen)

    return change


def is_awaited(parent: Row | None, facet: Delivery | None, child: Memory) -> bool:
    """True when the remote is still to be told of a thought that another one follows.

    One that stays here, was forgotten or dropped, or that the remote will not take keeps nobody waiting.
    """
    if parent is None or facet is None or facet.remote_id is not None or facet.due is None:
        return False
    is_for_it = parent.standing is not Standing.FORGOTTEN and parent.memory.significance > REMOTE_ABOVE
    is_waiting = facet.state in (DeliveryState.PENDING, DeliveryState.LEASED)
    return is_for_it and is_waiting and thoughts.follows(child, parent.memory)


def settle(
    remote: str, parcel: Leased, owner: str, move: Callable[[Delivery], Delivery]
) -> Callable[[Transaction], Delivery | None]:
    """Apply a move to the facet, unless the lease has gone to somebody else meanwhile."""

    def change(transaction: Transaction) -> Delivery | None:
        now = delivery_of(transaction, remote, parcel.id)
        if now is None or now.state is not DeliveryState.LEASED or now.owner != owner:
            return None
        moved = move(now)
        set_delivery(transaction, remote, parcel.id, moved)
        return moved

    return change


def give_back(remote: str, parcels: Iterable[Leased], owner: str) -> Callable[[Transaction], None]:
    """Undo the lease of what was not sent."""
    changes = [settle(remote, one, owner, partial(delivery.released, unleased=one.before)) for one in parcels]

    def change(transaction: Transaction) -> None:
        for undo in changes:
            undo(transaction)

    return change


def reclaim(remote: str, memory_ids: Collection[str], owner: str, now_s: float) -> Callable[[Transaction], None]:
    """Take back what a process leased that no longer delivers. Whether its sends arrived is not known."""

    def change(transaction: Transaction) -> None:
        for memory_id in memory_ids:
            facet = delivery_of(transaction, remote, memory_id)
            if facet is not None and facet.state is DeliveryState.LEASED and facet.owner != owner:
                lapsed = delivery.postponed(facet, "the process that was sending it ended", now_s)
                set_delivery(transaction, remote, memory_id, lapsed)

    return change


def hasten(remote: str, memory_ids: Collection[str], now_s: float) -> Callable[[Transaction], None]:
    """Make due what waits for later. What is due already keeps its place: before what has failed meanwhile."""

    def change(transaction: Transaction) -> None:
        for memory_id in memory_ids:
            facet = delivery_of(transaction, remote, memory_id)
            if facet is not None and facet.state is DeliveryState.PENDING and facet.due is not None:
                set_delivery(transaction, remote, memory_id, replace(facet, due=min(facet.due, now_s)))

    return change


def retry(
    remote: str, memory_ids: Collection[str], now_s: float, project: str | None = None
) -> Callable[[Transaction], int]:
    """Dead ones become due again; waiting ones become due now. Only the project's, if one is named."""

    def change(transaction: Transaction) -> int:
        chosen = _chosen(transaction, remote, memory_ids, project)
        for memory_id, facet in chosen.items():
            set_delivery(transaction, remote, memory_id, delivery.retried(facet, now_s))
        return len(chosen)

    return change


def drop(remote: str, memory_ids: Collection[str], project: str) -> Callable[[Transaction], int]:
    """Take the project's deliveries out of the outbox. The memories stay in the local layer."""

    def change(transaction: Transaction) -> int:
        chosen = _chosen(transaction, remote, memory_ids, project)
        for memory_id, facet in chosen.items():
            there = delivery.at_rest(facet) if facet.remote_id is not None else None
            set_delivery(transaction, remote, memory_id, there)
        return len(chosen)

    return change


def _chosen(
    transaction: Transaction, remote: str, memory_ids: Collection[str], project: str | None
) -> dict[str, Delivery]:
    """Those of the deliveries that are dead or waiting, and the project's."""
    chosen: dict[str, Delivery] = {}
    for memory_id in memory_ids:
        facet, row = delivery_of(transaction, remote, memory_id), transaction.row(memory_id)
        own = project is None or (row is not None and row.memory.scope.project == project)
        if facet is not None and own and facet.state in (DeliveryState.DEAD, DeliveryState.PENDING):
            chosen[memory_id] = facet
    return chosen


def _waits(transaction: Transaction, remote: str, memory_id: str, now_s: float, *, taken: Collection[str]) -> bool:
    """True for a thought whose parent goes first and is not among the `taken`: it becomes due with that one."""
    facet, row = delivery_of(transaction, remote, memory_id), transaction.row(memory_id)
    if facet is None or row is None or facet.remote_id is not None or not thoughts.is_thought(row.memory):
        return False
    parent_id = thoughts.parent_of(row.memory)
    if parent_id is None or parent_id in taken or row.standing is Standing.FORGOTTEN:
        return False
    ahead = delivery_of(transaction, remote, parent_id)
    if ahead is None or ahead.due is None or not is_awaited(transaction.row(parent_id), ahead, row.memory):
        return False
    due = ahead.due if ahead.state is DeliveryState.PENDING else min(ahead.due, now_s + LEASED_ELSEWHERE_S)
    if (facet.state, facet.due) != (DeliveryState.PENDING, due):
        set_delivery(transaction, remote, memory_id, delivery.held(facet, due))
    return True


def _lease(
    transaction: Transaction,
    remote: str,
    memory_id: str,
    *,
    owner: str,
    now_s: float,
    lease_s: float,
    is_for: Judge,
) -> Parcel | None:
    facet, row = delivery_of(transaction, remote, memory_id), transaction.row(memory_id)
    if facet is None or row is None:
        set_delivery(transaction, remote, memory_id, None)
        return None
    if facet.state is DeliveryState.DEAD:  # dead ones are not due, so this one could not be read
        log.warning("the delivery of memory %s is dead: %s", memory_id, facet.last_error)
        set_delivery(transaction, remote, memory_id, replace(facet, wanted=max(facet.wanted, row.memory.revision)))
        return None
    forgotten = row.standing is Standing.FORGOTTEN
    if row.memory.significance <= REMOTE_ABOVE and not forgotten:
        set_delivery(transaction, remote, memory_id, delivery.at_rest(facet))
        return None
    if not forgotten and not is_for(row.memory):
        withhold(transaction, remote, memory_id, facet)
        return None
    taken = delivery.leased(facet, owner, now_s, lease_s)
    set_delivery(transaction, remote, memory_id, taken)
    return Parcel(facet, taken, row.memory, forgotten)
