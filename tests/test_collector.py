"""Putting off the collector of garbage."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kingly_memory.router.collector import put_off

FORKED = """
import gc, os, threading
from kingly_memory.router.collector import put_off

inside, over = threading.Event(), threading.Event()

def look():
    with put_off():
        inside.set()
        over.wait()

threading.Thread(target=look).start()
inside.wait()
child = os.fork()
if not child:
    was_on = gc.isenabled()
    with put_off():
        was_off = not gc.isenabled()
    os._exit(0 if was_on and was_off and gc.isenabled() else 1)
over.set()
_, status = os.waitpid(child, 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


@contextmanager
def counted() -> Iterator[list[str]]:
    """The beginnings of collections meanwhile."""
    begun: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            begun.append(phase)

    gc.callbacks.append(note)
    try:
        yield begun
    finally:
        gc.callbacks.remove(note)


@pytest.fixture(autouse=True)
def switched_on() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


def test_nothing_is_collected_while_it_is_put_off() -> None:
    with counted() as begun, put_off():
        kept = [[number] for number in range(10 * gc.get_threshold()[0])]
        assert kept
        assert not begun
    with counted() as begun:
        kept = [[number] for number in range(10 * gc.get_threshold()[0])]
    assert begun


@pytest.mark.parametrize("is_on", [True, False])
def test_afterwards_it_is_as_it_was(is_on: bool) -> None:
    (gc.enable if is_on else gc.disable)()
    with pytest.raises(ZeroDivisionError), put_off():
        _ = 1 / 0
    assert gc.isenabled() is is_on


@pytest.mark.parametrize("is_on", [True, False])
def test_it_is_as_it_was_once_the_last_one_has_left_in_whatever_order(is_on: bool) -> None:
    (gc.enable if is_on else gc.disable)()
    first, second, third = put_off(), put_off(), put_off()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    third.__enter__()
    second.__exit__(None, None, None)
    assert not gc.isenabled()
    third.__exit__(None, None, None)
    assert gc.isenabled() is is_on


def test_threads_leave_it_as_it_was() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=come_and_go) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert gc.isenabled()


def come_and_go() -> None:
    for _ in range(2_000):
        with put_off():
            pass


def test_a_fork_meanwhile_leaves_it_on_in_the_child() -> None:
    forked = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=False)
    assert (forked.returncode, forked.stderr) == (0, "")
