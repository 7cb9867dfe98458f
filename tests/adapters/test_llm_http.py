"""The language model over HTTP: what is sent, how answers are read, and what bad ones cost."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.llm.openai_http import call_path
from kingly_memory.adapters.remote.http import REPLY_LIMIT_BYTES
from kingly_memory.app import parts
from kingly_memory.errors import InvalidSetting, LanguageModelError
from kingly_memory.home.place import ModelPlace
from kingly_memory.ports import LanguageModel
from kingly_memory.settings import Pace, Settings
from tests.chat_server import CALL, Answer, ChatServer, chatting, reply, said
from tests.cli_runner import Run

SETTINGS = Settings(durability="process", pace=Pace(closing_s=0.0))
PATIENCE_S = 20.0
"""More than any answer takes; only what never comes is cut by less."""
TOKEN = "t0ken-of-a-model"


@asynccontextmanager
async def model_at(
    url: str, monkeypatch: pytest.MonkeyPatch, token: str | None = None
) -> AsyncIterator[tuple[LanguageModel, bool]]:
    """The model of these variables, and whether it is on this machine."""
    monkeypatch.setenv("KINGLY_LLM_URL", url)
    monkeypatch.setenv("KINGLY_LLM_MODEL", "small")
    if token is not None:
        monkeypatch.setenv("KINGLY_LLM_TOKEN", token)
    async with parts.language_model(SETTINGS, SystemClock()) as (model, is_here):
        assert model is not None
        yield model, is_here


async def failure(server: ChatServer, monkeypatch: pytest.MonkeyPatch, timeout_s: float = PATIENCE_S) -> str:
    """The reason of a call that has to fail."""
    async with model_at(server.url, monkeypatch, TOKEN) as (model, _):
        with pytest.raises(LanguageModelError) as failed:
            await model.complete("is it so?", timeout_s=timeout_s)
    assert TOKEN not in str(failed.value)
    assert "KINGLY_LLM_URL" in str(failed.value)
    return failed.value.reason


async def test_a_prompt_goes_to_the_chat_endpoint_and_its_text_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with chatting(always=reply(said("it is so"))) as server:
        async with model_at(server.url, monkeypatch, TOKEN) as (model, is_here):
            assert await model.complete("is it so? 東京", timeout_s=PATIENCE_S) == "it is so"
    [asked] = server.asked
    assert is_here
    assert asked.path == CALL
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert asked.payload == {
        "model": "small",
        "messages": [{"role": "user", "content": "is it so? 東京"}],
        "stream": False,
        "temperature": 0,
    }


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("", "/v1/chat/completions"),
        ("/v1", "/chat/completions"),
        ("/api/v3", "/chat/completions"),
        ("/v1/chat/completions", ""),
    ],
)
def test_an_address_is_completed_to_that_of_the_call(path: str, call: str) -> None:
    assert call_path(path) == call


async def test_a_model_that_takes_no_temperature_is_asked_again_without(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = reply({"error": {"message": "temperature is not supported"}}, status=400)
    with chatting(refusal) as server:
        async with model_at(server.url, monkeypatch) as (model, _):
            for _ in range(2):
                assert "verified" in await model.complete("is it so?", timeout_s=PATIENCE_S)
    assert ["temperature" in asked.payload for asked in server.asked] == [True, False, False]


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"[" * 1_000)


BAD: dict[str, tuple[Answer, str]] = {
    "no JSON": (reply(b"<html>"), "the reply is not JSON"),
    "nothing": (reply(b""), "the reply is empty"),
    "another shape": (reply({"completion": "it is so"}), "another shape"),
    "no choices": (reply({"choices": []}), "another shape"),
    "a list": (reply([1, 2]), "another shape"),
    "no text": (reply(said(None)), "holds no text"),
    "an empty text": (reply(said(" \n")), "holds no text"),
    "an error in a success": (reply({"error": "out of memory"}), "the call failed"),
    "too long": (reply(said("x" * REPLY_LIMIT_BYTES)), "longer than 1,048,576 bytes"),
    "endless": (endless, "longer than 1,048,576 bytes"),
    "compressed": (reply(gzip.compress(b"x" * 1_000_000), content_encoding="gzip"), "compressed"),
    "not let in": (reply({}, status=401), "HTTP 401: the token was not accepted"),
    "not there": (reply({}, status=404), "HTTP 404: Not Found"),
    "too many": (reply({}, status=429), "HTTP 429: Too Many Requests"),
    "broken": (reply({}, status=500), "HTTP 500: Internal Server Error"),
    "refused twice": (reply({}, status=422), "HTTP 422"),
}


@pytest.mark.parametrize("answer", BAD)
async def test_a_bad_answer_is_an_error_that_says_why(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play, reason = BAD[answer]
    with chatting(always=play) as server:
        assert reason in await failure(server, monkeypatch)


async def test_no_answer_costs_the_deadline_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with chatting() as server:
        server.always = server.keep_waiting
        assert "within 0.05 s" in await failure(server, monkeypatch, timeout_s=0.05)


async def test_a_redirect_elsewhere_takes_neither_prompt_nor_token_along(monkeypatch: pytest.MonkeyPatch) -> None:
    with chatting() as elsewhere, chatting(always=reply({}, status=307, location=f"{elsewhere.url}/x")) as server:
        assert "to another server" in await failure(server, monkeypatch)
    assert elsewhere.asked == []


# --- where it is ----------------------------------------------------------------------------------------------------


def test_a_model_is_named_by_the_environment_alone() -> None:
    assert ModelPlace.resolve({}) is None
    assert ModelPlace.resolve({"KINGLY_LLM_URL": "", "KINGLY_LLM_MODEL": "small"}) is None
    place = ModelPlace.resolve({"KINGLY_LLM_URL": "http://h", "KINGLY_LLM_MODEL": "small", "KINGLY_LLM_TOKEN": TOKEN})
    assert place == ModelPlace("http://h", "small", TOKEN)
    assert TOKEN not in repr(place)
    with pytest.raises(InvalidSetting, match="llm_model"):
        ModelPlace.resolve({"KINGLY_LLM_URL": "http://h"})


async def test_a_token_that_no_header_can_hold_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSetting, match="llm_token") as refused:
        async with model_at("http://localhost", monkeypatch, "two words"):
            pass
    assert "two words" not in str(refused.value)


async def test_only_a_model_of_this_machine_counts_as_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for url, here in (("http://[::1]:9/v1", True), ("https://models.example/v1", False)):
        async with model_at(url, monkeypatch) as (_, is_here):
            assert is_here is here


# --- all the way ----------------------------------------------------------------------------------------------------


async def test_a_verified_search_asks_the_model_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with chatting() as server:
        monkeypatch.setenv("KINGLY_LLM_URL", server.url)
        monkeypatch.setenv("KINGLY_LLM_MODEL", "small")
        monkeypatch.setenv("KINGLY_LLM_TOKEN", TOKEN)
        async with MemoryRouter.open(tmp_path / "home", project="app", settings=SETTINGS) as memory:
            await memory.store("Deploys need two reviews.", significance=0.1)
            results = await memory.search_verified("deploys", ground_truth=["Every deploy is reviewed twice."])
    [one] = results.verified
    assert (one.verification.judge, one.verification.confidence) == ("model", 0.8)
    [prompt] = [asked.payload["messages"][0]["content"] for asked in server.asked]
    assert "Every deploy is reviewed twice." in prompt
    assert TOKEN not in caplog.text
    assert "reviewed twice" not in caplog.text


def test_the_command_line_goes_on_when_the_model_is_gone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with chatting() as server:
        pass
    monkeypatch.setenv("KINGLY_LLM_URL", server.url)
    monkeypatch.setenv("KINGLY_LLM_MODEL", "small")
    for number in ("two", "three"):
        run("store", f"Deploys need {number} reviews.")
    answer: Any = json.loads(run("search", "deploys", "--verify", "--json").out)
    assert len(answer["uncertain"]) == 2
    assert "Connection refused" in answer["uncertain"][0]["verification"]["reason"]
