"""`MemoryRouter`: all public verbs, and how a router over the real adapters is opened."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self

from kingly_memory import validation
from kingly_memory.adapters.clock import SystemClock
from kingly_memory.api.agents import AgentVerbs
from kingly_memory.api.attention import AttentionVerbs
from kingly_memory.api.remotes import RemoteVerbs
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import Place
from kingly_memory.models import project_and_user, space_of
from kingly_memory.observe import Observer
from kingly_memory.ports import Clock, Embedder
from kingly_memory.settings import Settings, inert

if TYPE_CHECKING:
    from kingly_memory.app.parts import Vectors
    from kingly_memory.home.remote_names import Addresses
    from kingly_memory.router.engine import Engine

log = logging.getLogger("kingly_memory")


def _remotes_follow(home: Path, project: str, into: str) -> None:
    from kingly_memory.adapters.local import remote_record  # few routers rename a project

    remote_record.follow(home, project, into)


class MemoryRouter(AgentVerbs, AttentionVerbs, RemoteVerbs):
    """A memory that keeps working when the network doesn't.

    `memory = MemoryRouter.open()` works with nothing set: no remote, no key, no model, no network. Its first verb opens
    it. `await memory.close()`, leaving `async with`, or the end of its event loop closes it.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        if engine is None or isinstance(engine, str | os.PathLike):  # what one tries first
            raise TypeError(f"Open a router with {type(self).__name__}.open(home).")
        super().__init__(engine)

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        remote: Addresses = None,
        *,
        token: str | Mapping[str, str] | None = None,
        token_file: str | os.PathLike[str] | None = None,
        deliver_earlier: bool = False,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        settings: Settings | None = None,
        embedder: Embedder | Vectors | None = None,
        clock: Clock | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> Self:
        """A router that its first verb opens, and that `close` or leaving `async with` closes.

        `home` defaults to `.kingly/memory` of the nearest project, `project` to that folder's name. What
        belongs to a `user` nobody else sees: see `scoped`. `remote` is an http(s) address, the name of one that
        `kingly-memory remotes add` has added, or True for http://localhost:8000. None means KINGLY_REMOTE, else what
        was added; False means none.
        Several are given by name, `{"team": "http://…", "home": "http://…"}`, and so are their tokens; each gets all
        that is significant: docs/remotes.md.
        `token_file`, of mode 0600, is read again when the remote refuses its token, and as long as it cannot be read.
        What is stored from now on above significance 0.3 goes to the remote, for good: what other programs store in the
        project waits for it as well, until `forget_remote`. What was stored before goes there only with
        `deliver_earlier`, and `status()["outbox"]` and the log tell how many those are.
        `embedder`, an `Embedder` or a function that gives texts a vector each, takes the place of the setting.
        Raises InvalidInput for an address or a home that cannot be used; InvalidSetting, StoreDamaged, StoreUntrusted.
        """
        from kingly_memory.app import parts

        if not isinstance(token, str | Mapping | None):
            raise InvalidInput("token", f"expected text, or a text for each remote by name, not {type(token).__name__}")
        if not isinstance(deliver_earlier, bool):
            raise InvalidInput("deliver_earlier", f"expected True or False, not {type(deliver_earlier).__name__}")
        place = Place.resolve(home, remote, token, project, agent, token_file=token_file, user=user)
        if place.unread is not None:
            log.warning("%s; until then this machine alone is used", place.unread)
        return cls.at(
            replace(parts.makeable(place), deliver_earlier=deliver_earlier),
            settings=settings,
            embedder=embedder,
            clock=clock,
            observers=observers,
        )

    @classmethod
    def at(
        cls,
        place: Place,
        *,
        settings: Settings | None = None,
        embedder: Embedder | Vectors | None = None,
        clock: Clock | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> Self:
        """`open` for a place that is known. Where its home cannot be made, the first store fails."""
        from kingly_memory.adapters.local.trusted import check_trusted
        from kingly_memory.app import parts  # with the engine, most of what there is to load
        from kingly_memory.router.engine import Engine
        from kingly_memory.router.runtime import Runtime

        if not isinstance(settings, Settings | None):
            raise InvalidInput("settings", f"expected Settings, not {type(settings).__name__}")
        if not isinstance(clock, Clock | None):
            raise InvalidInput("clock", f"expected a Clock, not {type(clock).__name__}")
        if embedder is not None and not callable(embedder) and not hasattr(type(embedder), "embed"):
            expected = "expected a function that gives texts a vector each, or an Embedder"
            raise InvalidInput("embedder", f"{expected}, not {type(embedder).__name__}")
        watching: list[Any] = validation.listed("observers", observers, object)
        if not all(map(callable, watching)):
            raise InvalidInput("observers", "expected functions that take an event")
        place = parts.secured(place)
        chosen = settings or Settings.from_environment(home=place.home)
        for folder in () if settings else inert(place.home):
            log.warning("%s", folder)
        time = clock or SystemClock()
        remotes = parts.reached(place)
        meaning, station = parts.meaning(chosen, embedder), parts.station(place, chosen, remotes)
        # The store comes after all that may raise: what is opened counts as in use until it is closed.
        runtime = Runtime(
            station,
            store=parts.open_store(place, chosen),
            settings=chosen,
            clock=time,
            remotes=parts.remote_parts(place, chosen, remotes, time),
            observers=tuple(watching),
            embedder=parts.embedder,
            meaning=meaning,
            sweeping=parts.sweep_lock(place),
            injections=lambda space: parts.injections(place.at(space)),
            language_model=partial(parts.language_model, chosen, time),
            name_at=parts.remote_name,
            erase_records=parts.erase_records(place),
            check_trusted=partial(check_trusted, place.home),
            remotes_follow=partial(_remotes_follow, place.home),
        )
        return cls(Engine(runtime))

    def scoped(
        self,
        *,
        user: str | EllipsisType | None = ...,
        project: str | EllipsisType | None = ...,
        agent: str | EllipsisType | None = ...,
        context_id: str | EllipsisType | None = ...,
    ) -> Self:
        """A view of this router for another user, project, agent or context. What is left out stays as it is here.

        What belongs to a `user` nobody else sees, and who names none sees what belongs to nobody. `project=None` is
        every project: what is stored there, `search`, `list` and `get` find from each project of the same user, and a
        project's own memory comes first where both have a key. `agent` and `context_id` say who stores and where, when
        a verb does not. Views are cheap: all share the store, the remotes and the background tasks of this router.
        Closing one, or letting go of it, closes nothing else. Raises InvalidInput.
        """
        station = self._engine.station
        own_project, own_user = project_and_user(station.space)
        own = {"project": own_project, "user": own_user, "agent": station.agent, "context_id": station.context_id}
        said = {"project": project, "user": user, "agent": agent, "context_id": context_id}
        chosen = {
            name: own[name] if isinstance(value, EllipsisType) else validation.label(name, value)
            for name, value in said.items()
        }
        space = space_of(chosen["project"], chosen["user"])
        moved = station._replace(space=space, agent=chosen["agent"], context_id=chosen["context_id"])
        return type(self)(self._engine.scoped(moved))

    @property
    def project(self) -> str | None:
        """Whose memories these are; None where they belong to every project."""
        return project_and_user(self._engine.space)[0]

    @property
    def user(self) -> str | None:
        """Whose memories these are, if they belong to somebody."""
        return project_and_user(self._engine.space)[1]

    @property
    def agent(self) -> str | None:
        """Who stores, if anybody is named."""
        return self._engine.station.agent

    async def __aenter__(self) -> Self:
        await self._engine.opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give deliveries under way a moment, write down what is buffered, and let go of everything.

        Safe to call twice. Whatever fails or is cancelled on the way, the rest is let go of all the same.
        """
        await self._engine.close()

    def __repr__(self) -> str:
        status = self._engine.view.status()
        link, waiting = status["link"]["state"], status["outbox"]["pending"]
        return f"<{type(self).__name__} link={link} outbox={waiting} local={status['memories']['total']}>"
