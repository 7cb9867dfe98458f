"""Learning a text: its summary is the memory that is found, the text itself rests in the archive, linked to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from kingly_memory import validation
from kingly_memory.cognition import links
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.lifecycle.compression import CompressedMemory, CompressionConfig, CompressionLevel, MemoryCompressor
from kingly_memory.models import REMOTE_ABOVE, JsonObject, MemoryStatus, Receipt
from kingly_memory.ports import LanguageModel, Transaction
from kingly_memory.router import linking, write
from kingly_memory.router.engine import Engine
from kingly_memory.router.lifecycle import archive
from kingly_memory.router.lifecycle.archive import LEARNED, WHOLE_TEXT, Archived
from kingly_memory.router.write import Stored
from kingly_memory.validation import Draft, Imported

FACT_CHARACTERS = 300
MOST_FACTS = 10
"""What is kept beside a summary, of each kind: a sentence may be as long as the text, and a model may find hundreds."""


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


async def learn(
    engine: Engine,
    original: Draft,
    *,
    key: str | None,
    level: CompressionLevel | None,
    language_model: LanguageModel | None,
) -> Lesson:
    """Store the summary and, where it leaves something out, the whole text in the archive with a link to it: all of it
    or nothing. Raises InvalidInput, InvalidSetting, StoreError; LanguageModelError where the settings require a
    model."""
    compressed = await _compressed(engine, original, level, language_model)
    metadata = validation.checked_metadata({**original.metadata, **compressed.metadata()})
    summary = replace(original, key=key, content=compressed.summary, metadata=metadata, unsaid=frozenset())
    stored, original_id = await engine.write(_stored(engine, summary, original, compressed.compression_ratio))
    await engine.follow(stored)
    return Lesson(stored.receipt, compressed, original_id)


async def _compressed(
    engine: Engine, text: Draft, level: CompressionLevel | None, language_model: LanguageModel | None
) -> CompressedMemory:
    """The text by that model, else by that of the settings, else by rules."""
    settings = engine.settings
    config = CompressionConfig(settings.compression_enabled, settings.compression_level, settings.llm_required)
    async with engine.model(language_model) if config.enabled else nullcontext((None, False)) as (model, is_here):
        compressor = MemoryCompressor(model, config, model_is_here=is_here)
        whole = await compressor.compress_outcome(text.content, level, significance=text.significance)
    kinds = ("key_facts", "constraints", "patterns", "decisions")
    short: dict[str, Any] = {
        kind: tuple(one[:FACT_CHARACTERS] for one in getattr(whole, kind)[:MOST_FACTS]) for kind in kinds
    }
    return replace(whole, **short)


def _stored(
    engine: Engine, summary: Draft, original: Draft, ratio: float
) -> Callable[[Transaction], tuple[Stored, MemoryId | None]]:
    """The whole text stays on this machine: with a significance of 0.3 at most no remote ever gets it."""
    context = engine.write_context()
    if summary.content == original.content:
        store_whole = write.store(summary, context)
        return lambda transaction: (store_whole(transaction), None)
    original_id = MemoryId(new_id(context.now))
    store = write.store(replace(summary, metadata={**summary.metadata, "original_id": original_id}), context)
    resting = replace(original, significance=min(original.significance, REMOTE_ABOVE))
    put_away = write.import_all([Imported(resting, id=original_id, status=MemoryStatus.ARCHIVED)], context)

    def change(transaction: Transaction) -> tuple[Stored, MemoryId | None]:
        stored = store(transaction)
        put_away(transaction)
        reason, figures = "a summary is remembered in its place", {"compression_ratio": ratio}
        why = Archived(context.now_s, LEARNED, reason, figures, summary=stored.receipt.id)
        transaction.set_facet(archive.FACET, original_id, why.to_json())
        draft = links.draft("references", 1.0, WHOLE_TEXT)
        linking.link(stored.receipt.id, original_id, draft, context)(transaction)
        return stored, original_id

    return change
