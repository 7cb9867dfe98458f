"""A hub in this process, whose engine may answer every request with one function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from kingly_memory.hub.access import Access, Gate
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.homes import Homes
from kingly_memory.hub.methods import Request, Storing
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
        self._stub, self._audit, self._vectors, self.homes = answer, None, None, Unnoted()

    def answer(self, scope: str, request: Request) -> JsonObject:
        return self._stub()

    async def store(self, scope: str, request: Storing) -> JsonObject:
        return self._stub()


@asynccontextmanager
async def in_process(
    answer: Callable[[], JsonObject] | Engine, gate: Gate | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    engine = answer if isinstance(answer, Engine) else StubEngine(answer)
    app = application(engine, gate or Gate(lambda: Access.of(None, None)), "1")
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers) as web,
    ):
        yield web
