"""Pages with Python in them run as they stand, and what they print is what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tests.cli_runner import ROOT

BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def printed_and_promised(page: Path) -> tuple[str, str]:
    """What the page's Python prints when run as one script, and what its text blocks say that it prints."""
    namespace: dict[str, object] = {"__name__": "page"}
    promised = ""
    out = io.StringIO()
    for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "text":
            promised += body
        else:
            with contextlib.redirect_stdout(out):
                exec(compile(body, str(page), "exec"), namespace)  # noqa: S102  # our own page
    return out.getvalue(), promised


@pytest.mark.requirement("KNG-086")
@pytest.mark.parametrize(
    "page",
    [
        "attention.md",
        "audit.md",
        "cognitive-memory.md",
        "consensus.md",
        "continuum.md",
        "federation.md",
        "lifecycle.md",
        "python.md",
        "search.md",
        "stream.md",
        "thoughts-and-links.md",
        "verification.md",
    ],
)
def test_a_page_prints_what_it_says(page: str, isolated_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINGLY_LOCAL_SEARCH_S", "30")  # a busy machine shows the same
    printed, promised = printed_and_promised(ROOT / "docs" / page)
    assert printed == promised
