"""Where one memory, or one link between memories, stands with one remote, and every move it can make. Pure.

| move | from | to | when |
|---|---|---|---|
| wanted | none, local_only, pending, at rest, dead | pending, due now | there is a new change |
| wanted | leased | leased | the change follows the one that is under way |
| leased | pending and due, leased and lapsed | leased | a process takes it; a lapsed lease counts as an attempt |
| acknowledged | leased | delivered | the remote took the newest change |
| acknowledged | leased | pending, due now | the remote took an earlier change |
| postponed | leased | pending, due later | no answer, an error that may pass, a refused token |
| refused | leased | dead | a clear refusal, or the tenth that is not clear |
| refused | leased | pending, due later | fewer than ten, or a newer change waits |
| overtaken | leased | pending, due now | the remote holds the text of another change |
| released | leased | pending, at its old place | it was not sent |
| held | pending, leased and lapsed | pending | a thought waits for the one before it |
| retried | pending, dead | pending, due now | the user asks for it |
| dropped | pending, dead | local_only | the user does not want it to be sent, and the remote has an earlier change |
| at_rest | any | delivered | the newest change is not for the remote |
| came | any | delivered | the remote has said what is here now |
"""

from __future__ import annotations

from kingly_memory.dataclass import dataclass, replace
from kingly_memory.digests import sha256
from kingly_memory.errors import OVERTAKEN
from kingly_memory.models import DeliveryState, Memory
from kingly_memory.ports import Delivery, RemoteDocument, RemoteLink, RemoteMarks

MOST_REFUSALS = 10
"""That many which are not clear are as good as a clear one: who answers is there, and does not want it."""


def wanted(before: Delivery | None, revision: int, now_s: float) -> Delivery:
    if before is None:
        return Delivery(wanted=revision, due=now_s)
    change = max(before.wanted + 1, revision)
    if before.state is DeliveryState.LEASED:
        return replace(before, wanted=change)
    return replace(before, wanted=change, state=DeliveryState.PENDING, due=now_s, refusals=0)


def at_rest(before: Delivery) -> Delivery:
    return replace(
        before, state=DeliveryState.DELIVERED, acknowledged=before.wanted, due=None, owner=None, last_error=None
    )


def came(change: int, remote_id: str | None) -> Delivery:
    return Delivery(change, None, state=DeliveryState.DELIVERED, acknowledged=change, remote_id=remote_id)


def dropped(before: Delivery) -> Delivery:
    return replace(before, state=DeliveryState.LOCAL_ONLY, due=None)


def leased(before: Delivery, owner: str, now_s: float, lease_s: float, *, honours_keys: bool = True) -> Delivery:
    """`honours_keys`: a repeat has no second effect at this remote.

    What was sent and not answered may still arrive, behind what is sent now. So no text goes under a later number
    before the remote has confirmed that one. Where a repeat would be one update more, that is so for the first store
    alone: the remote may hold it, and answers later ones by it.
    """
    first = before.first_sent
    if honours_keys or before.remote_id is None:
        first = first or before.wanted
    tried = before.attempts + (before.state is DeliveryState.LEASED)
    return replace(
        before, state=DeliveryState.LEASED, owner=owner, due=now_s + lease_s, first_sent=first, attempts=tried
    )


def released(before: Delivery, unleased: Delivery) -> Delivery:
    """`unleased` is the delivery before the lease."""
    return replace(before, state=DeliveryState.PENDING, owner=None, due=unleased.due, first_sent=unleased.first_sent)


def held(before: Delivery, due: float) -> Delivery:
    tried = before.attempts + (before.state is DeliveryState.LEASED)
    return replace(before, state=DeliveryState.PENDING, owner=None, due=due, attempts=tried)


def acknowledged(before: Delivery, change: int, remote_id: str | None, now_s: float) -> Delivery:
    """The remote has confirmed `change`.

    Forgetting leaves `first_sent` as it was: a text that was not answered may arrive yet, and its number is repeated
    before the next one. Where the remote has given no id, it may remember the key of the first store, and would answer
    a repeat of it without bringing the memory back.
    """
    done = replace(
        before,
        acknowledged=max(before.acknowledged, change),
        remote_id=remote_id,
        first_sent=0 if remote_id is not None and change == before.first_sent else before.first_sent,
        attempts=0,
        refusals=0,
        owner=None,
        last_error=None,
    )
    if change < before.wanted:
        return replace(done, state=DeliveryState.PENDING, due=now_s)
    return replace(done, state=DeliveryState.DELIVERED, due=None)


def postponed(before: Delivery, reason: str, due: float) -> Delivery:
    return replace(
        before,
        state=DeliveryState.PENDING,
        attempts=before.attempts + 1,
        owner=None,
        due=due,
        last_error=reason,
    )


def refused(before: Delivery, change: int, reason: str, *, clear: bool, due: float) -> Delivery:
    """The remote will not take `change`. A newer change does not die with it."""
    if change < before.wanted:
        return postponed(replace(before, refusals=0), reason, due)
    counted = postponed(replace(before, refusals=before.refusals + 1), reason, due)
    if clear or counted.refusals >= MOST_REFUSALS:
        return replace(counted, state=DeliveryState.DEAD, due=None)
    return counted


def overtaken(before: Delivery, remote_id: str | None, due: float) -> Delivery:
    """The remote holds another text under `remote_id`, and a change that covers this one, which is sent again under a
    key of its own. None says that it holds nothing: then it is stored anew."""
    return replace(postponed(before, OVERTAKEN, due), remote_id=remote_id, first_sent=0)


def retried(before: Delivery, now_s: float) -> Delivery:
    return replace(before, state=DeliveryState.PENDING, refusals=0, due=now_s)


def confirmed_change(sent: Delivery) -> int:
    """Which change the answer to a store confirms, given the delivery as it was leased.

    A remote may answer a repeat from the earlier try, which carried an older revision. Then only that one is confirmed,
    and the newer one follows as an update.
    """
    return sent.first_sent or sent.wanted


def backoff_s(attempts: int, longest_s: float, chance: float) -> float:
    """Full-jitter exponential backoff (Brooker, AWS 2015): `chance` in [0, 1) of min(longest, 2^attempts) seconds."""
    return chance * min(longest_s, 2.0 ** min(attempts, 30))


DOCUMENT = "document"
"""The facet of a shared document (`shared`)."""


def outbox_of_links(remote: str) -> str:
    """The name of the outbox in which links wait for a remote. Memories wait in the one with the remote's own name."""
    return sha256(f"{remote}:links".encode()).hexdigest()[: len(remote)]


def outbox_of_documents(remote: str) -> str:
    """The same for documents."""
    return sha256(f"{remote}:documents".encode()).hexdigest()[: len(remote)]


@dataclass(frozen=True, slots=True)
class Leased:
    """One delivery that this process may send: as it was before the lease and is since, and its subject.

    `id` is its place in the outbox: the memory's id, `<source>:<link id>`, `<memory id>:marks`, or that of a document
    (`shared.item_of`). `name` is what a log calls it, never its text. `first_key` is our id of the subject.
    `incarnation` is that of a home that was restored from a backup.
    """

    outbox: str
    id: str
    name: str
    first_key: str
    subject: Memory | RemoteLink | RemoteMarks | RemoteDocument
    before: Delivery
    leased: Delivery
    forgotten: bool = False
    incarnation: str = ""

    @property
    def repeated(self) -> bool:
        """True when an earlier try may have had its effect."""
        return self.leased.attempts > 0 or self.before.first_sent > 0

    @property
    def place(self) -> float:
        """The due time that it had. It keeps this place in the order when the failure is not its own."""
        return self.before.due or 0.0

    @property
    def confirms(self) -> int:
        """Which change the remote's answer confirms."""
        return self.leased.wanted if self.forgotten else confirmed_change(self.leased)

    @property
    def idempotency_key(self) -> str:
        """Our id for the first store, `<id>.<change>` for every later change that was sent. Never anything random.

        A restored home numbers its changes as it did after the backup, when it said something else: there it is
        `<id>.<incarnation>.<change>`. Where the remote said that it has a later change already and holds another text,
        this one is sent again as `<id>.r<attempts>.<change>`: whoever knows an id could number a change of his so high
        that no later one of ours would count.
        """
        change = self.confirms
        if isinstance(self.subject, Memory):
            is_first = self.leased.remote_id is None and not self.forgotten
        else:  # of a link no remote id is kept
            is_first = change == 1
        own = f"r{self.before.attempts}" if self.before.last_error == OVERTAKEN else ""
        return (
            self.first_key if is_first else ".".join(filter(None, (self.first_key, self.incarnation, own, str(change))))
        )
