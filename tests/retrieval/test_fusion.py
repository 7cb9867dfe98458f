"""One ranking out of what this machine and its remotes found, or of two lists by their ranks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryType, Origin, Scope
from kingly_memory.retrieval.fusion import Candidate, by_ranks, cut, fuse, rrf

NOW = datetime(2026, 5, 1, tzinfo=UTC)


MEMORY = Memory(
    MemoryId("0"), None, "text", MemoryType.SEMANTIC, 0.5, 0.5, (), None, Scope("app"), Origin.USER, NOW, NOW, 1
)


def candidate(
    name: str, local: float | None, remote: float | None, *, in_local: bool = True, in_remote: bool = True
) -> Candidate:
    layers = tuple(layer for layer, said in (("local", local), ("remote", remote)) if said is not None)
    return Candidate(replace(MEMORY, id=MemoryId(name)), local, remote, in_local, in_remote, layers)


def order(*candidates: Candidate, floor: float = 0.0) -> str:
    hits = fuse(candidates, local_weight=0.7, floor=floor)
    return "".join(hit.memory.id for hit in hits)


def test_what_both_layers_name_comes_before_what_one_names_as_well() -> None:
    assert order(candidate("a", 0.8, None), candidate("b", 0.8, 0.5), candidate("c", None, 0.5)) == "bac"


def test_a_memory_far_down_in_one_list_keeps_its_share_of_it() -> None:
    crowd = [candidate(f"{number:02}", 0.9 - number / 50, None) for number in range(10)]
    both = candidate("x", 0.68, 0.9)
    assert order(*crowd, both).startswith("x")
    assert not order(*crowd, replace(both, local=None)).startswith("x")


def test_a_remote_that_likes_everything_decides_nothing() -> None:
    """Some embedders give everything 0.8: what counts is how much more than the rest a memory has."""
    alike = [candidate("a", 1.0, 0.80), candidate("b", 0.9, 0.82), candidate("c", 0.8, 0.81)]
    assert order(*alike, floor=0.8) == "abc"
    assert order(*alike, candidate("d", 0.95, 0.99), floor=0.8) == "dabc"


def test_what_a_full_list_leaves_out_is_worth_what_it_ends_with() -> None:
    left_out, named = candidate("a", 0.8, None), candidate("b", 0.75, 0.4)
    assert order(left_out, named, floor=0.0) == "ba"
    assert order(left_out, named, floor=0.4) == "ab"


def test_a_memory_that_the_remote_could_not_know_is_not_held_against_it() -> None:
    """Neither does it profit: it is given what the remote says of the others on average."""
    kept_here = candidate("k", 0.9, None, in_remote=False)
    assert order(kept_here, candidate("b", 0.8, 0.5), candidate("c", 0.7, 0.4)) == "kbc"
    assert order(kept_here, candidate("b", 1.0, 0.5), candidate("c", 0.7, 0.4)) == "bkc"


def test_a_memory_that_only_the_remote_holds_is_judged_by_what_the_remote_says_of_it() -> None:
    elsewhere = candidate("e", None, 0.9, in_local=False)
    assert order(elsewhere, candidate("a", 0.5, 0.3)) == "ea"
    assert order(replace(elsewhere, remote=0.2), candidate("a", 0.9, 0.3)) == "ae"


def test_the_memory_whose_key_is_the_question_stays_in_front() -> None:
    named = replace(candidate("n", 1.0, None), scores={"key": 1.0})
    assert order(candidate("a", 0.95, 1.0), named) == "na"


def test_the_newest_of_equals_comes_first() -> None:
    assert order(candidate("a", 0.5, 0.5), candidate("c", 0.5, 0.5), candidate("b", 0.5, 0.5)) == "cba"


def test_a_hit_tells_what_each_layer_said() -> None:
    [hit] = fuse(
        [replace(candidate("a", 0.5, 0.25), scores={"bm25": 3.0})],
        local_weight=0.7,
    )
    assert (hit.layers, hit.scores) == (("local", "remote"), {"bm25": 3.0, "local": 0.5, "remote": 0.25})
    assert hit.relevance == pytest.approx(0.7 * 0.5 + 0.3 * 0.25)


shares = st.one_of(st.none(), st.floats(0, 1))


founds = st.lists(
    st.tuples(shares, shares, st.booleans(), st.booleans()).filter(lambda one: (one[0], one[1]) != (None, None)),
    max_size=30,
)


@pytest.mark.requirement("KNG-014")
@given(founds, st.floats(0, 1), st.floats(0, 1), st.randoms())
def test_nothing_is_lost_relevance_descends_and_the_order_of_finding_does_not_matter(
    found: list[tuple[float | None, float | None, bool, bool]],
    weight: float,
    floor: float,
    chance: object,
) -> None:
    candidates = [
        candidate(
            f"{number:02}",
            local,
            remote,
            in_local=here or local is not None,
            in_remote=there or remote is not None,
        )
        for number, (local, remote, here, there) in enumerate(found)
    ]
    hits = fuse(candidates, local_weight=weight, floor=floor)
    relevances = [hit.relevance for hit in hits]
    assert {hit.memory.id for hit in hits} == {one.memory.id for one in candidates}
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 <= one <= 1 for one in relevances)
    shuffled = sorted(candidates, key=lambda _: chance.random())  # type: ignore[attr-defined]
    assert fuse(shuffled, local_weight=weight, floor=floor) == hits


@pytest.mark.requirement("A8")
def test_ties_go_to_what_this_machine_found() -> None:
    everything = [candidate(f"r{number}", None, 1.0, in_local=False) for number in range(3)]
    copy = candidate("s", 0.5, 1.0)
    copy = replace(copy, memory=replace(copy.memory, origin=Origin.REMOTE))
    assert order(*everything, candidate("a", 0.5, None, in_remote=False)).startswith("a")
    assert order(*everything, copy, candidate("a", 0.5, 1.0)).startswith("as")


@pytest.mark.requirement("A8")
def test_a_copy_of_a_remotes_memory_takes_no_local_place() -> None:
    """Else a remote could fill the local list with copies that repeat the question."""
    copies = [candidate(f"r{number}", 1.0, 1.0) for number in range(9)]
    copies = [replace(one, memory=replace(one.memory, origin=Origin.REMOTE)) for one in copies]
    hits = fuse([*copies, candidate("a", 0.2, None, in_remote=False)], local_weight=0.7)
    assert [hit.memory.id for hit in cut(hits, 2)] == ["r8", "a"]
    assert [hit.memory.id for hit in cut(hits, 1)] == ["a"]


said_there = st.one_of(st.none(), st.floats(0, 1), st.just(1.0))


local_lists = st.lists(st.tuples(st.floats(0, 1), st.booleans(), said_there), max_size=12)


figures = st.tuples(st.floats(0, 1), st.floats(0, 1))


remote_lists = st.lists(st.tuples(st.floats(0, 1) | st.just(1.0), st.booleans()), max_size=12)


@pytest.mark.requirement("A8")
@pytest.mark.requirement("KNG-014")
@pytest.mark.requirement("KNG-018")
@given(local_lists, remote_lists, st.integers(1, 12), figures, st.booleans())
def test_whatever_remotes_say_the_better_half_of_the_local_list_keeps_its_places(
    here: list[tuple[float, bool, float | None]],
    there: list[tuple[float, bool]],
    limit: int,
    weights: tuple[float, float],
    reordered: bool,
) -> None:
    weight, floor = weights
    local = [
        candidate(f"l{number:02}", relevance, said, in_remote=known or said is not None)
        for number, (relevance, known, said) in enumerate(here)
    ]
    remote = [
        candidate(f"r{number:02}", None, relevance, in_local=known) for number, (relevance, known) in enumerate(there)
    ]
    ranked = fuse([*remote, *local], local_weight=weight, floor=floor)
    hits = cut(by_ranks(ranked) if reordered else ranked, limit)
    best = sorted((one.local or 0.0 for one in local), reverse=True)[: (limit + 1) // 2]
    found = sorted((hit.scores["local"] for hit in hits if "local" in hit.layers), reverse=True)
    assert found[: len(best)] == best
    assert len(hits) == min(limit, len(ranked))
    if not reordered:
        relevances = [hit.relevance for hit in hits]
        assert relevances == sorted(relevances, reverse=True)
        assert hits == tuple(hit for hit in ranked if hit in hits)


@given(st.floats(0, 1))
def test_layer_that_could_not_know_a_memory_does_not_count_against_it(relevance: float) -> None:
    (local_only,) = fuse([candidate("a", relevance, None, in_remote=False)], local_weight=0.7)
    (remote_only,) = fuse([candidate("a", None, relevance, in_local=False)], local_weight=0.7)
    assert local_only.relevance == pytest.approx(relevance)
    assert remote_only.relevance == pytest.approx(relevance)


# --- by ranks alone ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ARG-046")
def test_first_in_both_lists_has_the_score_of_the_design() -> None:
    [(found, score)] = rrf(["a"], ["a"])
    assert found == "a"
    assert score == pytest.approx(0.016393442622950817)


@pytest.mark.requirement("ARG-046")
def test_ranks_are_weighed_six_to_four() -> None:
    found = rrf(["a", "b"], ["c", "b"])
    assert [name for name, _ in found] == ["b", "a", "c"]
    assert [score for _, score in found] == pytest.approx([0.6 / 62 + 0.4 / 62, 0.6 / 61, 0.4 / 61])


def test_of_a_candidate_that_stands_in_a_list_twice_the_better_rank_counts() -> None:
    assert rrf(["a", "b", "a"], []) == rrf(["a", "b"], [])
