"""`memory.attention` for code that does not await."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kingly_memory.attention.focus import WEIGHT
from kingly_memory.attention.pins import BOOST
from kingly_memory.intake import SIGNIFICANCE

if TYPE_CHECKING:
    from kingly_memory.attention.focus import Focus
    from kingly_memory.router.attending.verbs import Attention, Focused, Pinned, Unfocused, Unpinned
    from kingly_memory.router.threads.ratings import Rated

T = TypeVar("T")


class Call(Protocol):
    """Begins something on the event loop and waits for it."""

    def __call__(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T: ...


class SyncAttention:
    """`Attention` with the same methods and results, without `await`."""

    def __init__(self, attention: Attention, call: Call) -> None:
        self._attention = attention
        self._call = call

    def focus(self, topic: str, weight: float = WEIGHT) -> Focused:
        """See `Attention.focus`."""
        return self._call(lambda: self._attention.focus(topic, weight))

    def unfocus(self, topic: str | None = None) -> Unfocused:
        """See `Attention.unfocus`."""
        return self._call(lambda: self._attention.unfocus(topic))

    def focused(self) -> tuple[Focus, ...]:
        """See `Attention.focused`."""
        return self._call(self._attention.focused)

    def pin(
        self,
        content: str,
        title: str | None = None,
        topics: Sequence[str] | None = None,
        weight_boost: float = BOOST,
        *,
        key: str | None = None,
        significance: float = SIGNIFICANCE,
        origin: str = "agent",
    ) -> Pinned:
        """See `Attention.pin`."""
        return self._call(
            lambda: self._attention.pin(
                content, title, topics, weight_boost, key=key, significance=significance, origin=origin
            )
        )

    def unpin(self, thread_id: str) -> Unpinned:
        """See `Attention.unpin`."""
        return self._call(lambda: self._attention.unpin(thread_id))

    def rate(self, thread_id: str, useful: bool, reason: str | None = None) -> Rated:
        """See `Attention.rate`."""
        return self._call(lambda: self._attention.rate(thread_id, useful, reason))
