"""Where a remote lives, checked once, with its secrets kept out of sight."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, unquote, urlsplit

from kingly_memory.dataclass import dataclass, field
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput

_URL_LIMIT = 2_048
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SHORTEST_TOKEN = 12
_UNFIT = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff\\]")
"""Spaces, control characters, lone surrogates, and the backslash, which some readers take for a slash."""
_SEVERAL = re.compile(r"^[^?#]*[\s,;]([\w-]+\s*=\s*)?https?://")
_COMMAND = re.compile(r"(?!\w+://)\S+\s+\S")
_IS_COMMAND = (
    "an address begins with http:// or https:// and has no spaces. A command over stdio cannot be a remote: start that "
    "server with its HTTP transport and name its address"
)
_NOT_A_HOST = re.compile(r"""[%/\\?#@\[\]<>"'^`{|}]""")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked address. `str()` shows it without what may be secrets: user info, query, and parts of the path that
    look like a token."""

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    query: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.origin + "/".join("\u2026" if _is_secret(part) else part for part in self.path.split("/"))

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def remote_name(self) -> str:
        """16 hex digits that stay the same however the address is written; secrets are not part of it."""
        host = "127.0.0.1" if self.host in ("localhost", "::1") else self.host
        normal = f"{self.scheme}://{host}:{self.port}{self.path}"
        return sha256(normal.encode()).hexdigest()[:16]

    @property
    def loopback(self) -> bool:
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, path: str) -> str:
        """The address to send to, query included: never for a log or an error."""
        return f"{self.origin}{self.path}{path}" + (f"?{self.query}" if self.query else "")


def _is_secret(part: str) -> bool:
    """True for a part of a path that is no word, and no more than a word with a few digits."""
    if len(part) < _SHORTEST_TOKEN or part.isalpha():
        return False
    from kingly_memory.text.redaction import is_name, redact

    return redact(part).count > 0 or (any(map(str.isdigit, part)) and not is_name(part))


def endpoint(url: object) -> Endpoint:
    """Check a remote's address. Raises InvalidInput, which never repeats the address: it may hold a password."""
    if not isinstance(url, str) or not url:
        raise InvalidInput("remote", "expected an address such as http://localhost:8000")
    if _SEVERAL.search(url):
        raise InvalidInput("remote", "several remotes are written with names: team=http://…, home=http://…")
    if _COMMAND.match(url):
        raise InvalidInput("remote", _IS_COMMAND)
    if len(url) > _URL_LIMIT or _UNFIT.search(url):
        raise InvalidInput("remote", "the address is too long or contains spaces, control characters or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput("remote", "the address has a host or port that cannot be read") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise InvalidInput("remote", "an address begins with http:// or https://, as in http://localhost:8000")
    if port == 0:
        raise InvalidInput("remote", "port 0 cannot be connected to")
    credentials = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    return Endpoint(
        scheme=parts.scheme,
        host=_host(parts),
        port=port or _DEFAULT_PORTS[parts.scheme],
        path=parts.path.rstrip("/"),
        credentials=credentials,
        query=parts.query,
    )


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    if not host or _NOT_A_HOST.search(host):
        raise InvalidInput("remote", "the address names no host")
    try:
        return str(ipaddress.IPv6Address(host)) if ":" in host else host
    except ValueError:
        raise InvalidInput("remote", "the address has a host that cannot be read") from None
