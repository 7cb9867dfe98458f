"""Who may call the server over HTTP: callers with the token, under a name of this machine, and no foreign web page."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from kingly_memory.adapters.local.folder import Folder
from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidSetting, StoreUnwritable
from kingly_memory.hub.access import Refusal, brings, check_token, host_of, is_loopback
from kingly_memory.own_files import check_no_link
from kingly_memory.secret_file import secret

TOKEN_FILE = "mcp-token"  # noqa: S105  # its name

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9a-fA-F:]+")
_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets in who brings the token. `hosts` are the names, as `_plain` writes them, under which it may be called
    besides those of this machine."""

    token: str = field(repr=False)
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, token: str, hosts: Collection[str] = ()) -> Gate:
        """Raises InvalidSetting, which never repeats the token."""
        check_token(token)
        for host in hosts:
            if not _HOST.fullmatch(host) or not _plain(host):
                raise InvalidSetting("allow_host", f"{host[:60]!r} is no host name; leave out scheme and port")
        return cls(token, frozenset(_plain(host) for host in hosts))

    def refusal(self, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request is not let in, or None. `headers` has lower-case names.

        The name comes first: a web page that had its own name point here (DNS rebinding) learns nothing more.
        """
        if not self._is_ours(host_of(f"//{headers.get('host', '')}")):
            return Refusal(421, "this server does not answer under that name; see --allow-host")
        origin = headers.get("origin")
        if origin is not None and not self._is_ours(host_of(origin)):
            return Refusal(403, "this server answers no foreign web page; see --allow-host")
        if not brings(headers, self.token):
            return Refusal(401, "a valid bearer token is needed")
        return None

    def _is_ours(self, host: str) -> bool:
        return is_loopback(host) or _plain(host) in self.hosts


def check_bind(host: str, *, token_given: bool, hosts: Collection[str]) -> None:
    """Raise InvalidSetting if the server would be open to a network without a token and the names it is called by."""
    if is_loopback(host) or (token_given and hosts):
        return
    lacking = "no token is given" if not token_given else "no --allow-host says by which name"
    raise InvalidSetting(
        "host",
        f"{host!r} can be reached from other machines and {lacking}. Set KINGLY_MCP_TOKEN or --mcp-token-file, "
        "and name the server's own host with --allow-host; or listen on 127.0.0.1",
    )


def token_in(path: Path) -> str:
    """The token in a file that its owner alone may read. Raises InvalidSetting, which never repeats it."""
    return secret(path, "mcp_token_file")


def own_token(home: Path) -> tuple[str, Path]:
    """The home's own token, made at the first call, and the file it is in. Raises InvalidSetting or StoreError."""
    path = home / TOKEN_FILE
    Folder(home).make()
    check_no_link(path)
    if not path.exists():
        try:
            _write_once(path, secrets.token_urlsafe(_TOKEN_BYTES))
        except OSError as error:
            raise StoreUnwritable(str(home), error.strerror or "error") from error
    return token_in(path), path


def _write_once(path: Path, token: str) -> None:
    """Complete from the first moment, and only where there is none yet: two servers may begin at the same time."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return
    finally:
        draft.unlink()


def _plain(host: str) -> str:
    """One spelling for all that mean the same host: capitals, the dot of the root, zeros in an address."""
    name = host.lower().rstrip(".")
    try:
        return ipaddress.ip_address(name).compressed
    except ValueError:
        return name
