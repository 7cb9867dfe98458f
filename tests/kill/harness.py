"""Start writers, kill them, let everything be delivered, and audit what is left (faults.md, invariant A)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.app.opening import MemoryRouter
from kingly_memory.models import REMOTE_ABOVE, MemoryStatus, Query
from kingly_memory.ports import Row
from tests.kill.remotes import ROOT, Effects, KillRemote
from tests.kill.writer import PROJECT, QUIET, Attempt, Order, settings_of

MOST_SYNCS = 40
SYNC_S = 30.0
INDEX_CHECKS = (
    "INSERT INTO km_text(km_text, rank) VALUES ('integrity-check', 1)",
    "INSERT INTO km_pieces(km_pieces, rank) VALUES ('integrity-check', 1)",
    "INSERT INTO km_passages(km_passages) VALUES ('integrity-check')",
)
"""Rank 1 compares the index with the rows it was made from."""
EVERYTHING = (MemoryStatus.LIVE, MemoryStatus.ARCHIVED, MemoryStatus.FORGOTTEN)


@dataclass(frozen=True, slots=True)
class Possible:
    """A state that a name may be in: its newest content, and whether it is forgotten. Nothing stored: no content."""

    content: str | None = None
    significance: float = 0.0
    forgotten: bool = False

    def after(self, attempt: Attempt) -> Possible:
        if attempt.verb == "store":
            return Possible(attempt.content, attempt.significance)
        return self if self.content is None else replace(self, forgotten=attempt.verb == "forget")


@dataclass
class Diary:
    """Everything that the writers of one home tried, in order, and what was acknowledged."""

    attempts: list[Attempt] = field(default_factory=list)
    acknowledged: list[Attempt] = field(default_factory=list)
    kills: int = 0

    def take_in(self, lines: Iterable[str]) -> None:
        """The lines of one writer. A line that a kill cut short was not acknowledged to anybody."""
        for line in lines:
            if not line.endswith("\n"):
                continue
            attempt = Attempt(**json.loads(line))
            (self.acknowledged if attempt.done else self.attempts).append(attempt)

    def possible(self) -> dict[str, set[Possible]]:
        """What each name may be: every acknowledged change happened, every other one may have."""
        done = {(attempt.verb, attempt.content) for attempt in self.acknowledged}
        states: dict[str, set[Possible]] = {}
        for attempt in self.attempts:
            before = states.get(attempt.name, {Possible()})
            after = {one.after(attempt) for one in before}
            states[attempt.name] = after if (attempt.verb, attempt.content) in done else before | after
        return states


@dataclass(frozen=True, slots=True)
class Findings:
    """What an audit found; everything but the first three counts must be empty or zero."""

    memories: int
    delivered: int
    dropped: int
    lost: list[str]
    duplicated: list[str]
    undelivered: list[str]
    leaked: int
    damaged: list[str]

    def blank(self) -> bool:
        return not (self.lost or self.duplicated or self.undelivered or self.leaked or self.damaged)


def start(order: Order) -> subprocess.Popen[str]:
    """A writer process with that order."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.kill.writer", json.dumps(asdict(order))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def finish(writer: subprocess.Popen[str], diary: Diary) -> int:
    """Read a writer to its end; returns its exit code, -9 when it was killed."""
    output, _ = writer.communicate()
    diary.take_in(output.splitlines(keepends=True))
    diary.kills += writer.returncode == -signal.SIGKILL
    return writer.returncode


def run(order: Order, diary: Diary) -> int:
    """A writer from its start to its own end, or to the one it was told to make."""
    return finish(start(order), diary)


def run_and_kill(order: Order, diary: Diary, after_lines: int) -> int:
    """A writer that is killed from outside as soon as it has said so many lines."""
    return kill(start(order), diary, after_lines)


def kill(writer: subprocess.Popen[str], diary: Diary, after_lines: int) -> int:
    """Kill a writer as soon as it has said so many lines, unless it ends before."""
    assert writer.stdout is not None
    lines = []
    for _ in range(after_lines):
        line = writer.stdout.readline()
        lines.append(line)
        if not line:
            break
    else:
        os.kill(writer.pid, signal.SIGKILL)
    diary.take_in(lines)
    return finish(writer, diary)


async def deliver_everything(order: Order, remote: KillRemote) -> None:
    """Open the home once more and sync until nothing waits."""
    remote.calm_down()
    async with MemoryRouter.open(order.home, remote.url, project=PROJECT, settings=settings_of(order)) as memory:
        for _ in range(MOST_SYNCS):
            if (await memory.sync(timeout=SYNC_S)).pending == 0:
                return
        raise AssertionError(f"the outbox never became empty: {memory!r}")


async def audit(order: Order, diary: Diary, remote: KillRemote) -> Findings:
    """Deliver what waits, end the remote, and compare what was said with what is here and there."""
    await deliver_everything(order, remote)
    effects = remote.effects()
    rows = all_rows(Path(order.home))
    return Findings(
        memories=len(rows),
        delivered=effects.effects,
        dropped=effects.lost_replies,
        lost=lost(rows, diary),
        duplicated=[*_repeated(effects.keys), *(one for one, copies in effects.held.items() if len(copies) > 1)],
        undelivered=[_told(row, effects) for row in rows if not _is_right(row, effects)],
        leaked=effects.heard.count(QUIET),
        damaged=complaints(Path(order.home)),
    )


def lost(rows: list[Row], diary: Diary) -> list[str]:
    """The names that are not in a state that what was acknowledged allows."""
    by_name = {row.memory.key or row.memory.content: row for row in rows}
    return [name for name, states in diary.possible().items() if _state(by_name.get(name)) not in states]


def all_rows(home: Path) -> list[Row]:
    store = DiskStore(home)
    rows = store.reader.page(Query("", PROJECT), EVERYTHING, 100_000, None)
    store.close()
    return rows


def complaints(home: Path) -> list[str]:
    """What SQLite says of the file and of its text indexes."""
    connection = sqlite3.connect(home / "store" / "cache.db", isolation_level=None)
    found = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
    for check in INDEX_CHECKS:
        try:
            connection.execute(check)
        except sqlite3.DatabaseError as error:
            found.append(f"{check}: {error}")
    connection.close()
    return found


def _state(row: Row | None) -> Possible:
    if row is None:
        return Possible()
    return Possible(row.memory.content, row.memory.significance, row.status is MemoryStatus.FORGOTTEN)


def _is_right(row: Row, effects: Effects) -> bool:
    """The remote holds the newest content, or nothing of what was forgotten. What fell to the threshold stays there
    as it last was above it."""
    there = effects.held.get(row.memory.id, [])
    if row.status is MemoryStatus.FORGOTTEN:
        return there == []
    if row.memory.significance > REMOTE_ABOVE:
        return there == [row.memory.content]
    return True


def _told(row: Row, effects: Effects) -> str:
    """What the remote holds of a memory, and what it was told in which order, beside what is here."""
    memory, keys = row.memory, [key for key in effects.keys if key.startswith(row.memory.id)]
    return f"{memory.id}, {row.status} here: {memory.content!r}; there: {effects.held.get(memory.id)}; told: {keys}"


def _repeated(keys: list[str]) -> list[str]:
    return sorted(key for key, times in Counter(keys).items() if times > 1)
