"""Homes and their hub killed while they write shared documents and logs: nothing acknowledged is lost, all agree."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import MemoryRouter
from tests.cli_runner import ROOT
from tests.faults.conftest import Tell
from tests.faults.keeper import PROJECT, TALK
from tests.faults.mortal_hub import POINTS, MortalHub
from tests.hub.stores import STORES, Database, Files, postgres_server
from tests.kill.harness import complaints
from tests.kill.writer import Order, settings_of

HOMES = ("one", "other")
SYNCS = 20
CHANGES = 40


@dataclass
class Book:
    """What the keepers of one home have tried and were told."""

    items: list[str] = field(default_factory=list)
    """Acknowledged, and taken off by nobody of this home."""
    taken: set[str] = field(default_factory=set)
    unsure: int = 0
    """Takings of which nobody knows whether they were made."""
    documents: dict[str, set[str | None]] = field(default_factory=dict)
    """What each key may have."""

    def take_in(self, lines: list[list[Any]]) -> None:
        tried: tuple[str, str, str] | None = None
        for what, *told in lines:
            if what == "try":
                verb, (key, _, text) = told[0], told[1].partition(" ")
                tried = verb, key, text
                if verb in ("put", "delete"):
                    self.documents.setdefault(key, {None}).add(text or None)
                self.unsure += verb == "pop"
                continue
            assert tried is not None
            verb, key, text = tried
            if verb == "append":
                self.items += [text, f"{text} more"]
            elif verb == "pop":
                self.unsure -= 1
                self.taken |= {told[0]} - {None}
            else:
                self.documents[key] = {text or None}


def killed_after(lines: int, home: Path, url: str, name: str, seed: int) -> Iterator[list[list[Any]]]:
    """A keeper that is killed as soon as it has said so many lines, when it is asked for what it said."""
    words = ["-m", "tests.faults.keeper", str(home), url, name, str(seed), str(CHANGES)]
    keeper = subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert keeper.stdout is not None
    yield []
    said = [keeper.stdout.readline() for _ in range(lines)]
    keeper.kill()
    said += keeper.communicate()[0].splitlines(keepends=True)
    assert keeper.returncode in (-9, 0)
    yield [json.loads(line) for line in said if line.endswith("\n")]


async def everything(home: Path, url: str) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """What a home has when all that waits has gone, and all that is new has come."""
    async with MemoryRouter.open(home, url, project=PROJECT, settings=settings_of(Order(str(home), url, 0))) as memory:
        await memory.documents.share("")
        for _ in range(SYNCS):
            report = await memory.sync(timeout=30)
            if (report.reason, report.received) == (None, 0):
                items = await memory.log(TALK).items()
                found = await memory.documents.list("", limit=1_000)
                return [(one.id, one.item) for one in items], {
                    f"{one.namespace[0]}/{one.key}": one.value for one in found
                }
        raise AssertionError("not everything arrived")


@pytest.mark.requirement("N7", "D7")
@pytest.mark.parametrize(
    ("kind", "rounds"),
    [pytest.param("embedded", 1), *(pytest.param(kind, 20, marks=pytest.mark.faults) for kind in STORES)],
)
async def test_keepers_and_their_hub_are_killed_and_nothing_acknowledged_is_lost(
    tmp_path: Path, kind: str, rounds: int, tell: Tell
) -> None:
    chance, books, kills = random.Random(rounds), {name: Book() for name in HOMES}, 0
    server = None if kind == "embedded" else postgres_server()
    kept = Files(tmp_path) if server is None else Database(server.__enter__(), tmp_path)
    hub = MortalHub(kept.home, kept.options)
    try:
        for number in range(rounds):
            hub.die_at = (
                "PutDocument",
                chance.choice(POINTS[: None if server is None else 2]),
                chance.randrange(1, 40),
            )
            hub.start()
            runs = [
                killed_after(chance.randrange(CHANGES, 2 * CHANGES), tmp_path / name, hub.url, name, number)
                for name in HOMES
            ]
            assert [next(run) for run in runs] == [[], []]
            for name, run in zip(HOMES, runs, strict=True):
                books[name].take_in(next(run))
            kills += 3
            hub.kill()
        hub.die_at = None
        hub.start()
        for name in HOMES:
            await everything(tmp_path / name, hub.url)
        one, other, third = [await everything(tmp_path / name, hub.url) for name in (*HOMES, "third")]
    finally:
        hub.kill()
        if server is not None:
            server.__exit__(None, None, None)
    assert one == other == third
    items, documents = [text for _, text in one[0]], one[1]
    taken = set[str]().union(*(book.taken for book in books.values()))
    missing = {text for book in books.values() for text in book.items} - taken - set(items)
    assert len(missing) <= sum(book.unsure for book in books.values()), missing
    assert not taken & set(items)
    assert len(set(items)) == len(items)
    wrong = {
        f"{name}/{key}": documents.get(f"{name}/{key}")
        for name, book in books.items()
        for key, values in book.documents.items()
        if documents.get(f"{name}/{key}") not in values
    }
    assert not wrong
    for name in HOMES:
        assert complaints(tmp_path / name) == []
    tell(
        15,
        f"two homes and their hub ({kind}) killed {kills} times while they write documents and logs: the same on all",
    )
