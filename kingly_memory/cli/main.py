"""The command line: find the command, import it, run it, and word whatever goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import takewhile
from typing import cast

from kingly_memory.cli.failures import BROKEN_PIPE, INTERRUPTED, as_json, exit_code, sentence
from kingly_memory.cli.output import Output
from kingly_memory.cli.parser import build, parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 failed, 2 bad input, 130 interrupted, 141 closed pipe."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    out = Output("--json" in takewhile(lambda one: one != "--", arguments))
    try:
        code = _run(arguments, out)
        out.flush()
    except BrokenPipeError:
        _forget_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # the last stop before the user, who gets a sentence
        if sys.flags.dev_mode:
            raise
        return _failed(error, out)
    return code


def _run(arguments: Sequence[str], out: Output) -> int:
    try:
        options = parse(arguments)
    except SystemExit as finished:  # --help
        return int(finished.code or 0)
    if options.command_function is None:
        out.say(build().format_help().rstrip())
        return 0
    module, _, name = options.command_function.partition(":")
    command = cast("Callable[..., int]", getattr(import_module(module), name))
    return command(options, out)


def _failed(error: Exception, out: Output) -> int:
    try:
        out.note(sentence(error))
        if out.as_json:
            out.data(as_json(error))
        out.flush()
    except OSError:  # nobody reads, or there is no room for it
        _forget_output()
    return exit_code(error)


def _forget_output() -> None:
    """Nobody reads any more; the interpreter must not complain about that when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
