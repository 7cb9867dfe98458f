"""Memories that an Ultimate MCP server took without an embedding: found by their words only, until that is mended."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

from kingly_memory.adapters.remote.ultimate_calls import Calls
from kingly_memory.errors import RemoteError

log = logging.getLogger("kingly_memory.remote")

MOST_WAITING = 256


class Repairs:
    """Asks for each missing embedding once, after a later memory has got one: then the server can make them again.

    Known to this process alone: what it does not get to stays found by its words.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._waiting: deque[tuple[str, str]] = deque(maxlen=MOST_WAITING)
        self._warned = False
        self._missed: deque[str] = deque(maxlen=4 * MOST_WAITING)

    @property
    def missing(self) -> int:
        """How many memories wait for an embedding, as far as this process knows."""
        return len(self._waiting)

    async def note(self, remote_id: str, stored: Mapping[str, Any], project: str) -> None:
        """What the server said of a memory that it has stored."""
        if "embedding_id" not in stored:
            return
        if stored["embedding_id"] is None:
            self.miss(remote_id, project)
        elif self._waiting:
            self._warned = False
            await self._mend(*self._waiting.popleft())

    def miss(self, remote_id: str, project: str) -> None:
        """What is held there under that id has no embedding, or that of an earlier text."""
        if remote_id not in self._missed:
            self._missed.append(remote_id)
            self._waiting.append((remote_id, project))
        if not self._warned:
            self._warned = True
            log.warning("the remote stores without embeddings: its semantic search does not find what is new")

    async def _mend(self, remote_id: str, project: str) -> None:
        arguments = {"memory_id": remote_id, "regenerate_embedding": True}
        try:
            await self._calls.write("update_memory", arguments, project=project)
        except RemoteError as error:
            log.warning("the remote made no embedding of a memory, which it finds by its words only: %s", error)
