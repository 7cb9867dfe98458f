"""`memory.threads` for code that does not await."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kingly_memory.app.sync_attention import Call

if TYPE_CHECKING:
    from kingly_memory.attention.suggestions import Suggestions
    from kingly_memory.router.threads.listing import Glance, Overview
    from kingly_memory.router.threads.verbs import Merged, Recalled, Split, Threads
    from kingly_memory.router.threads.views import ThreadView


class SyncThreads:
    """`Threads` with the same methods and results, without `await`."""

    def __init__(self, threads: Threads, call: Call) -> None:
        self._threads = threads
        self._call = call

    def list(self, limit: int = 50, status: str = "active") -> tuple[Glance, ...]:
        """See `Threads.list`."""
        return self._call(lambda: self._threads.list(limit, status))

    def get(self, thread_id: str, first: int = 0, limit: int = 20) -> ThreadView:
        """See `Threads.get`."""
        return self._call(lambda: self._threads.get(thread_id, first, limit))

    def merge(self, thread_a: str, thread_b: str) -> Merged:
        """See `Threads.merge`."""
        return self._call(lambda: self._threads.merge(thread_a, thread_b))

    def split(self, thread_id: str, topics: Sequence[str] | None = None) -> Split:
        """See `Threads.split`."""
        return self._call(lambda: self._threads.split(thread_id, topics))

    def rename(self, thread_id: str, title: str) -> ThreadView:
        """See `Threads.rename`."""
        return self._call(lambda: self._threads.rename(thread_id, title))

    def recall(self, topic: str, limit: int = 5, *, restore: bool = False) -> Recalled:
        """See `Threads.recall`."""
        return self._call(lambda: self._threads.recall(topic, limit, restore=restore))

    def suggestions(self, context: str | None = None, within: float = 0.1) -> Suggestions:
        """See `Threads.suggestions`."""
        return self._call(lambda: self._threads.suggestions(context, within))

    def status(self) -> Overview:
        """See `Threads.status`."""
        return self._call(self._threads.status)
