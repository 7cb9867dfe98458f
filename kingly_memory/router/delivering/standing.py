"""Where a memory stands with every remote, as its receipt says. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kingly_memory.models import REMOTE_ABOVE, DeliveryState, JsonObject, Memory, Receipt
from kingly_memory.router.delivering.delivery import Delivery
from kingly_memory.router.delivering.routes import Route, Routes

NOT_NAMED = "remote_policy names no remote for it"
_MATTERS_MOST = (DeliveryState.PENDING, DeliveryState.DEAD, DeliveryState.DELIVERED)
"""Of several remotes: what has yet to come, then what will not."""


class Standing(NamedTuple):
    """Where a memory stands with one remote."""

    label: str
    state: DeliveryState
    reason: str
    remote_id: str | None

    def to_json(self) -> JsonObject:
        return {"delivery": self.state.value, "remote_id": self.remote_id, "reason": self.reason}


def receipt_of(
    memory: Memory, facets: Mapping[str, Delivery | None], routes: Routes | None, *, waits: bool = False
) -> Receipt:
    """The receipt of a memory with these delivery facets, by the remotes' stable names. `waits`: for a remote that is
    not named here."""
    each = [] if routes is None else [_at(memory, route, facets.get(route.name), routes) for route in routes.known]
    state = next((one for one in _MATTERS_MOST if any(one is at.state for at in each)), DeliveryState.LOCAL_ONLY)
    is_plain = routes is None or routes.is_plain
    return Receipt(
        id=memory.id,
        key=memory.key,
        revision=memory.revision,
        layers=("local", *(at.label for at in each if at.state is DeliveryState.DELIVERED)),
        delivery=state,
        remote_id=next((at.remote_id for at in each if at.remote_id is not None), None),
        reason=_reason(memory, each, waits=waits),
        remotes={} if is_plain else {at.label: at.to_json() for at in each},
    )


def _reason(memory: Memory, each: Sequence[Standing], *, waits: bool) -> str:
    if memory.significance <= REMOTE_ABOVE:
        return f"significance {memory.significance:g} is not above {REMOTE_ABOVE:g}"
    if not each:
        return f"no remote is named{' here; it waits for one that this home knows' if waits else ''}"
    if len(each) == 1:
        return each[0].reason
    told = [at for at in each if at.reason != NOT_NAMED]
    if not told:
        return NOT_NAMED
    return "; ".join(f"{at.label}: {at.reason}" for at in told)


def _at(memory: Memory, route: Route, facet: Delivery | None, routes: Routes) -> Standing:
    state, reason = _state(memory, route, facet, routes)
    return Standing(route.label, state, reason, None if facet is None else facet.remote_id)


def _state(memory: Memory, route: Route, facet: Delivery | None, routes: Routes) -> tuple[DeliveryState, str]:
    if memory.significance <= REMOTE_ABOVE:
        return DeliveryState.LOCAL_ONLY, f"significance {memory.significance:g} is not above {REMOTE_ABOVE:g}"
    if not routes.is_for(route.name, memory):
        return DeliveryState.LOCAL_ONLY, NOT_NAMED
    if facet is None:
        return DeliveryState.LOCAL_ONLY, "dropped from the outbox"
    if facet.state is DeliveryState.DELIVERED:
        return DeliveryState.DELIVERED, "acknowledged by the remote"
    if facet.state is DeliveryState.DEAD:
        return DeliveryState.DEAD, f"the remote refused it: {facet.last_error}"
    return DeliveryState.PENDING, facet.last_error or "waits in the outbox for the remote"
