"""Suggestions: what is proposed for threads, with the command that does it, and that nothing is changed by asking."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kingly_memory import MemoryRouter, Settings, validation
from kingly_memory.attention.suggestions import Digest, Pair, Suggestions, command, suggestions
from kingly_memory.cognition.owners import owner
from kingly_memory.lifecycle.lifetimes import usual_lifetimes
from kingly_memory.router import write
from kingly_memory.router.threads import reading, suggesting
from kingly_memory.router.threads.suggesting import Suggesting
from kingly_memory.router.write import WriteContext
from kingly_memory.testing import ManualClock
from tests.cli_runner import Run, runner
from tests.router_bench import PromptStore
from tests.threads.samples import TOPICS, talk

NOW_S = 1_000 * 86_400.0


def suggest(*threads: Digest, pairs: tuple[Pair, ...] = (), related: tuple[str, ...] = ()) -> Suggestions:
    return suggestions(threads, pairs, related, NOW_S, most_active=30)


def fresh(count: int) -> tuple[Digest, ...]:
    return tuple(Digest(f"t{number}") for number in range(count))


# --- merging ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-021")
def test_threads_that_are_alike_may_be_merged_into_the_older_one() -> None:
    young = Digest("young", topics=("login", "token"), first_s=2.0)
    old = Digest("old", topics=("token", "login"), first_s=1.0)
    pair = Pair(0.9166, ("young", "old"), ("login", "token"))
    assert suggest(young, old, pairs=(pair,)).merge_candidates == (
        {
            "thread_a": "old",
            "thread_b": "young",
            "similarity": 0.92,
            "reason": "Both about login and token",
            "command": "ai_merge('old', 'young')",
        },
    )


@pytest.mark.requirement("SMT-021")
@pytest.mark.parametrize(("similarity", "count"), [(0.85, 0), (0.8501, 1), (1.0, 1)])
def test_only_what_is_above_the_threshold_is_alike(similarity: float, count: int) -> None:
    assert len(suggest(*fresh(2), pairs=(Pair(similarity, ("t0", "t1")),)).merge_candidates) == count


def test_a_pinned_thread_only_takes_others_in() -> None:
    pinned, older, other = (
        Digest("pin", pinned=True, first_s=9.0),
        Digest("older", first_s=1.0),
        Digest("other", pinned=True),
    )
    pairs = (Pair(0.9, ("older", "pin")), Pair(0.99, ("other", "pin")))
    [candidate] = suggest(pinned, older, other, pairs=pairs).merge_candidates
    assert (candidate["thread_a"], candidate["thread_b"]) == ("pin", "older")


def test_the_most_alike_come_first_and_the_rest_is_counted() -> None:
    threads = fresh(28)
    pairs = tuple(Pair(0.86 + number / 100, (f"t{number}", f"t{number + 14}")) for number in range(1, 14))
    found = suggest(*threads, pairs=pairs)
    assert [one["similarity"] for one in found.merge_candidates] == [round(0.99 - n / 100, 2) for n in range(10)]
    assert found.more == {"merge_candidates": 3, "split_candidates": 0}


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20), st.sets(st.integers(0, 7)))
def test_what_is_suggested_can_be_done_in_any_order(pairs: list[tuple[int, int]], pinned: set[int]) -> None:
    threads = [Digest(f"t{at}", pinned=at in pinned, first_s=at) for at in range(8)]
    said = {(min(pair), max(pair)) for pair in pairs}
    found = suggest(*threads, pairs=tuple(Pair(0.9, (f"t{a}", f"t{b}")) for a, b in said if a != b)).merge_candidates
    kept, gone = ([one[name] for one in found] for name in ("thread_a", "thread_b"))
    assert not {*kept} & {*gone}
    assert len(gone) == len({*gone})
    assert not {*gone} & {f"t{at}" for at in pinned}


# --- splitting --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-022", "SMT-023")
def test_a_thread_that_drifted_may_be_split() -> None:
    drifted = Digest("zzz", drift=("API design", "tests", "API design", "database schema"))
    assert suggest(drifted).split_candidates == (
        {
            "thread_id": "zzz",
            "reason": "Thread drifted from 'API design' to 'database schema'",
            "topics_to_split": ["tests", "database schema"],
            "command": "ai_split('zzz')",
        },
    )


@pytest.mark.requirement("SMT-022")
@pytest.mark.parametrize(
    ("drift", "is_adrift"),
    [("abc", False), ("abab", False), ("abca", True), ("abcdaaaaa", False), ("abcdabacc", True), ("", False)],
)
def test_more_than_three_topics_of_which_three_of_the_last_five_differ_are_drift(drift: str, is_adrift: bool) -> None:
    assert bool(suggest(Digest("t", drift=tuple(drift))).split_candidates) is is_adrift


# --- recalling --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-024", "SMT-025")
def test_related_threads_that_were_never_recalled_are_hinted_at() -> None:
    threads = (
        Digest("a", topics=("Solana", "wallet"), last_s=NOW_S - 3 * 86_400),
        Digest("b", topics=("rust", "solana"), last_s=NOW_S - 5 * 86_400),
        Digest("c", title='It\'s about "time"', last_s=NOW_S - 70),
        Digest("d", topics=("known",), recalled=True),
        Digest("e", topics=("fourth",), last_s=NOW_S),
        Digest("f", topics=("fifth",), last_s=NOW_S),
    )
    hints = suggest(*threads, related=("gone", "d", "a", "c", "e", "f")).recall_hints
    assert hints == (
        {"topic": "Solana", "last_mentioned": "3 d ago", "thread_count": 2, "command": "ai_recall('Solana')"},
        {
            "topic": 'It\'s about "time"',
            "last_mentioned": "1 min ago",
            "thread_count": 1,
            "command": r"""ai_recall('It\'s about "time"')""",
        },
        {"topic": "fourth", "last_mentioned": "just now", "thread_count": 1, "command": "ai_recall('fourth')"},
    )


@given(st.lists(st.text(), min_size=1, max_size=2))
def test_a_command_can_be_read_back_whatever_the_names(names: list[str]) -> None:
    written = command("ai_merge", *names)
    assert "\n" not in written
    read = eval(written, {"ai_merge": lambda *given: list(given)})  # noqa: S307  # our own literal
    assert read == names
    assert re.fullmatch(r"ai_merge\('.*'\)", written)


# --- health -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-026")
@pytest.mark.parametrize(("count", "pressure", "utilisation"), [(0, 0.0, 0.0), (3, 0.3, 0.1), (12, 1.0, 0.4)])
def test_pressure_is_the_seeds_and_utilisation_stands_beside_it(
    count: int, pressure: float, utilisation: float
) -> None:
    health = suggest(*fresh(count)).health
    assert (health["active_threads"], health["context_pressure"], health["utilisation"]) == (
        count,
        pressure,
        utilisation,
    )


@pytest.mark.requirement("SMT-026")
def test_advice_rests_on_pressure_and_utilisation_together() -> None:
    """Ten fresh threads are under full pressure already, and far from too many."""
    pair = (Pair(0.9, ("t0", "t1")),)
    drifted = Digest("d", drift=tuple("abcd"))
    light = tuple(Digest(f"t{number}", weight=0.2) for number in range(25))
    advice = [
        suggest(*fresh(12)),
        suggest(*fresh(12), pairs=pair),
        suggest(*fresh(12), drifted),
        suggest(*fresh(25), pairs=pair),
        suggest(*light, pairs=pair),
        suggest(*fresh(31)),
        suggest(*fresh(31), pairs=pair),
    ]
    assert [one.health["recommendation"] for one in advice] == [
        "Healthy state, no action needed",
        "Healthy state; similar threads may be merged",
        "Consider splitting threads that have drifted",
        "Consider merging similar threads to reduce pressure",
        "Healthy state; similar threads may be merged",
        "More than 30 threads are active; ai_compact() archives the idle and the lightest",
        "More than 30 threads are active; merge similar ones; ai_compact() does, and archives the idle",
    ]


# --- through the router -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("SMT-020")
async def test_threads_that_are_alike_or_drifted_or_answer_are_suggested(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    await talk(memory, "one", *TOPICS["deploys"])
    await talk(memory, "two", *TOPICS["deploys"][1:])
    for name in ("garden", "printer", "orders", "travel"):
        await talk(memory, "mixed", *TOPICS[name])
    clock.jump(3 * 86_400)
    told = (await memory.threads.suggestions("tomatoes in the greenhouse")).to_json()
    [merge], [split], hints = told["merge_candidates"], told["split_candidates"], told["recall_hints"]
    assert merge["command"] == "ai_merge('one', 'two')"
    assert merge["similarity"] > 0.85
    assert "deploy" in merge["reason"]
    assert split["command"] == "ai_split('mixed')"
    assert len(split["topics_to_split"]) == 3
    assert [hint["last_mentioned"] for hint in hints] == ["3 d ago"]
    assert told["health"]["active_threads"] == 3


@pytest.mark.requirement("SMT-020")
async def test_every_command_works_and_then_is_suggested_no_more(memory: MemoryRouter) -> None:
    await talk(memory, "it's one", *TOPICS["deploys"])
    await talk(memory, "two", *TOPICS["deploys"][1:])
    for name in ("garden", "printer", "orders", "travel"):
        await talk(memory, "mixed", *TOPICS[name])
    verbs = {f"ai_{verb}": getattr(memory.threads, verb) for verb in ("merge", "split", "recall")}
    told = await memory.threads.suggestions("deploys wait for reviews")
    assert told.recall_hints
    for one in (*told.recall_hints, *told.merge_candidates, *told.split_candidates):
        await eval(one["command"], verbs)  # noqa: S307  # our own call
    after = await memory.threads.suggestions("deploys wait for reviews", within=math.inf)
    assert (after.merge_candidates, after.split_candidates, after.recall_hints) == ((), (), ())


@pytest.mark.requirement("SMT-027")
async def test_suggestions_change_nothing(memory: MemoryRouter, tmp_path: Path) -> None:
    await talk(memory, "one", *TOPICS["deploys"])
    await talk(memory, "two", *TOPICS["deploys"])
    before, used = rows(tmp_path / "home"), dict(memory._engine.usage._new.memories)
    told = await memory.threads.suggestions("deploys")
    assert told.merge_candidates
    assert told.recall_hints
    assert rows(tmp_path / "home") == before
    assert memory._engine.usage._new.memories == used


def rows(home: Path) -> list[tuple[object, ...]]:
    """Everything that lies in the store."""
    with closing(sqlite3.connect(home / "store" / "cache.db")) as connection:
        return connection.execute("SELECT * FROM Cache ORDER BY rowid").fetchall()


async def test_only_threads_that_have_changed_are_read_again(
    memory: MemoryRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk(memory, "one", *TOPICS["deploys"])
    await talk(memory, "two", *TOPICS["deploys"])
    told = await memory.threads.suggestions()
    read: list[str] = []

    def noted(reader: object, project: str, contexts: Mapping[str, object], now_s: float) -> dict[str, object]:
        read.extend(contexts)
        return {}

    monkeypatch.setattr(reading, "lines", noted)
    assert await memory.threads.suggestions() == told
    await talk(memory, "three", "something new")
    await memory.threads.suggestions()
    assert read == ["three"]


async def test_a_memory_that_is_pinned_pins_its_thread(memory: MemoryRouter) -> None:
    await talk(memory, "one", *TOPICS["deploys"])
    pinned = await memory.attention.pin(" ".join(TOPICS["deploys"]))
    [candidate] = (await memory.threads.suggestions()).merge_candidates
    assert (candidate["thread_a"], candidate["thread_b"]) == (pinned.thread_id, "one")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("KINGLY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KINGLY_PROJECT", "app")
    return runner(capsys, monkeypatch)


# --- faces ------------------------------------------------------------------------------------------------------------


def test_the_command_says_what_to_do_and_how(run: Run) -> None:
    for name in ("one", "it's two"):
        for text in TOPICS["deploys"]:
            run("store", text, "--context", name)
    told = run("suggestions", "working on a deploy").out.splitlines()
    assert told[:2] == [
        "Healthy state; similar threads may be merged",
        "  2 active threads, 7% of the room; their weight, 2.00, is 20% of what is full",
    ]
    assert told[2].startswith("merge   one and it's two: 1.00 alike. Both about ")
    assert told[3].strip() == """kingly-memory threads merge one 'it'"'"'s two'"""
    assert told[4].startswith("recall  ")
    assert told[5].strip().startswith("kingly-memory threads recall ")
    assert run("suggestions", "--json").json["recall_hints"] == []
    assert run("suggestions", "").code == 2


# --- many threads that nobody has read yet ----------------------------------------------------------------------------


@pytest.fixture
def reads_four(monkeypatch: pytest.MonkeyPatch) -> int:
    """As many threads as are read by somebody who has no time."""
    monkeypatch.setattr(suggesting, "AT_ONCE", 4)
    return 4


@pytest.mark.requirement("SMT-020", "P14")
async def test_who_does_not_wait_is_told_of_the_latest_threads_and_how_many_are_left(
    memory: MemoryRouter, clock: ManualClock, reads_four: int
) -> None:
    await talk(memory, "old", *TOPICS["deploys"])
    clock.jump(60.0)
    for number in range(reads_four):
        await talk(memory, f"between {number}", f"Note number {number} about nothing in particular")
    clock.jump(60.0)
    await talk(memory, "late", *TOPICS["deploys"][1:])
    told = [await memory.threads.suggestions(within=0) for _ in range(2)]
    assert [one.unread for one in told] == [2, 0]
    assert {one.health["active_threads"] for one in told} == {reads_four + 2}
    assert told[0].merge_candidates == ()
    assert [one["command"] for one in told[-1].merge_candidates] == ["ai_merge('old', 'late')"]
    assert (await memory.threads.suggestions(within=math.inf)) == told[-1]


@pytest.mark.requirement("P14")
async def test_of_more_threads_than_are_looked_at_the_others_are_counted(
    memory: MemoryRouter, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggesting, "MOST_LOOKED_AT", 2)
    for name in ("old", "between", "late"):
        await talk(memory, name, *TOPICS["deploys"])
        clock.jump(60.0)
    told = await memory.threads.suggestions(within=math.inf)
    assert [one["command"] for one in told.merge_candidates] == ["ai_merge('between', 'late')"]
    assert (told.unread, told.health["active_threads"]) == (1, 3)


def test_a_command_says_how_many_threads_it_did_not_look_at(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggesting, "MOST_LOOKED_AT", 2)
    for number in range(3):
        run("store", f"Note number {number} about nothing in particular", "--context", f"note {number}")
    assert "  1 older thread not looked at" in run("suggestions").out.splitlines()


# --- what is remembered of threads ------------------------------------------------------------------------------------


CONTEXTS, KEYS = st.sampled_from(["alpha", "beta", "gamma"]), st.sampled_from(["k1", "k2", "k3", "k4"])
SAID = st.sampled_from([" ".join(TOPICS["deploys"]), " ".join(TOPICS["garden"]), "So be it"])


class Remembering(RuleBasedStateMachine):
    """Four memories in three contexts that go on as each other: who has looked before sees what a newcomer sees."""

    @initialize()
    def open(self) -> None:
        self._folder = TemporaryDirectory()
        self._store = PromptStore(Path(self._folder.name) / "home")
        self._clock = ManualClock()
        self._suggesting = Suggesting(self._store.reader, "app")

    def teardown(self) -> None:
        self._store.close()
        self._folder.cleanup()

    def _write_context(self) -> WriteContext:
        return WriteContext("app", None, None, usual_lifetimes(Settings().lifetimes), self._clock.now())

    @rule(key=KEYS, context=CONTEXTS, text=SAID, kind=st.sampled_from(["semantic", "working"]))
    def store(self, key: str, context: str, text: str, kind: str) -> None:
        one = validation.draft(text, key=key, context_id=context, type=kind)
        self._store.write(write.store(one, self._write_context())).result()

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self._store.write(write.forget(key, self._write_context())).result()

    @rule(key=KEYS)
    def restore(self, key: str) -> None:
        self._store.write(write.restore(key, self._write_context())).result()

    @rule(gone=CONTEXTS, kept=CONTEXTS)
    def merge(self, gone: str, kept: str) -> None:
        facet = {"context_id": gone, "into": kept} if gone != kept else None
        self._store.write(lambda transaction: transaction.set_facet("thread", owner("app", gone), facet)).result()

    @rule()
    def let_an_hour_pass(self) -> None:
        self._clock.jump(3_600.0)

    @invariant()
    def what_is_remembered_is_as_it_is_read(self) -> None:
        now_s = self._clock.now().timestamp()
        anew = Suggesting(self._store.reader, "app").suggest(None, now_s)
        assert self._suggesting.suggest(None, now_s) == anew


TestRemembering = Remembering.TestCase
TestRemembering.settings = settings(
    stateful_step_count=15,
)
