"""What stands around the views of a page, that of a home and that of a hub: the head, the header with its menu, and
answers of one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from kingly_memory.errors import InvalidInput
from kingly_memory.page.access import HEADERS
from kingly_memory.page.html import Child, document, el
from kingly_memory.page.view import View

_MOST_FIELDS = 2_000


class Site(NamedTuple):
    """A page with several views. Its addresses begin with `root`; `script` is that of its own script, if it has one."""

    name: str
    root: str = ""
    script: str | None = None

    def answer(self, title: str, *body: Child, status: int = 200, ahead: Child = None) -> Response:
        head = el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="color-scheme", content="light dark"),
            ahead,
            el("title", title if title == self.name else f"{title} · {self.name}"),
            el("link", rel="stylesheet", href=f"{self.root}/page.css"),
            el("script", src=self.script, defer=True) if self.script else None,
        )
        return Response(document(head, el("body", body)), status, HEADERS, media_type="text/html")

    def plain(self, sentence: str, status: int) -> Response:
        alert = el("p", sentence, role="alert", class_="alert")
        back = el("p", el("a", "To the first view", href=self.root or "/"))
        return self.answer(self.name, el("main", el("h1", self.name), alert, back, id="main"), status=status)

    def welcome(self) -> Response:
        """The first visit may come from elsewhere, and a strict cookie does not follow a redirect from there: so it is
        this answer that leads on."""
        first = self.root or "/"
        leads = el("main", el("p", el("a", "Go on", href=first)), id="main")
        return self.answer(self.name, leads, ahead=el("meta", http_equiv="refresh", content=f"0; url={first}"))

    def shown(
        self,
        view: View,
        menu: Iterable[tuple[str, str, bool]],
        *about: Child,
        beside: Child = None,
        notes: Child = None,
    ) -> Response:
        """A view under a menu of names, addresses, and whether each is the one that is looked at. `about` stands above
        the menu, `beside` below it, and `notes` above the view."""
        links = [
            el("li", el("a", name, href=address, aria_current="page" if is_here else None))
            for name, address, is_here in menu
        ]
        header = el("header", about, el("nav", el("ul", links), aria_label="views"), beside)
        skip = el("a", "Skip to the content", href="#main", class_="skip")
        main = el("main", notes, view.main, id="main", tabindex="-1")
        return self.answer(view.title, skip, header, main, status=view.status)


async def form_fields(request: Request, most_bytes: int) -> dict[str, list[str]]:
    """The fields of a form. Raises InvalidInput for one that is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise InvalidInput("form", f"has more than {most_bytes:,} bytes; store less at a time")
    try:
        return parse_qs(body.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise InvalidInput("form", f"has more than {_MOST_FIELDS:,} fields; store less at a time") from None
