"""As much of the best hits as fits into a budget, and nothing beyond it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.models import Hit, Shown, View
from kingly_memory.retrieval.disclosure import PASSAGE, TITLE, cost, disclose, passage
from kingly_memory.writing import estimated_tokens
from tests.test_folding import memory

RULE = "Deploys need two reviews, and the second one is by the owner of the service."
HANDBOOK = "The harbour opens at six. " * 30 + RULE + " " + "Ferries leave at seven. " * 40
RANK = {View.FULL: 0, View.PASSAGE: 1, View.TITLE: 2}

texts = st.text('ab deploy.,\n!"\\宮本東京é\x00', max_size=1_200)
views = st.sampled_from(View)


def hits_of(contents: Sequence[str]) -> list[Hit]:
    return [Hit(memory(content), 1 - place / 100, ("local",)) for place, content in enumerate(contents)]


def spent(hits: Sequence[Hit], shown: dict[str, Shown]) -> int:
    """Of the JSON that a reader gets to see, all hits together."""
    return estimated_tokens(json.dumps([shown[hit.memory.id].to_json(hit) for hit in hits], ensure_ascii=False))


@given(st.lists(texts, max_size=8), views, st.integers(1, 3_000))
def test_what_is_shown_is_within_the_budget_and_the_rest_is_counted(
    contents: list[str], most: View, budget: int
) -> None:
    hits = hits_of(contents)
    told = disclose(hits, most, asked=["deploy"], budget_tokens=budget)
    assert not told.hits or spent(told.hits, told.shown) <= budget
    assert list(told.hits) == hits[: len(told.hits)]
    assert told.left_out == len(hits) - len(told.hits)
    assert told.shown.keys() == {hit.memory.id for hit in told.hits}
    for hit in told.hits:
        one = told.shown[hit.memory.id]
        assert RANK[one.view] >= RANK[most] or len(hit.memory.content) <= PASSAGE
        assert one.view is not View.FULL or one.text == hit.memory.content


@given(st.lists(texts, min_size=1, max_size=8), views, st.integers(1, 3_000))
def test_a_hit_is_left_out_only_where_its_title_has_no_room(contents: list[str], most: View, budget: int) -> None:
    hits = hits_of(contents)
    told = disclose(hits, most, asked=["deploy"], budget_tokens=budget)
    if told.left_out:
        titles = disclose(hits, View.TITLE, asked=[]).shown
        following = hits[len(told.hits)]
        paid = sum(cost(hit, told.shown[hit.memory.id]) for hit in told.hits)
        assert paid + cost(following, titles[following.memory.id]) > budget


def test_the_best_are_whole_then_come_passages_then_titles() -> None:
    hits = hits_of([RULE, *[HANDBOOK] * 8])
    told = disclose(hits, View.FULL, asked=["who reviews deploys"], budget_tokens=1_000)
    ranks = [RANK[told.shown[hit.memory.id].view] for hit in told.hits]
    assert (ranks, set(ranks)) == (sorted(ranks), {0, 1, 2})
    assert len(told.hits) > 5
    assert RULE in (told.shown[hits[1].memory.id].text or "")
    last = told.shown[told.hits[-1].memory.id]
    assert (last.text, last.tokens) == (None, estimated_tokens(HANDBOOK))


def test_a_short_hit_behind_a_long_one_still_has_room() -> None:
    hits = hits_of(["x " * 50_000, RULE])
    told = disclose(hits, View.FULL, asked=["reviews"], budget_tokens=400)
    assert [told.shown[hit.memory.id].view for hit in told.hits] == [View.PASSAGE, View.FULL]


def test_titles_of_later_hits_leave_the_best_one_half_of_the_budget() -> None:
    hits = hits_of([RULE * 4, *(f"fact {number}" for number in range(50))])
    told = disclose(hits, View.FULL, asked=["reviews"], budget_tokens=400)
    assert told.shown[hits[0].memory.id].view is View.FULL
    assert 0 < told.left_out < 50


@pytest.mark.parametrize("budget", [None, 100_000])
@pytest.mark.parametrize(
    ("most", "seen"),
    [
        (View.TITLE, [View.TITLE, View.TITLE]),
        (View.PASSAGE, [View.FULL, View.PASSAGE]),
        (View.FULL, [View.FULL, View.FULL]),
    ],
)
def test_each_hit_is_shown_in_as_much_as_was_asked_for(most: View, seen: list[View], budget: int | None) -> None:
    hits = hits_of([RULE, HANDBOOK])
    told = disclose(hits, most, asked=["reviews"], budget_tokens=budget)
    assert [told.shown[hit.memory.id].view for hit in told.hits] == seen


def test_repeats_that_are_named_count_too() -> None:
    hits = hits_of([RULE])
    alone = cost(hits[0], disclose(hits, View.FULL, asked=[]).shown[hits[0].memory.id])
    named: dict[str, tuple[str, ...]] = {hits[0].memory.id: ("an-id",) * 20}
    assert disclose(hits, View.FULL, asked=[], budget_tokens=alone).left_out == 0
    assert disclose(hits, View.FULL, asked=[], budget_tokens=alone, repeats=named).left_out == 1


def test_a_title_is_the_memorys_own_or_its_first_words_on_one_line() -> None:
    [own] = [Hit(memory(RULE, title="Deploy rule"), 1, ("local",))]
    [none] = hits_of(["one\n two\x85 " + "three " * 50])
    titles = disclose([own, none], View.TITLE, asked=[]).shown
    assert titles[own.memory.id].title == "Deploy rule"
    first = titles[none.memory.id].title or ""
    assert first.startswith("one two three three")
    assert (len(first) <= TITLE, first[-1]) == (True, "…")


def test_a_title_alone_has_no_empty_fields() -> None:
    [hit] = hits_of([RULE])
    told = disclose([hit], View.TITLE, asked=[]).shown[hit.memory.id].to_json(hit)
    assert told == {
        "id": hit.memory.id,
        "type": "semantic",
        "title": RULE,
        "view": "title",
        "tokens": estimated_tokens(RULE),
        "relevance": 1,
    }


# --- passages -------------------------------------------------------------------------------------------------------


@given(texts, st.lists(st.sampled_from(["deploy", "a b", "東京", "宮", ""]), max_size=3), st.integers(20, PASSAGE))
def test_a_passage_is_a_piece_of_the_text_and_no_longer_than_it_may_be(text: str, asked: list[str], most: int) -> None:
    found = passage(text, asked, most)
    assert len(found) <= most
    assert found == text if len(text) <= most else found.strip("…") in text


@pytest.mark.parametrize(
    ("text", "asked", "held"),
    [
        (HANDBOOK, "who reviews a deploy", RULE),
        (HANDBOOK, "the owner's reviewing", RULE),
        (
            "港は六時に開く。" * 100 + "審査は二回必要です。" + "船は七時に出る。" * 100,
            "審査は何回",
            "審査は二回必要です。",
        ),
        ("deploy " + "x " * 500 + "deploy reviews owner " + "y " * 500, "deploy reviews owner", "deploy reviews owner"),
    ],
)
def test_a_passage_holds_the_words_that_were_asked_for(text: str, asked: str, held: str) -> None:
    assert held in passage(text, [asked], 120)


def test_a_passage_begins_with_a_sentence_when_one_begins_near() -> None:
    assert passage(HANDBOOK, ["owner of the service"], 120).startswith(f"…{RULE}")


def test_without_a_word_of_the_question_a_passage_is_the_beginning() -> None:
    assert passage(HANDBOOK, ["zebra"], 60) == "The harbour opens at six. The harbour opens at six. The…"
