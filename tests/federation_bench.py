"""A router over several remotes without a network, with time standing still."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from kingly_memory.app.opening import MemoryRouter
from kingly_memory.models import RemoteUse
from kingly_memory.observe import Observer
from kingly_memory.ports import Delivery, Remote
from kingly_memory.router.engine import Engine
from kingly_memory.router.routes import Routes
from kingly_memory.router.runtime import Runtime
from kingly_memory.router.services import RemotePart
from kingly_memory.router.view import Station
from kingly_memory.settings import Settings
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, PromptStore


def name_of(label: str) -> str:
    """A stable name as long as real ones."""
    return sha256(label.encode()).hexdigest()[:16]


def federated(
    store: PromptStore,
    remotes: Mapping[str, Remote],
    clock: ManualClock,
    *,
    settings: Settings = CALM,
    project: str = "app",
    observers: tuple[Observer, ...] = (),
    earlier: bool = False,
    use: RemoteUse = RemoteUse.ENROL,
) -> MemoryRouter:
    """A router over those remotes, by name."""
    parts = [
        RemotePart(name_of(label), f"fake://{label}", remote, lambda: True, lambda: None, label)
        for label, remote in remotes.items()
    ]
    routes = Routes(tuple(part.route for part in parts), use, earlier) if parts else None
    return MemoryRouter(
        Engine(
            Runtime(
                Station(home="here", space=project, durability="process", routes=routes),
                store=store,
                remotes=parts,
                settings=settings,
                clock=clock,
                observers=observers,
                chance=lambda: 0.5,
            )
        )
    )


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
