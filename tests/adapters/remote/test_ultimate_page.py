"""The page about Ultimate servers names the tools and the terms that are really used."""

from __future__ import annotations

import re

import pytest

from kingly_memory.adapters.remote import ultimate_wire
from tests.cli_runner import ROOT
from tests.remote_samples import LIGHTHOUSE
from tests.ultimate.server import OLDER_TOOLS

PAGE = (ROOT / "docs" / "remotes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", OLDER_TOOLS)
def test_a_tool_that_is_used_is_on_the_page(tool: str) -> None:
    assert f"`{tool}`" in PAGE


def test_every_argument_of_a_store_is_on_the_page() -> None:
    told = ultimate_wire.store_arguments(LIGHTHOUSE, "k").keys() - {"source", "suggest_links", "idempotency_key"}
    assert [name for name in sorted(told) if f"`{name}`" not in PAGE] == []


def test_every_tag_of_ours_is_on_the_page() -> None:
    assert [tag for tag in ultimate_wire.OUR_TAGS if not re.search(rf"`{re.escape(tag)}", PAGE)] == []
