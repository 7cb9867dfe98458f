"""The OpenAI Agents SDK: a Session whose conversation lies in the log of the store, and is there for every process.

session = KinglySession("chat-17", memory)
await Runner.run(agent, "Where is my parcel?", session=session)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kingly_memory import validation
from kingly_memory.api.session_log import MOST_ITEMS
from kingly_memory.attention.fence import PREAMBLE, without_fenced
from kingly_memory.errors import InvalidInput
from kingly_memory.integrations.needed import needed
from kingly_memory.integrations.recall import Router, asked, either
from kingly_memory.router.capturing import messages

with needed("KinglySession", "openai-agents"):
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

if TYPE_CHECKING:
    from agents import RunContextWrapper, SessionSettings, TResponseInputItem

    Item: TypeAlias = TResponseInputItem
    Run: TypeAlias = RunContextWrapper[Any]

T = TypeVar("T")

_read_by: ContextVar[tuple[KinglySession, Router] | None] = ContextVar("_read_by", default=None)
"""The session that this task has read, and the router it was read from: a callback does not get the run."""


class KinglySession:
    """A conversation, kept as the log `session_id` of a router: what was added comes back exactly, in order.

    With a `MemoryRouter` a session belongs to that router's event loop; with a `SyncMemoryRouter` it serves any number
    of loops and threads. A function in the place of a router is asked, with the context of the run, whose memory it is:
    `KinglySession("chat-17", lambda run: memory.scoped(user=run.context.user))`.

    With `recall=True` decisions, preferences and facts that are said become memories, and `session_input_callback` puts
    those of earlier sessions that fit beside the next input. A change that was begun is finished before a cancellation
    leaves. Raises InvalidInput, StoreError, RouterClosed; after an error nothing was changed.
    """

    def __init__(
        self,
        session_id: str,
        memory: Router | Callable[[Run], Router],
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        recall: bool = False,
    ) -> None:
        validation.required("session_id", session_id)
        if not callable(memory):
            either(memory)
        self.session_id = session_id
        self.session_settings: SessionSettings | None = coerce_session_settings(session_settings or {})
        self._memory = memory
        self._recalls = recall

    async def get_items(self, limit: int | None = None, *, wrapper: Run | None = None) -> list[Item]:
        """The latest items, the oldest of them first; all of them where neither this nor the settings say a limit."""
        router = self._router(wrapper)
        _read_by.set((self, router))
        most = resolve_session_limit(limit, self.session_settings)
        latest = None if most is None or most > MOST_ITEMS else max(most, 0)  # the SDK says 2**31 - 1 for all
        items: list[Item] = await asked(router, lambda memory: memory.log(self.session_id).last(latest))
        return items

    async def add_items(self, items: list[Item], *, wrapper: Run | None = None) -> None:
        """Append items in one transaction; they are durable when this returns."""
        await _finished(self._add(list(items), self._router(wrapper)))

    async def pop_item(self, *, wrapper: Run | None = None) -> Item | None:
        """Take the last item off; None when there is none. Items that the disk has damaged go with it."""
        router = self._router(wrapper)
        return await _finished(asked(router, lambda memory: memory.log(self.session_id).pop()))

    async def clear_session(self, *, wrapper: Run | None = None) -> None:
        """Remove all items for good. What was learned of them stays."""
        router = self._router(wrapper)
        await _finished(asked(router, lambda memory: memory.log(self.session_id).clear()))

    async def session_input_callback(self, history: list[Item], new_items: list[Item]) -> list[Item]:
        """For `RunConfig(session_input_callback=…)`: history, notes that fit what is said now, and that. The notes are
        no part of the session."""
        prompt = "\n".join(one.text for one in messages(new_items) if one.speaker == "user")
        if not self._recalls or not prompt.strip():
            return [*history, *new_items]
        read = _read_by.get()
        router = read[1] if callable(self._memory) and read and read[0] is self else self._router(None)
        found = await asked(router, lambda memory: memory.inject(prompt))
        if all(thread == self.session_id for thread in found.threads.values()):  # history tells of that
            return [*history, *new_items]
        note: Item = {"role": "user", "content": found.text}
        return [*history, note, *new_items]

    async def _atomic_replace_items(self, items: list[Item]) -> bool:
        """What the SDK's OpenAIResponsesCompactionSession looks for: else it clears, then adds, and a process that ends
        between loses the conversation."""
        router = self._router(None)
        await _finished(asked(router, lambda memory: memory.log(self.session_id).replace(items)))
        return True

    async def _add(self, items: list[Item], router: Router) -> None:
        if not self._recalls:
            await asked(router, lambda memory: memory.log(self.session_id).append(items))
            return
        items = [item for item in items if not _is_note(item)]  # the SDK keeps what a callback has added
        await asked(router, lambda memory: memory.log(self.session_id).append(items))
        await asked(router, lambda memory: memory.capture(items, context_id=self.session_id))

    def _router(self, wrapper: Run | None) -> Router:
        if not callable(self._memory):
            return self._memory
        if wrapper is None:
            raise InvalidInput("wrapper", "is missing; this session is told by a run whose memory it is: wrapper=…")
        return self._memory(wrapper)


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """The outcome of a change. A caller that is cancelled meanwhile hears of it when the change is done."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # else asyncio says that nobody has looked at it
    raise cancelled


def _is_note(item: Any) -> bool:
    content = item.get("content") if isinstance(item, Mapping) else None
    return isinstance(content, str) and content.startswith(PREAMBLE) and not without_fenced(content)
