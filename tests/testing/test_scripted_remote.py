"""The scripted remote of the test kit: what a user's test says is what the server does."""

from __future__ import annotations

import pytest

from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnauthorised, RemoteUnavailable
from kingly_memory.testing import ScriptedRemote
from tests.remote_samples import LIGHTHOUSE, remote_at, stored


@pytest.mark.parametrize(
    ("fault", "error", "effects"),
    [
        ("status=503", RemoteUnavailable, 0),
        ("status=429 7", RemoteUnavailable, 0),
        ("failure=INVALID_PARAMETER", RemoteRefused, 0),
        ("reset", RemoteUnavailable, 0),
        ("hang", RemoteUnavailable, 0),
        ("lost-reply", RemoteUnavailable, 1),
        ("late", RemoteUnavailable, 1),
    ],
)
async def test_a_fault_is_played_once_and_the_next_call_works(
    fault: str, error: type[RemoteError], effects: int
) -> None:
    with ScriptedRemote() as server:
        impatient, remote = remote_at(server.url, call_timeout_s=0.5), remote_at(server.url)
        server.script(fault, method="store_memory")
        with pytest.raises(error) as failed:
            await stored(impatient if fault in ("hang", "late") else remote)
        assert len(server.effects) == effects
        if fault.startswith("status=429"):
            assert isinstance(failed.value, RemoteUnavailable)
            assert failed.value.retry_after_s == 7
        assert await stored(remote) == "remote-1"
        assert len(server.effects) == 1
        assert [call.fault for call in server.requests] == [fault, "ok"]
        await impatient.aclose()
        await remote.aclose()


async def test_what_it_holds_outlives_a_restart_on_the_same_port() -> None:
    with ScriptedRemote() as server:
        remote = remote_at(server.url)
        await stored(remote)
        server.stop()
        with pytest.raises(RemoteUnavailable):
            await stored(remote)
        server.start()
        (hit,) = await remote.search("fog", space="Küste", limit=5, types=None, timeout_s=5)
        assert hit.memory_id == LIGHTHOUSE.id
        await remote.aclose()


async def test_it_wants_its_token_and_knows_only_its_own_methods() -> None:
    with ScriptedRemote(token="right", without=["record_thought"]) as server:  # a made-up one
        stranger, friend = remote_at(server.url, token="wrong"), remote_at(server.url, token="right")
        with pytest.raises(RemoteUnauthorised):
            await stored(stranger)
        thought = {"parent_remote_id": None, "idempotency_key": "k", "repeated": False}
        assert await friend.record_thought(LIGHTHOUSE, **thought) == "remote-1"  # type: ignore[arg-type]
        assert [call.method for call in server.requests] == ["record_thought", "store_memory"]
        for one in (stranger, friend):
            await one.aclose()


def test_what_cannot_be_is_an_error_and_not_a_wait() -> None:
    with ScriptedRemote() as server:
        with pytest.raises(ValueError, match="not a fault"):
            server.always("nonsense")
        with pytest.raises(OSError, match="ddress already in use"):
            ScriptedRemote(port=server.port).start()
        with pytest.raises(TimeoutError):
            server.wait_until(lambda running: bool(running.effects), timeout_s=0.01)
