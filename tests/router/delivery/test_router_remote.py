"""The router with a remote: real bytes to a scripted server on the loopback interface."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter, RemoteUnavailable, Settings
from kingly_memory.models import DeliveryState, LinkState, Source
from kingly_memory.settings import Pace
from tests.scripted.mcp_frames import McpStyle
from tests.scripted.remote import ScriptedRemote
from tests.sdk_process import SdkProcess

QUICK = Settings(
    durability="process",
    pace=Pace(send_pause_s=0.0, poll_s=0.02, closing_s=0.0),
    call_timeout_s=0.3,
    remote_search_s=0.1,
)
PATIENT = Settings(
    pace=Pace(send_pause_s=0.01, poll_s=0.02), probe_interval_s=0.1, remote_search_s=5.0, local_search_s=5.0
)
FAULTS = ["status=500", "hang", "garbage", "html", "json=7", "nan", "reset", "failure", "no-content", "bad-utf8"]


@pytest.fixture
def server() -> Iterator[ScriptedRemote]:
    with ScriptedRemote() as remote:
        yield remote


@pytest.fixture
async def memory(tmp_path: Path, server: ScriptedRemote) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as router:
        yield router


def stores(server: ScriptedRemote) -> list[dict[str, Any]]:
    return [json.loads(call.params["content"]) for call in server.effects if call.method == "store_memory"]


def called(server: ScriptedRemote, method: str) -> int:
    return sum(call.method == method for call in server.requests)


@pytest.mark.requirement("KNG-001")
@pytest.mark.requirement("KNG-009")
async def test_significant_memory_reaches_both_layers_and_is_linked(
    memory: MemoryRouter, server: ScriptedRemote
) -> None:
    receipt = await memory.store("blue green deploys", key="deploys", significance=0.8, wait=5)
    assert (receipt.layers, receipt.delivery) == (("local", "remote"), DeliveryState.DELIVERED)
    assert receipt.remote_id
    assert [sent["key"] for sent in stores(server)] == ["deploys"]
    assert await memory.get("deploys") is not None


@pytest.mark.requirement("N25", "N30")
async def test_a_receipt_that_was_waited_for_says_what_the_store_saw(memory: MemoryRouter) -> None:
    said = "The deploy password is hunter2."
    first = await memory.store(said, wait=5)
    again = await memory.store(said, tags=["ops"], wait=5)
    assert again.delivery is DeliveryState.DELIVERED
    assert (again.id, again.sightings, again.secrets) == (first.id, 2, 1)


@pytest.mark.requirement("KNG-002")
@pytest.mark.parametrize(("significance", "leaves"), [(0, 0), (0.29, 0), (0.3, 0), (0.3000001, 1), (1, 1)])
async def test_only_memories_above_the_threshold_leave_the_machine(
    memory: MemoryRouter, server: ScriptedRemote, significance: float, leaves: int
) -> None:
    receipt = await memory.store("a note", significance=significance, wait=5)
    await memory.sync(timeout=5)
    assert len(stores(server)) == leaves
    if not leaves:
        assert receipt.layers == ("local",)
        assert receipt.delivery is DeliveryState.LOCAL_ONLY


@pytest.mark.requirement("KNG-007")
@pytest.mark.requirement("KNG-008")
async def test_the_wire_carries_what_the_design_says(memory: MemoryRouter, server: ScriptedRemote) -> None:
    receipt = await memory.store("text", key="k", significance=0.7, confidence=0.2, context_id="c", wait=5)
    (call,) = [one for one in server.effects if one.method == "store_memory"]
    assert call.params["memory_type"] == "semantic"
    assert call.params["idempotency_key"] == receipt.id == call.headers["idempotency-key"]
    said = call.params["metadata"]
    assert {"confidence": 0.7, "significance": 0.7, "context_id": "c", "source": "kingly_agent"}.items() <= said.items()
    assert isinstance(said["timestamp"], int)
    assert {"key", "content", "metadata"} == set(json.loads(call.params["content"]))


@pytest.mark.requirement("KNG-003")
@pytest.mark.requirement("KNG-043")
@pytest.mark.requirement("KNG-075")
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_verb_works_whatever_the_remote_does(tmp_path: Path, fault: str) -> None:
    with ScriptedRemote(always=fault) as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
            receipt = await memory.store("deploy notes", key="k", significance=0.9)
            assert receipt.delivery is DeliveryState.PENDING
            assert await memory.get("k") is not None
            found = await memory.search("deploy")
            assert [hit.memory.id for hit in found] == [receipt.id]
            assert found.source is Source.LOCAL_FALLBACK
            assert "remote" in found.failures
            assert await memory.forget("k") is not None
            assert await memory.restore("k") is not None
            assert await memory.sync(timeout=0.1) is not None
            await memory.sweep()
            assert (await memory.status())["memories"]["total"] == 1


@pytest.mark.requirement("KNG-004")
@pytest.mark.requirement("KNG-017")
async def test_failed_delivery_warns_once_with_the_key_and_never_the_text(
    tmp_path: Path, server: ScriptedRemote, caplog: pytest.LogCaptureFixture
) -> None:
    server.script("status=422", method="store_memory")
    with caplog.at_level(logging.DEBUG):
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
            receipt = await memory.store("CANARY text", key="the-key", wait=5)
    assert receipt.delivery is DeliveryState.DEAD
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "the-key" in warnings[0]
    assert "422" in warnings[0]
    assert "CANARY" not in caplog.text


@pytest.mark.requirement("KNG-046", "KNG-047", "KNG-066", "KNG-079")
@pytest.mark.parametrize(
    "style", [None, McpStyle(), McpStyle(events=True), McpStyle(stateless=True), McpStyle(path="/mcp/mcp")]
)
async def test_memories_stored_in_an_outage_arrive_once(tmp_path: Path, style: McpStyle | None) -> None:
    with ScriptedRemote(mcp=style) as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=PATIENT) as memory:
            await memory.store("before", wait=5)
            server.stop()
            for number in range(5):
                await memory.store(f"during {number}")
            assert (await memory.search("during")).source is Source.LOCAL_FALLBACK
            server.start()
            report = await memory.sync(timeout=10)
            assert (report.pending, report.link) == (0, LinkState.CONNECTED)
            assert (await memory.search("during")).source is Source.HYBRID
        assert sorted(sent["content"] for sent in stores(server)) == ["before", *(f"during {n}" for n in range(5))]


async def test_a_server_without_memory_tools_is_a_remote_that_is_offline_and_says_why(tmp_path: Path) -> None:
    with SdkProcess("--stock") as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=PATIENT) as memory:
            await memory.store("fog", significance=0.8)
            report = await memory.sync(timeout=10)
            assert (report.pending, report.link) == (1, LinkState.OFFLINE)
            assert (await memory.search("fog")).hits
            assert "the server offers no memory tools" in str(await memory.status())


@pytest.mark.requirement("N3")
@pytest.mark.parametrize(("deliver_earlier", "there"), [(False, {"later"}), (True, {"early", "later"})])
async def test_a_remote_named_later_gets_what_was_stored_before_only_where_that_was_said(
    tmp_path: Path, server: ScriptedRemote, deliver_earlier: bool, there: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kingly_memory")
    home = tmp_path / "home"
    async with MemoryRouter.open(home, project="app", settings=QUICK) as memory:
        await memory.store("early", significance=0.9)
        await memory.store("private", significance=0.1)
    async with MemoryRouter.open(home, project="other", settings=QUICK) as other:
        await other.store("another project's")
    later = MemoryRouter.open(home, server.url, project="app", settings=QUICK, deliver_earlier=deliver_earlier)
    async with later as memory:
        await memory.store("later", wait=5)
        assert (await memory.sync(timeout=10)).pending == 0
    assert {sent["content"] for sent in stores(server)} == there
    told = f"earlier memories above significance 0.3 that go to {server.url}: 1"
    assert (told in caplog.messages) is deliver_earlier


@pytest.mark.requirement("KNG-005")
@pytest.mark.requirement("KNG-056")
async def test_store_does_not_wait_for_a_remote_that_hangs(tmp_path: Path) -> None:
    patient = Settings(durability="process", call_timeout_s=60, pace=Pace(closing_s=0.0))
    with ScriptedRemote(always="hang") as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=patient) as memory:
            receipts = [await memory.store(f"note {number}") for number in range(20)]
    assert {receipt.delivery for receipt in receipts} == {DeliveryState.PENDING}
    assert called(server, "store_memory") == 0


async def test_required_remote_that_is_missing_raises_with_the_receipt(tmp_path: Path, server: ScriptedRemote) -> None:
    server.stop()
    async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
        with pytest.raises(RemoteUnavailable, match=r"the remote is offline: .* refused") as caught:
            await memory.store("safe locally", key="k", require_remote=True)
        assert caught.value.receipt.key == "k"
        assert await memory.get("k") is not None


async def test_required_remote_that_answers_is_in_the_receipt(memory: MemoryRouter) -> None:
    receipt = await memory.store("certain", require_remote=True)
    assert receipt.layers == ("local", "remote")


async def test_dead_letter_can_be_listed_retried_and_dropped(memory: MemoryRouter, server: ScriptedRemote) -> None:
    server.script("status=422", method="store_memory")
    await memory.store("poison", key="p", wait=5)
    (entry,) = await memory.outbox()
    assert (entry.key, entry.state) == ("p", DeliveryState.DEAD)
    assert "422" in str(entry.last_error)
    await memory.store("healthy", wait=5)
    assert [sent["content"] for sent in stores(server)] == ["healthy"]
    assert await memory.outbox_retry() == 1
    await memory.sync(timeout=5)
    assert await memory.outbox() == []
    assert {sent["content"] for sent in stores(server)} == {"poison", "healthy"}


@pytest.mark.requirement("KNG-068")
async def test_semantic_calls_fail_fast_while_offline(tmp_path: Path, server: ScriptedRemote) -> None:
    server.always("hang")
    async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
        await memory.sync(timeout=1)
        asked = called(server, "search_semantic_memories")
        for _ in range(5):
            assert (await memory.search("anything")).source is Source.LOCAL_FALLBACK
        assert called(server, "search_semantic_memories") == asked
