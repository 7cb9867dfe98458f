"""Our memories become an Ultimate server's and back; whatever shape comes in, none is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kingly_memory.adapters.remote import ultimate_wire
from kingly_memory.errors import RemoteUnavailable
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, MemoryType, Origin, Scope
from kingly_memory.ports import RemoteLink
from tests.remote_samples import LIGHTHOUSE, MOMENT, json_values
from tests.ultimate.engine import CONTEXT_DATA_LIMIT_BYTES, KINDS

JSON = json_values("memories", "data", "memory_id", "content", "tags", "importance", "links", "outgoing", "created_at")
NAMES = st.text(st.characters(codec="ascii", categories=("Ll", "Nd")), min_size=1, max_size=20)
MEMORIES = st.builds(
    Memory,
    id=st.uuids().map(lambda one: MemoryId(str(one))),
    key=st.none() | NAMES,
    content=st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text.strip() != ""),
    type=st.sampled_from(MemoryType),
    significance=st.floats(0.0, 1.0),
    confidence=st.floats(0.0, 1.0),
    tags=st.lists(NAMES, max_size=5, unique=True).map(tuple),
    title=st.none() | NAMES,
    scope=st.builds(Scope, project=NAMES, agent=st.none() | NAMES, context_id=st.none() | NAMES),
    origin=st.sampled_from(Origin),
    created_at=st.just(MOMENT),
    updated_at=st.just(MOMENT),
    revision=st.integers(1, 10_000),
    metadata=st.fixed_dictionaries(
        {},
        optional={
            "kind": st.sampled_from(sorted(KINDS - {"reasoning_step"})),
            "record": NAMES.filter("thought".__ne__),
        },
    ),
)


def entry(memory: Memory = LIGHTHOUSE, **changes: Any) -> dict[str, Any]:
    """What a search there says of a memory that we have brought: without context, its tags in lower case."""
    told = ultimate_wire.store_arguments(memory, memory.id)
    del told["context_data"]
    tags = sorted(tag.strip().lower() for tag in told["tags"])
    shown = {"memory_id": "mem_1", "hybrid_score": 0.5, "created_at": int(memory.created_at.timestamp())}
    return {**told, **shown, "tags": tags, **changes}


def read_back(memory: Memory = LIGHTHOUSE, **changes: Any) -> Any:
    hit = ultimate_wire.hit(entry(memory, **changes), memory.scope.space)
    assert hit is not None
    return hit


@given(MEMORIES)
def test_what_the_server_keeps_of_a_memory_comes_back_as_it_was(memory: Memory) -> None:
    hit = read_back(memory)
    record = hit.record
    assert (hit.memory_id, hit.content) == (memory.id, memory.content)
    assert (record["type"], record["revision"], record.get("title")) == (memory.type, memory.revision, memory.title)
    assert record["significance"] == pytest.approx(memory.significance, abs=1e-6)
    assert record["confidence"] == memory.confidence
    assert sorted(record["tags"]) == sorted(memory.tags)
    assert record["scope"] == {"project": memory.scope.space, "context_id": memory.scope.context_id}
    assert record.get("metadata", {}).get("kind", "text") == ultimate_wire.kind_of(memory)


@pytest.mark.requirement("KNG-008")
def test_what_the_seed_sends_beside_a_memory_is_kept_in_its_context() -> None:
    context = ultimate_wire.store_arguments(LIGHTHOUSE, "k", supersedes="mem_7")["context_data"]
    seeds = {"key": "lighthouse", "significance": 0.8, "context_id": "watch-1", "source": "kingly_agent"}
    assert seeds.items() <= context.items()
    assert (context["timestamp"], context["supersedes"]) == (1_772_600_767_890, "mem_7")
    assert Memory.from_json({**context, "content": LIGHTHOUSE.content}) == LIGHTHOUSE


@given(st.integers(0, 64_000), st.sampled_from(["x", "é", "🌫"]))
def test_the_context_never_reaches_the_size_at_which_the_server_drops_it(length: int, letter: str) -> None:
    wordy = replace(LIGHTHOUSE, metadata={"note": letter * length}, tags=tuple(f"{letter * 60}{n}" for n in range(64)))
    context = ultimate_wire.store_arguments(wordy, "k")["context_data"]
    assert len(json.dumps(context).encode()) < CONTEXT_DATA_LIMIT_BYTES
    assert context["key"] == wordy.key


@pytest.mark.parametrize(
    ("kind", "significance", "ttl_s"),
    [
        (MemoryType.WORKING, 0.5, 1_800),
        (MemoryType.WORKING, 0.9, 1_800),
        (MemoryType.EPISODIC, 0.5, ultimate_wire.FOREVER_S),
        (MemoryType.EPISODIC, 0.8, ultimate_wire.FOREVER_S),
        (MemoryType.SEMANTIC, 0.5, None),
        (MemoryType.PROCEDURAL, 0.9, None),
    ],
)
def test_a_memory_lives_there_as_long_as_it_should(kind: MemoryType, significance: float, ttl_s: int | None) -> None:
    told = ultimate_wire.store_arguments(replace(LIGHTHOUSE, type=kind, significance=significance), "k")
    assert told.get("ttl") == ttl_s


def test_an_update_gives_a_lifetime_that_is_not_over_already() -> None:
    told = ultimate_wire.update_arguments(
        replace(LIGHTHOUSE, significance=0.5), "mem_1", MOMENT + timedelta(days=30, seconds=0.5)
    )
    assert told["ttl"] == 30 * 86_400 + 1 + ultimate_wire.FOREVER_S


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        ({}, "text"),
        ({"kind": "fact"}, "fact"),
        ({"kind": "task_cache"}, "text"),
        ({"kind": ["fact"]}, "text"),
        ({"record": "thought"}, "reasoning_step"),
        ({"record": "summary"}, "summary"),
        ({"record": {}}, "text"),
    ],
)
def test_a_kind_that_the_server_does_not_know_is_text(metadata: dict[str, Any], kind: str) -> None:
    assert ultimate_wire.kind_of(replace(LIGHTHOUSE, metadata=metadata)) == kind


@pytest.mark.parametrize(
    ("question", "text", "worded"),
    [
        ("multi-agent FOG", "multi agent fog", True),
        ('say "fog', "say fog", True),
        ("a AND b OR NOT c*", "a and b or not c", True),
        ("content:secret", "content secret", True),
        ("Küste", "kuste", True),
        ("Où est le café ?", "ou est le cafe", True),
        ("deploy 霧", "deploy", True),
        ("как v2 выкатить", "как v2 выкатить", False),
        ("霧 🌫", "霧 🌫", False),
        ("...", "...", False),
    ],
)
def test_a_question_is_cleaned_of_what_the_keyword_half_would_read_as_syntax(
    question: str, text: str, worded: bool
) -> None:
    assert ultimate_wire.worded_query(question) == (text, worded)


@given(st.text(max_size=300))
def test_a_cleaned_question_holds_plain_lower_case_words_alone(question: str) -> None:
    text, worded = ultimate_wire.worded_query(question)
    assert not worded or all(word.isascii() and word.isalnum() and word == word.lower() for word in text.split())
    assert ("keyword_weight" in ultimate_wire.search_arguments(question, 5, None)) is not worded


def test_tags_of_ones_own_that_look_like_ours_are_not_sent() -> None:
    tags = ultimate_wire.tags_of(replace(LIGHTHOUSE, tags=("sea", "kingly:other", "CTX:x")))
    assert [tag for tag in tags if "other" in tag or tag.startswith("CTX")] == []
    assert tags[:2] == ["sea", f"kingly:{LIGHTHOUSE.id}"]


def test_a_memory_of_another_project_is_no_hit() -> None:
    assert ultimate_wire.hit(entry(), "another") is None
    assert ultimate_wire.hit(entry(), LIGHTHOUSE.scope.space) is not None


@pytest.mark.parametrize(
    ("said", "relevance"),
    [
        ({"hybrid_score": 0.7}, 0.7),
        ({"hybrid_score": 7}, 1.0),
        ({"hybrid_score": -1}, 0.0),
        ({"hybrid_score": None, "similarity": 0.25}, 0.25),
        ({"hybrid_score": True, "semantic_score": 0.4}, 0.4),
        ({"hybrid_score": "0.9"}, 0.0),
    ],
)
@pytest.mark.requirement("KNG-014")
def test_relevance_is_between_0_and_1(said: dict[str, Any], relevance: float) -> None:
    assert read_back(**said).relevance == relevance


@pytest.mark.parametrize(("importance", "significance"), [(1, 0.0), (10, 1.0), (5.5, 0.5), (0, 0.0), (99, 1.0)])
def test_importance_is_significance_on_another_scale(importance: float, significance: float) -> None:
    assert ultimate_wire.significance_of(importance) == significance
    assert "significance" not in read_back(importance="5").record


@pytest.mark.parametrize("tags", [["a", "ctx:c"], '["a", "ctx:c"]'])
def test_tags_are_read_from_a_list_or_from_json(tags: Any) -> None:
    record = read_back(tags=tags).record
    assert (record["tags"], record["scope"]["context_id"]) == (["a"], "c")


def test_a_link_is_told_once_with_both_ends_whichever_was_asked_for() -> None:
    there = {"link_id": "l1", "link_type": "causal", "strength": 0.5}
    outgoing = ultimate_wire.links({"links": {"outgoing": [{**there, "target_memory_id": "b"}]}}, "a")
    incoming = ultimate_wire.links({"data": {"links": {"incoming": [{**there, "source_memory_id": "a"}]}}}, "b")
    told = {"link_type": "causal", "source_memory_id": "a", "target_memory_id": "b", "strength": 0.5}
    assert outgoing == incoming == [told]


def test_a_link_is_made_in_the_servers_words() -> None:
    link = RemoteLink("a", "b", "causal", 0.5, None, "p")
    told = {"source_memory_id": "a", "target_memory_id": "b", "link_type": "causal", "strength": 0.5}
    assert ultimate_wire.link_arguments(link) == told
    assert ultimate_wire.link_arguments(link._replace(description="so")) == {**told, "description": "so"}


@given(JSON)
def test_any_json_is_read_or_refused_as_no_answer(reply: Any) -> None:
    assert all(0.0 <= link["strength"] <= 1.0 for link in ultimate_wire.links(reply, "a"))
    try:
        entries = ultimate_wire.entries(reply)
    except RemoteUnavailable:
        return
    hits = ultimate_wire.merged((ultimate_wire.hit(one, "p") for one in entries), None)
    assert all(0.0 <= hit.relevance <= 1.0 and hit.content and hit.remote_id for hit in hits)


@given(st.dictionaries(st.sampled_from(sorted(entry())), JSON))
def test_any_field_of_an_entry_may_hold_anything(changes: dict[str, Any]) -> None:
    hit = ultimate_wire.hit({**entry(), **changes}, LIGHTHOUSE.scope.space)
    assert hit is None or (0.0 <= hit.relevance <= 1.0 and hit.content.strip() != "")
