"""Long texts: a fact in them is found and shown wherever it stands."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import SyncMemoryRouter
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.models import MemoryStatus
from kingly_memory.router.search.local import LocalSearch
from kingly_memory.settings import Pace, Settings
from kingly_memory.text.passages import LONGEST, MEANT, OVERLAP, passages, searchable_passages
from tests.store_samples import NOON_S, ask, check_integrity, memory, put

QUICK = Settings(durability="process", pace=Pace(closing_s=0.0), embedder="none", local_search_s=5.0)
WORDS = """harbour ferry crane ledger rota window garden kettle lantern barrel signal quarry meadow timber cellar anchor
    parcel market tunnel bridge""".split()
NAMES = "Aldor Brisk Coral Dunmore Elsby Fenwick Garrow Hollis Inver Jarrow".split()


def note(of_bytes: int, facts: dict[float, str], seed: int) -> str:
    """Filler of about that size, in paragraphs under headings, with each fact at its depth (0 to 1)."""
    chance = random.Random(seed)
    parts: list[str] = []
    size, waiting = 0, sorted(facts.items())
    while size < of_bytes:
        if waiting and size >= waiting[0][0] * of_bytes:
            sentence = waiting.pop(0)[1]
        else:
            sentence = f"The {' '.join(chance.choices(WORDS, k=9))} was checked."
        end = chance.choices([" ", "\n\n", f"\n## {chance.choice(WORDS)}\n"], [12, 2, 1])[0]
        parts.append(sentence + end)
        size += len(parts[-1])
    return "".join([*parts, *(fact for _, fact in waiting)])


@pytest.mark.requirement("N4")
@pytest.mark.parametrize("of_bytes", [8_000, 32_000, 64_000])
def test_a_fact_at_any_depth_of_a_long_note_is_found_among_five_and_shown(tmp_path: Path, of_bytes: int) -> None:
    facts = {
        place / 9: f"The spare key of {name} lies under the {WORDS[place]} pot." for place, name in enumerate(NAMES)
    }
    with SyncMemoryRouter.open(home=tmp_path / "home", remote=False, project="app", settings=QUICK) as router:
        for number in range(20):
            router.store(note(of_bytes, {}, seed=number), key=f"note-{number}")
        for number in range(40):
            router.store(f"A spare key was cut for the {WORDS[number % 20]} on day {number}.")
        router.store(note(of_bytes, facts, seed=99), key="the-note")
        for place, (fact, name) in enumerate(zip(facts.values(), NAMES, strict=True)):
            found = router.search(f"where does the spare key of {name} lie", limit=5, detail="passages")
            [hit] = [hit for hit in found if hit.memory.key == "the-note"]
            assert fact.removesuffix(".") in (found.shown[hit.memory.id].text or ""), place
    check_integrity(tmp_path / "home")


def test_passages_of_a_text_that_changes_moves_or_goes_change_move_and_go_with_it(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "home", durability="process")

    def found(text: str, **filters: Any) -> list[str]:
        hits = LocalSearch(store.reader).search(ask(text, **filters), now_s=NOON_S, budget_s=60).hits
        return [hit.memory.id for hit in hits]

    one = memory(note(20_000, {0.9: "Zanzibar is the password."}, seed=1))
    put(store, one)
    assert found("zanzibar") == [one.id]
    store.write(lambda change: change.set_status([one.id], MemoryStatus.ARCHIVED)).result()
    assert (found("zanzibar"), found("zanzibar", include_archived=True)) == ([], [one.id])
    put(store, memory(note(20_000, {0.5: "Zanzibar is no password."}, seed=2), id=one.id, revision=2))
    assert found("zanzibar") == [one.id]
    store.write(lambda change: change.erase(one.id)).result()
    assert found("zanzibar") == []
    store.close()
    check_integrity(tmp_path / "home")


@given(
    st.lists(
        st.sampled_from(["word ", "long" * 99, "end. ", "\n\n", "\n# Head\n", "終わり。", "a\tb"]), max_size=600
    ).map("".join),
    st.sampled_from([LONGEST, MEANT]),
)
def test_passages_cover_a_text_in_order_and_overlap_a_little(text: str, longest: int) -> None:
    found = passages(text, longest)
    assert bool(found) == (len(text) > longest)
    assert [begin for begin, _ in found] == sorted({begin for begin, _ in found})
    assert all(0 < end - begin <= longest for begin, end in found)
    assert all(after - longest * OVERLAP <= begin <= after for (_, after), (begin, _) in pairwise(found))
    assert not found or (found[0][0], found[-1][1]) == (0, len(text))


def test_a_passage_stands_under_the_headings_before_it_and_not_under_those_of_other_parts() -> None:
    filler = "The ledger was checked. " * 60
    text = f"# Depot\n{filler}\n## Keys\n{filler}\n### Spare\n{filler}\n## Gates\n{filler}"
    found = searchable_passages(text)
    assert [(begin, one[-9:]) for begin, one in found] == [
        (begin, text[begin:end][-9:]) for begin, end in passages(text)
    ]
    above = [one.partition("\n")[0] for _, one in found]
    assert list(dict.fromkeys(above)) == ["# Depot", "Depot", "Depot > Keys", "Depot > Keys > Spare", "Depot > Gates"]


@pytest.mark.requirement("N4")
def test_a_passage_is_found_by_a_heading_far_above_it(tmp_path: Path) -> None:
    text = (
        f"# Zanzibar depot\n{note(5_000, {}, seed=1)}\n# Lisbon depot\n{note(5_000, {0.9: 'It opens at 8.'}, seed=2)}"
    )
    with SyncMemoryRouter.open(home=tmp_path / "home", remote=False, project="app", settings=QUICK) as router:
        router.store(text.replace("\n## ", "\n"), key="depots")
        shown = router.search("when does the Lisbon depot open", detail="passages").shown
    [passage] = shown.values()
    assert "It opens at 8." in (passage.text or "")
