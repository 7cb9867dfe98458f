"""Who may call a server of ours: those with a token, under a name that is its own, and no foreign web page."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidSetting, StoreError
from kingly_memory.home.secret_file import secret
from kingly_memory.hub.grants import ANYBODY, DEFAULT_NAMESPACE, Grant, Grants, digest
from kingly_memory.observe import log
from kingly_memory.validation import mended

CALLER = "kingly.caller"
"""Where a request's scope says who calls, for whoever is handed the request."""
REFUSED = "kingly.refused"
"""Where a request's scope says that its caller is refused, and waits to be told so."""

_TOKEN = re.compile(r"[!-~]+")
_SHORTEST_TOKEN = 16
_WRONG_TOKEN = 401
_PAUSE_S, _LONGEST_PAUSE_S, _REMEMBERED_S = 0.01, 1.0, 60.0
"""For each wrong token of the last minute the next one is answered so much later."""


class Refusal(Exception):
    """Why a call is not answered: an HTTP status, what to say with it, and the field it is about."""

    def __init__(self, status: int, reason: str, field: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.field, self.retry_after_s = status, reason, field, retry_after_s


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: what the token grants, how many memories its namespace may keep, and what the headers say of project,
    user, home and idempotency key.

    `for_all`: it is about what the user keeps for every project, and no project is named.
    """

    grant: Grant
    project: str | None = None
    key: str | None = None
    user: str | None = None
    home: str | None = None
    for_all: bool = False
    quota: int | None = None

    @classmethod
    def of(cls, grant: Grant, quota: int | None, headers: Mapping[str, str]) -> Caller:
        """`headers` has lower-case names; their values are percent-encoded."""
        values = {name: headers.get(f"kingly-{name}") for name in ("project", "user", "home")}
        values["key"], for_all = headers.get("idempotency-key"), values["project"] == "*"
        given = {name: unquote(value) for name, value in values.items() if value is not None}
        return cls(grant, **{**given, "project": None} if for_all else given, for_all=for_all, quota=quota)


@dataclass(frozen=True, slots=True)
class Access:
    """Who is let in: who brings one of the `tokens`, by their digests; where none `is_needed`, everybody. One that
    `is_local` answers under names of this machine alone, and `remedy` is what to do about another name."""

    tokens: Mapping[str, Grant] = field(repr=False)
    is_local: bool
    remedy: str = "give this hub a token"
    is_needed: bool = True
    quotas: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, token: str | None, tokens_file: Path | None, home: Path | None = None) -> Access:
        """Tokens of a JSON file `{token: namespace}`, which its owner alone may read, one more for the default
        namespace, and those that were made for the hub of that home. Without any, this machine alone is let in.

        Raises InvalidSetting, which never repeats a token.
        """
        namespaces = {} if tokens_file is None else _read(tokens_file)
        if token is not None:
            namespaces.setdefault(token, DEFAULT_NAMESPACE)
        for one in namespaces:
            check_token(one)
        made = Grants() if home is None else Grants.read(home)
        given = {digest(one): Grant("a token of a file", namespace) for one, namespace in namespaces.items()}
        is_needed = bool(given) or made.is_needed
        return cls({**made.by_digest, **given}, not is_needed, is_needed=is_needed, quotas=made.quotas)

    def check_bind(self, host: str) -> None:
        """Raise InvalidSetting if the hub would be open to a network without a token."""
        if not self.is_needed and not is_loopback(host):
            raise InvalidSetting(
                "host",
                f"{host!r} can be reached from other machines and no token is set. "
                "Make one with `kingly-memory hub tokens create NAME`, set KINGLY_HUB_TOKEN, or listen on 127.0.0.1",
            )

    def admit(self, headers: Mapping[str, str]) -> Caller:
        """Who calls. `headers` has lower-case names. Raises Refusal."""
        self.check_names(headers)
        # Every token is compared to the end, so that the time taken tells nothing.
        brought = _brought(headers)
        found = [grant for token_digest, grant in self.tokens.items() if hmac.compare_digest(token_digest, brought)]
        if self.is_needed and not found:
            raise Refusal(_WRONG_TOKEN, "a valid bearer token is needed")
        grant = found[0] if found else ANYBODY
        return Caller.of(grant, self.quotas.get(grant.namespace), headers)

    def check_names(self, headers: Mapping[str, str]) -> None:
        """Raise Refusal for a call that the server does not answer even at `/health`.

        A web page can make a browser call a loopback server, under a name of its own (DNS rebinding) or across origins.
        Both show: in Host and in Origin. They are looked at before the token, so that such a page learns nothing more.
        A hub with tokens is safe from any page, and may have any name.
        """
        if not self._is_ours(host_of(f"//{headers.get('host', '')}")):
            raise Refusal(421, f"this server does not answer under that name; {self.remedy}")
        origin = headers.get("origin")
        if origin is not None and not self._is_ours(host_of(origin)):
            raise Refusal(403, f"this server answers no foreign web page; {self.remedy}")

    def _is_ours(self, host: str) -> bool:
        return not self.is_local or is_loopback(host)


class Gate:
    """Lets in whom `allowed` says, as the files with the tokens are just now, so that a token is replaced without a
    restart. A file that cannot be used leaves the tokens as they were.

    Who brings a wrong token is answered later the more wrong ones there were, a second at most; whoever brings a right
    one never waits.
    """

    def __init__(
        self,
        allowed: Callable[[], Access],
        files: Sequence[Path] = (),
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._allowed, self._files = allowed, [path.expanduser() for path in files]
        self._monotonic, self._sleep = monotonic, sleep
        self._seen, self._access = self._looks(), allowed()
        self._failures_s: deque[float] = deque(maxlen=round(_LONGEST_PAUSE_S / _PAUSE_S))

    @property
    def access(self) -> Access:
        """Who is let in just now."""
        looks = self._looks()
        if looks != self._seen:
            self._seen = looks
            try:
                self._access = self._allowed()
            except (InvalidSetting, StoreError) as error:
                log.warning("the tokens stay as they were: %s", error)
        return self._access

    async def admit(self, headers: Mapping[str, str], scope: MutableMapping[str, Any] | None = None) -> Caller:
        """As `Access.admit`. `scope`: that of the request, where it is said when its caller has to wait."""
        try:
            return self.access.admit(headers)
        except Refusal as refusal:
            if refusal.status == _WRONG_TOKEN:
                now_s = self._monotonic()
                while self._failures_s and self._failures_s[0] < now_s - _REMEMBERED_S:
                    self._failures_s.popleft()
                self._failures_s.append(now_s)
                if scope is not None:
                    scope[REFUSED] = True
                await self._sleep(_PAUSE_S * len(self._failures_s))
            raise

    def _looks(self) -> list[tuple[int, ...] | None]:
        return [_look(path) for path in self._files]


def _look(path: Path) -> tuple[int, ...] | None:
    """What changes with a file. `st_ctime_ns` does when only its mode changes, from one that was refused."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_loopback(host: str) -> bool:
    """True for names and addresses that only this machine can reach."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: str) -> None:
    """Raise InvalidSetting, which never repeats it, for a token that cannot be sent or may be guessed."""
    if not _TOKEN.fullmatch(token):
        raise InvalidSetting("token", "must be visible ASCII characters without spaces, and not empty")
    if len(token) < _SHORTEST_TOKEN:
        what = f"is shorter than {_SHORTEST_TOKEN} characters and could be guessed; use a longer one"
        raise InvalidSetting("token", f"{what}, as `python -c 'import secrets; print(secrets.token_urlsafe())'` makes")


def _brought(headers: Mapping[str, str]) -> str:
    """The digest of the token that a request with these headers brings; of none, that of no token."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return digest(given.strip()) if scheme.lower() == "bearer" else ""


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _read(path: Path) -> dict[str, str]:
    text = secret(path, "tokens_file")
    try:
        namespaces = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidSetting("tokens_file", f"{path} is not valid JSON") from None
    if not isinstance(namespaces, dict) or not namespaces:
        raise InvalidSetting("tokens_file", f"{path} must hold a JSON object of token: namespace")
    if not all(isinstance(name, str) and name.strip() for name in namespaces.values()):
        raise InvalidSetting("tokens_file", f"{path} names a namespace that is empty or not text")
    return {token: mended(name) for token, name in namespaces.items()}
