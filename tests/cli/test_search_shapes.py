"""`search` on the command line: titles, passages, budgets, folding, and verification in a mode."""

from __future__ import annotations

import json
import re

import pytest

from kingly_memory.writing import estimated_tokens
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
    short = run("search", "two", "reviews", "--budget-tokens", "110")
    assert "      3 alike (--no-fold shows each)\n" in short.out  # however few of their ids had room


def test_titles_and_passages_are_less_than_the_text_and_say_so(run: Run) -> None:
    run("store", HANDBOOK, "--title", "Handbook of the harbour", "--key", "handbook")
    titles = run("search", "reviews", "--detail", "titles").out
    assert "shown: 1 by title; `get KEY_OR_ID` shows all of one" in titles
    assert f"{estimated_tokens(HANDBOOK)} tokens to read" in titles
    assert RULE not in titles
    passages = run("search", "reviews", "--detail", "passages").out
    assert "shown: 1 as a passage" in passages
    assert RULE in passages
    assert f"part of {estimated_tokens(HANDBOOK)} tokens" in passages
    [hit] = run("search", "reviews", "--detail", "titles", "--json").json["hits"]
    assert (hit["view"], hit["key"], "content" in hit) == ("title", "handbook", False)


@pytest.mark.parametrize("mode", [[], ["--mode", "broad"]])
def test_a_budget_holds_and_what_is_left_out_is_counted(run: Run, mode: list[str]) -> None:
    for number in range(6):
        run("store", f"{number} {HANDBOOK}", "--key", f"k{number}")
    told = run("search", "reviews", "--budget-tokens", "400", "--json", *mode).json
    assert estimated_tokens(json.dumps(told["hits"], ensure_ascii=False)) <= 400
    assert told["excluded"]["beyond_budget"] == 6 - len(told["hits"])
    said = run("search", "reviews", "--budget-tokens", "400", "--explain", *mode).out
    assert " for want of tokens (--budget-tokens makes more)" in said
    assert "relevance: how well a hit answers, 0 to 1" in said


def test_full_is_all_of_each_memory(run: Run) -> None:
    run("store", HANDBOOK, "--title", "Handbook of the harbour")
    usual, full = run("search", "reviews").out, run("search", "reviews", "--detail", "full").out
    assert "shown: 1 whole\n" in full
    assert " ".join(full.split()).endswith(HANDBOOK)
    assert "shown: 1 as a passage" in usual
    assert RULE in usual  # though it stands in the first passage of the text
    assert len(usual.splitlines()) < len(full.splitlines())
    assert "content" in run("search", "reviews", "--detail", "full", "--json").json["hits"][0]


def test_what_counts_for_a_budget_is_printed_and_adds_up(run: Run) -> None:
    for text in (RULE, "deploys need two reviews", "Deploys need three reviews.", HANDBOOK):
        run("store", text)
    said = run("search", "two", "reviews", "--budget-tokens", "400").out
    [used] = re.findall(r"^  budget: (\d+) of 400 tokens, as a program is told the hits", said, re.MULTILINE)
    each = re.findall(r"^      counts (\d+) tokens$", said, re.MULTILINE)
    assert sum(map(int, each)) == int(used) <= 400
    assert len(each) == 3
    assert "budget" not in run("search", "two", "reviews", "--detail", "titles").out


def test_a_short_memory_without_a_title_is_shown_whole(run: Run) -> None:
    run("store", "evil \x1b[2J two\nlines", "--key", "k")
    said = run("search", "evil", "--budget-tokens", "500").out
    assert "semantic · just now · local · k · 5 tokens\n        evil [2J two\n        lines\n" in said
    assert "\x1b" not in said
    assert "shown: 1 whole\n" in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--mode", "broad", "--limit", "51"], "limit: 51 is outside 1 to 50"),
        (["--verify", "--limit", "51"], "limit: 51 is outside 1 to 50"),
        (["--verify", "--detail", "titles"], "verify: does not go with --prefer-speed, --detail"),
        (["--verify", "--explain"], "explain: does not go with --verify"),
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
