"""What people and programs get to see: text with tables and times, or one JSON value per line."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import TextIOWrapper
from types import SimpleNamespace
from typing import Any, cast

from kingly_memory.dataclass import NamedTuple
from kingly_memory.models import JsonObject, Memory
from kingly_memory.text.writing import ago, counted, duration, shortened
from kingly_memory.validation import mended

_WIDTH = 100
_GAP, _WIDEST = "  ", 40
_BOLD, _RED, _PLAIN, _ERASED, _CLEARED = "\033[1m", "\033[31m", "\033[0m", "\r\033[K", "\033[H\033[J"
_TICK_S, _REPORT_S = 1.0, 3.0
"""Seconds between two looks of a terminal's clock, and between two notes of how far a command is elsewhere."""
_STEERING = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e0fff]")
"""C0 and C1 controls, the marks that reverse the direction of writing, and the tags and selectors of plane 14, which
show nothing to a person and whole sentences to a model that reads the output."""


class Line(str):
    """A line of which the first `strong` characters stand out on a terminal."""

    strong = 0

    @classmethod
    def of(cls, text: str, strong: int) -> Line:
        line = cls(text)
        line.strong = strong
        return line


class Answer(NamedTuple):
    """What a command has to say: data for a program, the same in lines for a person, and the exit code."""

    data: JsonObject
    lines: Iterable[str]
    code: int = 0


class Output:
    """Where a command writes. `as_json`: data only, nothing for people on standard output."""

    def __init__(self, as_json: bool, out: TextIOWrapper | None = None, err: TextIOWrapper | None = None) -> None:
        self.as_json = as_json
        self._out = out or cast("TextIOWrapper", sys.stdout)
        self._err = err or cast("TextIOWrapper", sys.stderr)
        self._noted: set[str] = set()
        self._is_coloured = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._done, self._reported_s, self._clock_shows = "", time.monotonic(), False
        self.is_idle = False
        """It waits for a person or a change, and no clock runs."""

    def show(self, data: JsonObject, lines: Iterable[str], *, again: bool = False) -> None:
        """The data for a program, or the same in lines for a person, `again` in the place of what a terminal shows."""
        if self.as_json:
            self.data(data)
            return
        printed = list(lines)
        if again and self._out.isatty():
            self.write(_CLEARED)
        if again or not self._paged(printed):
            self.say(*printed)

    def _paged(self, lines: Sequence[str]) -> bool:
        """Whether PAGER, else `less`, has shown them, because the terminal has less room."""
        try:
            columns, rows = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            return False
        needed = sum(1 + len(one) // max(columns, 1) for line in lines for one in line.split("\n"))
        if not rows or needed < rows:  # no rows: the terminal does not say how large it is
            return False
        import signal
        import subprocess
        from shlex import split

        before, self.is_idle = signal.signal(signal.SIGINT, signal.SIG_IGN), True  # Ctrl-C is the pager's own
        text = "".join(map(self._line, lines)).encode(self._out.encoding, "replace")
        try:
            pager = split(os.environ.get("PAGER", "less"))
            subprocess.run(pager, input=text, env={"LESS": "FRX", **os.environ}, check=False)  # noqa: S603  # the caller's
        except (OSError, ValueError, IndexError):
            return False
        finally:
            signal.signal(signal.SIGINT, before)
        return True

    @contextmanager
    def clock(self, what: str) -> Iterator[None]:
        """Say on a terminal that the command is at work and how far, once a second has passed."""
        if self.as_json or not self._err.isatty():
            yield
            return
        began, ended = time.monotonic(), threading.Event()

        def tick() -> None:
            while not ended.wait(_TICK_S):
                if not self.is_idle:
                    self._clock_shows = True
                    passed = f"{what}, {duration(time.monotonic() - began)}{self._done}"
                    self._err.write(f"{_ERASED}{shortened(passed, width() - 1)}")
                    self._err.flush()

        ticking = threading.Thread(target=tick, daemon=True)
        ticking.start()
        try:
            yield
        finally:
            ended.set()
            ticking.join()
            self._stop_the_clock()

    def progress(self, done: str) -> None:
        """How far the command is: beside a terminal's clock, elsewhere a note every few seconds."""
        self._done = f": {done}"
        if not self.as_json and not self._err.isatty() and time.monotonic() - self._reported_s >= _REPORT_S:
            self._reported_s = time.monotonic()
            self.note(done)

    def _stop_the_clock(self) -> None:
        if self._clock_shows:
            self._clock_shows = False
            self._err.write(_ERASED)
            self._err.flush()

    def data(self, data: JsonObject) -> None:
        self.write_utf8(json.dumps(data, ensure_ascii=False) + "\n")

    def say(self, *lines: str) -> None:
        """Lines for a person. Characters that would steer the terminal are taken out."""
        for line in lines:
            self.write(self._line(line))

    def _line(self, line: str) -> str:
        strong = line.strong if isinstance(line, Line) and self._is_coloured and self._out.isatty() else 0
        text = harmless(line)
        return (f"{_BOLD}{text[:strong]}{_PLAIN}{text[strong:]}" if strong else text) + "\n"

    def write(self, text: str) -> None:
        """Text in the terminal's encoding, with ? for what that lacks."""
        self._stop_the_clock()
        encoding = self._out.encoding or "utf-8"
        with self._written():
            self._out.write(text.encode(encoding, "replace").decode(encoding))

    def write_utf8(self, text: str) -> None:
        """Text for a file or another program, whatever the terminal's encoding."""
        with self._written():
            self._out.flush()
            self._out.buffer.write(text.encode())

    def note(self, sentence: str) -> None:
        """A remark beside the answer, on standard error; the same one only once."""
        if sentence not in self._noted:
            self._noted.add(sentence)
            self._stop_the_clock()
            self.flush()
            is_red = self._is_coloured and self._err.isatty()
            name = f"{_RED}kingly-memory:{_PLAIN}" if is_red else "kingly-memory:"
            self._err.write(f"{name} {harmless(sentence)}\n")
            self._err.flush()

    def flush(self) -> None:
        with self._written():
            self._out.flush()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """After a failure the rest goes nowhere: it must not fail once more behind the sentence about it, nor have the
        interpreter complain at its end."""
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())
            error.filename = "standard output"
            raise


def table(rows: Sequence[Sequence[str]], heads: Sequence[str] = (), *, is_whole: bool = False) -> list[str]:
    """Columns as wide as their widest cell; a line ends at the edge of the terminal, unless it is to be shown whole. A
    very long cell, such as the key of a note, moves what follows in its own line alone."""
    lines = [list(map(one_line, row)) for row in ([heads] if heads else []) + list(rows)]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*lines, strict=True)]
    printed = []
    for number, line in enumerate(lines):
        row = _GAP.join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip()
        is_head = bool(heads) and number == 0
        printed.append(Line.of(row if is_whole else shortened(row, width()), len(row) if is_head else len(line[0])))
    return list[str](printed)


class Table(NamedTuple):
    """How a list of things is printed: under `heads` a row for each, or `none`, in which options of the command may be
    named. Cells may be texts, numbers, times and other values."""

    heads: Sequence[str]
    row: Callable[[Any], Sequence[object]]
    none: str = ""
    is_whole: bool = False

    def __call__(self, things: Iterable[Any], options: SimpleNamespace) -> list[str]:
        rows = [list(map(_cell, self.row(one))) for one in things]
        if not rows:
            return [self.none.format(**vars(options))] if self.none else []
        return table(rows, self.heads, is_whole=self.is_whole)


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return "-" if value is None else str(value)
    if isinstance(value, datetime):
        return ago(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return json.dumps(value, ensure_ascii=False)


def facts(rows: Iterable[tuple[str, object]]) -> list[str]:
    """A name and what is to be said of it, a line each. Nothing is cut, and what is None or empty is left out."""
    pairs = [(name, one_line(_cell(value))) for name, value in rows if value not in (None, "", ())]
    widest = max((len(name) for name, _ in pairs), default=0)
    return [Line.of(f"{name.ljust(widest)}  {text}", len(name)) for name, text in pairs]


def documents(count: int) -> str:
    """How many documents and items of logs."""
    return counted(count, "document or log item", "documents and log items")


def width() -> int:
    """Columns of the terminal; 100 when the output goes elsewhere."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def one_line(text: str) -> str:
    """Any text on one line."""
    return " ".join(harmless(text).split())


def begun(memory: Memory) -> str:
    """The beginning of what a memory says, behind its title unless it begins with that as a heading."""
    text, title = memory.content[:1000], memory.title
    if title and (below := text.lstrip("# ")).startswith(title):
        return below
    return f"{title}: {text}" if title else text


def wrapped(text: str, indent: str, beginning: str | None = None) -> list[str]:
    """All of a text in lines of the terminal's width; the first one begins with `beginning`."""
    from textwrap import wrap  # few answers need it, and a hook none

    return wrap(
        one_line(text), width(), initial_indent=indent if beginning is None else beginning, subsequent_indent=indent
    )


def harmless(text: str) -> str:
    """Without control characters, except line feeds and tabs: a memory may hold what repaints a terminal."""
    return mended(_STEERING.sub("", text))
