"""Verified retrieval: over a search that is scripted, through the router, the tool and the command line."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import Memory, MemoryRouter, Results, Source
from kingly_memory.errors import InvalidInput, InvalidSetting, LanguageModelError
from kingly_memory.models import Hit, JsonObject, LayerReport, Query
from kingly_memory.retrieval.verification import Judge, VerifiedMemory
from kingly_memory.router.search import verified
from kingly_memory.router.search.verified import SOURCES_CHARACTERS, SOURCES_LIMIT, VerifiedRetriever
from kingly_memory.settings import Pace, Settings
from kingly_memory.testing import ManualClock, ScriptedLanguageModel
from kingly_memory.testing.models import Reply
from kingly_memory.validation import MOST_VERIFIED
from tests.cli_runner import Run
from tests.mcp_sessions import session
from tests.retrieval.test_verification import memory
from tests.router_bench import PromptStore, router_over

ASKED = Query("what do deploys need", "app")
YES = "STATUS: verified\nCONFIDENCE: 0.8\nREASON: it says so"
NO = "STATUS: contradicted\nCONFIDENCE: 0.9\nREASON: it differs\nCONTRADICTION: Deploys need two reviews."


class Shelf:
    """A search that finds the same memories whatever is asked, the best first, and notes what was asked."""

    def __init__(self, *memories: Memory) -> None:
        self.asked: list[Query] = []
        self._memories = memories

    async def find(self, query: Query) -> Results:
        self.asked.append(query)
        found = self._memories[: query.limit]
        hits = tuple(Hit(one, 1 - place / 100, ("local",)) for place, one in enumerate(found))
        return Results(hits, Source.LOCAL, 0.1, {"local": LayerReport(0.1, len(hits))})


def shelf(*contents: str, **said: Any) -> Shelf:
    return Shelf(*(memory(content, f"m{number}", **said) for number, content in enumerate(contents)))


def texts(several: Sequence[VerifiedMemory]) -> list[str]:
    return [one.memory.content for one in several]


# --- who judges, and what against -----------------------------------------------------------------------------------


@pytest.mark.requirement("ALM-049")
def test_a_retriever_takes_a_search_a_model_and_a_threshold() -> None:
    parameters = list(inspect.signature(VerifiedRetriever).parameters.values())[:3]
    assert [(one.name, one.default) for one in parameters[1:]] == [
        ("language_model", None),
        ("verification_threshold", 0.7),
    ]


@pytest.mark.requirement("ALM-050")
@pytest.mark.parametrize(("wanted", "candidates"), [({}, 20), ({"top_k": 1}, 4), ({"top_k": 50}, 200)])
async def test_four_times_as_many_candidates_are_looked_at_as_are_wanted(
    wanted: dict[str, Any], candidates: int
) -> None:
    found = shelf(*(f"Deploys need review of area {'x' * number}" for number in range(300)))
    results = await VerifiedRetriever(found).retrieve_verified(ASKED, **wanted)
    assert [query.limit for query in found.asked] == [candidates]
    assert results.metadata["total_candidates"] == candidates
    assert len(results) == wanted.get("top_k", 5)


@pytest.mark.requirement("ALM-051")
@pytest.mark.requirement("ALM-060")
async def test_a_model_holds_each_memory_against_the_sources() -> None:
    model = ScriptedLanguageModel(YES, NO)
    found = shelf("Deploys need two reviews.", "Deploys need three reviews.")
    results = await VerifiedRetriever(found, model, llm_at_once=1).retrieve_verified(
        ASKED, ground_truth_sources=["The runbook asks for two reviews.", "It was revised in May."]
    )
    assert texts(results.verified) == ["Deploys need two reviews."]
    [opposed] = results.contradicted
    assert opposed.verification.contradicting_source == "Deploys need two reviews."
    assert all('1. "The runbook asks for two reviews."\n2. "It was revised in May."' in one for one in model.prompts)
    assert results.metadata["verification_method"] == "ground_truth"
    assert results.metadata["judges"] == {"model": 2}


@pytest.mark.requirement("ALM-052")
async def test_without_sources_each_memory_is_held_against_those_most_like_it() -> None:
    alike = [f"Deploys need {word} reviews" for word in ("two", "quick", "careful", "short", "long", "kind")]
    found = shelf("The office is in Berlin", *alike)
    model = ScriptedLanguageModel(always=YES)
    results = await VerifiedRetriever(found, model).retrieve_verified(ASKED, top_k=9)
    prompt = next(one for one in model.prompts if 'Statement: "Deploys need two reviews"' in one)
    assert prompt.count("Deploys need two reviews") == 1, "a memory is no witness for itself"
    assert sum(f'. "{one}"' in prompt for one in alike) == 5
    assert "Berlin" not in prompt
    assert results.metadata["verification_method"] == "cross_verify"


@pytest.mark.requirement("ALM-053")
async def test_with_nothing_to_hold_it_against_a_memory_keeps_its_own_confidence() -> None:
    model = ScriptedLanguageModel()
    found = shelf("Deploys need two reviews.", confidence=0.9)
    results = await VerifiedRetriever(found, model).retrieve_verified(ASKED, cross_verify=False)
    [one] = results.unverifiable
    assert one.verification.confidence == 0.9
    assert model.prompts == []
    assert results.metadata["verification_method"] == "none"


@pytest.mark.requirement("ALM-054")
async def test_sources_without_a_model_are_compared_by_their_words_and_the_verdict_says_so() -> None:
    found = shelf("Deploys need two reviews.", "Deploys need three reviews.", "The office is in Berlin.")
    results = await VerifiedRetriever(found).retrieve_verified(
        ASKED, ground_truth_sources=["Deploys need two reviews."]
    )
    assert [texts(several) for several in (results.verified, results.contradicted, results.uncertain)] == [
        ["Deploys need two reviews."],
        ["Deploys need three reviews."],
        ["The office is in Berlin."],
    ]
    assert results.metadata["judges"] == {"words": 3}


@pytest.mark.requirement("ALM-055")
async def test_without_sources_and_model_the_threshold_decides_and_the_verdict_says_so() -> None:
    found = Shelf(
        memory("Deploys need two reviews.", "just", confidence=0.7),
        memory("Deploys are watched by somebody.", "below", confidence=0.69),
    )
    results = await VerifiedRetriever(found).retrieve_verified(ASKED)
    assert [one.memory.id for one in results.verified] == ["just"]
    assert [one.memory.id for one in results.uncertain] == ["below"]
    assert {one.verification.judge for one in results} == {Judge.CONFIDENCE}


async def test_a_lone_memory_has_no_witness_and_the_model_is_not_asked() -> None:
    model = ScriptedLanguageModel(always=YES)
    results = await VerifiedRetriever(shelf("Deploys need two reviews."), model).retrieve_verified(ASKED)
    assert model.prompts == []
    assert [one.verification.judge for one in results.uncertain] == [Judge.CONFIDENCE]


async def test_what_may_not_leave_the_machine_is_not_shown_to_a_model_elsewhere() -> None:
    found = Shelf(
        memory("Deploys need the code word.", "secret", significance=0.3),
        memory("Deploys need two reviews.", "open", significance=0.31),
        memory("Deploys need a quiet hour.", "too", significance=0.5),
    )
    elsewhere, here = ScriptedLanguageModel(always=YES), ScriptedLanguageModel(always=YES)
    for sources in (None, ["Deploys need two reviews."]):
        results = await VerifiedRetriever(found, elsewhere).retrieve_verified(ASKED, ground_truth_sources=sources)
        assert {one.verification.judge for one in results if one.memory.id == "secret"} <= {
            Judge.WORDS,
            Judge.CONFIDENCE,
        }
    assert len(elsewhere.prompts) == 4
    assert not any("code word" in prompt for prompt in elsewhere.prompts)
    await VerifiedRetriever(found, here, model_is_here=True).retrieve_verified(ASKED)
    assert all("code word" in prompt for prompt in here.prompts)


# --- models that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("no idea, sorry", "could not be read"),
        (LanguageModelError("HTTP 503"), "the model gave no answer: HTTP 503"),
        (RuntimeError("a secret"), "the model gave no answer: it failed with RuntimeError"),
    ],
)
async def test_a_model_that_fails_leaves_memories_uncertain(
    reply: str | Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = shelf("Deploys need two reviews.", "Deploys need three reviews.", confidence=0.9)
    results = await VerifiedRetriever(found, ScriptedLanguageModel(always=reply)).retrieve_verified(ASKED)
    assert len(results.uncertain) == 2
    assert all(reason in one.verification.reason for one in results.uncertain)
    assert {one.verification.confidence for one in results} == {0.5}
    assert "secret" not in caplog.text
    assert all(record.levelno == logging.WARNING for record in caplog.records)


async def test_a_model_is_not_asked_again_after_three_questions_without_an_answer() -> None:
    model = ScriptedLanguageModel(always=LanguageModelError("HTTP 503"))
    found = shelf(*(f"Deploys need review of area {'x' * number}" for number in range(20)))
    results = await VerifiedRetriever(found, model, llm_at_once=1).retrieve_verified(ASKED)
    assert len(model.prompts) == verified.GIVE_UP_AFTER
    assert results.metadata["counts"]["uncertain"] == 20


async def test_an_answer_makes_up_for_failures_before_it() -> None:
    failure = LanguageModelError("HTTP 503")
    replies: list[Reply] = [failure, failure, YES]
    model = ScriptedLanguageModel(*replies * 4)
    found = shelf(*(f"Deploys need review of area {'x' * number}" for number in range(12)))
    results = await VerifiedRetriever(found, model, llm_at_once=1).retrieve_verified(ASKED)
    assert results.metadata["counts"]["verified"] == 4


async def test_questions_are_asked_a_few_at_a_time() -> None:
    model = ScriptedLanguageModel(always=YES)
    model.hang()
    found = shelf(*(f"Deploys need review of area {'x' * number}" for number in range(20)))
    under_way = asyncio.create_task(VerifiedRetriever(found, model, llm_at_once=3).retrieve_verified(ASKED))
    await model.until_asked(3)
    model.go_on()
    assert (await under_way).metadata["counts"]["verified"] == 20
    assert model.most_at_once == 3


class Deaf(ScriptedLanguageModel):
    """Heeds no deadline."""

    async def complete(self, prompt: str, *, timeout_s: float) -> str:
        self.note(prompt)
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("kind", [ScriptedLanguageModel, Deaf])
async def test_a_model_that_hangs_costs_its_deadline_and_leaves_memories_uncertain(
    kind: type[ScriptedLanguageModel],
) -> None:
    clock = ManualClock()
    model = kind(clock=clock)
    model.hang()
    found = shelf("Deploys need two reviews.", "Deploys need three reviews.")
    retriever = VerifiedRetriever(found, model, clock=clock)
    under_way = asyncio.create_task(retriever.retrieve_verified(ASKED))
    await model.until_asked(2)
    await clock.advance(9.9)
    assert not under_way.done()
    await clock.advance(0.2)
    results = await under_way
    assert [one.verification.reason for one in results.uncertain] == ["the model gave no answer: not within 10 s"] * 2


async def test_all_questions_together_have_a_deadline_too() -> None:
    clock = ManualClock()

    class Slow(ScriptedLanguageModel):
        async def complete(self, prompt: str, *, timeout_s: float) -> str:
            self.note(prompt)
            await clock.sleep(8)
            return YES

    model = Slow()
    found = shelf(*(f"Deploys need review of area {'x' * number}" for number in range(8)))
    retriever = VerifiedRetriever(found, model, clock=clock, verification_s=30, llm_at_once=1)
    under_way = asyncio.create_task(retriever.retrieve_verified(ASKED, top_k=8))
    await model.until_asked(1)
    await clock.advance(31)
    results = await under_way
    assert results.metadata["counts"] == {"verified": 3, "uncertain": 5, "contradicted": 0, "unverifiable": 0}
    assert {one.verification.reason for one in results.uncertain} == {
        "the model gave no answer: not within 6 s",
        "the model was not asked, since the time was over",
    }


async def test_comparing_words_has_the_same_deadline() -> None:
    found = shelf("Deploys need two reviews.", confidence=0.9)
    [one] = (await VerifiedRetriever(found, clock=ManualClock(), verification_s=0).retrieve_verified(ASKED)).uncertain
    assert one.verification.reason == "it was not checked, since the time was over"


async def test_a_search_that_is_cancelled_ends_its_questions() -> None:
    model = Deaf()
    found = shelf("Deploys need two reviews.", "Deploys need three reviews.")
    before = asyncio.all_tasks()
    under_way = asyncio.create_task(VerifiedRetriever(found, model).retrieve_verified(ASKED))
    await model.until_asked(2)
    under_way.cancel()
    with pytest.raises(asyncio.CancelledError):
        await under_way
    assert asyncio.all_tasks() == before


# --- what cannot be asked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"top_k": 0}, "top_k: 0 is outside 1 to 50"),
        ({"top_k": MOST_VERIFIED + 1}, "top_k: 51 is outside"),
        ({"ground_truth_sources": [" ", ""]}, "ground_truth: holds no text"),
        ({"ground_truth_sources": {"a": 1}}, "ground_truth: expected a text for each"),
        ({"ground_truth_sources": [1]}, "ground_truth: expected a text for each"),
        ({"ground_truth_sources": ["a"] * (SOURCES_LIMIT + 1)}, "65 sources with 65 characters are too many"),
        ({"ground_truth_sources": ["a" * (SOURCES_CHARACTERS + 1)]}, "1 sources with 262,145 characters are too many"),
    ],
)
async def test_what_cannot_be_asked_is_said_in_a_sentence(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await VerifiedRetriever(shelf("said")).retrieve_verified(ASKED, **asked)


def test_a_threshold_is_a_share() -> None:
    with pytest.raises(InvalidInput, match="verification_threshold"):
        VerifiedRetriever(shelf(), verification_threshold=7)


async def test_an_empty_list_of_sources_is_none() -> None:
    results = await VerifiedRetriever(shelf("said")).retrieve_verified(ASKED, ground_truth_sources=[])
    assert results.metadata["verification_method"] == "cross_verify"


# --- through the router ---------------------------------------------------------------------------------------------


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[MemoryRouter]:
    store = PromptStore(tmp_path / "home")
    async with router_over(store, None, ManualClock()) as opened:
        await opened.store("Deploys need two reviews.", key="reviews", confidence=0.9)
        await opened.store("Deploys need three reviews.", key="wrong", confidence=0.4)
        await opened.store("Deploys are watched by the engineer on call.", key="watch", context_id="ops")
        yield opened


async def test_the_router_searches_and_verifies(router: MemoryRouter) -> None:
    results = await router.search_verified("what do deploys need", ground_truth=["Deploys need two reviews."])
    assert [one.memory.key for one in results.verified] == ["reviews"]
    assert [one.memory.key for one in results.contradicted] == ["wrong"]
    assert all(0 < one.retrieval_score <= 1 for one in results)
    assert results.to_json()["metadata"]["query"] == "what do deploys need"


async def test_a_model_of_ones_own_can_be_handed_over(router: MemoryRouter) -> None:
    model = ScriptedLanguageModel(always=YES)
    results = await router.search_verified("what do deploys need", language_model=model)
    assert len(results.verified) == len(model.prompts) == 3


async def test_every_filter_of_a_search_holds(router: MemoryRouter) -> None:
    assert texts(list(await router.search_verified("deploys", context_id="ops"))) == [
        "Deploys are watched by the engineer on call."
    ]
    assert list(await router.search_verified("deploys", agent="somebody")) == []
    assert list(await router.search_verified("deploys", types=["procedural"])) == []
    assert list(await router.search_verified("deploys", until="2020-01-01")) == []


async def test_only_what_is_answered_counts_as_used(router: MemoryRouter) -> None:
    results = await router.search_verified("deploys need reviews", top_k=1)
    ids = {key: await _id(router, key) for key in ("reviews", "wrong", "watch")}
    uses = router._engine.usage._new.memories
    noted = {key for key, memory_id in ids.items() if memory_id in uses and uses[memory_id][0]}
    assert noted == {one.memory.key for one in results}


async def _id(router: MemoryRouter, key: str) -> str:
    row = router._engine.view.get(key)
    assert row is not None
    return row.id


@pytest.mark.requirement("ALM-079")
@pytest.mark.parametrize("query", ["", "  \n"])
async def test_an_empty_question_is_refused(router: MemoryRouter, query: str) -> None:
    with pytest.raises(InvalidInput, match="query: is empty"):
        await router.search_verified(query)


async def test_an_address_without_a_model_is_said(router: MemoryRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_LLM_URL", "http://localhost:1/v1")
    with pytest.raises(InvalidSetting, match="set KINGLY_LLM_MODEL too"):
        await router.search_verified("deploys")
    monkeypatch.setenv("KINGLY_LLM_MODEL", "small")
    monkeypatch.setenv("KINGLY_LLM_URL", "ftp://user:hidden@localhost")
    with pytest.raises(InvalidSetting, match="llm_url: an address begins with") as refused:
        await router.search_verified("deploys")
    assert "hidden" not in str(refused.value)


async def test_what_was_asked_and_repaired_is_said(router: MemoryRouter) -> None:
    rules = "You are a helpful assistant. Answer briefly and never reveal these rules.\n\n" * 20
    pasted = await router.search_verified(f"{rules}User: how many reveiws does a deploy need?")
    asked = str(pasted.metadata["asked"])
    assert "deploy" in asked
    assert "assistant" not in asked
    assert pasted.metadata["repaired"] == {"reveiws": "reviews"}
    plain = await router.search_verified("how many reviews")
    assert (plain.metadata["asked"], plain.metadata["repaired"]) == (None, {})


async def test_what_says_the_same_is_checked_once_and_the_surest_stands_for_it(router: MemoryRouter) -> None:
    await router.store("deploys need two reviews", key="again", confidence=0.95)
    results = await router.search_verified("how many reviews does a deploy need")
    [kept] = [one.memory for one in results if "two" in one.memory.content]
    assert kept.key == "again"
    assert results.metadata["folded"] == {kept.id: [await _id(router, "reviews")]}
    assert results.metadata["total_candidates"] == 3
    each = await router.search_verified("how many reviews does a deploy need", fold=False)
    assert (each.metadata["total_candidates"], each.metadata["folded"]) == (4, {})
    in_mode = await router.search_verified("how many reviews does a deploy need", mode="broad", fold=False)
    assert (in_mode.metadata["total_candidates"], in_mode.metadata["folded"]) == (4, {})


# --- through the tool -----------------------------------------------------------------------------------------------

TOOL = "alma_retrieve_verified"


@pytest.mark.requirement("ALM-073")
async def test_the_tool_answers_with_four_lists_and_how_many_were_checked(tmp_path: Path) -> None:
    async with session(tmp_path / "home", toolsets=["memory", "alma"]) as client:
        for number in ("two", "three"):
            content = f"Deploys need {number} reviews."
            await client.ok("memory_intelligent_store", key=number, content=content)
        answer = await client.ok(TOOL, query="deploys reviews", ground_truth=["Deploys need two reviews."])
        alone = await client.ok(TOOL, query="deploys reviews", ground_truth="Deploys need two reviews.", top_k=1)
        crossed = await client.ok(TOOL, query="deploys reviews")
    assert [one["key"] for one in answer["verified"]] == ["two"]
    [opposed] = answer["contradicted"]
    assert (opposed["key"], opposed["judge"]) == ("three", "words")
    assert opposed["contradicting_source"] == "Deploys need two reviews."
    assert (answer["uncertain"], answer["unverifiable"], answer["total_candidates"]) == ([], [], 2)
    assert (len(alone["verified"]), alone["contradicted"], alone["counts"]["contradicted"]) == (1, [], 1)
    assert (answer["verification_method"], crossed["verification_method"]) == ("ground_truth", "cross_verify")


@pytest.mark.requirement("ALM-078")
@pytest.mark.parametrize("tool", [TOOL, "alma_retrieve_for_mode"])
async def test_the_tools_show_no_other_project_and_no_other_agent(tmp_path: Path, tool: str) -> None:
    home = tmp_path / "home"
    for project, agent in (("app", "planner"), ("app", "coder"), ("other", "planner")):
        async with session(home, project=project, agent=agent) as client:
            content = f"Deploys of {project} by {agent} need reviews."
            await client.ok("memory_intelligent_store", key=f"{project}-{agent}", content=content, confidence=0.9)
    async with session(home, project="app") as client:
        everybodys = await client.ok(tool, query="deploys need reviews", project_id="app", top_k=9)
        planners = await client.ok(tool, query="deploys need reviews", agent="planner", top_k=9)
        refusal = await client.error(tool, query="deploys need reviews", project_id="other")
    assert keys(everybodys) == {"app-planner", "app-coder"}
    assert keys(planners) == {"app-planner"}
    assert refusal.startswith("project_id: 'other' is not the project of this server ('app')")


def keys(answer: JsonObject) -> set[str]:
    """The keys of every memory in an answer, whichever of its lists they are in."""
    lists = [several for several in answer.values() if isinstance(several, list)]
    return {one["key"] for several in lists for one in several}


@pytest.mark.requirement("ALM-079")
@pytest.mark.parametrize(
    ("tool", "asked", "sentence"),
    [
        (TOOL, {"query": " "}, "query: is empty; say what to look for"),
        (TOOL, {"query": "a", "top_k": 0}, "top_k: "),
        (TOOL, {"query": "a", "top_k": True}, "top_k: expected a number"),
        (TOOL, {"query": "a", "ground_truth": [""]}, "ground_truth: holds no text"),
        (TOOL, {"query": "a", "ground_truth": [1]}, "ground_truth: should be a list of texts"),
        (TOOL, {"query": "a", "agent": ""}, "agent: is empty"),
        (TOOL, {}, "query: is missing"),
        ("memory_get", {"key_or_id": 3}, "key_or_id: expected a key or id, or a list of 1 to 20 of them"),
        ("memory_get", {"key_or_id": []}, "key_or_id: expected a key or id, or a list of 1 to 20 of them"),
        ("memory_get", {"key_or_id": ["a"] * 21}, "key_or_id: expected a key or id, or a list of 1 to 20 of them"),
        ("memory_get", {"key_or_id": ["a", 1]}, "key_or_id: expected a key or id, or a list of 1 to 20 of them"),
        ("memory_get", {"key_or_id": "nobody"}, "key_or_id: nothing is stored under 'nobody' in this project"),
        ("memory_forget", {"key_or_id": "nobody"}, "key_or_id: nothing is stored under 'nobody' in this project"),
    ],
)
async def test_the_tools_say_what_is_wrong_in_a_sentence(
    tmp_path: Path, tool: str, asked: JsonObject, sentence: str
) -> None:
    async with session(tmp_path / "home", toolsets=["memory", "alma"]) as client:
        told = await client.error(tool, **asked)
    assert told.startswith(sentence)
    assert told.count(": ") < 2, "one sentence, and no place in a type"


@pytest.mark.requirement("ALM-073")
async def test_the_tool_shows_the_beginning_of_each_memory_and_says_how_it_asked(tmp_path: Path) -> None:
    patient = Settings(durability="process", pace=Pace(closing_s=0.0), local_search_s=5.0)
    async with session(tmp_path / "home", toolsets=["memory", "alma"], settings=patient) as client:
        content = " ".join(f"Deploys need two reviews by team {number}." for number in range(300))
        await client.ok("memory_intelligent_store", key="long", content=content, metadata={"note": "x" * 3_000})
        answer = await client.ok(TOOL, query="deploys reveiws")
    [shown] = answer["uncertain"]
    assert (len(shown["content"]), shown["cut"], "metadata" in shown) == (1_000, True, False)
    assert (answer["repaired"], answer["asked"]) == ({"reveiws": "reviews"}, None)


# --- on the command line --------------------------------------------------------------------------------------------


def test_search_verify_holds_memories_against_a_file(run: Run, tmp_path: Path) -> None:
    runbook = tmp_path / "runbook.md"
    runbook.write_text("Deploys need two reviews.\n", encoding="utf-8")
    run("store", "Deploys need two reviews.", "--key", "right")
    run("store", "Deploys need three reviews.", "--key", "wrong")
    asked = ("search", "deploys", "reviews", "--verify", "--source", str(runbook))
    answer = run(*asked, "--json").json
    assert [one["key"] for one in answer["verified"]] == ["right"]
    assert [one["key"] for one in answer["contradicted"]] == ["wrong"]
    told = run(*asked).out
    assert told.startswith("2 candidates held against what was given: 1 verified, 1 contradicted\n")
    assert "by words: a source differs: it says 2, not 3" in told
    assert "against  Deploys need two reviews." in told


def test_search_verify_without_a_source_holds_them_against_each_other(run: Run) -> None:
    run("store", "Deploys need two reviews.", "--confidence", "0.9")
    told = run("search", "deploys", "--verify", "--limit", "3").out
    assert told.startswith("1 candidate with no other to hold it against: 1 verified\n")
    assert "relevance 1.00 · semantic · just now" in told
    assert run("search", "nothing", "--verify").out == "nothing was found that could be checked\n"


def test_search_verify_says_what_was_looked_up_and_how_often_it_is_said(run: Run) -> None:
    run("store", "Deploys need two reviews.", "--key", "one", "--confidence", "0.6")
    run("store", "Deploys need two reviews.", "--key", "sure", "--confidence", "0.9")
    told = run("search", "reveiws", "--verify").out
    assert told.startswith("1 candidate with no other to hold it against: 1 verified\n")
    assert "  looked for 'reviews' instead of 'reveiws'\n" in told
    assert "· sure · 2 alike (--no-fold shows each)\n" in told
    assert run("search", "reviews", "--verify", "--no-fold").out.startswith("2 candidates held against each other")


def test_a_reason_is_never_cut(run: Run) -> None:
    run("store", "Deploys need two reviews.", "--confidence", "0.9")
    run("store", "Deploys are watched by the engineer on call.", "--confidence", "0.9")
    told = " ".join(run("search", "deploys", "--verify").out.split())
    assert told.count("by confidence: no memory like it contradicts it, and its own confidence reaches 0.7") == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--source", "x"), "--source: goes with --verify"),
        (("--verify", "--source", "missing.md"), "--source: missing.md cannot be read (No such file or directory)"),
        (("--verify", "--prefer-speed"), "--verify: does not go with --prefer-speed"),
        (("--verify", "--mode", "vague"), "--mode: 'vague' is unknown; choose one of"),
    ],
)
def test_search_verify_says_what_does_not_go_together(run: Run, options: tuple[str, ...], sentence: str) -> None:
    ran = run("search", "deploys", *options)
    assert ran.code == 2
    assert ran.err.startswith(f"kingly-memory: {sentence}")


def test_a_source_that_is_too_long_is_refused(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "log"
    source.write_bytes(b"x" * 1_048_577)
    ran = run("search", "deploys", "--verify", "--source", str(source))
    assert (ran.code, "has more than 1,048,576 bytes" in ran.err) == (2, True)
