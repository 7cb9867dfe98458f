"""What has faded goes to the archive, and what is protected stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kingly_memory.lifecycle.forgetting import Forgetting, WeakMemories, weak
from kingly_memory.lifecycle.strength import Strength, StrengthRules
from kingly_memory.lifecycle.subject import Subject, Usage
from kingly_memory.lifecycle.verdicts import Archive, Keep
from kingly_memory.models import MemoryType, Standing
from tests.strength_samples import DAY_S, NOON_S, memory


def subject(number: int = 1, *, days_old: float = 365, **said: Any) -> Subject:
    """A live memory, by default faded; what is no field of a Subject is one of its memory."""
    own = {name: said.pop(name) for name in ("usage", "strength", "pinned", "standing") if name in said}
    return Subject(memory(number, days_old=days_old, **said), **{"standing": Standing.LIVE, **own})


# --- one memory -----------------------------------------------------------------------------------------------------


def test_a_faded_memory_goes_to_the_archive_with_its_figures() -> None:
    verdict = Forgetting().decide(subject(days_old=95, usage=Usage(1, NOON_S - 95 * DAY_S)), NOON_S)
    assert verdict == Keep("its strength is weak", verdict.figures)
    verdict = Forgetting().decide(subject(days_old=95), NOON_S)
    assert verdict == Archive("its strength is below 0.1", verdict.figures)
    assert verdict.figures == pytest.approx(
        {"strength": 0.083561, "idle_days": 95.0, "half_life_days": 30.0, "accesses": 0}, abs=1e-6
    )


@pytest.mark.requirement("ALM-034")
def test_the_days_of_the_design_are_the_boundary() -> None:
    assert isinstance(Forgetting().decide(subject(days_old=87.2252), NOON_S), Keep)
    assert isinstance(Forgetting().decide(subject(days_old=87.2253), NOON_S), Archive)


def test_the_reason_is_the_same_for_all_that_has_faded() -> None:
    faded = [Forgetting().decide(subject(days_old=days), NOON_S) for days in (88, 100, 365)]
    assert {one.reason for one in faded} == {"its strength is below 0.1"}
    assert len({one.figures["strength"] for one in faded}) == 3


@pytest.mark.parametrize(
    ("days_old", "reason"),
    [(0, "its strength is strong"), (30, "its strength is normal"), (60, "its strength is weak")],
)
def test_a_memory_above_the_threshold_is_kept_and_told_why(days_old: float, reason: str) -> None:
    assert Forgetting().decide(subject(days_old=days_old), NOON_S).reason == reason


@pytest.mark.requirement("ALM-042")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"significance": 0.8}, "its significance protects it"),
        ({"significance": 1.0}, "its significance protects it"),
        ({"pinned": True}, "it is pinned"),
    ],
)
def test_what_is_protected_is_kept_however_long_it_idles(said: dict[str, Any], reason: str) -> None:
    verdict = Forgetting().decide(subject(days_old=3_650, **said), NOON_S)
    assert verdict == Keep(reason, verdict.figures)
    assert verdict.figures["strength"] < 0.1


@pytest.mark.parametrize("standing", [Standing.ARCHIVED, Standing.FORGOTTEN, Standing.CACHED])
def test_only_live_memories_are_forgotten(standing: Standing) -> None:
    assert Forgetting().decide(subject(standing=standing), NOON_S) == Keep(f"it is {standing.value} already")


@pytest.mark.requirement("ALM-090")
def test_forgetting_that_is_switched_off_keeps_everything() -> None:
    assert Forgetting(enabled=False).decide(subject(), NOON_S) == Keep("forgetting is switched off")


@pytest.mark.requirement("ALM-090")
def test_threshold_and_half_lives_are_the_users() -> None:
    rules = StrengthRules(forget_threshold=0.2, half_life_days={MemoryType.PROCEDURAL: 365})
    assert isinstance(Forgetting(rules).decide(subject(days_old=60), NOON_S), Archive)
    assert isinstance(Forgetting(rules).decide(subject(days_old=60, type=MemoryType.PROCEDURAL), NOON_S), Keep)


@pytest.mark.parametrize(
    "said",
    [{"usage": Usage(1, NOON_S)}, {"strength": Strength(reinforced=(NOON_S,))}, {"strength": Strength(500.0)}],
)
def test_use_reinforcement_and_a_long_half_life_hold_a_memory(said: dict[str, Any]) -> None:
    assert isinstance(Forgetting().decide(subject(days_old=365), NOON_S), Archive)
    assert isinstance(Forgetting().decide(subject(days_old=365, **said), NOON_S), Keep)


# --- what has faded -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-039")
@pytest.mark.requirement("ALM-040")
def test_the_weak_are_listed_weakest_first_in_the_designs_names() -> None:
    population = [
        subject(1, days_old=60),
        subject(2, days_old=0),
        subject(3, days_old=100),
        subject(4, days_old=80),
        subject(5, days_old=365),
        subject(6, days_old=365, pinned=True),
        subject(7, days_old=365, standing=Standing.ARCHIVED),
    ]
    found = weak(population, NOON_S).to_json()
    ids = [one.memory.id for one in population]
    assert json.loads(json.dumps(found)) == {
        "forgettable": [ids[4], ids[2]],
        "protected": [ids[5]],
        "recoverable": [{"memory_id": ids[3], "strength": 0.1182}, {"memory_id": ids[0], "strength": 0.1876}],
    }


def test_what_is_recoverable_is_left_out_on_request() -> None:
    found = weak([subject(1, days_old=60)], NOON_S)
    assert found.to_json(include_recoverable=False) == {"forgettable": [], "protected": []}
    assert len(found.recoverable) == 1


def test_nothing_is_weak_among_no_memories() -> None:
    assert weak([], NOON_S) == WeakMemories()
