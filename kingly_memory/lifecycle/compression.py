"""Verbose texts into what is worth remembering, by a language model or by rules (seed 000, priority 4).

By rules sentences are chosen, not rewritten, and the result is never longer than the text.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any

from kingly_memory import validation
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import InvalidInput, LanguageModelError
from kingly_memory.lifecycle import compression_model
from kingly_memory.lifecycle.sentences import Sentence, sentences
from kingly_memory.model_calls import answer
from kingly_memory.models import REMOTE_ABOVE, JsonObject, MemoryType
from kingly_memory.ports import LanguageModel
from kingly_memory.text.writing import stems, words

# --- what compression answers ---------------------------------------------------------------------------------------


class CompressionLevel(StrEnum):
    """How much goes: nothing; what is said twice; all but the key points; all but the core."""

    NONE = "none"
    LIGHT = "light"
    MEDIUM = "medium"
    AGGRESSIVE = "aggressive"


class Summariser(StrEnum):
    """Who wrote a summary. NOBODY: it is the text itself."""

    MODEL = "model"
    RULES = "rules"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class CompressedMemory:
    """A text, what is left of it, and what it says. The whole text stays in `full_content`, to verify the rest against.

    Lengths are in characters, and the summary is never longer than the text. `reason` says why the summary is not a
    model's although one could have been asked.
    """

    full_content: str
    summary: str
    key_facts: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    level: CompressionLevel = CompressionLevel.MEDIUM
    summariser: Summariser = Summariser.RULES
    reason: str | None = None

    @property
    def original_length(self) -> int:
        return len(self.full_content)

    @property
    def compressed_length(self) -> int:
        return len(self.summary)

    @property
    def compression_ratio(self) -> float:
        """Compressed ÷ original, 0 to 1: less is shorter. 1 for an empty text."""
        return self.compressed_length / self.original_length if self.full_content else 1.0

    @property
    def compression_factor(self) -> float:
        """Original ÷ compressed, 1 and more: how many times shorter it became."""
        return self.original_length / self.compressed_length if self.summary else 1.0

    def metadata(self) -> JsonObject:
        """What a memory stored in the place of the text says about it."""
        more = {"constraints": self.constraints, "patterns": self.patterns, "decisions": self.decisions}
        return {
            "compression_ratio": round(self.compression_ratio, 4),
            "compression_factor": round(self.compression_factor, 4),
            "original_length": self.original_length,
            "compression_level": self.level.value,
            "summary_by": self.summariser.value,
            "key_facts": list(self.key_facts),
            **{name: list(texts) for name, texts in more.items() if texts},
        }


@dataclass(frozen=True, slots=True)
class CompressionConfig:
    """`alma.compression` of the seed. Not `enabled`: texts stay as they are and no model is asked. `llm_required`: a
    text that no model compressed is an error, instead of being compressed by rules."""

    enabled: bool = True
    level: CompressionLevel | str = CompressionLevel.MEDIUM
    llm_required: bool = False


LEARNED_AS = {
    "outcome": MemoryType.EPISODIC,
    "knowledge": MemoryType.SEMANTIC,
    "heuristic": MemoryType.PROCEDURAL,
}
"""What the seed's tool learns, and the type of memory that it becomes."""


def learned_as(value: object) -> MemoryType:
    """The type of memory that something learned becomes. Raises InvalidInput."""
    learned = LEARNED_AS.get(value.strip().casefold()) if isinstance(value, str) else None
    if learned is None:
        choices = ", ".join(LEARNED_AS)
        raise InvalidInput("memory_type", f"{str(value)[:40]!r} cannot be learned as; choose one of {choices}")
    return learned


# --- by rules -------------------------------------------------------------------------------------------------------

MOST_FACTS = {CompressionLevel.LIGHT: 10, CompressionLevel.MEDIUM: 5, CompressionLevel.AGGRESSIVE: 3}
"""Entries of each list (seed 000: five facts)."""
LONGEST = {CompressionLevel.MEDIUM: 1_000, CompressionLevel.AGGRESSIVE: 300}
"""Characters of one sentence in a summary; what has no full stop for longer is cut."""
LISTS = ("key_facts", "constraints", "patterns", "decisions")
"""The lists of a `CompressedMemory`."""
ENTRY_LIMIT = 500
"""Characters of a fact, a constraint, a pattern or a decision."""
_CUT_REACH = 100
"""Characters by which a cut may come sooner, so as not to tear a number or a word."""

_FACT = re.compile(r"\b(?:is|are|has|isn['’]t|aren['’]t|hasn['’]t)\b", re.IGNORECASE)
_CONSTRAINT = re.compile(
    r"\b(?:must|mustn't|cannot|can['’]t|never|always|only|requires?|required|limits?|limited|at (?:most|least)"
    r"|no (?:more|less) than|maximum|minimum|should not|shouldn't|do not|don['’]t|forbidden|not allowed|unless"
    r"|needs? to|ha(?:s|ve) to|exceeds?|mandatory|prohibited)\b",
    re.IGNORECASE,
)
_PATTERN = re.compile(
    r"^\W*(?:when|if|before|after)\b[^\n]{1,400}?,"
    r"|\b(?:whenever|(?:every|each|next) time|in (?:the )?future|as a rule|rule of thumb|lessons?|patterns?)\b",
    re.IGNORECASE,
)
"""Says what to do, or what happens, in a situation that may come again."""
_DECISION = re.compile(
    r"\b(?:decided?|decision|agreed|chose|chosen|settled on|(?:going|went) with|opted|we will|we['’]ll|let['’]s use)\b",
    re.IGNORECASE,
)
_QUESTION = ("?", "？", "؟")


def compress(
    text: str, level: CompressionLevel, focus: str | None = None, *, reason: str | None = None
) -> CompressedMemory:
    """LIGHT leaves out what is said twice and surplus white space, MEDIUM keeps the first and the last sentence,
    AGGRESSIVE the first. With a focus, sentences that share a word with it go before all others."""
    if level is CompressionLevel.NONE or not text.strip():
        return CompressedMemory(text, text, level=level, summariser=Summariser.NOBODY, reason=reason)
    whole = Sentence(len(text) - len(text.lstrip()), len(text.rstrip()))
    everything = sentences(text) or [whole]
    first: dict[str, Sentence] = {}
    for sentence in everything:  # white space apart, every character counts
        first.setdefault(" ".join(sentence.of(text).split()), sentence)
    distinct = list(first.values())
    chosen = [one for one in distinct if one.tells] or distinct
    wanted = stems(focus) if focus else set()
    chosen = [one for one in chosen if wanted & stems(one.of(text))] or chosen if wanted else chosen
    quoted = [one.of(text) for one in chosen]

    def those(pattern: re.Pattern[str]) -> tuple[str, ...]:
        matches = (quote for quote in quoted if not quote.endswith(_QUESTION) and pattern.search(quote))
        return tuple(shortened(" ".join(one.split()), ENTRY_LIMIT) for one in islice(matches, MOST_FACTS[level]))

    is_light = level is CompressionLevel.LIGHT
    return CompressedMemory(
        full_content=text,
        summary=_without_repeats(text, everything, distinct) if is_light else _ends(text, chosen, level),
        key_facts=those(_FACT),
        constraints=those(_CONSTRAINT),
        patterns=those(_PATTERN),
        decisions=those(_DECISION),
        level=level,
        reason=reason,
    )


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis, `most` characters at most; no number or word is torn, unless it is
    longer than a word can be."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    at = max(cut.rfind(" "), cut.rfind("\n"))
    return f"{cut[:at].rstrip() if at > most - _CUT_REACH else cut}…"


def _ends(text: str, chosen: Sequence[Sentence], level: CompressionLevel) -> str:
    """The first sentence, and the last one where the level keeps it."""
    first = shortened(chosen[0].of(text), LONGEST[level])
    if len(chosen) == 1 or level is CompressionLevel.AGGRESSIVE:
        return first
    last = chosen[-1]
    between = text[chosen[-2].end : last.start] + text[chosen[0].end : chosen[1].start]
    is_ended = first.rstrip("\"'”’»)]}*_`」』）】》")[-1:] in tuple(".!?…。！？｡؟।:")
    joint = "" if not any(map(str.isspace, between)) else " " if is_ended else "\n"
    return f"{first}{joint}{shortened(last.of(text), LONGEST[level])}"


def _without_repeats(text: str, everything: Sequence[Sentence], distinct: Sequence[Sentence]) -> str:
    """The sentences with what stood in front of each, with less white space in it: one space, or one blank line."""
    kept = {one.start for one in distinct}
    pieces: list[str] = []
    before = 0
    for sentence in everything:
        if sentence.start in kept:
            gap = text[before : sentence.start]
            if gap.isspace() and "\n" not in gap:
                gap = " "
            pieces += (re.sub(r"[^\S\n]+\n", "\n", gap), sentence.of(text))
        before = sentence.end
    return re.sub(r"\n{3,}", "\n\n", "".join(pieces)).strip()


# --- by a model, where there is one ---------------------------------------------------------------------------------

FEWEST_EXPERIENCES = 3
"""Fewer make no rule (seed 000)."""
SIMILAR = 0.7
"""Share of common words from which two pieces of knowledge are alike."""
_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_Question = Callable[[str, CompressionLevel, int], str]


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
        significance: float = validation.SIGNIFICANCE,
    ) -> CompressedMemory:
        """What is worth remembering of a finished task; the level is the configured one (medium) unless said.

        Raises InvalidInput; LanguageModelError only where a model is required.
        """
        question = partial(compression_model.outcome, is_here=self._model_is_here)
        return await self._compressed(text, level, question, None, significance)

    async def compress_conversation(
        self, text: str, focus: str | None = None, *, significance: float = validation.SIGNIFICANCE
    ) -> CompressedMemory:
        """What a conversation taught, above all about the focus. Raises as `compress_outcome` does."""
        about = validation.mended(_text("focus", focus)).strip() if focus is not None else ""
        question = partial(compression_model.conversation, focus=about, is_here=self._model_is_here)
        return await self._compressed(text, None, question, about, significance)

    async def extract_heuristic(
        self, experiences: Sequence[str], *, significance: float = validation.SIGNIFICANCE
    ) -> str | None:
        """The rule that at least three experiences have in common; None when there are fewer, no model that may be
        shown them, no answer or no pattern. `significance` is the least of theirs. Raises InvalidInput."""
        given = [one for one in _texts("experiences", experiences) if one.strip()]
        model = self._model_for(significance)
        if len(given) < FEWEST_EXPERIENCES or model is None:
            return None
        prompt = await asyncio.to_thread(compression_model.heuristic, given, is_here=self._model_is_here)
        return compression_model.statement(await self._reply(model, prompt), but_for=compression_model.NO_PATTERN)

    async def deduplicate_knowledge(
        self, new: str, existing: Sequence[str], *, significance: float = validation.SIGNIFICANCE
    ) -> str | None:
        """The new knowledge, merged with what is similar to it; None when it says nothing new.

        It stays as it is where nothing is similar, no model may be asked, or the model's reply loses its numbers or
        most of its words. `significance` is the least of all texts'. Raises InvalidInput.
        """
        statement, before = _text("new", new), _texts("existing", existing)
        if not self._config.enabled or not before:
            return statement
        if _written(statement) in map(_written, before):
            return None
        model = self._model_for(significance)
        alike = await asyncio.to_thread(_alike, statement, before) if model else []
        if model is None or not alike:
            return statement
        reply = await self._reply(model, compression_model.merge(statement, alike, is_here=self._model_is_here))
        if compression_model.is_word(reply, compression_model.DUPLICATE):
            return None
        merged = compression_model.statement(reply, but_for=compression_model.DUPLICATE)
        return statement if merged is None or not holds(merged, statement) else merged

    async def _compressed(
        self, text: str, level: CompressionLevel | str | None, question: _Question, focus: str | None, worth: float
    ) -> CompressedMemory:
        chosen = validation.choice("level", self._config.level if level is None else level, CompressionLevel)
        whole = validation.mended(_text("text", text))
        model = self._model_for(worth)
        if not self._config.enabled:
            return compress(whole, CompressionLevel.NONE, reason="compression is switched off")
        if chosen is CompressionLevel.NONE or not whole.strip():
            return compress(whole, chosen)
        said, reason = dict[str, list[str]](), None
        try:
            if self._model is None:
                raise LanguageModelError("there is none, and compression.llm_required asks for one")
            if model is None:
                raise LanguageModelError(
                    f"it is not on this machine, and what has a significance of {REMOTE_ABOVE} or less stays here"
                )
            prompt = await asyncio.to_thread(question, whole, chosen, MOST_FACTS[chosen])
            said = compression_model.extract(await answer(model, prompt))
            if not said:
                raise LanguageModelError("its reply has none of the sections that it was asked for")
        except LanguageModelError as error:
            if self._config.llm_required:
                raise
            if self._model is not None:
                reason = f"compressed by rules, since the model gave no answer: {error.reason}"
        by_rules = await asyncio.to_thread(compress, whole, chosen, focus, reason=reason)
        return _by_model(by_rules, said) if said else by_rules

    async def _reply(self, model: LanguageModel, prompt: str) -> str | None:
        try:
            return await answer(model, prompt)
        except LanguageModelError:
            return None

    def _model_for(self, significance: float) -> LanguageModel | None:
        """The model, if it may be shown what has that significance."""
        may_leave = validation.share("significance", significance) > REMOTE_ABOVE
        return self._model if self._config.enabled and (may_leave or self._model_is_here) else None


def _by_model(by_rules: CompressedMemory, said: Mapping[str, Sequence[str]]) -> CompressedMemory:
    """What the model said; the rules' summary where it wrote none, or one longer than the text."""
    summary, most = " ".join(said.get("summary", ())), {"key_facts": MOST_FACTS[by_rules.level]}
    lists = {name: said.get(name, ())[: most.get(name, compression_model.MOST_ENTRIES)] for name in LISTS}
    short: dict[str, Any] = {name: tuple(shortened(one, ENTRY_LIMIT) for one in some) for name, some in lists.items()}
    if not summary or len(summary) > by_rules.original_length:
        trouble = "is longer than the text" if summary else "is missing"
        return replace(by_rules, **short, reason=f"summarised by rules, since the model's summary {trouble}")
    return replace(by_rules, **short, summary=summary, summariser=Summariser.MODEL, reason=None)


def similarity(text: str, other: str) -> float:
    """The share of their words that both have, 0 to 1 (Jaccard 1901)."""
    ours, theirs = set(words(text)), set(words(other))
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0


def _alike(text: str, texts: Sequence[str]) -> list[str]:
    """The five that are most similar, the most similar first, as far as they are."""
    similar = [(share, one) for one in texts if (share := similarity(text, one)) >= SIMILAR]
    return [one for _, one in sorted(similar, key=lambda pair: -pair[0])][:5]


def holds(text: str, other: str) -> bool:
    """Whether a text has the numbers of another one and half of what that is about."""
    about = stems(other)
    has_words = len(about & stems(text)) >= len(about) / 2
    return has_words and set(_FIGURE.findall(other)) <= set(_FIGURE.findall(text))


def _written(text: str) -> str:
    """White space and ways to write one character make no difference."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(name, f"expected a text, not {type(value).__name__}")
    return value


def _texts(name: str, values: object) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(one, str) for one in values):
        raise InvalidInput(name, "expected a list of texts")
    return [validation.mended(one) for one in values]
