"""One of several that say the same, and as much of the best hits as fits into a budget."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.ids import new_id
from kingly_memory.models import Detail, Hit, Shown
from kingly_memory.retrieval import snippets
from kingly_memory.retrieval.snippets import PASSAGE, TITLE, Disclosed, disclose, spent
from kingly_memory.text.writing import CHARACTERS_PER_TOKEN, estimated_tokens, token_spans
from tests.store_samples import NOON, memory


def passage(text: str, asked: Sequence[str], most: int = PASSAGE) -> str:
    """The part of a text with most of the words asked for."""
    return snippets._passage(text, snippets._spots(text, snippets._roots(asked), 0, len(text)), most, 0)


RULE = "Deploys need two reviews, and the second one is by the owner of the service."


HANDBOOK = "The harbour opens at six. " * 30 + RULE + " " + "Ferries leave at seven. " * 40


RANK = {Detail.FULL: 0, Detail.PASSAGE: 1, Detail.TITLE: 2}


texts = st.text('ab deploy.,\n!"\\宮本東京é\x00', max_size=1_200)


views = st.sampled_from(Detail)


def hits_of(contents: Sequence[str]) -> list[Hit]:
    return [Hit(memory(content), 1 - place / 100, ("local",)) for place, content in enumerate(contents)]


def told_tokens(told: Disclosed) -> int:
    """Of the JSON that a reader gets to see, all hits together, and what they stand for besides."""
    hits = [told.shown[hit.memory.id].to_json(hit) for hit in told.hits]
    besides = [told.named, told.unnamed] if told.named or told.unnamed else []
    return estimated_tokens(json.dumps([hits, *besides], ensure_ascii=False))


def repeats_of(hits: Sequence[Hit], counts: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """So many other memories that say the same as each."""
    return {
        hit.memory.id: tuple(new_id(NOON) for _ in range(count))
        for hit, count in zip(hits, counts, strict=False)
        if count
    }


@given(st.lists(texts, max_size=8), views, st.integers(1, 3_000), st.lists(st.integers(0, 40), max_size=8))
def test_what_is_shown_is_within_the_budget_and_the_rest_is_counted(
    contents: list[str], most: Detail, budget: int, counts: list[int]
) -> None:
    hits = hits_of(contents)
    repeats = repeats_of(hits, counts)
    told = disclose(hits, most, asked=["deploy"], budget_tokens=budget, repeats=repeats)
    assert not told.hits or told_tokens(told) <= budget
    assert list(told.hits) == [hit for hit in hits if hit.memory.id in told.shown]
    assert told.left_out == len(hits) - len(told.hits)
    assert told.shown.keys() == {hit.memory.id for hit in told.hits}
    for hit in told.hits:
        one, others = told.shown[hit.memory.id], repeats.get(hit.memory.id, ())
        named = told.named.get(hit.memory.id, ())
        assert named == others[: len(named)]
        assert len(named) + told.unnamed.get(hit.memory.id, 0) == len(others)
        assert RANK[one.view] >= RANK[most] or len(hit.memory.content) <= PASSAGE
        assert one.view is not Detail.FULL or one.text == hit.memory.content


@given(st.lists(texts, min_size=1, max_size=8), views, st.integers(1, 3_000), st.lists(st.integers(0, 40), max_size=8))
def test_a_hit_is_left_out_only_where_its_title_has_no_room(
    contents: list[str], most: Detail, budget: int, counts: list[int]
) -> None:
    """And the number of its repeats; their ids take no room from another hit."""
    hits = hits_of(contents)
    repeats = repeats_of(hits, counts)
    told = disclose(hits, most, asked=["deploy"], budget_tokens=budget, repeats=repeats)
    titles = disclose(hits, Detail.TITLE, asked=[]).shown

    def least(hit: Hit, shown: Shown) -> int:
        return spent(hit, shown, unnamed=len(repeats.get(hit.memory.id, ())))

    paid = sum(least(hit, told.shown[hit.memory.id]) for hit in told.hits)
    for hit in hits:
        if hit.memory.id not in told.shown:
            assert paid + least(hit, titles[hit.memory.id]) > budget


def test_many_repeats_of_the_best_hit_leave_room_for_it_and_for_the_others() -> None:
    hits = hits_of([RULE, "Ferries leave at seven."])
    told = disclose(hits, Detail.FULL, asked=["reviews"], budget_tokens=200, repeats=repeats_of(hits, [18]))
    assert told.hits == tuple(hits)
    assert told.unnamed[hits[0].memory.id] + len(told.named.get(hits[0].memory.id, ())) == 18


def test_a_hit_without_room_hides_none_behind_it() -> None:
    long = Hit(replace(memory(RULE), key="k" * 500), 1.0, ("local",))
    [short] = hits_of([RULE])
    assert disclose([long, short], Detail.FULL, asked=[], budget_tokens=100).hits == (short,)


def test_the_best_are_whole_then_come_passages_then_titles() -> None:
    hits = hits_of([RULE, *[HANDBOOK] * 8])
    told = disclose(hits, Detail.FULL, asked=["who reviews deploys"], budget_tokens=1_000)
    ranks = [RANK[told.shown[hit.memory.id].view] for hit in told.hits]
    assert (ranks, set(ranks)) == (sorted(ranks), {0, 1, 2})
    assert len(told.hits) > 5
    assert RULE in (told.shown[hits[1].memory.id].text or "")
    last = told.shown[told.hits[-1].memory.id]
    assert (last.text, last.tokens) == (None, estimated_tokens(HANDBOOK))


def test_titles_of_later_hits_leave_the_best_one_half_of_the_budget() -> None:
    hits = hits_of([RULE * 4, *(f"fact {number}" for number in range(50))])
    told = disclose(hits, Detail.FULL, asked=["reviews"], budget_tokens=400)
    assert told.shown[hits[0].memory.id].view is Detail.FULL
    assert 0 < told.left_out < 50


@pytest.mark.parametrize("budget", [None, 100_000])
@pytest.mark.parametrize(
    ("most", "seen"),
    [
        (Detail.TITLE, [Detail.TITLE, Detail.TITLE]),
        (Detail.PASSAGE, [Detail.FULL, Detail.PASSAGE]),
        (Detail.FULL, [Detail.FULL, Detail.FULL]),
    ],
)
def test_each_hit_is_shown_in_as_much_as_was_asked_for(most: Detail, seen: list[Detail], budget: int | None) -> None:
    hits = hits_of([RULE, HANDBOOK])
    told = disclose(hits, most, asked=["reviews"], budget_tokens=budget)
    assert [told.shown[hit.memory.id].view for hit in told.hits] == seen


def test_repeats_are_named_as_far_as_there_is_room_when_all_is_shown() -> None:
    hits = hits_of([RULE, RULE])
    repeats = repeats_of(hits, [20, 1])
    whole = {hit.memory.id: disclose([hit], Detail.FULL, asked=[]).shown[hit.memory.id] for hit in hits}
    least = sum(spent(hit, whole[hit.memory.id], unnamed=len(repeats[hit.memory.id])) for hit in hits)

    def told(budget: int | None) -> list[tuple[int, int]]:
        found = disclose(hits, Detail.FULL, asked=[], budget_tokens=budget, repeats=repeats)
        assert found.shown == whole
        ids = [hit.memory.id for hit in hits]
        return [(len(found.named.get(one, ())), found.unnamed.get(one, 0)) for one in ids]

    assert told(least) == [(0, 20), (0, 1)]
    some = told(least + 60)
    assert 0 < some[0][0] < 20
    assert told(least + 1_000) == told(None) == [(20, 0), (1, 0)]


@pytest.mark.parametrize("budget", [None, 20_000])
def test_when_the_time_is_over_hits_are_shown_by_title_and_the_answer_is_cut(budget: int | None) -> None:
    hits = hits_of([HANDBOOK, HANDBOOK * 20])
    late = disclose(hits, Detail.PASSAGE, asked=["reviews"], budget_tokens=budget, deadline_s=0.0)
    assert (late.cut, {one.view for one in late.shown.values()}) == (True, {Detail.TITLE})
    in_time = disclose(hits, Detail.PASSAGE, asked=["reviews"], budget_tokens=budget)
    assert (in_time.cut, {one.view for one in in_time.shown.values()}) == (False, {Detail.PASSAGE})
    assert not disclose(hits, Detail.TITLE, asked=["reviews"], budget_tokens=budget, deadline_s=0.0).cut


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12), st.sampled_from("abc")), max_size=30))
def test_a_passage_is_the_shortest_stretch_in_which_most_different_words_stand(
    drawn: list[tuple[int, int, str]],
) -> None:
    ends = list(accumulate(gap + length for gap, length, _ in drawn))
    spots = [snippets._Spot(end - length, end, root) for end, (_, length, root) in zip(ends, drawn, strict=True)]
    stretches = [
        (len({one.root for one in spots[first : last + 1]}), spots[first].begin - spots[last].end)
        for first in range(len(spots))
        for last in range(first, len(spots))
        if 0 < spots[last].end - spots[first].begin <= 10
    ]
    begin, end = snippets._window(spots, 10)
    inside = {one.root for one in spots if begin <= one.begin and one.end <= end}
    assert (len(inside), begin - end) == max(stretches, default=(0, 0))


def test_a_title_is_the_memorys_own_or_its_first_words_on_one_line() -> None:
    [own] = [Hit(memory(RULE, title="Deploy rule"), 1, ("local",))]
    [none] = hits_of(["one\n two\x85 " + "three " * 50])
    titles = disclose([own, none], Detail.TITLE, asked=[]).shown
    assert titles[own.memory.id].title == "Deploy rule"
    first = titles[none.memory.id].title or ""
    assert first.startswith("one two three three")
    assert (len(first) <= TITLE, first[-1]) == (True, "…")


# --- passages -------------------------------------------------------------------------------------------------------
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


@given(st.text("ab x\t\n\x1c.", max_size=400) | st.text(max_size=60))
def test_tokens_are_estimated_by_length_and_by_words_whichever_is_more(text: str) -> None:
    assert estimated_tokens(text) == max(-(-len(text) // CHARACTERS_PER_TOKEN), len(token_spans(text)))
