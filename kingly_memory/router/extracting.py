"""Capturing with a language model beside the rules: it says which of the sentences that no rule knows are kept, and
joins what is captured to what is nearly the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kingly_memory.attention import extraction
from kingly_memory.attention.statements import Message, Sort, unsorted
from kingly_memory.errors import InvalidSetting, LanguageModelError
from kingly_memory.lifecycle.compression import SIMILAR, MemoryCompressor, similarity
from kingly_memory.model_calls import TIMEOUT_S
from kingly_memory.models import Memory
from kingly_memory.ports import LanguageModel
from kingly_memory.router import model_replies
from kingly_memory.router.capturing import TAG
from kingly_memory.router.engine import Engine
from kingly_memory.text.writing import STOP_WORDS, words
from kingly_memory.validation import Imported


async def extracted(engine: Engine, messages: Sequence[Message], own: LanguageModel | None) -> Mapping[str, Sort]:
    """The sentences that the caller's `own` model keeps, else the configured one; none where there is no model, or none
    that answers."""
    try:
        async with engine.model(own) as (model, _):
            sentences = [] if model is None else (await engine.read(lambda: unsorted(messages)))[-extraction.MOST :]
            if model is None or not sentences:
                return {}
            read = partial(extraction.chosen, count=len(sentences))
            lines = await model_replies.ask(engine, model, extraction.question(sentences), read, timeout_s=TIMEOUT_S)
            return extraction.sorts(lines, sentences)
    except (InvalidSetting, LanguageModelError) as error:
        model_replies.log.warning("a conversation is captured by rules alone: %s", error)
        return {}


MOST_MERGED = 10
"""Statements of one capture that may be merged: each is a question, of ten seconds at most."""


class Merged(NamedTuple):
    """A statement, the memory that takes it in, and what that is to say."""

    entry: Imported
    into: Memory
    text: str


async def merged(
    engine: Engine, entries: Sequence[Imported], own: LanguageModel | None, alike: Callable[[str], Iterable[Memory]]
) -> list[Merged]:
    """The statements that are nearly the same as one captured before, where a model puts both into one text that has
    the words and numbers of both and no others. A memory takes in one statement at a time."""

    def nearest(text: str) -> Memory | None:
        known = [memory for memory in alike(text) if TAG in memory.tags and similarity(text, memory.content) >= SIMILAR]
        return max(known, key=lambda memory: similarity(text, memory.content), default=None)

    done: dict[str, Merged] = {}
    try:
        async with engine.model(own) as (model, is_here):
            for entry in entries[:MOST_MERGED] if model is not None else ():
                statement = entry.draft.content
                near = await engine.read(partial(nearest, statement))
                if near is None or near.id in done:
                    continue
                worth = min(entry.draft.significance, near.significance)
                compressor = MemoryCompressor(model, model_is_here=is_here)
                text = await compressor.deduplicate_knowledge(statement, [near.content], significance=worth)
                if text is None or text == statement:
                    continue
                used, both = set(words(text)), {*words(statement), *words(near.content)}
                if both - STOP_WORDS <= used <= both | {"and", "also"}:
                    done[near.id] = Merged(entry, near, text)
    except InvalidSetting as error:
        model_replies.log.warning("nothing is merged: %s", error)
    return list(done.values())
