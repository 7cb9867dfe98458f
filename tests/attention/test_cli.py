"""focus, unfocus, pin, unpin, rate."""

from __future__ import annotations

import pytest

from tests.cli_runner import Run
from tests.threads.samples import THREAD_ID


@pytest.mark.requirement("SMT-003", "SMT-006")
def test_a_focus_is_set_shown_in_the_status_and_cleared(run: Run) -> None:
    run("store", "tokens last an hour", "--title", "Auth flow", "--context", "thread_a")
    assert run("focus", "auth").out == 'Focus set on "auth" (weight=0.8). 1 thread will be prioritized.\n'
    assert run("focus", "ui", "--weight", "0.25", "--json").json["weight"] == 0.25
    assert [one["topic"] for one in run("status", "--json").json["focus"]] == ["auth", "ui"]
    assert "focus       auth (0.8), ui (0.25)" in run("status").out
    assert run("unfocus", "AUTH").out == 'Focus on "auth" cleared. Still in focus: ui.\n'
    assert run("unfocus", "--json").json["cleared"] == ["ui"]
    assert "focus" not in run("status", "--json").json


@pytest.mark.requirement("SMT-013", "SMT-016", "SMT-018")
def test_a_text_is_pinned_and_unpinned(run: Run) -> None:
    said = run("pin", "Deploys need two reviews. Ask Ada.", "--topic", "rules", "--boost", "0.9", "--key", "rule").out
    first, title, unpin = said.splitlines()
    thread_id = first.split()[2]
    assert THREAD_ID.fullmatch(thread_id)
    assert first == f"Pinned as {thread_id} (weight=1.50)"
    assert (title, unpin) == ("  title  Deploys need two reviews", f"  unpin  kingly-memory unpin {thread_id}")
    kept = run("get", "rule", "--json").json
    assert (kept["origin"], kept["tags"]) == ("user", ["rules", "pinned"])
    assert run("unpin", "rule").out == f"Unpinned {thread_id}: it weighs 1.00 again\n"
    ran = run("pin", "rule")
    assert (ran.code, ran.err) == (
        2,
        "kingly-memory: TEXT: is the key of a memory, and a pin keeps a text of its own; "
        "write the text to keep in view\n",
    )
    piped = run("pin", "-", "--json", stdin=b"line one\r\nline two\r\n").json
    assert run("get", piped["memory_id"], "--json").json["content"] == "line one\r\nline two\r\n"
    assert run("--agent", "ada", "pin", "mine", "--key", "hers").code == 0
    assert run("get", "hers", "--json").json["origin"] == "agent"


@pytest.mark.requirement("SMT-033", "SMT-034")
def test_a_thread_is_rated_by_its_name_or_that_of_a_memory_in_it(run: Run) -> None:
    run("store", "Deploys wait for two reviews", "--key", "rule", "--context", "thread_deploys")
    said = run("rate", "thread_deploys", "noise", "--reason", "one review now").out
    assert said == "Rated thread_deploys as not useful. Relevance score: 1.00 → 0.50\n"
    again = run("rate", "rule", "useful", "--json").json
    assert (again["relevance_before"], again["relevance_score"], again["ratings"]) == (0.5, 0.6774, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["focus", ""], "TOPIC: is empty; say what to put into focus"),
        (["focus", "--weight", "1"], "TOPIC is missing"),
        (["focus", "a", "--weight", "nan"], "weight: expected a number from 0 to 1, not nan"),
        (["pin", " "], "TEXT: is empty; say what is to be remembered"),
        (["pin", "x", "--boost", "inf"], "boost: expected a number from 0 to 0.5, not inf"),
        (["pin", "x", "--topic", ""], "topic: is empty; leave it out instead"),
        (["pin", "x", "--key", "unseen"], "key: is taken, and a pin is always a new memory"),
        (["unpin", "thread_nobody"], "THREAD: there is no thread 'thread_nobody'"),
        (["unpin", "unseen"], "is not pinned"),
        (["rate", "unseen", "good"], "useful|noise: 'good' is unknown; say useful or noise"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence_and_changes_nothing(
    run: Run, arguments: list[str], sentence: str
) -> None:
    run("store", "nobody saw it", "--key", "unseen")
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.count("\n") == 1
    status = run("status", "--json").json
    assert (status["memories"]["total"], "focus" in status) == (1, False)
