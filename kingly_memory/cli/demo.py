"""`kingly-memory demo`: the whole story on real text, with a real hub that really gets killed."""

from __future__ import annotations

import json
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import httpx

from kingly_memory.blocking import SyncMemoryRouter
from kingly_memory.cli.commands import Options
from kingly_memory.cli.memories import receipt_lines
from kingly_memory.cli.output import Output
from kingly_memory.cli.place import warnings_on
from kingly_memory.cli.search import search_lines
from kingly_memory.extras import require
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import REMOTE_ABOVE, JsonObject, Receipt
from kingly_memory.settings import Settings
from kingly_memory.text.writing import counted, duration

PROJECT = "harbour-board"
TEXTS: JsonObject = json.loads(files("kingly_memory.cli").joinpath("demo_texts.json").read_text(encoding="utf-8"))
"""What a small team remembers of its work on the departures board of an invented ferry harbour, and asks of it."""

_NEXT = """
Next, in a folder of your own:
  kingly-memory store "Deploys need two reviews" --key deploy
  kingly-memory search "who reviews a deploy"
  kingly-memory import notes/       bring what you have: notes, JSONL, chats
  kingly-memory hub                 a hub to keep, on http://localhost:8000
  kingly-memory remotes add home http://localhost:8000
                                    what you store from then on goes there too"""


def demo(options: Options, out: Output) -> int:
    """Exit code 1 when the story did not go as promised: a backlog that did not arrive, or arrived twice."""
    require("hub", "`kingly-memory demo`")
    began = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        stack.enter_context(warnings_on(None))  # the story tells of the outage itself
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kingly-demo-", ignore_cleanup_errors=True))
        hub = HubProcess(Path(folder) / "hub")
        stack.callback(hub.kill)
        story = _Story(out, hub)
        story.start_hub("A hub starts: the remote memory server, here as a process of its own.")
        with SyncMemoryRouter.open(Path(folder) / "memory", hub.url, project=PROJECT, settings=Settings()) as memory:
            arrived = _tell_story(story, memory)
    took_s = time.monotonic() - began
    lines = [f"\nDone in {duration(took_s)}. All of it happened in a temporary folder that is gone now.", _NEXT]
    story.tell("finished", {"took_s": round(took_s, 2), "exactly_once": arrived}, lines, indent="")
    return 0 if arrived else 1


def _tell_story(story: _Story, memory: SyncMemoryRouter) -> bool:
    """The story between the first start of the hub and the end. True when the backlog arrived exactly once."""
    learnt = TEXTS["learnt"]
    story.chapter("An agent stores what its team learns. When a store returns, the memory is safe on this machine.")
    story.store_one(memory, learnt[1])
    story.store_one(memory, learnt[-2])
    story.store_many(memory, [fields for fields in learnt if fields not in (learnt[1], learnt[-2])])
    story.sync(memory)
    story.chapter("It searches. This machine and the hub answer together.")
    story.search(memory, TEXTS["asked"])
    story.kill_hub()
    story.chapter("The agent goes on as if nothing had happened.")
    backlog = story.store_many(memory, TEXTS["learnt_offline"])
    story.search(memory, TEXTS["asked_offline"])
    story.start_hub("The hub comes back at the same address.")
    story.sync(memory)
    arrived = story.count(backlog)
    story.chapter("Search is hybrid again, and what was learnt meanwhile is there.")
    story.search(memory, TEXTS["asked_afterwards"])
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

    def tell(self, step: str, facts: JsonObject, lines: Iterable[str], indent: str = "   ") -> None:
        self._out.show({"step": step, **facts}, (f"{indent}{line}" for line in lines))
        self._out.flush()

    def start_hub(self, heading: str) -> None:
        self.chapter(heading)
        began = time.monotonic()
        self._hub.start()
        took_s = time.monotonic() - began
        facts = {"url": self._hub.url, "pid": self._hub.pid, "took_s": round(took_s, 2)}
        self.tell("hub_started", facts, [f"{self._hub.url} listens after {duration(took_s)} (process {self._hub.pid})"])

    def kill_hub(self) -> None:
        self.chapter("The hub is killed: SIGKILL, no warning, nothing said good-bye.")
        pid = self._hub.pid
        self._hub.kill()
        self.tell("hub_killed", {"pid": pid, "signal": "SIGKILL"}, [f"process {pid} is gone"])

    def store_one(self, memory: SyncMemoryRouter, fields: JsonObject) -> None:
        """One store with its receipt, which waits for the hub so that there is something to see."""
        receipt = _stored(memory, fields, wait=2.0)
        lines = [f'"{fields["content"]}"', *(f"   {line}" for line in receipt_lines(receipt))]
        self.tell("stored", receipt.to_json(), lines)

    def store_many(self, memory: SyncMemoryRouter, learnt: Sequence[JsonObject]) -> list[tuple[str, Receipt]]:
        """Store them one after the other, timed. Returns the text and the receipt of those that the hub should get."""
        meant, times = [], []
        for fields in learnt:
            began = time.monotonic()
            receipt = _stored(memory, fields)
            times.append(time.monotonic() - began)
            if fields.get("significance", 1.0) > REMOTE_ABOVE:
                meant.append((fields["content"], receipt))
        facts = {"memories": len(times), "for_the_hub": len(meant), "median_ms": round(median(times) * 1000, 2)}
        stored = f"{counted(len(times), 'memory')} stored, {duration(median(times))} each"
        self.tell("stored_many", facts, [f"{stored}; {len(meant)} are for the hub"])
        return meant

    def search(self, memory: SyncMemoryRouter, queries: Iterable[str]) -> None:
        for query in queries:
            results = memory.search(query, limit=2)
            lines = (f"   {line}" for line in search_lines(results) if line)
            self.tell("searched", {"query": query, **results.to_json()}, [f"? {query}", *lines])

    def sync(self, memory: SyncMemoryRouter) -> None:
        began = time.monotonic()
        report = memory.sync(timeout=20.0)
        took_s = time.monotonic() - began
        line = f"sync: the hub is {report.link}, {report.pending} waiting, {report.dead} refused ({duration(took_s)})"
        self.tell("synced", {**report.to_json(), "took_s": round(took_s, 3)}, [line])

    def count(self, backlog: Sequence[tuple[str, Receipt]]) -> bool:
        """Ask the hub itself what it holds. True when each memory of the backlog is there once, with its last words."""
        on_hub = held(self._hub.url)
        once = [on_hub.get(receipt.id) == [content] for content, receipt in backlog]
        copies = sum(map(len, on_hub.values()))
        facts = {"held": copies, "different": len(on_hub), "backlog": len(backlog), "exactly_once": sum(once)}
        lines = [
            f"asked the hub: it holds {counted(copies, 'memory')}, {len(on_hub)} different ones",
            f"of the {len(backlog)} from the outage, {sum(once)} arrived exactly once",
        ]
        self.tell("counted", facts, lines)
        return all(once) and copies == len(on_hub)


def _stored(memory: SyncMemoryRouter, fields: dict[str, Any], wait: float | None = None) -> Receipt:
    return memory.store(**{"type": "semantic", "significance": 0.6, **fields}, wait=wait)


def held(url: str) -> dict[str, list[str]]:
    """The texts that the hub holds for the project by our id, asked over the wire as any client would."""
    texts: dict[str, list[str]] = {}
    page: dict[str, Any] = {"until": None, "more": True}
    while page["more"]:
        call = {"method": "list_changes", "params": {"since": page["until"]}}
        page = httpx.post(f"{url}/mcp/call", json=call, headers={"Kingly-Project": PROJECT}, trust_env=False).json()
        for entry in page["changes"]:
            wrapped = json.loads(entry["content"])
            texts.setdefault(str(wrapped["metadata"]["id"]), []).append(str(wrapped["content"]))
    return texts


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does: by leaving every block, so that child processes go too."""
    received: list[int] = []

    def leave(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:  # Python passes over what is raised inside a finalizer, and then the block goes on to its end
        raise SystemExit(128 + received[0])
