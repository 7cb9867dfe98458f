"""The design's own names for strengths, over a storage of the caller's own."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.errors import InvalidInput, StoreError
from kingly_memory.seeds.alma import DecayManager, MemoryFacts, MemoryStrength, utc_now
from tests.lifecycle.samples import NOON


def noon() -> datetime:
    return NOON


def ago(days: float) -> datetime:
    return NOON - timedelta(days=days)


def strength(**said: Any) -> MemoryStrength:
    return MemoryStrength("m", **{"created_at": NOON, "last_accessed": NOON, **said})


@dataclass(frozen=True, slots=True)
class _Kept:
    project_id: str
    agent: str
    facts: MemoryFacts


@dataclass(slots=True)
class MemoryStrengths:
    """A storage in memory. Strengths are kept as JSON texts, as on disk: what is done to one that was read is lost
    unless it is written. Archiving fails while a memory's id is in `refuses_to_archive`."""

    archived: set[str] = field(default_factory=set)
    refuses_to_archive: set[str] = field(default_factory=set)
    writes: int = 0
    strengths: dict[str, str] = field(default_factory=dict)
    _memories: dict[str, _Kept] = field(default_factory=dict)

    def add(self, memory_id: str, facts: MemoryFacts, *, project_id: str = "app", agent: str = "cleo") -> None:
        self._memories[memory_id] = _Kept(project_id, agent, facts)

    def get_memory_strength(self, memory_id: str) -> MemoryStrength | None:
        text = self.strengths.get(memory_id)
        return None if text is None else MemoryStrength(**json.loads(text))

    def update_memory_strength(self, strength: MemoryStrength) -> None:
        self.writes += 1
        self.strengths[strength.memory_id] = json.dumps(strength.to_json())

    def get_all_memory_ids(self, project_id: str | None, agent: str | None) -> list[str]:
        return [
            memory_id
            for memory_id, kept in self._memories.items()
            if project_id in {None, kept.project_id} and agent in {None, kept.agent}
        ]

    def get_memory_facts(self, memory_id: str) -> MemoryFacts | None:
        kept = self._memories.get(memory_id)
        return None if kept is None else kept.facts

    def archive_memory(self, memory_id: str) -> None:
        if memory_id in self.refuses_to_archive:
            raise StoreError("the archive is full; free some space")
        self.writes += 1
        self.archived.add(memory_id)

    def delete_memory(self, memory_id: str) -> None:
        self.writes += 1
        self._memories.pop(memory_id, None)


@pytest.fixture
def storage() -> MemoryStrengths:
    return MemoryStrengths()


def manager(storage: MemoryStrengths, now: Callable[[], datetime] = noon, **said: Any) -> DecayManager:
    return DecayManager(storage, now=now, **said)


# --- one strength ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-027")
def test_a_strength_begins_with_the_designs_figures() -> None:
    before = utc_now()
    fresh = MemoryStrength(memory_id="m")
    assert before <= fresh.created_at <= fresh.last_accessed <= utc_now()
    assert fresh == MemoryStrength("m", 1.0, 30, fresh.created_at, fresh.last_accessed, 0, [], 0.5)


@pytest.mark.requirement("ALM-085")
@pytest.mark.parametrize(("importance", "least"), [(0.5, 0.7), (1.0, 0.9)])
def test_fresh_memory_full_strength(importance: float, least: float) -> None:
    assert MemoryStrength(memory_id="test", explicit_importance=importance).current_strength() > least


@pytest.mark.requirement("ALM-086")
def test_old_memory_decays() -> None:
    old = MemoryStrength(memory_id="test", last_accessed=utc_now() - timedelta(days=60))
    assert old.current_strength() < 0.5


@pytest.mark.requirement("ALM-087")
def test_access_reinforces() -> None:
    old = strength(last_accessed=ago(30))
    assert old.current_strength(NOON) == pytest.approx(0.375055, abs=1e-6)
    old.access(NOON)
    assert old.current_strength(NOON) == pytest.approx(0.801986, abs=1e-6)


@pytest.mark.requirement("ALM-032")
def test_an_access_is_counted_and_dated() -> None:
    one = strength(last_accessed=ago(3))
    one.access(NOON)
    assert (one.access_count, one.last_accessed, one.reinforcement_events) == (1, NOON, [])


@pytest.mark.requirement("ALM-033")
def test_of_fifteen_reinforcements_the_last_ten_are_kept() -> None:
    one = strength(last_accessed=ago(3))
    events = [NOON + timedelta(minutes=number) for number in range(15)]
    for event in events:
        one.reinforce(event)
    assert one.reinforcement_events == events[5:]
    assert (one.last_accessed, one.access_count) == (events[-1], 0)


@pytest.mark.requirement("ALM-034")
def test_a_memory_is_to_be_forgotten_below_the_threshold_and_not_at_it() -> None:
    one = strength(last_accessed=ago(60))
    exactly = one.current_strength(NOON)
    assert not one.should_forget(exactly, now=NOON)
    assert one.should_forget(math.nextafter(exactly, 1), now=NOON)
    assert (one.should_forget(now=NOON), one.should_forget(now=NOON + timedelta(days=28))) == (False, True)


@pytest.mark.requirement("ALM-035")
@pytest.mark.parametrize(("days", "expected"), [(39, False), (40, True), (87, True), (88, False)])
def test_weak_but_not_gone_can_be_recovered(days: int, expected: bool) -> None:
    assert strength(last_accessed=ago(days)).recoverable(now=NOON) == expected


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"decay_half_life_days": 0}, "decay_half_life_days: 0 is no half-life; say a number of days above 0"),
        ({"decay_half_life_days": -3}, "decay_half_life_days: -3 is no half-life"),
        ({"decay_half_life_days": math.nan}, "decay_half_life_days: nan is no half-life"),
        ({"explicit_importance": 1.5}, "explicit_importance: 1.5 is outside 0 to 1"),
        ({"initial_strength": -1}, "initial_strength: -1 is outside 0 to 1"),
        ({"access_count": -1}, "access_count: -1 is outside 0"),
        ({"last_accessed": None}, "last_accessed: is missing"),
        ({"created_at": "yesterday"}, "created_at: 'yesterday' is not an ISO 8601"),
    ],
)
def test_figures_that_make_no_sense_are_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        strength(**said)


# --- strengths in a storage -----------------------------------------------------------------------------------------


class FileStorage(MemoryStrengths):
    """Strengths in a file, as after a restart."""

    def __init__(self, path: Path) -> None:
        super().__init__(strengths=json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})
        self.path = path
        self.add("m", MemoryFacts(ago(40)))

    def update_memory_strength(self, strength: MemoryStrength) -> None:
        super().update_memory_strength(strength)
        self.path.write_text(json.dumps(self.strengths), encoding="utf-8")


@pytest.mark.requirement("ALM-036")
def test_a_strength_is_begun_from_the_memorys_own_last_use_and_kept_or_loaded(storage: MemoryStrengths) -> None:
    storage.add("never used", MemoryFacts(ago(60), importance=0.7))
    storage.add("used", MemoryFacts(ago(60), last_used=ago(10)))
    begun = manager(storage, default_half_life=20).get_strength("never used")
    assert begun == MemoryStrength("never used", 1.0, 20, ago(60), ago(60), explicit_importance=0.7)
    assert storage.get_memory_strength("never used") == begun
    assert manager(storage).get_strength("used").last_accessed == ago(10)
    kept = MemoryStrength("used", 0.9, 12, ago(9), ago(8), 7, [ago(8)], 0.6)
    storage.update_memory_strength(kept)
    assert manager(storage).get_strength("used") == kept


def test_a_memory_that_nobody_knows_has_no_strength(storage: MemoryStrengths) -> None:
    with pytest.raises(InvalidInput, match="memory_id: no memory has the id 'lost'"):
        manager(storage).record_access("lost")
    assert storage.writes == 0


@pytest.mark.requirement("ALM-037", "ALM-038")
def test_an_access_and_a_reinforcement_are_there_after_a_restart(tmp_path: Path) -> None:
    manager(FileStorage(tmp_path / "strengths.json")).record_access("m")
    manager(FileStorage(tmp_path / "strengths.json")).reinforce_memory("m")
    again = manager(FileStorage(tmp_path / "strengths.json")).get_strength("m")
    assert (again.access_count, again.reinforcement_events, again.last_accessed) == (1, [NOON], NOON)


@pytest.mark.requirement("ALM-039")
def test_forgettable_memories_are_those_of_the_scope_weakest_first(storage: MemoryStrengths) -> None:
    storage.add("faded", MemoryFacts(ago(90)))
    storage.add("gone", MemoryFacts(ago(365)))
    storage.add("weak", MemoryFacts(ago(60)))
    storage.add("another agent's", MemoryFacts(ago(365)), agent="bo")
    storage.add("another project's", MemoryFacts(ago(365)), project_id="web")
    assert manager(storage).get_forgettable_memories("app", "cleo") == ["gone", "faded"]
    assert manager(storage).get_forgettable_memories("app", "cleo", 0.2) == ["gone", "faded", "weak"]
    assert set(manager(storage).get_forgettable_memories("app", None)) == {"gone", "faded", "another agent's"}
    assert storage.writes == 0


@pytest.mark.requirement("ALM-040")
def test_recoverable_memories_come_with_their_strengths_weakest_first(storage: MemoryStrengths) -> None:
    for name, days in {"weak": 50, "fresh": 0, "weaker": 80, "gone": 90}.items():
        storage.add(name, MemoryFacts(ago(days)))
    found = manager(storage).get_recoverable_memories("app", "cleo")
    assert [name for name, _ in found] == ["weaker", "weak"]
    assert dict(found)["weak"] == pytest.approx(0.75 * math.exp(-0.693 * 50 / 30))


# --- forgetting -----------------------------------------------------------------------------------------------------


@pytest.fixture
def faded(storage: MemoryStrengths) -> MemoryStrengths:
    """Four faded memories of one category beside a fresh one."""
    for number, days in enumerate([100, 400, 300, 200]):
        storage.add(f"faded {number}", MemoryFacts(ago(days)))
    storage.add("fresh", MemoryFacts(NOON))
    return storage


@pytest.mark.requirement("ALM-041")
@pytest.mark.parametrize("target_count", [0, 1, 3, 4, 9, None])
def test_the_weakest_go_first_and_no_more_than_wanted(faded: MemoryStrengths, target_count: int | None) -> None:
    weakest_first = ["faded 1", "faded 2", "faded 3", "faded 0"]
    assert manager(faded).smart_forget("app", "cleo", target_count, dry_run=True) == weakest_first[:target_count]
    assert faded.writes == 0
    gone = manager(faded).smart_forget("app", "cleo", target_count)
    assert gone == weakest_first[:target_count]
    assert faded.archived == set(gone)
    assert set(faded.get_all_memory_ids("app", "cleo")) == {"fresh", *weakest_first} - set(gone)


@pytest.mark.requirement("ALM-042")
@pytest.mark.parametrize("facts", [{"importance": 0.9}, {"importance": 0.8}, {"pinned": True}])
def test_what_is_important_or_pinned_is_never_forgotten(faded: MemoryStrengths, facts: dict[str, Any]) -> None:
    faded.add("dear", MemoryFacts(ago(365), **facts))
    assert "dear" in manager(faded).get_forgettable_memories("app", "cleo")
    assert "dear" not in manager(faded).smart_forget("app", "cleo")


@pytest.mark.requirement("ALM-043")
def test_a_memory_that_cannot_be_archived_is_kept_and_the_others_go(
    faded: MemoryStrengths, caplog: pytest.LogCaptureFixture
) -> None:
    faded.refuses_to_archive = {"faded 2"}
    with caplog.at_level(logging.WARNING, "kingly_memory"):
        gone = manager(faded).smart_forget("app", "cleo", 3)
    assert gone == ["faded 1", "faded 3"]
    assert "faded 2" in faded.get_all_memory_ids("app", "cleo")
    assert "memory faded 2 is kept" in caplog.text


@pytest.mark.requirement("ALM-043")
def test_every_memory_is_archived_before_it_is_deleted(faded: MemoryStrengths) -> None:
    archived_at_deletion = []

    class Watched(MemoryStrengths):
        def delete_memory(self, memory_id: str) -> None:
            archived_at_deletion.append(memory_id in self.archived)
            raise StoreError("the disk is full; free some space")

    watched = Watched(_memories=faded._memories)
    assert manager(watched).smart_forget("app", "cleo") == []
    assert archived_at_deletion == [True] * 4


@pytest.mark.requirement("ALM-044")
@given(
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from("abc"), st.booleans()), max_size=12),
    st.none() | st.integers(0, 12),
)
def test_no_category_is_ever_emptied(those: list[tuple[int, str, bool]], target_count: int | None) -> None:
    storage = MemoryStrengths()
    for number, (days, category, pinned) in enumerate(those):
        storage.add(str(number), MemoryFacts(ago(days), category=category, pinned=pinned))
    gone = manager(storage).smart_forget("app", "cleo", target_count)
    left = [those[int(one)] for one in storage.get_all_memory_ids("app", "cleo")]
    assert {category for _, category, _ in left} == {category for _, category, _ in those}
    assert [one for one in gone if those[int(one)][2] or those[int(one)][0] < 87] == []
    assert len(left) + len(gone) == len(those)
