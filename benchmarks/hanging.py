"""A remote that accepts and says nothing: what does it cost those who only wanted to store or search?"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.measure import Figure, Goal, Plan, alternate, by_words, figure, timed
from benchmarks.searching import load
from benchmarks.texts import Note, Question
from kingly_memory import MemoryRouter, Settings
from kingly_memory.settings import Pace

BLOCKS = 12
HUNG_SEARCHES = 40
"""Each costs the remote's whole share of the search, so there are few."""
NEVER = 10**9
UNNOTICED_S = 60.0
"""Longer than the searches take together, so that nothing tells the router meanwhile that its remote hangs."""


async def measure(plan: Plan) -> list[Figure]:
    async with hung_server() as endpoint:
        return [*await stores(plan, endpoint), *await searches(plan, endpoint)]


@asynccontextmanager
async def hung_server() -> AsyncIterator[str]:
    """The endpoint of a server on loopback that takes every connection and never answers."""
    taken: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: taken.append(writer), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in taken:
            writer.transport.abort()
        server.close()
        await server.wait_closed()


async def stores(plan: Plan, endpoint: str) -> list[Figure]:
    """Blocks of stores into fresh homes: without a remote (twice, A and A) and with a hung one (B), by turns.

    Blocks rather than single samples, so that the background work for the hung remote burdens its own block only.
    """
    endpoints = {"without": None, "control": None, "hung": endpoint}
    seconds: dict[str, list[float]] = {name: [] for name in endpoints}
    orders = itertools.cycle(itertools.permutations(endpoints))
    for number, order in zip(range(BLOCKS), orders, strict=False):
        for name in order:
            folder = plan.folder / f"hung-store-{name}-{number}"
            seconds[name] += await _stored(plan, folder, endpoints[name], max(2, plan.samples // BLOCKS))
    floor = seconds["without"]
    limits = (Goal("ratio", 1.2), Goal("ratio_p99", 1.2))
    return [
        figure("store without a remote", floor),
        figure("the same again (A/A)", seconds["control"], floor=floor, against="without a remote"),
        figure("store with a hung remote", seconds["hung"], floor=floor, against="without a remote", goals=limits),
    ]


async def _stored(plan: Plan, folder: Path, endpoint: str | None, count: int) -> list[float]:
    notes = plan.writer.notes(count + 3)
    async with MemoryRouter.open(folder, remote=endpoint, settings=by_words()) as memory:
        return [await timed(memory.store(note.content)) for note in notes][3:]


async def searches(plan: Plan, endpoint: str) -> list[Figure]:
    """While the remote has its whole share of every search, and once the link is known to be offline."""
    notes = plan.writer.notes(min(plan.sizes))
    questions = plan.writer.questions(notes, plan.samples + 3)
    without = _Searched(plan.folder / "hung-search-without", None, by_words())
    hung = _Searched(
        plan.folder / "hung-search-unaware",
        endpoint,
        by_words(pace=Pace(offline_after=NEVER), call_timeout_s=UNNOTICED_S),
    )
    aware = by_words(pace=Pace(offline_after=1, send_tries=1), call_timeout_s=0.2)
    offline = _Searched(plan.folder / "hung-search-aware", endpoint, aware)
    async with without.opened(notes, questions), hung.opened(notes, questions), offline.opened(notes, questions):
        unaware = await alternate({"hung": hung.search}, min(plan.samples, HUNG_SEARCHES))
        await offline.until_offline()
        known = await alternate({"without": without.search, "offline": offline.search}, plan.samples)
    floor, against = known["without"], "search without a remote"
    within, at_once = (Goal("max", 200),), (Goal("p99", 50),)
    return [
        figure(against, floor),
        figure("search, remote hangs", unaware["hung"], floor=floor, against=against, goals=within),
        figure("search, link known offline", known["offline"], floor=floor, against=against, goals=at_once),
    ]


class _Searched:
    """A router with memories in it, and questions to ask it."""

    def __init__(self, home: Path, remote: str | None, settings: Settings) -> None:
        self._router = MemoryRouter.open(home, remote=remote, settings=settings)
        self._questions: Sequence[Question] = ()

    @asynccontextmanager
    async def opened(self, notes: Sequence[Note], questions: Sequence[Question]) -> AsyncIterator[None]:
        self._questions = questions
        async with self._router as router:
            await load(router, notes)
            yield

    async def search(self, number: int) -> object:
        return await self._router.search(self._questions[number].text)

    async def until_offline(self) -> None:
        async with asyncio.timeout(30):
            # The public status has no event to wait for.
            while (await self._router.status())["link"]["state"] != "offline":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
