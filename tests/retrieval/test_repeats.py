"""Hits that say the same are one hit; of facts that change the newer one stands first, and the older one names it."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import Hit, Memory, MemoryType, SyncMemoryRouter
from kingly_memory.dataclass import replace
from kingly_memory.ids import MemoryId
from kingly_memory.models import Origin, Scope
from kingly_memory.retrieval.repeats import READ_WHOLE, fold, groups, newer_first, supersedes
from kingly_memory.validation import draft
from tests.store_samples import memory

SET = Path(__file__).parents[2] / "benchmarks" / "changed_facts.jsonl"
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def said(content: str, day: int = 0, *, origin: str = "agent", agent: str | None = None) -> Memory:
    at = BEGINNING + timedelta(days=day)
    checked = draft(content, origin=origin, agent=agent)
    return checked.memory(MemoryId(f"{day}-{content}"), "app", created_at=at, updated_at=at)


def hits(*memories: Memory) -> list[Hit]:
    return [Hit(memory, 0.9 - place / 10, ("local",)) for place, memory in enumerate(memories)]


@pytest.mark.requirement("N14", "D14")
def test_of_the_set_of_changed_facts_few_are_marked_that_both_stay_true() -> None:
    marked, there = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for line in SET.read_text("utf-8").splitlines():
        pair = json.loads(line)
        kind = (pair["half"], pair["changed"])
        there[kind] += 1
        marked[kind] += supersedes(said(pair["newer"], 1), said(pair["older"]))
    assert set(there.values()) == {50}
    assert marked["seen", False] + marked["unseen", False] <= 2
    assert marked["seen", True] >= 25
    assert marked["unseen", True] >= 16


@pytest.mark.requirement("N14", "D14")
def test_of_changes_told_in_many_voices_the_newer_stands_first_in_two_of_three_and_of_two_things_hardly_ever() -> None:
    first, there = Counter[bool](), Counter[bool]()
    for line in SET.with_stem("changed_facts_voices").read_text("utf-8").splitlines():
        pair = json.loads(line)
        ranked = newer_first(hits(said(pair["older"]), said(pair["newer"], 1)), pair["question"])
        there[pair["changed"]] += 1
        first[pair["changed"]] += ranked[0].memory.content == pair["newer"]
    assert there == {True: 84, False: 73}
    assert first[True] >= 56
    assert first[False] <= 6


@pytest.mark.requirement("N14")
def test_the_newer_of_two_facts_stands_first_and_the_older_names_it() -> None:
    old, new = said("The office is in Lindenstraße 8"), said("The office is in Gartenstraße 21 since May", 3)
    between = said("The office has a green door", 1)
    ranked = newer_first(hits(old, between, new))
    assert [hit.memory for hit in ranked] == [new, old, between]
    assert [hit.superseded_by for hit in ranked] == [None, new.id, None]
    assert ranked[0].relevance == ranked[1].relevance == 0.9


@pytest.mark.requirement("N14")
def test_each_of_three_states_of_a_fact_names_the_last_one() -> None:
    states = [said(f"The Pro plan costs {price} euros a month", day) for day, price in enumerate((29, 34, 39))]
    ranked = newer_first(hits(*states))
    assert [hit.memory for hit in ranked] == [states[2], states[0], states[1]]
    assert [hit.superseded_by for hit in ranked] == [None, states[2].id, states[2].id]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The east stairwell is locked at 19:00", "The west stairwell is locked at 22:00"),  # two things
        ("The Pro plan costs 29 euros", "The Pro plan costs 20 euros for schools"),  # some cases
        ("Shipping costs 6 euros", "Shipping costs 9 euros if the parcel is heavy"),
        ("Deploy number 3 of the harbour", "Deploy number 4 of the harbour"),  # a name
        ("The run took 42 minutes", "The run took 39 minutes"),  # what has happened
        ("In week 12 the page converted 2 percent", "In week 13 the page converted 3 percent"),
        ("Clara speaks Portuguese", "Clara speaks Polish"),  # there may be several
        ("No dogs in the office", "Guide dogs are welcome in the office, not in the kitchen"),
    ],
)
def test_what_may_both_be_true_is_left_as_it_is(older: str, newer: str) -> None:
    assert not supersedes(said(newer, 1), said(older))


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The metrics gateway listens on port 9091", "The metrics gateway listens on port 9191 now"),
        ("The Android app is at version 4.2", "The Android app is at version 4.5"),
        ("Chapter six is due on Friday", "Chapter six is due on Monday, my editor agreed"),
        ("Mei is the user's manager", "Rodrigo is the user's manager since the reorganisation"),
        ("Front-end packages come from npm", "Do not use npm any more for front-end packages"),
        ("My son is allergic to peanuts", "My son is not allergic to peanuts"),
        ("Für die Reisekosten ist Frau Köhler zuständig", "Für die Reisekosten ist Herr Yilmaz da, nicht Köhler"),
    ],
)
def test_a_value_that_is_replaced_or_taken_back_is_noticed(older: str, newer: str) -> None:
    assert supersedes(said(newer, 1), said(older))
    assert not supersedes(said(older), said(newer, 1))


def test_two_keys_are_two_things() -> None:
    old, new = said("Refunds above 200 need a signature"), said("Refunds above 300 need a signature", 1)
    assert supersedes(new, old)
    assert supersedes(replace(new, key="new"), old)
    assert not supersedes(replace(new, key="new"), replace(old, key="old"))


def test_nobody_takes_back_what_the_user_has_said_and_no_page_what_an_agent_has() -> None:
    words = ("The gateway listens on port 9091", "The gateway listens on port 9191")
    assert not supersedes(said(words[1], 1, origin="agent"), said(words[0], origin="user"))
    assert not supersedes(said(words[1], 1, origin="web"), said(words[0], origin="agent"))
    assert supersedes(said(words[1], 1, origin="user"), said(words[0], origin="agent"))
    own = ("My port is 9091", "My port is 9191")
    assert not supersedes(said(own[1], 1, agent="bob"), said(own[0], agent="ann"))


@pytest.mark.requirement("N14", "D14")
def test_a_search_puts_the_newer_fact_first_and_a_verified_one_says_that_the_older_is_contradicted(
    tmp_path: Path,
) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, project="app") as memory:
        old = memory.store("The staging database listens on port 5432, ask Ann about the staging database port")
        new = memory.store("The staging database listens on port 6432")
        for number in range(5):
            memory.store(f"Parcel {number} waits at the depot")
        found = memory.search("which port has the staging database, ask Ann")
        assert [hit.memory.id for hit in found][:2] == [new.id, old.id]
        assert found.hits[1].superseded_by == new.id
        assert found.to_json()["hits"][1]["superseded_by"] == new.id
        as_found = memory.search("which port has the staging database, ask Ann", fold=False)
        assert as_found.hits[0].memory.id == old.id
        checked = memory.search_verified("which port has the staging database")
        assert [one.memory.id for one in checked.contradicted] == [old.id]


QUESTION = "Where does choir rehearsal take place?"
REHEARSAL = said("Choir rehearsal is in the parish hall")
MOVED = said("The parish priest needs his hall, so choir rehearsal moved to the school gym", 3)


@pytest.mark.requirement("N14")
def test_what_tells_of_a_change_stands_before_what_holds_no_more_of_the_question_and_marks_nothing() -> None:
    assert not supersedes(MOVED, REHEARSAL)
    ranked = newer_first(hits(REHEARSAL, said("The parish has a choir", 1), MOVED), QUESTION)
    assert [hit.memory for hit in ranked][:2] == [MOVED, REHEARSAL]
    assert [hit.superseded_by for hit in ranked] == [None, None, None]
    assert ranked[0].relevance == ranked[1].relevance == 0.9


@pytest.mark.parametrize(
    "other",
    [
        said("The band's rehearsal moved to the school gym", 3),  # is about another thing
        said("Choir rehearsal is fun in the school gym", 3),  # tells of no change
        said("Choir rehearsal moved to the school gym", -3),  # is the earlier one
        said("Choir rehearsal moved to the school gym", 3, origin="web"),
        replace(said("Choir rehearsal moved to the school gym", 3), type=MemoryType.EPISODIC),
    ],
)
def test_what_is_no_change_of_what_was_asked_for_stays_where_it_was_found(other: Memory) -> None:
    assert [hit.memory for hit in newer_first(hits(REHEARSAL, other), QUESTION)] == [REHEARSAL, other]


@pytest.mark.requirement("N14")
def test_what_tells_of_a_change_stands_first_though_it_lacks_a_word_where_these_two_alone_hold_the_rest() -> None:
    question = "Where does the platform team sit?"
    sits = said("The platform team sits on the fifth floor")
    moved = said("Facilities packed up the platform team on Friday, they are beside the canteen now", 1)
    assert [hit.memory for hit in newer_first(hits(sits, moved), question)] == [moved, sits]
    third = said("The platform team has ten chairs", -1)
    assert [hit.memory for hit in newer_first(hits(sits, moved, third), question)] == [sits, moved, third]


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("The night bus stops here", "The day bus no longer stops at the mill", "Where does the night bus stop?"),
        (
            "Parcels to Norway take a week",
            "Parcels to Denmark take three days now",
            "How long do parcels to Norway take?",
        ),
        (
            "The key of the barn hangs outside",
            "The key of the cellar was moved inside",
            "Where is the key of the barn?",
        ),
        ("In week 12 we sold ten", "In week 13 we sold nine, down by one", "How many did we sell in week 12?"),
        ("Railway museum shop: closed", "The railway moved its depot", "When does the railway museum shop close?"),
    ],
)
def test_a_change_of_another_thing_of_the_same_kind_stays_behind(older: str, newer: str, question: str) -> None:
    pair = [said(older), said(newer, 1)]
    assert [hit.memory for hit in newer_first(hits(*pair), question)] == pair


def test_a_change_stays_behind_where_many_hits_are_about_what_was_asked_for() -> None:
    facts = [said(f"Choir rehearsal {number} is in the parish hall", -number) for number in range(5)]
    assert newer_first(hits(*facts[:4], MOVED), QUESTION)[0].memory == MOVED
    assert newer_first(hits(*facts, MOVED), QUESTION)[0].memory == facts[0]


def test_a_change_that_answers_much_less_well_stays_behind_even_where_others_lie_between() -> None:
    chain = [Hit(REHEARSAL, 1.0, ("local",)), Hit(MOVED, 0.7, ("local",))]
    last = Hit(said("Choir rehearsal moved once more, to the town hall", 5), 0.2, ("local",))
    assert [hit.memory for hit in newer_first([*chain, last], QUESTION)] == [MOVED, REHEARSAL, last.memory]


# --- what says the same -----------------------------------------------------------------------------------------------


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
    ("x" * (READ_WHOLE + 1), "x" * (READ_WHOLE + 1)),
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
    ("x" * READ_WHOLE + "1 y", "x" * READ_WHOLE + "2 y"),
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


@given(st.lists(st.text(max_size=60), max_size=12))
def test_every_memory_is_in_one_group_and_order_is_kept(texts: list[str]) -> None:
    told = groups([memory(text) for text in texts])
    assert sorted(place for group in told for place in group) == list(range(len(texts)))
    assert [group[0] for group in told] == sorted(group[0] for group in told)
    assert all(group == sorted(group) for group in told)


@pytest.mark.parametrize(
    "said",
    [
        {"title": "Ann"},
        {"tags": ("Anna",)},
        {"origin": Origin.WEB},
        {"scope": Scope("app", agent="planner")},
        {"metadata": {"speaker": "Bert"}},
        {"metadata": {"record": "task_outcome", "status": "failed"}},
    ],
)
def test_who_said_it_and_what_it_is_called_count_too(said: dict[str, Any]) -> None:
    assert len(groups([memory("yes, gladly"), memory("yes, gladly", **said)])) == 2


def test_the_same_said_by_the_same_in_two_contexts_is_one_hit_that_names_both() -> None:
    told = [memory("yes, gladly", scope=Scope("app", None, "planner", context)) for context in ("monday", "tuesday")]
    found = [Hit(one, 1, ("local",)) for one in told]
    assert fold(found)[1] == {told[0].id: (told[1].id,)}


def test_the_best_stands_for_the_others_and_the_room_goes_to_what_is_new() -> None:
    texts = ("two reviews", "Two reviews.", "three reviews", "two  reviews", "four reviews")
    found = [Hit(memory(text), 1 - place / 10, ("local",)) for place, text in enumerate(texts)]
    hits, under = fold(found)
    assert [hit.memory.content for hit in hits] == ["two reviews", "three reviews", "four reviews"]
    assert under == {found[0].memory.id: (found[1].memory.id, found[3].memory.id)}
