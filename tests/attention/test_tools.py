"""Focus, pins and ratings as a client meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp_sessions import Session, session

SIX = {"ai_focus", "ai_unfocus", "ai_pin", "ai_suggestions", "ai_rate_context", "ai_compact"}


async def put_in(client: Session) -> str:
    """A memory of the client's own agent that was put into a prompt."""
    stored = await client.ok(
        "memory_intelligent_store",
        key="reviews",
        content="Deploys wait for two reviews",
        context_id="thread_deploys",
    )
    seen = await client.ok("memory_inject", prompt="how many reviews do deploys wait for?", session="s1")
    [note] = seen["put_in"]
    assert note["id"] == stored["local_id"]
    thread_id: str = note["thread_id"]
    return thread_id


@pytest.mark.requirement("SMT-001")
async def test_the_six_tools_of_the_design_are_there(tmp_path: Path) -> None:
    async with session(tmp_path, toolsets=("ai",)) as client:
        assert {tool.name for tool in (await client.client.list_tools()).tools} >= SIX


@pytest.mark.requirement("SMT-002", "SMT-012", "SMT-028")
async def test_the_tools_take_what_the_design_says(tmp_path: Path) -> None:
    async with session(tmp_path) as client:
        tools = {tool.name: tool.input_schema["properties"] for tool in (await client.client.list_tools()).tools}
    defaults = {name: {key: one.get("default") for key, one in tools[name].items()} for name in SIX & tools.keys()}
    assert defaults["ai_focus"] == {"topic": None, "weight": 0.8}
    assert defaults["ai_unfocus"] == {"topic": None}
    assert defaults["ai_pin"] == {"content": None, "title": None, "topics": None, "weight_boost": 0.3}
    assert defaults["ai_rate_context"] == {"thread_id": None, "useful": None, "reason": None}


@pytest.mark.requirement("SMT-003", "SMT-005", "SMT-006")
async def test_a_focus_is_set_updated_shown_and_cleared(tmp_path: Path) -> None:
    async with session(tmp_path) as client:
        for name in ("a", "b", "c"):
            await client.ok(
                "memory_intelligent_store", key=name, content=f"about {name}", tags=["auth"], context_id=name
            )
        said = await client.ok("ai_focus", topic="auth")
        assert said == {
            "success": True,
            "message": 'Focus set on "auth" (weight=0.8). 3 threads will be prioritized.',
            "topic": "auth",
            "weight": 0.8,
            "affected_threads": 3,
            "affected_memories": 0,
            "more": False,
        }
        heavy = await client.ok("ai_focus", topic="AUTH", weight=3)
        assert heavy["weight"] == 1.0
        await client.ok("ai_focus", topic="ui", weight=0.2)
        focus = (await client.ok("memory_status"))["focus"]
        assert focus == [{"topic": "AUTH", "weight": 1.0}, {"topic": "ui", "weight": 0.2}]
        one = await client.ok("ai_unfocus", topic="Auth")
        assert (one["cleared"], one["active_focus"]) == (["AUTH"], ["ui"])
        every = await client.ok("ai_unfocus")
        assert every["message"] == "All focus cleared. Returning to similarity-based injection."
        assert "focus" not in await client.ok("memory_status")


@pytest.mark.requirement("SMT-028", "SMT-029", "SMT-033", "SMT-034")
async def test_what_was_put_in_is_rated(tmp_path: Path) -> None:
    async with session(tmp_path, agent="ada") as client:
        thread_id = await put_in(client)
        rated = await client.ok("ai_rate_context", thread_id=thread_id, useful=False, reason="one review now")
        assert rated == {
            "success": True,
            "message": "Rated thread_deploys as not useful. Relevance score: 1.00 → 0.50",
            "thread_id": "thread_deploys",
            "useful": False,
            "relevance_before": 1.0,
            "relevance_score": 0.5,
            "raw_score": 0.0,
            "ratings": 1,
            "reason": "one review now",
        }
