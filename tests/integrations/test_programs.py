"""The programs that docs/integrations gives to paste, and who runs each: two processes, the second without a remote."""

from __future__ import annotations

import re

from tests.cli_runner import ROOT

PAGES = ROOT / "docs" / "integrations"
ELSEWHERE = {
    "langgraph.md": "test_langgraph_page.py",
    "openai-agents.md": "test_openai_agents.py",
    "anthropic.md": "test_anthropic.py",
}
"""The pages that begin with a program of their own, and the tests that run it."""
OTHERS = {"index.md", "frameworks.md", "hosts.md", "opentelemetry.md"}


def test_each_program_of_the_frameworks_page_is_run_by_make_conformance() -> None:
    page = (PAGES / "frameworks.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0] for part in page.split("\n## ")[1:] if "```py\n" in part}
    checks = [path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "conformance").glob("*/check_*.py")]
    run = {name for check in checks for name in re.findall(r"programs\.told\(\s*\"([^\"]+)\"", check)}
    run |= {"Hermes" for check in checks if r"\n## Hermes\n" in check}  # a plugin, which Hermes loads
    assert run == sections
    assert len(sections) + len(ELSEWHERE) >= 10


def test_each_page_of_its_own_has_a_test_that_runs_its_program() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == {*OTHERS, *ELSEWHERE}
    for page, test in ELSEWHERE.items():
        source = (ROOT / "tests" / "integrations" / test).read_text(encoding="utf-8")
        assert f'"{page}"' in source
        assert "subprocess.run" in source
