"""What a remote that is down or hangs costs those who only wanted to start, store or search: ratios within one run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.hanging import hung_server, searches, stores
from benchmarks.measure import Figure, Plan, percentile
from kingly_memory import MemoryRouter, Settings
from tests.faults.conftest import Tell

pytestmark = pytest.mark.measures

MOST = 1.2
NOISE = 1.15
"""By which the control may be longer; when it was longer still, nothing is known."""
TURNS = 5
"""A noisy machine may spoil one measurement, and its neighbours; what is so stays so."""
SAMPLES = 1_920
"""So many that connecting to the remote, once in each block of stores, is a small part of it."""
STALLED = 5.0
"""A store that waits for a remote, one in a hundred, takes many times as long as the slowest without."""
ROOM_S = 2.0


@pytest.mark.faults
@pytest.mark.requirement("KNG-005", "KNG-013", "KNG-080", "KNG-089")
async def test_a_hung_remote_costs_a_store_a_fifth_at_most(tmp_path: Path, tell: Tell) -> None:
    async with hung_server() as endpoint:
        hung, control = await stored(tmp_path, endpoint, TURNS)
        plan = Plan(tmp_path / "searched", samples=240, sizes=(500,))
        searched = {one.name: one for one in await searches(plan, endpoint)}
    tell(3, f"store, hung remote ÷ none: p50 {hung.ratio:.2f}, p99 {hung.ratio_p99:.2f}")
    tell(3, f"A/A p50 {control.ratio:.2f}, p99 {control.ratio_p99:.2f}")
    tell(3, f"search, remote hangs: p50 {searched['search, remote hangs'].p50:.0f} ms")
    tell(1, f"search, known offline: p99 {searched['search, link known offline'].p99:.0f} ms")
    assert beyond_noise(hung, control) <= MOST
    assert hung.ratio_p99 is not None
    assert hung.ratio_p99 <= STALLED
    assert searched["search, remote hangs"].max <= ROOM_S * 1_000


async def stored(folder: Path, endpoint: str, turns: int) -> tuple[Figure, Figure]:
    """With a hung remote and, for control, without one: of the first turn that the machine did not disturb, else of the
    last."""
    _, control, hung = await stores(Plan(folder / f"turn-{turns}", samples=SAMPLES, sizes=(500,)), endpoint)
    undisturbed = beyond_noise(hung, control) <= MOST and (hung.ratio_p99 or 0) <= MOST
    return (hung, control) if undisturbed or turns == 1 else await stored(folder, endpoint, turns - 1)


def beyond_noise(hung: Figure, control: Figure) -> float:
    """The ratio of medians, by that of the control."""
    assert hung.ratio is not None
    assert control.ratio is not None
    return beyond(hung.ratio, control.ratio)


def beyond(ratio: float, control: float) -> float:
    """On a loaded machine what costs nothing more is not once as long either."""
    return ratio / min(max(control, 1.0), NOISE)


@pytest.mark.faults
@pytest.mark.requirement("KNG-066")
async def test_a_remote_that_is_down_at_the_start_delays_it_by_a_fifth_at_most(
    tmp_path: Path, unused_tcp_port: int, tell: Tell
) -> None:
    down = f"http://127.0.0.1:{unused_tcp_port}"
    ratio, control = await start_ratios(tmp_path, down, TURNS)
    tell(1, f"start and first store, down ÷ no remote: p50 {ratio:.2f}, A/A {control:.2f}")
    assert beyond(ratio, control) <= MOST


async def start_ratios(folder: Path, down: str, turns: int) -> tuple[float, float]:
    """How many times as long it takes with a remote that is down, and once more without one: medians, by turns. Those
    of the first time that the machine did not disturb, else of the last."""
    seconds: dict[str, list[float]] = {"none": [], "down": [], "again": []}
    ways: list[tuple[str, str | None]] = [("none", None), ("down", down), ("again", None)]
    for _ in range(40):
        ways = [*ways[1:], ways[0]]
        for name, remote in ways:
            seconds[name].append(await started(folder / f"{name}-{turns}", remote))
    none, slower, again = (percentile(taken, 50) for taken in seconds.values())
    found = slower / none, again / none
    return found if beyond(*found) <= MOST or turns == 1 else await start_ratios(folder, down, turns - 1)


async def started(home: Path, remote: str | None) -> float:
    """Seconds until a router is open and has stored its first memory."""
    began = time.perf_counter()
    async with MemoryRouter.open(home, remote, settings=Settings(embedder="none")) as memory:
        await memory.store("The harbour opens at six", key="harbour")
        return time.perf_counter() - began
