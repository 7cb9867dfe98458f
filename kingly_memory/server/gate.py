"""Who may call the server over HTTP: callers with the token, under a name of this machine, and no foreign web page."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Collection
from pathlib import Path

from kingly_memory.adapters.local.folder import Folder
from kingly_memory.errors import InvalidSetting, StoreUnwritable
from kingly_memory.hub.access import Access, check_token, is_loopback, plain
from kingly_memory.hub.grants import Grant, digest
from kingly_memory.own_files import check_no_link
from kingly_memory.secret_file import secret

TOKEN_FILE = "mcp-token"  # noqa: S105  # its name

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9a-fA-F:]+")
_TOKEN_BYTES = 32


def access_of(token: str, hosts: Collection[str] = ()) -> Access:
    """Lets in who brings the token, under a name of this machine or one of `hosts`. Raises InvalidSetting, which never
    repeats the token."""
    check_token(token)
    for host in hosts:
        if not _HOST.fullmatch(host) or not plain(host):
            raise InvalidSetting("allow_host", f"{host[:60]!r} is no host name; leave out scheme and port")
    return Access({digest(token): Grant("the token")}, frozenset(map(plain, hosts)), "see --allow-host")


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
    return kept_token(path), path


def kept_token(path: Path) -> str:
    """The token in a home's file, which is never made here: a home that was moved away stays away. Raises
    InvalidSetting or StoreError."""
    check_no_link(path)
    return secret(path, "mcp_token_file")


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
