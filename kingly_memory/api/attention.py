"""The verbs on threads and attention: what is in view, and what is put beside prompts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from kingly_memory.api.family import Family
from kingly_memory.declare import Arg, example, verb
from kingly_memory.validation import MOST_TOKENS

if TYPE_CHECKING:  # read when they are first used
    from kingly_memory.attention.injection import Injection
    from kingly_memory.router.attention.verbs import Attention
    from kingly_memory.router.thread_verbs import Threads


TOKENS = 1_000
"""Of a block of notes, unless the caller says how many."""


class AttentionVerbs(Family):
    """The verbs on threads and attention."""

    @cached_property
    def attention(self) -> Attention:
        """What should be in view: focus, pins and ratings."""
        from kingly_memory.router.attention.verbs import Attention

        return Attention(self._engine)

    @cached_property
    def threads(self) -> Threads:
        """What was said in one context, as a thread: listed, recalled, merged, split and named."""
        from kingly_memory.router.thread_verbs import Threads

        return Threads(self._engine)

    @verb("inject", "memory_inject", "ai", "Take notes for a prompt", reads=True)
    @example('{"prompt": "who has to review a deploy?"}', "success message text tokens put_in left_out asked?")
    async def inject(
        self,
        prompt: Annotated[str, Arg("what is about to be asked or done", is_sentence=True, reads_input=True)],
        budget_tokens: Annotated[
            int, Arg("most tokens of the results, about", "N", option="budget", least=1, most=MOST_TOKENS)
        ] = TOKENS,
        *,
        session: Annotated[
            str | None, Arg("an id: what this session was told is left out, unless it has changed", "ID")
        ] = None,
    ) -> Injection:
        """Take the notes that fit a prompt, what is in focus first, as hooks put them beside each prompt. Only what the
        user or this agent said, here or through a hub; search for the rest.

        `budget_tokens` (estimated, 1 to 100,000) is for all of it. What a hub brought is put in where it gives no
        order, as from a remote. All stands by priority: similarity × weight × relevance of its thread, and a boost for
        what is in focus. A `session` is not told twice of what has not changed. Asks no remote and counts as no use.
        Raises InvalidInput, StoreError, and StoreUntrusted for a home that was neither made here nor trusted since.
        """
        from kingly_memory.router.attention.candidates import Surroundings, checked, injected

        text, budget, named = checked(prompt, budget_tokens, session)
        engine = self._engine

        def look() -> Injection:
            engine.runtime.check_trusted()
            around = Surroundings(engine.reader, engine.local, engine.space, engine.station.agent, engine.now_s())
            budget_s, log = engine.settings.local_search_s, engine.injections
            return injected(text, around, budget=budget, budget_s=budget_s, session=named, log=log)

        return await engine.read(look)
