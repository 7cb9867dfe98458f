"""Several hubs on one PostgreSQL: what only such a store can get wrong, and what it says when it is not there.

What a hub's PostgreSQL was to pass, and what shows it:

1. hubs and database killed under 200 callers: `faults/test_postgres_kills`, its few callers in the default run
2. the feed: `test_a_reader_of_the_feed_misses_nothing_and_sees_one_order`, and why not by an identity column:
   `test_a_number_that_is_committed_out_of_turn_would_lose_a_change`
3. one namespace, 64 callers: `test_what_waits_together_is_committed_together`; `make faults` measures the rate
4. times among 100,000 memories in 50 projects, by words, by meaning and both: what a search asks is counted by
   `test_what_a_search_asks_of_the_database_does_not_grow_with_what_it_finds`; `make faults` measures them
5. plans: `test_no_statement_reads_the_whole_of_a_table`; on Citus
   `test_on_citus_a_schema_lies_on_one_node_and_every_statement_goes_there_alone`, where `KINGLY_TEST_CITUS` names one
6. one contract: `test_engine`, `test_recall`, `test_meaning`, `test_sync`, `test_documents`, `test_logs` over both;
   LoCoMo: `benchmarks.eval`
7. odd texts: `test_awkward_texts_are_stored_or_refused_by_name`
8. isolation: `test_engine.test_scopes_see_nothing_of_each_other` and `test_recall`, over both stores
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import AF_INET, IPPROTO_TCP, SOCK_STREAM, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_USER_TIMEOUT
from typing import Any

import httpx
import pytest

from kingly_memory.errors import InvalidInput, InvalidSetting, StoreTooNew, StoreUnreadable, StoreUnwritable
from kingly_memory.hub import recall, vectors
from kingly_memory.hub.engine import refusal, scope_name
from kingly_memory.hub.envelopes import sent
from kingly_memory.hub.serve import opened, run_hub
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryStatus, Query
from kingly_memory.ports import Embedder
from kingly_memory.router.search import local
from kingly_memory.validation import KEY_LIMIT
from tests.hub import stores
from tests.hub.machines import text_at_hub
from tests.hub.stores import APP, Server, postgres_server
from tests.router.search.test_meaning import SubjectEmbedder

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: the hub is not tested on PostgreSQL")
from kingly_memory.hub.postgres import schema  # noqa: E402  # it needs psycopg
from kingly_memory.hub.postgres.failures import failure, shown  # noqa: E402
from kingly_memory.hub.postgres.store import PostgresStore, PostgresTransaction  # noqa: E402

KEYS, CALLERS, HUBS = 300, 12, 2
WRITERS, WRITES, READERS = 24, 20, 3
CITUS = os.environ.get("KINGLY_TEST_CITUS")
"""The address of a database, without options, read before tests lose what is set for them."""


class Hub(stores.Hub):
    """One of several hubs of a database."""

    def __init__(self, address: str, embedder: Embedder | None = None) -> None:
        super().__init__(opened(Path(), address), embedder)

    def found(self, query: str, scope: str = APP) -> list[str]:
        return [one["content"] for one in self.find(query, scope)]


@pytest.fixture
def hubs(postgres: Server) -> Iterator[list[Hub]]:
    postgres.empty()
    made = [Hub(postgres.address) for _ in range(HUBS)]
    yield made
    for one in made:
        one.close()


@pytest.fixture
def hubs_by_meaning(postgres: Server) -> Iterator[list[Hub]]:
    postgres.empty()
    made = [Hub(postgres.address, SubjectEmbedder()) for _ in range(HUBS)]
    yield made
    for one in made:
        one.close()


@pytest.fixture
def citus() -> Iterator[tuple[str, str]]:
    """A schema that Citus keeps on one node: its name, and its address for a hub."""
    if CITUS is None:
        pytest.skip("KINGLY_TEST_CITUS names no database with Citus: the hub is not tested on it")
    name = f"kingly_test_{os.getpid()}"
    with psycopg.connect(CITUS, autocommit=True) as connection:
        connection.execute("SET citus.enable_schema_based_sharding = on")
        connection.execute(f"CREATE SCHEMA {name}")
        try:
            yield name, f"{CITUS}?options=-csearch_path%3D{name}"
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Every statement about the tables of a hub, with its values."""
    seen: list[tuple[str, Any]] = []
    execute = psycopg.Connection.execute

    def noted(self: Any, query: str, params: Any = None, **how: Any) -> Any:
        if "km_" in query and "km_schema" not in query:
            seen.append((query, params))
        return execute(self, query, params, **how)

    monkeypatch.setattr(psycopg.Connection, "execute", noted)
    return seen


def test_what_one_hub_takes_the_other_finds_revises_and_forgets(hubs: list[Hub]) -> None:
    _take_find_revise_and_forget(*hubs)


def _take_find_revise_and_forget(first: Hub, second: Hub) -> None:
    stored = first("store_memory", content="tea at four", idempotency_key="k")["memory_id"]
    assert first.found("tea") == second.found("tea") == ["tea at four"]
    second("store_memory", content="milk at noon", idempotency_key="m")
    assert first.found("milk") == ["milk at noon"]
    assert second("store_memory", content="tea at five", idempotency_key="k")["memory_id"] == stored
    second("update_memory", memory_id=stored, content="coffee at six", idempotency_key="k.2")
    assert first.found("coffee") == ["coffee at six"]
    first("forget_memory", memory_id=stored)
    assert second.found("coffee") == []


def test_what_one_hub_takes_the_other_finds_by_its_meaning(
    hubs_by_meaning: list[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "_BUDGET_S", 30.0)
    first, second = hubs_by_meaning
    first("store_many", memories=[{"content": f"The {one} of today"} for one in ("rain", "invoice", "boat")])
    assert first.found("feline") == second.found("feline") == []
    stored = first("store_memory", content="A kitten")["memory_id"]
    assert first.found("feline") == second.found("feline") == ["A kitten"]
    first("update_memory", memory_id=stored, content="A drizzle")
    assert second.found("feline") == []


def test_a_key_that_many_callers_of_several_hubs_bring_at_once_is_one_memory(hubs: list[Hub]) -> None:
    def store(number: int) -> tuple[str, str]:
        key = f"key {number % KEYS}"
        return key, hubs[number % HUBS]("store_memory", content=f"text of {key}", idempotency_key=key)["memory_id"]

    with ThreadPoolExecutor(CALLERS) as callers:
        told = list(callers.map(store, range(KEYS * 3)))
    ids = dict(told)
    assert all(ids[key] == memory_id for key, memory_id in told)
    assert len(set(ids.values())) == KEYS == sum(hubs[0].store.reader.counted_spaces().values())


def test_no_revision_is_lost_where_several_hubs_change_one_memory_at_once(hubs: list[Hub]) -> None:
    memory_id = hubs[0]("store_memory", content="text 0")["memory_id"]

    def revise(number: int) -> int:
        told = hubs[number % HUBS]("update_memory", memory_id=memory_id, content=f"text {number}")
        return int(told["revision"])

    with ThreadPoolExecutor(CALLERS) as callers:
        numbers = list(callers.map(revise, range(1, 61)))
    assert sorted(numbers) == list(range(2, 62))
    row = hubs[0].store.reader.row(memory_id)
    assert row is not None
    texts = map(text_at_hub, [row.memory, *hubs[0].store.reader.revisions(memory_id)])
    assert set(texts) == {f"text {number}" for number in range(61)}


def test_a_reader_of_the_feed_misses_nothing_and_sees_one_order(hubs: list[Hub]) -> None:
    """The readers page by number while others write: a number that is handed out before its change is committed would
    be passed by, and one that is rolled back is a gap."""
    are_done = threading.Event()
    memory_id = hubs[0]("store_memory", content="the first")["memory_id"]
    first = hubs[0].store.reader.row(memory_id)
    assert first is not None

    def fail(tx: Any) -> None:
        tx.save(replace(first.memory, id=MemoryId("never there")), MemoryStatus.LIVE)
        raise KeyError("rolled back")

    def write(caller: int) -> list[str]:
        hub, told = hubs[caller % HUBS], list[str]()
        for number in range(WRITES):
            told.append(hub("store_memory", content=f"{caller} says {number}")["memory_id"])
            if number % 10 == 0:
                with pytest.raises(KeyError):
                    hub.store.write(fail, APP).result()
        return told

    def read(hub: Hub) -> list[str]:
        seen, since, is_last = list[str](), None, False
        while not is_last:
            is_last = are_done.is_set()
            while True:
                page = hub("list_changes", since=since, limit=7)
                since = page["until"]
                seen += [one["memory_id"] for one in page["changes"]]
                if not page["more"]:
                    break
        return seen

    with ThreadPoolExecutor(WRITERS + READERS) as threads:
        readers = [threads.submit(read, hubs[number % HUBS]) for number in range(READERS)]
        writers = [threads.submit(write, caller) for caller in range(WRITERS)]
        written = {memory_id, *(one for writer in writers for one in writer.result())}
        are_done.set()
        orders = [reader.result() for reader in readers]
    assert len(written) == WRITERS * WRITES + 1
    for order in orders:
        assert len(order) == len(set(order))
        assert set(order) == written
    assert orders[0] == orders[1] == orders[2]


class ByIdentity(PostgresTransaction):
    """Numbers its changes as an identity column does, without a lock."""

    def __init__(self, connection: Any, spaces: Any, written: Any) -> None:
        super().__init__(connection, {f"a space of its own: {id(self)}"}, written)
        self._before = self._last = dict.fromkeys(spaces, 0)
        self._positions = dict.fromkeys(spaces, -1)

    def _next(self, space: str) -> int:
        return int(self._all("SELECT nextval('by_identity')", ())[0][0])

    def finish(self) -> None:
        """The counter has come as far as what is committed."""
        super().finish()
        self._run("UPDATE km_scope SET sequence = (SELECT max(sequence) FROM km_memory)")


@pytest.mark.parametrize("is_by_identity", [False, True])
def test_a_number_that_is_committed_out_of_turn_would_lose_a_change(
    hubs: list[Hub], postgres: Server, monkeypatch: pytest.MonkeyPatch, is_by_identity: bool
) -> None:
    """One who has a number commits later than one who has the next: an identity column lets that happen, and whoever
    has read up to the later number never sees the other. The counter of a space does not."""
    first = hubs[0].store.reader.row(hubs[0]("store_memory", content="the first")["memory_id"])
    assert first is not None
    if is_by_identity:
        with psycopg.connect(postgres.address, autocommit=True) as connection:
            connection.execute("CREATE SEQUENCE by_identity START 10")
        monkeypatch.setattr("kingly_memory.hub.postgres.store.PostgresTransaction", ByIdentity)
    has_number, may_commit = threading.Event(), threading.Event()

    def slow(tx: Any) -> None:
        tx.save(replace(first.memory, id=MemoryId("slow"), key="slow"), MemoryStatus.LIVE)
        has_number.set()
        may_commit.wait(10)

    with ThreadPoolExecutor(1) as caller:
        late = hubs[0].store.write(slow, APP)
        assert has_number.wait(10)
        quick = caller.submit(hubs[1], "store_memory", content="quick")
        if is_by_identity:
            quick.result()
        before = hubs[1]("list_changes")
        may_commit.set()
        late.result()
        quick.result()
    after = hubs[1]("list_changes", since=before["until"])
    seen = {one["memory_id"] for page in (before, after) for one in page["changes"]}
    assert ("slow" in seen) is not is_by_identity
    assert len(seen) == (2 if is_by_identity else 3)


def test_memories_are_counted_as_they_come_and_go_without_looking_at_all_of_them(
    hubs: list[Hub], asked: list[tuple[str, Any]]
) -> None:
    def counted() -> int:
        asked.clear()
        told = hubs[1].store.reader.counted_spaces()
        assert [statement for statement, _ in asked if "km_memory" in statement] == []
        assert told.get(APP, 0) == len(hubs[1].store.reader.page(Query("", APP), (MemoryStatus.LIVE,), 99, None))
        return told.get(APP, 0)

    hub = hubs[0]
    one, other = (hub("store_memory", content=text, idempotency_key=text)["memory_id"] for text in ("tea", "milk"))
    hub("store_memory", content="tea", idempotency_key="tea")
    hub("update_memory", memory_id=one, content="tea at four")
    assert counted() == 2
    hub("forget_memory", memory_id=one)
    hub("forget_memory", store_key="unheard of")
    assert counted() == 1
    hub("update_memory", memory_id=one, content="tea at five")
    assert counted() == 2
    hub("forget_memory", memory_id=one, purge=True)
    hub("forget_memory", memory_id=other, purge=True)
    hub("forget_memory", memory_id=other, purge=True)
    assert counted() == 0


def test_the_words_of_a_memory_come_and_go_with_it_and_are_counted(hubs: list[Hub], postgres: Server) -> None:
    def indexed() -> tuple[list[str], int]:
        with psycopg.connect(postgres.address) as connection:
            rows = connection.execute("SELECT tsvector_to_array(tsv) FROM km_text").fetchall()
            [(words,)] = connection.execute("SELECT words FROM km_scope WHERE space = %s", (APP,)).fetchall()
        return sorted(word[len("m12345") :] for (held,) in rows for word in held), words

    hub = hubs[0]
    memory_id = hub("store_memory", content="Tea, with milk: tea!", idempotency_key="k")["memory_id"]
    assert indexed() == (["milk", "tea", "with"], 3)
    hub("update_memory", memory_id=memory_id, content="rum")
    hub("store_many", memories=[{"content": "rum", "idempotency_key": "k2"}, {"content": "x", "idempotency_key": "k2"}])
    assert indexed() == (["rum", "rum"], 2)
    long = hub("store_memory", content="The ship sails. " * 200)["memory_id"]
    assert indexed()[1] > 5
    for one in (memory_id, long):
        hub("forget_memory", memory_id=one, purge=True)
    assert indexed() == (["rum"], 1)


def test_what_waits_together_is_committed_together(hubs: list[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    """One namespace is no faster than its commits, so those who wait share one."""
    hub, batches = hubs[0], list[int]()
    transact = PostgresStore._transact

    def counted(self: PostgresStore, batch: Any, tell: Any) -> Any:
        batches.append(len(batch))
        return transact(self, batch, tell)

    monkeypatch.setattr(PostgresStore, "_transact", counted)
    with ThreadPoolExecutor(32) as callers:
        list(callers.map(lambda number: hub("store_memory", content=f"note {number}"), range(256)))
    assert sum(batches) == 256
    assert max(batches) >= 8


def test_what_a_commit_asks_of_the_database_does_not_grow_with_what_waits(
    hubs: list[Hub], asked: list[tuple[str, Any]]
) -> None:
    hub = hubs[0]
    template = hub.store.reader.row(hub("store_memory", content="tea")["memory_id"])
    assert template is not None

    def counted(number: int) -> tuple[int, int]:
        asked.clear()
        hub("store_many", memories=[{"content": "tea", "idempotency_key": f"{number} {one}"} for one in range(number)])
        by_one_call, has_begun, gate = len(asked), threading.Event(), threading.Event()

        def block(_: Any) -> None:
            has_begun.set()
            gate.wait(10)

        def store(tx: Any, memory: Memory) -> None:
            assert tx.id_of_key(APP, memory.key) is None
            tx.save(memory, MemoryStatus.LIVE)

        blocked, names = hub.store.write(block, APP), [f"{number} of {one}" for one in range(number)]
        memories = [replace(template.memory, id=MemoryId(name), key=name) for name in names]
        assert has_begun.wait(10)
        asked.clear()
        waiting = [hub.store.write(partial(store, memory=memory), APP, [memory]) for memory in memories]
        gate.set()
        for one in (blocked, *waiting):
            one.result()
        return by_one_call, len(asked)

    # the row of the space, its lock, keys, memories, words, and how far the feed has come
    assert counted(2) == counted(20) == (6, 6)


def test_a_change_finds_what_it_has_written(hubs: list[Hub]) -> None:
    store = hubs[0].store
    first = store.reader.row(hubs[0]("store_memory", content="tea")["memory_id"])
    assert first is not None
    memory = replace(first.memory, id=MemoryId("own"), key="k")

    def change(tx: Any) -> list[object]:
        before = tx.id_of_key(APP, "k")
        tx.save(memory, MemoryStatus.LIVE)
        during = tx.id_of_key(APP, "k"), tx.row("own").memory
        tx.erase("own")
        return [before, *during, tx.id_of_key(APP, "k"), tx.row("own")]

    for memories in ((), (memory,)):
        assert store.write(change, APP, memories).result() == [None, "own", memory, None, None]

    def save_and_note(tx: Any) -> None:
        tx.save(memory, MemoryStatus.LIVE)
        tx.note_seen(memory)

    store.write(save_and_note, APP).result()
    (*_, (sequence, row)) = store.reader.changed(APP, 0, 10)
    assert row is not None
    assert (sequence, row.memory) == (store.reader.last_change(APP), memory)


def test_memories_lie_in_the_order_of_their_commits_and_no_two_spaces_share_a_place(
    hubs: list[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kingly_memory.hub.postgres.store.POSITIONS", 4)  # a space often needs more
    scopes = [APP, scope_name("default", "other")]
    for number in range(12):
        hub, scope = hubs[number % HUBS], scopes[number % 3 == 0]
        hub("store_many", scope, memories=[{"content": f"{number} {one}"} for one in range(number % 5 + 1)])
    pages = [hubs[0].store.reader.page(Query("", scope), (MemoryStatus.LIVE,), 99, None) for scope in scopes]
    for page in pages:
        orders = [tuple(map(int, row.memory.content.split())) for row in page]
        assert orders == sorted(orders, reverse=True)
    positions = [row.position for page in pages for row in page]
    assert len(set(positions)) == len(positions) == 33


def test_what_was_made_ready_is_written_of_that_memory_alone(hubs: list[Hub]) -> None:
    """A later change of the same commit may have another text under the same id."""
    hub = hubs[0]
    first = hub.store.reader.row(hub("store_memory", content="tea")["memory_id"])
    assert first is not None
    earlier = replace(first.memory, id=MemoryId("own"), key=None, content="milk")

    def change(tx: Any) -> None:
        tx.save(earlier, MemoryStatus.LIVE)
        tx.save(replace(earlier, content="rum", revision=earlier.revision + 1), MemoryStatus.LIVE)

    hub.store.write(change, APP, [earlier]).result()
    row = hub.store.reader.row("own")
    assert row is not None
    assert row.memory.content == "rum"
    assert hub.store.reader.revisions("own") == [earlier]
    assert len(hub.found("rum")) == 1
    assert hub.found("milk") == []


def test_a_change_that_fails_takes_no_other_with_it(hubs: list[Hub]) -> None:
    store = hubs[0].store
    gate = threading.Event()
    blocked = store.write(lambda _: gate.wait(60), APP)

    def fail(_: Any) -> None:
        raise KeyError("x")

    failing, refused = store.write(fail, APP), store.write(lambda tx: tx.set_facet("a", "nul \0", {}), APP)
    fine = store.write(lambda tx: tx.set_facet("a", "b", {"c": 1}), APP)
    gate.set()
    assert blocked.result() is True
    with pytest.raises(KeyError):
        failing.result()
    with pytest.raises(StoreUnreadable):
        refused.result()
    fine.result()
    assert store.reader.facets("a", ["b"]) == {"b": {"c": 1}}


def _ask_everything(hub: Hub) -> None:
    record = {"metadata": {"key": "the key that people gave it"}}
    one, other = (
        hub("store_memory", content=json.dumps({"content": text, **record}), idempotency_key=text)["memory_id"]
        for text in ("tea", "milk")
    )
    other = hub("store_memory", content="rum", idempotency_key="rum")["memory_id"]
    hub("update_memory", memory_id=one, content="tea at four", idempotency_key="tea.2")
    hub("create_memory_link", source_memory_id=one, target_memory_id=other)
    hub("mark_memory", memory_id=one, pin={"pinned": True, "weight": 1.0, "at": 1.0})
    assert hub.find("tea")
    hub.found("東京")
    hub("search_semantic_memories", query="tea", memory_types=["episodic"])
    hub("list_changes")
    hub("get_working_memory", context_filter="c")
    hub("get_linked_memories", memory_ids=[one, other])
    hub("forget_memory", memory_id=other, purge=True)


def test_no_statement_reads_the_whole_of_a_table(
    hubs_by_meaning: list[Hub],
    asked: list[tuple[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recall, "_BUDGET_S", 30.0)
    _ask_everything(hubs_by_meaning[0])
    at_start = "SELECT space, live FROM km_scope WHERE live > 0"  # a row of each project
    statements, plans = {one: values for one, values in asked if one != at_start}, dict[str, str]()
    assert len(statements) >= 24
    assert sum("km_vector" in one for one in statements) == 4
    store = hubs_by_meaning[0].store
    assert isinstance(store, PostgresStore)
    with store._pool.connection() as connection:  # of a table of two rows another one would read all
        for statement, values in statements.items():
            before, *parts = statement.split("%s")
            general = before + "".join(f"${number}{part}" for number, part in enumerate(parts, 1))
            for explained in (
                connection.execute(f"EXPLAIN {statement}", values),
                connection.execute(f"EXPLAIN (GENERIC_PLAN) {general}"),
            ):
                plan = "\n".join(line for (line,) in explained.fetchall())
                plans[statement] = plans.get(statement, "") + plan
        connection.execute("SET enable_seqscan = on")  # but what is looked up for many is looked up for each
        for statement in (one for one in statements if "json" in one):
            (general, *parts) = statement.split("%s")
            assert len(parts) == 1
            plan = connection.execute(f"EXPLAIN (GENERIC_PLAN) {general}$1{parts[0]}").fetchall()
            plans[statement] += "\n".join(line for (line,) in plan)
    assert {statement: plan for statement, plan in plans.items() if "Seq Scan" in plan} == {}
    by_words = {statement: plan for statement, plan in plans.items() if "@@" in statement}
    assert len(by_words) == 1
    for statement, plan in by_words.items():
        assert plan.count("Bitmap Index Scan on km_text_words") == 2
        assert "WHERE space = %s AND tsv @@" in statement


def test_on_citus_a_schema_lies_on_one_node_and_every_statement_goes_there_alone(
    citus: tuple[str, str], asked: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, address = citus
    monkeypatch.setattr(recall, "_BUDGET_S", 30.0)
    with ExitStack() as closing:
        hubs = [Hub(address, SubjectEmbedder()) for _ in range(HUBS)]
        for one in hubs:
            closing.callback(one.close)
        asked.clear()  # how the tables were made
        _take_find_revise_and_forget(*hubs)
        _ask_everything(hubs[0])
    with psycopg.connect(address) as connection:
        plans = {
            statement: "\n".join(line for (line,) in connection.execute(f"EXPLAIN {statement}", values).fetchall())
            for statement, values in dict(asked).items()
        }
        places = connection.execute(
            "SELECT citus_table_type, nodename, nodeport FROM pg_class AS c "
            "LEFT JOIN citus_shards ON table_name = c.oid WHERE relkind = 'r' AND relnamespace = %s::regnamespace",
            (name,),
        ).fetchall()
    assert len(plans) >= 24
    tasks = {statement: re.findall(r"Task Count: (\d+)", plan) for statement, plan in plans.items()}
    assert tasks.pop("SELECT nextval('km_position')") == []  # which asks no node
    assert tasks == {statement: ["1"] for statement in tasks}
    assert len(set(places)) == 1
    assert places[0][0] == "schema"


def test_what_a_search_asks_of_the_database_does_not_grow_with_what_it_finds(
    hubs: list[Hub], asked: list[tuple[str, Any]]
) -> None:
    hub = hubs[0]
    hub("store_many", memories=[{"content": f"tea at {number}"} for number in range(20)])
    assert len(hub.found("tea")) == 10
    for limit in (1, 20):
        asked.clear()
        assert len(hub("search_semantic_memories", query="tea", limit=limit)["memories"]) == limit
        assert len(asked) == 1


def test_words_that_too_many_memories_hold_are_left_out_where_a_rarer_one_is_asked_for(
    hubs: list[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "COMMON", 3)
    hub = hubs[0]
    hub("store_many", memories=[{"content": f"tea at {number}"} for number in range(1, 6)])
    hub("store_memory", content="coffee at four")
    assert hub.found("tea coffee") == ["coffee at four"]
    assert len(hub.found("tea")) == 5
    hub("store_many", memories=[{"content": f"they {form} home"} for form in ("go", "goes", "gone", "went")])
    assert hub.found("went coffee") == ["coffee at four"]
    long = " ".join(f"word{number}" for number in range(2_000))
    hub("store_memory", content=f"{long} tea and a saucer {long}")
    assert [one[:5] for one in hub.found("tea saucer")] == ["word0"]


def test_two_forms_of_one_word_weigh_as_one(hubs: list[Hub]) -> None:
    hubs[0]("store_many", memories=[{"content": f"deploy {number}"} for number in range(40)])
    hubs[0]("store_many", memories=[{"content": f"server {number}"} for number in range(5)])
    found = hubs[0].found("deploy deploys deployed server")
    assert sum("server" in one for one in found) == 5


def test_of_one_word_more_is_looked_at_than_the_shortest(hubs: list[Hub]) -> None:
    said = "tea tea tea tea tea tea tea tea room"
    hubs[0]("store_memory", content=said)
    hubs[0]("store_many", memories=[{"content": f"tea {number}"} for number in range(30)])
    assert hubs[0].found("tea")[0] == said


def test_a_long_memory_is_found_by_a_piece_of_a_script_without_spaces(hubs: list[Hub]) -> None:
    long = "机房的温度每天都要记录。" * 600 + "数据库在星期二备份。" + "机房的温度每天都要记录。" * 600
    hubs[0]("store_memory", content=long)
    hubs[0]("store_memory", content="花园里的猫")
    assert hubs[0].found("备份") == [long]


def test_pages_of_matches_follow_each_other_and_the_first_comes_with_how_many_there_are(hubs: list[Hub]) -> None:
    hubs[0]("store_many", memories=[{"content": f"tea {'of the house ' * number}"} for number in range(9)])
    query, reader = Query("tea house", APP), hubs[0].store.reader
    counted = reader.frequencies(query, ["tea", "house", "saucer"], 100, page=4)
    assert counted.rows_with == {"tea": 9, "house": 8, "saucer": 0}
    assert (counted.corpus.rows, round(counted.corpus.mean_words, 2)) == (9, 3.67)
    assert counted.found is not None
    pages = [counted.found[1], *(reader.matches(query, ["tea", "house"], 4, offset, 0.0) for offset in (0, 4, 8))]
    found = [[match.row.memory.content for match in page.found] for page in pages]
    assert found[0] == found[1]
    assert len({text for page in found for text in page}) == 9
    assert [page.at_end for page in pages] == [False, False, False, True]
    assert reader.frequencies(query, ["tea"], 9, page=4).found is None  # there may be more: their worth is not known


def test_of_passages_that_match_alike_the_first_is_found(hubs: list[Hub]) -> None:
    hubs[0]("store_memory", content="The ship sails. " * 2_000)
    found = hubs[0].store.reader.passages(Query("ship", APP), ["ship"], 10, 0.0)
    assert [start for start, _ in found.values()] == [0]


def test_meaning_makes_a_search_ask_once_more(
    hubs_by_meaning: list[Hub], asked: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "_BUDGET_S", 30.0)
    monkeypatch.setattr(vectors, "_RESTORED_S", 3_600.0)
    hub = hubs_by_meaning[0]
    subjects = ("rain", "boat", "cat", "bill")
    hub("store_many", memories=[{"content": f"{word} at {number}"} for number in range(5) for word in subjects])
    assert len(hub.found("rain")) == 5
    for limit in (1, 20):
        asked.clear()
        assert hub("search_semantic_memories", query="drizzle or rain", limit=limit)["memories"]
        assert len(asked) <= 2  # and what only vectors found


@pytest.mark.parametrize(
    ("params", "refused"),
    [
        ({"content": "nul \0 in it", "metadata": {"a\0": "b\0"}}, None),
        ({"content": "lone \ud800", "idempotency_key": "\ud800"}, None),
        ({"content": " ".join(f"word{number}" for number in range(120_000))}, None),
        ({"content": "漢字かな交じり文", "idempotency_key": "鍵"}, None),
        ({"content": "x", "idempotency_key": "k" * (KEY_LIMIT + 1)}, "idempotency_key"),
        ({"content": "x", "idempotency_key": "k\0"}, "idempotency_key"),
        ({"content": "x", "metadata": {"context_id": "c\0"}}, "context_id"),
        ({"content": json.dumps({"content": "x", "metadata": {"tags": ["t" * 3_000, "nul \0"], "key": "k\0"}})}, None),
    ],
    ids=["nul", "surrogates", "1-mib-of-words", "cjk", "long-key", "nul-key", "nul-context", "tags-and-name"],
)
def test_awkward_texts_are_stored_or_refused_by_name(
    hubs: list[Hub], params: dict[str, Any], refused: str | None
) -> None:
    if refused is not None:
        with pytest.raises(InvalidInput, match=refused):
            hubs[0]("store_memory", **params)
        return
    row = hubs[1].store.reader.row(hubs[0]("store_memory", **params)["memory_id"])
    assert row is not None
    assert sent(row.memory)["content"] == params["content"].replace("\ud800", "\ufffd")


def test_a_database_that_was_copied_is_another_incarnation(hubs: list[Hub], postgres: Server) -> None:
    before = hubs[0]("initialize_memory_system")["incarnation"]
    assert hubs[1]("initialize_memory_system")["incarnation"] == before
    stored = hubs[0]("store_memory", content="tea")["memory_id"]
    for one in hubs:
        one.store.close()
    with psycopg.connect(postgres.address.replace("/postgres", "/template1"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS copied")
        connection.execute("CREATE DATABASE copied TEMPLATE postgres")
    copy = Hub(postgres.address.replace("/postgres", "/copied"))
    assert copy("initialize_memory_system")["incarnation"] not in (None, before)
    assert copy.store.reader.row(stored) is not None
    copy.store.close()


# --- a database that is not as it should be ---------------------------------------------------------------------------


def test_a_database_that_stops_costs_a_sentence_and_comes_back_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing else is written, whose lines would differ each time and fill a log."""
    with postgres_server() as server:
        hub = Hub(server.address)
        kept = hub("store_memory", content="tea at four", idempotency_key="a")["memory_id"]
        server.stop()
        with pytest.raises(StoreUnreadable, match=r"nobody listens there|is stopping|does not answer"):
            hub("store_memory", content="tea at five", idempotency_key="b")
        with pytest.raises(StoreUnreadable):
            hub.store.reader.row(kept)
        server.start()
        assert hub("store_memory", content="tea at four", idempotency_key="a")["memory_id"] == kept
        assert hub("store_memory", content="tea at five", idempotency_key="b")["idempotency_hit"] is False
        hub.store.close()
    assert [record for record in caplog.records if record.name.startswith("psycopg")] == []


@pytest.mark.requirement("N24")
def test_a_call_that_the_database_failed_names_the_cause_to_the_operator_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = failure("postgresql://db/kingly", psycopg.OperationalError("FATAL: sorry, too many clients already"))
    assert "connection" not in refusal(failed).reason
    assert "postgresql://db/kingly cannot be read (it has no connection left)" in caplog.text


@pytest.mark.requirement("N24")
def test_of_a_node_that_is_down_nobody_says_that_the_database_is() -> None:
    said = "connection to the remote node hub@10.0.0.2:5432 failed with the following error: Connection refused"
    failed = failure("postgresql://db/kingly", psycopg.errors.ConnectionFailure(said))
    assert "a node of its Citus does not answer" in str(failed)
    assert "10.0.0.2" not in str(failed)


def test_names_in_what_postgresql_says_are_no_signs() -> None:
    failed = failure("postgresql://db/kingly", psycopg.OperationalError('FATAL: database "password" does not exist'))
    assert "there is no such database" in str(failed)


def test_a_database_that_vanishes_from_the_network_is_given_up_and_looked_for_again_soon(postgres: Server) -> None:
    store = PostgresStore(postgres.address)
    with store._pool.connection() as connection, socket.fromfd(connection.fileno(), AF_INET, SOCK_STREAM) as taken:
        idle_s = taken.getsockopt(IPPROTO_TCP, TCP_KEEPIDLE)
        interval_s = taken.getsockopt(IPPROTO_TCP, TCP_KEEPINTVL)
        unanswered_ms = taken.getsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT)
    assert idle_s + interval_s <= unanswered_ms / 1000 <= 10
    assert store._pool.reconnect_timeout <= 3  # else the pool waits twice as long each time
    store.close()


def test_a_read_only_database_takes_nothing_and_answers(hubs: list[Hub], postgres: Server) -> None:
    hubs[0]("store_memory", content="tea at four")
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
    try:
        with ExitStack() as closing:
            other = PostgresStore(postgres.address)
            closing.callback(other.close)
            with pytest.raises(StoreUnwritable, match=r"cannot be written \(it is read-only\)"):
                other.write(lambda tx: tx.set_facet("a", "b", {}), APP).result()
            assert len(other.reader.changed(APP, 0, 10)) == 1
    finally:
        with psycopg.connect(postgres.address, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER DATABASE postgres RESET default_transaction_read_only")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://hub:se-cret@127.0.0.1:1/postgres", "nobody listens there"),
        ("postgresql://hub:se-cret@127.0.0.1:{port}/nowhere", "no such database"),
        ("postgresql://nobody:se-cret@127.0.0.1:{port}/postgres", "no such database or user"),
        ("postgresql://hub:se-cret@no-such-host.invalid/postgres", "no such host"),
        ("postgresql://hub:se-cret@127.0.0.1:{port}/postgres?nonsense=1", "makes no sense.*Write postgresql://"),
        ("postgresql://hub:se-cret@127.0.0.1:port/postgres", "makes no sense"),
        ("postgresql://hub:se-cret@127.0.0.1:{port}/postgres?sslmode=require", "TLS"),
    ],
)
def test_an_address_that_leads_nowhere_is_named_without_its_password(postgres: Server, address: str, said: str) -> None:
    with pytest.raises(StoreUnreadable, match=said) as refused:
        PostgresStore(address.format(port=postgres.port))
    assert "se-cret" not in str(refused.value)


def test_a_database_whose_connections_are_all_taken_says_so(postgres: Server) -> None:
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute("CREATE ROLE small LOGIN CONNECTION LIMIT 0")
    with pytest.raises(StoreUnreadable, match="no connection left"):
        PostgresStore(postgres.address.replace("hub@", "small@"))


def test_a_schema_of_a_later_version_is_left_alone(postgres: Server) -> None:
    postgres.empty()
    PostgresStore(postgres.address).close()
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute("UPDATE km_schema SET step = 99")
    with pytest.raises(StoreTooNew):
        PostgresStore(postgres.address)


def test_a_schema_of_an_earlier_version_is_brought_up_to_date(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.empty()
    with monkeypatch.context() as earlier:
        earlier.setattr("kingly_memory.hub.postgres.schema.STEPS", schema.STEPS[:1])
        hub = Hub(postgres.address)
        hub("store_memory", content="tea at four")
        hub.store.close()
    hub = Hub(postgres.address)
    assert hub.found("tea") == ["tea at four"]
    hub("store_memory", content="tea at five")
    assert len(hub.found("tea")) == 2
    hub.store.close()
    with psycopg.connect(postgres.address) as connection:
        found = connection.execute("SELECT reloptions FROM pg_class WHERE relname = 'km_text_words'").fetchone()
    assert found == (["fastupdate=on", "gin_pending_list_limit=64"],)


def test_an_address_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="postgresql://"):
        run_hub(tmp_path, port=0, store="mysql://hub@localhost/x")


def test_what_is_shown_of_an_address_has_no_password() -> None:
    assert (
        shown("postgresql://hub:se-cret@db.example:5433/kingly?sslmode=require")
        == "postgresql://db.example:5433/kingly"
    )
    assert "se-cret" not in shown("postgresql://hub:se-cret@[db")


def test_two_hubs_of_the_command_line_serve_one_database(postgres: Server, tmp_path: Path) -> None:
    postgres.empty()
    command = [sys.executable, "-m", "kingly_memory", "hub", "--store", postgres.address, "--home", str(tmp_path)]
    with ExitStack() as stack:
        urls = []
        for _ in range(2):
            process = stack.enter_context(
                subprocess.Popen(  # this package
                    [*command, "--port", "0", "--until-eof", "--json"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.terminate)
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 30)[0]
            urls.append(json.loads(process.stdout.readline())["url"])
        with httpx.Client(trust_env=False, timeout=60) as web:
            stored = {"method": "store_memory", "params": {"content": "tea at four"}}
            assert web.post(f"{urls[0]}/mcp/call", json=stored).status_code == 200
            asked = {"method": "list_changes", "params": {}}
            told = web.post(f"{urls[1]}/mcp/call", json=asked).json()["changes"]
            assert [one["content"] for one in told] == ["tea at four"]
            assert web.get(f"{urls[1]}/ready").status_code == 200
