"""Running the hub: one process, one home, one port, until a signal stops it."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from starlette.routing import Route

from kingly_memory.adapters.audit import AuditFiles
from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.local.folder import locked
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.app.parts import light_meaning
from kingly_memory.errors import InvalidSetting, StoreBusy
from kingly_memory.extras import require
from kingly_memory.home.own_files import make_folder, writing_to
from kingly_memory.home.place import HUB_LOCK, hub_home
from kingly_memory.home.secret_file import secret
from kingly_memory.hub.access import Access, Gate
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.grants import FILE
from kingly_memory.hub.listening import address, listener, quiet_server, stop_with_input, stopped_by_signals
from kingly_memory.hub.logs import lines_to, warnings_to_stderr
from kingly_memory.hub.methods import METHODS
from kingly_memory.hub.server import Draining, Overseen, application
from kingly_memory.hub.traffic import Traffic
from kingly_memory.hub.vectors import Vectors
from kingly_memory.ports import LocalStore
from kingly_memory.settings import Settings
from kingly_memory.version import __version__

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000


def run_hub(
    home: Path | None = None,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    token: str | None = None,
    token_file: Path | None = None,
    tokens_file: Path | None = None,
    store: str | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    access_log: bool = False,
    until_eof: bool = False,
    as_json: bool = False,
    page: Callable[[Overseen], Sequence[Route]] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or with `until_eof` until standard input ends.

    `store` is the address of a PostgreSQL that keeps the memories, which several hubs may share. Port 0 takes a free
    one; a line on standard output says which, `as_json` as {"url": …}. With `access_log` a line about each call
    follows. `page` makes the places of a page about the hub. Off loopback a token is required. Where the light
    embedder is installed, memories are found by meaning too. Raises InvalidSetting before anything is opened,
    StoreError when the home or the store cannot be used.
    """

    def allowed() -> Access:
        given = token if token_file is None else secret(token_file, "token_file")
        return Access.of(given, tokens_file, folder)

    folder = hub_home() if home is None else home
    gate = Gate(allowed, [path for path in (token_file, tokens_file, folder / FILE) if path is not None])
    gate.access.check_bind(host)
    tls = certified(tls_cert, tls_key)
    settings = Settings.from_environment(home=folder)
    light = light_meaning(settings)
    with ExitStack() as stack:
        with writing_to(folder):  # several hubs may share it that keep their memories elsewhere
            make_folder(folder)
        if store is None:
            _stay_alone(folder, stack)
        stack.enter_context(warnings_to_stderr())
        kept = opened(folder, store)
        stack.callback(kept.close)
        taken = stack.enter_context(listener(host, port))
        audit = AuditFiles(folder / "audit")
        vectors = None
        if light is not None:
            vectors = Vectors(kept, *light, settings.words_weight)
            stack.callback(vectors.close)
            vectors.start()
        engine = Engine(kept, SystemClock(), __version__, audit, vectors)
        stack.callback(engine.homes.close)
        draining, note = Draining(), stack.enter_context(lines_to(sys.stdout)) if access_log else None
        traffic = Traffic("kingly_hub", METHODS, note)
        hub = Overseen(kept, _where(folder, store), engine.homes, gate, traffic, folder, __version__)
        places = () if page is None else page(hub)
        served = application(engine, gate, __version__, traffic=traffic, draining=draining, page=places)
        server = quiet_server(served, lifespan=True, may_close=draining.is_over, tls=tls)
        stack.enter_context(stopped_by_signals(server))
        if until_eof:
            stop_with_input(server)
        url = address(host, taken.getsockname()[1], "http" if tls is None else "https")
        sys.stdout.write(f"{json.dumps({'url': url}) if as_json else f'kingly-hub listening on {url}'}\n")
        sys.stdout.flush()
        server.run(sockets=[taken])


def certified(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    """Both files, or None where nothing is to be encrypted. Raises InvalidSetting for what cannot be used."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        named, other = ("tls_cert", "--tls-key") if key is None else ("tls_key", "--tls-cert")
        raise InvalidSetting(named, f"is of no use without {other}; name both, or neither")
    secret(key, "tls_key")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError:
        problem = f"{certificate} and {key} are no certificate and its private key, in PEM and without a password"
        raise InvalidSetting("tls_cert", problem) from None
    except OSError as error:
        raise InvalidSetting("tls_cert", f"{certificate} cannot be read ({error.strerror})") from None
    return certificate, key


def opened(home: Path, address: str | None) -> LocalStore:
    """The store of a hub: that of its home, or the PostgreSQL at an address. Raises InvalidSetting, StoreError,
    ExtraMissing."""
    if address is None:
        return DiskStore(home)
    if not address.startswith(("postgresql://", "postgres://")):
        raise InvalidSetting("store", "is no address of PostgreSQL; write postgresql://user@host:5432/database")
    require("postgres", "`kingly-memory hub --store`")
    from kingly_memory.hub.postgres.store import PostgresStore

    return cast("LocalStore", PostgresStore(address))


def _where(home: Path, address: str | None) -> str:
    if address is None:
        return str(home)
    from kingly_memory.hub.postgres.failures import shown

    return shown(address)


def _stay_alone(home: Path, stack: ExitStack) -> None:
    """A home has one hub: several of them share a PostgreSQL."""
    try:
        stack.enter_context(locked(home / HUB_LOCK, 0))
    except StoreBusy:
        problem = f"{home} is being served by another hub; stop that one or name another home"
        raise InvalidSetting("home", problem) from None
