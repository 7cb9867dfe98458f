"""One bounded HTTP exchange: a deadline for the whole, a limit on what is read, nothing said about secrets.

The library's own limits do not serve: its timeouts are per read, its bodies unlimited, its redirects re-post bodies to
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
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import Any, TypeVar
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx

from kingly_memory.adapters.remote.endpoint import Endpoint
from kingly_memory.adapters.remote.outcomes import needs_body, result, status_text, succeeded
from kingly_memory.errors import InvalidInput, InvalidSetting, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.models import JsonObject
from kingly_memory.ports import Clock
from kingly_memory.validation import mended

T = TypeVar("T")

Token = str | Callable[[], str | None] | None
"""The token, or what looks it up: at the start, whenever it was refused, and as long as there is none."""

REPLY_LIMIT_BYTES = 1_048_576
"""Of a reply that is read: what is longer is no answer to a question of ours."""
_HEAD_LIMIT_BYTES = 16_384
"""Of what comes before the body of a reply: twice what usual servers send at most."""
_LOOKED_AT, _LEAST_CHUNK_BYTES = 256, 16
"""After so many chunks each has to have had that many bytes on average: each costs us more than it costs the server."""
_head_left: ContextVar[float] = ContextVar("head_left", default=math.inf)
_MOST_REDIRECTS = 3
_FOLLOWED = frozenset({307, 308})
"""The redirects that keep method and body. They are followed to the same origin only."""
_THREAD_ABOVE_BYTES = 65_536
_CERTIFICATES: Mapping[int, str] = {
    9: "is not valid yet; compare the clocks of both machines",
    10: "has expired; it has to be renewed there",
    62: "is for another name; name the remote as the certificate does",
    64: "is for another address; name the remote as the certificate does",
}
"""What is wrong, by OpenSSL's X509_V_ERR numbers."""


class KeptConnectionEnded(httpx.NetworkError):
    """A connection broke before an answer began, to a server that has answered before. It may have been kept since then
    and have ended meanwhile, which says nothing about the server."""


class Reply:
    """A reply whose head has arrived. Its body is read as it came, never more than the limit."""

    def __init__(self, response: httpx.Response, limit_bytes: int) -> None:
        self._response = response
        self._limit_bytes = limit_bytes
        self.status = response.status_code
        self.media = (self.header("content-type") or "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    async def body(self) -> bytes:
        """All of it. Where the status already says what the reply means, a bad or unneeded body is none."""
        if not needs_body(self.status):
            return b""
        body = bytearray()
        try:
            async for piece in self.pieces():
                body += piece
        except RemoteUnavailable:
            if succeeded(self.status):
                raise
            return b""
        return bytes(body)

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body as it comes, never decompressed. Raises RemoteUnavailable when it is longer than the limit."""
        too_long = RemoteUnavailable(f"the reply is longer than {self._limit_bytes:,} bytes", reached=True)
        if (self.header("content-encoding") or "identity").strip().lower() != "identity":
            raise RemoteUnavailable("the reply is compressed, which was not asked for", reached=True)
        if int(self.header("content-length") or 0) > self._limit_bytes:
            raise too_long
        length = chunks = 0
        async for chunk in self._response.aiter_raw():
            length += len(chunk)
            chunks += 1
            if length > self._limit_bytes:
                raise too_long
            yield chunk
            if chunks % _LOOKED_AT == 0:
                if length < chunks * _LEAST_CHUNK_BYTES:
                    raise RemoteUnavailable("the reply comes in pieces of a few bytes", reached=True)
                await asyncio.sleep(0)  # many chunks may have come in one piece


CONNECT_TIMEOUT_S = 2.0
Reading = Callable[[Reply], Awaitable[T]]
"""What becomes of a reply. It runs while the connection is held, and may leave the rest of the reply unread."""


class Transport:
    """Bounded HTTP exchanges with one endpoint. Belongs to one event loop; opens its client at the first exchange."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Clock,
        token: Token = None,
        reply_limit_bytes: int = REPLY_LIMIT_BYTES,
    ) -> None:
        self.endpoint = endpoint
        self.clock = clock
        self._token = token
        self._authorization: str | None = None
        self._has_to_look = False
        with suppress(RemoteUnauthorised):  # the first call raises it; what needs no remote goes on
            self._look_up(None)
        self.reply_limit_bytes = reply_limit_bytes
        self._client: httpx.AsyncClient | None = None
        self.heard_s = -math.inf
        """When the latest answer began, on the monotonic clock."""

    def __repr__(self) -> str:
        return f"<Transport {self.endpoint}>"

    async def post(self, path: str, payload: JsonObject, *, headers: Mapping[str, str], timeout_s: float) -> Any:
        """The JSON value of the answer. Raises a RemoteError by the table in `outcomes`, `timeout_s` later at most."""
        async with self.within(timeout_s) as exchange:
            return await exchange.post(path, payload, headers)

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

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def authorised(self, send: Callable[[str | None], Awaitable[T]]) -> T:
        """Send with the token; where it was refused and there is another one by now, once more."""
        if self._has_to_look:
            self._look_up(None)
        shown = self._authorization
        try:
            return await send(shown)
        except RemoteUnauthorised as refused:
            is_about_who = refused.status == HTTPStatus.UNAUTHORIZED
            if is_about_who and callable(self._token):
                self._look_up(refused.status)
            if self._authorization is None:
                raise RemoteUnauthorised(refused.status, "it wants a token, and none was shown") from None
            if not is_about_who or self._authorization == shown:
                raise
        return await send(self._authorization)

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

    @asynccontextmanager
    async def begun(
        self, verb: str, url: httpx.URL, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """The reply as soon as its head is there. Raises KeptConnectionEnded, or what the library raises."""
        client = self._opened()
        extensions = {"trace": _read_in_small_pieces}
        request = client.build_request(verb, url, content=body, headers=headers, extensions=extensions)
        try:
            response = await client.send(request, stream=True)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as problem:
            if self.heard_s > -math.inf and client is self._client:  # else we have closed it ourselves
                raise KeptConnectionEnded(str(problem)) from problem
            raise
        try:
            self.heard_s = self.clock.monotonic()
            yield response
        finally:
            await response.aclose()

    def _opened(self) -> httpx.AsyncClient:
        if self._client is not None:
            return self._client
        for name in ("httpx", "httpcore"):  # their INFO lines hold whole URLs, their DEBUG lines whole headers
            library = logging.getLogger(name)
            library.setLevel(max(library.level, logging.WARNING))
        # anyio says this when an event loop ends in the instant in which a connection begins. Nothing is lost by it.
        warnings.filterwarnings("ignore", r"coroutine '\w*connect_tcp\.<locals>", RuntimeWarning)
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "kingly-memory",
        }
        try:
            self._client = httpx.AsyncClient(
                headers=headers,
                timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
                trust_env=not self.endpoint.loopback,
                # Our own context: `trust_env`, off at home, would leave out SSL_CERT_FILE together with the proxies.
                # Plain HTTP needs no certificates, and loading them takes 30 ms: this context trusts nobody.
                verify=httpx.create_ssl_context()
                if self.endpoint.scheme == "https"
                else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
                follow_redirects=False,
            )
        except (ValueError, ImportError, OSError, httpx.InvalidURL):
            reason = "the proxy or certificate settings of the environment (HTTPS_PROXY, SSL_CERT_FILE) do not work"
            raise RemoteUnavailable(reason) from None
        return self._client

    def _trouble(self, problem: Exception) -> str:
        """Why there is no answer, in the system's words or ours, and which proxy stands between."""
        origin = self.endpoint.origin
        if isinstance(problem, httpx.ConnectTimeout):
            return f"{origin}: no connection within {CONNECT_TIMEOUT_S:g} s"
        # UnicodeError: a host such as `xn--.com`, which looks encoded and cannot be decoded.
        if isinstance(problem, httpx.InvalidURL | httpx.UnsupportedProtocol | UnicodeError):
            return f"{origin}: the address cannot be used"
        reason = why(problem) or "the connection broke, or it does not speak HTTP"
        proxy = next((one for one in (self.endpoint.scheme, "all") if one in getproxies()), None)
        if proxy is None or self.endpoint.loopback or proxy_bypass(self.endpoint.host):
            return f"{origin}: {reason}"
        return f"{origin}: {reason} (by way of the proxy in {proxy.upper()}_PROXY)"


class Exchange:
    """Requests one after the other. `reached`: the latest one was answered, if only in part."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.reached = False

    async def send(
        self,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        reading: Reading[T],
        *,
        verb: str = "POST",
    ) -> T:
        """What `reading` makes of the reply. `path` is added to the endpoint's address."""
        transport = self._transport

        async def answered(authorization: str | None) -> T:
            """Redirects are followed within the origin."""
            url = httpx.URL(transport.endpoint.url(path))
            sent_headers = {**headers, **({} if authorization is None else {"Authorization": authorization})}
            for _ in range(_MOST_REDIRECTS + 1):
                self.reached = False
                async with transport.begun(verb, url, body, sent_headers) as response:
                    self.reached = True
                    if response.status_code not in _FOLLOWED:
                        return await reading(Reply(response, transport.reply_limit_bytes))
                    url = _same_origin(url, response)
            raise RemoteUnavailable("the server redirects in a circle", reached=True)

        self.reached = False
        return await transport.authorised(lambda authorization: gently(partial(answered, authorization)))

    async def post(self, path: str, payload: JsonObject, headers: Mapping[str, str], *, reads: bool = False) -> Any:
        """The JSON value of the answer. `reads`: it is asked for once more where `twice_where_kept` says so."""

        async def value(reply: Reply) -> Any:
            body, now = await reply.body(), self._transport.clock.now()
            return await read_aside(len(body), result, reply.status, body, reply.header("retry-after"), now)

        send = partial(self.send, path, encoded(payload), headers, value)
        return await (twice_where_kept(send) if reads else send())


async def twice_where_kept(ask: Callable[[], Awaitable[T]]) -> T:
    """For what only reads: where its connection may have been a kept one that had ended, it is asked once more."""
    try:
        return await ask()
    except KeptConnectionEnded:
        return await ask()


async def gently(work: Callable[[], Awaitable[T]]) -> T:
    """What the work comes to. When the caller is cancelled, the work first gets the time to let go of its connections.

    The HTTP library shields what closes connections from the cancelling of anyio scopes alone. A task that is cancelled
    outright while it closes several leaves the others open, and nobody knows of them any more.
    """
    scope, found = anyio.CancelScope(), list[T]()

    async def scoped() -> None:
        with scope:
            found.append(await work())

    task = asyncio.ensure_future(scoped())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        scope.cancel()
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # of no interest any more
        await asyncio.wait({task}, timeout=1.0)
        raise
    return found[0]


async def read_aside(length: int, reader: Callable[..., T], *arguments: Any) -> T:
    """What `reader` makes of a text of that many bytes, off the event loop when that takes long enough to be felt."""
    if length > _THREAD_ABOVE_BYTES:
        return await asyncio.to_thread(reader, *arguments)
    return reader(*arguments)


def encoded(payload: JsonObject) -> bytes:
    return mended(json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))).encode()


def load() -> None:
    """Load what the first call would, so that its time is the server's: httpx leaves most of itself for later."""
    for name in ("httpcore", "h11", "anyio._backends._asyncio"):
        with suppress(ImportError):  # then the first call loads whatever is there instead
            import_module(name)


def _authorization(endpoint: Endpoint, token: str | None) -> str | None:
    if token is not None:
        if not re.fullmatch(r"[!-~]+", token):
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
    """A hook of httpcore's, which would read interim replies (1xx) for as long as they come: they cost us far more time
    than the server. In its pieces of 64 KiB the event loop would stand still for 100 ms at a time; 8 KiB are 300
    interim replies. What comes before the answer is counted, in the task of the request."""
    if event == "http11.receive_response_headers.started":
        _head_left.set(_HEAD_LIMIT_BYTES)
    elif event == "http11.receive_response_headers.complete":
        _head_left.set(math.inf)
    elif event.endswith(("connect_tcp.complete", "start_tls.complete")):
        stream = info["return_value"]
        read = stream.read

        async def read_piece(most_bytes: int, **limits: Any) -> bytes:
            left = _head_left.get()
            if left <= 0:
                raise RemoteUnavailable(f"the server sends more than {_HEAD_LIMIT_BYTES:,} bytes before its answer")
            piece: bytes = await read(min(most_bytes, 8_192), **limits)
            _head_left.set(left - len(piece))
            return piece

        stream.read = read_piece


def why(problem: BaseException) -> str | None:
    """What the system says of a connection that failed, where it says anything."""
    return next(filter(None, map(_words, _causes(problem))), None)


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
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else None
