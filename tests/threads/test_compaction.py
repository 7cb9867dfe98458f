"""Compaction on demand: what becomes of threads, in a dry run and in a real one, and the way back."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.lifecycle.compaction import (
    COMPACTION_STRATEGIES,
    ActiveThread,
    ArchiveThread,
    CompactionStrategy,
    MergeThreads,
    Reason,
    compact,
    strategy,
)
from kingly_memory.models import MemoryStatus, Query
from kingly_memory.router.sweep import compaction
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore
from tests.threads.samples import talk

DAY_S = 86_400.0
NOW_S = 1_000 * DAY_S


def thread(name: str, *words: str, idle_days: float = 0.0, **said: Any) -> ActiveThread:
    topic = dict.fromkeys(words or (name,), 1.0)
    return ActiveThread(name, NOW_S - idle_days * DAY_S, topic=topic, **said)


def actions(threads: list[ActiveThread], how: str = "normal", now_s: float = NOW_S) -> list[dict[str, Any]]:
    return [one.to_json() for one in compact(threads, strategy(how), now_s).actions]


# --- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("UNI-003")
@pytest.mark.requirement("SMT-036", "SMT-037", "SMT-038")
@pytest.mark.parametrize(
    ("name", "figures"),
    [("gentle", (0.95, 30, 50, 0.95)), ("normal", (0.85, 14, 30, 0.90)), ("aggressive", (0.75, 7, 15, 0.80))],
)
def test_strategies_have_the_figures_of_the_seed(name: str, figures: tuple[float, ...]) -> None:
    how = COMPACTION_STRATEGIES[name]
    assert (how.merge_threshold, how.archive_age_days, how.max_active_threads, how.weight_decay) == figures


@pytest.mark.requirement("SMT-035")
@pytest.mark.parametrize("name", ["", "Normal", "brutal", None, 3, ["normal"]])
def test_other_strategies_are_refused_by_name(name: object) -> None:
    with pytest.raises(InvalidInput, match="unknown; choose one of gentle, normal, aggressive"):
        strategy(name)


@pytest.mark.requirement("SMT-039")
def test_in_a_chain_no_thread_is_merged_twice() -> None:
    """The first and the second are nearer than the second and the third, which stays by itself."""
    chain = [thread("a", *"pqrs", idle_days=2), thread("b", *"pqrst", idle_days=1), thread("c", *"pqstuv")]
    assert actions(chain, "aggressive") == [{"action": "merge", "threads": ["a", "b"], "similarity": 0.8944}]
    assert actions(chain[::-1], "aggressive") == actions(chain, "aggressive")


@pytest.mark.requirement("SMT-040")
def test_threads_idle_for_longer_than_the_limit_are_archived() -> None:
    several = [thread("at", idle_days=14), thread("beyond", idle_days=14.001), thread("fresh")]
    assert actions(several) == [{"action": "archive", "thread": "beyond", "reason": "age"}]


@pytest.mark.requirement("SMT-041")
def test_only_what_stays_active_becomes_lighter() -> None:
    several = [thread("gone", idle_days=99), thread("a", "x"), thread("b", "x"), thread("c")]
    planned = compact(several, strategy("aggressive"), NOW_S)
    assert {one.id: one.weight for one in planned.left} == {"a": 0.8, "c": 0.8}
    assert planned.before.to_json() == {"active_threads": 4, "total_weight": 4.0}
    assert planned.after.to_json() == {"active_threads": 2, "total_weight": 1.6}


@pytest.mark.requirement("SMT-042")
def test_of_35_threads_the_30_heaviest_remain() -> None:
    several = [thread(f"t{number:02}", weight=1 + number / 100) for number in range(35)]
    planned = compact(several, strategy("normal"), NOW_S)
    assert planned.actions == tuple(ArchiveThread(f"t{number:02}", Reason.CAPACITY) for number in range(5))
    assert planned.after.active_threads == 30
    assert planned.after.total_weight == pytest.approx(0.9 * sum(1 + number / 100 for number in range(5, 35)))


WORDS = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.1, 9), max_size=6)
THREADS = st.lists(
    st.builds(
        ActiveThread,
        id=st.uuids().map(str),
        last_active=st.floats(NOW_S - 60 * DAY_S, NOW_S + DAY_S),
        weight=st.floats(0, 2),
        pinned=st.booleans(),
        topic=WORDS,
    ),
    max_size=25,
    unique_by=lambda one: one.id,
)
SMALL = st.builds(
    CompactionStrategy,
    st.just("small"),
    st.floats(0.3, 0.99),
    st.floats(1, 40),
    st.integers(1, 12),
    st.floats(0.1, 1),
)


@pytest.mark.requirement("SMT-039", "SMT-041", "SMT-047")
@given(THREADS, SMALL)
def test_every_thread_ends_in_one_place_and_none_is_revived(
    threads: list[ActiveThread], how: CompactionStrategy
) -> None:
    planned = compact(threads, how, NOW_S)
    before = {one.id: one for one in threads}
    merges = [one for one in planned.actions if isinstance(one, MergeThreads)]
    merged = [end for one in merges for end in one.threads]
    gone = [one.threads[1] for one in merges]
    archived = [one.thread for one in planned.actions if isinstance(one, ArchiveThread)]
    left = {one.id: one for one in planned.left}
    assert len(set(merged)) == len(merged)
    assert sorted([*gone, *archived, *left]) == sorted(before)
    assert not any(before[one].pinned for one in (*gone, *archived))
    heaviest = {one.threads[0]: max(before[end].weight for end in one.threads) for one in merges}
    for one in planned.left:
        assert one.weight <= heaviest.get(one.id, before[one.id].weight)
        assert not before[one.id].pinned or one.weight >= before[one.id].weight
    unpinned = [one for one in planned.left if not one.pinned]
    assert len(planned.left) <= how.max_active_threads or not unpinned
    assert compact(threads[::-1], how, NOW_S) == planned


# --- in the store -----------------------------------------------------------------------------------------------------


def statuses(store: PromptStore) -> dict[str, tuple[str | None, MemoryStatus]]:
    """By content: the context and where it is."""
    rows = store.reader.page(Query("", "app"), [MemoryStatus.LIVE, MemoryStatus.ARCHIVED], 1_000, None)
    return {row.memory.content: (row.memory.scope.context_id, row.status) for row in rows}


def live(store: PromptStore) -> set[str]:
    return {content for content, (_, status) in statuses(store).items() if status is MemoryStatus.LIVE}


def weigh(store: PromptStore, name: str, **facet: Any) -> None:
    store.write(lambda tx: tx.set_facet("attention", owner("app", name), facet)).result()


def digest(home: Path) -> str:
    """Of every byte of the store."""
    whole = sha256()
    for path in sorted(home.rglob("*")):
        if path.is_file() and not path.name.endswith("-shm"):  # where readers note which page they are at
            whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()


async def busy(memory: MemoryRouter, clock: ManualClock) -> None:
    """An old thread, two that are alike, one of its own, and a memory of no thread."""
    await talk(memory, "old", "the printer jams", "a new printer was bought")
    await memory.store("Ana likes tea")
    clock.jump(20 * DAY_S)
    await talk(memory, "deploy", "deploys of the shop wait for reviews")
    clock.jump(60)
    await talk(memory, "deploy again", "deploys of the shop wait for two reviews")
    await talk(memory, "mail", "newsletters go out on a weekday")


@pytest.mark.requirement("SMT-043", "SMT-044", "SMT-046")
async def test_dry_run_reports_what_the_real_run_then_does(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    await busy(memory, clock)
    dry = await memory.compact(dry_run=True)
    assert dry == {
        "strategy": "normal",
        "dry_run": True,
        "actions": [
            {"action": "merge", "threads": ["deploy", "deploy again"], "similarity": 0.8944},
            {"action": "archive", "thread": "old", "reason": "age"},
        ],
        "before": {"active_threads": 4, "total_weight": 4.0},
        "after": {"active_threads": 2, "total_weight": 1.8},
    }
    assert await memory.compact() == {**dry, "dry_run": False}
    again = await memory.compact()
    assert (again["actions"], again["before"]) == ([], dry["after"])
    assert again["after"]["total_weight"] == pytest.approx(1.62)


@pytest.mark.requirement("SMT-045")
async def test_dry_run_changes_no_byte_of_the_store(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock, tmp_path: Path
) -> None:
    await busy(memory, clock)
    await memory.compact(dry_run=True)  # what was noted of the uses so far is written now
    before = digest(tmp_path / "home")
    for how in COMPACTION_STRATEGIES:  # gentle ones find nothing to do here
        assert (await memory.compact(how, dry_run=True))["dry_run"]
    assert digest(tmp_path / "home") == before
    await memory.compact()
    assert digest(tmp_path / "home") != before


@pytest.mark.requirement("SMT-047")
async def test_nothing_is_lost_and_merged_threads_keep_all_they_hold(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    await busy(memory, clock)
    before = statuses(store)
    await memory.compact()
    after = statuses(store)
    assert {content: context for content, (context, _) in after.items()} == {
        content: context for content, (context, _) in before.items()
    }
    assert set(before) - live(store) == {"the printer jams", "a new printer was bought"}
    entries = (await memory.archived()).entries
    assert {(one.why.policy, one.why.reason) for one in entries if one.why is not None} == {
        ("compaction", "its thread was idle for longer than 14 days")
    }
    for entry in entries:
        assert await memory.restore(entry.memory.id) is not None
    assert live(store) == set(before)
    assert (await memory.compact(dry_run=True))["before"]["active_threads"] == 3


async def test_undo_brings_back_threads_and_weights(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    await busy(memory, clock)
    weigh(store, "mail", weight=1.5, note="kept")
    before = (await memory.compact(dry_run=True))["before"]
    clock.jump(1)
    await memory.compact("aggressive")
    attention = store.reader.facets("attention", [owner("app", "mail")])[owner("app", "mail")]
    assert attention == {"weight": 1.2000000000000002, "note": "kept"}
    assert await memory.undo_sweep() == (2, 4)  # memories and threads
    assert (await memory.compact(dry_run=True))["before"] == before
    assert len(live(store)) == 6


@pytest.mark.requirement("SMT-040")
async def test_pinned_and_protected_memories_stay_where_they_are(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock
) -> None:
    await talk(memory, "pinned thread", "printers jam")
    await talk(memory, "pinned memory", "coffee is out", "tea is not")
    await talk(memory, "promise", "we never sell data", significance=0.9)
    await talk(memory, "promise", "that was on a monday")
    weigh(store, "pinned thread", pinned=True, weight=1.3)
    coffee = next(one for one in await memory.list(limit=10) if one.content == "coffee is out")
    store.write(lambda tx: tx.set_facet("attention", coffee.id, {"pinned": True})).result()
    clock.jump(400 * DAY_S)
    report = await memory.compact("aggressive")
    assert report["actions"] == [{"action": "archive", "thread": "promise", "reason": "age"}]
    assert report["after"] == {"active_threads": 2, "total_weight": 2.3}
    assert live(store) == {"printers jam", "coffee is out", "tea is not", "we never sell data"}
    again = await memory.compact("aggressive")
    assert (again["actions"], again["after"]) == ([], report["after"])


async def test_what_was_used_after_the_plan_stays_and_the_report_says_so(
    memory: MemoryRouter, store: PromptStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await busy(memory, clock)
    plan = compaction.plan
    first = next(one for one in await memory.list(limit=10) if one.content == "the printer jams")

    def plan_and_use(*said: Any) -> Any:
        found = plan(*said)
        store.write(lambda tx: tx.set_facet("usage", first.id, {"accesses": 1, "last_used": 1.0})).result()
        return found

    monkeypatch.setattr(compaction, "plan", plan_and_use)
    report = await memory.compact()
    assert report["after"]["active_threads"] == 3
    assert "the printer jams" in live(store)
