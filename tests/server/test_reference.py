"""The session that docs/mcp.md shows can be had again."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kingly_memory.server.tools import DEFAULT
from tests.cli_runner import ROOT
from tests.mcp_sessions import QUICK, session

PAGE = ROOT / "docs" / "mcp.md"
TEXT = PAGE.read_text(encoding="utf-8")
CHANGING = {"last_updated", "took_ms", "relevance"}
UNIQUE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.+]+")
"""Ids and times."""


def calls(kind: str) -> list[tuple[str, dict[str, Any], str]]:
    """(tool, arguments, what is said to be answered) of the page's blocks of that kind."""
    blocks = re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)
    shown = [call.partition("\n") for block in blocks for call in block.strip().split("\n\n")]
    parted = [(asked.partition(" "), answer) for asked, _, answer in shown]
    return [(tool, json.loads(given), answer) for (tool, _, given), answer in parted]


def steady(value: Any) -> Any:
    """The same without what is another one each time."""
    if isinstance(value, dict):
        return {name: "…" if name in CHANGING and one is not None else steady(one) for name, one in value.items()}
    if isinstance(value, list):
        return [steady(one) for one in value]
    return UNIQUE.sub("…", value) if isinstance(value, str) else value


@pytest.mark.requirement("KNG-086")
async def test_the_session_of_the_page_can_be_had_again(tmp_path: Path) -> None:
    plain = replace(QUICK, embedder="none")
    async with session(tmp_path / "home", project="shop", settings=plain, toolsets=DEFAULT) as client:
        for tool, arguments, answer in calls("mcp"):
            assert steady(await client.ok(tool, **arguments)) == steady(json.loads(answer)), tool
        for tool, arguments, sentence in calls("mcp-errors"):
            assert await client.error(tool, **arguments) == sentence
    assert len(calls("mcp")) > 5
