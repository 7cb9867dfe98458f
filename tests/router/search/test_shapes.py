"""What comes out of a search: repeats folded, views and budgets, verdicts in a mode; in Python, over MCP."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kingly_memory.api.memories import BUDGET_TOKENS
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.app.reading import open_reader
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import Place
from kingly_memory.ids import MemoryId
from kingly_memory.models import Detail, Hit, Query
from kingly_memory.retrieval import snippets
from kingly_memory.router.search.local import HERE, LocalAnswer, LocalSearch
from kingly_memory.router.search.search import Request, look
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import ScriptedLanguageModel
from kingly_memory.text.writing import estimated_tokens
from tests.mcp_sessions import session
from tests.store_samples import memory as remembered

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0), local_search_s=60.0)
CHECKING = Settings(durability="process", pace=Pace(closing_s=0.0), verification_enabled=True)
LONG = "The harbour opens at six. " * 200 + "Deploys need two reviews. " + "Ferries leave at seven. " * 200


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as opened:
        yield opened


# --- folding --------------------------------------------------------------------------------------------------------


async def test_repeats_are_one_hit_and_the_room_goes_to_other_things(memory: MemoryRouter) -> None:
    texts = ("Deploys need review.",) * 3 + ("deploys need review!",)
    ids = [(await memory.store(text, key=f"repeat {number}")).id for number, text in enumerate(texts)]
    await memory.store("deploys need patience and a good plan")
    found = await memory.search("deploys need review", limit=2)
    assert found[0].memory.content.lower().startswith("deploys need")
    assert found[1].memory.content == "deploys need patience and a good plan"
    assert {found[0].memory.id, *found.folded[found[0].memory.id]} == set(ids)
    assert found.to_json()["folded"] == {found[0].memory.id: list(found.folded[found[0].memory.id])}
    plain = await memory.search("deploys need review", limit=2, fold=False)
    assert (len(plain), plain.folded, "folded" in plain.to_json()) == (2, {}, False)
    assert {hit.memory.id for hit in plain} < set(ids)


async def test_folding_neither_lengthens_an_answer_nor_reorders_it(memory: MemoryRouter) -> None:
    for number in range(30):
        await memory.store(f"deploy number {number} of the harbour")
    await memory.await_vectors(timeout=60)  # else the first of two searches may lack some
    folded, plain = await memory.search("deploy harbour"), await memory.search("deploy harbour", fold=False)
    assert [hit.memory.id for hit in folded] == [hit.memory.id for hit in plain]
    assert len(folded) == 10


async def test_in_a_mode_the_one_that_the_mode_values_most_stands_for_the_others(memory: MemoryRouter) -> None:
    sure = await memory.store("Deploys need two reviews.", confidence=0.9)
    doubtful = await memory.store("deploys need two reviews", confidence=0.8)
    await memory.store("deploys need two reviews!", confidence=0.1)
    await memory.store("Deploys need patience.", confidence=0.9)
    found = await memory.search("deploys need reviews", mode="precise", top_k=2)
    assert [hit.memory.content for hit in found] == ["Deploys need two reviews.", "Deploys need patience."]
    assert found.folded == {sure.id: (doubtful.id,)}
    assert found.excluded == {"low_confidence": 1}
    one = await memory.search("deploys need reviews", mode="precise", top_k=1, min_confidence=0.85)
    assert (len(one), one.folded) == (1, {})
    assert len(await memory.search("deploys need reviews", mode="precise", fold=False)) == 3


@pytest.mark.parametrize("asked", [{}, {"mode": "broad", "top_k": 10}, {"mode": "diagnostic", "fold": True}])
async def test_many_repeats_do_not_hide_what_else_there_is(memory: MemoryRouter, asked: dict[str, Any]) -> None:
    for number in range(60):
        await memory.store("the deploy went through", confidence=0.9, key=f"repeat {number}")
    for number in range(10):
        await memory.store(f"the deploy of the harbour app, which nobody ever watches, number {number}", confidence=0.9)
    found = await memory.search("deploy went through", limit=10, **asked)
    assert (len(found), len({hit.memory.content for hit in found})) == (10, 10)
    [others] = found.folded.values()
    assert len(others) >= 29


def test_a_reader_looks_further_down_as_well(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", False, project="app", settings=QUICK) as router:
        for number in range(50):
            router.store("the deploy went through", key=f"repeat {number}")
        router.store("a deploy of something else that went on for long")
    with closing(open_reader(Place(tmp_path / "home", "app", None), QUICK)) as reader:
        assert len(reader.search("the deploy went through", fold=True)) == 2


def answer(*texts: str, cut: bool = False) -> LocalAnswer:
    memories = (replace(remembered(text), id=MemoryId(f"{text}{at}")) for at, text in enumerate(texts))
    return LocalAnswer(tuple(Hit(memory, 1.0, HERE) for memory in memories), 1.0, cut)


@pytest.mark.parametrize(
    ("found", "is_time", "pools", "hits", "cut"),
    [
        ([answer(*"abcdefghij")], True, [10], 10, False),
        ([answer("a", "a")], True, [10], 2, False),  # no more than these are there
        ([answer(*"a" * 10), answer(*"a" * 12, "b")], True, [10, 40], 13, False),
        ([answer(*"a" * 10), answer(*"a" * 39, "b"), answer(*"a" * 39, "b", "c")], True, [10, 40, 160], 41, False),
        ([answer(*"a" * 10)], False, [10], 10, True),
        ([answer(*"a" * 10, cut=True)], True, [10], 10, True),
        ([answer(*"a" * 10), answer("a", cut=True)], True, [10, 40], 10, True),
    ],
)
def test_a_larger_pool_is_looked_at_only_while_repeats_fill_it(
    found: list[LocalAnswer], is_time: bool, pools: list[int], hits: int, cut: bool
) -> None:
    told, asked = looked(found, Request(), limit=10, is_time=is_time)
    assert (asked, len(told.hits), told.cut, told.took_ms) == (pools, hits, cut, float(len(pools)))


def looked(
    answers: Sequence[LocalAnswer], request: Request, *, limit: int, is_time: bool = True
) -> tuple[LocalAnswer, list[int]]:
    """What is made of these answers, and how far down was looked for each."""
    asked: list[int] = []
    waiting = iter(answers)

    class Layer:
        def search(self, query: Query, *, most: int, **_: object) -> LocalAnswer:
            asked.append(most)
            return next(waiting)

    deadline_s = time.monotonic() + (60 if is_time else 0)
    layer = cast("LocalSearch", Layer())
    return look(layer, Query("deploy", "app", limit=limit), request, now_s=0.0, deadline_s=deadline_s), asked


def test_a_reader_folds_on_request_only(tmp_path: Path) -> None:
    """A hook shows what certain people said, which may be what would have been folded."""
    home = tmp_path / "home"
    with SyncMemoryRouter.open(home, False, project="app", settings=QUICK) as router:
        router.store("deploy on tuesday")
        router.store("Deploy on tuesday.")
    with closing(open_reader(Place(home, "app", None), QUICK)) as reader:
        assert (len(reader.search("deploy")), len(reader.search("deploy", fold=True))) == (2, 1)
        [hit] = reader.search("deploy", fold=True, detail="titles", budget_tokens=100).to_json()["hits"]
        assert hit["view"] == "title"


# --- views and budgets ----------------------------------------------------------------------------------------------


async def test_a_budget_holds_for_the_hits_as_json(memory: MemoryRouter) -> None:
    for number in range(12):
        await memory.store(f"{number}. {LONG}", key=f"long-{number}", tags=["harbour", f"t{number}"])
        await memory.store(f"deploys need {number} reviews \N{SNOWMAN}", title=f"Rule {number}")
    views = set()
    for budget in (10, 60, 200, 1_000, 5_000):
        found = await memory.search("how many reviews do deploys need", limit=20, budget_tokens=budget)
        told = found.to_json()
        assert not told["hits"] or estimated_tokens(json.dumps(told["hits"], ensure_ascii=False)) <= budget
        assert len(found) + told.get("excluded", {}).get("beyond_budget", 0) == 20
        views |= {one.view for one in found.shown.values()}
    assert views == set(Detail)


async def test_when_there_is_no_time_for_passages_the_answer_says_so(tmp_path: Path) -> None:
    hurried = Settings(durability="process", pace=Pace(closing_s=0.0), local_search_s=1e-9)
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=hurried) as memory:
        await memory.store(LONG, key="handbook")
        found = await memory.search("handbook", detail="passages")
    assert [one.view for one in found.shown.values()] == [Detail.TITLE]
    assert found.layers["local"].cut


async def test_showing_counts_as_time_that_a_search_took(memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    await memory.store(LONG)
    now, disclose = [10.0], snippets.disclose

    def slow(*said: Any, **how: Any) -> snippets.Disclosed:
        now[0] += 10.0
        return disclose(*said, **how)

    monkeypatch.setattr(snippets, "disclose", slow)
    clock = SimpleNamespace(monotonic=lambda: now[0], now=memory._engine.clock.now)
    monkeypatch.setattr(memory._engine.searching, "_clock", clock)
    found = await memory.search("deploys reviews", detail="passages")
    assert found.took_ms == 10_000


async def test_titles_come_first_and_the_text_when_it_is_asked_for(memory: MemoryRouter) -> None:
    await memory.store(LONG, key="handbook", title="Handbook")
    found = await memory.search("deploys reviews", detail="titles")
    [told] = found.to_json()["hits"]
    assert (told["key"], told["title"], told["view"], "content" in told) == ("handbook", "Handbook", "title", False)
    assert told["tokens"] == estimated_tokens(LONG)
    kept = await memory.get(told["id"])
    assert kept is not None
    assert kept.content == LONG == found[0].memory.content
    [told] = (await memory.search("deploys reviews", detail="passages")).to_json()["hits"]
    assert "Deploys need two reviews." in told["content"]


async def test_in_a_mode_what_has_no_room_is_counted_beside_the_others(memory: MemoryRouter) -> None:
    for number in range(9):
        await memory.store(f"deploy {number} of the harbour {'x' * number}", confidence=0.9)
    found = await memory.search("deploy harbour", mode="learning", top_k=6, budget_tokens=250)
    assert found.excluded["beyond_budget"] + len(found) == 6
    assert found.excluded["beyond_top_k"] == 3
    assert found.clusters.keys() == found.shown.keys() == {hit.memory.id for hit in found}


async def test_links_are_shown_of_what_is_shown(memory: MemoryRouter) -> None:
    await memory.store("deploy on tuesday", key="a")
    await memory.store("the disk was full", key="b")
    await memory.link_memories("a", "b")
    assert (await memory.search("tuesday", budget_tokens=1, include_linked=True)).linked == {}
    assert len((await memory.search("tuesday", budget_tokens=200, include_linked=True)).linked) == 1


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"detail": "all"}, "detail: 'all' is unknown; choose one of titles, passages, full"),
        ({"detail": None}, "detail: 'None' is unknown"),
        ({"budget_tokens": 0}, "budget_tokens: 0 is outside 1 to 100,000"),
        ({"budget_tokens": "many"}, "budget_tokens: expected a whole number"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_its_name(
    memory: MemoryRouter, asked: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await memory.search("deploy", **asked)
    assert str(refused.value).startswith(problem)


@pytest.mark.requirement("COG-058", "COG-059")
async def test_tags_and_times_narrow_and_the_query_ranks_what_is_left(memory: MemoryRouter) -> None:
    await memory.store("the harbour opens at six", tags=["harbour", "hours"])
    await memory.store("the harbour is closed for boats on Sundays, whatever the weather", tags=["harbour"])
    await memory.store("the shop opens at six", tags=["hours"])
    found = await memory.search("when does the harbour open", tags=["harbour"])
    assert [hit.memory.content[:17] for hit in found] == ["the harbour opens", "the harbour is cl"]
    both = await memory.search("when does the harbour open", tags=["hours", "harbour"], detail="titles")
    assert [one.title for one in both.shown.values()] == ["the harbour opens at six"]
    assert len(await memory.search("harbour", until="2001-01-01")) == 0
    assert len(await memory.search("harbour", since="2001-01-01")) == 2


# --- verdicts in a mode ---------------------------------------------------------------------------------------------


async def fill(memory: MemoryRouter) -> None:
    await memory.store("Deploys need two reviews.", key="right", confidence=0.9)
    await memory.store("Deploys need three reviews.", key="wrong", confidence=0.8)


@pytest.mark.requirement("ALM-091", "ALM-093")
async def test_the_flag_has_hits_of_a_mode_checked_and_changes_nothing_else(tmp_path: Path) -> None:
    answers = []
    for settings in (QUICK, CHECKING):
        async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=settings) as memory:
            await fill(memory)
            answers.append(await memory.search("how many reviews", mode="precise"))
            assert (await memory.search("how many reviews")).verdicts == {}
    off, on = answers
    assert (off.verdicts, "verdicts" in off.to_json()) == ({}, False)
    assert [hit.memory.key for hit in on] == [hit.memory.key for hit in off]
    told = {hit.memory.key: on.verdicts[hit.memory.id]["status"] for hit in on}
    assert told == {"right": "verified", "wrong": "contradicted"}
    assert on.to_json()["verdicts"] == on.verdicts


@pytest.mark.requirement("ALM-091")
async def test_the_flag_comes_from_the_environment_and_is_off_by_default() -> None:
    assert Settings().verification_enabled is False
    assert Settings.from_environment({"KINGLY_VERIFICATION_ENABLED": "on"}).verification_enabled is True


@pytest.mark.requirement("ALM-093")
@pytest.mark.parametrize("settings", [QUICK, CHECKING], ids=["off", "on"])
async def test_a_model_is_asked_only_while_the_flag_is_on(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedLanguageModel(always="STATUS: uncertain\nCONFIDENCE: 0.4\nREASON: who knows")
    async with MemoryRouter.open(tmp_path / "home", False, project="app", settings=settings) as memory:
        lent: list[bool] = []

        class Lent:
            async def __aenter__(self) -> tuple[ScriptedLanguageModel, bool]:
                lent.append(True)
                return model, True

            async def __aexit__(self, *_: object) -> None: ...

        monkeypatch.setattr(memory._engine.runtime, "language_model", Lent)
        await fill(memory)
        found = await memory.search("how many reviews", mode="precise")
    statuses = [verdict["status"] for verdict in found.verdicts.values()]
    assert (lent, statuses) == (([True], ["uncertain"] * 2) if settings.verification_enabled else ([], []))


async def test_a_verified_search_in_a_mode_checks_that_modes_hits(memory: MemoryRouter) -> None:
    await fill(memory)
    await memory.store("Deploys need four reviews.", key="unsure", confidence=0.5)
    checked = await memory.search_verified("how many reviews", mode="precise")
    assert [one.memory.key for one in checked.verified] == ["right"]
    assert [one.memory.key for one in checked.contradicted] == ["wrong"]
    assert (checked.metadata["mode"], checked.metadata["excluded"]) == ("precise", {"low_confidence": 1})
    sources = ["Deploys need four reviews."]
    held = await memory.search_verified("how many reviews", 1, sources, mode="precise", min_confidence=0.0)
    assert (len(held), held.metadata["verification_method"]) == (1, "ground_truth")
    plain = await memory.search_verified("how many reviews")
    assert (plain.metadata["total_candidates"], "mode" in plain.metadata) == (3, False)


# --- MCP ------------------------------------------------------------------------------------------------------------


async def test_a_tool_shows_titles_then_reads_several_at_once(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        for number in range(3):
            content = f"{number} {LONG}"
            await client.ok("memory_intelligent_store", key=f"k{number}", content=content, title=f"T{number}")
        found = await client.ok("memory_hybrid_search", query="deploys reviews", detail="titles")
        ids = [hit["id"] for hit in found["results"]]
        got = await client.ok("memory_get", key_or_id=[*ids, "nobody"])
        one = await client.ok("memory_get", key_or_id=ids[0])
        listed = await client.ok("memory_get", key_or_id=json.dumps(ids))
    assert {hit["view"] for hit in found["results"]} == {"title"}
    assert all("content" not in hit for hit in found["results"])
    assert [memory["id"] for memory in got["memories"]] == ids == [memory["id"] for memory in listed["memories"]]
    assert (got["missing"], "memory" in got, "memories" in one) == (["nobody"], False, False)
    assert one["memory"]["content"] == got["memories"][0]["content"]


async def test_a_search_does_not_flood_a_hosts_context_unless_it_is_told_to(tmp_path: Path) -> None:
    async with session(tmp_path / "home", settings=QUICK) as client:
        for number in range(20):
            await client.ok("memory_intelligent_store", key=f"k{number}", content=f"{number} {LONG}")
        usual = await client.ok("memory_hybrid_search", query="deploys reviews", limit=20)
        in_mode = await client.ok("alma_retrieve_for_mode", query="deploys reviews", mode="learning")
        much = await client.ok("memory_hybrid_search", query="deploys reviews", budget_tokens=50_000)
    told = json.dumps(usual["results"], ensure_ascii=False, separators=(",", ":"))
    assert estimated_tokens(told) <= BUDGET_TOKENS
    assert usual["count"] + usual["excluded"].get("beyond_budget", 0) == 20
    shown = [{name: value for name, value in hit.items() if name != "scores"} for hit in in_mode["results"]]
    assert estimated_tokens(json.dumps(shown, ensure_ascii=False, separators=(",", ":"))) <= BUDGET_TOKENS
    assert {hit["view"] for hit in much["results"]} == {"full"}


async def test_a_tool_says_how_many_repeats_had_no_room_for_their_ids(tmp_path: Path) -> None:
    async with session(tmp_path / "home", settings=QUICK) as client:
        for number in range(12):
            await client.ok("remember", key=f"k{number}", value="Deploys need review.")
        [hit] = (await client.ok("memory_hybrid_search", query="deploys review", budget_tokens=150))["results"]
    assert len(hit.get("repeats", ())) + hit["more_repeats"] == 11


@pytest.mark.requirement("ALM-091")
async def test_the_tool_of_modes_gives_verdicts_while_the_flag_is_on(tmp_path: Path) -> None:
    async with session(tmp_path / "home", settings=CHECKING) as client:
        await client.ok("memory_intelligent_store", key="a", content="Deploys need two reviews.", confidence=0.9)
        [hit] = (await client.ok("alma_retrieve_for_mode", query="deploys", mode="precise"))["results"]
    assert hit["verification"]["status"] == "verified"


@pytest.mark.parametrize(
    ("tool", "asked", "sentence"),
    [
        ("memory_hybrid_search", {"query": "x", "detail": "all"}, "detail: 'all' is unknown; choose one of titles"),
        ("memory_hybrid_search", {"query": "x", "budget_tokens": 0}, "budget_tokens: should be greater"),
        ("memory_hybrid_search", {"query": "x", "budget_tokens": True}, "budget_tokens: expected a number"),
        ("memory_get", {"key_or_id": [""]}, "key_or_id: is empty"),
    ],
)
async def test_a_tool_says_which_argument_makes_no_sense(
    tmp_path: Path, tool: str, asked: dict[str, Any], sentence: str
) -> None:
    async with session(tmp_path / "home") as client:
        said = await client.error(tool, **asked)
    assert said.startswith(sentence)
    assert len(said) < 300
