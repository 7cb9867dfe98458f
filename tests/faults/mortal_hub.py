"""The hub in a process that ends itself in the middle of a call, as a power switch would.

`python -m tests.faults.mortal_hub METHOD POINT COUNT` and the hub's own arguments: it dies at the COUNT-th call of that
method, `before` it begins, `within` its transaction, or `after` its commit and before its reply.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from kingly_memory.cli.main import main
from kingly_memory.hub import serve
from kingly_memory.hub.engine import Engine
from kingly_memory.hub.methods import Request, Storing
from kingly_memory.hub.process import HubProcess
from kingly_memory.models import JsonObject
from tests.kill.writer import die

POINTS = ("before", "within", "after")
DYING_S = 30.0
WRITERS = ("kingly-writer", "hub-postgres")
WRITES = 6
"""SQL statements of the writer thread after which a transaction is under way and not committed."""


class MortalHub(HubProcess):
    """A hub that dies as told when it is started with `die_at`, and only then."""

    def __init__(self, home: Path, options: Sequence[str] = ()) -> None:
        super().__init__(home, options=options)
        self.die_at: tuple[str, str, int] | None = None

    def bury(self) -> None:
        """Wait until it has died, which a broken connection tells a moment before. Raises TimeoutExpired."""
        if self._process is not None:
            self._process.wait(DYING_S)
        self.kill()

    def _command(self) -> list[str]:
        command = super()._command()
        if self.die_at is None:
            return command
        method, point, count = self.die_at
        at = command.index("kingly_memory")
        return [*command[:at], "tests.faults.mortal_hub", method, point, str(count), *command[at + 1 :]]


class Within:
    """A profiler that, once armed, ends the process after some statements of the writer thread."""

    def __init__(self) -> None:
        self.is_armed = False
        self._left = WRITES

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.is_armed or threading.current_thread().name not in WRITERS:
            return
        is_sqlite = isinstance(getattr(argument, "__self__", None), sqlite3.Connection | sqlite3.Cursor)
        is_psycopg = event == "call" and frame.f_code.co_qualname == "Connection.execute"
        self._left -= is_psycopg or (event == "c_call" and is_sqlite and argument.__name__ == "execute")
        if self._left == 0:
            die()


class MortalEngine(Engine):
    """Whatever it does may be the last thing that the process does."""

    method: str
    point: str
    left: int
    within = Within()

    def answer(self, scope: str, request: Request) -> JsonObject:
        with self._call(request):
            return super().answer(scope, request)

    async def store(self, scope: str, request: Storing) -> JsonObject:
        with self._call(request):
            return await super().store(scope, request)

    @contextmanager
    def _call(self, request: Request) -> Iterator[None]:
        self.left -= type(request).__name__ == self.method
        if self.left == 0 and self.point == "before":
            die()
        self.within.is_armed = self.left == 0 and self.point == "within"
        yield
        if self.left == 0:
            die()


if __name__ == "__main__":
    MortalEngine.method, MortalEngine.point, times, *rest = sys.argv[1:]
    MortalEngine.left = int(times)
    threading.setprofile(MortalEngine.within)
    vars(serve)["Engine"] = MortalEngine
    sys.exit(main(rest))
