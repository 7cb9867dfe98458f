"""The command line as a process: exit codes, pipes, signals, and what it costs to start."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from tests.cli_runner import Run, environment, process

HEAVY = (
    *("asyncio", "httpx", "pydantic", "numpy", "starlette", "uvicorn", "tenacity", "diskcache", "shutil"),
    *("argparse", "inspect", "dataclasses", "hashlib", "statistics", "tokenizers", "safetensors"),
    "kingly_memory.router.engine",
)
"""What a command that only reads on this machine must not pay for: it takes five times `import sqlite3` at most."""
GIVEN = "import logging, sys; given = set(sys.modules)"
"""What some Pythons' `logging` brings itself, as 3.14's does `dataclasses`, nobody can save."""
OF_A_WRITER = {"diskcache", "shutil"}
MODULES = 80
"""Of the package that one command loads at most, each half a millisecond."""


@pytest.mark.parametrize(
    "argv",
    [["version"], ["search", "--no-semantic", "x", "--remote", "http://127.0.0.1:9"], ["search", "kind"],
     ["search", "kindd"], ["get", "k"], ["list"], ["status"], ["config"], ["--help"]],
    ids=" ".join,
)  # fmt: skip
def test_reading_on_this_machine_loads_nothing_heavy(run: Run, argv: list[str]) -> None:
    run("store", "x of a kind", "--key", "k")
    loaded = loaded_by(argv)
    assert loaded[-1] == "[]"
    assert int(loaded[-2]) <= MODULES


@pytest.mark.parametrize(("question", "needed"), [("undo releases", {"numpy"}), ("zxqv blorpt", set())])
def test_a_search_that_words_leave_open_loads_numpy_alone_and_only_for_what_the_table_knows(
    run: Run, monkeypatch: pytest.MonkeyPatch, question: str, needed: set[str]
) -> None:
    run("store", "The deployment was rolled back")
    monkeypatch.setenv("KINGLY_EMBEDDER", "wordllama")
    loaded = literal_eval(loaded_by(["search", question])[-1])
    assert {"numpy", "tokenizers", "safetensors"} & set(loaded) == needed


def test_storing_on_this_machine_loads_no_router() -> None:
    loaded = loaded_by(["store", "x", "--key", "k", "--tag", "t"])
    assert set(literal_eval(loaded[-1])) <= OF_A_WRITER
    assert int(loaded[-2]) <= MODULES


def test_importing_the_router_loads_neither_its_parts_nor_the_store() -> None:
    script = f"""
{GIVEN}
from kingly_memory import MemoryRouter
heavy = {{*{HEAVY!r}, "sqlite3", "kingly_memory.router", "kingly_memory.adapters.local"}} - {{"asyncio", "inspect"}}
print(heavy & (set(sys.modules) - given))"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.requirement("N23")
def test_a_command_that_knows_the_link_is_offline_asks_no_remote_and_loads_nothing_heavy(run: Run) -> None:
    run("store", "x", "--remote", "http://127.0.0.1:9", "--wait", "2")
    answer, _, loaded = loaded_by(["search", "x", "--remote", "http://127.0.0.1:9", "--json"])
    assert '"source": "local_fallback"' in answer
    assert loaded == "[]"


def loaded_by(argv: list[str]) -> list[str]:
    """What a command prints, and in the last lines how many modules of ours it loaded, and which heavy ones."""
    script = f"""
{GIVEN}
from kingly_memory.cli.main import main
main({argv!r})
print(sum(one.startswith("kingly_memory") for one in sys.modules))
print(sorted(set({HEAVY!r}) & (set(sys.modules) - given)))"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", [["list"], ["version", "--json"]], ids=" ".join)
def test_output_that_cannot_be_written_is_said_in_a_sentence(argv: list[str], unbuffered: str) -> None:
    with open(os.devnull, "rb") as closed:  # noqa: PTH123  # for reading: as on a full disk, every write fails
        done = subprocess.run(
            [sys.executable, "-m", "kingly_memory", *argv],
            stdout=closed,
            stderr=subprocess.PIPE,
            env=environment(PYTHONUNBUFFERED=unbuffered),
            check=False,
        )
    said = f"kingly-memory: standard output cannot be used ({os.strerror(errno.EBADF)})\n"
    assert (done.returncode, done.stderr.decode()) == (1, said)


def test_exit_codes_tell_success_failure_and_bad_input_apart(run: Run) -> None:
    assert process("store", "x", "--key", "k").code == 0
    assert process("get", "nobody").code == 2
    assert process("store", "x", "--remote", "http://127.0.0.1:9", "--require-remote").code == 1
    assert (run("store", "").code, run("store").code) == (2, 2)


def test_bytes_that_are_not_utf_8_are_refused_as_arguments_in_one_sentence(run: Run) -> None:
    argv = [sys.executable.encode(), b"-m", b"kingly_memory", b"store", b"caf\xe9", b"--key", b"k"]
    ran = subprocess.run(argv, env=environment(), capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, b"has bytes that are no UTF-8" in ran.stderr) == (2, b"", True)
    assert len(ran.stderr.splitlines()) == 1
    assert run("export").rows == []


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_no_terminal_encoding_stops_an_answer(run: Run, encoding: str) -> None:
    run("store", "naïve 東京", "--key", "k")
    for argv in (["get", "k"], ["search", "naïve"], ["list"]):
        done = subprocess.run(
            [sys.executable, "-m", "kingly_memory", *argv],
            env=environment(PYTHONIOENCODING=encoding),
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_pipe_is_silent(run: Run) -> None:
    run("import", str(_many(Path("many.jsonl"))))
    with subprocess.Popen(
        [sys.executable, "-m", "kingly_memory", "export"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        export.stdout.readline()
        export.stdout.close()
        assert export.wait(timeout=30) == 141
        assert export.stderr.read() == b""


@pytest.mark.parametrize("command", ["store x --key k 2>&-", "list >&-", "get nothing 2>&- || [ $? = 2 ]"])
def test_a_command_works_with_closed_streams(command: str) -> None:
    shell = ["sh", "-c", f"{sys.executable} -m kingly_memory {command}"]
    done = subprocess.run(shell, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupt_while_modules_load_is_silent() -> None:
    script = """import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "kingly_memory.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
sys.argv = ["kingly-memory", "list"]
from kingly_memory.cli.entry import run
run()"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_user_without_a_folder_is_told_what_to_set() -> None:
    script = """import os, pwd
def nobody(_): raise KeyError("no such user")
pwd.getpwuid = nobody
os.environ["HOME"] = ""
os.environ.pop("XDG_DATA_HOME")
from kingly_memory.cli.main import main
raise SystemExit(main(["list"]))"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False
    )
    said = "HOME: is not set, and the system knows no folder of this user; set it, or KINGLY_HOME and XDG_DATA_HOME"
    assert (done.returncode, done.stderr) == (2, f"kingly-memory: {said}\n")


def test_a_damaged_store_is_one_sentence(run: Run) -> None:
    run("store", "x", "--home", "home")
    for path in Path("home").rglob("cache.db*"):
        path.write_bytes(b"garbage" * 1000)
    ran = run("list", "--home", "home", "--json")
    assert ran.err.startswith("kingly-memory: the memory store in ")
    assert ran.err.count("\n") == 1
    assert "damaged" in ran.err


def _many(path: Path) -> Path:
    path.write_text("".join(f'{{"content": "memory {n} {"x" * 400}"}}\n' for n in range(400)))
    return path
