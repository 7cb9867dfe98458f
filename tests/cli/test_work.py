"""The command line about a piece of work: context, task, confidence, thought, link."""

from __future__ import annotations

import pytest

from kingly_memory.cli import tasks
from kingly_memory.cli.commands import Options
from kingly_memory.cognition.context import WorkingContext
from tests.cli_runner import Run


@pytest.mark.requirement("KNG-023")
def test_context_shows_what_was_stored_in_the_last_one(run: Run) -> None:
    run("store", "the branch is release-7", "--context", "deploy-42", "--type", "working")
    ran = run("context")
    assert ran.code == 0
    assert "deploy-42" in ran.out
    assert "the branch is release-7" in ran.out
    assert run("context", "deploy-42", "--json").json["memory_count"] == 1


def test_context_that_was_never_used_is_empty_and_no_failure(run: Run) -> None:
    ran = run("context", "never")
    assert ran.code == 0
    assert "nothing was noted" in ran.out


def test_context_shows_linked_memories(run: Run) -> None:
    run("store", "deploy on monday", "--key", "plan", "--context", "c")
    run("store", "fridays are risky", "--key", "why")
    assert run("link", "why", "plan", "--type", "supports").code == 0
    assert "supports: fridays are risky" in run("context", "c").out


def test_a_link_between_two_that_are_at_hand_is_shown_once(run: Run) -> None:
    run("store", "deploy on monday", "--key", "plan", "--context", "c")
    run("store", "fridays are risky", "--key", "why", "--context", "c")
    for source, target, kind in (("why", "plan", "supports"), ("plan", "why", "supports"), ("why", "plan", "causal")):
        run("link", source, target, "--type", kind)
    shown = [line.strip() for line in run("context", "c").out.splitlines() if "→" in line]
    assert sorted(shown) == [
        "causal: fridays are risky → deploy on monday",
        "supports: deploy on monday → fridays are risky",
        "supports: fridays are risky → deploy on monday",
    ]
    assert len(run("context", "c", "--json").json["related_memories"]) == 6


def test_a_link_that_only_the_remote_knows_is_shown_by_the_id_there() -> None:
    link = {"id": None, "remote_id": "m-7", "link_type": "supports", "direction": "incoming", "linked_to": "here"}
    assert "  supports: m-7" in tasks.context_lines(
        WorkingContext("c", related=({**link, "strength": 0.5},)), Options()
    )


@pytest.mark.requirement("KNG-036")
def test_confidence_rests_on_recorded_tasks_and_shows_its_factors(run: Run) -> None:
    assert "no similar task is known" in run("confidence", "deploy", "the", "api").out
    for status in ("completed", "completed", "failed"):
        assert run("task", "record", "deploy the api", "--status", status).code == 0
    ran = run("confidence", "deploy the api")
    assert ran.out.startswith("confidence 0.")
    assert "failure penalty" in ran.out
    assert ran.out.count("deploy the api") == 3
    assert run("confidence", "deploy the api", "--json").json["similar_tasks_count"] == 3


@pytest.mark.requirement("KNG-083")
def test_task_route_ranks_candidates_by_their_record(run: Run) -> None:
    run("task", "record", "deploy the api", "--approach", "bob")
    run("task", "record", "deploy the api", "--approach", "alice", "--status", "failed", "--reason", "red")
    ran = run("task", "route", "deploy the api", "alice", "bob")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["CANDIDATE", "bob", "alice"]


@pytest.mark.requirement("KNG-082")
def test_thoughts_are_listed_in_their_order(run: Run) -> None:
    first = run("thought", "record", "the build fails", "--json").json
    chain = first["chain_id"]
    run("thought", "record", "the cache is stale", "--chain", chain, "--type", "hypothesis")
    ran = run("thought", "list", chain)
    assert [line.split()[0] for line in ran.out.splitlines()] == ["1", "2"]
    assert "hypothesis" in ran.out
    assert run("thought", "list", "unknown").code == 2


def test_links_are_made_and_listed_without_a_router(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("store", "one", "--key", "one")
    run("store", "two", "--key", "two")
    assert run("links", "one").out == "no links\n"
    assert run("link", "one", "two", "--type", "causal", "--strength", "0.5").code == 0
    assert run("links", "two").out == "TYPE    STRENGTH  FROM → TO\ncausal  0.5       one → two\n"
    nameless = run("store", "three", "--json").json["id"]
    run("link", nameless, "one")
    with monkeypatch.context() as alone:
        alone.delattr("kingly_memory.blocking.SyncMemoryRouter.at")
        assert f"{nameless} three → one" in run("links", "one").out
    [link] = run("links", "two", "--json").json["links"]
    assert link["target"] == run("get", "two", "--json").json["id"]
    ran = run("link", "one", "nothing")
    assert (ran.code, "nothing" in ran.err) == (2, True)
    assert run("link", "one", "two", "--type", "romantic").code == 2
