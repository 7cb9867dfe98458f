"""Several remotes at once: each gets and answers what is its own, and none waits for another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import InvalidInput, MemoryRouter, RemoteUnavailable, Settings
from kingly_memory.errors import RemoteRefused
from kingly_memory.models import DeliveryState, JsonObject, LinkState, Memory, MemoryStatus, MemoryType, Query, Source
from kingly_memory.observe import Event, LinkChanged
from kingly_memory.ports import (
    Changes,
    DocumentChanges,
    RemoteDocument,
    RemoteHit,
    RemoteInfo,
    RemoteLink,
    RemoteMarks,
)
from kingly_memory.settings import Pace
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, PromptStore, Remotes, federated, held, router_over
from tests.scripted.remote import ScriptedRemote

PROBE_S = CALM.probe_interval_s
QUICK = Settings(
    durability="process",
    pace=Pace(send_pause_s=0.0, poll_s=0.02, closing_s=0.05),
    call_timeout_s=0.3,
    remote_search_s=0.1,
    embedder="none",
)


def hit(content: str, relevance: float, remote_id: str = "r1", memory_id: str | None = None) -> RemoteHit:
    return RemoteHit(remote_id, content, relevance, memory_id)


class Shelf:
    """A remote of another kind: a list, and nothing of ours but the port."""

    def __init__(self) -> None:
        self.shelf: dict[str, Memory] = {}

    async def connect(self) -> RemoteInfo:
        return RemoteInfo(server="a shelf", honours_keys=True)

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        self.shelf[memory.id] = memory
        return f"shelf/{memory.id}"

    async def record_thought(
        self, memory: Memory, *, parent_remote_id: str | None, idempotency_key: str, repeated: bool
    ) -> str:
        return await self.store(memory, idempotency_key=idempotency_key, remote_id=None, repeated=repeated)

    async def mark(self, marks: RemoteMarks) -> None:
        raise NotImplementedError

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        pass

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        self.shelf.pop(memory.id, None)
        return remote_id

    async def changes(self, since: str | None, *, space: str, limit: int, timeout_s: float) -> Changes | None:
        return None

    async def put_documents(self, documents: Sequence[RemoteDocument]) -> None:
        raise NotImplementedError

    async def store_many(self, memories: Sequence[tuple[Memory, str]]) -> Sequence[str | RemoteRefused]:
        raise NotImplementedError

    async def document_changes(
        self, since: str | None, *, space: str, limit: int, timeout_s: float
    ) -> DocumentChanges | None:
        return None

    async def search(
        self, text: str, *, space: str, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        wanted = set(text.lower().split())
        found = [one for one in self.shelf.values() if wanted & set(one.content.lower().split())]
        return [RemoteHit(f"shelf/{one.id}", one.content, 0.6, one.id, one.to_json()) for one in found][:limit]

    async def working_memory(self, context_id: str | None, *, space: str, timeout_s: float) -> list[RemoteHit]:
        return []

    async def linked(self, remote_ids: Sequence[str], *, space: str, timeout_s: float) -> list[JsonObject]:
        return []

    async def aclose(self) -> None:
        pass


@pytest.mark.requirement("KNG-090")
async def test_a_backend_that_is_only_the_port_serves_beside_another(here: Remotes) -> None:
    shelf = Shelf()
    async with here.opened({"team": here.team, "shelf": shelf}) as memory:
        kept = await memory.store("a green kettle")
        await memory.sync()
        there = [one.content for one in shelf.shelf.values()]
        assert (there, held(here.team)) == (["a green kettle"], ["a green kettle"])
        found = await memory.search("green kettle")
    assert found.layers.keys() == {"local", "team", "shelf"}
    assert (found[0].memory.id, found[0].layers) == (kept.id, ("local", "team", "shelf"))


# --- search -------------------------------------------------------------------------------------------------------


async def test_a_search_is_answered_by_every_remote_under_its_own_name(here: Remotes) -> None:
    here.team.elsewhere = [hit("deploys need reviews", 0.9)]
    here.home.elsewhere = [hit("the deploys of my garden", 0.4)]
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        found = await memory.search("deploys")
    assert found.source is Source.HYBRID
    assert [(one.memory.content, one.layers) for one in found] == [
        ("deploys need reviews", ("team",)),
        ("the deploys of my garden", ("home",)),
    ]
    assert {name: report.hits for name, report in found.layers.items()} == {"local": 0, "team": 1, "home": 1}


async def test_the_best_that_any_remote_says_of_a_memory_counts(here: Remotes) -> None:
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        one = await memory.store("deploys on tuesday")
        await memory.sync()
        here.team.memories.clear()
        here.home.memories.clear()
        here.team.elsewhere = [hit("deploys on tuesday", 0.2, memory_id=one.id)]
        here.home.elsewhere = [hit("deploys on tuesday", 0.8, memory_id=one.id)]
        [only] = await memory.search("deploys")
    assert (only.layers, only.scores["remote"]) == (("local", "team", "home"), 0.8)


async def test_what_two_remotes_hold_of_one_memory_is_one_hit(here: Remotes) -> None:
    here.team.elsewhere = [hit("deploys on tuesday", 0.3, "t7", "0199-elsewhere")]
    here.home.elsewhere = [hit("deploys on tuesday", 0.5, "h9", "0199-elsewhere")]
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        [first] = await memory.search("deploys", fold=False)
        await memory._engine.flush()
        [second] = await memory.search("deploys", fold=False)
    assert first.layers == ("team", "home")
    assert set(second.layers) == {"local", "team", "home"}


async def test_an_id_that_two_remotes_claim_for_different_texts_joins_nothing(here: Remotes) -> None:
    here.team.elsewhere = [hit("deploys on tuesday", 0.3, "t7", "0199-elsewhere")]
    here.home.elsewhere = [hit("deploys on friday", 0.5, "h9", "0199-elsewhere")]
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        found = await memory.search("deploys", fold=False)
    assert {one.memory.content for one in found} == {"deploys on tuesday", "deploys on friday"}


async def test_the_same_id_at_two_remotes_means_two_memories(here: Remotes) -> None:
    """`r1` of the one has nothing to do with `r1` of the other."""
    here.team.elsewhere = [hit("deploys on tuesday", 0.5, "r1")]
    here.home.elsewhere = [hit("deploys on friday", 0.5, "r1")]
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        for _ in range(2):
            found = await memory.search("deploys")
            assert sorted(one.memory.content for one in found) == ["deploys on friday", "deploys on tuesday"]
            await memory._engine.flush()


async def test_a_dead_remote_is_named_and_the_others_answer(here: Remotes) -> None:
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        await here.clock.settle()
        here.team.down = True
        here.home.elsewhere = [hit("deploys of mine", 0.5)]
        found = await memory.search("deploys")
        assert (found.source, found.failures) == (Source.HYBRID, {"team": "the fake is down"})
        assert found.layers.keys() == {"local", "home"}
        for _ in range(2):
            await memory.search("deploys")
        asked = len(here.team.named("search"))
        again = await memory.search("deploys")
        assert len(here.team.named("search")) == asked
        assert again.failures == {"team": "offline: the fake is down"}
        here.home.down = True
        last = await memory.search("deploys")
    assert (last.source, set(last.failures)) == (Source.LOCAL_FALLBACK, {"team", "home"})


async def test_a_hung_remote_takes_a_search_no_longer_than_its_share(here: Remotes) -> None:
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        await here.clock.settle()
        here.team.hang()
        here.home.elsewhere = [hit("deploys of mine", 0.5)]
        searching = asyncio.create_task(memory.search("deploys"))
        while not (here.team.named("search") and here.home.named("search")):  # noqa: ASYNC110  # nothing says when both are asked
            await asyncio.sleep(0.001)
        await here.clock.advance(CALM.remote_search_s)
        found = await searching
        assert found.source is Source.HYBRID
        assert [one.layers for one in found] == [("home",)]
        assert found.took_ms <= CALM.remote_search_s * 1000
        here.team.go_on()


async def test_working_contexts_come_from_every_remote(here: Remotes) -> None:
    here.team.working_elsewhere = [hit("the team's plan", 0.0, "t1")]
    here.home.working_elsewhere = [hit("my plan", 0.0, "h1")]
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        both = await memory.working_context("deploy-42")
        here.home.down = True
        one = await memory.working_context("deploy-42")
    assert ([m.content for m in both.remote], both.reason) == (["the team's plan", "my plan"], None)
    assert ([m.content for m in one.remote], one.reason) == (["the team's plan"], "home: the fake is down")
    assert one.source is Source.HYBRID


# --- delivery -----------------------------------------------------------------------------------------------------


async def test_a_dead_remote_holds_up_no_delivery_to_another(here: Remotes) -> None:
    here.team.down = True
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        receipt = await memory.store("one")
        await here.clock.advance(60)
        assert (held(here.team), held(here.home)) == ([], ["one"])
        status = await memory.status()
        states = {label: (one["state"], one["outbox"]["pending"]) for label, one in status["remotes"].items()}
        assert states == {"team": ("offline", 1), "home": ("connected", 0)}
        assert status["outbox"]["pending"] == 1
        here.team.down = False
        await here.clock.advance(PROBE_S)
        assert held(here.team) == ["one"]
    assert receipt.remotes.keys() == {"team", "home"}


async def test_each_link_is_probed_by_itself(here: Remotes) -> None:
    here.team.down = here.home.down = True
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        await here.clock.settle()
        here.home.down = False
        await here.clock.advance(PROBE_S / 2)
        assert [len(one.named("connect")) for one in (here.team, here.home)] == [1, 1]
        await here.clock.advance(PROBE_S / 2)
        assert [len(one.named("connect")) for one in (here.team, here.home)] == [2, 2]
        await here.clock.advance(2 * PROBE_S)
        assert [len(one.named("connect")) for one in (here.team, here.home)] == [4, 2]
        states = {label: one["state"] for label, one in (await memory.status())["remotes"].items()}
        assert states == {"team": LinkState.OFFLINE, "home": LinkState.CONNECTED}


async def test_waiting_is_for_every_remote(here: Remotes) -> None:
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        await here.clock.settle()
        both = await memory.store("one", wait=5)
        assert (both.layers, both.delivery) == (("local", "team", "home"), DeliveryState.DELIVERED)
        here.team.down = True
        storing = asyncio.create_task(memory.store("three", wait=5))
        await here.clock.advance(6)
        some = await storing
    assert (some.layers, some.delivery) == (("local", "home"), DeliveryState.PENDING)
    assert some.remotes["home"]["delivery"] == "delivered"
    assert some.reason == "team: the fake is down; home: acknowledged by the remote"


async def test_requiring_the_remote_raises_while_one_of_several_has_not_answered(here: Remotes) -> None:
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        await here.clock.settle()
        here.home.down = True
        storing = asyncio.create_task(memory.store("one", require_remote=True))
        await here.clock.advance(6)
        with pytest.raises(RemoteUnavailable) as raised:
            await storing
    assert raised.value.receipt.layers == ("local", "team")


async def test_the_outbox_is_of_all_remotes_or_of_one(here: Remotes) -> None:
    here.team.down = here.home.down = True
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        one = await memory.store("one", key="one")
        await here.clock.settle()
        entries = [(entry.key, entry.remote) for entry in await memory.outbox()]
        assert sorted(entries) == [("one", "home"), ("one", "team")]
        assert [entry.remote for entry in await memory.outbox(remote="home")] == ["home"]
        assert await memory.outbox_drop([one.id], remote="team") == 1
        assert [entry.remote for entry in await memory.outbox()] == ["home"]
        assert await memory.outbox_retry([one.id]) == 1
        with pytest.raises(InvalidInput, match="'lab' is none of the remotes, which are team, home"):
            await memory.outbox(remote="lab")


async def test_sync_says_what_became_of_each_remote(here: Remotes) -> None:
    async with here.opened({"team": here.team, "home": here.home}) as memory:
        here.home.down = True
        await memory.store("one")
        report = (await memory.sync()).to_json()
        assert (report["pending"], report["link"], report["reason"]) == (1, "offline", "home: the fake is down")
        assert report["remotes"]["team"] == {
            "delivered": report["delivered"],
            "pending": 0,
            "dead": 0,
            "link": "connected",
            "reason": None,
        }
        asked = len(here.team.calls)
        here.home.down = False
        assert (await memory.sync(remote="home")).to_json()["remotes"].keys() == {"home"}
        assert (len(here.team.calls), held(here.home)) == (asked, ["one"])


async def test_whose_link_changed_and_who_did_not_take_a_memory_is_named(
    here: Remotes, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Event] = []
    remotes = {"team": here.team, "home": here.home}
    with caplog.at_level("INFO"):
        async with here.opened(remotes, observers=(seen.append,)) as memory:
            await memory.sync()
            here.home.down = True
            await memory.store("note", key="note")
            await here.clock.settle()
            here.home.down = False
            await memory.sync()
    changes = [(event.remote, event.state) for event in seen if isinstance(event, LinkChanged)]
    assert changes == [("home", "offline"), ("home", "connected")]
    told = [record.getMessage() for record in caplog.records]
    assert "the remote home is offline, going on without it: the fake is down" in told
    assert "delivery of 'note' to home failed, will try again: the fake is down" in told
    assert "the remote home is back" in told


async def test_one_remote_without_a_name_looks_as_it_always_did(here: Remotes) -> None:
    seen: list[Event] = []
    async with router_over(here.disk, here.team, here.clock, observers=(seen.append,)) as memory:
        receipt = await memory.store("deploys", wait=5)
        found = await memory.search("deploys")
        report = await memory.sync()
        assert "remotes" not in (await memory.status())
        here.team.down = True
        assert (await memory.sync()).link is LinkState.OFFLINE
    assert [event.remote for event in seen if isinstance(event, LinkChanged)] == [None]
    assert receipt.layers == ("local", "remote")
    assert "remotes" not in {**receipt.to_json(), **report.to_json()}
    assert (set(found.layers), found[0].layers) == ({"local", "remote"}, ("local", "remote"))


async def test_each_is_closed_though_another_fails_at_it(here: Remotes) -> None:
    class Stubborn(FakeRemote):
        async def aclose(self) -> None:
            raise RemoteUnavailable("will not")

    memory = here.opened({"team": Stubborn(clock=here.clock), "home": here.home})
    await memory.__aenter__()
    with pytest.raises(RemoteUnavailable):
        await memory.close()
    assert here.home.closed


# --- whatever happens to a home ------------------------------------------------------------------------------------


async def test_a_home_may_go_from_one_remote_to_two_and_back(here: Remotes) -> None:
    async with here.opened({"team": here.team}) as memory:
        await memory.store("one")
        await memory.sync()
    both = {"team": here.team, "home": here.home}
    async with here.opened(both, earlier=True) as memory:
        await memory.store("two")
        await memory.sync()
    assert [sorted(held(one)) for one in both.values()] == [["one", "two"], ["one", "two"]]
    async with here.opened({"team": here.team}) as memory:
        await memory.store("three")
        await memory.sync()
        assert [len(one.effects) for one in both.values()] == [3, 2]
        assert (await memory.status())["outbox"]["pending"] == 0


said = st.tuples(st.sampled_from("abc"), st.sampled_from([0.2, 0.5, 0.9]))
labels = st.sets(st.sampled_from(["team", "home"]))
days = st.lists(st.tuples(labels, st.lists(said, max_size=3), labels), max_size=4)


class Guarded(FakeRemote):
    """Notes what reaches it although it is not significant."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.astray: list[str] = []

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        if memory.significance <= 0.3:
            self.astray.append(memory.content)
        return await super().store(memory, idempotency_key=idempotency_key, remote_id=remote_id, repeated=repeated)


async def lived(folder: Path, lives: list[Any]) -> list[Guarded]:
    """A home that is opened again and again, by who names no remote too, while remotes come and go."""
    clock = ManualClock()
    remotes = {"team": Guarded(clock), "home": Guarded(clock)}
    for number, (named, several, down) in enumerate([*lives, ({"team", "home"}, [], set())]):
        for label, remote in remotes.items():
            remote.down = label in down
        in_use = {label: remote for label, remote in remotes.items() if label in named}
        async with federated(PromptStore(folder), in_use, clock, earlier=True) as memory:
            await clock.settle()
            for turn, (key, significance) in enumerate(several):
                await memory.store(f"{key} {number} {turn}", key=key, significance=significance)
                clock.tick(0.01)
            await memory.sync()
            await memory.sync()
    return [*remotes.values()]


@pytest.mark.requirement("KNG-090")
@given(days)
def test_whatever_happens_to_a_home_nothing_goes_astray_and_nothing_is_left_out(lives: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        remotes = asyncio.run(lived(Path(folder), lives))
        store = PromptStore(Path(folder))
        kept = [row.memory for row in store.reader.page(Query("", "app"), [MemoryStatus.LIVE], 100, None)]
        store.close()
    due = {(one.key, one.content) for one in kept if one.significance > 0.3}
    assert [remote.astray for remote in remotes] == [[], []]
    for remote in remotes:
        assert due <= {(memory.key, memory.content) for memory in remote.memories.values()}


# --- over the wire ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def opened(path: Path, *servers: ScriptedRemote, settings: Settings = QUICK) -> AsyncIterator[MemoryRouter]:
    remotes = dict(zip(("team", "home"), (server.url for server in servers), strict=False))
    async with MemoryRouter.open(path / "home", remotes, project="app", settings=settings) as memory:
        yield memory


def contents(server: ScriptedRemote) -> list[str]:
    return [json.loads(call.params["content"])["content"] for call in server.effects if call.method == "store_memory"]


@pytest.mark.requirement("KNG-090")
async def test_each_server_is_shown_its_own_token_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_TOKEN_TEAM", "of-the-team")
    monkeypatch.setenv("KINGLY_TOKEN", "of-nobody-here")
    with ScriptedRemote() as team, ScriptedRemote() as home:
        async with opened(tmp_path, team, home) as memory:
            await memory.store("a note", wait=5)
            await memory.search("note")
        shown = [{call.headers.get("authorization") for call in server.requests} for server in (team, home)]
    assert shown == [{"Bearer of-the-team"}, {None}]


async def test_two_names_for_one_server_are_one_remote(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedRemote() as server:
        twin = {"team": server.url, "home": server.url.replace("127.0.0.1", "localhost")}
        async with MemoryRouter.open(tmp_path / "home", twin, project="app", settings=QUICK) as memory:
            await memory.store("a note", wait=5)
            assert (await memory.status())["remotes"].keys() == {"team"}
        assert contents(server) == ["a note"]
    assert "the remotes team and home are the same server; home is left out" in caplog.text


@pytest.mark.requirement("N17")
def test_an_address_that_cannot_be_used_is_refused_with_its_name(tmp_path: Path) -> None:
    remotes = {"home": "http://127.0.0.1:9", "team": "ftp://nowhere"}
    with pytest.raises(InvalidInput, match="remote: team: an address begins with http"):
        MemoryRouter.open(tmp_path / "home", remotes, project="app", settings=QUICK)


async def test_a_home_of_one_remote_knows_it_again_by_any_name(tmp_path: Path) -> None:
    with ScriptedRemote() as server, ScriptedRemote() as other:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=QUICK) as memory:
            await memory.store("before", wait=5)
        async with opened(tmp_path, server, other) as memory:
            await memory.store("after", wait=5)
            assert (await memory.status())["remotes"]["team"]["effects"] == "exactly_once"
        assert (contents(server), contents(other)) == (["before", "after"], ["after"])
