"""A process that stores, revises and forgets until it is done or killed, and says on stdout what was acknowledged.

`python -m tests.kill.writer ORDER`: the order is JSON, see `Order`. Every line it prints is one JSON object: an
`Attempt` before it is made, and the same with `done` once it is acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from kingly_memory.app.opening import MemoryRouter
from kingly_memory.observe import Event, MemoriesLeased
from kingly_memory.settings import Durability, Pace, Settings

AT_ONCE = 3
"""Changes made concurrently, each of another memory, so that some share a commit."""

LOUD, QUIET = "loud", "quiet"
"""The first word of every content says whether it may leave the machine."""

SIGNIFICANCES = (0.1, 0.3, 0.31, 0.6, 1.0)
PROJECT = "kill"


@dataclass(frozen=True, slots=True)
class Order:
    """What a writer shall do, and where it shall die: at the `kill_count`-th event of the class `kill_at`, or before
    the `kill_statement`-th SQL statement of its writer thread. `key_space` keeps the keys of several writers apart."""

    home: str
    url: str | None
    seed: int
    count: int = 30
    durability: Durability = "process"
    kill_at: str | None = None
    kill_count: int = 1
    kill_statement: int | None = None
    key_space: str = ""
    new_only: bool = False
    sync_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One change: `name` is the key, or for a memory without one the content itself, which is then unique."""

    verb: Literal["store", "forget", "restore"]
    name: str
    key: str | None
    content: str
    significance: float
    done: bool = False
    id: str | None = None
    revision: int | None = None


def settings_of(order: Order) -> Settings:
    """As in earnest, but with no time to lose."""
    return Settings(
        durability=order.durability,
        pace=Pace(send_pause_s=0.001, poll_s=0.02, lease_s=2.0, lease_size=8, longest_wait_s=0.05, closing_s=0.0),
        probe_interval_s=0.05,
        call_timeout_s=5.0,
    )


def changes(order: Order) -> Iterator[list[Attempt]]:
    """What to do, a few at once; the same for the same seed."""
    chance = random.Random(order.seed)
    for number in range(0, order.count, AT_ONCE):
        keys = chance.sample(range(8), AT_ONCE)
        yield [_change(order, chance, number + i, f"{order.key_space}k{key}") for i, key in enumerate(keys)]


def _change(order: Order, chance: random.Random, number: int, key: str) -> Attempt:
    significance = chance.choice(SIGNIFICANCES)
    word = LOUD if significance > 0.3 else QUIET
    content = (
        f"{word} memory {order.key_space} {order.seed} {number} {chance.choice(('harbour', 'lantern', 'granite'))}"
    )
    if order.new_only or chance.random() < 0.5:
        return Attempt("store", content, None, content, significance)
    verb = chance.choices(("store", "forget", "restore"), (0.7, 0.2, 0.1))[0]
    return Attempt(verb, key, key, content, significance)  # type: ignore[arg-type]  # one of the three


class Killer:
    """An observer that ends this process at the named event, as a power switch would: nothing is tidied up."""

    def __init__(self, event: str | None, count: int) -> None:
        self._event = event
        self._left = count

    def __call__(self, event: Event) -> None:
        if type(event).__name__ == self._event and (not isinstance(event, MemoriesLeased) or event.memory_ids):
            self._left -= 1
            if self._left == 0:
                die()


class StatementKiller:
    """A profiler that ends this process before the N-th SQL statement of the writer thread."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "c_call" or threading.current_thread().name != "kingly-writer":
            return
        if isinstance(getattr(argument, "__self__", None), sqlite3.Connection | sqlite3.Cursor):
            self._left -= argument.__name__ == "execute"
            if self._left == 0:
                die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def say(attempt: Attempt) -> None:
    sys.stdout.write(json.dumps(asdict(attempt)) + "\n")
    sys.stdout.flush()


async def write(order: Order) -> None:
    killer = Killer(order.kill_at, order.kill_count)
    async with MemoryRouter.open(
        order.home, order.url, project=PROJECT, settings=settings_of(order), observers=(killer,)
    ) as memory:
        for together in changes(order):
            await asyncio.gather(*(_make(memory, attempt) for attempt in together))
        if order.sync_s:
            await memory.sync(timeout=order.sync_s)


async def _make(memory: MemoryRouter, attempt: Attempt) -> None:
    say(attempt)
    done = {**asdict(attempt), "done": True}
    if attempt.verb == "store":
        receipt = await memory.store(attempt.content, key=attempt.key, significance=attempt.significance)
        done |= {"id": receipt.id, "revision": receipt.revision}
    elif attempt.verb == "forget":
        await memory.forget(attempt.name)
    else:
        await memory.restore(attempt.name)
    say(Attempt(**done))


def main(arguments: Sequence[str]) -> None:
    order = Order(**json.loads(arguments[0]))
    Path(order.home).parent.mkdir(parents=True, exist_ok=True)
    if order.kill_statement is not None:
        threading.setprofile(StatementKiller(order.kill_statement))
    asyncio.run(write(order))


if __name__ == "__main__":
    main(sys.argv[1:])
