"""One question to a language model, which may be anybody's code: its deadline holds, and it fails in one way."""

from __future__ import annotations

import asyncio
import logging

from kingly_memory.errors import LanguageModelError
from kingly_memory.ports import Clock, LanguageModel

TIMEOUT_S = 10.0
"""Of one question: a model on this machine needs some seconds, and a search waits for several."""
LETTING_GO_S = 1.0
"""What a model gets to end a call whose time is over."""

log = logging.getLogger("kingly_memory.models")


async def answer(model: LanguageModel, prompt: str, timeout_s: float = TIMEOUT_S, clock: Clock | None = None) -> str:
    """The model's reply, `timeout_s` later at most, by that clock. Raises LanguageModelError, nothing else."""
    call = asyncio.ensure_future(_asked(model, prompt, timeout_s))
    over = asyncio.Event()
    call.add_done_callback(lambda _: over.set())
    try:
        if clock is None:
            await asyncio.wait([call], timeout=timeout_s)
        else:
            await clock.wait(over, timeout_s)
        if not call.done() or call.cancelled():
            raise LanguageModelError(f"not within {timeout_s:g} s")
        return call.result()
    except LanguageModelError:
        raise
    except Exception as error:  # a model may be anybody's code, and raises what it likes
        log.warning("LanguageModelFailed: %s", type(error).__name__)
        raise LanguageModelError(f"it failed with {type(error).__name__}") from error
    finally:
        if call.cancel():
            call.add_done_callback(_is_over)
            await asyncio.wait([call], timeout=LETTING_GO_S)


async def _asked(model: LanguageModel, prompt: str, timeout_s: float) -> str:
    return await model.complete(prompt, timeout_s=timeout_s)


def _is_over(call: asyncio.Future[str]) -> None:
    """Looks at the outcome that nobody waits for any more."""
    if not call.cancelled():
        call.exception()
