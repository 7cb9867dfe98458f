"""Typing errors: what is repaired to what, and what is left alone."""

from __future__ import annotations

import pytest

from benchmarks.eval.misspelling import misspelt
from kingly_memory.retrieval.lexical import is_doubtful
from kingly_memory.retrieval.spelling import Meant, likely, rewritten


def best_match(word: str, vocabulary: list[str]) -> Meant | None:
    return next(iter(likely(word, vocabulary)), None) if is_doubtful(word) else None


def test_of_words_that_take_as_few_errors_the_most_alike_is_meant() -> None:
    found = best_match("relase", ["relation", "release", "released"])
    assert found is not None
    assert (found.word, found.errors) == ("release", 1)
    assert 0.9 < found.likeness < 0.95


def test_of_words_that_take_as_few_errors_that_of_the_same_letters_is_meant() -> None:
    found = best_match("sotck", ["sock", "stock"])
    assert found is not None
    assert (found.word, found.errors) == ("stock", 1)


def test_short_and_strange_words_are_left_alone() -> None:
    assert best_match("abc", ["abd"]) is None
    assert best_match("abcde", ["abc"]) is None  # half of its letters, and a word of three has no other forms
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


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Deplyo the api", "Deploy the api"),
        ("DEPLYO!", "DEPLOY!"),
        ("re-deplyo, deplyos\tdeplyo_x", "re-deploy, deplyos\tdeploy_x"),
        ("nothing of the kind", "nothing of the kind"),
    ],
)
def test_a_word_is_replaced_where_it_stands_with_its_capitals(text: str, written: str) -> None:
    assert rewritten(text, {"deplyo": "deploy"}) == written
    assert rewritten(text, {}) == text
