"""The MCP tools and resources as a client meets them: names, schemas, answers, and errors that say what to do."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ResourceTemplateReference, TextResourceContents, Tool

from kingly_memory.api.tools import MOST_KEYS
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.errors import InvalidInput, StoreUntrusted
from kingly_memory.models import MemoryType
from kingly_memory.retrieval.snippets import PASSAGE
from kingly_memory.server import graph, lazy_router
from kingly_memory.server.answers import SHOWN_CHARACTERS
from kingly_memory.server.lazy_router import LazyRouter
from kingly_memory.server.memory_server import MemoryServer
from kingly_memory.server.tools import TOOLSETS, chosen, read, tool_verbs, tools
from kingly_memory.server.wording import UNEXPECTED
from tests.mcp_sessions import ERAS, QUICK, Session, server, session, wire
from tests.scripted.remote import ScriptedRemote

SEEDS = {"memory_intelligent_store", "memory_hybrid_search", "memory_get_working_context", "assess_task_confidence"}
BY_DEFAULT = SEEDS | {"memory_get", "memory_forget", "record_task_outcome"}
THOUGHTS = {"record_thought", "memory_link"}
ALMA = {"alma_retrieve_for_mode", "alma_retrieve_verified"}
UPKEEP = {"alma_reinforce", "alma_get_weak_memories", "alma_compress_and_learn"}
LIFECYCLE = {"memory_sweep", "memory_restore", "memory_status", "get_memory_stats", "memory_update", "memory_history"}
AI = {"ai_compact", "ai_focus", "ai_unfocus", "ai_pin", "ai_unpin", "ai_rate_context"}
AI |= {"ai_recall", "ai_merge", "ai_split", "ai_rename", "ai_suggestions", "memory_inject"}
COGNITION = {"retrieve_memory"}
LEGACY = {"remember", "recall", "list"}
GRAPH = set(graph.TOOLS)
DOCUMENTS = {"document_put", "document_get", "document_delete", "document_namespaces", "document_search"}


async def own(home: Path) -> dict[str, Tool]:
    """Every tool, but for those that are what the reference memory server has."""
    return {name: tool for name, tool in (await listed(home)).items() if name not in GRAPH}


async def listed(home: Path, **about: Any) -> dict[str, Tool]:
    async with session(home, **about) as client:
        return {tool.name: tool for tool in (await client.client.list_tools()).tools}


def arguments(tool: Tool) -> dict[str, Any]:
    """Name and default of every argument; `...` where it is required."""
    required = tool.input_schema.get("required", ())
    properties = tool.input_schema["properties"]
    return {name: ... if name in required else one.get("default") for name, one in properties.items()}


# --- what is there --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-073")
@pytest.mark.requirement("N12")
@pytest.mark.parametrize("mode", ERAS)
async def test_by_default_there_are_seven_tools(tmp_path: Path, mode: str) -> None:
    assert set(await listed(tmp_path, mode=mode, toolsets=chosen(None))) == BY_DEFAULT
    assert len(BY_DEFAULT) == 7


async def test_chosen_tools_are_the_only_ones(tmp_path: Path) -> None:
    assert list(await listed(tmp_path, toolsets=chosen("legacy"))) == ["remember", "recall", "list"]


@pytest.mark.requirement("N12")
def test_what_a_host_sees_by_default_is_at_most_2500_tokens(tmp_path: Path) -> None:
    """By the tokenizer of Llama 2, which takes about a sixth more of such texts than cl100k."""
    from tokenizers import Tokenizer

    with wire(tmp_path / "home", tools=None) as speaking:
        told = [speaking.shaken["result"], speaking.ask("tools/list")]
    vocabulary = files("wordllama") / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = Tokenizer.from_str(vocabulary.read_text(encoding="utf-8"))
    texts = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in told]
    tokens = [len(tokenizer.encode(text).ids) for text in texts]
    print(f"{sum(tokens):,} tokens at start:", dict(zip(("initialize", "tools/list"), tokens, strict=True)))  # noqa: T201  # shown by -s
    assert "memory_intelligent_store" in texts[1]
    assert sum(tokens) <= 2_500


@pytest.mark.requirement("UNI-005")
@pytest.mark.parametrize("mode", ERAS)
async def test_every_tool_is_there_in_the_same_order_each_time(tmp_path: Path, mode: str) -> None:
    every = chosen("all")
    first, second = await listed(tmp_path, mode=mode, toolsets=every), await listed(tmp_path, mode=mode, toolsets=every)
    assert set(first) == BY_DEFAULT | THOUGHTS | ALMA | UPKEEP | LIFECYCLE | AI | COGNITION | LEGACY | DOCUMENTS | GRAPH
    assert list(first) == list(second)


@pytest.mark.requirement("KNG-006")
@pytest.mark.requirement("KNG-016")
@pytest.mark.requirement("KNG-026")
async def test_tools_take_the_seeds_arguments_with_its_defaults(tmp_path: Path) -> None:
    tools = await listed(tmp_path)
    store, search = tools["memory_intelligent_store"], tools["memory_hybrid_search"]
    assert (
        arguments(store).items()
        >= {"content": ..., "key": None, "memory_type": "semantic", "significance": 0.5, "context_id": None}.items()
    )
    assert store.input_schema["required"] == ["content"]
    assert (
        arguments(search).items()
        >= {"query": ..., "prefer_speed": False, "include_semantic": True, "memory_types": None, "limit": 10}.items()
    )
    assert search.input_schema["required"] == ["query"]
    assert arguments(tools["memory_get_working_context"]) == {"context_id": "current", "include_related": True}
    assert arguments(tools["assess_task_confidence"]) == {"task_description": ..., "context_id": None}
    assert (arguments(tools["remember"]), arguments(tools["recall"])) == ({"key": ..., "value": ...}, {"key": ...})
    assert arguments(tools["list"]) == {}


async def test_schemas_are_sound_and_closed_to_arguments_that_are_not_there(tmp_path: Path) -> None:
    for tool in (await own(tmp_path)).values():
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is None
        assert "null" not in json.dumps(tool.input_schema)


def test_every_tool_has_an_example_that_its_schema_takes() -> None:
    for tool in tools(TOOLSETS):
        Draft202012Validator(tool.input_schema).validate(json.loads(tool_verbs()[tool.name].example))


async def test_every_tool_has_a_title_and_says_what_it_does_to_memories(tmp_path: Path) -> None:
    tools = await own(tmp_path)
    for tool in tools.values():
        assert tool.title
        assert len(tool.description or "") < 300
        assert tool.description
        assert "Example" not in tool.description
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is False
    reading = {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint}
    assert reading == {
        "memory_hybrid_search", "memory_get_working_context", "memory_get", "memory_status", "recall", "list", *ALMA,
        "alma_get_weak_memories", "get_memory_stats", "ai_suggestions", "ai_recall", "memory_inject", *COGNITION,
        *DOCUMENTS - {"document_put", "document_delete"},
        "memory_history",
    }  # fmt: skip
    destroying = {name for name, tool in tools.items() if tool.annotations and tool.annotations.destructive_hint}
    assert destroying == {
        "memory_intelligent_store", "memory_forget", "remember", "memory_sweep", "ai_compact", "ai_unfocus", "ai_unpin",
        "ai_rename", "document_delete", "document_put", "memory_update",
    }  # fmt: skip
    repeatable = {name for name, tool in tools.items() if tool.annotations and tool.annotations.idempotent_hint}
    settling = {"memory_link", "memory_sweep", "memory_restore", "ai_focus", "ai_unfocus", "ai_rename"} | {
        "document_put",
        "document_delete",
    }
    assert repeatable == settling


async def test_schemas_say_what_may_be_given(tmp_path: Path) -> None:
    tools = await listed(tmp_path)
    types = tools["memory_hybrid_search"].input_schema["properties"]["memory_types"]
    assert set(types["items"]["enum"]) >= {*MemoryType, "conversation_context"}
    store = tools["memory_intelligent_store"].input_schema["properties"]
    assert (store["origin"]["enum"], store["origin"]["default"]) == (["agent", "tool", "web"], "agent")


# --- storing and finding --------------------------------------------------------------------------------------------


@pytest.mark.requirement("N18")
async def test_a_search_takes_the_filters_that_a_list_takes(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        for score, origin in ((3, "agent"), (5, "tool"), (7, "web")):
            said: dict[str, Any] = {"metadata": {"score": score}, "origin": origin, "tags": [f"by {origin}"]}
            await client.ok("memory_intelligent_store", key=origin, content="deploys need reviews", **said)

        async def keys(**filters: Any) -> set[str]:
            found = await client.ok("memory_hybrid_search", query="deploys", **filters)
            return {one["key"] for one in found["results"]}

        assert await keys(filter={"score": {"$gt": 3}}) == {"tool", "web"}
        assert await keys(origin=["tool", "agent"]) == {"tool", "agent"}
        assert await keys(any_tags=["by web", "by agent"]) == {"web", "agent"}
        assert await keys(filter={"score": 5}, origin=["web"]) == set()
        told = await client.error("memory_hybrid_search", query="deploys", filter={"score": {"$near": 3}})
        assert told.startswith("filter: ")


@pytest.mark.requirement("KNG-010")
async def test_a_store_says_where_the_memory_is(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        stored = await client.ok("memory_intelligent_store", key="k", content="two reviews", significance=0.8)
    assert stored.pop("local_id")
    assert stored == {
        "success": True,
        "mcp_id": None,
        "storage_layers": ["local"],
        "key": "k",
        "revision": 1,
        "delivery": "local_only",
        "reason": "no remote is named",
    }


@pytest.mark.requirement("KNG-010")
async def test_a_store_that_waits_has_the_remotes_id_and_both_layers(tmp_path: Path) -> None:
    with ScriptedRemote() as remote:
        async with session(tmp_path / "home", remote=remote.url) as client:
            stored = await client.ok("memory_intelligent_store", key="k", content="two reviews", wait=10)
            assert (stored["storage_layers"], stored["delivery"]) == (["local", "remote"], "delivered")
            assert isinstance(stored["mcp_id"], str)
            kept = await client.ok("memory_intelligent_store", key="p", content="private", significance=0.3, wait=10)
            assert (kept["storage_layers"], kept["mcp_id"]) == (["local"], None)
    assert [call.params["content"] for call in remote.effects if "private" in str(call.params)] == []


async def test_everything_that_was_said_of_a_memory_is_found_again(tmp_path: Path) -> None:
    async with session(tmp_path / "home", agent="ada") as client:
        stored = await client.ok(
            "memory_intelligent_store",
            key="deploy",
            content="Deploys need two reviews",
            memory_type="procedural",
            significance=0.8,
            confidence=0.9,
            context_id="release",
            tags=["deploy", "rule"],
            title="Deploy rule",
            metadata={"since": 2024, "by": None},
        )
        found = await client.ok("memory_hybrid_search", query="who reviews a deploy")
        got = await client.ok("memory_get", key_or_id="deploy")
    [hit] = found["results"]
    assert (found["success"], found["count"], found["source"]) == (True, 1, "local")
    memory = got["memory"]
    assert (hit.pop("layers"), hit.pop("view"), hit.pop("tokens"), 0 < hit.pop("relevance") <= 1) == (
        ["local"],
        "full",
        6,
        True,
    )
    assert hit.pop("created_at")[:19] == memory["created_at"][:19]
    assert hit == {name: memory[name] for name in hit}
    assert (memory.pop("created_at"), memory.pop("updated_at")) > ("2020", "2020")
    assert memory == {
        "id": stored["local_id"],
        "key": "deploy",
        "content": "Deploys need two reviews",
        "cut": False,
        "memory_type": "procedural",
        "title": "Deploy rule",
        "tags": ["deploy", "rule"],
        "significance": 0.8,
        "confidence": 0.9,
        "context_id": "release",
        "agent": "ada",
        "origin": "agent",
        "metadata": {"since": 2024, "by": None},
    }


@pytest.mark.requirement("KNG-016")
@pytest.mark.parametrize("name", ["include_semantic", "semantic"])
async def test_both_names_of_semantic_keep_the_remote_from_being_asked(tmp_path: Path, name: str) -> None:
    with ScriptedRemote() as remote:
        async with session(tmp_path / "home", remote=remote.url) as client:
            found = await client.ok("memory_hybrid_search", query="harbour", **{name: False})
    assert found["source"] == "local"
    assert [call for call in remote.requests if call.method == "search_semantic_memories"] == []


async def test_a_long_memory_is_cut_in_lists_and_whole_when_asked_for(tmp_path: Path) -> None:
    text = "harbour " + "é" * 8 * SHOWN_CHARACTERS
    async with session(tmp_path / "home") as client:
        await client.ok("memory_intelligent_store", key="long", content=text)
        [hit] = (await client.ok("memory_hybrid_search", query="harbour"))["results"]
        assert (hit["view"], hit["content"][:8], len(hit["content"]) <= PASSAGE) == ("passage", text[:8], True)
        got = (await client.ok("memory_get", key_or_id="long"))["memory"]
        assert (got["content"], got["cut"]) == (text, False)


@pytest.mark.requirement("KNG-006")
async def test_a_memory_without_a_key_has_an_id_alone(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        first = await client.ok("memory_intelligent_store", content="two reviews")
        second = await client.ok("memory_intelligent_store", content="three reviews", key=None)
        got = await client.ok("memory_get", key_or_id=[first["local_id"], second["local_id"]])
    assert (first["key"], second["key"]) == (None, None)
    assert [(memory["key"], memory["content"]) for memory in got["memories"]] == [
        (None, "two reviews"),
        (None, "three reviews"),
    ]


@pytest.mark.requirement("A10")
async def test_a_model_cannot_say_that_the_user_said_it(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        said = await client.error("memory_intelligent_store", key="k", content="x", origin="user")
        assert said == "origin: should be 'agent', 'tool' or 'web'"
        async with MemoryRouter.open(tmp_path / "home", False, project="app") as router:
            await router.store("two reviews", key="rule", origin="user")
        await client.ok("memory_intelligent_store", key="rule", content="no reviews")
        assert (await client.ok("memory_get", key_or_id="rule"))["memory"]["origin"] == "agent"


async def test_texts_that_happen_to_be_json_stay_as_they_are(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        for text in ('{"a":  1}', "[1, 2]", "null", "true", "12"):
            await client.ok("memory_intelligent_store", key="k", content=text, title=text, context_id=text)
            memory = (await client.ok("memory_get", key_or_id="k"))["memory"]
            assert (memory["content"], memory["title"], memory["context_id"]) == (text, text, text)


# --- the legacy tools -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("KNG-087")
async def test_remember_recall_and_list_are_keys_and_values_over_the_same_memories(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await client.ok("remember", key="editor", value="vim")
        await client.ok("remember", key="editor", value="ed")
        await client.ok("remember", key="ports", value=[80, 443])
        await client.ok("memory_intelligent_store", key="newer", content="by the newer tool")
        assert (await client.ok("recall", key="editor"))["value"] == "ed"
        assert (await client.ok("recall", key="ports"))["value"] == "[80,443]"
        assert (await client.ok("recall", key="newer"))["value"] == "by the newer tool"
        assert await client.ok("recall", key="gone") == {"success": True, "key": "gone", "found": False, "value": None}
        assert (await client.ok("list"))["keys"] == ["newer", "ports", "editor"]
        assert [hit["key"] for hit in (await client.ok("memory_hybrid_search", query="vim ed"))["results"]] == [
            "editor"
        ]


async def test_a_list_holds_the_latest_keys_and_says_that_there_are_more(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        for number in range(MOST_KEYS + 1):
            await client.ok("remember", key=f"k{number}", value="x")
        found = await client.ok("list")
        assert found["keys"] == [f"k{number}" for number in range(MOST_KEYS, 0, -1)]
        assert found["more"] is True


# --- working context, tasks, thoughts, links ------------------------------------------------------------------------


@pytest.mark.requirement("KNG-027")
async def test_the_working_context_has_the_seeds_shape(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        empty = await client.ok("memory_get_working_context")
        assert (empty["working_memory"], empty["local_state"], empty["memory_count"]) == ([], [], 0)
        await client.ok("memory_intelligent_store", key="a", content="first", context_id="deploy-42")
        await client.ok("memory_intelligent_store", key="b", content="second", context_id="deploy-42")
        context = await client.ok("memory_get_working_context", context_id="deploy-42")
        current = await client.ok("memory_get_working_context", include_related=False)
    assert [memory["key"] for memory in context["local_state"]] == ["b", "a"]
    assert (context["context_id"], context["memory_count"], context["source"]) == ("deploy-42", 2, "local")
    assert isinstance(context["last_updated"], int)
    assert (context["related_memories"], current["related_memories"]) == ([], None)
    assert current["context_id"] == "deploy-42"


async def test_a_context_that_nothing_is_known_of_is_said_to_be_so(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        sentence = await client.error("memory_get_working_context", context_id="nowhere")
    assert sentence.startswith("context_id: nothing is at hand in 'nowhere'")


@pytest.mark.requirement("KNG-031")
@pytest.mark.requirement("KNG-037")
@pytest.mark.requirement("KNG-040")
@pytest.mark.parametrize("name", ["task_description", "taskDescription"])
async def test_a_task_is_assessed_by_how_similar_ones_ended(tmp_path: Path, name: str) -> None:
    async with session(tmp_path / "home") as client:
        before = await client.ok("assess_task_confidence", **{name: "migrate the users table"})
        for _ in range(3):
            await client.ok("record_task_outcome", task="migrate the users table", status="failed", reason='{"e": 1}')
        after = await client.ok("assess_task_confidence", **{name: "migrate the users table"})
    assert (before["memory_informed"], before["similar_tasks_count"]) == (False, 0)
    assert (after["memory_informed"], after["similar_tasks_count"]) == (True, 3)
    assert after["confidence"] < before["confidence"]
    assert after["confidence_factors"].keys() >= {"base", "memory_informed", "pattern_bonus", "complexity_penalty"}
    assert sum(after["confidence_factors"].values()) == pytest.approx(after["confidence"])
    assert {one["status"] for one in after["evidence"]} == {"failed"}
    assert after["assessment_id"]


async def test_thoughts_of_a_chain_are_numbered_and_told_in_order(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        first = await client.ok("record_thought", content="reads fail", thought_type="evidence")
        second = await client.ok("record_thought", content="the cache is stale", chain_id=first["chain_id"])
    assert (first["position"], second["position"], first["storage_layers"]) == (1, 2, ["local"])
    assert [one["content"] for one in second["chain"]] == ["reads fail", "the cache is stale"]


async def test_linked_memories_are_shown_on_request(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await client.ok("memory_intelligent_store", key="cause", content="the disk was full")
        await client.ok("memory_intelligent_store", key="effect", content="the harbour stood still", context_id="c")
        link = await client.ok("memory_link", source="cause", target="effect", link_type="causal", strength=0.9)
        assert (link["link_type"], link["strength"], link["success"]) == ("causal", 0.9, True)
        plain = await client.ok("memory_hybrid_search", query="harbour")
        linked = await client.ok("memory_hybrid_search", query="harbour", include_linked=True)
        context = await client.ok("memory_get_working_context", context_id="c")
    assert "linked" not in plain["results"][0]
    assert "the disk was full" in json.dumps(linked["results"][0]["linked"])
    assert "the disk was full" in json.dumps(context["related_memories"])


async def test_a_context_shows_the_beginning_of_long_memories(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await client.ok("memory_intelligent_store", key="k", content="é" * 2 * SHOWN_CHARACTERS, context_id="../team/9")
        [shown] = (await client.ok("memory_get_working_context", context_id="../team/9"))["local_state"]
    assert (len(shown["content"]), shown["cut"]) == (SHOWN_CHARACTERS, True)


async def test_where_clients_share_a_server_none_of_them_is_given_anothers_context(tmp_path: Path) -> None:
    async with session(tmp_path / "home", shared=True) as client:
        await client.ok("memory_intelligent_store", key="k", content="x", context_id="deploy")
        for tool, given in (
            ("memory_get_working_context", {}),
            ("memory_get_working_context", {"context_id": "current"}),
            ("memory_intelligent_store", {"key": "k", "content": "y", "context_id": "current"}),
            ("assess_task_confidence", {"task": "x", "context_id": "current"}),
        ):
            assert (await client.error(tool, **given)).startswith("context_id: 'current' is nobody's here")
        assert (await client.ok("memory_get_working_context", context_id="deploy"))["memory_count"] == 1
        assert (await client.ok("memory_get", key_or_id="k"))["memory"]["content"] == "x"


# --- bad input ------------------------------------------------------------------------------------------------------

CANARY = "canary-7f3a " * 500


BAD_INPUT: list[tuple[str, dict[str, Any], str]] = [
    ("memory_intelligent_store", {"key": "k", "content": "  "}, "content: is empty"),
    ("memory_intelligent_store", {"key": "", "content": CANARY}, "key: is empty"),
    ("memory_intelligent_store", {"key": "a\nb", "content": CANARY}, "key: contains control characters"),
    ("memory_intelligent_store", {"key": "k", "content": CANARY, "memory_type": "x"}, "memory_type: 'x' is un"),
    ("memory_intelligent_store", {"key": "k", "content": CANARY, "kind": 1}, "kind: unknown argument; memory"),
    ("memory_intelligent_store", {"key": "k", "content": "é" * 600_000}, "content: has 1,200,000 bytes, at most"),
    ("memory_hybrid_search", {"query": "  "}, "query: is empty"),
    ("memory_hybrid_search", {"query": "x", "since": "yesterday"}, "since: 'yesterday' is not an ISO 8601"),
    ("memory_hybrid_search", {"query": "x", "memory_types": ["x"]}, "memory_types: 'x' is unknown"),
    ("memory_get", {"key_or_id": "nobody"}, "key_or_id: nothing is stored under 'nobody'"),
    ("memory_forget", {"key_or_id": "nobody"}, "key_or_id: nothing is stored under 'nobody'"),
    ("memory_status", {"verbose": True}, "verbose: unknown argument; memory_status takes no arguments"),
    ("recall", {"key": ""}, "key: is empty"),
    ("remember", {"key": "k", "value": " "}, "value: is empty"),
    ("memory_get", {"key_or_id": ""}, "key_or_id: is empty"),
    ("assess_task_confidence", {"task_description": ""}, "task_description: is empty"),
    ("assess_task_confidence", {"taskDescription": ""}, "taskDescription: is empty"),
    ("record_task_outcome", {"task": ""}, "task: is empty"),
]  # fmt: skip


async def test_bad_input_is_a_sentence_that_repeats_no_memory(tmp_path: Path) -> None:
    """What the declarations do not say; tests/api/test_bad_input.py has the rest."""
    async with session(tmp_path / "home") as client:
        for tool, given, sentence in BAD_INPUT:
            said = await client.error(tool, **given)
            assert said.startswith(sentence)
            assert (len(said) < 500, "canary" in said, "\n" in said) == (True, False, False), tool
        assert (await client.ok("memory_status"))["memories"]["total"] == 0


@pytest.mark.parametrize(
    ("tool", "name", "sent", "meant"),
    [
        ("memory_intelligent_store", "significance", "0.8", 0.8),
        ("memory_intelligent_store", "significance", 1, 1.0),
        ("memory_intelligent_store", "metadata", '{"a": 1}', {"a": 1}),
        ("memory_intelligent_store", "tags", '["a", "b"]', ["a", "b"]),
        ("memory_intelligent_store", "tags", "[a", ["[a"]),
        ("memory_intelligent_store", "key", None, None),
        ("memory_hybrid_search", "limit", "5", 5),
        ("memory_hybrid_search", "limit", 5.0, 5),
        ("memory_hybrid_search", "limit", None, "should be a whole number"),
        ("memory_hybrid_search", "prefer_speed", "False", False),
        ("memory_hybrid_search", "prefer_speed", 1, True),
        ("memory_get", "key_or_id", '["a", "b"]', ["a", "b"]),
        ("memory_get", "key_or_id", [], "expected a key or id, or a list of 1 to 20 of them"),
        ("memory_get", "key_or_id", ["a"] * 21, "expected a key or id, or a list of 1 to 20 of them"),
        ("memory_intelligent_store", "ttl", 60, 60),
        ("memory_intelligent_store", "ttl", "7d", "7d"),
    ],
)
def test_arguments_are_read_as_hosts_send_them(tool: str, name: str, sent: Any, meant: Any) -> None:
    verb = tool_verbs()[tool]
    given = {**json.loads(verb.example), name: sent}
    parameter = next(one.name for one in verb.of("tool") if one.tool_name == name)
    try:
        assert read(verb, given)[parameter] == meant
    except InvalidInput as refused:
        assert (refused.field, refused.problem) == (name, meant)  # noqa: PT017  # some are refused, as the table says


@pytest.mark.requirement("N12")
@pytest.mark.parametrize("mode", ERAS)
async def test_tools_that_are_not_there_are_protocol_errors(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with session(tmp_path / "home", mode=mode, toolsets=chosen(None)) as client:
        for tool, sentence in (
            ("memory_divine", "unknown tool 'memory_divine'; this server has memory_get, "),
            ("ai_focus", "ai_focus is in the toolset ai, which this server does not offer; name it in --tools too"),
        ):
            with pytest.raises(MCPError, match=re.escape(sentence)) as unknown:
                await client.client.call_tool(tool, {})
            assert unknown.value.code == INVALID_PARAMS
    assert caplog.messages == []


async def test_unknown_ends_of_links_and_unknown_parents_are_refused(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        await client.ok("memory_intelligent_store", key="k", content="x")
        assert "nobody" in await client.error("memory_link", source="k", target="nobody")
        assert "parent_id" in await client.error("record_thought", content="x", parent_id="nobody")
        assert "status: 'won'" in await client.error("record_task_outcome", task="x", status="won")


# --- trouble --------------------------------------------------------------------------------------------------------


def failing(error: Exception) -> MemoryServer:
    def begin() -> MemoryRouter:
        raise error

    return MemoryServer(LazyRouter(begin), TOOLSETS)


async def test_what_nobody_foresaw_is_one_masked_sentence_and_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Client(failing(RuntimeError("canary")), mode="legacy") as client:
        assert await Session(client).error("memory_get", key_or_id="k") == UNEXPECTED
    assert "canary" not in caplog.text
    assert "McpToolFailed memory_get: RuntimeError at test_tools.py" in caplog.text


async def test_a_home_that_cannot_be_opened_is_said_and_tried_again(tmp_path: Path) -> None:
    troubles: list[Exception] = [StoreUntrusted("here", "it is a link"), StoreUntrusted("here", "still a link")]

    def begin() -> MemoryRouter:
        if troubles:
            raise troubles.pop()
        return MemoryRouter.open(tmp_path / "home", False, settings=QUICK)

    async with Client(MemoryServer(LazyRouter(begin), TOOLSETS), mode="auto") as client:
        said = await Session(client).error("recall", key="k")
        assert "the memory store in here is not opened" in said
        while troubles:
            await Session(client).error("recall", key="k")
        assert (await Session(client).ok("recall", key="k"))["found"] is False


async def test_a_lone_surrogate_in_an_answer_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with session(tmp_path / "home", mode="legacy") as client:
        await client.ok("memory_intelligent_store", key="k", content="x")

        async def broken(router: MemoryRouter) -> dict[str, Any]:
            return {**await status(router), "home": "a\ud800b\0", "more": {"\udfff": ["\ud800"]}}

        status = MemoryRouter.status
        monkeypatch.setattr(MemoryRouter, "status", broken)
        found = await client.ok("memory_status")
        assert (found["home"], found["more"]) == ("a\ufffdb\0", {"\ufffd": ["\ufffd"]})


async def test_the_router_is_opened_once_however_many_calls_come_at_once(tmp_path: Path) -> None:
    opened = []

    def begin() -> MemoryRouter:
        opened.append(MemoryRouter.open(tmp_path / "home", False, settings=QUICK))
        return opened[-1]

    async with Client(MemoryServer(LazyRouter(begin), TOOLSETS)) as client:
        await asyncio.gather(*(Session(client).ok("remember", key=f"k{number}", value="x") for number in range(20)))
        assert (await Session(client).ok("list"))["count"] == 20
    assert len(opened) == 1


async def test_a_caller_who_gives_up_leaves_the_opening_to_the_others(tmp_path: Path) -> None:
    lazy = server(tmp_path / "home")._memory
    async with lazy:
        giving_up = asyncio.create_task(lazy.get())
        staying = asyncio.create_task(lazy.get())
        await asyncio.sleep(0)
        giving_up.cancel()
        assert (await (await staying).status())["project"] == "app"


@pytest.mark.requirement("N21")
async def test_closing_while_the_router_is_being_opened_says_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lazy_router, "CLOSE_S", 0.0)
    slow = threading.Event()

    def begin() -> MemoryRouter:
        slow.wait()
        raise StoreUntrusted("here", "it is a link")

    async with LazyRouter(begin) as lazy:
        lazy.warm_up()
    slow.set()
    assert caplog.messages == []


def test_the_sets_of_the_command_line_are_those_of_the_server() -> None:
    from kingly_memory.cli.commands import OWN

    [command] = [one for one in OWN if one.name == "mcp"]
    [told] = [one.arg.words for one in command.parameters if one.name == "tools"]
    assert ", ".join(TOOLSETS) in told


# --- resources: attached by key or context, with both names completed -------------------------------------------------


async def text(client: Session, uri: str) -> str:
    [found] = (await client.client.read_resource(uri)).contents
    assert isinstance(found, TextResourceContents)
    return found.text


async def completed(client: Session, name: str, value: str) -> list[str]:
    [template] = [
        one for one in (await client.client.list_resource_templates()).resource_templates if name in one.uri_template
    ]
    reference = ResourceTemplateReference(uri=template.uri_template)
    return (await client.client.complete(reference, {"name": name, "value": value})).completion.values


@pytest.mark.parametrize("mode", ERAS)
async def test_a_memory_is_attached_by_its_key_and_a_context_by_its_name(tmp_path: Path, mode: str) -> None:
    async with session(tmp_path / "home", mode=mode) as client:
        for key, context in (("deploy/rule ä", "release-7"), ("lunch", "office")):
            await client.ok("memory_intelligent_store", key=key, content=f"all about {key}", context_id=context)
        await client.ok("memory_intelligent_store", content="without a key")
        listed = {one.name: one.uri for one in (await client.client.list_resources()).resources}
        assert list(listed) == ["lunch", "deploy/rule ä"]
        assert await text(client, listed["deploy/rule ä"]) == "all about deploy/rule ä"
        context = json.loads(await text(client, "memory://context/release-7"))
        assert [one["content"] for one in context["local_state"]] == ["all about deploy/rule ä"]


async def test_keys_and_contexts_are_completed_the_latest_first_and_beginnings_before_all(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        for key in ("rule", "Deploy", "old deploy", "depot"):
            await client.ok("memory_intelligent_store", key=key, content=key, context_id=f"about {key}")
        assert await completed(client, "key", "DEP") == ["depot", "Deploy", "old deploy"]
        assert await completed(client, "key", "") == ["depot", "old deploy", "Deploy", "rule"]
        assert await completed(client, "context_id", "about r") == ["about rule"]
        assert await completed(client, "key", "nobody") == []


async def test_a_memory_of_another_user_is_neither_offered_nor_read(tmp_path: Path) -> None:
    async with session(tmp_path / "home", user="ada") as client:
        await client.ok("memory_intelligent_store", key="secret", content="hers", context_id="her-talk")
    async with session(tmp_path / "home", user="bob") as client:
        assert (await client.client.list_resources()).resources == []
        assert await completed(client, "key", "") == await completed(client, "context_id", "") == []
        with pytest.raises(MCPError):
            await text(client, "memory://key/secret")


@pytest.mark.parametrize(
    "uri", ["memory://key/nobody", "memory://key/", "memory://context/nobody", "file:///etc/passwd", "memory://keys/x"]
)
async def test_what_is_not_there_is_a_protocol_error_in_a_sentence(tmp_path: Path, uri: str) -> None:
    async with session(tmp_path / "home") as client:
        with pytest.raises(MCPError) as refused:
            await text(client, uri)
        assert refused.value.error.code == INVALID_PARAMS
        assert refused.value.error.message.count("\n") == 0


async def test_the_context_last_worked_in_is_nobodys_where_clients_share_a_server(tmp_path: Path) -> None:
    async with session(tmp_path / "home", shared=True) as client:
        await client.ok("memory_intelligent_store", content="hers", context_id="her-talk")
        with pytest.raises(MCPError, match="name the context"):
            await text(client, "memory://context/current")
