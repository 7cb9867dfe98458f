"""The page about a hub, served by the hub: who is let in, which view an address is, and what stands around it. Nothing
is changed from here, so that a form can do no harm but to log somebody in or out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.resources import files

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kingly_memory.errors import InvalidInput, StoreError
from kingly_memory.hub.access import Refusal, host_of, is_loopback
from kingly_memory.hub.server import Overseen
from kingly_memory.hub.traffic import PAGE
from kingly_memory.observe import log
from kingly_memory.page.access import HEADERS
from kingly_memory.page.frame import Site, form_fields
from kingly_memory.page.html import el, join
from kingly_memory.page.hub import views
from kingly_memory.page.hub.sessions import SESSION, Sessions, taken
from kingly_memory.page.view import View

VIEWS: Mapping[str, tuple[str, Callable[[views.Looked], View], bool]] = {
    "": ("Overview", views.overview, False),
    "/projects": ("Projects", views.projects, False),
    "/homes": ("Machines", views.homes, False),
    "/tokens": ("Tokens", views.tokens, True),
    "/changes": ("Changes", views.changes, True),
}
"""The views by their addresses, and whether one is for admins alone."""
_LOGIN, _LOGOUT, _STYLE = f"{PAGE}/in", f"{PAGE}/out", f"{PAGE}/page.css"
_FORM_BYTES, _FORM_S = 4_096, 10.0
_SITE = Site("Kingly hub", PAGE)


def places(hub: Overseen) -> Sequence[Route]:
    """What the hub answers beside its calls."""
    page = _Page(hub)
    return [
        *(Route(f"{PAGE}{path}", page.guarded(page.view), methods=["GET"]) for path in ("/", *VIEWS)),
        Route(_LOGIN, page.guarded(page.login), methods=["POST"]),
        Route(_LOGOUT, page.guarded(page.logout), methods=["POST"]),
        Route(_STYLE, page.guarded(page.style), methods=["GET"]),
        Route("/favicon.ico", lambda _: Response(status_code=204, headers=HEADERS)),
    ]


class _Page:
    def __init__(self, hub: Overseen) -> None:
        self._hub = hub
        self._sessions = Sessions()

    def guarded(self, inner: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Answer nobody who calls the hub by a name that is not its own, and no form of another server's page."""

        async def answer(request: Request) -> Response:
            origin = request.headers.get("origin")
            try:
                self._hub.gate.access.check_names(request.headers)
                if request.method == "POST" and (origin or "").partition("://")[2] != request.headers.get("host"):
                    raise Refusal(403, "this form is not of this hub's page; go back and load it again")
                return await inner(request)
            except Refusal as refused:
                return _SITE.plain(refused.reason, refused.status)
            except StoreError:
                return _SITE.plain("the hub's store cannot be used at the moment", HTTPStatus.SERVICE_UNAVAILABLE)
            except Exception as error:  # noqa: BLE001  # the last stop before the network: no detail may leave
                log.error("HubPageFailed %s", type(error).__name__)
                return _SITE.plain("something unexpected happened", HTTPStatus.INTERNAL_SERVER_ERROR)

        return answer

    async def style(self, request: Request) -> Response:
        style = files("kingly_memory.page").joinpath("page.css").read_bytes()
        return Response(style, media_type="text/css", headers=HEADERS)

    async def view(self, request: Request) -> Response:
        hub, now = self._hub, datetime.now(UTC)
        link = request.query_params.get("token")
        if link is not None and await to_thread.run_sync(taken, hub.home, link, now):
            return self._begun(request, None, _SITE.welcome())
        viewer = self._sessions.viewer(hub.gate.access, request.cookies.get(_cookie_name(request), ""), now)
        if viewer is None:
            problem = None if link is None else "That link was used already, or is older than ten minutes."
            return _login(request, problem)
        path = request.url.path.removeprefix(PAGE).rstrip("/")
        name, draw, is_for_admins = VIEWS[path]
        looked = views.Looked(hub, viewer, now)
        if is_for_admins and not viewer.is_admin:
            refused = "This view needs a token of role admin in every project."
            return _shown(looked, path, View(name, join(el("h1", name), el("p", refused)), HTTPStatus.FORBIDDEN))
        return _shown(looked, path, await to_thread.run_sync(draw, looked))

    async def login(self, request: Request) -> Response:
        token = await _typed(request)
        headers = {name: value for name, value in request.headers.items() if name != "authorization"}
        try:
            await self._hub.gate.admit({**headers, "authorization": f"Bearer {token}"})
        except Refusal:
            return _login(request, "That is no token of this hub, or none any more.")
        return self._begun(request, token, RedirectResponse(PAGE, HTTPStatus.SEE_OTHER, HEADERS))

    async def logout(self, request: Request) -> Response:
        response = RedirectResponse(PAGE, HTTPStatus.SEE_OTHER, HEADERS)
        response.delete_cookie(_cookie_name(request), PAGE)
        return response

    def _begun(self, request: Request, token: str | None, response: Response) -> Response:
        response.set_cookie(
            _cookie_name(request),
            self._sessions.begun(token, datetime.now(UTC)),
            max_age=round(SESSION.total_seconds()),
            path=PAGE,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response


def _cookie_name(request: Request) -> str:
    """Hubs of one machine share a browser's cookies."""
    return f"kingly-hub-{request.scope['server'][1]}"


async def _typed(request: Request) -> str:
    """The token of a form; none of one that is long, or that comes slowly."""
    try:
        async with asyncio.timeout(_FORM_S):
            fields = await form_fields(request, _FORM_BYTES)
    except (TimeoutError, InvalidInput):
        return ""
    return fields.get("token", [""])[0].strip()


def _login(request: Request, problem: str | None) -> Response:
    is_open = request.url.scheme != "https" and not is_loopback(host_of(f"//{request.headers.get('host', '')}"))
    field = el("input", type="password", name="token", id="token", required=True, autocomplete="off", autofocus=True)
    form = el(
        "form",
        el("div", el("label", "Token", for_="token"), field, class_="field"),
        el("button", "Log in"),
        method="post",
        action=_LOGIN,
    )
    main = el(
        "main",
        el("h1", "Kingly hub"),
        el("p", problem, role="alert", class_="alert") if problem else None,
        el("p", "Type a token of this hub to see how it is. Nothing is changed from here, and no memory is shown."),
        el("p", "This connection is not encrypted: others on its way can read the token.", class_="alert")
        if is_open
        else None,
        form,
        el(
            "p",
            "A token of role admin shows its whole namespace, any other one the projects that it may read. On the "
            "hub's own machine ",
            el("code", "kingly-memory hub page"),
            " makes a link that shows everything.",
            class_="says",
        ),
        id="main",
    )
    return _SITE.answer("Log in", main, status=HTTPStatus.OK if problem is None else HTTPStatus.UNAUTHORIZED)


def _shown(looked: views.Looked, path: str, view: View) -> Response:
    menu = [
        (name, f"{PAGE}{address}", address == path)
        for address, (name, _, is_for_admins) in VIEWS.items()
        if looked.viewer.is_admin or not is_for_admins
    ]
    leave = el("form", el("button", "Log out"), method="post", action=_LOGOUT)
    return _SITE.shown(
        view,
        menu,
        el("p", el("a", _SITE.name, href=PAGE), class_="brand"),
        el("p", el("bdi", looked.viewer.words), id="state"),
        leave if looked.hub.gate.access.is_needed else None,
    )
