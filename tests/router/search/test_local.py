"""Searching the local layer: which memories answer, in what order, and how a typo is read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.local import text_index
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.models import Hit, Memory, MemoryStatus, MemoryType, Query
from kingly_memory.ports import Counted, Matches, Row, Transaction
from kingly_memory.router.lifecycle.alive import UsageBuffer
from kingly_memory.router.search import local
from kingly_memory.router.search.local import LocalAnswer, LocalSearch
from tests.store_samples import NOON, NOON_S, ask, memory, put, set_facet

NOTES = (
    "deployment of the scheduler failed because the registry was unreachable",
    "the scheduler keeps a queue of waiting jobs",
    "grandmother's recipe for plum cake",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    store = DiskStore(tmp_path / "home", durability="process")
    yield store
    store.close()


@pytest.fixture
def noted(store: DiskStore) -> DiskStore:
    put(store, *(memory(note) for note in NOTES))
    return store


def search(store: DiskStore, text: str, now_s: float = NOON_S, **filters: Any) -> LocalAnswer:
    return LocalSearch(store.reader).search(ask(text, **filters), now_s=now_s, budget_s=60)


def answers(store: DiskStore, text: str, now_s: float = NOON_S, **filters: Any) -> list[str]:
    return [hit.memory.content for hit in search(store, text, now_s, **filters).hits]


def live(store: DiskStore, ends_s: float, *memories: Memory, sliding_s: float | None = None) -> None:
    """Save them with a lifetime that ends then."""

    def change(transaction: Transaction) -> None:
        for one in memories:
            transaction.save(one, MemoryStatus.LIVE)
            transaction.set_facet("lifetime", one.id, Lifetime(ends_s, sliding_s).to_json())

    store.write(change).result()


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COG-059")
def test_memory_with_more_of_the_asked_words_comes_first(noted: DiskStore) -> None:
    assert answers(noted, "scheduler deployment") == [NOTES[0], NOTES[1]]


def test_other_forms_of_a_word_are_found(noted: DiskStore) -> None:
    assert answers(noted, "deployments") == [NOTES[0]]


def test_stop_words_find_nothing_beside_other_words(noted: DiskStore) -> None:
    assert answers(noted, "the recipe of") == [NOTES[2]]


def test_question_without_an_answer_has_none(noted: DiskStore) -> None:
    assert answers(noted, "zzzzzz") == []
    assert answers(noted, "") == []


@pytest.mark.requirement("KNG-015")
def test_hit_carries_its_memory_whole(store: DiskStore) -> None:
    one = memory("violet", type=MemoryType.PROCEDURAL, tags=("t",), metadata={"a": 1})
    put(store, one)
    (hit,) = search(store, "violet").hits
    assert hit.memory == one


@pytest.mark.parametrize(("text", "asked"), [("東京タワーに行った", "東京タワー"), ("party 🎉", "🎉")])
@pytest.mark.parametrize("wanted", [{"tags": ("a",)}, {"metadata": {"by": "x"}}, {"until": NOON}])
def test_what_a_filter_admits_is_found_behind_all_that_it_does_not(
    store: DiskStore, text: str, asked: str, wanted: dict[str, Any]
) -> None:
    old = [memory(f"{text} {number}", tags=("a",), metadata={"by": "x"}) for number in range(3)]
    later = NOON + timedelta(days=1)
    put(store, *old, *(memory(f"{text} {number} again", created_at=later) for number in range(200)))
    assert sorted(answers(store, asked, **wanted)) == sorted(one.content for one in old)


@pytest.mark.parametrize(
    "wanted",
    [{"by": "x"}, {"n": {"$lt": 3}}, {"n": {"$in": [0, 1, 2]}}, {"n": {"$ne": 5}, "by": "x"}, {"of": {"a": [1]}}],
)
def test_a_filter_is_asked_before_memories_are_read(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any]
) -> None:
    old = [memory(f"parcel {number}", metadata={"n": number, "by": "x", "of": {"a": [1]}}) for number in range(3)]
    put(store, *old, *(memory("parcel", metadata={"n": 5, "by": "y"}) for _ in range(500)))
    read: list[int] = []
    whole = text_index.rows_at

    def noted(connections: Any, positions: Sequence[int], deadline_s: float, cut: list[bool]) -> Iterator[Row]:
        read.extend(positions)
        return whole(connections, positions, deadline_s, cut)

    monkeypatch.setattr(text_index, "rows_at", noted)
    assert len(answers(store, "parcel", metadata=wanted)) == 3
    assert len(read) == 3


def test_a_typo_is_repaired_to_what_the_project_writes_whatever_is_filtered(store: DiskStore) -> None:
    put(store, memory("the parcel", metadata={"by": "x"}), *(memory(f"parcel {number}") for number in range(20)))
    assert answers(store, "parcle", metadata={"by": "x"}) == ["the parcel"]


# --- typos --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typo", "word", "found"),
    [
        ("schedluer", "scheduler", [NOTES[1], NOTES[0]]),
        ("shceduler", "scheduler", [NOTES[1], NOTES[0]]),
        ("recpie", "recipe", [NOTES[2]]),
        ("unreachabel", "unreachable", [NOTES[0]]),
        ("grandmothre", "grandmother", [NOTES[2]]),
    ],
)
def test_mistyped_word_is_repaired_to_one_that_exists(noted: DiskStore, typo: str, word: str, found: list[str]) -> None:
    answer = search(noted, typo)
    assert answer.repaired == {typo: word}
    assert sorted(hit.memory.content for hit in answer.hits) == sorted(found)


@pytest.mark.parametrize(
    ("asked", "meant", "other"),
    [
        ("one", "the red one", "the cat is on the mat on the bed"),
        ("ones", "which one was it", "it stands on a shelf"),
        ("outing", "two outings in May", "the lights went out and out"),
        ("hi", "hi everybody", "his coat and his hat"),
        ("use", "we used a saw", "they told us and us alone"),
        ("wa", "the wa of tea", "it was late"),
    ],
)
def test_a_word_with_the_same_stem_by_chance_is_another_word(
    store: DiskStore, asked: str, meant: str, other: str
) -> None:
    put(store, memory(meant), *(memory(f"{other} {number}") for number in range(60)), memory("zebra"))
    assert answers(store, asked) == [meant]
    with_zebra = search(store, f"{asked} zebra", limit=20).hits
    assert {hit.memory.content for hit in with_zebra} == {meant, "zebra"}
    assert with_zebra[0].relevance == pytest.approx(0.5)


@pytest.mark.parametrize(("asked", "said"), [("go", "going home"), ("ids", "the id of it"), ("owns", "I own a truck")])
def test_forms_of_short_words_are_the_same_word(store: DiskStore, asked: str, said: str) -> None:
    put(store, memory(said), memory("something else"))
    assert answers(store, asked) == [said]


def test_stop_words_that_are_all_that_is_asked_are_found(store: DiskStore) -> None:
    put(store, memory("to be or not to be"), memory("something else"))
    assert answers(store, "to be") == ["to be or not to be"]


def test_a_repaired_word_weighs_the_square_of_its_likeness(noted: DiskStore) -> None:
    wording = LocalSearch(noted.reader).word(ask("plum recpie"), budget_s=60)
    likeness = 2 * 5 / 12  # five of six letters stand in the same order
    assert [term.weight for term in wording.terms] == [1.0, pytest.approx(likeness**2)]


def test_word_that_exists_is_not_repaired(store: DiskStore) -> None:
    put(store, memory("the cat sat"), memory("the catalogue"), memory("cast"))
    answer = search(store, "cats catalogue")
    assert answer.repaired == {}


@pytest.mark.parametrize("text", ["xyz", "qqqqqqqqqq"])
def test_word_like_no_other_stays_as_it_is(noted: DiskStore, text: str) -> None:
    assert search(noted, text).repaired == {}


def test_word_of_another_project_is_not_offered_as_a_repair(store: DiskStore) -> None:
    put(store, memory("hunter2secret", project="beta"), memory("hunters gather"))
    assert search(store, "hunter2secrte").repaired == {}


class Repairs:
    """A reader that notes what typo repair reads of the vocabulary, lets time pass meanwhile, and what time is left."""

    def __init__(self, store: DiskStore, monkeypatch: pytest.MonkeyPatch, reading_s: float = 0.0) -> None:
        self.asked: list[tuple[int, str]] = []
        self.left_s: list[float] = []
        self._reader, self._reading_s = store.reader, reading_s
        self._now_s = time.monotonic()
        monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: self._now_s))

    def vocabulary(self, length: int, limit: int, first: str = "") -> list[str]:
        self._now_s += self._reading_s
        self.asked.append((length, first))
        assert limit <= 20_000
        return self._reader.vocabulary(length, limit, first)

    def matches(
        self, query: Query, terms: Sequence[str], limit: int, offset: int, deadline_s: float, **counted: Any
    ) -> Matches:
        self.left_s.append(deadline_s - self._now_s)
        return self._reader.matches(query, terms, limit, offset, deadline_s, **counted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def test_typos_take_half_of_the_budget_and_known_words_are_still_found(
    noted: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Repairs(noted, monkeypatch, reading_s=20)
    question = ask("grandmothre recpie schedluer plum")
    answer = LocalSearch(reader).search(question, now_s=NOON_S, budget_s=60)
    assert len(reader.asked) == 2
    assert answer.cut
    assert [hit.memory.content for hit in answer.hits] == [NOTES[2]]


def test_looking_up_has_its_share_even_when_one_repair_took_it_all(
    noted: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Repairs(noted, monkeypatch, reading_s=90)
    answer = LocalSearch(reader).search(ask("grandmothre plum"), now_s=NOON_S, budget_s=60)
    assert [hit.memory.content for hit in answer.hits] == [NOTES[2]]
    assert reader.left_s == [pytest.approx(11.25)]


class Foresight(Repairs):
    """A reader that answers with the words as they were typed while it counts them."""

    def frequencies(self, query: Query, terms: Sequence[str], *given: Any, **named: Any) -> Counted:
        return self._reader.frequencies(query, terms, *given, **named)._replace(found=({}, Matches(())))


def test_what_was_found_by_words_as_they_were_typed_is_no_answer_where_one_was_repaired(
    noted: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = LocalSearch(Foresight(noted, monkeypatch))
    assert search.search(ask("plum"), now_s=NOON_S, budget_s=60).hits == ()
    found = search.search(ask("grandmothre"), now_s=NOON_S, budget_s=60)
    assert found.repaired
    assert found.hits


@pytest.mark.requirement("L9")
@pytest.mark.parametrize("asked", ["Größe", "größe", "GRÖSSE", "grosse", "Straße", "strasse"])
def test_a_word_with_a_sharp_s_is_found_however_it_is_spelt(store: DiskStore, asked: str) -> None:
    put(store, memory("Die Größe der Wohnung"), memory("Die Strasse am Fluss"), memory("Ein Haus im Grünen"))
    (hit,) = search(store, asked).hits
    assert hit.memory.content[4] == asked[0].upper()
    assert hit.relevance == pytest.approx(1.0)


# --- beginnings of words ------------------------------------------------------------------------------------------


@pytest.mark.requirement("L9")
@pytest.mark.parametrize(
    ("asked", "found", "repaired"),
    [
        ("reconcil", ["The nightly reconciliation of payments"], {"reconcil": "reconciliation"}),
        ("inv exp", ["The invoice export runs at noon"], {"inv": "invoice", "exp": "export"}),
        ("kubern", ["Kubernetes runs in Frankfurt"], {"kubern": "kubernetes"}),
    ],
)
def test_the_beginning_of_a_word_finds_it(
    store: DiskStore, asked: str, found: list[str], repaired: dict[str, str]
) -> None:
    put(
        store,
        memory("The nightly reconciliation of payments"),
        memory("The invoice export runs at noon"),
        memory("Kubernetes runs in Frankfurt"),
        memory("A walk along the river"),
    )
    answer = search(store, asked)
    assert [hit.memory.content for hit in answer.hits[:1]] == found
    assert answer.repaired == repaired


@pytest.mark.requirement("L9")
def test_the_beginning_of_a_word_is_completed_with_all_that_the_project_has(store: DiskStore) -> None:
    put(store, memory("expense report"), memory("export report"), memory("expert report"), memory("a report"))
    assert set(answers(store, "exp")) == {"expense report", "export report", "expert report"}


def test_a_word_of_another_project_does_not_complete_one(store: DiskStore) -> None:
    put(store, memory("hunter2secret swordfish", project="beta"), memory("hunters gather"))
    answer = search(store, "swordf")
    assert answer.repaired == {}
    assert not answer.hits


def test_of_many_unknown_words_eight_are_completed(store: DiskStore) -> None:
    put(store, memory(" ".join(f"{letter}bcdefgh" for letter in "klmnopqrst")))
    answer = search(store, " ".join(f"{letter}bcde" for letter in "klmnopqrst"))
    assert len(answer.repaired) == 8


def test_a_word_that_the_project_has_is_not_completed(store: DiskStore) -> None:
    put(store, memory("the inv field of a row"), memory("the invoice"))
    answer = search(store, "inv")
    assert answer.repaired == {}
    assert [hit.memory.content for hit in answer.hits] == ["the inv field of a row"]


# --- which answer -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-022")
def test_expired_memories_are_left_out_from_the_instant_they_end(store: DiskStore) -> None:
    live(store, NOON_S, memory("violet"))
    assert answers(store, "violet", NOON_S - 0.001) == ["violet"]
    assert answers(store, "violet", NOON_S) == []


def test_use_that_is_not_written_down_yet_keeps_a_sliding_lifetime_going(store: DiskStore) -> None:
    sliding, fixed = memory("violet sliding"), memory("violet fixed")
    live(store, NOON_S, sliding, sliding_s=60.0)
    live(store, NOON_S, fixed)
    usage = UsageBuffer("kingly")
    usage.note([sliding.id, fixed.id], NOON_S - 1)
    searching = LocalSearch(store.reader, usage)
    found = searching.search(ask("violet"), now_s=NOON_S + 1, budget_s=60).hits
    assert [hit.memory.content for hit in found] == ["violet sliding"]


def test_archived_forgotten_and_cached_memories_answer_as_their_status_says(store: DiskStore) -> None:
    for status in MemoryStatus:
        put(store, memory(f"violet {status}"), status=status)
    assert sorted(answers(store, "violet")) == ["violet cached", "violet live"]
    assert sorted(answers(store, "violet", include_archived=True)) == [
        "violet archived",
        "violet cached",
        "violet live",
    ]


def test_archived_memory_has_no_lifetime_to_outlive(store: DiskStore) -> None:
    one = memory("violet")
    put(store, one, status=MemoryStatus.ARCHIVED)
    set_facet(store, "lifetime", one.id, Lifetime(NOON_S - 1).to_json())
    assert answers(store, "violet", include_archived=True) == ["violet"]


def test_living_memory_is_found_behind_pages_of_expired_ones(store: DiskStore) -> None:
    live(store, NOON_S - 1, *(memory("violet violet") for _ in range(120)))
    put(store, memory("violet among many other words that make it rank last"))
    assert len(answers(store, "violet", limit=3)) == 1


def test_limit_is_kept(store: DiskStore) -> None:
    put(store, *(memory(f"violet {number}") for number in range(30)))
    assert len(answers(store, "violet", limit=7)) == 7


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"types": (MemoryType.WORKING,)}, "violet working"),
        ({"tags": ("red", "blue")}, "violet tagged"),
        ({"agent": "fox"}, "violet by fox"),
        ({"context_id": "c1"}, "violet in c1"),
        ({"since": NOON + timedelta(days=1)}, "violet late"),
        ({"until": NOON - timedelta(days=1)}, "violet early"),
        ({"project": "beta"}, "violet elsewhere"),
    ],
)
def test_every_filter_narrows(store: DiskStore, filters: dict[str, Any], expected: str) -> None:
    put(store, memory("violet working", type=MemoryType.WORKING), memory("violet tagged", tags=("blue", "x", "red")))
    put(store, memory("violet by fox", agent="fox"), memory("violet in c1", context_id="c1"))
    put(store, memory("violet late", created_at=NOON + timedelta(days=2)))
    put(store, memory("violet early", created_at=NOON - timedelta(days=2)))
    put(store, memory("violet elsewhere", project="beta"))
    assert answers(store, "violet", **filters) == [expected]


# --- scores -------------------------------------------------------------------------------------------------------


def check_scores(hits: tuple[Hit, ...]) -> None:
    relevances = [hit.relevance for hit in hits]
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 < relevance <= 1 for relevance in relevances)
    assert all(hit.scores["bm25"] > 0 for hit in hits)


@pytest.mark.requirement("KNG-014")
@given(st.lists(st.sampled_from("scheduler deployment plum registry jobs unreachabel the zzzz 🎉".split()), min_size=1))
def test_relevance_is_in_bounds_and_descending(scored: DiskStore, asked: list[str]) -> None:
    check_scores(search(scored, " ".join(asked)).hits)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskStore]:
    store = DiskStore(tmp_path_factory.mktemp("scored"), durability="process")
    put(store, *(memory(note) for note in NOTES), memory("jobs jobs jobs"), memory("done 🎉"), memory("完成 jobs"))
    yield store
    store.close()


def test_answer_that_holds_all_asked_words_has_full_relevance(noted: DiskStore) -> None:
    assert search(noted, "plum cake recipe").hits[0].relevance == pytest.approx(1.0)
    assert search(noted, "plum zebra xylophone quagga").hits[0].relevance == pytest.approx(0.25)
