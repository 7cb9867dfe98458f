"""What is put into a prompt, in which order, and why: similarity × weight × relevance + boost, within a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.attention import fence
from kingly_memory.attention.focus import Focus, Thread
from kingly_memory.attention.injection import Budget, Injection, NoteCandidate, Omission, inject, priority
from kingly_memory.attention.ratings import Rating, Ratings, relevance
from kingly_memory.models import Memory, Origin
from kingly_memory.text.writing import estimated_tokens
from tests.store_samples import NOON as NOW
from tests.store_samples import memory as sample

shares = st.floats(0, 1)


@pytest.fixture(autouse=True, scope="module")
def one_nonce() -> Iterator[None]:
    """So that two blocks of the same notes are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fence, "new_nonce", lambda: "f" * 32)
        yield


def memory(content: str, *, context: str | None = None, key: str | None = None, origin: Origin = Origin.USER) -> Memory:
    return sample(content, "app", context_id=context, key=key, origin=origin)


def candidate(content: str, similarity: float = 1.0, *, pertinence: float = 1.0, **thread: object) -> NoteCandidate:
    """One with a thread of its own, named like its content."""
    known = Thread(**{"id": content, **thread})  # type: ignore[arg-type]  # the facts a test names
    return NoteCandidate(memory(content, context=content), pertinence, similarity, known)


def put(*candidates: NoteCandidate, **how: object) -> Injection:
    said = {"agent": None, "budget": Budget(), **how}
    return inject(candidates, **said)  # type: ignore[arg-type]  # the options a test names


def contents(found: Injection, candidates: Sequence[NoteCandidate]) -> list[str]:
    """What was put in, in the order of the block."""
    said = {one.memory.id: one.memory.content for one in candidates}
    return [said[one] for one in found.put_in]


# --- the order --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-032")
@given(shares, st.floats(0, 2), st.floats(0.1, 1))
def test_priority_is_similarity_times_weight_times_relevance(similarity: float, weight: float, rated: float) -> None:
    thread = Thread("t", weight=weight, relevance=rated)
    assert priority(similarity, thread, ()).total == similarity * weight * rated


@pytest.mark.requirement("SMT-032")
@pytest.mark.parametrize(
    ("thread", "boost"),
    [
        (Thread("t", topics=("deploying",)), 0.24),
        (Thread("t", title="Deploying the api"), 0.16),
        (Thread("deploying"), 0.4),
        (Thread("t", title="deploying", topics=("Deploying",)), 0.4),
        (Thread("deploying", title="deploying", topics=("deploying",)), 0.5),
        (Thread("t", title="billing"), 0.0),
    ],
)
def test_a_focus_adds_to_the_product(thread: Thread, boost: float) -> None:
    place = priority(0.5, thread, [Focus("deploying", 0.8)])
    assert place.total == pytest.approx(0.5 + boost)


@pytest.mark.requirement("SMT-011")
def test_what_is_not_about_the_prompt_is_lifted_only_by_its_threads_id() -> None:
    by_topic = Thread("t", title="deploying", topics=("deploying",))
    assert priority(0.0, by_topic, [Focus("deploying")]).total == 0
    assert priority(0.0, by_topic, [Focus("deploying"), Focus("T", 0.6)]).total == pytest.approx(0.3)


@pytest.mark.requirement("SMT-011")
def test_focused_threads_come_first_and_without_the_focus_the_most_similar() -> None:
    several = (candidate("near", 0.6), candidate("far", 0.4, topics=("auth",)))
    assert contents(put(*several, focuses=[Focus("auth")]), several) == ["far", "near"]
    assert contents(put(*several), several) == ["near", "far"]


@pytest.mark.requirement("SMT-030")
def test_a_thread_rated_as_noise_comes_later() -> None:
    rated = relevance(Ratings((Rating(useful=False),)))
    several = (candidate("noise", 0.6, relevance=rated), candidate("other", 0.5))
    assert contents(put(*several), several) == ["other", "noise"]


@pytest.mark.requirement("SMT-031")
def test_a_thread_that_nobody_rated_counts_in_full() -> None:
    unrated, unknown = Thread("t", relevance=relevance(Ratings())), None
    assert priority(0.7, unrated, ()).total == priority(0.7, unknown, ()).total == 0.7


def test_a_pinned_thread_comes_before_a_slightly_more_similar_one() -> None:
    several = (candidate("similar", 0.6), candidate("pinned", 0.5, weight=1.3))
    assert contents(put(*several), several) == ["pinned", "similar"]


@pytest.mark.requirement("SMT-051")
@given(
    st.lists(
        st.tuples(shares, shares, st.sampled_from(["a b", "c", "a b ", "\u200b", "d" * 900]), st.sampled_from(Origin)),
        max_size=8,
    ),
    st.integers(1, 1_500),
)
def test_without_focus_rating_pin_or_weight_the_block_is_that_of_the_order_by_similarity(
    found: list[tuple[float, float, str, Origin]], tokens: int
) -> None:
    """Byte for byte, whatever else is known of the threads."""
    best_first = sorted(found, key=lambda one: one[0], reverse=True)
    memories = [memory(text, origin=origin) for _, _, text, origin in best_first]
    as_listed = [NoteCandidate(one, fits) for one, (_, fits, _, _) in zip(memories, best_first, strict=True)]
    weighed = [
        NoteCandidate(one, fits, similarity, Thread(one.id, "a title", ("topic",)))
        for one, (similarity, fits, _, _) in zip(memories, best_first, strict=True)
    ]
    how = {"least_pertinence": 0.25, "budget": Budget(tokens=tokens)}
    assert put(*weighed, **how)._replace(why={}) == put(*as_listed, **how)._replace(why={})


@given(st.lists(st.tuples(shares, st.floats(0, 2), st.floats(0.1, 1), st.booleans()), min_size=1, max_size=10))
def test_nothing_that_is_out_for_want_of_room_ever_came_before_what_is_in(
    figures: list[tuple[float, float, float, bool]],
) -> None:
    several = [
        candidate(f"note {index}", similarity, weight=weight, relevance=rated, topics=("x",) * in_focus)
        for index, (similarity, weight, rated, in_focus) in enumerate(figures)
    ]
    focuses = [Focus("x")]
    found = put(*several, focuses=focuses, budget=Budget(tokens=180))
    places = {one.memory.id: priority(one.similarity, one.thread, focuses).total for one in several}
    best_first = sorted(places, key=places.__getitem__, reverse=True)
    assert [*found.put_in] == best_first[: len(found.put_in)]


# --- who is let in ----------------------------------------------------------------------------------------------------


def test_what_is_in_focus_needs_to_share_few_words_with_the_prompt() -> None:
    several = (
        candidate("focused", 0.2, pertinence=0.0, topics=("auth",)),
        candidate("named", 0.0, pertinence=0.0),
        candidate("other", 0.9, pertinence=0.1),
    )
    found = put(*several, least_pertinence=0.25, focuses=[Focus("auth"), Focus("named")])
    assert contents(found, several) == ["focused", "named"] or contents(found, several) == ["named", "focused"]
    assert list(found.left_out.values()) == [Omission.IRRELEVANT]


def test_no_focus_lets_a_stranger_in() -> None:
    one = NoteCandidate(memory("x", origin=Origin.WEB), 1.0, 1.0, Thread("x"))
    assert put(one, focuses=[Focus("x", 1.0)]).left_out == {one.memory.id: Omission.STRANGER}


def seen(one: NoteCandidate, after_s: float = 0.0) -> dict[str, float]:
    return {one.memory.id: NOW.timestamp() + after_s}


def test_what_a_session_has_seen_is_left_out() -> None:
    one = candidate("x")
    assert put(one, seen=seen(one, 1)).left_out == {one.memory.id: Omission.ALREADY}
    assert put(one).put_in == (one.memory.id,)


def test_a_later_revision_is_shown_again() -> None:
    one = candidate("x")
    assert put(one, seen=seen(one, -1)).put_in == (one.memory.id,)


def test_a_focus_on_the_thread_itself_that_is_newer_shows_it_again() -> None:
    one = candidate("x", topics=("y",))
    later = NOW + timedelta(minutes=1)
    assert put(one, seen=seen(one, 30), focuses=[Focus("X", set_at=later)]).put_in == (one.memory.id,)
    assert put(one, seen=seen(one, 90), focuses=[Focus("X", set_at=later)]).put_in == ()
    assert put(one, seen=seen(one, 30), focuses=[Focus("y", set_at=later)]).put_in == ()


def test_another_memory_that_says_what_the_session_has_seen_is_a_repeat() -> None:
    known, again = candidate("the same"), NoteCandidate(memory("The SAME "))
    found = put(known, again, seen=seen(known, 1))
    assert found.left_out == {known.memory.id: Omission.ALREADY, again.memory.id: Omission.REPEATED}


# --- what a reader is told --------------------------------------------------------------------------------------------


def heads(found: Injection) -> list[str]:
    return [line for line in found.text.split("\n") if line.startswith("| [")]


def test_a_note_names_its_thread_once_and_then_the_note_that_did() -> None:
    said = [NoteCandidate(memory(f"note {n}", context="release-42", key=f"k{n}")) for n in range(2)]
    alone = NoteCandidate(memory("alone", key="k9"))
    other = NoteCandidate(memory("merged", context="old", key="k8"), thread=Thread("release-42"))
    found = put(*said, alone, other)
    assert [line.partition("semantic, ")[2] for line in heads(found)] == [
        "k0, thread release-42",
        "k1, thread of [1]",
        "k9",
        "k8, thread of [1]",
    ]
    assert list(found.threads.values()) == ["release-42", "release-42", alone.memory.id, "release-42"]


def test_a_thread_with_an_endless_id_is_not_named() -> None:
    found = put(NoteCandidate(memory("x", context="c" * 400, key="k")))
    assert heads(found)[0].endswith("semantic, k")


def test_a_threads_id_stays_on_its_line() -> None:
    found = put(NoteCandidate(memory("x", context="a\u2028b <c>", key="k")))
    assert heads(found)[0].endswith("k, thread a b ‹c›")


@given(st.lists(st.text(st.characters(), min_size=1, max_size=60), min_size=1, max_size=6), st.integers(1, 400))
def test_no_budget_is_exceeded_whatever_the_threads_are_called(names: list[str], tokens: int) -> None:
    found = put(*(NoteCandidate(memory(name * 3, context=name)) for name in names), budget=Budget(tokens=tokens))
    assert estimated_tokens(found.text) <= tokens


@pytest.mark.parametrize(
    ("title", "content", "is_said"),
    [
        ("Ask before pushing", "Ask before pushing. Always.", False),
        (
            "Ask before pushing to the main branch of any…",
            "Ask before pushing to the main branch of any project.",
            False,
        ),
        ("Rules", "# Rules\n\nAsk before pushing", False),
        ("Quoted", "> Quoted by Ada", False),
        ("Pushing", "Ask before pushing", True),
        ("Ask", "", True),
    ],
)
def test_a_title_that_the_text_begins_with_is_not_said_twice(title: str, content: str, is_said: bool) -> None:
    one = NoteCandidate(replace(memory("x"), title=title, content=content or "x"))
    lines = put(one).text.split("\n")
    assert (f"| {title}" in lines) is is_said


def test_an_injection_is_told_as_json() -> None:
    one = candidate("x")
    told = put(one)
    assert told.to_json() == {
        "text": told.text,
        "tokens": estimated_tokens(told.text),
        "put_in": [{"id": one.memory.id, "thread_id": "x"}],
        "left_out": {},
    }


@pytest.mark.requirement("SMT-048")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("server.memory_server", "MemoryServer"),
        ("adapters.local.store", "DiskStore"),
        ("attention.injection", "inject"),
        ("attention.focus", "Thread"),
        ("lifecycle.compaction", "compact"),
    ],
)
def test_each_part_has_a_module_of_its_own(module: str, name: str) -> None:
    assert hasattr(import_module(f"kingly_memory.{module}"), name)
