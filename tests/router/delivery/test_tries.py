"""One attempt of a delivery: how often it is tried, what its pauses hold up, and what goes in one call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kingly_memory.errors import RemoteRefused, RemoteUnavailable
from kingly_memory.models import LinkState, Memory
from kingly_memory.settings import Pace
from kingly_memory.testing import FakeRemote, Lost, ManualClock
from tests.router_bench import CALM, ChoosyRemote, PromptStore, Scene, at_work, delivered, held

BUSY = RemoteUnavailable("HTTP 503", reached=True)
PATIENT = replace(CALM, pace=replace(CALM.pace, send_tries=Pace().send_tries))


def busy(wish: float | None) -> RemoteUnavailable:
    return RemoteUnavailable("HTTP 503", reached=True, retry_after_s=wish)


async def tries_of(disk: PromptStore, clock: ManualClock, *outcomes: RemoteUnavailable, seconds: int) -> list[int]:
    """The seconds after which a stored memory was sent."""
    remote = FakeRemote(clock=clock)
    async with at_work(disk, remote, clock, settings=PATIENT) as at:
        remote.script(*outcomes)
        await at.memory.store("fog")
        seen = list[int]()
        await clock.settle()
        for second in range(seconds + 1):
            seen += [second] * (len(remote.named("store")) - len(seen))
            await clock.advance(1)
    return seen


@pytest.mark.requirement("KNG-065", "KNG-070")
async def test_an_attempt_has_three_tries_that_pause_one_second_then_two(disk: PromptStore, clock: ManualClock) -> None:
    assert await tries_of(disk, clock, BUSY, BUSY, seconds=9) == [0, 1, 3]


@pytest.mark.parametrize(
    ("wishes", "seen"),
    [([0, 0], [0, 1, 3]), ([1, 2], [0, 1, 3]), ([4], [0]), ([0, 5], [0, 1])],
)
async def test_a_retry_after_that_is_longer_than_the_pause_ends_the_tries(
    disk: PromptStore, clock: ManualClock, wishes: list[float], seen: list[int]
) -> None:
    busy = [RemoteUnavailable("HTTP 429", retry_after_s=wish, reached=True) for wish in wishes]
    assert await tries_of(disk, clock, *busy, seconds=9) == seen


async def test_a_try_after_the_first_is_sent_as_a_repeat(disk: PromptStore, clock: ManualClock) -> None:
    remote = FakeRemote(clock=clock)
    async with at_work(disk, remote, clock, settings=PATIENT) as at:
        remote.script(Lost(RemoteUnavailable("cut off")))
        await at.memory.store("fog")
        await clock.advance(1)
    assert [call.arguments["repeated"] for call in remote.named("store")] == [False, True]
    assert len(remote.effects) == 1


@pytest.mark.requirement("KNG-070")
async def test_a_link_whose_reply_is_lost_is_tried_again_in_a_second_as_a_repeat(
    disk: PromptStore, clock: ManualClock
) -> None:
    remote = FakeRemote(clock=clock)
    async with at_work(disk, remote, clock, settings=PATIENT) as at:
        await at.stored("a", "b")
        await clock.settle()
        remote.script(Lost(RemoteUnavailable("cut off")))
        link = await at.memory.link_memories("a", "b")
        await clock.settle()
        assert len(remote.named("link")) == 1
        await clock.advance(1)
    assert [call.arguments["repeated"] for call in remote.named("link")] == [False, True]
    assert remote.effects.count(link.id) == 1


@pytest.mark.requirement("P13")
async def test_what_pauses_between_two_tries_holds_nothing_up(disk: PromptStore, clock: ManualClock) -> None:
    remote = ChoosyRemote(clock=clock)
    settings = replace(PATIENT, pace=replace(PATIENT.pace, sends_at_once=1))
    async with at_work(disk, remote, clock, settings=settings) as at:
        remote.against["poison"] = BUSY
        await at.stored("poison", "one", "two")
        await clock.settle()
        assert held(remote) == ["one", "two"]
        await at.stored("later")
        await clock.settle()
        assert held(remote) == ["one", "two", "later"]


@pytest.mark.requirement("P13")
@pytest.mark.parametrize(("wish", "tries"), [(None, 3), (0, 1), (1, 1)])
async def test_a_remote_that_answers_others_meanwhile_is_not_paused_for_unless_it_asks(
    disk: PromptStore, clock: ManualClock, wish: float | None, tries: int
) -> None:
    remote = ChoosyRemote(clock=clock)
    async with at_work(disk, remote, clock, settings=PATIENT) as at:
        remote.against["poison"] = busy(wish)
        await at.stored("poison", "one", "two")
        await clock.settle()
        assert held(remote) == ["one", "two"]
        assert [call.arguments["memory"].content for call in remote.named("store")].count("poison") == tries


@pytest.mark.requirement("KNG-047")
async def test_a_remote_that_answers_nothing_any_more_is_offline_after_three_tries_in_a_row(
    disk: PromptStore, clock: ManualClock
) -> None:
    remote = FakeRemote(clock=clock)
    async with at_work(disk, remote, clock, settings=PATIENT) as at:
        remote.down = True
        await at.stored(*(f"{number:02}" for number in range(50)))
        await clock.advance(3)
        assert at.link_state == LinkState.OFFLINE
        assert len(remote.named("store")) <= 6
        remote.down = False
        await clock.advance(300)
        assert sorted(held(remote)) == [f"{number:02}" for number in range(50)]


# --- several in one call ----------------------------------------------------------------------------------------------


class Batches(FakeRemote):
    """Takes up to three memories in one call, and can refuse one of them or whole calls."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock, takes_at_once=3)
        self.refuses: str | None = None
        self.refuses_calls = False

    async def store_many(self, memories: list[tuple[Memory, str]]) -> list[str | RemoteRefused]:  # type: ignore[override]
        if self.refuses_calls:
            raise RemoteRefused("HTTP 413", clear=True)
        wanted = [one for one in memories if one[0].content != self.refuses]
        taken = iter(await super().store_many(wanted))
        no = RemoteRefused("HTTP 422", clear=True)
        return [next(taken) if one in wanted else no for one in memories]

    @property
    def calls_of_many(self) -> list[list[str]]:
        return [[memory.content for memory, _ in call.arguments["memories"]] for call in self.named("store_many")]


async def seven_waiting(at: Scene[Batches]) -> None:
    at.remote.down = True
    await at.memory.sync(timeout=1)
    await at.stored(*"abcdefg")
    at.remote.down = False


@pytest.mark.requirement("P13")
async def test_what_is_new_goes_several_in_one_call_each_under_its_own_key(
    disk: PromptStore, clock: ManualClock
) -> None:
    remote = Batches(clock)
    async with at_work(disk, remote, clock) as at:
        await seven_waiting(at)
        assert (await at.memory.sync(timeout=5)).delivered == 7
        assert remote.calls_of_many == [list("abc"), list("def")]
        assert delivered(remote) == ["g"]
        ids = [str((await at.memory.get(key)).id) for key in "abcdefg"]  # type: ignore[union-attr]
        assert remote.effects == ids


async def test_a_memory_that_is_refused_takes_none_of_its_call_with_it(disk: PromptStore, clock: ManualClock) -> None:
    remote = Batches(clock)
    async with at_work(disk, remote, clock) as at:
        await seven_waiting(at)
        remote.refuses = "b"
        await at.memory.sync(timeout=5)
        assert at.outbox == (0, 0, 1)
        assert sorted(held(remote)) == list("acdefg")


async def test_a_call_that_is_refused_as_a_whole_is_sent_one_by_one(disk: PromptStore, clock: ManualClock) -> None:
    remote = Batches(clock)
    async with at_work(disk, remote, clock) as at:
        await seven_waiting(at)
        remote.refuses_calls = True
        assert (await at.memory.sync(timeout=5)).pending == 0
        assert sorted(held(remote)) == list("abcdefg")


async def test_a_call_whose_answer_is_lost_is_repeated_and_has_one_effect_of_each(
    disk: PromptStore, clock: ManualClock
) -> None:
    remote = Batches(clock)
    async with at_work(disk, remote, clock, settings=PATIENT) as at:
        await seven_waiting(at)
        remote.script(None, Lost(RemoteUnavailable("cut off")))
        await clock.advance(310)
        assert at.outbox == (0, 0, 0)
        assert len(remote.effects) == 7
        assert len(remote.named("store_many")) == 3
