"""A crowd that opens connections and asks nothing: what does it cost those who ask?

Also run as a process of the crowd: `python -m benchmarks.idle PORT CONNECTIONS`.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from benchmarks.measure import Arm, Figure, Goal, Plan, alternate, figure
from kingly_memory.hub.process import HubProcess

CROWD, QUICK_CROWD = 2_000, 200
PROCESSES = 4
MOST_CALLS, MOST_NOTES = 500, 1_000
AGAIN_S, AGAIN_SHARE = 0.1, 100
"""The crowd opens again what the hub has closed, one of a hundred in so long: else it would be gone after seconds."""
ANSWER_S = 60.0
GOALS = (Goal("ratio", 2.0), Goal("p99", 500))


async def measure(plan: Plan) -> list[Figure]:
    """Calls, each on a new connection, to three hubs by turns: two quiet ones (A and A) and one with a crowd (B)."""
    size = QUICK_CROWD if plan.is_quick else CROWD
    notes = plan.writer.notes(min(*plan.sizes, MOST_NOTES))
    count = min(plan.samples, MOST_CALLS)
    questions = [one.text for one in plan.writer.questions(notes, count + 3)]
    figures: list[Figure] = []
    with ExitStack() as stack:
        hubs = {
            name: stack.enter_context(HubProcess(plan.folder / f"{name}-hub")) for name in ("quiet", "same", "idle")
        }
        for hub in hubs.values():
            for note in notes:
                call(hub, "store_memory", content=note.content)
        stack.enter_context(crowd(hubs["idle"].port, size))
        for what, arm in {"health of a hub": healthy, "search in a hub": searched}.items():
            seconds = await alternate({name: arm(hub, questions) for name, hub in hubs.items()}, count)
            floor, grown = seconds["quiet"], peak_mb(hubs["idle"]) - peak_mb(hubs["quiet"])
            crowded = f"{what}, {size:,} idle connections"
            remark = f"the hub has grown by {grown:.1f} MB more"
            figures += [
                figure(what, floor),
                figure(f"the same again (A/A), {what}", seconds["same"], floor=floor, against=what),
                figure(crowded, seconds["idle"], floor=floor, against=what, goals=GOALS, remark=remark, grown_mb=grown),
            ]
    return figures


def healthy(hub: HubProcess, _: list[str]) -> Arm:
    async def ask(_: int) -> None:
        answer(hub, "GET", "/health")

    return ask


def searched(hub: HubProcess, questions: list[str]) -> Arm:
    async def ask(number: int) -> None:
        call(hub, "search_semantic_memories", query=questions[number])

    return ask


def call(hub: HubProcess, method: str, **params: Any) -> None:
    answer(hub, "POST", "/mcp/call", json.dumps({"method": method, "params": params}))


def answer(hub: HubProcess, verb: str, path: str, body: str | None = None) -> None:
    connection = HTTPConnection("127.0.0.1", hub.port, timeout=ANSWER_S)
    try:
        connection.request(verb, path, body)
        reply = connection.getresponse()
        reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{verb} {path}: {reply.status}")
    finally:
        connection.close()


def peak_mb(hub: HubProcess) -> float:
    """The most memory that the hub's process has had, or 0 where the system does not say it."""
    status = Path(f"/proc/{hub.pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1_024


@contextmanager
def crowd(port: int, size: int) -> Iterator[None]:
    """So many idle connections, from several processes: one may not open that many files."""
    command = [sys.executable, "-m", "benchmarks.idle", str(port), str(size // PROCESSES)]
    root = Path(__file__).parents[1]
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(PROCESSES)
        ]
        for process in started:
            if process.stdout is not None:
                process.stdout.readline()
        yield  # the end of its input ends each process


def stay(port: int, size: int) -> None:
    """Open so many connections, say so, and open them again as they are closed, until standard input ends."""
    idle = [connected(port) for _ in range(size)]
    print(flush=True)
    while not select.select([0], [], [], AGAIN_S)[0]:
        watched = select.poll()
        for connection in idle:
            watched.register(connection, select.POLLIN)
        ended = {descriptor for descriptor, _ in watched.poll(0)}
        for connection in idle:
            if connection.fileno() in ended:
                connection.close()
        idle = [connection for connection in idle if connection.fileno() >= 0]
        idle += [connected(port) for _ in range(min(size - len(idle), -(-size // AGAIN_SHARE)))]


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)


if __name__ == "__main__":
    stay(int(sys.argv[1]), int(sys.argv[2]))
