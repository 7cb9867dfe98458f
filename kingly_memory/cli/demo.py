"""`kingly-memory demo`: the whole story on real text, with a real hub that really gets killed."""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.cli import demo_hub
from kingly_memory.cli.demo_texts import ASKED, ASKED_AFTERWARDS, ASKED_OFFLINE, LEARNT, LEARNT_OFFLINE, Told
from kingly_memory.cli.memories import receipt_lines
from kingly_memory.cli.output import Output, counted, duration
from kingly_memory.cli.place import warnings_on
from kingly_memory.cli.search import search_lines
from kingly_memory.cli.signals import ended_by_signals
from kingly_memory.extras import require
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import REMOTE_ABOVE, JsonObject, Receipt
from kingly_memory.settings import Settings

PROJECT = "harbour-board"
HITS = 2
WAIT_S = 2.0
SYNC_LIMIT_S = 20.0

_NEXT = """
Next, in a folder of your own:
  kingly-memory store "Deploys need two reviews" --key deploy
  kingly-memory search "who reviews a deploy"
  kingly-memory import notes/       bring what you have: notes, JSONL, chats
  kingly-memory hub                 a hub to keep, on http://localhost:8000
  kingly-memory remotes add home http://localhost:8000
                                    what you store from then on goes there too"""


def demo(options: Namespace, out: Output) -> int:
    """Exit code 1 when the story did not go as promised: a backlog that did not arrive, or arrived twice."""
    require("hub", "`kingly-memory demo`")
    began = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        stack.enter_context(warnings_on(None))  # the story tells of the outage itself
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="kingly-demo-", ignore_cleanup_errors=True))
        )
        hub = HubProcess(folder / "hub")
        stack.callback(hub.kill)
        story = _Story(out, hub)
        story.start_hub("A hub starts: the remote memory server, here as a process of its own.")
        with SyncMemoryRouter.open(folder / "memory", hub.url, project=PROJECT, settings=Settings()) as memory:
            arrived = _told(story, memory)
    took_s = time.monotonic() - began
    lines = [f"\nDone in {duration(took_s)}. All of it happened in a temporary folder that is gone now.", _NEXT]
    story.tell("finished", {"took_s": round(took_s, 2), "exactly_once": arrived}, lines)
    return 0 if arrived else 1


def _told(story: _Story, memory: SyncMemoryRouter) -> bool:
    """The story between the first start of the hub and the end. True when the backlog arrived exactly once."""
    story.chapter("An agent stores what its team learns. When a store returns, the memory is safe on this machine.")
    story.store_one(memory, LEARNT[1])
    story.store_one(memory, LEARNT[-2])
    story.store_many(memory, [told for told in LEARNT if told not in (LEARNT[1], LEARNT[-2])])
    story.sync(memory)
    story.chapter("It searches. This machine and the hub answer together.")
    story.search(memory, ASKED)
    story.kill_hub()
    story.chapter("The agent goes on as if nothing had happened.")
    backlog = story.store_many(memory, LEARNT_OFFLINE)
    story.search(memory, ASKED_OFFLINE)
    story.start_hub("The hub comes back at the same address.")
    story.sync(memory)
    arrived = story.count(backlog)
    story.chapter("Search is hybrid again, and what was learnt meanwhile is there.")
    story.search(memory, ASKED_AFTERWARDS)
    return arrived


class _Story:
    """Does each step for real and tells it: in numbered chapters for a person, one JSON line a step for a program."""

    def __init__(self, out: Output, hub: HubProcess) -> None:
        self._out = out
        self._hub = hub
        self._chapters = 0

    def chapter(self, heading: str) -> None:
        self._chapters += 1
        if not self._out.as_json:
            self._out.say(f"\n{self._chapters}. {heading}")
            self._out.flush()

    def tell(self, step: str, facts: JsonObject, lines: Iterable[str]) -> None:
        self._out.show({"step": step, **facts}, lines)
        self._out.flush()

    def start_hub(self, heading: str) -> None:
        self.chapter(heading)
        began = time.monotonic()
        self._hub.start()
        took_s = time.monotonic() - began
        facts = {"url": self._hub.url, "pid": self._hub.pid, "took_s": round(took_s, 2)}
        line = f"{self._hub.url} listens after {duration(took_s)} (process {self._hub.pid})"
        self.tell("hub_started", facts, _indented([line]))

    def kill_hub(self) -> None:
        self.chapter("The hub is killed: SIGKILL, no warning, nothing said good-bye.")
        pid = self._hub.pid
        self._hub.kill()
        self.tell("hub_killed", {"pid": pid, "signal": "SIGKILL"}, _indented([f"process {pid} is gone"]))

    def store_one(self, memory: SyncMemoryRouter, told: Told) -> None:
        """One store with its receipt, which waits for the hub so that there is something to see."""
        receipt = _stored(memory, told, wait=WAIT_S)
        self.tell("stored", receipt.to_json(), _indented([f'"{told.content}"', *_indented(receipt_lines(receipt))]))

    def store_many(self, memory: SyncMemoryRouter, learnt: Sequence[Told]) -> list[tuple[Told, Receipt]]:
        """Store them one after the other, timed, and return those that the hub should get."""
        receipts, times = [], []
        for told in learnt:
            began = time.monotonic()
            receipts.append((told, _stored(memory, told)))
            times.append(time.monotonic() - began)
        meant = [(told, receipt) for told, receipt in receipts if told.significance > REMOTE_ABOVE]
        facts = {"memories": len(receipts), "for_the_hub": len(meant), "median_ms": round(median(times) * 1000, 2)}
        line = (
            f"{counted(len(receipts), 'memory')} stored, {duration(median(times))} each; {len(meant)} are for the hub"
        )
        self.tell("stored_many", facts, _indented([line]))
        return meant

    def search(self, memory: SyncMemoryRouter, queries: Iterable[str]) -> None:
        for query in queries:
            results = memory.search(query, limit=HITS)
            lines = [f"? {query}", *_indented(line for line in search_lines(results, datetime.now(UTC)) if line)]
            self.tell("searched", {"query": query, **results.to_json()}, _indented(lines))

    def sync(self, memory: SyncMemoryRouter) -> None:
        began = time.monotonic()
        report = memory.sync(timeout=SYNC_LIMIT_S)
        took_s = time.monotonic() - began
        line = f"sync: the hub is {report.link}, {report.pending} waiting, {report.dead} refused ({duration(took_s)})"
        self.tell("synced", {**report.to_json(), "took_s": round(took_s, 3)}, _indented([line]))

    def count(self, backlog: Sequence[tuple[Told, Receipt]]) -> bool:
        """Ask the hub itself what it holds. True when each memory of the backlog is there once, with its last words."""
        held = demo_hub.held(self._hub.url, PROJECT)
        once = [held.get(receipt.id) == [told.content] for told, receipt in backlog]
        copies = sum(map(len, held.values()))
        facts = {"held": copies, "different": len(held), "backlog": len(backlog), "exactly_once": sum(once)}
        lines = [
            f"asked the hub: it holds {counted(copies, 'memory')}, {len(held)} different ones",
            f"of the {len(backlog)} from the outage, {sum(once)} arrived exactly once",
        ]
        self.tell("counted", facts, _indented(lines))
        return all(once) and copies == len(held)


def _stored(memory: SyncMemoryRouter, told: Told, wait: float | None = None) -> Receipt:
    return memory.store(told.content, key=told.key, type=told.type, significance=told.significance, wait=wait)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"   {line}" for line in lines)
