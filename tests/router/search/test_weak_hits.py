"""Hits that chance words may explain say so, and can be left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kingly_memory import InvalidInput, Settings, SyncMemoryRouter

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PATIENT = Settings(durability="process", embedder="none", local_search_s=5.0)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SyncMemoryRouter]:
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, project="app", settings=PATIENT) as memory:
        yield memory


@pytest.mark.requirement("N13")
def test_most_questions_that_nothing_answers_find_nothing_or_weak_hits_alone(memory: SyncMemoryRouter) -> None:
    lines = (BENCHMARKS / "paraphrases.jsonl").read_text("utf-8").splitlines()
    memory.store_many([one["content"] for line in lines if "content" in (one := json.loads(line))])
    questions = (BENCHMARKS / "alien_questions.txt").read_text("utf-8").splitlines()
    quiet = [all(hit.is_weak for hit in memory.search(question)) for question in questions]
    assert len(quiet) == 100
    assert sum(quiet) >= 80


@pytest.mark.requirement("N13")
def test_a_weak_hit_is_marked_and_may_be_left_out(memory: SyncMemoryRouter) -> None:
    memory.store("Deploys of the api need two reviews")
    memory.store("A map of the harbour hangs in the hall")
    found = memory.search("who reviews deploys of the api, and which harbour pilot signs in winter storms")
    assert [hit.is_weak for hit in found] == [False, True]
    assert [hit.get("weak") for hit in found.to_json()["hits"]] == [None, True]
    titles = memory.search("which harbour pilot signs in winter storms at night", detail="titles").to_json()["hits"]
    assert [hit["weak"] for hit in titles] == [True]
    best = memory.search(
        "who reviews deploys of the api, and which harbour pilot signs in winter storms", min_relevance=0.32
    )
    assert [hit.memory.id for hit in best] == [found.hits[0].memory.id]
    assert best.excluded == {"low_relevance": 1}
    in_a_mode = memory.search("which harbour pilot signs in winter storms", mode="broad", min_relevance=0.5)
    assert not in_a_mode.hits
    assert in_a_mode.excluded == {"low_relevance": 1}


def test_the_memory_whose_key_is_asked_for_is_not_weak(memory: SyncMemoryRouter) -> None:
    memory.store("what lies there", key="depot-7")
    [hit] = memory.search("depot-7")
    assert not hit.is_weak


@pytest.mark.parametrize("least", [-0.1, 1.5, "much", float("nan")])
def test_a_least_relevance_that_is_none_is_refused(memory: SyncMemoryRouter, least: float) -> None:
    with pytest.raises(InvalidInput, match="min_relevance"):
        memory.search("anything", min_relevance=least)
