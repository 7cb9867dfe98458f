"""Who sees the page: whoever opens the link that it began with, once, and after that the same browser.

A page of another server can make the browser call this one. That shows in Host and Origin, its cookie stays behind
(SameSite), and a form without the page's seal changes nothing. Other servers of this machine are the same site to a
browser, so that each of the three is needed.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping

from kingly_memory.hub.access import Refusal

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer."""
AGAIN = (
    "open the link that `kingly-memory page` printed when it began; each link works once, so begin it anew for another"
)


class Access:
    """The secrets of one page. `link` is the path of the first visit."""

    def __init__(self, port: int) -> None:
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        self._link: str | None = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self.cookie_name = f"kingly-page-{port}"
        self.seal = secrets.token_urlsafe(32)

    @property
    def link(self) -> str:
        return f"/?token={self._link}"

    @property
    def cookie(self) -> str:
        return f"{self.cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def exchange(self, token: str) -> bool:
        """Whether that is the token of the link, which is worth nothing after that."""
        is_right = self._link is not None and hmac.compare_digest(self._link.encode(), token.encode(errors="replace"))
        if is_right:
            self._link = None
        return is_right

    def check_names(self, headers: Mapping[str, str]) -> None:
        """Raise Refusal for a request that is not even sent a file. `headers` has lower-case names."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            raise Refusal(421, "this page answers under 127.0.0.1 and localhost alone")
        if origin is not None and origin != f"http://{host}":
            raise Refusal(403, "this page answers no page of another server")

    def knows(self, cookies: Mapping[str, str]) -> bool:
        return hmac.compare_digest(self._cookie.encode(), cookies.get(self.cookie_name, "").encode(errors="replace"))

    def is_sealed(self, seal: str) -> bool:
        return hmac.compare_digest(self.seal.encode(), seal.encode(errors="replace"))
