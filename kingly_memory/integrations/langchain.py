"""LangChain's chat history over the log of a session: exact messages in order, there for every process."""

from __future__ import annotations

from collections.abc import Sequence

from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import as_label

with needed("the chat history for LangChain", "langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict


class KinglyChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, those of a router or of its `scoped` view. What is added at once is one transaction.
    Its async methods run in a thread. Raises InvalidInput, StoreError, RouterClosed."""

    def __init__(self, session_id: str, memory: SyncMemoryRouter) -> None:
        if not isinstance(memory, SyncMemoryRouter):
            raise InvalidInput("memory", "is no SyncMemoryRouter, whose methods need no event loop")
        self._log = memory.log(as_label("session_id", session_id))

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the framework's own histories do the same
        return messages_from_dict(self._log.last())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._log.append([message_to_dict(one) for one in messages])

    def clear(self) -> None:
        self._log.clear()
