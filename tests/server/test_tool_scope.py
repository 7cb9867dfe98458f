"""No tool of the MCP server shows anything of another project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_sessions import Session, session

SECRET = "heliotrope"
"""Stands in everything that the other project stores."""
CONTEXT, CHAIN = "release", "outage"
"""Names that both projects use."""


async def fill(client: Session, word: str) -> str:
    """Have a project hold one thing of each kind that says the word; the id of a memory."""
    said = f"deploy the {word} api"
    stored = await client.ok("memory_intelligent_store", key="rule", content=said, context_id=CONTEXT, confidence=0.9)
    await client.ok("record_task_outcome", task=said, status="failed", reason=word, context_id=CONTEXT)
    await client.ok("record_thought", content=said, chain_id=CHAIN)
    await client.ok("remember", key=f"key of {word}", value=word)
    await client.ok("document_put", namespace=f"users/{word}", key="profile", value=f'{{"said": "{word}"}}')
    entity = {"name": f"name of {word}", "entityType": "api", "observations": [said]}
    await client.client.call_tool("create_entities", {"entities": [entity]})
    memory_id: str = stored["local_id"]
    return memory_id


def asked_for_all(foreign_id: str, own_id: str) -> dict[str, dict[str, Any]]:
    """Each tool, asked for what the other project has; those that store something come last."""
    sought, name = f"deploy the {SECRET} api", f"name of {SECRET}"
    return {
        "read_graph": {},
        "search_nodes": {"query": SECRET},
        "open_nodes": {"names": [name]},
        "delete_entities": {"entityNames": [name]},
        "delete_observations": {"deletions": [{"entityName": name, "observations": [sought]}]},
        "delete_relations": {"relations": []},
        "create_relations": {"relations": []},
        "create_entities": {"entities": []},
        "add_observations": {"observations": [{"entityName": name, "contents": ["mine"]}]},
        "memory_hybrid_search": {"query": sought},
        "memory_get_working_context": {"context_id": CONTEXT},
        "memory_get": {"key_or_id": foreign_id},
        "memory_forget": {"key_or_id": foreign_id},
        "memory_history": {"key_or_id": foreign_id},
        "memory_update": {"key_or_id": foreign_id, "title": "mine"},
        "document_get": {"namespace": f"users/{SECRET}", "key": "profile"},
        "document_delete": {"namespace": f"users/{SECRET}", "key": "profile"},
        "document_namespaces": {"prefix": "users"},
        "document_search": {"prefix": "users", "query": SECRET},
        "memory_link": {"source": own_id, "target": foreign_id},
        "memory_status": {},
        "alma_retrieve_for_mode": {"query": sought, "mode": "learning"},
        "alma_retrieve_verified": {"query": sought},
        "recall": {"key": f"key of {SECRET}"},
        "list": {},
        "assess_task_confidence": {"task_description": sought},
        "alma_reinforce": {"memory_id": foreign_id},
        "alma_get_weak_memories": {},
        "memory_restore": {"key_or_id": foreign_id},
        "get_memory_stats": {},
        "memory_sweep": {"policies": ["lifetimes", "strength", "tiers"]},
        "ai_compact": {},
        "memory_inject": {"prompt": sought},
        "ai_focus": {"topic": "api"},
        "ai_unfocus": {"topic": "api"},
        "ai_pin": {"content": "keep this"},
        "ai_unpin": {"thread_id": foreign_id},
        "ai_rate_context": {"thread_id": foreign_id, "useful": True},
        "retrieve_memory": {"agent_id": "H001"},
        "ai_suggestions": {"context": sought},
        "ai_recall": {"topic": sought},
        "ai_merge": {"thread_a": own_id, "thread_b": foreign_id},
        "ai_split": {"thread_id": foreign_id},
        "ai_rename": {"thread_id": foreign_id, "title": "mine"},
        "record_task_outcome": {"task": "water the plants"},
        "record_thought": {"content": "so what?", "chain_id": CHAIN},
        "alma_compress_and_learn": {"content": "all of it went well", "memory_type": "outcome"},
        "memory_intelligent_store": {"content": "all of it is new", "key": "rule"},
        "remember": {"key": f"key of {SECRET}", "value": "mine"},
        "document_put": {"namespace": "users/mine", "key": "profile", "value": "mine"},
    }


SEARCHES = {"memory_hybrid_search", "alma_retrieve_for_mode", "alma_retrieve_verified", "ai_recall"}
"""May say what was asked for, which holds the word; what they found may not."""
REFUSE = {
    *("memory_get", "memory_forget", "memory_link", "alma_reinforce", "memory_restore", "memory_update"),
    *("memory_history", "document_get", "add_observations"),
    *("ai_unpin", "ai_rate_context", "ai_merge", "ai_split", "ai_rename"),
}
"""Say that nothing is stored under that id."""


def found_in(answer: Any) -> list[Any]:
    """Every memory in an answer, however deep."""
    if isinstance(answer, dict):
        own = [answer] if {"id", "content"} <= answer.keys() else []
        return [*own, *(one for value in answer.values() for one in found_in(value))]
    return [one for value in answer for one in found_in(value)] if isinstance(answer, list) else []


@pytest.mark.requirement("ALM-078")
async def test_no_tool_shows_what_another_project_holds(tmp_path: Path) -> None:
    async with session(tmp_path, project="other") as client:
        foreign_id = await fill(client, SECRET)
    async with session(tmp_path, project="app") as client:
        own_id = await fill(client, "billing")
        calls = asked_for_all(foreign_id, own_id)
        assert set(calls) == {tool.name for tool in (await client.client.list_tools()).tools}
        for tool, arguments in calls.items():
            result = await client.client.call_tool(tool, arguments)
            assert result.is_error == (tool in REFUSE), tool
            answer = result.structured_content
            shown = json.dumps(found_in(answer) if tool in SEARCHES else answer) + str(result.content) * result.is_error
            for named in (f"key of {SECRET}", f"name of {SECRET}", f"users/{SECRET}"):  # as the caller has said
                shown = shown.replace(named, "")
            assert SECRET not in shown, tool
    async with session(tmp_path, project="other") as client:
        assert SECRET in json.dumps(await client.ok("memory_get", key_or_id="rule")), "it was changed from outside"
        assert (await client.ok("recall", **calls["recall"]))["value"] == SECRET, "it was changed from outside"
        assert SECRET in str(await client.ok("document_get", **calls["document_get"])), "it was changed from outside"
        [entity] = (await client.ok("read_graph"))["entities"]
        assert entity["observations"] == [f"deploy the {SECRET} api"], "it was changed from outside"


@pytest.mark.requirement("ALM-078")
async def test_the_tools_find_all_of_it_in_its_own_project(tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    async with session(tmp_path, project="other") as client:
        own_id = await fill(client, SECRET)
        calls = asked_for_all(own_id, own_id)
        for tool in sorted(SEARCHES):
            answer = (await client.client.call_tool(tool, calls[tool])).structured_content
            assert SECRET in json.dumps(found_in(answer)), tool
        for tool in ("memory_get_working_context", "memory_get", "assess_task_confidence", "record_thought"):
            assert SECRET in json.dumps(await client.ok(tool, **calls[tool])), tool
        assert (await client.ok("recall", **calls["recall"]))["value"] == SECRET
