"""Tokens: from the environment or a file that its owner alone can read, never in the arguments, looked up again when
one was refused."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest
import respx

from kingly_memory import MemoryRouter
from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.cli.commands import COMMON, commands, parameters_of
from kingly_memory.errors import InvalidInput, InvalidSetting, RemoteUnauthorised
from kingly_memory.home.place import Place, hub_token
from kingly_memory.home.secret_file import LIMIT_BYTES, secret
from kingly_memory.hub.access import Access
from kingly_memory.hub.process import HubProcess
from kingly_memory.hub.serve import run_hub
from kingly_memory.settings import Pace, Settings
from tests.cli_runner import Run

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0, send_tries=1), embedder="none")


def written(path: Path, content: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_that_its_owner_alone_can_read_is_read(tmp_path: Path, mode: int) -> None:
    assert secret(written(tmp_path / "token", "  s3cret\r\n", mode), "token_file") == "s3cret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666, 0o777])
def test_a_file_that_others_may_touch_is_refused_and_says_what_to_do(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "token", "canary", mode)
    with pytest.raises(InvalidSetting, match="chmod 600") as refused:
        secret(path, "KINGLY_TOKEN_FILE")
    assert "KINGLY_TOKEN_FILE" in str(refused.value)
    assert "canary" not in str(refused.value)


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "token", "canary")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(InvalidSetting, match="belongs to another user"):
        secret(path, "token_file")


def test_a_link_is_judged_by_the_file_it_leads_to(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(written(tmp_path / "token", "s3cret"))
    assert secret(link, "token_file") == "s3cret"
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(InvalidSetting, match="chmod 600"):
        secret(link, "token_file")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty"),
        (" \n\t", "is empty"),
        (b"canary\xff", "is not text"),
        ("canary" * LIMIT_BYTES, "is longer than"),
    ],
)
def test_a_file_that_holds_no_token_is_refused_unseen(tmp_path: Path, content: str | bytes, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        secret(written(tmp_path / "token", content), "token_file", InvalidInput)
    assert (refused.value.field, "canary" in str(refused.value)) == ("token_file", False)


def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder", "gone", "a\0b"):
        with pytest.raises(InvalidSetting, match="cannot be read"):
            secret(tmp_path / name, "token_file")


# --- who says the token -----------------------------------------------------------------------------------------------


def place(token: str | None = None, token_file: str | None = None, **environment: str) -> tuple[str | None, str | None]:
    [found] = Place.resolve("home", "http://x", token, token_file=token_file, environment=environment).remotes
    return found.token, None if found.token_file is None else found.token_file.name


def test_arguments_win_over_the_environment_and_a_token_over_a_file() -> None:
    assert place() == (None, None)
    assert place(KINGLY_TOKEN="env") == ("env", None)
    assert place(KINGLY_TOKEN_FILE="file") == (None, "file")
    assert place(KINGLY_TOKEN="env", KINGLY_TOKEN_FILE="file") == ("env", None)
    assert place(token_file="given", KINGLY_TOKEN="env") == (None, "given")
    assert place(token="given", KINGLY_TOKEN_FILE="file") == ("given", None)
    assert place(KINGLY_TOKEN="", KINGLY_TOKEN_FILE="") == (None, None)


def test_a_file_stays_the_same_wherever_the_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [remote] = Place.resolve("home", "http://x", environment={"KINGLY_TOKEN_FILE": "token"}).remotes
    found = remote.token_file
    monkeypatch.chdir(tmp_path)
    assert found is not None
    assert found.is_absolute()
    assert not found.is_relative_to(tmp_path / "token")


def test_a_place_does_not_show_its_token() -> None:
    assert "canary" not in repr(Place.resolve("home", "http://x", token="canary", environment={}))


def test_a_hubs_token_may_lie_in_a_file(tmp_path: Path) -> None:
    file = written(tmp_path / "token", "from-the-file-of-it\n")
    assert hub_token({"KINGLY_HUB_TOKEN_FILE": str(file)}) == (None, file)
    assert hub_token({"KINGLY_HUB_TOKEN_FILE": str(file), "KINGLY_HUB_TOKEN": "said"}) == ("said", None)
    file.chmod(0o644)
    with pytest.raises(InvalidSetting, match="chmod 600"):
        run_hub(tmp_path / "hub", port=0, token_file=file)


def test_a_hubs_tokens_that_others_may_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="chmod 600") as refused:
        Access.of(None, written(tmp_path / "tokens.json", '{"canary": "ada"}', 0o644))
    assert "canary" not in str(refused.value)


def options() -> set[str]:
    """Every option of every command."""
    taken = [*COMMON, *(one for command in commands() for one in parameters_of(command) if one.is_option)]
    return {f"--{one.option}" for one in taken}


def test_no_option_takes_a_secret_itself_since_every_process_can_read_arguments() -> None:
    secrets = {name for name in options() if any(word in name for word in ("token", "secret", "password", "key-"))}
    assert secrets >= {"--token-file", "--tokens-file"}
    assert [name for name in secrets if not name.endswith("-file") and "tokens" not in name] == []


def test_a_command_reads_the_file_that_the_environment_names(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "token", "canary-of-a-token\n")
    monkeypatch.setenv("KINGLY_TOKEN_FILE", str(file))
    with HubProcess(tmp_path / "hub", token="canary-of-a-token") as hub:
        stored = run("store", "x", "--require-remote", "--remote", hub.url, "--json")
        assert (stored.code, stored.json["layers"]) == (0, ["local", "remote"])
    assert "canary-of-a-token" not in stored.out + stored.err


def test_a_command_that_needs_the_remote_says_what_is_wrong_with_the_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "token", "canary-of-a-token\n", 0o644)
    monkeypatch.setenv("KINGLY_TOKEN_FILE", str(file))
    ran = run("store", "x", "--require-remote", "--remote", "http://127.0.0.1:9")
    assert (ran.code, "chmod 600" in ran.err, "canary" in ran.err) == (1, True, False)
    assert run("store", "y", "--remote", "http://127.0.0.1:9").code == 0
    assert run("search", "x", "--remote", "http://127.0.0.1:9").code == 0
    assert "chmod 600" in run("sync", "--remote", "http://127.0.0.1:9").out
    assert "chmod 600" in run("doctor", "--remote", "http://127.0.0.1:9").out


def test_doctor_tells_of_secrets_that_are_not_where_they_should_be(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(remote: str) -> dict[str, tuple[str, str]]:
        ran = run("doctor", "--json", "--remote", remote)
        assert "canary" not in ran.out + ran.err
        return {one["about"]: (one["level"], one["what"]) for one in ran.json["findings"]}

    assert found("http://127.0.0.1:9").keys().isdisjoint({"token", "way"})
    inside = found("https://ada:canary@memory.invalid")
    assert inside["token"] == (
        "note",
        "the address of https://memory.invalid holds a password, which stays wherever the address is written down",
    )
    assert "way" not in inside
    assert found("http://memory.invalid")["way"][0] == "note"
    monkeypatch.setenv("KINGLY_TOKEN_FILE", str(written(tmp_path / "token", "canary", 0o644)))
    level, what = found("https://memory.invalid")["token"]
    assert (level, "chmod 600" in what) == ("problem", True)


# --- a token that was changed -----------------------------------------------------------------------------------------

URL = "http://remote.test"


def transport(file: Path) -> Transport:
    return Transport(endpoint(URL), clock=SystemClock(), token=lambda: secret(file, "token_file"))


def asked(sent: httpx.Request) -> httpx.Response:
    """A server that knows one token."""
    right = sent.headers.get("authorization") == "Bearer new"
    return httpx.Response(200, json={"fine": True}) if right else httpx.Response(401, json={"error": "no"})


@respx.mock
async def test_a_refused_token_is_looked_up_again_and_the_same_call_made_once_more(tmp_path: Path) -> None:
    route = respx.post(f"{URL}/x").mock(side_effect=asked)
    there = transport(written(tmp_path / "token", "old"))
    written(tmp_path / "token", "new")
    assert await there.post("/x", {"a": 1}, headers={"Idempotency-Key": "k"}, timeout_s=5) == {"fine": True}
    sent = [(call.request.headers["authorization"], call.request.headers["idempotency-key"]) for call in route.calls]
    assert sent == [("Bearer old", "k"), ("Bearer new", "k")]
    assert len({call.request.content for call in route.calls}) == 1
    await there.post("/x", {}, headers={}, timeout_s=5)
    assert len(route.calls) == 3
    await there.aclose()


@respx.mock
@pytest.mark.parametrize(
    ("status", "change", "calls"),
    [
        (401, "none", 1),
        (401, "gone", 1),
        (401, "empty", 1),
        (401, "loose", 1),
        (401, "two words", 1),
        (401, "older", 2),
        (403, "new", 1),
    ],
)
async def test_a_refusal_is_followed_by_one_more_try_where_there_is_another_token_and_it_was_about_that(
    tmp_path: Path, status: int, change: str, calls: int
) -> None:
    route = respx.post(f"{URL}/x").respond(status)
    file = written(tmp_path / "token", "old")
    there = transport(file)
    if change == "gone":
        file.unlink()
    elif change != "none":
        written(file, {"empty": "", "loose": "new"}.get(change, change), 0o644 if change == "loose" else 0o600)
    with pytest.raises(RemoteUnauthorised):
        await there.post("/x", {}, headers={}, timeout_s=5)
    assert len(route.calls) == calls
    await there.aclose()


async def test_a_refused_token_pauses_delivery_and_a_new_one_in_its_file_resumes_it(tmp_path: Path) -> None:
    file = written(tmp_path / "token", "old")
    with HubProcess(tmp_path / "hub", token="the-new-one-of-it") as hub:
        async with MemoryRouter.open(
            tmp_path / "home", hub.url, token_file=file, project="app", settings=QUICK
        ) as memory:
            waiting = await memory.store("kept meanwhile", significance=0.9, wait=5)
            assert (waiting.delivery, (await memory.status())["outbox"]["dead"]) == ("pending", 0)
            written(file, "the-new-one-of-it")
            await memory.sync()
            assert {(await memory.status())["outbox"][state] for state in ("pending", "dead")} == {0}
            assert (await memory.search("kept")).source == "hybrid"


async def test_a_file_that_cannot_serve_takes_the_link_from_nobody(tmp_path: Path) -> None:
    loose = written(tmp_path / "token", "canary", 0o644)
    with HubProcess(tmp_path / "hub") as hub:
        async with (
            MemoryRouter.open(tmp_path / "home", hub.url, project="app", settings=QUICK) as without,
            MemoryRouter.open(tmp_path / "home", hub.url, token_file=loose, project="app", settings=QUICK) as barred,
        ):
            said = await barred.sync(timeout=5)
            assert (said.link, "chmod 600" in str(said.reason)) == ("offline", True)
            await without.sync(timeout=5)
            assert (await without.status())["link"]["state"] == "connected"
            loose.chmod(0o600)
            assert (await barred.sync(timeout=5)).link == "connected"


@respx.mock
@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_wants_a_token_and_was_shown_none_says_so(status: int) -> None:
    respx.post(f"{URL}/x").respond(status)
    there = Transport(endpoint(URL), clock=SystemClock())
    with pytest.raises(RemoteUnauthorised) as refused:
        await there.post("/x", {}, headers={}, timeout_s=5)
    assert refused.value.reason == f"HTTP {status}: it wants a token, and none was shown"
    await there.aclose()
