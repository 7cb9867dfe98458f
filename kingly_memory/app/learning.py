"""The verb that learns a verbose text: compressed by a language model or by rules, and lost in no part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kingly_memory import intake
from kingly_memory.app import parts
from kingly_memory.intake import CONFIDENCE, SIGNIFICANCE, Draft
from kingly_memory.ports import LanguageModel
from kingly_memory.router.router import Router

if TYPE_CHECKING:  # read by whoever compresses
    from kingly_memory.lifecycle.compression.levels import CompressedMemory, CompressionConfig
    from kingly_memory.router.sweeping.lessons import Lesson

FACT_CHARACTERS = 300
MOST_FACTS = 10
"""What is kept beside a summary, of each kind: a sentence may be as long as the text, and a model may find hundreds."""


class Learner(Router):
    """The router with the verb that learns."""

    @property
    def agent(self) -> str | None:
        """Who stores, if anybody is named."""
        return self._agent

    async def compress_and_learn(
        self,
        content: str,
        memory_type: str = "outcome",
        significance: float = SIGNIFICANCE,
        *,
        key: str | None = None,
        level: str | None = None,
        confidence: float = CONFIDENCE,
        tags: Sequence[str] = (),
        title: str | None = None,
        context_id: str | None = None,
        origin: str = "agent",
        metadata: Mapping[str, Any] | None = None,
        language_model: LanguageModel | None = None,
    ) -> Lesson:
        """Remember a text by its summary: an `outcome` is episodic, `knowledge` semantic, a `heuristic` procedural.

        Summarised by `language_model`, else by that of KINGLY_LLM_URL, else by rules, to the `level` none, light,
        medium or aggressive. A text of significance 0.3 or less is shown to no model elsewhere. The whole text rests
        in the archive of this machine, linked to the summary, where `restore` and `search(include_archived=True)` find
        it.
        Raises InvalidInput, InvalidSetting, StoreError; LanguageModelError only where the settings require a model.
        """
        from kingly_memory.lifecycle.compression import levels
        from kingly_memory.router.sweeping import lessons

        await self._opened()
        chosen = None if level is None else levels.level_named(level)
        original = intake.draft(
            content,
            content_limit_bytes=self._settings.content_limit_bytes,
            type=levels.learned_as(memory_type).value,
            significance=significance,
            confidence=confidence,
            tags=tags,
            title=title,
            context_id=self._contexts.resolve_to_store(intake.label("context_id", context_id)),
            origin=origin,
            metadata=metadata,
        )
        name = intake.label("key", key)
        compressed = await self._compressed(original, chosen, language_model)
        summary = replace(
            original,
            key=name,
            content=compressed.summary,
            metadata=intake.checked_metadata({**original.metadata, **compressed.metadata()}),
            unsaid=frozenset(),
        )
        used_s = self._contexts.last_use(summary.context_id)
        change = lessons.learn(
            summary, original, compressed.compression_ratio, self._write_context(), context_used_s=used_s
        )
        learned = await self._write(change)
        await self._follow(learned.stored)
        return lessons.Lesson(learned.stored.receipt, compressed, learned.original_id)

    async def _compressed(
        self, text: Draft, level: str | None, language_model: LanguageModel | None
    ) -> CompressedMemory:
        from kingly_memory.lifecycle.compression.compressor import MemoryCompressor

        config = self._compression()
        async with AsyncExitStack() as stack:
            model, is_here = language_model, False
            if model is None and config.enabled:
                model, is_here = await stack.enter_async_context(parts.language_model(self._settings, self._clock))
            compressor = MemoryCompressor(model, config, model_is_here=is_here)
            return _short(await compressor.compress_outcome(text.content, level, significance=text.significance))

    def _compression(self) -> CompressionConfig:
        from kingly_memory.lifecycle.compression import levels

        settings = self._settings
        return levels.CompressionConfig(
            settings.compression_enabled,
            levels.level_named(settings.compression_level),
            settings.llm_required,
            min(settings.llm_timeout_s, levels.LONGEST_WAIT_S),
        )


def _short(compressed: CompressedMemory) -> CompressedMemory:
    """What it says, in as much as fits beside a summary."""

    def kept(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text[:FACT_CHARACTERS] for text in texts[:MOST_FACTS])

    return replace(
        compressed,
        key_facts=kept(compressed.key_facts),
        constraints=kept(compressed.constraints),
        patterns=kept(compressed.patterns),
        decisions=kept(compressed.decisions),
    )
