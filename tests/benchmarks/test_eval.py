"""`python -m benchmarks.eval`, on files small enough to know the answers by heart."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval import __main__ as evaluation
from benchmarks.eval import everything
from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import LayerReport, Results, Source
from tests.benchmarks.test_questions import lines, sample
from tests.cli_runner import Ran
from tests.hub.stores import STORES, postgres_server

LOCAL = ("--config", "local")
FIGURES = {"name", "recall@5", "recall@10", "mrr@10", "p50_ms", "p95_ms"}
Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one evaluation in this process."""

    def evaluated(*arguments: str) -> Ran:
        code = evaluation.main(arguments)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return evaluated


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go, to see that none is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture(scope="module", params=STORES)
def hub_store(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The options that name it; the server is started before a test has a temporary folder of its own."""
    if request.param == "embedded":
        yield []
        return
    with postgres_server() as server:
        yield ["--hub-store", server.address]


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
    repaired, plain = run(str(boats), *LOCAL, "--config", "local-no-repair", "--json").json["configurations"]
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
    ran = run(str(boats), *LOCAL)
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


def test_conversations_are_asked_apart_and_pooled(run: Run, chat: Path) -> None:
    apart, pooled = run(str(chat), *LOCAL, "--json").json["configurations"]
    assert [(one["name"], one["arrangement"]) for one in (apart, pooled)] == [
        ("local", "apart"),
        ("local-pooled", "pooled"),
    ]
    assert [(one["memories"], one["questions"]) for one in (apart, pooled)] == [(6, 6), (6, 6)]
    assert apart["recall@10_by_category"].keys() == {"1", "3", "4"}
    # The two conversations are alike: in one project each answer has a double that comes before half of them.
    assert pooled["mrr@10"] < apart["mrr@10"]


def test_corrupted_questions_need_the_repair(run: Run, tmp_path: Path) -> None:
    words = ["lighthouse", "accordion", "marmalade", "telescope", "carpenter", "submarine", "porcupine", "waterfall"]
    path = lines(
        tmp_path / "set.jsonl",
        *({"id": word, "content": f"The {word} stood here."} for word in words),
        *({"query": word, "relevant": [word]} for word in words),
    )
    both = ("--config", "local", "--config", "local-no-repair", "--corrupt", "--json")
    repaired, plain = run(str(path), *both).json["configurations"]
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
    told = run(str(path), "--config", "local", "--wrapped", "--json").json["configurations"]
    assert [(only["wrapped"], only["mrr@10"]) for only in told] == [(True, 1.0)]
    assert "wrapped in what was pasted" in run(str(path), "--config", "local", "--wrapped").out


def test_a_hub_is_asked_too_and_stopped(
    hub_store: list[str], run: Run, chat: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hubs: list[HubProcess] = []
    start = HubProcess.start

    def started(hub: HubProcess) -> None:
        hubs.append(hub)
        start(hub)

    monkeypatch.setattr(HubProcess, "start", started)
    # Apart, since both conversations say the same: in one project each hit would stand for two.
    wanted = ("--config", "hub", "--config", "prefer", "--config", "hub-alone", "--apart", *hub_store)
    # A remote that answers within any time, so that a busy machine does not change the figures.
    monkeypatch.setenv("KINGLY_REMOTE_SEARCH_S", "30")
    rows = run(str(chat), *wanted, "--json").json["configurations"]
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
    both = run(str(boats), "--config", "hub", "--config", "hub-alone", "--json").json["configurations"]
    assert [one["recall@10"] for one in both] == [0.6667, 0.0]


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
    assert run(str(boats), *LOCAL).out.splitlines()[-1] == f"local, pooled: {told}"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["missing.json"], "file: missing.json cannot be read"),
        (["."], "file: . is a folder, not a file"),
        (["empty.json"], "json: empty.json is empty"),
        (["boats.jsonl", "--config", "best"], "config: 'best' is unknown; choose from local, local-no-repair"),
        (["boats.jsonl", "--limit", "0"], "limit: 0 is less than 1"),
    ],
)
def test_what_cannot_be_evaluated_is_one_sentence(run: Run, argv: list[str], words: str) -> None:
    Path("empty.json").touch()
    lines(Path("boats.jsonl"), {"id": "a", "content": "x"}, {"query": "x", "relevant": ["a"]})
    ran = run(*argv)
    assert ran.code == 2
    assert words in ran.err
    assert (ran.err.count("\n"), ran.out) == (1, "")


@pytest.fixture
def gardens(tmp_path: Path) -> Path:
    """One question that shares enough words with what answers it, one that does only for who has the topic in focus."""
    return lines(
        tmp_path / "gardens.jsonl",
        {"id": "a", "content": "The roses are pruned in early spring.", "tags": ["garden"]},
        {
            "id": "b",
            "content": "Water for the seedlings comes from the barrel behind the shed, never from the cold tap.",
            "metadata": {"topic": "garden"},
        },
        {"id": "c", "content": "The garage door is oiled by the neighbour.", "tags": ["house"]},
        {"query": "when are roses pruned", "relevant": ["a"], "category": "near"},
        {"query": "Is the barrel of any help with young lettuce plants today", "relevant": ["b"], "category": "far"},
    )


def test_a_focus_on_the_right_topic_puts_more_evidence_in(run: Run, gardens: Path) -> None:
    [entry] = run(str(gardens), "--inject", "--json").json["configurations"]
    assert {name: entry[name] for name in ("name", "questions", "inside", "evidence", "budget_tokens", "memories")} == {
        "name": "local",
        "questions": 2,
        "inside": 0.5,
        "evidence": 0.5,
        "budget_tokens": 1000,
        "memories": 3,
    }
    assert entry["inside_by_category"] == {"far": 0.0, "near": 1.0}
    assert entry["in_focus"]["inside"] == 1.0
    assert entry["in_focus"]["tokens"] > entry["tokens"]


def test_words_are_compared_with_vectors(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KINGLY_LOCAL_SEARCH_S", "30")
    texts = {"release": "The deployment was rolled back", "food": "Lunch was a cheese sandwich", "pet": "A cat sleeps"}
    said = [{"id": key, "content": text} for key, text in texts.items()]
    path = lines(tmp_path / "asked.jsonl", *said, {"query": "undo the releases", "relevant": ["release"]})
    ways = ("local", "semantic", "vectors-alone")
    ran = run(str(path), *(part for way in ways for part in ("--config", way)), "--json")
    assert [(one["name"], one["recall@10"]) for one in ran.json["configurations"]] == [
        ("local", 0.0),
        ("semantic", 1.0),
        ("vectors-alone", 1.0),
    ]


def test_one_table_has_every_figure_with_its_interval(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    families = ("locomo", "prompts")
    assert everything.main([str(chat), "--embedder", "none", *(f"--only={one}" for one in families)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split("  ")[0] == "SHARE (95 % INTERVAL)"
    found = {line.split("  ")[0]: line.split()[-1] for line in table[1:]}
    assert "LoCoMo, one at a time: recall@10" in found
    assert "prompts: evidence inside 1,000 tokens" in found
    assert everything.shown((0.5, 100)) == "0.500 (0.404–0.596)"
    assert everything.shown((1.0, 6)) == "1.000 (0.610–1.000)"
