"""The remotes that a home knows, in use or not: what waits for each, and taking one out of the home."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter

from kingly_memory.errors import InvalidInput
from kingly_memory.models import REMOTE_ABOVE, JsonObject, Query, RemoteUse, Standing
from kingly_memory.ports import Row, StoreReader, Transaction
from kingly_memory.router.delivering.delivery import Delivery, outbox_of_links
from kingly_memory.router.delivering.outbox import PARTED, changes_before, made_s, unused
from kingly_memory.router.delivering.routes import NOTHING, UNNAMED, Route, Routes

MOST_KNOWN = 1_000
FORGOTTEN_AT_ONCE = 200
"""Deliveries that are taken out in one transaction, so that stores are not kept waiting."""

COUNTED = 50
"""Of more memories than these is not counted what is to be sent at first contact: `status` is asked often."""


@dataclass(frozen=True, slots=True)
class KnownRemote:
    """A remote as the home knows it. `label` is what it is called here, where it is in use and has a name; `name` is
    the store's own. `since`: when the project was enrolled there, None where it is not; `earlier`: whether its earlier
    memories go there too."""

    name: str
    endpoint: str
    label: str | None
    in_use: bool
    delivered: int
    waiting: int
    dead: int
    since: datetime | None = None
    earlier: bool = False
    is_strange: bool = False
    """This home has never had anything to send to it."""

    def to_json(self) -> JsonObject:
        return {
            "endpoint": self.endpoint,
            "name": self.label,
            "in_use": self.in_use,
            "since": None if self.since is None else self.since.isoformat(timespec="seconds"),
            "earlier": self.earlier,
            "delivered": self.delivered,
            "waiting": self.waiting,
            "dead": self.dead,
        }


def remotes(reader: StoreReader, in_use: Sequence[Route], project: str) -> tuple[KnownRemote, ...]:
    """Those in use here in their order, then the others by their addresses."""
    here = [(one.name, one.endpoint, None if one.label == UNNAMED else one.label, True) for one in in_use]
    others = sorted((endpoint, name) for name, endpoint in _not_in_use(reader, in_use))
    several = [*here, *((name, at, None, False) for at, name in others)]
    return tuple(_enrolled(reader, _counted(reader, *one), project) for one in several)


def remote_ids(reader: StoreReader, memory_ids: Sequence[str], in_use: Sequence[Route] = ()) -> dict[str, str]:
    """What remotes call those of the memories that they have: the first remote in use that has one, else any other."""
    names = [*(one.name for one in in_use), *(name for name, _ in _not_in_use(reader, in_use))]
    found: dict[str, str] = {}
    for name in names:
        facets = reader.facets("delivery", [f"{name}:{memory_id}" for memory_id in memory_ids])
        for owner, facet in facets.items():
            if facet.get("remote_id") is not None:
                found.setdefault(owner.partition(":")[2], str(facet["remote_id"]))
    return found


def deliveries(reader: StoreReader, memory_id: str) -> list[JsonObject]:
    """Where a memory stands with each remote that it was ever to go to, in use here or not."""
    known = [(name, endpoint) for name, endpoint in _not_in_use(reader, ())]
    facets = reader.facets("delivery", [f"{name}:{memory_id}" for name, _ in known])
    told = [(endpoint, facets.get(f"{name}:{memory_id}")) for name, endpoint in known]
    return [
        {"endpoint": endpoint, "delivery": facet["state"], "remote_id": facet.get("remote_id")}
        for endpoint, facet in sorted(told, key=itemgetter(0))
        if facet is not None
    ]


def elsewhere(reader: StoreReader, in_use: Sequence[Route]) -> list[JsonObject]:
    """What waits for remotes that are not in use here: their addresses, without secrets, and how many memories."""
    counted = ((endpoint, _waiting(reader, name)[0]) for name, endpoint in _not_in_use(reader, in_use))
    return [{"endpoint": endpoint, "waiting": waiting} for endpoint, waiting in sorted(counted) if waiting]


def earlier(reader: StoreReader, routes: Routes, route: Route, project: str) -> int | None:
    """How many earlier memories are going to be sent to a remote and are not in its outbox yet: 0 for none, None for
    some that would take too long to count."""
    known = reader.facets("remote", [route.name]).get(route.name) or unused(route.endpoint)
    is_asked_for = routes.earlier and routes.use is RemoteUse.ENROL
    is_due = project in known["earlier"] and project in known["backlog"]
    is_wanted = is_due or (is_asked_for and project not in known["earlier"])
    if not is_wanted or routes.policy.about(route.label) == NOTHING:
        return 0
    rows = reader.page(Query("", project), (Standing.LIVE, Standing.ARCHIVED), COUNTED + 1, None)
    if len(rows) > COUNTED:
        return None
    wanted = [row for row in rows if _is_for(row, routes, route)]
    owners = [f"{route.name}:{row.memory.id}" for row in wanted]
    return len(wanted) - len(reader.facets("delivery", owners) if owners else ())


def chosen(known: Sequence[KnownRemote], address: str, name: str | None) -> KnownRemote:
    """The one at that address, which the store knows by that name, if it is one that may be forgotten. Raises
    InvalidInput, which never repeats the address: it may hold a password."""
    found = next((one for one in known if name == one.name or address in (one.endpoint, one.label)), None)
    if found is None:
        others = [one.endpoint for one in known if not one.in_use]
        told = f"those that may be forgotten are {' and '.join(others)}" if others else "there is none to be forgotten"
        raise InvalidInput("address", f"this home knows no such remote (any more); {told}")
    if found.in_use:
        raise InvalidInput("address", "that remote is in use here; leave it out of --remote and KINGLY_REMOTE first")
    return found


def forget(remote: str, now_s: float) -> Callable[[Transaction], bool]:
    """Take a batch of the remote's deliveries out of the home and, with the last one, all else that is known of it.
    True when nothing is left.

    Until then the remote is known, for no project: nothing becomes due there, and forgetting it can be repeated. What
    stays is the number of the last change that it may have been told of, by which a later one is told from it.
    """
    outboxes = (remote, outbox_of_links(remote))

    def change(transaction: Transaction) -> bool:
        rows = [(f"delivery:{one}", owner) for one in outboxes for owner in transaction.owners(f"delivery:{one}")]
        known, batch = transaction.facet("remote", remote), rows[:FORGOTTEN_AT_ONCE]
        if known is None and not batch:
            return True
        last = changes_before(transaction, remote)
        for name, owner in batch:
            last = max(last, _change(transaction.facet(name, owner)))
            transaction.set_facet(name, owner, None)
        ids = [owner for name, owner in batch if name == f"delivery:{remote}"]
        transaction.set_facet(PARTED, remote, {"changes": last, "at": _latest_s(transaction, remote, ids, now_s)})
        is_over = len(batch) == len(rows)
        if is_over:
            _forget_link(transaction, remote)
            transaction.set_facet("remote", remote, None)
        elif known is not None:
            transaction.set_facet("remote", remote, unused(known["endpoint"]))
        return is_over

    return change


def _forget_link(transaction: Transaction, remote: str) -> None:
    """The link as each of the tokens that were shown there has found it."""
    for owner in transaction.owners("link"):
        if owner.partition(":")[0] == remote:
            transaction.set_facet("link", owner, None)


def _latest_s(transaction: Transaction, remote: str, ids: Iterable[str], now_s: float) -> float:
    """Now, or when the last of the memories was made that it may have: the clock may have been set back since."""
    before = (transaction.facet(PARTED, remote) or {}).get("at", now_s)
    return max(now_s, float(before), *(made_s(one, now_s) for one in ids))


def _change(facet: JsonObject | None) -> int:
    return 0 if facet is None else Delivery.from_json(facet).wanted


def _not_in_use(reader: StoreReader, in_use: Sequence[Route]) -> list[tuple[str, str]]:
    """Their names and addresses."""
    names = {one.name for one in in_use}
    found = reader.threads.named("remote", MOST_KNOWN)
    return [(name, str(facet.get("endpoint", ""))) for name, facet in found if name not in names]


def _counted(reader: StoreReader, name: str, endpoint: str, label: str | None, in_use: bool) -> KnownRemote:
    waiting, dead = _waiting(reader, name)
    return KnownRemote(name, endpoint, label, in_use, reader.delivered_count(name), waiting, dead)


def _enrolled(reader: StoreReader, one: KnownRemote, project: str) -> KnownRemote:
    known = reader.facets("remote", [one.name]).get(one.name)
    if known is None or project not in known["projects"]:
        return replace(one, is_strange=known is None)
    since = datetime.fromtimestamp(known["projects"][project], UTC)
    return replace(one, since=since, earlier=project in known["earlier"])


def _waiting(reader: StoreReader, name: str) -> tuple[int, int]:
    """How many memories wait for that remote, and how many it refused."""
    counts = reader.outbox_counts(name)
    return counts["pending"] + counts["leased"], counts["dead"]


def _is_for(row: Row, routes: Routes, route: Route) -> bool:
    return row.memory.significance > REMOTE_ABOVE and routes.is_for(route.name, row.memory)
