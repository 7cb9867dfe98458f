"""A router over a real disk and a remote without a network, with time status still: every step can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from kingly_memory.adapters.embed.hashed import HashedEmbedder
from kingly_memory.adapters.local.injections import InjectionFiles
from kingly_memory.adapters.local.reader import Reader
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.app.parts import language_model
from kingly_memory.errors import RemoteError, StoreUnwritable
from kingly_memory.models import Backup, JsonObject, Memory, RemoteUse
from kingly_memory.observe import Observer
from kingly_memory.ports import Delivery, Embedder, Remote, Scrubbed, Transaction
from kingly_memory.router.delivery.routes import UNNAMED, Route, Routes
from kingly_memory.router.engine import Engine
from kingly_memory.router.runtime import Runtime
from kingly_memory.router.search.remote_side import Feeds
from kingly_memory.router.services import RemotePart
from kingly_memory.router.sweep.steward import Lock
from kingly_memory.router.view import Station
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import FakeRemote, ManualClock

T = TypeVar("T")
R = TypeVar("R", bound=FakeRemote)

REMOTE = "feedfacefeedface"
CALM = Settings(
    durability="process",
    pace=Pace(closing_s=0.0, poll_s=10.0, usage_flush_s=1_000.0, send_tries=1, sends_at_once=4),
    local_search_s=60.0,
    remote_search_s=0.15,
)
"""Looks seldom, so that hours pass in few steps, tries once, and sends four at once. A search here takes its time."""


class PromptStore:
    """A disk store whose changes are durable when `write` returns, so that a manual clock never waits for a thread.

    After `die` nothing is written any more: what a killed process would have written next.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._disk = DiskStore(home, durability="process")
        self._dead = False

    @property
    def reader(self) -> Reader:
        return self._disk.reader

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        """What every change goes through."""
        if self._dead:
            lost: Future[T] = Future()
            lost.set_exception(StoreUnwritable("here", "the process is dead"))
            return lost
        future = self._disk.write(change)
        wait([future])
        return future

    async def commit(self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()) -> T:
        return await asyncio.wrap_future(self.write(change))

    def versions(self) -> Mapping[str, str]:
        return self._disk.versions()

    def scrub(self, memory_ids: Collection[str], spaces: Sequence[str] = ()) -> Scrubbed:
        return self._disk.scrub(memory_ids, spaces)

    def read_all(self, now_s: float) -> list[str]:
        return self._disk.read_all(now_s)

    def note_damaged(self, memory_ids: Sequence[str]) -> None:
        self._disk.note_damaged(memory_ids)

    def read_share(self, now_s: float) -> None:
        self._disk.read_share(now_s)

    def recovered(self) -> str | None:
        return self._disk.recovered()

    def backup(self, file: Path) -> Backup:
        return self._disk.backup(file)

    def die(self) -> None:
        self._dead = True

    def close(self) -> None:
        self._disk.close()


class ChoosyRemote(FakeRemote):
    """Answers memories of some keys with an error of their own, every time."""

    def __init__(self, *, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.against: dict[str, RemoteError] = {}

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        if memory.key in self.against:
            self.script(self.against[memory.key])
        return await super().store(memory, idempotency_key=idempotency_key, remote_id=remote_id, repeated=repeated)


async def nothing_new(*_: object) -> tuple[int, Feeds]:
    """What the feed of a remote brings to a side whose feed is not looked at."""
    return 0, ()


def router_over(
    store: PromptStore,
    remote: Remote | None,
    clock: ManualClock,
    *,
    leads: Callable[[], bool] = lambda: True,
    stop_leading: Callable[[], None] = lambda: None,
    earlier: bool = False,
    token_mark: str = "",
    **how: Any,
) -> MemoryRouter:
    """`how` as for `router_of`."""
    route = Route(REMOTE, UNNAMED, "fake", token_mark)
    parts = [] if remote is None else [RemotePart(route, remote, leads, stop_leading)]
    routes = Routes(tuple(part.route for part in parts), earlier=earlier) if parts else None
    return router_of(store, parts, routes, clock, **how)


def router_of(
    store: PromptStore,
    parts: Sequence[RemotePart],
    routes: Routes | None,
    clock: ManualClock,
    *,
    settings: Settings = CALM,
    observers: tuple[Observer, ...] = (),
    project: str = "app",
    agent: str | None = None,
    meaning: Callable[[], Embedder] | None = None,
    erase_records: Callable[[Sequence[str]], int] = lambda _: 0,
) -> MemoryRouter:
    """Jitter stands at one half of its range."""
    engine = Engine(
        Runtime(
            Station(home="here", space=project, durability="process", routes=routes, agent=agent),
            store=store,
            remotes=parts,
            settings=settings,
            clock=clock,
            observers=observers,
            chance=lambda: 0.5,
            embedder=HashedEmbedder,
            meaning=meaning,
            sweeping=Lock(lambda: True, lambda: None),
            injections=partial(InjectionFiles, store.home),
            language_model=partial(language_model, settings, clock),
            name_at=lambda _: None,
            erase_records=erase_records,
            check_trusted=lambda: None,
            remotes_follow=lambda _project, _into: None,
        )
    )
    return MemoryRouter(engine)


@dataclass(frozen=True)
class Scene(Generic[R]):
    """A router at work, with its disk, its remote and their clock."""

    memory: MemoryRouter
    disk: PromptStore
    remote: R
    clock: ManualClock

    async def stored(self, *contents: str, significance: float = 0.5) -> list[str]:
        """Store each under its own words as key, a millisecond apart; returns the ids."""
        return await stored(self.memory, self.clock, *contents, significance=significance)

    @property
    def link_state(self) -> str:
        return str(self._status()["link"]["state"])

    @property
    def outbox(self) -> tuple[int, int, int]:
        """How many are pending, leased and dead."""
        counts = self._status()["outbox"]
        return counts["pending"], counts["leased"], counts["dead"]

    @property
    def links(self) -> JsonObject:
        """How many links wait, and how many are dead."""
        return self._status().get("links") or {"pending": 0, "dead": 0}

    def _status(self) -> JsonObject:
        return self.memory._engine.view.status()


@asynccontextmanager
async def at_work(disk: PromptStore, remote: R, clock: ManualClock, **how: Any) -> AsyncIterator[Scene[R]]:
    """A router that has met its remote; `how` as for `router_over`."""
    async with router_over(disk, remote, clock, **how) as memory:
        await clock.settle()
        yield Scene(memory, disk, remote, clock)


async def stored(memory: MemoryRouter, clock: ManualClock, *contents: str, significance: float = 0.5) -> list[str]:
    """As a scene stores them, by a router of one's own."""
    ids: list[str] = []
    for content in contents:
        ids.append((await memory.store(content, key=content, significance=significance)).id)
        clock.tick(0.001)
    return ids


def facet_of(store: PromptStore, memory_id: str) -> Delivery | None:
    return store.reader.deliveries([REMOTE], [memory_id])[REMOTE].get(memory_id)


def delivered(remote: FakeRemote) -> list[str]:
    """The contents that the remote was asked to take, in order, failures and repeats included."""
    return [call.arguments["memory"].content for call in remote.named("store")]


def held(remote: FakeRemote) -> list[str]:
    """What the remote holds now, in the order of arrival."""
    return [memory.content for memory in remote.memories.values()]


def name_of(label: str) -> str:
    """A stable name as long as real ones."""
    return sha256(label.encode()).hexdigest()[:16]


def federated(
    store: PromptStore,
    remotes: Mapping[str, Remote],
    clock: ManualClock,
    *,
    use: RemoteUse = RemoteUse.ADD,
    earlier: bool = False,
    **how: Any,
) -> MemoryRouter:
    """A router over those remotes, by name; `how` as for `router_of`."""
    parts = [
        RemotePart(Route(name_of(label), label, f"fake://{label}"), remote, lambda: True, lambda: None)
        for label, remote in remotes.items()
    ]
    routes = Routes(tuple(part.route for part in parts), use, earlier) if parts else None
    return router_of(store, parts, routes, clock, **how)


class Remotes:
    """A home that is opened again and again, and remotes for it: two that work, and one that is down."""

    def __init__(self, home: Path, clock: ManualClock) -> None:
        self.disk = PromptStore(home)
        self.clock = clock
        self.team, self.home, self.gone = (FakeRemote(clock=clock) for _ in range(3))
        self.gone.down = True

    def opened(self, remotes: Mapping[str, Remote], **how: Any) -> MemoryRouter:
        """A router over some of them; `how` as for `federated`."""
        return federated(PromptStore(self.disk.home), remotes, self.clock, **how)


def facet_at(store: PromptStore, label: str, memory_id: str) -> Delivery | None:
    return store.reader.deliveries([name_of(label)], [memory_id])[name_of(label)].get(memory_id)
