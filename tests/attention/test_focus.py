"""What is in focus, and what that does for threads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter, SyncMemoryRouter
from kingly_memory.attention.focus import MOST, MOST_BOOST, Focus, Focuses, Thread, boost, focus
from kingly_memory.errors import InvalidInput
from kingly_memory.testing import ManualClock
from kingly_memory.validation import Imported, draft
from tests.router_bench import CALM, PromptStore, router_over

AT = datetime(2026, 2, 1, 8, 0, tzinfo=UTC)
AUTH = Thread("thread_auth", "Authentication flow", ("authentication", "JWT"))

labels = st.text("abcABC ß", min_size=1, max_size=6).filter(str.strip)
threads = st.builds(Thread, labels, labels, st.lists(labels, max_size=3).map(tuple))
some_focuses = st.lists(st.builds(Focus, labels, st.floats(0, 1)), max_size=6)


@pytest.mark.requirement("SMT-007", "SMT-008", "SMT-009", "SMT-010")
@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ({"jwt": 0.8}, 0.3 * 0.8),
        ({"FLOW": 0.8}, 0.2 * 0.8),
        ({"THREAD_AUTH": 0.6}, 0.5 * 0.6),
        ({"authentication": 0.8}, 0.4),
        ({"jwt": 0.5, "flow": 0.5}, 0.25),
        ({"authentication": 1.0, "thread_auth": 0.8}, 0.5),
        ({"jwt": 0.0, "billing": 1.0}, 0.0),
        ({}, 0.0),
    ],
)
def test_a_focus_lifts_a_thread_by_its_topic_its_id_and_its_title(topics: Mapping[str, float], expected: float) -> None:
    assert boost(AUTH, [Focus(topic, weight) for topic, weight in topics.items()]) == pytest.approx(expected)


@pytest.mark.requirement("SMT-010")
def test_the_golden_boosts() -> None:
    golden = Thread("auth", "auth and more", ("auth",))
    assert boost(Thread("t", "auth and more", ("auth",)), [Focus("auth", 0.8)]) == pytest.approx(0.4)
    assert boost(golden, [Focus("auth", 0.8)]) == 0.5


@pytest.mark.requirement("SMT-010")
@given(threads, some_focuses, labels, st.floats(0, 1))
def test_more_focus_never_lifts_less_nor_beyond_the_cap(
    thread: Thread, focuses: list[Focus], topic: str, weight: float
) -> None:
    before, after = boost(thread, focuses), boost(thread, [*focuses, Focus(topic, weight)])
    assert 0 <= before <= after <= MOST_BOOST


@pytest.mark.requirement("SMT-005")
def test_the_same_topic_again_takes_the_place_of_the_first() -> None:
    active = Focuses().with_one(Focus("solana", 0.8, AT)).with_one(Focus("ui", 0.2, AT))
    again = active.with_one(Focus("Solana", 0.5, AT))
    assert [(one.topic, one.weight) for one in again] == [("Solana", 0.5), ("ui", 0.2)]


def test_focus_is_bounded_and_says_so() -> None:
    full = Focuses(tuple(Focus(f"topic {number}") for number in range(MOST)))
    assert len(full.with_one(Focus("TOPIC 7", 0.1)).active) == MOST
    with pytest.raises(InvalidInput, match="50 topics are in focus already; take the focus off one"):
        full.with_one(Focus("one more"))


@pytest.mark.requirement("SMT-002")
@pytest.mark.parametrize(("said", "weight"), [(1.7, 1.0), (-3, 0.0), (10**400, 1.0), (0, 0.0), (1, 1.0), (0.25, 0.25)])
def test_weights_are_brought_into_their_range(said: float, weight: float) -> None:
    assert focus("topic", said, AT).weight == weight


@pytest.mark.parametrize("said", [math.nan, math.inf, -math.inf, True, "0.8", None, [1]])
def test_what_is_no_weight_is_refused(said: object) -> None:
    with pytest.raises(InvalidInput, match="weight: expected a number from 0 to 1"):
        focus("topic", said, AT)


@pytest.mark.parametrize("topic", ["", "   ", None, 7, "a\nb", "x" * 513])
def test_what_is_no_topic_is_refused(topic: object) -> None:
    with pytest.raises(InvalidInput, match="topic: "):
        focus(topic, 0.8, AT)


@pytest.mark.requirement("SMT-004")
def test_the_form_is_that_of_the_seeds_file() -> None:
    said = {
        "active_focus": [
            {"topic": "solana", "weight": 0.8, "set_at": "2026-02-01T08:00:00"},
            {"topic": "thread_xxx", "weight": 0.6, "set_at": "2026-02-01T08:05:00"},
        ],
        "last_updated": "2026-02-01T08:05:00",
    }
    read = Focuses.from_json(said)
    assert read.active[0] == Focus("solana", 0.8, AT)
    assert json.loads(json.dumps(read.to_json())) == {
        "active_focus": [
            {"topic": "solana", "weight": 0.8, "set_at": "2026-02-01T08:00:00+00:00"},
            {"topic": "thread_xxx", "weight": 0.6, "set_at": "2026-02-01T08:05:00+00:00"},
        ],
        "last_updated": "2026-02-01T08:05:00+00:00",
    }
    assert Focuses.from_json(read.to_json()) == read


@pytest.mark.parametrize(
    ("damaged", "topics"),
    [
        (None, []),
        ([], []),
        ({"active_focus": {"topic": "a"}}, []),
        ({"active_focus": [None, 7, {}, {"topic": ""}, {"topic": 1}, {"topic": "a", "weight": "much"}]}, []),
        ({"active_focus": [{"topic": "a", "weight": math.nan}, {"topic": "b", "weight": 9}]}, ["b"]),
        ({"active_focus": [{"topic": "a", "set_at": "soon"}, {"topic": "A", "weight": 0.1}]}, ["A"]),
        ({"active_focus": [{"topic": f"t{number}"} for number in range(60)]}, [f"t{n}" for n in range(10, 60)]),
    ],
)
def test_of_a_damaged_facet_what_can_be_read_counts(damaged: Any, topics: list[str]) -> None:
    read = Focuses.from_json(damaged)
    assert [one.topic for one in read] == topics
    assert all(0 <= one.weight <= 1 for one in read)


# --- in a router ------------------------------------------------------------------------------------------------------


def elsewhere(store: PromptStore, clock: ManualClock) -> MemoryRouter:
    """Another project of the same home."""
    return router_over(PromptStore(store.home), None, clock, project="other")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(AT)


async def attended(tmp_path: Path, clock: ManualClock, **about: Any) -> MemoryRouter:
    return router_over(PromptStore(tmp_path / "home"), None, clock, **about)


@pytest.mark.requirement("SMT-003", "SMT-005", "SMT-006", "SMT-050")
async def test_a_focus_says_how_many_threads_it_lifts(tmp_path: Path, clock: ManualClock) -> None:
    async with await attended(tmp_path, clock) as memory:
        assert await memory.attention.focused() == ()
        assert "focus" not in (await memory.status())
        await memory.store("tokens last an hour", title="Authentication", context_id="thread_a")
        await memory.store("and refresh for a day", title="authentication again", context_id="thread_a")
        await memory.store("logins are logged", tags=["AUTHENTICATION"])
        await memory.store("It goes on. Of authentication is only spoken here", context_id="thread_b")
        focused = await memory.attention.focus("authentication")
        told = "2 threads and 1 memory outside of threads will be prioritized."
        assert focused.message == f'Focus set on "authentication" (weight=0.8). {told}'
        assert (focused.affected_threads, focused.affected_memories, focused.more) == (2, 1, False)
        assert (await memory.attention.focus("thread_b", 0.5)).affected_threads == 1
        assert "(weight=1)" in (await memory.attention.focus("Authentication", 7)).message
        active = [(one.topic, one.weight, one.set_at) for one in await memory.attention.focused()]
        assert active == [("Authentication", 1.0, AT), ("thread_b", 0.5, AT)]
        assert (await memory.status())["focus"] == [
            {"topic": "Authentication", "weight": 1.0},
            {"topic": "thread_b", "weight": 0.5},
        ]


@pytest.mark.requirement("SMT-006")
async def test_the_focus_is_taken_off_one_topic_or_all(tmp_path: Path, clock: ManualClock) -> None:
    async with await attended(tmp_path, clock) as memory:
        assert (await memory.attention.unfocus()).message == "Nothing was in focus."
        for topic in ("solana", "ui", "api"):
            await memory.attention.focus(topic)
        assert (await memory.attention.unfocus("UI")).message == 'Focus on "ui" cleared. Still in focus: solana, api.'
        assert (await memory.attention.unfocus("ui")).message == '"ui" was not in focus.'
        cleared = await memory.attention.unfocus()
        assert cleared.cleared == ("solana", "api")
        assert cleared.message == "All focus cleared. Returning to similarity-based injection."
        assert await memory.attention.focused() == ()
        with pytest.raises(InvalidInput, match="topic: is empty; say which, or leave it out to clear all focus"):
            await memory.attention.unfocus("")


async def test_only_living_threads_of_the_project_are_counted(tmp_path: Path, clock: ManualClock) -> None:
    store = PromptStore(tmp_path / "home")
    async with router_over(store, None, clock) as memory, elsewhere(store, clock) as other:
        await other.store("foreign", title="billing", context_id="thread_theirs")
        await memory.store("ended", title="billing", type="working", context_id="thread_ended")
        gone = await memory.store("forgotten", title="billing", context_id="thread_gone")
        await memory.forget(gone.id)
        clock.jump(4 * 3600)
        await memory.store("here", title="Billing", context_id="thread_here")
        assert (await memory.attention.focus("billing")).affected_threads == 1
        assert (await memory.attention.focus("thread_theirs")).affected_threads == 0


async def test_a_part_of_a_word_in_a_title_counts_and_so_does_a_script_without_spaces(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with await attended(tmp_path, clock) as memory:
        await memory.store("tokens", title="Authentication flow", context_id="thread_a")
        await memory.store("認証の話", title="認証", context_id="thread_b")
        assert (await memory.attention.focus("auth")).affected_threads == 1
        assert (await memory.attention.focus("認証")).affected_threads == 1


async def test_titles_and_topics_that_a_thread_was_given_count(tmp_path: Path, clock: ManualClock) -> None:
    from kingly_memory.cognition.owners import owner

    store = PromptStore(tmp_path / "home")
    async with router_over(store, None, clock) as memory:
        await memory.store("tokens last an hour", title="logins", context_id="thread_a")
        facet = {"context_id": "thread_a", "title": "Security", "topics": ["audits"]}
        store.write(lambda tx: tx.set_facet("thread", owner("app", "thread_a"), facet)).result()
        foreign = {"context_id": "thread_f", "title": "Security"}
        store.write(lambda tx: tx.set_facet("thread", owner("other", "thread_f"), foreign)).result()
        counts = [(await memory.attention.focus(topic)).affected_threads for topic in ("security", "AUDITS", "logins")]
        assert counts == [1, 1, 0]


async def test_of_very_many_threads_it_says_at_least_how_many(tmp_path: Path, clock: ManualClock) -> None:
    async with await attended(tmp_path, clock) as memory:
        await memory.remember(
            Imported(draft(f"note {number}", title="billing", context_id=f"thread_{number}")) for number in range(150)
        )
        focused = await memory.attention.focus("billing")
        assert focused.more
        assert focused.affected_threads <= 100
        assert focused.message.split(". ")[1] == f"At least {focused.affected_threads} threads will be prioritized."


# --- what a thread is about without anybody having said so ------------------------------------------------------------

GARDEN = (
    "It was dry all week. Tomatoes in the greenhouse got water",
    "Water the tomatoes every second evening",
    "Ana looks after the greenhouse and its tomatoes in May",
)


@pytest.mark.requirement("SMT-007")
async def test_the_words_that_a_thread_is_told_by_are_its_topics(tmp_path: Path, clock: ManualClock) -> None:
    store = PromptStore(tmp_path / "home")
    async with router_over(store, None, clock) as memory:
        for text in GARDEN:
            await memory.store(text, context_id="summer", origin="user")
        assert "greenhouse" in (await memory.threads.get("summer")).topics
        assert (await memory.attention.focus("Greenhouse")).affected_threads == 1
        prompt = "is there enough water for the evening?"
        in_focus = {*(await memory.inject(prompt)).put_in}
        await memory.attention.unfocus()
        assert {*(await memory.inject(prompt)).put_in} < in_focus


async def test_a_thread_that_nobody_has_called_anything_goes_by_how_it_begins(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with await attended(tmp_path, clock) as memory:
        await memory.store("Deploys need two reviews. Lunch is at noon", context_id="rules", origin="user")
        focused = await memory.attention.focus("deploys")
        assert focused.affected_threads == 1
        hint = "So far nothing is about that: say a topic or tag, words of a title"
        assert hint not in focused.message
        nothing = await memory.attention.focus("supper")
        assert (nothing.affected_threads, hint in nothing.message) == (0, True)


@pytest.mark.requirement("SMT-008")
async def test_the_id_of_a_thread_names_it_also_once_it_is_merged(tmp_path: Path, clock: ManualClock) -> None:
    async with await attended(tmp_path, clock) as memory:
        alone = await memory.store("Invoices are checked by Ben", origin="user")
        await memory.store("Deploys need two reviews", context_id="release", origin="user")
        await memory.store("A rollback takes a minute", context_id="friday", origin="user")
        await memory.threads.merge("release", "friday")
        for name in ("release", "friday"):
            assert (await memory.attention.focus(name)).affected_threads == 1
            found = await memory.inject("anything else?")
            assert ({*found.threads.values()}, found.left_out) == ({"release"}, {})
            assert (await memory.attention.unfocus(name)).cleared == (name,)
        focused = await memory.attention.focus(alone.id)
        assert (focused.affected_threads, focused.affected_memories) == (0, 1)
        assert "Invoices are checked" in (await memory.inject("anything else?")).text
        await memory.archive(alone.id)
        assert (await memory.attention.focus(alone.id)).affected_memories == 0
        assert (await memory.attention.focus(alone.id, 0)).message.endswith("With a weight of 0 it lifts nothing.")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_how_accents_are_composed_makes_no_difference(tmp_path: Path, clock: ManualClock, form: Any) -> None:
    from unicodedata import normalize

    other: Any = "NFD" if form == "NFC" else "NFC"
    async with await attended(tmp_path, clock) as memory:
        await memory.store("tokens", tags=[normalize(form, "Café")], context_id="t", origin="user")
        await memory.store("beans", title=normalize(form, "Das Café am Eck"), context_id="u", origin="user")
        assert (await memory.attention.focus(normalize(other, "café"))).affected_threads == 2
        await memory.attention.focus(normalize(form, "CAFÉ"))
        assert len(await memory.attention.focused()) == 1
        assert "tokens" in (await memory.inject("which tokens?")).text


@pytest.mark.requirement("SMT-006", "SMT-052")
async def test_what_is_in_focus_holds_for_every_agent_of_the_project(tmp_path: Path) -> None:
    """A server that was not told for whom it speaks guides the hooks of all."""

    def opened(agent: str | None, project: str = "app") -> SyncMemoryRouter:
        return SyncMemoryRouter.open(tmp_path / "home", False, project=project, agent=agent, settings=CALM)

    with opened(None) as memory:
        memory.attention.focus("billing")
    with opened("ada") as memory:
        memory.attention.focus("UI", 0.9)
        assert [(one.topic, one.weight) for one in memory.attention.focused()] == [("billing", 0.8), ("UI", 0.9)]
        assert memory.status()["focus"] == [{"topic": "billing", "weight": 0.8}, {"topic": "UI", "weight": 0.9}]
        assert memory.attention.unfocus("ui").message == 'Focus on "UI" cleared. Still in focus: billing.'
    with opened("eve", "other") as memory:
        assert memory.attention.focused() == ()
    with opened("eve") as memory:
        assert memory.attention.unfocus().cleared == ("billing",)
        assert memory.attention.focused() == ()
