"""What goes over the wire, byte for byte: recorded exchanges of every dialect, played back.

After a change that is meant: `python -m tests.adapters.remote.test_exchanges` records them anew; read the difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kingly_memory.ids import MemoryId
from kingly_memory.models import MemoryType
from kingly_memory.ports import RemoteLink
from kingly_memory.testing import ManualClock
from kingly_memory.version import __version__
from tests.remote_samples import LIGHTHOUSE, MOMENT, chosen_at, revised, stored
from tests.scripted.mcp_frames import McpStyle
from tests.scripted.remote import ScriptedRemote
from tests.ultimate.server import MCP_PATH, UltimateServer

FOLDER = Path(__file__).parents[2] / "fixtures" / "exchanges"
NEXT = "\n=== "
SERVERS: dict[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "json-call": ("", ScriptedRemote),
    "mcp-sessions": ("/mcp", partial(ScriptedRemote, mcp=McpStyle())),
    "mcp-stateless": ("/mcp", partial(ScriptedRemote, mcp=McpStyle(stateless=True, events=True))),
    "ultimate": (MCP_PATH, UltimateServer),
}


THOUGHT = replace(
    LIGHTHOUSE,
    id=MemoryId("thought-1"),
    key=None,
    type=MemoryType.SEMANTIC,
    metadata={"record": "thought", "thought_type": "inference", "chain_id": "c", "parent_id": "m0", "position": 2},
)


class Reply(NamedTuple):
    """What matters of an answer."""

    status: int
    headers: dict[str, str]
    body: bytes


Answer = Callable[[str, bytes], Reply]
"""What comes back for a request: its head as it came, and its body."""


@contextlib.contextmanager
def answering(answer: Answer) -> Iterator[int]:
    """A server that answers every request so; its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            lines = [f"{name}: {value}" for name, value in self.headers.items() if name.lower() != "content-length"]
            head = "\n".join([self.requestline, *lines]).replace(f":{server.server_port}", ":PORT")
            reply = answer(head, self.rfile.read(int(self.headers.get("content-length", 0))))
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def do_DELETE(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *arguments: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


async def session(url: str) -> None:
    """One call of every kind, by a router of another project than the memories are of."""
    remote = chosen_at(url, clock=ManualClock(MOMENT), project="other")
    await remote.connect()
    first = await stored(remote)
    second = await remote.record_thought(THOUGHT, parent_remote_id=first, idempotency_key=THOUGHT.id, repeated=False)
    await stored(remote, revised(), idempotency_key=f"{LIGHTHOUSE.id}.2", remote_id=first)
    link = RemoteLink(first, second, "causal", 0.5, "it led to it", "Küste")
    await remote.link(link, idempotency_key="link-1", repeated=False)
    await remote.linked([first], space="other", timeout_s=5)
    await remote.search("fog in the log?", space="other", limit=3, types=[MemoryType.EPISODIC], timeout_s=5)
    await remote.working_memory("watch-1", space="other", timeout_s=5)
    await remote.forget(LIGHTHOUSE, remote_id=first, idempotency_key=f"{LIGHTHOUSE.id}.3")
    await remote.changes(None, space="other", limit=100, timeout_s=5)
    await remote.aclose()


def written(head: str, body: bytes) -> str:
    text = f"{head}\n\n{body.decode()}".replace("\r", "")
    return text.replace(f'"version":"{__version__}"', '"version":"VERSION"').rstrip("\n")


@pytest.mark.requirement("KNG-008", "KNG-066", "KNG-067", "KNG-071", "KNG-082")
@pytest.mark.parametrize("name", SERVERS)
async def test_what_is_sent_is_what_was_recorded(name: str) -> None:
    _, *exchanges = f"\n{(FOLDER / f'{name}.txt').read_text(encoding='utf-8')}".split(NEXT)
    requests, replies = exchanges[::2], exchanges[1::2]
    sent: list[str] = []

    def replayed(head: str, body: bytes) -> Reply:
        sent.append(written(head, body))
        said, _, text = replies[len(sent) - 1].partition("\n\n")
        status, *headers = said.split("\n")
        return Reply(int(status.split()[-1]), dict(one.split(": ", 1) for one in headers), f"{text}\n\n".encode())

    with answering(replayed) as port:
        await session(f"http://127.0.0.1:{port}{SERVERS[name][0]}")
    assert sent == [request.partition("\n")[2].rstrip("\n") for request in requests]


def record(name: str) -> None:
    path, serve = SERVERS[name]
    lines: list[str] = []
    with serve() as server:

        def relayed(head: str, body: bytes) -> Reply:
            verb, target, _ = head.partition("\n")[0].split(" ")
            headers = dict(line.split(": ", 1) for line in head.split("\n")[1:])
            upstream = http.client.HTTPConnection("127.0.0.1", server.port)
            upstream.request(verb, target, body, headers)
            answer = upstream.getresponse()
            kept = ("Content-Type", "Mcp-Session-Id")
            told = {one: value for one in kept if (value := answer.getheader(one)) is not None}
            reply = Reply(answer.status, told, answer.read())
            upstream.close()
            head_there = "\n".join([f"reply {reply.status}", *(f"{one}: {value}" for one, value in told.items())])
            lines.extend([f"=== request\n{written(head, body)}", f"=== {written(head_there, reply.body)}"])
            return reply

        with answering(relayed) as port:
            asyncio.run(session(f"http://127.0.0.1:{port}{path}"))
    (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for one in SERVERS:
        record(one)
