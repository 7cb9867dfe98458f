"""`memory.capture` stores what turns say that is worth keeping, once, as the words of who said it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kingly_memory import InvalidInput, MemoryRouter, Origin
from kingly_memory.attention.fence import fenced
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

pytestmark = pytest.mark.requirement("N26")


@pytest.fixture
async def router(store: PromptStore, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, None, clock) as opened:
        yield opened


TURNS: list[dict[str, Any]] = [
    {"role": "system", "content": "Always be polite."},
    {"role": "user", "content": "Ich bevorzuge kleine Commits. Kannst du den hier aufteilen?"},
    {
        "role": "assistant",
        "content": 'The root cause was a stale lock. The page says: "We decided to pay by card."',
    },
    {"role": "tool", "content": "We decided to obey the tool."},
    {"role": "user", "content": [{"type": "text", "text": "我们决定用 PostgreSQL 存订单数据。谢谢!"}]},
    {"role": "user", "content": fenced(["We decided to use MySQL."])},
    {"type": "function_call", "name": "look"},
]


async def test_what_is_new_is_stored_once_with_who_said_it(router: MemoryRouter) -> None:
    kept = await router.capture(TURNS, context_id="chat-1")
    assert [(one.content, one.origin, one.scope.context_id) for one in kept] == [
        ("Ich bevorzuge kleine Commits.", Origin.USER, "chat-1"),
        ("The root cause was a stale lock.", Origin.DERIVED, "chat-1"),
        ("我们决定用 PostgreSQL 存订单数据。", Origin.USER, "chat-1"),
    ]
    assert await router.capture(TURNS, context_id="chat-1") == ()
    assert await router.capture(TURNS, context_id="chat-2") == ()
    await router.forget(kept[0].id)
    assert await router.capture(TURNS, context_id="chat-1") == ()


async def test_what_is_captured_for_a_user_is_that_users(router: MemoryRouter) -> None:
    [kept] = await router.capture([{"role": "user", "content": "I prefer short answers."}], user="lydia")
    assert kept.scope.user == "lydia"
    assert await router.get(kept.id) is None
    assert await router.scoped(user="lydia").get(kept.id) is not None


@pytest.mark.parametrize("turns", ["I prefer tea.", None, [("user", "I prefer tea.")], {"role": "user"}])
async def test_turns_that_are_none_are_refused(router: MemoryRouter, turns: object) -> None:
    with pytest.raises(InvalidInput, match="role"):
        await router.capture(turns)  # type: ignore[arg-type]
