"""Near-duplicates: which memories say the same, which of them stands, and what lies beside it then."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.lifecycle import duplicates
from kingly_memory.lifecycle.decay import Strength
from kingly_memory.lifecycle.duplicates import groups, similarity, statement
from kingly_memory.lifecycle.policies import Subject, Usage
from kingly_memory.models import Memory, MemoryType, Origin, Scope
from tests.lifecycle import samples
from tests.lifecycle.samples import NOON

LONG = "Every deploy of the shop needs two reviews and a green build"


def memory_of(content: str, number: int = 0, **said: Any) -> Memory:
    return samples.memory(number, content=content, **said)


def alike(one: str, other: str, **said: Any) -> float:
    return similarity(statement(memory_of(one)), statement(memory_of(other, **said)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Deploys need two reviews.", "deploys need 2 reviews"),
        ("Don't deploy on the shop's last day", "Do not deploy on shop's last day!"),
        ("We cannot deploy `main`", "we can not deploy main"),
        ("Run (once) the migration; then restart", "Run once the migration, then restart"),
        ("Cafe\u0301 Sol is open", "Café Sol is open"),
    ],
)
def test_the_way_of_writing_makes_no_difference(one: str, other: str) -> None:
    assert alike(one, other) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The port is 6432", "The port is 5432"),
        ("Deploys need two reviews", "Deploys need three reviews"),
        ("Ana reports to Ben", "Ben reports to Ana"),
        ("We write it in Rust", "We write it in rust"),
        ("Deploys do wait", "Deploys do not wait"),
        ("No, deploys wait", "No deploys wait"),
        ("The staging cache is cleared by cron every night", "The production cache is cleared by cron every night"),
        ("Clear the cache before the deploy", "Clear the cache after the deploy"),
        ("It was -5 degrees", "It was 5 degrees"),
        ("It costs $5", "It costs 5"),
        ("keep x > 5", "keep x < 5"),
        ("Is it done?", "Is it done"),
        ("Use the flag -v", "Use the flag -V"),
        ("the", "a"),
        ("...", "!!!"),
    ],
)
def test_what_means_something_else_is_not_alike_at_all(one: str, other: str) -> None:
    assert alike(one, other) == 0


@pytest.mark.parametrize(
    "said",
    [
        {"scope": Scope("app", "ada")},
        {"scope": Scope("app", None, "talk")},
        {"type": MemoryType.PROCEDURAL},
        {"origin": Origin.WEB},
        {"significance": 0.3},
        {"title": "Deploys"},
        {"metadata": {"status": "done"}},
        {"type": MemoryType.WORKING},
        {"metadata": {"record": "thought"}},
    ],
)
def test_the_same_words_said_elsewhere_or_otherwise_are_not_alike(said: dict[str, Any]) -> None:
    assert alike(LONG, LONG, **said) == 0


def test_what_holds_for_its_day_is_said_again_on_that_day_only() -> None:
    later = {"created_at": NOON + timedelta(days=1)}
    assert alike(LONG, LONG, **later) == 1
    assert alike("The release is tomorrow", "The release is tomorrow") == 1
    assert alike("The release is tomorrow", "The release is tomorrow", **later) == 0
    one, same_day, next_day = (
        statement(memory_of("The build failed", type=MemoryType.EPISODIC, created_at=NOON + timedelta(hours=hours)))
        for hours in (0, 3, 24)
    )
    assert one == same_day != next_day


WORDS = st.sampled_from(
    "the a please actually reminder Ana deploys Deploys don't do not can't cannot can three 3 reviews. — ok".split()
)

TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


def subject_of(content: str, number: int, **said: Any) -> Subject:
    return samples.subject(number, content=content, **said)


def grouped(subjects: list[Subject], threshold: float = 0.85) -> dict[int, list[int]]:
    """Who stands for whom, by the numbers in the ids."""
    gists: dict[Any, list[Any]] = {}
    for one in subjects:
        said = statement(one.memory)
        if said is not None:
            gists.setdefault(said.gist, []).append((one, said))
    return {
        int(group.stands.memory.id[-12:], 16): sorted(int(one.memory.id[-12:], 16) for one, _ in group.merged)
        for some in gists.values()
        for group in groups(some, threshold)
    }


def at(days: float) -> dict[str, Any]:
    return {"updated_at": NOON + timedelta(days=days)}


@pytest.mark.requirement("SMT-039")
def test_in_a_chain_nobody_is_merged_twice() -> None:
    """One ~ two ~ three, but one and three are too far from each other."""
    one, two, three = "Ask Ana for the key", "Ask Ana for the key please", "Ask Ana actually for the key please"
    assert alike(one, two) == pytest.approx(4 / 5)
    assert alike(two, three) == pytest.approx(5 / 6)
    assert alike(one, three) == pytest.approx(4 / 6)
    chain = [subject_of(text, number) for number, text in enumerate((one, two, three), start=1)]
    assert grouped(chain, 0.75) == {3: [2], 1: []}
    assert grouped(chain[::-1], 0.75) == {3: [2], 1: []}


KINDS = st.tuples(TEXTS, st.sampled_from([0.2, 0.5, 0.7, 0.9]), st.sampled_from([None, "key"]), st.booleans())


@given(st.lists(KINDS, max_size=8), st.sampled_from([0.5, 0.75, 0.85, 1.0]))
def test_everybody_is_in_one_group_and_what_stands_stays_apart_from_its_like(
    kinds: list[tuple[str, float, str | None, bool]], threshold: float
) -> None:
    subjects = [
        subject_of(text, number, significance=significance, key=key and f"{key}{number}", pinned=pinned)
        for number, (text, significance, key, pinned) in enumerate(kinds, start=1)
    ]
    found = grouped(subjects, threshold)
    everybody = sorted([*found, *(one for several in found.values() for one in several)])
    assert everybody == list(range(1, len(subjects) + 1))
    for several in found.values():
        assert all(duplicates.may_be_merged(subjects[one - 1]) for one in several)
    standing = [subjects[one - 1] for one in found]
    assert all(not several for several in grouped(standing, threshold).values())


def test_joining_loses_nothing_and_says_nothing_new() -> None:
    stands = subject_of(LONG, 1, tags=("a",), confidence=0.4, usage=Usage(2, 5.0), strength=Strength(reinforced=(1.0,)))
    other = subject_of(LONG, 2, tags=("b", "a"), significance=0.7, usage=Usage(3, 9.0), **at(1))
    other = replace(other, strength=Strength(60.0, reinforced=(0.5, 2.0)))
    joined = duplicates.merge(stands, [other])
    assert (joined.memory.tags, joined.memory.significance, joined.memory.confidence) == (("a", "b"), 0.7, 0.5)
    assert (joined.memory.revision, joined.memory.updated_at) == (2, other.memory.updated_at)
    assert (joined.usage, joined.strength.reinforced) == (Usage(5, 9.0), (0.5, 1.0, 2.0))
    assert (joined.memory.content, joined.memory.id) == (LONG, stands.memory.id)
    assert duplicates.merge(stands, [subject_of(LONG, 3, **at(9))]).memory == replace(
        stands.memory, confidence=0.5, revision=2, **at(9)
    )
    assert duplicates.merge(joined, [subject_of(LONG, 3, **at(9))]).memory == joined.memory
