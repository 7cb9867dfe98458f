"""Capturing with a language model beside the rules: it says which of the sentences that no rule knows are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kingly_memory.attention import extraction
from kingly_memory.attention.statements import Message, Sort, unsorted
from kingly_memory.errors import InvalidSetting, LanguageModelError
from kingly_memory.model_calls import TIMEOUT_S
from kingly_memory.ports import LanguageModel
from kingly_memory.router import model_replies
from kingly_memory.router.engine import Engine


async def extracted(engine: Engine, messages: Sequence[Message], own: LanguageModel | None) -> Mapping[str, Sort]:
    """The sentences that the caller's `own` model keeps, else the configured one; none where there is no model, or none
    that answers."""
    try:
        async with engine.model(own) as (model, _):
            said = [] if model is None else (await engine.read(lambda: unsorted(messages)))[-extraction.MOST :]
            if model is None or not said:
                return {}
            read = partial(extraction.chosen, count=len(said))
            lines = await model_replies.ask(engine, model, extraction.question(said), read, timeout_s=TIMEOUT_S)
            return extraction.sorts(lines, said)
    except (InvalidSetting, LanguageModelError) as error:
        model_replies.log.warning("a conversation is captured by rules alone: %s", error)
        return {}
