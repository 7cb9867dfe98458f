"""The composition root: the only place that picks adapters. Loads each one when it is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory import intake
from kingly_memory.adapters.local.folder import Folder, try_lock, unlock
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import InvalidInput, InvalidSetting, StoreUnwritable
from kingly_memory.router.view import Station
from kingly_memory.settings import ModelPlace, Place, Settings
from kingly_memory.version import __version__

if TYPE_CHECKING:
    from kingly_memory.adapters.remote.endpoint import Endpoint
    from kingly_memory.ports import Clock, Embedder, InjectionLog, LanguageModel
    from kingly_memory.router.lock import Lock
    from kingly_memory.router.spine import RemotePart


def open_store(place: Place, settings: Settings) -> DiskStore:
    """The local layer of that home. Raises StoreDamaged or StoreUntrusted."""
    return DiskStore(place.home, durability=settings.durability, lock_wait_s=settings.lock_wait_s)


def checked(place: Place) -> Place:
    """The place with its names checked. Raises InvalidInput."""
    if place.home.exists() and not place.home.is_dir():
        raise InvalidInput("home", f"{place.home} is no folder; name another one")
    intake.required("project", place.project)
    intake.label("agent", place.agent)
    return place


def endpoint_of(place: Place) -> Endpoint | None:
    """The remote's address; None when none is named, or when it is no address: said once, work goes on locally."""
    if place.remote is None:
        return None
    from kingly_memory.adapters.remote.endpoint import endpoint

    try:
        return endpoint(place.remote)
    except InvalidInput as error:
        import logging  # loaded when there is something to say: most commands have nothing

        logging.getLogger("kingly_memory").warning("%s; working locally", error)
        return None


def injections(place: Place) -> InjectionLog:
    """What was put into the prompts of the project's sessions. Touches nothing yet."""
    from kingly_memory.adapters.local.injections import InjectionFiles

    return InjectionFiles(place.home, place.project)


def station(place: Place, settings: Settings, endpoint: Endpoint | None) -> Station:
    return Station(
        home=str(place.home),
        project=place.project,
        durability=settings.durability,
        remote=None if endpoint is None else endpoint.remote_name,
        endpoint=None if endpoint is None else str(endpoint),
        version=__version__,
    )


def remote_part(place: Place, settings: Settings, endpoint: Endpoint, clock: Clock) -> RemotePart:
    """The remote behind that address, and the lock that decides which process delivers to it."""
    from kingly_memory.adapters.remote.json_call import JsonCall
    from kingly_memory.adapters.remote.seed_server import SeedRemote
    from kingly_memory.adapters.remote.transport import Transport, load
    from kingly_memory.adapters.remote.trying import Persistence
    from kingly_memory.retrieval import repair
    from kingly_memory.router.spine import RemotePart

    load()
    repair.load()
    transport = Transport(endpoint, token=place.token, clock=clock, reply_limit_bytes=settings.reply_limit_bytes)
    persistence = Persistence(clock, tries=settings.send_tries, pause_s=settings.send_pause_s)
    remote = SeedRemote(JsonCall(transport, project=place.project, call_timeout_s=settings.call_timeout_s), persistence)
    lead = Leadership(place.home / f"deliver-{endpoint.remote_name}.lock")
    return RemotePart(endpoint.remote_name, str(endpoint), remote, lead.take, lead.give_up)


def sweep_lock(place: Place) -> Lock:
    """The lock that decides which process sweeps this home. Taking it makes a home that is not there yet, and raises
    StoreUnwritable or StoreUntrusted."""
    from kingly_memory.router.lock import Lock

    one = Leadership(place.home / "sweep.lock")

    def take() -> bool:
        Folder(place.home).make()
        try:
            return one.claim()
        except OSError as error:
            raise StoreUnwritable(str(place.home), error.strerror or "error") from error

    return Lock(take, one.give_up)


def keeping_lock(place: Place) -> Lock:
    """The lock that decides which process keeps the briefs of this home's threads up, project by project. While there
    is no home there are none."""
    from kingly_memory.router.lock import Lock

    digest = sha256(place.project.encode(errors="replace")).hexdigest()[:16]
    one = Leadership(place.home / f"threads-{digest}.lock")
    return Lock(one.take, one.give_up)


def embedder() -> Embedder:
    """The vectors by which memories are compared with each other."""
    from kingly_memory.adapters.embed.hashed import HashedEmbedder

    return HashedEmbedder()


def meaning(settings: Settings) -> Callable[[], Embedder] | None:
    """What makes the vectors that memories are found by besides their words: None for none. Loads nothing yet.

    Raises InvalidSetting when the embedder that is named is not installed.
    """
    if settings.embedder == "none":
        return None
    from kingly_memory.adapters.embed.wordllama import WordLlamaEmbedder, is_installed

    if is_installed():
        return WordLlamaEmbedder
    if settings.embedder == "auto":
        return None
    raise InvalidSetting(
        "embedder", "wordllama is not installed; run `pip install 'kingly-memory[semantic]'` or set it to auto"
    )


def vectors_name(settings: Settings) -> str | None:
    """What `meaning` would make vectors with, without loading it. Raises InvalidSetting as that does."""
    if meaning(settings) is None:
        return None
    from kingly_memory.adapters.embed.wordllama import NAME

    return NAME


@asynccontextmanager
async def language_model(settings: Settings, clock: Clock) -> AsyncIterator[tuple[LanguageModel | None, bool]]:
    """The model that KINGLY_LLM_URL names, if it names one, and whether it runs on this machine.

    Raises InvalidSetting when the address, the model or the token cannot be used.
    """
    place = ModelPlace.resolve()
    if place is None:
        yield None, False
        return
    from kingly_memory.adapters.llm.openai_http import OpenAiHttpModel
    from kingly_memory.adapters.remote.endpoint import endpoint
    from kingly_memory.adapters.remote.transport import Transport

    try:
        there = endpoint(place.url)
        transport = Transport(there, token=place.token, clock=clock, reply_limit_bytes=settings.reply_limit_bytes)
    except InvalidInput as error:
        raise InvalidSetting("llm_token" if error.field == "token" else "llm_url", error.problem) from None
    async with OpenAiHttpModel(transport, model=place.model, path=there.path) as model:
        yield model, there.loopback


class Leadership:
    """A file lock that one process at a time holds; the kernel releases it when that process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> bool:
        """True when this process holds the lock, now or already. False while the home cannot be written."""
        try:
            return self.claim()
        except OSError:
            return False

    def claim(self) -> bool:
        """As `take`, but for a home that cannot be written, which raises OSError."""
        if self._descriptor is None:
            self._descriptor = try_lock(self._path)
        return self._descriptor is not None

    def give_up(self) -> None:
        if self._descriptor is not None:
            unlock(self._descriptor)
            self._descriptor = None
