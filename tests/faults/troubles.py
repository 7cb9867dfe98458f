"""The faults of a remote as one table: what is played, and what it means for those who ask."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.faults.network import Network
from tests.scripted.remote import ScriptedRemote

DIALECTS = ("json-call", "mcp")
PATHS = {"json-call": "/mcp/call", "mcp": "/mcp"}
TOKEN = "canary-of-a-token"
FAR_AHEAD, LONG_AGO = "Fri, 31 Dec 2199 23:59:59 GMT", "Sat, 01 Jan 2000 00:00:00 GMT"


class Means(Enum):
    """What a fault is taken for: the one class of error that it becomes."""

    LATER = "RemoteUnavailable: tried again for as long as it takes"
    REFUSED = "RemoteRefused: dead at once, or after ten times; kept and visible"
    PAUSED = "RemoteUnauthorised: everything waits, nothing dies"
    NOTHING = "no error at all"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault. `row` is its number in docs/reliability.md. A `searched` one leaves a search with a reply that can be
    read; `network` breaks the way rather than the server; `only` names the dialect that knows it."""

    row: int
    name: str
    play: str = "ok"
    means: Means = Means.LATER
    searched: bool = False
    network: Callable[[Network], None] | None = None
    only: str | None = None

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


TROUBLES = (
    Trouble(1, "refused connections", network=Network.refuse),
    Trouble(2, "server killed", "stop"),
    Trouble(2, "connection reset", "reset"),
    Trouble(2, "network cut in the head of a reply", network=lambda one: one.cut_after(10)),
    Trouble(2, "network cut in the middle of a reply", network=lambda one: one.cut_after(130)),
    Trouble(3, "connections never taken", network=Network.ignore),
    Trouble(3, "network swallows everything", network=Network.swallow),
    Trouble(3, "hang before the head", "hang"),
    Trouble(3, "hang after the effect", "late"),
    Trouble(4, "500", "status=500"),
    Trouble(4, "503", "status=503"),
    Trouble(4, "408", "status=408"),
    Trouble(4, "425", "status=425"),
    Trouble(5, "429", "status=429"),
    Trouble(5, "429 in 2 s", "status=429 2"),
    Trouble(5, "429 at once", "status=429 0"),
    Trouble(5, "429 a second ago", "status=429 -1"),
    Trouble(5, "429 in 31 years", "status=429 999999999"),
    Trouble(5, "429 long ago", f"status=429 {LONG_AGO}"),
    Trouble(5, "429 far ahead", f"status=429 {FAR_AHEAD}"),
    Trouble(5, "429 abc", "status=429 abc"),
    Trouble(6, "garbage", "garbage"),
    Trouble(6, "login page", "html"),
    Trouble(6, "204", "no-content"),
    Trouble(6, "empty", "empty"),
    Trouble(6, "NaN", "nan"),
    Trouble(6, "huge integer", "huge-int"),
    Trouble(6, "deep JSON", "deep"),
    Trouble(6, "wide JSON", "wide"),
    Trouble(6, "many strings", "strings", searched=True),
    Trouble(6, "bad UTF-8", "bad-utf8"),
    Trouble(6, "a list instead", "json=[]", searched=True),
    Trouble(6, "a number instead", "json=17"),
    Trouble(6, "half a reply", "truncated"),
    Trouble(6, "answer to another request", "wrong-id", only="mcp"),
    Trouble(6, "text instead of a result", "text=Done", only="mcp"),
    Trouble(6, "session lost again and again", "lost-session", only="mcp"),
    Trouble(6, "JSON-RPC error", "rpc-error=-32603", Means.REFUSED, only="mcp"),
    Trouble(7, "gzip bomb", "gzip-bomb"),
    Trouble(7, "gzip bomb in gzip", "double-gzip"),
    Trouble(7, "200 MB", "huge"),
    Trouble(7, "endless chunks", "endless"),
    Trouble(7, "endless tiny chunks", "tiny-chunks"),
    Trouble(7, "endless interim replies", "interim"),
    Trouble(8, "effect and no reply", "lost-reply"),
    Trouble(9, "trickled body", "trickle"),
    Trouble(9, "trickled head", "header-trickle"),
    Trouble(9, "a network of 200 bytes a second", network=lambda one: one.slow(bytes_per_s=200)),
    Trouble(10, "tool says the arguments are wrong", "failure=INVALID_PARAMETER", Means.REFUSED),
    Trouble(10, "tool fails", "failure=TOOL_ERROR", Means.REFUSED),
    Trouble(10, "tool fails somehow", "failure", Means.REFUSED),
    Trouble(10, "error in a success", "error", Means.REFUSED),
    Trouble(10, "404", "status=404", Means.REFUSED),
    Trouble(10, "413", "status=413", Means.REFUSED),
    Trouble(10, "422", "status=422", Means.REFUSED),
    Trouble(11, "token expired", "status=401", Means.PAUSED),
    Trouble(11, "forbidden", "status=403", Means.PAUSED),
    Trouble(12, "redirected elsewhere, 301", "redirect=301 {elsewhere}"),
    Trouble(12, "redirected elsewhere, 302", "redirect=302 {elsewhere}"),
    Trouble(12, "redirected elsewhere, 307", "redirect=307 {elsewhere}"),
    Trouble(12, "redirected elsewhere, 308", "redirect=308 {elsewhere}"),
    Trouble(12, "redirected in a circle", "redirect=307 {here}"),
)


class Place:
    """A remote with a network before it, and another server nearby that nobody named."""

    def __init__(self, dialect: str, server: ScriptedRemote, network: Network, elsewhere: ScriptedRemote) -> None:
        self._path = PATHS[dialect]
        self.server = server
        self.network = network
        self.elsewhere = elsewhere

    @property
    def url(self) -> str:
        return self.network.url

    def strike(self, trouble: Trouble) -> None:
        """From now on the trouble is there, also for who is connected already."""
        if trouble.network is not None:
            trouble.network(self.network)
            return
        if trouble.play == "stop":
            self.server.stop()
            self.network.cut()
            return
        play = trouble.play.replace("{elsewhere}", self.elsewhere.url + self._path)
        self.server.always(play.replace("{here}", self.network.url + self._path))

    def mend(self) -> None:
        """Server and network are as they should be; calls that still hung have ended."""
        self.server.always("ok")
        self.server._script.clear()
        self.server.stop()
        self.server.start()
        self.network.mend()


@contextlib.contextmanager
def placed(dialect: str) -> Iterator[Place]:
    """A place that works."""
    with (
        ScriptedRemote(token=TOKEN, **speaking(dialect)) as server,
        ScriptedRemote(**speaking(dialect)) as elsewhere,
        Network(server.port) as network,
    ):
        yield Place(dialect, server, network, elsewhere)
        assert elsewhere.requests + elsewhere.handshakes == []


def speaking(dialect: str) -> dict[str, Any]:
    """What makes a scripted remote speak that."""
    return {"dialect": dialect}
