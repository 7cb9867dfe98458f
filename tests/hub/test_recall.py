"""What searches of a hub find, with each of its two stores: by words alone, and as a home would."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.hub.engine import scope_name
from kingly_memory.models import MemoryStatus
from tests.hub.stores import Hub

OTHER = scope_name("default", "other")


def found(hub: Hub, query: str, **params: Any) -> list[str]:
    return [one["content"] for one in hub.find(query, **params)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The deploys were rolled back", "when did it deploy"),
        ("We went to Porto in May", "where do they go"),
        ("Das Café in der Großen Straße", "cafe grosse strasse"),
        ("in Mu\u0308nchen", "münchen"),
        ("in München", "mu\u0308nchen"),
        ("東京都に住んでいる", "東京"),
        ("東京都に住んでいる", "京都"),
        ("東京都に住んでいる", "都"),
        ("อาหารไทยอร่อย", "ไทยอร"),
        ("we won 🎉 again", "🎉"),
        ("the key is x" + "9" * 200, "x" + "9" * 200),
        ("now or never", "now"),
        ("NUL \0 and bell", "bell"),
    ],
    ids=[
        "stem",
        "other-stem",
        "marks",
        "marks-apart",
        "marks-apart-asked",
        "pair",
        "inner-pair",
        "letter",
        "thai",
        "emoji",
        "long-word",
        "stop-word",
        "nul",
    ],
)
def test_a_text_is_found_however_its_words_are_written(hub: Hub, text: str, query: str) -> None:
    hub("store_many", memories=[{"content": text}, {"content": "nothing of the kind"}])
    assert found(hub, query) == [text]


@pytest.mark.parametrize("query", ["🎉", "日本", "zebra", "' | 'x", "\\", "%", "???"])
def test_a_question_that_nothing_answers_finds_nothing(hub: Hub, query: str) -> None:
    hub("store_many", memories=[{"content": "tea at four, it's late"}, {"content": "東京都に住んでいる"}])
    assert found(hub, query) == []


def test_a_rare_word_says_more_than_two_that_many_memories_have(hub: Hub) -> None:
    chance = random.Random(1)
    common = [f"the weekly meeting number {chance.randrange(10**6)}" for _ in range(300)]
    hub("store_many", memories=[{"content": "a word on the zephyr, once said"}, *({"content": one} for one in common)])
    assert found(hub, "zephyr in the weekly meeting")[0] == "a word on the zephyr, once said"


@pytest.mark.parametrize("depth", [0.0, 0.5, 0.98])
def test_a_fact_is_found_at_any_depth_of_a_long_note(hub: Hub, depth: float) -> None:
    """The note says all words of the question somewhere, and so do short ones; together they stand in one passage."""
    chance = random.Random(2)
    filling = [
        " ".join(chance.choices("river stone lamp winter paper engine cloud garden".split(), k=12)) for _ in range(700)
    ]
    filling.insert(int(depth * len(filling)), "The spare pump hangs behind the blue door")
    hub("store_memory", content=". ".join(filling))
    hub("store_many", memories=[{"content": f"the {one} is blue"} for one in ("river", "lamp", "cloud")])
    [first, *_] = hub.find("where does the spare pump hang")
    assert len(first["content"]) > 50_000
    assert first["similarity"] == 1.0


def test_what_was_said_beside_a_hit_is_found_with_it(hub: Hub) -> None:
    said = ["Did you see the lighthouse", "Yes, it was closed", "And on Monday"]
    each = {"memory_type": "episodic", "metadata": {"context_id": "c1"}}
    hub("store_many", memories=[{"content": one, **each} for one in said])
    hub("store_memory", content="Yes, it was open", memory_type="episodic", metadata={"context_id": "c2"})
    assert found(hub, "lighthouse") == said


def test_types_are_left_out_before_the_best_are_chosen(hub: Hub) -> None:
    hub("store_memory", content="how tea is made in a pot", memory_type="procedural")
    hub("store_many", memories=[{"content": f"tea {number}"} for number in range(100)])
    assert found(hub, "tea", memory_types=["procedural"], limit=5) == ["how tea is made in a pot"]


def test_words_of_other_projects_change_neither_what_is_found_nor_how_much_it_says(hub: Hub) -> None:
    hub("store_many", memories=[{"content": "tea at four"}, {"content": "milk at four"}])
    before = hub.find("tea or milk at noon")
    hub("store_many", OTHER, memories=[{"content": f"tea at noon {number}"} for number in range(50)])
    after = hub.find("tea or milk at noon")
    assert [one["content"] for one in after] == [one["content"] for one in before] == ["milk at four", "tea at four"]
    assert hub.find("noon") == []
    assert hub.find("noon", OTHER, limit=100)[49]["similarity"] == 1.0


def test_words_of_an_earlier_text_and_of_what_was_forgotten_find_nothing(hub: Hub) -> None:
    first, second = (hub("store_memory", content=one)["memory_id"] for one in ("a canary sings", "a cellist plays"))
    hub("update_memory", memory_id=first, content="a thrush sings")
    assert (found(hub, "canary"), found(hub, "thrush")) == ([], ["a thrush sings"])
    hub("forget_memory", memory_id=first)
    hub("forget_memory", memory_id=second, purge=True)
    assert [found(hub, word) for word in ("thrush", "sings", "cellist")] == [[], [], []]
    assert hub.rows(MemoryStatus.LIVE) == 0
    hub("update_memory", memory_id=first, content="a wren sings", idempotency_key="u")
    assert found(hub, "sings") == ["a wren sings"]


def test_no_file_of_the_embedded_store_has_a_word_of_what_was_purged(tmp_path: Path) -> None:
    """Neither as it was written nor as the stem by which it was found."""
    hub = Hub(DiskStore(tmp_path / "hub", durability="process"))
    kept = hub("store_memory", content="a plain word")["memory_id"]
    titled = json.dumps({"content": "x", "metadata": {"title": "Quagga"}})
    for text in ("Xylophonists practise", "東京都に住む", "Passepartout said so. " * 100, titled):
        memory_id = hub("store_memory", content=text)["memory_id"]
        hub("update_memory", memory_id=memory_id, content="Xerxes came")
        hub("forget_memory", memory_id=memory_id, purge=True)
    files = [one.read_bytes().lower() for one in (tmp_path / "hub").rglob("*") if one.is_file()]
    for word in ("xylophon", "practis", "東京都", "住む", "passepartout", "quagga", "xerx"):
        assert not [one for one in files if word.encode() in one]
    assert hub.store.reader.row(kept) is not None
    hub.store.close()
