"""CrewAI's memory over a router: the program of its docs, no model asked, private records, several writers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import pytest
from pydantic import ValidationError

from kingly_memory import SyncMemoryRouter
from kingly_memory.errors import RouterClosed
from kingly_memory.integrations.crewai import KinglyMemory
from tests.conformance import programs
from tests.conformance.refusals import NOTHING, TOO_LARGE, closed, refused

MODEL = """
from crewai import BaseLLM

class Scripted(BaseLLM):
    def call(self, messages, *_, **__):
        print(messages)
        return "Thought: I know it\\\\nFinal Answer: Noted."

MODEL = Scripted(model="scripted")
"""


@pytest.fixture
def router(tmp_path: Path) -> Iterator[SyncMemoryRouter]:
    with SyncMemoryRouter.open(tmp_path / "home", remote=False) as opened:
        yield opened


def test_what_was_said_in_one_process_is_in_the_requests_of_the_next_though_the_remote_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = programs.told("CrewAI", MODEL, tmp_path, *programs.TEXTS)
    assert "Memories from past conversations" not in first
    assert f"Task: {programs.TEXTS[0]}" in second.partition("Memories from past conversations")[2]


def test_records_are_found_by_words_in_their_scope_and_private_ones_by_their_source(router: SyncMemoryRouter) -> None:
    memory = KinglyMemory(router, root_scope="/shop")
    memory.remember("Parcels go to the office in Graz", scope="/orders", categories=["place"], importance=0.9)
    memory.remember_many(["The office in Graz closes at six", " "], scope="/offices", metadata={"n": 1})
    memory.remember("Lydia's office in Graz has no lift", private=True, source="lydia")
    found = memory.recall("Where is the office?", limit=5)
    assert {one.record.scope for one in found} == {"/shop/orders", "/shop/offices"}
    assert found[0].match_reasons == ["words", "recency", "importance"]
    assert [one.record.content for one in memory.recall("Graz office", scope="/orders")] == [
        "Parcels go to the office in Graz"
    ]
    assert len(memory.recall("office Graz", source="lydia")) == len(memory.recall("office", include_private=True)) == 3
    assert memory.recall(" ") == memory.recall("invoice") == []
    assert memory.list_categories() == {"place": 1}
    assert memory.extract_memories("Task: x\nResult: y") == ["Task: x\nResult: y"]
    (record,) = memory.list_records("/orders")
    memory.update(record.id, content="Parcels go to Linz")
    assert [one.record.content for one in memory.recall("Linz")] == ["Parcels go to Linz"]
    assert memory.forget(scope="/offices") == 1
    assert KinglyMemory(router, read_only=True).remember("Nothing") is None
    assert memory.info().record_count == 2


def test_records_of_a_scope_are_found_behind_better_ones_of_others(router: SyncMemoryRouter) -> None:
    memory = KinglyMemory(router)
    memory.remember_many([f"Parcel {number} waits in Graz" for number in range(5)], scope="/parcels")
    memory.remember("In Graz, on the way to Vienna and Linz, a driver once said that a parcel waits", scope="/talk")
    (found,) = memory.recall("which parcel waits in Graz", scope="/talk", limit=1)
    assert found.record.scope == "/talk"


def test_words_and_pieces_of_chinese_asked_together_are_read_to_their_end(router: SyncMemoryRouter) -> None:
    memory = KinglyMemory(router)
    memory.remember("On the way from Vienna to Linz somebody spoke of Graz and of the weather there", scope="/shop")
    memory.remember_many([text for number in range(5) for text in (f"Graz {number}", f"東京 {number}")])
    (found,) = memory.recall("Graz 東京", scope="/shop", limit=2)
    assert found.record.scope == "/shop"


def test_several_writers_lose_nothing_and_a_copy_has_the_same_store(router: SyncMemoryRouter) -> None:
    memory = KinglyMemory(router)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: KinglyMemory(router).remember(f"Fact {i}"), range(40)))
    assert deepcopy(memory._storage).count() == 40
    assert memory.info().record_count == 40
    memory.reset_all()
    assert memory.list_records() == []
    router.close()
    with pytest.raises(RouterClosed):
        memory.remember("Fact")


async def test_what_cannot_be_kept_is_refused_whole_and_a_closed_router_says_so(tmp_path: Path) -> None:
    router = SyncMemoryRouter.open(tmp_path / "home", remote=False)
    memory = KinglyMemory(router)
    await refused(
        router,
        lambda: KinglyMemory(NOTHING),
        lambda: KinglyMemory(router, root="nul\0").remember("Parcels go to Graz"),
        lambda: memory.remember_many(["Parcels go to Graz", TOO_LARGE]),
        lambda: memory.recall(NOTHING),
    )
    with pytest.raises(ValidationError):
        memory.remember("Parcels go to Graz", importance=7)
    memory.remember("Parcels go to \ud800", scope="/../a.b/nul\0")
    assert len(memory.recall("parcels", scope="/../a.b")) == len(memory.recall("parcels \ud800")) == 1
    await closed(router, lambda: memory.recall("Graz"), lambda: memory.remember("Graz"), memory.reset)
