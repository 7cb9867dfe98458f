"""Which rows are looked at when there are too many to weigh, or too long ones to read: never another project's, and
none is lost where there is time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kingly_memory.adapters.local import sql, text_index
from kingly_memory.adapters.local.connections import Connections
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.ports import Match
from kingly_memory.router.search.local import LocalSearch
from tests.store_samples import NOON_S, ask, contents, match, memory, put, set_facet, soon

LONG = "long " * 20_000


texts = st.lists(st.sampled_from(["amber", "beryl", "coral", "diamond"]), min_size=1, max_size=4).map(" ".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.tuples(st.lists(texts, max_size=4), st.lists(texts, max_size=4)),
    asked=texts,
    limits=st.tuples(st.integers(0, 40), st.integers(-1, 3)),
)
def test_whatever_is_too_much_to_weigh_a_project_finds_all_that_is_its_own_and_nothing_else(
    shared: DiskStore,
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[list[str], list[str]],
    asked: str,
    limits: tuple[int, int],
) -> None:
    for name, value in zip(("WEIGHED", "FEW"), limits, strict=True):
        monkeypatch.setattr(text_index, name, value)
    own, foreign = said
    a, b = memory().id, memory().id  # as project names that no other example has
    put(shared, *(memory(text, a) for text in own), *(memory(text, b) for text in foreign))
    terms = list(dict.fromkeys(asked.split()))
    found = contents(match(shared, *terms, project=a))
    assert sorted(found) == sorted(text for text in own if set(text.split()) & set(terms))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.tuples(st.lists(texts, max_size=6), st.lists(texts, max_size=4)),
    asked=texts,
    limits=st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from([2, 5, 1_000])),
)
def test_without_the_older_ones_that_hold_one_frequent_word_alone_the_best_are_the_same(
    shared: DiskStore,
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[list[str], list[str]],
    asked: str,
    limits: tuple[int, int, int],
) -> None:
    (own, foreign), (frequent, latest, limit) = said, limits
    a, b = memory().id, memory().id
    put(shared, *(memory(text, a) for text in own), *(memory(text, b) for text in foreign))
    terms = list(dict.fromkeys(asked.split()))
    counted = shared.reader.frequencies(ask(project=a), terms, 10_000).rows_with
    for name, value in (("FEW", -1), ("FREQUENT", frequent), ("LATEST", latest)):
        monkeypatch.setattr(text_index, name, value)

    def found(**how: Mapping[str, int]) -> dict[str, Match]:
        page = shared.reader.matches(ask(project=a), terms, limit, 0, soon(), **how)
        return {match.row.memory.id: match for match in page.found}

    weighed, told = found(), found(rows_with=counted)
    assert len(weighed) == len(told)
    both = weighed.keys() & told.keys()
    assert [told[one].bm25 for one in both] == pytest.approx([weighed[one].bm25 for one in both])
    worst = min((match.bm25 for match in told.values()), default=0.0)
    for one in weighed.keys() - both:
        held = [term for term in terms if term in weighed[one].row.memory.content.split()]
        assert weighed[one].bm25 <= worst * (1 + 1e-9) or (len(held) == 1 and counted[held[0]] > frequent)


def test_memories_with_one_frequent_word_alone_are_looked_for_where_too_few_hold_a_rarer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    run = Connections.rows

    def noted(connections: Connections, statement: str, *more: Any, **how: Any) -> list[Any]:
        asked.append(statement)
        return run(connections, statement, *more, **how)

    for name, value in (("FEW", -1), ("FREQUENT", 40)):
        monkeypatch.setattr(text_index, name, value)
    monkeypatch.setattr(Connections, "rows", noted)
    with closing(DiskStore(tmp_path / "home", durability="process")) as store:
        put(store, *(memory(f"{word} {number}") for word in ("amber", "beryl") for number in range(30)))
        put(store, *(memory(f"amber once more {number}") for number in range(20)))
        for limit, times in ((40, 1), (10, 0)):
            asked.clear()
            store.reader.matches(ask(), ["amber", "beryl"], limit, 0, soon(), rows_with={"amber": 50, "beryl": 30})
            assert asked.count(sql.LATEST_MATCHES) == times


def test_of_memories_with_one_frequent_word_alone_the_latest_do(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FREQUENT", 10), ("LATEST", 5)):
        monkeypatch.setattr(text_index, name, value)
    many = [memory(f"amber and much that is said besides {number}") for number in range(20)]
    others = [memory("beryl") for _ in range(30)] + [memory("diamond") for _ in range(90)]
    put(store, memory("amber"), memory("amber beryl"), memory("coral"), *many, *others)
    counted = {"amber": 22, "beryl": 31, "coral": 1}
    page = store.reader.matches(ask(), list(counted), 4, 0, soon(), rows_with=counted)
    assert sorted(contents(page)) == ["amber beryl", "beryl", "beryl", "coral"]
    assert "amber" in contents(match(store, *counted, limit=4))


def test_where_nothing_was_counted_and_where_there_are_many_frequent_words_all_are_weighed(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "FREQUENT", 10)
    monkeypatch.setattr(text_index, "FEW", -1)
    said = ["amber", "beryl", "coral", "diamond", "emerald"]
    put(store, memory("amber"), *(memory(f"{word} and much that is said besides") for word in said for _ in range(120)))
    counted = dict.fromkeys(said, 121)
    for terms, rows_with in ((said[:1], None), (said, counted)):
        page = store.reader.matches(ask(), terms, 4, 0, soon(), rows_with=rows_with)
        assert ("amber" in contents(page), page.has_passed_over) == (True, False)
    page = store.reader.matches(ask(), said[:4], 4, 0, soon(), rows_with=counted)
    assert ("amber" in contents(page), page.has_passed_over) == (False, True)


def test_of_many_frequent_words_the_most_frequent_are_left_out_before_all_are_weighed(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FREQUENT", 10), ("VERY_FREQUENT", 130), ("FEW", -1)):
        monkeypatch.setattr(text_index, name, value)
    said = ["amber", "beryl", "coral", "diamond", "emerald"]
    put(store, *(memory(f"{word} and much that is said besides") for word in said for _ in range(120)))
    put(store, *(memory("emerald") for _ in range(20)), memory("emerald, and amber and beryl and much besides"))
    counted = {**dict.fromkeys(said, 121), "emerald": 141}
    page = store.reader.matches(ask(), said, 4, 0, soon(), rows_with=counted)
    assert contents(page)[0] == "emerald, and amber and beryl and much besides"
    assert "emerald" not in contents(page)
    assert page.has_passed_over


def test_very_frequent_word_is_looked_for_by_itself_only_where_no_rarer_one_is_asked_for(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FREQUENT", 10), ("VERY_FREQUENT", 20), ("FEW", -1)):
        monkeypatch.setattr(text_index, name, value)
    put(store, memory("beryl"), *(memory(f"amber {number}") for number in range(30)))
    for terms, found in ((["amber"], 4), (["amber", "beryl"], 1)):
        counted = dict(zip(terms, (30, 1), strict=False))
        assert len(store.reader.matches(ask(), terms, 4, 0, soon(), rows_with=counted).found) == found


def test_memory_that_holds_a_very_frequent_word_too_is_found_among_many_that_hold_only_the_rarer_one(
    store: DiskStore,
) -> None:
    both = memory("beryl and amber, as that was said besides")
    put(store, both, *(memory("beryl and a little that is said besides") for _ in range(60)))
    put(store, *(memory(f"amber {number}") for number in range(5_001)))
    answer = LocalSearch(store.reader).search(ask("amber beryl"), now_s=NOON_S, budget_s=60)
    assert answer.hits[0].memory.content == both.content


def test_what_was_passed_over_is_found_when_all_the_others_may_not_be_shown(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "FREQUENT", 10)
    gone = [memory(f"amber, and much more that was said, {number}") for number in range(150)]
    put(store, memory("amber of old"), *gone)
    for one in gone:
        set_facet(store, "lifetime", one.id, Lifetime(NOON_S - 1).to_json())
    answer = LocalSearch(store.reader).search(ask("amber"), now_s=NOON_S, budget_s=60)
    assert [hit.memory.content for hit in answer.hits] == ["amber of old"]


def test_of_words_that_are_everywhere_the_memory_with_all_of_them_is_found(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "WEIGHED", 5)
    both = memory("amber beryl")
    put(store, both, *(memory(word) for word in ["amber", "beryl"] * 30))
    assert contents(match(store, "amber", "beryl", limit=10))[0] == "amber beryl"


def test_rarer_word_is_weighed_when_the_other_is_everywhere(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "WEIGHED", 5)
    put(store, memory("coral"), *(memory("amber") for _ in range(30)))
    assert contents(match(store, "amber", "coral", limit=3)) == ["coral", "amber", "amber"]


def test_rows_whose_fields_are_asked_for_are_those_of_rarer_words_where_there_are_such(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read for its fields."""
    monkeypatch.setattr(text_index, "VERY_FREQUENT", 5)
    put(store, memory("coral"), memory("amber coral"), *(memory(f"amber {number}") for number in range(30)))

    def found(*terms: str, **fields: Any) -> list[str]:
        counted = {"amber": 31, "coral": 2}
        return sorted(contents(store.reader.matches(ask(**fields), terms, 40, 0, soon(), rows_with=counted)))

    assert found("amber", "coral", min_confidence=0.5) == ["amber coral", "coral"]
    assert len(found("amber", min_confidence=0.5)) == 31
    assert len(found("amber", "coral")) == 32


def test_later_pages_go_on_where_the_first_ended(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "WEIGHED", 5)
    put(store, *(memory(f"amber {number}") for number in range(30)))
    pages = [contents(store.reader.matches(ask(), ["amber"], 10, offset, soon())) for offset in (0, 10, 20)]
    assert sorted(text for page in pages for text in page) == sorted(f"amber {number}" for number in range(30))


def test_only_what_there_is_time_for_is_read_and_a_little_in_any_case(store: DiskStore) -> None:
    put(store, *(memory(f"{LONG}{number}") for number in range(9)))
    positions = [one.row.position for one in match(store, "long").found]
    assert len(store.reader.rows_at(positions, time.monotonic() - 1)) == 1
    assert len(store.reader.rows_at(positions, soon())) == 9


def test_long_rows_are_all_read_when_there_is_time(store: DiskStore) -> None:
    put(store, *(memory(f"{LONG if number % 3 else ''}long {number}") for number in range(30)))
    matches = match(store, "long")
    assert len(matches.found) == 30
    assert not matches.cut


@pytest.mark.parametrize("piece", ['"→"', "\\→", "→\n✓", "\x01🎉"])
def test_piece_that_json_writes_otherwise_is_found_as_it_was_said(store: DiskStore, piece: str) -> None:
    put(store, memory(f"say {piece} now"), memory("say → now"))
    assert contents(store.reader.containing(ask(), [piece], 9, soon())) == [f"say {piece} now"]


def test_terms_are_counted_until_the_deadline(store: DiskStore) -> None:
    put(store, *(memory("amber") for _ in range(1_500)))
    assert store.reader.frequencies(ask(), ["amber"], 1_000).rows_with == {"amber": 1_000}
    assert store.reader.frequencies(ask(), ["amber"], 1_000, time.monotonic() - 1).rows_with == {}


@pytest.mark.parametrize("few", [-1, 500])
def test_words_are_counted_alike_whether_others_have_many_rows_or_few(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(text_index, "FEW_OTHERS", few)
    put(store, memory("amber"), memory("amber beryl"), *(memory("beryl coral", "others") for _ in range(3)))
    counted = store.reader.frequencies(ask(), ["amber", "beryl", "coral", "opal"], 100).rows_with
    assert counted == {"amber": 2, "beryl": 4, "coral": 0, "opal": 0}


def test_a_word_that_another_project_stores_meanwhile_is_none_of_the_own(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, memory("amber"))
    count = text_index.TextIndex._count

    def count_later(index: text_index.TextIndex, expression: str, most: int) -> int:
        put(store, memory("opal", "others"))
        return count(index, expression, most)

    monkeypatch.setattr(text_index.TextIndex, "_count", count_later)
    assert store.reader.frequencies(ask(), ["opal"], 100).rows_with == {"opal": 0}
