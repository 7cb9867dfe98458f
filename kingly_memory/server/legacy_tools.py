"""The key-value tools of earlier days, over the same memories."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kingly_memory.intake import required
from kingly_memory.server.arguments import Text
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.results import Listed, Recalled, Remembered

MOST_KEYS = 100
"""Keys that a list holds: what a model reads, and what can be read at once."""


class LegacyTools:
    """The tools of the toolset `legacy`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def remember(
        self,
        key: Annotated[str, Field(description="Name of the value")],
        value: Annotated[Text, Field(description="The value; what is no text is kept as JSON")],
    ) -> Remembered:
        """Keep a value under a key, in place of what was there. The newer tool is memory_intelligent_store.

        Example: {"key": "editor", "value": "vim"}
        """
        router = await self._memory.get()
        receipt = await router.store(value, key=required("key", key))
        return Remembered(key=receipt.key or key, id=receipt.id)

    async def recall(self, key: Annotated[str, Field(description="Name of the value")]) -> Recalled:
        """Read the value under a key; `found` is false when there is none.

        Example: {"key": "editor"}
        """
        router = await self._memory.get()
        memory = await router.get(key)
        return Recalled(key=key, found=memory is not None, value=None if memory is None else memory.content)

    async def list_keys(self) -> Listed:
        """List the keys that hold a value, the latest first; `more` says that there are older ones than the 100 shown.

        Example: {}
        """
        router = await self._memory.get()
        page = await router.list(limit=MOST_KEYS)
        keys = [memory.key for memory in page if memory.key is not None]
        return Listed(keys=keys, count=len(keys), more=page.next_before is not None)
