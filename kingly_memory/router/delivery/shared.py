"""The documents that are shared: those of the namespaces of which somebody has said so, with the hubs of that moment.
An item of a log is one of them where the session's name begins with such a namespace.

The facet `remote:<name>` has in `shared` the beginnings of those namespaces, for each space. A document that is to go
there has a facet of its own, `document:<its name>.<digest of its space>`, with its space and its place; since it was
removed or ended, with the moment of that instead of the place. Under the same name its delivery lies in the outbox of
documents, whose remote id is the state in which this machine last knew the hub to have the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from kingly_memory.digests import sha256
from kingly_memory.documents import LOG, Namespace, Place, as_json, name_of, texts_in
from kingly_memory.models import DeliveryState, JsonObject
from kingly_memory.ports import RemoteDocument, Transaction, in_transaction
from kingly_memory.router.delivery import moves as delivery
from kingly_memory.router.delivery.moves import DOCUMENT, outbox_of_documents
from kingly_memory.router.delivery.routes import added_to
from kingly_memory.validation import mended

AT_ONCE = 200
"""Documents that are looked at in one transaction, so that stores are not kept waiting."""


def cursor_of(space: str) -> str:
    """What tells how far the feed of a space's documents was read; that of its memories is called like the space."""
    return f"{space}\x1edocuments"


def item_of(space: str, name: str) -> str:
    return f"{name}.{sha256(space.encode()).hexdigest()[:16]}"


def prefixes(known: JsonObject | None, space: str) -> list[Namespace]:
    """The beginnings of the space's namespaces that a remote shares, by what is known of it."""
    return [] if known is None else [tuple(namespace) for namespace in known.get("shared", {}).get(space, ())]


def is_shared(known: JsonObject | None, space: str, namespace: Namespace) -> bool:
    path = namespace[1:] if namespace[0] == LOG else namespace
    return any(path[: len(prefix)] == prefix for prefix in prefixes(known, space))


# --- what becomes due -------------------------------------------------------------------------------------------------


def note(
    transaction: Transaction,
    space: str,
    place: Place,
    now_s: float,
    *,
    removed_at: datetime | None = None,
    purged: bool = False,
) -> None:
    """A document was written or removed: it is due at every remote that it is shared with."""
    for remote, known in added_to(transaction, space).items():
        if is_shared(known, space, place[0]):
            item = item_of(space, name_of(*place))
            _remember(transaction, space, item, place, removed_at, purged=purged)
            _want(transaction, remote, item, now_s)


def leave(transaction: Transaction, space: str, now: datetime, *, purged: bool = False) -> None:
    """All documents are about to leave the space, to another one or for good."""
    for place in _places(transaction, space):
        note(transaction, space, place, now.timestamp(), removed_at=now, purged=purged)


def arrive(transaction: Transaction, space: str, now_s: float) -> None:
    """Documents of another space have come into this one, perhaps under names that others had here."""
    for place in _places(transaction, space):
        note(transaction, space, place, now_s)


def end(transaction: Transaction, ended: Sequence[tuple[str, Place]], now_s: float) -> int:
    """Documents have ended and were removed: hubs may let go of them. Returns how many those are."""
    for space, place in ended if transaction.owners("remote") else ():
        item = item_of(space, name_of(*place))
        if transaction.facet(DOCUMENT, item) is not None:
            transaction.set_facet(DOCUMENT, item, {"space": space, "ended_at": now_s})
            for remote in transaction.owners("remote"):
                if transaction.delivery(outbox_of_documents(remote), item) is not None:
                    _want(transaction, remote, item, now_s)
    return len(ended)


def let_go(transaction: Transaction, remote: str, item: str) -> None:
    """There is nothing more to tell a remote of a document, nor to know of it where that holds for all of them."""
    transaction.set_delivery(outbox_of_documents(remote), item, None)
    if all(transaction.delivery(outbox_of_documents(one), item) is None for one in transaction.owners("remote")):
        transaction.set_facet(DOCUMENT, item, None)


def _places(transaction: Transaction, space: str) -> Iterator[Place]:
    """Where documents lie; nowhere in a space of which none are shared."""
    if not any(prefixes(known, space) for known in added_to(transaction, space).values()):
        return
    last = None
    while page := transaction.documents.places(space, (), AT_ONCE, last):
        yield from page
        last = page[-1]


def _want(transaction: Transaction, remote: str, item: str, now_s: float) -> None:
    outbox = outbox_of_documents(remote)
    transaction.set_delivery(outbox, item, delivery.wanted(transaction.delivery(outbox, item), 1, now_s))


def _remember(
    transaction: Transaction,
    space: str,
    item: str,
    place: Place | None,
    removed_at: datetime | None,
    *,
    purged: bool = False,
) -> None:
    fields: JsonObject = {} if place is None else {"place": [*place[0], place[1]]}
    if removed_at is not None:
        fields = {"removed_at": removed_at.timestamp(), **({"purged": True} if purged else {})}
    transaction.set_facet(DOCUMENT, item, {"space": space, **fields})


def came(transaction: Transaction, remote: str, document: RemoteDocument, place: Place | None) -> None:
    """Note that a document is here as the hub has it. `place` is None when it is gone."""
    outbox, item = outbox_of_documents(remote), item_of(document.space, document.name)
    _remember(transaction, document.space, item, place, document.at if place is None else None)
    before = transaction.delivery(outbox, item)
    change = 1 if before is None else before.wanted
    transaction.set_delivery(outbox, item, delivery.came(change, document.state))


def place_of(transaction: Transaction, item: str) -> Place | None:
    """Where a shared document lies here."""
    labels = (transaction.facet(DOCUMENT, item) or {}).get("place")
    return (tuple(labels[:-1]), labels[-1]) if labels else None


def remote_document(transaction: Transaction, remote: str, item: str, based_on: str | None) -> RemoteDocument | None:
    """What a remote is told of a document; None where there is nothing to tell any more: it ended, or it is not shared
    any longer."""
    facet = transaction.facet(DOCUMENT, item)
    if facet is None:
        return None
    space, name = facet["space"], item.partition(".")[0]
    if "removed_at" in facet:
        at = datetime.fromtimestamp(facet["removed_at"], UTC)
        return RemoteDocument(name, space, at, based_on=based_on, purged=facet.get("purged", False))
    if "ended_at" in facet and based_on:
        at = datetime.fromtimestamp(facet["ended_at"], UTC)
        return RemoteDocument(name, space, at, based_on=based_on, ended=True)
    place = place_of(transaction, item)
    document = None if place is None else transaction.documents.document(space, *place)
    if document is None or not is_shared(transaction.facet("remote", remote), space, document.namespace):
        return None
    text = transaction.documents.found_by(space, document.namespace, document.key)
    # The text that it is found by travels where that is not simply all texts in it.
    further = {} if text == mended(texts_in(document.value)) else {"text": text}
    content = as_json({"value": document.value, **further})
    return RemoteDocument(name, space, document.updated_at, document, content, text, based_on)


# --- what the user asks for -------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """How many remotes there are, how many documents of a batch became due at one of them, and the last of the batch,
    where the next one goes on; None after the last."""

    remotes: int
    due: int
    last: Place | None


@in_transaction
def share(transaction: Transaction, space: str, prefix: Namespace, now_s: float, after: Place | None) -> Batch:
    """Share the documents that lie there, a batch of those behind `after`, and what comes after them. The feed is read
    anew, since what the hub has of that namespace was passed by."""
    remotes = added_to(transaction, space)
    for remote, known in remotes.items() if after is None else ():
        namespaces = [list(one) for one in dict.fromkeys([*prefixes(known, space), prefix])]
        transaction.set_facet("remote", remote, {**known, "shared": {**known.get("shared", {}), space: namespaces}})
        read_anew(remote, space)(transaction)
    places = transaction.documents.places(space, prefix, AT_ONCE, after) if remotes else []
    due = 0
    for place in places:
        item = item_of(space, name_of(*place))
        before = {one: transaction.delivery(outbox_of_documents(one), item) for one in remotes}
        lacking = [one for one, found in before.items() if found is None or found.state is DeliveryState.DEAD]
        for remote in lacking:
            _remember(transaction, space, item, place, None)
            _want(transaction, remote, item, now_s)
        due += bool(lacking)
    return Batch(len(remotes), due, places[-1] if len(places) == AT_ONCE else None)


@in_transaction
def read_anew(transaction: Transaction, remote: str, space: str) -> None:
    """The feed of the space's documents is read from its beginning."""
    known = transaction.facet("remote", remote)
    if known is not None:
        read = {cursor: until for cursor, until in known["read"].items() if cursor != cursor_of(space)}
        transaction.set_facet("remote", remote, {**known, "read": read})


@in_transaction
def unshare(transaction: Transaction, space: str, prefix: Namespace, after: Place | None) -> Batch:
    """Share it no longer; what the hub and other machines have stays there. `remotes` counts those that shared it."""
    remotes = added_to(transaction, space)
    sharing = [one for one, known in remotes.items() if prefix in prefixes(known, space)]
    for remote in sharing:
        left = [list(one) for one in prefixes(remotes[remote], space) if one != prefix]
        shared = {**remotes[remote]["shared"], space: left}
        transaction.set_facet("remote", remote, {**remotes[remote], "shared": shared})
    places = transaction.documents.places(space, prefix, AT_ONCE, after)
    known = added_to(transaction, space)
    for place in places:
        item = item_of(space, name_of(*place))
        parted = [remote for remote, facet in known.items() if not is_shared(facet, space, place[0])]
        for remote in parted:
            transaction.set_delivery(outbox_of_documents(remote), item, None)
        if len(parted) == len(known):
            transaction.set_facet(DOCUMENT, item, None)
    return Batch(len(sharing), 0, places[-1] if len(places) == AT_ONCE else None)
