"""An agent's stream: what happened, in the order of time, found again however long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.app.opening import MemoryRouter
from kingly_memory.cognition import stream as streams
from kingly_memory.cognition.stream import MemoryEvent
from kingly_memory.errors import InvalidInput
from kingly_memory.models import MemoryType
from kingly_memory.ports import Row
from kingly_memory.testing import ManualClock
from tests.lifecycle.samples import placed as subject
from tests.router_bench import PromptStore

DAY_S = 86_400.0
NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)


def said(events: list[MemoryEvent]) -> list[str]:
    return [event.content for event in events]


# --- recording --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-042")
async def test_an_event_is_an_episodic_memory_of_its_agent_and_comes_back_as_it_was(memory: MemoryRouter) -> None:
    metadata: dict[str, Any] = {"record": "mine", "depth": {"m": 4}}
    event = MemoryEvent("The ford is deep", NINE, "sighting", ("ford", "east"), 0.7, metadata)
    receipt = await memory.stream("scout").record(event)
    stored = await memory.get(receipt.id)
    assert stored is not None
    assert (stored.type, stored.scope.agent, stored.tags) == (MemoryType.EPISODIC, "scout", ("ford", "east"))
    assert stored.metadata["record"] == "event"
    [back] = await memory.stream("scout").recall("ford")
    assert (back.id, back.agent) == (receipt.id, "scout")
    assert (back.content, back.timestamp, back.kind, back.tags) == (event.content, NINE, "sighting", event.tags)
    assert (back.significance, back.metadata) == (0.7, metadata)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (MemoryEvent("  "), "content: is empty"),
        (MemoryEvent("x", significance=2), "significance: 2 is outside 0 to 1"),
        (MemoryEvent("x", kind=""), "kind: is empty"),
        (MemoryEvent("x", timestamp="yesterday"), "timestamp: 'yesterday' is not an ISO 8601"),  # type: ignore[arg-type]
        (MemoryEvent("x", metadata={"at": NINE}), "metadata: contains datetime"),
        ("a text", "event: expected a MemoryEvent, not str"),
    ],
)
async def test_an_event_that_makes_no_sense_is_refused_and_nothing_is_stored(
    memory: MemoryRouter, event: Any, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        await memory.stream("scout").record(event)
    assert (await memory.status())["memories"]["total"] == 0


async def test_a_stream_needs_to_know_whose_it_is(memory: MemoryRouter) -> None:
    with pytest.raises(InvalidInput, match="agent_id: is missing; name an agent here, or when the memory is opened"):
        memory.stream()
    with pytest.raises(InvalidInput, match="agent_id: is empty"):
        memory.stream(" ")


# --- recalling --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-043")
async def test_recall_answers_with_what_is_relevant_then_with_what_is_recent(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    stream = memory.stream("scout")
    for text in ("The ford is deep", "Rain at noon", "The bridge is out", "Supper was late"):
        clock.tick(60)
        await stream.record(MemoryEvent(text))
    assert said(await stream.recall("is the ford deep", limit=3)) == [
        "The ford is deep",
        "Supper was late",
        "The bridge is out",
    ]
    assert said(await stream.recall("", limit=2)) == ["Supper was late", "The bridge is out"]
    assert len(await stream.recall("ford")) == 4


@pytest.mark.requirement("ARG-043")
async def test_recall_shows_an_agent_nothing_of_another(memory: MemoryRouter) -> None:
    for agent in ("scout", "cook"):
        await memory.stream(agent).record(MemoryEvent(f"The {agent} crossed the ford"))
    await memory.store("Nobody in particular crossed the ford", type="episodic")
    assert said(await memory.stream("scout").recall("crossed the ford")) == ["The scout crossed the ford"]
    assert await memory.stream("stranger").recall("crossed the ford") == []


@pytest.mark.requirement("ARG-043")
@pytest.mark.parametrize("is_archived", [False, True], ids=["alive", "archived"])
async def test_an_old_event_is_recalled_behind_any_number_of_newer_ones(
    memory: MemoryRouter, clock: ManualClock, is_archived: bool
) -> None:
    stream = memory.stream("scout")
    ford = await stream.record(MemoryEvent("The ford lies behind the old mill"))
    clock.jump(400 * DAY_S)
    for number in range(150):
        await stream.record(MemoryEvent(f"Supper number {number} was late"))
    if is_archived:
        await memory.archive(ford.id)
    assert said(await stream.recall("where is the ford", limit=5))[0] == "The ford lies behind the old mill"
    assert len(await memory.search("where is the ford", agent="scout")) == (not is_archived)


async def test_what_was_forgotten_is_no_part_of_the_stream(memory: MemoryRouter) -> None:
    stream = memory.stream("scout")
    receipt = await stream.record(MemoryEvent("The ford is deep"))
    await memory.forget(receipt.id)
    assert await stream.recall("ford") == []
    assert await stream.summarize((None, None)) == "Nothing is known of scout."


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-045")
async def test_events_stand_in_the_order_of_time_whenever_they_were_recorded(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    stream = memory.stream("scout")
    clock.jump((NINE - clock.now()).total_seconds())
    for text, at in (
        ("now", None),
        ("a day ago", NINE - timedelta(days=1)),
        ("tomorrow", NINE + timedelta(days=1)),
        ("now, second", NINE),
        ("an hour ago, naive", datetime(2026, 1, 1, 8)),  # noqa: DTZ001  # naive is the point
        ("an hour ago, elsewhere", datetime(2026, 1, 1, 10, tzinfo=timezone(timedelta(hours=2)))),
    ):
        await stream.record(MemoryEvent(text, at))
    in_time = ["a day ago", "an hour ago, naive", "an hour ago, elsewhere", "now", "now, second", "tomorrow"]
    assert said(await stream.events()) == in_time
    assert said(await stream.events(limit=2)) == in_time[-2:]
    assert said(await stream.recall("", limit=4)) == in_time[:-5:-1]


@pytest.mark.requirement("ARG-043")
async def test_the_latest_are_those_that_may_be_shown_and_no_more_are_read(
    memory: MemoryRouter, store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = memory.stream("scout")
    receipts = [await stream.record(MemoryEvent(f"event {number}")) for number in range(60)]
    await memory.forget(receipts[59].id)
    await memory.archive(receipts[58].id)
    await memory.store("of nobody", type="episodic")
    await memory.stream("cook").record(MemoryEvent("soup"))
    read: list[int] = []
    whole = store.reader.rows_at

    def noted(positions: list[int], deadline_s: float) -> list[Row]:
        read.extend(positions)
        return whole(positions, deadline_s)

    monkeypatch.setattr(store.reader, "rows_at", noted)
    assert said(await stream.recall("", limit=3)) == ["event 58", "event 57", "event 56"]
    assert len(read) == 3


@pytest.mark.requirement("ARG-045")
@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 40))
def test_the_latest_are_the_last_of_all_in_time(hours: list[int], limit: int) -> None:
    memories = [subject(number=order, age_s=-3_600.0 * hour).memory for order, hour in enumerate(hours)]
    in_time = sorted(memories, key=lambda one: one.created_at)  # stable: of one instant, in the order of storing
    assert streams.latest(memories, limit) == in_time[::-1][:limit]


# --- summaries --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-044")
async def test_a_summary_tells_what_happened_between_two_times(memory: MemoryRouter) -> None:
    stream = memory.stream("scout")
    for hour, kind, text in (
        (9, "sighting", "Smoke over the hill. It was black, and there was much of it."),
        (10, "decision", "We go round by the ford"),
        (11, "sighting", "The ford is deep"),
        (12, "event", "Supper was late"),
    ):
        await stream.record(MemoryEvent(text, NINE.replace(hour=hour), kind))
    assert await stream.summarize((NINE, datetime(2026, 1, 1, 11))) == (  # noqa: DTZ001  # naive is UTC
        "3 events of scout from 2026-01-01 09:00 until 2026-01-01 11:00 UTC: 2 sighting, 1 decision.\n"
        "- 2026-01-01 09:00 sighting: Smoke over the hill.\n"
        "- 2026-01-01 10:00 decision: We go round by the ford\n"
        "- 2026-01-01 11:00 sighting: The ford is deep"
    )
    assert await stream.summarize(("2026-01-01T12:00", None)) == (
        "1 event of scout from 2026-01-01 12:00 UTC: 1 event.\n- 2026-01-01 12:00 event: Supper was late"
    )
    assert (await stream.summarize((None, "2026-01-01"))).startswith("4 events of scout until 2026-01-01 23:59:59 UTC")


@pytest.mark.requirement("ARG-044")
async def test_a_range_in_which_nothing_happened_says_so(memory: MemoryRouter) -> None:
    stream = memory.stream("scout")
    await stream.record(MemoryEvent("Smoke", NINE))
    nothing = "Nothing is known of scout from 2027-01-01 00:00 until 2027-01-02 00:00 UTC."
    assert await stream.summarize((datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC))) == nothing


async def test_a_summary_of_very_much_shows_what_mattered_and_counts_the_rest(memory: MemoryRouter) -> None:
    stream = memory.stream("scout")
    for number in range(30):
        event = MemoryEvent(f"step {number}", NINE + timedelta(minutes=number), significance=number % 10 / 10)
        await stream.record(event)
    lines = (await stream.summarize((None, None))).splitlines()
    assert lines[0] == "30 events of scout: 30 event."
    shown = [number for number in range(30) if number % 10 > 3 or number in {13, 23}]  # of equals, the later ones
    assert [line.rpartition(" ")[2] for line in lines[1:-1]] == [str(number) for number in shown]
    assert lines[-1] == "- and 10 more that mattered less"


@pytest.mark.parametrize(
    ("time_range", "why"),
    [
        ((NINE, NINE - timedelta(seconds=1)), "ends before it begins"),
        ((NINE,), "expected two times"),
        ("ab", "expected two times"),
        (("soon", None), "'soon' is not an ISO 8601 date or time"),
    ],
)
async def test_a_range_that_is_none_is_refused(memory: MemoryRouter, time_range: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"time_range: {why}"):
        await memory.stream("scout").summarize(time_range)
