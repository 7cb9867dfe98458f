"""Near-duplicates in the store: what is merged into what, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter, Settings
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.duplicates import similarity, statement
from kingly_memory.models import Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import sweep_changes
from kingly_memory.router.sweep_changes import Sweep
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, facet_of, router_over

DAY_S = 86_400.0
LASTING = Settings(durability="process")
LONG = "Every deploy of the shop needs two reviews and a green build"


@pytest.fixture
async def memory(tmp_path: Path, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", project="app", settings=LASTING, clock=clock) as router:
        yield router


async def say(memory: MemoryRouter, clock: ManualClock, *texts: str, **said: Any) -> list[MemoryId]:
    """One after the other, an hour apart."""
    ids = []
    for text in texts:
        clock.jump(3_600)
        ids.append((await memory.store(text, **said)).id)
    return ids


async def contents(memory: MemoryRouter) -> list[str]:
    return sorted(one.content for one in await memory.list(limit=100))


async def test_a_sweep_merges_when_it_is_asked_to_and_says_what_into_what(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    old, new = await say(memory, clock, LONG, LONG + ".")
    await memory.store("The port is 6432")
    assert (await memory.sweep()).merged == 0
    report = await memory.sweep(["merging"])
    assert (report.merged, report.archived, report.skipped, report.policies) == (1, 0, 0, ("merging",))
    assert (report.before.live, report.after.live, report.after.archived) == (3, 2, 1)
    [action] = report.actions
    assert action == {
        "memory_id": old,
        "policy": "merging",
        "does": "merge",
        "into": new,
        "reason": "another memory says the same",
        "figures": {"similarity": 1.0},
    }
    assert await contents(memory) == [LONG + ".", "The port is 6432"]
    [entry] = (await memory.archived()).entries
    assert entry.memory.id == old
    assert entry.why is not None
    assert (entry.why.policy, entry.why.merged_into) == ("merging", new)


async def test_what_lay_beside_the_merged_one_lies_beside_what_stands(memory: MemoryRouter, clock: ManualClock) -> None:
    [old] = await say(memory, clock, LONG, tags=["ops"], significance=0.7)
    [new] = await say(memory, clock, LONG, tags=["shop"], confidence=0.9)
    [other] = await say(memory, clock, "Ana owns the billing service")
    await memory.link_memories(old, other, "supports", 0.6)
    await memory.reinforce(old)
    for _ in range(3):
        await memory.get(old)
    await memory.sweep(["merging"])
    stands = await memory.get(new)
    assert stands is not None
    assert (set(stands.tags), stands.significance, stands.confidence) == ({"ops", "shop"}, 0.7, 0.9)
    assert stands.revision == 2
    [link] = await memory.links(new)
    assert (link.source, link.target, link.link_type, link.strength) == (new, other, "supports", 0.6)
    told = await memory.explain(new)
    assert told is not None
    assert told["merged"] == [old]
    assert told["strength"]["accesses"] == 4
    assert told["strength"]["reinforcements"] == 1


async def test_undo_takes_a_merge_apart(memory: MemoryRouter, clock: ManualClock, tmp_path: Path) -> None:
    [old] = await say(memory, clock, LONG, tags=["ops"], significance=0.7)
    [middle] = await say(memory, clock, LONG, tags=["web"])
    [new] = await say(memory, clock, LONG, tags=["shop"])
    [other] = await say(memory, clock, "Ana owns the billing service")
    await memory.link_memories(old, other)
    await memory.reinforce(middle)
    for one in (old, middle):
        await memory.get(one)
    before = await memory.get(new)
    was = await memory.explain(new)
    assert (await memory.sweep(["merging"])).merged == 2
    assert await memory.undo_sweep() == (2, 0)
    after = await memory.get(new)
    assert before is not None
    assert after is not None
    assert after == replace(before, revision=after.revision)
    assert await memory.links(new) == ()
    assert len(await memory.links(old)) == 1
    now = await memory.explain(new)
    assert was is not None
    assert now is not None
    assert "merged" not in now
    assert now["strength"]["reinforcements"] == was["strength"]["reinforcements"] == 0
    assert now["strength"]["accesses"] == was["strength"]["accesses"] + 1  # looking at it counted
    assert len(await contents(memory)) == 4


async def test_what_was_brought_back_is_not_merged_again(memory: MemoryRouter, clock: ManualClock) -> None:
    first, second, _ = await say(memory, clock, LONG, LONG, LONG)
    await memory.sweep(["merging"])
    assert (await memory.restore(first)) is not None
    again = await memory.sweep(["merging"])
    assert (again.merged, again.actions) == (0, ())
    assert len(await contents(memory)) == 2
    assert (await memory.restore(second)) is not None
    assert len(await contents(memory)) == 3


async def test_memories_of_the_same_words_under_two_keys_both_stay(memory: MemoryRouter, clock: ManualClock) -> None:
    """A key is part of what is said, and whoever asks by it finds that memory."""
    for key in ("task-1", "task-2"):
        await memory.store("it is done", key=key)
    assert (await memory.sweep(["merging"])).merged == 0
    found = [await memory.get(key) for key in ("task-1", "task-2")]
    assert [one and one.content for one in found] == ["it is done", "it is done"]


async def test_what_was_joined_to_a_key_comes_back_when_the_key_says_something_else(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    [port] = await say(memory, clock, "The port is 6432", key="staging", tags=["db"])
    others = await say(memory, clock, "The port is 6432", "The port is 6432.")
    assert (await memory.sweep(["merging"])).merged == 2
    await memory.store("The port is 6432", key="staging", significance=0.6)
    assert await contents(memory) == ["The port is 6432"]  # it says the same still
    await memory.store("The port is 7000", key="staging")
    assert await contents(memory) == ["The port is 6432", "The port is 6432.", "The port is 7000"]
    told = await memory.explain("staging")
    assert told is not None
    assert "merged" not in told
    for one in others:
        back = await memory.explain(one)
        assert back is not None
        assert (back["standing"], back["archived"]) == ("live", None)
    await memory.forget(port)
    found = await memory.search("port 6432", include_archived=True, fold=False)
    assert {hit.memory.id for hit in found} == set(others)
    again = await memory.sweep(["merging"])  # nobody wanted them apart
    assert (again.merged, [action["into"] for action in again.actions]) == (1, [others[1]])


@pytest.mark.parametrize("rounds", [1, 3])
async def test_forgetting_what_stands_forgets_all_that_rests_for_it_and_restoring_it_takes_that_back(
    memory: MemoryRouter, clock: ManualClock, rounds: int
) -> None:
    """With several rounds, one rests for another that rests for the last."""
    ids: list[MemoryId] = []
    for _ in range(rounds):
        ids += await say(memory, clock, LONG, LONG)
        await memory.sweep(["merging"])
    before = {entry.memory.id: entry.why for entry in (await memory.archived()).entries}
    assert set(before) == set(ids[:-1])
    gone_before = ids[0]
    await memory.forget(gone_before)
    await memory.forget(ids[-1])
    assert len(await memory.search(LONG, include_archived=True)) == 0
    assert (await memory.archived()).entries == ()
    assert (await memory.restore(ids[-1])) is not None
    after = {entry.memory.id: entry.why for entry in (await memory.archived()).entries}
    assert after == {one: why for one, why in before.items() if one != gone_before}
    assert len(await contents(memory)) == 1


async def test_remotes_forget_and_take_back_what_rests_for_what_stands(tmp_path: Path, clock: ManualClock) -> None:
    store, remote = PromptStore(tmp_path / "home"), FakeRemote(clock=clock)
    async with router_over(store, remote, clock, settings=LASTING) as memory:
        ids = await say(memory, clock, LONG, LONG)
        await memory.sync()
        await memory.sweep(["merging"])
        await memory.forget(ids[1])
        await memory.sync()
        assert remote.memories == {}
        await memory.restore(ids[1])
        await memory.sync()
        assert {one.id for one in remote.memories.values()} == set(ids)


async def test_a_report_says_which_were_left_for_their_keys(memory: MemoryRouter, clock: ManualClock) -> None:
    one, two, three = [(await say(memory, clock, LONG, key=key))[0] for key in ("one", "two", "three")]
    [pinned] = await say(memory, clock, "The port is 6432", significance=0.9)
    [port] = await say(memory, clock, "The port is 6432", key="port")
    await say(memory, clock, LONG)
    await say(memory, clock, "Ana owns the billing service", key="ana")
    for report in (await memory.sweep(["merging"], True), await memory.sweep(["merging"])):
        assert (report.merged, report.kept_for_keys) == (1, 3)
        twins = {frozenset(pair) for pair in report.twins}
        assert twins == {frozenset((three, two)), frozenset((three, one)), frozenset((pinned, port))}
        assert report.to_json()["kept_for_keys"] == len(report.to_json()["twins"]) == 3
    assert (await memory.sweep(["lifetimes"], True)).kept_for_keys == 0


async def test_merge_is_left_out_when_what_stands_was_changed_meanwhile(tmp_path: Path, clock: ManualClock) -> None:
    store = PromptStore(tmp_path / "home")
    async with router_over(store, None, clock, settings=LASTING) as memory:
        await memory.store(LONG, key="reviews")
        await say(memory, clock, LONG)
        plan = await memory._engine.sweeper._plan(memory._engine.policies(["merging"]), memory._engine.write_context())
        await memory.store("No deploy needs a review", key="reviews")
        sweep = Sweep("s", memory._engine.policies(["merging"]), memory._engine.write_context())
        assert len(plan.decisions) == 1
        done = store.write(sweep_changes.carry_out(sweep, plan.decisions, 0)).result()
        assert done.outcomes == [sweep_changes.SKIPPED]
        assert len(await contents(memory)) == 2


@pytest.mark.requirement("KNG-002")
async def test_what_stays_on_this_machine_does_not_leave_it_by_a_merge(tmp_path: Path, clock: ManualClock) -> None:
    store, remote = PromptStore(tmp_path / "home"), FakeRemote(clock=clock)
    async with router_over(store, remote, clock, settings=LASTING) as memory:
        [private] = await say(memory, clock, LONG, significance=0.3, tags=["salary"])
        await say(memory, clock, LONG, significance=0.6)
        [shy] = await say(memory, clock, LONG + "!", significance=0.2)
        report = await memory.sweep(["merging"])
        assert report.merged == 1
        stands = await memory.get(shy)
        assert stands is not None
        assert (stands.significance, stands.tags) == (0.3, ("salary",))
        await memory.sync()
        assert [one.significance for one in remote.memories.values()] == [0.6]
        assert facet_of(store, private) is None


SAID = st.sampled_from([LONG, LONG + "!", f"Please {LONG.lower()}", f"FYI, {LONG.lower()}, please", "The port is 1"])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["say", "say", "say under a key"]), SAID),
    st.tuples(st.sampled_from(["use", "restore", "reinforce", "pin", "forget", "link"]), st.integers(0, 9)),
    st.tuples(st.sampled_from(["sweep", "sweep once", "undo"]), st.just(0)),
)


@given(st.lists(STEPS, min_size=3, max_size=14))
def test_nothing_that_was_said_is_lost(steps: list[tuple[str, Any]]) -> None:
    """Every memory is live or in the archive with its own words, nothing is merged into what was merged before, and
    nothing rests for what was forgotten or says something else by now."""
    with TemporaryDirectory() as folder:
        asyncio.run(_live_through([("say", LONG), ("say", LONG), *steps, ("sweep", 0)], Path(folder) / "home"))


async def _live_through(steps: list[tuple[str, Any]], home: Path) -> None:
    clock, store = ManualClock(), PromptStore(home)
    async with router_over(store, None, clock, settings=LASTING) as memory:
        life = _Life(memory, store)
        for does, what in steps:
            clock.jump(60)
            with suppress(InvalidInput):
                await getattr(life, does.replace(" ", "_"))(what)
            _check_all_there(store, life.said, life.forgotten)


class _Life:
    """What was said, and what of it is forgotten: by itself (None) or with which other one."""

    def __init__(self, memory: MemoryRouter, store: PromptStore) -> None:
        self.memory = memory
        self.store = store
        self.said: dict[MemoryId, str] = {}
        self.forgotten: dict[MemoryId, MemoryId | None] = {}

    def one(self, number: int) -> MemoryId:
        return list(self.said)[number % len(self.said)]

    async def say(self, text: str) -> None:
        self.said[(await self.memory.store(text)).id] = text

    async def say_under_a_key(self, text: str) -> None:
        told = (await self.memory.store(text, key="k")).id
        if self.said.get(told) != text:
            self.forgotten = {each: None if by == told else by for each, by in self.forgotten.items()}
        self.forgotten.pop(told, None)
        self.said[told] = text

    async def forget(self, number: int) -> None:
        one = self.one(number)
        along = self._resting_for(one)
        if await self.memory.forget(one) is not None:
            self.forgotten |= along
        self.forgotten[one] = None

    async def restore(self, number: int) -> None:
        found = [self.one(number)] if self.one(number) in self.forgotten else []
        await self.memory.restore(self.one(number))
        for stands in found:
            found += [each for each, by in self.forgotten.items() if by == stands]
            del self.forgotten[stands]

    async def pin(self, number: int) -> None:
        self.store.write(partial(_pin, self.one(number))).result()

    async def link(self, number: int) -> None:
        await self.memory.link_memories(self.one(number), self.one(0))

    async def reinforce(self, number: int) -> None:
        await self.memory.reinforce(self.one(number))

    async def use(self, number: int) -> None:
        await self.memory.get(self.one(number))

    async def undo(self, _: int) -> None:
        await self.memory.undo_sweep()

    async def sweep_once(self, _: int) -> None:
        await self.memory.sweep(["merging"])

    async def sweep(self, _: int) -> None:
        dry = await self.memory.sweep(["merging", "tiers"], dry_run=True)
        wet = await self.memory.sweep(["merging", "tiers"])
        assert {**dry.to_json(), "dry_run": False} == wet.to_json()
        again = await self.memory.sweep(["merging", "tiers"])
        assert (again.actions, again.skipped) == ((), 0)
        assert again.before == wet.after

    def _resting_for(self, one: MemoryId) -> dict[MemoryId, MemoryId | None]:
        """Who rests in the archive because that one says the same, or because somebody does who rests for it."""
        ids, found = list(self.said), [one]
        away, along = self.store.reader.facets("archived", ids), {}
        for stands in found:
            for each in ids:
                row = self.store.reader.row(each)
                is_away = row is not None and row.standing is Standing.ARCHIVED
                if is_away and away.get(each, {}).get("merged_into") == stands:
                    along[each] = stands
                    found.append(each)
        return dict(along)


def _pin(memory_id: MemoryId, transaction: Transaction) -> None:
    transaction.set_facet("attention", memory_id, {"pinned": True})


def _check_all_there(store: PromptStore, said: dict[MemoryId, str], forgotten: dict[MemoryId, MemoryId | None]) -> None:
    away = store.reader.facets("archived", list(said))
    for memory_id, content in said.items():
        row = store.reader.row(memory_id)
        assert row is not None
        assert row.memory.content == content
        assert (row.standing is Standing.FORGOTTEN) == (memory_id in forgotten)
        if row.standing is Standing.ARCHIVED:
            stands = store.reader.row(away[memory_id]["merged_into"])
            assert stands is not None
            assert stands.standing is not Standing.FORGOTTEN
            assert similarity(statement(row.memory), statement(stands.memory)) >= 0.85
            assert stands.standing is not Standing.ARCHIVED or away[stands.memory.id]["at"] > away[memory_id]["at"]
