"""Where a thread moves from one topic to another, told from its messages alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.attention.drift import (
    ASKED,
    by_drift,
    history,
    is_adrift,
    segments,
    telling_of,
)
from kingly_memory.ports import Line
from kingly_memory.text.writing import words
from tests.threads.samples import TOPICS


def line(text: str, tags: Sequence[str] = ()) -> Line:
    return Line("t", "", text, tuple(tags))


def said(*names: str) -> list[Line]:
    return [line(text) for name in names for text in TOPICS[name]]


@pytest.mark.parametrize("name", TOPICS)
def test_a_thread_that_stays_with_its_topic_has_no_history(name: str) -> None:
    messages = [line(text) for text in TOPICS[name]]
    assert history(messages) == ()
    assert len({one.number for one in segments(messages)}) == 1


def test_where_two_threads_are_joined_the_topic_shifts() -> None:
    """At the seam, give or take a message, in nine of ten."""
    pairs = list(combinations(TOPICS, 2))
    found = [[one.first for one in segments(said(*pair))][1:] for pair in pairs]
    seams = [len(TOPICS[one]) for one, _ in pairs]
    hits = sum(any(abs(at - seam) <= 1 for at in ends) for ends, seam in zip(found, seams, strict=True))
    assert hits / len(pairs) >= 0.9


@pytest.mark.requirement("SMT-022", "SMT-023")
def test_a_thread_of_four_topics_is_adrift_and_says_what_it_was_about() -> None:
    told = history(said("deploys", "garden", "travel", "invoices"))
    assert len(told) == 4
    assert [any(word in label for word in words) for label, words in zip(told, WORDS, strict=True)] == [True] * 4
    assert is_adrift(told)


WORDS = (("deploy", "migration"), ("tomatoes", "greenhouse", "basil"), ("vienna", "opera"), ("invoice", "customer"))


def test_a_topic_that_comes_back_is_called_the_same() -> None:
    labels = history(said("deploys", "garden", "deploys"))
    assert len(labels) == 3
    assert labels[0] == labels[2] != labels[1]


def test_tags_name_the_parts_where_they_tell_them_apart() -> None:
    messages = [line(text, (tag, "work")) for tag in ("deploys", "garden") for text in TOPICS[tag]]
    assert history(messages) == ("deploys", "garden")


def test_what_is_said_all_over_a_long_talk_holds_no_two_topics_together() -> None:
    messages = [line(f"Wow! {one.text}") for one in said("deploys", "travel", "garden", "invoices")]
    assert len(segments(messages)) == 4


def test_two_messages_are_told_apart_only_when_somebody_asks() -> None:
    two = [line("Deploys wait for two reviews"), line("The printer jams with thick paper")]
    assert len(segments(two)) == 1
    assert len(segments(two, ASKED)) == 2


def test_words_are_shown_as_they_are_written() -> None:
    texts = ["Deploying takes a while", "Deploying needs reviews", "we deploy with reviews"]
    assert telling_of(Counter(words(" ".join(texts))), 2) == ("deploying", "reviews")
    assert telling_of(Counter(words("これはテストです")), 2) in ((), ("これはテストです",))
    assert telling_of({}, 3) == ()


TEXTS = st.lists(
    st.builds(
        line,
        st.text(alphabet="abcdefgh äß😀\u3042", max_size=40),
        st.lists(st.sampled_from(["x", "y", ""]), max_size=2),
    ),
    max_size=30,
)


@given(TEXTS, st.sampled_from(["unasked", "asked"]))
def test_segments_cover_every_message_once_and_in_order(messages: list[Line], how: str) -> None:
    found = segments(messages, ASKED) if how == "asked" else segments(messages)
    assert [at for one in found for at in range(one.first, one.end)] == list(range(len(messages)))
    assert all(one.label for one in found)
    labels = {one.number: one.label for one in found}
    assert len(set(labels.values())) == len(labels)
    assert segments(messages) == segments(list(messages))


@given(TEXTS.filter(bool))
def test_however_a_thread_is_divided_each_message_is_in_one_share(messages: list[Line]) -> None:
    shares = by_drift(messages)
    assert sorted(at for one in shares for at in one) == list(range(len(messages)))
    assert all(shares)
