"""Work that everybody who needs it waits for together: done once, whoever stays and whoever leaves."""

from __future__ import annotations

import asyncio

import pytest

from kingly_memory.adapters.remote.together import Together
from kingly_memory.errors import RemoteUnavailable


class Work:
    """Comes to the number of its run once it is let go on, or fails."""

    def __init__(self) -> None:
        self.runs = 0
        self.go_on = asyncio.Event()
        self.trouble: Exception | None = None

    async def __call__(self) -> int:
        self.runs += 1
        await self.go_on.wait()
        if self.trouble is not None:
            raise self.trouble
        return self.runs


@pytest.fixture
def work() -> Work:
    return Work()


async def waiting(together: Together[int], number: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(together.done()) for _ in range(number)]
    await asyncio.sleep(0)
    return tasks


async def test_all_who_ask_meanwhile_get_one_result_and_the_next_one_a_new_one(work: Work) -> None:
    together = Together(work)
    tasks = await waiting(together, 5)
    work.go_on.set()
    assert await asyncio.gather(*tasks) == [1] * 5
    assert await together.done() == 2


async def test_who_leaves_does_not_stop_it_for_the_others(work: Work) -> None:
    together = Together(work)
    leaving, staying = await waiting(together, 2)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    work.go_on.set()
    assert await staying == 1


async def test_a_failure_that_nobody_waits_for_any_more_is_no_word_in_the_log(work: Work) -> None:
    together = Together(work)
    (leaving,) = await waiting(together, 1)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    work.trouble = RemoteUnavailable("down")
    work.go_on.set()
    work.go_on = asyncio.Event()
    await asyncio.sleep(0)
    await together.aclose()


async def test_closing_calls_it_off_and_says_so_to_whoever_waits(work: Work) -> None:
    together = Together(work)
    await together.aclose()
    tasks = await waiting(together, 2)
    await together.aclose()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == [str(RemoteUnavailable("the connection is being closed"))] * 2
    await together.aclose()


@pytest.mark.requirement("KNG-046")
@pytest.mark.parametrize(
    ("error", "anew", "begun"),
    [
        (RemoteUnavailable("connection reset"), True, 2),
        (RemoteUnavailable("connection reset"), False, 1),
        (RemoteUnavailable("no answer in time", timed_out=True), True, 1),
        (ValueError("of the work itself"), True, 1),
    ],
    ids=repr,
)
async def test_who_wants_to_know_how_it_is_now_has_it_done_again_when_what_was_under_way_fails(
    error: Exception, anew: bool, begun: int
) -> None:
    """A connection that was begun while the remote was in trouble says nothing about it afterwards."""
    count, over = 0, asyncio.Event()

    async def work() -> int:
        nonlocal count
        count += 1
        if count == 1:
            await over.wait()
            raise error
        return count

    together = Together(work)
    earlier = asyncio.create_task(together.done())
    await asyncio.sleep(0)
    several = [asyncio.create_task(together.done(anew=anew)) for _ in range(3)]
    await asyncio.sleep(0)
    over.set()
    found = await asyncio.gather(earlier, *several, return_exceptions=True)
    assert found == [error, *([2, 2, 2] if begun == 2 else [error] * 3)]
    assert count == begun
