"""LangGraph's store over documents: what the framework promises of any store, and what ours adds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kingly_memory import InvalidInput, MemoryRouter, RouterClosed, Settings, SyncMemoryRouter
from kingly_memory.integrations.recall import as_label, as_name
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

base = pytest.importorskip("langgraph.store.base", reason="LangGraph is not installed: the extra `langgraph` brings it")
from kingly_memory.integrations.langgraph import AsyncKinglyStore, KinglyStore  # noqa: E402  # needs LangGraph

T = TypeVar("T")
Store = KinglyStore | AsyncKinglyStore
Make = Callable[..., Store]
QUICK = Settings(durability="process")


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@contextmanager
def blocking(home: Path, clock: ManualClock) -> Iterator[Make]:
    with SyncMemoryRouter.open(home, remote=False, settings=QUICK, clock=clock) as memory:
        yield lambda **chosen: KinglyStore(memory, **chosen)


@contextmanager
def awaiting(home: Path, clock: ManualClock) -> Iterator[Make]:
    """On a loop of its own, called from this thread."""
    loop = Loop()

    async def opened() -> MemoryRouter:
        return await MemoryRouter.open(home, remote=False, settings=QUICK, clock=clock).__aenter__()

    async def made(memory: MemoryRouter, chosen: dict[str, Any]) -> AsyncKinglyStore:
        return AsyncKinglyStore(memory, **chosen)

    try:
        memory = loop.run(opened())
        yield lambda **chosen: loop.run(made(memory, chosen))
        loop.run(memory.close())
    finally:
        loop.end()


@pytest.fixture(params=[blocking, awaiting])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Make]:
    """Makes stores over one router: both kinds keep the same promises."""
    with request.param(tmp_path / "home", clock) as made:
        yield made


@pytest.fixture
def prompt_store(tmp_path: Path) -> PromptStore:
    return PromptStore(tmp_path / "home")


@pytest.fixture
def store(make: Make) -> Store:
    return make()


def swept(store: Store) -> int:
    if isinstance(store, KinglyStore):
        return store.sweep_ttl()
    return asyncio.run_coroutine_threadsafe(store.sweep_ttl(), store._loop).result()


def keys(found: Sequence[Any]) -> list[str]:
    return [one.key for one in found]


def letters(texts: Sequence[str]) -> list[list[float]]:
    """A model for tests: how often a text has an a, and how often a b."""
    return [[float(text.count("a")), float(text.count("b"))] for text in texts]


INDEX: Any = {"dims": 2, "embed": letters, "fields": ["text"]}


# --- searching --------------------------------------------------------------------------------------------------------


def test_words_rank_without_a_model_and_what_they_do_not_find_comes_behind(store: Store) -> None:
    store.put(("notes",), "pizza", {"text": "Lydia loves pizza with basil"})
    store.put(("notes",), "rain", {"text": "It rains in Bergen"})
    store.put(("notes",), "hidden", {"text": "pizza again"}, index=False)
    found = store.search(("notes",), query="who loves pizza?")
    assert keys(found) == ["pizza", "hidden", "rain"]
    assert found[0].score is not None
    assert 0 < found[0].score < 1
    assert [one.score for one in found[1:]] == [None, None]
    assert keys(store.search(("notes",), query="who loves pizza?", limit=1)) == ["pizza"]
    assert keys(store.search(("notes",), query="who loves pizza?", limit=1, offset=1)) == ["hidden"]


def test_pages_of_a_search_repeat_nothing_and_leave_nothing_out(store: Store) -> None:
    store.batch([base.PutOp(("n",), f"k{i}", {"text": "word" if i % 2 else "other"}) for i in range(30)])
    pages = [keys(store.search(("n",), query="word", limit=7, offset=first)) for first in range(0, 35, 7)]
    assert [len(one) for one in pages] == [7, 7, 7, 7, 2]
    assert sorted(key for page in pages for key in page) == sorted(f"k{i}" for i in range(30))
    assert len(store.search(("n",), limit=10**9)) == 30
    assert store.search(("n",), limit=0) == []


def test_the_nearest_text_of_an_item_counts_and_the_item_comes_once(make: Make) -> None:
    store = make(index={**INDEX, "fields": ["text", "notes[*].text"]})
    store.put(("n",), "both", {"text": "aaa", "notes": [{"text": "bbb"}, {"text": "ab"}]})
    store.put(("n",), "mixed", {"text": "aab"})
    store.put(("n",), "none", {"text": "b"}, index=False)
    found = store.search(("n",), query="bb")
    assert [(one.key, None if one.score is None else round(one.score, 3)) for one in found] == [
        ("both", 1.0), ("mixed", 0.447), ("none", None),
    ]  # fmt: skip
    assert keys(store.search(("n",), query="bb", filter={"text": "aab"})) == ["mixed"]
    store.put(("n",), "both", {"text": "a"}, index=["text"])
    assert keys(store.search(("n",), query="bb")) == ["mixed", "both", "none"]
    store.delete(("n",), "mixed")
    assert keys(store.search(("n",), query="bb")) == ["both", "none"]


def test_vectors_of_another_model_say_nothing_of_an_item_but_leave_it_there(make: Make) -> None:
    make(index=INDEX).put(("n",), "old", {"text": "ab"})
    store = make(index={"dims": 3, "embed": lambda texts: [[1.0, 0.0, float(len(one))] for one in texts]})
    store.put(("n",), "new", {"text": "ab"})
    found = store.search(("n",), query="x")
    assert [(one.key, one.score is None) for one in found] == [("new", False), ("old", True)]


def test_vectors_say_nothing_of_an_item_that_a_store_without_a_model_has_written_since(make: Make) -> None:
    store = make(index=INDEX)
    store.batch([base.PutOp(("n",), "one", {"text": "a"}), base.PutOp(("n",), "two", {"text": "ab"})])
    make().put(("n",), "one", {"text": "b"})
    assert [(one.key, one.score is None) for one in store.search(("n",), query="a")] == [("two", False), ("one", True)]
    make().delete(("n",), "two")
    assert keys(store.search(("n",), query="a")) == ["one"]
    store.put(("n",), "one", {"text": "b"})
    assert [one.score for one in store.search(("n",), query="b")] == [1.0]


def test_what_a_model_raises_comes_through_and_nothing_is_written(make: Make) -> None:
    def down(texts: Sequence[str]) -> list[list[float]]:
        raise ConnectionError("the model is not there")

    store = make(index={"dims": 2, "embed": down})
    with pytest.raises(ConnectionError):
        store.put(("n",), "k", {"text": "a"})
    assert store.get(("n",), "k") is None


DOCUMENT = {"status": "open", "score": 4.5, "tags": ["a", "b"], "user": {"city": "Oslo", "age": 30}, "read": True}


@pytest.mark.parametrize(
    ("wanted", "is_found"),
    [
        ({"status": "open"}, True),
        ({"status": "shut"}, False),
        ({"score": {"$gt": 4}}, True),
        ({"score": {"$gt": 4.5}}, False),
        ({"score": {"$gte": 4.5, "$lt": 5}}, True),
        ({"score": {"$lte": 4}}, False),
        ({"score": {"$ne": 4.5}}, False),
        ({"status": {"$eq": "open"}}, True),
        ({"nothing": None}, True),
        ({"read": True}, True),
        ({"tags": ["a", "b"]}, True),
        ({"tags": ["a"]}, False),
        ({"user": {"city": "Oslo"}}, True),
        ({"user.city": "Oslo"}, True),
        ({"user.city": "Oslo", "user.age": {"$gt": 40}}, False),
        ({"user.city": "Oslo", "user": {"age": 30}}, True),
        ({}, True),
    ],
)
def test_a_filter_reads_fields_nested_ones_and_paths(store: Store, wanted: dict[str, Any], is_found: bool) -> None:
    store.put(("n",), "k", DOCUMENT)
    before = json.dumps(wanted)
    assert (keys(store.search(("n",), filter=wanted)) == ["k"]) is is_found
    assert (keys(store.search(("n",), query="anything", filter=wanted)) == ["k"]) is is_found
    assert json.dumps(wanted) == before


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_reads_what_was_there_before_it_and_the_last_put_of_a_key_holds(store: Store) -> None:
    store.put(("n",), "k", {"v": 1})
    answers = store.batch(
        [
            base.PutOp(("n",), "k", {"v": 2}),
            base.GetOp(("n",), "k"),
            base.PutOp(["n"], "k", {"v": 3}),
            base.SearchOp(("n",)),
            base.PutOp(("m",), "other", {"v": 4}),
            base.PutOp(("m",), "other", None),
            base.ListNamespacesOp(),
        ]
    )
    assert [answers[i] for i in (0, 2, 4, 5)] == [None] * 4
    got, found = cast("Any", answers[1]), cast("Any", answers[3])
    assert (got.value, [one.value for one in found]) == ({"v": 1}, [{"v": 1}])
    assert answers[6] == [("n",)]
    assert store.get(("n",), "k").value == {"v": 3}  # type: ignore[union-attr]
    assert store.get(("m",), "other") is None


def test_a_change_keeps_when_an_item_was_made(store: Store, clock: ManualClock) -> None:
    store.put(("n",), "k", {"v": 1})
    first = store.get(("n",), "k")
    clock.jump(60)
    store.put(("n",), "k", {"v": 2})
    second = store.get(("n",), "k")
    assert first is not None
    assert second is not None
    assert second.created_at == first.created_at == first.updated_at
    assert (second.updated_at - first.updated_at).total_seconds() == 60
    assert second.updated_at.utcoffset() is not None


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_namespaces_are_listed_by_whole_labels_with_wildcards_and_depth(store: Store) -> None:
    places = [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("x", "b"), ("*",), ("A",)]
    store.batch([base.PutOp(place, "k", {}) for place in places])
    assert store.list_namespaces() == sorted(places)
    assert store.list_namespaces(prefix=("a",)) == [("a",), ("a", "b"), ("a", "b", "c")]
    assert store.list_namespaces(prefix=("*", "b")) == [("a", "b"), ("a", "b", "c"), ("x", "b")]
    assert store.list_namespaces(suffix=("b",)) == [("a", "b"), ("x", "b")]
    assert store.list_namespaces(suffix=("a", "*", "c")) == [("a", "b", "c")]
    assert store.list_namespaces(prefix=("a",), suffix=("c",)) == [("a", "b", "c")]
    assert store.list_namespaces(suffix=("a", "b", "c", "d")) == []
    assert store.list_namespaces(max_depth=1) == [("*",), ("A",), ("a",), ("ab",), ("x",)]
    assert store.list_namespaces(max_depth=1, limit=2, offset=1) == [("A",), ("a",)]


def test_items_are_nothing_else_that_lies_in_the_router_and_belong_to_its_user(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, settings=QUICK) as memory:
        memory.documents.put("users", "k", {"v": 0})
        hers, his = (KinglyStore(memory.scoped(user=one), index=INDEX) for one in ("lydia", "omar"))
        hers.put(("n",), "k", {"text": "ab"})
        assert [(one.namespace, one.key) for one in hers.search(())] == [(("n",), "k")]
        assert hers.list_namespaces() == [("n",)]
        assert his.search(()) == KinglyStore(memory).search(()) == []
        assert memory.scoped(user="lydia").documents.get("langgraph/n", "k").value == {"text": "ab"}  # type: ignore[union-attr]


NAMES = st.text(st.characters(), max_size=20)


@given(NAMES, NAMES)
def test_no_two_names_become_one_label(one: str, other: str) -> None:
    assert as_name(as_label("key", one)) == one
    assert (as_label("key", one) == as_label("key", other)) == (one == other)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters=".\0", exclude_categories=["Cs"]), min_size=1, max_size=12), NAMES)
def test_any_name_that_the_framework_allows_comes_back(store: Store, label: str, key: str) -> None:
    store.put(("n", label), key, {"v": label})
    item = store.get(("n", label), key)
    assert item is not None
    assert (item.namespace, item.key, item.value) == (("n", label), key, {"v": label})
    assert ("n", label) in store.list_namespaces(prefix=("n", label))
    store.delete(("n", label), key)
    assert store.search(("n", label)) == []


# --- ends -------------------------------------------------------------------------------------------------------------


def test_items_end_by_default_by_their_own_ttl_or_never_and_are_swept(make: Make, clock: ManualClock) -> None:
    store = make(ttl={"default_ttl": 10}, index=INDEX)
    store.put(("n",), "usual", {"text": "a"})
    store.put(("n",), "long", {"text": "a"}, ttl=30)
    store.put(("n",), "ever", {"text": "a"}, ttl=None)
    assert swept(store) == 0
    clock.jump(11 * 60)
    assert store.get(("n",), "usual") is None
    assert sorted(keys(store.search(("n",), query="a"))) == ["ever", "long"]
    assert (swept(store), swept(store)) == (1, 0)
    clock.jump(20 * 60)
    assert keys(store.search(("n",))) == ["ever"]
    assert swept(store) == 1


def test_nothing_is_left_of_an_item_that_was_deleted_or_swept(tmp_path: Path, clock: ManualClock) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", remote=False, settings=QUICK, clock=clock) as memory:
        store = KinglyStore(memory, index=INDEX)
        store.put(("n",), "deleted", {"text": "a"})
        store.put(("n",), "brief", {"text": "a"}, ttl=1)
        assert len(memory.documents.list()) == 4
        KinglyStore(memory).delete(("n",), "deleted")
        clock.jump(61)
        assert store.sweep_ttl() == 1
        assert (memory.documents.list(), memory.documents.sweep()) == ((), 0)


@pytest.mark.parametrize(
    ("configured", "asked", "is_there"), [(True, None, True), (True, False, False), (False, True, False)]
)
def test_reading_begins_the_time_of_an_item_anew_where_both_say_so(
    make: Make, clock: ManualClock, configured: bool, asked: bool | None, is_there: bool
) -> None:
    store = make(ttl={"default_ttl": 10, "refresh_on_read": configured}, index=INDEX)
    store.put(("n",), "got", {"text": "a"})
    store.put(("n",), "found", {"text": "b"})
    clock.jump(6 * 60)
    store.get(("n",), "got", refresh_ttl=asked)
    store.search(("n",), filter={"text": "b"}, refresh_ttl=asked)
    clock.jump(6 * 60)
    assert (store.get(("n",), "got") is not None) is is_there
    found = store.search(("n",), query="b")
    assert [one.key for one in found if one.score is not None] == (["found", "got"] if is_there else [])


def sweepers() -> list[asyncio.Task[Any]]:
    return [one for one in asyncio.all_tasks() if one.get_name() == "kingly-items-sweeper"]


async def test_a_sweeper_removes_what_has_ended_until_it_or_the_router_is_stopped(
    prompt_store: PromptStore, clock: ManualClock
) -> None:
    async with router_over(prompt_store, None, clock) as memory:
        store = AsyncKinglyStore(memory, ttl={"default_ttl": 1, "sweep_interval_minutes": 5})
        await store.aput(("n",), "k", {"v": 1})
        await store.start_ttl_sweeper()
        await store.start_ttl_sweeper()
        (sweeper,) = sweepers()
        await clock.advance(301)
        assert await store.sweep_ttl() == 0
        assert await store.stop_ttl_sweeper() is True
        await asyncio.wait([sweeper])
        await store.start_ttl_sweeper(1)
        assert len(sweepers()) == 1
    assert sweepers() == []


# --- bad input --------------------------------------------------------------------------------------------------------

LONG = "x" * 600
BAD_NAMESPACES = [("a.b",), ("a\0b",), ("",), ("a", 1), (LONG,), ("x",) * 32]


@pytest.mark.parametrize("namespace", BAD_NAMESPACES, ids=repr)
def test_a_wrong_namespace_is_the_frameworks_error_and_nothing_of_its_batch_is_written(
    store: Store, namespace: tuple[Any, ...]
) -> None:
    ops = [
        base.GetOp(namespace, "k"),
        base.PutOp(namespace, "k", {}),
        base.PutOp(namespace, "k", None),
        base.SearchOp(namespace),
        base.ListNamespacesOp((base.MatchCondition("prefix", namespace),)),
    ]
    for op in ops:
        with pytest.raises(base.InvalidNamespaceError, match="amespace"):
            store.batch([base.PutOp(("n",), "k", {}), op])
    for put in (lambda: store.put((), "k", {}), lambda: store.batch([base.PutOp((), "k", {})])):
        with pytest.raises(base.InvalidNamespaceError):
            put()
    assert store.search(()) == []


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("op", "sentence"),
    [
        (base.PutOp(("n",), "bad", {"v": float("nan")}), "value: is no JSON"),
        (base.PutOp(("n",), "bad", {"v": object()}), "value: is no JSON"),
        (base.PutOp(("n",), "bad", {"v": LOOP}), "value: is nested deeper"),
        (base.PutOp(("n",), "bad", {1: 2}), "value: has a name that is not text"),
        (base.PutOp(("n",), "bad", ["no dict"]), "value: is list and no dict; put it under a name"),
        (
            base.PutOp(("n",), "bad", {"v": "x" * 2**24}),
            "value: has 16,777,224 bytes as JSON, at most 16,777,216 are stored",
        ),
        (base.PutOp(("n",), LONG, {}), "key: has 600 characters"),
        (base.PutOp(("n",), 5, {}), "key: expected text, not int"),
        (base.PutOp(("n",), "bad", {}, ttl=-1), "ttl: -60 is not more than 0"),
        (base.PutOp(("n",), "bad", {}, ttl=object()), "ttl: object is no length of time"),
        (base.GetOp(("n",), None), "key: expected text, not NoneType"),
        (base.SearchOp(("n",), limit=-1), "limit: -1 is outside 0"),
        (base.SearchOp(("n",), offset="1"), "offset: expected a whole number"),
        (base.PutOp(("n",), "bad", {}, index=5), "index: expected"),
        (base.SearchOp(("n",), query=5), "query: expected text"),
        (base.SearchOp(("n",), filter=[1]), "filter: expected field names"),
        (base.SearchOp(("n",), filter={"a": {"$near": 1}}), "filter: '[$]near' is unknown"),
        (base.SearchOp(("n",), filter={"a') = 1 OR": 1}), "filter: Invalid filter key"),
        (base.SearchOp(("n",), filter={"a": 5, "a.b": 1}), "filter: wants two things of the field 'a'"),
        (base.ListNamespacesOp(limit=-1), "limit: -1 is outside 0"),
    ],
    ids=lambda one: repr(one)[:60] if isinstance(one, str) else "",
)
@pytest.mark.parametrize("index", [None, INDEX], ids=["words", "model"])
def test_bad_input_is_one_sentence_and_nothing_of_its_batch_is_written(
    make: Make, index: Any, op: Any, sentence: str
) -> None:
    store = make(index=index)
    with pytest.raises(InvalidInput, match=sentence) as raised:
        store.batch([base.PutOp(("n",), "good", {}), op])
    assert isinstance(raised.value, ValueError)
    assert store.search(()) == []


def test_a_value_of_nearly_16_mib_comes_back(store: Store) -> None:
    value = {"v": "x" * (2**24 - 100)}
    store.put(("n",), "k", value)
    assert store.get(("n",), "k").value == value  # type: ignore[union-attr]


# --- who may call -----------------------------------------------------------------------------------------------------


async def test_on_its_own_loop_an_async_store_must_be_awaited_and_other_threads_need_not(tmp_path: Path) -> None:
    async with AsyncKinglyStore.from_conn_string(str(tmp_path / "home")) as store:
        for call in (lambda: store.put(("n",), "k", {}), lambda: store.get(("n",), "k"), lambda: store.batch([])):
            with pytest.raises(asyncio.InvalidStateError, match="await"):
                call()
        await asyncio.to_thread(store.put, ("n",), "k", {"v": 1})
        assert (await store.aget(("n",), "k")).value == {"v": 1}  # type: ignore[union-attr]


async def test_one_callers_bad_value_fails_that_call_alone(tmp_path: Path) -> None:
    async with AsyncKinglyStore.from_conn_string(str(tmp_path / "home")) as store:
        done = await asyncio.gather(
            *(store.aput(("n",), f"k{i}", {"v": object() if i == 3 else i}) for i in range(6)), return_exceptions=True
        )
        assert [type(one) for one in done].count(InvalidInput) == 1
        assert len(await store.asearch(("n",))) == 5


async def test_a_blocking_store_serves_any_event_loop(tmp_path: Path) -> None:
    with KinglyStore.from_conn_string(str(tmp_path / "home")) as store:
        await asyncio.gather(*(store.aput(("n",), f"k{i}", {"v": i}) for i in range(20)))
        assert len(await store.asearch(("n",), limit=50)) == len(store.search(("n",), limit=50)) == 20


def test_threads_write_at_once_and_each_finds_its_own(make: Make) -> None:
    store = make()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: store.put(("n", str(i % 4)), str(i), {"v": i}), range(80)))
    assert [len(store.search(("n", str(i)), limit=50)) for i in range(4)] == [20] * 4


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    with KinglyStore.from_conn_string(str(tmp_path / "one")) as store:
        store.setup()
    for call in (lambda: store.get(("n",), "k"), lambda: store.put(("n",), "k", {}), store.sweep_ttl):
        with pytest.raises(RouterClosed, match="was closed; open one with"):
            call()
    with pytest.raises(RouterClosed):
        await store.aget(("n",), "k")
    async with AsyncKinglyStore.from_conn_string(str(tmp_path / "two")) as other:
        await other.setup()
    for refused in (other.aget(("n",), "k"), other.aput(("n",), "k", {}), other.sweep_ttl()):
        with pytest.raises(RouterClosed, match="was closed"):
            await refused


async def test_a_store_over_something_else_names_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is KinglyStore"):
        AsyncKinglyStore(cast("Any", SyncMemoryRouter.open(tmp_path / "home", remote=False)))
    with pytest.raises(InvalidInput, match="there is AsyncKinglyStore"):
        KinglyStore(cast("Any", MemoryRouter.open(tmp_path / "home", remote=False)))
    for place in (":memory:", "postgresql://db/items"):
        with pytest.raises(InvalidInput, match="is no folder"), KinglyStore.from_conn_string(place):
            pass
        with pytest.raises(InvalidInput, match="is no folder"):
            async with AsyncKinglyStore.from_conn_string(place):
                pass


def test_a_store_whose_event_loop_has_ended_says_so(tmp_path: Path) -> None:
    async def made() -> AsyncKinglyStore:
        async with AsyncKinglyStore.from_conn_string(str(tmp_path / "home")) as store:
            return store

    store = asyncio.run(made())
    with pytest.raises(RouterClosed, match="another event loop"):
        store.get(("n",), "k")


async def test_a_cancelled_call_has_written_all_of_its_batch_or_nothing(tmp_path: Path) -> None:
    ops = [base.PutOp(("n",), f"k{i}", {"text": "ab"}) for i in range(20)]
    async with AsyncKinglyStore.from_conn_string(str(tmp_path / "home"), index=INDEX) as store:
        for steps in range(12):
            call = asyncio.ensure_future(store.abatch(ops))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            assert len(await store.asearch((), limit=50)) in {0, 20}
            await store.abatch([op._replace(value=None) for op in ops])


def test_the_same_path_has_the_same_items_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder / ".git").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / folder)
        with KinglyStore.from_conn_string(str(tmp_path / "home")) as store:
            store.put(("n",), folder, {})
            assert len(store.search(("n",))) == (1 if folder == "one" else 2)
