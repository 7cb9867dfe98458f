"""What is stored stays until its owner says otherwise: lifetimes of kinds, ends that are named, and what says so."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import InvalidInput, MemoryRouter, Settings
from kingly_memory.adapters.files import jsonl
from kingly_memory.adapters.files.reading import Entry
from kingly_memory.errors import InvalidSetting
from kingly_memory.models import MOST_LIFETIME_S, MemoryStatus
from kingly_memory.settings import Lifetimes, Pace
from kingly_memory.testing import ManualClock
from kingly_memory.validation import USUAL, Imported
from tests.cli_runner import Run
from tests.router_bench import PromptStore, router_over

pytestmark = pytest.mark.requirement("N1")

MINUTE_S, HOUR_S, DAY_S = 60.0, 3_600.0, 86_400.0
PLAIN = ("episodic", "semantic", "procedural")
KINDS = {"working": MINUTE_S * 30, "task_cache": MINUTE_S * 30} | {
    "conversation_context": 7 * DAY_S,
    "pattern_learning": 30 * DAY_S,
    "skill_development": 90 * DAY_S,
}


@pytest.fixture
async def memory(store: PromptStore, clock: ManualClock) -> AsyncIterator[MemoryRouter]:
    async with router_over(store, None, clock) as router:
        yield router


async def ends_in_s(memory: MemoryRouter, clock: ManualClock, key: str) -> float | None:
    """When it ends, which `get`, `explain` and `list` agree about."""
    await memory._engine.flush()
    got, told = await memory.get(key), await memory.explain(key)
    assert got is not None
    assert told is not None
    [listed] = [one for one in await memory.list() if one.id == got.id]
    assert told["ends_at"] == (got.ends_at and got.ends_at.isoformat())
    assert listed.ends_at == got.ends_at
    return None if got.ends_at is None else (got.ends_at - clock.now()).total_seconds()


# --- types and kinds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLAIN)
async def test_a_plain_memory_has_no_end(memory: MemoryRouter, clock: ManualClock, kind: Any) -> None:
    receipt = await memory.store("The port is 6432", key="port", type=kind)
    assert (receipt.ends_at, receipt.to_json()["ends_at"]) == (None, None)
    clock.jump(10_000 * DAY_S)
    assert (await memory.sweep()).archived == 0
    assert await ends_in_s(memory, clock, "port") is None
    assert [hit.archived for hit in await memory.search("port")] == [False]


@pytest.mark.parametrize(("kind", "length_s"), KINDS.items())
async def test_a_kind_ends_so_long_after_its_last_use(
    memory: MemoryRouter, clock: ManualClock, kind: Any, length_s: float
) -> None:
    receipt = await memory.store("The port is 6432", key="port", type=kind)
    assert receipt.ends_at == clock.now() + timedelta(seconds=length_s)
    for _ in range(3):
        clock.jump(length_s - 1)
        assert await memory.get("port") is not None
    clock.jump(length_s)
    assert await memory.get("port") is None


async def test_what_matters_most_outlasts_its_kind_and_not_an_end_that_was_named(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    kept = await memory.store("one", key="one", type="pattern_learning", significance=0.8)
    ends = await memory.store("two", key="two", type="pattern_learning", significance=0.8, ttl=DAY_S)
    assert (kept.ends_at, ends.ends_at) == (None, clock.now() + timedelta(days=1))
    told = await memory.store("one", key="one", significance=0.5)
    assert told.ends_at == clock.now() + timedelta(days=30), "it is of its kind again"


async def test_what_falls_out_of_a_working_context_lasts(store: PromptStore, clock: ManualClock) -> None:
    settings = Settings(durability="process", pace=Pace(usage_flush_s=1e9), context_items=1, whisper_tokens=0)
    async with router_over(store, None, clock, settings=settings) as memory:
        for key, ttl in (("plain", USUAL), ("brief", DAY_S), ("now", USUAL)):
            await memory.store(key, key=key, type="working", context_id="task", ttl=ttl)
        assert [await ends_in_s(memory, clock, key) for key in ("plain", "brief", "now")] == [None, DAY_S, 1_800]


# --- an end that is named ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [
        (90, 90.0),
        (0.5, 0.5),
        (timedelta(hours=12), 12 * HOUR_S),
        ("90s", 90.0),
        ("90", 90.0),
        ("30m", 30 * MINUTE_S),
        ("1.5h", 1.5 * HOUR_S),
        ("7d", 7 * DAY_S),
        ("2 w", 14 * DAY_S),
        (None, None),
        ("never", None),
        ("Never", None),
        (math.inf, None),
    ],
)
@pytest.mark.parametrize("kind", ["semantic", "working"])
async def test_a_ttl_says_when_a_memory_ends_whatever_its_type(
    memory: MemoryRouter, clock: ManualClock, kind: Any, ttl: Any, seconds: float | None
) -> None:
    await memory.store("x", key="x", type=kind, ttl=ttl)
    assert await ends_in_s(memory, clock, "x") == seconds


@pytest.mark.parametrize(
    ("ttl", "said"),
    [
        ("soon", "'soon' is no length of time; write 90s, 30m, 12h, 7d, 2w, seconds, or never"),
        ("", "'' is no length of time"),
        ("7 years", "'7 years' is no length of time"),
        (True, "bool is no length of time"),
        ([1], "list is no length of time"),
        (0, "0 is not more than 0 and at most 100 years; write never for no end"),
        (-1, "-1 is not more than 0 and at most 100 years"),
        (math.nan, "nan is not more than 0 and at most 100 years"),
        ("5300w", "5300w is not more than 0 and at most 100 years"),
        (timedelta(days=-1), "-1 day, 0:00:00 is not more than 0 and at most 100 years"),
    ],
)
async def test_a_ttl_that_makes_no_sense_is_refused_in_one_sentence(memory: MemoryRouter, ttl: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        await memory.store("x", key="x", ttl=ttl)
    assert str(error.value).startswith(f"ttl: {said}")
    assert await memory.get("x") is None


async def test_the_shortest_ttl_is_an_end_too(memory: MemoryRouter, clock: ManualClock) -> None:
    assert (await memory.store("x", key="x", ttl=1e-9)).ends_at is not None
    clock.jump(1)
    assert await memory.get("x") is None


async def test_a_named_end_does_not_move_with_use(memory: MemoryRouter, clock: ManualClock) -> None:
    await memory.store("x", key="x", type="pattern_learning", ttl=DAY_S)
    clock.jump(DAY_S - 1)
    assert len(await memory.search("x")) == 1
    await memory.reinforce("x")
    assert await ends_in_s(memory, clock, "x") == 1
    clock.jump(1)
    assert await memory.get("x") is None


async def test_storing_a_key_again_keeps_its_end_unless_it_names_another(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    await memory.store("one", key="x")
    await memory.store("two", key="x", ttl="7d")
    clock.jump(DAY_S)
    await memory.store("three", key="x")
    assert await ends_in_s(memory, clock, "x") == 6 * DAY_S
    await memory.store("four", key="x", type="semantic")
    assert await ends_in_s(memory, clock, "x") == 6 * DAY_S
    await memory.store("five", key="x", ttl="1d")
    assert await ends_in_s(memory, clock, "x") == DAY_S
    await memory.store("six", key="x", ttl=None)
    clock.jump(DAY_S * 400)
    assert (await memory.store("seven", key="x")).ends_at is None


async def test_storing_a_key_again_keeps_its_kind_unless_it_names_another(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    await memory.store("one", key="x", type="pattern_learning")
    clock.jump(DAY_S)
    await memory.store("two", key="x")
    assert await ends_in_s(memory, clock, "x") == 30 * DAY_S
    await memory.store("three", key="x", type="conversation_context")
    assert await ends_in_s(memory, clock, "x") == 7 * DAY_S
    await memory.store("four", key="x", type="episodic")
    assert await ends_in_s(memory, clock, "x") is None


@pytest.mark.parametrize("ending", [{"ttl": DAY_S}, {"type": "pattern_learning"}], ids=["named", "of a kind"])
async def test_what_has_ended_is_restored_before_it_is_reinforced_or_used(
    memory: MemoryRouter, clock: ManualClock, ending: dict[str, Any]
) -> None:
    await memory.store("one", key="x", **ending)
    clock.jump(31 * DAY_S)
    tiers = memory.continuum
    for use in (memory.reinforce("x"), tiers.update_outcome(["x"], success=False), tiers.update_surprise_score("x")):
        with pytest.raises(InvalidInput, match="'x' has ended; restore it first"):
            await use
    assert await memory.get("x") is None


async def test_a_key_whose_memory_has_ended_begins_anew(memory: MemoryRouter, clock: ManualClock) -> None:
    for is_swept in (False, True):
        await memory.store("one", key="x", ttl=DAY_S)
        clock.jump(2 * DAY_S)
        if is_swept:
            assert (await memory.sweep()).archived == 1
        await memory.store("two", key="x")
        assert await ends_in_s(memory, clock, "x") is None


# --- what has ended ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "ttl"), [("semantic", 7 * DAY_S), ("conversation_context", USUAL)])
@pytest.mark.parametrize("is_swept", [False, True], ids=["not swept", "swept"])
async def test_what_has_ended_answers_only_when_nothing_alive_does_and_says_so(
    memory: MemoryRouter, clock: ManualClock, kind: Any, ttl: float, is_swept: bool
) -> None:
    await memory.store("The port was 6432", key="old", type=kind, ttl=ttl)
    await memory.store("The port of scratch", key="scratch", type="working")
    await memory.store("The port that was put away", key="away")
    await memory.archive("away")
    clock.jump(7 * DAY_S)
    if is_swept:
        report = await memory.sweep()
        assert (report.archived, report.erased) == (1, 1)
    for shown in (await memory.search("port"), await memory.search("port", mode="broad")):
        assert [(hit.memory.key, hit.archived) for hit in shown] == [("old", True)]
    short = (await memory.search("port", detail="passages")).to_json()["hits"]
    assert [hit["archived"] for hit in short] == [True]
    assert await memory.get("old") is None, "to be found is no way back"
    assert len(await memory.search("port", include_archived=True)) == 2
    assert await memory.get("old") is None
    await memory.store("The port is 5432", key="new")
    assert [(hit.memory.key, hit.archived) for hit in await memory.search("port")] == [("new", False)]
    both = await memory.search("port", include_archived=True)
    assert {hit.memory.key: hit.archived for hit in both} == {"new": False, "old": True, "away": True}


async def test_status_counts_what_is_alive_and_what_has_ended_and_names_the_next_end(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    ttls: list[float | str] = [USUAL, DAY_S, 3 * DAY_S]
    for number, ttl in enumerate(ttls):
        await memory.store(f"note {number}", ttl=ttl)
    await memory.store("what was said", type="conversation_context")
    clock.jump(2 * DAY_S)
    told = (await memory.status())["memories"]
    assert (told["total"], told["ended"], told["archived"]) == (3, 1, 0)
    assert told["next_end"] == (clock.now() + timedelta(days=1)).isoformat()
    assert sum(told["by_type"].values()) == 3
    await memory.sweep()
    told = (await memory.status())["memories"]
    assert (told["total"], told["ended"], told["archived"]) == (3, 0, 1)


async def test_restoring_what_has_ended_begins_the_kinds_lifetime_anew_and_drops_a_named_end(
    memory: MemoryRouter, clock: ManualClock
) -> None:
    await memory.store("one", key="kind", type="conversation_context")
    await memory.store("two", key="named", ttl=DAY_S)
    clock.jump(8 * DAY_S)
    assert (await memory.sweep()).archived == 2
    for key in ("kind", "named"):
        await memory.restore(key)
    assert await ends_in_s(memory, clock, "kind") == 7 * DAY_S
    assert await ends_in_s(memory, clock, "named") is None


# --- files, remotes, settings -----------------------------------------------------------------------------------------


async def test_an_export_keeps_ends(memory: MemoryRouter, clock: ManualClock, tmp_path: Path) -> None:
    await memory.store("plain", key="plain")
    await memory.store("kind", key="kind", type="conversation_context")
    await memory.store("named", key="named", ttl=30 * DAY_S)
    await memory.store("over", key="over", ttl=DAY_S)
    clock.jump(2 * DAY_S)
    await memory.sweep()
    file = tmp_path / "all.jsonl"
    file.write_text("\n".join(jsonl.line(*one) for one in memory.export()))
    assert json.loads(file.read_text().splitlines()[0])["ends_at"] is None
    clock.jump(DAY_S)
    async with router_over(PromptStore(tmp_path / "other"), None, clock) as other:
        read = [one for one in jsonl.read(file) if isinstance(one, Imported)]
        await other.remember(read)
        here, there = ([(one.key, one.ends_at, one.lifetime_s) for one, _ in each.export()] for each in (memory, other))
        assert here == there, "that of a kind goes on where it was"
        assert await ends_in_s(other, clock, "named") == 27 * DAY_S
        assert [entry.memory.key for entry in (await other.archived()).entries] == ["over"]
        assert (await other.remember(read)).unchanged == 4
        assert {status for _, status in other.export()} == {MemoryStatus.LIVE, MemoryStatus.ARCHIVED}


def read(tmp_path: Path, *told: dict[str, Any]) -> list[Entry]:
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join(map(json.dumps, told)))
    return list(jsonl.read(file))


async def imported(memory: MemoryRouter, tmp_path: Path, **told: Any) -> Any:
    [item] = read(tmp_path, {"content": "The port is 6432", "key": "port", **told})
    assert isinstance(item, Imported)
    return await memory.remember([item])


@pytest.mark.parametrize("lifetime", [{}, {"lifetime_s": 7 * DAY_S}], ids=["named", "of a kind"])
async def test_what_had_ended_before_its_import_has_ended_here_too(
    memory: MemoryRouter, clock: ManualClock, tmp_path: Path, lifetime: dict[str, float]
) -> None:
    told = {"ends_at": (clock.now() - timedelta(days=1)).isoformat(), **lifetime}
    assert (await imported(memory, tmp_path, **told)).stored == 1
    assert await memory.get("port") is None
    [(ended, status)] = memory.export()
    assert (ended.ends_at and ended.ends_at.isoformat(), status) == (told["ends_at"], MemoryStatus.LIVE)
    await memory.restore("port")
    assert await ends_in_s(memory, clock, "port") == lifetime.get("lifetime_s")
    assert (await imported(memory, tmp_path, **told)).unchanged == 1, "what was brought back stays"
    assert await memory.get("port") is not None


@pytest.mark.parametrize("word", ["never", "none", "inf", "Never", "INF"])
def test_a_lifetime_without_an_end_has_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str) -> None:
    monkeypatch.setenv("KINGLY_LIFETIMES", f"pattern_learning={word}")
    monkeypatch.setenv("KINGLY_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text(f"[lifetimes]\nworking = '{word}'\nsemantic = inf\n")
    told = Settings.from_environment().lifetimes
    assert (told.pattern_learning, told.working, told.semantic) == (math.inf,) * 3
    assert Settings(lifetimes=Lifetimes(semantic=word)).lifetimes.semantic == math.inf  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [-1, 0, 1e12])
def test_a_lifetime_is_above_0_and_at_most_a_hundred_years(length: float) -> None:
    problem = f"lifetimes.semantic: {length!r} is not a number above 0 and at most 3,155,760,000, or never"
    with pytest.raises(InvalidSetting, match=re.escape(problem)):
        Settings(lifetimes=Lifetimes(semantic=length))
    assert Settings(lifetimes=Lifetimes(semantic=MOST_LIFETIME_S)).lifetimes.semantic == MOST_LIFETIME_S


async def test_a_type_may_be_given_a_lifetime_and_a_kind_none(store: PromptStore, clock: ManualClock) -> None:
    settings = Settings(durability="process", lifetimes=Lifetimes(semantic=DAY_S, pattern_learning=math.inf))
    async with router_over(store, None, clock, settings=settings) as memory:
        assert (await memory.store("one")).ends_at == clock.now() + timedelta(days=1)
        assert (await memory.store("two", type="pattern_learning")).ends_at is None
        assert (await memory.store("three", ttl=None)).ends_at is None


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_command_line_names_an_end_and_tells_of_it(run: Run) -> None:
    assert "\n  ends 20" in run("store", "The freeze is on", "--key", "freeze", "--ttl", "7d").out
    assert "ends " not in run("store", "The port is 6432", "--key", "port").out
    listed = {one["key"]: one["ends_at"] for one in run("list", "--json").json["memories"]}
    assert (listed["port"], listed["freeze"][:2]) == (None, "20")
    assert run("get", "freeze", "--json").json["ends_at"] == listed["freeze"]
    shown = listed["freeze"][:16].replace("T", " ") + " UTC"
    assert f"\nends          {shown}" in run("get", "freeze").out
    assert f"ends      {shown}" in run("get", "freeze", "--explain").out
    assert f"next end    {shown}" in run("status").out
    assert run("store", "It is over", "--key", "freeze", "--ttl", "never", "--json").json["ends_at"] is None
    run("archive", "add", "port")
    assert "'port' has ended or is in the archive; `get --explain` shows it, `restore`" in run("get", "port").err
    wrong = run("store", "x", "--ttl", "soon")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("verb", [("get", "note"), ("search", "harbour")])
def test_a_command_that_reads_is_a_use(run: Run, verb: tuple[str, ...]) -> None:
    run("store", "The harbour opens at seven", "--key", "note", "--type", "task_cache")
    run("store", "A lasting note", "--key", "lasting")
    before = run("get", "note", "--explain", "--json").json["explained"]
    run(*verb)
    after = run("get", "note", "--explain", "--json").json["explained"]
    assert (before["uses"]["accesses"], after["uses"]["accesses"]) == (0, 1)
    assert after["ends_at"] > before["ends_at"]
    run("get", "lasting")
    assert run("get", "lasting", "--explain", "--json").json["explained"]["uses"]["accesses"] == 0
