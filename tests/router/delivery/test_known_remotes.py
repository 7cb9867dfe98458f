"""Remotes that a home knows: what waits for those that are not in use is told, and one can be taken out of the home."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import InvalidInput
from kingly_memory.errors import StoreUnwritable
from kingly_memory.models import DeliveryState, JsonObject, Memory, MemoryStatus, MemoryType, Query
from kingly_memory.ports import Transaction
from kingly_memory.router.delivery import known_remotes
from kingly_memory.router.delivery.moves import outbox_of_links
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, Remotes, facet_at, federated, held, name_of
from tests.store_samples import behind

DAY_S = 86_400.0
T = TypeVar("T")


class MortalStore(PromptStore):
    """Dies after so many more changes, where a number is said."""

    left: int | None = None

    def write(
        self, change: Callable[[Transaction], T], space: str = "", memories: Collection[Memory] = ()
    ) -> Future[T]:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.die()
        return super().write(change)


def rows_of(disk: PromptStore, label: str) -> list[JsonObject]:
    """Everything that the store holds of a remote, but for the last change that it may know of."""
    name, reader = name_of(label), disk.reader
    found = [
        {"owner": owner, "facet": facet}
        for one in ("remote", "link")
        for owner, facet in reader.facets_named(one, 1_000)
        if owner == name
    ]
    if not (disk.home / "store" / "cache.db").exists():
        return found
    with behind(disk.home) as connection:
        deliveries = connection.execute("SELECT remote, item, state, remote_id FROM km_delivery").fetchall()
    for outbox, item, state, remote_id in deliveries:
        if outbox in (name, outbox_of_links(name)):
            found.append({"owner": item, "facet": {"state": state, "remote_id": remote_id}})
    return found


# --- what is told ---------------------------------------------------------------------------------------------------


async def test_status_tells_what_waits_for_a_remote_that_is_not_in_use(here: Remotes) -> None:
    async with here.opened({"gone": here.gone}) as memory:
        await memory.store("hello")
        assert "elsewhere" not in (await memory.status())
    for remotes in ({}, {"team": here.team}):
        async with here.opened(remotes) as memory:
            await memory.sync()
            assert (await memory.status())["elsewhere"] == [{"endpoint": "fake://gone", "waiting": 1}]


async def test_the_remotes_in_use_come_first_and_each_says_what_it_has_got_and_what_waits(here: Remotes) -> None:
    async with here.opened({"a": here.gone}) as memory:
        await memory.store("stays here", significance=0.2)
        await memory.store("hello")
        forgotten = await memory.store("told and forgotten")
    async with here.opened({"team": here.team}, earlier=True) as memory:
        await memory.sync()
        await memory.forget(forgotten.id)
        await memory.sync()
        listed = await memory.remotes()
    assert [(one.endpoint, one.label, one.in_use, one.delivered, one.waiting) for one in listed] == [
        ("fake://team", "team", True, 1, 0),
        ("fake://a", None, False, 0, 1),
    ]


async def test_status_tells_what_is_sent_at_first_contact(here: Remotes, monkeypatch: pytest.MonkeyPatch) -> None:
    async with here.opened({}) as memory:
        await memory.store("before the remote")
        await memory.store("of no weight", significance=0.2)
        assert "earlier" not in (await memory.status())["outbox"]
    later = here.opened({"team": here.gone}, earlier=True)
    assert later._engine.view.status()["outbox"]["earlier"] == 1
    monkeypatch.setattr(known_remotes, "COUNTED", 1)
    assert later._engine.view.status()["outbox"]["earlier"] is None
    async with later:
        await later.sync()
        assert (await later.status())["outbox"]["pending"] == 1
        assert "earlier" not in (await later.status())["outbox"]


# --- taking one out -------------------------------------------------------------------------------------------------


async def test_a_forgotten_remote_leaves_nothing_but_the_memories(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as memory:
        one, other = await memory.store("one"), await memory.store("other")
        await memory.link_memories(one.id, other.id)
        await memory.sync()
        here.team.down = True
        await memory.store("waits")
        await memory.sync()
    async with here.opened({"home": here.gone}) as memory:
        told = await memory.forget_remote("fake://team")
        assert (told.delivered, told.waiting, told.in_use) == (2, 1, False)
        assert rows_of(here.disk, "team") == []
        later = await memory.store("later")
        assert facet_at(here.disk, "team", later.id) is None
        assert len(await memory.list()) == 4
        assert [one.endpoint for one in await memory.remotes()] == ["fake://home"]


async def test_a_working_memory_is_not_held_back_for_a_forgotten_remote(here: Remotes) -> None:
    async with here.opened({"gone": here.gone}) as memory:
        await memory.store("at hand", type=MemoryType.WORKING)
    await here.clock.advance(30 * DAY_S)
    async with here.opened({}) as memory:
        assert (await memory.sweep()).erased == 0
        await memory.forget_remote("fake://gone")
        assert (await memory.sweep()).erased == 1


async def test_only_a_known_remote_that_is_not_in_use_is_forgotten(here: Remotes) -> None:
    async with here.opened({"gone": here.gone}) as memory:
        await memory.store("hello")
    async with here.opened({"team": here.team}) as memory:
        for address in ("fake://team", "team"):
            with pytest.raises(InvalidInput, match=r"in use here; leave it out of .* `open\(remote=…\)` first"):
                await memory.forget_remote(address)
        with pytest.raises(InvalidInput, match="forgotten are fake://gone") as refused:
            await memory.forget_remote("http://me:secret@127.0.0.1:1")
        assert "secret" not in str(refused.value)
        assert (await memory.status())["elsewhere"]
        await memory.forget_remote("fake://gone")
        with pytest.raises(InvalidInput, match="none is left to be forgotten"):
            await memory.forget_remote("fake://gone")


async def test_a_forget_that_was_cut_between_its_batches_can_be_repeated(
    here: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with here.opened({"gone": here.gone}) as memory:
        for number in range(7):
            await memory.store(f"memory {number}")
    monkeypatch.setattr(known_remotes, "AT_ONCE", 3)
    for waiting in (4, 1):
        dying = MortalStore(here.disk.home)
        async with federated(dying, {}, here.clock) as memory:
            dying.left = 1
            with pytest.raises(StoreUnwritable):
                await memory.forget_remote("fake://gone")
        async with here.opened({}) as memory:
            [cut] = await memory.remotes()
            assert cut.waiting == waiting
            stored = await memory.store("stored meanwhile")
            assert facet_at(here.disk, "gone", stored.id) is None
    async with here.opened({}) as memory:
        assert (await memory.forget_remote("fake://gone")).waiting == 1
        assert (rows_of(here.disk, "gone"), await memory.remotes()) == ([], ())


# --- naming it again ------------------------------------------------------------------------------------------------


async def test_a_remote_that_is_named_again_gets_everything_as_it_is_by_then(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as memory:
        for key in ("revised", "kept", "back"):
            await memory.store(f"{key} at first", key=key)
        await memory.sync()
        await memory.forget("back")
        await memory.sync()
        await memory.restore("back")
        await memory.sync()
    await here.clock.advance(1)
    async with here.opened({}) as memory:
        await memory.forget_remote("fake://team")
        await memory.store("revised since", key="revised")
        for text in ("back between", "back since"):  # its third revision: its third change was to be brought back
            await memory.store(text, key="back")
        await memory.store("new since", key="new")
    await here.clock.advance(1)
    async with here.opened({"team": here.team}, earlier=True) as memory:
        await memory.sync()
        assert sorted(held(here.team)) == ["back since", "kept at first", "new since", "revised since"]
        await memory.store("revised last", key="revised")
        await memory.sync()
        assert sorted(held(here.team)) == ["back since", "kept at first", "new since", "revised last"]
        assert (await memory.status())["outbox"]["pending"] == 0


@pytest.mark.requirement("D3")
async def test_a_remote_that_is_named_again_hears_of_what_was_forgotten_meanwhile(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as memory:
        for key in ("kept", "forgotten"):
            await memory.store(f"{key} at first", key=key)
        await memory.sync()
    await here.clock.advance(1)
    async with here.opened({}) as memory:
        await memory.forget_remote("fake://team")
        await memory.forget("forgotten")
        light = await memory.store("of no weight, and never there", significance=0.2)
        await memory.forget(light.id)
    await here.clock.advance(1)
    async with here.opened({"team": here.team}) as memory:
        await memory.sync()
    assert held(here.team) == ["kept at first"]
    assert [call.arguments["memory"].key for call in here.team.named("forget")] == ["forgotten"]


async def test_a_process_that_uses_it_makes_it_known_again_with_its_next_store(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as user:
        await user.store("before")
        await user.sync()
        async with here.opened({}) as other:
            await other.forget_remote("fake://team")
        await user.store("of no weight", significance=0.2)
        assert rows_of(here.disk, "team") == []
        await here.clock.advance(1)
        receipt = await user.store("after")
        assert receipt.delivery is DeliveryState.PENDING
        await user.sync()
        assert held(here.team) == ["before", "after"]
        assert "earlier" not in (await user.status())["outbox"]
        assert [one.delivered for one in await user.remotes()] == [1]
    assert held(here.team) == ["before", "after"]


async def test_a_receipt_tells_that_a_memory_waits_for_a_remote_that_is_not_named(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as memory:
        await memory.sync()
    async with here.opened({}) as memory:
        told = [await memory.store(f"hello {one}", significance=one) for one in (0.8, 0.2)]
    assert [(str(one.delivery), one.reason) for one in told] == [
        ("pending", "waits in the outbox for a remote that is not named here"),
        ("local_only", "significance 0.2 is not above 0.3"),
    ]


async def test_whatever_the_clock_said_when_it_was_forgotten_it_ends_up_with_the_newest_text(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as memory:
        await memory.store("at first", key="revised")
        await memory.sync()
    earlier_s = here.clock.now().timestamp() - DAY_S
    async with here.opened({}) as memory:
        assert await memory._engine.write(known_remotes.forget(name_of("team"), earlier_s))
        await memory.store("revised since", key="revised")
    async with here.opened({"team": here.team}, earlier=True) as memory:
        await memory.sync()
    assert held(here.team) == ["revised since"]


async def test_a_backfill_under_way_ends_when_its_remote_is_forgotten(here: Remotes) -> None:
    async with here.opened({}) as memory:
        await memory.store("hello")
        name, now_s = name_of("team"), here.clock.now().timestamp()
        assert here.disk.write(known_remotes.add(name, "fake://team", "app", now_s, earlier=True)).result()
        assert here.disk.write(known_remotes.forget(name, now_s)).result()
        assert here.disk.write(known_remotes.backfill(name, "app", now_s, "")).result() == (0, None)
        assert rows_of(here.disk, "team") == []


# --- a law ----------------------------------------------------------------------------------------------------------

LABELS = ("a", "b", "c")
texts = st.tuples(st.sampled_from(["here", *LABELS]), st.booleans(), st.floats(0.0, 1.0))


async def lived(folder: Path, lives: list[tuple[str, bool, float]], victim: str) -> None:
    clock = ManualClock()
    remotes = {label: FakeRemote(clock=clock) for label in LABELS}
    for number, (label, is_down, significance) in enumerate(lives):
        used = {} if label == "here" else {label: remotes[label]}
        for remote in used.values():
            remote.down = is_down
        async with federated(PromptStore(folder), used, clock) as memory:
            await memory.store(f"memory {number}", significance=significance)
            await memory.sync()
    store = PromptStore(folder)
    before = {label: rows_of(store, label) for label in LABELS}
    memories = store.reader.page(Query("", "app"), [MemoryStatus.LIVE], 100, None)
    async with federated(store, {}, clock) as memory:
        if before[victim]:
            await memory.forget_remote(f"fake://{victim}")
        after = {label: rows_of(store, label) for label in LABELS}
        assert after == {**before, victim: []}
        assert store.reader.page(Query("", "app"), [MemoryStatus.LIVE], 100, None) == memories


@given(st.lists(texts, max_size=5), st.sampled_from(LABELS))
def test_forgetting_one_remote_changes_nothing_of_another(lives: list[tuple[str, bool, float]], victim: str) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(lived(Path(folder) / "home", lives, victim))
