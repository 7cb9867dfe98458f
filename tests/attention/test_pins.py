"""What is pinned stays as it is, where it is, until somebody takes the pin off."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter, validation
from kingly_memory.attention import pins
from kingly_memory.cognition.context import CURRENT
from kingly_memory.cognition.owners import owner
from kingly_memory.errors import InvalidInput
from kingly_memory.lifecycle.plan import POLICIES
from kingly_memory.models import Memory
from kingly_memory.observe import Event, MemoryStored
from kingly_memory.router.attention.verbs import Pinned
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, held, router_over
from tests.threads.samples import THREAD_ID

AT = datetime(2026, 2, 1, 8, 30, tzinfo=UTC)
YEARS_S = 2_000 * 86_400.0
TEXT = "User prefers dark mode and vi keybindings"


@pytest.mark.requirement("SMT-019")
@given(st.integers(0, 200_000_000_000), st.binary(min_size=3))
def test_the_id_of_a_thread_has_the_form_of_the_seed(now_s: int, chance: bytes) -> None:
    assert THREAD_ID.fullmatch(pins.thread_id(datetime.fromtimestamp(now_s, UTC), chance))


@pytest.mark.requirement("SMT-019")
def test_the_id_says_when_it_was_made() -> None:
    assert pins.thread_id(AT, b"\xab\xc1\x23") == "thread_20260201_083000_abc123"


@pytest.mark.requirement("SMT-013", "SMT-015")
@pytest.mark.parametrize(("boost", "weight"), [(0.3, 1.3), (-1, 1.0), (0.9, 1.5), (0, 1.0), (0.5, 1.5), (10**400, 1.5)])
def test_the_boost_is_brought_into_its_range(boost: float, weight: float) -> None:
    assert pins.weight(boost) == weight


@pytest.mark.requirement("SMT-017")
@pytest.mark.parametrize(
    ("content", "title"),
    [
        (TEXT, TEXT),
        ("Deploys need two reviews. Ask Ada.", "Deploys need two reviews"),
        ("\n\n# Rules\nNever push on Fridays.", "Rules"),
        ("Is it safe? Yes.", "Is it safe?"),
        ("- a\tlist\x07 of things", "a list of things"),
        ("Version 1.2 is out", "Version 1.2 is out"),
        (
            "The quick brown fox jumps over the lazy dog while the band plays on and on",
            "The quick brown fox jumps over the lazy dog while the band…",
        ),
        ("x" * 80, "x" * 59 + "…"),
        ("認証の話です。もう一つの文。", "認証の話です。"),
        ("\x00\x01", None),
        ("...", ".."),
    ],
)
def test_a_title_is_made_of_the_first_sentence(content: str, title: str | None) -> None:
    assert pins.title(content) == title


@pytest.mark.requirement("SMT-017")
@given(st.text())
def test_a_title_is_short_and_on_one_line(content: str) -> None:
    title = pins.title(content)
    assert title is None or (0 < len(title) <= 60 and title == title.strip())
    assert validation.label("title", title) == title


# --- in a router ------------------------------------------------------------------------------------------------------


def elsewhere(store: PromptStore, clock: ManualClock) -> MemoryRouter:
    """Another project of the same home."""
    return router_over(PromptStore(store.home), None, clock, project="other")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(AT)


def attention(store: PromptStore, pinned: Pinned) -> list[dict[str, Any]]:
    """What lies beside the thread, and beside its memory, without the time."""
    names = [owner("app", pinned.thread_id), pinned.receipt.id]
    found = store.reader.facets("attention", names)
    return [{what: said for what, said in found.get(name, {}).items() if what != "at"} for name in names]


@pytest.mark.requirement("SMT-012", "SMT-015", "SMT-016", "SMT-018", "SMT-019")
async def test_a_pin_is_a_thread_of_its_own(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory:
        pinned = await memory.attention.pin(f" {TEXT}\r\n", "User Preferences", ["preferences", "ui"])
        assert pinned.message == f"Pinned as {pinned.thread_id} (weight=1.30)"
        assert pinned.thread_id.startswith("thread_20260201_083000_")
        kept = await memory.get(pinned.receipt.id)
    assert kept is not None
    assert (kept.content, kept.title, kept.scope.context_id) == (f" {TEXT}\r\n", "User Preferences", pinned.thread_id)
    assert (kept.tags, kept.metadata) == (("preferences", "ui", "pinned"), {"source": "agent_pin"})
    assert attention(store, pinned) == [{"weight": 1.3, "pinned": True}] * 2
    assert store.reader.facets("lifetime", [pinned.receipt.id]) == {}


@pytest.mark.requirement("SMT-014")
async def test_pinning_the_same_twice_makes_two_threads(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory:
        one, other = [await memory.attention.pin(TEXT) for _ in range(2)]
        assert one.thread_id != other.thread_id
        assert (await memory.status())["memories"]["total"] == 2
        assert (await memory.compact("aggressive"))["actions"] == []
        await memory.sweep(["lifetimes", "strength"])
        assert (await memory.status())["memories"]["total"] == 2


async def test_two_threads_of_one_second_never_share_a_name(
    store: PromptStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    chances = iter([b"abc", b"abc", b"abd"])
    monkeypatch.setattr("kingly_memory.router.attention.verbs.urandom", lambda count: next(chances))
    async with router_over(store, None, clock) as memory:
        made = [(await memory.attention.pin(TEXT)).thread_id[-6:] for _ in range(2)]
    assert made == [b"abc".hex(), b"abd".hex()]


@pytest.mark.requirement("SMT-015")
async def test_a_pin_stays_through_use_decay_compaction_and_restart(tmp_path: Path, clock: ManualClock) -> None:
    home = tmp_path / "home"
    async with router_over(PromptStore(home), None, clock) as memory:
        pinned = await memory.attention.pin(TEXT, key="taste")
        before = await memory.get("taste")
        await memory.store(TEXT, context_id="thread_like_it")
    for number in range(3):
        store = PromptStore(home)
        async with router_over(store, None, clock) as memory:
            clock.jump(YEARS_S)
            for other in range(20):
                await memory.store(
                    f"talk number {number} {other} about {other} things", context_id=f"t{number}.{other}"
                )
            [hit] = [hit for hit in await memory.search("dark mode keybindings") if hit.memory.key == "taste"]
            assert hit.memory == before
            await memory.get("taste")
            await memory.continuum.update_outcome(["taste"], success=True)
            await memory.reinforce("taste")
            await memory.continuum.update_surprise_score("taste", {"actual_usefulness": 0.0})
            for strategy in ("gentle", "normal", "aggressive", "aggressive"):
                acts = (await memory.compact(strategy))["actions"]
                assert not any(pinned.thread_id == act.get("thread") for act in acts)
                assert not any(act["threads"][1] == pinned.thread_id for act in acts if act["action"] == "merge")
            report = await memory.sweep(POLICIES)
            done = [act["does"] for act in report.to_json()["actions"] if act["memory_id"] == pinned.receipt.id]
            assert set(done) <= {"promote", "demote"}
            await memory.undo_sweep()
            assert attention(store, pinned) == [{"weight": 1.3, "pinned": True}] * 2
            assert store.reader.facets("lifetime", [pinned.receipt.id]) == {}
            assert await memory.get("taste") == before


@pytest.mark.requirement("SMT-015")
async def test_what_is_said_of_a_pinned_memory_gives_it_no_lifetime(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory:
        pinned = await memory.attention.pin(TEXT, key="taste")
        await memory.store("User prefers light mode now", key="taste")
        await memory.forget("taste")
        await memory.restore("taste")
        with pytest.raises(InvalidInput, match="is pinned, so it stays; unpin it first"):
            await memory.archive("taste")
        assert store.reader.facets("lifetime", [pinned.receipt.id]) == {}
        assert attention(store, pinned) == [{"weight": 1.3, "pinned": True}] * 2
        clock.jump(YEARS_S)
        assert [hit.memory.key for hit in await memory.search("light mode")] == ["taste"]


async def test_an_unpinned_thread_is_as_any_other(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory:
        pinned = await memory.attention.pin(TEXT)
        before = await memory.get(pinned.receipt.id)
        clock.jump(YEARS_S)
        unpinned = await memory.attention.unpin(pinned.thread_id)
        assert (unpinned.thread_id, unpinned.memories) == (pinned.thread_id, 1)
        assert attention(store, pinned) == [{"pinned": False}] * 2
        clock.jump(YEARS_S)
        assert await memory.get(pinned.receipt.id) == before
        assert (await memory.sweep()).archived == 0
        with pytest.raises(InvalidInput, match="is not pinned"):
            await memory.attention.unpin(pinned.thread_id)


async def test_a_pin_does_not_lead_away_from_the_current_context(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory:
        await memory.store("at work", context_id="thread_work")
        await memory.attention.pin(TEXT)
        assert (await memory.working_context(CURRENT)).context_id == "thread_work"
    async with router_over(PromptStore(store.home), None, clock) as memory:
        assert (await memory.working_context(CURRENT)).context_id == "thread_work"


async def test_a_pin_is_told_and_delivered_like_any_memory(store: PromptStore, clock: ManualClock) -> None:
    told: list[Event] = []
    remote = FakeRemote(clock=clock)
    async with router_over(store, remote, clock, observers=(told.append,)) as memory:
        pinned = await memory.attention.pin(TEXT)
        secret = await memory.attention.pin("stays here", significance=0.2)
        await memory.sync(timeout=1)
        stored = [one for one in told if isinstance(one, MemoryStored)]
        assert [one.memory_id for one in stored] == [pinned.receipt.id, secret.receipt.id]
        assert held(remote) == [TEXT]


async def test_pins_of_another_project_are_out_of_reach(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory, elsewhere(store, clock) as other:
        pinned = await other.attention.pin(TEXT, key="taste")
        for name in (pinned.thread_id, pinned.receipt.id, "taste"):
            with pytest.raises(InvalidInput, match="there is no thread"):
                await memory.attention.unpin(name)
        kept = await other.get("taste")
        assert isinstance(kept, Memory)
        assert (await other.attention.unpin("taste")).memories == 1
