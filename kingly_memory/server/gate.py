"""Who may call the server over HTTP: callers with the token, under a name of this machine, and no foreign web page."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from kingly_memory.adapters.local.folder import Folder
from kingly_memory.errors import StoreUnwritable
from kingly_memory.home.own_files import check_no_link
from kingly_memory.home.secret_file import secret
from kingly_memory.hub.access import Access, check_token
from kingly_memory.hub.grants import Grant, digest

TOKEN_FILE = "mcp-token"  # noqa: S105  # its name

_TOKEN_BYTES = 32


def access_of(token: str) -> Access:
    """Lets in who brings the token, under a name of this machine. Raises InvalidSetting, which never repeats it."""
    check_token(token)
    return Access({digest(token): Grant("the token")}, frozenset(), "call it by a name of its own machine")


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
    return secret(path, TOKEN_FILE)


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
