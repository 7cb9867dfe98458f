"""What the hub does with a call, without the network: once per key, apart by scope, forgotten and brought back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.digests import content_digest
from kingly_memory.documents import name_of
from kingly_memory.errors import InvalidInput
from kingly_memory.hub.access import Caller
from kingly_memory.hub.engine import Engine, UnknownMemory, scope_name
from kingly_memory.hub.grants import ANYBODY, QuotaUsedUp
from kingly_memory.hub.methods import METHODS, parsed
from kingly_memory.hub.recall import REPLY_LIMIT_BYTES
from kingly_memory.models import JsonObject, MemoryStatus
from kingly_memory.ports import HOME, INCARNATION
from kingly_memory.testing import ManualClock
from tests.hub.stores import APP, Hub

OTHER = scope_name("default", "other")


def record(text: str, **more: Any) -> str:
    return json.dumps({"key": "k", "content": text, "metadata": {"id": "m1", **more}})


def nested(levels: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def test_content_type_and_metadata_come_back_as_they_were_sent(hub: Hub) -> None:
    content = record("the parser was rewritten")
    metadata = {"significance": 0.9, "confidence": 0.9, "source": "kingly_agent", "timestamp": 17, "context_id": None}
    stored = hub("store_memory", content=content, memory_type="pattern_learning", metadata=metadata)
    found = hub.find("parser")[0]
    assert (found["content"], found["memory_type"], found["metadata"]) == (content, "pattern_learning", metadata)
    assert found["memory_id"] == stored["memory_id"]
    assert 0 < found["similarity"] == found["relevance"] <= 1


def test_text_title_and_tags_are_searched_and_the_json_around_them_is_not(hub: Hub) -> None:
    hub("store_memory", content=record("we drank tea", title="Meeting with Ada", tags=["budget"], source="wiki"))
    assert [hub.find(word)[0]["similarity"] for word in ("tea", "Ada", "budget")] == [1.0, 1.0, 1.0]
    assert [hub.find(word, threshold=-1.0) for word in ("metadata", "wiki")] == [[], []]


@pytest.mark.parametrize(
    "content",
    ["plain words", "[1, 2]", '{"content": 7}', '{"text": "x"}', "{broken", "[" * 100_000, '{"content": "tea"}'],
)
def test_any_content_is_stored_and_echoed(hub: Hub, content: str) -> None:
    hub("store_memory", content=content, memory_type="working")
    assert [one["content"] for one in hub("get_working_memory")["memories"]] == [content]


@pytest.mark.parametrize("inner", [{"title": "x" * 9_999}, {"tags": [7]}, {"scope": "?"}, {"scope": {"agent": 3}}])
def test_a_record_inside_the_content_that_makes_no_sense_is_passed_over(hub: Hub, inner: JsonObject) -> None:
    hub("store_memory", content=record("tea", **inner))
    assert len(hub.find("tea")) == 1


def test_a_repeat_by_a_sender_whose_clock_is_far_ahead_is_no_second_revision(hub: Hub) -> None:
    sent = {"content": record("tea", updated_at="2999-01-01T00:00:00+00:00"), "idempotency_key": "k1"}
    first = hub("store_memory", **sent)
    later = ManualClock(datetime(2026, 1, 2, tzinfo=UTC))
    hub.engine = Engine(hub.store, later, "1.2.3")
    assert hub("store_memory", **sent) == {**first, "idempotency_hit": True, "revision": 1}


def test_lone_surrogates_become_replacement_characters_everywhere(hub: Hub) -> None:
    metadata = {"context_id": "\ud800", "no\udfffte": ["\udc00"]}
    hub("store_memory", content="tea \ud800", memory_type="working", metadata=metadata, idempotency_key="\ud800")
    found = hub("get_working_memory", context_filter="\ud801")["memories"][0]
    assert found["content"] == "tea \ufffd"
    assert found["metadata"] == {"context_id": "\ufffd", "no\ufffdte": ["\ufffd"]}
    assert hub("forget_memory", memory_id="\ud800")["forgotten"] is False
    hub("record_thought", content="then \ud800", record={"title": "\udc00"})
    assert json.loads(hub.find("then")[0]["content"])["metadata"] == {"title": "\ufffd"}
    name, place = name_of(["users"], "ada"), {"place": ["users", "ada"]}
    put: JsonObject = {"name": name, "at": "2026-01-01", "document": place, "digest": "0" * 32}
    hub("put_document", content="\ud800", **put)
    (listed,) = hub("list_changes", documents=True)["changes"]
    assert listed["content"] == "\ufffd"


def test_without_a_key_every_store_is_a_new_memory(hub: Hub) -> None:
    assert hub("store_memory", content="x")["memory_id"] != hub("store_memory", content="x")["memory_id"]


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_no_two_namespaces_and_projects_share_a_scope(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (scope_name(*one) == scope_name(*other)) == (one == other)


def test_scopes_see_nothing_of_each_other(hub: Hub) -> None:
    mine = hub("store_memory", content="tea", memory_type="working", idempotency_key="k")["memory_id"]
    hub("store_memory", content="tea too", idempotency_key="mine alone")
    theirs = hub("store_memory", OTHER, content="tea", idempotency_key="k")
    assert theirs["idempotency_hit"] is False
    assert [one["memory_id"] for one in hub.find("tea", OTHER)] == [theirs["memory_id"]]
    assert hub("get_working_memory", OTHER)["memories"] == []
    assert hub("get_linked_memories", OTHER, memory_ids=[mine]) == {"links": [], "memories": []}
    with pytest.raises(UnknownMemory):
        hub("update_memory", OTHER, memory_id=mine, content="changed")
    with pytest.raises(UnknownMemory):
        hub("create_memory_link", OTHER, source_memory_id=theirs["memory_id"], target_memory_id=mine)
    with pytest.raises(UnknownMemory):
        hub("mark_memory", OTHER, memory_id=mine, pin={"pinned": True, "weight": 1.0, "at": 1.0})
    assert hub("forget_memory", OTHER, memory_id=mine)["forgotten"] is False
    hub("forget_memory", OTHER, store_key="mine alone", purge=True)
    hub("record_thought", OTHER, content="tea leaves", parent_thought_id=mine)
    told = [one.get("content") for one in hub("list_changes", OTHER)["changes"]]
    assert told == ["tea", None, "tea leaves"]
    assert sorted(one["content"] for one in hub.find("tea")) == ["tea", "tea too"]


def test_an_update_replaces_what_is_found_and_is_applied_once_per_key(hub: Hub) -> None:
    memory_id = hub("store_memory", content="tea", metadata={"note": 1}, memory_type="working")["memory_id"]
    first = hub("update_memory", memory_id=memory_id, content="coffee", idempotency_key="u1")
    again = hub("update_memory", memory_id=memory_id, content="lost", idempotency_key="u1")
    found = hub.find("coffee")[0]
    assert (first["revision"], first["idempotency_hit"]) == (2, False)
    assert (again["revision"], again["idempotency_hit"]) == (2, True)
    assert (found["content"], found["metadata"], found["memory_type"]) == ("coffee", {"note": 1}, "working")
    assert hub.find("tea") == []


def test_an_update_that_was_overtaken_by_a_later_one_has_no_effect(hub: Hub) -> None:
    memory_id = hub("store_memory", content="tea", idempotency_key="id")["memory_id"]
    hub("update_memory", memory_id=memory_id, content="third tea", idempotency_key="id.10")
    late = hub("update_memory", memory_id=memory_id, content="second tea", idempotency_key="id.9")
    assert (late["revision"], late["idempotency_hit"]) == (2, True)
    assert hub("forget_memory", memory_id=memory_id, idempotency_key="id.8")["idempotency_hit"] is True
    assert [one["content"] for one in hub.find("tea")] == ["third tea"]
    assert hub("forget_memory", memory_id=memory_id, idempotency_key="id.11")["idempotency_hit"] is False
    assert hub("update_memory", memory_id=memory_id, content="back", idempotency_key="id.10")["idempotency_hit"] is True
    assert hub.find("tea") == []


@pytest.mark.parametrize(
    ("earlier", "later"), [("a.5", "b.4"), ("5", "4"), (".5", ".4"), ("a.5", "a.x"), ("a.x", "a.4"), ("a.5", "a.-6")]
)
def test_only_changes_that_one_sender_has_numbered_have_an_order(hub: Hub, earlier: str, later: str) -> None:
    memory_id = hub("store_memory", content="tea")["memory_id"]
    hub("update_memory", memory_id=memory_id, content="earlier tea", idempotency_key=earlier)
    assert not hub("update_memory", memory_id=memory_id, content="tea", idempotency_key=later)["idempotency_hit"]


def test_the_last_sixteen_changes_are_remembered(hub: Hub) -> None:
    memory_id = hub("store_memory", content="tea")["memory_id"]
    for number in range(17):
        hub("update_memory", memory_id=memory_id, content=f"cup {number}", idempotency_key=f"u{number}")
    hits = [hub("update_memory", memory_id=memory_id, content="x", idempotency_key=f"u{n}") for n in (16, 1, 0)]
    assert [hit["idempotency_hit"] for hit in hits] == [True, True, False]


def test_a_forgotten_memory_is_found_nowhere_and_its_text_is_gone(hub: Hub) -> None:
    content = record("the canary sings", title="canary", tags=["canary"])
    memory_id = hub("store_memory", content=content, memory_type="working", idempotency_key="k")["memory_id"]
    assert hub("forget_memory", memory_id=memory_id)["forgotten"] is True
    assert (hub.find("canary"), hub("get_working_memory")["memories"]) == ([], [])
    row = hub.store.reader.row(memory_id)
    assert row is not None
    assert "canary" not in json.dumps(row.memory.to_json())
    assert hub.store.reader.facets("sent", [memory_id]) == {}
    assert hub("store_memory", content=content, idempotency_key="k") == {
        "memory_id": memory_id,
        "idempotency_hit": True,
        "forgotten": True,
    }
    assert hub.find("canary") == []


def test_a_wrong_clock_forgets_what_is_still_on_its_way_for_no_longer_than_a_day(hub: Hub) -> None:
    hub("forget_memory", store_key="m1", forgotten_at="9999-01-01T00:00:00+00:00")
    later = ManualClock()
    later.tick(2 * 86_400)
    hub.engine = Engine(hub.store, later, "1.2.3")
    said = record("said again", updated_at=later.now().isoformat())
    assert "forgotten" not in hub("store_memory", content=said, idempotency_key="m1")
    assert hub.rows(MemoryStatus.LIVE) == 1


def test_a_store_that_arrives_after_its_forget_does_not_come_back(hub: Hub) -> None:
    forgotten = hub("forget_memory", store_key="late", idempotency_key="f1")
    assert hub("forget_memory", store_key="late", idempotency_key="f1")["memory_id"] == forgotten["memory_id"]
    late = hub("store_memory", content="too late", idempotency_key="late")
    assert late == {"memory_id": forgotten["memory_id"], "idempotency_hit": True, "forgotten": True}
    assert (hub.find("too late"), hub.rows(MemoryStatus.FORGOTTEN)) == ([], 1)


def test_an_update_brings_a_forgotten_memory_back(hub: Hub) -> None:
    memory_id = hub("store_memory", content="tea", idempotency_key="k")["memory_id"]
    hub("forget_memory", memory_id=memory_id, idempotency_key="f1")
    hub("update_memory", memory_id=memory_id, content="tea again", idempotency_key="u1")
    assert [one["content"] for one in hub.find("tea")] == ["tea again"]
    assert hub("forget_memory", memory_id=memory_id, idempotency_key="f1")["idempotency_hit"] is True
    assert len(hub.find("tea")) == 1


def test_linked_memories_come_with_their_links_until_one_end_is_forgotten(hub: Hub) -> None:
    cause, effect = (hub("store_memory", content=name)["memory_id"] for name in ("cause", "effect"))
    ends = {"source_memory_id": cause, "target_memory_id": effect, "link_type": "causal"}
    first = hub("create_memory_link", **ends, strength=0.5, description="it led to it")
    again = hub("create_memory_link", **ends, strength=1)
    assert (first["link_id"], again["strength"]) == (again["link_id"], 1.0)
    linked = hub("get_linked_memories", memory_ids=[effect, effect])
    assert linked["links"] == [again]
    assert [one["content"] for one in linked["memories"]] == ["cause"]
    hub("forget_memory", memory_id=cause)
    assert hub("get_linked_memories", memory_ids=[effect]) == {"links": [], "memories": []}


def test_a_link_needs_both_its_ends(hub: Hub) -> None:
    memory_id = hub("store_memory", content="x")["memory_id"]
    with pytest.raises(UnknownMemory, match="target_memory_id"):
        hub("create_memory_link", source_memory_id=memory_id, target_memory_id="nobody")


def test_a_link_of_an_unknown_type_is_refused(hub: Hub) -> None:
    ends = [hub("store_memory", content=name)["memory_id"] for name in "ab"]
    with pytest.raises(InvalidInput, match="link_type"):
        hub("create_memory_link", source_memory_id=ends[0], target_memory_id=ends[1], link_type="friend_of")


def test_a_change_of_a_link_that_was_overtaken_by_a_later_one_has_no_effect(hub: Hub) -> None:
    ids = [hub("store_memory", content=name)["memory_id"] for name in "ab"]
    ends = {"source_memory_id": ids[0], "target_memory_id": ids[1]}
    for key, strength in (("l", 0.1), ("l.3", 0.3), ("l.2", 0.2), ("l", 0.1)):
        hub("create_memory_link", **ends, strength=strength, idempotency_key=key)
    assert [one["strength"] for one in hub("get_linked_memories", memory_ids=ids)["links"]] == [0.3]
    assert hub("create_memory_link", **ends, strength=0.4)["strength"] == 0.4


def test_a_thought_that_comes_with_its_record_is_echoed_like_a_stored_memory(hub: Hub) -> None:
    said = {"id": "m1", "key": None, "scope": {"project": "p", "agent": "a"}, "tags": ["thought"], "revision": 1}
    metadata = {"significance": 0.9, "context_id": "c1"}
    hub("record_thought", content="so it was the cache", record=said, metadata=metadata, idempotency_key="m1")
    (found,) = hub.find("cache")
    assert json.loads(found["content"]) == {"key": None, "content": "so it was the cache", "metadata": said}
    assert found["metadata"] == {"significance": 0.9, "context_id": "c1", "thought_type": "inference"}
    assert hub("store_memory", content="again", idempotency_key="m1")["idempotency_hit"] is True


def test_a_thought_is_a_memory_with_its_chain(hub: Hub) -> None:
    thought = hub("record_thought", content="so it was the cache", chain_id="c9", idempotency_key="t")
    assert thought["thought_id"] == thought["memory_id"]
    assert hub("record_thought", content="again", idempotency_key="t")["idempotency_hit"] is True
    found = hub.find("cache")[0]
    assert (found["metadata"]["chain_id"], found["metadata"]["thought_type"]) == ("c9", "inference")


@pytest.mark.parametrize("types", [["procedural"], "procedural", ["skill_development"]])
def test_search_keeps_to_the_types_asked_for(hub: Hub, types: object) -> None:
    hub("store_memory", content="tea one", memory_type="semantic")
    hub("store_memory", content="tea two", memory_type="procedural")
    assert [one["content"] for one in hub.find("tea", memory_types=types)] == ["tea two"]


def test_search_gives_what_holds_most_of_the_question_first_and_nothing_below_the_threshold(hub: Hub) -> None:
    for text in ("lunch was a sandwich", "the rollback took long", "deployment rollback", "the deployment went well"):
        hub("store_memory", content=text)
    found = hub.find("deployment rollback")
    assert [one["content"] for one in found] == [
        "deployment rollback",
        "the deployment went well",
        "the rollback took long",
    ]
    assert 1.0 == found[0]["similarity"] > found[1]["similarity"] > 0.0
    assert [one["content"] for one in hub.find("deployment rollback", threshold=0.9)] == ["deployment rollback"]
    assert len(hub.find("deployment rollback", limit=2)) == 2


@pytest.mark.parametrize("query", ["", "  \n", "🎉", '"(* NEAR', "x" * 1_000_000, "\x00", "tea\x00cup"])
def test_every_query_has_an_answer(hub: Hub, query: str) -> None:
    hub("store_memory", content="tea")
    assert isinstance(hub.find(query), list)


def test_a_reply_never_grows_beyond_what_clients_read(hub: Hub) -> None:
    for number in range(3):
        hub("store_memory", content=f"tea {number} " + "x" * (REPLY_LIMIT_BYTES // 3), idempotency_key=str(number))
    hub.find("tea")
    reply = hub("search_semantic_memories", query="tea", threshold=-1.0)
    assert len(reply["memories"]) == 2
    assert reply["truncated"] is True


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("store_memory", {}, "content"),
        ("store_memory", {"content": 7}, "content"),
        ("store_memory", {"content": " "}, "content"),
        ("store_memory", {"content": record("")}, "content"),
        ("store_memory", {"content": "x", "memory_type": "dream"}, "memory_type"),
        ("store_memory", {"content": "x", "metadata": []}, "metadata"),
        ("store_memory", {"content": "x", "metadata": {"significance": "high"}}, "significance"),
        ("store_memory", {"content": "x", "metadata": {"confidence": 2}}, "confidence"),
        ("store_memory", {"content": "x", "idempotency_key": "k" * 513}, "idempotency_key"),
        ("store_memory", {"content": "x", "idempotency_key": 5}, "idempotency_key"),
        ("update_memory", {"content": "x"}, "memory_id"),
        ("forget_memory", {}, "memory_id"),
        ("search_semantic_memories", {"query": "x", "limit": "10"}, "limit"),
        ("search_semantic_memories", {"query": "x", "limit": 0}, "limit"),
        ("search_semantic_memories", {"query": "x", "memory_types": ["dream"]}, "memory_types"),
        ("get_linked_memories", {"memory_ids": "one"}, "memory_ids"),
        ("update_memory", {"memory_id": "a\0b", "content": "x"}, "memory_id"),
        ("forget_memory", {"memory_id": "a\0b"}, "memory_id"),
        ("forget_memory", {"store_key": "a\0b"}, "store_key"),
        ("get_linked_memories", {"memory_ids": ["a\0b"]}, "memory_ids"),
        ("create_memory_link", {"source_memory_id": "a\0b", "target_memory_id": "b"}, "source_memory_id"),
        ("mark_memory", {"memory_id": "a\0b"}, "memory_id"),
        ("get_document", {"memory_id": "a\0b", "digest": "0" * 32}, "memory_id"),
        ("get_document", {"memory_id": "a", "digest": "a\0b"}, "digest"),
        ("create_memory_link", {"source_memory_id": "a", "target_memory_id": "b", "strength": "x"}, "strength"),
        ("record_thought", {"content": "x", "chain_id": 4}, "chain_id"),
        ("record_thought", {"content": "x", "record": nested(2_000)}, "params"),
        ("put_document", {"name": "a/b", "at": "2026-01-01"}, "name"),
        ("put_document", {"name": "0" * 32, "at": "soon"}, "at"),
        ("put_document", {"name": "0" * 32, "at": "2026-01-01", "document": {"place": ["a", "b"]}}, "document"),
    ],
)
def test_wrong_parameters_are_refused_by_name(hub: Hub, method: str, params: JsonObject, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        hub(method, **params)
    assert refused.value.field == field
    assert hub.rows(MemoryStatus.LIVE) == 0


@pytest.mark.parametrize("method", METHODS)
def test_unknown_parameters_are_ignored(hub: Hub, method: str) -> None:
    stored = hub("store_memory", content="x")["memory_id"]
    fitting = {
        "content": "x",
        "query": "x",
        "memory_id": stored,
        "memory_ids": [stored],
        "memories": [{"content": "x", "from": "x"}],
        "name": "0" * 32,
        "at": "2026-01-01T00:00:00Z",
        "digest": "0" * 32,
        "from_the_future": {},
    }
    if method == "put_documents":
        fitting["documents"] = [dict(fitting)]
    assert hub(method, **fitting, source_memory_id=stored, target_memory_id=stored)


def test_of_several_memories_each_is_stored_once_or_refused_by_itself(hub: Hub) -> None:
    said = [
        {"content": "tea", "idempotency_key": "k1"},
        {"content": ""},
        {"content": "tea again", "idempotency_key": "k1"},
        {"content": "milk", "memory_type": 5},
        {"content": "coffee", "idempotency_key": "k2"},
    ]
    tea, empty, again, wrong, coffee = hub("store_many", memories=said)["results"]
    assert hub("store_many", memories=said)["results"][4] == {**coffee, "idempotency_hit": True}
    assert (again["memory_id"], again["digest"]) == (tea["memory_id"], content_digest("tea"))
    assert [one["field"] for one in (empty, wrong)] == ["content", "memory_type"]
    assert {one["error_code"] for one in (empty, wrong)} == {"INVALID_PARAMETER"}
    assert hub.rows(MemoryStatus.LIVE) == 2
    assert [one["content"] for one in hub.find("coffee")] == ["coffee"]


@pytest.mark.requirement("A19")
@pytest.mark.parametrize("based_on", [None, "", "of nothing"])
def test_a_new_document_needs_room_whatever_it_is_based_on_and_one_that_is_there_needs_none(
    hub: Hub, based_on: str | None
) -> None:
    def put(key: str) -> None:
        place = {"place": ["users", key]}
        said = {"name": name_of(["users"], key), "at": "2026-01-01", "document": place, "digest": "0" * 32}
        request = parsed("put_document", {**said, "content": "{}", "based_on": based_on})
        hub.engine.check_quota(Caller(ANYBODY, quota=1), APP, request)
        hub.engine.answer(APP, request)

    put("ada")
    put("ada")
    with pytest.raises(QuotaUsedUp):
        put("grace")


def test_a_document_in_several_parts_needs_room_for_one(hub: Hub) -> None:
    said = {"name": name_of(["users"], "ada"), "at": "2026-01-01", "document": {"place": ["users", "ada"]}}
    parts = [{**said, "digest": "0" * 32, "content": "{}", "part": number, "parts": 2} for number in range(2)]
    hub.engine.check_quota(Caller(ANYBODY, quota=1), APP, parsed("put_documents", {"documents": parts}))


def test_the_hub_introduces_itself_and_what_it_can_do(hub: Hub) -> None:
    assert hub("initialize_memory_system") == {
        "success": True,
        "server": "kingly-hub",
        "version": "1.2.3",
        "incarnation": hub.store.reader.facets(HOME, [INCARNATION])[INCARNATION]["id"],
        "features": ["idempotency_keys", "homes", *METHODS],
    }
