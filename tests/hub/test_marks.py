"""Pins and ratings of several machines with one hub: what was said last counts on all, and every rating."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.attention import pins
from kingly_memory.attention.ratings import KEPT, Rating, Ratings
from kingly_memory.errors import RemoteRefused
from kingly_memory.hub.engine import scope_name
from kingly_memory.models import WEIGHT_LIMIT
from kingly_memory.testing import ManualClock
from tests.hub.machines import Team, synced

pytestmark = pytest.mark.requirement("N7")

APP = scope_name("default", "app")


async def shown(memory: MemoryRouter, thread_id: str) -> tuple[bool, float]:
    thread = await memory.threads.get(thread_id)
    return thread.pinned, round(thread.weight, 3)


async def reasons(memory: MemoryRouter, thread_id: str) -> list[str | None]:
    return [one["reason"] for one in (await memory.threads.get(thread_id)).ratings]


def known_as(team: Team, memory_id: str) -> str:
    """What the hub calls it."""
    return str(team.store.write(lambda tx: tx.id_of_key(APP, memory_id), APP).result())


async def test_what_one_machine_pins_is_pinned_on_all_until_one_takes_the_pin_off(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        pin = await laptop.attention.pin("Never deploy on a Friday", weight_boost=0.4, significance=0.8)
        await synced(laptop, desktop)
        assert await shown(desktop, pin.thread_id) == (True, 1.4)
        async with team.machine("third") as third:
            assert await shown(third, pin.thread_id) == (True, 1.4)
            assert (await third.sync(timeout=5)).received == 0
            async with team.machine("fourth", is_synced=False) as fourth:
                assert (await fourth.sync(timeout=5)).received == 1
            await desktop.attention.unpin(pin.thread_id)  # in the same moment
            await synced(desktop, laptop, third)
            for memory in (laptop, desktop, third):
                assert await shown(memory, pin.thread_id) == (False, 1.0)
                with pytest.raises(InvalidInput, match="is not pinned"):
                    await memory.attention.unpin(pin.thread_id)


async def test_what_is_pinned_elsewhere_gets_no_end_until_it_is_unpinned(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        pin = await laptop.attention.pin("Deploys need two reviews", significance=0.8)
        await synced(laptop, desktop)
        with pytest.raises(InvalidInput, match="pinned"):
            await desktop.update(pin.receipt.id, ttl=60)
        await laptop.attention.unpin(pin.thread_id)
        await synced(laptop, desktop)
        ending = await desktop.update(pin.receipt.id, ttl=60)
        assert ending is not None
        assert ending.ends_at is not None


async def test_a_pin_that_was_taken_off_while_the_hub_was_down_is_told_later(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        pin = await laptop.attention.pin("The launch is on Monday", significance=0.8)
        await synced(laptop, desktop)
        team.wires["laptop"].is_down = True
        await laptop.attention.unpin(pin.thread_id)
        team.wires["laptop"].is_down = False
        await synced(laptop, desktop)
        assert await shown(desktop, pin.thread_id) == (False, 1.0)


async def test_ratings_of_all_machines_count_together_once_each(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        stored = await laptop.store("The staging host is s1", key="staging", significance=0.8)
        await synced(laptop, desktop)
        await laptop.attention.rate(stored.id, useful=False, reason="it moved")
        team.clock.tick(1)
        await desktop.attention.rate(stored.id, useful=True, reason="it helped")
        await synced(laptop, desktop)
        await synced(desktop, laptop)
        for memory in (laptop, desktop):
            assert await reasons(memory, stored.id) == ["it moved", "it helped"]


async def test_what_stays_on_a_machine_keeps_its_pin_and_its_ratings_there(team: Team) -> None:
    async with team.machine("laptop") as laptop:
        pin = await laptop.attention.pin("My own note", significance=0.3)
        await laptop.attention.rate(pin.thread_id, useful=True, reason="secret reason")
        await laptop.attention.unpin(pin.thread_id)
        await synced(laptop)
        assert "mark_memory" not in team.wires["laptop"].called


async def test_of_a_forgotten_memory_the_hub_keeps_neither_pin_nor_reasons(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        pin = await laptop.attention.pin("The launch code is 7394", significance=0.8)
        await laptop.attention.rate(pin.thread_id, useful=True, reason="needed for the launch")
        await synced(laptop, desktop)
        remote_id = known_as(team, pin.receipt.id)
        facets = team.store.reader.facets_of({"attention": [remote_id], "ratings": [remote_id]})
        assert facets["attention"][remote_id]["pinned"] is True
        assert "launch" in str(facets["ratings"])
        await desktop.forget(pin.receipt.id)
        await synced(desktop, laptop)
        assert not any(team.store.reader.facets_of({"attention": [remote_id], "ratings": [remote_id]}).values())


@pytest.mark.parametrize(
    "pin",
    [{}, {"pinned": "yes"}, {"weight": 2}],
    ids=str,
)
async def test_a_pin_that_makes_no_sense_is_refused_by_the_hub_and_passed_over_by_a_machine(
    team: Team, pin: dict[str, Any]
) -> None:
    async with team.machine("laptop") as laptop:
        stored = await laptop.store("The staging host is s1", significance=0.8)
        await synced(laptop)
        remote_id = known_as(team, stored.id)
        with pytest.raises((InvalidInput, RemoteRefused), match="pin"):
            await team.wires["laptop"].call("mark_memory", {"memory_id": remote_id, "pin": pin})
        row = team.store.reader.row(remote_id)
        assert row is not None

        def tell(transaction: Any) -> None:
            transaction.set_facet("attention", remote_id, {**pin, "else": 1})
            transaction.set_facet("ratings", remote_id, {"ratings": [7, {"useful": "no"}]})
            transaction.note_seen(row.memory)

        team.store.write(tell, APP).result()
        async with team.machine("desktop") as desktop:
            assert [one.content for one in await desktop.list()] == ["The staging host is s1"]
            thread = await desktop.threads.get(stored.id)
            assert (thread.pinned, thread.weight, thread.ratings) == (False, 1.0, ())


async def test_a_clock_that_is_years_ahead_does_not_keep_a_pin_for_ever(team: Team, clock: ManualClock) -> None:
    latest_s = clock.now().timestamp()
    said = pins.received({"pinned": True, "weight": 99, "at": 9e12}, latest_s)
    assert said == {"pinned": True, "weight": WEIGHT_LIMIT, "at": latest_s}
    assert pins.is_later(pins.unpinned(said, latest_s - 5), said)


MARKS = st.builds(
    lambda is_pinned, weight, at: pins.pinned(weight, at) if is_pinned else {"pinned": False, "at": at},
    st.booleans(),
    st.sampled_from([1.1, 1.3, 1.5]),
    st.sampled_from([1.0, 2.0, 3.0]),
)


@given(st.permutations(range(4)), st.lists(MARKS, min_size=4, max_size=4))
def test_machines_that_hear_of_pins_in_any_order_end_with_the_same(order: list[int], told: list[Any]) -> None:
    def last(heard: list[Any]) -> Any:
        now = None
        for one in heard:
            now = one if pins.is_later(one, now) else now
        return now

    assert last(told) == last([told[place] for place in order])


RATINGS = st.builds(Rating, st.booleans(), st.datetimes(timezones=st.timezones()), st.sampled_from([None, "a", "b"]))


@given(st.lists(RATINGS), st.lists(RATINGS))
def test_ratings_are_united_in_any_order_and_once(one: list[Rating], other: list[Rating]) -> None:
    first, second = Ratings(tuple(one[-KEPT:])), Ratings(tuple(other[-KEPT:]))
    both = first.united(second)
    assert both == second.united(first) == both.united(first)
    assert set(both.latest) <= {*one, *other}
