"""Memories as resources: attached by key or context, with both names completed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ResourceTemplateReference, TextResourceContents

from tests.mcp_sessions import ERAS, Session, session


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
