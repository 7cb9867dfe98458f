"""Links travel when the remote has both their ends: once each, after them, and never for what stays on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.remote.hub import HubRemote
from kingly_memory.cognition.links import Link
from kingly_memory.errors import RemoteRefused, RemoteUnavailable
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import Memory, Source
from kingly_memory.ports import Delivery, RemoteLink
from kingly_memory.router.delivery import moves
from kingly_memory.router.delivery.moves import outbox_of_links
from kingly_memory.router.delivery.outbox import link_item
from kingly_memory.settings import Pace
from kingly_memory.testing import FakeRemote, Lost, ManualClock
from tests.remote_samples import remote_at
from tests.router_bench import REMOTE, ChoosyRemote, PromptStore, Scene, at_work, held, router_over, stored
from tests.scripted.remote import ScriptedRemote

BUSY = RemoteUnavailable("HTTP 503", reached=True)
NO_REPLY = Lost(RemoteUnavailable("connection reset"))
CLEARLY_NOT = RemoteRefused("HTTP 422", clear=True)
PERHAPS_NOT = RemoteRefused("HTTP 404", clear=False)
UNKNOWN = RemoteRefused("HTTP 404 (unknown method)", clear=True, unknown_method=True)
At = Scene[ChoosyRemote]


async def linked(at: Scene[Any], source: str, target: str, *, strength: float = 1.0) -> Link:
    """Link two memories and let what can be sent be sent."""
    link = await at.memory.link_memories(source, target, strength=strength)
    await at.clock.settle()
    return link


def told(remote: FakeRemote) -> list[tuple[str, str, str, float]]:
    """The links that the remote holds: keys of both ends, type and strength."""
    keys = {remote_id: memory.key or "" for remote_id, memory in remote.memories.items()}
    return [(keys[one.source_id], keys[one.target_id], one.link_type, one.strength) for one in remote.links]


def keys_used(remote: FakeRemote) -> list[str]:
    """The idempotency keys of the calls that linked, in order."""
    return [call.arguments["idempotency_key"] for call in remote.named("link")]


def facet_of(disk: PromptStore, link: Link) -> Delivery | None:
    outbox = outbox_of_links(REMOTE)
    return disk.reader.deliveries([outbox], [link_item(link)])[outbox].get(link_item(link))


# --- when a link travels ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-053")
async def test_a_link_between_what_is_delivered_is_delivered_at_once(at: At) -> None:
    await at.stored("cause", "effect")
    await at.clock.settle()
    link = await at.memory.link_memories("cause", "effect", "causal", 0.75, "it led to it")
    await at.clock.settle()
    (call,) = at.remote.named("link")
    ids = {held.key: remote_id for remote_id, held in at.remote.memories.items()}
    assert call.arguments == {
        "link": RemoteLink(ids["cause"], ids["effect"], "causal", 0.75, "it led to it", "app"),
        "idempotency_key": link.id,
        "repeated": False,
    }


async def test_a_link_waits_for_the_memories_it_names(
    disk: PromptStore, remote: ChoosyRemote, clock: ManualClock
) -> None:
    remote.down = True
    async with at_work(disk, remote, clock) as at:
        await at.stored("cause", "effect")
        link = await linked(at, "cause", "effect")
        remote.against["effect"] = BUSY
        remote.down = False
        await clock.advance(301)
        assert held(remote) == ["cause"]
        assert remote.named("link") == []
        remote.against.clear()
        await clock.advance(301)
        assert [call.name for call in remote.calls[-2:]] == ["store", "link"]
        assert (told(remote), keys_used(remote)) == ([("cause", "effect", "related", 1.0)], [link.id])


async def test_memories_go_before_links(at: At) -> None:
    await at.stored("a", "b")
    await at.clock.settle()
    at.remote.down = True
    await at.memory.sync(timeout=1)
    await linked(at, "a", "b")
    await at.stored("c", "d")
    at.remote.down = False
    await at.clock.advance(300)
    assert [call.name for call in at.remote.calls[-3:]] == ["store", "store", "link"]


async def test_a_remote_that_gets_earlier_memories_gets_the_links_between_them(
    tmp_path: Path, remote: ChoosyRemote, clock: ManualClock
) -> None:
    async with router_over(PromptStore(tmp_path / "home"), None, clock) as memory:
        await stored(memory, clock, "a", "b")
        link = await memory.link_memories("a", "b")
    async with at_work(PromptStore(tmp_path / "home"), remote, clock, earlier=True):
        assert (told(remote), keys_used(remote)) == ([("a", "b", "related", 1.0)], [link.id])


async def test_a_retry_after_for_a_link_holds_memories_back_too(at: At) -> None:
    await at.stored("a", "b")
    await at.clock.settle()
    at.remote.script(RemoteUnavailable("HTTP 429", retry_after_s=120, reached=True))
    await linked(at, "a", "b")
    await at.stored("c")
    await at.clock.advance(119)
    assert held(at.remote) == ["a", "b"]
    await at.clock.advance(11)
    assert held(at.remote) == ["a", "b", "c"]
    assert len(told(at.remote)) == 1


# --- what never travels -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-002")
@pytest.mark.parametrize("quiet", ["source", "target", "both"])
async def test_a_link_of_what_stays_on_this_machine_stays_too(at: At, quiet: str) -> None:
    await at.stored("source", significance=0.3 if quiet in ("source", "both") else 0.9)
    await at.stored("target", significance=0.3 if quiet in ("target", "both") else 0.9)
    link = await linked(at, "source", "target")
    await at.memory.sync(timeout=1)
    assert at.remote.named("link") == []
    assert (await at.memory.links("source"), at.links) == ((link,), {"pending": 0, "dead": 0})


async def test_a_link_follows_when_its_end_becomes_significant(at: At) -> None:
    await at.stored("quiet", significance=0.3)
    await at.stored("loud")
    await linked(at, "quiet", "loud")
    await at.stored("quiet", significance=0.9)
    await at.clock.settle()
    assert told(at.remote) == [("quiet", "loud", "related", 1.0)]


async def test_a_link_to_what_was_forgotten_before_it_was_sent_is_not_sent_until_it_is_restored(at: At) -> None:
    await at.stored("a", "b")
    await at.clock.settle()
    at.remote.down = True
    await at.memory.sync(timeout=1)
    await linked(at, "a", "b")
    await at.memory.forget("b")
    at.remote.down = False
    await at.clock.advance(300)
    assert (held(at.remote), at.remote.named("link"), at.links["pending"]) == (["a"], [], 0)
    await at.memory.restore("b")
    await at.clock.settle()
    assert told(at.remote) == [("a", "b", "related", 1.0)]


async def test_a_link_to_what_was_erased_is_dropped(at: At) -> None:
    await at.memory.store("scratch", key="scratch", type="working")
    await at.stored("a")
    await at.clock.settle()
    at.remote.down = True
    await at.memory.sync(timeout=1)
    link = await linked(at, "scratch", "a")
    at.clock.jump(1_801)
    await at.memory.sweep()
    assert await at.memory.get("scratch") is None
    at.remote.down = False
    await at.memory.sync(timeout=1)
    assert (at.remote.named("link"), facet_of(at.disk, link)) == ([], None)


async def test_a_line_of_the_outbox_whose_name_is_damaged_is_dropped_and_the_others_go_on(at: At) -> None:
    await at.stored("a")
    await at.stored("b")
    outbox, due = outbox_of_links(REMOTE), moves.wanted(None, 0, at.clock.now().timestamp())
    at.disk.write(lambda transaction: transaction.set_delivery(outbox, "nothing", due)).result()
    await linked(at, "a", "b")
    await at.memory.sync(timeout=1)
    assert told(at.remote) == [("a", "b", "related", 1.0)]
    assert at.disk.reader.deliveries([outbox], ["nothing"])[outbox] == {}


# --- once, and in its newest form -------------------------------------------------------------------------------------


async def test_a_new_strength_is_a_change_of_the_same_link(at: At) -> None:
    await at.stored("a", "b")
    link = await linked(at, "a", "b", strength=0.25)
    for strength in (0.5, 0.75):
        await linked(at, "a", "b", strength=strength)
    assert keys_used(at.remote) == [link.id, f"{link.id}.2", f"{link.id}.3"]
    assert told(at.remote) == [("a", "b", "related", 0.75)]


async def test_a_link_whose_reply_is_lost_is_repeated_under_its_key(at: At) -> None:
    await at.stored("a", "b")
    await at.clock.settle()
    at.remote.script(NO_REPLY)
    link = await linked(at, "a", "b")
    await at.clock.advance(301)
    assert keys_used(at.remote) == [link.id, link.id]
    assert [call.arguments["repeated"] for call in at.remote.named("link")] == [False, True]
    assert at.remote.effects.count(link.id) == 1


async def test_links_are_made_anew_when_a_server_gives_their_end_another_id(tmp_path: Path, clock: ManualClock) -> None:
    class Replacing(FakeRemote):
        """Knows no updates: each revision is a memory of its own."""

        async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
            return await super().store(memory, idempotency_key=idempotency_key, remote_id=None, repeated=repeated)

    remote = Replacing(clock=clock)
    async with at_work(PromptStore(tmp_path / "home"), remote, clock) as at:
        await at.stored("a", "b")
        link = await linked(at, "a", "b")
        await at.memory.update("a", content="a, said otherwise")
        await clock.settle()
        newest = [remote_id for remote_id, held in remote.memories.items() if held.key == "a"][-1]
        assert keys_used(remote) == [link.id, f"{link.id}.2"]
        assert [one.source_id for one in remote.links][-1] == newest


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [CLEARLY_NOT, UNKNOWN])
async def test_a_link_that_is_clearly_refused_is_dead_and_said_so_and_the_others_go_on(
    at: At, caplog: pytest.LogCaptureFixture, refusal: Exception
) -> None:
    await at.stored("a", "b", "c")
    await at.clock.settle()
    assert isinstance(refusal, RemoteRefused)
    at.remote.script(refusal)
    link = await at.memory.link_memories("a", "b", description="a private reason")
    await at.clock.settle()
    await linked(at, "b", "c")
    assert [one[:2] for one in told(at.remote)] == [("b", "c")]
    assert at.links == {"pending": 0, "dead": 1}
    (said,) = [record.getMessage() for record in caplog.records if "delivery of" in record.getMessage()]
    assert link.source in said
    assert link.target in said
    assert refusal.reason in said
    assert "private" not in said
    await at.clock.advance(3_600)
    assert len(keys_used(at.remote)) == 2


async def test_a_dead_link_is_tried_again_when_the_memories_are_linked_again(at: At) -> None:
    await at.stored("a", "b")
    await at.clock.settle()
    at.remote.script(CLEARLY_NOT)
    await linked(at, "a", "b")
    await linked(at, "a", "b")
    assert told(at.remote) == [("a", "b", "related", 1.0)]
    assert at.links == {"pending": 0, "dead": 0}


async def test_a_link_that_is_refused_without_a_reason_is_dead_after_ten_times(at: At) -> None:
    await at.stored("a", "b")
    await at.clock.settle()
    at.remote.script(*[PERHAPS_NOT] * 20)
    await linked(at, "a", "b")
    await at.clock.advance(2 * 3_600)
    assert (len(keys_used(at.remote)), at.links) == (10, {"pending": 0, "dead": 1})


# --- processes --------------------------------------------------------------------------------------------------------


async def test_a_process_that_is_killed_before_it_notes_the_answer_repeats_the_link_without_another_effect(
    tmp_path: Path, clock: ManualClock
) -> None:
    killed = PromptStore(tmp_path / "home")

    class Killing(FakeRemote):
        async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
            await super().link(link, idempotency_key=idempotency_key, repeated=repeated)
            killed.die()

    remote = Killing(clock=clock)
    async with at_work(killed, remote, clock) as at:
        await at.stored("a", "b")
        link = await linked(at, "a", "b")
    async with at_work(PromptStore(tmp_path / "home"), remote, clock):
        assert keys_used(remote) == [link.id, link.id]
        assert remote.effects.count(link.id) == 1


# --- a real server ----------------------------------------------------------------------------------------------------


async def test_the_hub_gets_links_and_thoughts_and_answers_with_both(tmp_path: Path) -> None:
    settings = Settings(durability="process", remote_search_s=10.0)
    with HubProcess(tmp_path / "hub") as hub:
        async with MemoryRouter.open(tmp_path / "home", hub.url, project="app", settings=settings) as memory:
            await memory.store("the cache is stale", key="cause")
            thought = await memory.record_thought("so the build fails", chain_id="c")
            await memory.link_memories("cause", thought.id, "causal", 0.75)
            assert (await memory.sync()).reason is None
            results = await memory.search("why does the build fail")
            assert results.source is Source.HYBRID
            assert [hit.memory.id for hit in results if hit.memory.metadata] == [thought.id]
            (delivered,) = await memory.thoughts("c")
            assert await linked_there(hub.url, delivered.receipt.remote_id) == [("causal", 0.75)]


async def linked_there(url: str, remote_id: str | None) -> list[tuple[str, float]]:
    """Type and strength of the links that a server holds of a memory."""
    remote: HubRemote = remote_at(url, project="app")
    found = await remote.linked([remote_id or ""], space="app", timeout_s=10)
    await remote.aclose()
    return [(link["link_type"], link["strength"]) for link in found]


@pytest.mark.requirement("KNG-082")
async def test_a_server_that_knows_neither_links_nor_thoughts_gets_the_memories(tmp_path: Path) -> None:
    with ScriptedRemote(without=["record_thought", "create_memory_link"]) as server:
        settings = Settings(durability="process")
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=settings) as memory:
            await memory.store("cause", key="cause")
            thought = await memory.record_thought("effect")
            await memory.link_memories("cause", thought.id)
            assert (await memory.sync()).reason is None
            assert [call.method for call in server.effects] == ["store_memory", "store_memory"]
            assert (await memory.status())["links"] == {"pending": 0, "dead": 1}
            assert len(await memory.links("cause")) == 1


async def test_closing_waits_a_moment_for_links_under_way(tmp_path: Path) -> None:
    # A remote that is silent for longer than a search would wait is not waited for.
    settings = Settings(durability="process", pace=Pace(closing_s=60.0), remote_search_s=60.0, call_timeout_s=60.0)
    with ScriptedRemote() as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=settings) as memory:
            await asyncio.gather(*(memory.store(key, key=key) for key in "ab"))
            await memory.link_memories("a", "b")
        assert len(server.semantic.links) == 1
