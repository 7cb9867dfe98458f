"""What is odd about an Ultimate server, and what we do about it: each oddity over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from kingly_memory.adapters.remote import ultimate_wire
from kingly_memory.adapters.remote.ultimate import UltimateRemote
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryType, Scope
from kingly_memory.ports import RemoteLink
from tests.remote_samples import LIGHTHOUSE, brought, revised, stored, ultimate_at
from tests.scripted.script import Weather
from tests.ultimate.engine import Manners
from tests.ultimate.server import UltimateServer

PROJECT = LIGHTHOUSE.scope.space


@pytest.fixture
def server() -> Iterator[UltimateServer]:
    with UltimateServer() as server:
        yield server


@pytest.fixture
async def remote(server: UltimateServer) -> AsyncIterator[UltimateRemote]:
    remote = ultimate_at(server.url)
    await remote.connect()
    yield remote
    await remote.aclose()


@asynccontextmanager
async def met(**how: Any) -> AsyncIterator[tuple[UltimateServer, UltimateRemote]]:
    """A server of that kind, and a remote that has met it."""
    with UltimateServer(**how) as server:
        remote = ultimate_at(server.url)
        await remote.connect()
        yield server, remote
        await remote.aclose()


def numbered(number: int, **changes: object) -> Memory:
    return replace(LIGHTHOUSE, id=MemoryId(f"memory-{number}"), key=None, **changes)  # type: ignore[arg-type]


async def ids_found(remote: UltimateRemote, text: str, *types: MemoryType) -> list[str | None]:
    hits = await remote.search(text, space=PROJECT, limit=10, types=types or None, timeout_s=10)
    return [hit.memory_id for hit in hits]


def held(server: UltimateServer) -> list[str]:
    return [row.content for row in server.engine.live()]


# --- the workflow -----------------------------------------------------------------------------------------------------


async def test_what_was_leased_together_for_a_hub_is_refused_without_a_call(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    """Then each goes by itself."""
    with pytest.raises(RemoteRefused, match="unknown method"):
        await remote.store_many([(numbered(1), "key-1"), (numbered(2), "key-2")])
    assert server.named("store_many") == []


async def test_every_search_names_our_workflow(server: UltimateServer, remote: UltimateRemote) -> None:
    await remote.search("fog", space=PROJECT, limit=3, types=None, timeout_s=10)
    await remote.working_memory("watch-1", space=PROJECT, timeout_s=10)
    reads = server.named("hybrid_search_memories") + server.named("query_memories")
    assert len(reads) == 2
    assert {call.params["workflow_id"] for call in reads} == set(server.engine.data.workflows)


async def test_after_its_database_was_wiped_the_workflow_is_made_again(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    remote_id = await stored(remote)
    server.engine.wipe()
    assert await remote.search("fog", space=PROJECT, limit=3, types=None, timeout_s=10) == []
    await stored(remote, numbered(2))
    again = await stored(remote, revised(), remote_id=remote_id, idempotency_key=f"{LIGHTHOUSE.id}.2")
    assert again != remote_id
    assert sorted(held(server)) == sorted([LIGHTHOUSE.content, revised().content])


@pytest.mark.parametrize("lost_session", ["400", "404", "terminated"])
async def test_a_restarted_server_has_lost_the_session_and_nothing_else(lost_session: str) -> None:
    with UltimateServer(lost_session=lost_session) as server:
        remote = ultimate_at(server.url)
        first = await stored(remote)
        server.stop()
        server.start()
        assert await stored(remote, repeated=True) == first
        assert held(server) == [LIGHTHOUSE.content]
        await remote.aclose()


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-008")
async def test_a_memory_arrives_in_the_servers_words(server: UltimateServer, remote: UltimateRemote) -> None:
    remote_id = await stored(remote)
    row = server.engine.data.rows[remote_id]
    assert (row.content, row.memory_level, row.memory_type) == (LIGHTHOUSE.content, "episodic", "text")
    assert row.importance == pytest.approx(8.2)
    assert (row.confidence, row.description) == (0.25, "Fog")
    assert {f"kingly:{LIGHTHOUSE.id}", "ctx:watch-1", "sea", "night"} <= set(row.tags)
    assert row.context["key"] == "lighthouse"


@pytest.mark.parametrize("older", [False, True])
async def test_only_arguments_that_the_server_knows_are_sent(older: bool) -> None:
    with UltimateServer(older=older, manners=Manners(honours_keys=not older)) as server:
        remote = ultimate_at(server.url)
        info = await remote.connect()
        await stored(remote)
        assert info.honours_keys is not older
        assert all(("idempotency_key" in call.params) is not older for call in server.named("store_memory"))
        await remote.aclose()


async def test_metadata_beyond_what_the_server_keeps_is_left_out_of_the_context(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    remote_id = await stored(remote, replace(LIGHTHOUSE, metadata={"note": "x" * 63_000}))
    context = server.engine.data.rows[remote_id].context
    assert "error" not in context
    assert context["id"] == LIGHTHOUSE.id


async def test_a_kind_that_an_older_server_does_not_know_is_sent_as_text(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    server.manners.kinds = frozenset({"text", "observation"})
    remote_id = await stored(remote, replace(LIGHTHOUSE, metadata={"kind": "insight"}))
    assert server.engine.data.rows[remote_id].memory_type == "text"


# --- exactly once -----------------------------------------------------------------------------------------------------


async def test_two_stores_of_one_key_at_the_same_time_have_one_effect(server: UltimateServer) -> None:
    server.manners.slow_s = 0.05
    both = [ultimate_at(server.url) for _ in range(2)]
    for remote in both:
        await remote.connect()
    first, second = await asyncio.gather(*(stored(remote) for remote in both))
    assert first == second
    assert held(server) == [LIGHTHOUSE.content]
    assert len(server.named("store_memory")) == 3  # one of them met the other, and asked again
    for remote in both:
        await remote.aclose()


async def test_a_store_that_takes_longer_than_we_wait_is_perhaps_there_and_is_once(server: UltimateServer) -> None:
    remote = ultimate_at(server.url, call_timeout_s=2.0)
    await remote.connect()
    server.manners.slow_s = 2.5
    with pytest.raises(RemoteUnavailable) as late:
        await stored(remote)
    assert late.value.timed_out
    patient = ultimate_at(server.url)
    await stored(patient, repeated=True)
    assert len({row.memory_id for row in server.engine.live()}) == 1
    for one in (remote, patient):
        await one.aclose()


@pytest.mark.parametrize("older", [False, True])
async def test_where_keys_are_not_honoured_what_is_there_is_looked_up_before_it_is_sent_again(older: bool) -> None:
    async with met(older=older, manners=Manners(honours_keys=False)) as (server, remote):
        await stored(remote, numbered(1))
        server.script("lost-reply", method="store_memory")
        await brought(remote)
        await stored(remote, repeated=True)
        assert sorted(held(server)) == [LIGHTHOUSE.content] * 2
        assert len(server.named("store_memory")) == 2


async def test_where_keys_are_not_honoured_an_earlier_workflow_is_found_by_what_lies_in_it() -> None:
    with UltimateServer(older=True, manners=Manners(honours_keys=False)) as server:
        for number in range(2):
            remote = ultimate_at(server.url)
            await remote.connect()
            await stored(remote, numbered(number))
            await remote.aclose()
        assert len(server.engine.data.workflows) == 1


@pytest.mark.parametrize("holds", [True, False])
async def test_a_process_finds_the_workflow_of_the_one_before_where_its_key_is_refused(holds: bool) -> None:
    async with met(older=True, manners=Manners(repeats_workflows=False)) as (server, first):
        if holds:
            await stored(first)
        second = ultimate_at(server.url)
        await second.connect()
        await stored(second, numbered(2))
        assert len({row.workflow_id for row in server.engine.live()}) == 1
        assert len(server.engine.data.workflows) == (1 if holds else 2)
        await second.aclose()


async def test_a_revision_is_found_by_its_new_words_where_an_update_keeps_the_old_embedding() -> None:
    async with met(manners=Manners(re_embeds=False)) as (server, remote):
        first = await stored(remote)
        later = {"remote_id": first, "idempotency_key": f"{LIGHTHOUSE.id}.2"}
        second = await stored(remote, revised(), **later)
        assert await stored(remote, revised(), repeated=True, **later) == second != first
        server.engine.advance(2)
        assert held(server) == [revised().content]
        assert await ids_found(remote, revised().content) == [LIGHTHOUSE.id]
        assert server.engine.data.rows[second].embedded == revised().content
        assert (await remote.forget(revised(), remote_id=second, idempotency_key="f")) == second


async def test_without_an_update_tool_a_revision_is_a_new_memory_that_supersedes() -> None:
    async with met(without=["update_memory"]) as (server, remote):
        first = await stored(remote)
        how = {"remote_id": first, "idempotency_key": f"{LIGHTHOUSE.id}.2"}
        second = await stored(remote, revised(), **how)
        assert await stored(remote, revised(), repeated=True, **how) == second
        assert server.engine.data.rows[second].context["supersedes"] == first
        assert server.engine.data.rows[second].key == f"{LIGHTHOUSE.id}.2"
        with pytest.raises(RemoteRefused, match="no tool to drop") as refused:
            await remote.forget(LIGHTHOUSE, remote_id=second, idempotency_key="k")
        assert refused.value.clear


async def test_without_keys_and_updates_a_revision_is_looked_up_by_its_number_before_it_is_sent_again() -> None:
    async with met(without=["update_memory"], manners=Manners(honours_keys=False)) as (server, remote):
        first = await stored(remote)
        how = {"remote_id": first, "idempotency_key": f"{LIGHTHOUSE.id}.2"}
        server.script("lost-reply", method="store_memory")
        second = await brought(remote, revised(), **how)
        assert await stored(remote, revised(), repeated=True, **how) == second != first
        assert held(server) == [LIGHTHOUSE.content, revised().content]


@pytest.mark.requirement("KNG-079")
async def test_lost_replies_and_kills_leave_one_effect_of_each_memory() -> None:
    memories = [numbered(number, content=f"fog {number}") for number in range(12)]
    remote_ids: dict[str, str] = {}
    failures = 0
    with UltimateServer(weather=Weather(fail_500=0.1, drop_reply=0.2, seed=7)) as server:
        remote = ultimate_at(server.url)
        while len(remote_ids) < len(memories):
            one = memories[len(remote_ids)]
            try:
                remote_ids[one.id] = await stored(remote, one, repeated=failures > 0)
            except RemoteError:
                failures += 1
                if failures % 3 == 0:
                    server.stop()
                    server.start()
        assert failures > 3
        assert sorted(held(server)) == sorted(one.content for one in memories)
        assert len(set(remote_ids.values())) == len(memories)
        await remote.aclose()


# --- failures that look like successes --------------------------------------------------------------------------------


async def test_a_success_that_failed_is_refused_and_its_text_stays_hidden(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    server.manners.kinds = frozenset({"observation"})
    with pytest.raises(RemoteRefused) as refused:
        await stored(remote)
    assert refused.value.clear
    assert "opt" not in str(refused.value)
    assert "Must be" not in str(refused.value)


# --- embeddings -------------------------------------------------------------------------------------------------------


async def test_a_memory_without_an_embedding_gets_one_once_the_server_can_make_it(
    server: UltimateServer, remote: UltimateRemote, caplog: pytest.LogCaptureFixture
) -> None:
    server.manners.embedder = False
    with caplog.at_level(logging.WARNING, "kingly_memory.remote"):
        first = await stored(remote, numbered(1))
        await stored(remote, numbered(2))
    assert [record.message for record in caplog.records if "without embeddings" in record.message] != []
    assert "without_embedding=2" in repr(remote)
    assert len(caplog.records) == 1
    server.manners.embedder = True
    for number in (3, 4, 5):
        await stored(remote, numbered(number))
    assert "without_embedding=0" in repr(remote)
    assert server.engine.data.rows[first].embedding_id is not None
    repairs = [call for call in server.named("update_memory") if "content" not in call.params]
    assert len(repairs) == 2


async def test_a_store_that_its_embedder_holds_up_is_tried_again_without_an_embedding(server: UltimateServer) -> None:
    remote = ultimate_at(server.url, call_timeout_s=2.0)
    await remote.connect()
    server.manners.slow_s = 5.0
    remote_id = await brought(remote)
    row = server.engine.data.rows[remote_id]
    assert held(server) == [LIGHTHOUSE.content]
    assert row.embedding_id is None
    server.manners.slow_s = 0.0
    await stored(remote, numbered(2))
    assert row.embedded == LIGHTHOUSE.content
    server.manners.slow_s = 5.0
    await brought(remote, revised(), remote_id=remote_id, idempotency_key=f"{LIGHTHOUSE.id}.2")
    assert (row.content, row.embedded) == (revised().content, LIGHTHOUSE.content)
    await remote.aclose()


async def test_an_embedding_that_cannot_be_made_is_asked_for_once_and_delivers_all_the_same(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    server.manners.embedder = False
    await stored(remote, numbered(1))
    server.manners.embedder = True
    server.script("status=500", method="update_memory")
    for number in (2, 3):
        await stored(remote, numbered(number))
    assert len(held(server)) == 3
    assert server.named("update_memory") == []


# --- search -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question", ["multi-agent fog", 'the "fog', "fog AND", "NOT fog", "fog*", "(fog", "content:fog"]
)
async def test_a_question_that_its_keyword_half_cannot_read_is_answered(remote: UltimateRemote, question: str) -> None:
    await stored(remote)
    assert await ids_found(remote, question) == [LIGHTHOUSE.id]


async def test_what_expired_there_is_no_hit(server: UltimateServer, remote: UltimateRemote) -> None:
    await stored(remote, numbered(1, type=MemoryType.WORKING))
    await stored(remote, numbered(2, type=MemoryType.SEMANTIC))
    server.engine.advance(1_801)
    assert await ids_found(remote, "lighthouse") == ["memory-2"]


async def test_what_other_clients_keep_in_our_workflow_is_found_as_theirs(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    (workflow_id,) = server.engine.data.workflows
    said = {"content": "Another agent saw fog.", "memory_type": "observation", "memory_level": "semantic"}
    server.engine.call("store_memory", {"workflow_id": workflow_id, **said, "importance": 5.5})
    (hit,) = await remote.search("fog", space=PROJECT, limit=5, types=None, timeout_s=10)
    assert hit.memory_id is None
    assert (hit.record["type"], hit.record["significance"]) == (MemoryType.SEMANTIC, 0.5)
    assert hit.record["metadata"] == {"kind": "observation"}


@pytest.mark.requirement("KNG-079")
async def test_an_older_server_whose_semantic_search_is_locked_is_asked_by_its_hybrid_search() -> None:
    async with met(older=True, manners=Manners(locked_search=True)) as (server, remote):
        await stored(remote)
        assert await ids_found(remote, "lighthouse fog") == [LIGHTHOUSE.id]
        assert server.named("search_semantic_memories") == []


async def test_where_there_is_no_other_way_the_search_is_refused_and_delivery_goes_on() -> None:
    how = {"older": True, "without": ["hybrid_search_memories"], "manners": Manners(locked_search=True)}
    async with met(**how) as (_, remote):
        await stored(remote)
        with pytest.raises(RemoteRefused, match="locked"):
            await ids_found(remote, "lighthouse fog")
        await stored(remote, numbered(2))


# --- working memory, links, thoughts ----------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-071")
@pytest.mark.parametrize("context_id", ["watch-1", "Watch 1", "Wächter/Ö"])
async def test_another_process_finds_a_context_by_its_tag(server: UltimateServer, context_id: str) -> None:
    first, second = ultimate_at(server.url), ultimate_at(server.url)
    await stored(first, numbered(1, type=MemoryType.WORKING, scope=Scope(PROJECT, context_id=context_id)))
    (hit,) = await second.working_memory(context_id, space=PROJECT, timeout_s=10)
    assert (hit.memory_id, hit.record["scope"]["context_id"]) == ("memory-1", context_id)
    assert await second.working_memory(None, space=PROJECT, timeout_s=10) != []
    assert await second.working_memory("another", space=PROJECT, timeout_s=10) == []
    for one in (first, second):
        await one.aclose()


async def test_links_of_many_memories_are_asked_for_one_by_one_and_told_once(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    ids = [await stored(remote, numbered(number)) for number in range(6)]
    for source, target in itertools.pairwise(ids):
        await remote.link(RemoteLink(source, target, "causal", 0.5, None, PROJECT), idempotency_key="k", repeated=False)
    links = await remote.linked([*ids, ids[0], "mem_gone"], space=PROJECT, timeout_s=10)
    assert {(one["source_memory_id"], one["target_memory_id"]) for one in links} == set(itertools.pairwise(ids))
    assert len(server.named("get_linked_memories")) == 7


async def test_one_link_that_hangs_ends_them_all_at_the_deadline(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    ids = [await stored(remote, numbered(number)) for number in range(3)]
    server.script("ok", "hang", method="get_linked_memories")
    with pytest.raises(RemoteUnavailable) as late:
        await remote.linked(ids, space=PROJECT, timeout_s=0.3)
    assert late.value.timed_out


async def test_a_link_that_the_server_keeps_once_stays_as_it_is_there(
    server: UltimateServer, remote: UltimateRemote
) -> None:
    server.manners.replaces_links = False
    ends = (await stored(remote, numbered(1)), await stored(remote, numbered(2)))
    for strength in (0.5, 0.75):
        link = RemoteLink(*ends, "causal", strength, "so", PROJECT)
        await remote.link(link, idempotency_key=f"k{strength}", repeated=False)
    assert [one["strength"] for one in await remote.linked(ends, space=PROJECT, timeout_s=10)] == [0.5]


def thought(number: int) -> Memory:
    said = {"record": "thought", "thought_type": "hypothesis", "chain_id": "c", "parent_id": None, "position": number}
    return numbered(number, type=MemoryType.SEMANTIC, metadata=said)


async def record(remote: UltimateRemote, memory: Memory, parent: str | None = None) -> str:
    return await remote.record_thought(memory, parent_remote_id=parent, idempotency_key=memory.id, repeated=False)


@pytest.mark.requirement("KNG-071")
async def test_on_an_older_server_too_a_thought_is_a_memory_that_can_be_linked_and_forgotten() -> None:
    async with met(older=True) as (server, remote):
        first = await record(remote, thought(1))
        second = await record(remote, thought(2), first)
        assert await record(remote, thought(2), first) == second
        await remote.link(RemoteLink(first, second, "follows", 1.0, None, PROJECT), idempotency_key="l", repeated=False)
        assert len(await remote.linked([second], space=PROJECT, timeout_s=10)) == 1
        assert await remote.forget(thought(2), remote_id=second, idempotency_key="k") == second
        assert server.engine.data.rows[second].content == ultimate_wire.FORGOTTEN
