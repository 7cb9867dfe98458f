"""What the remote is asked: the question rather than what it was wrapped in, in words that exist, within its time."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.wrapping import wrapped
from kingly_memory import MemoryRouter, Settings, Source
from kingly_memory.dataclass import replace
from kingly_memory.models import Query
from kingly_memory.ports import RemoteHit
from kingly_memory.router.search.local import LocalSearch, Wording
from kingly_memory.settings import Pace
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import CALM, PromptStore, router_over
from tests.scripted.remote import ScriptedRemote

PATIENT = Settings(durability="process", pace=Pace(closing_s=0.0), remote_search_s=10.0, local_search_s=5.0)


@pytest.fixture
def remote(clock: ManualClock) -> FakeRemote:
    return FakeRemote(clock=clock)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PromptStore]:
    made = PromptStore(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
async def router(store: PromptStore, remote: FakeRemote, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, remote, clock, settings=replace(CALM, remote_search_s=60.0)) as made:
        await made.sync()
        yield made


def asked(remote: FakeRemote) -> list[str]:
    return [call.arguments["text"] for call in remote.named("search")]


async def test_typing_errors_are_mended_on_the_wire_and_nothing_else_is_touched(tmp_path: Path) -> None:
    with ScriptedRemote() as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=PATIENT) as memory:
            await memory.store("the lighthouse keeper paints every Thursday", wait=5)
            found = await memory.search("  When does the Lighthuose-keeper (not: his wife!) piant?\n")
            assert found.source is Source.HYBRID
            assert found.repaired == {"lighthuose": "lighthouse", "piant": "paints"}
        [call] = [call for call in server.requests if call.method == "search_semantic_memories"]
    assert call.params["query"] == "  When does the Lighthouse-keeper (not: his wife!) piant?\n"  # that is less sure


async def test_of_a_paste_the_question_is_what_the_remote_gets(tmp_path: Path) -> None:
    question = "When does the lighthouse keeper paint?"
    with ScriptedRemote() as server:
        async with MemoryRouter.open(tmp_path / "home", server.url, project="app", settings=PATIENT) as memory:
            await memory.store("the lighthouse keeper paints every Thursday", wait=5)
            found = await memory.search(wrapped(question, way="after a log"))
            assert found.asked == found.to_json()["asked"] == question
            assert found.hits[0].memory.content.startswith("the lighthouse")
            short = await memory.search(question)
            assert short.asked is None
            assert "asked" not in short.to_json()
        calls = [call for call in server.requests if call.method == "search_semantic_memories"]
    assert [call.params["query"] for call in calls] == [question, question]


async def test_a_key_that_is_longer_than_a_question_finds_its_memory(router: MemoryRouter) -> None:
    key = "-".join(f"reports/{number:03}" for number in range(36))
    await router.store("what the key names", key=key)
    await router.store("reports reports reports")
    found = await router.search(f"{key}\n", include_semantic=False)
    assert found.hits[0].memory.content == "what the key names"


async def test_the_mode_is_that_of_the_question_and_not_of_the_log(router: MemoryRouter) -> None:
    log = wrapped("How should we plan the spring fair?", way="after a log")
    assert (await router.search(log, mode="auto")).mode == "broad"


async def test_what_the_remote_hears_besides_is_mended_too(router: MemoryRouter, remote: FakeRemote) -> None:
    await router.store("deploy the warehouse on tuesday", significance=0.1)
    await router._engine.find(Query("deploy the warehuose", "app", remote_text="task similar to: deploy the warehuose"))
    assert asked(remote) == ["task similar to: deploy the warehouse"]


async def test_what_the_remote_hears_besides_is_left_as_it_is(router: MemoryRouter, remote: FakeRemote) -> None:
    await router.store("the warehouse simulator takes taks", significance=0.1)
    await router._engine.find(
        Query("similra warehuose taks", "app", remote_text="tsak similra to: similra warehuose taks")
    )
    assert asked(remote) == ["tsak similra to: similra warehouse taks"]


async def test_only_what_is_hardly_another_word_is_mended_for_the_remote(
    router: MemoryRouter, remote: FakeRemote
) -> None:
    await router.store("the blorghest frankle", significance=0.1)
    found = await router.search("blorgst frankel")
    assert found.repaired == {"blorgst": "blorghest", "frankel": "frankle"}
    assert asked(remote) == ["blorghest frankle"]
    found = await router.search("blxrghset frnakle")
    assert found.repaired == {"blxrghset": "blorghest", "frnakle": "frankle"}
    assert asked(remote)[1:] == ["blxrghset frankle"]


async def test_words_are_found_once_however_many_layers_are_asked(
    router: MemoryRouter, remote: FakeRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    await router.store("deploy the warehouse on tuesday", significance=0.1)
    worded: list[str] = []
    find = LocalSearch.word

    def word(self: LocalSearch, query: Query, *, budget_s: float) -> Wording:
        worded.append(query.text)
        return find(self, query, budget_s=budget_s)

    monkeypatch.setattr(LocalSearch, "word", word)
    await router.search("warehuose")
    await router.search("nowhere", prefer_speed=True)
    assert worded == ["warehuose", "nowhere"]
    assert asked(remote) == ["warehouse", "nowhere"]


@pytest.mark.requirement("KNG-013")
async def test_a_remote_is_asked_as_it_was_written_when_finding_the_words_takes_too_long(
    store: PromptStore, remote: FakeRemote, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote_was_asked = threading.Event()
    find = LocalSearch.word

    def word(self: LocalSearch, query: Query, *, budget_s: float) -> Wording:
        assert remote_was_asked.wait(timeout=60)
        return find(self, query, budget_s=budget_s)

    look = remote.search

    async def search(*said: Any, **how: Any) -> Sequence[RemoteHit]:
        remote_was_asked.set()
        return await look(*said, **how)

    monkeypatch.setattr(LocalSearch, "word", word)
    monkeypatch.setattr(remote, "search", search)
    async with router_over(store, remote, clock) as router:
        await router.store("deploy the warehouse on tuesday", significance=0.1)
        assert (await router.search("warehuose")).repaired == {"warehuose": "warehouse"}
    assert asked(remote) == ["warehuose"]


@pytest.mark.requirement("KNG-013")
async def test_the_time_of_the_remote_runs_from_the_beginning_of_the_search(
    store: PromptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Running(ManualClock):
        passed_s = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.passed_s

    clock, find = Running(), LocalSearch.word
    remote = FakeRemote(clock=clock)

    def word(self: LocalSearch, query: Query, *, budget_s: float) -> Wording:
        clock.passed_s = 0.02
        return find(self, query, budget_s=budget_s)

    monkeypatch.setattr(LocalSearch, "word", word)
    async with router_over(store, remote, clock) as router:
        await router.sync(timeout=5)
        await router.search("anything")
    [call] = remote.named("search")
    assert call.arguments["timeout_s"] == pytest.approx(CALM.remote_search_s - 0.02)


@pytest.mark.requirement("KNG-018")
async def test_a_memory_further_down_here_profits_from_being_first_there(
    store: PromptStore, remote: FakeRemote, clock: ManualClock
) -> None:
    async with router_over(store, remote, clock) as router:
        wanted = (await router.store("deploy notes of the warehouse")).id
        for number in range(12):
            await router.store(f"deploy {number}")
        await router.sync(timeout=5)
        here = [hit.memory.id for hit in await router.search("deploy", limit=10, include_semantic=False)]
        assert wanted not in here
        remote.memories.clear()
        remote.elsewhere = [RemoteHit("r", "deploy notes", 0.95, wanted)]
        first, *_ = await router.search("deploy", limit=10)
    assert (first.memory.id, first.layers) == (wanted, ("local", "remote"))


async def test_a_list_that_is_full_by_what_the_remote_was_asked_for_leaves_something_out(
    router: MemoryRouter, remote: FakeRemote
) -> None:
    await router.store("deploy notes of the warehouse", significance=0.9)
    await router.store("deploy", significance=0.9)
    await router.sync(timeout=5)
    remote.elsewhere = [RemoteHit(f"r{number}", f"deploy {number}", 0.9, None) for number in range(4)]
    remote.memories.clear()

    async def relevance(remote_limit: int | None = None) -> float:
        found = await router._engine.find(Query("deploy", "app", remote_limit=remote_limit))
        return next(hit.relevance for hit in found if hit.memory.content == "deploy notes of the warehouse")

    assert await relevance(remote_limit=4) > await relevance()


@pytest.mark.requirement("KNG-016")
async def test_a_fallback_has_no_more_hits_than_were_asked_for(router: MemoryRouter, remote: FakeRemote) -> None:
    for number in range(12):
        await router.store(f"deploy {number}")
    remote.down = True
    found = await router.search("deploy", limit=3, fold=False)
    assert (found.source, len(found), found.layers["local"].hits) == (Source.LOCAL_FALLBACK, 3, 3)
