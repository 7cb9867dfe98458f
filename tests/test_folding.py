"""What says the same is one hit, and what differs in anything that may matter never is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kingly_memory.ids import new_id
from kingly_memory.models import Hit, Memory, MemoryType, Origin, Scope
from kingly_memory.retrieval.snippets import READ, fold, groups

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def memory(content: str, **said: Any) -> Memory:
    known = {"title": None, "tags": (), "scope": Scope("app"), "origin": Origin.AGENT, "metadata": {}, **said}
    return Memory(
        id=new_id(NOW),
        key=None,
        content=content,
        type=MemoryType.SEMANTIC,
        significance=0.5,
        confidence=0.5,
        created_at=NOW,
        updated_at=NOW,
        revision=1,
        **known,
    )


def same(one: str, other: str) -> bool:
    return len(groups([memory(one), memory(other)])) == 1


SAME = [
    ("Deploys need two reviews.", "deploys need two reviews"),
    ("Deploys need two reviews!", "Deploys need two reviews…"),
    ("The code of the door is 6432!", "The code of the door is 6432."),
    ("It is 5!", "It is 5"),
    ("He said: “never on Friday”.", 'He said: "never on Friday"'),
    ("Don't deploy on Friday", "Don’t deploy on Friday."),
    ("Deploys need  two reviews ", " Deploys need\ttwo reviews"),
    ("milk\n\n  honey\r\n", "milk\nhoney"),
    ("2026-03-01: the disk is full", "The disk is full"),
    ("[2026-03-01] The disk is full", "The disk is full."),
    ("The port is 8080.", "the port is 8080"),
    ("caf\u00e9 opens", "cafe\u0301 opens"),
    ("配置需要两次审查。", "配置需要两次审查"),
    ("x" * (READ + 1), "x" * (READ + 1)),
]

DIFFERENT = [
    ("The port is 8080", "The port is 8081"),
    ("The port is open", "The port is not open"),
    ("No, deploys happen on Friday", "No deploys happen on Friday"),
    ("Deploys happen", "Deploys don't happen"),
    ("Alice pays Bob", "Bob pays Alice"),
    ("Ask Roberts", "Ask Robert"),
    ("not (a and b)", "(not a) and b"),
    ("It takes 1.2 s", "It takes 12 s"),
    ("It is 5' long", 'It is 5" long'),
    ("It is -5 degrees", "It is 5 degrees"),
    ("It costs $5", "It costs €5"),
    ("A grew by 5 %", "A grew by 5"),
    ("Written in C", "Written in C++"),
    ("a == b holds", "a != b holds"),
    ("The API is stable?", "The API is stable."),
    ("Deploys fail 👍", "Deploys fail 👎"),
    ("Plan A holds", "Plan holds"),
    ("It was hepatitis a", "It was hepatitis"),
    ("Give hepatitis a vaccine", "Give hepatitis vaccine"),
    ("A few deploys failed", "Few deploys failed"),
    ("The number of errors", "A number of errors"),
    ("The team lost, deploys won", "The team lost deploys, won"),
    ("Ship it. Not today", "Ship it not today"),
    ("milk\nhoney bread", "milk honey\nbread"),
    ("Ship it to US", "Ship it to us"),
    ("US ships it", "us ships it"),
    ("Polish it", "POLISH it"),
    ("Ask the Polish", "Ask the polish"),
    ("C grew", "c grew"),
    ("The token is aB3", "The token is Ab3"),
    ("Use Maße", "Use Masse"),
    ("2026-03-01: the disk is full", "2026-03-02: the disk is full"),
    ("the", "a"),
    ("It is 5! = 120", "It is 5 = 120"),
    ("…", "—"),
    ("x" * READ + "1 y", "x" * READ + "2 y"),
    ("two reviews only", "two reviews"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_how_a_text_begins_and_ends_and_the_day_of_storing_make_no_difference(one: str, other: str) -> None:
    assert same(one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_everything_else_makes_one(one: str, other: str) -> None:
    assert not same(one, other)


WORDS = st.sampled_from(
    "deploy review Robert Ann api v2 8080 3.5 don't not never no is open the a server C++ x-1".split()
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=40)
ROOM = st.sampled_from([" ", "  ", "\t"])
ENDS = st.sampled_from(["", ".", "!", "…", "..."])


@given(SENTENCES, ROOM, ENDS)
def test_room_between_words_and_the_mark_at_the_end_never_keep_the_same_words_apart(
    said: list[str], room: str, end: str
) -> None:
    assert same(" ".join(said), room.join(said) + end)


@given(SENTENCES, st.data(), st.sampled_from([",", ";", ":", ".", "!", "?", "\n"]))
def test_a_mark_between_words_always_keeps_texts_apart(said: list[str], data: st.DataObject, mark: str) -> None:
    at = data.draw(st.integers(0, len(said) - 1))
    assert not same(" ".join([*said, "end"]), " ".join([*said[:at], said[at] + mark, *said[at + 1 :], "end"]))


@given(SENTENCES, st.data())
def test_one_word_more_or_another_one_always_keeps_texts_apart(said: list[str], data: st.DataObject) -> None:
    """Whichever: a number, a name, a negation."""
    at = data.draw(st.integers(0, len(said)))
    added = data.draw(st.sampled_from(["not", "never", "8081", "3.6", "Roberta", "-8080", "v3", "C"]))
    assert not same(" ".join(said), " ".join([*said[:at], added, *said[at:]]))
    if at < len(said) and said[at] != added:
        assert not same(" ".join(said), " ".join([*said[:at], added, *said[at + 1 :]]))


@given(st.integers(-10_000, 10_000), st.integers(-10_000, 10_000), SENTENCES)
def test_numbers_that_differ_keep_texts_apart(one: int, other: int, said: list[str]) -> None:
    assume(one != other)
    assert not same(" ".join([*said, str(one)]), " ".join([*said, str(other)]))


@given(st.lists(st.text(max_size=60), max_size=12))
def test_every_memory_is_in_one_group_and_order_is_kept(texts: list[str]) -> None:
    told = groups([memory(text) for text in texts])
    assert sorted(place for group in told for place in group) == list(range(len(texts)))
    assert [group[0] for group in told] == sorted(group[0] for group in told)
    assert all(group == sorted(group) for group in told)


@given(st.text(max_size=200))
def test_a_text_says_the_same_as_itself(text: str) -> None:
    assert same(text, text)


@pytest.mark.parametrize(
    "said",
    [
        {"title": "Ann"},
        {"tags": ("Anna",)},
        {"origin": Origin.WEB},
        {"scope": Scope("app", "planner")},
        {"metadata": {"speaker": "Bert"}},
        {"metadata": {"record": "task_outcome", "status": "failed"}},
    ],
)
def test_who_said_it_and_what_it_is_called_count_too(said: dict[str, Any]) -> None:
    assert len(groups([memory("yes, gladly"), memory("yes, gladly", **said)])) == 2


def test_the_same_said_by_the_same_in_two_contexts_is_one_hit_that_names_both() -> None:
    told = [memory("yes, gladly", scope=Scope("app", "planner", context)) for context in ("monday", "tuesday")]
    hits = [Hit(one, 1, ("local",)) for one in told]
    assert fold(hits).under == {told[0].id: (told[1].id,)}


def test_the_best_stands_for_the_others_and_the_room_goes_to_what_is_new() -> None:
    texts = ("two reviews", "Two reviews.", "three reviews", "two  reviews", "four reviews")
    hits = [Hit(memory(text), 1 - place / 10, ("local",)) for place, text in enumerate(texts)]
    told = fold(hits)
    assert [hit.memory.content for hit in told.hits] == ["two reviews", "three reviews", "four reviews"]
    assert told.under == {hits[0].memory.id: (hits[1].memory.id, hits[3].memory.id)}
