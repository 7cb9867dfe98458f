"""The program's first and last lines, which every call pays for: hooks run this once per prompt."""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import NoReturn

SELDOM = 50_000
"""Objects between two garbage collections. Python's own 700 costs the loading of modules a twentieth of its time."""


def run() -> NoReturn:
    """Run the command line and leave.

    Every store, router and file is closed by then, so the interpreter is not taken apart first: that takes as long as
    a search.
    """
    gc.set_threshold(SELDOM)
    code = _hook() if sys.argv[1:2] == ["hook"] else _command()
    if sys.flags.dev_mode:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # nobody reads any more, or ever did
            continue
    os._exit(code)


def _command() -> int:
    from kingly_memory.cli.main import main

    return main()


def _hook() -> int:
    began = time.monotonic()  # its deadline counts what loading it takes
    from kingly_memory.cli.hook import run as run_hook

    return run_hook(sys.argv[2:], began)
