"""`MemoryRouter.open`: a router over the real adapters."""

from __future__ import annotations

import os
from typing import Self

from kingly_memory.adapters.clock import SystemClock
from kingly_memory.app import parts
from kingly_memory.observe import Observer
from kingly_memory.ports import Clock
from kingly_memory.router.router import Router
from kingly_memory.settings import Place, Settings


class MemoryRouter(Router):
    """A memory that keeps working when the network doesn't.

    `async with MemoryRouter.open() as memory:` works with nothing set: no remote, no key, no model, no network.
    """

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        remote: str | bool | None = None,
        *,
        token: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> Self:
        """A router to use with `async with`.

        `home` defaults to `.kingly/memory` of the nearest project, `project` to that folder's name. `remote` is an
        http(s) address, True for http://localhost:8000, or None for none but KINGLY_REMOTE; False for none at all.
        Raises InvalidInput, InvalidSetting, StoreDamaged or StoreUntrusted; an unusable remote is only logged.
        """
        chosen = settings or Settings.from_environment()
        place = parts.checked(Place.resolve(home, remote, token, project, agent))
        time = clock or SystemClock()
        endpoint = parts.endpoint_of(place)
        return cls(
            parts.station(place, chosen, endpoint),
            place.agent,
            store=parts.open_store(place, chosen),
            part=None if endpoint is None else parts.remote_part(place, chosen, endpoint, time),
            settings=chosen,
            clock=time,
            observers=observers,
        )
