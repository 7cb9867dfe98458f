"""Verbose texts into what is worth remembering, by a language model or by rules (seed 000, priority 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kingly_memory import intake
from kingly_memory.errors import InvalidInput, LanguageModelError
from kingly_memory.lifecycle.compression import prompts, replies, rules
from kingly_memory.lifecycle.compression.levels import (
    CompressedMemory,
    CompressionConfig,
    CompressionLevel,
    Summariser,
    level_named,
)
from kingly_memory.lifecycle.compression.similarity import SIMILAR, holds, is_repeated, similar
from kingly_memory.model_calls import answer
from kingly_memory.models import REMOTE_ABOVE
from kingly_memory.ports import LanguageModel

FEWEST_EXPERIENCES = 3
"""Fewer make no rule (seed 000)."""
MOST_MERGED = 5
"""Pieces of knowledge that one is merged with at once."""
NO_PATTERN = "NO_PATTERN"
DUPLICATE = "DUPLICATE"


class MemoryCompressor:
    """Asks the language model when there is one, and falls back on rules. No text is lost: all of it is in the answer.

    A text goes to a model elsewhere only if its `significance` is above 0.3, and without the secrets in it;
    `model_is_here` says that the model is on this machine.
    """

    def __init__(
        self,
        language_model: LanguageModel | None = None,
        config: CompressionConfig | None = None,
        *,
        model_is_here: bool = False,
    ) -> None:
        self._model = language_model
        self._config = config or CompressionConfig()
        self._model_is_here = model_is_here

    async def compress_outcome(
        self,
        text: str,
        level: CompressionLevel | str | None = None,
        *,
        significance: float = intake.SIGNIFICANCE,
    ) -> CompressedMemory:
        """What is worth remembering of a finished task; the level is the configured one (medium) unless said.

        Raises InvalidInput; LanguageModelError only where a model is required.
        """

        def question(said: str, chosen: CompressionLevel) -> str:
            return prompts.outcome(said, chosen, rules.MOST_FACTS[chosen], is_here=self._model_is_here)

        return await self._compressed(text, self._level(level), question, None, significance)

    async def compress_conversation(
        self,
        text: str,
        focus: str | None = None,
        *,
        level: CompressionLevel | str | None = None,
        significance: float = intake.SIGNIFICANCE,
    ) -> CompressedMemory:
        """What a conversation taught, above all about the focus. Raises as `compress_outcome` does."""
        about = intake.mended(_text("focus", focus)).strip() if focus is not None else ""

        def question(said: str, chosen: CompressionLevel) -> str:
            return prompts.conversation(said, about, chosen, rules.MOST_FACTS[chosen], is_here=self._model_is_here)

        return await self._compressed(text, self._level(level), question, about, significance)

    async def extract_heuristic(
        self, experiences: Sequence[str], *, significance: float = intake.SIGNIFICANCE
    ) -> str | None:
        """The rule that at least three experiences have in common; None when there are fewer, no model that may be
        shown them, no answer or no pattern. `significance` is the least of theirs. Raises InvalidInput."""
        told = [one for one in _texts("experiences", experiences) if one.strip()]
        model = self._model_for(significance)
        if len(told) < FEWEST_EXPERIENCES or model is None:
            return None
        prompt = await asyncio.to_thread(prompts.heuristic, told, is_here=self._model_is_here)
        reply = await self._reply(model, prompt)
        if replies.is_word(reply, NO_PATTERN) or replies.begins_with(reply, NO_PATTERN):
            return None
        return replies.statement(reply)

    async def deduplicate_knowledge(
        self, new: str, existing: Sequence[str], *, significance: float = intake.SIGNIFICANCE
    ) -> str | None:
        """The new knowledge, merged with what is similar to it; None when it says nothing new.

        It stays as it is where nothing is similar, no model may be asked, or the model's reply loses its numbers or
        most of its words. `significance` is the least of all texts'. Raises InvalidInput.
        """
        said = _text("new", new)
        known = _texts("existing", existing)
        if not self._config.enabled or not known:
            return said
        if await asyncio.to_thread(is_repeated, said, known):
            return None
        model = self._model_for(significance)
        alike = await asyncio.to_thread(similar, said, known, threshold=SIMILAR, most=MOST_MERGED) if model else []
        if model is None or not alike:
            return said
        reply = await self._reply(model, prompts.merge(said, alike, is_here=self._model_is_here))
        if replies.is_word(reply, DUPLICATE):
            return None
        merged = replies.statement(reply)
        if merged is None or replies.begins_with(reply, DUPLICATE) or not holds(merged, said):
            return said
        return merged

    async def _compressed(
        self,
        text: str,
        level: CompressionLevel,
        question: Callable[[str, CompressionLevel], str],
        focus: str | None,
        significance: float,
    ) -> CompressedMemory:
        said = intake.mended(_text("text", text))
        figure = intake.share("significance", significance)
        if not self._config.enabled:
            return rules.compress(said, CompressionLevel.NONE, reason="compression is switched off")
        if level is CompressionLevel.NONE or not said.strip():
            return rules.compress(said, level)
        extract, reason = await self._extract(said, level, question, figure)
        by_rules = await asyncio.to_thread(rules.compress, said, level, focus, reason=reason)
        return by_rules if extract is None else _joined(by_rules, extract)

    async def _extract(
        self,
        text: str,
        level: CompressionLevel,
        question: Callable[[str, CompressionLevel], str],
        significance: float,
    ) -> tuple[replies.Extract | None, str | None]:
        """What the model made of a text, or why it made nothing."""
        model = self._model_for(significance)
        try:
            if model is None:
                raise LanguageModelError(self._why_no_model())
            prompt = await asyncio.to_thread(question, text, level)
            extract = replies.extract(await answer(model, prompt, self._config.llm_timeout_s))
            if extract is None:
                raise LanguageModelError("its reply has none of the sections that it was asked for")
        except LanguageModelError as error:
            if self._config.llm_required:
                raise
            return None, f"compressed by rules, since the model gave no answer: {error.reason}" if self._model else None
        return extract, None

    async def _reply(self, model: LanguageModel, prompt: str) -> str | None:
        try:
            return await answer(model, prompt, self._config.llm_timeout_s)
        except LanguageModelError:
            return None

    def _model_for(self, significance: float) -> LanguageModel | None:
        """The model, if it may be shown what has that significance."""
        may_leave = intake.share("significance", significance) > REMOTE_ABOVE
        return self._model if self._config.enabled and (may_leave or self._model_is_here) else None

    def _why_no_model(self) -> str:
        if self._model is None:
            return "there is none, and compression.llm_required asks for one"
        return f"it is not on this machine, and what has a significance of {REMOTE_ABOVE} or less stays here"

    def _level(self, level: CompressionLevel | str | None) -> CompressionLevel:
        return self._config.level if level is None else level_named(level)


def _joined(by_rules: CompressedMemory, extract: replies.Extract) -> CompressedMemory:
    """What the model said; the rules' summary where it wrote none, or one longer than the text."""
    most = rules.MOST_FACTS[by_rules.level]
    is_short = len(extract.summary) <= by_rules.original_length
    by_model = bool(extract.summary) and is_short
    trouble = "is longer than the text" if extract.summary else "is missing"
    return CompressedMemory(
        full_content=by_rules.full_content,
        summary=extract.summary if by_model else by_rules.summary,
        key_facts=extract.facts[:most],
        constraints=extract.constraints,
        patterns=extract.patterns,
        decisions=extract.decisions,
        level=by_rules.level,
        summariser=Summariser.MODEL if by_model else Summariser.RULES,
        reason=None if by_model else f"summarised by rules, since the model's summary {trouble}",
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(name, f"expected a text, not {type(value).__name__}")
    return value


def _texts(name: str, values: object) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(one, str) for one in values):
        raise InvalidInput(name, "expected a list of texts")
    return [intake.mended(one) for one in values]
