"""Joining a memory to one that says the same, and taking that back, as changes.

The memory goes to the archive as it is. What lay beside it is added to what lies beside the one that stands for it, and
what was added is written down, so that it can be taken away again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kingly_memory.cognition import links
from kingly_memory.cognition.links import LinkDraft
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import merging
from kingly_memory.lifecycle.lifetimes import is_expired
from kingly_memory.lifecycle.merging import Merging
from kingly_memory.lifecycle.restating import saying
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.lifecycle.verdicts import Merge
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import archive, linking, write
from kingly_memory.router.sweeping import joined
from kingly_memory.router.write import WriteContext

FACET = joined.FACET
MOST_LINKS = 32
"""Joined at one time, the strongest of them: a change must not keep the writer for long."""


def holds(
    transaction: Transaction, one: Subject, stands: Subject | None, verdict: Merge, how: Merging, *, at_s: float
) -> bool:
    """Whether the memory, of which not a word has changed, may still be joined to the other one."""
    return (
        stands is not None
        and one.memory.id != stands.memory.id
        and stands.standing is Standing.LIVE
        and merging.may_be_joined(one)
        and not is_expired(one.lifetime, at_s)
        and not is_expired(stands.lifetime, at_s)
        and transaction.facet(archive.APART, one.memory.id) is None
        and (stands.memory.revision == verdict.revision or how.share(saying(one.memory), saying(stands.memory)) > 0)
    )


def join(transaction: Transaction, one: Subject, stands: Subject, desk: WriteContext) -> JsonObject:
    """Add what lies beside a memory to what lies beside the other one. Says what was added, for `take_apart`."""
    after = merging.join(stands, one)
    beside = dict(_changed_beside(stands, after))
    for name, value in beside.items():
        beside[name] = [transaction.facet(name, stands.memory.id), value]
        transaction.set_facet(name, stands.memory.id, value)
    said = None
    if after.memory != stands.memory:
        write.revise(transaction, after.memory, desk)
        said = [_gained(stands.memory), _gained(after.memory)]
    joined.add(transaction, stands.memory.id, one.memory.id)
    return {
        "id": one.memory.id,
        "into": stands.memory.id,
        "accesses": one.usage.accesses,
        "beside": beside,
        "said": said,
        "links": list(_join_links(transaction, one.memory.id, stands.memory.id, desk)),
    }


def take_apart(transaction: Transaction, entry: Mapping[str, Any], desk: WriteContext) -> None:
    """Take away what was added, but for what has been changed since. The memory itself is brought back elsewhere."""
    stands_id = MemoryId(entry["into"])
    joined.remove(transaction, stands_id, entry["id"])
    links.remove(transaction, stands_id, entry["links"])
    row = transaction.row(stands_id)
    if row is None or row.standing is Standing.FORGOTTEN:
        return
    for name, (before, after) in entry["beside"].items():
        now = transaction.facet(name, stands_id)
        if now == after:
            transaction.set_facet(name, stands_id, before)
        elif name == "usage" and now is not None:
            left = max(now["accesses"] - entry["accesses"], 0)
            transaction.set_facet(name, stands_id, {**now, "accesses": left})
    if entry["said"] is not None and row.standing is Standing.LIVE:
        before, after = entry["said"]
        if _gained(row.memory) == after:
            write.revise(transaction, _without(row.memory, before), desk)


def _changed_beside(before: Subject, after: Subject) -> Iterator[tuple[str, Any]]:
    if after.usage != before.usage:
        yield "usage", {"accesses": after.usage.accesses, "last_used": after.usage.last_used}
    if after.strength != before.strength:
        yield "strength", after.strength.to_json()
    if after.lifetime != before.lifetime:
        yield "lifetime", None if after.lifetime is None else after.lifetime.to_json()


def _gained(memory: Memory) -> JsonObject:
    """What of a memory a merge may change."""
    return {
        "tags": list(memory.tags),
        "significance": memory.significance,
        "confidence": memory.confidence,
        "updated_at": memory.updated_at.isoformat(),
    }


def _without(memory: Memory, before: Mapping[str, Any]) -> Memory:
    return replace(
        memory,
        tags=tuple(before["tags"]),
        significance=before["significance"],
        confidence=before["confidence"],
        updated_at=datetime.fromisoformat(before["updated_at"]),
        revision=memory.revision + 1,
    )


def _join_links(transaction: Transaction, one: MemoryId, stands: MemoryId, desk: WriteContext) -> Iterator[str]:
    """Link what stands to whatever the other one was linked to, unless it is. Names the links that are new."""
    before = sorted(links.of(transaction, one), key=lambda link: -link.strength)
    for link in before[:MOST_LINKS]:
        source, target = (stands if end == one else end for end in (link.source, link.target))
        if source == target or links.between(transaction, source, target, link.link_type) is not None:
            continue
        said = LinkDraft(link.link_type, link.strength, link.description)
        try:
            yield linking.link(source, target, said, desk)(transaction).id
        except InvalidInput:  # its other end was forgotten, or has no room for another link
            continue
