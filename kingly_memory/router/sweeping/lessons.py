"""Learning a text: its summary is the memory that is found, the text itself rests in the archive, linked to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kingly_memory.cognition import links
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.intake import Draft, Imported
from kingly_memory.lifecycle.compression.levels import CompressedMemory
from kingly_memory.models import REMOTE_ABOVE, JsonObject, Receipt, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import archive, linking, write
from kingly_memory.router.archive import LEARNED, WHOLE_TEXT, Archived
from kingly_memory.router.write import Stored, WriteContext

_REASON = "a summary is remembered in its place"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What was learned: where the summary is, what is left of the text, and where the whole of it is. `original_id` is
    None when nothing was left out."""

    receipt: Receipt
    compressed: CompressedMemory
    original_id: MemoryId | None

    @property
    def memory_id(self) -> MemoryId:
        return self.receipt.id

    def to_json(self) -> JsonObject:
        """In the seed's names, with what else is known."""
        compressed = self.compressed
        return {
            "memory_id": self.memory_id,
            "compression_ratio": round(compressed.compression_ratio, 4),
            "key_facts": list(compressed.key_facts),
            "compression_factor": round(compressed.compression_factor, 4),
            "summary": compressed.summary,
            "summary_by": compressed.summariser.value,
            "level": compressed.level.value,
            "original_id": self.original_id,
            "delivery": self.receipt.delivery.value,
            "reason": compressed.reason,
        }


@dataclass(frozen=True, slots=True)
class Learned:
    """What one change stored."""

    stored: Stored
    original_id: MemoryId | None


def learn(
    summary: Draft, original: Draft, ratio: float, desk: WriteContext, *, context_used_s: float = 0.0
) -> Callable[[Transaction], Learned]:
    """Store the summary and, where it leaves something out, the whole text in the archive with a link to it: all of it
    or nothing. The whole text stays on this machine: with a significance of 0.3 at most no remote ever gets it."""

    def change(transaction: Transaction) -> Learned:
        if summary.content == original.content:
            return Learned(write.store(summary, desk, context_used_s=context_used_s)(transaction), None)
        original_id = MemoryId(new_id(desk.now))
        pointing = replace(summary, metadata={**summary.metadata, "original_id": original_id})
        stored = write.store(pointing, desk, context_used_s=context_used_s)(transaction)
        resting = replace(original, significance=min(original.significance, REMOTE_ABOVE))
        write.import_all([Imported(resting, id=original_id, standing=Standing.ARCHIVED)], desk)(transaction)
        why = Archived(desk.now_s, LEARNED, _REASON, {"compression_ratio": ratio}, summary=stored.receipt.id)
        transaction.set_facet(archive.FACET, original_id, why.to_json())
        said = links.draft("references", 1.0, WHOLE_TEXT)
        linking.link(stored.receipt.id, original_id, said, desk)(transaction)
        return Learned(stored, original_id)

    return change
