"""What a hub finds by meaning, with each of its two stores: what shares no word with the question."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from kingly_memory.adapters.embed import wordllama
from kingly_memory.cli.main import main
from kingly_memory.digests import content_digest
from kingly_memory.documents import name_of
from kingly_memory.errors import StoreUnreadable
from kingly_memory.hub import recall, vectors
from kingly_memory.hub.engine import scope_name
from kingly_memory.hub.process import HubProcess
from kingly_memory.hub.serve import opened
from kingly_memory.hub.vectors import Vectors
from kingly_memory.router.search.embedding import give_vectors
from kingly_memory.router.search.meaning import VectorSearch
from kingly_memory.testing import ManualClock
from tests.hub.stores import APP, STORES, Database, Hub, Server, opener
from tests.router.search.test_meaning import SubjectEmbedder

OTHER = scope_name("default", "other")
OTHERS = [f"The {name} of day {number}" for number in range(3) for name in ("invoice", "rain")]
"""Enough of other subjects that no mean hides one of them."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search waits for the vectors, however busy the machine is."""
    monkeypatch.setattr(recall, "_BUDGET_S", 30.0)


@pytest.fixture(params=STORES)
def new_hub(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Hub]]:
    """Hubs over one store, each as after a start; an embedder only where one is given."""
    open_store, made = opener(request.param, tmp_path / "hub", request), list[Hub]()

    def new(**given: Any) -> Hub:
        if made:
            made[-1].close()
        made.append(Hub(open_store(), **given))
        return made[-1]

    yield new
    made[-1].close()


@pytest.fixture
def hub(new_hub: Callable[..., Hub]) -> Hub:
    found = new_hub(embedder=SubjectEmbedder())
    found("store_many", memories=[{"content": one} for one in OTHERS])
    return found


def found(hub: Hub, query: str, scope: str = APP, **params: Any) -> list[str]:
    return [one["content"] for one in hub.find(query, scope, **params)]


@pytest.mark.requirement("N13")
def test_a_memory_is_found_by_what_it_means_as_it_is_now(hub: Hub) -> None:
    stored = hub("store_memory", content="The kitten sleeps upstairs", idempotency_key="k")["memory_id"]
    assert found(hub, "feline") == ["The kitten sleeps upstairs"]
    hub("update_memory", memory_id=stored, content="A ship sails")
    assert (found(hub, "feline"), found(hub, "boat")) == ([], ["A ship sails"])
    hub("forget_memory", memory_id=stored)
    assert found(hub, "boat") == []
    hub("update_memory", memory_id=stored, content="The cat is back", idempotency_key="u")
    assert found(hub, "feline") == ["The cat is back"]
    hub("forget_memory", memory_id=stored, purge=True)
    assert found(hub, "feline") == []


def test_words_come_first_and_types_hold(hub: Hub) -> None:
    hub("store_memory", content="A kitten sleeps", memory_type="episodic")
    hub("store_memory", content="How a feline sleeps", memory_type="procedural")
    assert found(hub, "feline") == ["How a feline sleeps", "A kitten sleeps"]
    assert found(hub, "feline", memory_types=["episodic"]) == ["A kitten sleeps"]


def test_no_project_sees_what_another_one_means(hub: Hub) -> None:
    hub("store_many", OTHER, memories=[{"content": one} for one in (*OTHERS, "The kitten sleeps")])
    assert (found(hub, "feline"), found(hub, "feline", OTHER)) == ([], ["The kitten sleeps"])


def said(text: str, at: Any) -> str:
    return json.dumps({"content": text, "metadata": {"updated_at": at.isoformat()}})


def test_of_two_texts_of_a_key_the_later_one_is_found_whichever_comes_first(hub: Hub) -> None:
    now = ManualClock().now()
    for text, at in (("The kitten", now), ("The ship", now - timedelta(hours=1))):
        hub("store_memory", content=said(text, at), idempotency_key="k")
    assert (len(found(hub, "feline")), found(hub, "boat")) == (1, [])


def test_what_was_stored_without_vectors_gets_them_at_the_next_start(
    new_hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "BATCH", 4)
    for scope in (APP, OTHER):
        new_hub()("store_many", scope, memories=[{"content": one} for one in (*OTHERS, "The kitten sleeps")])
    hub = new_hub(embedder=SubjectEmbedder())
    assert found(hub, "feline") == found(hub, "feline", OTHER) == ["The kitten sleeps"]


def test_a_store_that_cannot_be_reached_delays_the_vectors(
    new_hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    new_hub()("store_many", memories=[{"content": one} for one in (*OTHERS, "The kitten sleeps")])
    hub = new_hub(embedder=SubjectEmbedder())
    is_read = threading.Event()
    counted, failures = hub.store.reader.counted_spaces, [StoreUnreadable("the store", "is away", "wait")] * 3

    def sometimes() -> Mapping[str, int]:
        if failures:
            raise failures.pop()
        is_read.set()
        return counted()

    monkeypatch.setattr(vectors, "_AGAIN_S", 0.0)
    monkeypatch.setattr(hub.store.reader, "counted_spaces", sometimes)
    assert hub.vectors is not None
    with caplog.at_level(logging.WARNING):
        hub.vectors.start()
        assert is_read.wait(10)
    assert caplog.text.count("not found by their meaning for now") == 1
    assert any(found(hub, "feline") == ["The kitten sleeps"] for _ in range(10_000))


def test_projects_that_were_asked_last_stay_in_memory(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MOST", len(OTHERS) + 1)
    for scope in (APP, OTHER):
        hub("store_many", scope, memories=[{"content": one} for one in (*OTHERS, "The kitten sleeps")])
    assert hub.vectors is not None
    first = hub.vectors.search(APP)
    for scope in (APP, OTHER, APP):
        assert found(hub, "feline", scope) == ["The kitten sleeps"]
    assert hub.vectors.search(APP) is not first
    assert hub.vectors.search(APP) is hub.vectors.search(APP)


def test_projects_that_do_not_exist_take_no_memory(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MOST_PROJECTS", 3)
    assert hub.vectors is not None
    first = hub.vectors.search(APP)
    for number in range(3):
        assert found(hub, "feline", scope_name("default", f"nothing {number}")) == []
    assert hub.vectors.search(APP) is not first


def test_documents_have_no_vectors(hub: Hub) -> None:
    place, now, content = ["users", "lydia"], ManualClock().now().isoformat(), '{"value": "a kitten"}'
    document = {"place": place, "created_at": now, "expires_at": None, "ttl_s": None}
    name, digest = name_of(("users",), "lydia"), content_digest(content)
    hub("put_document", name=name, at=now, document=document, content=content, digest=digest)
    assert len(hub.store.reader.counted_spaces()) == 2
    embedder = SubjectEmbedder()
    fresh = Vectors(hub.store, embedder.name, lambda: embedder, 0.7)
    fresh.catch_up()
    assert sorted(embedder.embedded) == sorted(OTHERS)
    fresh.close()


def test_a_text_that_was_revised_while_it_was_searched_is_found_by_its_new_meaning(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = hub("store_memory", content="The kitten sleeps")["memory_id"]
    assert found(hub, "feline") == ["The kitten sleeps"]
    assert hub.vectors is not None
    near = VectorSearch.near

    def revised_before(self: VectorSearch, *asked: Any) -> Any:
        monkeypatch.undo()
        hub("update_memory", memory_id=stored, content="The cat sleeps")
        hub.catch_up()
        return near(self, *asked)

    monkeypatch.setattr(VectorSearch, "near", revised_before)
    hub("search_semantic_memories", query="kitten")
    assert found(hub, "feline") == ["The cat sleeps"]


def test_a_text_that_was_revised_without_vectors_is_found_by_its_new_meaning(new_hub: Callable[..., Hub]) -> None:
    hub = new_hub(embedder=SubjectEmbedder())
    hub("store_many", memories=[{"content": one} for one in OTHERS])
    stored = hub("store_memory", content="The kitten sleeps")["memory_id"]
    assert found(hub, "feline") == ["The kitten sleeps"]
    new_hub()("update_memory", memory_id=stored, content="The boat sails")
    hub = new_hub(embedder=SubjectEmbedder())
    assert (found(hub, "feline"), found(hub, "ship")) == ([], ["The boat sails"])


def test_a_vector_of_a_text_that_was_revised_meanwhile_is_not_kept(hub: Hub) -> None:
    stored = hub("store_memory", content="The kitten sleeps")["memory_id"]
    before = hub.store.reader.row(stored)
    assert before is not None
    hub("update_memory", memory_id=stored, content="The boat sails")
    hub.catch_up()
    give_vectors(hub.store, SubjectEmbedder(), APP, [before.memory])
    assert (found(hub, "feline"), found(hub, "ship")) == ([], ["The boat sails"])


def test_an_embedder_that_fails_is_told_of_and_tried_again(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    embedder, works, is_done = SubjectEmbedder(), threading.Event(), threading.Event()

    def fails_once(texts: Any, *, is_question: bool = False) -> Any:
        if texts and not works.is_set():
            works.set()
            raise ValueError("no such piece")
        is_done.set()
        return SubjectEmbedder.embed(embedder, texts, is_question=is_question)

    monkeypatch.setattr(vectors, "_AGAIN_S", 0.0)
    monkeypatch.setattr(embedder, "embed", fails_once)
    embedder.name = "another"
    fresh = Vectors(hub.store, embedder.name, lambda: embedder, 0.7)
    fresh.start()
    assert is_done.wait(10)
    fresh.close()
    assert "ValueError: no such piece" in caplog.text


def test_a_hub_that_stops_as_it_starts_does_not_wait_for_a_memory(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Vectors(hub.store, "subjects", SubjectEmbedder, 0.7)
    closing = threading.Thread(target=fresh.close)
    clear = fresh._is_woken.clear

    def closed_before() -> None:
        closing.start()
        fresh._is_closed.wait(10)
        fresh._is_woken.wait(10)
        clear()

    monkeypatch.setattr(fresh._is_woken, "clear", closed_before)
    fresh.start()
    fresh._making.join(10)
    assert not fresh._making.is_alive()
    closing.join(10)


def test_a_long_memory_is_written_by_itself(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stores meanwhile waits for one of them at most."""
    given = list[int]()

    def counted(store: Any, embedder: Any, space: str, memories: Any) -> None:
        given.append(len(memories))
        give_vectors(store, embedder, space, memories)

    hub.catch_up()
    monkeypatch.setattr(vectors, "give_vectors", counted)
    long = "The invoice of a day. " * 1_000
    hub("store_many", memories=[{"content": one} for one in (long, "A ship", "A boat", long, long)])
    hub.catch_up()
    assert given == [1, 3, 1]


def test_an_answer_without_its_vectors_says_that_it_is_partial(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(*_: Any) -> Any:
        raise StoreUnreadable("the store", "is away", "wait")

    monkeypatch.setattr(hub.store.reader.vectors, "made", unread)
    answer = hub("search_semantic_memories", query="invoice")
    assert (len(answer["memories"]), answer["partial"]) == (3, True)
    monkeypatch.undo()
    answers = (hub("search_semantic_memories", query="invoice") for _ in range(10_000))
    assert any("partial" not in one for one in answers)


def test_vectors_of_a_database_that_was_restored_are_read_anew(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kingly_memory.hub.vectors._RESTORED_S", 0.0)
    database = Database(postgres, tmp_path)
    hub = Hub(database.opened(), embedder=SubjectEmbedder())
    hub("store_many", memories=[{"content": one} for one in OTHERS])
    hub.close()
    without = Hub(database.opened())
    without("store_memory", content="A feline")
    without.close()
    database.back_up()
    hub = Hub(database.opened(), embedder=SubjectEmbedder())
    hub("store_many", memories=[{"content": f"{one}, again"} for one in OTHERS])
    assert found(hub, "boat") == []
    database.restore()
    for _ in range(10):  # as a home does: each connection of before finds out by itself
        with contextlib.suppress(StoreUnreadable):
            hub("store_memory", content="A vessel sails", idempotency_key="v")
            break
    assert found(hub, "boat") == ["A vessel sails"]
    assert found(hub, "cat") == ["A feline"]
    hub.close()


def test_a_purge_leaves_no_vector_in_the_database(postgres: Server) -> None:
    import psycopg

    postgres.empty()
    hub = Hub(opened(Path(), postgres.address), embedder=SubjectEmbedder())
    kept, gone = (hub("store_memory", content=text)["memory_id"] for text in ("A ship", "A kitten"))
    hub.find("boat")
    hub("forget_memory", memory_id=gone, purge=True)
    hub.close()
    with psycopg.connect(postgres.address) as connection:
        assert connection.execute("SELECT memory FROM km_vector").fetchall() == [(kept,)]


def test_a_hub_of_the_command_line_finds_by_meaning_what_it_kept_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if wordllama.folder() is None:
        pytest.skip("wordllama is not installed: no hub of the command line is asked by meaning")

    def call(hub: HubProcess, method: str, **params: Any) -> Any:
        return httpx.post(f"{hub.url}/mcp/call", json={"method": method, "params": params}, trust_env=False).json()

    hub = HubProcess(tmp_path / "hub")
    with hub:
        for text in ("Our cat sleeps on the sofa all day", "The deploy key rotates every Tuesday"):
            call(hub, "store_memory", content=text)
        hub.kill()
        monkeypatch.setenv("KINGLY_EMBEDDER", "auto")
        hub.start()
        answers = (call(hub, "search_semantic_memories", query="pets on furniture") for _ in range(10_000))
        [first] = next(one["memories"] for one in answers if one["memories"])
        assert first["content"] == "Our cat sleeps on the sofa all day"
        assert main(["hub", "status", "--url", hub.url]) == 0
    assert "and finds by words and meaning (wordllama1-256)" in capsys.readouterr().out
