"""Merging a memory into one that says the same, and taking that back, as changes.

The memory goes to the archive as it is. What lay beside it is added to what lies beside the one that stands for it, and
what was added is written down, so that it can be taken away again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kingly_memory.cognition import links
from kingly_memory.cognition.links import LinkDraft
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle import duplicates
from kingly_memory.lifecycle.duplicates import similarity, statement
from kingly_memory.lifecycle.lifetimes import is_expired
from kingly_memory.lifecycle.policies import Merge, Subject
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import archive, linking, merged, write
from kingly_memory.router.write import WriteContext

MOST_LINKS = 32
"""Links added at one time, the strongest of them: a change must not keep the writer for long."""


def may_still_merge(
    transaction: Transaction, one: Subject, stands: Subject, verdict: Merge, *, threshold: float, at_s: float
) -> bool:
    """Whether the memory, of which not a word has changed, may still be merged into the other one."""
    return (
        one.memory.id != stands.memory.id
        and stands.standing is Standing.LIVE
        and duplicates.may_be_merged(one)
        and not is_expired(one.lifetime, at_s)
        and not is_expired(stands.lifetime, at_s)
        and transaction.facet(archive.APART, one.memory.id) is None
        and (
            stands.memory.revision == verdict.revision
            or similarity(statement(one.memory), statement(stands.memory)) >= threshold
        )
    )


def merge(transaction: Transaction, one: Subject, stands: Subject, context: WriteContext) -> JsonObject:
    """Add what lies beside a memory to what lies beside the other one. Says what was added, for `take_apart`."""
    stands_id = stands.memory.id
    after = duplicates.merge(stands, [one])
    changed: JsonObject = {}
    if after.usage != stands.usage:
        changed["usage"] = {"accesses": after.usage.accesses, "last_used": after.usage.last_used}
    if after.strength != stands.strength:
        changed["strength"] = after.strength.to_json()
    if after.lifetime != stands.lifetime:
        changed["lifetime"] = None if after.lifetime is None else after.lifetime.to_json()
    before = {name: transaction.facet(name, stands_id) for name in changed}
    for name, value in changed.items():
        transaction.set_facet(name, stands_id, value)
    said = None
    if after.memory != stands.memory:
        write.revise(transaction, after.memory, context)
        said = [_gained(stands.memory), _gained(after.memory)]
    merged.add(transaction, stands_id, one.memory.id)
    return {
        "id": one.memory.id,
        "into": stands_id,
        "accesses": one.usage.accesses,
        "beside": {name: [before[name], value] for name, value in changed.items()},
        "said": said,
        "links": list(_add_links(transaction, one.memory.id, stands_id, context)),
    }


def take_apart(transaction: Transaction, entry: Mapping[str, Any], context: WriteContext) -> None:
    """Take away what was added, but for what has been changed since. The memory itself is brought back elsewhere."""
    stands_id = MemoryId(entry["into"])
    merged.remove(transaction, stands_id, entry["id"])
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
    if entry["said"] is None or row.standing is not Standing.LIVE:
        return
    before, after = entry["said"]
    if _gained(row.memory) == after:
        was = {**before, "tags": tuple(before["tags"]), "updated_at": datetime.fromisoformat(before["updated_at"])}
        write.revise(transaction, replace(row.memory, **was, revision=row.memory.revision + 1), context)


def _gained(memory: Memory) -> JsonObject:
    """What of a memory a merge may change."""
    return {
        "tags": list(memory.tags),
        "significance": memory.significance,
        "confidence": memory.confidence,
        "updated_at": memory.updated_at.isoformat(),
    }


def _add_links(transaction: Transaction, one: MemoryId, stands: MemoryId, context: WriteContext) -> Iterator[str]:
    """Link what stands to whatever the other one was linked to, unless it is. Names the links that are new."""
    for link in sorted(links.of(transaction, one), key=lambda link: -link.strength)[:MOST_LINKS]:
        source, target = (stands if end == one else end for end in (link.source, link.target))
        if source == target or links.between(transaction, source, target, link.link_type) is not None:
            continue
        said = LinkDraft(link.link_type, link.strength, link.description)
        try:
            yield linking.link(source, target, said, context)(transaction).id
        except InvalidInput:  # its other end was forgotten, or has no room for another link
            continue
