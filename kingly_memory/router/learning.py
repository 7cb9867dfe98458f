"""Compressing a text before it is learned: by a language model or by rules, as much of it as fits beside a summary."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

from kingly_memory.intake import Draft
from kingly_memory.lifecycle.compression import levels
from kingly_memory.lifecycle.compression.compressor import MemoryCompressor
from kingly_memory.lifecycle.compression.levels import CompressedMemory, CompressionConfig
from kingly_memory.ports import LanguageModel
from kingly_memory.router.engine import Engine

FACT_CHARACTERS = 300
MOST_FACTS = 10
"""What is kept beside a summary, of each kind: a sentence may be as long as the text, and a model may find hundreds."""


async def compressed(
    text: Draft, level: str | None, language_model: LanguageModel | None, engine: Engine
) -> CompressedMemory:
    """The text by that model, else by that of the settings, else by rules. Raises InvalidSetting; LanguageModelError
    where the settings require a model."""
    settings = engine.settings
    config = CompressionConfig(
        settings.compression_enabled,
        levels.level_named(settings.compression_level),
        settings.llm_required,
        min(settings.llm_timeout_s, levels.LONGEST_WAIT_S),
    )
    async with AsyncExitStack() as stack:
        model, is_here = language_model, False
        if model is None and config.enabled:
            model, is_here = await stack.enter_async_context(engine.language_model())
        compressor = MemoryCompressor(model, config, model_is_here=is_here)
        whole = await compressor.compress_outcome(text.content, level, significance=text.significance)
    return replace(
        whole,
        key_facts=_short(whole.key_facts),
        constraints=_short(whole.constraints),
        patterns=_short(whole.patterns),
        decisions=_short(whole.decisions),
    )


def _short(facts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(fact[:FACT_CHARACTERS] for fact in facts[:MOST_FACTS])
