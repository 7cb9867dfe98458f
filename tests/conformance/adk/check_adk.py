"""ADK's memory service over a router: the program of its docs, and what its base class promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.cli.service_registry import get_service_registry
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai.types import Content, Part

from kingly_memory import InvalidInput, MemoryRouter, RouterClosed, SyncMemoryRouter
from kingly_memory.integrations.adk import KinglyMemoryService
from tests.conformance import programs
from tests.conformance.refusals import LONG, NOTHING, TOO_LARGE, closed, refused

MODEL = """
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse

class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        print([part.text for content in llm_request.contents for part in content.parts])
        yield LlmResponse(content=Content(role="model", parts=[Part(text="Noted.")]))

MODEL = Scripted(model="scripted")
"""
LYDIA: Any = {"app_name": "shop", "user_id": "lydia"}


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", remote=False) as opened:
        yield opened


def event(name: str, text: str, author: str = "user") -> Event:
    parts = [Part(text=text), Part(inline_data={"data": b"\0", "mime_type": "image/png"})]
    return Event(id=name, author=author, content=Content(role=author, parts=parts), timestamp=1_700_000_000)


def session(*events: Event, name: str = "monday", user: str = "lydia") -> Session:
    return Session(id=name, app_name="shop", user_id=user, events=list(events))


async def found(service: KinglyMemoryService, query: str, **who: str) -> list[MemoryEntry]:
    return list((await service.search_memory(query=query, **{**LYDIA, **who})).memories)


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(tmp_path: Path) -> None:
    first, second = programs.told("Google ADK", MODEL, tmp_path, *programs.TEXTS)
    assert "PAST_CONVERSATIONS" not in first
    assert f"user: {programs.TEXTS[0]}" in second


async def test_a_session_that_is_added_again_is_kept_once_and_nobody_else_sees_it(memory: MemoryRouter) -> None:
    service = KinglyMemoryService(memory)
    said = [event("1", "The parcel goes to Graz"), event("2", "The parcel is on its way", "clerk")]
    await service.add_session_to_memory(session(said[0]))
    await service.add_session_to_memory(session(*said, event("3", "")))
    await service.add_events_to_memory(**LYDIA, events=said, session_id="monday")
    hits = await found(service, "Where does the parcel go?")
    assert sorted((one.author, one.content.parts[0].text, one.content.role) for one in hits) == [
        ("clerk", "The parcel is on its way", "clerk"), ("user", "The parcel goes to Graz", "user")
    ]  # fmt: skip
    assert {one.timestamp for one in hits} == {"2023-11-14T22:13:20+00:00"}
    for who in ({"user_id": "oskar"}, {"app_name": "bank"}):
        assert await found(service, "Where does the parcel go?", **who) == []
    assert await found(service, "") == []


async def test_what_was_deleted_does_not_come_back_with_its_session(memory: MemoryRouter) -> None:
    service = KinglyMemoryService(memory)
    said = [event("1", "The parcel goes to Graz"), event("2", "The invoice goes to Linz")]
    await service.add_session_to_memory(session(*said))
    hit = (await found(service, "Where does the parcel go to, Graz?"))[0]
    await service.delete_memory(app_name="shop", user_id="oskar", memory_id=hit.id)
    assert await found(service, "parcel Graz")
    await service.delete_memory(**LYDIA, memory_id=hit.id)
    await service.add_session_to_memory(session(*said))
    assert [one.content.parts[0].text for one in await found(service, "Graz or Linz")] == ["The invoice goes to Linz"]


async def test_facts_are_added_with_what_is_said_of_them_or_not_at_all(memory: MemoryRouter) -> None:
    service = KinglyMemoryService(memory)
    fact = MemoryEntry(
        content=Content(parts=[Part(text="Lydia lives in Graz")]), author="user", custom_metadata={"n": 1}
    )
    await service.add_memory(**LYDIA, memories=[fact, fact], custom_metadata={"from": "crm"})
    (hit,) = await found(service, "Where does Lydia live?")
    assert (hit.author, hit.custom_metadata) == ("user", {"n": 1, "from": "crm"})
    empty = MemoryEntry(content=Content(parts=[]))
    with pytest.raises(InvalidInput, match="nothing was stored"):
        await service.add_memory(**LYDIA, memories=[MemoryEntry(content=Content(parts=[Part(text="Oslo")])), empty])
    assert await found(service, "Oslo") == []
    for odd in ("", "a/../b", "nul\0", "\ud800"):
        assert await found(service, "Graz", user_id=odd) == []


def test_one_service_serves_several_event_loops_and_the_command_lines_registry(tmp_path: Path) -> None:
    registry = get_service_registry()
    registry.register_memory_service(
        "kingly", lambda uri, **_: KinglyMemoryService(SyncMemoryRouter.open(tmp_path / "home", remote=False))
    )
    service = registry.create_memory_service("kingly://", agents_dir=str(tmp_path))
    asyncio.run(service.add_session_to_memory(session(event("1", "The parcel goes to Graz"))))
    assert asyncio.run(found(service, "parcel Graz"))
    service._memory.close()
    with pytest.raises(RouterClosed):
        asyncio.run(found(service, "parcel Graz"))


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(memory: MemoryRouter) -> None:
    service = KinglyMemoryService(memory)
    whole = event("1", "The parcel goes to Graz")
    await refused(
        memory,
        lambda: KinglyMemoryService(NOTHING),
        lambda: service.add_session_to_memory(session(whole, event("2", TOO_LARGE))),
        lambda: service.add_session_to_memory(session(whole, event(LONG, "To Linz"))),
        lambda: service.add_session_to_memory(session(whole, user=LONG)),
        lambda: found(service, "parcel", user_id=LONG),
        lambda: service.search_memory(**LYDIA, query=NOTHING),
        lambda: service.search_memory(app_name="shop", user_id=NOTHING, query="parcel"),
    )
    assert await found(service, "parcel Graz") == []
    begun = asyncio.ensure_future(service.add_session_to_memory(session(whole, event("2", "The parcel goes to Linz"))))
    await asyncio.sleep(0)
    begun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun
    await service.add_memory(**LYDIA, memories=[MemoryEntry(content=Content(parts=[Part(text="behind it")]))])
    assert len(await found(service, "parcel")) in (0, 2)
    await closed(memory, lambda: found(service, "parcel"), lambda: service.add_session_to_memory(session(whole)))
