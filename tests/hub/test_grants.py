"""Tokens that a hub makes: what each may do in which project, how much a namespace keeps, and who has changed what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kingly_memory import MemoryRouter
from kingly_memory.errors import InvalidSetting
from kingly_memory.hub.grants import FILE, Forbidden, Grant, Grants, Role, changing, granted
from kingly_memory.hub.methods import parsed
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import DeliveryState, LinkState
from kingly_memory.testing import ManualClock
from tests.cli_runner import Run, hurry
from tests.router_bench import CALM

pytestmark = pytest.mark.requirement("A19")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def hub(home: Path) -> Iterator[HubProcess]:
    with HubProcess(home) as running:
        yield running


def token_of(home: Path, name: str, role: str, *projects: str) -> str:
    with changing(home) as grants:
        after, token = grants.made(granted(name, role, projects, "default", ManualClock().now()))
        after.write(home)
    return token


def reply(hub: HubProcess, token: str, method: str, project: str = "app", **params: Any) -> httpx.Response:
    headers = {"Kingly-Project": project} | ({"Authorization": f"Bearer {token}"} if token else {})
    with httpx.Client(base_url=hub.url, trust_env=False, timeout=60, headers=headers) as web:
        return web.post("/mcp/call", json={"method": method, "params": params})


def test_a_token_is_made_listed_and_revoked_from_the_shell(run: Run, home: Path) -> None:
    made = run("hub", "tokens", "create", "ci", "--role", "read", "--project", "app", "--home", str(home))
    [token] = made.out.splitlines()  # so that a shell can put it into a file or a variable
    assert len(token) == 43
    assert "ci may read in app" in made.err
    assert token not in (home / FILE).read_text()
    assert (home / FILE).stat().st_mode & 0o777 == 0o600
    taken = run("hub", "tokens", "create", "ci", "--home", str(home))
    assert (taken.code, "has a token already" in taken.err) == (2, True)
    listed = json.loads(run("hub", "tokens", "--home", str(home), "--json").out)
    assert [(one["name"], one["roles"]) for one in listed["tokens"]] == [("ci", {"app": "read"})]
    run("hub", "quota", "default", "1000", "--home", str(home))
    assert "default may keep 1,000 memories" in run("hub", "tokens", "--home", str(home)).out
    assert "let in no more" in run("hub", "tokens", "revoke", "ci", "--home", str(home)).out
    assert "nobody is let in" in run("hub", "tokens", "--home", str(home)).out
    assert run("hub", "tokens", "revoke", "ci", "--home", str(home)).code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "two words"], "letters, digits"),
        (["create", "ci", "--role", "king"], "choose read, write, forget, purge, admin"),
        (["revoke", "nobody"], "no token is called 'nobody'"),
        (["revok", "ci"], "'revok' is no command of hub tokens; did you mean 'revoke'?"),
    ],
)
def test_what_makes_no_token_is_said_in_a_sentence(run: Run, home: Path, arguments: list[str], said: str) -> None:
    refused = run("hub", "tokens", *arguments, "--home", str(home))
    assert (refused.code, said in refused.err) == (2, True), refused.err
    assert not (home / FILE).exists()


@pytest.mark.parametrize(("most", "said"), [("many", "not a whole number"), ("-1", "a number of memories, 0 or more")])
def test_a_quota_is_a_number_of_memories(run: Run, home: Path, most: str, said: str) -> None:
    assert said in run("hub", "quota", "default", most, "--home", str(home)).err


def test_a_quota_alone_lets_everybody_in_as_before(hub: HubProcess) -> None:
    with changing(hub.home) as grants:
        grants.limited("default", 1).write(hub.home)
    said = {"content": "tea at four", "idempotency_key": "k"}
    assert reply(hub, "", "store_memory", **said).status_code == 200
    repeated = reply(hub, "", "store_memory", **said), reply(hub, "", "store_many", memories=[said])
    assert [one.status_code for one in repeated] == [200, 200]  # what is there already takes no room
    assert repeated[0].json()["idempotency_hit"] is repeated[1].json()["results"][0]["idempotency_hit"] is True
    assert reply(hub, "", "store_many", memories=[said, {"content": "tea at five"}]).status_code == 429
    full = reply(hub, "", "store_memory", content="tea at five")
    assert (full.status_code, full.headers["Retry-After"]) == (429, "300")
    memory_id = reply(hub, "", "list_changes").json()["changes"][0]["memory_id"]
    assert reply(hub, "", "forget_memory", memory_id=memory_id).status_code == 200
    assert reply(hub, "", "store_memory", content="tea at five").status_code == 200


NAMED = {"name": "0" * 32, "at": "2026-01-01T00:00:00Z"}
REQUESTS: tuple[tuple[str, dict[str, Any], Role], ...] = (
    ("search_semantic_memories", {"query": "tea"}, Role.READ),
    ("list_changes", {}, Role.READ),
    ("store_memory", {"content": "tea"}, Role.WRITE),
    ("store_many", {"memories": [{"content": "tea"}]}, Role.WRITE),
    ("update_memory", {"memory_id": "x", "content": "tea"}, Role.WRITE),
    ("create_memory_link", {"source_memory_id": "a", "target_memory_id": "b"}, Role.WRITE),
    ("mark_memory", {"memory_id": "a"}, Role.WRITE),
    ("get_document", {"memory_id": "a", "digest": "0" * 32}, Role.READ),
    ("put_document", {**NAMED, "document": {"place": ["a", "b"]}}, Role.WRITE),
    ("put_document", NAMED, Role.FORGET),
    ("put_document", {**NAMED, "purge": True}, Role.PURGE),
    ("put_document", {**NAMED, "ended": True, "based_on": "x"}, Role.WRITE),
    ("put_document", {**NAMED, "ended": True, "based_on": "x", "purge": True}, Role.PURGE),
    ("put_document", {**NAMED, "document": {"place": ["a", "b"]}, "purge": True}, Role.PURGE),
    ("put_documents", {"documents": [{**NAMED, "document": {"place": ["a", "b"]}}]}, Role.WRITE),
    ("put_documents", {"documents": [{**NAMED, "document": {"place": ["a", "b"]}}, NAMED]}, Role.FORGET),
    ("put_documents", {"documents": [NAMED, {**NAMED, "purge": True}]}, Role.PURGE),
    ("forget_memory", {"memory_id": "a"}, Role.FORGET),
    ("forget_memory", {"memory_id": "a", "purge": True}, Role.PURGE),
)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(("method", "params", "needed"), REQUESTS, ids=[f"{one[0]}-{one[2].word}" for one in REQUESTS])
def test_each_role_may_do_what_those_before_it_may(
    role: Role, method: str, params: dict[str, Any], needed: Role
) -> None:
    request = parsed(method, params)
    here, everywhere = Grant("a", roles={"app": role}), Grant("b", roles={"*": role})
    for grant, project in ((here, "app"), (everywhere, "app"), (everywhere, "other"), (everywhere, None)):
        if role >= needed:
            grant.check(request, project)
        else:
            with pytest.raises(Forbidden, match=f"needs the role {needed.word}"):
                grant.check(request, project)
    for project in ("other", None):
        with pytest.raises(Forbidden):
            here.check(request, project)
    here.check(parsed("initialize_memory_system", {}), "other")


def test_a_hub_obeys_what_is_made_and_revoked_while_it_runs(hub: HubProcess) -> None:
    assert reply(hub, "", "store_memory", content="tea at four").status_code == 200
    reader, writer = token_of(hub.home, "reader", "read", "app"), token_of(hub.home, "writer", "write")
    assert reply(hub, "", "store_memory", content="tea at five").status_code == 401
    refused = reply(hub, reader, "store_memory", content="tea at five")
    assert (refused.status_code, "needs the role write in project 'app'" in refused.json()["error"]) == (403, True)
    assert reply(hub, reader, "list_changes").status_code == 200
    assert reply(hub, reader, "list_changes", "other").status_code == 403
    assert reply(hub, writer, "store_memory", content="tea at five").status_code == 200
    for name in ("reader", "writer"):
        with changing(hub.home) as grants:
            grants.revoked(name).write(hub.home)
    assert reply(hub, writer, "list_changes").status_code == 401
    assert reply(hub, "", "list_changes").status_code == 401


def test_the_audit_says_who_changed_what_and_not_what_was_said(hub: HubProcess) -> None:
    writer = token_of(hub.home, "ada", "purge")
    stored = reply(hub, writer, "store_memory", content="The launch code is 7394").json()["memory_id"]
    other = reply(hub, writer, "store_memory", content="The gate is green").json()["memory_id"]
    ends = {"source_memory_id": stored, "target_memory_id": other, "link_type": "related", "strength": 0.5}
    assert reply(hub, writer, "create_memory_link", **ends).status_code == 200
    reply(hub, writer, "search_semantic_memories", query="launch")
    reply(hub, writer, "forget_memory", memory_id=stored, purge=True)
    text = (hub.home / "audit" / "changes.jsonl").read_text()
    told = [json.loads(line) for line in text.splitlines()]
    assert [(one["token"], one["project"], one["method"], one["memories"]) for one in told] == [
        ("ada", "app", "StoreMemory", [stored]),
        ("ada", "app", "StoreMemory", [other]),
        ("ada", "app", "CreateMemoryLink", [stored, other]),
        ("ada", "app", "ForgetMemory", [stored]),
    ]
    assert "7394" not in text


@pytest.mark.parametrize("text", ["{}", "[]", "half of", '{"tokens": {"a": 1}, "quotas": {}}'])
def test_a_file_of_tokens_that_makes_no_sense_is_refused(home: Path, text: str) -> None:
    home.mkdir()
    (home / FILE).touch(mode=0o600)
    (home / FILE).write_text(text)
    with pytest.raises(InvalidSetting, match="makes no sense"):
        Grants.read(home)


# --- what a home makes of it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["", "/mcp"], ids=["json-call", "mcp"])
async def test_what_a_token_may_not_send_is_refused_by_name_and_all_else_goes_on(
    hub: HubProcess, tmp_path: Path, dialect: str
) -> None:
    writer, reader = token_of(hub.home, "writer", "write"), token_of(hub.home, "reader", "read", "app")
    at = f"{hub.url}{dialect}"
    async with MemoryRouter.open(tmp_path / "a", remote=at, token=writer, project="app", settings=CALM) as ours:
        shared = await ours.store("The port is 1", key="port")
        assert (await ours.sync(timeout=20)).delivered == 1
        async with MemoryRouter.open(tmp_path / "b", remote=at, token=reader, project="app", settings=CALM) as theirs:
            await theirs.store("The host is b", key="host")
            report = await theirs.sync(timeout=20)
            assert (report.dead, report.received, report.link) == (1, 1, LinkState.CONNECTED)
            [entry] = await theirs.outbox()
            assert (entry.state, "has not the role write" in str(entry.last_error)) == (DeliveryState.DEAD, True)
            assert next(iter((await theirs.search("port")).hits)).memory.key == "port"
        await ours.forget(shared.id)
        report = await ours.sync(timeout=20)
        assert (report.dead, report.link) == (1, LinkState.CONNECTED)
        with changing(hub.home) as grants:
            [known] = [one for one, grant in grants.by_digest.items() if grant.holder == "writer"]
            better = Grants({**grants.by_digest, known: Grant("writer", roles={"*": Role.FORGET})}, {}, is_needed=True)
            better.write(hub.home)
        await ours.outbox_retry()
        assert (await ours.sync(timeout=20)).pending == 0
        assert (await ours.status())["outbox"]["dead"] == 0


def test_status_says_that_a_memory_waits_for_room_at_the_hub(
    hub: HubProcess, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    (tmp_path / "token").write_text(token_of(hub.home, "writer", "write"))
    (tmp_path / "token").chmod(0o600)
    run("hub", "quota", "default", "1", "--home", str(hub.home))
    run("remotes", "add", "team", hub.url, "--token-file", str(tmp_path / "token"))
    run("store", "A note", "--wait", "30")
    run("store", "Another note", "--wait", "0")
    run("sync", "--timeout", "30")
    [waiting] = [line for line in run("status").out.splitlines() if line.startswith("outbox team")]
    assert "its quota is used up" in waiting


def test_a_sync_counts_a_document_that_was_refused(hub: HubProcess, run: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(token_of(hub.home, "reader", "read", "app"))
    (tmp_path / "token").chmod(0o600)
    run("remotes", "add", "team", hub.url, "--token-file", str(tmp_path / "token"), "--project", "app")
    run("documents", "share", "users", "--project", "app")
    assert (
        "delivery of 'users/note' to team failed"
        in run("documents", "put", "users", "note", "x", "--project", "app").err
    )
    told = run("sync", "--project", "app").out
    assert "0 dead; 1 change of a shared document or log dead" in told
    assert "`kingly-memory outbox list --project app` shows why" in told


@pytest.mark.parametrize("dialect", ["", "/mcp"], ids=["json-call", "mcp"])
async def test_who_may_not_read_there_is_told_that_nothing_is_taken_in(
    hub: HubProcess, tmp_path: Path, dialect: str
) -> None:
    elsewhere = token_of(hub.home, "guest", "write", "another project")
    at = f"{hub.url}{dialect}"
    async with MemoryRouter.open(tmp_path / "a", remote=at, token=elsewhere, project="app", settings=CALM) as ours:
        report = await ours.sync(timeout=20)
        sentence = "what others store there is not taken in here: "
        assert (report.pending, report.link) == (0, LinkState.CONNECTED)
        assert str(report.reason).startswith(sentence)
        assert "the token has not the role read, which this needs" in str(report.reason)
        assert (await ours.status())["not_taken_in"] == report.reason
        with changing(hub.home) as grants:
            better = {one: Grant("guest", roles={"*": Role.WRITE}) for one in grants.by_digest}
            Grants(better, {}, is_needed=True).write(hub.home)
        assert (await ours.sync(timeout=20)).reason is None
        assert "not_taken_in" not in await ours.status()


@pytest.mark.parametrize("dialect", ["", "/mcp"], ids=["json-call", "mcp"])
async def test_what_finds_no_room_waits_until_there_is_some(hub: HubProcess, tmp_path: Path, dialect: str) -> None:
    writer = token_of(hub.home, "writer", "write")

    def limit(most: int | None) -> None:
        with changing(hub.home) as grants:
            grants.limited("default", most).write(hub.home)

    limit(1)
    at = f"{hub.url}{dialect}"
    async with MemoryRouter.open(tmp_path / "a", remote=at, token=writer, project="app", settings=CALM) as ours:
        await ours.store("The port is 1", key="port")
        assert (await ours.sync(timeout=20)).delivered == 1
        await ours.store("The host is b", key="host")
        report = await ours.sync(timeout=20)
        assert (report.pending, report.dead, report.link) == (1, 0, LinkState.CONNECTED)
        assert "quota is used up" in str((await ours.outbox())[0].last_error)
        limit(None)
        report = await ours.sync(timeout=20)
        assert (report.delivered, report.pending) == (1, 0)
