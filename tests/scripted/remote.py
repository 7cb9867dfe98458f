"""The scripted remote in full: both dialects, every fault of the wire, chance, and effects that outlive a process.

In a test: `with ScriptedRemote("status=503", "lost-reply") as server: ... server.url, server.effects`.
As a process: `python -m tests.scripted.remote --port-file F --effects-file F --script status=503 lost-reply`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Literal

from kingly_memory.models import JsonObject
from kingly_memory.testing import remote
from kingly_memory.testing.remote import Call
from kingly_memory.testing.semantic import Unable
from tests.scripted.mcp_frames import Answer, Arrived, McpDesk, McpStyle
from tests.scripted.script import FAULTS, Weather, takes_effect
from tests.scripted.wire_faults import PLAYS, Line

CALL_PATH = "/mcp/call"


class Misused(Exception):
    """A tool was given what it does not take. The text is the reply."""


class ScriptedRemote(remote.ScriptedRemote):
    """The test kit's remote with scripted faults, and more of them (`FAULTS`).

    It speaks json-call or mcp (`mcp` says of which kind). In mcp, faults are played on calls of tools, and on whatever
    else is said only where they were scripted for that method: `script("hang", method="initialize")` (the end of a
    session is called `DELETE`); that is kept in `handshakes`, and calls of tools in `requests` as in json-call.

    With an effects file, every request and every effect is a line of JSON there before the reply is sent, and the
    effects of an earlier process are taken up again.
    """

    _faults = FAULTS

    def __init__(
        self,
        *script: str,
        dialect: Literal["json-call", "mcp"] = "json-call",
        mcp: McpStyle | None = None,
        weather: Weather | None = None,
        effects_file: Path | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*script, **options)
        self.handshakes: list[Call] = []
        self._weather = weather or Weather()
        self._random = random.Random(self._weather.seed)  # repeatable faults, not secrets
        tools = tuple({"name": name, "inputSchema": {"type": "object"}} for name in self.semantic.names)
        self._desk = McpDesk(mcp or McpStyle(), tools) if mcp or dialect == "mcp" else None
        self._effects_file = effects_file
        self._take_up_effects()

    def forget_sessions(self) -> None:
        """As a restart does, without one."""
        if self._desk is not None:
            self._desk.sessions.clear()

    def stop(self) -> None:
        self.forget_sessions()
        super().stop()

    def _answer(self, request: BaseHTTPRequestHandler) -> bool:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = request.rfile.read(int(headers.get("content-length", 0)))
        line, has_token = (
            Line(request, {}),
            self._token is None or headers.get("authorization") == f"Bearer {self._token}",
        )
        if self._desk is not None:
            return self._answer_mcp(self._desk, line, Arrived(request.command, request.path, headers, body), has_token)
        if not request.path.partition("?")[0].endswith(CALL_PATH):
            return _play(line, "status=404")
        if not has_token:
            return _play(line, "status=401")
        try:
            told = json.loads(body)
            method, params = told["method"], told["params"]
        except (ValueError, KeyError, TypeError):
            return _play(line, "status=400")
        return self._call(line, method, params, headers)

    def _answer_mcp(self, desk: McpDesk, line: Line, arrived: Arrived, has_token: bool) -> bool:
        headers = arrived.headers
        if arrived.verb == "DELETE" and (fault := self._said("DELETE", {}, headers)) != "ok":
            return _play(line, fault)
        request = desk.admitted(arrived) if has_token else Answer(401)
        if isinstance(request, Answer):
            return _send(line, request)
        line = replace(line, frame=desk.frame(request))
        if request.method == "tools/call":
            tool = request.params.get("name")
            return self._call(line, str(tool), request.params.get("arguments") or {}, headers)
        fault = self._said(request.method, request.params, headers)
        return _send(line, desk.reply(request)) if fault == "ok" else _play(line, fault)

    def _said(self, method: str, params: JsonObject, headers: Mapping[str, str]) -> str:
        """Note what is no call of a tool, and what shall come of it."""
        fault = self._taken(method) or "ok"
        self._record("handshake", Call(method, params, headers, fault), self.handshakes)
        return fault

    @property
    def _in_turn(self) -> contextlib.AbstractContextManager[Any]:
        """Held while a call has its effect and that is written down."""
        return self._changed

    def _next(self, method: str) -> str:
        with self._changed:
            return self._taken(None, method) or self._weather.fault(self._random.random()) or self._always

    def _call(self, line: Line, method: str, params: JsonObject, headers: Mapping[str, str]) -> bool:
        time.sleep(self._weather.delay_s)
        fault = self._next(method)
        call = Call(method, params, headers, fault)
        self._record("request", call, self.requests)
        if fault == "lost-session":
            self.forget_sessions()
        if not takes_effect(fault):
            return _play(line, fault)
        if not self._knows(method):
            return line.unknown(method)
        try:
            return _play(replace(line, reply=self._apply(call)), fault)
        except Misused as problem:
            return _play(line, f"error={problem}")

    def _knows(self, method: str) -> bool:
        return self.semantic.knows(method)

    def _done(self, method: str, params: JsonObject) -> tuple[JsonObject, bool]:
        """The reply, and whether anything changed. Raises Unable and Misused."""
        with self._changed:
            return self.semantic.call(method, params)

    def _apply(self, call: Call) -> JsonObject:
        try:
            with self._in_turn:  # whoever reads the file again meets the effects in their order
                reply, changed = self._done(call.method, call.params)
                if changed:
                    self._record("effect", call, self.effects)
        except Unable as problem:
            return {"success": False, "error": str(problem), "error_code": problem.code}
        return reply

    def _record(self, line: str, call: Call, where: list[Call]) -> None:
        """Written before anything is answered, so that an audit never misses what a client was told."""
        with self._changed:
            if self._effects_file is not None:
                with self._effects_file.open("ab", buffering=0) as file:
                    file.write(json.dumps({"line": line, **vars(call)}).encode() + b"\n")
            where.append(call)
            self._changed.notify_all()

    def _take_up_effects(self) -> None:
        if self._effects_file is None or not self._effects_file.exists():
            return
        for text in self._effects_file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if line.pop("line") == "effect":
                self.effects.append(Call(**line))
                self.semantic.call(line["method"], line["params"])


def _play(line: Line, fault: str) -> bool:
    kind, _, detail = fault.partition("=")
    return PLAYS[kind](replace(line, detail=detail))


def _send(line: Line, answer: Answer) -> bool:
    return line.send(answer.status, answer.body, answer.headers, answer.media)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    options = _options(arguments)
    weather = Weather(
        options.fail_500, options.fail_429, options.drop_reply, options.retry_after, options.seed, options.delay
    )
    server = ScriptedRemote(
        *options.script,
        weather=weather,
        dialect=options.dialect,
        mcp=McpStyle(events=options.events) if options.dialect == "mcp" else None,
        without=options.without,
        port=options.port,
        effects_file=options.effects_file,
    )

    server.start()
    if options.port_file is not None:
        unfinished = options.port_file.with_suffix(".unfinished")
        unfinished.write_text(str(server.port), encoding="utf-8")
        unfinished.replace(options.port_file)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("tests.scripted.remote", description="A memory server that fails on command.")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--port-file", type=Path, help="the port is written there once connections are taken")
    parser.add_argument("--dialect", choices=["json-call", "mcp"], default="json-call")
    parser.add_argument("--events", action="store_true", help="in mcp: replies with event streams")
    parser.add_argument("--effects-file", type=Path, help="one JSON line per request and per effect")
    parser.add_argument("--script", nargs="*", default=[], metavar="FAULT", help="one per request")
    parser.add_argument("--fail-500", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--fail-429", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--drop-reply", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--retry-after", default="1", help="what a 429 by chance asks for")
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS", help="what every call takes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", nargs="*", default=[], metavar="METHOD", help="methods it does not know")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
