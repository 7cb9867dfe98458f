"""Threads as a view of memories: what is seen of them, and what merging, splitting and naming does to it."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Query
from kingly_memory.router.threads import changes
from kingly_memory.router.threads.seen import threads_of
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, router_over
from tests.threads.conftest import LASTING
from tests.threads.samples import TOPICS, put, talk

DAY_S = 86_400.0
NOW_S = 1e9
OURS = re.compile(r"thread_\d{8}_\d{6}_[0-9a-f]{6}")


def facet(store: PromptStore, name: str, context_id: str) -> JsonObject | None:
    whose = owner("app", context_id)
    return store.reader.facets(name, [whose]).get(whose)


def rating(useful: bool, day: int) -> JsonObject:
    return {"useful": useful, "timestamp": f"2026-01-{day:02}T08:00:00+00:00", "reason": None}


def everything(store: PromptStore) -> dict[str, str]:
    """What is stored, live and archived: the content by id."""
    rows = store.reader.page(Query("", "app"), [MemoryStatus.LIVE, MemoryStatus.ARCHIVED], 10_000, None)
    return {row.memory.id: row.memory.content for row in rows}


async def contents(memory: MemoryRouter, thread_id: str) -> list[str]:
    return [one.memory.content for one in (await memory.threads.get(thread_id, limit=1_000)).messages]


# --- seeing -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-049")
async def test_a_thread_that_nobody_rated_or_weighed_has_the_usual_figures(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    began = clock.now()
    await talk(memory, "deploys", *TOPICS["deploys"][:2])
    clock.jump(60)
    await talk(memory, "deploys", TOPICS["deploys"][2])
    seen = await memory.threads.get("deploys", limit=2)
    assert (seen.id, seen.title, seen.status) == ("deploys", "Deploys of the shop wait for two reviews", "active")
    assert (seen.weight, seen.relevance, seen.relevance_raw, seen.pinned) == (1.0, 1.0, 1.0, False)
    assert (seen.message_count, len(seen.messages), seen.next_first) == (3, 2, 2)
    assert (seen.created_at, seen.last_active) == (began, clock.now())
    assert (seen.recalls, seen.recalled_at, seen.drift_history) == (0, None, ())
    assert {"deploy", "migration"} <= set(seen.topics)
    rest = await memory.threads.get("deploys", first=2, limit=5)
    assert [one.memory.content for one in rest.messages] == [TOPICS["deploys"][2]]
    assert rest.next_first is None


async def test_tags_are_topics_and_a_title_is_a_title(memory: MemoryRouter) -> None:
    await talk(memory, "t", "one", "two", tags=["solana", "rust"], title="The validator")
    await talk(memory, "t", "three", tags=["rust"])
    seen = await memory.threads.get("t")
    assert (seen.title, seen.topics, seen.tags) == ("The validator", ("rust", "solana"), ("rust", "solana"))


async def test_what_its_facet_says_comes_first(memory: MemoryRouter, store: PromptStore) -> None:
    await talk(memory, "t", *TOPICS["deploys"], tags=["x"])
    said = {"context_id": "t", "title": "Named", "topics": list("abcdefg")}
    put(store, "thread", owner("app", "t"), said)
    put(store, "attention", owner("app", "t"), {"weight": 1.3, "pinned": True})
    put(store, "ratings", owner("app", "t"), {"ratings": [rating(True, 1), rating(False, 2)]})
    seen = await memory.threads.get("t")
    assert (seen.title, seen.topics) == ("Named", tuple("abcde"))
    assert (seen.weight, seen.pinned) == (1.3, True)
    assert seen.relevance_raw == pytest.approx(1.0 / 2.1)
    assert 0.1 <= seen.relevance < 1
    assert seen.to_json()["ratings"] == [rating(True, 1), rating(False, 2)]


async def test_a_memory_of_no_context_is_a_thread_of_its_own(memory: MemoryRouter) -> None:
    stored = await memory.store("Ana likes tea", key="tea")
    for name in (stored.id, "tea"):
        seen = await memory.threads.get(name)
        assert (seen.id, seen.title, seen.message_count) == (stored.id, "Ana likes tea", 1)
    assert await memory.threads.list() == ()


@pytest.mark.parametrize("facet", [{"title": 7, "topics": "x", "into": 3, "recalls": "many", "holds": [1, None]}, {}])
async def test_a_facet_that_makes_no_sense_counts_as_none(
    memory: MemoryRouter, store: PromptStore, facet: JsonObject
) -> None:
    await talk(memory, "t", "one")
    for name in ("thread", "attention", "ratings"):
        put(store, name, owner("app", "t"), {**facet, "weight": "heavy", "ratings": {"x": 1}, "recalled_at": 1e300})
    seen = await memory.threads.get("t")
    assert (seen.title, seen.weight, seen.relevance, seen.recalled_at) == ("one", 1.0, 1.0, None)


async def test_active_threads_are_listed_the_latest_first(
    memory: MemoryRouter, clock: ManualClock, store: PromptStore
) -> None:
    await talk(memory, "old", "the printer jams")
    clock.jump(20 * DAY_S)
    for name in ("a", "b", "c"):
        await talk(memory, name, f"{name} is about {name}{name}")
        clock.jump(60)
    await memory.threads.merge("a", "b")
    await memory.compact()
    views = [await memory.threads.get(name) for name in ("c", "a", "b", "old")]
    told = {one.id: (one.status, one.into, one.message_count) for one in views}
    assert told == {
        "c": ("active", None, 1),
        "a": ("active", None, 2),
        "b": ("merged-into", "a", 2),
        "old": ("archived", None, 1),
    }
    assert [one.id for one in await memory.threads.list()] == ["c", "a"]
    assert [one.id for one in await memory.threads.list(1)] == ["c"]


@pytest.mark.requirement("SMT-026")
async def test_suggestions_say_how_heavy_the_threads_are_together(memory: MemoryRouter, store: PromptStore) -> None:
    for number in range(12):
        await talk(memory, f"t{number:02}", f"about number{number}")
    put(store, "attention", owner("app", "t03"), {"weight": 1.5, "pinned": True})
    health = (await memory.threads.suggestions()).health
    assert health["active_threads"] == 12
    assert health["total_weight"] == pytest.approx(12.5)
    assert (health["context_pressure"], health["utilisation"]) == (1.0, 12 / 30)


async def test_a_thread_whose_memories_cannot_be_read_keeps_nobody_from_the_others(
    memory: MemoryRouter, tmp_path: Path
) -> None:
    for name in ("sound", "damaged", "damaged too"):
        await talk(memory, name, f"about {name}")
    with closing(sqlite3.connect(tmp_path / "home" / "store" / "cache.db")) as connection, connection:
        connection.execute("UPDATE Cache SET value = '{}' WHERE key GLOB 'm:*' AND value LIKE '%about damaged%'")
    assert [one.id for one in await memory.threads.list(1)] == ["sound"]
    assert (await memory.threads.suggestions()).health["active_threads"] == 1


# --- what injection sees ----------------------------------------------------------------------------------------------


async def memories(memory: MemoryRouter) -> list[Memory]:
    return list(await memory.list(limit=100))


async def test_injection_sees_what_a_thread_goes_on_as_and_what_is_said_of_it(
    memory: MemoryRouter, store: PromptStore
) -> None:
    for name in "abc":
        await talk(memory, name, f"about {name}", tags=[name], title=f"Title {name}")
    await memory.threads.merge("b", "c")
    await memory.threads.merge("a", "b")
    put(store, "attention", owner("app", "a"), {"weight": 0.5})
    put(store, "ratings", owner("app", "a"), {"ratings": [rating(False, 1)]})
    await memory.threads.rename("a", "All of it")
    seen = threads_of(store.reader, "app", await memories(memory), NOW_S)
    assert {(one.id, one.title, one.weight) for one in seen.values()} == {("a", "All of it", 0.5)}
    assert {one.topics for one in seen.values()} == {("a",), ("b",), ("c",)}
    assert [one.relevance for one in seen.values()] == [pytest.approx(1 / 2)] * 3


async def test_a_pinned_memory_has_its_own_weight(memory: MemoryRouter, store: PromptStore) -> None:
    [pinned, other] = await talk(memory, "t", "pinned", "other")
    stray = (await memory.store("alone")).id
    put(store, "attention", owner("app", "t"), {"weight": 0.7})
    put(store, "attention", pinned, {"weight": 1.3, "pinned": True})
    seen = threads_of(store.reader, "app", await memories(memory), NOW_S)
    assert (seen[pinned].weight, seen[pinned].pinned) == (1.3, True)
    assert (seen[other].weight, seen[other].pinned, seen[other].relevance) == (0.7, False, 1.0)
    assert (seen[stray].id, seen[stray].weight) == (stray, 1.0)


# --- merging ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-047")
async def test_two_merged_threads_hold_all_that_either_held(memory: MemoryRouter, store: PromptStore) -> None:
    await talk(memory, "a", *TOPICS["deploys"])
    await talk(memory, "b", *TOPICS["orders"])
    before = everything(store)
    merged = await memory.threads.merge("a", "b")
    assert merged.message == "Merged b into a: 12 messages (weight=1.00)"
    assert await contents(memory, "a") == [*TOPICS["deploys"], *TOPICS["orders"]] == await contents(memory, "b")
    assert (merged.thread.merged, len(merged.thread.drift_history)) == (("b",), 2)
    assert everything(store) == before
    seen = await memory.threads.get("b")
    assert (seen.id, seen.status, seen.into) == ("b", "merged-into", "a")
    for text in (TOPICS["deploys"][0], TOPICS["orders"][0]):
        assert (await memory.search(text, limit=1))[0].memory.content == text
    await talk(memory, "b", "said later, where the merged thread was")
    assert (await contents(memory, "a"))[-1] == "said later, where the merged thread was"


async def test_the_larger_weight_counts_and_a_pin_stays(memory: MemoryRouter, store: PromptStore) -> None:
    await talk(memory, "a", "about a")
    await talk(memory, "b", "about b")
    put(store, "attention", owner("app", "a"), {"weight": 0.4, "note": "kept"})
    put(store, "attention", owner("app", "b"), {"weight": 1.3, "pinned": True})
    merged = (await memory.threads.merge("a", "b")).thread
    assert (merged.weight, merged.pinned) == (1.3, True)
    assert facet(store, "attention", "a") == {"weight": 1.3, "pinned": True, "note": "kept"}


async def test_ratings_come_together_in_the_order_of_their_times(memory: MemoryRouter, store: PromptStore) -> None:
    for name, days in (("a", (1, 4)), ("b", (2, 3))):
        await talk(memory, name, f"about {name}")
        put(store, "ratings", owner("app", name), {"ratings": [rating(name == "a", day) for day in days]})
    merged = (await memory.threads.merge("a", "b")).thread
    assert merged.ratings == (rating(True, 1), rating(False, 2), rating(False, 3), rating(True, 4))


@pytest.mark.parametrize(
    ("one", "other", "sentence"),
    [
        ("a", "a", "thread_b: 'a' cannot be merged with itself"),
        ("a", "nobody", "thread_b: there is no thread 'nobody' in this project"),
        ("nobody", "a", "thread_a: there is no thread 'nobody' in this project"),
        ("a", "b", "thread_b: 'b' was merged into 'a' already; name that one"),
        ("c", "b", "thread_b: 'b' was merged into 'a' already; name that one"),
        ("b", "c", "thread_a: 'b' was merged into 'a' already; name that one"),
        ("a", "of b", "thread_b: 'a' and 'of b' name one thread, 'a'; name two"),
        ("of a", "of b", "thread_b: 'of a' and 'of b' name one thread, 'a'; name two"),
        ("alone", "a", "thread_a: 'alone' was said in no context; merge threads of contexts"),
        ("", "a", "thread_a: is empty"),
    ],
)
async def test_what_cannot_be_merged_changes_nothing(
    memory: MemoryRouter, store: PromptStore, one: str, other: str, sentence: str
) -> None:
    for name in "abc":
        await memory.store(f"about {name}", key=f"of {name}", context_id=name)
    await memory.store("in no context", key="alone")
    await memory.threads.merge("a", "b")
    before = [facet(store, "thread", name) for name in "abc"]
    with pytest.raises(InvalidInput) as refused:
        await memory.threads.merge(one, other)
    assert str(refused.value).startswith(sentence)
    assert [facet(store, "thread", name) for name in "abc"] == before


# --- splitting --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-019", "SMT-047")
async def test_a_thread_is_divided_where_its_topic_changes(memory: MemoryRouter, store: PromptStore) -> None:
    await talk(memory, "t", *TOPICS["garden"], *TOPICS["orders"])
    before = everything(store)
    done = await memory.threads.split("t")
    [kept, new] = done.threads
    assert (kept.id, bool(OURS.fullmatch(new.id))) == ("t", True), "the larger part keeps the id"
    assert await contents(memory, "t") == [*TOPICS["orders"]]
    assert await contents(memory, new.id) == [*TOPICS["garden"]]
    assert everything(store) == before
    assert (kept.drift_history, new.drift_history) == ((), ())
    assert {one.memory.revision for one in (await memory.threads.get(new.id)).messages} == {2}
    assert done.message == f"Split t into 2: t (6 messages), {new.id} (5 messages)"


async def test_what_was_merged_is_divided_again(memory: MemoryRouter, store: PromptStore) -> None:
    for name in ("garden", "orders"):
        await talk(memory, name, *TOPICS[name])
    await memory.threads.merge("orders", "garden")
    [kept, new] = (await memory.threads.split("orders")).threads
    assert (kept.id, await contents(memory, "orders")) == ("orders", [*TOPICS["orders"]])
    assert await contents(memory, new.id) == [*TOPICS["garden"]]


async def test_the_same_thread_is_divided_in_the_same_way(tmp_path: Path) -> None:
    found = []
    for number in range(2):
        store, clock = PromptStore(tmp_path / str(number)), ManualClock()
        async with router_over(store, None, clock, settings=LASTING) as memory:
            await talk(memory, "t", *(text for name in TOPICS for text in TOPICS[name]))
            found.append([await contents(memory, one.id) for one in (await memory.threads.split("t")).threads])
    assert found[0] == found[1]
    assert len(found[0]) >= 4


async def test_a_part_of_a_pinned_thread_is_pinned(memory: MemoryRouter, store: PromptStore) -> None:
    await talk(memory, "t", *TOPICS["garden"], *TOPICS["orders"])
    put(store, "attention", owner("app", "t"), {"weight": 1.3, "pinned": True})
    parts = (await memory.threads.split("t")).threads
    assert [(one.weight, one.pinned) for one in parts] == [(1.3, True), (1.3, True)]


@pytest.mark.requirement("SMT-047")
async def test_archived_messages_go_with_their_part_and_stay_archived(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    await talk(memory, "t", *TOPICS["garden"], *TOPICS["orders"])
    clock.jump(20 * DAY_S)
    await memory.compact()
    [_, new] = (await memory.threads.split("t")).threads
    assert (new.status, new.message_count, new.archived_count) == ("archived", 5, 5)
    for entry in (await memory.archived()).entries:
        await memory.restore(entry.memory.id)
    seen = await memory.threads.get(new.id)
    assert (seen.status, seen.archived_count) == ("active", 0)


async def test_working_contexts_follow_their_memories(memory: MemoryRouter) -> None:
    await talk(memory, "t", *TOPICS["garden"], *TOPICS["orders"])
    [kept, new] = (await memory.threads.split("t")).threads
    for one, name in ((kept, "orders"), (new, "garden")):
        at_hand = (await memory.working_context(one.id)).items
        assert [item.content for item in at_hand] == [*reversed(TOPICS[name])]
    await talk(memory, new.id, "said after the split")
    assert len((await memory.working_context(new.id)).items) == len(TOPICS["garden"]) + 1


async def test_a_remote_learns_where_memories_belong_now(tmp_path: Path, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    async with router_over(PromptStore(tmp_path / "home"), remote, clock, settings=LASTING) as memory:
        await talk(memory, "t", *TOPICS["garden"], *TOPICS["orders"])
        await memory.sync()
        [_, new] = (await memory.threads.split("t")).threads
        await memory.sync()
        held = {one.content: one.scope.context_id for one in remote.memories.values()}
    assert held == {**dict.fromkeys(TOPICS["orders"], "t"), **dict.fromkeys(TOPICS["garden"], new.id)}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nobody", "thread_id: there is no thread 'nobody'"),
        ("single", "thread_id: 'single' has one message, so there is nothing to split"),
        ("one topic", "thread_id: 'one topic' stays with one topic, as far as its words tell"),
        ("", "thread_id: is empty"),
    ],
)
async def test_what_cannot_be_split_changes_nothing(memory: MemoryRouter, name: str, sentence: str) -> None:
    await talk(memory, "single", "only this")
    await talk(memory, "one topic", *TOPICS["invoices"], tags=["tagged"])
    with pytest.raises(InvalidInput) as refused:
        await memory.threads.split(name)
    assert str(refused.value).startswith(sentence)
    assert {one.memory.revision for one in (await memory.threads.get("one topic")).messages} == {1}


async def test_a_thread_too_long_to_be_divided_at_once_is_refused(
    memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kingly_memory.router.thread_verbs.MOST_MOVED", 10)
    assert changes.MOST_MOVED == 2_000
    await talk(memory, "t", *TOPICS["garden"], *TOPICS["orders"])
    with pytest.raises(InvalidInput, match="has more than 10 messages, too many to be divided at once"):
        await memory.threads.split("t")


# --- naming and recalling ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-024")
async def test_threads_on_a_topic_are_recalled_best_first_and_it_counts(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    for name in ("garden", "orders", "travel"):
        await talk(memory, name, *TOPICS[name])
    await memory.store("Tomatoes are cheap on Fridays")
    found = await memory.threads.recall("tomatoes in the greenhouse")
    assert [one.id for one in found.threads][:1] == ["garden"]
    assert len(found.threads) == 2, "the single memory is a thread too"
    assert all(
        "omatoes" in one.memory.content or "greenhouse" in one.memory.content for one in found.threads[0].messages
    )
    assert [one.recalls for one in found.threads] == [1, 1]
    clock.jump(60)
    again = await memory.threads.recall("garden", limit=1)
    assert [(one.id, one.recalls, one.recalled_at, len(one.messages)) for one in again.threads] == [
        ("garden", 2, clock.now(), 5)
    ]
    assert (await memory.threads.get("orders")).recalls == 0
    nothing = await memory.threads.recall("xylophones")
    assert (nothing.threads, nothing.message) == ((), 'No thread is about "xylophones".')
    with pytest.raises(InvalidInput, match="topic: is empty; say what to recall"):
        await memory.threads.recall(" ")


async def test_a_topic_that_is_somebodys_key_is_still_a_topic(memory: MemoryRouter) -> None:
    await talk(memory, "garden", *TOPICS["garden"])
    await memory.store("Tomatoes are cheap on Fridays", key="tomatoes")
    assert len((await memory.threads.recall("tomatoes")).threads) == 2


@pytest.mark.requirement("SMT-047")
async def test_archived_threads_are_shown_as_such_and_active_again_once_their_messages_are_restored(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    await talk(memory, "garden", *TOPICS["garden"])
    clock.jump(20 * DAY_S)
    await memory.compact()
    [seen] = (await memory.threads.recall("tomatoes")).threads
    assert (seen.status, {one.archived for one in seen.messages}) == ("archived", {True})
    for message in (await memory.threads.get("garden")).messages:
        await memory.restore(message.memory.id)
    [back] = (await memory.threads.recall("garden")).threads
    assert (back.status, {one.archived for one in back.messages}) == ("active", {False})
    assert (await memory.compact(dry_run=True))["actions"] == []
