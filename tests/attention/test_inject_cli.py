"""`kingly-memory inject` shows what a hook would put beside a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_runner import Run, runner
from tests.hosts.hook_samples import event
from tests.hosts.test_hook_process import hook, noted

PROMPT = "who has to review a deploy of the billing service?"
RULE = "Deploys need two reviews"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, isolated_environment: Path) -> Run:
    (isolated_environment / ".git").mkdir()
    monkeypatch.setenv("KINGLY_LOCAL_SEARCH_S", "30")
    return runner(capsys, monkeypatch)


@pytest.fixture
def told(run: Run) -> Run:
    """With three memories: the user's, a stranger's, and one that fits badly."""
    run("store", RULE, "--key", "deploy.rule", "--context", "release-42", "--tag", "deploying")
    run("store", "Every deploy gets a review, says a page", "--origin", "web", "--key", "page")
    run(
        "store",
        "A deploy is announced in the morning by the person who is on call this very week",
        "--key",
        "call",
        "--tag",
        "oncall",
    )
    return run


def unmarked(text: str) -> list[str]:
    """The lines of a block, without the nonce."""
    first, opening, *inside, closing = text.rstrip("\n").split("\n")
    return [first, opening.split()[0], *inside, closing.split()[0]]


@pytest.mark.requirement("SMT-052")
def test_it_prints_the_block_that_the_hook_gives(told: Run, isolated_environment: Path) -> None:
    given = event("UserPromptSubmit", isolated_environment, prompt=PROMPT)
    shown = told("inject", *PROMPT.split())
    assert (shown.code, shown.err) == (0, "")
    assert f"| {RULE}" in shown.out
    assert unmarked(shown.out) == unmarked(noted(hook("UserPromptSubmit", given)))


def test_a_focus_from_the_command_line_guides_the_hook(told: Run, isolated_environment: Path) -> None:
    """A person speaks for no agent, and the hook for one."""
    prompt, note = "does a deploy concern billing or finance?", "A deploy is announced in the morning"
    given = event("UserPromptSubmit", isolated_environment, prompt=prompt)
    assert note not in noted(hook("UserPromptSubmit", given))
    told("focus", "OnCall")
    assert note in noted(hook("UserPromptSubmit", given))


def test_the_prompt_may_come_from_standard_input_and_the_budget_is_kept(told: Run) -> None:
    assert RULE in told("inject", "-", stdin=PROMPT.encode()).out
    assert told("inject", PROMPT, "--budget", "70").out == ""


def test_another_agent_is_named(run: Run) -> None:
    run("store", RULE, "--agent", "cursor")
    assert run("inject", PROMPT).out == ""
    assert RULE in run("inject", PROMPT, "--agent", "cursor").out


@pytest.mark.requirement("A11")
def test_a_store_that_was_not_made_here_is_not_quoted(told: Run) -> None:
    told("trust", "--remove")
    ran = told("inject", PROMPT)
    assert ran.out == ""
    assert "it was not made here, so it may hold words that nobody here has said" in ran.err
