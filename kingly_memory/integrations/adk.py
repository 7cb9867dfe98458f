"""Google's Agent Development Kit: `Runner(…, memory_service=KinglyMemoryService(memory))`.

ADK's user is the user of the memories, its app their project: nobody sees those of another user or app.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import Router, Turn, as_label, asked, either, found, keep
from kingly_memory.models import Hit, Origin

with needed("the memory service for ADK", "adk"):
    from google.adk.memory import base_memory_service as base
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai.types import Content, Part

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

NO_SESSION = "events"
"""Where events are kept that belong to no session."""
VIEWS = 256
"""Users whose views of the router are at hand."""


class KinglyMemoryService(base.BaseMemoryService):
    """What was said in earlier sessions, found by words and meaning: the texts of events, each kept once however often
    its session is added. An answer has `limit` memories at most. Raises InvalidInput, StoreError, RouterClosed; then
    nothing was stored.
    """

    def __init__(self, memory: Router, *, limit: int = 10) -> None:
        self._memory = either(memory)
        self._limit = limit
        self._of = lru_cache(VIEWS)(self._view)

    async def add_session_to_memory(self, session: Session) -> None:
        turns = _turns(session.events, session.id)
        await asked(self._of(session.app_name, session.user_id), lambda memory: keep(memory, turns))

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        turns = _turns(events, session_id or NO_SESSION, custom_metadata)
        await asked(self._of(app_name, user_id), lambda memory: keep(memory, turns))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Facts to remember; the same text again is the same memory."""
        drafts = [
            {
                "content": _text(memory.content),
                "origin": Origin.USER if memory.author == "user" else Origin.AGENT,
                "metadata": {
                    **(custom_metadata or {}),
                    **memory.custom_metadata,
                    **_metadata(memory.author, memory.content.role, memory.timestamp),
                },
            }
            for memory in memories
        ]
        await asked(self._of(app_name, user_id), lambda memory: memory.store_many(drafts))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> base.SearchMemoryResponse:
        hits = await asked(self._of(app_name, user_id), partial(found, query=query, limit=self._limit))
        return base.SearchMemoryResponse(memories=[_entry(one) for one in hits])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a memory, also where its session is added again; a person can restore it."""
        if memory_id:
            await asked(self._of(app_name, user_id), lambda memory: memory.forget(memory_id))

    def _view(self, app_name: str, user_id: str) -> Router:
        return self._memory.scoped(project=as_label("app_name", app_name), user=as_label("user_id", user_id))


def _turns(events: Iterable[Event], session: str, beside: Mapping[str, object] | None = None) -> list[Turn]:
    turns = []
    for event in events:
        if event.content is not None and not event.partial:
            at = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
            metadata = {**(beside or {}), **_metadata(event.author, event.content.role, at)}
            turns.append(Turn(session, event.id, _text(event.content), event.author, metadata))
    return turns


def _text(content: Content) -> str:
    return "\n".join(part.text for part in content.parts or () if part.text and not part.thought)


def _metadata(author: str | None, role: str | None, at: str | None) -> dict[str, Any]:
    return {name: value for name, value in {"author": author, "role": role, "at": at}.items() if value is not None}


def _entry(hit: Hit) -> MemoryEntry:
    memory, metadata = hit.memory, dict(hit.memory.metadata)
    return MemoryEntry(
        id=memory.id,
        author=metadata.pop("author", None),
        timestamp=metadata.pop("at", None) or memory.created_at.isoformat(),
        content=Content(role=metadata.pop("role", "user"), parts=[Part(text=memory.content)]),
        custom_metadata=metadata,
    )
