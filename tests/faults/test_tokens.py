"""A token expires: everything waits, nothing dies, and with the new one everything arrives."""

from __future__ import annotations

from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.models import DeliveryState, LinkState
from kingly_memory.settings import Pace
from tests.faults.conftest import Tell
from tests.faults.troubles import DIALECTS, speaking
from tests.scripted.remote import ScriptedRemote

EAGER = Settings(durability="process", pace=Pace(send_pause_s=0.0, poll_s=0.02, longest_wait_s=0.05, closing_s=0.0))


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_expired_token_pauses_the_backlog_and_a_new_one_delivers_it_once(
    tmp_path: Path, dialect: str, tell: Tell
) -> None:
    home, port = tmp_path / "home", 0
    with ScriptedRemote(token="of-march", **speaking(dialect)) as server:
        port = server.port
        async with MemoryRouter.open(home, server.url, token="of-march", project="app", settings=EAGER) as memory:
            await memory.store("before", key="before", significance=0.8, wait=10)
    with ScriptedRemote(token="of-april", port=port, **speaking(dialect)) as server:
        async with MemoryRouter.open(home, server.url, token="of-march", project="app", settings=EAGER) as memory:
            for number in range(5):
                await memory.store(f"during {number}", key=f"k{number}", significance=0.8)
            report = await memory.sync(timeout=5)
            assert (report.pending, report.dead, report.link) == (5, 0, LinkState.OFFLINE)
            assert "token" in str(report.reason)
        assert server.requests == []
        async with MemoryRouter.open(home, server.url, token="of-april", project="app", settings=EAGER) as memory:
            report = await memory.sync(timeout=20)
            assert (report.pending, report.dead, report.link) == (0, 0, LinkState.CONNECTED)
        assert [call.method for call in server.effects] == ["store_memory"] * 5
    tell(11, f"5 of 5 waited and arrived ({dialect})")


@pytest.mark.requirement("KNG-047")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("wrong", [None, "of-march"])
async def test_a_process_with_a_wrong_token_takes_the_remote_from_nobody(
    tmp_path: Path, dialect: str, wrong: str | None
) -> None:
    """Not even when it was there first and delivers for all: then it makes way."""
    home = tmp_path / "home"
    with ScriptedRemote(token="of-april", **speaking(dialect)) as server:

        def opened(token: str | None) -> MemoryRouter:
            return MemoryRouter.open(home, server.url, token=token, project="app", settings=EAGER)

        async with opened(wrong) as shut_out:
            await shut_out.store("of one who is shut out", significance=0.8)
            assert (await shut_out.sync(timeout=20)).link is LinkState.OFFLINE
            async with opened("of-april") as memory:
                await memory.store("of one who is let in", significance=0.8)
                assert (await memory.sync(timeout=20)).pending == 0
                await shut_out.search("somebody")
                assert (await shut_out.status())["link"]["state"] == LinkState.OFFLINE
                assert "token" in (await shut_out.status())["link"]["last_error"]
                assert (await memory.store("afterwards", significance=0.8, wait=20)).delivery is DeliveryState.DELIVERED
                assert (await memory.status())["link"]["state"] == LinkState.CONNECTED
        assert len(server.effects) == 3
