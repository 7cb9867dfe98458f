"""Who sees the page of a hub: who types a token of it, or opens a link that was made in its home; where the hub asks
for no token, everybody who may call it.

A browser has a cookie that says until when it holds and is signed, with a key that ends with the hub's process. So the
hub keeps no list of sessions, and a token that was revoked shows nothing from the next click on. No token is in the
cookie: browsers send it to every server of the same machine.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.errors import InvalidSetting
from kingly_memory.home.own_files import make_folder
from kingly_memory.home.secret_file import secret
from kingly_memory.hub.access import Access
from kingly_memory.hub.grants import ANYBODY, Grant, Role, digest

SESSION = timedelta(hours=8)
LINK_HOLDS = timedelta(minutes=10)
_LINK = "page-link.json"
_BY_LINK = "by link"
"""In the place of a token's digest."""


class Viewer(NamedTuple):
    """Who looks, by the grant of a token. None: who opened a link, and could read all files of the hub anyway."""

    grant: Grant | None

    @property
    def is_admin(self) -> bool:
        return self.grant is None or self.grant.role_in(None) >= Role.ADMIN

    def opens(self, namespace: str) -> bool:
        return self.grant is None or self.grant.namespace == namespace

    def sees(self, namespace: str, project: str) -> bool:
        """The project is empty where it is what is kept for every project."""
        return self.opens(namespace) and (self.grant is None or self.grant.role_in(project or None) >= Role.READ)

    @property
    def words(self) -> str:
        if self.grant is None:
            return "everything, by a link"
        return f"{self.grant.holder}: {', '.join(self.grant.may) or 'nothing'}"


class Sessions:
    """The cookies of one process of the hub."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def begun(self, token: str | None, now: datetime) -> str:
        """The value of a cookie for who brought that token, or opened the link."""
        until = f"{(now + SESSION).timestamp():.0f}"
        return f"{until}.{self._seal(_BY_LINK if token is None else digest(token), until)}"

    def viewer(self, access: Access, cookie: str, now: datetime) -> Viewer | None:
        """Whose cookie that is, as the tokens are just now; None for nobody's."""
        until, _, seal = cookie.partition(".")
        if seal and until.isascii() and until.isdecimal() and int(until[:15]) > now.timestamp():
            grants: dict[str, Grant | None] = {_BY_LINK: None, **access.tokens}
            found = [key for key in grants if hmac.compare_digest(self._seal(key, until), seal)]
            if found:
                return Viewer(grants[found[0]])
        return None if access.is_needed else Viewer(ANYBODY)

    def _seal(self, who: str, until: str) -> str:
        return hmac.new(self._key, f"{who} {until}".encode(), "sha256").hexdigest()


# --- links ------------------------------------------------------------------------------------------------------------


def offered(home: Path, now: datetime) -> str:
    """The token of a new link, which the hub of that home takes once; an earlier one is worth nothing any more."""
    token = secrets.token_urlsafe(32)
    make_folder(home)
    with replacing(home / _LINK) as file:
        json.dump({"digest": digest(token), "until": (now + LINK_HOLDS).isoformat()}, file)
    return token


def taken(home: Path, token: str, now: datetime) -> bool:
    """Whether that is the token of the home's link. Then the link is gone, also for hubs that share the home."""
    path = home / _LINK
    with suppress(InvalidSetting, OSError, ValueError, KeyError, TypeError):
        stored: Mapping[str, str] = json.loads(secret(path, "page-link"))
        is_right = hmac.compare_digest(stored["digest"], digest(token)) and now < datetime.fromisoformat(
            stored["until"]
        )
        if is_right:
            path.unlink()
        return is_right
    return False
