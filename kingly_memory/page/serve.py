"""The page as a server: who is let in, which view an address is, and what a form does. On this machine alone, until it
is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from importlib.resources import files
from time import perf_counter
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kingly_memory.adapters.local.trusted import check_trusted
from kingly_memory.app import parts
from kingly_memory.errors import KinglyMemoryError, StoreError, StoreUntrusted
from kingly_memory.hub.access import Refusal
from kingly_memory.hub.listening import address, listener, quiet_server, stopped_by_signals
from kingly_memory.page import memories, overview, prompts, work
from kingly_memory.page.access import AGAIN, HEADERS, Access
from kingly_memory.page.actions import OFFERED, TRUST, do, form, own
from kingly_memory.page.frame import Site, form_fields
from kingly_memory.page.html import Html, el
from kingly_memory.page.view import PageRequest, View, same_space, space_of_address, space_words

if TYPE_CHECKING:
    from kingly_memory.app.opening import MemoryRouter
    from kingly_memory.home.place import Place
    from kingly_memory.settings import Settings

log = logging.getLogger("kingly_memory")

HOST = "127.0.0.1"
LARGEST_FORM_BYTES = 8 * 1024 * 1024
"""A memory of 1 MiB, whose every byte a browser writes as three, and its other fields."""
_SITE = Site("Kingly Memory", script="/page.js")
_NOTES = 20
"""Sentences about what was done that wait for a view to say them."""

VIEWS: Mapping[str, tuple[str, Callable[[PageRequest], Awaitable[View]]]] = {
    "/": ("Memories", memories.memories),
    "/timeline": ("Timeline", overview.timeline),
    "/threads": ("Threads", work.threads),
    "/links": ("Links", overview.links),
    "/tasks": ("Tasks", work.tasks),
    "/prompts": ("Prompts", prompts.prompts),
    "/delivery": ("Delivery", work.delivery),
    "/upkeep": ("Upkeep", work.upkeep),
    "/figures": ("Figures", work.figures),
    "/memory": ("", memories.memory_detail),
    "/thread": ("", work.thread),
}
"""The views by their addresses; those with a name stand in the menu."""
_FILES = {"/page.css": "text/css", "/page.js": "text/javascript"}


class Page:
    """The page over one router, which somebody else closes."""

    def __init__(self, memory: MemoryRouter, access: Access, place: Place, settings: Settings) -> None:
        self._memory = memory
        self._place, self._settings = place, settings
        self._access = access
        self._notes: list[str] = []
        self._files = {path: files(__package__).joinpath(path[1:]).read_bytes() for path in _FILES}

    def routes(self) -> list[Route]:
        return [
            *(Route(path, self._answered(self._view), methods=["GET"]) for path in VIEWS),
            Route("/state", self._answered(self._state), methods=["GET"]),
            Route("/do/{calls}", self._answered(self._do), methods=["POST"]),
            *(Route(path, self._file, methods=["GET"]) for path in _FILES),
            Route("/favicon.ico", lambda _: Response(status_code=204, headers=HEADERS)),
        ]

    async def _file(self, request: Request) -> Response:
        path = request.url.path
        return Response(self._files[path], media_type=_FILES[path], headers=HEADERS)

    def _answered(self, inner: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Let in whom the access knows, and put into words what goes wrong."""

        async def answer(request: Request) -> Response:
            begun = perf_counter()
            try:
                self._access.check_names(request.headers)
                if self._access.exchange(request.query_params.get("token", "")):
                    response = _SITE.welcome()
                    response.headers["Set-Cookie"] = self._access.cookie
                elif self._access.knows(request.cookies):
                    response = await inner(request)
                else:
                    raise Refusal(401, f"This page is for who began it: {AGAIN}.")
            except Refusal as refused:
                response = _SITE.plain(refused.reason, refused.status)
            except (KinglyMemoryError, ValueError) as error:
                status = 400 if isinstance(error, ValueError) else 503 if isinstance(error, StoreError) else 500
                response = _SITE.plain(str(error), status)
            except Exception as error:  # the last stop before the user, who gets a sentence
                log.exception("page failed path=%s", request.url.path)
                response = _SITE.plain(f"something unexpected happened ({type(error).__name__})", 500)
            response.headers["Server-Timing"] = f"page;dur={(perf_counter() - begun) * 1000:.1f}"
            return response

        return answer

    def _page_request(self, request: Request, here: str) -> PageRequest:
        memory = self._memory
        if here and not same_space(memory, here):
            project, user = space_of_address(here)
            memory = memory.scoped(project=project, user=user)
        else:
            here = ""
        query = {name: value for name, value in request.query_params.items() if name != "in"}
        return PageRequest(memory, query, request.url.path, here, self._access.seal, datetime.now(UTC))

    async def _view(self, request: Request) -> Response:
        viewed = self._page_request(request, request.query_params.get("in", ""))
        view = await VIEWS[request.url.path][1](viewed)
        if "part" in viewed.query:
            return Response(str(view.main).encode(errors="replace"), view.status, HEADERS, media_type="text/html")
        return await self._shown(viewed, view)

    async def _do(self, request: Request) -> Response:
        posted = await form_fields(request, LARGEST_FORM_BYTES)
        if not self._access.is_sealed(posted.get("seal", [""])[0]):
            raise Refusal(403, "this form is not of this page, or of one that has ended; go back and load it again")
        calls = request.path_params["calls"]
        if calls == TRUST.calls:
            await asyncio.to_thread(parts.trust_home, self._place, self._settings)
            self._notes = ["Trusted: hooks recall what it holds from now on.", *self._notes][:_NOTES]
            return RedirectResponse(own(posted.get("back", ["/"])[0]), 303, HEADERS)
        verb = OFFERED.get(calls)
        if verb is None:
            raise Refusal(404, "nothing is done under that name")
        viewed = self._page_request(request, posted.get("in", [""])[0])
        done = await do(viewed, verb, posted)
        if isinstance(done, View):
            return await self._shown(viewed, done)
        self._notes = [*self._notes, done][-_NOTES:]
        return RedirectResponse(own(posted.get("back", ["/"])[0]), 303, HEADERS)

    async def _state(self, request: Request) -> Response:
        viewed = self._page_request(request, request.query_params.get("in", ""))
        return Response(str(await self._strip(viewed)).encode(), headers=HEADERS, media_type="text/html")

    async def _strip(self, viewed: PageRequest) -> Html:
        """How the memory is doing, in a line. `data-mark` differs whenever something was stored or changed."""
        status, latest = await viewed.memory.status(), await viewed.memory.list(1)
        mark = [f"{one.id}.{one.revision}" for one in latest]
        total = status["memories"]["total"]
        mark += [str(total), str(status["memories"]["archived"]), memories.link_state(status)]
        words = [
            f"{total:,} memories",
            f"{status['memories']['archived']:,} in the archive",
            memories.link_state(status),
        ]
        return el("p", " · ".join(words), id="state", data_mark="|".join(mark), data_at=viewed.url("/state"))

    def _distrust(self, viewed: PageRequest) -> Html | None:
        """Why hooks leave this home alone, if they do, with what to do."""
        try:
            check_trusted(self._place.home)
        except StoreUntrusted:
            says = (
                "This home was not made here, so hooks neither quote it nor write to it: it may say what nobody here "
                "has said. Look at what is remembered; if it is yours, trust it."
            )
            return el("div", el("p", says), form(viewed, TRUST.calls), role="note", class_="alert")
        except StoreError:
            pass  # the view says it
        return None

    async def _shown(self, viewed: PageRequest, view: View) -> Response:
        notes, self._notes = self._notes, []
        changed = el("a", "Something has changed: show it", href=viewed.itself)
        others = el("a", "others", href=f"{viewed.url('/upkeep')}#projects")
        return _SITE.shown(
            view,
            [(name, viewed.url(path), path == viewed.path) for path, (name, _) in VIEWS.items() if name],
            el("p", el("a", "Kingly Memory", href=viewed.url("/")), class_="brand"),
            el("p", el("bdi", space_words(viewed.memory.project, viewed.memory.user)), " (", others, ")"),
            beside=[await self._strip(viewed), el("p", changed, id="news", hidden=True, role="status")],
            notes=[
                [el("p", note, role="status", class_="note") for note in notes],
                await asyncio.to_thread(self._distrust, viewed),
            ],
        )


def application(memory: MemoryRouter, access: Access, place: Place, settings: Settings) -> Starlette:
    """The page as an ASGI application, which opens the router and closes it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with memory:
            yield

    return Starlette(routes=Page(memory, access, place, settings).routes(), lifespan=lifespan)


def serve(place: Place, settings: Settings, port: int, *, shown: Callable[[str], object]) -> None:
    """Serve until SIGTERM or SIGINT. Port 0 takes a free one; `shown` is told the address of the first visit.

    Raises InvalidSetting before anything is opened, StoreError when the home cannot be used.
    """
    from kingly_memory.app.opening import MemoryRouter

    with ExitStack() as stack:
        taken = stack.enter_context(listener(HOST, port))
        number = taken.getsockname()[1]
        access = Access(number)
        memory = MemoryRouter.at(place, settings=settings)
        web = quiet_server(application(memory, access, place, settings), lifespan=True)
        stack.enter_context(stopped_by_signals(web))
        shown(f"{address(HOST, number)}{access.link}")
        web.run(sockets=[taken])
