"""Redacting what is forgotten from what tells of it: summaries of many, and the summary of a text that was learned.

Nothing is written here but who is told of where, and which text is no longer summarised by whom. The facet `told:<id>`
names the summaries that tell a sentence of a memory. It stays when the memory is brought back, since they go on
telling it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kingly_memory.cognition import links
from kingly_memory.cognition.links import Link
from kingly_memory.ids import MemoryId
from kingly_memory.models import SUMMARY, Memory, Standing
from kingly_memory.ports import Row, Transaction
from kingly_memory.router.lifecycle import archive

FACET = "told"
KEPT = 20
"""Summaries that tell of one memory, the latest; each time it has come back before."""


def note(transaction: Transaction, said: Memory) -> list[MemoryId]:
    """Write down whom a summary tells of, and say who that is; nobody for what is no summary."""
    if said.metadata.get("record") != SUMMARY:
        return []
    from kingly_memory.lifecycle.summaries import MOST_TOLD, originals  # most stores need none of it

    ids = list(dict.fromkeys(originals(said)))[:MOST_TOLD]
    for memory_id in ids:
        others = [one for one in _names(transaction, memory_id) if one != said.id]
        transaction.set_facet(FACET, memory_id, {"in": [*others, said.id][-KEPT:]})
    return ids


def redact_mentions(transaction: Transaction, gone: Memory) -> Iterator[tuple[Row, Memory, bool]]:
    """The summaries that told of that memory, each as it was, as it is then, and whether it tells anything still."""
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
    told = (transaction.row(one.source) for one in _links(transaction, memory.id) if one.target == memory.id)
    summaries = [row for row in told if row is not None and row.memory.metadata.get("original_id") == memory.id]
    texts = (transaction.row(memory_id) for memory_id in full_texts(transaction, memory, Standing.ARCHIVED))
    return [*summaries, *(row for row in texts if row is not None)]


def full_texts(transaction: Transaction, said: Memory, standing: Standing = Standing.FORGOTTEN) -> list[MemoryId]:
    """Those for which it is remembered, of that standing."""
    ids = [one.target for one in _links(transaction, said.id) if one.source == said.id]
    rows = ((one, transaction.row(one)) for one in ids)
    return [one for one, row in rows if row is not None and row.standing is standing]


def disconnect(transaction: Transaction, said: Memory) -> None:
    """It says something else by now: the texts that it summed up are no counterparts of it any more."""
    if "original_id" not in said.metadata:
        links.remove(transaction, said.id, [one.id for one in _links(transaction, said.id) if one.source == said.id])


def _links(transaction: Transaction, memory_id: MemoryId) -> list[Link]:
    """The links between texts and their summaries: wherever a text has been since, they are one thing."""
    is_one = (links.LinkType.REFERENCES, archive.WHOLE_TEXT)
    return [one for one in links.of(transaction, memory_id) if (one.link_type, one.description) == is_one]
