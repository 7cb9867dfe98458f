"""`kingly-memory eval`, on files small enough to know the answers by heart."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, cast

import pytest

from kingly_memory.app.sync import SyncMemoryRouter
from kingly_memory.cli import evaluate, trial
from kingly_memory.cli.commands import COMMANDS
from kingly_memory.cli.configurations import CONFIGURATIONS, chosen
from kingly_memory.cli.output import Output
from kingly_memory.cli.trial import NotDelivered
from kingly_memory.hub.process import HubDidNotStart, HubProcess
from kingly_memory.models import LayerReport, Results, Source
from tests.cli_runner import Run, environment, runner
from tests.test_evaluation import lines, sample

LOCAL = ("--config", "local")
FIGURES = {"name", "recall@5", "recall@10", "mrr@10", "p50_ms", "p95_ms"}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(capsys, monkeypatch)


def test_a_way_of_searching_that_cannot_be_had_here_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "is_installed", lambda: False)
    path = lines(tmp_path / "set.jsonl", {"id": "m", "content": "x"}, {"query": "x", "relevant": ["m"]})
    ran = run("eval", str(path), "--config", "semantic")
    assert (ran.code, ran.err) == (
        2,
        "kingly-memory: config: semantic needs vectors; run `pip install 'kingly-memory[semantic]'` for them\n",
    )


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go, to see that none is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """Two conversations in LoCoMo's shape, with three answerable questions each."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([sample(), sample(sample_id="s2")]))
    return path


@pytest.fixture
def boats(tmp_path: Path) -> Path:
    """Two memories and three questions: one found, one mistyped, one in other words."""
    return lines(
        tmp_path / "boats.jsonl",
        {"id": "a", "content": "The canoe is red."},
        {"id": "b", "content": "The lighthouse has a keeper."},
        {"query": "canoe", "relevant": ["a"]},
        {"query": "lihgthouse", "relevant": ["b"]},
        {"query": "vessel", "relevant": ["a", "b"]},
    )


def test_a_search_is_measured_by_what_it_finds(run: Run, boats: Path) -> None:
    repaired, plain = run("eval", str(boats), *LOCAL, "--config", "local-no-repair", "--json").json["configurations"]
    assert repaired.keys() >= FIGURES
    assert (repaired["name"], repaired["recall@5"], repaired["recall@10"], repaired["mrr@10"]) == (
        "local",
        0.6667,
        0.6667,
        0.6667,
    )
    assert (plain["name"], plain["recall@10"]) == ("local-no-repair", 0.3333)
    assert 0 < repaired["p50_ms"] <= repaired["p95_ms"]
    assert (repaired["memories"], repaired["questions"], repaired["corrupted"]) == (2, 3, False)


def test_a_table_for_people_says_the_same(run: Run, boats: Path) -> None:
    ran = run("eval", str(boats), *LOCAL)
    first, _, heads, row = ran.out.splitlines()
    assert first == "2 memories, 3 questions; 33% of a question's words stand in what answers it"
    assert heads.split() == [
        "CONFIGURATION",
        "CONVERSATIONS",
        "RECALL@5",
        "RECALL@10",
        "MRR@10",
        *"P50 MS P95 MS".split(),
    ]
    assert row.split()[:5] == ["local", "pooled", "0.667", "0.667", "0.667"]
    assert ran.err == ""


def test_categories_have_a_table_of_their_own(run: Run, tmp_path: Path) -> None:
    path = lines(
        tmp_path / "set.jsonl",
        {"id": "a", "content": "The canoe is red."},
        {"query": "canoe", "relevant": ["a"], "category": "near"},
        {"query": "vessel", "relevant": ["a"], "category": "far"},
    )
    heads, row = run("eval", str(path), *LOCAL).out.splitlines()[-2:]
    assert heads.split() == [*"RECALL@10 BY CATEGORY".split(), "CONVERSATIONS", "FAR", "NEAR"]
    assert row.split() == ["local", "pooled", "0.000", "1.000"]


def test_conversations_are_asked_apart_and_pooled(run: Run, chat: Path) -> None:
    apart, pooled = run("eval", str(chat), *LOCAL, "--json").json["configurations"]
    assert [(one["name"], one["arrangement"]) for one in (apart, pooled)] == [
        ("local", "apart"),
        ("local-pooled", "pooled"),
    ]
    assert [(one["memories"], one["questions"]) for one in (apart, pooled)] == [(6, 6), (6, 6)]
    assert apart["recall@10_by_category"].keys() == {"1", "3", "4"}
    # The two conversations are alike: in one project each answer has a double that comes before half of them.
    assert pooled["mrr@10"] < apart["mrr@10"]


@pytest.mark.parametrize("arrangement", ["apart", "pooled"])
def test_one_arrangement_can_be_had_alone(run: Run, chat: Path, arrangement: str) -> None:
    [only] = run("eval", str(chat), *LOCAL, f"--{arrangement}", "--json").json["configurations"]
    assert (only["name"], only["arrangement"]) == ("local", arrangement)


def test_a_limit_takes_questions_from_the_whole_file(run: Run, chat: Path) -> None:
    [only] = run("eval", str(chat), *LOCAL, "--pooled", "--limit", "2", "--json").json["configurations"]
    assert (only["questions"], only["memories"]) == (2, 6)
    [only] = run("eval", str(chat), *LOCAL, "--pooled", "--limit", "99", "--json").json["configurations"]
    assert only["questions"] == 6


def test_corrupted_questions_need_the_repair(run: Run, tmp_path: Path) -> None:
    words = ["lighthouse", "accordion", "marmalade", "telescope", "carpenter", "submarine", "porcupine", "waterfall"]
    path = lines(
        tmp_path / "set.jsonl",
        *({"id": word, "content": f"The {word} stood here."} for word in words),
        *({"query": word, "relevant": [word]} for word in words),
    )
    both = ("--config", "local", "--config", "local-no-repair", "--corrupt", "--json")
    repaired, plain = run("eval", str(path), *both).json["configurations"]
    assert repaired["corrupted"] is True
    assert repaired["recall@10"] >= 0.75
    assert plain["recall@10"] == 0.0


def test_wrapped_questions_are_answered_like_bare_ones(run: Run, tmp_path: Path) -> None:
    words = ["lighthouse", "accordion", "marmalade", "telescope"]
    path = lines(
        tmp_path / "set.jsonl",
        *({"id": word, "content": f"The {word} stood here."} for word in words),
        *(
            {"id": f"noise {number}", "content": "You must read the file when a command failed."}
            for number in range(20)
        ),
        *({"query": f"Where did the {word} stand?", "relevant": [word]} for word in words),
    )
    told = run("eval", str(path), "--config", "local", "--wrapped", "--json").json["configurations"]
    assert [(only["wrapped"], only["mrr@10"]) for only in told] == [(True, 1.0)]
    assert "wrapped in what was pasted" in run("eval", str(path), "--config", "local", "--wrapped").out


def test_questions_alone_are_asked_of_the_projects_memories(run: Run, tmp_path: Path) -> None:
    run("store", "The canoe is red.", "--key", "boat")
    stored = run("store", "The kayak is blue.", "--type", "episodic", "--json").json["id"]
    before = run("export").out
    path = lines(
        tmp_path / "asked.jsonl", {"query": "canoe", "relevant": ["boat"]}, {"query": "blue", "relevant": [stored]}
    )
    [only] = run("eval", str(path), *LOCAL, "--json").json["configurations"]
    assert (only["recall@10"], only["memories"]) == (1.0, 2)
    assert run("export").out == before
    elsewhere = run("eval", str(path), *LOCAL, "--project", "another")
    assert elsewhere.code == 2
    problem = "relevant: names 'boat', and no memory that is searched has that id or key"
    assert elsewhere.err == f"kingly-memory: file: {path}, line 1: {problem}\n"


def test_nothing_is_stored_in_the_users_home_and_nothing_stays_behind(run: Run, boats: Path, temporary: Path) -> None:
    run("store", "x", "--key", "k")
    assert run("eval", str(boats), *LOCAL, "--home", "here").code == 0
    assert run("status", "--json").json["memories"]["total"] == 1
    assert not Path("here").exists()
    assert list(temporary.iterdir()) == []


def test_a_hub_is_asked_too_and_stopped(run: Run, chat: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hubs: list[HubProcess] = []
    start = HubProcess.start

    def started(hub: HubProcess) -> None:
        hubs.append(hub)
        start(hub)

    monkeypatch.setattr(HubProcess, "start", started)
    # Apart, since both conversations say the same: in one project each hit would stand for two.
    wanted = ("--config", "hub", "--config", "prefer", "--config", "hub-alone", "--apart")
    # A remote that answers within any time, so that a busy machine does not change the figures.
    monkeypatch.setenv("KINGLY_REMOTE_SEARCH_S", "30")
    rows = run("eval", str(chat), *wanted, "--json").json["configurations"]
    assert [one["name"] for one in rows] == ["hub", "prefer", "hub-alone"]
    assert [one["without_remote"] for one in rows] == [0, 0, 0]
    assert all(one["recall@10"] >= 0.6 for one in rows)
    assert [hub.running for hub in hubs] == [False]
    assert list(temporary.iterdir()) == []


def test_hits_of_another_layer_than_the_one_in_question_do_not_count(
    run: Run, boats: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = SyncMemoryRouter.search

    def without_remote(router: SyncMemoryRouter, query: str, **settings: Any) -> Results:
        results = search(router, query, **settings)
        return replace(results, hits=tuple(replace(hit, layers=("local",)) for hit in results))

    monkeypatch.setattr(SyncMemoryRouter, "search", without_remote)
    both = run("eval", str(boats), "--config", "hub", "--config", "hub-alone", "--json").json["configurations"]
    assert [one["recall@10"] for one in both] == [0.6667, 0.0]


def test_a_hub_that_does_not_start_is_one_sentence(run: Run, boats: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(hub: HubProcess) -> None:
        raise HubDidNotStart("no room")

    monkeypatch.setattr(HubProcess, "start", silent)
    ran = run("eval", str(boats), "--config", "hub")
    assert (ran.code, ran.err) == (1, "kingly-memory: the hub did not start: no room\n")


def test_a_hub_that_takes_nothing_ends_the_trial(
    run: Run, boats: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "DELIVERY_S", 0.0)
    monkeypatch.setattr(trial, "DELIVERY_EACH_S", 0.0)
    ran = run("eval", str(boats), "--config", "hub", "--json")
    assert (ran.code, ran.json["error"]["type"]) == (1, NotDelivered.__name__)
    assert list(temporary.iterdir()) == []


def test_what_is_cut_short_or_unanswered_is_said_below_the_table(
    run: Run, boats: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = SyncMemoryRouter.search

    def hurried(router: SyncMemoryRouter, query: str, **settings: Any) -> Results:
        results = search(router, query, **settings)
        layers = {"local": LayerReport(1.0, len(results), cut=True)}
        return replace(results, source=Source.LOCAL_FALLBACK, layers=layers)

    monkeypatch.setattr(SyncMemoryRouter, "search", hurried)
    told = "3 searches answered without the hub, which took too long, 3 searches ended early by the deadline"
    assert run("eval", str(boats), *LOCAL).out.splitlines()[-1] == f"local, pooled: {told}"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["eval", "missing.json"], "file: missing.json cannot be read"),
        (["eval", "."], "file: . is a folder, not a file"),
        (["eval", "empty.json"], "json: empty.json is empty"),
        (["eval", "boats.jsonl", "--config", "best"], "config: 'best' is unknown; choose from local, local-no-repair"),
        (["eval", "boats.jsonl", "--limit", "0"], "limit: 0 is outside 1 to"),
        (["eval"], "FILE"),
    ],
)
def test_what_cannot_be_evaluated_is_one_sentence(run: Run, argv: list[str], words: str) -> None:
    Path("empty.json").touch()
    lines(Path("boats.jsonl"), {"id": "a", "content": "x"}, {"query": "x", "relevant": ["a"]})
    ran = run(*argv)
    assert ran.code == 2
    assert words in ran.err
    assert (ran.err.count("\n"), ran.out) == (1, "")


def test_parts_that_cannot_be_used_are_noted(run: Run, tmp_path: Path) -> None:
    broken = sample()
    broken["conversation"]["session_2"] = [{"speaker": "Mara"}]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(broken))
    ran = run("eval", str(path), *LOCAL)
    assert ran.code == 0
    assert ran.err.startswith(f"kingly-memory: 1 part of the file could not be used, the first: {path}, s1 session_2")


def test_an_interrupted_trial_leaves_nothing(
    run: Run, boats: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(router: SyncMemoryRouter, *_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(SyncMemoryRouter, "search", interrupted)
    assert run("eval", str(boats), "--config", "hub").code == 130
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("moment", ["hub-*/hub.lock", "home-1"], ids=["while the hub starts", "while it is fed"])
def test_a_signal_ends_it_and_its_hub(tmp_path: Path, temporary: Path, number: int, code: int, moment: str) -> None:
    rows = [{"id": str(at), "content": f"memory {at}"} for at in range(3_000)]
    path = lines(tmp_path / "many.jsonl", *rows, {"query": "memory", "relevant": ["7"]})
    with subprocess.Popen(
        [sys.executable, "-m", "kingly_memory", "eval", str(path), "--config", "hub"],
        env=environment(TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        while not list(temporary.glob(f"kingly-eval-*/{moment}")):
            assert running.poll() is None
        [lock] = temporary.glob("kingly-eval-*/hub-*/hub.lock")
        with lock.open("rb") as held_by_the_hub:
            running.send_signal(number)
            _, err = running.communicate(timeout=60)
            fcntl.flock(held_by_the_hub, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while a hub still runs
    assert (running.returncode, err) == (code, b"")
    assert list(temporary.iterdir()) == []


def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere() -> None:
    class Terminal(TextIOWrapper):
        def isatty(self) -> bool:
            return True

    told = {}
    for kind in (Terminal, TextIOWrapper):
        err = kind(BytesIO())
        progress = evaluate._Progress(Output(False, TextIOWrapper(BytesIO()), err))
        progress.at("1 of 2")
        progress.over()
        err.flush()
        told[kind] = cast("BytesIO", err.buffer).getvalue()
    assert told == {Terminal: b"\r\x1b[K1 of 2\r\x1b[K", TextIOWrapper: b""}


def test_configurations_have_names_of_their_own_and_the_help_lists_them() -> None:
    names = [one.name for one in CONFIGURATIONS]
    [command] = [one for one in COMMANDS if one.name == "eval"]
    [option] = [one for one in command.arguments if one.name == "--config"]
    assert len(set(names)) == len(names)
    assert ", ".join(names) in option.help
    assert [one.name for one in chosen(["hub", "local", "hub"])] == ["hub", "local"]
    assert [one.name for one in chosen(None)] == names[:4]


def test_what_takes_long_says_now_and_then_how_far_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    from kingly_memory.cli.evaluate import NOTE_S, _Progress
    from kingly_memory.cli.output import Output

    now = [0.0]
    progress = _Progress(Output(as_json=False), lambda: now[0])
    for at, line in (
        (0.0, "one"),
        (NOTE_S - 0.1, "two"),
        (NOTE_S, "three"),
        (NOTE_S + 1, "four"),
        (2 * NOTE_S, "five"),
    ):
        now[0] = at
        progress.at(line)
    progress.over()
    assert capfd.readouterr().err == "kingly-memory: three\nkingly-memory: five\n"
