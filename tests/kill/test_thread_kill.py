"""Verbs on threads killed before any of their statements: each was done whole or not at all, no message is lost, and
doing it again does it. The long run is `make crash`."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.kill.harness import all_rows, complaints
from tests.kill.verbs import OF_THREADS, change, killed, opened

OPENED = 65
"""Statements before which no verb begins."""


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("seeded") / "home"
    asyncio.run(seed(home))
    return home


@pytest.fixture(scope="module")
def done(seeded: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """The state after a verb."""

    @cache
    def after(verb: str) -> Any:
        home = tmp_path_factory.mktemp(verb) / "home"
        shutil.copytree(seeded, home)
        asyncio.run(change(home, verb))
        return asyncio.run(state(home))

    return after


async def seed(home: Path) -> None:
    async with opened(home) as memory:
        for said, context in (
            ("Deploys of the shop wait for review", "mixed"),
            ("Tomatoes grow in the greenhouse until April,", "mixed"),
            ("The rates of the hotel in Lisbon,", "apart"),
        ):
            for number in range(4):
                await memory.store(f"{said} {number}", context_id=context, origin="user")
        for name in ("merged", "other"):
            await memory.store(f"Said in {name}", context_id=name)
        await memory.threads.merge("merged", "other")
        pinned = await memory.attention.pin("Deploys on Fridays are for others")
        await memory.store("said in the pinned thread", context_id="pinned")
        await memory.threads.merge(pinned.thread_id, "pinned")
        assert (await memory.inject("the rates of the hotel in Lisbon", session="s")).put_in


async def state(home: Path) -> Any:
    """What there is of each thread, but for the ids and times that are made on the way."""
    assert complaints(home) == []
    async with opened(home) as memory:
        names = {one.id for one in await memory.threads.list()}
        views = [await memory.threads.get(name, limit=50) for name in sorted(names)]
    told = [
        (
            sorted(one.memory.content for one in view.messages),
            view.status,
            view.weight,
            view.pinned,
            len(view.ratings),
            len(view.merged),
            view.title,
        )
        for view in views
    ]
    return sorted(told), sorted(row.memory.content for row in all_rows(home))


async def check(seeded: Path, home: Path, verb: str, after: Any) -> bool:
    """Whether the verb had been done. Where it had not, it is now."""
    before = await state(seeded)
    now = await state(home)
    assert now in (before, after)
    if now == before != after:
        await change(home, verb)
        assert await state(home) == after
    return bool(now == after)


@pytest.mark.parametrize(("verb", "statement"), [("merge", 88), ("split", 110), ("import", 130)])
def test_a_verb_killed_before_a_statement_was_done_whole_or_not_at_all(
    seeded: Path, done: Callable[[str], Any], tmp_path: Path, verb: str, statement: int
) -> None:
    home = tmp_path / "home"
    shutil.copytree(seeded, home)
    assert killed(home, verb, statement)
    asyncio.run(check(seeded, home, verb, done(verb)))


@pytest.mark.crash
@pytest.mark.parametrize("verb", OF_THREADS)
def test_kills_swept_over_the_statements_of_a_verb(
    seeded: Path, done: Callable[[str], Any], tmp_path: Path, verb: str
) -> None:
    undone = 0
    for statement in range(OPENED, 1_000, 3):
        home = tmp_path / f"home-{statement}"
        shutil.copytree(seeded, home)
        if not killed(home, verb, statement):
            break
        undone += not asyncio.run(check(seeded, home, verb, done(verb)))
        shutil.rmtree(home)
    assert undone >= 5
