"""Measuring a search: the arithmetic, the typing errors, and the files that questions come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchmarks.eval.figures import Answered, figures, recall, reciprocal_rank, shared_stems
from benchmarks.eval.misspelling import misspelt
from benchmarks.eval.questions import QuestionFile, read
from kingly_memory.errors import InvalidInput
from tests.cli_runner import ROOT

PARAPHRASES = ROOT / "benchmarks" / "paraphrases.jsonl"

names = some.sampled_from("abcdefghijklmnop")
answers = some.builds(
    Answered,
    found=some.lists(names, unique=True, max_size=12).map(tuple),
    relevant=some.frozensets(names, min_size=1, max_size=4),
    took_ms=some.floats(0, 1_000),
    category=some.sampled_from([None, "near", "far"]),
)


# --- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "relevant", "most", "share"),
    [
        ("abc", "a", 5, 1.0),
        ("abc", "ax", 5, 0.5),
        ("abc", "x", 5, 0.0),
        ("abcdef", "f", 5, 0.0),
        ("abcdef", "f", 6, 1.0),
        ("", "a", 10, 0.0),
        ("aab", "ab", 2, 0.5),
    ],
)
def test_recall_is_the_share_of_the_relevant_among_the_first(
    found: str, relevant: str, most: int, share: float
) -> None:
    assert recall(found, set(relevant), most) == share


@pytest.mark.parametrize(
    ("found", "rank"), [("abc", 1.0), ("xab", 1 / 2), ("xyzb", 1 / 4), ("0123456789a", 0.0), ("", 0.0)]
)
def test_reciprocal_rank_is_that_of_the_first_relevant_of_ten(found: str, rank: float) -> None:
    assert reciprocal_rank(found, {"a", "b"}) == rank


def test_figures_are_means_over_the_questions() -> None:
    first = Answered(("a", "b"), frozenset("a"), 2.0, "easy")
    second = Answered(("x", "x1", "x2", "x3", "x4", "b"), frozenset("bc"), 4.0, "hard", cut=True, alone=True)
    assert figures([first, second]).to_json() == {
        "questions": 2,
        "recall@5": 0.5,
        "recall@10": 0.75,
        "mrr@10": round((1 + 1 / 6) / 2, 4),
        "p50_ms": 2.0,
        "p95_ms": 4.0,
        "recall@10_by_category": {"easy": 1.0, "hard": 0.5},
        "cut": 1,
        "without_remote": 1,
    }


@given(some.lists(answers, min_size=1, max_size=20))
def test_figures_are_shares_and_more_hits_never_lower_them(given_answers: list[Answered]) -> None:
    summed = figures(given_answers)
    assert 0 <= summed.recall_5 <= summed.recall_10 <= 1
    assert 0 <= summed.mrr_10 <= 1
    assert summed.p50_ms <= summed.p95_ms
    assert {summed.p50_ms, summed.p95_ms} <= {one.took_ms for one in given_answers}


def test_shared_stems_count_word_forms_and_leave_out_stop_words() -> None:
    assert shared_stems("What were the reviewers deploying?", ["A reviewer deploys."]) == 1.0
    assert shared_stems("Who owns the boat?", ["A reviewer deploys.", "The boat is red."]) == 0.5
    assert shared_stems("what of it", ["it"]) == 0.0


# --- typing errors ----------------------------------------------------------------------------------------------------


@given(some.text())
def test_words_are_mistyped_one_by_one_and_nothing_else_changes(text: str) -> None:
    before, after = text.split(" "), misspelt(text).split(" ")
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if not any(char.isalpha() for char in old) or len(old) < 6:
            assert new == old


@given(some.text("abcdefghijklmnopqrstuvwxyz", min_size=6, max_size=20))
def test_every_long_word_gets_one_or_two_errors(word: str) -> None:
    wrong = misspelt(word)
    assert wrong != word
    assert abs(len(wrong) - len(word)) <= 2
    assert misspelt(f"short {word[:5]}") == f"short {word[:5]}"


def test_the_same_text_gets_the_same_errors_in_every_process() -> None:
    assert misspelt("remember the conversation yesterday") == "remembre the coiversation yesterdmy"
    assert misspelt("remember the conversation", seed=1) != misspelt("remember the conversation", seed=2)


# --- files ------------------------------------------------------------------------------------------------------------


def reading(path: Path) -> QuestionFile:
    return read(path)


def sample(**changes: Any) -> dict[str, Any]:
    """A conversation of two sessions in LoCoMo's shape."""
    turns = [
        {"speaker": "Mara", "dia_id": "D1:1", "text": "I bought a red canoe."},
        {"speaker": "Jon", "dia_id": "D1:2", "text": "I would rather climb."},
    ]
    later = [{"speaker": "Mara", "dia_id": "D2:1", "text": "The canoe leaks."}]
    asked = [
        {"question": "What did Mara buy?", "answer": "a canoe", "evidence": ["D1:1"], "category": 4},
        {"question": "What happened to the boat?", "evidence": ["D1:1; D2:1"], "category": 1},
        {"question": "What does Jon like?", "evidence": ["D:1:2", "D"], "category": 3},
        {"question": "What did Jon sell?", "evidence": ["D1:2"], "category": 5},
        {"question": "Where was that?", "evidence": [], "category": 2},
        {"question": "And then?", "evidence": ["D9:9"], "category": 2},
    ]
    conversation = {
        "session_1": turns,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_2": later,
        "session_2_date_time": "2:00 pm on 9 May, 2023",
    }
    return {"sample_id": "s1", "conversation": conversation, "qa": asked, **changes}


def test_locomo_questions_name_the_turns_that_answer_them(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([sample(), sample(sample_id="s2")]))
    first, second = reading(path).conversations
    assert [one.text for one in first.questions] == [
        "What did Mara buy?",
        "What happened to the boat?",
        "What does Jon like?",
    ]
    assert [sorted(one.relevant) for one in first.questions] == [
        ["locomo:s1:D1:1"],
        ["locomo:s1:D1:1", "locomo:s1:D2:1"],
        ["locomo:s1:D1:2"],
    ]
    assert [one.category for one in first.questions] == ["4", "1", "3"]
    assert (second.name, second.memories[0].draft.key) == ("s2", "locomo:s2:D1:1")


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_jsonl_questions_name_memories_by_id_or_key(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "set.jsonl",
        {"query": "boat", "relevant": ["m1", "canoe"], "category": "far"},
        {"id": "m1", "content": "A canoe is red.", "type": "episodic"},
        {"key": "canoe", "content": "It leaks."},
    )
    [conversation] = reading(path).conversations
    assert conversation.questions[0].relevant == {one.draft.key for one in conversation.memories}
    assert (conversation.questions[0].category, conversation.name) == ("far", "set")
    assert conversation.memories[0].draft.type == "episodic"


MEMORY = {"id": "m", "content": "x"}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([MEMORY], "holds no question"),
        ([MEMORY, {"query": "x", "relevant": ["n"]}], "line 2: relevant: names 'n', and no memory"),
        ([MEMORY, {"query": "x", "relevant": []}], "line 2: relevant: is not a list"),
        ([MEMORY, {"query": "x", "relevant": "m"}], "line 2: relevant: is not a list"),
        ([MEMORY, {"query": " ", "relevant": ["m"]}], "line 2: query: is not a text"),
        ([MEMORY, {"id": "m", "content": "y"}], "line 2: id: 'm' stands for two memories"),
        ([{"content": ""}], "line 1: content: is empty"),
        ([MEMORY, {"answer": 42}], "line 2: is neither a memory with `content` nor a question"),
        ([MEMORY, [1]], "line 2: is neither"),
        ([{"content": "x" * 7_000_000}], "line 1: has more than"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, rows: list[object], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        reading(lines(tmp_path / "set.jsonl", *rows))
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"a": 1}', '[{"sample_id": "s"}]'])
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        reading(path)


# --- our own set ------------------------------------------------------------------------------------------------------


def test_the_paraphrases_share_few_words_with_what_answers_them() -> None:
    [conversation] = reading(PARAPHRASES).conversations
    texts = {one.draft.key: one.draft.content for one in conversation.memories}
    shares: dict[str, list[float]] = {"far": [], "near": []}
    for one in conversation.questions:
        shares[str(one.category)].append(shared_stems(one.text, [texts[name] for name in one.relevant]))
    assert len(texts) >= 150
    assert len(shares["far"]) >= 150
    assert sum(shares["far"]) / len(shares["far"]) < 0.02
    assert min(shares["near"]) > 0
    assert sum(shares["near"]) / len(shares["near"]) < 0.5
