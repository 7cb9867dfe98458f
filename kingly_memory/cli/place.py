"""From options to a place, and from a place to a reader or a router. The one door of the commands to the rooms."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory import intake
from kingly_memory.cli.output import Output, one_line
from kingly_memory.errors import InvalidInput
from kingly_memory.settings import Place, Settings

if TYPE_CHECKING:
    from kingly_memory.app.reading import LocalReader
    from kingly_memory.app.sync import SyncMemoryRouter

TOKEN_LIMIT_BYTES = 65_536
VECTORS_WAIT_S = 1.0
"""How long a search by meaning waits for its vectors."""


def place_of(options: Namespace, out: Output) -> Place:
    """Where the command works and for whom. A remote that can never be reached is named once and left aside."""
    place = Place.resolve(
        home=options.home,
        remote=options.remote,
        token=token_of(options),
        project=intake.label("project", options.project),
        agent=intake.label("agent", options.agent),
    )
    return place if place.remote is None else replace(place, remote=_usable(place.remote, out))


def command(options: Namespace, verb: str, *names: str) -> str:
    """The command that does something further in the same place, for a shell."""
    from shlex import join

    place = (("home", options.home), ("project", options.project), ("remote", options.remote))
    named = [one for name, value in place if isinstance(value, str) for one in (f"--{name}", value)]
    ends = ["--"] if any(name.startswith("-") for name in names) else []
    return one_line(join(["kingly-memory", *verb.split(), *named, *ends, *names]))


def token_of(options: Namespace) -> str | None:
    """The token in --token-file; it is never taken from the command line, which every process can read."""
    if options.token_file is None:
        return None
    try:
        with Path(options.token_file).open("rb") as file:
            token = file.read(TOKEN_LIMIT_BYTES).decode().strip()
    except OSError as error:
        raise InvalidInput("token_file", f"{options.token_file} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InvalidInput("token_file", f"{options.token_file} is not text") from None
    if not token:
        raise InvalidInput("token_file", f"{options.token_file} is empty")
    return token


@contextmanager
def reading(place: Place, out: Output, *, meaning: bool = False) -> Iterator[LocalReader]:
    """The store for reading on this machine: no background task, no remote, nothing written. `meaning`: searches find
    by that too."""
    from kingly_memory.app.reading import open_reader

    with warnings_on(out), closing(open_reader(place, meaning=meaning)) as reader:
        yield reader


@contextmanager
def routing(place: Place, out: Output | None = None, *, by_meaning: bool = False) -> Iterator[SyncMemoryRouter]:
    """The router, with its warnings as notes on `out`, if there is one.

    Only `by_meaning` it has vectors: the memories that other commands store get theirs from whoever searches next.
    """
    from kingly_memory.app.sync import SyncMemoryRouter

    settings = Settings.from_environment(home=place.home)
    with (
        warnings_on(out),
        SyncMemoryRouter.open(
            home=place.home,
            remote=place.remote or False,
            token=place.token,
            project=place.project,
            agent=place.agent,
            settings=settings if by_meaning else replace(settings, embedder="none"),
        ) as router,
    ):
        if by_meaning:
            router.await_vectors(VECTORS_WAIT_S)
        yield router


class _Notes(logging.Handler):
    """Shows warnings as notes, or keeps them quiet where the answer says the same."""

    def __init__(self, out: Output | None) -> None:
        super().__init__(logging.WARNING)
        self._noted = out

    def emit(self, record: logging.LogRecord) -> None:
        if self._noted is not None:
            self._noted.note(record.getMessage())


@contextmanager
def warnings_on(out: Output | None) -> Iterator[None]:
    log = logging.getLogger("kingly_memory")
    handler = _Notes(out)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _usable(remote: str, out: Output) -> str | None:
    from kingly_memory.adapters.remote.endpoint import endpoint

    try:
        endpoint(remote)
    except InvalidInput as error:
        out.note(f"{error}; going on without it")
        return None
    return remote
