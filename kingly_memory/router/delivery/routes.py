"""Which remotes a router has and a project sends to, what people call them, which memories go there, and what a receipt
says of that."""

from __future__ import annotations

from collections.abc import Mapping

from kingly_memory.dataclass import NamedTuple, dataclass
from kingly_memory.models import REMOTE_ABOVE, DeliveryState, JsonObject, Memory, Receipt, RemoteUse
from kingly_memory.ports import Delivery, Transaction

UNNAMED = "remote"
"""The label of a single remote that was given without a name."""


def called(label: str) -> str:
    """What a sentence calls the remote."""
    return "the remote" if label == UNNAMED else f"the remote {label}"


def added_to(transaction: Transaction, space: str) -> dict[str, JsonObject]:
    """What is known of each remote that this project sends to, in use now or not (`known_remotes`)."""
    found = {}
    for name in transaction.owners("remote"):
        facet = transaction.facet("remote", name)
        if facet is not None and space in facet["projects"]:
            found[name] = facet
    return found


class Route(NamedTuple):
    """A remote: the stable `name` that the store knows it by, and the `label` that people gave it. `token_mark` tells
    one token from another without saying what it is."""

    name: str
    label: str
    endpoint: str
    token_mark: str = ""

    @property
    def link(self) -> str:
        """The row of the link. It is kept per token, so one bad token does not block processes with a good one."""
        return f"{self.name}:{self.token_mark}" if self.token_mark else self.name


@dataclass(frozen=True, slots=True)
class Routes:
    """The remotes in the order in which they were named, and what is done with them.

    `earlier` says that memories which a project had before a remote was added are delivered too.
    """

    known: tuple[Route, ...]
    use: RemoteUse = RemoteUse.ADD
    earlier: bool = False

    @property
    def is_plain(self) -> bool:
        """One remote without a name: nothing is said of names then."""
        return [route.label for route in self.known] == [UNNAMED]

    def of(self, memory: Memory) -> tuple[Route, ...]:
        """The remotes that the memory is sent to: all, or none where it is not significant."""
        return self.known if memory.significance > REMOTE_ABOVE else ()


def receipt_of(
    memory: Memory, deliveries: Mapping[str, Delivery | None], routes: Routes | None, *, waits: bool = False
) -> Receipt:
    """The receipt of a memory with these deliveries, by the remotes' stable names. `waits`: for a remote that is
    not named here."""
    known = () if routes is None else routes.known
    quiet = None
    if memory.significance <= REMOTE_ABOVE:
        quiet = f"significance {memory.significance:g} is not above {REMOTE_ABOVE:g}"
    if not known:
        state, reason = DeliveryState.LOCAL_ONLY, quiet or "no remote is named"
        if waits and quiet is None:
            state, reason = DeliveryState.PENDING, "waits in the outbox for a remote that is not named here"
        return Receipt(memory.id, memory.key, memory.revision, ("local",), state, None, reason)
    each = {route.label: _status(deliveries.get(route.name), quiet) for route in known}
    states = {status["delivery"] for status in each.values()}
    matters_most = (DeliveryState.PENDING, DeliveryState.DEAD, DeliveryState.DELIVERED)
    reasons = [status["reason"] if len(each) == 1 else f"{label}: {status['reason']}" for label, status in each.items()]
    return Receipt(
        id=memory.id,
        key=memory.key,
        revision=memory.revision,
        layers=("local", *(label for label, status in each.items() if status["delivery"] == DeliveryState.DELIVERED)),
        delivery=next((state for state in matters_most if state in states), DeliveryState.LOCAL_ONLY),
        remote_id=next((status["remote_id"] for status in each.values() if status["remote_id"] is not None), None),
        reason=quiet or "; ".join(reasons),
        remotes={} if routes is None or routes.is_plain else each,
    )


def _status(found: Delivery | None, quiet: str | None) -> JsonObject:
    """Where a memory stands with one remote. `quiet` says why it is for none."""
    state, reason = DeliveryState.LOCAL_ONLY, quiet or "dropped from the outbox"
    if found is not None and quiet is None:  # no table: a store waits for this, and to hash a state takes 0.2 µs
        state = found.state
        if state is DeliveryState.DELIVERED:
            reason = "acknowledged by the remote"
        elif state is DeliveryState.DEAD:
            reason = f"the remote refused it: {found.last_error}"
        elif state is DeliveryState.LOCAL_ONLY:
            reason = "the remote has another text of it"
        else:
            state, reason = DeliveryState.PENDING, found.last_error or "waits in the outbox for the remote"
    return {"delivery": state.value, "remote_id": None if found is None else found.remote_id, "reason": reason}
