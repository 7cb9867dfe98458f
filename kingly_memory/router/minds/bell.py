"""Telling whoever waits for new memories in this process that one was stored."""

from __future__ import annotations

import asyncio
from weakref import WeakSet


class Bell:
    """Belongs to one router and its event loop. One who stops listening without saying so is no leak."""

    def __init__(self) -> None:
        self.has_ended = False
        self._listeners: WeakSet[asyncio.Event] = WeakSet()

    def listener(self) -> asyncio.Event:
        """An event that every ring sets."""
        event = asyncio.Event()
        self._listeners.add(event)
        return event

    def ring(self) -> None:
        for event in self._listeners:
            event.set()

    def end(self) -> None:
        """The last ring: the router closes."""
        self.has_ended = True
        self.ring()
