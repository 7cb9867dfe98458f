"""The server over a place, and its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import TYPE_CHECKING, Any

from kingly_memory.place import Place
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.memory_server import LONGEST_MESSAGE_BYTES, MemoryServer
from kingly_memory.settings import Settings

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter

_JSON_GROWTH = 6
"""How many times as long a text may become in JSON."""


def server_of(place: Place, settings: Settings, toolsets: Collection[str], *, shared: bool = False) -> MemoryServer:
    """A server over that place. Nothing is opened before a client has shaken hands."""

    def begin() -> MemoryRouter:
        from kingly_memory.app.opening import MemoryRouter  # after the handshake, which would wait for it

        return MemoryRouter.at(place, settings=settings)

    longest = max(LONGEST_MESSAGE_BYTES, _JSON_GROWTH * settings.content_limit_bytes)
    return MemoryServer(LazyRouter(begin), toolsets, shared=shared, longest_message_bytes=longest)


def run(serving: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, and leave the loop as it is then: the process ends next, and closing the loop would wait for
    threads that may wait for a store which another process holds."""
    asyncio.Runner().run(serving)
