"""A chat endpoint on the loopback interface that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CALL = "/v1/chat/completions"


def said(text: Any) -> Any:
    """A reply in the endpoint's shape."""
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived, header names in lower case."""

    path: str
    headers: Mapping[str, str]
    payload: Any


Answer = Callable[[BaseHTTPRequestHandler], None]


def reply(body: Any, status: int = 200, **headers: str) -> Answer:
    """A whole response; what is no bytes goes as JSON."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"content_type": "application/json", "content_length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


class ChatServer(ThreadingHTTPServer):
    """Answers are used up one per request; then `always` is given. `over` ends whoever waits for it."""

    daemon_threads = True

    def __init__(self, *answers: Answer, always: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[Asked] = []
        self.answers = deque(answers)
        self.always = always
        self.over = threading.Event()

    def keep_waiting(self, handler: BaseHTTPRequestHandler) -> None:
        """An answer that never comes."""
        self.over.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(Asked(self.path, headers, payload))
        answer = self.server.answers.popleft() if self.server.answers else self.server.always
        with suppress(ConnectionError):  # the other side had enough, which is what some tests are about
            answer(self)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def chatting(*answers: Answer, always: Answer | None = None) -> Iterator[ChatServer]:
    """A server on a thread of its own."""
    server = ChatServer(*answers, always=always or reply(said("STATUS: verified\nCONFIDENCE: 0.8")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
