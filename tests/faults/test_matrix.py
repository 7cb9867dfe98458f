"""Every fault of a remote × every operation that may touch one × every dialect; and each fault met from the start.

A call may take a minute by the settings used here, so that whatever waits for the remote is far past its bound.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kingly_memory import MemoryRouter, Settings
from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.models import LinkState, Source
from kingly_memory.settings import Pace
from tests.faults.conftest import Tell
from tests.faults.operations import CONTEXT, FERRY, HARBOUR, LANTERN, OPERATIONS, PIER, Operation, Scene
from tests.faults.troubles import DIALECTS, TOKEN, TROUBLES, Means, Place, Trouble, placed
from tests.scripted.wire_faults import CANARY

ROOM_S = 30.0
"""For a loaded machine, on top of what an operation may take: far below the minute for which a remote is waited for."""
MOST_SYNCS = 30
MANY = 500
PATIENT = Settings(
    durability="process",
    pace=Pace(send_pause_s=0.0, poll_s=0.02, longest_wait_s=0.05, closing_s=0.0),
    call_timeout_s=60.0,
    probe_interval_s=0.05,
    remote_search_s=0.15,
)
SECRETS = (TOKEN, CANARY, HARBOUR, LANTERN, FERRY, PIER, "Fog delays ferries", "opens at seven")


@dataclass
class Ledger:
    """What the whole table came to."""

    cells: Counter[int] = field(default_factory=Counter)
    slowest_s: dict[str, float] = field(default_factory=dict)
    recoveries: int = 0

    def note(self, row: int, operation: str, took_s: float) -> None:
        self.cells[row] += 1
        self.slowest_s[operation] = max(took_s, self.slowest_s.get(operation, 0.0))


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    return Ledger()


@dataclass
class Overheard:
    """What went into logs, and what nobody caught."""

    records: list[logging.LogRecord]
    uncaught: list[dict[str, Any]] = field(default_factory=list)

    def check(self) -> None:
        assert self.uncaught == []
        assert [record.getMessage() for record in self.records if record.exc_info] == []
        everything = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in self.records)
        assert [secret for secret in SECRETS if secret in everything] == []


@pytest.fixture
def overheard(caplog: pytest.LogCaptureFixture) -> Iterator[Overheard]:
    with caplog.at_level(logging.DEBUG):
        yield Overheard(caplog.records)


@pytest.fixture(scope="module")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty home, made once: making one takes longer than all the rest of a cell."""
    home = tmp_path_factory.mktemp("founded") / "home"
    store = DiskStore(home, durability="process")
    store.write(lambda _: None).result()
    store.close()
    return home


@pytest.fixture
def home(tmp_path: Path, founded: Path) -> Path:
    shutil.copytree(founded, tmp_path / "home")
    return tmp_path / "home"


def opened(home: Path, place: Place) -> MemoryRouter:
    return MemoryRouter.open(home, place.url, token=TOKEN, project="faults", settings=PATIENT)


@asynccontextmanager
async def working(home: Path, place: Place, overheard: Overheard) -> AsyncIterator[MemoryRouter]:
    """A router whose remote works and holds what `Scene` says."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: overheard.uncaught.append(context))
    async with opened(home, place) as memory:
        await prepare(memory)
        assert (await memory.sync(timeout=20)).pending == 0
        yield memory


async def prepare(memory: MemoryRouter) -> None:
    for key, content in (("harbour", HARBOUR), ("lantern", LANTERN), ("ferry", FERRY)):
        await memory.store(content, key=key, significance=0.8, context_id=CONTEXT)
    await memory.link_memories("harbour", "lantern")
    await memory.forget("ferry")


async def timed(operation: Operation, scene: Scene) -> float:
    """Seconds that it took. Fails when it took more than its bound and the machine's share."""
    began = time.monotonic()
    async with asyncio.timeout(operation.bound_s + ROOM_S):
        await operation.run(scene)
    return time.monotonic() - began


async def recover(memory: MemoryRouter, place: Place) -> None:
    """The remote is back: everything arrives, whatever was refused meanwhile is asked for again."""
    place.mend()
    for _ in range(MOST_SYNCS):
        await memory.outbox_retry()
        report = await memory.sync(timeout=20)
        if (report.pending, report.dead) == (0, 0) and "links" not in (await memory.status()):
            assert report.link is LinkState.CONNECTED, report
            return
        if (await memory.status()).get("links", {}).get("dead"):
            await memory.link_memories("lantern", "harbour", "supports")
    raise AssertionError(f"not everything arrived: {await memory.status()}")


async def check_effects(memory: MemoryRouter, place: Place) -> None:
    """The remote holds the newest of what it should, each thing was done once, and searches are whole again."""
    held = place.server.semantic
    done = Counter(str(call.params["idempotency_key"]) for call in place.server.effects if call.params)
    assert [key for key, times in done.items() if times > 1] == []
    there = {str(one["idempotency_key"]): str(one["content"]) for one in held.memories.values()}
    here = {one.id: one.content for one, _ in memory.export() if one.significance > 0.3}
    assert there.keys() == here.keys()
    assert [text for key, text in here.items() if text not in there[key]] == []
    if await memory.get("lantern") is not None:
        assert len(held.links) == len(await memory.links("harbour"))
    async with asyncio.timeout(ROOM_S):
        while (await memory.search("harbour")).source is not Source.HYBRID:  # a loaded machine may be too slow for it
            await memory.sync(timeout=5)


class Line(NamedTuple):
    """A line of the table: operations in their order, each of which meets a trouble."""

    dialect: str
    cells: Sequence[tuple[Trouble, Operation]]

    def __str__(self) -> str:
        return f"{self.cells[0][0]}-{self.dialect}-{len(self.cells)}"


async def meet(line: Line, home: Path, overheard: Overheard, ledger: Ledger) -> None:
    """Each operation begins with a remote that works, and ends with one that works again."""
    with placed(line.dialect) as place:
        async with working(home, place, overheard) as memory:
            for trouble, operation in line.cells:
                place.strike(trouble)
                took_s = await timed(operation, Scene(memory, place, trouble, operation.name))
                ledger.note(trouble.row, operation.name, took_s)
                if operation.name != "close":
                    await check_link(memory, trouble, operation)
                    await recover(memory, place)
                    await check_effects(memory, place)
        if line.cells[-1][1].name == "close":
            place.mend()
            async with opened(home, place) as again:
                await recover(again, place)
                await check_effects(again, place)
    overheard.check()


async def check_link(memory: MemoryRouter, trouble: Trouble, operation: Operation) -> None:
    """What the status says is the one thing that the fault means."""
    if operation.name not in {"store, remote required", "sync"}:
        return
    if trouble.means is Means.PAUSED:
        async with asyncio.timeout(ROOM_S):
            # The public status has no event to wait for.
            while "token" not in str((await memory.status())["link"]["last_error"]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await memory.status())["link"]["state"] == LinkState.OFFLINE
    if trouble.means is not Means.REFUSED:
        assert (await memory.status())["outbox"]["dead"] == 0


MEETINGS = {dialect: [one for one in TROUBLES if one.only in {None, dialect}] for dialect in DIALECTS}
"""The troubles that each dialect knows."""


def lots(troubles: Sequence[Trouble]) -> Iterator[Sequence[Trouble]]:
    """As many at a time as there are operations."""
    for first in range(0, len(troubles), len(OPERATIONS)):
        yield troubles[first : first + len(OPERATIONS)]


ONE_OF_EACH = [
    Line(dialect, list(zip(some, OPERATIONS, strict=False)))
    for shift, dialect in enumerate(DIALECTS)
    for some in lots(MEETINGS[dialect][shift::2])
]
"""For `make test`: every second fault in each dialect meets one operation, by turns."""
LINES = [(dialect, trouble) for dialect, troubles in MEETINGS.items() for trouble in troubles]
ALL = [
    pytest.param(Line(dialect, [(trouble, one) for one in OPERATIONS]), marks=pytest.mark.faults)
    for dialect, trouble in LINES
]
FROM_THE_START = [
    one for one in OPERATIONS if one.name in {"search", "working context", "store, remote required", "sync"}
]
FIRST = [
    pytest.param(
        Line(dialect, [(trouble, one) for one in FROM_THE_START]), marks=() if turn % 9 == 0 else pytest.mark.faults
    )
    for turn, (dialect, trouble) in enumerate(LINES)
]


@pytest.mark.requirement("KNG-003", "KNG-005", "KNG-012", "KNG-046", "KNG-047", "KNG-068", "KNG-079", "KNG-089")
@pytest.mark.parametrize("line", [*ONE_OF_EACH, *ALL], ids=str)
async def test_whatever_a_remote_does_every_operation_works_and_everything_arrives_once_afterwards(
    home: Path, line: Line, overheard: Overheard, ledger: Ledger
) -> None:
    await meet(line, home, overheard, ledger)


@pytest.mark.requirement("KNG-003", "KNG-013", "KNG-066", "KNG-079", "KNG-080")
@pytest.mark.parametrize("line", FIRST, ids=str)
async def test_a_remote_that_is_in_trouble_from_the_start_keeps_nobody_from_working(
    home: Path, line: Line, overheard: Overheard, ledger: Ledger
) -> None:
    with placed(line.dialect) as place:
        place.strike(line.cells[0][0])
        await begin(line, place, home, overheard, ledger)


HANDSHAKES = [
    pytest.param(
        method,
        play,
        marks=() if (method, play) == ("initialize", "hang") else pytest.mark.faults,
        id=f"{method}-{play}",
    )
    for method in ("initialize", "notifications/initialized", "tools/list")
    for play in ("hang", "reset", "status=500", "html", "deep", "trickle", "wrong-id")
]


@pytest.mark.requirement("KNG-066")
@pytest.mark.parametrize(("method", "play"), HANDSHAKES)
async def test_a_handshake_that_fails_or_never_ends_keeps_nobody_from_working(
    home: Path, method: str, play: str, overheard: Overheard, ledger: Ledger
) -> None:
    trouble = Trouble(3 if play == "hang" else 6, f"{play} at {method}", searched=True, only="mcp")
    with placed("mcp") as place:
        place.server.script(*[play] * MANY, method=method)
        line = Line("mcp", [(trouble, one) for one in FROM_THE_START[2:]])
        await begin(line, place, home, overheard, ledger)


async def begin(line: Line, place: Place, home: Path, overheard: Overheard, ledger: Ledger) -> None:
    """Open a router whose remote is in trouble, do those operations, and let it recover."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: overheard.uncaught.append(context))
    began = time.monotonic()
    async with asyncio.timeout(ROOM_S), opened(home, place) as memory:
        await prepare(memory)
        ledger.note(line.cells[0][0].row, "open and store", time.monotonic() - began)
        for trouble, operation in line.cells:
            took_s = await timed(operation, Scene(memory, place, trouble, operation.name))
            ledger.note(trouble.row, operation.name, took_s)
            await check_link(memory, trouble, operation)
        await recover(memory, place)
        await check_effects(memory, place)
    overheard.check()


@pytest.mark.faults
def test_the_table_was_gone_through(ledger: Ledger, tell: Tell) -> None:
    assert sum(ledger.cells.values()) >= len(ALL) * len(OPERATIONS)
    for row, cells in sorted(ledger.cells.items()):
        tell(row, f"{cells} cells")
    for operation, row in (("store", 3), ("search", 3), ("close", 2), ("open and store", 1)):
        tell(row, f"slowest {operation} {ledger.slowest_s[operation] * 1000:.0f} ms")
