"""Searching in a mode: the selection by itself, then with both layers, from Python, the command line and MCP."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.embed.hashed import HashedEmbedder
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, Memory, Query, Results, RetrievalMode, Source
from kingly_memory.ports import RemoteHit
from kingly_memory.retrieval.modes import MODES, POOL, cosine
from kingly_memory.router.search.local import HERE, LocalAnswer, Wording
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import FakeRemote, ManualClock
from tests.cli_runner import ROOT, Run
from tests.mcp_sessions import session
from tests.router_bench import PromptStore, router_over

UNHURRIED = Settings(durability="process", pace=Pace(closing_s=0.0), local_search_s=60.0)


def contents(found: Results) -> list[str]:
    return [hit.memory.content for hit in found.hits]


# --- both layers ----------------------------------------------------------------------------------------------------


class Bench:
    """A router over a fake remote, on a clock of its own, that is never pressed for time."""

    def __init__(self, home: Path, settings: Settings = UNHURRIED) -> None:
        self.clock = ManualClock()
        self.remote = FakeRemote(clock=self.clock)
        self.router = router_over(PromptStore(home), self.remote, self.clock, settings=settings)

    async def store(self, content: str, **said: Any) -> Memory:
        receipt = await self.router.store(content, **{"significance": 0.3, **said})
        stored = await self.router.get(receipt.id)
        assert stored is not None
        return stored


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "home")
    async with made.router:
        await made.router.sync(timeout=5)
        yield made


async def test_without_a_mode_a_search_is_what_it_was(bench: Bench) -> None:
    await bench.store("deploy on tuesday")
    found = await bench.router.search("deploy")
    assert (found.mode, found.mode_reason, found.excluded, found.clusters) == (None, None, {}, {})
    assert not {"mode", "mode_reason", "excluded", "clusters"} & found.to_json().keys()
    assert not {"score", "recency", "cosine"} & found[0].scores.keys()


async def test_plain_similarity_by_name_has_the_order_of_a_search_without_a_mode(bench: Bench) -> None:
    for number in range(12):
        await bench.store(
            f"deploy {'tuesday ' * (number % 4)} note {number}", tags=["anti_pattern"] if number % 2 else []
        )
    plainly = await bench.router.search("deploy on tuesday")
    named = await bench.router.search("deploy on tuesday", mode="similarity")
    assert [hit.memory.id for hit in named] == [hit.memory.id for hit in plainly]
    assert (named.mode, len(named)) == (RetrievalMode.SIMILARITY, 10)


@pytest.mark.requirement("ALM-015")
async def test_the_mode_that_is_left_open_is_inferred_and_says_why(bench: Bench) -> None:
    found = await bench.router.search("why does the deploy keep failing", mode="auto")
    assert (found.mode, found.mode_reason) == (RetrievalMode.DIAGNOSTIC, "the question says 'failing'")
    found = await bench.router.search("deploy the api", mode="auto")
    assert found.mode is RetrievalMode.PRECISE
    assert "no word of the question" in (found.mode_reason or "")
    assert (await bench.router.search("fix it", mode="broad")).mode_reason == "asked for"


@pytest.mark.requirement("ALM-016")
async def test_a_call_overrides_what_the_mode_says(bench: Bench) -> None:
    for number in range(8):
        await bench.store(f"deploy note {number}", confidence=0.8 if number < 4 else 0.4)
    assert len(await bench.router.search("deploy note", mode="precise")) == 4
    assert len(await bench.router.search("deploy note", mode="precise", top_k=2)) == 2
    assert len(await bench.router.search("deploy note", mode="precise", limit=3)) == 3
    assert len(await bench.router.search("deploy note", mode="precise", top_k=20, min_confidence=0.1)) == 8
    found = await bench.router.search("deploy note", min_confidence=0.5)
    assert (found.mode, len(found), found.excluded) == (RetrievalMode.SIMILARITY, 4, {"low_confidence": 4})


@pytest.mark.requirement("ALM-017")
@pytest.mark.parametrize(("asked", "pool"), [({}, 15), ({"top_k": 7}, 21), ({"limit": 4}, 12)])
async def test_three_candidates_are_looked_at_for_each_that_is_wanted(
    bench: Bench, asked: dict[str, Any], pool: int
) -> None:
    await bench.router.search("deploy", mode="precise", **asked)
    assert bench.remote.named("search")[-1].arguments["limit"] == pool


@pytest.mark.requirement("ALM-026")
@pytest.mark.parametrize("mode", RetrievalMode)
async def test_a_mode_answers_with_memories_that_carry_their_scores(bench: Bench, mode: RetrievalMode) -> None:
    for number in range(MODES[mode].top_k + 2):
        await bench.store(f"deploy step {number}", confidence=0.9)
    found = await bench.router.search("deploy", mode=mode)
    assert len(found) == MODES[mode].top_k
    assert all(isinstance(hit.memory, Memory) for hit in found)
    assert all({"score", "boosted", "recency", "success"} <= hit.scores.keys() for hit in found)


@pytest.mark.requirement("ALM-018", "ALM-024")
async def test_failures_are_told_when_debugging_and_not_when_planning(bench: Bench) -> None:
    await bench.router.record_task_outcome("deploy the api", "completed", significance=0.1)
    await bench.router.record_task_outcome("deploy the api", "failed", reason="a lock timed out", significance=0.1)
    await bench.store("never deploy the api on friday", tags=["Anti_Pattern"])
    debugging = await bench.router.search("deploy the api", mode="diagnostic")
    assert {"failed", "Anti_Pattern"} <= {tag for hit in debugging.hits[:2] for tag in hit.memory.tags}
    planning = await bench.router.search("deploy the api", mode="broad")
    assert ["completed" in hit.memory.tags for hit in planning] == [True]
    assert planning.excluded == {"anti_pattern": 2}


async def test_a_failure_without_a_reason_is_no_anti_pattern(bench: Bench) -> None:
    await bench.router.record_task_outcome("deploy the api", "failed", significance=0.1)
    assert len(await bench.router.search("deploy the api", mode="broad")) == 1


@pytest.mark.requirement("ALM-020")
async def test_success_and_recency_come_from_the_record(bench: Bench) -> None:
    await bench.router.record_task_outcome("deploy one", "completed", significance=0.1)
    await bench.router.record_task_outcome("deploy two", "failed", significance=0.1)
    await bench.router.record_task_outcome("deploy three", "cancelled", significance=0.1)
    await bench.store("deploy four", metadata={"success_rate": 0.8}, type="procedural")
    await bench.store("deploy five", type="procedural")
    bench.clock.jump(timedelta(days=30).total_seconds())
    found = await bench.router.search("deploy", mode="learning")
    rates = {hit.memory.content.split()[1]: hit.scores["success"] for hit in found}
    assert rates == {"one": 1.0, "two": 0.0, "three": 0.5, "four": 0.8, "five": 0.5}
    assert {round(hit.scores["recency"], 3) for hit in found} == {0.5}


@pytest.mark.requirement("ALM-019")
async def test_an_empty_answer_says_what_was_left_out(bench: Bench) -> None:
    await bench.store("deploy on tuesday")
    found = await bench.router.search("deploy tuesday", mode="precise")
    assert len(found) == 0
    assert found.excluded == {"low_confidence": 1}
    assert found.to_json()["excluded"] == {"low_confidence": 1}


@pytest.mark.requirement("ALM-019")
async def test_sure_memories_are_found_behind_many_that_are_not(bench: Bench) -> None:
    for number in range(30):
        await bench.store(f"deploy deploy deploy {number}", confidence=0.5)
    sure = await bench.store("a rule that was written down long ago: deploy with two reviews", confidence=0.9)
    for number in range(30):
        await bench.store(f"something else {number}")
    found = await bench.router.search("deploy", mode="precise")
    assert [hit.memory.id for hit in found] == [sure.id]
    assert 0 <= found[0].relevance <= 1


@pytest.mark.requirement("ALM-019")
async def test_what_only_a_look_among_the_sure_finds_is_as_relevant_as_beside_all_others(bench: Bench) -> None:
    for number in range(60):
        told = f"deploy the api on tuesday {number}" if number % 15 else f"{number}: {'long ' * number} before a deploy"
        await bench.store(told, confidence=0.4 if number % 15 else 0.9)
    found = await bench.router.search("deploy api tuesday", mode="precise")
    beside = await bench.router.search("deploy api tuesday", limit=100)
    sure = [hit for hit in beside if hit.memory.confidence > 0.7]
    assert [(hit.memory.id, hit.relevance) for hit in found] == [(hit.memory.id, hit.relevance) for hit in sure]
    assert found.excluded == {"low_confidence": MODES[RetrievalMode.PRECISE].top_k * POOL}


async def test_repeats_that_the_remote_holds_too_do_not_hide_what_else_there_is(bench: Bench) -> None:
    for _ in range(60):
        await bench.store("the deploy went through")
    for number in range(10):
        await bench.store(f"the deploy of the harbour app, which nobody ever watches, number {number}")
    bench.remote.elsewhere = [RemoteHit(f"r{number}", "the deploy went through", 0.9) for number in range(40)]
    found = await bench.router.search("deploy went through")
    assert (found.source, len(found)) == (Source.HYBRID, 10)
    assert len(await bench.router.search("deploy went through", mode="broad")) >= 11


@pytest.mark.requirement("ALM-019")
async def test_sure_memories_that_are_worth_nothing_by_themselves_are_still_found(bench: Bench) -> None:
    """With a weight of nothing for words, what only words find has no relevance."""
    doubtful = [await bench.store(f"deploy {number}", confidence=0.1) for number in range(20)]
    sure = await bench.store("deploy with two reviews", confidence=0.9)

    class Worthless:
        def word(self, query: Query, **_: object) -> Wording:
            return Wording((), (), (), {}, cut=False)

        def search(self, query: Query, **_: object) -> LocalAnswer:
            least = query.min_confidence
            told = [one for one in (*doubtful, sure) if one.confidence >= least][: query.limit]
            return LocalAnswer(tuple(Hit(one, 0.0, HERE) for one in told), 1.0)

    bench.router._engine.searching._local = Worthless()  # type: ignore[assignment]
    found = await bench.router.search("deploy", mode="precise", include_semantic=False)
    assert [(hit.memory.id, hit.relevance) for hit in found] == [(sure.id, 0.0)]


@pytest.mark.requirement("ALM-022")
async def test_a_broad_search_shows_different_things_first(bench: Bench) -> None:
    for number in range(3):
        await bench.store(f"cache ideas: keep the rendered page in memory, variant {number}")
    await bench.store("cache ideas: let the browser revalidate with etags, and count what that saves in a month")
    broad = await bench.router.search("cache ideas", mode="broad")
    assert "etags" in " ".join(contents(broad)[:2])
    assert len(broad) == 4
    assert broad[1].scores["penalty"] < broad[2].scores["penalty"]


@pytest.mark.requirement("ALM-025")
async def test_learning_groups_what_is_alike(bench: Bench) -> None:
    for text in (
        "outage: the migration waited for a lock and timed out",
        "outage of the runner, its disk was full",
        "outage: a migration timed out waiting for a lock",
        "outage: full disk on a runner",
    ):
        await bench.store(text)
    found = await bench.router.search("outage", mode="learning")
    assert [found.clusters[hit.memory.id] for hit in found] == [1, 1, 2, 2]
    assert ["migration" in text for text in contents(found)] in (
        [True, True, False, False],
        [False, False, True, True],
    )
    assert set(found.to_json()["clusters"]) == {hit.memory.id for hit in found}


@pytest.mark.requirement("ARG-013")
async def test_a_hit_says_how_near_its_vector_is_to_that_of_the_question(bench: Bench) -> None:
    await bench.store("deploy on tuesday")
    [hit] = await bench.router.search("deploys of tuesday", mode="learning")
    [asked, told] = HashedEmbedder().embed(["deploys of tuesday", "deploy on tuesday"])
    assert hit.scores["cosine"] == pytest.approx(cosine(asked, told))


@pytest.mark.requirement("ARG-014", "ARG-047")
async def test_words_are_found_whatever_vectors_say_and_remote_hits_by_their_nearness(bench: Bench) -> None:
    bench.remote.elsewhere = [
        RemoteHit("far", "a contract of march", 0.2),
        RemoteHit("near", "uptime promise was not kept", 0.7),
    ]
    await bench.store("minutes: the SLA breach and eleven other things that have nothing to do with it at all")
    found = await bench.router.search("SLA breach", min_similarity=0.6)
    assert found.source is Source.HYBRID
    assert {text.split()[0] for text in contents(found)} == {"minutes:", "uptime"}
    assert found.excluded == {"low_similarity": 1}


async def test_a_hung_remote_costs_its_budget_and_the_mode_still_answers(bench: Bench) -> None:
    await bench.store("deploy on tuesday", confidence=0.9)
    bench.remote.down = True
    found = await bench.router.search("deploy", mode="precise")
    assert (found.source, len(found), found.mode) == (Source.LOCAL_FALLBACK, 1, RetrievalMode.PRECISE)


async def test_a_mode_keeps_every_filter_and_links(bench: Bench) -> None:
    first = await bench.store("deploy on tuesday", tags=["rule"], context_id="c1")
    second = await bench.store("deploy on monday", context_id="c2")
    await bench.router.link_memories(first.id, second.id)
    found = await bench.router.search("deploy", mode="learning", tags=["rule"], context_id="c1", include_linked=True)
    assert contents(found) == ["deploy on tuesday"]
    assert [one["id"] for one in found.linked[first.id]] == [second.id]


async def test_without_time_to_compare_the_answer_says_that_it_was_cut(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home", Settings(durability="process", pace=Pace(closing_s=0.0), local_search_s=1e-9))
    async with bench.router:
        await bench.store("deploy on tuesday")
        found = await bench.router.search("deploy", mode="learning")
        assert found.layers["local"].cut
        assert not any("cosine" in hit.scores for hit in found)


@pytest.mark.requirement("ALM-091", "ALM-093")
async def test_modes_can_be_left_to_a_default(tmp_path: Path) -> None:
    settings = Settings(durability="process", pace=Pace(closing_s=0.0), mode_aware=False, default_mode="broad")
    bench = Bench(tmp_path / "home", settings)
    async with bench.router:
        found = await bench.router.search("fix the error", mode="auto")
        assert (found.mode, found.mode_reason) == (RetrievalMode.BROAD, "the default, since mode_aware is off")
        assert (await bench.router.search("x", mode="recall")).mode is RetrievalMode.RECALL


@pytest.mark.requirement("ALM-091")
def test_settings_have_the_design_s_defaults_and_come_from_the_environment() -> None:
    assert (Settings().mode_aware, Settings().default_mode) == (True, "precise")
    told = Settings.from_environment({"KINGLY_MODE_AWARE": "off", "KINGLY_DEFAULT_MODE": "learning"})
    assert (told.mode_aware, told.default_mode) == (False, "learning")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("KINGLY_MODE_AWARE", "perhaps", "'perhaps' is neither on nor off"),
        ("KINGLY_DEFAULT_MODE", "auto", "'auto' is unknown; choose similarity or broad or"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(name: str, value: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Settings.from_environment({name: value})
    with pytest.raises(ValueError, match="setting mode_aware: 1 is neither True nor False"):
        Settings(mode_aware=1)  # type: ignore[arg-type]  # as a caller without types might


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"mode": "vague"}, "mode: 'vague' is unknown; choose one of similarity, broad"),
        ({"mode": 3}, "mode: '3' is unknown"),
        ({"mode": "broad", "top_k": 0}, "top_k: 0 is outside 1 to 50"),
        ({"mode": "broad", "limit": 500}, "limit: 500 is outside 1 to 50"),
        ({"min_confidence": 1.5}, "min_confidence: 1.5 is outside 0 to 1"),
        ({"min_similarity": "much"}, "min_similarity: expected a number from 0 to 1"),
    ],
)
async def test_what_makes_no_sense_is_refused(bench: Bench, asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await bench.router.search("deploy", **asked)


def test_a_search_without_a_mode_loads_nothing_of_the_modes(tmp_path: Path) -> None:
    script = f"""
import sys
from kingly_memory import SyncMemoryRouter
with SyncMemoryRouter.open({str(tmp_path)!r}, False) as memory:
    memory.store("deploy on tuesday")
    assert len(memory.search("deploy")) == 1
print(*sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    rooms = ("retrieval.modes", "router.search.moded", "adapters.embed.hashed")
    assert not {f"kingly_memory.{room}" for room in rooms} & set(loaded.stdout.split())


# --- the command line -----------------------------------------------------------------------------------------------


def test_a_search_in_a_mode_says_which_and_what_it_left_out(run: Run) -> None:
    run("store", "deploy on tuesday", "--confidence", "0.9")
    run("store", "deploy on friday")
    ran = run("search", "deploy", "--mode", "precise")
    assert "  mode precise: asked for" in ran.out
    assert "  left out: 1 less sure than was asked for" in ran.out
    told = run("search", "deploy", "--mode", "auto", "--json").json
    assert (told["mode"], told["excluded"]) == ("precise", {"low_confidence": 1})
    assert len(run("search", "deploy", "--mode", "learning", "--limit", "1", "--json").json["hits"]) == 1
    assert len(run("search", "deploy", "--min-confidence", "0.8", "--json").json["hits"]) == 1
    assert run("search", "deploy", "--mode", "vague").code == 2


def test_explain_tells_a_person_what_made_each_hit_s_place(run: Run) -> None:
    run("task", "record", "deploy the api", "--status", "failed", "--reason", "a lock timed out")
    run("task", "record", "deploy the api", "--status", "failed", "--reason", "a lock timed out again")
    run("store", "the moon is far")
    asked = ("search", "deploy the api", "--mode", "diagnostic", "--explain")
    said = " ".join(run(*asked).out.split())
    assert ": asked for; in that mode's order" in said
    first, second = (hit["scores"] for hit in run(*asked, "--json").json["hits"])
    assert (first["failure_first"], second["failure_first"]) == (1.0, 1.0)
    assert 0 < second["penalty"] < second["boosted"]
    for name, value in second.items():
        assert f"{name.replace('_', ' ')} {value:.2f}" in said
    assert "group 1" in run("search", "deploy", "--mode", "learning", "--explain").out
    said = run("search", "deploy the api", "--explain").out
    assert re.search(r"relevance \d\.\d\d, bm25 \d+\.\d\d", said)


# --- MCP ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-072", "ALM-015")
async def test_the_tool_finds_in_a_mode_or_asks_the_question_for_one(tmp_path: Path) -> None:
    async with session(tmp_path, toolsets=["memory", "tasks", "alma"]) as client:
        await client.ok("memory_intelligent_store", key="a", content="deploy on tuesday", confidence=0.9)
        await client.ok("record_task_outcome", task="deploy", status="failed", reason="a lock timed out")
        asked = await client.ok("alma_retrieve_for_mode", query="why did the deploy fail", explain=True)
        assert (asked["mode"], asked["mode_reason"]) == ("diagnostic", "the question says 'fail'")
        assert asked["results"][0]["tags"] == ["task_outcome", "failed"]
        assert asked["results"][0]["scores"]["failure_first"] == 1
        named = await client.ok("alma_retrieve_for_mode", query="deploy", mode="precise", project_id="app", top_k=1)
        assert [one["key"] for one in named["results"]] == ["a"]
        assert "scores" not in named["results"][0]
        learnt = await client.ok("alma_retrieve_for_mode", query="deploy", mode="learning")
        assert {one["cluster"] for one in learnt["results"]} == {1, 2}
        assert (await client.ok("alma_retrieve_for_mode", query="deploy", mode="learning", agent="x"))["count"] == 0


@pytest.mark.requirement("ALM-072")
async def test_the_tool_names_the_way_out_where_memories_are_not_sure_enough(tmp_path: Path) -> None:
    async with session(tmp_path, toolsets=["memory", "alma"]) as client:
        await client.ok("memory_intelligent_store", key="a", content="deploys need two reviews")
        found = await client.ok("alma_retrieve_for_mode", query="deploys reviews")
        assert (found["mode"], found["count"], found["excluded"]) == ("precise", 0, {"low_confidence": 1})
        assert found["hint"] == "1 memory is less sure than was asked for; a lower min_confidence shows it"
        lower = await client.ok("alma_retrieve_for_mode", query="deploys reviews", min_confidence=0.5)
        assert ([one["key"] for one in lower["results"]], lower["hint"]) == (["a"], None)


@pytest.mark.requirement("ALM-072")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"project_id": "other"}, "project_id: 'other' is not the project of this server ('app'); leave it out"),
        ({"mode": "vague"}, "mode: 'vague' is unknown; choose one of"),
        ({"query": " "}, "query: is empty; say what to look for"),
        ({"top_k": 0}, "top_k: "),
        ({"top_k": True}, "top_k: expected a number"),
        ({"min_confidence": 2}, "min_confidence: should be less than or equal to 1"),
    ],
)
async def test_the_tool_says_what_is_wrong(tmp_path: Path, arguments: dict[str, Any], sentence: str) -> None:
    async with session(tmp_path, toolsets=["alma"]) as client:
        assert (await client.error("alma_retrieve_for_mode", **{"query": "deploy", **arguments})).startswith(sentence)
