"""The page of a hub: who sees what of it, over both of its stores, and that no name is ever more than text on it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest

from kingly_memory.adapters.audit import AuditFiles
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.errors import StoreUnreadable
from kingly_memory.hub.access import Access, Gate
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.grants import FILE, changing, granted
from kingly_memory.hub.methods import METHODS
from kingly_memory.hub.serve import opened
from kingly_memory.hub.server import Overseen, application
from kingly_memory.hub.traffic import Traffic
from kingly_memory.page.hub import views
from kingly_memory.page.hub.serve import VIEWS, places
from kingly_memory.page.hub.sessions import LINK_HOLDS, SESSION, Sessions, Viewer, offered, taken
from kingly_memory.ports import LocalStore
from kingly_memory.testing import ManualClock
from tests.cli_runner import Run
from tests.hub.stores import STORES, postgres_server
from tests.page.conftest import HOSTILE
from tests.page.test_views import Elements

pytestmark = [pytest.mark.requirement("N24"), pytest.mark.requirement("P26")]

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOLDERS = {
    "ada": ("admin", (), "default"),
    "ben": ("admin", ("shop",), "default"),
    "ci": ("read", ("shop",), "default"),
    "eve": ("admin", (), "elsewhere"),
}
TEXT = "tea is at four"
URL = "http://localhost:8000"


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub in this process, and the tokens of those who may call it."""

    home: Path
    store: LocalStore
    tokens: dict[str, str]
    slept_s: list[float]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[httpx.AsyncClient]:
        """A browser without a cookie, which sends forms as one of ours is sent."""

        async def sleep(seconds: float) -> None:
            self.slept_s.append(seconds)

        gate = Gate(lambda: Access.of(None, None, self.home), [self.home / FILE], sleep=sleep)
        engine = Engine(self.store, ManualClock(), "1.2.3", AuditFiles(self.home / "audit"))

        traffic = Traffic("kingly_hub", METHODS)
        page = places(Overseen(self.store, "the store", engine.homes, gate, traffic, self.home, "1.2.3"))
        transport = httpx.ASGITransport(application(engine, gate, "1.2.3", traffic=traffic, page=page))
        async with httpx.AsyncClient(transport=transport, base_url=URL, headers={"Origin": URL}) as web:
            yield web
        engine.homes.close()


async def call(
    web: httpx.AsyncClient, token: str, home: str, method: str, project: str = "shop", **params: Any
) -> httpx.Response:
    headers = {"Kingly-Project": quote(project, safe=""), "Kingly-Home": quote(home)}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    return await web.post("/mcp/call", json={"method": method, "params": params}, headers=headers)


async def login(web: httpx.AsyncClient, token: str, **headers: str) -> httpx.Response:
    return await web.post("/page/in", data={"token": token}, headers=headers)


def made(home: Path) -> dict[str, str]:
    tokens = {}
    with changing(home) as before:
        grants = before.limited("default", 4)
        for name, (role, projects, namespace) in HOLDERS.items():
            grants, tokens[name] = grants.made(granted(name, role, projects, namespace, NOW))
        grants.write(home)
    return tokens


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    store = DiskStore(tmp_path, durability="process")
    yield Hub(tmp_path, store, made(tmp_path), [])
    store.close()


@pytest.fixture(params=STORES)
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    """Over each of the two stores."""
    if request.param == "embedded":
        yield request.getfixturevalue("hub")
        return
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        store = opened(tmp_path, server.address)
        stack.callback(store.close)
        yield Hub(tmp_path, store, made(tmp_path), [])


async def busy(hub: Hub, web: httpx.AsyncClient) -> None:
    """Some machines have called it."""
    tokens = hub.tokens
    await call(web, tokens["ada"], "laptop 3f9a", "store_memory", content=TEXT)
    await call(web, tokens["ada"], "laptop 3f9a", "list_changes")
    await call(web, tokens["ada"], "desktop 77c0", "store_memory", content=TEXT, metadata={"tags": ["x"]})
    await call(web, tokens["ada"], "desktop 77c0", "store_memory", HOSTILE, content=TEXT)
    await call(web, tokens["ada"], "desktop 77c0", "store_memory", "*", content=TEXT)
    await call(web, tokens["eve"], "far-away 0001", "store_memory", "secret-plan", content=TEXT)
    assert (await call(web, tokens["ci"], "", "store_memory", content=TEXT)).status_code == 403


async def all_views(web: httpx.AsyncClient) -> dict[str, str]:
    return {path: (await web.get(f"/page{path}")).text for path in VIEWS}


async def test_an_admin_sees_the_whole_namespace_a_reader_its_projects_and_nobody_what_is_remembered(
    either: Hub,
) -> None:
    async with either.open() as web:
        await busy(either, web)
        assert (await login(web, either.tokens["ada"])).headers["location"] == "/page"
        seen = await all_views(web)
        assert "The hub is ready" in seen[""]
        assert "Namespace <bdi>default</bdi> keeps 4 of the 4 memories that it may." in seen[""]
        assert "403 its role does not allow that" in seen[""]
        assert "<bdi>laptop 3f9a</bdi>" in seen["/homes"]
        assert "1 change behind" in seen["/homes"]
        assert "4</td><td>4</td><td>100%" in seen["/projects"]
        assert "<bdi>read in shop</bdi>" in seen["/tokens"]
        assert "store_memory" in seen["/changes"]
        assert not [path for path, text in seen.items() if TEXT in text or "secret-plan" in text or ">eve<" in text]
        for name in ("ci", "ben"):
            await web.post("/page/out")
            await login(web, either.tokens[name])
            less = await all_views(web)
            assert "<bdi>shop</bdi>" in less["/projects"]
            assert all(secret not in "".join(less.values()) for secret in ("ada", "gnp", "for every project", TEXT))
            assert [(await web.get(f"/page/{one}")).status_code for one in ("tokens", "changes")] == [403, 403]
            assert "needs a token of role admin" in less["/tokens"]


async def test_a_link_shows_every_namespace_and_works_once(hub: Hub, run: Run) -> None:
    told = run("hub", "page", "--home", str(hub.home), "--url", f"{URL}/", "--json").json
    async with hub.open() as web:
        await busy(hub, web)
        assert (await web.get("/page?token=guess")).status_code == 401
        first = await web.get(told["url"])
        assert (first.status_code, 'content="0; url=/page"' in first.text) == (200, True)
        seen = await all_views(web)
        assert "secret-plan" in seen["/projects"]
        assert "elsewhere" in seen["/tokens"]
        web.cookies.clear()
        again = await web.get(told["url"])
        assert (again.status_code, "used already" in again.text, "set-cookie" in again.headers) == (401, True, False)


def test_a_link_holds_ten_minutes_and_a_new_one_ends_the_one_before(tmp_path: Path) -> None:
    first, second = offered(tmp_path, NOW), offered(tmp_path, NOW)
    assert not taken(tmp_path, first, NOW)
    assert not taken(tmp_path, second, NOW + LINK_HOLDS)
    assert taken(tmp_path, second, NOW + LINK_HOLDS - timedelta(seconds=1))
    assert not taken(tmp_path, second, NOW)


async def test_a_wrong_token_is_refused_the_later_the_more_there_were(hub: Hub) -> None:
    async with hub.open() as web:
        for token in ("", "x" * 43, "x" * 43):
            answer = await login(web, token)
            assert (answer.status_code, "no token of this hub" in answer.text) == (401, True)
            assert "set-cookie" not in answer.headers
        assert hub.slept_s == [0.01, 0.02, 0.03]
        assert "Log in" in (await web.get("/page/projects")).text
        for form in (b"token=" + b"x" * 9_000, b"&" * 2_001):
            assert (await web.post("/page/in", content=form)).status_code == 401
        assert hub.slept_s[-2:] == [0.04, 0.05]
        await login(web, hub.tokens["ada"])
        assert len(hub.slept_s) == 5


async def test_the_cookie_is_for_the_page_alone_and_a_revoked_token_shows_nothing_at_the_next_click(hub: Hub) -> None:
    async with hub.open() as web:
        said = (await login(web, hub.tokens["ada"])).headers["set-cookie"]
        assert {"httponly", "path=/page", "samesite=strict"} <= set(said.lower().split("; "))
        assert hub.tokens["ada"] not in said
        assert "Tokens" in (await web.get("/page")).text
        assert (await web.get("/metrics")).status_code == 401
        with changing(hub.home) as grants:
            grants.revoked("ada").write(hub.home)
        assert "Type a token" in (await web.get("/page")).text


def test_a_cookie_ends_and_is_worth_nothing_where_it_was_not_made(tmp_path: Path) -> None:
    access = Access.of("t0ken-of-the-test", None)
    sessions = Sessions()
    cookie = sessions.begun("t0ken-of-the-test", NOW)
    assert sessions.viewer(access, cookie, NOW) is not None
    assert sessions.viewer(access, sessions.begun(None, NOW), NOW) == Viewer(None)
    until, _, seal = cookie.partition(".")
    later = f"{int(until) + 9}.{seal}"
    for forged in ("", ".", seal, until, f"{until}.", later, f"²{cookie}", f"{'9' * 5000}.{seal}"):
        assert sessions.viewer(access, forged, NOW) is None
    assert sessions.viewer(access, cookie, NOW + SESSION) is None
    assert Sessions().viewer(access, cookie, NOW) is None


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:1", "null", None])
async def test_a_form_of_another_server_logs_nobody_in_or_out(hub: Hub, origin: str | None) -> None:
    async with hub.open() as web:
        await login(web, hub.tokens["ada"])
        if origin is None:
            del web.headers["Origin"]
        else:
            web.headers["Origin"] = origin
        for path in ("/page/in", "/page/out"):
            answer = await web.post(path, data={"token": hub.tokens["eve"]})
            assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


async def test_a_hub_without_tokens_shows_itself_to_this_machine_alone(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, durability="process")
    async with Hub(tmp_path, store, {}, []).open() as web:
        assert (await web.get("/page", headers={"Host": "rebound.example"})).status_code == 421
        assert (await web.get("/page", headers={"Origin": "https://evil.example"})).status_code == 403
        seen = await all_views(web)
        assert "asks for no token" in seen["/tokens"]
        assert "Log out" not in seen[""]
        assert "Nothing here needs you" in seen[""]
    store.close()


async def test_every_view_has_our_elements_alone_whatever_names_say(hub: Hub) -> None:
    async with hub.open() as web:
        await busy(hub, web)
        await call(web, hub.tokens["ada"], HOSTILE, "list_changes")
        shown = [await web.get("/page")]
        await login(web, hub.tokens["ada"])
        shown += [await web.get(f"/page{path}") for path in VIEWS]
        for answer in shown:
            elements = Elements(answer.text).found
            assert not [tag for tag, _ in elements if tag in ("script", "img", "style", "iframe", "object")]
            assert not [name for _, one in elements for name in one if name.startswith("on") or name == "style"]
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert answer.headers["cache-control"] == "no-store"
        text = "".join(one.text for one in shown)
        assert text.count("[U+202E]gnp.exe[U+202C]") >= 4
        assert (await web.get("/page/page.css")).headers["content-type"].startswith("text/css")


async def test_a_machine_that_lacks_something_for_a_day_needs_somebody(hub: Hub) -> None:
    async with hub.open() as web:
        await busy(hub, web)
    engine = Engine(hub.store, ManualClock(), "1.2.3")
    gate = Gate(lambda: Access.of(None, None, hub.home))
    overseen = Overseen(hub.store, "", engine.homes, gate, Traffic("hub", ()), hub.home, "1")
    last = max(datetime.fromisoformat(one["at"]) for one in engine.homes.seen())
    for hours, needs in ((23, False), (25, True)):
        looked = views.Looked(overseen, Viewer(None), last + timedelta(hours=hours))
        told = str(views.overview(looked).main)
        assert (", and is 1 change behind in <bdi>shop</bdi>." in told) is needs
        assert ('<b class="mark">1 change behind' in str(views.homes(looked).main)) is needs


async def test_a_store_that_does_not_answer_is_said_and_the_rest_is_shown(hub: Hub) -> None:
    class Gone:
        @property
        def reader(self) -> Any:
            raise StoreUnreadable("postgresql://db", "nobody listens there", "Start it")

    async with hub.open() as web:
        await busy(hub, web)
    gate, traffic = Gate(lambda: Access.of(None, None, hub.home)), Traffic("hub", ())
    engine = Engine(hub.store, ManualClock(), "1")
    broken = Overseen(cast("LocalStore", Gone()), "", engine.homes, gate, traffic, hub.home, "1")
    told = str(views.overview(views.Looked(broken, Viewer(None), NOW)).main)
    assert "The hub&#x27;s store does not answer" in told or "The hub's store does not answer" in told
    assert "nobody listens there" in told
    assert "What it has answered" in told
    (hub.home / "audit" / "changes.jsonl").write_text(f"torn\n{json.dumps({'namespace': 'default'})}\n")
    assert "none." in str(views.changes(views.Looked(broken, Viewer(None), NOW)).main)
