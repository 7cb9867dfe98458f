"""The program's first and last lines, which every call pays for: hooks run this once per prompt."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

SELDOM = 50_000
"""Objects between two garbage collections. Python's own 700 costs the loading of modules a twentieth of its time."""


def run() -> NoReturn:
    """Run the command line and leave.

    Every store, router and file is closed by then, so the interpreter is not taken apart first: that takes as long as
    a search.
    """
    try:
        code = _code()
    except KeyboardInterrupt:  # while modules load; `main` hears of it later on
        code = 130
    if sys.flags.dev_mode:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # nobody reads any more, or ever did
            continue
    os._exit(code)


def _code() -> int:
    gc.set_threshold(SELDOM)
    began = time.monotonic()  # a hook's deadline counts what loading it takes
    _open_closed("stdin", "r")
    _open_closed("stderr", "w")
    if is_hook(sys.argv[1:]):
        from kingly_memory.cli.hook import run as run_hook

        return run_hook(sys.argv[1:], began)  # its closed stdout stays closed, so that it says the same again next time
    from kingly_memory.cli.main import main

    _open_closed("stdout", "w")
    return main()


def _open_closed(name: str, mode: str) -> None:
    if getattr(sys, name) is None:  # closed by whoever started this
        setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115  # pathlib takes long to load


def is_hook(arguments: Sequence[str]) -> bool:
    """True when the verb is `hook`, whatever stands before it, also what no parser accepts: that must not become a
    veto."""
    if "hook" not in arguments or arguments[0] == "hook":
        return "hook" in arguments
    from kingly_memory.cli.commands import COMMON, REMOTE, commands

    # `--remote` may stand alone before the verb.
    with_a_value = {f"--{option.option}" for option in COMMON if option.type != "flag" and option is not REMOTE}
    verbs = {command.name.partition(" ")[0] for command in commands()}
    before = ["", *arguments]
    named = (one for last, one in zip(before, arguments, strict=False) if one in verbs and last not in with_a_value)
    return next(named, None) == "hook"
