"""What the local search makes of a hit beyond its words: what was said beside it, whom it names, how rare they are."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kingly_memory.adapters.local import rows, text_index
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.ids import new_id
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.models import Memory, MemoryStatus, MemoryType
from kingly_memory.ports import Corpus
from kingly_memory.retrieval.lexical import rarity
from kingly_memory.router.search.local import LocalAnswer, LocalSearch
from kingly_memory.text.writing import stem
from tests.store_samples import NOON, NOON_S, ask, memory, put, set_facet, soon


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    store = DiskStore(tmp_path / "home", durability="process")
    yield store
    store.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskStore]:
    """One store for all examples of a law: each example takes projects of its own."""
    store = DiskStore(tmp_path_factory.mktemp("shared"), durability="process")
    yield store
    store.close()


def said(content: str, context_id: str | None = "talk", **fields: Any) -> Memory:
    return memory(content, **{"type": MemoryType.EPISODIC, "context_id": context_id, **fields})


def search(store: DiskStore, text: str, **filters: Any) -> LocalAnswer:
    return LocalSearch(store.reader).search(ask(text, **filters), now_s=NOON_S, budget_s=60)


def found(store: DiskStore, text: str, **filters: Any) -> list[str]:
    return [hit.memory.content for hit in search(store, text, **filters).hits]


# --- neighbours ---------------------------------------------------------------------------------------------------

TALK = ("good morning", "where did you hike", "up the Zugspitze", "lovely view", "see you soon", "bye")


def test_answer_that_follows_its_question_comes_before_one_that_follows_nothing(store: DiskStore) -> None:
    put(
        store, said("we met in spring and had tea", "other"), said("how long have you had turtles"), said("three years")
    )
    assert found(store, "how long does she have turtles")[:2] == ["how long have you had turtles", "three years"]


@pytest.mark.parametrize(
    "apart",
    [
        {"context_id": "another talk"},
        {"context_id": None},
        {"project": "beta"},
        {"type": MemoryType.SEMANTIC},
    ],
)
def test_only_what_was_said_in_the_same_context_lends(store: DiskStore, apart: dict[str, Any]) -> None:
    put(store, said("quartz"), said("beside", **apart))
    assert found(store, "quartz") == ["quartz"]
    put(store, said("later"))
    assert found(store, "quartz") == ["quartz", "later"]


@pytest.mark.parametrize("status", [MemoryStatus.FORGOTTEN, MemoryStatus.ARCHIVED])
def test_what_is_hidden_neither_borrows_nor_stands_between(store: DiskStore, status: MemoryStatus) -> None:
    put(store, said("quartz"))
    put(store, said("hidden"), status=status)
    put(store, said("next"))
    hits = search(store, "quartz").hits
    assert [hit.memory.content for hit in hits] == ["quartz", "next"]
    assert hits[1].scores["context"] == pytest.approx(hits[0].scores["bm25"] / 2)


def test_archived_neighbour_is_found_when_the_archive_is_asked(store: DiskStore) -> None:
    put(store, said("quartz"))
    put(store, said("kept away"), status=MemoryStatus.ARCHIVED)
    assert found(store, "quartz", include_archived=True) == ["quartz", "kept away"]


def test_expired_memory_neither_borrows_nor_lends(store: DiskStore) -> None:
    quartz, gone, later = said("quartz"), said("gone feldspar"), said("later")
    put(store, quartz, gone, later)
    set_facet(store, "lifetime", gone.id, Lifetime(NOON_S - 1).to_json())
    assert found(store, "quartz") == ["quartz", "later"]
    assert found(store, "feldspar") == []


@pytest.mark.parametrize("filters", [{"agent": "fox"}, {"tags": ("red",)}, {"types": (MemoryType.EPISODIC,)}])
def test_filters_hold_for_neighbours_too(store: DiskStore, filters: dict[str, Any]) -> None:
    put(store, said("before", agent="owl"), said("quartz", agent="fox", tags=("red",)), said("after", agent="owl"))
    wanted = ["quartz", "after", "before"] if "types" in filters else ["quartz"]
    assert found(store, "quartz", **filters) == wanted


def test_revision_keeps_its_place_in_the_talk(store: DiskStore) -> None:
    first, second, third = said("quartz"), said("second"), said("third")
    put(store, first, second, third)
    put(store, replace(first, content="quartz again", revision=2))
    assert found(store, "quartz") == ["quartz again", "second", "third"]


def test_neighbours_of_a_neighbour_that_ranks_too_low_are_not_read(store: DiskStore) -> None:
    put(
        store, *(said(f"quartz quartz {number}", None) for number in range(12)), said("quartz among many others and so")
    )
    put(store, said("beside"))
    assert "beside" not in found(store, "quartz", limit=5)


@pytest.mark.parametrize("between", [0, 1, 2, 40])
def test_what_was_said_beside_is_found_however_many_rows_lie_between(store: DiskStore, between: int) -> None:
    """Rows of other talks, of another project's talk of that name, and what was noted in the talk and not said."""
    others = {"other talk": said("x", "other"), "other project": said("y", project="beta")}
    noted = memory("z", type=MemoryType.SEMANTIC, context_id="talk")
    for content in TALK:
        strangers = [replace(one, id=new_id(NOON)) for _ in range(between) for one in (*others.values(), noted)]
        put(store, said(content), *strangers)
    best, *others_found = search(store, "Zugspitze").hits
    assert best.memory.content == TALK[2]
    assert all("bm25" not in hit.scores for hit in others_found)
    scores = {hit.memory.content: hit.scores for hit in (best, *others_found)}
    lent = {content: one["context"] / scores[TALK[2]]["bm25"] for content, one in scores.items() if "context" in one}
    assert lent == {TALK[3]: 0.5, TALK[4]: 0.25, TALK[1]: 0.25, TALK[0]: 0.125}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=40), st.integers(1, 3))
def test_neighbours_are_those_of_the_own_talk_however_talks_are_mixed_and_read(
    shared: DiskStore, talks: list[str], reach: int
) -> None:
    project = memory().id
    put(shared, *(said("x", talk, project=project) for talk in talks))
    rows = shared.reader.page(ask(project=project), (MemoryStatus.LIVE,), len(talks), None, oldest_first=True)
    said_in = {row.position: str(row.memory.scope.context_id) for row in rows}
    found = shared.reader.beside(ask(project=project), said_in, reach, soon())
    for position, talk in said_in.items():
        own = [at for at, one in said_in.items() if one == talk]
        place = own.index(position)
        assert found[position].before == tuple(own[max(place - reach, 0) : place][::-1])
        assert found[position].after == tuple(own[place + 1 : place + 1 + reach])


def test_who_stands_beside_is_asked_within_the_deadline(store: DiskStore) -> None:
    put(store, *(said(f"quartz {number} {'x ' * 200}") for number in range(300)))
    positions = [row.position for row in store.reader.page(ask(), (MemoryStatus.LIVE,), 300, None)]
    past = time.monotonic() - 1
    assert len(store.reader.beside(ask(), dict.fromkeys(positions, "talk"), 2, soon())) == 300
    assert len(store.reader.beside(ask(), dict.fromkeys(positions, "talk"), 2, past)) < 300
    assert len(store.reader.rows_at(positions, past)) < 300
    assert [row.position for row in store.reader.rows_at(positions[:20], soon())] == positions[:20]


words = st.text(ascii_lowercase, min_size=4, max_size=7)
turns = st.lists(
    st.tuples(st.lists(words, min_size=1, max_size=4).map(" ".join), st.sampled_from(["a", "b", None]), st.booleans()),
    min_size=1,
    max_size=8,
)


@pytest.mark.requirement("KNG-014")
@given(own=turns, foreign=turns, hidden=turns)
def test_no_result_crosses_scopes_or_shows_what_is_hidden(
    shared: DiskStore, own: list[Any], foreign: list[Any], hidden: list[Any]
) -> None:
    """The same contexts in two projects, forgotten memories among them: whatever is asked, only what is mine answers,
    in descending relevance between 0 and 1, and only with words of mine."""
    alpha, beta = memory().id, memory().id
    mine = [said(text, context, project=alpha, title="Ada, 3 May" if named else None) for text, context, named in own]
    put(shared, *mine[::2], *(said(text, context, project=beta, tags=("Ada",)) for text, context, _ in foreign))
    put(shared, *(said(text, context, project=alpha) for text, context, _ in hidden), status=MemoryStatus.FORGOTTEN)
    put(shared, *mine[1::2])
    known = {word for one in mine for word in f"{one.content} {one.title or ''}".casefold().replace(",", "").split()}
    for text, context, _ in (*own, *foreign, *hidden):
        for filters in ({}, {"context_id": context}):
            answer = search(shared, f"what did Ada say of {text}", project=alpha, **filters)
            assert {hit.memory.id for hit in answer.hits} <= {one.id for one in mine}
            assert set(answer.repaired.values()) <= known
            relevances = [hit.relevance for hit in answer.hits]
            assert relevances == sorted(relevances, reverse=True)
            assert all(0 < relevance <= 1 for relevance in relevances)
            if filters.get("context_id"):
                assert {hit.memory.scope.context_id for hit in answer.hits} <= {context}


# --- names --------------------------------------------------------------------------------------------------------


def test_named_speaker_comes_first_among_equals(store: DiskStore) -> None:
    put(store, memory("we skied", metadata={"speaker": "Ada"}), memory("we skied", metadata={"speaker": "Bob"}))
    hits = search(store, "what did Ada say of skied").hits
    assert [hit.memory.metadata["speaker"] for hit in hits] == ["Ada", "Bob"]
    assert hits[0].scores["lift"] == 1.5
    assert "lift" not in hits[1].scores


def test_what_holds_the_whole_question_comes_before_what_bears_its_name_alone(store: DiskStore) -> None:
    others = [memory(f"skied in week {number}") for number in range(20)]
    put(store, memory("skied near Bergen"), memory("Bergen, Bergen", tags=("Bergen",)), *others)
    assert found(store, "skied Bergen")[:2] == ["skied near Bergen", "Bergen, Bergen"]
    assert found(store, "walked Bergen")[:2] == ["Bergen, Bergen", "skied near Bergen"]


# --- words --------------------------------------------------------------------------------------------------------


def test_words_that_every_memory_holds_still_count(store: DiskStore) -> None:
    """The index alone gives the last two a fiftieth of the first one's score."""
    put(store, *(memory(f"deploy the api to {place}") for place in ("staging", "production", "the old cluster")))
    hits = search(store, "deploy the api to staging").hits
    assert hits[0].memory.content == "deploy the api to staging"
    assert hits[0].relevance == pytest.approx(1.0)
    assert all(0.4 < hit.relevance < 0.8 for hit in hits[1:])


def test_words_side_by_side_as_asked_come_before_the_same_words_apart(store: DiskStore) -> None:
    put(store, memory("the review of the code"), memory("a code review here"), memory("review some code"))
    assert found(store, "code review")[0] == "a code review here"


def test_longer_word_with_the_asked_beginning_counts_a_little(store: DiskStore) -> None:
    put(store, memory("auth gateway"), memory("violet authentication"), memory("violet gateway"))
    contents = found(store, "auth violet")
    assert sorted(contents) == ["auth gateway", "violet authentication", "violet gateway"]
    assert contents.index("violet authentication") < contents.index("violet gateway")


@pytest.mark.parametrize(
    ("asked", "said_so"),
    [("where did she go", "went home"), ("who ran", "I run"), ("going", "gone"), ("child", "three kids")],
)
def test_irregular_forms_are_one_word(store: DiskStore, asked: str, said_so: str) -> None:
    put(store, memory(said_so), memory("something else"))
    assert found(store, asked) == [said_so]
    assert search(store, asked).repaired == {}


def test_marks_on_letters_make_no_other_word(store: DiskStore) -> None:
    put(store, memory("the café at the corner"), memory("the cafe by the river"))
    first, second = search(store, "café").hits
    assert (first.relevance, first.scores["bm25"]) == (1.0, second.scores["bm25"])


@given(st.text(ascii_lowercase, min_size=1, max_size=12) | st.sampled_from(["relational", "hopping", "agreed", "sky"]))
def test_stems_are_those_of_the_index(index: sqlite3.Connection, word: str) -> None:
    index.execute("DELETE FROM texts")
    index.execute("INSERT INTO texts VALUES (?)", (word,))
    ((term,),) = index.execute("SELECT term FROM terms")
    assert stem(word) == term or word == "eed"


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(body, tokenize='porter unicode61')")
    connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, row)")
    yield connection
    connection.close()


# --- how much there is --------------------------------------------------------------------------------------------


def test_index_knows_how_much_it_holds(store: DiskStore) -> None:
    assert store.reader.frequencies(ask(), [], 1).corpus == Corpus(0, 0.0)
    put(store, memory("one two three", title="four", tags=("five six",)), memory("seven eight"))
    assert store.reader.frequencies(ask(), [], 1).corpus == Corpus(2, 4.0)
    put(store, *(memory("word " * 300) for _ in range(298)))
    rows, mean_words = store.reader.frequencies(ask(), [], 1).corpus
    assert (rows, round(mean_words)) == (300, 298)


@given(st.binary(max_size=200))
def test_any_record_of_how_much_there_is_reads_as_some_amount(record: bytes) -> None:
    corpus = text_index.read_corpus(record)
    assert corpus.rows >= 0
    assert rarity(3, corpus) > 0


def test_long_memories_cost_no_more_than_the_time_there_is(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second of reading for each row: what was read in time answers, and the answer says that it was cut."""
    put(store, *(said(f"quartz {'and so on ' * 4_000}") for _ in range(30)))
    read = slowly(monkeypatch)
    answer = LocalSearch(store.reader).search(ask("quartz", limit=30), now_s=NOON_S, budget_s=4)
    assert answer.cut
    assert 0 < len(answer.hits) <= len(read) <= 12


def test_short_memories_are_read_even_when_the_time_is_over(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine so crowded that the time is over before the first row still answers."""
    put(store, said("quartz"), said("beside it"), said("feldspar"))
    slowly(monkeypatch, 9.0)
    answer = LocalSearch(store.reader).search(ask("feldspar quartz"), now_s=NOON_S, budget_s=4)
    assert [hit.memory.content for hit in answer.hits] == ["feldspar", "quartz", "beside it"]
    assert not answer.cut


def slowly(monkeypatch: pytest.MonkeyPatch, row_s: float = 0.5) -> list[float]:
    """Let each row that is read take so long; returns what they took."""
    now, parse = time.monotonic(), rows.read_row
    read: list[float] = []

    def row(*columns: Any) -> Any:
        read.append(row_s)
        return parse(*columns)

    monkeypatch.setattr(rows, "read_row", row)
    monkeypatch.setattr(time, "monotonic", lambda: now + sum(read))
    return read
