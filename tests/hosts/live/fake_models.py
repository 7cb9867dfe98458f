"""A model that runs nowhere: the interfaces of four vendors on loopback. It calls our tool once it is offered, and then
says one sentence."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL = "memory_intelligent_store"
WAITING = "WaitForMcpServers"
CALL = "call_1"


class Models(ThreadingHTTPServer):
    """`asked` are the requests of conversations, without what hosts ask beside them."""

    daemon_threads = True

    def __init__(self, fact: str, reply: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fact, self.reply = fact, reply
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def models(fact: str, reply: str) -> Iterator[Models]:
    """One that stores the fact and says the reply."""
    with Models(fact, reply) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Models

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send("application/json", b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        path, asked = self.path.partition("?")[0], json.loads(data or b"{}")
        answers = {
            "/messages": self._anthropic,
            "/responses": self._openai,
            "/chat/completions": self._chat,
            ":streamGenerateContent": self._gemini,
        }
        for end, answer in answers.items():
            if path.endswith(end) and asked.get("tools"):
                self.server.asked.append(json.dumps(asked))
            if path.endswith(end):
                self._events(answer(asked))
                return
        self._send("application/json", b"{}")

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _events(self, events: Sequence[Any]) -> None:
        """Server-sent events, each named by its type, if it has one."""
        lines = []
        for event in events:
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            lines.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
        self._send("text/event-stream", "".join(lines).encode())

    @property
    def _arguments(self) -> dict[str, str]:
        return {"content": self.server.fact}

    def _wanted(self, offered: Sequence[str], said: Any) -> str | None:
        """Our tool under the host's name for it, unless it was called before; else the one that waits for it."""
        ours = [name for name in offered if name.endswith(TOOL)] or [name for name in offered if name == WAITING]
        return ours[0] if ours and self.server.fact not in json.dumps(said) else None

    def _anthropic(self, asked: Any) -> list[Any]:
        """Claude Code starts a plugin's servers beside the first request, and offers a tool that waits for them."""
        names, said = [one.get("name", "") for one in asked.get("tools", [])], asked.get("messages")
        tool = self._wanted(names, said)
        arguments = {} if tool == WAITING else self._arguments
        block = (
            {"type": "tool_use", "id": f"{CALL}_{len(said)}", "name": tool, "input": {}}
            if tool
            else {"type": "text", "text": ""}
        )
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
            if tool
            else {"type": "text_delta", "text": self.server.reply}
        )
        message: dict[str, Any] = {
            "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        end = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]

    def _openai(self, asked: Any) -> list[Any]:
        """Codex offers tools of servers only after it was asked which ones there are."""
        told, tools = asked.get("input", []), asked.get("tools", [])
        found = [tool for one in told if one.get("type") == "tool_search_output" for tool in one["tools"]]
        spaces = [one for one in [*tools, *found] if one.get("type") == "namespace"]
        named = {tool["name"]: one["name"] for one in spaces for tool in one["tools"]}
        tool = self._wanted(list(named), told)
        item: dict[str, Any] = {
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": self.server.reply, "annotations": []}],
        }  # fmt: skip
        if tool:
            item = {"type": "function_call", "id": "fc_1", "call_id": CALL, "name": tool, "namespace": named[tool]}
            item |= {"arguments": json.dumps(self._arguments), "status": "completed"}
        elif not found and any(one.get("type") == "tool_search" for one in tools):
            item = {"type": "tool_search_call", "id": "ts_1", "call_id": "search_1", "execution": "client"}
            item |= {"arguments": {"query": "store a memory"}, "status": "completed"}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": "r", "object": "response", "status": "completed", "output": [item], "usage": usage}
        return [
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ]

    def _chat(self, asked: Any) -> list[Any]:
        tool = self._wanted([one["function"]["name"] for one in asked.get("tools", [])], asked.get("messages"))
        function = {"name": tool, "arguments": json.dumps(self._arguments)}
        call = {"tool_calls": [{"index": 0, "id": CALL, "type": "function", "function": function}]}
        delta = {"role": "assistant", **(call if tool else {"content": self.server.reply})}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if tool else "stop"}
        return [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [end], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
            "[DONE]",
        ]

    def _gemini(self, asked: Any) -> list[Any]:
        names = [tool["name"] for one in asked.get("tools", []) for tool in one.get("functionDeclarations", [])]
        tool = self._wanted(names, asked.get("contents"))
        part = {"functionCall": {"name": tool, "args": self._arguments}} if tool else {"text": self.server.reply}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        content = {"role": "model", "parts": [part]}
        return [{"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}]
