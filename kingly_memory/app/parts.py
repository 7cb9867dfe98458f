"""The composition root: the only place that picks adapters. Loads each one when it is needed."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from kingly_memory import validation
from kingly_memory.adapters.local.folder import Folder, try_lock
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.dataclass import NamedTuple, replace
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput, InvalidSetting, StoreUntrusted
from kingly_memory.home.own_files import check_folder, tighten, unlock, writing_to
from kingly_memory.home.place import ModelPlace, Place, embedder_token, home_name
from kingly_memory.ports import HOME, INCARNATION
from kingly_memory.router.view import Station
from kingly_memory.settings import Settings
from kingly_memory.version import __version__

if TYPE_CHECKING:
    from kingly_memory.adapters.remote.endpoint import Endpoint
    from kingly_memory.home.remote_names import RemotePlace
    from kingly_memory.ports import Clock, Embedder, InjectionLog, LanguageModel
    from kingly_memory.router.delivery.routes import Route
    from kingly_memory.router.services import RemotePart
    from kingly_memory.router.sweep.steward import Lock


class SharedStore(DiskStore):
    """The store of a home, shared by all routers and readers of this process. The last to close it closes it."""

    users = 0

    def close(self) -> None:
        with _opening:
            self.users -= 1
            if self.users > 0:
                return
            for key in [key for key, one in _stores.items() if one is self]:
                del _stores[key]
        super().close()


_stores: dict[tuple[str, str, float], SharedStore] = {}
_opening = threading.Lock()
# A fork waits until nobody holds it: else the child could never get it.
os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_opening.release)


def open_store(place: Place, settings: Settings) -> SharedStore:
    """The local layer of that home. Raises StoreDamaged or StoreUntrusted."""
    key = (os.path.realpath(place.home), settings.durability, settings.pace.lock_wait_s)
    with _opening:
        if key not in _stores:
            _stores[key] = SharedStore(
                place.home, durability=settings.durability, lock_wait_s=settings.pace.lock_wait_s
            )
        _stores[key].users += 1
        return _stores[key]


def checked(place: Place) -> Place:
    """The place with its names checked. Raises InvalidInput."""
    if place.home.exists() and not place.home.is_dir():
        raise InvalidInput("home", f"{place.home} is no folder; name another one")
    return replace(
        place,
        project=validation.label("project", place.project),
        user=validation.label("user", place.user),
        agent=validation.label("agent", place.agent),
    )


def secured(place: Place) -> Place:
    """The same, closed to other users where it lies in a `.kingly`. Raises InvalidInput, StoreUntrusted."""
    place = checked(place)
    tighten(place.home)
    check_folder(place.home)
    return place


def makeable(place: Place) -> Place:
    """The place, whose home is there or can be made, as far as that shows. Raises InvalidInput: else the first store
    would be the one to fail."""
    if os.path.lexists(place.home):
        return place
    folder = next(parent for parent in place.home.parents if os.path.lexists(parent))
    problem = None
    if not folder.is_dir():
        problem = f"{folder} is no folder"
    # Root may write everywhere by access(2). In /proc and /sys there is no room, and nobody has a right to write.
    elif not os.access(folder, os.W_OK | os.X_OK) or not (folder.stat().st_mode & 0o222 or os.statvfs(folder).f_blocks):
        problem = f"you may not write to {folder}"
    if problem is not None:
        raise InvalidInput("home", f"{place.home} cannot be made ({problem}); name a folder that you may write to")
    return place


def remote_name(address: str) -> str | None:
    """What the store calls the remote at that address, with or without its scheme; None for what is no address."""
    from kingly_memory.adapters.remote.endpoint import endpoint

    try:
        return endpoint(address if "://" in address else f"http://{address}").remote_name
    except InvalidInput:
        return None


class Reached(NamedTuple):
    """A remote whose address can be used."""

    place: RemotePlace
    endpoint: Endpoint


def reached(place: Place) -> tuple[Reached, ...]:
    """The remotes of a place. Raises InvalidInput for an address that cannot be used. One that is the same server as
    another one is named once and left out."""
    if not place.has_remote:
        return ()
    from kingly_memory.adapters.remote.endpoint import endpoint

    by_server: dict[str, Reached] = {}
    for remote in place.remotes:
        if remote.address is None:
            continue
        try:
            address = endpoint(remote.address)
        except InvalidInput as error:
            which = f"{remote.label}: " if len(place.remotes) > 1 else ""
            raise InvalidInput("remote", f"{which}{error.problem}") from None
        before = by_server.setdefault(address.remote_name, Reached(remote, address))
        if before.place is not remote:
            import logging  # loaded when there is something to say: most commands have nothing

            same = (
                f"the remotes {before.place.label} and {remote.label} are the same server; {remote.label} is left out"
            )
            logging.getLogger("kingly_memory").warning(same)
    return tuple(by_server.values())


def injections(place: Place) -> InjectionLog:
    """What was put into the prompts of the place's sessions. Touches nothing yet."""
    from kingly_memory.adapters.local.injections import InjectionFiles

    return InjectionFiles(place.home, place.space)


def trust_home(place: Place, settings: Settings) -> None:
    """List the home as this user's own, so that hooks recall it. Raises StoreError, and InvalidInput where the list
    cannot be written."""
    from kingly_memory.adapters.local.trusted import change_list, is_trusted, vouch

    with closing(open_store(place, settings)) as store:  # a change names it anew where its files are copies of others
        store.write(lambda transaction: transaction.facet(HOME, INCARNATION)).result()
    vouch(Folder(place.home))
    if not is_trusted(Folder(place.home)):
        change_list({})  # which says why it could not be written


def erase_records(place: Place) -> Callable[[Sequence[str]], int]:
    """Erase purged memories from the home's audit."""

    def erased(texts: Sequence[str]) -> int:
        from kingly_memory.adapters.audit import erase_records
        from kingly_memory.app.auditing import audit_folder

        return erase_records(audit_folder(place.home), texts)

    return erased


def station(place: Place, settings: Settings, remotes: Sequence[Reached]) -> Station:
    """The station of a router there. `remotes` are those whose addresses can be used."""
    routes = None
    if remotes:
        from kingly_memory.router.delivery.routes import Routes

        routes = Routes(tuple(map(_route, remotes)), place.remote_use, place.deliver_earlier)
    return Station(
        home=str(place.home),
        space=place.space,
        durability=settings.durability,
        routes=routes,
        version=__version__,
        agent=place.agent,
    )


def remote_parts(place: Place, settings: Settings, remotes: Sequence[Reached], clock: Clock) -> tuple[RemotePart, ...]:
    """The remotes behind those addresses, each with the lock that decides which process delivers to it. Each is shown
    its own token, and no other."""
    if not remotes:
        return ()
    from kingly_memory.adapters.remote.chosen import ChosenRemote, dialects
    from kingly_memory.adapters.remote.http import Transport, load
    from kingly_memory.retrieval import spelling
    from kingly_memory.router.services import RemotePart

    load()
    spelling.load()
    call_s = settings.call_timeout_s

    def part(remote: Reached) -> RemotePart:
        transport = Transport(remote.endpoint, token=_token(remote.place), clock=clock)
        spoken = dialects(settings.dialect, transport, space=place.space, call_timeout_s=call_s)
        lead = Leadership(place.home / f"deliver-{remote.endpoint.remote_name}.lock")
        chosen = ChosenRemote(spoken, clock, space=place.space, connect_within_s=call_s, home=home_name(place.home))
        return RemotePart(_route(remote), chosen, lead.take, lead.give_up, heard_s=lambda: transport.heard_s)

    return tuple(map(part, remotes))


def _route(remote: Reached) -> Route:
    from kingly_memory.router.delivery.routes import Route

    return Route(remote.endpoint.remote_name, remote.place.label, str(remote.endpoint), _token_mark(remote.place))


def _token(remote: RemotePlace) -> str | Callable[[], str] | None:
    """The remote's token, or what reads it out of its file."""
    path = remote.token_file
    if remote.token is not None or path is None:
        return remote.token
    from kingly_memory.home.secret_file import secret

    return lambda: secret(path, "token_file")


def _token_mark(remote: RemotePlace) -> str:
    """Four hex digits: too few to find the token by, or to know it from a guess. Of a file that cannot serve they are
    its name's: it is not to be taken for no token at all."""
    token = _token(remote)
    try:
        shown = token() if callable(token) else token
    except (InvalidInput, InvalidSetting, OSError):  # whoever shows it says what is wrong with it
        shown = str(remote.token_file)
    return "" if not shown else sha256(shown.encode(errors="replace")).hexdigest()[:4]


def sweep_lock(place: Place) -> Lock:
    """The lock that decides which process sweeps this home. Taking it makes a home that is not there yet, and raises
    StoreUnwritable or StoreUntrusted."""
    from kingly_memory.router.sweep.steward import Lock

    leadership = Leadership(place.home / "sweep.lock")

    def take() -> bool:
        Folder(place.home).make()
        with writing_to(place.home):
            return leadership.claim()

    return Lock(take, leadership.give_up)


def embedder() -> Embedder:
    """The vectors by which memories are compared with each other."""
    from kingly_memory.adapters.embed.hashed import HashedEmbedder

    return HashedEmbedder()


OPENAI = "openai:"
Vectors = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Texts to a vector each."""


def meaning(settings: Settings, own: Embedder | Vectors | None = None) -> Callable[[], Embedder] | None:
    """What makes the vectors that memories are found by besides their words: the program's `own`, else what the setting
    names; None for none. Loads nothing yet, and once what it loads.

    Raises InvalidSetting when the embedder that is named is not installed.
    """
    named = settings.embedder
    if own is not None:
        from kingly_memory.adapters.embed.guarded import Guarded

        return _once(partial(Guarded.of, own))
    if named == "none":
        return None
    if named.startswith(OPENAI):
        return _once(_of_server(named.removeprefix(OPENAI)))
    if named == "minilm":
        from kingly_memory.adapters.embed import minilm

        if minilm.folder() is None:
            raise InvalidSetting("embedder", f"minilm is not installed; {minilm.INSTALL}")
        return _minilm
    if named not in ("auto", "wordllama"):
        choices = "auto, wordllama, minilm, openai:URL#MODEL or none"
        raise InvalidSetting("embedder", f"{shown_embedder(named)!r} is unknown; choose {choices}")
    from kingly_memory.adapters.embed import wordllama

    if wordllama.folder() is not None:
        return _wordllama
    if named == "auto":
        return None
    raise InvalidSetting("embedder", "wordllama is not installed; install kingly-memory[semantic], or set it to auto")


def shown_embedder(named: str) -> str:
    """The setting `embedder` as people may see it: an address without what may be a secret in it."""
    if not named.startswith(OPENAI) and "://" not in named:
        return named
    from kingly_memory.adapters.remote.endpoint import endpoint

    url, _, model = named.removeprefix(OPENAI).rpartition("#")
    try:
        return f"{OPENAI}{endpoint(url)}#{model}"
    except InvalidInput:
        return "\u2026"


def _once(make: Callable[[], Embedder]) -> Callable[[], Embedder]:
    """One embedder for all who ask, which the router closes. Safe from any thread."""
    made, lock = cache(make), threading.Lock()

    def load() -> Embedder:
        with lock:
            return made()

    return load


@cache
def _wordllama() -> Embedder:
    """One for all routers of the process: it takes 14 MB. Safe from any thread."""
    from kingly_memory.adapters.embed.wordllama import WordLlamaEmbedder

    return WordLlamaEmbedder()


@cache
def _minilm() -> Embedder:
    """The same of 90 MB."""
    from kingly_memory.adapters.embed.minilm import MiniLmEmbedder

    return MiniLmEmbedder()


def _of_server(server: str) -> Callable[[], Embedder]:
    from kingly_memory.adapters.clock import SystemClock
    from kingly_memory.adapters.embed.openai_http import CALL, REPLY_LIMIT_BYTES, openai_embedder
    from kingly_memory.adapters.llm.openai_http import call_path
    from kingly_memory.adapters.remote.endpoint import endpoint
    from kingly_memory.adapters.remote.http import Transport

    url, _, model = server.rpartition("#")
    if not url or not model:
        raise InvalidSetting(
            "embedder", "openai: needs an address and a model, as in openai:http://localhost:11434#NAME"
        )
    try:
        place = endpoint(url)
        token, limit = embedder_token(), REPLY_LIMIT_BYTES
        new_poster = partial(Transport, place, token=token, clock=SystemClock(), reply_limit_bytes=limit)
        new_poster()
    except InvalidInput as error:
        raise InvalidSetting("embedder_token" if error.field == "token" else "embedder", error.problem) from None
    return partial(openai_embedder, new_poster, model=model, path=call_path(place.path, CALL))


def light_meaning(settings: Settings) -> tuple[str, Callable[[], Embedder]] | None:
    """The name of the vectors that `meaning` makes, and what makes them, where that is light. Loads nothing yet. Raises
    InvalidSetting as that does."""
    new_embedder = meaning(settings)
    if new_embedder is not _wordllama:
        return None
    from kingly_memory.adapters.embed.wordllama import NAME

    return NAME, new_embedder


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
    from kingly_memory.adapters.remote.http import Transport

    try:
        address = endpoint(place.url)
        transport = Transport(address, token=place.token, clock=clock)
    except InvalidInput as error:
        raise InvalidSetting("llm_token" if error.field == "token" else "llm_url", error.problem) from None
    async with OpenAiHttpModel(
        transport, model=place.model, path=address.path, name=f"{place.url}#{place.model}"
    ) as model:
        yield model, address.loopback


class Leadership:
    """A file lock that one process at a time holds; the kernel releases it when that process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.descriptor: int | None = None
        _leaderships.add(self)

    def take(self) -> bool:
        """True when this process holds the lock, now or already. False while the home cannot be written, or a
        link is in the way."""
        try:
            return self.claim()
        except (OSError, StoreUntrusted):
            return False

    def claim(self) -> bool:
        """As `take`, but for a home that cannot be written, which raises OSError."""
        if self.descriptor is None:
            self.descriptor = try_lock(self._path)
        return self.descriptor is not None

    def give_up(self) -> None:
        if self.descriptor is not None:
            unlock(self.descriptor)
            self.descriptor = None


_leaderships: WeakSet[Leadership] = WeakSet()


def _leave_all_to_parent() -> None:
    """In a forked child: close the copies of the descriptors, which would keep the locks after the parent's end."""
    for leadership in list(_leaderships):
        if leadership.descriptor is not None:
            os.close(leadership.descriptor)
            leadership.descriptor = None


os.register_at_fork(after_in_child=_leave_all_to_parent)
