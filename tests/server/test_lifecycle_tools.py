"""The tools of the lifecycle as a client meets them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.settings import Pace
from kingly_memory.testing import ManualClock
from tests.mcp_sessions import session

LASTING = Settings(durability="process", pace=Pace(closing_s=0.0))
TEXT = "The deploy took 40 minutes. It rained all day. We must run the migrations first. Everything ended well."


async def faded(home: Path, *names: str, agent: str | None = None, project: str = "app") -> None:
    """Memories that nobody has used for years."""
    clock = ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    async with MemoryRouter.open(home, False, project=project, agent=agent, settings=LASTING, clock=clock) as memory:
        for name in names:
            await memory.store(f"a note named {name}", key=name)


@pytest.mark.requirement("ALM-076")
async def test_reinforcing_says_how_strong_a_memory_is_now(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        stored = await client.ok("memory_intelligent_store", key="deploy", content="two reviews")
        held = await client.ok("alma_reinforce", memory_id=stored["local_id"])
        again = await client.ok("alma_reinforce", memory_id="deploy")
    assert (held["memory_id"], held["new_strength"], held["access_count"]) == (stored["local_id"], 0.825, 0)
    assert (again["new_strength"], again["state"], again["reinforcements"]) == (0.9, "strong", 2)


@pytest.mark.requirement("ALM-077", "ALM-078")
async def test_weak_memories_are_those_of_this_project_and_agent(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await faded(home, "mine", "other")
    await faded(home, "theirs", agent="ada")
    await faded(home, "foreign", project="elsewhere")
    async with session(home, settings=LASTING) as client:
        everyone = await client.ok("alma_get_weak_memories")
        ada = await client.ok("alma_get_weak_memories", agent="ada", include_recoverable=False)
        [hit] = (await client.ok("memory_hybrid_search", query="theirs"))["results"]
        assert "is not the project of this server" in await client.error("alma_get_weak_memories", project_id="x")
    assert (everyone["counts"], everyone["recoverable"]) == ({"forgettable": 3, "recoverable": 0, "protected": 0}, [])
    assert (ada["forgettable"], ada["recoverable"]) == ([hit["id"]], None)


@pytest.mark.requirement("ALM-077")
async def test_recoverable_memories_come_with_their_strength(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = Settings(
        durability="process", pace=Pace(closing_s=0.0), default_half_life_days=1.0, forget_threshold=0.0
    )
    async with session(home, settings=settings) as client:
        await client.ok("memory_intelligent_store", key="k", content="x", significance=0.0)
        assert (await client.ok("alma_get_weak_memories"))["recoverable"] == []
    await faded(home, "old")
    async with session(home, settings=settings) as client:
        [weak] = (await client.ok("alma_get_weak_memories"))["recoverable"]
    assert 0 <= weak["strength"] < 0.3


@pytest.mark.requirement("ALM-074", "ALM-075")
async def test_a_long_text_is_learned_by_its_summary(tmp_path: Path) -> None:
    async with session(tmp_path / "home", agent="ada") as client:
        lesson = await client.ok(
            "alma_compress_and_learn", content=TEXT, memory_type="heuristic", project_id="app", agent="ada"
        )
        kept = (await client.ok("memory_get", key_or_id=lesson["memory_id"]))["memory"]
        whole = await client.ok("memory_restore", key_or_id=lesson["original_id"])
        assert (await client.ok("memory_get", key_or_id=whole["id"]))["memory"]["content"] == TEXT
    assert (kept["content"], kept["memory_type"], kept["agent"]) == (lesson["summary"], "procedural", "ada")
    for name in ("compression_ratio", "key_facts"):
        assert kept["metadata"][name] == lesson[name]
    assert kept["metadata"]["original_length"] == len(TEXT)
    assert lesson["compression_ratio"] == round(len(kept["content"]) / len(TEXT), 4) < 1


async def test_a_sweep_shows_first_what_it_would_do(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await faded(home, "one", "two")
    async with session(home, settings=LASTING) as client:
        seen = await client.ok("memory_sweep", policies=["strength"])
        assert (seen["dry_run"], seen["archived"], seen["undo"]) == (True, 1, None)
        assert (await client.ok("memory_status"))["memories"]["total"] == 2
        done = await client.ok("memory_sweep", policies="strength", dry_run=False)
        [action] = done["actions"]
        assert (done["dry_run"], done["archived"], done["undo"]) == (False, 1, "kingly-memory sweep --undo")
        assert (action["does"], action["policy"]) == ("archive", "strength")
        restored = await client.ok("memory_restore", key_or_id=action["memory_id"])
        assert restored["key"] in ("one", "two")
        assert (await client.ok("get_memory_stats"))["archived"] == 0


@pytest.mark.requirement("ARG-056", "ARG-058")
async def test_stats_are_there_before_anything_was_stored(tmp_path: Path) -> None:
    async with session(tmp_path / "home") as client:
        stats = await client.ok("get_memory_stats")
    assert stats == {
        "success": True,
        "tier_counts": {"fast": 0, "medium": 0, "slow": 0, "glacial": 0},
        "promotions_last_hour": 0,
        "demotions_last_hour": 0,
        "hit_rate": 0.0,
        "searches": 0,
        "avg_surprise_score": 0.0,
        "strength": {"strong": 0, "normal": 0, "weak": 0, "forgettable": 0},
        "archived": 0,
    }


@pytest.mark.requirement("ALM-079")
async def test_what_a_tool_cannot_take_is_one_sentence(tmp_path: Path) -> None:
    refused: list[tuple[str, dict[str, object], str]] = [
        ("alma_reinforce", {"memory_id": "nobody"}, "memory_id: nothing is stored under 'nobody'"),
        ("alma_reinforce", {"memory_id": ""}, "memory_id: "),
        ("alma_compress_and_learn", {"content": ""}, "content: "),
        ("alma_compress_and_learn", {"content": TEXT, "memory_type": "gossip"}, "memory_type: 'gossip' cannot be"),
        ("alma_compress_and_learn", {"content": TEXT, "project_id": "x"}, "project_id: 'x' is not the project"),
        ("alma_compress_and_learn", {"content": TEXT, "agent": "eve"}, "agent: this server speaks for no agent"),
        ("memory_sweep", {"policies": ["dust"]}, "policies: 'dust' is unknown; choose one of lifetimes, "),
        ("memory_restore", {"key_or_id": "nobody"}, "key_or_id: nothing is stored under 'nobody'"),
        ("get_memory_stats", {"x": 1}, "x: unknown argument; get_memory_stats takes no arguments"),
    ]
    async with session(tmp_path / "home") as client:
        for tool, arguments, sentence in refused:
            said = await client.error(tool, **arguments)
            assert (said.startswith(sentence), "\n" in said) == (True, False), said


async def test_a_required_model_that_is_missing_is_said(tmp_path: Path) -> None:
    settings = Settings(durability="process", pace=Pace(closing_s=0.0), llm_required=True)
    async with session(tmp_path / "home", settings=settings) as client:
        said = await client.error("alma_compress_and_learn", content=TEXT)
        assert "llm_required asks for one" in said
        assert (await client.ok("memory_status"))["memories"]["total"] == 0


@pytest.mark.requirement("SMT-035", "SMT-043", "SMT-044", "SMT-046")
async def test_threads_are_compacted_on_demand(tmp_path: Path) -> None:
    home = tmp_path / "home"
    clock = ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    async with MemoryRouter.open(home, False, project="app", settings=LASTING, clock=clock) as memory:
        await memory.store("a talk of long ago", context_id="thread_old")
    async with session(home, settings=LASTING) as client:
        for name in ("thread_a", "thread_b"):
            await client.ok("memory_intelligent_store", content="deploys wait for reviews", key=name, context_id=name)
        dry = await client.ok("ai_compact", strategy="aggressive", dry_run=True)
        real = await client.ok("ai_compact", strategy="aggressive")
        said = await client.error("ai_compact", strategy="brutal")
    assert dry == {
        "strategy": "aggressive",
        "dry_run": True,
        "actions": [
            {"action": "merge", "threads": ["thread_a", "thread_b"], "similarity": 1.0},
            {"action": "archive", "thread": "thread_old", "reason": "age"},
        ],
        "before": {"active_threads": 3, "total_weight": 3.0},
        "after": {"active_threads": 1, "total_weight": 0.8},
    }
    assert real == {**dry, "dry_run": False}
    assert "'brutal' is unknown; choose one of gentle, normal, aggressive" in said
