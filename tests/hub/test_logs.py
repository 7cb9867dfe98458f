"""Logs of shared sessions: what is appended, popped and cleared on one machine is so on all, in one order."""

from __future__ import annotations

from typing import Any

import pytest

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.adapters.remote import wire
from kingly_memory.digests import content_digest
from kingly_memory.documents import name_of
from kingly_memory.errors import RemoteRefused, RemoteUnavailable
from tests.hub.machines import Team, all_of, share, synced

pytestmark = pytest.mark.requirement("N7")

EXACT = [{"content": "Grüße 👋 \0 \ud800", "deep": [1, None, 2.5]}, "plain", None, ""]
TALK = "chats/one"


async def said(memory: MemoryRouter, session: str = TALK) -> list[Any]:
    return await memory.log(session).last()


async def test_items_that_were_appended_apart_are_in_one_order_on_all_and_on_a_new_machine(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await laptop.log(TALK).append(EXACT)
        assert await laptop.documents.share("chats") == 4
        await share(desktop, prefix="chats")
        await synced(laptop, desktop)
        assert await said(desktop) == EXACT
        team.clock.jump(-86_400)  # what was heard first stands first all the same
        await desktop.log(TALK).append(["heard", "again"])
        team.clock.jump(86_401)
        await laptop.log(TALK).append(["meanwhile"])
        await synced(laptop, desktop)
        assert await said(laptop) == await said(desktop) == [*EXACT, "heard", "again", "meanwhile"]
        await laptop.log("private/one").append(["secret"])
        async with team.machine("third") as third:
            await share(third, prefix="")
            await synced(laptop, third)
            assert await third.log(TALK).items() == await laptop.log(TALK).items()
            assert [one.session for one in await third.logs()] == [TALK]
            assert await all_of(third) == {}


@pytest.mark.requirement("P13")
async def test_a_long_log_is_shared_a_hundred_items_a_call_and_a_refused_one_keeps_no_other(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await laptop.log(TALK).append([f"line {number}" for number in range(250)])
        await laptop.log("other").append(["poison", "fine"])
        await laptop.documents.put("chats", "note", "a document")
        await share(laptop, desktop, prefix=TALK)
        report = await laptop.sync(timeout=5)
        assert (report.delivered, report.documents) == (0, 250)
        called = team.wires["laptop"].called
        assert (called.count("put_documents"), called.count("put_document")) == (3, 0)
        await desktop.sync(timeout=5)
        assert await said(desktop) == await said(laptop)
        assert await laptop.log(TALK).clear() == 250
        assert (await laptop.sync(timeout=5)).documents == 250
        assert (called.count("put_documents"), called.count("put_document")) == (6, 0)
        team.wires["laptop"].fail(RemoteRefused("it is refused", clear=True), saying="poison")
        await share(laptop, desktop, prefix="")
        report = await laptop.sync(timeout=5)
        assert report.documents == 2
        assert "refused documents" in str(report.reason)
        await desktop.sync(timeout=5)
        assert await said(desktop) == []
        assert await said(desktop, "other") == ["fine"]
        assert await all_of(desktop) == {"chats/note": "a document"}


async def test_what_is_taken_off_on_one_machine_is_not_there_for_another(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await share(laptop, desktop, prefix=TALK)
        first, *_ = await laptop.log(TALK).append(["a", "b", "c"])
        await synced(laptop, desktop)
        assert await desktop.log(TALK).pop() == "c"
        await laptop.log(TALK).append(["d"])
        await synced(desktop, laptop)
        assert await said(laptop) == await said(desktop) == ["a", "b", "d"]
        await desktop.log(TALK).replace(["summary"], first=first)
        await synced(desktop, laptop)
        assert await said(laptop) == ["summary"]
        assert await laptop.log(TALK).clear() == 1
        await laptop.log(TALK).append(["new"])
        await synced(laptop, desktop)
        assert await said(desktop) == ["new"]
        await desktop.purge(whole_project=True)
        await synced(desktop, laptop)
        assert await laptop.logs() == await desktop.logs() == ()


async def test_an_item_that_was_taken_off_before_its_sending_was_answered_is_nowhere(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await share(laptop, desktop, prefix=TALK)
        team.wires["laptop"].fail(RemoteUnavailable("lost", reached=True), "put_document", is_answered=True)
        await laptop.log(TALK).append(["a", "b"])
        await laptop.sync(timeout=5)
        team.clock.tick(1)
        assert await laptop.log(TALK).pop() == "b"
        team.wires["laptop"].fail(None)
        await synced(laptop, desktop)
        assert await said(laptop) == await said(desktop) == ["a"]


async def test_the_outbox_names_documents_and_items_and_tries_or_gives_them_up(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await share(laptop, desktop, prefix="")
        team.wires["laptop"].fail(RemoteRefused("may only read", clear=True), "put_document")
        await laptop.documents.put("users", "note", "kept")
        await laptop.log(TALK).append(["kept"])
        await laptop.sync(timeout=5)
        entries = {one.key: one for one in await laptop.outbox()}
        assert {key: one.last_error for key, one in entries.items()} == dict.fromkeys(
            ["users/note", "an item of the log chats/one"], "may only read"
        )
        team.wires["laptop"].fail(None)
        assert await laptop.outbox_drop([entries["users/note"].id]) == 1
        assert await laptop.outbox_retry() == 1
        with pytest.raises(InvalidInput, match="in the outbox"):
            await laptop.outbox_retry(["nothing"])
        await synced(laptop, desktop)
        assert (await said(desktop), await all_of(desktop)) == (["kept"], {})
        assert await laptop.outbox() == []


@pytest.mark.parametrize("place", [["", "chat", "9"], ["", "a\nb", "1795741620123456.aa"], ["", "1795741620123456.aa"]])
def test_an_item_without_a_session_or_an_id_of_its_own_is_left_out(place: list[str]) -> None:
    at, content = "2026-11-27T00:00:00+00:00", '{"value":1,"text":""}'
    entry = {"memory_id": "m", "name": name_of(place[:-1], place[-1]), "parts": 1, "digest": "", "at": at}
    listed = wire.ListedDocument("m", content_digest(content), 1, {**entry, "document": {"place": place}})
    assert wire.remote_document(listed, content, "app") is None
