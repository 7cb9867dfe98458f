"""Documents that machines share with one hub: what one writes or deletes reaches the others, and nothing else does."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import InvalidInput, MemoryRouter
from kingly_memory.adapters.remote import wire
from kingly_memory.adapters.remote.dialect import GREETING
from kingly_memory.documents import name_of
from kingly_memory.errors import RemoteRefused, RemoteUnavailable
from kingly_memory.hub import feed
from kingly_memory.models import JsonObject
from kingly_memory.router.delivery import shared
from tests.hub.machines import Team, Wire, all_of, share, sharing, synced

pytestmark = pytest.mark.requirement("N7")


async def test_what_one_machine_writes_and_deletes_in_a_shared_namespace_is_so_on_all_and_on_a_new_one(
    team: Team,
) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await laptop.documents.put("users/lydia", "profile", {"city": "Oslo"})
        await laptop.documents.put("users", "draft", "on its way")
        assert await laptop.documents.share("users") == 2
        await share(desktop)
        await synced(laptop, desktop)
        assert await all_of(desktop) == {"users/draft": "on its way", "users/lydia/profile": {"city": "Oslo"}}
        await desktop.documents.put("users/lydia", "profile", {"city": "Bergen"})
        await laptop.documents.delete("users", "draft")
        await synced(laptop, desktop)
        async with team.machine("third") as third:
            await share(third)
            await synced(third)
            for memory in (laptop, desktop, third):
                assert await all_of(memory) == {"users/lydia/profile": {"city": "Bergen"}}
                (found,) = await memory.documents.search("users", "Bergen")
                assert found.document.key == "profile"


async def test_what_is_not_shared_neither_leaves_a_machine_nor_comes_to_one(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    async def call(self: Any, tool: str, params: Any, **how: Any) -> Any:
        said.append(json.dumps(params))
        return await called(self, tool, params, **how)

    called = Wire.call
    monkeypatch.setattr(Wire, "call", call)
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await laptop.documents.put("private", "diary", "zanzibarium")
        await laptop.documents.put("users", "a", "before it was shared")
        await synced(laptop, desktop)
        await share(laptop)
        await laptop.documents.put("private", "diary", "zanzibarium twice")
        await laptop.documents.put("usersx", "diary", "zanzibarium")
        await laptop.documents.delete("private", "diary")
        await synced(laptop, desktop)
        assert await all_of(desktop) == {}
        assert not any("zanzibarium" in one or "diary" in one or "private" in one for one in said)
        await laptop.documents.unshare("users")
        await laptop.documents.put("users", "a", "no longer shared")
        await laptop.documents.put("users", "b", "no longer shared")
        await share(desktop)
        await synced(laptop, desktop)
        assert await all_of(desktop) == {"users/a": "before it was shared"}
        assert not any("no longer" in one for one in said)
        await share(laptop)
        await synced(laptop, desktop)
        assert (await desktop.documents.get("users", "b")).value == "no longer shared"  # type: ignore[union-attr]


async def test_nothing_is_sent_of_a_namespace_that_is_no_longer_shared_also_where_it_waited(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "AT_ONCE", 1)
    async with team.machine("laptop") as laptop:
        await share(laptop)
        team.wires["laptop"].is_down = True
        for key in ("a", "b"):
            await laptop.documents.put("users", key, "zanzibarium")
        assert (await laptop.sync(timeout=5)).reason == "the hub is down"
        await laptop._engine.write(shared.unshare("app", ("users",), None))  # and ends before the rest
        team.wires["laptop"].is_down = False
        await synced(laptop)
        assert not {"put_document", "put_documents"} & {*team.wires["laptop"].called}
        assert "documents" not in await laptop.status()


async def test_a_namespace_that_is_shared_while_a_page_is_read_is_read_from_the_beginning(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        for prefix in ("users", "notes"):
            await share(laptop, prefix=prefix)
            await laptop.documents.put(prefix, "a", prefix)
        await share(desktop)
        await synced(laptop, desktop)
        assert await all_of(desktop) == {"users/a": "users"}
        await laptop.documents.put("users", "b", "more")
        await synced(laptop)
        call, is_first = team.wires["desktop"].call, True

        async def sharing(tool: str, params: Any, **how: Any) -> Any:
            nonlocal is_first
            answer = await call(tool, params, **how)
            if params.get("documents") and is_first:
                is_first = False
                await share(desktop, prefix="notes")
            return answer

        monkeypatch.setattr(team.wires["desktop"], "call", sharing)
        await synced(desktop)
        assert await all_of(desktop) == {"notes/a": "notes", "users/a": "users", "users/b": "more"}


async def test_a_namespace_is_shared_with_a_hub_or_not_at_all(tmp_path: Path) -> None:
    async with MemoryRouter.open(tmp_path / "home", project="app", remote=False) as memory:
        with pytest.raises(InvalidInput, match="remotes add"):
            await memory.documents.share("users")
        assert await memory.documents.unshare("users") is False


@pytest.mark.parametrize("first", ["laptop", "desktop"])
async def test_of_two_texts_that_were_written_apart_the_later_counts_and_the_earlier_is_kept_beside_it(
    team: Team, first: str
) -> None:
    async with sharing(team) as (laptop, desktop):
        await laptop.documents.put("users", "note", "first")
        await synced(laptop, desktop)
        await laptop.documents.put("users", "note", "of the laptop")
        earlier_at = team.clock.now()
        team.clock.tick(1)
        await desktop.documents.put("users", "note", "of the desktop")
        await synced(*((laptop, desktop) if first == "laptop" else (desktop, laptop)))
        await synced(laptop, desktop)
        async with team.machine("third") as third:
            await share(third)
            await synced(third)
            for memory in (laptop, desktop, third):
                now = await all_of(memory)
                assert now.pop("users/note") == "of the desktop"
                assert list(now.values()) == ["of the laptop"]
                (kept,) = now
                assert "note (apart " in kept
                document = await memory.documents.get("users", kept.removeprefix("users/"))
                assert document is not None
                assert document.expires_at is not None
                assert document.expires_at - earlier_at > timedelta(days=29)


async def test_a_text_that_replaces_what_was_read_counts_also_where_the_clock_is_behind(team: Team) -> None:
    async with sharing(team) as (laptop, desktop):
        team.clock.tick(3600)
        await laptop.documents.put("users", "note", "first")
        await synced(laptop, desktop)
        team.clock.jump(-3600)
        await desktop.documents.put("users", "note", "second")
        await synced(desktop, laptop)
        assert await all_of(laptop) == await all_of(desktop) == {"users/note": "second"}


@pytest.mark.parametrize("is_later", [False, True])
async def test_deleting_apart_from_a_change_keeps_the_later_of_both_and_loses_no_text(
    team: Team, is_later: bool
) -> None:
    async with sharing(team) as (laptop, desktop):
        await laptop.documents.put("users", "note", "first")
        await synced(laptop, desktop)
        if is_later:
            await laptop.documents.delete("users", "note")
        team.clock.tick(1)
        await desktop.documents.put("users", "note", "second")
        team.clock.tick(1)
        if not is_later:
            await laptop.documents.delete("users", "note")
        await synced(desktop, laptop)
        await synced(laptop, desktop)
        assert await all_of(laptop) == await all_of(desktop)
        assert list((await all_of(laptop)).values()) == ["second"]
        assert ("users/note" in await all_of(laptop)) is is_later


async def test_the_same_text_written_on_two_machines_is_one_document(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        for memory in (laptop, desktop):
            await memory.documents.put("users", "note", "the same")
            await share(memory)
            team.clock.tick(1)
        await synced(laptop, desktop)
        assert await all_of(laptop) == await all_of(desktop) == {"users/note": "the same"}


async def test_a_document_that_ends_ends_everywhere_and_comes_to_nobody_after_that(team: Team) -> None:
    async with sharing(team) as (laptop, desktop):
        await laptop.documents.put("users", "code", "1234", ttl=60)
        await synced(laptop, desktop)
        here, there = await laptop.documents.get("users", "code"), await desktop.documents.get("users", "code")
        assert here is not None
        assert there is not None
        assert (here.expires_at, here.ttl_s) == (there.expires_at, there.ttl_s)
        team.clock.tick(61)
        assert await all_of(desktop) == {}
        assert parts_of(team) == 1
        await laptop.documents.sweep("users")
        await synced(laptop, desktop)
        assert parts_of(team) == 0
        async with team.machine("third") as third:
            await share(third)
            await synced(third)
            assert await all_of(third) == {}


@pytest.mark.parametrize("ttl", [None, 7 * 86_400])
async def test_nobody_deletes_a_document_by_saying_that_it_ended(team: Team, ttl: float | None) -> None:
    async with sharing(team) as (laptop, desktop):
        await laptop.documents.put("users", "code", "1234", ttl=ttl)
        await synced(laptop)
        [told] = (await team.wires["laptop"].call("list_changes", {"documents": True}))["changes"]
        ends = {"name": told["name"], "at": told["at"], "based_on": f"{told['digest']}@{told['at']}", "ended": True}
        await team.wires["desktop"].call("put_document", ends)
        await synced(desktop)
        assert await all_of(desktop) == {"users/code": "1234"}


async def test_a_document_is_found_on_every_machine_by_what_its_writer_said(team: Team) -> None:
    async with sharing(team) as (laptop, desktop):
        await laptop.documents.put("users", "one", {"name": "Lydia", "note": "oysters"}, index=["name"])
        await laptop.documents.put("users", "two", {"name": "oysters"}, index=False)
        await synced(laptop, desktop)
        assert [one.document.key for one in await desktop.documents.search("users", "Lydia")] == ["one"]
        assert [one.document.key for one in await desktop.documents.search("users", "oysters")] == []


async def test_a_purge_of_the_project_reaches_every_machine_and_the_hub_and_leaves_no_copy(
    team: Team, tmp_path: Path
) -> None:
    def left(folder: str) -> list[str]:
        files = [path for path in (tmp_path / folder).rglob("*") if path.is_file()]
        return [path.name for path in files if b"zanzibarium" in path.read_bytes()]

    async with sharing(team) as (laptop, desktop):
        await laptop.documents.put("users", "zanzibarium", "zanzibarium")
        await synced(laptop, desktop)
        team.clock.tick(1)
        await laptop.purge(whole_project=True)
        await synced(laptop, desktop)
        assert await all_of(laptop) == await all_of(desktop) == {}
        assert left("laptop") == left("desktop") == left("hub") == []
        team.clock.tick(1)
        await desktop.documents.put("users", "zanzibarium", "a new one")
        await synced(desktop, laptop)
        assert await all_of(laptop) == {"users/zanzibarium": "a new one"}


async def test_a_value_of_many_parts_travels_whole_and_one_at_a_time(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "PART_CHARACTERS", 1_000)
    values = {f"v{number}": f"{number}" * 20_000 + '"é🦉\\' for number in range(3)}
    async with sharing(team) as (laptop, desktop):
        for key, value in values.items():
            await laptop.documents.put("users", key, value)
        await synced(laptop, desktop)
        assert await all_of(desktop) == {f"users/{key}": value for key, value in values.items()}
        pages = [one for one in team.wires["desktop"].called if one in ("list_changes", "get_document")]
        lengths = [len(one.split()) for one in " ".join(pages).split("list_changes")]
        assert max(lengths) <= 22


async def test_a_sending_that_broke_off_is_sent_again_and_leaves_nothing_at_the_hub(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "PART_CHARACTERS", 1_000)
    async with sharing(team) as (laptop, desktop):
        team.wires["laptop"].fail(RemoteUnavailable("cut off", reached=True), saying="third part")
        await laptop.documents.put("users", "note", "a" * 2_500 + "third part" + "a" * 2_500)
        await laptop.sync(timeout=5)
        assert await all_of(desktop) == {}
        await laptop.documents.put("users", "note", "b" * 5_000)
        await synced(laptop, desktop)
        assert await all_of(desktop) == {"users/note": "b" * 5_000}
        assert parts_of(team) == 6
        await laptop.documents.delete("users", "note")
        await synced(laptop, desktop)
        assert parts_of(team) == 0


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    ("follows", "parts"),
    [
        ({"digest": "1" * 32, "document": {"place": ["users", "note"]}, "content": "short"}, 1),
        ({"document": None}, 0),
        ({"document": None, "purge": True}, 0),
        ({"document": None, "ended": True}, 0),
    ],
    ids=["a-short-text", "removed", "purged", "ended"],
)
async def test_of_a_text_that_never_came_whole_nothing_stays_when_another_follows(
    team: Team, follows: JsonObject, parts: int
) -> None:
    async with team.machine("laptop"):
        call = team.wires["laptop"].call
        said = {"name": name_of(["users"], "note"), "at": "2026-01-01T00:00:00+00:00"}
        half = {"digest": "0" * 32, "parts": 2, "document": {"place": ["users", "note"]}, "content": "half of it"}
        assert await call("put_document", {**said, **half}) == {"held": True}
        await call("put_document", {**said, **follows})
        assert parts_of(team) == parts


def parts_of(team: Team) -> int:
    """How many parts of documents the hub keeps."""
    from kingly_memory.adapters.local.store import DiskStore

    if isinstance(team.store, DiskStore):
        found = team.store.write(lambda tx: tx.owners("part")).result()
        return len(found)
    ((count,),) = team.store.fetch_all("SELECT count(*) FROM km_facet WHERE name = 'part'", ())  # type: ignore[attr-defined]
    return int(count)


async def test_a_sync_that_ends_between_two_pages_goes_on_behind_the_last_one(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "REPLY_LIMIT_BYTES", 2_000)
    async with team.machine("laptop") as laptop:
        await share(laptop)
        for number in range(20):
            await laptop.documents.put("users", f"k{number:02}", "x" * 300)
        await synced(laptop)
        async with team.machine("desktop") as desktop:
            wire_of = team.wires["desktop"]
            call, asked = wire_of.call, list[str | None]()

            async def ending(tool: str, params: Any, **how: Any) -> Any:
                if params.get("documents"):
                    asked.append(params["since"])
                    wire_of.is_down = len(asked) == 3
                return await call(tool, params, **how)

            monkeypatch.setattr(wire_of, "call", ending)
            await share(desktop)
            await desktop.sync(timeout=5)
            taken = len(await all_of(desktop))
            assert (asked[0], 0 < taken < 20) == (None, True)
        async with team.machine("desktop", is_synced=False) as desktop:
            call = team.wires["desktop"].call
            wire_of = team.wires["desktop"]
            monkeypatch.setattr(wire_of, "call", ending)
            assert (await desktop.sync(timeout=5)).received == 20 - taken
            assert len(await all_of(desktop)) == 20
            assert asked[3] == asked[2]


async def test_an_answer_that_was_lost_makes_no_second_text(team: Team) -> None:
    async with sharing(team) as (laptop, desktop):
        wire_of = team.wires["laptop"]
        lost = RemoteUnavailable("lost", reached=True, retry_after_s=1)  # the link stays
        wire_of.fail(lost, "put_document", is_answered=True)
        await laptop.documents.put("users", "note", "first")
        await laptop.sync(timeout=5)
        await desktop.sync(timeout=5)
        team.clock.tick(1)
        await desktop.documents.put("users", "note", "second")
        await desktop.sync(timeout=5)
        began = len(wire_of.called)
        await laptop.sync(timeout=5)
        assert "list_changes" in wire_of.called[began:]  # and what is new there is passed by: something waits here
        wire_of.fail(None)
        await synced(laptop, desktop)
        assert await all_of(laptop) == await all_of(desktop) == {"users/note": "second"}


async def test_a_change_that_waits_is_not_overwritten_by_what_the_hub_has(team: Team) -> None:
    async with sharing(team) as (laptop, desktop):
        await laptop.documents.put("users", "note", "first")
        await synced(laptop, desktop)
        team.wires["desktop"].fail(RemoteUnavailable("not yet", reached=True), "put_document")
        await laptop.documents.put("users", "note", "of the laptop")
        await laptop.sync(timeout=5)
        team.clock.tick(1)
        await desktop.documents.put("users", "note", "of the desktop")
        await desktop.sync(timeout=5)
        assert await all_of(desktop) == {"users/note": "of the desktop"}
        team.wires["desktop"].fail(None)
        await synced(desktop, laptop)
        assert await all_of(laptop) == await all_of(desktop)
        assert sorted((await all_of(laptop)).values()) == ["of the desktop", "of the laptop"]


async def test_texts_of_one_moment_follow_each_other(team: Team) -> None:
    async with sharing(team) as (laptop, desktop):
        for value in ("one", "two", "one"):
            await laptop.documents.put("users", "note", value)
            await synced(laptop, desktop)
        assert await all_of(desktop) == {"users/note": "one"}


async def test_a_document_of_which_a_part_is_missing_does_not_count(team: Team) -> None:
    async with team.machine("laptop"):
        call = team.wires["laptop"].call
        said = {"name": name_of(["users"], "note"), "at": "2026-01-01T00:00:00+00:00", "digest": "0" * 32, "parts": 2}
        told = {**said, "document": {"place": ["users", "note"]}, "content": "the end"}
        assert await call("put_document", {**told, "part": 1}) == {"missing": True}
        with pytest.raises(RemoteUnavailable, match="not all parts"):
            wire.check_put({"missing": True})
        assert (await call("list_changes", {"documents": True}))["changes"] == []
        assert await call("put_document", {**told, "part": 0}) == {"held": True}
        assert "memory_id" in await call("put_document", {**told, "part": 1})


async def test_a_hub_that_keeps_no_documents_is_named_once(
    team: Team, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    call = Wire.call

    async def without(wire: Wire, tool: str, params: JsonObject, **how: Any) -> Any:
        answer = await call(wire, tool, params, **how)
        if tool == GREETING:
            answer["features"] = [one for one in answer["features"] if one != "put_document"]
        return answer

    monkeypatch.setattr(Wire, "call", without)
    async with team.machine("laptop") as laptop:
        await share(laptop)
        for key in ("a", "b"):
            await laptop.documents.put("users", key, "a note")
            await laptop.sync(timeout=5)
        assert not {"put_document", "put_documents"} & {*team.wires["laptop"].called}
    assert [one for one in caplog.messages if "documents" in one] == [
        "in process keeps no documents: those that are shared do not go there"
    ]


async def test_what_the_hub_refused_is_kept_beside_what_the_hub_has(team: Team) -> None:
    async with team.machine("laptop") as laptop, team.machine("desktop") as desktop:
        await share(laptop)
        await laptop.documents.put("users", "note", "of the laptop")
        await synced(laptop)
        wire_of = team.wires["desktop"]
        wire_of.fail(RemoteUnavailable("not yet", reached=True), "put_document")
        await desktop.documents.put("users", "note", "of the desktop")
        await share(desktop)
        await desktop.sync(timeout=5)  # what the hub has is passed by
        wire_of.fail(RemoteRefused("this needs the role write", clear=True), "put_document")
        for _ in range(3):
            await desktop.sync(timeout=5)
        now = await all_of(desktop)
        assert now.pop("users/note") == "of the laptop"
        assert list(now.values()) == ["of the desktop"]
        assert (await desktop.status())["documents"] == {"pending": 0, "dead": 1}


async def test_a_project_of_another_name_takes_its_shared_documents_along(team: Team) -> None:
    async with team.machine("laptop", "app") as laptop, team.machine("desktop", "shop") as desktop:
        await share(laptop, desktop)
        await laptop.documents.put("users", "note", "first")
        await synced(laptop)
        team.clock.jump(-3600)
        await laptop.projects.rename("app", "shop")
        await synced(laptop, desktop)
        assert await all_of(desktop) == {"users/note": "first"}
        async with team.machine("third", "app") as third:
            await share(third)
            await synced(third)
            assert await all_of(third) == {}


async def test_a_document_of_another_project_or_user_cannot_be_read(team: Team) -> None:
    async with team.machine("laptop") as laptop:
        await share(laptop)
        await laptop.documents.put("users", "note", "first")
        await synced(laptop)
        listed = await team.wires["laptop"].call("list_changes", {"documents": True})
        (entry,) = listed["changes"]
        named = {"memory_id": entry["memory_id"], "digest": entry["digest"]}
        assert (await team.wires["laptop"].call("get_document", named))["text"] == '{"value":"first"}'
        assert (await team.wires["laptop"].call("get_document", named, space="other"))["text"] is None
        assert (await team.wires["laptop"].call("search_semantic_memories", {"query": "document first"}))[
            "memories"
        ] == []
        assert (await team.wires["laptop"].call("list_changes", {}))["changes"] == []


async def test_entries_that_make_no_sense_are_left_out_and_counted(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sharing(team) as (laptop, desktop):
        await laptop.documents.put("users", "note", "first")
        await synced(laptop)
        wire_of = team.wires["desktop"]
        call, asked = wire_of.call, list[str]()

        async def lying(tool: str, params: Any, **how: Any) -> Any:
            asked.append(tool)
            answer = await call(tool, params, **how)
            if params.get("documents") and params["since"] is None:
                (good,) = answer["changes"]
                bad = [
                    7,
                    {**good, "name": "0" * 32},
                    {**good, "digest": "0" * 32},
                    {**good, "document": {**good["document"], "place": "users"}},
                    {**good, "content": '{"value": NaN}'},
                    {**good, "parts": 500},
                    {**good, "parts": 10_000},
                    {**good, "at": "soon"},
                ]
                answer["changes"] = [*bad, good]
            return answer

        monkeypatch.setattr(wire_of, "call", lying)
        await synced(desktop)
        assert await all_of(desktop) == {"users/note": "first"}
        assert "get_document" not in asked
        assert (await desktop.status())["unread"] == 8
