"""The whole router with a remote that speaks mcp: delivered, found, and not disturbed by what happens to the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.models import LinkState, Source
from kingly_memory.settings import Pace
from tests.scripted.mcp_frames import McpStyle
from tests.scripted.remote import ScriptedRemote
from tests.sdk_process import SdkProcess

QUICK = Settings(
    pace=Pace(send_pause_s=0.01, poll_s=0.02), probe_interval_s=0.1, remote_search_s=5.0, local_search_s=5.0
)


@pytest.mark.requirement("KNG-079", "KNG-066")
@pytest.mark.parametrize(
    "style", [McpStyle(), McpStyle(events=True), McpStyle(stateless=True), McpStyle(path="/mcp/mcp")]
)
async def test_an_outage_of_a_server_of_mcp_loses_nothing_and_repeats_nothing(tmp_path: Path, style: McpStyle) -> None:
    with ScriptedRemote(mcp=style) as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
            await memory.store("fog before", wait=5)
            server.stop()
            for number in range(4):
                await memory.store(f"fog during {number}", significance=0.8)
            assert (await memory.search("fog")).source is Source.LOCAL_FALLBACK
            server.start()
            report = await memory.sync(timeout=10)
            assert (report.pending, report.link) == (0, LinkState.CONNECTED)
            assert (await memory.search("fog")).source is Source.HYBRID
        assert len(server.effects) == 5
        assert len({call.params["idempotency_key"] for call in server.effects}) == 5


async def test_a_session_that_the_server_forgot_is_nobodys_trouble(tmp_path: Path) -> None:
    with ScriptedRemote(mcp=McpStyle(lost="400")) as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
            await memory.store("fog before", wait=5)
            server.forget_sessions()
            receipt = await memory.store("fog after", significance=0.8, require_remote=True)
            assert receipt.id
            assert (await memory.search("fog")).source is Source.HYBRID
        assert len(server.effects) == 2


async def test_a_server_without_memory_tools_is_a_remote_that_is_offline_and_says_why(tmp_path: Path) -> None:
    with SdkProcess("--stock") as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
            await memory.store("fog", significance=0.8)
            report = await memory.sync(timeout=10)
            assert (report.pending, report.link) == (1, LinkState.OFFLINE)
            assert (await memory.search("fog")).hits
            assert "the server offers no memory tools" in str(await memory.status())
