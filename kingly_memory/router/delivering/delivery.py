"""Where one memory stands with one remote, and every move it can make. Pure: values in, values out.

pending → leased → delivered | pending (later) | dead | local_only (a policy keeps a later change from a remote)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from kingly_memory.models import DeliveryState, JsonObject


@dataclass(frozen=True, slots=True)
class Delivery:
    """The facet `delivery:<remote>:<id>`. Times in Unix seconds.

    Changes of a memory are numbered: its revision, or one more for each forget and restore. `wanted` is the newest
    change, `acknowledged` the last one the remote has confirmed, `first_sent` the one first sent while the outcome of
    storing it at all is unknown (0: none). `due` is when it may be sent, or when its lease lapses; None when at rest.
    """

    wanted: int
    due: float | None
    state: DeliveryState = DeliveryState.PENDING
    acknowledged: int = 0
    first_sent: int = 0
    attempts: int = 0
    refusals: int = 0
    owner: str | None = None
    remote_id: str | None = None
    last_error: str | None = None

    def to_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__slots__} | {"state": self.state.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Delivery:
        """The facet that `to_json` wrote, without fields of other versions. What cannot be read is a dead delivery:
        it stands in nobody's way, and the user can have it tried again."""
        known = {name: data[name] for name in _KINDS if name in data}
        if not _is_readable(known):
            return _unreadable(known)
        return cls(**{**known, "state": _STATES[known["state"]]})

    @property
    def waits(self) -> bool:
        return self.state in {DeliveryState.PENDING, DeliveryState.LEASED}

    @property
    def untried(self) -> bool:
        """True when nothing of the memory can have reached the remote."""
        return self.remote_id is None and self.first_sent == 0


UNREADABLE = "what was noted of its delivery cannot be read"
_NEEDED = frozenset({"wanted", "due", "state"})
_NONE = type(None)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "wanted": (int,),
    "due": (int, float, _NONE),
    "state": (str,),
    "acknowledged": (int,),
    "first_sent": (int,),
    "attempts": (int,),
    "refusals": (int,),
    "owner": (str, _NONE),
    "remote_id": (str, _NONE),
    "last_error": (str, _NONE),
}
_STATES = {state.value: state for state in DeliveryState}


def _is_readable(said: Mapping[str, Any]) -> bool:
    """True when every field is of its kind, none that is needed is missing, and the state is a known one."""
    return (
        said.keys() >= _NEEDED
        and all(isinstance(value, _KINDS[name]) for name, value in said.items())
        and said["state"] in _STATES
    )


def _unreadable(said: Mapping[str, Any]) -> Delivery:
    """What can be saved of a facet that is not one of ours. It may have been sent, whatever it says."""
    wanted, remote_id = said.get("wanted"), said.get("remote_id")
    change = wanted if isinstance(wanted, int) else 1
    return Delivery(
        wanted=change,
        due=None,
        state=DeliveryState.DEAD,
        first_sent=change,
        remote_id=remote_id if isinstance(remote_id, str) else None,
        last_error=UNREADABLE,
    )


def wanted(before: Delivery | None, revision: int, now_s: float) -> Delivery:
    """There is a change for the remote. A send that is under way goes on; the change follows it."""
    if before is None:
        return Delivery(wanted=revision, due=now_s)
    change = max(before.wanted + 1, revision)
    if before.state is DeliveryState.LEASED:
        return replace(before, wanted=change)
    return replace(before, wanted=change, state=DeliveryState.PENDING, due=now_s, refusals=0)


def at_rest(before: Delivery) -> Delivery:
    """The newest change is not for the remote (significance fell, or the user dropped it)."""
    return replace(
        before, state=DeliveryState.DELIVERED, acknowledged=before.wanted, due=None, owner=None, last_error=None
    )


def withheld(before: Delivery) -> Delivery:
    """A policy keeps the newest change from the remote, which may have an earlier one; until it says otherwise."""
    return replace(before, state=DeliveryState.LOCAL_ONLY, due=None, owner=None, last_error=None)


def leased(before: Delivery, owner: str, now_s: float, lease_s: float) -> Delivery:
    """The process may send it until the lease lapses. A lapsed lease was an attempt of unknown outcome."""
    first = before.first_sent if before.remote_id is not None else before.first_sent or before.wanted
    tried = before.attempts + (before.state is DeliveryState.LEASED)
    return replace(
        before, state=DeliveryState.LEASED, owner=owner, due=now_s + lease_s, first_sent=first, attempts=tried
    )


def released(before: Delivery, unleased: Delivery) -> Delivery:
    """Not sent after all: it goes back to the place it had, as `unleased` tells, before the lease."""
    return replace(before, state=DeliveryState.PENDING, owner=None, due=unleased.due, first_sent=unleased.first_sent)


def held(before: Delivery, due: float) -> Delivery:
    """It has to wait for another one, which is no attempt; but a lapsed lease was one."""
    tried = before.attempts + (before.state is DeliveryState.LEASED)
    return replace(before, state=DeliveryState.PENDING, owner=None, due=due, attempts=tried)


def acknowledged(before: Delivery, change: int, remote_id: str | None, now_s: float) -> Delivery:
    """The remote has confirmed `change`. A newer one makes the memory due again.

    Forgetting what was never confirmed leaves no remote id: `first_sent` stays, since the remote may remember the key
    of the first store and would answer a repeat of it without bringing the memory back.
    """
    done = replace(
        before,
        acknowledged=max(before.acknowledged, change),
        remote_id=remote_id,
        first_sent=0 if remote_id is not None else before.first_sent,
        attempts=0,
        refusals=0,
        owner=None,
        last_error=None,
    )
    if change < before.wanted:
        return replace(done, state=DeliveryState.PENDING, due=now_s)
    return replace(done, state=DeliveryState.DELIVERED, due=None)


def postponed(before: Delivery, reason: str, due: float) -> Delivery:
    """The outcome is unknown or the remote was busy: try again at `due`, for as long as it takes."""
    return replace(
        before,
        state=DeliveryState.PENDING,
        attempts=before.attempts + 1,
        owner=None,
        due=due,
        last_error=reason,
    )


def refused(before: Delivery, change: int, reason: str, *, clear: bool, limit: int, due: float) -> Delivery:
    """The remote will not take `change`: dead at once when that is clear, after `limit` refusals when it is not.

    A newer change does not die with it.
    """
    if change < before.wanted:
        return postponed(replace(before, refusals=0), reason, due)
    counted = replace(before, refusals=before.refusals + 1)
    if clear or counted.refusals >= limit:
        return replace(
            counted, state=DeliveryState.DEAD, attempts=before.attempts + 1, owner=None, due=None, last_error=reason
        )
    return postponed(counted, reason, due)


def retried(before: Delivery, now_s: float) -> Delivery:
    """The user wants a dead one tried again."""
    return replace(before, state=DeliveryState.PENDING, refusals=0, due=now_s)


def confirmed_change(sent: Delivery) -> int:
    """Which change the acknowledgement of a store confirms, given the facet as it was when leased.

    A repeated first store may be answered from the earlier try, which carried an older revision: then only that one
    is confirmed, and the newer one follows as an update.
    """
    return sent.wanted if sent.remote_id is not None else min(sent.first_sent, sent.wanted)


def outbox_of_links(remote: str) -> str:
    """The name under which the links for a remote wait: as long as a remote's own, and apart from its memories."""
    return sha256(f"{remote}:links".encode()).hexdigest()[: len(remote)]


def backoff_s(attempts: int, longest_s: float, chance: float) -> float:
    """Full-jitter exponential backoff (Brooker, AWS 2015): `chance` in [0, 1) of min(longest, 2^attempts) seconds."""
    return chance * min(longest_s, 2.0 ** min(attempts, 30))
