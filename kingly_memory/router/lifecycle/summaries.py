"""Redacting what is forgotten from what tells of it: summaries of many, and the summary of a text that was learned.

The facet `summarised_in:<id>` names the summaries that hold a sentence of a memory. It stays when the memory is brought
back, since they still hold that sentence.
"""

from __future__ import annotations

from collections.abc import Iterator

from kingly_memory.cognition import links
from kingly_memory.cognition.links import Link
from kingly_memory.ids import MemoryId
from kingly_memory.models import SUMMARY, Memory, MemoryStatus
from kingly_memory.ports import Row, Transaction
from kingly_memory.router.lifecycle import archive

FACET = "summarised_in"
KEPT = 20
"""The latest summaries of one memory that are noted. It may come back and be summarised again."""


def note(transaction: Transaction, memory: Memory) -> list[MemoryId]:
    """Note beside each memory that a summary holds a sentence of it. Return the ids of those memories; none for what is
    no summary."""
    if memory.metadata.get("record") != SUMMARY:
        return []
    from kingly_memory.lifecycle.summaries import MOST_SENTENCES, originals  # most stores need none of it

    ids = list(dict.fromkeys(originals(memory)))[:MOST_SENTENCES]
    for memory_id in ids:
        earlier = [one for one in _names(transaction, memory_id) if one != memory.id]
        transaction.set_facet(FACET, memory_id, {"in": [*earlier, memory.id][-KEPT:]})
    return ids


def redact_mentions(transaction: Transaction, gone: Memory) -> Iterator[tuple[Row, Memory, bool]]:
    """The summaries of that memory: each row as it was, the summary without that memory, and whether it still
    holds a sentence of any."""
    for row in _summaries_of(transaction, gone):
        from kingly_memory.lifecycle.summaries import originals, redacted  # most memories are in no summary

        after = redacted(row.memory, gone.id)
        if after != row.memory:
            yield row, after, bool(originals(after))
    transaction.set_facet(FACET, gone.id, None)


def _summaries_of(transaction: Transaction, memory: Memory) -> Iterator[Row]:
    """Summaries of the same project."""
    behind = (transaction.facet(archive.FACET, memory.id) or {}).get("summary")
    for summary_id in dict.fromkeys([*_names(transaction, memory.id), *([] if behind is None else [behind])]):
        row = transaction.row(summary_id)
        if row is not None and row.memory.scope.space == memory.scope.space:
            yield row


def _names(transaction: Transaction, memory_id: MemoryId) -> list[str]:
    return list((transaction.facet(FACET, memory_id) or {"in": []})["in"])


# --- texts that were learned ----------------------------------------------------------------------------------------


def counterparts(transaction: Transaction, memory: Memory) -> list[Row]:
    """Of a text that was learned the summary, of such a summary the whole texts that rest in the archive."""
    sources = (transaction.row(one.source) for one in _links(transaction, memory.id) if one.target == memory.id)
    summaries = [row for row in sources if row is not None and row.memory.metadata.get("original_id") == memory.id]
    texts = (transaction.row(memory_id) for memory_id in full_texts(transaction, memory, MemoryStatus.ARCHIVED))
    return [*summaries, *(row for row in texts if row is not None)]


def full_texts(
    transaction: Transaction, summary: Memory, status: MemoryStatus = MemoryStatus.FORGOTTEN
) -> list[MemoryId]:
    """Those for which it is remembered, of that status."""
    ids = [one.target for one in _links(transaction, summary.id) if one.source == summary.id]
    rows = ((one, transaction.row(one)) for one in ids)
    return [one for one, row in rows if row is not None and row.status is status]


def disconnect(transaction: Transaction, memory: Memory) -> None:
    """It says something else by now: the texts that it summed up are no counterparts of it any more."""
    if "original_id" not in memory.metadata:
        links.remove(
            transaction, memory.id, [one.id for one in _links(transaction, memory.id) if one.source == memory.id]
        )


def _links(transaction: Transaction, memory_id: MemoryId) -> list[Link]:
    """The links between texts and their summaries: wherever a text has been since, they are one thing."""
    is_one = (links.LinkType.REFERENCES, archive.WHOLE_TEXT)
    return [link for link in links.of(transaction, memory_id) if (link.link_type, link.description) == is_one]
