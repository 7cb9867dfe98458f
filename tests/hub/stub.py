"""A hub in this process whose engine answers every request with one function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from kingly_memory.hub.access import Access, Gate
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.homes import Homes
from kingly_memory.hub.methods import Request
from kingly_memory.hub.server import application
from kingly_memory.models import JsonObject


class Unnoted(Homes):
    """Remembers nobody."""

    def __init__(self) -> None:
        """Without a store."""

    def note(self, *_: object) -> None:
        """It has no store."""


class StubEngine(Engine):
    def __init__(self, answer: Callable[[], JsonObject]) -> None:
        self._stub, self._audit, self.homes = answer, None, Unnoted()

    def answer(self, scope: str, request: Request) -> JsonObject:
        return self._stub()


@asynccontextmanager
async def in_process(answer: Callable[[], JsonObject], gate: Gate | None = None) -> AsyncIterator[httpx.AsyncClient]:
    app = application(StubEngine(answer), gate or Gate(lambda: Access.of(None, None)), "1")
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers) as web,
    ):
        yield web
