"""The pure part of search: words of a question, repairs, and one ranking out of two lists."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.eval.misspelling import misspelt
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryType, Origin, Scope
from kingly_memory.retrieval.fusion import Candidate, fuse
from kingly_memory.retrieval.lexical import LONGEST_PIECE, MOST_TERMS, terms
from kingly_memory.retrieval.spelling import Meant, is_doubtful, likely, similarity

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def remembered(number: int) -> Memory:
    return Memory(
        id=MemoryId(f"{number:032x}"),
        key=None,
        content=str(number),
        type=MemoryType.SEMANTIC,
        significance=0.5,
        confidence=0.5,
        tags=(),
        title=None,
        scope=Scope("p"),
        origin=Origin.AGENT,
        created_at=NOW,
        updated_at=NOW,
        revision=1,
    )


shares = st.floats(0, 1)
candidates = st.lists(
    st.builds(
        lambda local, remote, in_local, in_remote: (local, remote, in_local, in_remote),
        st.none() | shares,
        st.none() | shares,
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
).map(
    lambda rows: [
        Candidate(remembered(number), local, remote, in_local, in_remote)
        for number, (local, remote, in_local, in_remote) in enumerate(rows)
    ]
)


@pytest.mark.requirement("KNG-014")
@given(candidates, st.integers(0, 2**16))
def test_fusion_is_bounded_descending_and_does_not_depend_on_order(found: list[Candidate], seed: int) -> None:
    hits = fuse(found, local_weight=0.7)
    shuffled = list(found)
    Random(seed).shuffle(shuffled)
    assert fuse(shuffled, local_weight=0.7) == hits
    relevances = [hit.relevance for hit in hits]
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 <= relevance <= 1 for relevance in relevances)
    assert len(hits) == len(found)


@given(shares)
def test_layer_that_could_not_know_a_memory_does_not_count_against_it(relevance: float) -> None:
    (local_only,) = fuse([Candidate(remembered(1), relevance, None, True, False)], local_weight=0.7)
    (remote_only,) = fuse([Candidate(remembered(1), None, relevance, False, True)], local_weight=0.7)
    assert local_only.relevance == pytest.approx(relevance)
    assert remote_only.relevance == pytest.approx(relevance)


def test_layer_that_knew_a_memory_and_did_not_find_it_counts_against_it() -> None:
    (hit,) = fuse([Candidate(remembered(1), 1.0, None, True, True)], local_weight=0.7)
    assert hit.relevance == pytest.approx(0.7)
    assert hit.layers == ("local",)


def test_stop_words_are_dropped_unless_nothing_else_is_asked() -> None:
    assert terms("What is the password of the router").words == ("password", "router")
    assert terms("to be or not to be").words == ("to", "be", "or", "not")


@pytest.mark.parametrize("text", ['"quoted" AND (x OR y*)', "secret:hunter2", "a NEAR/3 b", "multi-agent C++ node.js"])
def test_operators_of_the_index_are_only_words(text: str) -> None:
    assert all(word.isalnum() for word in terms(text).words)


def test_unbroken_scripts_and_emoji_become_pieces() -> None:
    assert terms("数据库 backup").pieces == ("数据库",)
    assert terms("数据库 backup").words == ("backup",)
    assert terms("🎉").pieces == ("🎉",)


@given(st.text(max_size=3_000))
def test_any_text_is_a_bounded_question(text: str) -> None:
    asked = terms(text)
    assert len(asked.words) <= MOST_TERMS
    assert len(asked.pieces) <= MOST_TERMS
    assert all(len(piece) <= LONGEST_PIECE for piece in asked.pieces)
    assert len(set(asked.words)) == len(asked.words)


def best_match(word: str, vocabulary: list[str]) -> Meant | None:
    return next(iter(likely(word, vocabulary)), None) if is_doubtful(word) else None


def test_of_words_that_take_as_few_errors_the_most_alike_is_meant() -> None:
    found = best_match("relase", ["relation", "release", "released"])
    assert found is not None
    assert (found.word, found.errors) == ("release", 1)
    assert 0.9 < found.likeness < 0.95


def test_short_and_strange_words_are_left_alone() -> None:
    assert best_match("abc", ["abd"]) is None
    assert best_match("xylophone", ["deploy"]) is None


@pytest.mark.parametrize(
    ("right", "there"),
    [
        ("owns", "ones"),
        ("want", "wlan"),
        ("machine", "caching"),
        ("sales", "stale"),
        ("anything", "nothing"),
        ("encrypted", "unencrypted"),
        ("decrease", "increase"),
        ("house", "horse"),
        ("passed", "paste"),
        ("Maria".casefold(), "marina"),
        ("describe", "decide"),
        ("hosted", "posted"),
        ("planned", "pinned"),
        ("quarrels", "quarter"),
        ("cities", "cite"),
        ("machines", "archives"),
        ("chose", "close"),
        ("serialised", "deserialised"),
        ("upscaling", "downscaling"),
        ("nonvolatile", "volatile"),
        ("2021", "2022"),
        ("v2beta1", "v2beta2"),
        ("jira", "jiro"),
        ("kafka", "karma"),
        ("nginx", "nixie"),
        ("terraform", "platform"),
    ],
)
def test_a_word_that_may_be_right_is_not_repaired_to_another_one(right: str, there: str) -> None:
    assert best_match(right, [there]) is None


@pytest.mark.parametrize(
    ("typed", "there"),
    [
        ("iwth", "with"),
        ("hous", "house"),
        ("piant", "paints"),
        ("walkng", "walks"),
        ("emlanie", "melanie"),
        ("kuberntes", "kubernetes"),
        ("kubrenets", "kubernetes"),
        ("databse", "database"),
        ("careeer", "career"),
        ("colorrs", "color"),
        ("v2btea1", "v2beta1"),
        ("authentification", "authentication"),
        ("unecrypted", "unencrypted"),
    ],
)
def test_one_or_two_errors_are_repaired(typed: str, there: str) -> None:
    found = best_match(typed, ["another", there, "word"])
    assert found is not None
    assert found.word == there


@pytest.mark.parametrize("word", ["deployment", "grandmother", "lighthouse", "kubernetes"])
def test_what_an_evaluation_misspells_in_a_long_word_is_repaired(word: str) -> None:
    """But for the few that have become another word by it, or its opposite: one in a thousand."""
    found = [best_match(misspelt(word, seed), [word, "another"]) for seed in range(500)]
    assert sum(meant is not None and meant.word == word for meant in found) >= 495


@given(st.text(max_size=600), st.text(max_size=4_000))
def test_similarity_is_a_share(query: str, content: str) -> None:
    assert 0 <= similarity(query, content) <= 1
