"""What a person at a terminal gets besides the answer: help that fits a screen, completion, a pager, a clock, a lasting
status."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
import termios
import threading
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace

import pytest

from kingly_memory.cli import main, output, place, remotes
from kingly_memory.cli.completion import SCRIPTS
from kingly_memory.cli.output import Output
from kingly_memory.home.place import added_remotes
from tests.cli_runner import Run, environment, process

pytestmark = pytest.mark.requirement("N18")


class Terminal(TextIOWrapper):
    """A stream that says it is a terminal, and notes when something was written."""

    def __init__(self) -> None:
        super().__init__(BytesIO(), encoding="utf-8", write_through=True)
        self.was_told = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.was_told.set()
        return super().write(text)

    @property
    def told(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined,no-any-return]


def test_the_help_fits_a_screen_and_that_of_all_commands_has_a_line_of_each(run: Run) -> None:
    assert 24 <= run().out.count("\n") <= 40
    assert run("help").out == run("--help").out == run().out
    assert "  reinforce             Hold a memory against fading" in run("help", "all").out
    assert run("help", "threads", "merge").out == run("threads", "merge", "--help").out
    assert "did you mean 'search'?" in run("help", "serch").err


def test_a_group_that_is_named_alone_lists_what_it_has(run: Run) -> None:
    run("documents", "put", "a/b", "key", "text")
    for group in ("documents", "threads", "archive", "projects"):
        assert run(group).out == run(group, "list").out
    assert run("threads").code == 0


@pytest.mark.parametrize(
    ("pager", "rows", "lines"),
    [("head -n 2", 24, 2), ("no-such-pager", 24, 38), ("", 24, 38), ("head -n 2", 60, 38), ("head -n 2", 0, 38)],
)
def test_a_terminal_shows_what_is_longer_than_it_in_the_pager(pager: str, rows: int, lines: int) -> None:
    """One that does not say how large it is has room for everything."""
    begin, end = os.openpty()
    termios.tcsetwinsize(end, (rows, 100))
    with open(begin, "rb", buffering=0) as screen:  # noqa: PTH123  # a descriptor
        command = [sys.executable, "-m", "kingly_memory", "help"]
        started = subprocess.Popen(command, stdout=end, stdin=end, env=environment(PAGER=pager, TERM="dumb"))
        os.close(end)
        told = b""
        while chunk := _read(screen.fileno()):
            told += chunk
        assert started.wait(timeout=60) == 0
    assert told.startswith(b"usage: kingly-memory COMMAND")
    assert abs(told.count(b"\n") - lines) <= (0 if lines == 2 else 4)


def _read(screen: int) -> bytes:
    try:
        return os.read(screen, 65536)
    except OSError:  # how Linux tells that nobody writes to a terminal any more
        return b""


def test_a_terminal_is_told_after_a_second_how_far_a_command_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_TICK_S", 0.001)
    err = Terminal()
    out = Output(as_json=False, out=TextIOWrapper(BytesIO()), err=err)
    out.progress("200 memories so far")
    with out.clock("import"):
        assert err.was_told.wait(60)
        out.is_idle = True
    assert "\r\x1b[Kimport, " in err.told
    assert ": 200 memories so far" in err.told
    assert err.told.endswith("\r\x1b[K")  # nothing of it stays


@pytest.mark.usefixtures("isolated_environment")
def test_no_clock_is_shown_over_what_somebody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    out, waits = Output(as_json=False), list[bool]()

    def typed(_: str) -> str:
        waits.append(out.is_idle)
        return "typed"

    monkeypatch.setattr(main, "Output", lambda _: out)
    monkeypatch.setattr(place, "standard_input", typed)
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert main.main(["store", "-"]) == 0
    assert waits == [True]


@pytest.mark.usefixtures("isolated_environment")
def test_a_token_that_is_typed_is_asked_for_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = list[str]()

    def typed(prompt: str) -> str:
        prompts.append(prompt)
        return "canary "

    monkeypatch.setattr(getpass, "getpass", typed)
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert main.main(["remotes", "add", "team", "http://127.0.0.1:9", "--offline", "--token-file", "-"]) == 0
    [file] = (added_remotes().parent / "tokens").iterdir()
    assert (prompts, file.read_text(encoding="utf-8")) == (["token: "], "canary\n")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_program_is_told_no_time(as_json: bool) -> None:
    err = TextIOWrapper(BytesIO()) if not as_json else Terminal()
    before = threading.active_count()
    with Output(as_json, out=TextIOWrapper(BytesIO()), err=err).clock("import"):
        assert threading.active_count() == before
    assert err.buffer.getvalue() == b""  # type: ignore[attr-defined]


def test_status_is_watched_until_somebody_interrupts_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()

    def sleep(_: float) -> None:
        looks.append(len(looks))
        if len(looks) == 2:
            process("store", "a text")
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(remotes, "time", SimpleNamespace(sleep=sleep))
    watched = run("status", "--watch", "--json")
    assert (watched.code, [one["memories"]["total"] for one in watched.rows]) == (0, [0, 1])


def test_the_status_of_what_is_kept_for_every_project_says_so(run: Run) -> None:
    run("store", "a text", "--everywhere")
    told = run("status", "--everywhere")
    assert (told.code, "project     (every project)\n" in told.out) == (0, True)


def test_times_are_told_to_the_minute_and_how_far_they_are(run: Run) -> None:
    stored = run("store", "a text", "--key", "k", "--ttl", "3d")
    for told in (stored, run("get", "k"), run("status")):
        assert "UTC (in 3 d)" in told.out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sto"], "store"),
        (["threads", "re"], "rename recall"),
        (["--home", "/somewhere", "backup", ""], "check create restore"),
        (["store", "a text", "--ta"], "--tag"),
        (["store", "a text", "--type", "e"], "episodic"),
        (["--json", "mcp", "--proj"], "--project"),
        (["hub", "--proj"], ""),
        (["store", "a te"], ""),
        (["hub", "tokens", "cr"], "create"),
    ],
)
def test_the_last_word_becomes_what_may_stand_there(run: Run, words: list[str], found: str) -> None:
    assert sorted(run("completion", "bash", "--", *words).out.split()) == sorted(found.split())


def test_a_shell_that_is_not_known_is_refused(run: Run) -> None:
    for shell in SCRIPTS:
        assert "kingly-memory completion" in run("completion", shell).out
    told = run("completion", "tcsh")
    assert (told.code, told.err) == (2, "kingly-memory: SHELL: 'tcsh' is unknown; choose bash, zsh, fish\n")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_what_the_program_prints(tmp_path: Path) -> None:
    program = tmp_path / "kingly-memory"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kingly_memory "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    asked = "COMP_WORDS=(kingly-memory threads re); COMP_CWORD=2; _kingly_memory; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", f"source <(kingly-memory completion bash); {asked}"],  # noqa: S607
        env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "rename recall\n"
