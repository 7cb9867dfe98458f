"""One bounded HTTP exchange: a deadline for the whole, a cap on what is read, nothing said about secrets.

The library's own limits do not serve: its timeouts are per read, its bodies unlimited, its redirects re-post them to
other hosts, and its log lines hold whole URLs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import Any, NamedTuple, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx

from kingly_memory.adapters.remote.cancelling import gently
from kingly_memory.adapters.remote.endpoint import Endpoint
from kingly_memory.adapters.remote.outcomes import result, status_text
from kingly_memory.adapters.remote.replies import Reply
from kingly_memory.errors import InvalidInput, InvalidSetting, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.intake import mended
from kingly_memory.models import JsonObject
from kingly_memory.ports import Clock

Token = str | Callable[[], str | None] | None
"""What callers show, or where to look it up: at the start, whenever it was refused, and as long as there is none."""

_TOKEN = re.compile(r"[!-~]+")
_MOST_REDIRECTS = 3
_FOLLOWED = frozenset({307, 308})
"""The redirects that keep method and body; they are followed to the same origin only."""
_CERTIFICATES: Mapping[int, str] = {
    9: "is not valid yet; compare the clocks of both machines",
    10: "has expired; it has to be renewed there",
    62: "is for another name; name the remote as the certificate does",
    64: "is for another address; name the remote as the certificate does",
}
"""What is wrong, by OpenSSL's X509_V_ERR numbers."""
_PIECE_BYTES = 8_192
"""Of a connection, at a time: 300 interim replies."""
_THREAD_ABOVE_BYTES = 65_536
"""Reading more JSON than this takes long enough to be felt on the event loop."""


T = TypeVar("T")

Reading = Callable[[Reply], Awaitable[T]]
"""What becomes of a reply; runs while the connection is held, and may leave the rest of the reply unread."""


class Worn(httpx.NetworkError):
    """A connection broke before an answer began, to a server that has answered before: it may have been kept since then
    and have ended meanwhile, which says nothing of the server."""


class Letter(NamedTuple):
    """One request: `path` is added to the endpoint's address."""

    path: str
    body: bytes
    headers: Mapping[str, str]
    verb: str = "POST"


class Transport:
    """Bounded HTTP exchanges with one endpoint. Belongs to one event loop; opens its client at the first one."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Clock,
        token: Token = None,
        connect_timeout_s: float = 2.0,
        reply_limit_bytes: int = 1_048_576,
    ) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._token = token
        self._authorization: str | None = None
        self._has_to_look = False
        with suppress(RemoteUnauthorised):  # who calls is told: what needs no remote goes on
            self._look_up(None)
        self._connect_timeout_s = connect_timeout_s
        self._reply_limit_bytes = reply_limit_bytes
        self._client: httpx.AsyncClient | None = None
        self.heard_s = -math.inf
        """When the latest answer began, on the monotonic clock."""

    def __repr__(self) -> str:
        return f"<Transport {self.endpoint}>"

    async def post(
        self, path: str, payload: JsonObject, *, headers: Mapping[str, str], timeout_s: float, reads: bool = False
    ) -> Any:
        """The JSON value of the answer. Raises a RemoteError by the table in `outcomes`, `timeout_s` later at most."""
        async with self.within(timeout_s) as exchange:
            send = partial(exchange.send, Letter(path, encoded(payload), headers), self._value)
            return await (twice_if_worn(send) if reads else send())

    @asynccontextmanager
    async def within(self, timeout_s: float) -> AsyncIterator[Exchange]:
        """Requests that must all be answered in that time. Whatever breaks or takes longer is a RemoteUnavailable."""
        exchange = Exchange(self)
        try:
            async with asyncio.timeout(timeout_s):
                yield exchange
        except TimeoutError:
            time = f"{timeout_s:.3g} s" if timeout_s >= 1 else f"{timeout_s * 1000:.0f} ms"
            reason = f"{self.endpoint.origin}: no complete answer within {time}"
            raise RemoteUnavailable(reason, reached=exchange.reached, timed_out=True) from None
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, UnicodeError, OSError) as problem:
            # `from None`: the library's texts quote what the server sent.
            raise RemoteUnavailable(self._trouble(problem), reached=exchange.reached) from None

    def now(self) -> datetime:
        return self._clock.now()

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def delivered(self, letter: Letter, reading: Reading[T], exchange: Exchange) -> T:
        """A request and its reply, and where its token was refused and there is another by now, both once more."""
        if self._has_to_look:
            self._look_up(None)
        shown = self._authorization
        try:
            return await self._sent(letter, reading, exchange)
        except RemoteUnauthorised as refused:
            is_about_who = refused.status == HTTPStatus.UNAUTHORIZED
            if is_about_who and callable(self._token):
                self._look_up(refused.status)
            if self._authorization is None:
                raise RemoteUnauthorised(refused.status, "it wants a token, and none was shown") from None
            if not is_about_who or self._authorization == shown:
                raise
        return await self._sent(letter, reading, exchange)

    def _look_up(self, refused: int | None) -> None:
        """Ask again for the token. Raises RemoteUnauthorised where its file cannot serve (any more)."""
        if not callable(self._token):
            self._authorization = _authorization(self.endpoint, self._token)
            return
        self._has_to_look = True
        try:
            self._authorization = _authorization(self.endpoint, self._token())
        except (InvalidInput, InvalidSetting) as problem:
            before = "" if refused is None else "the token was not accepted, and there is no other: "
            raise RemoteUnauthorised(refused, f"{before}{problem}") from None
        self._has_to_look = False

    async def _sent(self, letter: Letter, reading: Reading[T], exchange: Exchange) -> T:
        return await gently(lambda: self._exchanged(letter, reading, exchange))

    async def _exchanged(self, letter: Letter, reading: Reading[T], exchange: Exchange) -> T:
        client = self._opened()
        url = httpx.URL(self.endpoint.url(letter.path))
        headers = dict(letter.headers)
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        for _ in range(_MOST_REDIRECTS + 1):
            exchange.reached = False
            response = await self._begun(client, letter, url, headers)
            try:
                exchange.reached = True
                self.heard_s = self._clock.monotonic()
                if response.status_code not in _FOLLOWED:
                    return await reading(Reply(response, self._reply_limit_bytes))
                url = _same_origin(url, response)
            finally:
                await response.aclose()
        raise RemoteUnavailable("the server redirects in a circle", reached=True)

    async def _begun(
        self, client: httpx.AsyncClient, letter: Letter, url: httpx.URL, headers: Mapping[str, str]
    ) -> httpx.Response:
        """The reply as soon as its head is there; it has to be closed. Raises Worn, or what the library raises."""
        request = client.build_request(
            letter.verb, url, content=letter.body, headers=headers, extensions={"trace": _read_in_small_pieces}
        )
        try:
            return await client.send(request, stream=True)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as problem:
            if self.heard_s > -math.inf and client is self._client:  # else we have closed it ourselves
                raise Worn(str(problem)) from problem
            raise

    async def _value(self, reply: Reply) -> Any:
        body = await reply.body()
        return await read_aside(len(body), result, reply.status, body, reply.header("retry-after"), self.now())

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                self._client = self._new_client()
            except (ValueError, ImportError, OSError, httpx.InvalidURL):
                reason = "the proxy or certificate settings of the environment (HTTPS_PROXY, SSL_CERT_FILE) do not work"
                raise RemoteUnavailable(reason) from None
        return self._client

    def _new_client(self) -> httpx.AsyncClient:
        _hush_libraries()
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "kingly-memory",
        }
        return httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=self._connect_timeout_s),
            trust_env=not self.endpoint.loopback,
            # of its own: `trust_env`, off at home, would leave out SSL_CERT_FILE with the proxies
            verify=httpx.create_ssl_context() if self.endpoint.scheme == "https" else _no_certificates(),
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
        )

    def _trouble(self, problem: Exception) -> str:
        """Why there is no answer, in the system's words or ours."""
        origin = self.endpoint.origin
        if isinstance(problem, httpx.ConnectTimeout):
            return f"{origin}: no connection within {self._connect_timeout_s:g} s"
        # UnicodeError: a host such as `xn--.com`, which looks encoded and cannot be decoded.
        if isinstance(problem, httpx.InvalidURL | httpx.UnsupportedProtocol | UnicodeError):
            return f"{origin}: the address cannot be used"
        causes = (_words(cause) for cause in _causes(problem))
        reason = next(filter(None, causes), "the connection broke, or it does not speak HTTP")
        return f"{origin}: {reason}{self._way()}"

    def _way(self) -> str:
        """What stands between, so that its troubles are not taken for the server's."""
        here, proxies = self.endpoint, getproxies()
        named = next((one for one in (here.scheme, "all") if one in proxies), None)
        if named is None or here.loopback or proxy_bypass(here.host):
            return ""
        return f" (by way of the proxy in {named.upper()}_PROXY)"


class Exchange:
    """Requests one after the other. `reached`: the latest one was answered, if only in part."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.reached = False

    def now(self) -> datetime:
        return self._transport.now()

    async def send(self, letter: Letter, reading: Reading[T]) -> T:
        """What `reading` makes of the reply. Redirects are followed within the origin."""
        self.reached = False
        return await self._transport.delivered(letter, reading, self)


async def twice_if_worn(ask: Callable[[], Awaitable[T]]) -> T:
    """For what only reads: where its connection may have been a kept one that had ended, it is asked once more."""
    try:
        return await ask()
    except Worn:
        return await ask()


async def read_aside(length: int, reader: Callable[..., T], *arguments: Any) -> T:
    """What `reader` makes of a text of that many bytes, off the event loop when that takes long."""
    if length > _THREAD_ABOVE_BYTES:
        return await asyncio.to_thread(reader, *arguments)
    return reader(*arguments)


def encoded(payload: JsonObject) -> bytes:
    return mended(json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))).encode()


def _authorization(endpoint: Endpoint, token: str | None) -> str | None:
    if token is not None:
        if not _TOKEN.fullmatch(token):
            raise InvalidInput("token", "is empty or contains characters that an HTTP header cannot hold")
        return f"Bearer {token}"
    if endpoint.credentials is not None:
        return "Basic " + base64.b64encode(":".join(endpoint.credentials).encode()).decode()
    return None


def _same_origin(url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """Where a redirect leads, if it stays with the server that was named."""
    target = url.join(response.headers.get("location", ""))
    if (target.scheme, target.raw_host, target.port, target.userinfo) != (url.scheme, url.raw_host, url.port, b""):
        text = f"{status_text(response.status_code)}, to another server; name the server's final address"
        raise RemoteUnavailable(text, reached=True)
    return target


async def _read_in_small_pieces(event: str, info: dict[str, Any]) -> None:
    """A hook of httpcore's. It reads interim replies (1xx), however many they are, until it waits for more bytes: in
    pieces of 64 KiB the event loop would stand still for 100 ms at a time."""
    if event.endswith(("connect_tcp.complete", "start_tls.complete")):
        stream = info["return_value"]
        stream.read = partial(_read_piece, stream.read)


async def _read_piece(read: Callable[..., Awaitable[bytes]], most_bytes: int, **limits: Any) -> bytes:
    return await read(min(most_bytes, _PIECE_BYTES), **limits)


def load() -> None:
    """Load what the first call would, so that its time is the server's: httpx leaves most of itself for later."""
    for name in ("httpcore", "h11", "anyio._backends._asyncio"):
        with suppress(ImportError):  # then the first call loads whatever is there instead
            import_module(name)


def _hush_libraries() -> None:
    """Their INFO lines hold whole URLs, their DEBUG lines whole headers."""
    for name in ("httpx", "httpcore"):
        library = logging.getLogger(name)
        library.setLevel(max(library.level, logging.WARNING))


def _no_certificates() -> ssl.SSLContext:
    """Trusts nobody: plain HTTP needs no certificates, and loading the usual ones takes 30 ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _causes(problem: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = problem
    while cause is not None:
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            yield from cause.exceptions
        cause = cause.__cause__ or cause.__context__


def _words(cause: BaseException) -> str | None:
    if isinstance(cause, socket.gaierror):
        return "the host name is not known"
    if isinstance(cause, ssl.SSLCertVerificationError):
        unknown = "is not trusted; name the authority that signed it in SSL_CERT_FILE"
        return f"the server's certificate {_CERTIFICATES.get(cause.verify_code, unknown)}"
    if isinstance(cause, ssl.SSLError):
        return "no secure connection could be agreed on"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno)
    return None
