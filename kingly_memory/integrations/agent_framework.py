"""Microsoft's Agent Framework: `Agent(…, context_providers=[KinglyHistoryProvider(memory), …])`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import Router, as_label, asked, either

with needed("the providers for the Agent Framework", "agent-framework"):
    from agent_framework import ContextProvider, HistoryProvider, Message


class KinglyContextProvider(ContextProvider):
    """Puts what fits the input before it, as notes and not as instructions, and keeps what a run states: preferences,
    decisions, corrections and facts, by rules and without a model call. Raises StoreError, RouterClosed."""

    def __init__(self, memory: Router, *, source_id: str = "kingly", budget_tokens: int = 1_000) -> None:
        super().__init__(source_id)
        self._memory = either(memory)
        self._budget = budget_tokens

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        prompt = "\n".join(one.text for one in context.input_messages if one.role == "user")
        if prompt.strip():
            found = await asked(self._memory, lambda memory: memory.inject(prompt, self._budget))
            if found.text:
                context.extend_messages(self, [Message("user", [found.text])])

    async def after_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        replies = context.response.messages if context.response else []
        turns = [{"role": message.role, "content": message.text} for message in (*context.input_messages, *replies)]
        session_id = as_label("session_id", context.session_id) if context.session_id else None
        await asked(self._memory, lambda memory: memory.capture(turns, context_id=session_id))


class KinglyHistoryProvider(HistoryProvider):
    """The messages of a session, exactly and in order, there for every process. What a run adds is one transaction.
    `how` is what HistoryProvider takes. Raises InvalidInput, StoreError, RouterClosed; then nothing was saved."""

    def __init__(self, memory: Router, *, source_id: str = "kingly-history", **how: Any) -> None:
        super().__init__(source_id, **how)
        self._memory = either(memory)

    async def get_messages(self, session_id: str | None, *, state: Any = None, **_: Any) -> list[Message]:
        name = _log(session_id)
        items = await asked(self._memory, lambda memory: memory.log(name).last())
        return [Message.from_dict(item) for item in items]

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: Any = None, **_: Any
    ) -> None:
        name, items = _log(session_id), [one.to_dict() for one in messages]
        await asked(self._memory, lambda memory: memory.log(name).append(items))


def _log(session_id: str | None) -> str:
    if session_id is None:
        raise InvalidInput("session_id", "is missing; run the agent with a session: agent.run(…, session=session)")
    return as_label("session_id", session_id)
