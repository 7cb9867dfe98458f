"""`kingly-memory hook EVENT [HOST]`: a host calls it, and whatever happens it ends well, in time, in as few words as
can be.

A host takes other exit codes for a veto: 2 would throw the user's prompt away. At a turn's end and a session's end the
hook starts a worker that captures, and returns: a host without a user at its terminal ends, with all its process group,
as soon as its hooks have returned.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kingly_memory.dataclass import replace
from kingly_memory.home.place import Place, user_data_folder
from kingly_memory.hosts import hooks
from kingly_memory.settings import Settings, settings_files

if TYPE_CHECKING:
    from pathlib import Path

    from kingly_memory.cli.output import Output
    from kingly_memory.models import JsonObject

CAPTURE_DEADLINE_S = 20.0
"""For capturing, which no prompt waits for. Hosts end hooks that capture after 30 s, see `hosts.config`."""
SLOW = "it took longer than its deadline and was ended; on a busy machine KINGLY_HOOK_DEADLINE_S=1 gives it more time"
A_DAY_S = 86_400.0
START_DEADLINE_S = 1.0
"""For a session's start, unless `hook_deadline_s` is longer: it happens once, nobody has typed anything yet, and the
first start of the interpreter on a busy machine takes longer than the 0.3 s that a prompt may wait."""


def hook(options: SimpleNamespace, out: Output) -> int:
    """The command as the parser found it, with options that `run` does not take."""
    with redirect_stderr(None):  # else warnings would go there
        _answer(options, time.monotonic())
    return 0


def run(arguments: Sequence[str], began: float) -> int:
    """The quick way past the parser for `hook EVENT HOST`; anything more goes through it, and fails open as well.

    `arguments` are the whole command line. `began` on the monotonic clock is when the deadline starts to count.
    """
    verb, *rest = arguments
    if verb == "hook" and len(rest) in (1, 2) and not any(one.startswith("-") for one in rest):
        event, host = [*rest, None][:2]
        options = SimpleNamespace(event=event, host=host, home=None, project=None, user=None, agent=None, wait=False)
    else:
        from kingly_memory.cli.parser import parse

        try:
            options = parse(arguments)
        except Exception as error:  # noqa: BLE001  # a host must not take a wrong option for a veto
            _note("", error, None)
            return 0
        if options.help is not None:
            sys.stdout.write(f"{options.help}\n")
            return 0
    with redirect_stderr(None):
        _answer(options, began)
    return 0


class Watch(threading.Thread):
    """Ends the process with code 0 when the deadline comes first. A process, because no library call can be ended."""

    def __init__(self, event: str, deadline_s: float) -> None:
        super().__init__(daemon=True)
        self._event = event
        self.deadline_s = deadline_s
        self._ended = threading.Event()
        self._one_of_us = threading.Lock()
        self.home: Path | None = None

    def run(self) -> None:
        while (left := self.deadline_s - time.monotonic()) > 0:  # it may have been put off meanwhile
            if self._ended.wait(left):
                return
        if not self._ended.is_set() and self._one_of_us.acquire(blocking=False):
            try:
                from kingly_memory.hosts import hook_log

                hook_log.note(self._event, SLOW, self.home)
            finally:
                os._exit(0)

    def end(self) -> None:
        """From here on the process goes on, however late it is. Does not return when the deadline was first."""
        self._one_of_us.acquire()
        self._ended.set()


def _answer(options: SimpleNamespace, began: float) -> None:
    event: str = options.event or ""
    watch: Watch | None = None
    answer = hooks.HookAnswer()
    worked_in: Path | None = None
    try:
        settings = Settings.from_environment()
        watch = Watch(event, began + deadline_s(event, settings))
        watch.start()
        call = hooks.called(event, sys.stdin.buffer.read(hooks.INPUT_BYTES + 1), options.host or hooks.HOST)
        watch.deadline_s = began + deadline_s(call.event, settings)  # perhaps only the JSON names the event
        place = _place(call, options)
        watch.home = place.home
        if settings_files(place.home):
            settings = Settings.from_environment(home=place.home)
        if call.event in hooks.RECALLING:
            answer = hooks.notes(call, place, settings)
        elif (said := hooks.to_capture(call, settings)) is not None:
            if call.event in hooks.DETACHED and not options.wait:
                _start_worker(call, options)
            else:
                from kingly_memory.hosts.capture import keep

                keep(*said, place, settings)
        if call.event not in hooks.DETACHED or options.wait:
            worked_in = place.home
    except Exception as error:  # noqa: BLE001  # fail open: the log tells `doctor`, nobody else
        _note(event, error, None if watch is None else watch.home)
    except KeyboardInterrupt:
        answer = hooks.HookAnswer()
    if watch is not None:
        watch.end()
    if answer.reply is None or _write(answer.reply):
        with suppress(Exception):  # it has been said, and can be said again
            answer.remember((time.monotonic() - began) * 1000)
    if worked_in is not None:  # after the answer, which it would make late
        _note_success(event, worked_in)


def deadline_s(event: str, settings: Settings) -> float:
    """How long the hook for that event may take. One without a name is taken for a prompt until its input is read."""
    if event in hooks.CAPTURING:
        return CAPTURE_DEADLINE_S
    return max(settings.hook_deadline_s, START_DEADLINE_S if event == "SessionStart" else 0.0)


def _start_worker(call: hooks.Call, options: SimpleNamespace) -> None:
    """Have the same hook run with `--wait` in a session of its own, which outlives this one's process group.

    It holds none of our pipes, else the host would wait for it. Its input fits into a pipe, so all of it is there when
    we return.
    """
    import subprocess

    given = ((f"--{name}", getattr(options, name)) for name in ("home", "project", "user", "agent"))
    worker = subprocess.Popen(  # noqa: S603  # this program
        # -P: else Python would look for our modules in the working directory first, which is the host's project.
        [sys.executable, "-P", "-m", "kingly_memory", "hook", call.event, call.host, "--wait",
         *(f"{name}={value}" for name, value in given if value is not None)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    if worker.stdin is not None:
        worker.stdin.write(hooks.handed_over(call))
        worker.stdin.close()


def _place(call: hooks.Call, options: SimpleNamespace) -> Place:
    """Where the host works, without a remote: a hook waits for nobody."""
    folder = call.folder if call.folder is not None and call.folder.is_dir() else None
    place = Place.resolve(
        options.home, False, project=options.project, user=options.user, agent=options.agent, start=folder
    )
    return place if place.agent is not None else replace(place, agent=call.host)


def _write(answer: JsonObject) -> bool:
    """Write the answer in ASCII, which every encoding of a host reads. False when nobody reads it."""
    with suppress(OSError, ValueError, AttributeError):  # the host does not listen, or has closed it
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
        return True
    return False


def _note(event: str, error: Exception, home: Path | None) -> None:
    with suppress(Exception):  # nothing may come between a failure and code 0
        from kingly_memory.hosts import hook_log

        hook_log.note(event, hook_log.worded(error), home)


def _note_success(event: str, home: Path) -> None:
    """Note that the hook worked, so that `doctor` stops reporting it. A day after the last failure nothing is read."""
    with suppress(Exception):
        written_s = (user_data_folder() / hooks.LOG).stat().st_mtime
        if time.time() - written_s < A_DAY_S:
            from datetime import UTC, datetime

            from kingly_memory.hosts import hook_log

            hook_log.note_success(event, home, datetime.now(UTC))
