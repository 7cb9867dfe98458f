"""Thoughts: memories in a chain, in the order they were stored, here first and on the remote when it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import InvalidInput, MemoryRouter, Settings, SyncMemoryRouter
from kingly_memory.cognition import thoughts
from kingly_memory.cognition.thoughts import Thought
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import DeliveryState, Memory, MemoryStatus, MemoryType
from kingly_memory.router.delivery import outbox
from kingly_memory.testing import FakeRemote, ManualClock
from kingly_memory.validation import Imported, draft
from tests.router_bench import REMOTE, PromptStore, facet_of, router_over

QUICK = Settings(durability="process")


async def contents(memory: MemoryRouter, chain_id: str) -> list[str]:
    return [thought.content for thought in await memory.thoughts(chain_id)]


# --- recording and reading --------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-053", "KNG-082")
async def test_a_chain_of_three_comes_back_in_order_each_following_the_one_before(memory: MemoryRouter) -> None:
    first = await memory.record_thought("the build fails", thought_type="observation")
    second = await memory.record_thought("the cache is stale", chain_id=first.chain_id, thought_type="hypothesis")
    third = await memory.record_thought("clear it", chain_id=first.chain_id, thought_type="plan")
    assert await memory.thoughts(first.chain_id) == (first, second, third)
    assert [one.position for one in (first, second, third)] == [1, 2, 3]
    assert [one.parent_id for one in (first, second, third)] == [None, first.id, second.id]
    assert [one.thought_type for one in (first, second, third)] == ["observation", "hypothesis", "plan"]


async def test_a_thought_is_a_memory_and_is_found_like_one(memory: MemoryRouter) -> None:
    first = await memory.record_thought("the build fails", chain_id="debug-42")
    thought = await memory.record_thought("the cache is stale", chain_id="debug-42", significance=0.7)
    (hit,) = await memory.search("stale cache")
    assert hit.memory.id == thought.id == thought.receipt.id
    assert (hit.memory.type, hit.memory.significance) == (MemoryType.SEMANTIC, 0.7)
    assert hit.memory.tags == ("thought", "inference", "chain:debug-42")
    assert hit.memory.metadata == {
        "record": "thought",
        "thought_type": "inference",
        "chain_id": "debug-42",
        "parent_id": first.id,
        "position": 2,
    }


async def test_a_parent_alone_says_which_chain_goes_on(memory: MemoryRouter) -> None:
    root = await memory.record_thought("root")
    await memory.record_thought("first branch", parent_id=root.id)
    second = await memory.record_thought("second branch", parent_id=root.id, chain_id=root.chain_id)
    assert (second.parent_id, second.position) == (root.id, 3)
    assert await contents(memory, root.chain_id) == ["root", "first branch", "second branch"]


async def test_the_same_chain_id_in_another_project_is_another_chain(tmp_path: Path, memory: MemoryRouter) -> None:
    mine = await memory.record_thought("mine", chain_id="c")
    async with MemoryRouter.open(tmp_path / "home", False, project="another", settings=QUICK) as another:
        thought = await another.record_thought("theirs", chain_id="c")
        assert (thought.position, thought.parent_id) == (1, None)
        with pytest.raises(InvalidInput, match="parent_id"):
            await another.record_thought("stolen", parent_id=mine.id)
    assert await contents(memory, "c") == ["mine"]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"content": " "}, "content"),
        ({"chain_id": ""}, "chain_id"),
        ({"chain_id": "x" * 507}, "chain_id"),
        ({"chain_id": "two\nlines"}, "chain_id"),
        ({"thought_type": None}, "thought_type"),
        ({"thought_type": "two\nlines"}, "thought_type"),
        ({"parent_id": "nobody"}, "parent_id"),
        ({"context_id": ""}, "context_id"),
        ({"significance": 2}, "significance"),
    ],
)
async def test_what_makes_no_thought_is_refused_and_names_the_field(
    memory: MemoryRouter, said: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await memory.record_thought(**{"content": "so", **said})
    assert refused.value.field == field
    assert (await memory.list()).memories == ()


async def test_a_parent_is_a_thought_of_the_same_chain(memory: MemoryRouter) -> None:
    plain = await memory.store("no thought")
    other = await memory.record_thought("elsewhere")
    with pytest.raises(InvalidInput, match="is no thought of this project"):
        await memory.record_thought("so", parent_id=plain.id)
    with pytest.raises(InvalidInput, match="is a thought of another chain; leave chain_id out"):
        await memory.record_thought("so", parent_id=other.id, chain_id="c")
    await memory.forget(other.id)
    with pytest.raises(InvalidInput, match="was forgotten; restore it first"):
        await memory.record_thought("so", parent_id=other.id)


@pytest.mark.parametrize("chain_id", ["nobody", "", None])
async def test_an_unknown_chain_is_an_error_and_not_an_empty_answer(memory: MemoryRouter, chain_id: Any) -> None:
    with pytest.raises(InvalidInput, match="chain_id"):
        await memory.thoughts(chain_id)


async def test_a_chain_has_an_end(memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thoughts, "MOST_THOUGHTS", 3)
    for number in range(3):
        await memory.record_thought(f"{number}", chain_id="c")
    with pytest.raises(InvalidInput, match="has 3 thoughts; begin another chain"):
        await memory.record_thought("one too many", chain_id="c")
    assert await contents(memory, "c") == ["0", "1", "2"]


# --- what becomes of thoughts -----------------------------------------------------------------------------------------


async def test_what_was_forgotten_is_left_out_and_comes_back_in_its_place(memory: MemoryRouter) -> None:
    recorded = [await memory.record_thought(content, chain_id="c") for content in ("one", "two", "three")]
    await memory.forget(recorded[1].id)
    await memory.forget(recorded[2].id)
    four = await memory.record_thought("four", chain_id="c")
    assert (four.parent_id, four.position) == (recorded[0].id, 4)
    assert await contents(memory, "c") == ["one", "four"]
    await memory.restore(recorded[1].id)
    assert await contents(memory, "c") == ["one", "two", "four"]


async def test_a_chain_from_a_file_goes_on_where_it_ended(tmp_path: Path, memory: MemoryRouter) -> None:
    for content in ("one", "two"):
        await memory.record_thought(content, chain_id="c")
    async with MemoryRouter.open(tmp_path / "another", False, project="app", settings=QUICK) as another:
        await another.remember(imported(memory))
        three = await another.record_thought("three", chain_id="c")
        four = await another.record_thought("four", parent_id=three.id)
        assert (three.position, four.position) == (3, 4)
        assert [one.parent_id for one in await another.thoughts("c")][1:] == [
            one.id for one in (await another.thoughts("c"))[:-1]
        ]
        assert await contents(another, "c") == ["one", "two", "three", "four"]


async def test_a_thought_that_is_stored_as_a_memory_counts_unless_it_has_a_place_that_no_chain_has(
    memory: MemoryRouter,
) -> None:
    said = {"record": "thought", "chain_id": "c", "thought_type": "analysis", "parent_id": None}
    one = await memory.store("one", metadata={**said, "position": 1})
    for position in (0, 1_000_000):
        await memory.store(f"nowhere {position}", metadata={**said, "position": position})
    two = await memory.record_thought("two", chain_id="c")
    assert (two.parent_id, two.position) == (one.id, 2)


def imported(memory: MemoryRouter) -> list[Imported]:
    return [
        Imported(
            draft(
                one.content,
                tags=one.tags,
                metadata=one.metadata,
                origin="import",
                created_at=one.created_at,
            ),
            one.id,
        )
        for one, _ in memory.export()
    ]


# --- several at once --------------------------------------------------------------------------------------------------


STEPS = st.lists(st.tuples(st.sampled_from(["record", "branch", "forget", "restore"]), st.integers(0, 30)), max_size=15)


@given(STEPS)
def test_whatever_is_recorded_and_forgotten_a_chain_keeps_its_order_and_its_parents(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    recorded, forgotten = list[Thought](), set[str]()
    home = tmp_path_factory.mktemp("chain")
    with SyncMemoryRouter.open(home / "home", False, project="app", settings=QUICK) as memory:
        recorded.append(memory.record_thought("0", chain_id="c"))
        for verb, number in steps:
            chosen = recorded[number % len(recorded)]
            known = [one for one in recorded if one.id not in forgotten]
            if verb == "forget":
                memory.forget(chosen.id)
                forgotten.add(chosen.id)
            elif verb == "restore":
                memory.restore(chosen.id)
                forgotten.discard(chosen.id)
            elif verb == "branch" and chosen in known:
                recorded.append(memory.record_thought(f"{len(recorded)}", parent_id=chosen.id))
                assert recorded[-1].parent_id == chosen.id
            elif verb == "record":
                expected = last_known(recorded, forgotten)
                recorded.append(memory.record_thought(f"{len(recorded)}", chain_id="c"))
                assert recorded[-1].parent_id == expected
        shown = [one.content for one in recorded if one.id not in forgotten]
        assert [one.content for one in (memory.thoughts("c") if shown else ())] == shown
        assert [one.position for one in recorded] == list(range(1, len(recorded) + 1))


def last_known(recorded: list[Thought], forgotten: set[str]) -> str | None:
    """The last thought, or the nearest one before it on its branch that was not forgotten."""
    by_id = {one.id: one for one in recorded}
    current: str | None = recorded[-1].id
    while current in forgotten:
        current = by_id[MemoryId(current)].parent_id
    return current


# --- the remote -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-082", "KNG-043")
async def test_thoughts_of_an_outage_are_kept_here_and_delivered_in_order_afterwards(
    tmp_path: Path, clock: ManualClock
) -> None:
    remote = FakeRemote(clock=clock)
    remote.down = True
    async with router_over(PromptStore(tmp_path / "home"), remote, clock) as memory:
        await clock.settle()
        for content in ("one", "two", "three"):
            thought = await memory.record_thought(content, chain_id="c")
            assert thought.receipt.delivery is DeliveryState.PENDING
        assert await contents(memory, "c") == ["one", "two", "three"]
        remote.down = False
        await clock.advance(300)
        chain = await memory.thoughts("c")
        assert [one.receipt.delivery for one in chain] == [DeliveryState.DELIVERED] * 3
        parents = [call.arguments["parent_remote_id"] for call in remote.named("record_thought")]
        assert [call.arguments["memory"].content for call in remote.named("record_thought")] == ["one", "two", "three"]
        assert parents == [None, chain[0].receipt.remote_id, chain[1].receipt.remote_id]
        assert remote.named("store") == []
        assert remote.effects == [one.id for one in chain]


async def test_a_forgotten_thought_is_forgotten_there_too_and_restored_by_its_remote_id(
    tmp_path: Path, clock: ManualClock
) -> None:
    remote, disk = FakeRemote(clock=clock), PromptStore(tmp_path / "home")
    async with router_over(disk, remote, clock) as memory:
        await clock.settle()
        thought = await memory.record_thought("so", chain_id="c")
        await clock.settle()
        await memory.forget(thought.id)
        await clock.settle()
        assert remote.memories == {}
        await memory.restore(thought.id)
        await clock.settle()
        assert [one.content for one in remote.memories.values()] == ["so"]
        assert len(remote.named("record_thought")) == 1
        row = disk.reader.row(thought.id)
        assert row is not None
        assert row.status is MemoryStatus.LIVE


# --- a thought waits for the one it follows ---------------------------------------------------------------------------

BUSY = RemoteUnavailable("HTTP 500", reached=True)
PERHAPS_NOT = RemoteRefused("HTTP 404", clear=False)
CLEARLY_NOT = RemoteRefused("HTTP 422", clear=True)


class Critic(FakeRemote):
    """Answers thoughts of some contents with an error of their own, every time."""

    def __init__(self, *, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.against: dict[str, RemoteError] = {}

    async def record_thought(self, memory: Memory, **how: Any) -> str:
        if memory.content in self.against:
            self.script(self.against[memory.content])
        return await super().record_thought(memory, **how)

    def told(self) -> list[tuple[str, str | None]]:
        """The thoughts that were taken, each with the content of the parent it was brought with."""
        taken = {remote_id: memory.content for remote_id, memory in self.memories.items()}
        parents = {call.arguments["memory"].content: call.arguments["parent_remote_id"] for call in self._recorded()}
        return [(content, taken.get(parents.get(content) or "")) for content in taken.values()]

    def tries(self, content: str) -> int:
        return sum(call.arguments["memory"].content == content for call in self._recorded())

    def _recorded(self) -> list[Any]:
        return self.named("record_thought")


@pytest.fixture
def critic(clock: ManualClock) -> Critic:
    return Critic(clock=clock)


@pytest.fixture
async def heard(tmp_path: Path, critic: Critic, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    """A router whose thoughts go to the critic."""
    async with router_over(PromptStore(tmp_path / "home"), critic, clock) as router:
        await clock.settle()
        yield router


async def think(memory: MemoryRouter, clock: ManualClock, *words: str, significance: float = 0.5) -> list[Thought]:
    """Record a chain, a millisecond apart, and let what can be sent be sent."""
    recorded = []
    for content in words:
        recorded.append(await memory.record_thought(content, chain_id="c", significance=significance))
        clock.tick(0.001)
    await clock.settle()
    return recorded


CHAIN = [("one", None), ("two", "one"), ("three", "two")]


@pytest.mark.requirement("KNG-082")
@pytest.mark.parametrize("fault", [BUSY, PERHAPS_NOT], ids=["unavailable", "perhaps refused"])
async def test_thoughts_wait_for_the_one_that_failed_and_keep_their_parents(
    heard: MemoryRouter, critic: Critic, clock: ManualClock, fault: RemoteError
) -> None:
    critic.script(fault)
    await think(heard, clock, "one", "two", "three")
    assert (critic.tries("one"), critic.tries("two"), critic.memories) == (1, 0, {})
    await clock.advance(301)
    assert critic.told() == CHAIN
    assert [critic.tries(word) for word in ("one", "two", "three")] == [2, 1, 1]


@pytest.mark.parametrize("end", ["dead", "dropped", "forgotten"])
async def test_a_parent_that_will_not_arrive_keeps_no_thought_waiting(
    heard: MemoryRouter, critic: Critic, clock: ManualClock, end: str
) -> None:
    critic.against["one"] = BUSY
    first, *_ = await think(heard, clock, "one", "two", "three")
    if end == "dead":
        critic.against["one"] = CLEARLY_NOT
    elif end == "dropped":
        await heard.outbox_drop([first.id])
    else:
        await heard.forget(first.id)
    await clock.advance(301)
    assert critic.told() == [("two", None), ("three", "two")]


async def test_a_thought_waits_while_another_process_sends_its_parent(
    tmp_path: Path, critic: Critic, clock: ManualClock
) -> None:
    disk = PromptStore(tmp_path / "home")
    async with router_over(disk, critic, clock, leads=lambda: False) as memory:
        first, second = await think(memory, clock, "one", "two")
        now_s = clock.now().timestamp()

        def claim(owner: str, now_s: float) -> list[str]:
            change = outbox.Claim(REMOTE, owner, now_s, 300.0).lease(REMOTE, 1)
            return [item.id for item in disk.write(change).result()]

        assert claim("another", now_s) == [first.id]
        assert claim("own", now_s) == []
        facet = facet_of(disk, second.id)
        assert facet is not None
        assert (facet.state, facet.attempts, facet.due) == (DeliveryState.PENDING, 0, now_s + 1.0)
        assert claim("own", now_s + 301) == [first.id]
