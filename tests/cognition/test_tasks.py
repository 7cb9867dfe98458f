"""Tasks through the router: recorded, assessed, routed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kingly_memory import MemoryRouter, Settings, Source, SyncMemoryRouter
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Memory
from kingly_memory.testing import FakeRemote, ManualClock
from tests.router_bench import PromptStore, router_over

FAST = Settings(durability="process")


def open_router(home: Path, *, agent: str | None = None, clock: ManualClock | None = None) -> MemoryRouter:
    return MemoryRouter.open(home, remote=False, settings=FAST, agent=agent, clock=clock)


async def outcomes(memory: MemoryRouter) -> list[Memory]:
    return list((await memory.list(limit=500, tags=["task_outcome"])).memories)


@pytest.mark.requirement("KNG-034")
async def test_leaving_a_task_records_that_it_was_completed(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_router(tmp_path, clock=clock) as memory:
        async with memory.task("deploy the api", context_id="deploy-42", approach="canary") as task:
            await task.note("the smoke tests passed")
            clock.jump(5)
        (outcome,) = await outcomes(memory)
        assert task.receipt is not None
        assert outcome.id == task.receipt.id
        assert outcome.metadata["status"] == "completed"
        assert outcome.metadata["approach"] == "canary"
        assert outcome.metadata["notes"] == ["the smoke tests passed"]
        assert outcome.scope.context_id == "deploy-42"
        assert outcome.type == "procedural"


async def test_a_cancelled_task_counts_neither_way(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        started = asyncio.Event()

        async def work() -> None:
            async with memory.task("deploy the api"):
                started.set()
                await asyncio.Event().wait()

        running = asyncio.create_task(work())
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (outcome,) = await outcomes(memory)
        assert outcome.metadata["status"] == "cancelled"
        assessment = await memory.assess_confidence("deploy the api")
        assert (assessment.confidence, assessment.memory_informed) == (0.5, False)


@pytest.mark.requirement("KNG-023")
async def test_a_task_finds_what_the_task_before_it_noted_in_the_same_context(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        async with memory.task("migrate the database", context_id="deploy-42") as first:
            await first.note("the new host is db-7")
        async with memory.task("deploy the api", context_id="deploy-42") as second:
            assert second.context is not None
            said = [item.content for item in second.context.items]
        assert "the new host is db-7" in said
        assert any(text.startswith("migrate the database") for text in said)
        assessment = await memory.assess_confidence("roll back", context_id="deploy-42")
        assert "the new host is db-7" in [item.content for item in assessment.context]


async def test_what_fails_while_a_failure_is_recorded_does_not_hide_the_failure(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:

        async def fail() -> None:
            async with memory.task("deploy"):
                await memory.close()
                raise RuntimeError("the reason")

        with pytest.raises(RuntimeError, match="the reason"):
            await fail()


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"task": ""}, "task"),
        ({"task": 7}, "task"),
        ({"task": "deploy", "status": "won"}, "status"),
        ({"task": "deploy", "notes": 7}, "notes"),
        ({"task": "deploy", "duration_s": -1}, "duration_s"),
        ({"task": "deploy", "significance": 2}, "significance"),
    ],
)
async def test_outcomes_that_make_no_sense_are_refused_by_name(
    tmp_path: Path, said: dict[str, object], field: str
) -> None:
    async with open_router(tmp_path) as memory:
        with pytest.raises(InvalidInput, match=field):
            await memory.record_task_outcome(**said)  # type: ignore[arg-type]
        assert await outcomes(memory) == []


@pytest.mark.requirement("UNI-003")
@pytest.mark.requirement("KNG-033")
@pytest.mark.requirement("KNG-035")
@pytest.mark.requirement("KNG-036")
@pytest.mark.parametrize(("successes", "expected"), [(5, 0.9), (3, 0.66), (0, 0.2)])
async def test_five_similar_tasks_give_the_golden_numbers(tmp_path: Path, successes: int, expected: float) -> None:
    async with open_router(tmp_path) as memory:
        for number in range(5):
            await memory.record_task_outcome("deploy the api", "completed" if number < successes else "failed")
        assessment = await memory.assess_confidence("deploy the api")
    assert assessment.confidence == expected
    assert sum(assessment.confidence_factors.values()) == pytest.approx(expected)
    assert assessment.similar_tasks_count == 5
    assert len(assessment.evidence) == 5


@pytest.mark.requirement("KNG-038")
@pytest.mark.requirement("KNG-039")
async def test_the_assessment_that_is_stored_says_what_was_returned(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        await memory.record_task_outcome("deploy the api")
        assessment = await memory.assess_confidence("deploy the api", context_id="deploy-42")
        assert assessment.assessment_id is not None
        stored = await memory.get(assessment.assessment_id)
    assert stored is not None
    said = json.loads(stored.content)
    assert said == {
        "task": "deploy the api",
        "confidence": assessment.confidence,
        "factors": dict(assessment.confidence_factors),
        "similar_tasks_found": 1,
        "context_id": "deploy-42",
    }
    assert (stored.type, stored.significance) == ("procedural", 0.4)


@pytest.mark.requirement("KNG-042")
async def test_assessing_a_task_again_and_again_is_no_experience(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        for _ in range(10):
            assert (await memory.assess_confidence("deploy the api")).confidence == 0.5
        await memory.record_task_outcome("deploy the api")
        for _ in range(30):
            await memory.assess_confidence("deploy the api")
        assessment = await memory.assess_confidence("deploy the api")
        assert assessment.similar_tasks_count == 1
        assert assessment.memory_informed


@pytest.mark.requirement("KNG-031")
async def test_the_remote_is_asked_for_five_similar_tasks_in_the_design_s_words(tmp_path: Path) -> None:
    clock = ManualClock()
    asked: list[tuple[str, int, list[str] | None]] = []

    class Listening(FakeRemote):
        async def search(self, text, *, space, limit, types, timeout_s):  # type: ignore[no-untyped-def]  # as the port says
            asked.append((text, limit, None if types is None else [str(one) for one in types]))
            return await super().search(text, space=space, limit=limit, types=types, timeout_s=timeout_s)

    store = PromptStore(tmp_path)
    memory = router_over(store, Listening(clock=clock), clock)
    async with memory:
        await memory.sync()
        assessment = await memory.assess_confidence("deploy the api")
    assert asked == [("task similar to: deploy the api", 5, ["procedural", "episodic"])]
    assert assessment.source is Source.HYBRID


@pytest.mark.requirement("KNG-074")
@pytest.mark.requirement("KNG-083")
async def test_routing_differs_with_what_came_of_similar_tasks(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        assert (await memory.route_task("migrate the database", ["alice", "bob"])).best == "alice"
        await memory.record_task_outcome("migrate the database", "failed", approach="alice")
        await memory.record_task_outcome("migrate the database", approach="bob")
        assert (await memory.route_task("migrate the database", ["alice", "bob"])).best == "bob"
        with pytest.raises(InvalidInput, match="candidates"):
            await memory.route_task("migrate the database", [])


def test_tasks_without_await(tmp_path: Path) -> None:
    with SyncMemoryRouter.open(tmp_path, remote=False, settings=FAST) as memory:
        with memory.task("deploy the api", context_id="c") as task:
            task.note("a note")
            assert task.context is not None
        with pytest.raises(ZeroDivisionError), memory.task("deploy the api"):
            _ = 1 / 0
        memory.record_task_outcome("deploy the api")
        assert memory.assess_confidence("deploy the api").similar_tasks_count == 3
        assert memory.route_task("deploy the api", ["x"]).best == "x"
        assert task.receipt is not None


@pytest.mark.requirement("KNG-088")
async def test_a_thousand_task_operations_in_one_process(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        for number in range(200):  # with five operations each
            async with memory.task(f"step {number}", context_id="long run") as task:
                await task.note(f"note {number}")
            await memory.assess_confidence(f"step {number}")
            assert len((await memory.working_context("long run")).items) <= 20
        assert (await memory.status())["memories"]["total"] >= 600


async def test_notes_of_a_task_that_must_stay_here_stay_here(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        async with memory.task("negotiate", context_id="c", significance=0.2) as task:
            await task.note("we would pay up to 40 million")
        assessment = await memory.assess_confidence("negotiate", significance=0.1)
        stored = [*await memory.list(limit=10), *await memory.list(tags=["confidence_assessment"])]
        assert len(stored) == 3
        assert max(one.significance for one in stored) == 0.2
        assert assessment.assessment_id == stored[-1].id


async def test_a_record_that_turns_is_seen(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        for _ in range(5):
            await memory.record_task_outcome("deploy the api")
        for _ in range(10):
            await memory.record_task_outcome("deploy the api", "failed")
        assert (await memory.assess_confidence("deploy the api")).confidence == 0.2


async def test_a_token_in_an_exception_is_not_kept(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        with pytest.raises(RuntimeError):
            async with memory.task("deploy"):
                raise RuntimeError("401 for https://ci:hunter2secret@example.org/build")
        (outcome,) = await outcomes(memory)
        assert "hunter2secret" not in json.dumps(outcome.to_json())


async def test_a_reason_that_speaks_of_another_task_is_no_experience_with_it(tmp_path: Path) -> None:
    async with open_router(tmp_path) as memory:
        for task in ("deploy the api", "migrate the users table", "build the docs"):
            await memory.record_task_outcome(
                task, "failed", reason="the disk was full", notes=["ask Anna for the staging password reset"]
            )
        assert (await memory.assess_confidence("reset Anna's staging password")).confidence == 0.5
        assert (await memory.assess_confidence("clean up the full disk")).confidence == 0.5
