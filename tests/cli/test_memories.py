"""store, search, get, list, forget, restore."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kingly_memory.cli.place import moment
from kingly_memory.cli.search import notes
from kingly_memory.models import MemoryType, Origin
from kingly_memory.text.writing import estimated_tokens
from tests.cli_runner import Run


def test_what_was_stored_is_found_and_shown(run: Run) -> None:
    receipt = run("store", "Deploys need two reviews.", "--key", "deploy", "--json").json
    assert receipt["layers"] == ["local"]
    hit = run("search", "who", "reviews", "deploys", "--json").json["hits"][0]
    assert (hit["id"], hit["key"], hit["content"]) == (receipt["id"], "deploy", "Deploys need two reviews.")
    assert run("get", "deploy", "--json").json["id"] == run("get", receipt["id"], "--json").json["id"]


def test_every_option_of_store_reaches_the_memory(run: Run) -> None:
    said = {"type": "skill_development", "significance": "0.9", "confidence": "1", "title": "Deploys", "context": "c1"}
    options = [word for name, value in said.items() for word in (f"--{name}", value)]
    tags = ["--tag", "ops", "--tag", "process"]
    run("store", "Two reviews.", "--key", "k", *options, *tags, "--origin", "tool", "--metadata", '{"a": [1]}')
    memory = run("get", "k", "--json").json
    assert (memory["type"], memory["significance"], memory["confidence"]) == (MemoryType.PROCEDURAL, 0.9, 1.0)
    assert (memory["title"], memory["tags"], memory["origin"]) == ("Deploys", ["ops", "process"], Origin.TOOL)
    assert (memory["scope"]["context_id"], memory["metadata"]) == ("c1", {"a": [1]})


@pytest.mark.parametrize(("options", "origin"), [((), "user"), (("--agent", "planner"), "agent")])
def test_a_person_speaks_unless_an_agent_is_named(run: Run, options: tuple[str, ...], origin: str) -> None:
    run("store", "x", "--key", "k", *options)
    memory = run("get", "k", "--json").json
    assert (memory["origin"], memory["scope"]["agent"]) == (origin, options[-1] if options else None)


def test_standard_input_is_stored_byte_for_byte(run: Run) -> None:
    text = "first\r\n\tsecond \u2028 東京\n\n"
    run("store", "-", "--key", "k", stdin=text.encode())
    assert run("get", "k", "--json").json["content"] == text


def test_a_byte_order_mark_of_standard_input_is_no_part_of_the_text(run: Run) -> None:
    run("store", "-", "--key", "k", stdin=b"\xef\xbb\xbftwo reviews")
    assert run("get", "k", "--json").json["content"] == "two reviews"


def test_a_backup_is_not_written_to_standard_output(run: Run, project: Path) -> None:
    run("store", "x")
    said = "kingly-memory: FILE: nothing is written to standard output; name a file\n"
    assert (run("backup", "create", "-").err, (project / "-").exists()) == (said, False)
    assert run("backup", "create", "./-").code == 0


def test_standard_input_that_is_not_utf_8_is_refused(run: Run) -> None:
    said = "kingly-memory: CONTENT: is not UTF-8 (byte 4); convert it first, as with iconv\n"
    assert run("store", "-", stdin=b"caf\xe9").err == said
    assert run("list").out == "no memories\n"


@pytest.mark.parametrize("verb", [["list"], ["search", "refunds"], ["status"]])
def test_reading_a_home_that_is_not_there_says_so(run: Run, tmp_path: Path, verb: list[str]) -> None:
    home = tmp_path / "mistyped"
    read = run(*verb, "--home", str(home))
    assert read.code == 0
    assert read.err == f"kingly-memory: there is no home at {home}: nothing was stored there\n"
    assert not home.exists()


def test_storing_a_key_again_revises_the_memory(run: Run) -> None:
    run("store", "one", "--key", "k")
    assert "as revision 2" in run("store", "two", "--key", "k").out
    assert run("get", "k", "--json").json["content"] == "two"


def test_people_get_a_screen_and_no_control_characters(run: Run) -> None:
    run("store", "evil \x1b[2J\x9b text\nsecond line", "--key", "k", "--title", "Screens")
    for argv in (["search", "evil"], ["list"], ["get", "k"]):
        ran = run(*argv)
        assert ran.code == 0
        assert "Screens" in ran.out
        assert not set(ran.out) & set("\x1b\x9b")
    assert "second line" in run("get", "k").out


def test_a_search_says_where_it_looked_and_how_long_it_took(run: Run) -> None:
    run("store", "The harbour opens at six.")
    ran = run("search", "harbor", "--json").json
    assert (ran["source"], list(ran["layers"])) == ("local", ["local"])
    assert ran["took_ms"] >= 0
    assert run("search", "harbour").out.startswith("1 hit in ")


def test_search_and_list_narrow_by_type_tag_context_agent_and_time(run: Run) -> None:
    run("store", "ferry one", "--key", "a", "--type", "episodic", "--tag", "x", "--tag", "y", "--context", "c")
    run("store", "ferry two", "--key", "b", "--tag", "x", "--agent", "planner")
    expected = {
        ("--type", "episodic"): {"a"},
        ("--type", "task_cache"): set(),
        ("--type", "episodic", "--type", "semantic"): {"a", "b"},
        ("--tag", "x"): {"a", "b"},
        ("--tag", "x", "--tag", "y"): {"a"},
        ("--context", "c"): {"a"},
        ("--agent", "planner"): {"b"},
    }
    for options, keys in expected.items():
        assert {hit["key"] for hit in run("search", "ferry", "--json", *options).json["hits"]} == keys, options
        assert {one["key"] for one in run("list", "--json", *options).json["memories"]} == keys, options
    assert len(run("search", "ferry", "--since", "2001-01-01", "--json").json["hits"]) == 2
    assert run("search", "ferry", "--until", "2001-01-01", "--json").json["hits"] == []


def test_a_long_list_comes_in_pages(run: Run) -> None:
    for number in range(5):
        run("store", f"memory {number}", "--key", str(number))
    keys, before = [], None
    for _ in range(9):
        page = run("list", "--limit", "2", *(["--before", str(before)] if before is not None else []), "--json").json
        keys += [one["key"] for one in page["memories"]]
        before = page["next_before"]
        if before is None:
            break
    assert keys == ["4", "3", "2", "1", "0"]
    assert "more: the same with --before" in run("list", "--limit", "2").out


def test_forgotten_memories_are_gone_until_they_are_restored(run: Run) -> None:
    run("store", "the secret door", "--key", "door")
    assert run("forget", "door").code == 0
    assert run("get", "door").code == 2
    assert run("search", "door", "--json").json["hits"] == []
    assert run("restore", "door").out.startswith("restored: the secret door")
    assert run("get", "door").code == 0
    assert run("restore", "door").out == "there already, neither forgotten nor archived: the secret door\n"


@pytest.mark.requirement("N10")
def test_what_was_first_stored_here_is_not_said_to_have_come_from_a_remote(run: Run) -> None:
    for key, origins in {"ours": ("user", "remote"), "theirs": ("remote", "user")}.items():
        for origin in origins:
            run("store", f"Said by {origin}", "--key", key, "--origin", origin)
    assert "it came from a remote" not in run("forget", "ours").out
    assert "it came from a remote" in run("forget", "theirs").out


def test_what_was_forgotten_is_listed_by_the_name_that_brings_it_back(run: Run) -> None:
    run("store", "kept")
    for key in ("tea", "coffee"):
        run("store", key, "--key", key)
        run("forget", key)
    run("purge", "coffee", "--yes")
    [line] = run("list", "--forgotten").out.splitlines()
    assert "'tea' was forgotten; `kingly-memory restore tea` brings it back" in run("get", "tea").err
    assert "nothing is stored under 'coffee'" in run("get", "coffee").err
    assert run("restore", line.split()[0]).out == "restored: tea\n"
    assert run("list", "--forgotten").out == "no memories\n"


def test_storing_a_forgotten_key_again_says_that_it_is_back(run: Run) -> None:
    run("store", "the secret door", "--key", "door")
    assert "forgotten" not in run("store", "the open door", "--key", "door").out
    run("forget", "door")
    assert "  it was forgotten and is back; undo: kingly-memory forget " in run("store", "a door", "--key", "door").out


@pytest.mark.requirement("N18")
def test_the_beginning_of_an_id_stands_for_it_where_it_fits_one_memory(run: Run) -> None:
    one, other = (run("store", text, "--json").json["id"] for text in ("the secret door", "the open door"))
    for verb in ("get", "forget", "restore", "reinforce"):
        assert run(verb, one[:-3]).code == 0
    assert run("get", one[:-3], "--project", "other").code == 2
    assert run("get", f"{one[:-3]}zzz").code == 2
    common = next(one[:size] for size in range(len(one), 0, -1) if other.startswith(one[:size]))
    assert f"begin with {common!r}; write more" in run("get", common).err
    run("store", "a key is meant first", "--key", one[:8])
    assert "a key is meant first" in run("get", one[:8]).out


def test_a_time_may_be_a_length_or_a_day_that_has_a_name() -> None:
    now = datetime(2026, 3, 10, 12, tzinfo=UTC)
    said = {"7d": "2026-03-03T12:00:00+00:00", "12h": "2026-03-10T00:00:00+00:00", "yesterday": "2026-03-09"}
    said |= {"today": "2026-03-10", "2026-02-01": "2026-02-01"}
    assert {text: moment("since", text, now) for text in said} == said


def test_a_time_that_is_none_is_told_what_may_be_said(run: Run) -> None:
    for said in ("foo", "99999999999d"):
        ran = run("list", "--since", said)
        assert ran.code
        assert f"{said!r} is no date or time; say 2026-11-23, yesterday, or 7d" in ran.err


@pytest.mark.parametrize("verb", ["get", "forget", "restore"])
def test_an_unknown_name_is_nothing_under_it(run: Run, verb: str) -> None:
    ran = run(verb, "nobody", "--project", "apollo")
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err
        == "kingly-memory: nothing is stored under 'nobody' in this project; `kingly-memory list` shows what is there\n"
    )
    assert run(verb, "nobody", "--project", "apollo", "--json").json["error"]["type"] == "NothingUnder"


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (["store", "-"], "content"),
        (["store", "x" * 1_048_577], "content"),
        (["store", "x", "--tag", ""], "tags"),
        (["store", "x", "--origin", "nobody"], "origin"),
        (["store", "x", "--metadata", "[1]"], "metadata"),
        (["store", "x", "--metadata", '{"a": NaN}'], "metadata"),
        (["store", "x", "--project", "a\nb"], "project"),
        (["store", "x", "--agent", ""], "agent"),
        (["search", "x", "--limit", "9" * 30], "limit"),
        (["list", "--before", "-1"], "before"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_is_refused_by_field_and_stores_nothing(run: Run, argv: list[str], field: str) -> None:
    """What the declarations do not say; tests/api/test_bad_input.py has the rest."""
    ran = run(*argv, "--json")
    assert (ran.code, ran.json["error"]["field"], ran.err.count("\n")) == (2, field, 1)
    called = {"content": "CONTENT", "tags": "--tag", "project": "project", "agent": "agent"}.get(field, f"--{field}")
    assert ran.err.startswith(f"kingly-memory: {called}: "), "the name that the command line has for it"
    assert run("list", "--json").json["memories"] == []


HOSTILE_NAMES = ["../../x", "/abs", "..", "$HOME", "~root", "CON", "a:b", "x" * 512, "\u202egnp", "é", "m:1", "%"]


def test_hostile_names_are_names_and_never_paths(run: Run, tmp_path: Path) -> None:
    run("store", "x")
    before = {path for path in tmp_path.rglob("*") if "store" not in path.parts}
    for number, name in enumerate(HOSTILE_NAMES):
        stored = run("store", f"memory {number}", "--key", name, "--context", name, "--tag", name, "--json")
        assert stored.code == 0, name
        assert run("get", name, "--json").json["content"] == f"memory {number}"
        assert len(run("list", "--context", name, "--tag", name, "--json").json["memories"]) == 1
    assert {path for path in tmp_path.rglob("*") if "store" not in path.parts} == before


ODD_QUERIES = [
    '"', "'", "AND OR NOT", "a NEAR b", "multi-agent", "C++", "node.js", "who's", "secret:harbour", "harb*",
    "(", ")" * 50, "👩‍👩‍👧", "\ud800", "%_%", "x " * 60_000, "1" * 200_000, "東京", "\n\0\t", "--",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD_QUERIES, ids=lambda query: ascii(query)[:24])
def test_every_query_gets_a_sensible_answer(run: Run, query: str) -> None:
    run("store", "The harbour opens at six.")
    ran = run("search", "--json", "--", query)
    assert ran.code == 0
    assert ran.json["source"] == "local"
    assert run("search", "--", query).code == 0


@pytest.mark.parametrize("query", ["", " ", "\n"])
@pytest.mark.parametrize("how", [[], ["--verify"], ["--mode", "auto"]])
def test_an_empty_query_is_refused_however_it_is_asked(run: Run, query: str, how: list[str]) -> None:
    ran = run("search", query, *how)
    assert (ran.code, ran.err) == (2, "kingly-memory: QUERY: is empty; say what to look for\n")


def test_a_query_can_be_piped_in(run: Run) -> None:
    run("store", "Deploys stop at the lock timeout.", "--key", "lock")
    log = b"2026-11-21 12:00:01 INFO started\n" * 50 + b"Why does the deploy stop at the lock timeout?\n"
    for how in ([], ["--verify"]):
        assert "· lock" in run("search", "-", *how, stdin=log).out
    assert run("search", "-", stdin=b" \n").err == "kingly-memory: QUERY: is empty; say what to look for\n"


def test_a_log_that_is_too_long_to_be_read_is_refused(run: Run) -> None:
    ran = run("search", "-", stdin=b"a log " * 200_000)
    assert ran.err.startswith("kingly-memory: QUERY: has more than the 1,048,576 bytes that are read; give the part")


def test_what_an_answer_lacks_is_said_in_sentences() -> None:
    silent = {"remote": "no complete answer within 93 ms"}
    assert list(notes({"remote": "offline: HTTP 503"}, None, {})) == ["  remote is offline: HTTP 503"]
    assert list(notes(silent, None, {})) == ["  remote did not answer: no complete answer within 93 ms"]


def test_a_search_that_finds_nothing_says_what_to_try(run: Run) -> None:
    run("store", "Deploys need two reviews.")
    first, hint = run("search", "who pays the invoices").out.splitlines()
    assert first.startswith("0 hits in ")
    assert (
        hint
        == "  nothing that is remembered answers that well enough; try words of the memory itself, or fewer filters"
    )
    assert "nothing that is remembered" not in run("search", "deploys", "--min-confidence", "0.7").out  # it says why


def test_a_bar_alone_is_no_mode(run: Run) -> None:
    run("store", "Deploys need two reviews.")
    told = run("search", "deploys", "--min-confidence", "0.7").out
    assert "  left out: 1 less sure than was asked for (--min-confidence sets the bar)\n" in told
    assert "memories have confidence 0.5 unless `store --confidence` says more" in told
    assert "mode" not in told


def test_explain_tells_programs_the_figures(run: Run) -> None:
    run("store", "Deploys need two reviews.")
    [hit] = run("search", "deploys", "--explain", "--json").json["hits"]
    assert hit["scores"]["bm25"] > 0


def test_a_list_leaves_assessments_out_unless_they_are_asked_for(run: Run) -> None:
    run("store", "Deploys need two reviews.", "--key", "deploy")
    run("confidence", "deploy the shop")
    assert [one["key"] for one in run("list", "--json").json["memories"]] == ["deploy"]
    [assessment] = run("list", "--tag", "confidence_assessment", "--json").json["memories"]
    assert assessment["metadata"]["record"] == "confidence_assessment"


@pytest.mark.requirement("N17")
@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host", "not a url", "http://", "http://[::1", "http://host:99999", "http://x:0"]
)
@pytest.mark.parametrize("verb", ["store", "search", "get"])
def test_an_address_that_cannot_be_used_is_refused_in_one_sentence(run: Run, verb: str, url: str) -> None:
    refused = run(verb, "x", "--remote", url)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert refused.err.startswith("kingly-memory: remote: ")
    assert run("list", "--json").json["memories"] == []


def test_an_unreachable_remote_costs_nothing_but_a_note(run: Run) -> None:
    stored = run("store", "The harbour opens at six.", "--remote", "http://127.0.0.1:9", "--json")
    assert (stored.code, stored.json["delivery"]) == (0, "pending")
    found = run("search", "harbour", "--remote", "http://127.0.0.1:9", "--json").json
    assert (found["source"], len(found["hits"])) == ("local_fallback", 1)
    assert "remote" in found["failures"]


def test_a_memory_that_must_be_on_the_remote_fails_with_its_receipt(run: Run) -> None:
    ran = run("store", "x", "--require-remote", "--wait", "0", "--remote", "http://127.0.0.1:9", "--json")
    error = ran.json["error"]
    assert (ran.code, error["type"]) == (1, "RemoteUnavailable")
    assert run("get", error["receipt"]["id"]).code == 0


def test_the_token_comes_from_a_file_and_is_never_shown(run: Run, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("canary-token\n")
    for argv in (["config", "--json"], ["status"], ["store", "x", "--remote", "http://127.0.0.1:9"]):
        ran = run(*argv, "--token-file", str(token))
        assert ran.code == 0
        assert "canary-token" not in ran.out + ran.err


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_a_token_file_that_holds_no_token_is_refused(run: Run, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.touch(mode=0o600)
        file.write_bytes(content)
    ran = run("status", "--token-file", str(file), "--json")
    assert (ran.code, ran.json["error"]["field"]) == (2, "token_file")


def test_json_is_one_value_on_one_line(run: Run) -> None:
    run("store", "two\nlines", "--key", "k")
    for argv in (["get", "k"], ["list"], ["search", "lines"], ["status"], ["config"], ["version"], ["forget", "k"]):
        ran = run(*argv, "--json")
        assert ran.out.count("\n") == 1
        json.loads(ran.out)


def test_a_list_marks_what_is_kept_for_every_project(run: Run) -> None:
    run("store", "english", "--everywhere", "--key", "lang")
    run("store", "two reviews", "--key", "deploy")
    assert [("every project" in line, line.split()[0]) for line in run("list").out.splitlines()] == [
        (False, "deploy"),
        (True, "lang"),
    ]
    assert "every project" not in run("list", "--everywhere").out


# --- search: passages, folding, and verification in a mode ------------------------------------------------------------

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
        (["--mode", "broad", "--limit", "51"], "--limit: 51 is outside 1 to 50"),
        (["--verify", "--limit", "51"], "--limit: 51 is outside 1 to 50"),
        (["--verify", "--prefer-speed"], "--verify: does not go with --prefer-speed"),
        (["--verify", "--explain"], "--verify: does not go with"),
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


def test_status_says_whose_memories_it_does_not_count(run: Run) -> None:
    def users(*argv: str) -> list[str]:
        return [line for line in run("status", *argv).out.splitlines() if line.startswith(("user ", "of users"))]

    run("store", "two reviews")
    assert users() == []
    run("store", "tea", "--user", "ana")
    run("store", "coffee", "--user", "ana", "--project", "elsewhere")
    assert users() == ["of users    1 memory of ana; `--user NAME` reads them"]
    assert users("--user", "ana") == ["user        ana"]
    for number in range(5):
        run("store", "tea", "--user", f"user-{number}")
    assert users("--user", "ana")[1:] == [
        "of users    5 memories of user-0, user-1, user-2, user-3, user-4; `--user NAME` reads them"
    ]
    assert users() == ["of users    6 memories of 6 users; `--user NAME` reads them"]
