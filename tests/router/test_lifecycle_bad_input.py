"""What cannot be: unknown words, figures of nothing, clocks that jump, models that answer nonsense or nothing, memories
that another process has put away meanwhile. Clear sentences or nothing done, and nothing lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.models import MemoryStatus
from kingly_memory.settings import Lifetimes
from kingly_memory.testing import ManualClock
from tests.router.test_sweep_machine import DAY_S, LASTING, Interrupted
from tests.router_bench import PromptStore, router_over

EVERY = ["lifetimes", "strength", "tiers"]
Verb = Callable[[MemoryRouter], Awaitable[Any]]


@pytest.fixture
def store(tmp_path: Path) -> Interrupted:
    return Interrupted(tmp_path / "home")


@pytest.fixture
async def memory(store: Interrupted, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, None, clock, settings=LASTING) as router:
        yield router


# --- words and figures ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-083")
@pytest.mark.parametrize(
    ("verb", "says"),
    [
        (lambda memory: memory.compact("brutal"), "'brutal' is unknown; choose one of gentle, normal, aggressive"),
        (lambda memory: memory.sweep(["dust"]), "'dust' is unknown; choose one of lifetimes, strength, tiers"),
        (lambda memory: memory.search("x", mode="telepathy"), "mode: .*telepathy.*"),
        (lambda memory: memory.compress_and_learn("x", level="tiny"), "'tiny' is unknown; choose one of none, light"),
        (lambda memory: memory.compress_and_learn("x", "gossip"), "'gossip' cannot be learned as"),
        (lambda memory: memory.store("x", type="dreams"), "type: .*dreams"),
    ],
)
async def test_unknown_words_are_named_with_those_that_are_known(memory: MemoryRouter, verb: Verb, says: str) -> None:
    await memory.store("it is here", key="here")
    with pytest.raises(InvalidInput, match=says):
        await verb(memory)
    assert [one.key for one in await memory.list()] == ["here"]


@pytest.mark.requirement("ALM-083")
@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("default_half_life_days", lambda: Settings(default_half_life_days=0)),
        ("default_half_life_days", lambda: Settings(default_half_life_days=-1)),
        ("forget_threshold", lambda: Settings(forget_threshold=-0.1)),
        ("sweep_interval_s", lambda: Settings(sweep_interval_s=-1)),
        ("lifetimes.semantic", lambda: Settings(lifetimes=Lifetimes(semantic=-1))),
        ("context_items", lambda: Settings(context_items=0)),
    ],
)
def test_figures_of_nothing_or_less_are_refused_by_name(field: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidSetting, match=rf"^setting {field}: ."):
        make()


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-083")
async def test_a_clock_that_jumps_a_century_and_back_loses_nothing(
    memory: MemoryRouter, store: Interrupted, clock: ManualClock
) -> None:
    ids = [(await memory.store(f"note {number}", key=f"k{number}")).id for number in range(4)]
    clock.jump(36_500 * DAY_S)
    await memory.sweep(EVERY)
    clock.jump(-36_500 * DAY_S)
    await memory.sweep(EVERY)
    for memory_id in ids:
        await memory.restore(memory_id)
        row = store.reader.row(memory_id)
        assert row is not None
        assert row.status is MemoryStatus.LIVE
    clock.jump(-400 * DAY_S)
    report = await memory.sweep(EVERY)
    assert (report.archived, report.erased) == (0, 0), "before it was stored nothing has faded"
    for memory_id in ids:
        assert (await memory.explain(memory_id) or {})["strength"]["strength"] <= 1


# --- another process --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-083")
@pytest.mark.parametrize(
    "verb",
    [
        lambda memory: memory.reinforce("port"),
        lambda memory: memory.continuum.update_outcome(["port"], success=True),
        lambda memory: memory.continuum.update_surprise_score("port"),
    ],
)
async def test_what_another_process_has_put_away_says_so(
    memory: MemoryRouter, tmp_path: Path, clock: ManualClock, verb: Verb
) -> None:
    await memory.store("The port is 6432", key="port")
    async with router_over(PromptStore(tmp_path / "home"), None, clock, settings=LASTING) as other:
        await other.archive("port", "moved")
    with pytest.raises(InvalidInput, match="'port' is in the archive; restore it first"):
        await verb(memory)
    assert await memory.get("port") is None
    again = await memory.archive("port")
    [entry] = (await memory.archived()).entries
    assert entry.why is not None
    assert (entry.memory, entry.why.reason) == (again, "moved")
