"""Putting memories before a reader: gathered, chosen, and noted, so that a session is told of each but once."""

from __future__ import annotations

from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from kingly_memory import validation
from kingly_memory.attention.injection import FRAME_TOKENS, Budget, Injection, inject
from kingly_memory.attention.pertinence import LEAST
from kingly_memory.errors import InvalidInput
from kingly_memory.router.attention.candidates import Surroundings, for_prompt
from kingly_memory.text.writing import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    from kingly_memory.ports import InjectionLog


def injected(
    prompt: str,
    around: Surroundings,
    *,
    budget: Budget,
    budget_s: float,
    session: str | None = None,
    log: InjectionLog | None = None,
) -> Injection:
    """What fits the prompt and the session has not seen yet. Takes about `budget_s`. Raises StoreError."""
    began_s = perf_counter()
    gathered = for_prompt(prompt, around, budget_s)
    found = inject(
        gathered.candidates,
        agent=around.agent,
        budget=budget,
        least_pertinence=LEAST,
        focuses=gathered.focuses,
        seen=log.of(session) if session is not None and log is not None else MappingProxyType({}),
    )
    if session is not None and log is not None:
        account = found.account("prompt", (perf_counter() - began_s) * 1000)
        log.note(session, found.put_in, around.now_s, account)
    return found._replace(asked=gathered.asked)


def checked(prompt: object, budget_tokens: object, session: object) -> tuple[str, Budget, str | None]:
    """What a caller asks for. Raises InvalidInput."""
    if not isinstance(prompt, str):
        raise InvalidInput("prompt", f"expected text, not {type(prompt).__name__}")
    if not prompt.strip():
        raise InvalidInput("prompt", "is empty; say what is about to be asked")
    tokens = room("budget_tokens", budget_tokens)
    usual = Budget()
    budget = usual._replace(tokens=tokens, characters=max(usual.characters, tokens * CHARACTERS_PER_TOKEN))
    return prompt, budget, validation.label("session", session)


def room(field: str, tokens: object) -> int:
    """A budget in which a note may find room. Raises InvalidInput."""
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens <= FRAME_TOKENS:
        raise InvalidInput(field, f"{validation.shown(tokens)} is no room: the frame alone takes {FRAME_TOKENS} tokens")
    return validation.count(field, tokens, least=FRAME_TOKENS + 1, most=validation.MOST_TOKENS)
