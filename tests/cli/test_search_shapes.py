"""`search` on the command line: passages, folding, and verification in a mode."""

from __future__ import annotations

import pytest

from kingly_memory.text.writing import estimated_tokens
from tests.cli_runner import Run

RULE = "Deploys need two reviews."
HANDBOOK = "The harbour opens at six. " * 30 + RULE + " Ferries leave at seven." * 40


def test_repeats_are_named_below_the_hit_that_stands_for_them(run: Run) -> None:
    ids = {
        run("store", text, "--json").json["id"]
        for text in (RULE, "deploys need two reviews", "Deploys need two reviews!")
    }
    run("store", "Deploys need patience and reviews.")
    said = run("search", "two", "reviews").out
    assert said.startswith("2 hits in ")
    assert "      3 alike (--no-fold shows each)\n" in said
    told = run("search", "two", "reviews", "--json").json
    [(shown, folded)] = told["folded"].items()
    assert {shown, *folded} == ids
    assert run("search", "two", "reviews", "--no-fold").out.startswith("4 hits in ")
    assert "alike" not in run("search", "two", "reviews", "--no-fold").out


def test_of_a_long_text_the_passage_that_answers_is_shown(run: Run) -> None:
    run("store", HANDBOOK, "--title", "Handbook of the harbour")
    said = run("search", "reviews").out
    assert RULE in said  # though it does not stand in its first passage
    assert f"part of {estimated_tokens(HANDBOOK)} tokens; `get` shows all" in said
    assert len(said) < len(HANDBOOK)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--mode", "broad", "--limit", "51"], "limit: 51 is outside 1 to 50"),
        (["--verify", "--limit", "51"], "limit: 51 is outside 1 to 50"),
        (["--verify", "--prefer-speed"], "verify: does not go with --prefer-speed"),
        (["--verify", "--explain"], "verify: does not go with"),
    ],
)
def test_what_makes_no_sense_is_named_as_it_was_said(run: Run, options: list[str], sentence: str) -> None:
    ran = run("search", "deploys", *options)
    assert (ran.code, ran.err.startswith(f"kingly-memory: {sentence}")) == (2, True), ran.err


def test_a_mode_and_verification_go_together(run: Run) -> None:
    run("store", RULE, "--key", "right", "--confidence", "0.9")
    run("store", "Deploys need three reviews.", "--key", "wrong", "--confidence", "0.8")
    run("store", "Deploys need four reviews.", "--key", "unsure")
    said = run("search", "how many reviews", "--verify", "--mode", "precise").out
    assert said.startswith(
        "2 candidates held against each other: 1 verified, 1 contradicted\n  mode precise: asked for\n"
    )
    assert "  left out: 1 less sure than was asked for" in said
    told = run("search", "how many reviews", "--verify", "--mode", "auto", "--min-confidence", "0.1", "--json").json
    assert {one["key"] for status in ("verified", "uncertain", "contradicted") for one in told[status]} == {
        "right",
        "wrong",
        "unsure",
    }
    assert told["metadata"]["mode"] == "precise"
    alone = run("search", "how many reviews", "--verify", "--mode", "precise", "--limit", "1", "--json").json
    assert alone["metadata"]["total_candidates"] == 1


def test_verdicts_stand_below_the_hits_of_a_mode_while_the_setting_is_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("store", RULE, "--confidence", "0.9")
    assert "verified (" not in run("search", "reviews", "--mode", "precise").out
    monkeypatch.setenv("KINGLY_VERIFICATION_ENABLED", "on")
    assert "      verified (0.90): " in run("search", "reviews", "--mode", "precise").out
