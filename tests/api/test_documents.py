"""Documents: written and found by name, field and word, with versions, ends and repeated operations."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory import MemoryRouter, SyncMemoryRouter
from kingly_memory.documents import MOST_BYTES, Put, Remove, VersionConflict, json_text
from kingly_memory.errors import InvalidInput
from kingly_memory.filters import admits, check_filter
from kingly_memory.ports import DocumentRows
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


async def test_a_document_is_there_under_its_name_with_a_version_and_its_times(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    first = await memory.documents.put("users/alice", "profile", {"city": "Oslo"})
    clock.jump(60)
    second = await memory.documents.put(("users", "alice"), "profile", {"city": "Bergen"})
    assert (first.version, second.version) == (1, 2)
    assert second.created_at == first.created_at == second.updated_at - timedelta(seconds=60)
    assert await memory.documents.get("users/alice", "profile") == second
    assert await memory.documents.get("users/alice", "nothing") is None
    assert await memory.documents.get("users", "profile") is None
    assert await memory.documents.delete("users/alice", "profile") is True
    assert await memory.documents.delete("users/alice", "profile") is False
    assert await memory.documents.get("users/alice", "profile") is None


async def test_documents_are_in_no_recall_and_in_no_other_project(store: PromptStore, clock: ManualClock) -> None:
    async with router_over(store, None, clock) as memory:
        await memory.documents.put("notes", "one", {"text": "the flamingo is pink"})
        assert not list(await memory.search("flamingo"))
        assert not (await memory.list()).memories
        assert await memory.get("one") is None
        assert (await memory.status())["memories"]["total"] == 0
        assert [one.document.key for one in await memory.documents.search(query="flamingo")] == ["one"]


@pytest.mark.parametrize(("there", "expected", "fits"), [(0, 0, True), (0, 1, False), (2, 2, True), (2, 1, False)])
@pytest.mark.parametrize("verb", ["put", "delete"])
async def test_only_over_the_version_that_was_seen(
    memory: MemoryRouter, there: int, expected: int, fits: bool, verb: str
) -> None:
    for number in range(there):
        await memory.documents.put("app", "settings", number)
    before = await memory.documents.get("app", "settings")
    put, delete = Put("app", "settings", "new", expected), Remove("app", "settings", expected)
    change = put if verb == "put" else delete
    if fits:
        await memory.documents.write([change])
        after = await memory.documents.get("app", "settings")
        assert (after and after.value) == ("new" if verb == "put" else None)
    else:
        with pytest.raises(VersionConflict, match=f"has version {there}" if there else "is not there"):
            await memory.documents.write([change])
        assert await memory.documents.get("app", "settings") == before


async def test_several_changes_are_done_together_or_not_at_all(memory: MemoryRouter) -> None:
    await memory.documents.put("files", "old", "text")
    moved = await memory.documents.write([Remove("files", "old", if_version=1), Put("files", "new", "text")])
    assert [one and one.value for one in moved] == ["text", "text"]
    with pytest.raises(VersionConflict):
        await memory.documents.write([Put("files", "third", "x"), Put("files", "new", "y", if_version=9)])
    assert [one.key for one in await memory.documents.list()] == ["new"]


async def test_what_is_decided_in_the_transaction_that_looks_is_done_together_or_not_at_all(
    memory: MemoryRouter,
) -> None:
    def count(rows: DocumentRows, space: str) -> list[Put]:
        known = rows.document(space, ("counts",), "calls")
        return [Put("counts", "calls", 1 if known is None else known.value + 1)]

    def refuse(rows: DocumentRows, space: str) -> list[Put]:
        raise LookupError(count(rows, space))

    await asyncio.gather(*(memory.documents._decided(count) for _ in range(20)))
    for wrong in (refuse, lambda rows, space: [*count(rows, space), Put("", "nowhere", 1)]):
        with pytest.raises((LookupError, InvalidInput)):
            await memory.documents._decided(wrong)
    assert [one.value for one in await memory.documents.list()] == [20]


async def test_an_operation_that_is_told_again_changes_nothing(memory: MemoryRouter) -> None:
    first = await memory.documents.put("n", "k", 1, operation_id="op-1", if_version=0)
    await memory.documents.put("n", "k", 2)
    assert await memory.documents.put("n", "k", 1, operation_id="op-1", if_version=0) == first
    assert (await memory.documents.get("n", "k")).value == 2  # type: ignore[union-attr]
    with pytest.raises(VersionConflict, match="done before with other contents"):
        await memory.documents.put("n", "k", 3, operation_id="op-1")
    assert await memory.documents.delete("n", "k", operation_id="op-2") is True
    assert await memory.documents.delete("n", "k", operation_id="op-2") is True
    assert await memory.documents.delete("n", "k") is False


async def test_a_document_ends_when_it_was_said_to_and_begins_anew(memory: MemoryRouter, clock: ManualClock) -> None:
    brief = await memory.documents.put("cache", "brief", "text", ttl="1h")
    await memory.documents.put("cache", "lasting", "text")
    clock.jump(3_000)
    await memory.documents.touch([brief])
    clock.jump(3_000)
    assert [one.key for one in await memory.documents.list("cache")] == ["brief", "lasting"]
    clock.jump(3_000)
    assert await memory.documents.get("cache", "brief") is None
    assert [one.key for one in await memory.documents.list("cache")] == ["lasting"]
    assert [one.document.key for one in await memory.documents.search("cache", "text")] == ["lasting"]
    assert (await memory.documents.put("cache", "brief", "again", if_version=0)).version == 2


async def test_a_sweep_removes_what_has_ended_from_the_file(
    store: PromptStore, memory: MemoryRouter, clock: ManualClock
) -> None:
    await memory.documents.put("cache", "brief", "text", ttl=5, operation_id="op")
    clock.jump(40 * 86_400)
    await memory.sweep()
    with closing(sqlite3.connect(store.home / "store" / "cache.db")) as connection, connection:
        for table in ("km_documents", "km_documents_text", "km_operations"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table  # noqa: S608


async def test_what_has_ended_can_be_removed_below_one_prefix_alone(memory: MemoryRouter, clock: ManualClock) -> None:
    for place in ("cache", "cache/inner", "cache2"):
        await memory.documents.put(place, "brief", "text", ttl=5)
    await memory.documents.put("cache", "lasting", "text")
    assert await memory.documents.sweep() == 0
    clock.jump(10)
    assert [await memory.documents.sweep(one) for one in ("cache", "cache", "")] == [2, 0, 1]
    assert await memory.documents.get("cache", "lasting") is not None


async def test_several_documents_are_read_at_once_in_the_order_asked(memory: MemoryRouter, clock: ManualClock) -> None:
    await memory.documents.put("n", "one", 1)
    await memory.documents.put("n", "brief", 2, ttl=5)
    clock.jump(10)
    found = await memory.documents.get_many([("n", "brief"), (("n",), "one"), ("n", "nothing"), ("n", "one")])
    assert [None if one is None else one.value for one in found] == [None, 1, None, 1]
    assert await memory.documents.get_many([]) == ()


async def test_pages_and_prefixes_go_by_whole_labels(memory: MemoryRouter) -> None:
    places = [("a",), ("a", "b"), ("ab",), ("a b",), ("a%",), ("A",), ("a", "b", "c")]
    for place in places:
        await memory.documents.put(place, "k", list(place))
    assert set(await memory.documents.namespaces()) == set(places)
    assert await memory.documents.namespaces("a") == (("a",), ("a", "b"), ("a", "b", "c"))
    assert {one.namespace for one in await memory.documents.list("a/b")} == {("a", "b"), ("a", "b", "c")}
    seen, last = [], None
    while page := await memory.documents.list(limit=2, after=last):
        seen += [one.namespace for one in page]
        last = page[-1]
    assert sorted(seen) == sorted(places)


async def test_words_find_documents_best_first_and_fields_filter_them(memory: MemoryRouter) -> None:
    for key, status, score, text in (
        ("one", "open", 3, "the deploy window is on friday"),
        ("two", "open", 5, "friday is friday: deploy, deploy, deploy"),
        ("three", "done", 9, "a cake for the birthday"),
        ("四", "open", 1, "東京の天気"),
    ):
        await memory.documents.put("tasks", key, {"status": status, "score": score, "at": {"text": text}})

    async def keys(query: str = "", **wanted: Any) -> list[str]:
        found = await memory.documents.search("tasks", query, **wanted)
        assert all((one.relevance is None) == (query in ("", "東京")) for one in found)
        return [one.document.key for one in found]

    assert await keys("when do we deploy?") == ["two", "one"]
    assert await keys("東京") == ["四"]
    assert await keys() == ["四", "three", "two", "one"]
    assert await keys(filter={"status": "open"}, limit=2, offset=1) == ["two", "one"]
    assert await keys("friday", filter={"score": {"$gt": 3}}) == ["two"]
    assert await keys("a nonsensical zebra") == []


async def test_only_named_fields_are_found_by_their_words(memory: MemoryRouter) -> None:
    await memory.documents.put("n", "some", {"title": "harbour", "body": "lighthouse"}, index=["title"])
    await memory.documents.put("n", "none", {"title": "harbour"}, index=False)
    assert [one.document.key for one in await memory.documents.search(query="harbour")] == ["some"]
    assert not await memory.documents.search(query="lighthouse")
    assert len(await memory.documents.search()) == 2


@given(value=JSON)
def test_json_comes_back_the_same(value: Any) -> None:
    assert json.loads(json_text("value", value)) == value


async def test_half_of_a_surrogate_pair_in_a_question_is_no_error(memory: MemoryRouter) -> None:
    await memory.documents.put("notes", "one", "tea at four")
    assert len(await memory.documents.search(query="tea \ud800")) == 1
    assert await memory.documents.search(query="\ud800") == ()


async def test_long_values_and_lone_surrogates_come_back_whole(memory: MemoryRouter) -> None:
    for value in ("x" * (MOST_BYTES - 2), "half \ud83d of a pair", {"ключ": ["värde", 1e300, 2**63, None]}):
        await memory.documents.put("n", "k", value)
        assert (await memory.documents.get("n", "k")).value == value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"value": float("nan")}, "value: is no JSON"),
        ({"value": {1: 2}}, "value: has a name that is not text"),
        ({"value": b"bytes"}, "value: is no JSON"),
        ({"value": "x" * MOST_BYTES}, "at most 16,777,216 are stored"),
        ({"namespace": ""}, "namespace: is empty"),
        ({"namespace": ["a", ""]}, "namespace: is empty"),
        ({"namespace": "a\x1fb"}, "namespace: contains control characters"),
        ({"namespace": ["x"] * 33}, "namespace: has 33 labels"),
        ({"key": ""}, "key: is empty"),
        ({"ttl": 0}, "ttl: 0 is not more than 0"),
        ({"ttl": 1e300}, "ttl: 1e[+]300 is not more than 0"),
        ({"if_version": -1}, "if_version: -1 is outside 0"),
    ],
)
async def test_what_cannot_be_kept_is_refused_in_a_sentence(
    memory: MemoryRouter, how: dict[str, Any], problem: str
) -> None:
    given = {"namespace": "n", "key": "k", "value": "text", **how}
    with pytest.raises(InvalidInput, match=problem):
        await memory.documents.put(**given)
    deep: Any = None
    for _ in range(101):
        deep = [deep]
    with pytest.raises(InvalidInput, match="nested deeper than 100 levels"):
        await memory.documents.put("n", "k", deep)
    assert await memory.documents.list() == ()


@pytest.mark.parametrize(
    ("wanted", "value", "passes"),
    [
        ({}, {}, True),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": {"b": 1}}, {"a": 3}, False),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": {"$gt": 1, "$lt": 3}}, {"a": 2}, True),
        ({"a": {"$gte": 2}}, {"a": "2"}, False),
        ({"a": {"$lte": "b"}}, {"a": "a"}, True),
        ({"a": {"$ne": 1}}, {}, True),
        ({"a": {"$eq": {"b": 1}}}, {"a": {"b": 1}}, True),
        ({"a": {"$in": [1, "x"]}}, {"a": "x"}, True),
        ({"a": 1}, "text", False),
    ],
)
def test_a_filter_lets_through_what_has_its_fields(wanted: dict[str, Any], value: Any, passes: bool) -> None:
    assert admits(check_filter("filter", wanted), value) is passes


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ("status", "expected field names"),
        ({"$gt": 3}, "'[$]gt' stands where a field name should"),
        ({"a": {"$near": 3}}, "'[$]near' is unknown; choose one of [$]eq"),
        ({"a": {"$gt": None}}, "compares numbers with numbers"),
        ({"a": {"$in": "abc"}}, "needs a list"),
        ({"a": {"b": {"$no": 1}}}, "'[$]no' is unknown"),
        ({"a": object()}, "a is compared with object, which JSON cannot hold"),
        ({"a": 10**5000}, "a is compared with a number of thousands of digits"),
        ({"a": [{"$foo": 1}]}, "'[$]foo' is unknown"),
        ({"a": {"$eq": {"$foo": 1}}}, "'[$]foo' is unknown"),
        ({"a": {"$in": [{"$in": 5}]}}, "needs a list"),
        ({"a": [{1: 2}]}, "expected field names"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(memory: MemoryRouter, wanted: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await memory.documents.search(filter=wanted)


async def test_a_version_is_never_given_again(memory: MemoryRouter, clock: ManualClock) -> None:
    first = await memory.documents.put("n", "k", "mine")
    await memory.documents.delete("n", "k")
    assert (await memory.documents.put("n", "k", "a stranger's")).version == 2
    with pytest.raises(VersionConflict):
        await memory.documents.put("n", "k", "over it", if_version=first.version)
    brief = await memory.documents.put("n", "brief", 1, ttl=5)
    clock.jump(10)
    await memory.sweep()
    assert (await memory.documents.put("n", "brief", 2)).version > brief.version


async def test_a_value_that_holds_itself_is_refused_at_once(memory: MemoryRouter) -> None:
    root: dict[str, Any] = {}
    root["children"] = [{"parent": root}, {"parent": root}]
    with pytest.raises(InvalidInput, match="nested deeper"):
        await memory.documents.put("n", "k", root)
    places: list[Any] = [(None, "k"), (3, "k"), ("n", None)]
    for namespace, key in places:
        with pytest.raises(InvalidInput):
            await memory.documents.put(namespace, key, 1)
    with pytest.raises(InvalidInput, match="expected Put or Remove for each, not dict"):
        await memory.documents.write([{}])  # type: ignore[list-item]


async def test_words_and_pieces_of_one_question_both_find(memory: MemoryRouter) -> None:
    await memory.documents.put("n", "both", "deploy 日本語")
    await memory.documents.put("n", "piece", "日本語")
    await memory.documents.put("n", "hidden", "日本語", index=False)
    assert [one.document.key for one in await memory.documents.search(query="deploy 日本語")] == ["both", "piece"]


def test_documents_and_items_are_saved_from_a_damaged_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    values = {f"k{number}": {"number": number, "text": "x" * 500} for number in range(60)}
    with SyncMemoryRouter.open(home, False, project="app") as memory:
        memory.documents.write([Put("n", key, value) for key, value in values.items()])
        memory.log("talk").append(list(range(200)))
        memory.store("Deploys need two reviews", key="deploy")
    with closing(sqlite3.connect(home / "store" / "cache.db")) as connection, connection:
        [page] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'km_documents_place'").fetchone()
    with (home / "store" / "cache.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\x5a" * 4096)
    with SyncMemoryRouter.open(home, False, project="app") as memory:
        assert {one.key: one.value for one in memory.documents.list()} == values
        assert memory.log("talk").last() == list(range(200))
        assert memory.get("deploy") is not None
        assert len(memory.documents.search(query="xxx")) == 0
    assert list(home.glob("store.corrupt-*"))


def test_another_process_reads_them_without_awaiting(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path / "home", project="app") as memory:
        memory.documents.put("n", "k", {"a": [1, 2]})
        memory.log("talk").append([{"role": "user"}])
    with SyncMemoryRouter.open(tmp_path / "home", project="app") as memory:
        assert memory.documents.get("n", "k").value == {"a": [1, 2]}  # type: ignore[union-attr]
        assert memory.log("talk").last() == [{"role": "user"}]
    with SyncMemoryRouter.open(tmp_path / "home", project="other") as memory:
        assert memory.documents.list() == ()
        assert memory.logs() == ()
