"""What a question asks for, how well words answer it, what neighbours lend, and whom a question names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.ports import Beside, Corpus
from kingly_memory.retrieval import lexical
from kingly_memory.retrieval.lexical import (
    LONGEST_PIECE,
    MOST_TERMS,
    Loan,
    Question,
    Term,
    loans,
    other_forms,
    rarity,
    terms,
)
from kingly_memory.text.writing import words
from tests.store_samples import memory


def test_stop_words_are_dropped_unless_nothing_else_is_asked() -> None:
    assert terms("What is the password of the router").words == ("password", "router")
    assert terms("to be or not to be").words == ("to", "be", "or", "not")


@pytest.mark.parametrize("text", ['"quoted" AND (x OR y*)', "secret:hunter2", "a NEAR/3 b", "multi-agent C++ node.js"])
def test_operators_of_the_index_are_only_words(text: str) -> None:
    assert all(word.isalnum() for word in terms(text).words)


@given(st.text(st.characters(max_codepoint=0x7F)))
def test_words_of_plain_letters_are_those_of_any_text(text: str) -> None:
    assert words(text) == words(f"{text} é")[:-1] == re.findall("[a-z0-9]+", text.casefold())


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


def test_loans_add_up_from_both_sides() -> None:
    lent = loans({5: Beside((3, 1), (8,)), 8: Beside((5, 3), ())})
    assert lent[5] == [Loan(8, 0.25)]
    assert sorted(lent[3]) == [Loan(5, 0.25), Loan(8, 0.125)]
    assert lent[8] == [Loan(5, 0.5)]


# --- names --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("asked", "fields", "lift"),
    [
        ("when did Ada ski", {"tags": ("Ada",)}, lexical.NAMED),
        ("when did Ada ski", {"title": "Ada, 3 May 2024"}, lexical.NAMED),
        ("when did Ada ski", {"metadata": {"speaker": "Ada"}}, lexical.NAMED),
        ("when did Ada ski", {"agent": "ada"}, lexical.NAMED),
        ("what did Ada say in May", {"title": "Ada, 3 May 2024"}, lexical.NAMED_TWICE),
        ("what did Ada say in May 2024", {"title": "Ada, 3 May 2024", "tags": ("Ada",)}, lexical.NAMED_TWICE),
        ("a code of honour", {"tags": ("code review",)}, 1.0),
        ("a review of the code", {"tags": ("code review",)}, lexical.NAMED_TWICE),
        ("who was there", {"title": "Who was there"}, 1.0),
        ("when did Adam ski", {"tags": ("Ada",), "metadata": {"speaker": 7}}, 1.0),
    ],
)
def test_memory_whose_names_are_asked_for_is_lifted(asked: str, fields: dict[str, Any], lift: float) -> None:
    asked_words = set(asked.casefold().split())
    assert lexical.lift(asked_words, memory("skis", **fields)) == lift


def test_rarer_words_say_more_and_none_says_nothing() -> None:
    corpus = Corpus(1_000, 20.0)
    rarities = [rarity(rows, corpus) for rows in (0, 1, 10, 500, 1_000, 5_000)]
    assert rarities == sorted(rarities, reverse=True)
    assert rarities[-1] > 0


def test_forms_are_none_for_a_word_that_has_but_endings() -> None:
    assert other_forms("deploy") == other_forms("deploys") == other_forms("x") == other_forms("") == ()
    assert set(other_forms("writing")) == {"wrote", "written"}
    assert set(other_forms("went")) == {"go", "gone", "goes"}


def test_common_word_that_is_not_looked_up_still_counts() -> None:
    question = Question(
        [Term("rare", frozenset({"rare"}), 1.0, 1), Term("common", frozenset({"common"}), 1.0, 9_000)],
        Corpus(10_000, 5.0),
    )
    assert question.own(memory("rare and common")).score > question.own(memory("rare and other")).score


def test_a_piece_counts_as_a_term_does() -> None:
    question = Question([Term("jobs", frozenset({"job"}), 1.0, 1)], Corpus(10, 5.0), ("数据库", "🎉"))
    with_word, with_both = question.own(memory("数据库 jobs")), question.own(memory("🎉 数据库"))
    assert question.coverage(with_word.held) == question.coverage(with_both.held) == pytest.approx(2 / 3)
    assert question.own(memory("数据 jobs")).score + 1 == pytest.approx(with_word.score)
    assert (with_both.score, question.own(memory("nothing")).held) == (2.0, {})
