"""Taking in what a hub's feed of documents lists.

| the hub has | here | what becomes of it |
|---|---|---|
| a document of a namespace that is not shared here | anything | nothing |
| anything | a change that waits for the hub | nothing: the hub compares the two when that arrives, and lists it again |
| a document | what the hub had before, or none | the hub's |
| a document | one that the hub never had, or has refused | the hub's; the one here is kept beside it for 30 days |
| none any more | what the hub had before, or any item of a log | it is removed |

Which of two texts that were written apart is the later one was said by the hub.
"""

from __future__ import annotations

from datetime import datetime

from kingly_memory.documents import APART_FOR, LOG, Document, apart, as_json
from kingly_memory.models import DeliveryState
from kingly_memory.ports import RemoteDocument, Transaction
from kingly_memory.router import documents
from kingly_memory.router.delivery import shared
from kingly_memory.router.delivery.moves import outbox_of_documents


def take(transaction: Transaction, remote: str, listed: RemoteDocument, now: datetime) -> bool:
    """True when a document is new here, another one, or gone."""
    rows, space, item = transaction.documents, listed.space, shared.item_of(listed.space, listed.name)
    delivery, known = transaction.delivery(outbox_of_documents(remote), item), transaction.facet("remote", remote)
    if delivery is not None and (delivery.waits or delivery.remote_id == listed.state):
        return False
    document = listed.document
    place = shared.place_of(transaction, item) if document is None else (document.namespace, document.key)
    if place is None or not shared.is_shared(known, space, place[0]):
        return False
    here = documents.existing(rows, space, *place, now)
    if document is None and here is None:
        return False
    is_same = here is not None and document is not None and as_json(here.value) == as_json(document.value)
    is_own = delivery is None or delivery.state is DeliveryState.DEAD
    if here is not None and is_own and not is_same and not listed.purged and place[0][0] != LOG:
        _keep_beside(transaction, space, here, now)
    if document is None:
        rows.remove(space, *place)
    else:
        version = documents.next_version(rows, space, here)
        rows.put(space, document._replace(version=version), as_json(document.value), listed.text)
    shared.came(transaction, remote, listed, None if document is None else place)
    return True


def _keep_beside(transaction: Transaction, space: str, here: Document, now: datetime) -> None:
    rows = transaction.documents
    kept = here._replace(key=apart(here.key, here.updated_at), expires_at=now + APART_FOR, ttl_s=None)
    text = rows.found_by(space, here.namespace, here.key)
    rows.put(space, kept._replace(version=documents.next_version(rows, space, None)), as_json(here.value), text)
    shared.note(transaction, space, (kept.namespace, kept.key), now.timestamp())
