"""What a home knows of its remotes: which projects send their memories there, what waits, and how one is taken out.

The facet `remote:<name>` has the `endpoint`; `projects` whose new memories go there, and since when; `earlier`, those
of them whose earlier memories go there too; `backlog`, those of which memories are still to be looked through;
`read`, how far the remote's change feeds were read for each (`sync`); `unread`, how many of their entries could not be
read; and `shared`, of which namespaces of each it has the documents (`shared`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from kingly_memory.dataclass import NamedTuple, dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, made_s
from kingly_memory.models import KEPT, REMOTE_ABOVE, DeliveryState, JsonObject, Memory, Query, RemoteUse
from kingly_memory.ports import StoreReader, Transaction, in_transaction
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery.link import SEEN
from kingly_memory.router.delivery.moves import outbox_of_documents, outbox_of_links
from kingly_memory.router.delivery.outbox import FORMER, changes_before, first_delivery
from kingly_memory.router.delivery.routes import UNNAMED, Route, Routes, added_to

AT_ONCE = 200
"""Deliveries that are made or removed in one transaction, so that stores are not kept waiting."""

COUNTED = 50
"""`status` counts no more memories than this that are to be sent at first contact: it is asked often."""


def not_taken_in(reader: StoreReader, remote: str, space: str) -> str | None:
    """A sentence where the remote refuses to list what others have changed there, else None."""
    known = reader.facet("remote", remote) or {}
    why = known.get("refused", {}).get(space)
    return None if why is None else f"what others store there is not taken in here: {why}"


# --- projects at a remote ---------------------------------------------------------------------------------------------


def unused(endpoint: str) -> JsonObject:
    return {"endpoint": endpoint, "projects": {}, "earlier": [], "backlog": [], "read": {}}


def remotes_for_links(transaction: Transaction, space: str, routes: Routes | None) -> list[str]:
    """The remotes that get the links, pins and ratings of a project's memories."""
    once = routes.known if routes is not None and routes.use is RemoteUse.ONCE else ()
    return list(dict.fromkeys([*added_to(transaction, space), *(route.name for route in once)]))


def know(transaction: Transaction, remote: str, endpoint: str) -> None:
    """Note a remote that no project has added, because something is sent to it: `status` and `sync` look for it."""
    if transaction.facet("remote", remote) is None:
        transaction.set_facet("remote", remote, unused(endpoint))


def is_earlier(transaction: Transaction, remote: str, memory: Memory) -> bool:
    """Whether the memory was there before the remote was added to its project, and is not meant to go there."""
    known, space = transaction.facet("remote", remote), memory.scope.space
    if known is None or space not in known["projects"] or space in known["earlier"]:
        return False
    since_s = int(float(known["projects"][space]) * 1000) / 1000  # ids count milliseconds
    return made_s(memory.id, 0.0) < since_s


@in_transaction
def add(
    transaction: Transaction, remote: str, endpoint: str, space: str, now_s: float, *, earlier: bool = False
) -> bool:
    """The project's new memories above 0.3 go to this remote, and with `earlier` those that it has already.

    True while memories are still to be looked through: earlier ones, also those that a process left undone that ended
    meanwhile.
    """
    known = transaction.facet("remote", remote) or unused(endpoint)
    is_earlier = earlier and space not in known["earlier"]
    if space not in known["projects"] or is_earlier:
        others = [project for project in known["backlog"] if project != space]
        known = {
            **known,
            "projects": {space: now_s, **known["projects"]},  # added again it keeps the moment of the first time
            "earlier": [*known["earlier"], space] if is_earlier else known["earlier"],
            "backlog": [*others, space] if is_earlier or space in known["backlog"] else others,
        }
        transaction.set_facet("remote", remote, known)
    return space in known["backlog"]


def add_like(transaction: Transaction, space: str, other: str) -> None:
    """Send what `other` stores to the same remotes as what `space` stores."""
    for name, known in added_to(transaction, space).items():
        if other not in known["projects"]:
            also = {list_: [*known[list_], other] for list_ in ("earlier", "backlog") if space in known[list_]}
            since = {**known["projects"], other: known["projects"][space]}
            shared = {**known.get("shared", {}), other: known.get("shared", {}).get(space, [])}
            transaction.set_facet("remote", name, {**known, **also, "projects": since, "shared": shared})


def part(transaction: Transaction, space: str) -> None:
    """Stop sending anything of that space to remotes: it is empty."""
    for name, known in added_to(transaction, space).items():
        lists = {field: [one for one in known[field] if one != space] for field in ("earlier", "backlog")}
        by_space = {
            field: {one: value for one, value in known.get(field, {}).items() if one != space}
            for field in ("projects", "shared")
        }
        transaction.set_facet("remote", name, {**known, **lists, **by_space})


def is_undone(reader: StoreReader, remote: str, space: str, *, earlier: bool) -> bool:
    """Whether somebody has taken the remote out of the home, or its backfill has not ended, or `earlier` memories are
    wanted and it was added again without them."""
    known = reader.facet("remote", remote)
    if known is None or space not in known["projects"] or space in known["backlog"]:
        return True
    return earlier and space not in known["earlier"]


# --- backfill ---------------------------------------------------------------------------------------------------------


class MadeDue(NamedTuple):
    """How many earlier memories a batch made due, and its last id, where the next one goes on; None after the last."""

    due: int
    last: MemoryId | None


@in_transaction
def backfill(transaction: Transaction, remote: str, space: str, now_s: float, after: str) -> MadeDue:
    """Make a batch of earlier memories due at a remote, where that was asked for: those beyond the id `after`."""
    known = transaction.facet("remote", remote)
    if known is None or space not in known["projects"]:  # taken out of the home meanwhile
        return MadeDue(0, None)
    is_wanted = space in known["earlier"]
    batch = transaction.undelivered(remote, space, REMOTE_ABOVE, AT_ONCE, after=after) if is_wanted else []
    for memory in batch:
        before = transaction.delivery(remote, memory.id)
        first = first_delivery(transaction, remote, memory, now_s) if before is None else None
        transaction.set_delivery(remote, memory.id, first or delivery.wanted(before, memory.revision, now_s))
    if not batch:
        backlog = [project for project in known["backlog"] if project != space]
        transaction.set_facet("remote", remote, {**known, "backlog": backlog})
    return MadeDue(len(batch), batch[-1].id if batch else None)


# --- what is known ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownRemote:
    """A remote as the home knows it. `label` is what it is called here, where it is in use and has a name; `name` is
    the store's own. `since`: when the project added it, None where it is not; `earlier`: whether its earlier
    memories go there too; `shared`: the namespaces whose documents do; `is_strange`: this home never had anything to
    send to it."""

    name: str
    endpoint: str
    label: str | None
    in_use: bool
    delivered: int
    waiting: int
    dead: int
    since: datetime | None = None
    earlier: bool = False
    shared: tuple[str, ...] = ()
    is_strange: bool = False

    def to_json(self) -> JsonObject:
        return {
            "endpoint": self.endpoint,
            "name": self.label,
            "in_use": self.in_use,
            "since": None if self.since is None else self.since.isoformat(timespec="seconds"),
            "earlier": self.earlier,
            "shared": list(self.shared),
            "delivered": self.delivered,
            "waiting": self.waiting,
            "dead": self.dead,
        }


def known_remotes(reader: StoreReader, in_use: Sequence[Route], space: str) -> tuple[KnownRemote, ...]:
    """Those in use here in their order, then the others by their addresses."""
    found = []
    for route in (*in_use, *_others(reader, in_use)):
        known = reader.facet("remote", route.name)
        since_s = None if known is None else known["projects"].get(space)
        counts = reader.outbox_counts(route.name)
        is_used = route in in_use
        remote = KnownRemote(
            name=route.name,
            endpoint=route.endpoint,
            label=route.label if is_used and route.label != UNNAMED else None,
            in_use=is_used,
            delivered=reader.delivered_count(route.name),
            waiting=counts["pending"] + counts["leased"],
            dead=counts["dead"],
            since=None if since_s is None else datetime.fromtimestamp(since_s, UTC),
            earlier=known is not None and space in known["earlier"],
            shared=tuple("/".join(namespace) for namespace in (known or {}).get("shared", {}).get(space, ())),
            is_strange=known is None,
        )
        found.append(remote)
    return tuple(found)


def remote_ids(reader: StoreReader, memory_ids: Sequence[str], in_use: Sequence[Route] = ()) -> dict[str, str]:
    """What remotes call those of the memories that they have: the first remote in use that has one, else any other."""
    found: dict[str, str] = {}
    routes = (*in_use, *_others(reader, in_use))
    for each in reader.deliveries([route.name for route in routes], memory_ids).values():
        for memory_id, entry in each.items():
            if entry.remote_id is not None:
                found.setdefault(memory_id, entry.remote_id)
    return found


def deliveries(reader: StoreReader, memory_id: str) -> list[JsonObject]:
    """Where a memory stands with each remote that it was ever to go to, in use here or not."""
    routes = _others(reader, ())
    known = reader.deliveries([route.name for route in routes], [memory_id])
    by_endpoint = [(route.endpoint, known[route.name].get(memory_id)) for route in routes]
    return [
        {"endpoint": endpoint, "delivery": entry.state.value, "remote_id": entry.remote_id}
        for endpoint, entry in by_endpoint
        if entry is not None
    ]


def elsewhere(reader: StoreReader, in_use: Sequence[Route]) -> list[JsonObject]:
    """What waits for remotes that are not in use here: their addresses, without secrets, and how many memories."""
    counted = ((route.endpoint, reader.outbox_counts(route.name)) for route in _others(reader, in_use))
    waiting = ((endpoint, counts["pending"] + counts["leased"]) for endpoint, counts in counted)
    return [{"endpoint": endpoint, "waiting": count} for endpoint, count in waiting if count]


def earlier_waiting(reader: StoreReader, routes: Routes, route: Route, space: str) -> int | None:
    """How many earlier memories are going to be sent to a remote and are not in its outbox yet: 0 for none, None for
    too many to count."""
    known = reader.facet("remote", route.name) or unused(route.endpoint)
    is_asked_for = routes.earlier and routes.use is RemoteUse.ADD
    is_wanted = space in known["backlog"] if space in known["earlier"] else is_asked_for
    if not is_wanted:
        return 0
    rows = reader.page(Query("", space), KEPT, COUNTED + 1, None)
    if len(rows) > COUNTED:
        return None
    wanted = [row.memory.id for row in rows if routes.of(row.memory)]
    found = reader.deliveries([route.name], wanted)[route.name]
    return len(wanted) - sum(entry.state is not DeliveryState.LOCAL_ONLY for entry in found.values())


def _others(reader: StoreReader, in_use: Sequence[Route]) -> list[Route]:
    """Those that are not in use here, by their addresses."""
    names = {route.name for route in in_use}
    found = reader.facets_named("remote", 1_000)
    routes = [Route(name, UNNAMED, str(facet["endpoint"])) for name, facet in found if name not in names]
    return sorted(routes, key=lambda route: (route.endpoint, route.name))


# --- taking one out ---------------------------------------------------------------------------------------------------


def forgettable(known: Sequence[KnownRemote], address: str, name: str | None) -> KnownRemote:
    """The remote at this address, which the store knows by this name. Raises InvalidInput unless it may be forgotten;
    the error never repeats the address, which may hold a password."""
    found = next(
        (remote for remote in known if name == remote.name or address in (remote.endpoint, remote.label)), None
    )
    if found is None:
        others = [remote.endpoint for remote in known if not remote.in_use]
        choices = (
            f"those that may be forgotten are {' and '.join(others)}" if others else "none is left to be forgotten"
        )
        raise InvalidInput("address", f"this home knows no remote of that name or address; {choices}")
    if found.in_use:
        leave_out = "leave it out of --remote, KINGLY_REMOTE and `open(remote=…)` first"
        raise InvalidInput("address", f"that remote is in use here; {leave_out}")
    return found


@in_transaction
def forget(transaction: Transaction, remote: str, now_s: float) -> bool:
    """Take a batch of the remote's deliveries out of the home and, with the last one, all else that is known of it.
    True when nothing is left.

    Until then the remote is known, for no project: nothing becomes due there, and forgetting it can be repeated. What
    stays is the number of the last change that it may have been told of, by which a later one is told from it.
    """
    known = transaction.facet("remote", remote)
    outboxes = (remote, outbox_of_links(remote), outbox_of_documents(remote))
    found = [(outbox, one) for outbox in outboxes for one in transaction.delivery_items(outbox)]
    if known is None and not found:
        return True
    last = changes_before(transaction, remote)
    # A memory may be newer than this clock, which may have been set back.
    at_s = max(now_s, float((transaction.facet(FORMER, remote) or {}).get("at", now_s)))
    for outbox, item_id in found[:AT_ONCE]:
        facet = transaction.delivery(outbox, item_id)
        last = max(last, 0 if facet is None else facet.wanted)
        at_s = max(at_s, made_s(item_id, now_s)) if outbox == remote else at_s
        transaction.set_delivery(outbox, item_id, None)
    transaction.set_facet(FORMER, remote, {"changes": last, "at": at_s})
    is_over = len(found) <= AT_ONCE
    for token in transaction.owners("link") if is_over else ():
        if token.partition(":")[0] == remote:
            transaction.set_facet("link", token, None)
    if is_over:
        transaction.set_facet(SEEN, remote, None)
    transaction.set_facet("remote", remote, None if is_over or known is None else unused(known["endpoint"]))
    return is_over
